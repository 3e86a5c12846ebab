"""Parser for times in any common form.

A time is an ISO 8601 string, a ``datetime``, a ``date`` (its midnight) or Unix seconds. Times without a time
zone are read as UTC.
"""

import re
from datetime import UTC, date, datetime, time
from numbers import Real
from typing import Any

from langchain_hybridgraph.errors import ConfigurationError, quote_value

_HOUR = r"(?:[01]\d|2[0-3])"
_SECOND = r"\d{2}(?:[.,]\d+)?"
_ZONE = r"(?:Z|[+-]\d{2}(?::?\d{2})?)?"
_EXTENDED = re.compile(rf"\d{{4}}-\d{{2}}-\d{{2}}(?:[T ]{_HOUR}(?::\d{{2}}(?::{_SECOND})?)?{_ZONE})?", re.ASCII)
_BASIC = re.compile(rf"\d{{8}}(?:T{_HOUR}(?:\d{{2}}(?:{_SECOND})?)?{_ZONE})?", re.ASCII)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}|\d{8}", re.ASCII)
_ALMOST_A_DAY = 86_400 - 1e-6
_FIRST = datetime.min.replace(tzinfo=UTC).timestamp()
_LAST = datetime.max.replace(tzinfo=UTC).timestamp()
_EXPECTED = (
    "a time is an ISO 8601 string such as '2024-05-01' or '2024-05-01T10:00:00+02:00', a datetime, or Unix seconds"
)


def parse_time(value: Any) -> float:
    """Convert an ISO 8601 string, a datetime, a date or Unix seconds to Unix seconds.

    A string may have the extended form of ISO 8601 (``2024-05-01T10:00:00Z``) or the basic form (``20240501T100000Z``).
    The seconds or the complete time of day may be left out. In the extended form, a space may replace the T. Raises
    ValueError for anything else, including numbers outside the years 1 to 9999; such numbers are usually milliseconds.

    >>> parse_time("1970-01-02"), parse_time("1970-01-01T02:00:00+02:00"), parse_time(1.5)
    (86400.0, 0.0, 1.5)
    """
    if isinstance(value, datetime):
        return _seconds(value)
    if isinstance(value, date):
        return _seconds(datetime.combine(value, time()))
    if isinstance(value, str):
        stripped = value.strip()
        seconds = _iso_seconds(stripped) if _BASIC.fullmatch(stripped) else iso_seconds(stripped)
        if seconds is None:
            raise ConfigurationError(f"{quote_value(value)} is not a time; {_EXPECTED}")
        return seconds
    if not isinstance(value, Real) or isinstance(value, bool):
        raise ConfigurationError(f"{quote_value(value)} ({type(value).__name__}) is not a time; {_EXPECTED}")
    number: Any = value
    if not _FIRST <= number < _LAST:
        raise ConfigurationError(
            f"{quote_value(value)} is not a time in Unix seconds, which range from {_FIRST:.0f} to {_LAST:.0f}; "
            "divide milliseconds by 1000"
        )
    return float(number)


def parse_end(value: Any) -> float:
    """Return the end of a period in Unix seconds: a date without a time means the end of that day in UTC.

    Everything else is parsed by :func:`parse_time`, with the same errors.

    >>> parse_end("1970-01-01"), parse_end("1970-01-01T00:00")
    (86399.999999, 0.0)
    """
    is_day = isinstance(value, date) and not isinstance(value, datetime)
    if isinstance(value, str):
        is_day = _DAY.fullmatch(value.strip()) is not None
    return min(parse_time(value) + _ALMOST_A_DAY, _LAST - 1) if is_day else parse_time(value)


def iso_seconds(text: str) -> float | None:
    """Return the time in Unix seconds if the text is an ISO date or datetime with dashes, and None otherwise.

    This is stricter than :func:`parse_time`, because in arbitrary metadata ``20240501`` may be any kind of number.

    >>> iso_seconds("1970-01-01T00:01"), iso_seconds("19700101")
    (60.0, None)
    """
    if len(text) < 10 or text[4] != "-" or _EXTENDED.fullmatch(text) is None:
        return None
    return _iso_seconds(text)


def iso_time(seconds: float) -> str:
    """Format Unix seconds as ISO 8601 in UTC, with microseconds unless they are 0.

    >>> iso_time(0.5)
    '1970-01-01T00:00:00.500000Z'
    """
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat() + "Z"


def _seconds(moment: datetime) -> float:
    return (moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment).timestamp()


def _iso_seconds(text: str) -> float | None:
    try:
        return _seconds(datetime.fromisoformat(text))
    except ValueError:  # 30 February, minute 61
        return None
