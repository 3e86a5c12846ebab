"""Metadata of chunks: known keys and storable values."""

from __future__ import annotations

import json
import logging
import reprlib
from collections.abc import Callable, Mapping
from datetime import date
from numbers import Real
from typing import Any, NamedTuple

from langchain_hybridgraph.errors import quote_value
from langchain_hybridgraph.records.chunks import replace_surrogates
from langchain_hybridgraph.times import parse_end, parse_time

logger = logging.getLogger(__name__)
_warned_keys: set[str] = set()

# Maximum depth of nested lists and objects in metadata. Python's own limit (about 900) depends on the depth of the call
# stack: metadata written with a short call stack could not be read with a deep one.
MOST_NESTED = 100


class ParsedMetadata(NamedTuple):
    """The values of the known metadata keys; None means missing or unusable. Times are in Unix seconds, UTC.

    A ``valid_until`` that is a date without a time means the end of that day: "until 5 February" includes the 5th.
    """

    valid_from: float | None = None
    valid_until: float | None = None
    confidence: float | None = None
    utility: float | None = None
    active_count: int | None = None
    updated_at: float | None = None
    created_at: float | None = None
    memory_type: str | None = None
    provenance_depth: int | None = None

    @classmethod
    def of(cls, metadata: Mapping[str, Any]) -> ParsedMetadata:
        """Return the values in the metadata; an unusable value is ignored, and a warning is logged once per key.

        >>> ParsedMetadata.of({"confidence": 0.9, "utility": 7, "valid_from": "1970-01-02"})[:4]
        (86400.0, None, 0.9, None)
        """
        parsed_metadata = cls(*(_read(metadata, key, _KEYS[key]) for key in cls._fields))
        if parsed_metadata.never_valid:
            _warn_once("valid_until before valid_from", _never_valid(metadata))
        return parsed_metadata

    @classmethod
    def check(cls, metadata: Mapping[str, Any]) -> ParsedMetadata:
        """Return the values in the metadata.

        Raises ValueError for an unusable value or an end of validity before the start.

        >>> ParsedMetadata.check({"confidence": 7})
        Traceback (most recent call last):
        ValueError: confidence: 7 is not a number from 0 to 1
        """
        labels = metadata.get("labels")
        if not isinstance(labels, str | list | tuple | set | frozenset | None):
            raise ValueError(f"labels: {quote_value(labels)} is not a list of strings; write [{quote_value(labels)}]")
        values = {key: metadata.get(key) for key in cls._fields}
        parsed_metadata = cls(**{key: _check_value(key, value) for key, value in values.items() if value is not None})
        if parsed_metadata.never_valid:
            raise ValueError(_never_valid(metadata))
        return parsed_metadata

    @property
    def never_valid(self) -> bool:
        """Whether the end of validity is before its start."""
        return self.valid_from is not None and self.valid_until is not None and self.valid_until < self.valid_from


def is_nested_too_deeply(metadata: Mapping[str, Any]) -> bool:
    """Return whether JSON metadata is nested more deeply than a store accepts.

    >>> is_nested_too_deeply({"a": [[1]]})
    False
    """
    containers: list[Any] = [metadata]
    for _ in range(MOST_NESTED + 1):
        items = (item for each in containers for item in (each.values() if isinstance(each, dict) else each))
        containers = [item for item in items if isinstance(item, dict | list)]
        if not containers:
            return False
    return True


def metadata_json(metadata: Mapping[str, Any], id: str) -> str:
    """Return the metadata of the chunk ``id`` as JSON, the form in which stores keep it.

    Raises TypeError for a value that cannot be stored.
    """
    try:
        return json.dumps(_storable_value(metadata, "", 0), separators=(",", ":"))
    except ValueError as error:  # raised for an integer with more than 4,300 digits
        raise not_storable(repr(id), str(error)) from error
    except _NotStorableError as error:
        raise not_storable(repr(id), str(error)) from None


class _NotStorableError(Exception):
    """Raised for a value in the metadata that cannot be stored."""


def not_storable(whose: str, why: str) -> TypeError:
    """Return a TypeError that says whose metadata cannot be stored as JSON, and why."""
    return TypeError(
        f"the metadata of {whose} cannot be stored as JSON: {why}; use strings as keys, and convert other "
        "values to strings, numbers, or lists or dicts of these"
    )


def _storable_value(value: Any, path: str, depth: int) -> Any:
    """Convert a value to its JSON form.

    Dates and datetimes become ISO 8601 strings (pandas' NaT becomes None), numpy's scalars become numbers, tuples
    become lists, and sets become sorted lists. NaN and infinities are kept, because Python's JSON can write and read
    them.
    """
    if type(value) in _SCALARS:
        return value
    if depth > MOST_NESTED:
        raise _NotStorableError(
            f"{quote_value(path[:40])}… is nested more than {MOST_NESTED} levels deep or contains itself"
        )
    if isinstance(value, Mapping):
        return {
            _key(key, path): _storable_value(item, f"{path}.{key}" if path else key, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_storable_value(item, f"{path}[{place}]", depth + 1) for place, item in enumerate(value)]
    if isinstance(value, set | frozenset):
        return _storable_value(_in_order(value, path), path, depth)
    import numpy as np  # only here, because processes that read files do not need it

    if isinstance(value, np.generic) and not isinstance(value, np.timedelta64):
        plain = value.item()
        if isinstance(value, np.datetime64) and isinstance(plain, int):  # nanoseconds, which Python's datetime lacks
            plain = value.astype("datetime64[us]").item()
        return _storable_value(plain, path, depth + 1)
    return _storable_scalar(value, path)


def _storable_scalar(value: Any, path: str) -> Any:
    if isinstance(value, date):
        return value.isoformat() if value == value else None  # noqa: PLR0124 - NaT does not equal itself
    if isinstance(value, str | int | float):  # a subclass, such as a StrEnum
        return value
    raise _not_a_value(value, path)


_SCALARS = frozenset({str, int, float, bool, type(None)})


def _key(key: Any, path: str) -> str:
    if not isinstance(key, str):
        where = f" in {quote_value(path)}" if path else ""
        raise _NotStorableError(f"the key {reprlib.repr(key)}{where} is not a string")
    return key


def _in_order(values: set[Any] | frozenset[Any], path: str) -> list[Any]:
    try:
        return sorted(values)
    except TypeError as error:
        raise _not_a_value(values, path) from error


def _not_a_value(value: Any, path: str) -> _NotStorableError:
    return _NotStorableError(f"{quote_value(path)} contains {reprlib.repr(value)} ({type(value).__name__})")


def session_of(metadata: Mapping[str, Any]) -> tuple[str | None, int | None]:
    """Return the session id in the metadata and the number of the chunk's turn in that session; either may be None."""
    session = metadata.get("session_id")
    if session is None:
        return None, None
    return _read(metadata, "session_id", _name), _read(metadata, "turn", _count)


def context_type_of(metadata: Mapping[str, Any]) -> str | None:
    """Return the context type in the metadata, or None if there is none or it is not a string."""
    context_type = metadata.get("context_type")
    return reference(context_type) if isinstance(context_type, str) and context_type else None


def labels_of(metadata: Mapping[str, Any]) -> list[Any]:
    """Return the labels in the metadata; a string is one label.

    >>> labels_of({"labels": "home"}), labels_of({"labels": ["home", "tea"]}), labels_of({})
    (['home'], ['home', 'tea'], [])
    """
    labels = metadata.get("labels")
    if isinstance(labels, str):
        return [labels]
    return list(labels) if isinstance(labels, list | tuple | set | frozenset) else []


def reference(name: str) -> str:
    """Return the name of a document, parent, session or source in the form that the catalog stores.

    Characters that the catalog cannot store are replaced by U+FFFD.
    """
    return replace_surrogates(name).replace("\0", "\ufffd")


def share(value: Any) -> float:
    """Return a number from 0 to 1 as a float; raise ValueError for any other value.

    >>> share(1)
    1.0
    """
    number = _number(value)
    if not 0.0 <= number <= 1.0:
        raise ValueError(f"{quote_value(value)} is not a number from 0 to 1")
    return number


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{quote_value(value)} is not a number")
    try:
        return float(value)
    except OverflowError as error:
        raise ValueError(f"{reprlib.repr(value)} is too large") from error


def _count(value: Any) -> int:
    number = _number(value)
    if not (0 <= number < 1e15 and number.is_integer()):
        raise ValueError(f"{quote_value(value)} is not an integer ≥ 0")
    return int(number)


def _name(value: Any) -> str:
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        raise ValueError(f"{reprlib.repr(value)} is not a string or an int")
    return reference(str(value))


_KEYS: Mapping[str, Callable[[Any], Any]] = {
    "valid_from": parse_time,
    "valid_until": parse_end,
    "confidence": share,
    "utility": share,
    "active_count": _count,
    "updated_at": parse_time,
    "created_at": parse_time,
    "memory_type": _name,
    "provenance_depth": _count,
}


def _read(metadata: Mapping[str, Any], key: str, read: Callable[[Any], Any]) -> Any:
    value = metadata.get(key)
    if value is None:
        return None
    try:
        return read(value)
    except ValueError as error:
        _warn_once(key, f"metadata {key!r} is not used: {error}")
        return None


def _warn_once(key: str, message: str) -> None:
    if key not in _warned_keys:
        _warned_keys.add(key)
        logger.warning("%s", message)


def _never_valid(metadata: Mapping[str, Any]) -> str:
    first, last = metadata["valid_from"], metadata["valid_until"]
    return (
        f"valid_until ({quote_value(last)}) is before valid_from ({quote_value(first)}), so the text "
        "would never be valid, and never be found: correct one of them"
    )


def _check_value(key: str, value: Any) -> Any:
    try:
        return _KEYS[key](value)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from error
