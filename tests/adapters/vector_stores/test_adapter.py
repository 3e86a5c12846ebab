"""Adapters of known vector stores, beyond the tests for all stores."""

import numpy as np
import pytest
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_hybridgraph import HybridRetriever
from langchain_hybridgraph.adapters.any_store import _ADAPTERS, adapter_of
from tests.support.stores.bare_store import BareStore
from tests.support.stores.real_stores import COSINES, QUESTION, STORES, TEXTS, Fixed, close, documents

WITH_ADAPTERS = {
    kind: STORES[kind] for kind in ("chroma l2", "faiss l2", "qdrant dot on disk", "milvus ip", "in memory")
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("adapters")


@pytest.fixture(params=WITH_ADAPTERS)
def adapter(request, folder):
    make, options = WITH_ADAPTERS[request.param]
    store = make(list(TEXTS.values()), folder, **options)
    yield adapter_of(store)
    close(store)


def test_every_known_store_is_recognised(adapter):
    """Known stores and their subclasses get their own adapter."""
    assert type(adapter) in _ADAPTERS.values()

    class Own(InMemoryVectorStore):
        pass

    assert type(adapter_of(Own(Fixed()))) is _ADAPTERS["InMemoryVectorStore", "load"]


def test_listing_counting_and_reading_agree(adapter):
    """documents, ids, count and get agree on the stored texts."""
    documents = list(adapter.documents())
    assert sorted(document.page_content for document in documents) == sorted(TEXTS.values())
    ids = [document.id for document in documents]
    assert sorted(adapter.ids()) == sorted(ids)
    assert adapter.count() == len(TEXTS)
    assert {document.id for document in adapter.get(ids)} == set(ids)
    assert adapter.get(["4b1d3b1e-5a8c-4f0e-9f55-000000000000"]) == []
    assert adapter.get([]) == []


def test_vectors_have_unit_length(adapter):
    """Vectors of stored texts have unit length, and unknown ids are left out."""
    ids = list(adapter.ids())
    vectors = adapter.vectors([*ids, "nobody"])
    assert sorted(vectors) == sorted(ids)
    assert [np.linalg.norm(vector) for vector in vectors.values()] == pytest.approx([1.0] * len(TEXTS), abs=1e-5)
    assert adapter.vectors([]) == {}


# -- any other ---------------------------------------------------------------------------------------------------


class OfDistances(BareStore):
    """Vector store that declares its scores to be cosine distances."""

    def similarity_search_with_score(self, query, k=4, **kwargs):
        return [(documents, 1.0 - score) for documents, score in super().similarity_search_with_score(query, k)]

    def _select_relevance_score_fn(self):
        return self._cosine_relevance_score_fn


def test_a_store_with_cosine_distances():
    """Scores that a store declares to be cosine distances, as PGVector does, become cosines."""
    store = OfDistances(documents(), Fixed(), by_id=True)
    result = HybridRetriever(store, documents(), semantic_weight=1.0).retrieve(QUESTION)
    assert {d.id: d.metadata["vector_score"] for d in result} == pytest.approx(COSINES, abs=1e-4)
    assert result.degraded == ()
