"""The number of calls that a search makes to a Milvus server."""

import pytest
from langchain_core.documents import Document
from milvus_calls import WordEmbeddings, counted_calls

from langchain_hybridgraph import Edge, GraphRetriever, HybridRetriever, ingest
from langchain_hybridgraph.query.fusion import ReciprocalRankFusion
from langchain_hybridgraph.records import Chunk, Query
from langchain_hybridgraph.stores.milvus import graph, index
from langchain_hybridgraph.vectorstores.milvus_store import MilvusStore

TEXTS = {
    "seed": "the river floods the valley",
    "near": "a dam of concrete",
    "far": "turbines turn",
    "alone": "bread and butter",
    **{f"other{number}": f"something else {number}" for number in range(20)},
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    pytest.importorskip("pymilvus")
    store = MilvusStore(f"milvus:{tmp_path_factory.mktemp('milvus') / 'lite.db'}", WordEmbeddings())
    edges = [Edge("seed", "near", "references", 0.9), Edge("near", "far", "references", 0.9)]
    store.upsert([Chunk(id, text, {"n": len(text)}) for id, text in TEXTS.items()], edges=edges)
    store.flush()
    return store


@pytest.mark.parametrize("fusion", [None, ReciprocalRankFusion()], ids=["default", "rrf"])
@pytest.mark.parametrize("filter", [None, {"n": {"$gt": 5}}], ids=["all", "filtered"])
def test_a_hybrid_query_makes_one_call(store, fusion, filter):
    """Both searches, the texts and the check of every hit are one call, whatever the fusion."""
    retriever = HybridRetriever(store, k=5, fusion=fusion, filter=filter)
    retriever.invoke("warm up")
    with counted_calls(store) as calls:
        result = retriever.retrieve("the river in the valley")
    assert calls == ["hybrid_search"]
    assert result[0].id == "seed"
    assert result.hits[0].parts.keys() == {"vector", "keyword"}


async def test_an_awaited_hybrid_query_makes_one_awaited_call(store):
    """In an event loop the call is awaited."""
    retriever = HybridRetriever(store, k=5)
    with counted_calls(store) as calls:
        documents = await retriever.ainvoke("a river")
    assert calls == ["awaited hybrid_search"]
    assert documents[0].id == "seed"


BFS = {"seed_k": 1, "candidates": "reached", "traversal": {"type": "bfs", "max_hops": 2}}
EDGES = {
    "references": [Edge("seed", "near", "references", 0.9), Edge("near", "far", "references", 0.9)],
    "entities": [
        Edge(chunk, f"entity:{name}", "mentions")
        for chunk, name in [("seed", "Po"), ("near", "Po"), ("near", "Dam"), ("far", "Dam")]
    ],
}


@pytest.fixture(scope="module", params=EDGES)
def linked(store, request):
    """A store whose chunks are found neither by the question nor with the seed, so that each has to be read."""
    linked = MilvusStore(str(store._index.connection.address), WordEmbeddings(), collection=request.param)
    others = [Chunk(f"more{number}", f"the river {number} floods the valley") for number in range(150)]
    linked.upsert([*(Chunk(id, text) for id, text in TEXTS.items()), *others], edges=EDGES[request.param])
    return linked


@pytest.mark.parametrize("traversal", [{"type": "bfs", "max_hops": 2}, {"type": "evidence"}, {"type": "pagerank"}])
def test_a_graph_query_in_a_small_graph_makes_three_calls(linked, traversal):
    """One call reads all edges, and one the chunks, over references as over shared entities."""
    retriever = GraphRetriever(linked, k=3, graph=BFS | {"traversal": traversal})
    assert_calls(linked, retriever, ["hybrid_search", "query", "query"])


def test_a_graph_query_of_two_hops_makes_four_calls(linked, monkeypatch):
    """In a graph too large for one call, all edges of a hop are one call, and so are all chunks that are reached."""
    monkeypatch.setattr(graph, "MOST_AT_ONCE", 0)
    if linked._index.names.chunks.startswith("entities"):
        retriever = GraphRetriever(linked, k=3, graph=BFS | {"traversal": {"type": "evidence"}})
    else:
        retriever = GraphRetriever(linked, k=3, graph=BFS)
    assert_calls(linked, retriever, ["hybrid_search", "query", "query", "query"])


def test_a_question_that_names_an_entity_makes_no_further_call(linked, monkeypatch):
    """The names in the question are looked up with the edges of the seeds."""
    monkeypatch.setattr(graph, "MOST_AT_ONCE", 0)
    retriever = GraphRetriever(linked, k=3, graph=BFS | {"traversal": {"type": "evidence"}, "seed_k": 3})
    calls, _ = calls_of(linked, retriever, "Which river floods the valley, the Po?")
    assert calls[0] == "hybrid_search"
    assert len(calls) <= 4


def test_two_hops_to_hundreds_of_chunks_read_them_in_one_call(store):
    """Up to 4,000 chunks within two hops are read in one call."""
    edges = [Edge("seed", f"{n}", "references", 0.9) for n in range(30)]
    edges += [Edge(f"{n % 30}", f"{n}", "references", 0.9) for n in range(30, 600)]
    fan = MilvusStore(str(store._index.connection.address), WordEmbeddings(), collection="fan")
    fan.upsert([Chunk("seed", TEXTS["seed"]), *(Chunk(f"{n}", f"text {n}") for n in range(600))], edges=edges)
    retriever = GraphRetriever(fan, k=5, graph=BFS, semantic_weight=0.5)
    calls, result = calls_of(fan, retriever)
    assert calls == ["hybrid_search", "query", "query"]
    assert {hit.hops for hit in result.hits} == {0, 2}


def assert_calls(store, retriever, expected, question="the river floods the valley"):
    calls, result = calls_of(store, retriever, question)
    assert calls == expected
    assert result.hits[0].id == "seed"
    assert "near" in {hit.id for hit in result.hits}


def calls_of(store, retriever, question="the river floods the valley"):
    """Return the calls of a query by a process that knows the sizes of the collections, but no row, and the result."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "FRESH", 60.0)  # on a slow machine as well
        retriever.invoke(question)
        store._index.recent.drop(list(store._index.recent._rows))
        with counted_calls(store) as calls:
            result = retriever.retrieve(question)
    return calls, result


def test_a_filter_only_query_reads_the_first_chunks_only(store):
    """The times of all chunks are read, and of the rest only the first chunks that the query returns."""
    with counted_calls(store) as calls:
        documents = store.similarity_search("", k=2, filter={"n": {"$gt": 5}})
    assert [document.id for document in documents] == ["seed", "near"]
    assert calls == ["query", "query"]


def test_strong_consistency_reads_hits_again(store):
    """With "Strong" consistency nothing that was read before is taken for current."""
    strong = store.with_consistency("Strong")
    with counted_calls(strong) as calls:
        HybridRetriever(strong, k=5).invoke("the river")
    assert calls[:2] == ["hybrid_search", "query"]
    assert len(calls) <= 3


def test_both_searches_agree_with_each_alone(store):
    """The halves of a hybrid search are the results of the two searches."""
    query = Query("river bread something", 6)
    both = store.hybrid_search(query, 6)
    for half, alone in ((both.vector, store.vector_search(query, 6)), (both.keyword, store.keyword_search(query, 6))):
        assert [entry.id for entry in half.entries] == [entry.id for entry in alone.entries]
        assert [entry.score for entry in half.entries] == pytest.approx(
            [entry.score for entry in alone.entries], abs=1e-5
        )


def test_an_ingest_makes_edges(tmp_path):
    """Documents become chunks with edges, which a graph query follows."""
    store = MilvusStore(f"milvus:{tmp_path / 'lite.db'}", WordEmbeddings())
    texts = {"a.md": "The river. See [dams](b.md).", "b.md": "# Dams\n\nOf concrete."}
    report = ingest([Document(text, id=id, metadata={"source": id}) for id, text in texts.items()], store)
    assert (report.added, report.edges > 0) == (2, True)
    (edge,) = [edge for edge in store.edges(["a.md#0"]) if edge.relation == "references"]
    assert edge.target == "b.md#0"
    again = ingest([Document(text, id=id, metadata={"source": id}) for id, text in texts.items()], store)
    assert (again.added, again.updated, again.unchanged) == (0, 0, 2)
