"""Filter translation for other vector stores.

A translated filter matches at least everything that the filter matches. Its only purpose is to fetch fewer hits that
would be dropped: ``filter.matches`` makes the final decision on the returned metadata. A translation of None means that
the store cannot express the filter (or that nothing would be gained), so every hit has to be fetched and checked.

Many filters are not translated, because stores compare, order and treat missing values differently:

- Chroma (embedded, 1.5) supports only top-level keys and no ``$exists``, orders numbers only, and truncates a
  fractional operand if the stored value is an integer: ``{"$ne": 1.5}`` and ``{"$lt": 1.5}`` miss the value 1.
- PGVector compares by JSON path, which also finds elements of lists. For a value of another type the comparison is
  NULL, not false, so a negation misses rows; ``$in`` compares texts, so it cannot distinguish 1 from ``"1"``.
- Qdrant also finds elements of lists, compares floats only by range and reads fewer time formats than this package.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

from langchain_hybridgraph.filters import (
    ORDERINGS,
    CanonicalBool,
    CanonicalTime,
    Comparison,
    Filter,
    Path,
    canonical_to_seconds,
)
from langchain_hybridgraph.filters.translation import Condition, Dialect, parts_of, superset

_EXACT = 2**53  # every smaller integer is exact as a float
_MOST_OPERANDS = 10_000  # SQLite in Chroma allows 32,766 variables, and an operand takes two
_MOST_COMPARISONS = 200  # SQLite in Chroma allows expressions of 1,000 levels
_DEEPEST = 30  # Chroma refuses 64 levels
_DAY = timedelta(days=1)
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]+")


def chroma_where(filter: Filter) -> dict[str, Any] | None:
    """Return the filter as Chroma's ``where``, or None.

    >>> from langchain_hybridgraph.filters import parse_filter
    >>> chroma_where(parse_filter({"lang": "en", "year": {"$gt": 2020}, "title": {"$contains": "x"}}))
    {'$and': [{'lang': {'$eq': 'en'}}, {'year': {'$gt': 2020}}]}
    """
    return _translate(filter, _Chroma())


def pgvector_filter(filter: Filter) -> dict[str, Any] | None:
    """Return the filter as ``filter=`` of langchain-postgres' ``PGVector`` with JSONB metadata, or None.

    Do not use the result with ``PGVector(use_jsonb=False)`` or ``PGVectorStore``: in these the same operators have
    another meaning, and comparing a number with a text is an error.

    >>> from langchain_hybridgraph.filters import parse_filter
    >>> pgvector_filter(parse_filter({"lang": "en", "labels": {"$contains": 5}}))
    {'$and': [{'lang': {'$in': ['en']}}, {'labels': {'$eq': 5}}]}
    """
    return _translate(filter, _PGVector())


def qdrant_filter(filter: Filter, metadata_key: str = "metadata") -> Any | None:
    """Return the filter as a ``qdrant_client.models.Filter``, or None.

    ``metadata_key`` is the payload key under which the store keeps metadata (``metadata_payload_key`` in
    langchain-qdrant).
    """
    dialect = _Qdrant(metadata_key)
    condition = _translate(filter, dialect)
    models = import_module("qdrant_client.models")
    return condition if condition is None or isinstance(condition, models.Filter) else models.Filter(must=[condition])


# -- shared by all stores ------------------------------------------------------------------------------------


def _translate(filter: Filter, dialect: Dialect[Condition]) -> Condition | None:
    comparisons = list(_comparisons(filter))
    operands = sum(len(each.operand) if isinstance(each.operand, tuple) else 1 for each in comparisons)
    if len(comparisons) > _MOST_COMPARISONS or operands > _MOST_OPERANDS or _depth(filter) > _DEEPEST:
        return None
    return superset(filter, dialect)


def _comparisons(filter: Filter) -> list[Comparison]:
    if isinstance(filter, Comparison):
        return [filter]
    return [comparison for part in parts_of(filter) for comparison in _comparisons(part)]


def _depth(filter: Filter) -> int:
    return 1 + max(map(_depth, parts_of(filter)), default=0)


def _is_text(value: Any) -> bool:
    """Return whether every store accepts the text: lone surrogates cannot be encoded, PostgreSQL has no NUL."""
    return type(value) is str and "\0" not in value and not any("\ud800" <= c <= "\udfff" for c in value)


def _is_number(value: Any) -> bool:
    """Return whether the number is the same as a float, an integer and a decimal."""
    return type(value) in (int, float) and -_EXACT < value < _EXACT


def _by_kind(operands: Sequence[Any]) -> tuple[list[str], list[bool], list[float]]:
    """Return the operands that every store can compare with, as texts, bools and numbers."""
    texts = [operand for operand in operands if _is_text(operand)]
    truths = [operand.value for operand in operands if isinstance(operand, CanonicalBool)]
    return texts, truths, [operand for operand in operands if _is_number(operand)]


# -- Chroma --------------------------------------------------------------------------------------------------


class _Chroma(Dialect[dict[str, Any]]):
    def key(self, path: Path) -> str | None:
        reserved = path[0].startswith(("$", "#", "chroma:"))
        return path[0] if len(path) == 1 and _is_text(path[0]) and not reserved else None

    def holds(self, key: str, operator: str, operand: Any) -> dict[str, Any] | None:
        if operator == "$in":
            return self.any_of([{key: part} for part in self._lists("$in", operand)]) if _expressible(operand) else None
        if operator in ORDERINGS and _is_number(operand):
            # An operand with a fraction is truncated towards zero if the value is an integer.
            inclusive = operator if float(operand).is_integer() else operator[:3] + "e"
            return {key: {inclusive: operand}}
        return None

    def fails(self, key: str, operator: str, operand: Any) -> dict[str, Any] | None:
        if operator != "$in":
            return None
        whole = [each for each in operand if not _is_number(each) or float(each).is_integer()]
        return self.all_of([{key: expressible} for expressible in self._lists("$nin", whole)])

    def _lists(self, operator: str, operands: Sequence[Any]) -> list[dict[str, Any]]:
        """Return one condition per type, since Chroma's lists must be of one type."""
        texts, truths, numbers = _by_kind(operands)
        floats = numbers if all(type(number) is int for number in numbers) else list(map(float, numbers))
        single = {"$in": "$eq", "$nin": "$ne"}[operator]
        return [
            {operator: values} if len(values) > 1 else {single: values[0]}
            for values in (texts, truths, floats)
            if values
        ]

    def every(self, parts: list[dict[str, Any]]) -> dict[str, Any]:
        return {"$and": parts}

    def some(self, parts: list[dict[str, Any]]) -> dict[str, Any]:
        return {"$or": parts}


def _expressible(operands: Sequence[Any]) -> bool:
    texts, truths, numbers = _by_kind(operands)
    return len(texts) + len(truths) + len(numbers) == len(operands)


# -- PGVector ------------------------------------------------------------------------------------------------


class _PGVector(Dialect[dict[str, Any]]):
    def key(self, path: Path) -> str | None:
        return path[0] if len(path) == 1 and path[0].isidentifier() else None

    def holds(self, key: str, operator: str, operand: Any) -> dict[str, Any] | None:
        if operator == "$in":
            return self._is_one_of(key, operand)
        if operator == "$contains":
            return self._contains(key, operand)
        if operator == "$exists":
            return {key: {"$exists": True}}
        seconds = canonical_to_seconds(operand)
        if seconds is not None:
            return self._around(key, operator, seconds)
        return {key: {operator: operand}} if _is_text(operand) or _is_number(operand) else None

    def fails(self, key: str, operator: str, operand: Any) -> dict[str, Any] | None:
        missing: list[dict[str, Any]] = [{key: {"$exists": False}}, {key: {"$eq": None}}]
        if operator == "$exists":
            return self.some(missing)
        # $nin compares texts, so it would also exclude the number, bool or list that is written like this text.
        excluded = [text for text in operand if _is_text(text) and not _is_json(text)] if operator == "$in" else []
        return self.some([*missing, {key: {"$nin": excluded}}]) if excluded else None

    def _is_one_of(self, key: str, operands: Sequence[Any]) -> dict[str, Any] | None:
        texts, truths, numbers = _by_kind(operands)
        moments = [self._at(key, operand.seconds) for operand in operands if isinstance(operand, CanonicalTime)]
        parts = [*({key: {"$eq": value}} for value in (*truths, *numbers)), *moments]
        if len(texts) + len(parts) < len(operands):
            return None
        return self.any_of([*parts, *([{key: {"$in": texts}}] if texts else [])])

    def _contains(self, key: str, operand: Any) -> dict[str, Any] | None:
        element = self._is_one_of(key, (operand,))  # JSON path also compares the elements of lists
        if not isinstance(operand, str) or element is None:
            return element
        pattern = "".join("\\" + c if c in "\\%_" else c for c in operand)
        return self.some([{key: {"$eq": operand}}, {key: {"$like": f"%{pattern}%"}}])

    def _at(self, key: str, seconds: float) -> dict[str, Any] | None:
        return self.all_of([self._around(key, "$gte", seconds), self._around(key, "$lte", seconds)])

    def _around(self, key: str, operator: str, seconds: float) -> dict[str, Any] | None:
        """Compare times as texts: an ISO time begins with its local date, at most one day from the UTC date."""
        try:
            moment = datetime.fromtimestamp(seconds, UTC)
            if ORDERINGS[operator].is_lower_bound:
                return {key: {"$gte": (moment - _DAY).date().isoformat()}}
            return {key: {"$lt": (moment + 2 * _DAY).date().isoformat()}}
        except (ValueError, OverflowError):  # before the year 1, after 9999
            return None

    def every(self, parts: list[dict[str, Any]]) -> dict[str, Any]:
        return {"$and": parts}

    def some(self, parts: list[dict[str, Any]]) -> dict[str, Any]:
        return {"$or": parts}


def _is_json(text: str) -> bool:
    try:
        json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except ValueError:
        return False
    except RecursionError:
        return True
    return True


# -- Qdrant --------------------------------------------------------------------------------------------------


class _Qdrant(Dialect[Any]):
    """Conditions of Qdrant: ``key`` matches a value or an element of a list, ``key[]`` only an element of a list."""

    def __init__(self, metadata_key: str) -> None:
        self._metadata_key = metadata_key
        self._models: Any = import_module("qdrant_client.models")

    def key(self, path: Path) -> str | None:
        if not all(name and _is_text(name) and '"' not in name for name in path):
            return None
        names = (name if _PLAIN_NAME.fullmatch(name) else f'"{name}"' for name in path)
        return ".".join([self._metadata_key, *names])

    def holds(self, key: str, operator: str, operand: Any) -> Any | None:
        if operator == "$in":
            return self.any_of([self._equal(key, each) for each in self._grouped(operand)])
        if operator == "$contains":
            return self._contains(key, operand)
        if operator not in ORDERINGS:
            return None
        seconds = canonical_to_seconds(operand)
        if seconds is not None:
            return self._in_time(key, operator, seconds)
        return self._range(key, **{operator[1:]: operand}) if _is_number(operand) else None

    def fails(self, key: str, operator: str, operand: Any) -> Any | None:
        if operator == "$exists":
            return self._empty(key)
        if operator == "$in":
            expressible = [each for each in self._grouped(operand) if not isinstance(each, CanonicalTime)]
            return self.all_of([self._not(key, self._equal, each) for each in expressible])
        if operator in ORDERINGS and _is_number(operand):
            return self._not(key, lambda name, bound: self._range(name, **{operator[1:]: bound}), operand)
        return None

    def _grouped(self, operands: Sequence[Any]) -> list[Any]:
        """Return the operands with all texts in one list."""
        texts = [operand for operand in operands if _is_text(operand)]
        others = [operand for operand in operands if not _is_text(operand)]
        return [*others, texts] if texts else others

    def _equal(self, key: str, operand: Any) -> Any | None:
        if isinstance(operand, list):
            return self._field(key, match=self._models.MatchAny(any=operand))
        if isinstance(operand, CanonicalBool):
            return self._field(key, match=self._models.MatchValue(value=operand.value))
        if isinstance(operand, CanonicalTime):
            times = [self._in_time(key, operator, operand.seconds) for operator in ("$gte", "$lte")]
            return self.all_of(times)
        return self._range(key, gte=operand, lte=operand) if _is_number(operand) else None

    def _not(self, key: str, condition: Any, operand: Any) -> Any | None:
        """Match rows whose value does not satisfy a condition, and every list, even if its elements satisfy it."""
        value, element = condition(key, operand), condition(f"{key}[]", operand)
        return None if value is None else self._models.Filter(should=[self._models.Filter(must_not=[value]), element])

    def _contains(self, key: str, operand: Any) -> Any | None:
        if isinstance(operand, CanonicalTime):
            return None
        element = self.any_of([self._equal(f"{key}[]", each) for each in self._grouped((operand,))])
        if element is None or not isinstance(operand, str):
            return element
        no_list = self._models.Filter(must=[self._empty(f"{key}[]")], must_not=[self._empty(key)])
        return self._models.Filter(should=[element, no_list])

    def _in_time(self, key: str, operator: str, seconds: float) -> Any | None:
        """Match values in the range, and values that may be times which Qdrant cannot parse."""
        try:
            bound = datetime.fromtimestamp(seconds, UTC)
            outside = (
                {"lt": bound - timedelta(seconds=1)}
                if ORDERINGS[operator].is_lower_bound
                else {"gt": bound + timedelta(seconds=1)}
            )
        except (ValueError, OverflowError):  # before the year 1, after 9999
            return None
        certainly_outside = self._field(key, range=self._models.DatetimeRange(**outside))
        number = self._range(key, gte=-sys.float_info.max)
        return self._models.Filter(must_not=[certainly_outside, number, self._empty(key)])

    def _range(self, key: str, **bounds: float) -> Any:
        return self._field(key, range=self._models.Range(**bounds))

    def _field(self, key: str, **condition: Any) -> Any:
        return self._models.FieldCondition(key=key, **condition)

    def _empty(self, key: str) -> Any:
        return self._models.IsEmptyCondition(is_empty=self._models.PayloadField(key=key))

    def every(self, parts: list[Any]) -> Any:
        return self._models.Filter(must=parts)

    def some(self, parts: list[Any]) -> Any:
        return self._models.Filter(should=parts)
