r"""Metadata filters: parsing, building and matching.

Filters are written as in Chroma and MongoDB, or built with functions such as :func:`by_source`; combine them with
``& | ~``:

>>> recent = parse_filter({"labels": {"$contains": "api"}, "year": {"$gte": 2020, "$lt": 2030}})
>>> recent.matches({"labels": ["api", "web"], "year": 2024})
True
>>> (recent & ~by_source("old.md")).matches({"labels": ["api"], "year": 2024, "source": "old.md"})
False

Meaning of each operator, for a metadata value v and an operand x:

==================  ========================================================================================
``$eq``             v equals x. ``{"key": x}`` is shorthand for it if x is a string, number, bool or time
``$ne``             not ``$eq``, so a missing key matches
``$in``             v equals one of the elements of x; an empty list matches nothing
``$nin``            not ``$in``, so a missing key matches, and an empty list matches everything
``$gt $gte``        v and x are both numbers, both times or both other strings, and compare in this order; any
``$lt $lte``        other pair does not match: bools, lists, objects, a time with a number or other string
``$contains``       x (a string, number, bool or time) is an element of the list v, or a case-sensitive
                    substring of the string v; an object has no elements
``$not_contains``   shorthand for ``{"$not": {"key": {"$contains": x}}}``
``$exists``         true: v is present; false: v is missing
``$and $or $not``   ``$and`` and ``$or`` take a non-empty list of filters; ``$not`` takes one filter, or is used
                    inside a field: ``{"year": {"$not": {"$gt": 2020}}}``
several             several keys, or several operators on one key, must all match
==================  ========================================================================================

Details of missing values, equality, times and keys:

- Null counts as missing. A missing key matches only ``$ne``, ``$nin``, ``$not`` (and so ``$not_contains``) and
  ``{"$exists": false}``. An empty list, object or string is present.
- True is not 1 and false is not 0, at any depth; 1 is 1.0, exactly (2**53 + 1 is not 2.0**53). NaN is present
  but equals nothing and has no order. Infinity is the largest number.
- Two lists are equal if they have equal elements in the same order, two objects if they have equal keys and
  values. A list never equals one of its elements; use ``$contains``. Strings are compared by code points.
- A time is a ``datetime``, a ``date`` or a string such as ``2024-05-01``, ``2024-05-01T10:00``,
  ``2024-05-01 10:00:00.5+02:00``; without a time zone it is UTC. Times are ordered by instant. Two strings are
  equal only as text, but a ``datetime`` on either side equals every time of the same instant. Inside a list
  or an object, a ``datetime`` is compared as its ISO text.
- Dots in a key lead into objects, never into lists. Write ``\.`` for a dot in a name, ``\\`` for a backslash and
  ``\$`` for a dollar sign.
- ``None`` and ``{}`` mean no filter: everything matches. ``{}`` inside a filter is an error.

No part of a filter is ever ignored. Unknown operators, operands that could never match (null, NaN, ordering by
bools), and lists or objects without an operator raise :class:`~langchain_hybridgraph.errors.FilterError`.
"""

from __future__ import annotations

import json
import math
import operator as python_operator
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import Enum
from functools import cached_property
from numbers import Integral, Real
from typing import Any, NoReturn

from langchain_hybridgraph.errors import FilterError, quote_value
from langchain_hybridgraph.times import iso_seconds, iso_time, parse_time

Path = tuple[str, ...]
Test = Callable[[Any], bool]

ORDERINGS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$gt": python_operator.gt,
    "$gte": python_operator.ge,
    "$lt": python_operator.lt,
    "$lte": python_operator.le,
}
NEGATIONS: Mapping[str, str] = {"$ne": "$eq", "$nin": "$in"}
FIELD_OPERATORS = ("$eq", "$ne", *ORDERINGS, "$in", "$nin", "$contains", "$not_contains", "$exists", "$not")
JOINING_OPERATORS = ("$and", "$or", "$not")
_DEEPEST = 100  # levels of nesting: far beyond use, far below Python's recursion limit


# -- values --------------------------------------------------------------------------------------------------


class CanonicalBool(Enum):
    """A bool in canonical form, because Python's True equals 1."""

    FALSE = False
    TRUE = True


@dataclass(frozen=True, slots=True)
class CanonicalTime:
    """A datetime in canonical form: Unix seconds, UTC."""

    seconds: float


_PLAIN = frozenset({str, int, float, type(None)})
_NUMBERS = frozenset({int, float})


def canonical(value: Any) -> Any:
    """Convert a metadata value to a hashable form whose ``==`` follows the filter language.

    Strings, numbers and None are unchanged. A bool becomes a :class:`CanonicalBool`, a list a tuple, an object a
    frozenset of its items, a datetime a :class:`CanonicalTime`, a NumPy value a Python value, and anything else its
    ``str``. There is one exception: a time and the text of the same instant are equal in the filter language, but not
    by ``==``.
    """
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Mapping):
        return frozenset((str(key), _element(item)) for key, item in value.items())
    if isinstance(value, (list, tuple, Set)):
        return tuple(map(_element, value))
    return _canonical_scalar(value)


def canonical_to_seconds(value: Any) -> float | None:
    """Return a canonical value in Unix seconds if it is a time, else None."""
    if type(value) is str:
        return iso_seconds(value)
    return value.seconds if type(value) is CanonicalTime else None


def value_getter(path: Path) -> Callable[[Mapping[str, Any]], Any]:
    """Return a function that reads the unconverted value at ``path`` from metadata; None if it is missing."""
    if len(path) == 1:
        (key,) = path
        return lambda metadata: metadata.get(key)

    def walk(metadata: Mapping[str, Any]) -> Any:
        value: Any = metadata
        for key in path:
            if not isinstance(value, Mapping):
                return None
            value = value.get(key)
        return value

    return walk


def split_key(key: str) -> Path:
    r"""Split a dotted key into its names, resolving escapes.

    >>> split_key("author.name"), split_key(r"v1\.2")
    (('author', 'name'), ('v1.2',))
    """
    if "." not in key and "\\" not in key:
        return (key,)
    names, name, characters = [], "", iter(key)
    for character in characters:
        if character == ".":
            names.append(name)
            name = ""
        elif character == "\\":
            follower = next(characters, "")
            name += follower if follower in (".", "\\", "$") else character + follower
        else:
            name += character
    return (*names, name)


def join_key(path: Path) -> str:
    r"""Join names into a dotted key, the inverse of :func:`split_key`.

    >>> join_key(("author", "v1.2"))
    'author.v1\\.2'
    """
    key = ".".join(name.replace("\\", r"\\").replace(".", r"\.") for name in path)
    return "\\" + key if key.startswith("$") else key


def _canonical_scalar(value: Any) -> Any:
    if isinstance(value, bool):
        return CanonicalBool(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, date):
        return CanonicalTime(parse_time(value))
    if isinstance(value, Real):
        return int(value) if isinstance(value, Integral) else float(value)
    return canonical(value.tolist()) if hasattr(value, "tolist") else str(value)


def _element(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else canonical(value)


def _plain(value: Any) -> Any:
    """Convert a canonical value back to a Python value."""
    if isinstance(value, CanonicalBool):
        return value.value
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, frozenset):
        return {key: _plain(item) for key, item in sorted(value, key=lambda pair: str(pair[0]))}
    if isinstance(value, CanonicalTime):
        return datetime.fromtimestamp(value.seconds, UTC)
    return value


# -- filters -------------------------------------------------------------------------------------------------


class Filter(ABC):
    """A condition on metadata: immutable, hashable, and equal to any filter of the same structure.

    Combine filters with ``&``, ``|`` and ``~``. Python's ``and``, ``or`` and ``not`` would silently drop a part, so
    they raise FilterError. Use ``filter is None`` to test whether there is a filter.

    >>> by_source("a.md") | {"year": 2024}
    parse_filter({'$or': [{'source': {'$in': ['a.md']}}, {'year': {'$eq': 2024}}]})
    """

    def matches(self, metadata: Mapping[str, Any]) -> bool:
        """Return whether the metadata satisfies the filter, by the rules in the module docstring."""
        return self._matches(metadata)

    @cached_property
    @abstractmethod
    def _matches(self) -> Callable[[Mapping[str, Any]], bool]:
        """The test behind :meth:`matches`, compiled once."""

    @abstractmethod
    def keys(self) -> frozenset[Path]:
        """Return the paths that the filter reads, split as by :func:`split_key`."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the filter as an object from which :func:`parse_filter` makes an equal filter."""

    def __and__(self, other: Filter | Mapping[str, Any]) -> Filter:
        parsed = _operand_filter(other)
        return NotImplemented if parsed is None else _join(And, (self, parsed))

    def __or__(self, other: Filter | Mapping[str, Any]) -> Filter:
        parsed = _operand_filter(other)
        return NotImplemented if parsed is None else _join(Or, (self, parsed))

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
    """One operator on one key. Create it with :func:`compare`, which puts ``operand`` into canonical form."""

    path: Path
    operator: str
    operand: Any

    @cached_property
    def accepts(self) -> Test:
        """Test of a canonical value (None if missing) against the operand."""
        return _compile(self.operator, self.operand)

    @cached_property
    def _matches(self) -> Callable[[Mapping[str, Any]], bool]:
        read, accepts, plain = value_getter(self.path), self.accepts, _PLAIN

        def matches(metadata: Mapping[str, Any]) -> bool:
            value = read(metadata)
            return accepts(value if type(value) in plain else canonical(value))

        return matches

    def keys(self) -> frozenset[Path]:
        """Return the one path."""
        return frozenset({self.path})

    def to_dict(self) -> dict[str, Any]:
        """Return ``{key: {operator: operand}}``."""
        return {join_key(self.path): {self.operator: _plain(self.operand)}}


@dataclass(frozen=True, repr=False)
class _Joined(Filter):
    parts: tuple[Filter, ...]

    def keys(self) -> frozenset[Path]:
        """Return the paths of all parts."""
        return frozenset[Path]().union(*(part.keys() for part in self.parts))


class And(_Joined):
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


class Or(_Joined):
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
        """Return the paths of the part."""
        return self.part.keys()

    def to_dict(self) -> dict[str, Any]:
        """Return ``{"$not": {...}}``."""
        return {"$not": self.part.to_dict()}


def _join(kind: type[And] | type[Or], parts: Iterable[Filter]) -> Filter:
    flat: list[Filter] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, kind) else (part,))
    return flat[0] if len(flat) == 1 else kind(tuple(flat))


def _operand_filter(other: Any) -> Filter | None:
    return _parse_part(other, 0) if isinstance(other, (Filter, Mapping)) else None


# -- operators -----------------------------------------------------------------------------------------------


def _compile(operator: str, operand: Any) -> Test:
    if operator in NEGATIONS:
        return _negated(_compile(NEGATIONS[operator], operand))
    match operator:
        case "$eq":
            return _is_one_of((operand,))
        case "$in":
            return _is_one_of(operand)
        case "$contains":
            return _contains(operand)
        case "$exists":
            return lambda value: (value is not None) is operand
    return _is_ordered(ORDERINGS[operator], operand)


def _negated(test: Test) -> Test:
    return lambda value: not test(value)


def _is_one_of(operands: Sequence[Any]) -> Test:
    equal = frozenset(operands)
    moments = {operand.seconds for operand in operands if type(operand) is CanonicalTime}
    instants = {seconds for operand in operands if (seconds := canonical_to_seconds(operand)) is not None}

    def test(value: Any) -> bool:
        if value in equal:
            return True
        if type(value) is CanonicalTime:
            return value.seconds in instants
        return bool(moments) and canonical_to_seconds(value) in moments

    return test


def _contains(operand: Any) -> Test:
    is_operand = _is_one_of((operand,))

    def test(value: Any) -> bool:
        if type(value) is tuple:
            return any(map(is_operand, value))
        return type(value) is str and type(operand) is str and operand in value

    return test


def _is_ordered(holds: Callable[[Any, Any], bool], operand: Any) -> Test:
    if type(operand) in _NUMBERS:
        return lambda value: type(value) in _NUMBERS and holds(value, operand)
    seconds = canonical_to_seconds(operand)
    if seconds is not None:
        return lambda value: (moment := canonical_to_seconds(value)) is not None and holds(moment, seconds)
    return lambda value: type(value) is str and holds(value, operand) and iso_seconds(value) is None


# -- parsing -------------------------------------------------------------------------------------------------


def parse_filter(value: Filter | Mapping[str, Any] | None) -> Filter | None:
    """Parse a filter object. Return None, meaning no filter, for None and for ``{}``.

    A Filter is returned unchanged. Raises FilterError for anything that the module docstring does not allow.

    >>> parse_filter({"author.name": "Ada", "year": {"$gte": 1843}}).matches({"author": {"name": "Ada"}})
    False
    """
    if value is None or isinstance(value, Filter):
        return value
    if not isinstance(value, Mapping):
        raise FilterError(
            f"{_json(value)} ({type(value).__name__}) is not a filter; pass an object such as "
            f'{_EXAMPLE}, or by_source("a.md")'
        )
    return _parse_object(value, 0) if value else None


def compare(key: str, operator: str, operand: Any) -> Comparison:
    """Compare a (dotted) key with an operand. Raises FilterError if the comparison could never match."""
    return Comparison(split_key(key), operator, _check_operand(key, operator, operand))


def _parse_object(value: Mapping[Any, Any], depth: int) -> Filter:
    _check_depth(depth)
    return _join(And, [_parse_entry(key, item, depth) for key, item in value.items()])


def _check_depth(depth: int) -> None:
    if depth > _DEEPEST:
        raise FilterError(
            f"a filter is nested more than {_DEEPEST} levels deep; list the parts side by side in one $and or $or"
        )


def _parse_part(value: Any, depth: int) -> Filter:
    if isinstance(value, Filter):
        return value
    if not isinstance(value, Mapping) or not value:
        raise FilterError(
            f"{_json(value)} is not a filter inside $and, $or or $not; write an object such as {_EXAMPLE}"
        )
    return _parse_object(value, depth + 1)


def _parse_entry(key: Any, value: Any, depth: int) -> Filter:
    if not isinstance(key, str):
        raise FilterError(f"the key {key!r} is not a string; write {_json({str(key): value})}")
    if key in ("$and", "$or"):
        return _join(And if key == "$and" else Or, [_parse_part(part, depth) for part in _parts(key, value)])
    if key == "$not":
        return ~_parse_part(value, depth)
    if key.startswith("$"):
        raise _misplaced(key, value)
    return _parse_field(key, value, depth)


def _parts(operator: str, value: Any) -> Sequence[Any]:
    if not isinstance(value, (list, tuple)) or not value:
        raise FilterError(
            f"{operator} takes a non-empty list of filters, not {_json(value)}; "
            f"write {_json({operator: [{'source': 'a.md'}, {'year': 2024}]})}"
        )
    return value


def _parse_field(key: str, value: Any, depth: int) -> Filter:
    _check_depth(depth)
    if isinstance(value, Mapping):
        if not value:
            raise FilterError(f"{_json({key: value})} has no operator; write {_json({key: {'$exists': True}})}")
        return _join(And, [_parse_operator(key, name, operand, depth) for name, operand in value.items()])
    if isinstance(value, (list, tuple, Set)):
        raise FilterError(
            f"{_json({key: value})} is ambiguous; write {_json({key: {'$in': value}})} for any of these values, "
            f"or {_json({key: {'$eq': value}})} for exactly this list"
        )
    return compare(key, "$eq", value)


def _parse_operator(key: str, operator: Any, operand: Any, depth: int) -> Filter:
    if operator == "$not":
        if not isinstance(operand, Mapping):
            raise FilterError(
                f"{_json({key: {'$not': operand}})} is a $not without an operator; "
                f"write {_json({key: {'$ne': operand}})}"
            )
        return ~_parse_field(key, operand, depth + 1)
    if operator == "$not_contains":
        return ~compare(key, "$contains", operand)
    if operator not in FIELD_OPERATORS:
        raise _unknown(key, operator, operand)
    return compare(key, operator, operand)


def _check_operand(key: str, operator: str, operand: Any) -> Any:
    if operator == "$exists":
        if not isinstance(operand, bool):
            raise _unusable(key, operator, operand, "true or false", True)
        return operand
    if operator in ("$in", "$nin"):
        if not isinstance(operand, (list, tuple, Set)):
            raise _unusable(key, operator, operand, "a list", [operand])
        return tuple(dict.fromkeys(_check_value(key, operator, item) for item in operand))
    value = _check_value(key, operator, operand)
    if operator == "$contains" and isinstance(value, (tuple, frozenset)):
        raise FilterError(
            f"{_json({key: {operator: operand}})} is ambiguous: $contains takes one element; "
            f'write has_labels(any_of=[...], key="{key}"), all_of= for all of them, '
            f"or {_json({'$or': [{key: {operator: 'a'}}, {key: {operator: 'b'}}]})}"
        )
    if operator in ORDERINGS and isinstance(value, (tuple, frozenset, CanonicalBool)):
        raise _unusable(key, operator, operand, "a number, a time or a string", 2024)
    return value


def _check_value(key: str, operator: str, operand: Any) -> Any:
    if operand is None:
        raise FilterError(
            f"{_json({key: {operator: None}})} compares with null, which counts as missing; "
            f"write {_json({key: {'$exists': False}})} for missing, {_json({key: {'$exists': True}})} for present"
        )
    try:
        if not _is_value(operand):
            raise _unusable(key, operator, operand, "a JSON value or a datetime", str(operand))
        value = canonical(operand)
        if _has_nan(value):
            raise _unusable(key, operator, operand, "a value that can equal another (not NaN)", 0)
    except RecursionError:
        raise _unusable(key, operator, operand, "a less deeply nested value", 0) from None
    return value


def _is_value(operand: Any) -> bool:
    if isinstance(operand, Mapping):
        return all(map(_is_value, operand.values()))
    if isinstance(operand, (list, tuple, Set)):
        return all(map(_is_value, operand))
    return operand is None or isinstance(operand, (str, Real, date)) or hasattr(operand, "tolist")


def _has_nan(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_has_nan, value))
    if isinstance(value, frozenset):
        return any(_has_nan(item) for _, item in value)
    return isinstance(value, float) and math.isnan(value)


# -- errors --------------------------------------------------------------------------------------------------

_EXAMPLE = '{"source": "a.md"}'


def _unknown(key: str, operator: Any, operand: Any) -> FilterError:
    from difflib import get_close_matches

    near = get_close_matches("$" + str(operator).lstrip("$"), FIELD_OPERATORS, n=1) or ["$eq"]
    message = (
        f"{operator!r} on {key!r} is not an operator; a field takes {' '.join(FIELD_OPERATORS)}. "
        f"Write {_json({key: {near[0]: operand}})}"
    )
    if not str(operator).startswith("$"):
        inner, whole = {f"{key}.{operator}": operand}, {key: {"$eq": {operator: operand}}}
        message += f"; or {_json(inner)} to look inside an object, {_json(whole)} to compare a complete object"
    return FilterError(message)


def _misplaced(operator: str, value: Any) -> FilterError:
    joining = " ".join(JOINING_OPERATORS)
    if operator in FIELD_OPERATORS:
        return FilterError(
            f"{operator} needs a field, only {joining} do not; write {_json({'field': {operator: value}})}"
        )
    return FilterError(
        f"{quote_value(operator)} is not an operator; filters are combined with {joining}, and a field takes "
        f"{' '.join(FIELD_OPERATORS)}. Write {_json({'$or': [{'source': 'a.md'}, {'year': {'$gte': 2020}}]})}; "
        f"a key that begins with a dollar sign is written {_json(chr(92) + operator)}"
    )


def _unusable(key: str, operator: str, operand: Any, expected: str, example: Any) -> FilterError:
    return FilterError(
        f"{operator} on {quote_value(key)} takes {expected}, not {_json(operand)} ({type(operand).__name__}); "
        f"write {_json({key: {operator: example}})}"
    )


def _json(value: Any) -> str:
    try:
        text = json.dumps(value, default=_json_default, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):  # non-string keys, a list that contains itself
        text = reprlib.repr(value)
    return text if len(text) <= 160 else text[:157] + "..."


def _json_default(value: Any) -> Any:
    return list(value) if isinstance(value, Set) else str(value)


# -- constructors --------------------------------------------------------------------------------------------


def by_document(*ids: str, key: str = "document_id") -> Filter:
    """Match the chunks of these documents; without ids, match nothing.

    >>> by_document("a", "b").matches({"document_id": "b"})
    True
    """
    return compare(key, "$in", ids)


def exclude_document(*ids: str, key: str = "document_id") -> Filter:
    """Match the chunks of all other documents; without ids, match everything.

    >>> exclude_document("a").matches({"document_id": "b"})
    True
    """
    return compare(key, "$nin", ids)


def by_source(*sources: str, key: str = "source") -> Filter:
    """Match the chunks from these sources (paths, URLs), compared as text; without sources, match nothing.

    >>> by_source("a.md").matches({"source": "a.md"})
    True
    """
    return compare(key, "$in", sources)


def by_meta(**equals: Any) -> Filter:
    """Match the chunks whose metadata equals all of these values. Raises FilterError without any.

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
    return _join(And, [compare(key, "$eq", value) for key, value in equals.items()])


def created_after(t: Any, *, key: str = "created_at") -> Filter:
    """Match the chunks created later than ``t``, which :func:`~langchain_hybridgraph.times.parse_time` parses.

    The comparison is strict (``$gt``). The metadata may contain an ISO time or Unix seconds.

    >>> created_after("2024-05-01").matches({"created_at": 1714525200.0})
    True
    """
    return _created("$gt", t, key)


def created_before(t: Any, *, key: str = "created_at") -> Filter:
    """Match the chunks created earlier than ``t`` (``$lt``), parsed as in :func:`created_after`.

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
    """Match the chunks whose list of labels contains at least one of ``any_of`` and all of ``all_of``.

    An empty ``any_of`` matches nothing. Raises FilterError without any labels. If the metadata holds a string instead
    of a list of labels, the labels are searched for as substrings, as with ``$contains``.

    >>> has_labels(any_of=["api", "web"], all_of=["public"]).matches({"labels": ["public", "web"]})
    True
    """
    parts: list[Filter] = [compare(key, "$contains", label) for label in _several(all_of)]
    if any_of is not None:
        choices = [compare(key, "$contains", label) for label in _several(any_of)]
        parts.append(_join(Or, choices) if choices else compare(key, "$in", ()))
    if not parts:
        raise FilterError('has_labels() got no labels; write has_labels(any_of=["a", "b"])')
    return _join(And, parts)


def _several(labels: str | Iterable[str]) -> Iterable[str]:
    return (labels,) if isinstance(labels, str) else labels


def _created(operator: str, t: Any, key: str) -> Filter:
    try:
        seconds = parse_time(t)
    except ValueError as error:
        raise FilterError(str(error)) from error
    return _join(Or, [compare(key, operator, iso_time(seconds)), compare(key, operator, seconds)])
