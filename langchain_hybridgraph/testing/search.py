"""Tests of searches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from langchain_hybridgraph.records import Query, Scope
from langchain_hybridgraph.testing.base import FullStore, StoreTests
from langchain_hybridgraph.testing.samples import ANIMALS, CHUNKS, END, SECOND

# Unusual texts that every keyword search must accept.
ODD_TEXTS = ("", " ", "?!", 'C++ AND (" OR *', '"cat', "cat AND", "a:b^2 [x TO y]", "\0", "~", "cat " * 20_000)


class SearchTests(StoreTests):
    """Tests of vector search and keyword search."""

    def test_vector_search_ranks_by_cosine(self, full_store: FullStore) -> None:
        """The nearest chunks come first, each with its cosine; chunks with equal cosines are ordered by id."""
        store = self._require("vectors", full_store)
        hits = store.vector_search(Query("the cat", 10), 10).entries
        cosines = self._cosines("the cat")
        expected = sorted(cosines, key=lambda id: (-round(cosines[id], 5), id))
        assert [entry.id for entry in hits] == expected
        assert [entry.score for entry in hits] == pytest.approx([cosines[id] for id in expected], abs=1e-5)

    def test_vector_search_by_a_vector(self, full_store: FullStore) -> None:
        """A query may consist of a vector without text, and the vector need not be normalised."""
        store = self._require("vectors", full_store)
        vector = 5 * np.array(self.embedding.embed_query("an owl hunts at night"), np.float32)
        result = store.vector_search(Query(None, 1, vector=vector), 1)
        assert [entry.id for entry in result.entries] == ["owl"]
        assert result.entries[0].score == pytest.approx(1, abs=1e-5)

    def test_vector_search_returns_its_vector(self, full_store: FullStore) -> None:
        """If the result contains the query vector, this vector has length 1."""
        vector = self._require("vectors", full_store).vector_search(Query("the cat", 1), 1).vector
        if vector is not None:
            assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)

    def test_vector_search_returns_at_most_n_hits(self, full_store: FullStore) -> None:
        """A search for 0 hits returns none; a search for more hits than there are chunks returns all chunks."""
        store = self._require("vectors", full_store)
        assert [len(store.vector_search(Query("cat", n), n).entries) for n in (0, 1, 3, 1000)] == [0, 1, 3, len(CHUNKS)]

    def test_vector_search_for_fewer_hits_returns_the_best_ones(self, full_store: FullStore) -> None:
        """A search for fewer hits returns the first hits of a search for more."""
        store = self._require("vectors", full_store)
        best = [entry.id for entry in store.vector_search(Query("the cat", 5), 5).entries]
        assert len(best) == len(CHUNKS)
        for n in range(1, 5):
            assert [entry.id for entry in store.vector_search(Query("the cat", n), n).entries] == best[:n]

    def test_vector_search_stays_in_scope(self, full_store: FullStore) -> None:
        """Every hit matches the filter and the time, and chunks that do not match take up none of the n results."""
        store = self._require("vectors", full_store)
        query = Query("the cat", 3, Scope(ANIMALS, as_of=END + SECOND))
        assert {entry.id for entry in store.vector_search(query, 3).entries} == {"cat", "dog", "owl"}

    def test_vector_search_in_an_empty_store(self, store: Any) -> None:
        """A vector search of an empty store returns no hits and raises no error."""
        assert list(self._require("vectors", store).vector_search(Query("cat", 3), 3).entries) == []

    def test_vector_scores_are_cosines(self, full_store: FullStore) -> None:
        """Each stored chunk gets its cosine; unknown ids are left out."""
        store = self._require("vectors", full_store)
        vector = store.vector_search(Query("the cat", 1), 1).vector
        if vector is None:
            pytest.skip("the store does not return the vector")
        scores = store.vector_scores(vector, ["bond", "cat", "unknown"])
        cosines = self._cosines("the cat")
        assert scores == pytest.approx({"bond": cosines["bond"], "cat": cosines["cat"]}, abs=1e-5)

    def test_keyword_search_finds_words(self, full_store: FullStore) -> None:
        """Chunks with the words of the query are returned, best first, with scores above 0."""
        hits = self._require("keywords", full_store).keyword_search(Query("night owl", 5), 5).entries
        assert [entry.id for entry in hits] == ["owl"]
        assert hits[0].score > 0

    def test_keyword_search_matches_any_word(self, full_store: FullStore) -> None:
        """A chunk matches if it contains one word of the query; a chunk with more of the words ranks higher."""
        hits = self._require("keywords", full_store).keyword_search(Query("does a dog chase any cat", 5), 5).entries
        assert hits[0].id == "dog"
        assert {"cat", "old"} <= {entry.id for entry in hits}

    @pytest.mark.parametrize("text", ODD_TEXTS)
    def test_keyword_search_accepts_any_text(self, full_store: FullStore, text: str) -> None:
        """Punctuation and operators in a query are treated as plain text."""
        hits = self._require("keywords", full_store).keyword_search(Query(text, 5), 5).entries
        assert ("cat" in {entry.id for entry in hits}) == ("cat" in text)

    def test_keyword_search_stays_in_scope(self, full_store: FullStore) -> None:
        """Every hit matches the filter and the time, and chunks that do not match take up none of the n results."""
        query = Query("cat interest", 2, Scope(ANIMALS, as_of=END + SECOND))
        hits = self._require("keywords", full_store).keyword_search(query, 2).entries
        assert {entry.id for entry in hits} == {"cat", "dog"}

    def test_keyword_search_for_fewer_hits_returns_the_best_ones(self, full_store: FullStore) -> None:
        """A search for fewer hits returns the first hits of a search for more; a search for 0 hits returns none."""
        store = self._require("keywords", full_store)
        best = [entry.id for entry in store.keyword_search(Query("the cat sat", 9), 9).entries]
        assert len(best) >= 3
        for n in range(4):
            assert [entry.id for entry in store.keyword_search(Query("the cat sat", n), n).entries] == best[:n]

    def test_keyword_search_in_an_empty_store(self, store: Any) -> None:
        """A keyword search of an empty store returns no hits and raises no error."""
        assert list(self._require("keywords", store).keyword_search(Query("cat", 3), 3).entries) == []

    def test_keyword_scores_are_those_of_the_search(self, full_store: FullStore) -> None:
        """A search and ``keyword_scores`` give a chunk the same score; chunks without any of the words are left out."""
        store = self._require("keywords", full_store)
        hits = {entry.id: entry.score for entry in store.keyword_search(Query("cat mat", 5), 5).entries}
        assert {"cat", "dog"} <= hits.keys()
        assert store.keyword_scores("cat mat", [*(chunk.id for chunk in CHUNKS), "unknown"]) == pytest.approx(hits)

    def test_no_keyword_score_exceeds_the_bound(self, full_store: FullStore) -> None:
        """If the result contains an upper bound for keyword scores, no score is larger."""
        result = self._require("keywords", full_store).keyword_search(Query("cat mat", 5), 5)
        assert result.bound is None or result.bound >= max(entry.score for entry in result.entries)
