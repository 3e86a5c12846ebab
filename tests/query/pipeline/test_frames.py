"""The length of the path from a retriever to an engine."""

import sys
import traceback
from pathlib import Path

import pytest
from langchain_core.documents import Document

import langchain_hybridgraph
from langchain_hybridgraph import GraphRetriever, HybridGraphStore, HybridRetriever, MemoryRetriever, ingest
from langchain_hybridgraph.stores.engines.tantivy import TantivyIndex
from langchain_hybridgraph.stores.engines.vector_matrix import VectorMatrix

PACKAGE = Path(langchain_hybridgraph.__file__).parent


@pytest.fixture(scope="module")
def store():
    """Three linked documents."""
    store = HybridGraphStore(None)
    pages = {"cats": "Cats purr. [Dogs](dogs)", "dogs": "Dogs bark.", "ships": "Ships sail."}
    ingest([Document(text, id=id, metadata={"uri": id}) for id, text in pages.items()], store)
    return store


@pytest.mark.parametrize("retriever", [HybridRetriever, GraphRetriever, MemoryRetriever])
@pytest.mark.parametrize(("engine", "method"), [(TantivyIndex, "search"), (VectorMatrix, "approximate_search")])
def test_a_search_reaches_an_engine_in_few_calls(retriever, engine, method, store, monkeypatch):
    """From ``invoke`` to the engine's search, engine included, at most 10 frames are of this package.

    LangChain's frames do not count, nor does the frame of this test that is called in place of the engine.
    """
    depths = []
    search = getattr(engine, method)

    def counted(*arguments, **options):
        stack = traceback.extract_stack(sys._getframe())
        depths.append(1 + sum(Path(frame.filename).is_relative_to(PACKAGE) for frame in stack))
        return search(*arguments, **options)

    monkeypatch.setattr(engine, method, counted)
    assert retriever(store, k=1).invoke("Do cats purr?")[0].page_content.startswith("Cats")
    assert depths
    assert max(depths) <= 10
