r"""The one filter language: build, parse, check.

A filter is written like Chroma's and Mongo's, or built by :func:`by_source` and its like and joined by ``& | ~``:

>>> recent = parse_filter({"labels": {"$contains": "api"}, "year": {"$gte": 2020, "$lt": 2030}})
>>> recent.matches({"labels": ["api", "web"], "year": 2024})
True
>>> (recent & ~by_source("old.md")).matches({"labels": ["api"], "year": 2024, "source": "old.md"})
False

What each operator accepts, for a metadata value v and an operand x:

==================  ========================================================================================
``$eq``             v equals x. ``{"key": x}`` is short for it when x is a string, a number, a bool or a time
``$ne``             not ``$eq``, so a missing key matches
``$in``             v equals one of the x; an empty list matches nothing
``$nin``            not ``$in``, so a missing key matches, and an empty list matches everything
``$gt $gte``        v and x are both numbers, or both times, or both other strings, and stand in this order; all
``$lt $lte``        else is no match: bools, lists, objects, a time and a number, a time and another string
``$contains``       x (a string, a number, a bool or a time) is an element of the list v, or a substring of
                    the string v, case and all; an object has no elements
``$not_contains``   short for ``{"$not": {"key": {"$contains": x}}}``
``$exists``         true: v is there; false: it is missing
``$and $or $not``   ``$and`` and ``$or`` take a list of filters, not empty; ``$not`` takes one filter, or stands
                    in a field: ``{"year": {"$not": {"$gt": 2020}}}``
several             several keys, or several operators on one key, must all match
==================  ========================================================================================

What is missing, what is equal, what is a time, what is a key:

- Null equals missing. A missing key matches only ``$ne``, ``$nin``, ``$not`` (and so ``$not_contains``) and
  ``{"$exists": false}``. An empty list, object or string is there.
- True is not 1 and false is not 0, at any depth; 1 is 1.0, exactly (2**53 + 1 is not 2.0**53). NaN is there,
  but equals nothing and stands in no order. Infinity is the largest number.
- A list equals a list of equal elements in the same order, an object an object of equal keys and values. A list
  never equals one of its elements; that is ``$contains``. Strings are equal, and ordered, by code points.
- A time is a ``datetime``, a ``date`` or a string such as ``2024-05-01``, ``2024-05-01T10:00``,
  ``2024-05-01 10:00:00.5+02:00``; without a zone it is UTC. Times are ordered by instant. Two strings are equal
  as text only, but a ``datetime`` on either side equals every time of the same instant. Inside a list or an
  object a ``datetime`` is its ISO text.
- Dots in a key walk into objects, never into lists; ``\.`` is a dot in a name, ``\\`` a backslash, ``\$`` a dollar.
- ``None`` and ``{}`` are no filter at all: everything matches. ``{}`` inside a filter is an error.

Nothing is ever dropped: an unknown operator, an operand that could never match (null, NaN, an order of bools), a
list or an object without its operator raise :class:`~langchain_hybridgraph.errors.FilterError`.
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

from langchain_hybridgraph.errors import FilterError, brief
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


class Truth(Enum):
    """A bool in canonical form: Python's True would equal 1."""

    FALSE = False
    TRUE = True


@dataclass(frozen=True, slots=True)
class Moment:
    """A datetime in canonical form, unix seconds UTC."""

    seconds: float


_PLAIN = frozenset({str, int, float, type(None)})
_NUMBERS = frozenset({int, float})


def canonical(value: Any) -> Any:
    """A metadata value as something hashable that is equal exactly when the filter language says so.

    Strings, numbers and None stay; a bool becomes a :class:`Truth`, a list a tuple, an object a frozenset of
    its items, a datetime a :class:`Moment`; numpy's values become Python's, anything else its text. A Moment
    and the text of its instant are the one pair that the language calls equal and ``==`` does not.
    """
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Mapping):
        return frozenset((str(key), _element(item)) for key, item in value.items())
    if isinstance(value, (list, tuple, Set)):
        return tuple(map(_element, value))
    return _canonical_scalar(value)


def instant(value: Any) -> float | None:
    """Unix seconds of a canonical value that is a time, else None."""
    if type(value) is str:
        return iso_seconds(value)
    return value.seconds if type(value) is Moment else None


def reader(path: Path) -> Callable[[Mapping[str, Any]], Any]:
    """A function that gives the value at ``path`` as it stands in the metadata, None when it is missing."""
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
    r"""The names that a dotted key walks through.

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
    r"""The dotted key that :func:`split_key` splits into ``path``.

    >>> join_key(("author", "v1.2"))
    'author.v1\\.2'
    """
    key = ".".join(name.replace("\\", r"\\").replace(".", r"\.") for name in path)
    return "\\" + key if key.startswith("$") else key


def _canonical_scalar(value: Any) -> Any:
    if isinstance(value, bool):
        return Truth(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, date):
        return Moment(parse_time(value))
    if isinstance(value, Real):
        return int(value) if isinstance(value, Integral) else float(value)
    return canonical(value.tolist()) if hasattr(value, "tolist") else str(value)


def _element(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else canonical(value)


def _plain(value: Any) -> Any:
    """The Python value of a canonical one."""
    if isinstance(value, Truth):
        return value.value
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, frozenset):
        return {key: _plain(item) for key, item in sorted(value, key=lambda pair: str(pair[0]))}
    if isinstance(value, Moment):
        return datetime.fromtimestamp(value.seconds, UTC)
    return value


# -- filters -------------------------------------------------------------------------------------------------


class Filter(ABC):
    """A condition on metadata: immutable, hashable, equal to a filter of the same structure.

    Joined by ``&``, ``|`` and ``~``. Python's ``and``, ``or`` and ``not`` would drop a side, so they raise
    FilterError; ask ``filter is None`` to see whether there is one.

    >>> by_source("a.md") | {"year": 2024}
    parse_filter({'$or': [{'source': {'$in': ['a.md']}}, {'year': {'$eq': 2024}}]})
    """

    def matches(self, metadata: Mapping[str, Any]) -> bool:
        """Whether the metadata satisfies the filter; the table above is what this does."""
        return self._matches(metadata)

    @cached_property
    @abstractmethod
    def _matches(self) -> Callable[[Mapping[str, Any]], bool]:
        """:meth:`matches`, compiled once."""

    @abstractmethod
    def keys(self) -> frozenset[Path]:
        """The paths that the filter reads, as :func:`split_key` gives them."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The filter as an object that :func:`parse_filter` reads back as an equal filter."""

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
            f"{self!r} has no truth of its own: join filters with & | ~ (not with and, or, not), "
            "and ask `filter is None` to see whether there is one"
        )

    def __repr__(self) -> str:
        return f"parse_filter({self.to_dict()!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # The compiled closures can be neither copied nor sent to another process.
        return parse_filter, (self.to_dict(),)


@dataclass(frozen=True, repr=False)
class Comparison(Filter):
    """One operator on one key; made by :func:`compare`, which sees to it that ``operand`` is canonical."""

    path: Path
    operator: str
    operand: Any

    @cached_property
    def accepts(self) -> Test:
        """Whether a canonical value (None: missing) satisfies the comparison."""
        return _compile(self.operator, self.operand)

    @cached_property
    def _matches(self) -> Callable[[Mapping[str, Any]], bool]:
        read, accepts, plain = reader(self.path), self.accepts, _PLAIN

        def matches(metadata: Mapping[str, Any]) -> bool:
            value = read(metadata)
            return accepts(value if type(value) in plain else canonical(value))

        return matches

    def keys(self) -> frozenset[Path]:
        """The one path."""
        return frozenset({self.path})

    def to_dict(self) -> dict[str, Any]:
        """``{key: {operator: operand}}``."""
        return {join_key(self.path): {self.operator: _plain(self.operand)}}


@dataclass(frozen=True, repr=False)
class _Joined(Filter):
    parts: tuple[Filter, ...]

    def keys(self) -> frozenset[Path]:
        """The paths of all parts."""
        return frozenset[Path]().union(*(part.keys() for part in self.parts))


class And(_Joined):
    """All parts match."""

    @cached_property
    def _matches(self) -> Callable[[Mapping[str, Any]], bool]:
        tests = [part._matches for part in self.parts]

        def matches(metadata: Mapping[str, Any]) -> bool:
            for test in tests:  # noqa: SIM110  # a third faster than all() over a generator
                if not test(metadata):
                    return False
            return True

        return matches

    def to_dict(self) -> dict[str, Any]:
        """``{"$and": [...]}``."""
        return {"$and": [part.to_dict() for part in self.parts]}


class Or(_Joined):
    """At least one part matches."""

    @cached_property
    def _matches(self) -> Callable[[Mapping[str, Any]], bool]:
        tests = [part._matches for part in self.parts]

        def matches(metadata: Mapping[str, Any]) -> bool:
            for test in tests:  # noqa: SIM110  # a third faster than any() over a generator
                if test(metadata):
                    return True
            return False

        return matches

    def to_dict(self) -> dict[str, Any]:
        """``{"$or": [...]}``."""
        return {"$or": [part.to_dict() for part in self.parts]}


@dataclass(frozen=True, repr=False)
class Not(Filter):
    """The part does not match."""

    part: Filter

    @cached_property
    def _matches(self) -> Callable[[Mapping[str, Any]], bool]:
        test = self.part._matches
        return lambda metadata: not test(metadata)

    def __invert__(self) -> Filter:
        return self.part

    def keys(self) -> frozenset[Path]:
        """The paths of the part."""
        return self.part.keys()

    def to_dict(self) -> dict[str, Any]:
        """``{"$not": {...}}``."""
        return {"$not": self.part.to_dict()}


def _join(kind: type[And] | type[Or], parts: Iterable[Filter]) -> Filter:
    flat: list[Filter] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, kind) else (part,))
    return flat[0] if len(flat) == 1 else kind(tuple(flat))


def _operand_filter(other: Any) -> Filter | None:
    return _parse_part(other, 0) if isinstance(other, (Filter, Mapping)) else None


# -- what each operator accepts ------------------------------------------------------------------------------


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
    return _stands(ORDERINGS[operator], operand)


def _negated(test: Test) -> Test:
    return lambda value: not test(value)


def _is_one_of(operands: Sequence[Any]) -> Test:
    equal = frozenset(operands)
    moments = {operand.seconds for operand in operands if type(operand) is Moment}
    instants = {seconds for operand in operands if (seconds := instant(operand)) is not None}

    def test(value: Any) -> bool:
        if value in equal:
            return True
        if type(value) is Moment:
            return value.seconds in instants
        return bool(moments) and instant(value) in moments

    return test


def _contains(operand: Any) -> Test:
    is_operand = _is_one_of((operand,))

    def test(value: Any) -> bool:
        if type(value) is tuple:
            return any(map(is_operand, value))
        return type(value) is str and type(operand) is str and operand in value

    return test


def _stands(holds: Callable[[Any, Any], bool], operand: Any) -> Test:
    if type(operand) in _NUMBERS:
        return lambda value: type(value) in _NUMBERS and holds(value, operand)
    seconds = instant(operand)
    if seconds is not None:
        return lambda value: (moment := instant(value)) is not None and holds(moment, seconds)
    return lambda value: type(value) is str and holds(value, operand) and iso_seconds(value) is None


# -- parsing -------------------------------------------------------------------------------------------------


def parse_filter(value: Filter | Mapping[str, Any] | None) -> Filter | None:
    """The filter that an object describes; None (no filter at all) for None and for ``{}``.

    A Filter comes back as it is. Raises FilterError for everything that is not in the table above.

    >>> parse_filter({"author.name": "Ada", "year": {"$gte": 1843}}).matches({"author": {"name": "Ada"}})
    False
    """
    if value is None or isinstance(value, Filter):
        return value
    if not isinstance(value, Mapping):
        raise FilterError(
            f"{_json(value)} ({type(value).__name__}) is not a filter; a filter is an object such as "
            f'{_EXAMPLE}, or made by by_source("a.md")'
        )
    return _parse_object(value, 0) if value else None


def compare(key: str, operator: str, operand: Any) -> Comparison:
    """The comparison of a (dotted) key with an operand; raises FilterError when it could never match."""
    return Comparison(split_key(key), operator, _check_operand(key, operator, operand))


def _parse_object(value: Mapping[Any, Any], depth: int) -> Filter:
    _check_depth(depth)
    return _join(And, [_parse_entry(key, item, depth) for key, item in value.items()])


def _check_depth(depth: int) -> None:
    if depth > _DEEPEST:
        raise FilterError(
            f"a filter is nested more than {_DEEPEST} levels deep; put the parts side by side in one $and or $or"
        )


def _parse_part(value: Any, depth: int) -> Filter:
    if isinstance(value, Filter):
        return value
    if not isinstance(value, Mapping) or not value:
        raise FilterError(f"{_json(value)} stands where a filter is wanted; write an object such as {_EXAMPLE}")
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
            f"{operator} takes a list of filters that is not empty, not {_json(value)}; "
            f"write {_json({operator: [{'source': 'a.md'}, {'year': 2024}]})}"
        )
    return value


def _parse_field(key: str, value: Any, depth: int) -> Filter:
    _check_depth(depth)
    if isinstance(value, Mapping):
        if not value:
            raise FilterError(f"{_json({key: value})} names no operator; write {_json({key: {'$exists': True}})}")
        return _join(And, [_parse_operator(key, name, operand, depth) for name, operand in value.items()])
    if isinstance(value, (list, tuple, Set)):
        raise FilterError(
            f"{_json({key: value})} is ambiguous; write {_json({key: {'$in': value}})} for one of these, "
            f"or {_json({key: {'$eq': value}})} for this very list"
        )
    return compare(key, "$eq", value)


def _parse_operator(key: str, operator: Any, operand: Any, depth: int) -> Filter:
    if operator == "$not":
        if not isinstance(operand, Mapping):
            raise FilterError(
                f"{_json({key: {'$not': operand}})} negates no operator; write {_json({key: {'$ne': operand}})}"
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
            f"{_json({key: {operator: operand}})} is ambiguous, $contains takes one element; "
            f'write has_labels(any_of=[...], key="{key}"), all_of= for all of them, '
            f"or {_json({'$or': [{key: {operator: 'a'}}, {key: {operator: 'b'}}]})}"
        )
    if operator in ORDERINGS and isinstance(value, (tuple, frozenset, Truth)):
        raise _unusable(key, operator, operand, "a number, a time or a string", 2024)
    return value


def _check_value(key: str, operator: str, operand: Any) -> Any:
    if operand is None:
        raise FilterError(
            f"{_json({key: {operator: None}})} compares with null, which equals missing; "
            f"write {_json({key: {'$exists': False}})} for missing, {_json({key: {'$exists': True}})} for there"
        )
    try:
        if not _is_value(operand):
            raise _unusable(key, operator, operand, "a JSON value or a datetime", str(operand))
        value = canonical(operand)
        if _has_nan(value):
            raise _unusable(key, operator, operand, "a value that something can equal", 0)
    except RecursionError:
        raise _unusable(key, operator, operand, "a value of fewer levels", 0) from None
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


# -- what is said about a filter that is none ----------------------------------------------------------------

_EXAMPLE = '{"source": "a.md"}'


def _unknown(key: str, operator: Any, operand: Any) -> FilterError:
    from difflib import get_close_matches

    near = get_close_matches("$" + str(operator).lstrip("$"), FIELD_OPERATORS, n=1) or ["$eq"]
    said = (
        f"{operator!r} on {key!r} is not an operator; a field takes {' '.join(FIELD_OPERATORS)}. "
        f"Write {_json({key: {near[0]: operand}})}"
    )
    if not str(operator).startswith("$"):
        inner, whole = {f"{key}.{operator}": operand}, {key: {"$eq": {operator: operand}}}
        said += f"; or {_json(inner)} to look into an object, {_json(whole)} for a whole one"
    return FilterError(said)


def _misplaced(operator: str, value: Any) -> FilterError:
    joining = " ".join(JOINING_OPERATORS)
    if operator in FIELD_OPERATORS:
        return FilterError(
            f"{operator} stands without a field, as only {joining} do; write {_json({'field': {operator: value}})}"
        )
    return FilterError(
        f"{brief(operator)} is not an operator; filters are joined by {joining}, a field takes "
        f"{' '.join(FIELD_OPERATORS)}. Write {_json({'$or': [{'source': 'a.md'}, {'year': {'$gte': 2020}}]})}; "
        f"a key that begins with a dollar is written {_json(chr(92) + operator)}"
    )


def _unusable(key: str, operator: str, operand: Any, wanted: str, example: Any) -> FilterError:
    return FilterError(
        f"{operator} on {brief(key)} takes {wanted}, not {_json(operand)} ({type(operand).__name__}); "
        f"write {_json({key: {operator: example}})}"
    )


def _json(value: Any) -> str:
    try:
        text = json.dumps(value, default=_json_default, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):  # keys that are no strings, a list that holds itself
        text = reprlib.repr(value)
    return text if len(text) <= 160 else text[:157] + "..."


def _json_default(value: Any) -> Any:
    return list(value) if isinstance(value, Set) else str(value)


# -- constructors --------------------------------------------------------------------------------------------


def by_document(*ids: str, key: str = "document_id") -> Filter:
    """The chunks of these documents; nothing without ids.

    >>> by_document("a", "b").matches({"document_id": "b"})
    True
    """
    return compare(key, "$in", ids)


def exclude_document(*ids: str, key: str = "document_id") -> Filter:
    """The chunks of all other documents; everything without ids.

    >>> exclude_document("a").matches({"document_id": "b"})
    True
    """
    return compare(key, "$nin", ids)


def by_source(*sources: str, key: str = "source") -> Filter:
    """The chunks from these sources (paths, addresses), equal as text; nothing without sources.

    >>> by_source("a.md").matches({"source": "a.md"})
    True
    """
    return compare(key, "$in", sources)


def by_meta(**equals: Any) -> Filter:
    """The chunks whose metadata equals all of these values; raises FilterError without any.

    >>> by_meta(lang="en", **{"author.name": "Ada"}).matches({"lang": "en", "author": {"name": "Ada"}})
    True
    """
    if not equals:
        raise FilterError('by_meta() asks for nothing; write by_meta(lang="en")')
    for key, value in equals.items():
        if isinstance(value, Mapping) and any(str(inner).startswith("$") for inner in value):
            raise FilterError(
                f"by_meta({key}={value!r}) asks for equality; an operator is written {{{key!r}: {value!r}}}"
            )
    return _join(And, [compare(key, "$eq", value) for key, value in equals.items()])


def created_after(t: Any, *, key: str = "created_at") -> Filter:
    """The chunks created later than t, as :func:`~langchain_hybridgraph.times.parse_time` reads it.

    Later, not at: it is ``$gt``. The metadata may hold an ISO time or unix seconds.

    >>> created_after("2024-05-01").matches({"created_at": 1714525200.0})
    True
    """
    return _created("$gt", t, key)


def created_before(t: Any, *, key: str = "created_at") -> Filter:
    """The chunks created earlier than t (``$lt``), as :func:`created_after` reads it.

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
    """The chunks whose list of labels holds one of ``any_of`` and all of ``all_of``.

    An empty ``any_of`` matches nothing. Raises FilterError when nothing is asked for. A text in place of the list
    of labels is searched as a text, as ``$contains`` does.

    >>> has_labels(any_of=["api", "web"], all_of=["public"]).matches({"labels": ["public", "web"]})
    True
    """
    parts: list[Filter] = [compare(key, "$contains", label) for label in _several(all_of)]
    if any_of is not None:
        choices = [compare(key, "$contains", label) for label in _several(any_of)]
        parts.append(_join(Or, choices) if choices else compare(key, "$in", ()))
    if not parts:
        raise FilterError('has_labels() asks for nothing; write has_labels(any_of=["a", "b"])')
    return _join(And, parts)


def _several(labels: str | Iterable[str]) -> Iterable[str]:
    return (labels,) if isinstance(labels, str) else labels


def _created(operator: str, t: Any, key: str) -> Filter:
    try:
        seconds = parse_time(t)
    except ValueError as error:
        raise FilterError(str(error)) from error
    return _join(Or, [compare(key, operator, iso_time(seconds)), compare(key, operator, seconds)])
