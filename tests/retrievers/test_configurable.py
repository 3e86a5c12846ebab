"""LangChain's configurable_fields: settings at run time over an existing index."""

import pytest
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.runnables import ConfigurableField

from langchain_hybridgraph import GraphRetriever, HybridGraphStore, HybridRetriever, build_layers, ingest
from langchain_hybridgraph.embeddings.resolve import LSAEmbeddings
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from tests.support.samples.retrievers import STORE_RETRIEVERS

TEXTS = {
    "cars/roadster.md": "The roadster is a fast red car, and costs a lot of money.",
    "cars/van.md": "A blue van carries boxes. Its price is low.",
    "trains/slow.md": "A slow train stops at every village on the river.",
    "trains/fast.md": "The express is a fast train, and stops nowhere.",
}


@pytest.fixture(scope="module")
def store():
    vector_store = HybridGraphStore(None, "lsa")
    pages = [Document(text, metadata={"uri": uri, "kind": uri.split("/")[0]}, id=uri) for uri, text in TEXTS.items()]
    ingest(pages, vector_store, split=None)
    build_layers(vector_store)
    return vector_store


def fields(*names):
    return {name: ConfigurableField(id=name) for name in names}


def configured(chain, **settings):
    return chain.with_config(configurable=settings)


@pytest.mark.parametrize("kind", STORE_RETRIEVERS)
def test_k_weights_and_filter_at_run_time(kind, store):
    """k, the weights and the filter can be configured at run time; otherwise the constructor's values apply.

    A k given in the call overrides a configured one.
    """
    names = ("k", "semantic_weight", "keyword_weight", "filter")
    chain = kind(store, k=2).configurable_fields(**fields(*names))
    usual = chain.invoke("fast train")
    assert len(usual) == 2
    assert len(configured(chain, k=4).invoke("fast train")) > 2
    assert configured(chain, k=4).invoke("fast train", k=1) == configured(chain, k=1).invoke("fast train") == usual[:1]
    cars = configured(chain, filter={"kind": "cars"}).invoke("fast train")
    assert {document.metadata["kind"] for document in cars} <= {"cars"}
    assert chain.invoke("fast train") == usual


def test_the_index_over_documents_is_the_same():
    """Configured retrievers share the keyword index that was built from a collection's documents."""
    model = LSAEmbeddings()
    model.fit(list(TEXTS.values()))
    documents = [Document(text, metadata={"source": uri}, id=uri) for uri, text in TEXTS.items()]
    collection = Chroma.from_documents(documents, model, collection_name="configurable")
    retriever = GraphRetriever(collection, documents, k=3)
    configurable = retriever.configurable_fields(**fields("keyword_weight"))
    configured_retriever, _ = configurable.prepare({"configurable": {"keyword_weight": 1.0}})
    assert configured_retriever.index.adapter is retriever.index.adapter is not None
    assert configured_retriever.retrieve("fast train", k=1)[0].metadata["source"] == "trains/fast.md"
    assert configured_retriever.retrieve("fast train").plan["weights"] == {"keyword": 1.0}


def test_preset_and_graph_options_at_run_time(store):
    """The preset and the graph options can be set at run time."""
    retriever = GraphRetriever(store, k=2).configurable_fields(**fields("preset", "graph"))
    beam, _ = retriever.prepare({"configurable": {"preset": "beam"}})
    assert beam.retrieve("train").plan["walk"] == {"traversal": "beam", "score": "hop_decay"}
    graph = {"traversal": {"type": "bfs", "max_hops": 1}, "seed_k": 1}
    configured_retriever, _ = retriever.prepare({"configurable": {"graph": graph}})
    assert (configured_retriever.graph.traversal.max_hops, configured_retriever.graph.seed_k) == (1, 1)


def test_an_advanced_retriever_and_the_one_below(store):
    """One call configures an AdvancedRetriever while its inner retriever stays the same object."""
    below = HybridRetriever(store, k=3)
    chain = AdvancedRetriever(below).configurable_fields(**fields("k", "expander", "fuse_raw"))
    input = {"input": "and its price?", "chat_history": [("user", "Which car is red?"), ("assistant", "The roadster.")]}
    assert len(chain.invoke(input)) == 3
    assert len(configured(chain, k=1).invoke(input)) == 1
    configured_retriever, _ = chain.prepare({"configurable": {"expander": "strip_question", "fuse_raw": False}})
    assert configured_retriever.retriever is below
    result = configured_retriever.retrieve_with_context("what is its price?", ["red cars"])
    assert result.plan["expanded_query"] == "its price"


def test_a_wrong_value_at_run_time_is_an_error(store):
    """Values that the constructor rejects are also rejected at run time."""
    retriever = HybridRetriever(store).configurable_fields(**fields("k", "fusion"))
    with pytest.raises(ValueError, match="k must be an integer ≥ 0, got -1"):
        configured(retriever, k=-1).invoke("train")
    with pytest.raises(ValueError, match="did you mean 'rrf'"):
        configured(retriever, fusion="rff").invoke("train")
