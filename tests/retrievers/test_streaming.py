"""Streaming: hits certain to be in the result are sent early, and all parts together are the complete result."""

import asyncio
import threading
from operator import itemgetter
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import RunnableLambda, RunnablePassthrough

from langchain_hybridgraph import GraphRetriever, HybridGraphStore, HybridRetriever, MemoryRetriever
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import RetrievalError
from langchain_hybridgraph.options.models import PRESETS, GraphOptions, SelectionOptions
from langchain_hybridgraph.records import Edge
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever, history_aware
from langchain_hybridgraph.search import pipeline
from langchain_hybridgraph.search.conversation import ExpandedQuery
from langchain_hybridgraph.search.expansion import TRAVERSALS
from langchain_hybridgraph.search.pipeline import MIN_CANDIDATES
from langchain_hybridgraph.search.rerankers import TextReranker
from langchain_hybridgraph.search.scores import GRAPH_SCORES
from langchain_hybridgraph.search.traversals import BFS
from langchain_hybridgraph.stores.graph import InMemoryGraph
from tests.support.models.cosine_table import CosineTable

SECONDS = 120  # a deadlock ends the test
OPEN = threading.Event()
OPEN.set()
COSINES = {"a": 0.95, "b": 0.8, "c": 0.6, "d": 0.4, "e": 0.2, "f": 0.1}
HOP_DECAY = {"preset": "hop_decay", "graph": {"seed_k": 2, "seed_keyword_weight": 0.0}}
EDGES = [Edge("a", "d", "cites", 0.9), Edge("b", "e", "cites", 0.7), Edge("d", "f", "cites", 1.0)]


def stored(cosines=COSINES, edges=EDGES, **metadata):
    store = HybridGraphStore(None, CosineTable({f"{cosine} text": cosine for cosine in cosines.values()}))
    store.add_texts(
        [f"{cosine} text" for cosine in cosines.values()], [metadata.get(id, {}) for id in cosines], ids=list(cosines)
    )
    if edges:
        store.upsert([], edges=edges)
    return store


@pytest.fixture(scope="module")
def store():
    with stored() as store:
        yield store


class SlowGraph:
    """Graph whose edges can be read only when the gate is open."""

    has_graph = True

    def __init__(self, edges, gate):
        self._graph, self._gate = InMemoryGraph(edges), gate

    def scoped_graph(self, scope, ways):
        assert self._gate.wait(SECONDS), "nobody opened the gate"
        return self._graph.scoped_graph(scope, ways)


class SlowReranker:
    """Reranker that reverses the order once the gate is open."""

    def __init__(self, gate, filters=False):
        self._gate, self.filters = gate, filters

    def rerank(self, query, hits):
        assert self._gate.wait(SECONDS), "nobody opened the gate"
        return [place / len(hits) if place or not self.filters else None for place in range(len(hits))]


class FailingGraph:
    has_graph = True

    def scoped_graph(self, scope, ways):
        raise OSError("the edges cannot be read")


class FailingReranker:
    def __init__(self, filters=False):
        self.filters = filters

    def rerank(self, query, hits):
        raise OSError("the texts cannot be read")


def ids(parts):
    return [document.id for part in parts for document in part]


def by_rank(parts):
    return sorted((document for part in parts for document in part), key=lambda d: d.metadata["retrieval_rank"])


def streamed_early(retriever, gate, count):
    """Return the parts of the first ``count`` hits of a stream, which come before the gate is opened.

    Check that the complete stream has the hits of ``invoke``, each in its own part.
    """
    stream = retriever.stream("q")
    early = [next(stream) for _ in range(count)]
    gate.set()
    parts, answer = [*early, *stream], retriever.invoke("q")
    assert by_rank(parts) == answer
    assert len(parts) == len(answer)
    return early


def parts_before_the_error(retriever, input="q"):
    """Return the parts of a stream that ends with the error of a failing stage, which are the early ones."""
    parts = []
    with pytest.raises(RetrievalError, match="cannot be read"):
        parts.extend(retriever.stream(input))  # keeps what came before the error
    return parts


@pytest.fixture
def gate():
    return threading.Event()


# -- early hits -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "preset", [None, "hop_decay", "distance_decay", "ring_decay", "pagerank", "propagation", "beam"]
)
def test_the_first_hit_comes_before_the_edges(store, preset, gate):
    """The first hit is streamed before the edges have been read, and the other hits follow."""
    graph = {"seed_k": 2, "seed_keyword_weight": 0.0}
    retriever = GraphRetriever(store, edges=SlowGraph(EDGES, gate), preset=preset, k=3, graph=graph, annotate="all")
    ((first,),) = streamed_early(retriever, gate, 1)
    assert (first.id, first.metadata["retrieval_rank"], first.metadata["hops"]) == ("a", 1, 0)


@pytest.mark.parametrize(
    ("hop_decay", "tail", "early"),
    [((0.2, 0.1, 0.1), 0.0, ["a", "b"]), ((0.2, 0.1, 1.0), 0.0, ["a"]), ((0.2, 0.1, 0.1), 1.0, ["a"])],
)
def test_the_largest_decay_of_any_hop_decides_what_is_certain(store, hop_decay, tail, early):
    """A seed is streamed early if no chunk of any number of hops can overtake it."""
    score = {"type": "hop_decay", "hop_decay": hop_decay, "tail": tail}
    graph = {"traversal": {"type": "bfs"}, "score": score, "seed_k": 2, "seed_keyword_weight": 0.0}
    retriever = GraphRetriever(
        store, edges=FailingGraph(), k=2, graph=graph, semantic_weight=1.0, annotate="all", on_error="raise"
    )
    assert ids(parts_before_the_error(retriever)) == early


NOW = 1_700_000_000.0


@pytest.mark.parametrize(
    ("settings", "early"),
    [
        ({}, ["b"]),
        ({"graph": {"traversal": "bfs"}}, ["b"]),
        ({"preset": "beam"}, ["b"]),
        ({"k": 6}, ["a", "b", "c", "d", "e", "f"]),
    ],
    ids=["default", "bfs", "beam", "all memories"],
)
def test_certain_memories_come_before_the_edges(settings, early):
    """Memories whose memory score no other one can exceed are streamed before the edges are read."""
    trust = {id: {"confidence": 1.0 if id == "b" else 0.1, "valid_from": NOW} for id in COSINES}
    with stored(**trust) as store:
        gate = threading.Event()
        options = {"k": 2, "semantic_weight": 1.0, "annotate": "all", "as_of": NOW} | settings
        retriever = MemoryRetriever(store, edges=SlowGraph(EDGES, gate), **options)
        assert sorted(ids(streamed_early(retriever, gate, len(early)))) == early


@pytest.mark.parametrize("kind", [GraphRetriever, MemoryRetriever])
def test_reranked_hits_come_before_the_edges(store, kind, gate):
    """If all texts fit in k, reranked hits are streamed before the edges are read."""
    reranker = TextReranker(lambda query, texts: [1 - float(text.split()[0]) for text in texts])
    retriever = kind(store, edges=SlowGraph(EDGES, gate), k=6, reranker=reranker, annotate="all", as_of=NOW)
    assert sorted(ids(streamed_early(retriever, gate, len(COSINES)))) == sorted(COSINES)


async def test_the_first_hit_comes_before_the_edges_awaited(store, gate):
    """astream yields the first hit before the edges have been read."""
    retriever = GraphRetriever(store, edges=SlowGraph(EDGES, gate), k=3, **HOP_DECAY, annotate="all")
    stream = retriever.astream("q")
    (first,) = await asyncio.wait_for(anext(stream), SECONDS)
    assert first.id == "a"
    gate.set()
    assert by_rank([[first], *[part async for part in stream]]) == await retriever.ainvoke("q")


@pytest.mark.parametrize("kind", [HybridRetriever, GraphRetriever, MemoryRetriever])
def test_hits_that_a_reranker_cannot_drop_are_streamed_before_it(store, kind, gate):
    """If all candidates fit in k, they are streamed before the reranker has finished, without ranks."""
    retriever = kind(store, k=6, reranker=SlowReranker(gate), annotate="all")
    stream = retriever.stream("q")
    early = [next(stream) for _ in COSINES]
    assert set(ids(early)) == set(COSINES)
    assert {document.metadata["retrieval_rank"] for (document,) in early} == {None}
    gate.set()
    assert list(stream) == []
    assert [document.id for document in by_rank(early)] == [document.id for document in retriever.invoke("q")]


@pytest.mark.parametrize(
    "settings",
    [{"k": 3}, {"reranker": FailingReranker(filters=True)}, {"min_score": 0.1}, {"selection": {"max_per_document": 1}}],
)
def test_a_hit_that_a_reranker_may_drop_waits_for_it(store, settings):
    """No hit is streamed before the reranker has finished if k, min_score, a cap or the reranker may drop it."""
    options = {"k": 6, "reranker": FailingReranker(), "on_error": "raise"} | settings
    assert parts_before_the_error(HybridRetriever(store, **options)) == []


@pytest.mark.parametrize("annotate", ["none", "all"])
def test_an_advanced_retriever_streams_hits_of_a_single_search_early(store, annotate, gate):
    """If only the rewritten question is searched, AdvancedRetriever streams the first hit before the edges are read."""
    below = GraphRetriever(store, edges=SlowGraph(EDGES, gate), k=3, **HOP_DECAY)
    retriever = history_aware(below, expander=lambda query, turns: ExpandedQuery("q", sure=True), annotate=annotate)
    input = {"input": "and that?", "chat_history": ["User: q?"]}
    stream = retriever.stream(input)
    (first,) = next(stream)
    assert (first.id, "retrieval_rank" in first.metadata) == ("a", annotate == "all")
    gate.set()
    parts = [[first], *stream]
    assert sorted(ids(parts)) == sorted(document.id for document in retriever.invoke(input))
    assert len(parts) == 3


def test_a_seed_that_another_hit_beats_waits_for_the_edges():
    """A seed is not streamed early if a hit that cannot be a seed has a better score."""
    with stored(b={"labels": ["x"]}) as store:
        retriever = GraphRetriever(store, edges=FailingGraph(), k=1, graph={"seed_labels": ["x"]}, on_error="raise")
        assert parts_before_the_error(retriever) == []


def test_a_seed_waits_if_it_is_only_the_best_with_edges(store):
    """A seed that is the best by similarity, but not by the search's score, is not streamed before the edges."""
    graph = {"seed_keyword_weight": 0.9}
    retriever = GraphRetriever(store, edges=FailingGraph(), preset="hop_decay", k=1, graph=graph)
    assert ids(retriever.stream("0.6")) == [document.id for document in retriever.invoke("0.6")] == ["c"]


def test_two_fused_searches_stream_nothing_early(store):
    """If two searches are fused, no hit is streamed before both are complete."""
    below = GraphRetriever(store, edges=FailingGraph(), k=3, **HOP_DECAY, on_error="raise")
    assert ids(parts_before_the_error(below)) == ["a", "b"]
    retriever = AdvancedRetriever(below, expander=lambda query, turns: "q", fuse_raw=True)
    assert parts_before_the_error(retriever, {"input": "that?", "chat_history": ["User: q?"]}) == []


# -- the parts and the answer -----------------------------------------------------------------------------------------


NAMES = [f"n{number}" for number in range(12)]
SETTINGS = st.fixed_dictionaries(
    {"k": st.integers(0, 14), "seed_k": st.integers(1, 6)},
    optional={
        "preset": st.sampled_from(sorted(PRESETS)),
        "traversal": st.sampled_from([*sorted(TRAVERSALS), BFS(min_weight=0.5)]),
        "score": st.sampled_from(sorted(GRAPH_SCORES)),
        "rerank_depth": st.sampled_from([1, 3, 50]),
        "candidates": st.sampled_from(["all", "reached"]),
        "slots": st.integers(0, 3),
        "min_score": st.sampled_from([0.1, 0.5]),
        "max_per_document": st.just(1),
        "mmr_lambda": st.just(0.6),
        "seed_labels": st.just(["x"]),
        "semantic_weight": st.sampled_from([0.0, 0.5, 1.0]),
        "fusion": st.just("rrf"),
        "reranker": st.sampled_from(
            [TextReranker(lambda query, texts: [float(text[-1]) / 10 for text in texts]), SlowReranker(OPEN)]
        ),
    },
)


def grouped(options):
    """Return the options grouped as the constructor takes them."""
    groups = {
        group: {name: value for name, value in options.items() if name in kind.model_fields}
        for group, kind in {"graph": GraphOptions, "selection": SelectionOptions}.items()
    }
    return {name: value for name, value in options.items() if not any(name in one for one in groups.values())} | groups


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0.05, 0.1, 0.3, 0.3, 0.5, 0.8, 0.9, 0.95, 1.0]), st.sampled_from([0.1, 0.5, 0.9, 1.0])
        ),
        min_size=1,
        max_size=12,
    ),
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES), st.sampled_from([0.3, 0.8, 1.0])), max_size=20),
    SETTINGS,
    st.sampled_from([GraphRetriever, MemoryRetriever]),
    st.tuples(st.sampled_from([2, MIN_CANDIDATES]), st.booleans()),
)
def test_the_streamed_parts_equal_the_result(texts, links, selection, kind, circumstances):
    """For any retriever, preset, traversal and setting, with edges or a failing graph, and with few or all texts as
    candidates, the parts sorted by rank equal the result of invoke.
    """
    candidates, fails = circumstances
    for name in ("traversal", "score") if "preset" in selection else ():
        selection.pop(name, None)
    cosine_of = {id: cosine for id, (cosine, _) in zip(NAMES, texts, strict=False)}
    edges = [
        Edge(one, two, "cites", weight) for one, two, weight in links if one != two and {one, two} <= cosine_of.keys()
    ]
    labels = {id: {"labels": ["x"]} for id in list(cosine_of)[::2]}
    facts = {
        id: {"confidence": confidence, "valid_from": NOW - 3600, **labels.get(id, {})}
        for id, (_, confidence) in zip(NAMES, texts, strict=False)
    }
    with stored(cosine_of, [], **facts) as store, patch.object(pipeline, "MIN_CANDIDATES", candidates):
        graph = FailingGraph() if fails else edges
        retriever = kind(store, edges=graph, annotate="all", as_of=NOW, **grouped(selection))
        answer = retriever.invoke("text")
        parts = list(retriever.stream("text"))
        assert all(len(part) == 1 for part in parts) or parts == [[]]
        assert by_rank(parts) == answer


def chains(retriever):
    """Return chains whose step after the retriever receives the sum of the retriever's parts."""
    ids_of = RunnableLambda(lambda documents: [document.id for document in documents])
    in_mapping = RunnablePassthrough.assign(found=itemgetter("query") | retriever | ids_of) | itemgetter("found")
    spelt = FakeListChatModel(responses=["q q q"]) | StrOutputParser()  # streams letters
    return [(retriever | ids_of, "q"), (in_mapping, {"query": "q"}), (spelt | retriever | ids_of, "anything")]


async def test_a_chain_streams_in_the_order_of_its_answer(store):
    """A chain streams documents in the order of its invoke result, even if the retriever alone streams in another
    order.
    """
    retriever = GraphRetriever(store, k=6, reranker=SlowReranker(OPEN))
    assert ids(retriever.stream("q")) != [document.id for document in retriever.invoke("q")]
    for chain, question in chains(retriever):
        answer = chain.invoke(question)
        assert answer == [document.id for document in retriever.invoke("q")]
        assert [id for part in chain.stream(question) for id in part] == answer
        assert [id async for part in chain.astream(question) for id in part] == answer


class Recorder(BaseCallbackHandler):
    def __init__(self):
        self.events = []

    def on_retriever_start(self, serialized, query, **kwargs):
        self.events.append(("start", query))

    def on_retriever_end(self, documents, **kwargs):
        self.events.append(("end", [document.id for document in documents]))

    def on_retriever_error(self, error, **kwargs):
        self.events.append(("error", type(error).__name__))

    def on_custom_event(self, name, data, **kwargs):
        self.events.append((name, data.get("stage")))


async def test_callbacks_are_those_of_invoke(store):
    """stream, ainvoke and astream send the same callback events as invoke."""
    retriever = GraphRetriever(store, k=3, **HOP_DECAY, annotate="all")
    recorders = [Recorder() for _ in range(4)]
    retriever.invoke("q", {"callbacks": [recorders[0]]})
    list(retriever.stream("q", {"callbacks": [recorders[1]]}))
    await retriever.ainvoke("q", {"callbacks": [recorders[2]]})
    _ = [part async for part in retriever.astream("q", {"callbacks": [recorders[3]]})]
    assert recorders[0].events[0] == ("start", "q")
    assert [each.events for each in recorders[1:]] == [recorders[0].events] * 3


async def test_an_error_comes_after_the_early_hits(store):
    """With on_error="raise", a failing graph ends the stream with an error after the early hits."""
    retriever = GraphRetriever(store, edges=FailingGraph(), k=3, **HOP_DECAY, on_error="raise")
    recorder = Recorder()
    stream = retriever.stream("q", {"callbacks": [recorder]})
    assert next(stream)[0].id == "a"
    with pytest.raises(RetrievalError, match="cannot be read"):
        list(stream)
    assert recorder.events[-1] == ("error", "RetrievalError")
    awaited = retriever.astream("q")
    assert (await anext(awaited))[0].id == "a"
    with pytest.raises(RetrievalError, match="cannot be read"):
        _ = [part async for part in awaited]


def test_parents_come_in_place_of_their_children():
    """Two children of one parent are streamed as one early Document, the parent."""
    with HybridGraphStore(None, CosineTable({"0.9 part": 0.9, "0.8 part": 0.8, "0.3 other": 0.3})) as store:
        parents = [Chunk("p", "0.5 whole", {}, "doc")]
        children = [Chunk(f"c{n}", f"{0.9 - n / 10} part", {}, "doc", "p") for n in range(2)]
        store.upsert([*children, Chunk("z", "0.3 other", {}, "z")], parents=parents, edges=[Edge("z", "c0", "cites")])
        store.flush()
        gate = threading.Event()
        stream = GraphRetriever(store, k=2, reranker=SlowReranker(gate)).stream("q")
        assert {next(stream)[0].id for _ in range(2)} == {"p", "z"}
        gate.set()
        assert list(stream) == []


def test_a_stream_that_is_closed_early_blocks_nothing(store):
    """After a stream is closed early, the next search and the store's close are not blocked."""
    retriever = GraphRetriever(store, k=3, graph={"seed_k": 2})
    stream = retriever.stream("q")
    next(stream)
    stream.close()
    assert len(retriever.invoke("q")) == 3
