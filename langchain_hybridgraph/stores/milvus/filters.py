"""Milvus filter expressions based on marks.

Milvus compares JSON by its own rules, which vary between versions. Therefore, each row also has an array of *marks*:
digests of statements that are true of the metadata, such as "year equals 2020", "labels contains api" or "title
exists". A filter becomes a combination of ``ARRAY_CONTAINS`` conditions on this array. For order comparisons, each row
stores its numbers and times as floats in a second field.

An expression selects every row that matches the filter, and possibly other rows, because marks represent neither
substrings nor the order of strings. The store therefore checks the rows with
:meth:`~langchain_hybridgraph.filters.Filter.matches`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

from langchain_hybridgraph.filters import operators
from langchain_hybridgraph.filters.expressions import Dialect, Filter, superset
from langchain_hybridgraph.stores.milvus.connection import MOST_ELEMENTS

# The only mark of a row that would need more than MOST_ELEMENTS marks; every expression selects such rows.
UNMARKED = "*"
NOTHING, EVERYTHING = 'key == ""', 'key != ""'
# Floats cannot represent every integer above this one.
_INEXACT = 2.0**53
_LARGEST = 1.7976931348623157e308


class RowMarks(NamedTuple):
    """The marks of a row, and the numbers needed for comparisons such as ``$gt``.

    ``numbers`` contains each number and time as a float, and 0 for each string that is not a time. Its keys are marks
    of the metadata key and the kind of value.
    """

    marks: list[str]
    numbers: dict[str, float]


def marks_of(metadata: Mapping[str, Any], others: Iterable[str] = ()) -> RowMarks:
    """Return the marks and numbers of a chunk's metadata; ``UNMARKED`` replaces more than ``MOST_ELEMENTS`` marks."""
    marks, numbers = dict.fromkeys(others), dict[str, float]()
    for path, value in _values(metadata, ()):
        key = operators.join_key(path)
        statements = [("exists", key), *(("equals", key, form) for form in _equals(value))]
        if isinstance(value, tuple):
            statements += [("contains", key, form) for element in value for form in _equals(element)]
        elif isinstance(value, str):
            statements.append(("text", key, ""))
        marks |= dict.fromkeys(mark(*statement) for statement in statements)
        kind, number = _order_of(value)
        if number is not None:
            marks[mark(kind, key)] = None
            numbers[mark(kind, key)] = number
    return RowMarks(list(marks) if len(marks) <= MOST_ELEMENTS else [UNMARKED], numbers)


@lru_cache(maxsize=1 << 16)
def mark(*parts: str) -> str:
    """Return the mark of a statement, a digest of 20 characters: ``mark("equals", "year", "n2020")``."""
    statement = "".join(f"{len(part)}:{part}" for part in parts)
    return blake2b(statement.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()


def expression(filter: Filter) -> str:
    """Return an expression that is true for every row that matches the filter, and possibly for other rows.

    >>> from langchain_hybridgraph.filters import parse_filter
    >>> expression(parse_filter({"year": 2020}) & ~parse_filter({"labels": {"$exists": True}})).count("ARRAY_CONTAINS")
    3
    """
    condition: str | None = superset(filter, _MarkDialect())
    return f'({condition or EVERYTHING} or ARRAY_CONTAINS(marks, "{UNMARKED}"))'


def has_any(marks: Sequence[str]) -> str:
    """Return an expression that is true for rows with at least one of these marks."""
    if not marks:
        return NOTHING
    if len(marks) == 1:
        return f'ARRAY_CONTAINS(marks, "{marks[0]}")'
    return f"ARRAY_CONTAINS_ANY(marks, {texts(marks)})"


def texts(values: Iterable[str]) -> str:
    """Return strings as a list literal for an expression."""
    return "[" + ", ".join(map(text, values)) + "]"


def text(value: str) -> str:
    r"""Return a string as a literal for an expression, with quotes and escapes."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


# -- metadata ------------------------------------------------------------------------------------------------


def _values(metadata: Mapping[str, Any], path: operators.Path) -> Iterator[tuple[operators.Path, Any]]:
    """Yield the path and the canonical value of each key to which a filter may refer, except null values."""
    for key, value in metadata.items():
        if value is not None:
            yield (*path, key), operators.canonical(value)
            if isinstance(value, Mapping):
                yield from _values(value, (*path, key))


def _equals(value: Any) -> Iterator[str]:
    """Yield a value's strings for tests for equality; a string that is a time also has that of its instant."""
    form = _form(value)
    if form is not None:
        yield form
    if (
        isinstance(value, str | operators.CanonicalTime)
        and (seconds := operators.canonical_to_seconds(value)) is not None
    ):
        yield f"t{seconds!r}"


def _form(value: Any) -> str | None:
    """Return a string that only equal values share; None for NaN, a ``CanonicalTime``, and values that contain them."""
    form: str | None = "z"  # null in a list
    match value:
        case str():
            form = f"s{value}"
        case operators.CanonicalBool():
            form = f"b{value.value}"
        case operators.CanonicalTime():
            form = None
        case float():
            form = None if math.isnan(value) else f"n{int(value) if value.is_integer() else value}"
        case int():
            form = f"n{value}"
        case tuple():
            form = _join_forms("l", map(_form, value))
        case frozenset():
            forms = [_join_forms("i", (key, _form(element))) for key, element in value]
            form = None if None in forms else _join_forms("o", sorted(map(str, forms)))
    return form


def _join_forms(kind: str, forms: Iterable[str | None]) -> str | None:
    form_list = list(forms)
    return None if None in form_list else kind + "".join(f"{len(form or '')}:{form}" for form in form_list)


def _order_of(value: Any) -> tuple[str, float | None]:
    """Return a value's kind ("number", "time", "ordered text") and number (0 for a text); None without an order."""
    if isinstance(value, str | operators.CanonicalTime):
        seconds = operators.canonical_to_seconds(value)
        return ("ordered text", 0.0) if seconds is None else ("time", seconds)
    if isinstance(value, int) or (isinstance(value, float) and not math.isnan(value)):
        return "number", float(min(max(value, -_LARGEST), _LARGEST))  # JSON has no infinite numbers
    return "number", None


# -- filters -------------------------------------------------------------------------------------------------


class _MarkDialect(Dialect[str]):
    """Dialect of marks; only ``ARRAY_CONTAINS`` may be negated, because other conditions are null without a value."""

    def key(self, path: operators.Path) -> str:
        return operators.join_key(path)

    def holds(self, key: str, operator: str, operand: Any) -> str:
        if operator in operators.ORDERINGS:
            return _order(operator, operand, key, negated=False)
        marks = _operand_marks(key, operator, operand)
        if operator == "$contains" and isinstance(operand, str):
            marks.append(mark("text", key, ""))  # the operand may be a substring of any string
        return has_any(marks)

    def fails(self, key: str, operator: str, operand: Any) -> str:
        if operator in operators.ORDERINGS:
            return _order(operator, operand, key, negated=True)
        marks = _operand_marks(key, operator, operand)
        return f"not {has_any(marks)}" if marks else EVERYTHING

    def every(self, parts: list[str]) -> str:
        return "(" + " and ".join(parts) + ")"

    def some(self, parts: list[str]) -> str:
        return "(" + " or ".join(parts) + ")"


def _operand_marks(key: str, operator: str, operand: Any) -> list[str]:
    """Return marks of which every row that satisfies the comparison has one, except for ``$contains`` with a string."""
    if operator == "$exists":
        return [mark("exists", key)]
    kind, marks = "contains" if operator == "$contains" else "equals", list[str]()
    for each in operand if operator == "$in" else (operand,):
        # A string is compared only as a string, even if it is a time.
        forms = [f"s{each}"] if isinstance(each, str) else _equals(each)
        marks += [mark(kind, key, form) for form in forms]
    return marks


def _order(operator: str, operand: Any, key: str, *, negated: bool) -> str:
    kind, number = _order_of(operand)
    kind_mark = mark(kind, key)
    if kind == "ordered text" or number is None:
        return EVERYTHING if negated else has_any([kind_mark])
    ordering = operators.ORDERINGS[operator]
    sign = operators.ORDERINGS[ordering.negation].symbol if negated else ordering.symbol
    if abs(number) >= _INEXACT and len(sign) == 1:
        sign += "="  # two different numbers may be stored as the same float
    comparison = f'(ARRAY_CONTAINS(marks, "{kind_mark}") and numbers["{kind_mark}"] {sign} {number!r})'
    return f"({comparison} or not {has_any([kind_mark])})" if negated else comparison
