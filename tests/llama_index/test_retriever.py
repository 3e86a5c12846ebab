"""This package's retrievers in LlamaIndex: sync and async, in query engines, with events, over several stores."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.samples.clock import stop_the_clock

pytest.importorskip("llama_index.core")

from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.instrumentation.events.retrieval import RetrievalEndEvent, RetrievalStartEvent
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import NodeRelationship, QueryBundle, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters, SimpleVectorStore

from langchain_hybridgraph import (
    GraphRetriever,
    HierarchicalRetriever,
    HybridGraphStore,
    HybridRetriever,
    MemoryRetriever,
)
from langchain_hybridgraph.errors import ConfigurationError, FilterError
from langchain_hybridgraph.filters.expressions import by_source
from langchain_hybridgraph.llama_index import (
    LlamaIndexEmbeddings,
    LlamaIndexRetriever,
    LlamaIndexVectorStore,
    QueryWithOptions,
    RetrievalReportEvent,
    ingest_nodes,
)
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from tests.support.models.llama_models import WordEmbedding

TEXTS = {"cat": "The cat sat.", "dog": "Dogs bark.", "fish": "Fish swim in the sea.", "bird": "Birds fly south."}


def chain_of_nodes():
    """Return four nodes of one document linked to their neighbours, the first two of kind pet."""
    ids = list(TEXTS)
    nodes = [
        TextNode(id_=id, text=text, metadata={"kind": "pet" if place < 2 else "wild", "uri": f"zoo/{id}.txt"})
        for place, (id, text) in enumerate(TEXTS.items())
    ]
    for place, node in enumerate(nodes):
        node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id="zoo")
        if place:
            node.relationships[NodeRelationship.PREVIOUS] = RelatedNodeInfo(node_id=ids[place - 1])
        if place < 3:
            node.relationships[NodeRelationship.NEXT] = RelatedNodeInfo(node_id=ids[place + 1])
    return nodes


@pytest.fixture
def store():
    store = HybridGraphStore(None, LlamaIndexEmbeddings(WordEmbedding()))
    ingest_nodes(chain_of_nodes(), store, edges=None)
    return store


def ids(nodes):
    return [each.node_id for each in nodes]


KINDS = {
    "hybrid": HybridRetriever,
    "graph": GraphRetriever,
    "advanced": lambda store, **settings: AdvancedRetriever(HybridRetriever(store, **settings)),
    "hierarchical": HierarchicalRetriever,
    "memory": MemoryRetriever,
}


@pytest.mark.parametrize("kind", KINDS)
async def test_every_retriever(store, kind, monkeypatch):
    """Every retriever gives the same ids and scores through LlamaIndexRetriever as directly, awaited or not."""
    stop_the_clock(monkeypatch)  # memories age
    ours = KINDS[kind](store, k=2)
    retriever = LlamaIndexRetriever(ours)
    assert isinstance(retriever, BaseRetriever)
    direct = ours.retrieve("Where do fish swim?")
    nodes = retriever.retrieve("Where do fish swim?")
    monkeypatch.setattr(type(ours), "retrieve", None)
    for each in (nodes, await retriever.aretrieve("Where do fish swim?")):
        assert [n.node_id for n in each] == [d.id for d in direct]
        assert [n.score for n in each] == pytest.approx([d.metadata["relevance_score"] for d in direct], abs=1e-4)
    assert nodes[0].node_id == "fish"


# -- in LlamaIndex's own programs ---------------------------------------------------------------------------------


def test_query_engine(store):
    """A query engine answers from the retrieved nodes and returns them as its sources."""
    engine = RetrieverQueryEngine.from_args(LlamaIndexRetriever(HybridRetriever(store, k=1)), llm=MockLLM())
    answer = engine.query("Where do fish swim?")
    assert ids(answer.source_nodes) == ["fish"]
    assert TEXTS["fish"] in str(answer)
    assert answer.metadata["fish"]["retrieval_rank"] == 1


def test_events(store, events):
    """A retrieval sends the start, report and end events in this order, with the nodes."""
    nodes = LlamaIndexRetriever(HybridRetriever(store, k=1)).retrieve("fish")
    kinds = (RetrievalStartEvent, RetrievalReportEvent, RetrievalEndEvent)
    received = events.of(*kinds)
    assert [type(event) for event in received] == list(kinds)
    assert ids(received[2].nodes) == ids(nodes) == ["fish"]
    assert (received[1].degraded, received[1].plan["k"]) == ([], 1)


# -- options of calls ------------------------------------------------------------------------------------------

WILD = MetadataFilters(filters=[MetadataFilter(key="kind", value="wild")])


def test_options_of_one_call(store):
    """Options of a call override those of the retriever, except for filters, which are combined."""
    retriever = LlamaIndexRetriever(HybridRetriever(store), k=4, filters=WILD)
    assert len(retriever.retrieve("the")) == 2
    assert len(retriever.with_options(k=1).retrieve("the")) == 1
    pets = MetadataFilters(filters=[MetadataFilter(key="kind", value="pet")])
    assert retriever.with_options(filters=pets).retrieve("the cat") == []
    assert retriever.with_options(filters=by_source("nowhere")).retrieve("the cat") == []


async def test_options_through_a_query_engine(store):
    """QueryWithOptions passes options through a query engine."""
    engine = RetrieverQueryEngine.from_args(LlamaIndexRetriever(HybridRetriever(store)), llm=MockLLM())
    query = QueryWithOptions("the cat", options={"similarity_top_k": 1, "filters": WILD})
    assert ids(engine.query(query).source_nodes) == ["fish"]
    assert ids((await engine.aquery(query)).source_nodes) == ["fish"]


def test_a_query_with_an_embedding(store):
    """A query's own embedding is searched instead of its text, and without a text no-query-text is reported."""
    retriever = LlamaIndexRetriever(HybridRetriever(store, semantic_weight=1.0, k=1))
    vector = WordEmbedding()._get_text_embedding(TEXTS["bird"])
    assert ids(retriever.retrieve(QueryBundle("fish", embedding=vector))) == ["bird"]
    alone = retriever.retrieve_result(QueryBundle("", embedding=vector))
    assert (ids(alone), alone.degraded) == (["bird"], ("no-query-text",))


async def test_texts_to_embed_in_place_of_the_query(store):
    """The mean vector of custom_embedding_strs is searched, and aretrieve awaits the embedding model."""
    retriever = LlamaIndexRetriever(HybridRetriever(store, semantic_weight=1.0, k=1))
    bundle = QueryBundle("fish", custom_embedding_strs=[TEXTS["bird"]])
    assert ids(retriever.retrieve(bundle)) == ["bird"]
    assert ids(await retriever.aretrieve(bundle)) == ["bird"]
    assert store.embeddings.embed_model.awaited == 1


@pytest.mark.parametrize(
    ("kind", "settings"), [(HierarchicalRetriever, {}), (MemoryRetriever, {"mode": {"type": "general", "recency": 0}})]
)
def test_a_session_of_llama_index(store, kind, settings):
    """HierarchicalRetriever and MemoryRetriever accept LlamaIndex's chat messages as a session."""
    retriever = LlamaIndexRetriever(kind(store, k=1, **settings))
    messages = [ChatMessage(role="user", content="Tell me about fish.")]
    for session in (messages, {"summary": "", "messages": messages}):
        assert ids(retriever.with_options(session=session).retrieve("Where do fish swim?")) == ["fish"]


# -- degradation ----------------------------------------------------------------------------------


def test_degradation_is_in_the_metadata(store, events):
    """Degradation is reported in the metadata of every node, in the event and in the result."""
    hybrid = HybridRetriever(LlamaIndexVectorStore(VectorStoreIndex([], embed_model=WordEmbedding())), k=1)
    graphless = GraphRetriever(HybridGraphStore.from_texts(["fish swim"], ids=["a"]), k=1)
    result = LlamaIndexRetriever(graphless).retrieve_result("fish")
    assert result.degraded == ("no-graph-store",)
    assert result[0].metadata["degraded"] == ["no-graph-store"]
    assert "degraded" in result[0].node.excluded_llm_metadata_keys
    assert events.of(RetrievalReportEvent)[-1].degraded == ["no-graph-store"]
    empty = LlamaIndexRetriever(hybrid).retrieve_result("fish")
    assert (list(empty), empty.degraded) == ([], ("empty-index",))


def test_other_objects_are_not_retrievers(store):
    """Passing a store or an index instead of a retriever raises an error with the correct line."""
    empty = VectorStoreIndex([], embed_model=WordEmbedding())
    for wrong in (store, empty, empty.as_retriever(), None):
        with pytest.raises(ConfigurationError, match="HybridRetriever\\(store\\)"):
            LlamaIndexRetriever(wrong)


def test_unknown_options(store):
    """A misspelt option, an option given twice, an unsupported filter or an image as query raises an error."""
    retriever = LlamaIndexRetriever(HybridRetriever(store))
    with pytest.raises(ConfigurationError, match=r"a\.png"):
        retriever.retrieve(QueryBundle("fish", image_path="a.png"))
    with pytest.raises(TypeError, match="top_k"):
        retriever.with_options(top_k=1).retrieve("fish")
    with pytest.raises(ConfigurationError, match="two names for the same option"):
        retriever.with_options(k=1, similarity_top_k=1).retrieve("fish")
    insensitive = MetadataFilters(filters=[MetadataFilter(key="kind", value="W", operator="text_match_insensitive")])
    with pytest.raises(FilterError, match="TEXT_MATCH"):
        LlamaIndexRetriever(HybridRetriever(store), filters=insensitive)


# -- other stores -------------------------------------------------------------------------------------------------


@pytest.fixture
def index():
    return VectorStoreIndex(chain_of_nodes(), embed_model=WordEmbedding())


def test_over_a_simple_vector_store(index):
    """Over a SimpleVectorStore with its docstore, vectors and keywords are searched and nodes are restored
    completely.
    """
    assert isinstance(index.vector_store, SimpleVectorStore)
    result = LlamaIndexRetriever.from_index(index, k=2).retrieve_result("Where do fish swim?")
    assert (result[0].node_id, result.degraded) == ("fish", ())
    assert result[0].metadata["vector_score"] > 0
    assert result[0].metadata["bm25_score"] > 0
    assert result[0].node.prev_node.node_id == "dog"


def test_cosines_of_a_simple_vector_store(index):
    """The vector score equals the cosine that LlamaIndex itself returns."""
    theirs = {each.node_id: each.score for each in index.as_retriever(similarity_top_k=4).retrieve("fish swim")}
    ours = LlamaIndexRetriever.from_index(index, semantic_weight=1.0, k=4).retrieve("fish swim")
    assert {each.node_id: each.metadata["vector_score"] for each in ours} == pytest.approx(theirs)


def test_the_graph_of_an_index(index):
    """The relationships in an index's docstore are traversed as edges."""
    retriever = LlamaIndexRetriever.from_index(
        index, GraphRetriever, graph={"traversal": {"type": "bfs", "max_hops": 1}, "seed_k": 1}, k=2
    )
    results = retriever.retrieve("cat sat mat")
    assert [(each.node_id, each.metadata["hops"]) for each in results] == [("cat", 0), ("dog", 1)]


def test_other_objects_are_not_indexes(index):
    """from_index rejects a vector store, and retrievers that wrap others, with the correct line."""
    with pytest.raises(ConfigurationError, match="from_vector_store"):
        LlamaIndexRetriever.from_index(index.vector_store)
    with pytest.raises(ConfigurationError, match=r"AdvancedRetriever\(HybridRetriever\(store"):
        LlamaIndexRetriever.from_index(index, AdvancedRetriever)


def chroma_index(collection):
    chroma = pytest.importorskip("llama_index.vector_stores.chroma")
    vector_store = chroma.ChromaVectorStore(chroma_collection=collection)
    nodes = chain_of_nodes()
    context = StorageContext.from_defaults(vector_store=vector_store)
    VectorStoreIndex(nodes, storage_context=context, embed_model=WordEmbedding())
    return VectorStoreIndex.from_vector_store(vector_store, embed_model=WordEmbedding())


@pytest.fixture
def collection(request):
    chromadb = pytest.importorskip("chromadb")
    return chromadb.EphemeralClient().create_collection(request.node.name[:60])


def test_over_chroma(collection):
    """An existing collection of LlamaIndex's Chroma store is searched and its nodes are restored."""
    result = LlamaIndexRetriever.from_index(chroma_index(collection), GraphRetriever, k=4).retrieve_result("fish swim")
    assert (result[0].node_id, result.degraded, len(result)) == ("fish", ("no-cosine",), 4)
    assert result[0].node.metadata["kind"] == "wild"
    assert result[0].node.next_node.node_id == "bird"
    assert "doc_id" not in result[0].metadata


def test_a_collection_of_llama_index_through_langchain(collection):
    """A collection of LlamaIndex's Chroma store opened with langchain-chroma gives complete nodes."""
    from langchain_chroma import Chroma

    chroma_index(collection)
    opened = Chroma(collection_name=collection.name, embedding_function=LlamaIndexEmbeddings(WordEmbedding()))
    node = LlamaIndexRetriever(HybridRetriever(opened, k=1)).retrieve("fish swim")[0].node
    assert (node.node_id, node.text, node.prev_node.node_id) == ("fish", TEXTS["fish"], "dog")


# -- from files to an answer ------------------------------------------------------------------------------------


def test_only_this_part_needs_llama_index():
    """Without LlamaIndex the package can be imported, and only its LlamaIndex module raises an error with the extra."""
    code = (
        "import sys\n"
        "sys.modules['llama_index'] = None\n"
        "from langchain_hybridgraph import GraphRetriever\n"
        "try:\n"
        "    import langchain_hybridgraph.llama_index\n"
        "except ImportError as missing:\n"
        "    assert 'pip install \"langchain-hybridgraph[llama-index]\"' in str(missing), missing\n"
        "else:\n"
        "    raise AssertionError\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
