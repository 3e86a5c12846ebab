"""Conformance tests for reading from a store."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import TenantError
from langchain_hybridgraph.records import Query, Scope
from langchain_hybridgraph.stores.features import wrong_declarations
from langchain_hybridgraph.testing.base import FullStore, StoreTests
from langchain_hybridgraph.testing.samples import ANIMALS, BEGIN, CHUNKS, END, PARENTS, SECOND


class ReadingTests(StoreTests):
    """Tests of reading chunks, parents and vectors."""

    def test_features_are_declared(self, store: Any) -> None:
        """The store implements the protocols of all features except those that it declares in ``lacks``."""
        assert wrong_declarations(store) == []

    def test_reads_chunks_as_they_were_written(self, full_store: FullStore) -> None:
        """Text, metadata, document and parent are returned unchanged."""
        read = self._read(full_store, [chunk.id for chunk in CHUNKS])
        assert read.keys() == {chunk.id for chunk in CHUNKS}
        for chunk in CHUNKS:
            returned = read[chunk.id]
            assert (returned.id, returned.text, dict(returned.metadata)) == (chunk.id, chunk.text, dict(chunk.metadata))
            assert (returned.document, returned.parent) == (chunk.document, chunk.parent)

    def test_reading_omits_unknown_ids(self, full_store: FullStore) -> None:
        """Unknown ids are left out; an empty list of ids gives no chunks."""
        assert self._read(full_store, ["cat", "unknown", "ca", ""]).keys() == {"cat"}
        assert self._read(full_store, []) == {}

    def test_reading_from_an_empty_store_returns_nothing(self, store: Any) -> None:
        """Reading from an empty store returns nothing and raises no error."""
        assert self._read(store, ["cat"]) == {}

    def test_reading_applies_the_filter(self, full_store: FullStore) -> None:
        """Chunks that do not match the filter are left out."""
        assert self._read(full_store, ["cat", "bond"], Scope(ANIMALS)).keys() == {"cat"}

    def test_reading_checks_validity(self, full_store: FullStore) -> None:
        """A chunk is returned from its first to its last valid second. It is also returned if no time is given."""
        for time, is_valid in (
            (BEGIN - SECOND, False),
            (BEGIN, True),
            (END, True),
            (END + SECOND, False),
            (None, True),
        ):
            assert ("old" in self._read(full_store, ["old"], Scope(as_of=time))) == is_valid, time

    def test_changing_returned_metadata_does_not_change_the_store(self, full_store: FullStore) -> None:
        """Changing a value in returned metadata, even a nested value, does not change the stored chunk."""
        metadata = dict(self._read(full_store, ["cat"])["cat"].metadata)
        metadata["labels"].append("changed")
        assert self._read(full_store, ["cat"])["cat"].metadata["labels"] == ["pet", "small"]

    def test_a_call_for_another_tenant_raises(self, full_store: FullStore) -> None:
        """A scope with a tenant other than the store's raises TenantError."""
        with pytest.raises(TenantError):
            self._read(full_store, ["cat"], Scope(tenant="somebody else"))

    def test_has_parents_after_parents_were_written(self, store: Any) -> None:
        """An empty store has no parents; a store to which parents were written has some."""
        self._require("parents", store)
        assert not store.has_parents
        self.fill(store, CHUNKS, PARENTS)
        assert store.has_parents

    def test_reads_parents(self, full_store: FullStore) -> None:
        """Parents are read by id; unknown ids are left out."""
        parents = self._require("parents", full_store).read_parents(["pets", "unknown"], Scope())
        assert {id: chunk.text for id, chunk in parents.items()} == {"pets": PARENTS[0].text}

    def test_a_chunk_can_be_a_parent(self, full_store: FullStore) -> None:
        """A chunk whose id is the ``parent_id`` of another chunk is read as its parent."""
        store = self._require("parents", full_store)
        self.fill(full_store, [Chunk("kitten", "a small cat", {"parent_id": "cat"})])
        assert store.has_parents
        assert store.read_parents(["cat"], Scope())["cat"].text == CHUNKS[0].text

    def test_the_filter_does_not_apply_to_parents(self, full_store: FullStore) -> None:
        """Reading parents ignores the filter, which the pipeline applies."""
        assert "pets" in self._require("parents", full_store).read_parents(["pets"], Scope(ANIMALS))

    def test_parents_have_a_validity(self, full_store: FullStore) -> None:
        """A parent is not returned after its ``valid_until``."""
        store = self._require("parents", full_store)
        assert "birds" in store.read_parents(["birds"], Scope(as_of=END))
        assert store.read_parents(["birds"], Scope(as_of=END + SECOND)) == {}

    def test_searches_do_not_return_parents(self, full_store: FullStore) -> None:
        """Searches return only chunks, even for the text of a parent."""
        for search in ("vector_search", "keyword_search"):
            if hasattr(full_store, search):
                hits = getattr(full_store, search)(Query(PARENTS[0].text, 10), 10).entries
                assert {entry.id for entry in hits} <= {chunk.id for chunk in CHUNKS}

    def test_vectors_are_in_the_order_of_the_ids(self, full_store: FullStore) -> None:
        """There is one unit vector per id, even for a repeated id, and a row of zeros for an unknown id."""
        vectors = self._require("diversity", full_store).vectors(["owl", "unknown", "cat", "owl"])
        assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 0, 1, 1], abs=1e-5)
        assert vectors[0].tolist() == vectors[3].tolist()
        expected = np.array(self.embedding.embed_query(CHUNKS[0].text), np.float32)
        assert float(vectors[2] @ expected / np.linalg.norm(expected)) == pytest.approx(1, abs=1e-5)

    def test_no_ids_have_no_vectors(self, full_store: FullStore) -> None:
        """An empty list of ids gives an array without rows."""
        assert len(self._require("diversity", full_store).vectors([])) == 0
