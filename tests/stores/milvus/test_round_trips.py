"""Number of calls that a search makes to a Milvus server."""

import math
import threading
from contextlib import contextmanager

import pytest

from langchain_hybridgraph import GraphRetriever, HybridGraphStore, HybridRetriever
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.records import Edge, Query, Scope
from langchain_hybridgraph.search.evidence import LinkEvidence
from langchain_hybridgraph.search.fusion import ReciprocalRankFusion
from langchain_hybridgraph.search.pagerank import PersonalizedPageRank
from langchain_hybridgraph.search.scores import HopDecay
from langchain_hybridgraph.search.traversals import BFS as BreadthFirst
from langchain_hybridgraph.stores.milvus import graph, search
from langchain_hybridgraph.vectorstores.milvus_store import MilvusStore
from tests.support.samples.clock import PATIENCE
from tests.support.stores.words import Words

TEXTS = {
    "seed": "the river floods the valley",
    "near": "a dam of concrete",
    "far": "turbines turn",
    "alone": "bread and butter",
    **{f"other{number}": f"something else {number}" for number in range(20)},
}


@pytest.fixture(scope="module", autouse=True)
def caches_that_do_not_expire():
    """Keep rows and counts in the caches, so that the number of calls does not depend on the speed of the machine."""
    with pytest.MonkeyPatch.context() as patch:
        for duration in ("FRESH", "COUNTS_FRESH"):
            patch.setattr(search, duration, math.inf)
        yield


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    pytest.importorskip("pymilvus")
    store = MilvusStore(f"milvus:{tmp_path_factory.mktemp('milvus') / 'lite.db'}", Words(), timeout=PATIENCE)
    edges = [Edge("seed", "near", "references", 0.9), Edge("near", "far", "references", 0.9)]
    store.upsert([Chunk(id, text, {"n": len(text)}) for id, text in TEXTS.items()], edges=edges)
    store.flush()
    return store


@contextmanager
def counted_calls(store):
    """Yield a list to which the name of every call to the server is added."""
    calls, connection, thread = [], store._index.connection, threading.current_thread()
    call, acall = connection.call, connection.acall

    def counted(method, **arguments):
        if threading.current_thread() is thread:
            calls.append(method)
        return call(method, **arguments)

    async def acounted(method, **arguments):
        calls.append(f"awaited {method}")
        return await acall(method, **arguments)

    connection.call, connection.acall = counted, acounted
    try:
        yield calls
    finally:
        del connection.call, connection.acall


@pytest.mark.parametrize("fusion", [None, ReciprocalRankFusion()], ids=["default", "rrf"])
@pytest.mark.parametrize("filter", [None, {"n": {"$gt": 5}}], ids=["all", "filtered"])
def test_a_hybrid_query_makes_one_call(store, fusion, filter):
    """One call returns the hits of both searches with their texts, for any fusion and with or without a filter."""
    retriever = HybridRetriever(store, k=5, fusion=fusion, filter=filter)
    retriever.invoke("warm up")
    with counted_calls(store) as calls:
        result = retriever.retrieve("the river in the valley")
    assert calls == ["hybrid_search"]
    assert result[0].id == "seed"
    assert result.hits[0].parts.keys() >= {"vector", "keyword"}


BFS = {"seed_k": 1, "candidates": "reached", "traversal": {"type": "bfs", "max_hops": 2}}
MENTIONS = [
    Edge(chunk, f"entity:{name}", "mentions")
    for chunk, name in [("seed", "Po"), ("near", "Po"), ("near", "Dam"), ("far", "Dam")]
]


def large_graph():
    """Return more than 2,000 edges, among them those around four seeds.

    Two seeds each lead to one chunk and from there to another, through references or shared entities. The other two
    each lead to 30 chunks and from there to 570 others, in the same two ways.
    """
    yield Edge("references", "r1", "references", 0.9)
    yield Edge("r1", "r2", "references", 0.9)
    for chunk, name in [("entities", "Po"), ("e1", "Po"), ("e1", "Dam"), ("e2", "Dam")]:
        yield Edge(chunk, f"entity:{name}", "mentions")
    for n in range(600):
        yield Edge("fan" if n < 30 else f"f{n % 30}", f"f{n}", "references", 0.9)
        if n < 30:
            yield Edge("crowd", f"entity:near {n}", "mentions", 0.9)
            yield Edge(f"c{n}", f"entity:near {n}", "mentions", 0.9)
        yield Edge(f"c{n}", f"entity:far {n % 30}", "mentions", 0.9)
    for n in range(800):
        yield Edge(f"other{n % 100}", f"entity:other {n}", "mentions", 0.5)


@pytest.fixture(scope="module")
def large_stores(store):
    """Return two stores with equal chunks and edges, in Milvus and in memory, with a seed for each question."""
    texts = {f"{letter}{n}": f"text {n}" for letter in "cf" for n in range(600)}
    texts |= {id: f"text {id}" for id in ("r1", "r2", "e1", "e2")}
    texts |= {seed: f"the {seed} of the river" for seed in ("references", "entities", "fan", "crowd")}
    chunks = [Chunk(id, text) for id, text in texts.items()]
    milvus = MilvusStore(str(store._index.connection.address), Words(), timeout=PATIENCE, collection="large")
    embedded = HybridGraphStore(None, Words())
    for each in (milvus, embedded):
        each.upsert(chunks)
        each.upsert([], edges=list(large_graph()))
        each.flush()
    return milvus, embedded


@pytest.mark.parametrize(
    ("traversal", "seed", "most"),
    [
        ("bfs", "references", 3),
        ("bfs", "crowd", 4),
        ("evidence", "entities", 3),
        ("evidence", "fan", 3),
        ("pagerank", "references", 4),
        ("pagerank", "crowd", 4),
    ],
)
def test_a_graph_query_in_a_large_graph_makes_few_calls(large_stores, traversal, seed, most):
    """In a large graph, all edges of a hop are read in one call, and so are all chunks."""
    retriever = GraphRetriever(large_stores[0], k=5, graph=BFS | {"traversal": {"type": traversal}})
    calls, result = calls_of(large_stores[0], retriever, f"the {seed} of the river")
    assert calls[0] == "hybrid_search"
    assert len(calls) <= most
    assert result.hits[0].id == seed
    assert any(hit.hops for hit in result.hits)


@pytest.mark.parametrize(
    "traversal", [BreadthFirst(), LinkEvidence(), PersonalizedPageRank()], ids=lambda one: type(one).__name__
)
@pytest.mark.parametrize("seed", ["references", "entities", "fan", "crowd"])
def test_a_traversal_reaches_the_same_as_in_memory(large_stores, traversal, seed):
    """Traversals in Milvus and in memory reach the same chunks with the same strength."""
    milvus, embedded = (
        traversal.traverse(each.scoped_graph(Scope(), traversal.edge_filter), [(seed, 1.0)], HopDecay(), None)
        for each in large_stores
    )
    assert len(milvus.chunks) > 1
    assert milvus == embedded


def test_edges_that_a_chunk_does_not_list_yet_are_followed(store, monkeypatch):
    """Before flush completes the lists of neighbours, a traversal needs one more call and returns the same hits."""
    monkeypatch.setattr(graph, "MOST_AT_ONCE", 0)
    later = MilvusStore(str(store._index.connection.address), Words(), timeout=PATIENCE, collection="later")
    retriever = GraphRetriever(later, k=3, graph=BFS)
    later.upsert([Chunk(id, text) for id, text in TEXTS.items()])
    later.upsert([], edges=MENTIONS)
    before, unlisted = calls_of(later, retriever)
    later.flush()
    after, calls_when_listed = calls_of(later, retriever)
    assert (len(before), len(after)) == (4, 3)
    assert {(hit.id, hit.hops) for hit in unlisted.hits} == {("seed", 0), ("near", 1), ("far", 2)}
    assert calls_when_listed.hits == unlisted.hits


def calls_of(store, retriever, question="the river floods the valley"):
    """Return the calls of a query, and its result, in a process that knows the sizes of the collections but no rows."""
    retriever.invoke(question)
    store._index.recent.drop(list(store._index.recent._rows))
    with counted_calls(store) as calls:
        result = retriever.retrieve(question)
    return calls, result


def test_both_searches_agree_with_each_alone(store):
    """The vector and keyword parts of a hybrid search equal the results of the separate searches."""
    query = Query("river bread something", 6)
    both = store.hybrid_search(query, 6)
    for half, alone in ((both.vector, store.vector_search(query, 6)), (both.keyword, store.keyword_search(query, 6))):
        assert list(half.ids) == list(alone.ids)
        assert half.scores == pytest.approx(alone.scores, abs=1e-5)
