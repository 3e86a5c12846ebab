"""Number of calls between a retriever and an engine."""

import asyncio
import sys
import traceback
from pathlib import Path

import pytest
from langchain_core.documents import Document

import langchain_hybridgraph
from langchain_hybridgraph import (
    GraphRetriever,
    HierarchicalRetriever,
    HybridGraphStore,
    HybridRetriever,
    MemoryRetriever,
    ingest,
)
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from langchain_hybridgraph.stores.tantivy_index import TantivyIndex
from langchain_hybridgraph.stores.vectors import VectorMatrix

PACKAGE = Path(langchain_hybridgraph.__file__).parent


@pytest.fixture(scope="module")
def store():
    """Return a store with three documents, one of which links to another."""
    store = HybridGraphStore(None)
    pages = {"cats": "Cats purr. [Dogs](dogs)", "dogs": "Dogs bark.", "ships": "Ships sail."}
    ingest([Document(text, id=id, metadata={"uri": id}) for id, text in pages.items()], store)
    return store


def over(kind):
    """Return a factory of an AdvancedRetriever over this kind of retriever, which searches for two questions."""
    return lambda store, k: AdvancedRetriever(kind(store, k=k), expander=lambda question, turns: f"{question} Loudly?")


RETRIEVERS = {
    "hybrid": HybridRetriever,
    "graph": GraphRetriever,
    "memory": MemoryRetriever,
    "hierarchical": HierarchicalRetriever,
    "advanced, hybrid": over(HybridRetriever),
    "advanced, hierarchical": over(HierarchicalRetriever),
}


@pytest.mark.parametrize("is_async", [False, True], ids=["invoke", "ainvoke"])
@pytest.mark.parametrize("name", RETRIEVERS)
@pytest.mark.parametrize("method", [TantivyIndex.search, VectorMatrix.search], ids=["words", "vectors"])
def test_a_search_reaches_an_engine_in_few_calls(name, is_async, method, store, monkeypatch):
    """From ``invoke`` to the engine's search, inclusive, the stack has at most 11 frames of this package.

    LangChain's frames do not count, nor does the frame of the function that replaces the engine here. With
    ``ainvoke`` the frames are those of the thread that calls the engine.
    """
    depths = []

    def counted(*arguments, **options):
        stack = traceback.extract_stack(sys._getframe())
        depths.append(1 + sum(Path(frame.filename).is_relative_to(PACKAGE) for frame in stack))
        return method(*arguments, **options)

    engine = TantivyIndex if method is TantivyIndex.search else VectorMatrix
    monkeypatch.setattr(engine, method.__name__, counted)
    retriever, call = RETRIEVERS[name](store, k=1), {"input": "Do cats purr?"}
    if isinstance(retriever, AdvancedRetriever):
        call |= {"conversation_history": ["User: Which pets are loud?"]}
    documents = asyncio.run(retriever.ainvoke(**call)) if is_async else retriever.invoke(**call)
    assert documents[0].page_content.startswith("Cats")
    assert depths
    assert max(depths) <= 11
