"""Operators of filters, and advice about malformed ones."""

import json
import operator as python_operator
import re
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, date, datetime
from difflib import get_close_matches
from enum import Enum
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, NamedTuple

from langchain_hybridgraph.errors import FilterError, quote_value
from langchain_hybridgraph.times import iso_seconds, parse_time

# Canonical form of metadata values and operands.


class CanonicalBool(Enum):
    """A bool in canonical form. A Python bool cannot be used, because True equals 1."""

    FALSE = False
    TRUE = True


@dataclass(frozen=True, slots=True)
class CanonicalTime:
    """A date or datetime in canonical form: Unix seconds."""

    seconds: float


PLAIN = frozenset({str, int, float, type(None)})
"""Types of values that are already in canonical form."""


def canonical(value: Any) -> Any:
    """Convert a metadata value to a hashable form in which ``==`` follows the rules of the filter language.

    Strings, numbers and None are unchanged. A bool becomes a :class:`CanonicalBool`, a list a tuple, and an object a
    frozenset of its items. A date or datetime becomes a :class:`CanonicalTime` or, inside a list or object, an ISO 8601
    string. A NumPy value becomes a Python value, NaT becomes None, and anything else is converted with ``str``. Only a
    datetime and a string for the same instant, which are equal in the filter language, differ.
    """
    if type(value) in PLAIN:
        return value
    if isinstance(value, Mapping):
        return frozenset((str(key), _element(item)) for key, item in value.items())
    if isinstance(value, (list, tuple, Set)):
        return tuple(map(_element, value))
    return _canonical_scalar(value)


def canonical_to_seconds(value: Any) -> float | None:
    """Return the Unix seconds of a canonical value that is a time, or None for any other value."""
    if type(value) is str:
        return iso_seconds(value)
    return value.seconds if type(value) is CanonicalTime else None


def _canonical_scalar(value: Any) -> Any:
    if isinstance(value, bool):
        return CanonicalBool(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, date):
        return CanonicalTime(parse_time(value)) if value == value else None  # noqa: PLR0124 - NaT, which is missing
    if isinstance(value, Real):
        return int(value) if isinstance(value, Integral) else float(value)
    if getattr(getattr(value, "dtype", None), "kind", "") == "M":  # Python has no nanoseconds
        value = value.astype("datetime64[us]")
    return canonical(value.tolist()) if hasattr(value, "tolist") else str(value)


def _element(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else canonical(value)


def to_python(value: Any) -> Any:
    """Convert a canonical value back to a Python value."""
    if isinstance(value, CanonicalBool):
        return value.value
    if isinstance(value, tuple):
        return [to_python(item) for item in value]
    if isinstance(value, frozenset):
        return {key: to_python(item) for key, item in sorted(value, key=lambda pair: str(pair[0]))}
    if isinstance(value, CanonicalTime):
        return datetime.fromtimestamp(value.seconds, UTC)
    return value


# Dotted metadata keys.

Path = tuple[str, ...]
"""Keys that lead to a value in nested objects, outermost first."""


def value_getter(path: Path) -> Callable[[Mapping[str, Any]], Any]:
    """Return a function that reads the unconverted value at ``path`` from metadata; a missing value is None."""
    if len(path) == 1:
        (key,) = path
        return lambda metadata: metadata.get(key)

    def nested_value(metadata: Mapping[str, Any]) -> Any:
        value: Any = metadata
        for key in path:
            if not isinstance(value, Mapping):
                return None
            value = value.get(key)
        return value

    return nested_value


def metadata_values(metadata: Mapping[str, Any], above: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the path and the unconverted value of each key to which a filter may refer, except null values."""
    for key, value in metadata.items():
        if value is not None:
            yield (*above, key), value
            if isinstance(value, Mapping):
                yield from metadata_values(value, (*above, key))


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


# Operators and their evaluation.

Test = Callable[[Any], bool]
"""Function that takes a canonical value (None if it is missing) and returns whether it matches."""


class Ordering(NamedTuple):
    """Operator that compares two numbers, times or strings by order, and its opposite (``negation``).

    ``holds`` also compares each number in an array with a number.
    """

    symbol: str
    negation: str
    holds: Callable[[Any, Any], bool]

    @property
    def is_lower_bound(self) -> bool:
        """Whether the operand is a lower bound for the value."""
        return self.symbol.startswith(">")


ORDERINGS: Mapping[str, Ordering] = MappingProxyType(
    {
        "$gt": Ordering(">", "$lte", python_operator.gt),
        "$gte": Ordering(">=", "$lt", python_operator.ge),
        "$lt": Ordering("<", "$gte", python_operator.lt),
        "$lte": Ordering("<=", "$gt", python_operator.le),
    }
)
NEGATIONS: Mapping[str, str] = MappingProxyType({"$ne": "$eq", "$nin": "$in"})
"""Operators that negate another operator, mapped to that operator."""
FIELD_OPERATORS = ("$eq", "$ne", *ORDERINGS, "$in", "$nin", "$contains", "$not_contains", "$exists", "$not")
SYMBOLS: Mapping[str, str] = MappingProxyType(
    {"=": "$eq", "==": "$eq", "!=": "$ne", "<>": "$ne", ">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte"}
)
"""Symbols that may be written instead of an operator."""
JOINING_OPERATORS = ("$and", "$or", "$not")
_NUMBERS = frozenset({int, float})


def compile_test(operator: str, operand: Any) -> Test:
    """Return a function that tests values with an operator and an operand. Operand and values are in canonical form."""
    if operator in NEGATIONS:
        test = compile_test(NEGATIONS[operator], operand)
        return lambda value: not test(value)
    match operator:
        case "$eq":
            return _is_one_of((operand,))
        case "$in":
            return _is_one_of(operand)
        case "$contains":
            return _contains(operand)
        case "$exists":
            return lambda value: (value is not None) is operand
    return _is_ordered(ORDERINGS[operator].holds, operand)


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


# Errors about invalid filters.

EXAMPLE = '{"source": "a.md"}'
"""Example of a filter for error messages."""
EXAMPLES = ({"source": "a.md"}, {"year": 2024})
"""Examples of filters to combine."""


# Names of operators in other languages, in lower case and without a dollar sign, and the operator of the same meaning.
_OTHER_NAMES: Mapping[str, str] = MappingProxyType(
    {
        **{name.removeprefix("$"): name for name in FIELD_OPERATORS},
        **dict.fromkeys(("equals", "is", "match"), "$eq"),
        **dict.fromkeys(("neq", "not_equals", "is_not"), "$ne"),
        **{"ge": "$gte", "le": "$lte", "any": "$in", "not_in": "$nin", "not in": "$nin", "has": "$contains"},
    }
)
_PATTERNS = frozenset({"like", "ilike", "regex", "glob"})
_PARTS_OF_TEXT = frozenset({*_PATTERNS, "startswith", "starts_with", "prefix", "endswith", "ends_with", "text"})
_WILDCARDS = re.compile(r"[%_*?^$.|+\\(){}\[\]]+")
_COMBINATIONS: Mapping[str, str] = MappingProxyType(
    {"must": "$and", "filter": "$and", "should": "$or", "must_not": "$nor", "and": "$and", "or": "$or", "nor": "$nor"}
)


def not_a_filter(value: Any) -> FilterError:
    """Return the error for a value that is not a filter."""
    return FilterError(
        f"{as_json(value)} ({type(value).__name__}) is not a filter; pass an object such as {EXAMPLE}, or "
        'by_source("a.md")'
    )


def unknown_operator(key: str, operator: Any, operand: Any) -> FilterError:
    """Return the error for an unknown operator; for those of MongoDB, SQL and others, with the filter to write."""
    advice = _advice(key, str(operator).removeprefix("$").casefold(), operand)
    if not advice and not str(operator).startswith("$"):
        inner, complete = {f"{key}.{operator}": operand}, {key: {"$eq": {operator: operand}}}
        advice = f". Write {as_json(inner)} to look inside an object, {as_json(complete)} to compare a complete object"
    elif not advice and (near := get_close_matches(operator, FIELD_OPERATORS, n=1, cutoff=0.8)):
        advice = f". Did you mean {as_json({key: {near[0]: operand}})}?"
    return FilterError(f"{operator!r} on {key!r} is not an operator; a field takes {' '.join(FIELD_OPERATORS)}{advice}")


def _advice(key: str, name: str, operand: Any) -> str:
    parts = operand if isinstance(operand, list | tuple) else [operand]
    positive, note = name.removeprefix("not").lstrip(" _"), ""
    correction: dict[str, Any]
    if name in _OTHER_NAMES:
        operator = _OTHER_NAMES[name]
        correction = {key: {operator: list(parts) if operator in ("$in", "$nin") else operand}}
    elif positive in _PARTS_OF_TEXT:
        note = ". There are no patterns; $contains finds a part of a text, and upper case differs from lower case"
        if isinstance(operand, str) and positive in _PATTERNS:
            operand = max(_WILDCARDS.split(operand), key=len)
        correction = {key: {"$contains" if positive == name else "$not_contains": operand}}
    elif name == "all":
        correction = {"$and": [{key: {"$contains": part}} for part in parts]}
    elif name in ("and", "or", "nor"):
        correction = {f"${name}": [{key: part} for part in parts]}
    else:
        return ""
    return f"{note}. Write {as_json(correction)}"


def foreign_combination(key: str, value: Any) -> FilterError | None:
    """Return the error for filters under a name from another language, such as Qdrant's ``must``, else None."""
    operator = _COMBINATIONS.get(key.casefold())
    if operator is None or not isinstance(value, list | tuple) or not any(isinstance(part, Mapping) for part in value):
        return None
    return FilterError(
        f"{key!r} does not combine filters; {' '.join(JOINING_OPERATORS)} do. Write {as_json({operator: EXAMPLES})}"
    )


def misplaced_operator(operator: str, value: Any) -> FilterError:
    """Return the error for an operator used where a key is expected."""
    joining = " ".join(JOINING_OPERATORS)
    if operator in FIELD_OPERATORS:
        return FilterError(
            f"{operator} needs a field; only {joining} can be used without one. "
            f"Write {as_json({'field': {operator: value}})}"
        )
    if operator in ("$text", "$search"):
        return FilterError(f"{operator} is not an operator; pass the words to search for as the query")
    return FilterError(
        f"{quote_value(operator)} is not an operator; filters are combined with {joining}, and a field takes "
        f"{' '.join(FIELD_OPERATORS)}; a key that begins with a dollar sign is written {as_json(chr(92) + operator)}"
    )


def unusable_operand(key: str, operator: str, operand: Any, expected: str, example: Any) -> FilterError:
    """Return the error for an operand of the wrong kind."""
    return FilterError(
        f"{operator} on {quote_value(key)} takes {expected}, not {as_json(operand)} ({type(operand).__name__}); "
        f"write {as_json({key: {operator: example}})}"
    )


def as_json(value: Any) -> str:
    """Return a value as JSON (with lists for sets, and strings or ``repr`` for others), cut to 160 characters."""
    try:
        text = json.dumps(
            value, default=lambda one: list(one) if isinstance(one, Set) else str(one), ensure_ascii=False
        )
    except (TypeError, ValueError, RecursionError):  # non-string keys, a list that contains itself
        text = reprlib.repr(value)
    return text if len(text) <= 160 else text[:157] + "..."
