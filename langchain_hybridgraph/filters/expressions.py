"""Filters as expressions, and their translation for stores."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar, Generic, NoReturn, TypeVar

from langchain_hybridgraph.errors import FilterError, quote_value
from langchain_hybridgraph.filters import operators
from langchain_hybridgraph.filters.operators import EXAMPLE, EXAMPLES, CanonicalBool, Path, Test, as_json, canonical
from langchain_hybridgraph.times import iso_time, parse_time

# Filters as expressions.

# Validation of the operands of filters.


def check_operand(key: str, operator: str, operand: Any) -> Any:
    """Return an operand in canonical form; raise FilterError if the comparison could never match."""
    if operator == "$exists":
        if not isinstance(operand, bool):
            raise operators.unusable_operand(key, operator, operand, "true or false", True)
        return operand
    if operator in ("$in", "$nin"):
        if not isinstance(operand, (list, tuple, Set)):
            raise operators.unusable_operand(key, operator, operand, "a list", [operand])
        return tuple(dict.fromkeys(_check_value(key, operator, item) for item in operand))
    value = _check_value(key, operator, operand)
    if operator == "$ne" and isinstance(value, tuple) and value:
        raise FilterError(
            f"{as_json({key: {operator: operand}})} is ambiguous; write {as_json({key: {'$nin': operand}})} for none of"
            f" these values, or {as_json({key: {'$not': {'$eq': operand}}})} for anything except exactly this list"
        )
    if operator == "$contains" and isinstance(value, (tuple, frozenset)):
        raise FilterError(
            f"{as_json({key: {operator: operand}})} is ambiguous: $contains takes one element; "
            f'write has_labels(any_of=[...], key="{key}"), has_labels(all_of=[...], key="{key}"), '
            f"or {as_json({'$or': [{key: {operator: 'a'}}, {key: {operator: 'b'}}]})}"
        )
    if operator in operators.ORDERINGS and isinstance(value, (tuple, frozenset, CanonicalBool)):
        raise operators.unusable_operand(key, operator, operand, "a number, a time or a string", 2024)
    return value


def _check_value(key: str, operator: str, operand: Any) -> Any:
    try:
        value = canonical(_with_times(operand))
        if _has_nan(value):
            raise operators.unusable_operand(key, operator, operand, "a value other than NaN, which equals nothing", 0)
    except TypeError:
        raise operators.unusable_operand(key, operator, operand, "a JSON value or a datetime", str(operand)) from None
    except RecursionError:
        raise operators.unusable_operand(key, operator, operand, "a less deeply nested value", 0) from None
    if value is None:
        raise FilterError(
            f"{as_json({key: {operator: None}})} compares with null, which counts as missing; "
            f"write {as_json({key: {'$exists': False}})} for missing, {as_json({key: {'$exists': True}})} for present"
        )
    return value


def _with_times(operand: Any, is_nested: bool = False) -> Any:
    """Replace ``{"$date": "2024-05-01"}`` by the datetime or, inside a list or an object, by the string.

    Raises TypeError for a value that metadata cannot contain.
    """
    if isinstance(operand, Mapping):
        if operand.keys() == {"$date"}:
            time = datetime.fromtimestamp(_parse_time(operand["$date"]), UTC)
            return operand["$date"] if is_nested else time
        return {key: _with_times(item, True) for key, item in operand.items()}
    if isinstance(operand, (list, tuple, Set)):
        return [_with_times(item, True) for item in operand]
    if operand is None or isinstance(operand, (str, Real, date)) or hasattr(operand, "tolist"):
        return operand
    raise TypeError(type(operand).__name__)


def _parse_time(value: Any) -> float:
    try:
        return parse_time(value)
    except ValueError as error:
        raise FilterError(str(error)) from error


def _has_nan(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_has_nan, value))
    if isinstance(value, frozenset):
        return any(_has_nan(item) for _, item in value)
    return isinstance(value, float) and math.isnan(value)


# Filter objects and their parser.

_DEEPEST = 100  # levels of nesting: far more than any real filter has, far fewer than Python's recursion limit allows


class Filter(ABC):
    """A condition on metadata: immutable, hashable, and equal to any filter of the same structure.

    Combine filters with ``&``, ``|`` and ``~``. Python's ``and``, ``or`` and ``not`` would silently drop a part, so
    they raise FilterError. Use ``filter is None`` to test whether there is a filter.

    >>> parse_filter({"source": {"$in": ["a.md"]}}) | {"year": 2024}
    parse_filter({'$or': [{'source': {'$in': ['a.md']}}, {'year': {'$eq': 2024}}]})
    """

    def matches(self, metadata: Mapping[str, Any]) -> bool:
        """Return whether the metadata satisfies the filter, by the rules of :mod:`langchain_hybridgraph.filters`."""
        return self._matches(metadata)

    @cached_property
    @abstractmethod
    def _matches(self) -> Callable[[Mapping[str, Any]], bool]:
        """Compiled form of :meth:`matches`: a function that returns whether metadata satisfies the filter."""

    def keys(self) -> frozenset[Path]:
        """Return the metadata paths that the filter reads, in the form that :func:`split_key` returns."""
        return frozenset[Path]().union(*(part.keys() for part in parts_of(self)))

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the filter as a dictionary, from which :func:`parse_filter` creates an equal filter."""

    def __and__(self, other: Filter | Mapping[str, Any]) -> Filter:
        return _combine(And, self, other)

    def __or__(self, other: Filter | Mapping[str, Any]) -> Filter:
        return _combine(Or, self, other)

    def __invert__(self) -> Filter:
        return Not(self)

    def __bool__(self) -> NoReturn:
        raise FilterError(
            f"{self!r} cannot be used as a truth value; combine filters with & | ~ (not with and, or, not), "
            "and use `filter is None` to test whether there is a filter"
        )

    def __repr__(self) -> str:
        return f"parse_filter({self.to_dict()!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # The compiled closures cannot be copied or pickled.
        return parse_filter, (self.to_dict(),)


@dataclass(frozen=True, repr=False)
class Comparison(Filter):
    """Comparison of one metadata key with one canonical operand; create it with :func:`compare`."""

    path: Path
    operator: str
    operand: Any

    @cached_property
    def accepts(self) -> Test:
        """Function that returns whether a canonical value (None if missing) passes the comparison."""
        return operators.compile_test(self.operator, self.operand)

    @cached_property
    def _matches(self) -> Callable[[Mapping[str, Any]], bool]:
        read, accepts, plain = operators.value_getter(self.path), self.accepts, operators.PLAIN

        def matches(metadata: Mapping[str, Any]) -> bool:
            value = read(metadata)
            return accepts(value if type(value) in plain else canonical(value))

        return matches

    def keys(self) -> frozenset[Path]:
        """Return a set that contains only the path of the key."""
        return frozenset({self.path})

    def to_dict(self) -> dict[str, Any]:
        """Return ``{key: {operator: operand}}``."""
        return {operators.join_key(self.path): {self.operator: operators.to_python(self.operand)}}


@dataclass(frozen=True, repr=False)
class _Combination(Filter):
    parts: tuple[Filter, ...]
    _operator: ClassVar[str]
    _decisive: ClassVar[bool]  # result of a part that determines the result of the combination

    @cached_property
    def _matches(self) -> Callable[[Mapping[str, Any]], bool]:
        tests, decisive = [part._matches for part in self.parts], self._decisive

        def matches(metadata: Mapping[str, Any]) -> bool:
            for test in tests:  # a third faster than all() or any() with a generator
                if test(metadata) is decisive:
                    return decisive
            return not decisive

        return matches

    def to_dict(self) -> dict[str, Any]:
        """Return ``{operator: [...]}``, with the operator ``$and`` or ``$or``."""
        return {self._operator: [part.to_dict() for part in self.parts]}


class And(_Combination):
    """A filter that matches if all parts match."""

    _operator, _decisive = "$and", False


class Or(_Combination):
    """A filter that matches if at least one part matches."""

    _operator, _decisive = "$or", True


@dataclass(frozen=True, repr=False)
class Not(Filter):
    """A filter that matches if its part does not match."""

    part: Filter

    @cached_property
    def _matches(self) -> Callable[[Mapping[str, Any]], bool]:
        test = self.part._matches
        return lambda metadata: not test(metadata)

    def __invert__(self) -> Filter:
        return self.part

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"$not": {...}}``."""
        return {"$not": self.part.to_dict()}


def join_filters(kind: type[And] | type[Or], parts: Iterable[Filter]) -> Filter:
    """Combine filters with And or Or, flattening nested filters of the same kind; return a single filter unchanged."""
    flat: list[Filter] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, kind) else (part,))
    return flat[0] if len(flat) == 1 else kind(tuple(flat))


def _combine(kind: type[And] | type[Or], one: Filter, other: Any) -> Filter:
    """Return the result of an operator such as ``&``; the other operand may be a mapping."""
    return join_filters(kind, (one, _parse_part(other, 0))) if isinstance(other, Filter | Mapping) else NotImplemented


# -- parsing -------------------------------------------------------------------------------------------------


def parse_filter(value: Filter | Mapping[str, Any] | None) -> Filter | None:
    """Return the filter that a mapping describes, or None (no filter) for None and for ``{}``.

    A Filter is returned unchanged. Raises FilterError for anything that is not part of the filter language.

    >>> parse_filter({"author.name": "Ada", "year": {"$gte": 1843}}).matches({"author": {"name": "Ada"}})
    False
    """
    if value is None or isinstance(value, Filter):
        return value
    if not isinstance(value, Mapping):
        raise operators.not_a_filter(value)
    return _parse_object(value, 0) if value else None


def compare(key: str, operator: str, operand: Any) -> Comparison:
    """Return a comparison of a key, which may be dotted; raise FilterError if it could never match."""
    if not isinstance(key, str):
        raise FilterError(f"the key of a filter must be a string, got {quote_value(key)}")
    return Comparison(operators.split_key(key), operator, check_operand(key, operator, operand))


def _parse_object(value: Mapping[Any, Any], depth: int) -> Filter:
    _check_depth(depth)
    return join_filters(And, [_parse_entry(key, item, depth) for key, item in value.items()])


def _check_depth(depth: int) -> None:
    if depth > _DEEPEST:
        raise FilterError(
            f"a filter is nested more than {_DEEPEST} levels deep; list the parts side by side in one $and or $or"
        )


def _parse_part(value: Any, depth: int) -> Filter:
    if isinstance(value, Filter):
        return value
    if not isinstance(value, Mapping) or not value:
        raise FilterError(f"$and, $or and $not take filters, got {as_json(value)}; write an object such as {EXAMPLE}")
    return _parse_object(value, depth + 1)


def _parse_entry(key: Any, value: Any, depth: int) -> Filter:
    if not isinstance(key, str):
        raise FilterError(f"the key {key!r} is not a string; write {as_json({str(key): value})}")
    if key in ("$and", "$or"):
        return join_filters(And if key == "$and" else Or, [_parse_part(part, depth) for part in _parts(key, value)])
    if key == "$nor":
        return ~join_filters(Or, [_parse_part(part, depth) for part in _parts(key, value)])
    if key == "$not":
        return ~_parse_part(value, depth)
    if key.startswith("$"):
        raise operators.misplaced_operator(key, value)
    if (error := operators.foreign_combination(key, value)) is not None:
        raise error
    return _parse_field(key, value, depth)


def _parts(operator: str, value: Any) -> Sequence[Any]:
    if not isinstance(value, (list, tuple)) or not value:
        raise FilterError(
            f"{operator} takes a non-empty list of filters, not {as_json(value)}; write {as_json({operator: EXAMPLES})}"
        )
    return value


def _parse_field(key: str, value: Any, depth: int) -> Filter:
    _check_depth(depth)
    if isinstance(value, Mapping) and value.keys() != {"$date"}:
        if not value:
            raise FilterError(f"{as_json({key: value})} has no operator; write {as_json({key: {'$exists': True}})}")
        return join_filters(And, [_parse_operator(key, name, operand, depth) for name, operand in value.items()])
    if isinstance(value, (list, tuple, Set)):
        raise FilterError(
            f"{as_json({key: value})} is ambiguous; write {as_json({key: {'$in': value}})} for any of these values, "
            f"or {as_json({key: {'$eq': value}})} for exactly this list"
        )
    return compare(key, "$eq", value)


def _parse_operator(key: str, operator: Any, operand: Any, depth: int) -> Filter:
    if operator == "$not":
        if not isinstance(operand, Mapping):
            raise FilterError(
                f"{as_json({key: {'$not': operand}})} is a $not without an operator; "
                f"write {as_json({key: {'$ne': operand}})}"
            )
        return ~_parse_field(key, operand, depth + 1)
    if operator == "$not_contains":
        return ~compare(key, "$contains", operand)
    operator = operators.SYMBOLS.get(operator, operator)
    if operator not in operators.FIELD_OPERATORS:
        raise operators.unknown_operator(key, operator, operand)
    return compare(key, operator, operand)


# Functions that make common filters.


def by_document(*ids: str, key: str = "document_id") -> Filter:
    """Return a filter that matches the chunks of the documents with these ids; without ids, it matches nothing.

    >>> by_document("a", "b").matches({"document_id": "b"})
    True
    """
    return _compare_ids(key, "$in", ids)


def exclude_document(*ids: str, key: str = "document_id") -> Filter:
    """Return a filter that matches all chunks except those of the documents with these ids, if any.

    >>> exclude_document("a").matches({"document_id": "b"})
    True
    """
    return _compare_ids(key, "$nin", ids)


def by_source(*sources: str, key: str = "source") -> Filter:
    """Return a filter that matches the chunks from these sources (paths or URLs); without sources, it matches nothing.

    Sources are compared as strings.

    >>> by_source("a.md").matches({"source": "a.md"})
    True
    """
    return _compare_ids(key, "$in", sources)


def _compare_ids(key: str, operator: str, ids: tuple[str, ...]) -> Filter:
    if any(isinstance(id, list | tuple | Set) for id in ids):
        raise FilterError(f"the ids {as_json(ids)} contain a list; pass each id as an argument of its own: *ids")
    return compare(key, operator, ids)


def by_meta(**equals: Any) -> Filter:
    """Return a filter that matches the chunks whose metadata has all of these values.

    Raises FilterError if no values are passed.

    >>> by_meta(lang="en", **{"author.name": "Ada"}).matches({"lang": "en", "author": {"name": "Ada"}})
    True
    """
    if not equals:
        raise FilterError('by_meta() got no values to compare; write by_meta(lang="en")')
    for key, value in equals.items():
        if isinstance(value, Mapping) and any(str(inner).startswith("$") for inner in value):
            raise FilterError(
                f"by_meta({key}={value!r}) tests for equality only; to use an operator, write {{{key!r}: {value!r}}}"
            )
    return join_filters(And, [compare(key, "$eq", value) for key, value in equals.items()])


def created_after(t: Any, *, key: str = "created_at") -> Filter:
    """Return a filter that matches the chunks created later than ``t``.

    ``t`` is a time in any form that :func:`~langchain_hybridgraph.times.parse_time` accepts. The comparison is strict
    (``$gt``). The metadata may contain an ISO time or Unix seconds.

    >>> created_after("2024-05-01").matches({"created_at": 1714525200.0})
    True
    """
    return _created("$gt", t, key)


def created_before(t: Any, *, key: str = "created_at") -> Filter:
    """Return a filter that matches the chunks created earlier than ``t`` (``$lt``); see :func:`created_after`.

    >>> created_before("2024-05-01").matches({"created_at": "2024-04-30T23:59:00Z"})
    True
    """
    return _created("$lt", t, key)


def has_labels(
    any_of: str | Iterable[str] | None = None,
    all_of: str | Iterable[str] = (),
    *,
    key: str = "labels",
) -> Filter:
    """Return a filter that matches the chunks whose labels include at least one of ``any_of`` and all of ``all_of``.

    If ``any_of`` is None, only ``all_of`` is required; an empty ``any_of`` matches nothing. Raises FilterError if
    ``any_of`` is None and ``all_of`` is empty. A string in the metadata counts as one label.

    >>> has_labels(any_of=["api", "web"], all_of=["public"]).matches({"labels": ["public", "web"]})
    True
    """
    parts: list[Filter] = [_has_label(key, label) for label in _several("all_of", all_of)]
    if any_of is not None:
        choices = [_has_label(key, label) for label in _several("any_of", any_of)]
        parts.append(join_filters(Or, choices) if choices else compare(key, "$in", ()))
    if not parts:
        raise FilterError('has_labels() got no labels; write has_labels(any_of=["a", "b"])')
    return join_filters(And, parts)


def _has_label(key: str, label: Any) -> Filter:
    """Return a filter for values that are equal to the label, or lists that contain it.

    ``$contains`` also matches a part of a string; every string is at least ``""`` or, if it is a time, the year 1.
    """
    no_string = [~compare(key, "$gte", least) for least in ("", "0001-01-01")]
    return compare(key, "$eq", label) | join_filters(And, [compare(key, "$contains", label), *no_string])


def _several(name: str, labels: Any) -> Iterable[Any]:
    if isinstance(labels, str):
        return (labels,)
    if isinstance(labels, Iterable) and not isinstance(labels, bytes | Mapping):
        return labels
    raise FilterError(f'{name} must be a label or a list of labels, got {quote_value(labels)}; write {name}=["a"]')


def _created(operator: str, t: Any, key: str) -> Filter:
    seconds = _parse_time(t)
    return join_filters(Or, [compare(key, operator, iso_time(seconds)), compare(key, operator, seconds)])


# Translation of filters to the filter languages of stores.

Condition = TypeVar("Condition")


class Dialect(ABC, Generic[Condition]):
    """The filter language of one store, whose conditions may match more than the filter that they translate.

    None, for a condition that cannot be written, matches everything.
    """

    @abstractmethod
    def key(self, path: Path) -> str | None:
        """Return the store's name for the metadata at a path, or None if the store cannot filter by it."""

    @abstractmethod
    def holds(self, key: str, operator: str, operand: Any) -> Condition | None:
        """Return a condition that is true for all values that pass the comparison, and possibly for others.

        ``operator`` is ``$gt``, ``$gte``, ``$lt``, ``$lte``, ``$in``, ``$contains`` or ``$exists``. An ``$eq``
        comparison is passed as ``$in``. The operand of ``$exists`` is always True.
        """

    def fails(self, key: str, operator: str, operand: Any) -> Condition | None:
        """Return a condition that is true for all values that fail the comparison, and possibly for others."""
        return None

    @abstractmethod
    def every(self, parts: list[Condition]) -> Condition:
        """Return a condition that is true if all ``parts`` (at least two) are true."""

    @abstractmethod
    def some(self, parts: list[Condition]) -> Condition:
        """Return a condition that is true if any of the ``parts`` (at least two) is true."""

    def all_of(self, parts: Sequence[Condition | None]) -> Condition | None:
        """Return a condition that is true if all parts are true. Parts that are None are left out."""
        expressible = [part for part in parts if part is not None]
        if not expressible:
            return None
        return self.every(expressible) if len(expressible) > 1 else expressible[0]

    def any_of(self, parts: Sequence[Condition | None]) -> Condition | None:
        """Return a condition that is true if at least one part is true. Return None if any part is None."""
        expressible = [part for part in parts if part is not None]
        if len(expressible) < len(parts) or not expressible:
            return None
        return self.some(expressible) if len(expressible) > 1 else expressible[0]


def superset(filter: Filter, dialect: Dialect[Condition], outcome: bool = True) -> Condition | None:
    """Return a condition that covers all metadata, and possibly more, for which ``filter.matches`` is ``outcome``.

    The result is None if the dialect cannot express any such condition.
    """
    if isinstance(filter, Comparison):
        return _comparison(filter, dialect, outcome)
    if isinstance(filter, Not):
        return superset(filter.part, dialect, not outcome)
    parts = [superset(part, dialect, outcome) for part in parts_of(filter)]
    return dialect.all_of(parts) if isinstance(filter, And) is outcome else dialect.any_of(parts)


def _comparison(comparison: Comparison, dialect: Dialect[Condition], outcome: bool) -> Condition | None:
    key = dialect.key(comparison.path)
    if key is None:
        return None
    operator, operand = comparison.operator, comparison.operand
    if operator in operators.NEGATIONS or operand is False:  # only $exists has a Python bool for an operand
        outcome = not outcome
    operator = operators.NEGATIONS.get(operator, operator)
    if operator == "$eq":
        operator, operand = "$in", (operand,)
    return dialect.holds(key, operator, operand) if outcome else dialect.fails(key, operator, operand)


def parts_of(filter: Filter) -> Sequence[Filter]:
    """Return the filters that a filter combines; a comparison combines none."""
    if isinstance(filter, Not):
        return (filter.part,)
    return filter.parts if isinstance(filter, And | Or) else ()
