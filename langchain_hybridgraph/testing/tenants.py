"""Tests of tenants."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.records import Query, Scope
from langchain_hybridgraph.stores.protocols import (
    AcceptsChunks,
    HasMemory,
    HasParents,
    HasVectors,
    SearchesKeywords,
    SearchesVectors,
)
from langchain_hybridgraph.testing.base import StoreTests


class TenantTests(StoreTests):
    """Tests of a store with several tenants."""

    def test_tenants_are_separate(self, open_tenant: Callable[[str], AbstractContextManager[Any]]) -> None:
        """Chunks with the same id in two tenants are independent, no matter which method returns them."""
        chunks = [Chunk("a", "apple pie", {}, "doc", "p"), Chunk("b", "banana")]
        with open_tenant("one") as store:
            self.fill(store, chunks, [Chunk("p", "the whole", {}, "doc")])
        with open_tenant("two") as store:
            self.fill(store, [Chunk("a", "avocado pie", {}, "doc")])
            self._check_second_tenant(store)
        with open_tenant("one") as store:
            assert {id: chunk.text for id, chunk in self._read(store, ["a", "b"]).items()} == {
                "a": "apple pie",
                "b": "banana",
            }

    def _check_second_tenant(self, store: Any) -> None:
        assert {id: chunk.text for id, chunk in self._read(store, ["a", "b"]).items()} == {"a": "avocado pie"}
        if isinstance(store, SearchesVectors):
            assert [e.id for e in store.vector_search(Query("apple pie banana", 9), 9).entries] == ["a"]
        if isinstance(store, SearchesKeywords):
            assert not store.keyword_search(Query("apple banana", 9), 9).entries
        if isinstance(store, HasParents):
            assert not store.has_parents
            assert store.read_parents(["p"], Scope()) == {}
        if isinstance(store, HasVectors):
            assert not store.vectors(["b"]).any()
        if isinstance(store, HasMemory):
            assert store.memory.states(["a", "b"], Scope()).keys() == {"a"}
        if isinstance(store, AcceptsChunks):
            assert store.document_chunks(["doc"]) == {"doc": {"a"}}
            assert store.remove(["a", "b", "p"]) == 1
