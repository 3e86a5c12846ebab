"""LlamaIndex: nodes, filters, retrievers, models and postprocessors."""

import json
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("llama_index.core")

from llama_index.core import StorageContext, VectorStoreIndex, schema
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.instrumentation.events.retrieval import RetrievalEndEvent, RetrievalStartEvent
from llama_index.core.llms import ChatMessage, MockLLM
from llama_index.core.node_parser import HierarchicalNodeParser, SentenceSplitter
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.utils import build_metadata_filter_fn

from langchain_hybridgraph import GraphRetriever, HybridGraphStore, HybridRetriever
from langchain_hybridgraph.embeddings.resolve import embedding_name
from langchain_hybridgraph.errors import ConfigurationError, EmbeddingMismatchError, FilterError
from langchain_hybridgraph.execution.llm import with_schema
from langchain_hybridgraph.filters.expressions import by_source
from langchain_hybridgraph.llama_index import (
    LlamaIndexChatModel,
    LlamaIndexEmbeddings,
    LlamaIndexRetriever,
    LlamaIndexVectorStore,
    QueryWithOptions,
    RerankPostprocessor,
    RetrievalReportEvent,
    filter_from,
    ingest_nodes,
)
from langchain_hybridgraph.records import PART_OF, SEQUENCE
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from langchain_hybridgraph.search.conversation import LLMRewrite, turns
from langchain_hybridgraph.search.rerankers import LLMReranker, ScoreReranker
from tests.support.models.llama_models import SayingLLM, WordEmbedding
from tests.support.samples.clock import stop_the_clock
from tests.support.samples.retrievers import BY_NAME, RETRIEVERS
from tests.support.servers.python_process import output_of_python


class Events(BaseEventHandler):
    received: list = []  # noqa: RUF012 - pydantic copies it

    @classmethod
    def class_name(cls):
        return "Events"

    def handle(self, event, **kwargs):
        self.received.append(event)

    def of(self, *kinds):
        return [event for event in self.received if isinstance(event, kinds)]


@pytest.fixture
def events():
    handler, root = Events(), get_dispatcher()
    root.add_event_handler(handler)
    yield handler
    root.event_handlers.remove(handler)


# -- retrievers ----------------------------------------------------------------------------------------------------

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


@pytest.mark.parametrize("kind", RETRIEVERS)
async def test_every_retriever(store, kind, monkeypatch):
    """Every retriever gives the same ids and scores through LlamaIndexRetriever as directly, awaited or not."""
    stop_the_clock(monkeypatch)  # memories age
    ours = kind(store, k=2)
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


async def test_query_engine(store):
    """A query engine answers from the retrieved nodes, and QueryWithOptions passes options through it."""
    engine = RetrieverQueryEngine.from_args(LlamaIndexRetriever(HybridRetriever(store)), llm=MockLLM())
    query = QueryWithOptions("the cat", options={"similarity_top_k": 1, "filters": WILD})
    answer = engine.query(query)
    assert ids(answer.source_nodes) == ["fish"]
    assert TEXTS["fish"] in str(answer)
    assert answer.metadata["fish"]["retrieval_rank"] == 1
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
    ("name", "settings"), [("hierarchical", {}), ("memory", {"mode": {"type": "general", "recency": 0}})]
)
def test_a_session_of_llama_index(store, name, settings):
    """HierarchicalRetriever and MemoryRetriever accept LlamaIndex's chat messages as a session."""
    retriever = LlamaIndexRetriever(BY_NAME[name](store, k=1, **settings))
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


# -- other stores -------------------------------------------------------------------------------------------------


@pytest.fixture
def index():
    return VectorStoreIndex(chain_of_nodes(), embed_model=WordEmbedding())


def test_over_a_simple_vector_store(index):
    """Over a SimpleVectorStore, vectors and keywords are searched, nodes are restored, and cosines are LlamaIndex's."""
    assert isinstance(index.vector_store, SimpleVectorStore)
    result = LlamaIndexRetriever.from_index(index, k=2).retrieve_result("Where do fish swim?")
    assert (result[0].node_id, result.degraded) == ("fish", ())
    assert result[0].metadata["vector_score"] > 0
    assert result[0].metadata["bm25_score"] > 0
    assert result[0].node.prev_node.node_id == "dog"
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
    """A collection of LlamaIndex's Chroma store gives complete nodes, also through langchain-chroma."""
    from langchain_chroma import Chroma

    result = LlamaIndexRetriever.from_index(chroma_index(collection), GraphRetriever, k=4).retrieve_result("fish swim")
    assert (result[0].node_id, result.degraded, len(result)) == ("fish", ("no-cosine",), 4)
    assert result[0].node.metadata["kind"] == "wild"
    assert result[0].node.next_node.node_id == "bird"
    assert "doc_id" not in result[0].metadata
    opened = Chroma(collection_name=collection.name, embedding_function=LlamaIndexEmbeddings(WordEmbedding()))
    node = LlamaIndexRetriever(HybridRetriever(opened, k=1)).retrieve("fish swim")[0].node
    assert (node.node_id, node.text, node.prev_node.node_id) == ("fish", TEXTS["fish"], "dog")


# -- from files to an answer ------------------------------------------------------------------------------------


def test_only_this_part_needs_llama_index():
    """Without LlamaIndex the package can be imported, and only its LlamaIndex module raises an error with the extra."""
    code = (
        "import pytest, sys\nsys.modules['llama_index'] = None\nfrom langchain_hybridgraph import GraphRetriever\n"
        "with pytest.raises(ImportError, match='pip install \"langchain-hybridgraph.llama-index.\"'):\n"
        "    import langchain_hybridgraph.llama_index\n"
    )
    output_of_python("-c", code)


# -- nodes ----------------------------------------------------------------------------------------------------

TEXT = "The cat sat on the mat. Dogs bark at night. Fish swim in the sea. Birds fly south in autumn."


def by_sentence(text):
    return [part + ". " for part in text.rstrip(". ").split(". ")]


def splitter(**options):
    return SentenceSplitter(
        chunk_size=12,
        chunk_overlap=0,
        chunking_tokenizer_fn=by_sentence,
        id_func=lambda place, document: f"{document.node_id}#{place}",
        **options,
    )


def four_nodes():
    return splitter().get_nodes_from_documents([schema.Document(text=TEXT, id_="zoo", metadata={"n": 1})])


def retrieve_texts(store, query, **options):
    return {each.node_id: each.node for each in LlamaIndexRetriever(HybridRetriever(store), **options).retrieve(query)}


def ends(store, ids, relation):
    return {(edge.source, edge.target) for edge in store.edges(ids) if edge.relation == relation}


def test_relationships_are_restored():
    """Source, previous and next node are restored with their hashes and metadata, and become edges."""
    store, nodes = HybridGraphStore(), four_nodes()
    ingest_nodes(nodes, store, edges=None)
    ids = [node.node_id for node in nodes]
    assert ends(store, ids, SEQUENCE) == {("zoo#0", "zoo#1"), ("zoo#1", "zoo#2"), ("zoo#2", "zoo#3")}
    node = retrieve_texts(store, "dogs")["zoo#1"]
    assert (node.text, node.metadata["n"]) == (nodes[1].text, 1)
    assert node.relationships == nodes[1].relationships
    assert (node.source_node.node_id, node.prev_node.node_id, node.next_node.node_id) == ("zoo", "zoo#0", "zoo#2")


def test_the_source_is_the_document():
    """The source of a node is its document, by whose id nodes can be filtered and deleted."""
    store = HybridGraphStore()
    ingest_nodes(four_nodes(), store)
    assert set(store.document_ids()) == {"zoo"}
    assert len(retrieve_texts(store, "cat", filter={"document_id": "zoo"})) == 4
    store.delete(document="zoo")
    assert retrieve_texts(store, "cat") == {}


def test_a_document_is_replaced():
    """A second run writes nothing, and nodes that a document no longer has are removed with their edges."""
    store = HybridGraphStore()
    ingest_nodes(four_nodes(), store)
    again = ingest_nodes(four_nodes(), store)
    assert (again.added, again.updated, again.unchanged, again.embedded) == (0, 0, 4, 0)
    shorter = splitter().get_nodes_from_documents([schema.Document(text=TEXT[:43], id_="zoo", metadata={"n": 1})])
    assert ingest_nodes(shorter, store).removed == 2
    assert ends(store, [f"zoo#{place}" for place in range(4)], SEQUENCE) == {("zoo#0", "zoo#1")}


def hierarchy():
    parser = HierarchicalNodeParser.from_defaults(
        node_parser_ids=["large", "middle", "small"],
        node_parser_map={
            name: SentenceSplitter(chunk_size=size, chunk_overlap=0, chunking_tokenizer_fn=by_sentence)
            for name, size in {"large": 100, "middle": 14, "small": 7}.items()
        },
    )
    return parser.get_nodes_from_documents([schema.Document(text=TEXT, id_="zoo")])


def test_children_are_replaced_by_their_parents():
    """A search matches the leaves of a hierarchy and returns their parents with all relationships."""
    store, nodes = HybridGraphStore(), hierarchy()
    ingest_nodes(nodes, store)
    nodes_by_id = {node.node_id: node for node in nodes}
    best = next(iter(retrieve_texts(store, "fish swim").values()))
    assert best.text == nodes_by_id[best.node_id].text
    assert best.relationships == nodes_by_id[best.node_id].relationships
    assert best.parent_node is not None
    assert best.child_nodes


def test_every_level_is_kept():
    """Every level of a hierarchy is stored with ``part_of`` edges, and ingesting again keeps them."""
    store, nodes = HybridGraphStore(), hierarchy()
    for _ in range(2):
        ingest_nodes(nodes, store)
        ids = [node.node_id for node in nodes]
        assert {chunk.id for chunk in store.get(ids)} == set(ids)
        expected = {(node.node_id, node.parent_node.node_id) for node in nodes if node.parent_node}
        assert ends(store, ids, PART_OF) == expected


def test_nodes_without_text_are_left_out():
    """Nodes without text are left out with a warning that names them, and no edge leads to them, or to itself."""
    neighbours = {NodeRelationship.NEXT: "image", NodeRelationship.PREVIOUS: "a"}
    related = {name: RelatedNodeInfo(node_id=id) for name, id in neighbours.items()}
    nodes = [
        TextNode(text="words", id_="a", relationships=related),
        schema.ImageNode(image_url="http://x/y.png", id_="image"),
        TextNode(text="  ", id_="blank"),
    ]
    store = HybridGraphStore()
    report = ingest_nodes(nodes, store)
    assert (report.added, report.warnings) == (1, ("2 nodes have no text: blank, image",))
    assert store.edges(["a"]) == []


@pytest.mark.parametrize(
    "node",
    [
        schema.ImageNode(text="a cat", image_url="http://x/y.png", id_="n"),
        schema.Node(text_resource=schema.MediaResource(text="a cat"), id_="n"),
        schema.IndexNode(text="a cat", index_id="table", id_="n"),
        TextNode(text="a cat", id_="n", start_char_idx=3, excluded_llm_metadata_keys=["x"], metadata={"x": 1}),
    ],
)
def test_kinds_of_nodes(node):
    """Each kind of node is restored with its class and fields."""
    store = HybridGraphStore()
    ingest_nodes([node], store)
    back = retrieve_texts(store, "cat")["n"]
    dump = node.model_dump(exclude={"metadata", "excluded_llm_metadata_keys", "excluded_embed_metadata_keys"})
    assert type(back) is type(node)
    assert back.model_dump(include=dump.keys()) == dump | {"class_name": node.class_name()}


def test_own_metadata_stay():
    """A metadata key of the user's that has a name used by this package keeps the user's value."""
    store = HybridGraphStore()
    ingest_nodes([TextNode(text="cat", id_="n", metadata={"score": "mine", "file_path": "zoo.txt"})], store)
    node = retrieve_texts(store, "cat", filter={"source": "zoo.txt"})["n"]
    assert (node.metadata["score"], node.metadata["file_path"], "source" in node.metadata) == ("mine", "zoo.txt", False)
    assert "score" not in node.excluded_llm_metadata_keys


def test_existing_embeddings_are_used():
    """A node with a vector is not embedded again, and the other nodes are."""
    model = WordEmbedding()
    nodes = [TextNode(text="cat", id_="a", embedding=model._get_text_embedding("moon")), TextNode(text="dog", id_="b")]
    store = HybridGraphStore(None, LlamaIndexEmbeddings(model))
    report = ingest_nodes(nodes, store)
    assert (report.added, report.updated, report.unchanged, report.embedded) == (2, 0, 0, 1)
    assert store.similarity_search("moon", k=1)[0].id == "a"
    assert json.loads(store.get(["a"])[0].metadata["_node_content"])["embedding"] is None
    again = ingest_nodes(nodes, store)
    assert (again.added, again.unchanged, again.embedded) == (0, 2, 0)


def test_edges_of_other_builders():
    """Edge builders can be added, except for ``sequence``, which comes from the relationships."""
    store = HybridGraphStore()
    nodes = [TextNode(text=f"We met Ada Lovelace {where}.", id_=where) for where in ("there", "here")]
    ingest_nodes(nodes, store, edges="auto")
    assert {edge.target for edge in store.edges(["here"])} & {edge.target for edge in store.edges(["there"])}
    with pytest.raises(ConfigurationError, match="both write 'sequence'"):
        ingest_nodes(nodes, store, edges=["sequence"])


def test_the_object_of_an_index_node_passes_the_filter():
    """An IndexNode is replaced by the node that it contains only if this node passes the filter."""
    store = HybridGraphStore()
    behind = TextNode(text="the table itself", id_="table-1", metadata={"owner": "bob"})
    node = schema.IndexNode(text="a table of cats", index_id="t", obj=behind, id_="n", metadata={"owner": "ada"})
    ingest_nodes([node], store)
    retriever = LlamaIndexRetriever(HybridRetriever(store))
    assert [each.node_id for each in retriever.retrieve("table")] == ["table-1"]
    own_filter = LlamaIndexRetriever(HybridRetriever(store, filter={"owner": "ada"}))
    for filtered in (retriever.with_options(filter={"owner": "ada"}), own_filter):
        assert [each.node_id for each in filtered.retrieve("table")] == ["n"]


# -- filters ----------------------------------------------------------------------------------------------------


def one(key, operator, value):
    return MetadataFilters(filters=[MetadataFilter(key=key, value=value, operator=operator)])


def test_nested():
    """Nested filters keep their conditions, and NOT means that none of the inner filters matches."""
    inner = MetadataFilters(
        filters=[MetadataFilter(key="a", value=1), MetadataFilter(key="b", value=2)], condition=FilterCondition.NOT
    )
    outer = MetadataFilters(filters=[inner, MetadataFilter(key="c", value=3)], condition=FilterCondition.OR)
    parsed = filter_from(outer)
    assert [parsed.matches(m) for m in ({}, {"a": 1}, {"b": 2}, {"a": 1, "c": 3})] == [True, False, False, True]


def test_a_dot_is_part_of_the_name():
    """A dot in a key is part of the key, because LlamaIndex's metadata are flat."""
    parsed = filter_from(one("a.b", "==", 1))
    assert (parsed.matches({"a.b": 1}), parsed.matches({"a": {"b": 1}})) == (True, False)


@pytest.mark.parametrize(
    ("operator", "value", "says"),
    [
        (FilterOperator.TEXT_MATCH_INSENSITIVE, "a", "TEXT_MATCH,"),
        (FilterOperator.EQ, None, "IS_EMPTY"),
        (FilterOperator.ANY, "a", r"write \['a'\]"),
        (FilterOperator.IN, "a", "takes a list"),
    ],
)
def test_filters_without_an_equivalent(operator, value, says):
    """A filter without an equivalent raises a FilterError that shows what to write instead."""
    with pytest.raises(FilterError, match=says):
        filter_from(one("key", operator, value))


WORDS = st.sampled_from(["a", "b", "ab", ""])
NUMBERS = st.integers(-2, 2)
CONDITIONS = st.one_of(
    st.tuples(st.just("n"), st.sampled_from(["==", "!=", ">", ">=", "<", "<="]), NUMBERS),
    st.tuples(st.just("n"), st.sampled_from(["in", "nin"]), st.lists(NUMBERS, max_size=3)),
    st.tuples(st.just("s"), st.sampled_from(["in", "nin"]), st.lists(WORDS, max_size=3)),
    st.tuples(st.just("s"), st.sampled_from(["==", "!=", "contains", "text_match", ">", ">=", "<", "<="]), WORDS),
    st.tuples(st.just("l"), st.sampled_from(["any", "all"]), st.lists(st.sampled_from(["x", "y"]), max_size=2)),
    st.tuples(st.sampled_from(["n", "s", "l"]), st.just("is_empty"), st.none()),
)
VALUES = [None, *range(-2, 3)], [None, "a", "b", "ab", ""], [None, [], ["x"], ["y"], ["x", "y"]]
METADATA = [{key: each for key, each in zip("nsl", one, strict=True) if each is not None} for one in product(*VALUES)]


@settings(max_examples=200)
@given(st.lists(CONDITIONS, min_size=1, max_size=2), st.sampled_from(list(FilterCondition)))
def test_translated_filters_match_like_llama_indexs_own(conditions, condition):
    """A translated filter matches the same metadata as LlamaIndex's SimpleVectorStore."""
    filters = MetadataFilters(
        filters=[MetadataFilter(key=key, operator=operator, value=value) for key, operator, value in conditions],
        condition=condition,
    )
    theirs, ours = build_metadata_filter_fn(METADATA.__getitem__, filters), filter_from(filters)
    assert [ours.matches(each) for each in METADATA] == list(map(theirs, range(len(METADATA))))


# -- models ----------------------------------------------------------------------------------------------------


async def test_vectors_are_the_models():
    """LlamaIndexEmbeddings returns the model's vectors of texts and queries, sync and async."""
    model = WordEmbedding()
    ours = LlamaIndexEmbeddings(model)
    texts = ["a cat", "a dog"]
    expected = [model.get_text_embedding(text) for text in texts]
    assert ours.embed_documents(texts) == expected
    assert await ours.aembed_documents(texts) == expected
    assert ours.embed_query("a cat") == await ours.aembed_query("a cat") == model.get_query_embedding("a cat")


def test_an_index_remembers_its_model(tmp_path):
    """An index made with one LlamaIndex model cannot be opened with another."""
    with HybridGraphStore(tmp_path / "index", LlamaIndexEmbeddings(WordEmbedding(model_name="one"))) as store:
        store.add_texts(["a cat"])
    assert embedding_name(LlamaIndexEmbeddings(WordEmbedding(model_name="one"))).endswith("/one")
    with HybridGraphStore(tmp_path / "index", LlamaIndexEmbeddings(WordEmbedding(model_name="one"))) as store:
        assert len(store.similarity_search("cat")) == 1
    with pytest.raises(EmbeddingMismatchError):
        HybridGraphStore(tmp_path / "index", LlamaIndexEmbeddings(MockEmbedding(embed_dim=8)))


async def test_a_rewrite_by_a_model_of_llama_index():
    """LLMRewrite uses the rewrite of a LlamaIndex language model verbatim."""
    rewrite = LLMRewrite(LlamaIndexChatModel(SayingLLM("Where do fish swim?")))
    history = turns(["User: What of fish?"])
    assert rewrite("and where?", history).text == "Where do fish swim?"
    assert (await rewrite.acall("and where?", history)).text == "Where do fish swim?"


def test_methods_of_structured_output_are_rejected():
    """Structured answers are requested in the prompt, so other methods are rejected."""
    model = LlamaIndexChatModel(SayingLLM(""))
    assert with_schema(model, {}, "LLMReranker", "json_mode")
    with pytest.raises(ConfigurationError, match=r"LlamaIndexChatModel has no .* leave method='function_calling' out"):
        with_schema(model, {}, "LLMReranker", "function_calling")


def nodes(**scores):
    return [NodeWithScore(node=TextNode(text=f"text {id}", id_=id), score=score) for id, score in scores.items()]


def scored(nodes):
    return [(each.node_id, each.score) for each in nodes]


def by_letter(query, texts):
    """Return scores that rank the last letter of the alphabet first."""
    return [(ord(text[-1]) - ord("a")) / 10 for text in texts]


def test_score_reranker_needs_no_query():
    """ScoreReranker filters by the nodes' own scores without a query, and treats a missing score as 0."""
    done = RerankPostprocessor(ScoreReranker(0.5)).postprocess_nodes(nodes(a=0.9, b=None, c=0.4))
    assert scored(done) == [("a", 0.9)]


async def test_llm_reranker_over_a_model_of_llama_index():
    """A LlamaIndex language model can rerank, even if its answer is surrounded by prose."""
    llm = SayingLLM('Sure: {"ratings": [{"passage": 1, "rating": 2}, {"passage": 2, "rating": 9}]}')
    done = RerankPostprocessor(LLMReranker(LlamaIndexChatModel(llm)), on_error="raise")
    for results in (
        done.postprocess_nodes(nodes(a=0.9, b=0.5), query_str="which?"),
        await done.apostprocess_nodes(nodes(a=0.9, b=0.5), query_str="which?"),
    ):
        assert [id for id, _ in scored(results)] == ["b", "a"]
    instructions, material = llm.calls[0]
    assert "schema" in instructions
    assert "0 to 10" in instructions
    assert "which?" in material


def failing(query, texts):
    raise OSError("no network")


async def test_a_failure_keeps_the_order():
    """If the reranker fails, copies in the original order have ``rerank-failed`` in metadata hidden from the model.

    With ``on_error="raise"``, the reranker's own error is raised.
    """
    with pytest.raises(OSError, match="no network"):
        RerankPostprocessor(failing, on_error="raise").postprocess_nodes(nodes(a=0.9), query_str="any")
    original = nodes(a=0.9, b=0.5)
    done = RerankPostprocessor(failing, top_n=1)
    awaited = await done.apostprocess_nodes(original, query_str="any")
    for results in (awaited, done.postprocess_nodes(original, query_str="any")):
        assert scored(results) == [("a", 0.9)]
        assert results[0].metadata["degraded"] == ["rerank-failed"]
        assert results[0].get_content(schema.MetadataMode.LLM) == "text a"
    assert "degraded" not in original[0].metadata


def test_reranking(events):
    """The nodes get the reranker's order and scores, and LlamaIndex's rerank events are sent."""
    done = RerankPostprocessor(by_letter).postprocess_nodes(nodes(a=0.9, b=0.5, c=0.1), query_str="any")
    assert scored(done) == [("c", 0.2), ("b", 0.1), ("a", 0.0)]
    start, end = events.of(ReRankStartEvent, ReRankEndEvent)
    assert (ids(start.nodes), start.model_name, ids(end.nodes)) == (["a", "b", "c"], "TextReranker", ["c", "b", "a"])


# -- errors -------------------------------------------------------------------------------------------------------

EMPTY = VectorStoreIndex([], embed_model=WordEmbedding())
INSENSITIVE = MetadataFilters(filters=[MetadataFilter(key="kind", value="W", operator="text_match_insensitive")])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda ours: LlamaIndexRetriever(ours.vector_store), r"HybridRetriever\(store\)"),
        (lambda ours: LlamaIndexRetriever(EMPTY), r"HybridRetriever\(store\)"),
        (lambda ours: LlamaIndexRetriever(EMPTY.as_retriever()), r"HybridRetriever\(store\)"),
        (lambda ours: LlamaIndexRetriever.from_index(EMPTY.vector_store), "from_vector_store"),
        (lambda ours: LlamaIndexRetriever.from_index(EMPTY, "graph"), "a class such as GraphRetriever, got 'graph'"),
        (lambda ours: LlamaIndexRetriever.from_index(EMPTY, AdvancedRetriever), r"AdvancedRetriever\(HybridRetriever"),
        (lambda ours: LlamaIndexRetriever(ours).retrieve(QueryBundle("fish", image_path="a.png")), r"a\.png"),
        (lambda ours: LlamaIndexRetriever(ours, top_k=1), r"top_k; write similarity_top_k=1 or k=1$"),
        (lambda ours: LlamaIndexRetriever(ours, search_kwargs={"k": 1}), r"write similarity_top_k=1 or k=1$"),
        (lambda ours: LlamaIndexRetriever(ours).with_options(top_k=1), r"top_k; write similarity_top_k=1 or k=1$"),
        (lambda ours: LlamaIndexRetriever(AdvancedRetriever(ours), foo=1), r"foo; the options are .*conversation"),
        (lambda ours: LlamaIndexRetriever(ours, k=1, similarity_top_k=1), "two names for the same option"),
        (lambda ours: LlamaIndexRetriever(ours, filters=INSENSITIVE), "TEXT_MATCH"),
        (lambda ours: ingest_nodes(["text"], HybridGraphStore()), "for LangChain Documents use ingest"),
        (lambda ours: LlamaIndexEmbeddings("text-embedding-3-small"), r"Settings\.embed_model"),
        (lambda ours: LlamaIndexChatModel("gpt-4o"), r"Settings\.llm"),
        (lambda ours: RerankPostprocessor(42), r"reranker is .*; expected one of"),
        (lambda ours: RerankPostprocessor(by_letter, top_n=0), "top_n"),
        (lambda ours: RerankPostprocessor(by_letter, on_error="ignore"), "on_error"),
        (lambda ours: RerankPostprocessor(by_letter).postprocess_nodes(nodes(a=0.9)), "query_str"),
    ],
)
def test_wrong_uses(store, call, message):
    """An object that cannot be wrapped, or a wrong option or query, raises an error with the correct line."""
    with pytest.raises((ValueError, TypeError), match=message):
        call(HybridRetriever(store))
