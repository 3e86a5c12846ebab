"""All retrievers work on a store in Milvus and agree with the embedded store."""

import asyncio
import pickle

import pytest
from langchain_core.documents import Document

from langchain_hybridgraph import (
    GraphRetriever,
    HierarchicalRetriever,
    HybridGraphStore,
    HybridRetriever,
    MemoryRetriever,
    ingest,
)
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from langchain_hybridgraph.vectorstores.milvus_store import MilvusStore
from tests.support.samples.clock import PATIENCE
from tests.support.stores.milvus_calls import WordEmbeddings

TOPICS = {
    "river": "The river floods the valley in spring. See [dams](dam.md).",
    "dam": "A dam of concrete holds the water back. See [turbines](turbine.md).",
    "turbine": "Turbines turn water into electric power.",
    "bread": "Bread is baked of flour, water and salt.",
    "oven": "An oven bakes bread at 220 degrees. See [bread](bread.md).",
    "moon": "The moon circles the earth in 27 days.",
}
QUESTIONS = ("When does the river flood?", "How is bread baked?", "What turns water into power?")
RETRIEVERS = {
    "hybrid": HybridRetriever,
    "graph": GraphRetriever,
    "advanced": lambda store, k: AdvancedRetriever(HybridRetriever(store, k=k)),
    "hierarchical": HierarchicalRetriever,
    "memory": MemoryRetriever,
}


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Return an embedded store and a milvus-lite store with equal documents."""
    pytest.importorskip("pymilvus")
    milvus = MilvusStore(f"milvus:{tmp_path_factory.mktemp('milvus') / 'lite.db'}", WordEmbeddings(), timeout=PATIENCE)
    embedded = HybridGraphStore(None, WordEmbeddings())
    # Memories of equal age are ordered by id; without created_at, their age would be the time they were stored.
    documents = [
        Document(
            f"# {name.title()}\n\n{text}",
            id=f"{name}.md",
            metadata={"source": f"{name}.md", "created_at": "2025-01-01T00:00:00Z"},
        )
        for name, text in TOPICS.items()
    ]
    for store in (embedded, milvus):
        ingest(documents, store)
    return embedded, milvus


@pytest.mark.parametrize("kind", RETRIEVERS)
def test_a_retriever_finds_the_same_as_in_the_embedded_store(stores, kind):
    """Each retriever returns the same documents in the same order as on the embedded store, awaited or not."""
    embedded, milvus = (RETRIEVERS[kind](store, k=3) for store in stores)
    for question in QUESTIONS:
        documents = milvus.invoke(question)
        assert [document.id for document in documents] == [document.id for document in embedded.invoke(question)]
        assert documents == asyncio.run(milvus.ainvoke(question))
    assert any(milvus.invoke(question) for question in QUESTIONS)


def test_a_store_can_be_pickled(stores):
    """An unpickled store connects to the server and reads the same chunks."""
    copy = pickle.loads(pickle.dumps(stores[1]))
    assert copy.get_by_ids(["moon.md#0"]) == stores[1].get_by_ids(["moon.md#0"])
