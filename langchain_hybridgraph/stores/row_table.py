"""In-memory table of the rows visible to a store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from operator import ge, neg
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from langchain_hybridgraph.records import ScoredId

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.chunks import Mask
    from langchain_hybridgraph.stores.chunk_rows import RowStates


class RowTimes(NamedTuple):
    """Periods in which each row is valid and known, in Unix seconds; missing limits are ±infinity."""

    valid_from: NDArray[np.float64]
    valid_until: NDArray[np.float64]
    learned_at: NDArray[np.float64]
    retracted_at: NDArray[np.float64]


_ALWAYS = (-np.inf, np.inf, -np.inf, np.inf)


class ValidityHistory(NamedTuple):
    """Earlier validity periods of rows, as believed until ``known_until``, latest first."""

    row: NDArray[np.int64]
    known_until: NDArray[np.float64]
    valid_from: NDArray[np.float64]
    valid_until: NDArray[np.float64]

    @classmethod
    def of(cls, entries: Iterable[tuple[int, float, float, float]]) -> Self:
        """Create the history from the catalog's records: (row, known until, valid from, valid until)."""
        columns = np.array(list(entries), np.float64).reshape(-1, 4).T
        return cls(columns[0].astype(np.int64), *columns[1:])._ordered()

    def updated(self, rows: Sequence[int], entries: Sequence[tuple[int, float, float, float]]) -> ValidityHistory:
        """Return a history in which ``entries`` replace all entries of these rows."""
        others = ~np.isin(self.row, np.array(rows, np.int64))
        if not entries and others.all():
            return self
        remaining = (column[others] for column in self)
        columns: Any = map(np.concatenate, zip(remaining, ValidityHistory.of(entries), strict=True))
        return ValidityHistory(*columns)._ordered()

    def _ordered(self) -> Self:
        order = np.argsort(-self.known_until, kind="stable")
        return self._replace(**{name: column[order] for name, column in self._asdict().items()})

    def at(self, known_at: float, times: RowTimes) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return every row's start and end of validity as known at ``known_at``; ``times`` are the current ones."""
        first, last = times.valid_from, times.valid_until
        is_later = self.known_until > known_at
        if is_later.any():
            first, last = first.copy(), last.copy()
            # The earliest change after that time has the values of that time. It is last in the order, so it overwrites
            # later changes.
            first[self.row[is_later]] = self.valid_from[is_later]
            last[self.row[is_later]] = self.valid_until[is_later]
        return first, last


class Rows:
    """Maps ids to rows, and records which rows exist and when each is valid and known, for one tenant.

    A change creates a new table, so a search can use one throughout; but :meth:`rows` and :meth:`places` always return
    the latest row of an id.
    """

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        self.version = -1
        self.living = 0
        self.has_parents = False
        self._end = 0
        self._alive: Mask = np.zeros(0, np.bool_)
        self._visible = self._alive  # mask of the rows that exist and are not retracted
        self._timed = False
        self._past = ValidityHistory.of([])
        # The following are shared with earlier and later states: new rows are appended, and a change to a row's times
        # copies the columns.
        self._ids: list[str] = []
        self._row_of: dict[str, int] = {}
        self._times = RowTimes(*np.zeros((4, 0)))

    def __len__(self) -> int:
        return self._end

    @property
    def full(self) -> bool:
        """Whether every row ever used exists, belongs to this tenant, is not retracted and is valid at all times."""
        return not self._timed and int(np.count_nonzero(self._visible)) == self._end

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

        ``end`` is the last row ever used, plus one; ``past`` has (row, known until, valid from, valid until).
        """
        touched = list(touched)
        table = type(self)(self.tenant)
        table.version, table.has_parents, table._timed = version, has_parents, self._timed
        table._ids, table._row_of, table._times = self._ids, self._row_of, self._times
        table._alive = self._alive.copy()
        table._grow(max(end, self._end))
        dead = {row for row in touched if row < self._end and table._alive[row]}
        for states in row_states:
            table._take(*states)
            dead.difference_update(states[0])
        for row in dead:
            table._drop(row)
        table.living = int(np.count_nonzero(table._alive))
        table._visible = table._alive & (table._times.retracted_at == np.inf)
        table._past = self._past.updated(touched, list(past))
        return table

    def alive(self) -> Mask:
        """Return a new mask of the rows that exist, including rows that are not valid or have been retracted."""
        return self._alive[: self._end].copy()

    def valid_rows(self, as_of: float | None, known_at: float | None = None) -> Mask:
        """Return a new mask of existing rows known at ``known_at`` (None: now) and valid at ``as_of`` (None: any)."""
        end, times = self._end, self._times
        mask = (self._visible if known_at is None else self._alive)[:end].copy()
        first, last = times.valid_from, times.valid_until
        is_timed = self._timed
        if known_at is not None:
            mask &= times.learned_at[:end] <= known_at
            mask &= times.retracted_at[:end] > known_at
            first, last = self._past.at(known_at, times)
            is_timed = is_timed or len(self._past.row) > 0
        if is_timed and as_of is not None:
            mask &= first[:end] <= as_of
            mask &= last[:end] >= as_of
        return mask

    def overlapping(self, first: float, last: float) -> Mask:
        """Return a new mask of the rows that exist, are not retracted, and are valid at some time in this period."""
        mask, times = self._visible[: self._end].copy(), self._times
        if self._timed:
            mask &= times.valid_from[: self._end] <= last
            mask &= times.valid_until[: self._end] >= first
        return mask

    def rows(self, ids: Iterable[str]) -> list[int]:
        """Return the rows of these ids, in the same order; ids without a row are left out."""
        row_of = self._row_of
        return [row for id in ids if (row := row_of.get(id)) is not None]

    def places(self, ids: Iterable[str]) -> list[int]:
        """Return the row of each of these ids, or -1 for an id without a row."""
        row_of = self._row_of
        return [row_of.get(id, -1) for id in ids]

    def ids(self, rows: Iterable[int]) -> list[str]:
        """Return the ids of these rows."""
        all_ids = self._ids
        return [all_ids[row] for row in rows]

    def scored_ids(self, rows: Iterable[int], scores: Iterable[float]) -> list[ScoredId]:
        """Return the ids of these rows with their scores, best first, ties by id."""
        all_ids = self._ids
        ids, score_list = [all_ids[row] for row in rows], list(scores)
        if any(map(ge, score_list[1:], score_list)):  # the scores are not in descending order, or there are ties
            ordered = sorted(zip(map(neg, score_list), ids, strict=True))
            ids, score_list = [id for _, id in ordered], [-score for score, _ in ordered]
        return list(map(ScoredId._make, zip(ids, score_list, repeat(None))))

    def _take(self, row_list: list[int], ids: list[str], time_lists: list[list[float | None]]) -> None:
        rows = np.array(row_list, np.int64)
        times = [np.array(values, np.float64) for values in time_lists]  # None becomes NaN
        for column, fill in zip(times, _ALWAYS, strict=True):
            column[np.isnan(column)] = fill
        was_alive = self._alive[rows]
        if any(
            (column[rows[was_alive]] != new[was_alive]).any() for column, new in zip(self._times, times, strict=True)
        ):
            self._times = RowTimes(*(column.copy() for column in self._times))
        for column, new in zip(self._times, times, strict=True):
            column[rows] = new
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
            size = max(end, 2 * len(self._alive), 1024)
            more = size - len(self._alive)
            columns = zip(self._times, _ALWAYS, strict=True)
            self._times = RowTimes(*(np.concatenate([column, np.full(more, fill)]) for column, fill in columns))
            self._alive = np.concatenate([self._alive, np.zeros(more, np.bool_)])
        self._ids.extend([""] * (end - len(self._ids)))
        self._end = end
