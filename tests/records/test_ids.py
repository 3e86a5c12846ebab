"""Ids for texts without an id."""

from langchain_hybridgraph.records import memory_id


def test_ids_of_memories_are_the_same_in_every_run():
    """An id made from content depends on text and metadata, but not on the order of keys."""
    assert memory_id("t", {"a": 1, "b": 2}) == memory_id("t", {"b": 2, "a": 1})
    assert memory_id("t", {"a": 1}) != memory_id("t", {"a": 2})
    assert memory_id("t", {}) != memory_id("u", {})
