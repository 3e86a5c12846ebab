"""FAISS as a vector store."""

import numpy as np
import pytest

from langchain_hybridgraph import HybridRetriever
from tests.support.stores.real_stores import COSINES, QUESTION, TEXTS, Fixed, documents, faiss


def test_faiss_numbers_its_rows_again_after_a_deletion():
    """After a deletion, for which FAISS renumbers its rows, each hit still has its own cosine."""
    store = faiss(list(TEXTS.values()), None)
    retriever = HybridRetriever(store, documents())
    retriever.invoke(QUESTION)
    first = next(iter(store.index_to_docstore_id.values()))
    store.delete([first])
    scores = {d.id: d.metadata["vector_score"] for d in retriever.retrieve(QUESTION, semantic_weight=1.0)}
    assert scores == pytest.approx({id: COSINES[id] for id in ("engine", "zebra")}, abs=1e-4)


def test_a_faiss_index_without_its_vectors_is_reported():
    """An IVF index, which cannot return its vectors, gives hits without cosines and reports no-cosine."""
    import faiss as library

    store = faiss(list(TEXTS.values()), None)
    flat = library.IndexFlatL2(3)
    lists = library.IndexIVFFlat(flat, 3, 1)
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
