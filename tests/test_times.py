"""Conversion of times in any usual form to unix seconds in UTC."""

import math
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.times import iso_seconds, iso_time, parse_end, parse_time

MAY = 1714557600.0  # 2024-05-01T10:00:00Z


@pytest.mark.parametrize(
    "value",
    [
        "2024-05-01T10:00:00Z",
        "2024-05-01T10:00:00",
        "2024-05-01 10:00:00",
        "2024-05-01T10:00",
        "2024-05-01T10",
        "2024-05-01T12:00:00+02:00",
        "2024-05-01T12:00:00+0200",
        "2024-05-01T12+02",
        "2024-05-01T04:30:00-05:30",
        "2024-05-01T10:00:00.000",
        "2024-05-01T10:00:00,0000000001Z",
        "20240501T100000Z",
        "20240501T1000",
        " 2024-05-01T10:00:00Z\n",
        datetime(2024, 5, 1, 10),
        datetime(2024, 5, 1, 12, tzinfo=timezone(timedelta(hours=2))),
        np.float64(MAY),
        int(MAY),
    ],
)
def test_all_forms_of_one_instant_are_one_time(value):
    """Every usual form of an instant gives the same unix seconds, with UTC as the default zone."""
    assert parse_time(value) == MAY
    assert type(parse_time(value)) is float


def test_a_date_is_its_midnight_in_utc():
    """A date, as a string or an object, is midnight in UTC at the start of its day."""
    assert parse_time("1970-01-02") == parse_time("19700102") == parse_time(date(1970, 1, 2)) == 86400.0


@pytest.mark.parametrize("value", ["1970-01-02T00:00", 86_400, datetime(1970, 1, 2), " 1970-01-02T00:00:00Z"])
def test_the_end_of_a_time_is_itself(value):
    """parse_end returns the last microsecond of a date and leaves a time unchanged."""
    assert parse_end(value) == 86_400.0
    assert iso_time(parse_end("9999-12-31")) == "9999-12-31T23:59:59Z"  # often written for "forever"
    assert parse_end("1970-01-02") == parse_end("19700102 ") == parse_end(date(1970, 1, 2)) == 172_799.999999
    with pytest.raises(ValueError, match="is not a time"):
        parse_end("1970-02-30")


@pytest.mark.parametrize(
    "unusable",
    [
        "soon", "", "2024", "2024-05", "2024-W05-3", "2024-13-01", "2024-02-30", "20241301", "2024-05-01T25:00",
        "2024-05-01T10:61", "2024-05-01T10:00+24:00", "0000-01-01", "1700000000", "202405011000", "٢٠٢٤-٠١-٠١",
        True, None, [], {}, math.nan, math.inf, 10**400, 1_700_000_000_000,
    ],
)  # fmt: skip
def test_unreadable_times_raise(unusable):
    """A value that cannot be read as a time raises ValueError."""
    with pytest.raises(ValueError, match=r"is not a time.*('2024-05-01'|divide milliseconds by 1000)"):
        parse_time(unusable)


@pytest.mark.parametrize("text", ["20240501", "2024-05-01\n", " 2024-05-01", "12024-05-01", "2024-05-01Tnoon", ""])
def test_iso_seconds_accepts_only_dates_with_dashes(text):
    """iso_seconds returns None for strings that may be numbers or phrases."""
    assert iso_seconds(text) is None


@given(st.datetimes(timezones=st.timezones()))
def test_a_datetime_and_its_iso_text_are_the_same_time(moment):
    """A datetime and its isoformat() string give the same timestamp."""
    offset = moment.utcoffset()
    if offset is None or offset.total_seconds() % 60:
        return
    assert iso_seconds(moment.isoformat()) == parse_time(moment) == moment.timestamp()


@given(st.datetimes(min_value=datetime(1900, 1, 1), max_value=datetime(2200, 1, 1)))
def test_iso_time_round_trips_to_the_microsecond(moment):
    """iso_time writes UTC, and parse_time reads back the same instant."""
    seconds = moment.replace(tzinfo=UTC).timestamp()
    assert iso_time(seconds).endswith("Z")
    assert parse_time(iso_time(seconds)) == seconds
