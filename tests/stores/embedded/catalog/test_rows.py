"""Conversion of chunks to rows of the catalog."""

import json
import logging
from datetime import UTC, datetime

import pytest

from langchain_hybridgraph import chunks as given_values
from langchain_hybridgraph.chunks import Chunk, reference
from langchain_hybridgraph.stores.embedded.catalog.rows import catalog_rows


def entry(chunk):
    return catalog_rows([chunk], [], "")[0]


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
