"""In-memory tables of rows and their metadata."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from threading import Lock
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from langchain_hybridgraph.filters.expressions import And, Comparison, Filter, Not, Or
from langchain_hybridgraph.filters.operators import (
    NEGATIONS,
    ORDERINGS,
    CanonicalTime,
    Path,
    canonical,
    canonical_to_seconds,
    value_getter,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.chunks import Mask
    from langchain_hybridgraph.records import Scope
    from langchain_hybridgraph.stores.chunk_rows import RowStates


ReadsMetadata = Callable[[int, int], Iterable[tuple[int, Mapping[str, Any]]]]
_UNKNOWN = int(np.iinfo(np.int64).max)


class RowNumbers:
    """The permanent number of each row, by which the catalog and the keyword index identify a version of a chunk.

    Tables in memory and the file of vectors have a place for each row. At a packing, the rows of deleted and replaced
    texts disappear: the rows below ``size`` get the ``packed`` numbers, ascending, and the following rows the numbers
    from ``end``. Until the first packing, numbers and rows are equal.

    If the file with the numbers was lost, the last packed numbers are unknown. Those of existing rows are always known.

    >>> numbers = RowNumbers([1, 4], 2, 6)
    >>> numbers.of([0, 1, 2]).tolist(), numbers.rows([1, 2, 4, 7]).tolist()
    ([1, 4, 6], [0, -1, 1, 3])
    """

    def __init__(self, packed: Sequence[int] | NDArray[np.int64], size: int, end: int) -> None:
        self.size, self._end = size, end
        self._packed = np.full(size + 1, _UNKNOWN)
        self._packed[: len(packed)] = packed

    def of(self, rows: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of these rows."""
        each, size = np.asarray(rows, np.int64), self.size
        if self is UNPACKED:
            return each
        return np.where(each < size, self._packed[np.minimum(each, size)], each - size + self._end)

    def rows(self, numbers: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows with these numbers, or -1 for numbers of rows that have disappeared."""
        each = np.asarray(numbers, np.int64)
        if self is UNPACKED:
            return each
        places = np.searchsorted(self._packed, each)
        packed = np.where(self._packed[places] == each, places, -1)
        return np.where(each < self._end, packed, each - self._end + self.size)

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """Return numbers between which, apart from the second, are those of the existing rows in [start, stop)."""
        first, last = self.of([start, stop]).tolist()
        return (self._end if first == _UNKNOWN else first), last

    def count(self, end: int) -> int:
        """Return the number of rows if ``end`` is the next number to be given to a row."""
        return end - self._end + self.size

    def are_allowed(self, numbers: NDArray[np.int64], allowed_rows: Mask) -> Mask:
        """Return a mask of the numbers whose rows are allowed."""
        rows = self.rows(numbers)
        is_allowed: Mask = (rows >= 0) & (rows < len(allowed_rows))
        is_allowed[is_allowed] = allowed_rows[rows[is_allowed]]
        return is_allowed

    def still_present(self, earlier: RowNumbers, end: int) -> Mask:
        """Return a mask of the first ``end`` rows of an earlier numbering that have not disappeared since.

        These rows are the first rows of this numbering, in the same order. If the catalog is older than the earlier
        numbering, they are not; the mask is then empty, and the caller must read everything again.
        """
        numbers = earlier.of(np.arange(end))
        is_present: Mask = (self.rows(numbers) >= 0) & (numbers < _UNKNOWN)
        is_in_order = np.array_equal(numbers[is_present], self.of(np.arange(np.count_nonzero(is_present))))
        return is_present if is_in_order else np.zeros(end, np.bool_)


UNPACKED = RowNumbers([], 0, 0)


class Rows:
    """Maps ids to rows, and records which rows exist and when each is valid and known, for one tenant.

    A change creates a new table, so a search can use one throughout; but :meth:`rows` and :meth:`places` always return
    the latest row of an id with these ``numbers``. ``columns`` has the metadata of the rows.
    """

    def __init__(self, tenant: str, numbers: RowNumbers, columns: MetadataColumns) -> None:
        self.tenant, self.numbers, self.columns = tenant, numbers, columns
        self.version = -1
        self.living = 0
        self.has_parents = False
        self._end = 0
        self._alive: Mask = np.zeros(0, np.bool_)
        self._visible = self._alive  # mask of the rows that exist and are not retracted
        self._timed = False
        # Earlier validity of rows, one line each: row, known until, valid from, valid until; latest first.
        self._past = np.zeros((0, 4))
        # The following are shared with earlier and later states: new rows are appended, and a change to a row's times
        # copies the columns.
        self._ids: list[str] = []
        self._row_of: dict[str, int] = {}
        # Valid from, valid until, learned at and retracted at, in Unix seconds; missing limits are ±infinity.
        self._times = np.zeros((4, 0))

    def __len__(self) -> int:
        return self._end

    def updated(
        self,
        touched: Iterable[int],
        row_states: Iterable[RowStates],
        *,
        end: int,
        version: int,
        has_parents: bool,
        past: Iterable[tuple[int, float, float, float]] = (),
    ) -> Self:
        """Return the table after a change of ``touched`` rows, which no longer exist unless ``row_states`` has them.

        Rows are given by their numbers: ``end`` is the next number to be given to a row; ``past`` has (number, known
        until, valid from, valid until).
        """
        numbers = self.numbers
        touched_rows = numbers.rows(list(touched))
        table = type(self)(self.tenant, numbers, self.columns)
        table.version, table.has_parents, table._timed = version, has_parents, self._timed
        table._ids, table._row_of, table._times = self._ids, self._row_of, self._times
        table._alive = self._alive.copy()
        table._grow(max(numbers.count(end), self._end))
        # The ids are shared with states that were computed and then discarded, so rows that only those had are dropped.
        dead = {row for row in touched_rows.tolist() if 0 <= row < table._end}
        for row_numbers, ids, times in row_states:
            rows = numbers.rows(row_numbers).tolist()
            table._take(rows, ids, times)
            dead.difference_update(rows)
        for row in dead:
            table._drop(row)
        table.living = int(np.count_nonzero(table._alive))
        table._visible = table._alive & (table._times[3] == np.inf)
        unchanged = self._past[~np.isin(self._past[:, 0], touched_rows)]
        changed = np.array(list(past), np.float64).reshape(-1, 4)
        changed[:, 0] = numbers.rows(changed[:, 0].astype(np.int64))
        entries = np.concatenate([unchanged, changed])
        table._past = entries[np.argsort(-entries[:, 1], kind="stable")]
        return table

    def renumbered(self, numbers: RowNumbers, read: ReadsMetadata) -> Self:
        """Return the same table after a packing; ``read`` reads the metadata of the rows with the new numbers."""
        is_present = numbers.still_present(self.numbers, self._end)
        table = type(self)(self.tenant, numbers, self.columns.compressed(is_present, read))
        table.version = self.version if is_present.any() else -1
        table.has_parents, table._timed = self.has_parents, self._timed
        table._grow(int(np.count_nonzero(is_present)))
        for name in ("_alive", "_visible"):
            setattr(table, name, getattr(self, name)[: self._end][is_present])
        table._times = self._times[:, : self._end][:, is_present]
        table._ids = list(compress(self._ids, is_present.tolist()))
        alive = table._alive.tolist()
        table._row_of = {id: row for row, id in enumerate(table._ids) if alive[row]}
        table.living = len(table._row_of)
        past_rows = self._past[:, 0].astype(np.int64)
        table._past = self._past[is_present[past_rows]]
        table._past[:, 0] = (np.cumsum(is_present) - 1)[past_rows[is_present[past_rows]]]
        return table

    def restricts(self, scope: Scope) -> bool:
        """Return whether any existing row that is not retracted may be out of this scope."""
        return scope.filter is not None or scope.known_at is not None or (self._timed and scope.as_of is not None)

    def alive(self) -> Mask:
        """Return a new mask of the rows that exist, including rows that are not valid or have been retracted."""
        return self._alive[: self._end].copy()

    def valid_rows(self, as_of: float | None, known_at: float | None = None) -> Mask:
        """Return a new mask of existing rows known at ``known_at`` (None: now) and valid at ``as_of`` (None: any)."""
        mask = (self._visible if known_at is None else self._alive)[: self._end].copy()
        first, last, learned_at, retracted_at = self._times[:, : self._end]
        is_timed = self._timed
        if known_at is not None:
            mask &= (learned_at <= known_at) & (retracted_at > known_at)
            later = self._past[self._past[:, 1] > known_at]
            if len(later):
                is_timed, first, last = True, first.copy(), last.copy()
                # The earliest change after that time has the values of that time. It is last in the order, so it
                # overwrites later changes.
                rows = later[:, 0].astype(np.int64)
                first[rows], last[rows] = later[:, 2], later[:, 3]
        if is_timed and as_of is not None:
            mask &= (first <= as_of) & (last >= as_of)
        return mask

    def overlapping(self, first: float, last: float) -> Mask:
        """Return a new mask of the rows that exist, are not retracted, and are valid at some time in this period."""
        valid_from, valid_until = self._times[:2, : self._end]
        mask: Mask = self._visible[: self._end] & (valid_from <= last) & (valid_until >= first)
        return mask

    def rows(self, ids: Iterable[str]) -> list[int]:
        """Return the rows of these ids, in the same order; ids without a row are left out."""
        rows = list(map(self._row_of.get, ids))
        return [row for row in rows if row is not None] if None in rows else cast("list[int]", rows)

    def places(self, ids: Iterable[str]) -> list[int]:
        """Return the row of each of these ids, or -1 for an id without a row."""
        return [self._row_of.get(id, -1) for id in ids]

    def ids(self, rows: Iterable[int]) -> list[str]:
        """Return the ids of these rows."""
        return list(map(self._ids.__getitem__, rows))

    def ids_of(self, numbers: Sequence[int] | NDArray[np.int64]) -> list[str]:
        """Return the ids of the rows with these numbers."""
        return self.ids(self.numbers.rows(numbers).tolist())

    def numbers_of(self, ids: Iterable[str]) -> list[int]:
        """Return the numbers of the rows that :meth:`rows` returns."""
        rows = self.rows(ids)
        return rows if self.numbers is UNPACKED else cast("list[int]", self.numbers.of(rows).tolist())

    def _take(self, row_list: list[int], ids: list[str], time_lists: list[list[float]]) -> None:
        rows, times = np.array(row_list, np.int64), np.array(time_lists, np.float64)
        was_alive = self._alive[rows]
        if (self._times[:, rows[was_alive]] != times[:, was_alive]).any():
            self._times = self._times.copy()
        self._times[:, rows] = times
        self._timed = self._timed or bool((times[0] > -np.inf).any() or (times[1] < np.inf).any())
        self._alive[rows] = True
        for row, id in zip(row_list, ids, strict=True):
            self._ids[row] = id
        self._row_of.update(zip(ids, row_list, strict=True))

    def _drop(self, row: int) -> None:
        self._alive[row] = False
        if self._row_of.get(self._ids[row]) == row:
            del self._row_of[self._ids[row]]

    def _grow(self, end: int) -> None:
        if end > len(self._alive):
            more = max(end, 2 * len(self._alive), 1024) - len(self._alive)
            always = np.repeat([[-np.inf], [np.inf], [-np.inf], [np.inf]], more, axis=1)
            self._times = np.concatenate([self._times, always], axis=1)
            self._alive = np.concatenate([self._alive, np.zeros(more, np.bool_)])
        self._ids.extend([""] * (end - len(self._ids)))
        self._end = end


# -- metadata -----------------------------------------------------------------------------------------------------

_CACHED_MASKS = 16  # number of cached masks, with one byte per row each
_EXACT = 2**53  # every integer up to this one can be represented exactly as a float
_NAN = object()  # the key of NaN, which equals no value


class MetadataColumns:
    """Columns of metadata values, from which boolean masks of rows are computed for any filter.

    ``read(start, stop)`` yields ``(row, metadata)`` for rows with start ≤ row < stop, in any order; other rows have no
    metadata. Several threads may use the columns.

    A column is built when a filter first refers to its key, and extended for new rows. For 63,666 rows, a mask takes
    0.01 to 0.2 ms; SQLite's ``json_extract`` takes 33 to 101 ms. ``$contains`` on distinct strings takes 4 ms, and a
    comparison of distinct strings by order 20 ms.

    A column takes 4 bytes per row, and about 100 bytes plus its size per distinct value.

    >>> from langchain_hybridgraph.filters import parse_filter
    >>> years = [{"year": 2020}, {}, {"year": 2024}]
    >>> columns = MetadataColumns(lambda start, stop: list(enumerate(years))[start:stop])
    >>> columns.mask(parse_filter({"year": {"$gt": 2021}}), 3)
    array([False, False,  True])
    """

    def __init__(self, read: ReadsMetadata) -> None:
        self._read = read
        self._grow_lock = Lock()
        self._columns: dict[Path, _Column] = {}
        self._masks: dict[tuple[Filter, int], Mask] = {}

    def mask(self, filter: Filter, rows: int) -> Mask:
        """Return a mask of the first ``rows`` rows, with True for each row that matches the filter; it is read-only."""
        mask = self._masks.get((filter, rows))
        if mask is None:
            self._grow(filter.keys(), rows)
            mask = _evaluate(filter, self._columns, rows)
            mask.flags.writeable = False
            if len(self._masks) >= _CACHED_MASKS:
                self._masks.clear()
            self._masks[filter, rows] = mask
        return mask

    def compressed(self, is_present: Mask, read: ReadsMetadata) -> MetadataColumns:
        """Return columns of the rows that are present, and of the following ones; ``read`` as in the constructor."""
        fresh = MetadataColumns(read)
        with self._grow_lock:
            for path, column in self._columns.items():
                fresh._columns[path] = column.compressed(path, is_present)
        return fresh

    def _grow(self, paths: Iterable[Path], rows: int) -> None:
        columns = self._columns
        if all(path in columns and columns[path].rows >= rows for path in paths):
            return
        with self._grow_lock:
            by_path = {path: columns.get(path) or _Column(path) for path in paths}
            incomplete = [column for column in by_path.values() if column.rows < rows]
            rows_and_values: list[tuple[list[int], list[Any]]] = [([], []) for _ in incomplete]
            first = min((column.rows for column in incomplete), default=rows)
            for row, metadata in self._read(first, rows) if incomplete else ():
                for column, (at, values) in zip(incomplete, rows_and_values, strict=True):
                    value = column.read(metadata) if row >= column.rows else None
                    if value is not None:
                        at.append(row)
                        values.append(canonical(value))
            for column, (at, values) in zip(incomplete, rows_and_values, strict=True):
                column.extend(at, values, rows)
            columns.update(by_path)


def _evaluate(filter: Filter, columns: Mapping[Path, _Column], rows: int) -> Mask:
    if isinstance(filter, Comparison):
        return columns[filter.path].mask(filter, rows)
    if isinstance(filter, Not):
        return ~_evaluate(filter.part, columns, rows)
    assert isinstance(filter, (And, Or)), filter
    join = np.logical_and if isinstance(filter, And) else np.logical_or
    mask = _evaluate(filter.parts[0], columns, rows)
    for part in filter.parts[1:]:
        join(mask, _evaluate(part, columns, rows), out=mask)
    return mask


class _Column:
    """Values of one metadata key, as one code per row: a position in a list of distinct values."""

    def __init__(self, path: Path) -> None:
        self.read = value_getter(path)
        self.rows = 0
        self._lock = Lock()
        self._codes: NDArray[np.int32] = np.zeros(0, np.int32)
        self._values: list[Any] = [None]  # the value of each code; 0 is the code of a missing value
        self._index: dict[Any, int] = {}  # the code of each value
        self._kinds: defaultdict[type, list[int]] = defaultdict(list)  # the codes of each type of value
        self._having: defaultdict[Any, list[int]] = defaultdict(list)  # the codes of the lists with an element
        self._numbers: NDArray[np.float64] = np.zeros((0, 2))  # each code as a number and as a time, or NaN

    def extend(self, rows: Sequence[int], values: Sequence[Any], stop: int) -> None:
        """Add the canonical values of new rows; afterwards, the column covers all rows below ``stop``."""
        with self._lock:
            if stop > len(self._codes):
                codes = np.zeros(max(stop, len(self._codes) * 3 // 2), np.int32)
                codes[: len(self._codes)] = self._codes
                self._codes = codes
            self._codes[rows] = [self._code(value) for value in values]
            self.rows = stop

    def compressed(self, path: Path, is_present: Mask) -> _Column:
        """Return a column of the rows that are present, without the values of other rows."""
        column, codes = _Column(path), self._codes[: self.rows][is_present[: self.rows]]
        rows = np.flatnonzero(codes)
        column.extend(rows.tolist(), list(map(self._values.__getitem__, codes[rows].tolist())), len(codes))
        return column

    def _code(self, value: Any) -> int:
        key = _NAN if type(value) is float and math.isnan(value) else value
        code = self._index.get(key)
        if code is None:
            code = self._index[key] = len(self._values)
            self._values.append(value)
            self._kinds[float if _is_exact(value) else type(value)].append(code)
            if type(value) is tuple:
                for element in set(value):
                    self._having[element].append(code)
        return code

    def mask(self, comparison: Comparison, rows: int) -> Mask:
        """Return a new mask of the first ``rows`` rows, with True for each row that satisfies the comparison."""
        name = NEGATIONS.get(comparison.operator, comparison.operator)
        with self._lock:
            mask: Mask = np.take(self._accepted(name, comparison), self._codes[:rows])
        return ~mask if name != comparison.operator else mask

    def _accepted(self, name: str, comparison: Comparison) -> Mask:
        """Return a mask of the codes whose values satisfy the comparison."""
        operand = comparison.operand
        is_accepted = np.zeros(len(self._values), np.bool_)
        if name == "$exists":
            is_accepted[1:] = True
            return is_accepted if operand else ~is_accepted
        if name in ("$eq", "$in"):
            operands = operand if name == "$in" else (operand,)
            is_accepted[[code for each in operands for code in self._equals(each)]] = True
        elif name == "$contains" and type(operand) is not CanonicalTime:
            is_accepted[self._having.get(operand, [])] = True
            is_accepted[self._accepting(str, comparison)] = True
        elif name == "$contains":
            is_accepted[self._accepting(tuple, comparison)] = True
        elif type(operand) in (int, float):
            if _is_exact(operand):
                is_accepted[:] = ORDERINGS[name].holds(self._as_numbers()[:, 0], operand)
            else:
                is_accepted[self._accepting(float, comparison)] = True
            is_accepted[self._accepting(int, comparison)] = True
        elif (seconds := canonical_to_seconds(operand)) is None:
            is_accepted[self._accepting(str, comparison)] = True
        else:
            is_accepted[:] = ORDERINGS[name].holds(self._as_numbers()[:, 1], seconds)
        return is_accepted

    def _accepting(self, kind: type, comparison: Comparison) -> list[int]:
        accepts, values = comparison.accepts, self._values
        return [code for code in self._kinds[kind] if accepts(values[code])]

    def _equals(self, operand: Any) -> Iterable[int]:
        """Yield the codes of the values that equal the operand. Two times are equal if they are the same instant."""
        if operand in self._index:
            yield self._index[operand]
        seconds = canonical_to_seconds(operand)
        if type(operand) is CanonicalTime:
            yield from np.flatnonzero(self._as_numbers()[:, 1] == seconds).tolist()
        elif seconds is not None and CanonicalTime(seconds) in self._index:
            yield self._index[CanonicalTime(seconds)]

    def _as_numbers(self) -> NDArray[np.float64]:
        """Return, for each code, its value as a number and as a time in seconds, NaN if it is not one."""
        new = [
            (value if _is_exact(value) else None, canonical_to_seconds(value))
            for value in self._values[len(self._numbers) :]
        ]
        self._numbers = np.concatenate([self._numbers, np.array(new, np.float64).reshape(-1, 2)])
        return self._numbers


def _is_exact(value: Any) -> bool:
    """Return whether a value is a number that a float represents exactly."""
    return type(value) is float or (type(value) is int and -_EXACT <= value <= _EXACT)
