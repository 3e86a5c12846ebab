"""Adapters of known vector stores, beyond the tests for all stores."""

import numpy as np
import pytest

from langchain_hybridgraph import HybridRetriever
from tests.support.stores.bare_store import BareStore
from tests.support.stores.real_stores import COSINES, QUESTION, TEXTS, Fixed, close, documents, faiss, milvus, qdrant


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("adapters")


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


def test_faiss_numbers_its_rows_again_after_a_deletion():
    """After a deletion, for which FAISS renumbers its rows, each hit still has its own cosine."""
    store = faiss(list(TEXTS.values()), None)
    retriever = HybridRetriever(store, documents())
    retriever.invoke(QUESTION)
    store.delete([next(iter(store.index_to_docstore_id.values()))])
    scores = {d.id: d.metadata["vector_score"] for d in retriever.retrieve(QUESTION, semantic_weight=1.0)}
    assert scores == pytest.approx({id: COSINES[id] for id in ("engine", "zebra")}, abs=1e-4)


def test_a_faiss_index_without_its_vectors_is_reported():
    """An IVF index, which cannot return its vectors, gives hits without cosines and reports no-cosine."""
    import faiss as library

    store = faiss(list(TEXTS.values()), None)
    lists = library.IndexIVFFlat(library.IndexFlatL2(3), 3, 1)
    vectors = np.asarray(Fixed().embed_documents(list(TEXTS.values())), np.float32)
    lists.train(vectors)
    lists.add(vectors)
    store.index = lists
    result = HybridRetriever(store, documents()).retrieve(QUESTION)
    assert result.degraded == ("no-cosine",)
    assert result[0].id == "ada"
    assert result[0].metadata["vector_score"] is None


def test_only_the_texts_of_hits_are_read_from_faiss():
    """A search reads the ids and vectors of the candidates, but the texts only of the hits."""
    store = faiss([f"text {number}" for number in range(60)] + list(TEXTS.values()), None)
    retriever = HybridRetriever(store, k=2)
    read, search = [], store.docstore.search
    store.docstore.search = lambda id: read.append(id) or search(id)
    assert len(retriever.invoke(QUESTION)) == 2
    assert 0 < len(set(read)) < 10


def test_a_milvus_collection_that_is_opened_again(folder):
    """The metric of an existing Milvus collection is read from its index, not from the arguments."""
    created = milvus(list(TEXTS.values()), folder, metric="IP")
    from langchain_milvus import Milvus

    connection = {"uri": str(folder / "milvus.db")}
    again = Milvus(Fixed(), collection_name=created.collection_name, connection_args=connection, auto_id=True)
    result = HybridRetriever(again, documents()).retrieve(QUESTION)
    assert {d.id: d.metadata["vector_score"] for d in result} == pytest.approx(COSINES, abs=1e-4)
    close(again)


def test_a_milvus_store_without_a_collection(folder):
    """A Milvus store whose collection does not exist yet gives an empty result that reports empty-index."""
    from langchain_milvus import Milvus

    store = Milvus(Fixed(), collection_name="nothing_yet", connection_args={"uri": str(folder / "milvus.db")})
    result = HybridRetriever(store).retrieve(QUESTION)
    assert (list(result), result.degraded) == ([], ("empty-index",))
    close(store)


def test_qdrant_points_with_numbers(folder):
    """Numeric ids in Qdrant are returned as strings."""
    store = qdrant([], folder)
    store.add_texts(list(TEXTS.values()), ids=[1, 2, 3])
    retriever = HybridRetriever(store)
    documents = retriever.retrieve(QUESTION)
    assert sorted(document.id for document in documents) == ["1", "2", "3"]
    assert documents[0].metadata["vector_score"] == pytest.approx(1.0)
    store.delete([1])
    assert sorted(document.id for document in retriever.invoke(QUESTION)) == ["2", "3"]
