"""Canonical form of metadata values and operands."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import Enum
from numbers import Integral, Real
from typing import Any

from langchain_hybridgraph.times import iso_seconds, parse_time


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

    Strings, numbers and None are unchanged. A bool becomes a :class:`CanonicalBool`, a list becomes a tuple, and an
    object becomes a frozenset of its items. A date or datetime becomes a :class:`CanonicalTime` or, inside a list or
    object, an ISO 8601 string. A NumPy value becomes a Python value, and anything else is converted with ``str``.

    ``==`` differs from the filter language in one case: a datetime and a string for the same instant are equal only in
    the filter language.
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
        return CanonicalTime(parse_time(value))
    if isinstance(value, Real):
        return int(value) if isinstance(value, Integral) else float(value)
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
