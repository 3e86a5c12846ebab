"""Values parsed from a chunk's metadata, and metadata as JSON."""

import json
import logging
import math
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph import chunks as chunk_metadata
from langchain_hybridgraph.chunks import MOST_NESTED, ParsedMetadata, metadata_json, session_of


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
    (record,) = caplog.records
    assert record.getMessage() == "metadata 'confidence' is not used: 7 is not a number from 0 to 1"


def test_an_end_before_the_start():
    """An end before the start raises a ValueError that quotes both times; equal times are valid."""
    with pytest.raises(ValueError, match=r"valid_until \('2024-01-01'\) is before valid_from \('2024-01-02'\)"):
        ParsedMetadata.check({"valid_from": "2024-01-02", "valid_until": "2024-01-01"})
    assert ParsedMetadata.check({"valid_from": 5, "valid_until": 5})[:2] == (5.0, 5.0)


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


# All JSON values, with strings that contain NUL, lone surrogates or any other character.
TEXT = st.text(st.characters(), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def stored(metadata):
    return json.loads(metadata_json(metadata, "a"))


@given(st.dictionaries(TEXT, JSON, max_size=5))
def test_json_metadata_comes_back_equal(metadata):
    """All JSON values in metadata are stored unchanged, with their types."""
    assert repr(stored(metadata)) == repr(metadata)


MOMENT = datetime(2024, 5, 1, 10, 30, tzinfo=timezone(timedelta(hours=2)))
CONVERTED = {
    "at": (MOMENT, "2024-05-01T10:30:00+02:00"),
    "on": (date(2024, 5, 1), "2024-05-01"),
    "i": (np.int64(3), 3),
    "f": (np.float32(0.5), 0.5),
    "b": (np.bool_(True), True),
    "s": ({"b", "a"}, ["a", "b"]),
    "d": (np.datetime64("2024-05-01"), "2024-05-01"),
    "ns": (np.datetime64("2024-05-01T10:30", "ns"), "2024-05-01T10:30:00"),
    "nat": (np.datetime64("NaT"), None),
}


def test_other_values_are_converted():
    """Times are stored as ISO 8601 strings (NaT as null), NumPy scalars as numbers, sets as sorted lists, and NaN."""
    values = {key: value for key, (value, _) in CONVERTED.items()}
    assert stored(values) == {key: converted for key, (_, converted) in CONVERTED.items()}
    assert math.isnan(stored({"x": math.nan})["x"])


CIRCLE = {}
CIRCLE["self"] = CIRCLE
DEEP = []
for _ in range(100_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    "value",
    [object(), b"bytes", {1, "a"}, np.zeros(3), CIRCLE, DEEP, {(1, 2): 3}, {1: 2}, np.timedelta64(5, "ns"), 10**5000],
    ids=lambda value: type(value).__name__,
)
def test_values_that_json_cannot_represent_are_refused(value):
    """A value that JSON cannot represent raises a short TypeError that names the chunk and suggests converting it."""
    with pytest.raises(TypeError, match=r"metadata of 'a' cannot be stored as JSON.*convert") as caught:
        metadata_json({"key": value}, "a")
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        ({"of": {"all": [1, b"x" * 5_000_000]}}, r"'of\.all\[1\]' contains b'x+\.\.\.x+' \(bytes\)"),
        ({5: 1}, "the key 5 is not a string"),
        ({"of": {"all": {5: 1}}}, r"the key 5 in 'of\.all' is not a string"),
    ],
)
def test_the_value_that_cannot_be_stored_is_named(metadata, why):
    """An error about a value or key that cannot be stored contains its path, and its first characters."""
    with pytest.raises(TypeError, match=rf"as JSON: {why}; use strings"):
        metadata_json(metadata, "a")


@pytest.mark.parametrize("levels", [MOST_NESTED, MOST_NESTED + 1])
def test_the_depth_of_metadata_is_limited(levels):
    """Metadata nested 100 levels deep is stored; deeper metadata raises an error that contains the limit."""
    value = []
    for _ in range(levels - 1):
        value = [value]
    if levels == MOST_NESTED:
        assert stored({"deep": value}) == {"deep": value}
    else:
        with pytest.raises(TypeError, match="nested more than 100 levels deep"):
            metadata_json({"deep": value}, "a")
