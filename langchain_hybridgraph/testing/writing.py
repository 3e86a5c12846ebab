"""Tests of writing."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import pytest

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.records import Edge, Query, Scope
from langchain_hybridgraph.stores.protocols import SearchesKeywords, SearchesVectors
from langchain_hybridgraph.testing.base import FullStore, StoreTests
from langchain_hybridgraph.testing.samples import CHUNKS, PARENTS


class WritingTests(StoreTests):
    """Tests of writing and deleting chunks."""

    def test_upsert_counts_new_changed_and_unchanged_chunks(self, full_store: FullStore) -> None:
        """Writing the same batch again changes nothing; a chunk is embedded again only if its text has changed."""
        store = self._require("writing", full_store)
        again = store.upsert(CHUNKS, parents=PARENTS)
        assert dict(again) == {"added": 0, "updated": 0, "unchanged": len(CHUNKS) + len(PARENTS), "embedded": 0}
        batch = [Chunk("cat", "another text"), Chunk("bond", CHUNKS[3].text, {"topic": "finance"}), Chunk("new", "x")]
        assert dict(store.upsert(batch)) == {"added": 1, "updated": 2, "unchanged": 0, "embedded": 2}

    def test_a_changed_chunk_replaces_the_old_one(self, full_store: FullStore) -> None:
        """After an update, only the new text is found."""
        self._require("writing", full_store).upsert([Chunk("owl", "a zebra at noon")])
        full_store.flush()
        assert self._read(full_store, ["owl"])["owl"].text == "a zebra at noon"
        if isinstance(full_store, SearchesKeywords):
            assert [e.id for e in full_store.keyword_search(Query("zebra", 9), 9).entries] == ["owl"]
            assert not full_store.keyword_search(Query("night", 9), 9).entries
        if isinstance(full_store, SearchesVectors):
            hits = full_store.vector_search(Query("an owl hunts at night", 99), 99).entries
            assert [e.id for e in hits].count("owl") == 1
            assert {e.id: e.score for e in hits}["owl"] < 0.9

    def test_the_last_chunk_with_an_id_counts(self, store: Any) -> None:
        """If a batch has two chunks with the same id, the last one is stored."""
        self._require("writing", store)
        self.fill(store, [Chunk("a", "first"), Chunk("b", "other"), Chunk("a", "last")])
        assert {id: chunk.text for id, chunk in self._read(store, ["a", "b"]).items()} == {"a": "last", "b": "other"}

    def test_a_removed_chunk_is_gone(self, full_store: FullStore) -> None:
        """A removed chunk is neither read nor found; ``remove`` counts only chunks that existed."""
        store = self._require("writing", full_store)
        assert store.remove(["owl", "cat", "unknown", "owl"]) == 2
        assert store.remove(["owl"]) == 0
        full_store.flush()
        assert self._read(full_store, ["owl", "cat", "dog"]).keys() == {"dog"}
        for search in ("vector_search", "keyword_search"):
            if hasattr(full_store, search):
                hits = getattr(full_store, search)(Query("owl cat dog", 9), 9).entries
                assert not {"owl", "cat"} & {entry.id for entry in hits}

    def test_a_removed_chunk_can_be_added_again(self, full_store: FullStore) -> None:
        """A chunk that is removed and written again is found only once."""
        store = self._require("writing", full_store)
        store.remove(["owl"])
        self.fill(full_store, [Chunk("owl", "an owl hunts at night")])
        if isinstance(full_store, SearchesKeywords):
            assert [e.id for e in full_store.keyword_search(Query("owl", 9), 9).entries] == ["owl"]
        assert "owl" in self._read(full_store, ["owl"])

    def test_a_parent_is_removed_with_its_last_child(self, store: Any) -> None:
        """A parent is kept as long as it has a child."""
        self._require("writing", store)
        self._require("parents", store)
        children = [Chunk(id, f"child {id}", {}, "doc", "parent") for id in ("one", "two")]
        self.fill(store, children, [Chunk("parent", "whole", {}, "doc")])
        store.remove(["one"])
        assert "parent" in store.read_parents(["parent"], Scope())
        store.remove(["two"])
        assert store.read_parents(["parent"], Scope()) == {}
        assert store.document_chunks(["doc"]) == {"doc": set()}

    def test_document_chunks_lists_chunks_and_parents(self, full_store: FullStore) -> None:
        """Each document's chunks and parents are listed; an unknown document has none."""
        ids_by_document = self._require("writing", full_store).document_chunks(["zoo", "bank.md", "cat", "unknown"])
        expected = {"zoo": {"dog", "owl", "pets", "birds"}, "bank.md": {"bond"}, "cat": {"cat"}, "unknown": set()}
        assert {document: set(ids) for document, ids in ids_by_document.items()} == expected

    def test_replace_edges_counts_distinct_edges(self, full_store: FullStore) -> None:
        """Edges with the same source, target and relation are counted only once."""
        store = self._require("writing", full_store)
        edges = [Edge("cat", "dog", "fears", 0.5), Edge("cat", "dog", "fears", 0.9), Edge("cat", "dog", "knows")]
        assert store.replace_edges(["cat"], ["fears", "knows"], edges) == 2
        assert store.replace_edges(["cat"], ["fears", "knows"], []) == 0

    def test_a_batch_may_be_large(self, store: Any) -> None:
        """6,000 chunks, more than some engines accept in one request, can be written in one call."""
        self._require("writing", store)
        self.fill(store, [Chunk(f"c{n}", f"number{n} of many") for n in range(6_000)])
        assert self._read(store, ["c0", "c5999", "c6000"]).keys() == {"c0", "c5999"}
        if isinstance(store, SearchesKeywords):
            assert [e.id for e in store.keyword_search(Query("number5999", 9), 9).entries] == ["c5999"]

    def test_a_bad_batch_writes_nothing(self, store: Any) -> None:
        """Metadata that cannot be stored as JSON raises TypeError, and no other chunk of the batch is written."""
        self._require("writing", store)
        with pytest.raises(TypeError):
            store.upsert([Chunk("good", "good text"), Chunk("bad", "bad text", {"key": object()})])
        store.flush()
        assert self._read(store, ["good", "bad"]) == {}

    def test_several_writers_lose_nothing(
        self, store: Any, open_again: Callable[[], AbstractContextManager[Any]]
    ) -> None:
        """If several stores are open at the same location, everything that each of them writes is kept."""

        def write(number: int) -> None:
            with open_again() as other:
                for place in range(3):
                    other.upsert([Chunk(f"{number}-{place}", f"text {number} {place}"), Chunk("shared", "one of many")])

        with ThreadPoolExecutor(3) as writers:
            list(writers.map(write, range(3)))
        store.flush()
        ids = {f"{number}-{place}" for number in range(3) for place in range(3)} | {"shared"}
        assert self._read(store, sorted(ids)).keys() == ids
        if isinstance(store, SearchesVectors):
            assert {entry.id for entry in store.vector_search(Query("text one of many", 99), 99).entries} == ids
