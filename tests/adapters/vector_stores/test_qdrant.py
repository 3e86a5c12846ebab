"""Qdrant as a vector store."""

import pytest

from langchain_hybridgraph import HybridRetriever
from tests.support.stores.real_stores import QUESTION, TEXTS, qdrant


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("adapters")


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
