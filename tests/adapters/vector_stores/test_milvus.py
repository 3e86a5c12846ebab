"""Milvus as a vector store."""

import pytest

from langchain_hybridgraph import HybridRetriever
from tests.support.stores.real_stores import COSINES, QUESTION, TEXTS, Fixed, close, documents, milvus


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("adapters")


def test_a_milvus_collection_that_is_opened_again(folder):
    """The metric of an existing Milvus collection is read from its index, not from the arguments."""
    created = milvus(list(TEXTS.values()), folder, metric="IP")
    from langchain_milvus import Milvus

    again = Milvus(
        Fixed(),
        collection_name=created.collection_name,
        connection_args={"uri": str(folder / "milvus.db")},
        auto_id=True,
    )
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
