"""Conversion of chunks and edges to rows of the catalog."""

import json
import logging
import math
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.records import Chunk, Edge
from langchain_hybridgraph.records import chunk_metadata as given_values
from langchain_hybridgraph.records.chunk_metadata import MOST_NESTED, reference
from langchain_hybridgraph.stores.embedded.catalog.rows import catalog_rows, checked_edges, content_id

# All JSON values, with strings that contain NUL, lone surrogates or any other character.
TEXT = st.text(st.characters(), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def entry(chunk):
    return catalog_rows([chunk], [], "")[0]


def stored(metadata):
    return json.loads(entry(Chunk("a", "t", metadata)).metadata)


@given(st.dictionaries(TEXT, JSON, max_size=5))
def test_json_metadata_comes_back_equal(metadata):
    """All JSON values in metadata are stored unchanged, with their types."""
    assert repr(stored(metadata)) == repr(metadata)


def test_times_are_stored_as_iso_8601():
    """Dates and datetimes are stored as ISO 8601 strings."""
    moment = datetime(2024, 5, 1, 10, 30, tzinfo=timezone(timedelta(hours=2)))
    assert stored({"at": moment, "on": date(2024, 5, 1)}) == {"at": "2024-05-01T10:30:00+02:00", "on": "2024-05-01"}


def test_numpy_scalars_are_stored_as_numbers():
    """NumPy scalars are stored as numbers, and sets as sorted lists."""
    metadata = {"i": np.int64(3), "f": np.float32(0.5), "b": np.bool_(True), "s": {"b", "a"}}
    assert stored(metadata) == {"i": 3, "f": 0.5, "b": True, "s": ["a", "b"]}


def test_numpy_times_are_stored_as_iso_8601():
    """NumPy datetimes are stored as ISO 8601 strings, even with nanoseconds, and NaT as null."""
    metadata = {
        "d": np.datetime64("2024-05-01"),
        "ns": np.datetime64("2024-05-01T10:30", "ns"),
        "nat": np.datetime64("NaT"),
    }
    assert stored(metadata) == {"d": "2024-05-01", "ns": "2024-05-01T10:30:00", "nat": None}


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
        entry(Chunk("a", "t", {"key": value}))
    assert len(str(caught.value)) < 400


def test_the_value_that_cannot_be_stored_is_named():
    """An error about a value that cannot be stored contains its path, its type and its first characters."""
    with pytest.raises(TypeError, match=r"'of\.all\[1\]' contains b'x+\.\.\.x+' \(bytes\); use strings"):
        entry(Chunk("a", "t", {"of": {"all": [1, b"x" * 5_000_000]}}))


@pytest.mark.parametrize(
    ("metadata", "why"),
    [({5: 1}, "the key 5 is not a string"), ({"of": {"all": {5: 1}}}, r"the key 5 in 'of\.all' is not a string")],
)
def test_the_key_that_cannot_be_stored_is_named(metadata, why):
    """An error about a key that is not a string contains the key and the path of the dict that contains it."""
    with pytest.raises(TypeError, match=rf"as JSON: {why}; use strings as keys"):
        entry(Chunk("a", "t", metadata))


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
            entry(Chunk("a", "t", {"deep": value}))


@pytest.mark.parametrize(
    ("id", "why"),
    [("", "at least one character"), (None, "string"), (7, "string"), ("a\ud800", "surrogate"), ("a\0b", "NUL")],
)
def test_ids_that_cannot_be_stored(id, why):
    """An id that is empty, not a string, or contains NUL or a lone surrogate raises a ValueError."""
    with pytest.raises(ValueError, match=why):
        entry(Chunk(id, "t"))


@pytest.mark.parametrize("id", ["a/b/../c", "ключ", "鍵 🗝", "'; DROP TABLE nodes; --", "x" * 10_000, " ", "%", "a\nb"])
def test_ids_of_any_shape(id):
    """Ids may contain slashes, quotes, blanks and any script, and may have 10,000 characters."""
    assert entry(Chunk(id, "t")).id == id


def test_a_text_is_a_str():
    """A text that is not a str raises a TypeError that names the chunk."""
    with pytest.raises(TypeError, match="text of 'a' must be a str, got None"):
        entry(Chunk("a", None))


def test_lone_surrogates_in_texts_are_replaced():
    """In a text, NUL is kept and a lone surrogate becomes U+FFFD."""
    assert entry(Chunk("a", "x\0y\ud800z")).text == "x\0y\ufffdz"


def test_references_can_be_stored():
    """Document and parent ids taken from metadata have NUL and lone surrogates replaced."""
    row = entry(Chunk("a", "t", {"source": "a\0b\ud800", "parent_id": "p\0"}))
    assert (row.document, row.parent) == ("a\ufffdb\ufffd", "p\ufffd") == (reference("a\0b\ud800"), "p\ufffd")


def test_the_last_of_equal_ids_is_kept():
    """The last of several chunks with one id is kept, and a chunk takes precedence over a parent."""
    rows = catalog_rows([Chunk("a", "1"), Chunk("b", "2"), Chunk("a", "3")], [Chunk("b", "4"), Chunk("c", "5")], "t")
    assert {(e.id, e.kind, e.text, e.tenant) for e in rows} == {
        ("a", "chunk", "3", "t"),
        ("b", "chunk", "2", "t"),
        ("c", "parent", "5", "t"),
    }


@pytest.mark.parametrize(
    "other",
    [
        Chunk("a", "other", {"m": 1}, "d", "p"),
        Chunk("a", "t", {"m": 2}, "d", "p"),
        Chunk("a", "t", {"m": True}, "d", "p"),
        Chunk("a", "t", {"m": 1}, "other", "p"),
        Chunk("a", "t", {"m": 1}, "d", "other"),
        Chunk("a", "t", {"m": 1}, "d"),
    ],
)
def test_every_change_changes_the_content_hash(other):
    """The content hash depends on text, metadata, document and parent; the text hash only on the text."""
    one, two = entry(Chunk("a", "t", {"m": 1}, "d", "p")), entry(other)
    assert one.content_hash != two.content_hash
    assert (one.text_hash == two.text_hash) == (other.text == "t")


def test_moving_a_boundary_changes_the_hash():
    """Moving a character from one hashed part to the next changes the hash."""
    assert entry(Chunk("a", "t", {}, "ab", "c")).content_hash != entry(Chunk("a", "t", {}, "a", "bc")).content_hash


@pytest.mark.parametrize("time", ["2024-05-01T00:00:00Z", 1714521600, datetime(2024, 5, 1, tzinfo=UTC), "20240501"])
def test_validity_is_read_from_metadata(time):
    """Validity in any usual form is read as Unix seconds, and an unset bound is None."""
    row = entry(Chunk("a", "t", {"valid_from": time}))
    assert row.metadata_values[:2] == (1714521600.0, None)


def test_an_invalid_time_is_kept_and_logged_once(caplog, monkeypatch):
    """An invalid time stays in the metadata, is not used as validity, and is logged once per key."""
    monkeypatch.setattr(given_values, "_warned_keys", set())
    with caplog.at_level(logging.WARNING):
        rows = [entry(Chunk(id, "t", {"valid_until": "soon"})) for id in "ab"]
    assert [e.metadata_values.valid_until for e in rows] == [None, None]
    assert json.loads(rows[0].metadata) == {"valid_until": "soon"}
    assert len(caplog.records) == 1
    assert "valid_until" in caplog.text


def test_nan_is_stored():
    """NaN in metadata is stored, although it is not valid JSON."""
    assert math.isnan(stored({"x": math.nan})["x"])


@pytest.mark.parametrize(
    "edge", [Edge("", "b", "r"), Edge("a", "b\0", "r"), Edge("a", "b", ""), Edge("\udfff", "b", "r")]
)
def test_edges_that_cannot_be_stored(edge):
    """An edge with an empty or unstorable end or relation raises a ValueError."""
    with pytest.raises(ValueError, match="an edge's"):
        checked_edges([edge])


def test_descriptions_are_cleaned():
    """Lone surrogates in an edge's description become U+FFFD."""
    assert checked_edges([Edge("a", "b", "r", description="x\ud800")])[0].description == "x\ufffd"


def test_content_ids_are_the_same_in_every_run():
    """An id made from content depends on text and metadata, but not on the order of keys."""
    assert content_id("t", {"a": 1, "b": 2}) == content_id("t", {"b": 2, "a": 1})
    assert content_id("t", {"a": 1}) != content_id("t", {"a": 2})
    assert content_id("t", {}) != content_id("u", {})


def test_anything_but_an_edge_is_refused():
    """A tuple instead of an Edge raises a ConfigurationError that shows an example."""
    with pytest.raises(ConfigurationError, match=r"must be an Edge, such as Edge\(.* got \('a', 'b', 'cites'\)"):
        checked_edges([("a", "b", "cites")])


@pytest.mark.parametrize("edges", [Edge("a", "b", "cites"), None, 7], ids=repr)
def test_anything_but_a_list_of_edges_is_refused(edges):
    """A single edge instead of a list raises a ConfigurationError that shows an example."""
    with pytest.raises(ConfigurationError, match=r'must be a list of Edge, such as \[Edge\("a"'):
        checked_edges(edges)


@pytest.mark.parametrize("description", [None, 7, b"text"])
def test_a_description_is_a_string(description):
    """A description that is not a string raises a ValueError that names the edge and the value to pass instead."""
    with pytest.raises(
        ValueError, match=r"edge 'a' → 'b' \(r\) is .*; it must be a string; pass description=\"\" for none"
    ):
        checked_edges([Edge("a", "b", "r", description=description)])


@pytest.mark.parametrize("ends", [(None, "b", "r"), ("", "b", "r"), ("a", 7, "r"), ("a", "b", ""), ("a", "b", None)])
def test_ends_and_relations_that_cannot_be_stored(ends):
    """An end or relation that is empty or not a string raises a ValueError."""
    with pytest.raises(
        ValueError, match=r"an edge's (source|target|relation) must be a string with at least one character, got"
    ):
        checked_edges([Edge(*ends)])


def test_edges_that_need_no_change_are_the_same():
    """An edge with a storable description is returned as the same object."""
    edge = Edge("a", "b", "r", description="Ünïcode")
    assert checked_edges([edge])[0] is edge
