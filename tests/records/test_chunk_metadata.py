"""Validity, confidence and other values parsed from a chunk's metadata."""

import logging
from datetime import UTC, date, datetime

import numpy as np
import pytest

from langchain_hybridgraph.records import chunk_metadata
from langchain_hybridgraph.records.chunk_metadata import ParsedMetadata, session_of


def test_every_known_key():
    """All known keys are parsed, with times in any usual form and numbers of any type."""
    parsed = ParsedMetadata.of(
        {
            "valid_from": datetime(1970, 1, 2, tzinfo=UTC),
            "valid_until": "1970-01-03",
            "confidence": np.float32(0.5),
            "utility": 1,
            "active_count": 2.0,
            "updated_at": 8,
            "created_at": 7,
            "memory_type": "semantic",
            "provenance_depth": np.int64(3),
            "other": "ignored",
        }
    )
    assert parsed == ParsedMetadata(86_400.0, 259_199.999999, 0.5, 1.0, 2, 8.0, 7.0, "semantic", 3)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("confidence", 7),
        ("confidence", -0.001),
        ("confidence", float("nan")),
        ("confidence", True),
        ("utility", "0.5"),
        ("active_count", -1),
        ("active_count", float("inf")),
        ("provenance_depth", 0.5),
        ("created_at", "soon"),
        ("valid_from", 1_714_521_600_000),
        ("memory_type", ["semantic"]),
    ],
)
def test_an_invalid_value(key, value):
    """An invalid value is ignored by ``of``, but raises a ValueError that names its key in ``check``."""
    assert ParsedMetadata.of({key: value}) == ParsedMetadata()
    with pytest.raises(ValueError, match=f"^{key}: "):
        ParsedMetadata.check({key: value})


def test_an_invalid_value_is_logged_once_per_key(caplog, monkeypatch):
    """Several invalid values of one key are logged once."""
    monkeypatch.setattr(chunk_metadata, "_warned_keys", set())
    with caplog.at_level(logging.WARNING):
        ParsedMetadata.of({"confidence": 7})
        ParsedMetadata.of({"confidence": 8})
    assert [record.getMessage() for record in caplog.records] == [
        "metadata 'confidence' is not used: 7 is not a number from 0 to 1"
    ]


def test_an_end_before_the_start():
    """An end before the start raises a ValueError that quotes both times; equal times are valid."""
    with pytest.raises(ValueError, match=r"valid_until \('2024-01-01'\) is before valid_from \('2024-01-02'\)"):
        ParsedMetadata.check({"valid_from": "2024-01-02", "valid_until": "2024-01-01"})
    assert ParsedMetadata.check({"valid_from": 5, "valid_until": 5})[:2] == (5.0, 5.0)


def test_an_end_before_the_start_is_logged_once(caplog, monkeypatch):
    """Metadata whose end is before its start is logged once and raises no error when it is parsed."""
    monkeypatch.setattr(chunk_metadata, "_warned_keys", set())
    metadata = {"valid_from": "2024-05-01", "valid_until": "2024-01-01"}
    with caplog.at_level(logging.WARNING):
        assert ParsedMetadata.of(metadata) == ParsedMetadata.of(metadata)
    [message] = [record.getMessage() for record in caplog.records]
    assert message.startswith("valid_until ('2024-01-01') is before valid_from ('2024-05-01')")


@pytest.mark.parametrize("day", ["2024-02-05", "20240205", date(2024, 2, 5)])
def test_a_date_as_valid_until_includes_the_day(day):
    """A valid_until that is only a date means the end of that day in UTC."""
    last = ParsedMetadata.of({"valid_until": day}).valid_until
    assert datetime.fromtimestamp(last, UTC) == datetime(2024, 2, 5, 23, 59, 59, 999_999, UTC)
    assert (
        ParsedMetadata.of({"valid_until": "2024-02-05T00:00"}).valid_until
        == datetime(2024, 2, 5, tzinfo=UTC).timestamp()
    )
    assert ParsedMetadata.check({"valid_from": day, "valid_until": day}).valid_from == last - 86_400 + 1e-6


def test_a_time_without_a_zone_is_utc():
    """A time without a time zone is read as UTC."""
    assert ParsedMetadata.check({"valid_from": "1970-01-01T01:00:00"}).valid_from == 3_600.0
    assert ParsedMetadata.check({"valid_from": datetime(1970, 1, 1, 1)}).valid_from == 3_600.0


@pytest.mark.parametrize(
    ("metadata", "session"),
    [
        ({}, (None, None)),
        ({"turn": 3}, (None, None)),
        ({"session_id": "s"}, ("s", None)),
        ({"session_id": 7, "turn": 3}, ("7", 3)),
        ({"session_id": "s", "turn": "third"}, ("s", None)),
        ({"session_id": ["s"]}, (None, None)),
    ],
)
def test_sessions(metadata, session):
    """A session id is a string or a number, and a turn is an integer; other values are ignored."""
    assert session_of(metadata) == session
