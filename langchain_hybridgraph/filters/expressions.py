"""Filter objects and their parser."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

from langchain_hybridgraph.errors import FilterError
from langchain_hybridgraph.filters.canonical_values import PLAIN, canonical, to_python
from langchain_hybridgraph.filters.keys import Path, join_key, split_key, value_getter
from langchain_hybridgraph.filters.messages import (
    EXAMPLE,
    as_json,
    foreign_combination,
    foreign_condition,
    misplaced_operator,
    not_a_filter,
    unknown_operator,
)
from langchain_hybridgraph.filters.operands import check_operand
from langchain_hybridgraph.filters.operators import FIELD_OPERATORS, SYMBOLS, Test, compile_test

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

    @abstractmethod
    def keys(self) -> frozenset[Path]:
        """Return the metadata paths that the filter reads, in the form that :func:`split_key` returns."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the filter as a dictionary, from which :func:`parse_filter` creates an equal filter."""

    def __and__(self, other: Filter | Mapping[str, Any]) -> Filter:
        other_filter = _operand_filter(other)
        return NotImplemented if other_filter is None else join_filters(And, (self, other_filter))

    def __or__(self, other: Filter | Mapping[str, Any]) -> Filter:
        other_filter = _operand_filter(other)
        return NotImplemented if other_filter is None else join_filters(Or, (self, other_filter))

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
    """Comparison of one metadata key with one operand.

    Create it with :func:`compare`, which converts ``operand`` to canonical form.
    """

    path: Path
    operator: str
    operand: Any

    @cached_property
    def accepts(self) -> Test:
        """Function that returns whether a canonical value (None if missing) passes the comparison."""
        return compile_test(self.operator, self.operand)

    @cached_property
    def _matches(self) -> Callable[[Mapping[str, Any]], bool]:
        read, accepts, plain = value_getter(self.path), self.accepts, PLAIN

        def matches(metadata: Mapping[str, Any]) -> bool:
            value = read(metadata)
            return accepts(value if type(value) in plain else canonical(value))

        return matches

    def keys(self) -> frozenset[Path]:
        """Return a set that contains only the path of the key."""
        return frozenset({self.path})

    def to_dict(self) -> dict[str, Any]:
        """Return ``{key: {operator: operand}}``."""
        return {join_key(self.path): {self.operator: to_python(self.operand)}}


@dataclass(frozen=True, repr=False)
class _Combination(Filter):
    parts: tuple[Filter, ...]

    def keys(self) -> frozenset[Path]:
        """Return the paths of all parts."""
        return frozenset[Path]().union(*(part.keys() for part in self.parts))


class And(_Combination):
    """A filter that matches if all parts match."""

    @cached_property
    def _matches(self) -> Callable[[Mapping[str, Any]], bool]:
        tests = [part._matches for part in self.parts]

        def matches(metadata: Mapping[str, Any]) -> bool:
            for test in tests:  # noqa: SIM110  # a third faster than all() with a generator
                if not test(metadata):
                    return False
            return True

        return matches

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"$and": [...]}``."""
        return {"$and": [part.to_dict() for part in self.parts]}


class Or(_Combination):
    """A filter that matches if at least one part matches."""

    @cached_property
    def _matches(self) -> Callable[[Mapping[str, Any]], bool]:
        tests = [part._matches for part in self.parts]

        def matches(metadata: Mapping[str, Any]) -> bool:
            for test in tests:  # noqa: SIM110  # a third faster than any() with a generator
                if test(metadata):
                    return True
            return False

        return matches

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"$or": [...]}``."""
        return {"$or": [part.to_dict() for part in self.parts]}


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

    def keys(self) -> frozenset[Path]:
        """Return the paths of the negated filter."""
        return self.part.keys()

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"$not": {...}}``."""
        return {"$not": self.part.to_dict()}


def join_filters(kind: type[And] | type[Or], parts: Iterable[Filter]) -> Filter:
    """Combine filters with And or Or, flattening nested filters of the same kind; return a single filter unchanged."""
    flat: list[Filter] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, kind) else (part,))
    return flat[0] if len(flat) == 1 else kind(tuple(flat))


def _operand_filter(other: Any) -> Filter | None:
    return _parse_part(other, 0) if isinstance(other, (Filter, Mapping)) else None


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
        raise not_a_filter(value)
    return _parse_object(value, 0) if value else None


def compare(key: str, operator: str, operand: Any) -> Comparison:
    """Return a comparison of a key, which may be dotted, with an operand.

    Raises FilterError if the comparison could never match.
    """
    return Comparison(split_key(key), operator, check_operand(key, operator, operand))


def _parse_object(value: Mapping[Any, Any], depth: int) -> Filter:
    _check_depth(depth)
    if (error := foreign_condition(value)) is not None:
        raise error
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
        raise misplaced_operator(key, value)
    if (error := foreign_combination(key, value)) is not None:
        raise error
    return _parse_field(key, value, depth)


def _parts(operator: str, value: Any) -> Sequence[Any]:
    if not isinstance(value, (list, tuple)) or not value:
        raise FilterError(
            f"{operator} takes a non-empty list of filters, not {as_json(value)}; "
            f"write {as_json({operator: [{'source': 'a.md'}, {'year': 2024}]})}"
        )
    return value


def _parse_field(key: str, value: Any, depth: int) -> Filter:
    _check_depth(depth)
    if isinstance(value, Mapping):
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
    operator = SYMBOLS.get(operator, operator)
    if operator not in FIELD_OPERATORS:
        raise unknown_operator(key, operator, operand)
    return compare(key, operator, operand)
