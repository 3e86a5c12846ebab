"""langchain-tests' suite for retrievers, for every retriever and over another vector store."""

from langchain_core.documents import Document
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_tests.integration_tests import RetrieversIntegrationTests

from langchain_hybridgraph import (
    GraphRetriever,
    HierarchicalRetriever,
    HybridGraphStore,
    HybridRetriever,
    MemoryRetriever,
    ingest,
)
from langchain_hybridgraph.records import Edge
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from tests.support.stores.words import Words

TEXTS = {
    "notes/ada.md": "Ada Lovelace wrote notes on the Analytical Engine.",
    "notes/engine.md": "The Analytical Engine was to be driven by steam.",
    "notes/byron.md": "Lord Byron was a poet.",
    "notes/loom.md": "The loom of Jacquard wove silk by cards.",
}
DOCUMENTS = [Document(text, id=uri, metadata={"uri": uri}) for uri, text in TEXTS.items()]


class RetrieverSuite(RetrieversIntegrationTests):
    """Suite of a retriever over the package's store."""

    retriever_constructor = HybridRetriever
    retriever_query_example = "Who wrote notes on the engine driven by steam?"

    @property
    def retriever_constructor_params(self):
        store = HybridGraphStore(None)
        ingest(DOCUMENTS, store, split=None)
        return {"vector_store": store, "k": 3}


class PlainStoreSuite(RetrieverSuite):
    """Suite of a retriever over LangChain's store in memory."""

    options = {}  # noqa: RUF012 - read only

    @property
    def retriever_constructor_params(self):
        store = InMemoryVectorStore.from_documents(DOCUMENTS, Words())
        return {"vector_store": store, "documents": DOCUMENTS, "k": 3, **self.options}


class TestHybrid(RetrieverSuite):
    """The suite for HybridRetriever."""


class TestHybridOverPlainStore(PlainStoreSuite):
    """The suite for HybridRetriever over another vector store."""


class TestGraph(RetrieverSuite):
    """The suite for GraphRetriever."""

    retriever_constructor = GraphRetriever


class TestGraphOverPlainStore(PlainStoreSuite):
    """The suite for GraphRetriever over another vector store, with separate edges."""

    retriever_constructor = GraphRetriever
    options = {"edges": [Edge("notes/ada.md", "notes/engine.md", "cites", 0.9)]}  # noqa: RUF012 - read only


class TestHierarchical(RetrieverSuite):
    """The suite for HierarchicalRetriever."""

    retriever_constructor = HierarchicalRetriever


class TestMemory(RetrieverSuite):
    """The suite for MemoryRetriever."""

    retriever_constructor = MemoryRetriever


class TestAdvanced(RetrieverSuite):
    """The suite for AdvancedRetriever."""

    retriever_constructor = staticmethod(lambda vector_store, k: AdvancedRetriever(HybridRetriever(vector_store), k=k))
