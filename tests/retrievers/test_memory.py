"""MemoryRetriever: modes, sessions, times and confidence, over the embedded store and others."""

from __future__ import annotations

import asyncio
import math
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_tests.integration_tests import RetrieversIntegrationTests
from pydantic import ValidationError

from langchain_hybridgraph import HybridGraphStore, MemoryRetriever
from langchain_hybridgraph.errors import ConfigurationError, HybridGraphError
from langchain_hybridgraph.filters.expressions import by_meta
from langchain_hybridgraph.options.presets import MODES, Mode, mode_from
from langchain_hybridgraph.records import Edge
from langchain_hybridgraph.search.traversals import BFS
from tests.support.samples.clock import NOW, stop_the_clock

DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def _fixed_time(monkeypatch):
    stop_the_clock(monkeypatch)


class Angles(Embeddings):
    """Embedding of texts that end with their cosine with any question."""

    def embed_documents(self, texts):
        return [self._vector(text) for text in texts]

    def embed_query(self, text):
        return [1.0, 0.0, 0.0]

    def _vector(self, text):
        cosine = float(text.split()[-1])
        # Texts with the same first letter are on one side of the question.
        side = math.sqrt(1 - cosine**2)
        return [cosine, side, 0.0] if text[0] < "n" else [cosine, 0.0, side]


class History(BaseChatMessageHistory):
    """Chat history of the given messages."""

    def __init__(self, *messages):
        self.stored = list(messages)

    @property
    def messages(self):
        return self.stored

    def clear(self):
        self.stored.clear()


def store(memories, edges=(), **settings):
    """Return a store of texts by id, each with its metadata."""
    vector_store = HybridGraphStore(None, Angles(), **settings)
    vector_store.add_texts(
        [text for text, _ in memories.values()], [metadata for _, metadata in memories.values()], ids=list(memories)
    )
    vector_store.upsert([], edges=list(edges))
    return vector_store


def ids(documents):
    return [document.id for document in documents]


def by_vector(memories, memory=None, **settings):
    """Return a retriever that uses only vectors. The number in each text is its cosine with the question."""
    weights = {"vector": 1.0, "keyword": 0.0}
    return MemoryRetriever(store(memories), memory={"source_weights": weights} | (memory or {}), **settings)


# -- scores -------------------------------------------------------------------------------------------------------


def test_confident_memories_come_before_similar_ones():
    """In the belief_system mode, a confident memory outranks a more similar one with low confidence."""
    retriever = by_vector(
        {
            "poison": ("poison 0.98", {"confidence": 0.05}),
            "trusted": ("trusted 0.72", {"confidence": 0.95}),
        },
        mode="belief_system",
    )
    assert ids(retriever.invoke("?")) == ["trusted", "poison"]


def test_hotness_is_added_before_hits_are_cut_to_k():
    """A frequently used memory is returned although it is not among the k most similar."""
    memories = {f"a{n}": (f"a{n} 0.{9 - n}", {}) for n in range(8)}
    memories["used"] = ("used 0.1", {"active_count": 10**6})
    assert "used" not in ids(by_vector(memories, k=2).invoke("?"))
    assert ids(by_vector(memories, k=2, memory={"hotness": {"alpha": 0.9}}).invoke("?"))[0] == "used"


@pytest.mark.parametrize("plain", [False, True], ids=["own", "plain"])
def test_hotness_reads_when_a_memory_was_updated(plain):
    """A memory updated today has more hotness than one that is equally old and equally used, over any store."""
    old = {"active_count": 9, "created_at": (NOW - 300 * DAY).isoformat()}
    memories = {"left": ("left 0.8", old), "changed": ("changed 0.8", {**old, "updated_at": NOW.isoformat()})}
    vector_store = store(memories)
    if plain:
        documents = vector_store.get_by_ids(list(memories))
        vector_store = InMemoryVectorStore(vector_store.embeddings)
        vector_store.add_documents(documents)
    weights = {"vector": 1.0, "keyword": 0.0}
    left, changed = (
        {one.id: one.metadata["score_breakdown"]["hotness"] for one in result}[id]
        for id in ("left", "changed")
        for result in [MemoryRetriever(vector_store, memory={"source_weights": weights, "hotness": 0.2}).retrieve("?")]
    )
    assert changed > left


@pytest.mark.parametrize("mode", MODES)
def test_a_smaller_k_gives_a_prefix_in_every_mode(mode):
    """The hits for a smaller k are a prefix of those for a larger k, in every mode."""
    metadata = [{"confidence": n % 5 / 4, "created_at": (NOW - n * DAY).isoformat()} for n in range(30)]
    memories = {f"m{n}": (f"{'amz'[n % 3]}{n} {0.95 - n / 40:.3f}", metadata[n]) for n in range(30)}
    edges = [Edge(f"m{n}", f"m{n + 1}", "sequence") for n in range(29)]
    retriever = MemoryRetriever(store(memories, edges), mode=mode)
    whole = ids(retriever.invoke("a3", k=20))
    assert len(whole) == 20
    for k in (1, 5, 10):
        assert ids(retriever.invoke("a3", k=k)) == whole[:k]


class ReadsFirst(MemoryRetriever):
    """MemoryRetriever that scores memories after reading them, as is necessary with a reranker or parents."""

    def _scoring(self, *args):
        return replace(super()._scoring(*args), state_columns=None)


@pytest.mark.parametrize("weights", [{"vector": 0.45, "graph": 0.4}, {"vector": 0.45}])
def test_scoring_before_reading_is_scoring_after_it(weights):
    """Reading only the best memories changes neither hits nor score parts, with a filter and expired memories."""
    metadata = [
        {
            "confidence": n % 7 / 6,
            "kind": "odd" if n % 2 else "even",
            "created_at": (NOW - n * DAY).isoformat(),
            "valid_until": (NOW + (n % 9 - 2) * DAY).isoformat(),
        }
        for n in range(150)
    ]
    memories = {f"m{n}": (f"{'amz'[n % 3]}{n} {0.95 - n / 200:.3f}", metadata[n]) for n in range(150)}
    vector_store = store(memories, [Edge(f"m{n}", f"m{n + 1}", "sequence") for n in range(149)])
    one, other = (
        kind(vector_store, memory={"source_weights": weights, "hotness": 0.2}).retrieve(
            "a3", k=20, filter={"kind": "even"}, as_of=NOW
        )
        for kind in (MemoryRetriever, ReadsFirst)
    )
    assert ids(one) == ids(other)
    assert len(one) == 20
    for hit, read in zip(one.hits, other.hits, strict=True):
        assert hit.parts == pytest.approx(read.parts)
        assert (hit.path, hit.source, hit.vector_score) == (read.path, read.source, read.vector_score)


def test_without_edges_the_hits_are_those_of_the_search():
    """Without edges the hits are those of the search, and the result reports no-edges without a warning."""
    result = by_vector({"poison": ("p 0.9", {"confidence": 0.0}), "trusted": ("t 0.8", {"confidence": 1.0})}).retrieve(
        "?"
    )
    retriever = MemoryRetriever(
        store({"poison": ("p 0.9", {"confidence": 0.0}), "trusted": ("t 0.8", {"confidence": 1.0})})
    )
    assert ids(result) == ids(retriever.retrieve("?")) == ["trusted", "poison"]
    assert retriever.retrieve("?").degraded == ("no-edges",)
    assert retriever.retrieve("?").warnings == ()


def test_a_requested_traversal_without_edges_is_a_warning():
    """Missing edges are a warning if a setting or call requested a traversal, but not for a mode's default
    traversal.
    """
    memories = store({"poison": ("p 0.9", {}), "trusted": ("t 0.8", {})})
    assert MemoryRetriever(memories, graph={"traversal": "bfs"}).retrieve("?").warnings == ("no-graph-store",)
    assert MemoryRetriever(memories).retrieve("?", graph={"traversal": "bfs"}).warnings == ("no-graph-store",)
    assert MemoryRetriever(memories).retrieve("?", seed_ids=["poison"]).warnings == ("no-graph-store",)


# -- modes --------------------------------------------------------------------------------------------------------


def test_each_mode_has_its_traversal():
    """Each mode has its own traversal and maximum number of hops."""
    traversals = {name: (type(mode.traversal).__name__, mode.traversal.max_hops) for name, mode in MODES.items()}
    assert traversals == {
        "general": ("WaterCircle", 3),
        "belief_system": ("WaterCircle", 4),
        "agent_memory": ("Beam", 2),
        "procedural": ("BFS", 3),
    }


def test_a_mode_may_change_per_call():
    """A mode given in a call overrides the retriever's mode."""
    retriever = by_vector({"poison": ("p 0.98", {"confidence": 0.2}), "trusted": ("t 0.5", {"confidence": 0.9})})
    likely = {"type": "general", "similarity": 1, "confidence": 0, "recency": 0, "utility": 0}
    assert ids(retriever.invoke("?", mode="belief_system")) == ["trusted", "poison"]
    assert ids(retriever.invoke("?", mode=likely)) == ["poison", "trusted"]


def test_the_stores_mode_is_used_unless_another_is_given():
    """The call's mode overrides the retriever's, which overrides the store's, and the default is general."""
    with closing(HybridGraphStore(None, tenant="one")) as store:
        store.add_texts(["The gate code is 4711."], ids=["gate"])

        def weights(retriever, **options):
            parts = retriever.retrieve("gate code", **options)[0].metadata["score_breakdown"]
            return round(parts["utility"], 6)

        with_mode, without_mode = MemoryRetriever(store, mode="agent_memory"), MemoryRetriever(store)
        assert weights(without_mode) == 0.10
        store.memory.set_mode("belief_system")
        assert (weights(without_mode), weights(with_mode), weights(without_mode, mode="general")) == (0.05, 0.20, 0.10)
        store.memory.set_mode({"type": "general", "utility": 0.0})
        assert weights(without_mode) == 0.0
        store.memory.set_mode(None)
        assert weights(without_mode) == 0.10


def test_a_mode_given_as_a_mapping():
    """A mapping with a mode's name and some values gives that mode with these values changed."""
    changed = mode_from({"type": "procedural", "recency": 0.3, "traversal": {"type": "bfs", "max_hops": 1}})
    assert (changed.composite.recency, changed.composite.confidence) == (0.3, 0.4)
    assert changed.traversal == BFS(max_hops=1)
    assert isinstance(changed, Mode)


@pytest.mark.parametrize(
    ("mode", "message"),
    [("genral", "did you mean 'general'"), ({"type": "general", "recencie": 1}, "did you mean 'recency'"), (7, "mode")],
)
def test_an_unknown_mode(mode, message):
    """The error for an unknown mode or key suggests the nearest name, at construction and in a call."""
    vector_store = store({"a": ("a 0.8", {})})
    with pytest.raises(ValidationError, match=message):
        MemoryRetriever(vector_store, mode=mode)
    with pytest.raises(ConfigurationError, match=message):
        MemoryRetriever(vector_store).invoke("?", mode=mode)


def chain():
    """Return a store with five memories in a chain, of which only the first is similar to the question."""
    memories = {name: (f"{name} 0.{9 if name == 'a' else 1}", {}) for name in "abcde"}
    return store(memories, [Edge(one, other, "sequence") for one, other in zip("abcd", "bcde", strict=True)])


def test_the_mode_limits_the_number_of_hops():
    """The agent_memory mode reaches two hops, and the procedural mode three."""
    vector_store = chain()
    hops = {
        d.id: d.metadata["hops"]
        for d in MemoryRetriever(vector_store, graph={"seed_k": 1}, mode="agent_memory").retrieve("a")
    }
    assert max(hops.values()) == 2
    hops = {
        d.id: d.metadata["hops"]
        for d in MemoryRetriever(vector_store, graph={"seed_k": 1}, mode="procedural").retrieve("a")
    }
    assert max(hops.values()) == 3


def test_the_traversal_may_change_per_call():
    """A traversal given in a call replaces the mode's, and without a graph weight no edge is traversed."""
    retriever = MemoryRetriever(chain(), graph={"seed_k": 1})
    result = retriever.retrieve("a", graph={"traversal": {"type": "bfs", "max_hops": 4, "direction": "out"}})
    assert max(document.metadata["hops"] for document in result) == 4
    result = retriever.retrieve("a", memory={"source_weights": {"vector": 1.0}})
    assert {document.metadata["hops"] for document in result} == {0}


NO_HOPS = {"type": "bfs", "max_hops": 0}
WALK = {"type": "bfs", "max_hops": 1, "direction": "out"}


@pytest.mark.parametrize("fusion", [None, "rrf"])
@pytest.mark.parametrize(
    "settings", [{"graph": {"traversal": NO_HOPS}}, {"mode": {"type": "general", "traversal": NO_HOPS}}]
)
def test_a_traversal_without_hops_follows_no_edge(settings, fusion):
    """If the traversal may not follow an edge, the answer is the same as in a store without edges."""
    memories = {name: (f"{name} 0.{9 if name == 'a' else 1}", {}) for name in "abcde"}
    settings = {**settings, "fusion": fusion, "as_of": NOW}
    with_edges = MemoryRetriever(chain(), **settings).retrieve("a")
    assert {document.metadata["hops"] for document in with_edges} == {0}
    without_edges = MemoryRetriever(store(memories), **settings).retrieve("a")
    assert scores(with_edges) == pytest.approx(scores(without_edges), abs=1e-4)


def scores(result):
    return {document.id: document.metadata["relevance_score"] for document in result}


@pytest.mark.parametrize(
    ("settings", "walk"),
    [
        ({}, "evidence and water_circle"),
        ({"mode": "procedural"}, "evidence and bfs"),
        ({"graph": {"traversal": WALK}}, "bfs"),
        ({"mode": {"type": "general", "traversal": WALK}}, "bfs"),
        ({"graph": {"score": "hop_decay"}}, "water_circle"),
        ({"preset": "beam"}, "beam"),
        ({"graph": {"seed_k": 3}}, "evidence and water_circle"),
    ],
)
def test_only_the_default_adds_the_links_of_the_best_hits(settings, walk):
    """The default traversal also follows links of the best hits; a traversal that was set is used alone."""
    result = MemoryRetriever(chain(), **settings).retrieve("a")
    assert result.plan["walk"]["traversal"] == walk


def test_a_traversal_of_the_call_walks_exactly_as_it_says():
    """A traversal in a call reaches only as far as it says, and only in its direction."""
    memories = {name: (f"{name} 0.{9 if name == 'c' else 1}", {}) for name in "abcde"}
    edges = [Edge(one, other, "sequence") for one, other in zip("abcd", "bcde", strict=True)]
    retriever = MemoryRetriever(store(memories, edges), graph={"seed_k": 1})
    hops = {document.id: document.metadata["hops"] for document in retriever.retrieve("c", graph={"traversal": WALK})}
    assert hops == {"a": 0, "b": 0, "c": 0, "d": 1, "e": 0}


@pytest.mark.parametrize("fusion", [None, "rrf"])
def test_given_seeds_are_followed_without_a_graph_weight(fusion):
    """With seed_ids, only the seeds and the memories they lead to are returned, even if the graph's weight is 0."""
    vector_store = store({"a": ("a 0.9", {}), "b": ("b 0.5", {}), "c": ("c 0.1", {})}, [Edge("b", "c", "cites", 1.0)])
    settings = {} if fusion is None else {"fusion": fusion}
    retriever = MemoryRetriever(vector_store, memory={"source_weights": {"vector": 1.0, "graph": 0.0}}, **settings)
    assert set(ids(retriever.invoke("?", seed_ids=["b"]))) == {"b", "c"}


def test_hits_name_their_sources():
    """Hits name vectors, keywords and edges as their sources, and "fused" for several."""
    result = {d.id: d.metadata["retrieval_source"] for d in MemoryRetriever(chain(), graph={"seed_k": 1}).retrieve("a")}
    assert result["a"] == "fused"
    assert set(result.values()) <= {"vector", "keyword", "graph", "session", "fused"}


def test_graph_ranks_are_fused_with_the_other_ranks():
    """With rrf, a memory's rank among graph hits is fused with its vector rank by the source weights."""
    vector_store = store({"a": ("a 0.9", {}), "b": ("b 0.5", {})}, [Edge("a", "b", "sequence")])
    weights = {"vector": 0.6, "graph": 0.4, "keyword": 0.0}
    likely = {"type": "general", "similarity": 1, "confidence": 0, "recency": 0, "utility": 0}
    retriever = MemoryRetriever(
        vector_store, fusion="rrf", memory={"source_weights": weights}, mode=likely, graph={"seed_k": 1}
    )
    score_of = {hit.id: hit.score for hit in retriever.retrieve("?").hits}
    assert score_of == {"a": pytest.approx(0.6), "b": pytest.approx(0.6 * 61 / 62 + 0.4)}


@pytest.mark.parametrize(
    ("weights", "message"),
    [({"vectors": 1}, "did you mean 'vector'"), ({"vector": -1}, "numbers ≥ 0"), (0.5, "mapping")],
)
def test_invalid_source_weights_are_rejected(weights, message):
    """Invalid names or values of source_weights are rejected at construction and in a call."""
    vector_store = store({"a": ("a 0.8", {})})
    with pytest.raises(ValidationError):
        MemoryRetriever(vector_store, memory={"source_weights": weights})
    with pytest.raises(ConfigurationError, match=message):
        MemoryRetriever(vector_store).invoke("?", memory={"source_weights": weights})


# -- times --------------------------------------------------------------------------------------------------------


def test_as_of_finds_facts_that_were_valid_then():
    """A fact that has expired is found as of a time at which it was valid, by search and through edges."""
    begin, end = (NOW - 10 * DAY).isoformat(), (NOW - 5 * DAY).isoformat()
    memories = {
        "old": ("old 0.9", {"valid_until": end}),
        "new": ("new 0.8", {"valid_from": end}),
        "always": ("always 0.5", {}),
    }
    vector_store = store(memories, [Edge("always", "old", "sequence"), Edge("always", "new", "sequence")])
    retriever = MemoryRetriever(vector_store)
    assert set(ids(retriever.invoke("always"))) == {"new", "always"}
    assert set(ids(retriever.invoke("always", as_of=begin))) == {"old", "always"}


def test_earlier_beliefs_are_found_as_of_their_time():
    """With known_at, superseded and retracted facts, confidences and edges are as they were known at the time."""
    vector_store = store({})
    march, april, may = (datetime(2024, month, 1, tzinfo=UTC) for month in (3, 4, 5))
    vector_store.clock = march.timestamp
    vector_store.add_texts(
        ["paris 0.9", "rumour 0.8", "far 0.01"], [{"confidence": 0.5}] * 3, ids=["paris", "rumour", "far"]
    )
    vector_store.clock = april.timestamp
    vector_store.memory.supersede("paris", Document("rome 0.9", id="rome", metadata={"confidence": 0.5}))
    vector_store.memory.retract("rumour")
    vector_store.memory.feedback("far", "refute")
    vector_store.clock = may.timestamp
    vector_store.upsert([], edges=[Edge("rome", "far", "cites")])
    retriever = MemoryRetriever(vector_store)

    def texts_at(time, **options):
        return set(ids(retriever.invoke("home", as_of=may, known_at=time, **options)))

    assert texts_at(march) == {"paris", "rumour", "far"}
    assert texts_at(april) == texts_at(may) == {"rome", "far"}
    assert texts_at(may, labels=["none"]) == set()
    trusts = [
        next(d for d in retriever.retrieve("home", known_at=time) if d.id == "far").metadata["score_breakdown"]
        for time in (march, april)
    ]
    assert [trust["confidence"] for trust in trusts] == pytest.approx([0.15, 0.015])
    hops = [
        {
            d.id: d.metadata["hops"]
            for d in retriever.retrieve("home", known_at=time, graph={"traversal": BFS(direction="both")})
        }
        for time in (april, may)
    ]
    assert [each["far"] for each in hops] == [0, 1]


def test_known_at_needs_a_hybrid_graph_store():
    """known_at over another vector store raises ConfigurationError."""
    plain = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    with pytest.raises(ConfigurationError, match="HybridGraphStore"):
        MemoryRetriever(plain, [Document("a")]).invoke("a", known_at="2024-01-01")


@pytest.mark.parametrize("name", ["as_of", "known_at"])
def test_an_unreadable_time_is_an_error(name):
    """The error for a time that cannot be parsed names ISO 8601."""
    retriever = by_vector({"a": ("a 0.8", {})})
    with pytest.raises(ValueError, match="ISO 8601"):
        retriever.invoke("?", **{name: "tomorrow"})


def test_a_superseded_fact_keeps_its_confidence():
    """A superseded fact has its full confidence in every mode if as_of is before the time it was superseded."""
    with HybridGraphStore(None, "lsa") as vector_store:
        texts = {"paris": "Ada lives in Paris.", "tea": "Ada likes tea.", "bo": "Bo plays chess."}
        turns = [
            Document(text, id=id, metadata={"valid_from": "2020-01-01", "confidence": 0.9})
            for id, text in texts.items()
        ]
        vector_store.memory.remember(turns)
        vector_store.memory.supersede(
            "paris", Document("Ada lives in Rome.", id="rome", metadata={"confidence": 0.9}), at="2024-07-01"
        )
        for mode in MODES:
            (result,) = MemoryRetriever(vector_store, k=1, mode=mode).retrieve(
                "Where does Ada live?", as_of="2024-06-30T23:00"
            )
            assert result.id == "paris"
            sure = MODES[mode].composite.confidence * 0.9
            assert result.metadata["score_breakdown"]["confidence"] == pytest.approx(sure)


QUESTION = "What does the red roadster cost?"
ANSWERS = {"red": "The red roadster costs 200000 euros.", "tea": "Tea is green.", "boats": "Rui repairs boats."}


@pytest.mark.parametrize("kind", ["stored", "config", "thread", "messages", "weightless"])
def test_the_question_is_not_a_memory_of_its_session(kind):
    """The question, as the session's last turn, is neither returned nor used for novelty, while earlier turns are
    returned.
    """
    with HybridGraphStore.from_texts(list(ANSWERS.values()), "lsa", ids=list(ANSWERS)) as vector_store:
        vector_store.sessions.add("s", [("user", "Tea, please."), ("user", QUESTION)])
        retriever = MemoryRetriever(vector_store, k=5, annotate="all")
        result = {
            "stored": lambda: retriever.invoke(QUESTION, session_id="s"),
            "config": lambda: retriever.invoke(QUESTION, {"configurable": {"session_id": "s"}}),
            "thread": lambda: asyncio.run(retriever.ainvoke(QUESTION, {"configurable": {"thread_id": "s"}})),
            "messages": lambda: retriever.invoke(
                QUESTION, session=[("user", QUESTION)], filter={"role": {"$exists": False}}
            ),
            "weightless": lambda: retriever.invoke(QUESTION, session_id="s", memory={"source_weights": {"vector": 1}}),
        }[kind]()
        assert (result[0].id, "novelty" in result[0].metadata["score_breakdown"]) == ("red", False)
        assert QUESTION not in [document.page_content for document in result]
        if kind in ("stored", "config", "thread"):
            assert "Tea, please." in [document.page_content for document in result]


def test_a_session_in_the_call_overrides_the_configuration():
    """The configuration's thread_id is used as the session unless the call passes a session_id."""
    with HybridGraphStore.from_texts(["Tea is green.", "Coal is black."], "lsa") as vector_store:
        vector_store.sessions.add("s", [("user", "Rui comes on Friday.")])
        retriever, thread = MemoryRetriever(vector_store, k=3), {"configurable": {"thread_id": "s"}}
        similarities = [
            {
                result.id: result.metadata["score_breakdown"]
                for result in retriever.invoke("coal", *config, annotate="all", **options)
            }.get("session:s#1", {}).get("similarity", 0.0)
            for config, options in [
                ([thread], {}),
                ([], {"session_id": "s"}),
                ([thread], {"session_id": "t"}),
                ([], {}),
            ]
        ]
        assert similarities == [pytest.approx(similarities[0])] * 2 + [pytest.approx(0, abs=1e-6)] * 2
        assert similarities[0] > 0.01


@pytest.mark.parametrize("labels", [3, [1], {"home": 1}])
def test_invalid_labels_are_rejected(labels):
    """Labels that are not strings are rejected at construction and in a call."""
    with pytest.raises(
        ValueError, match=r"labels must be a string or a list of strings, .* write labels=\['home', 'tea'\]"
    ):
        by_vector({"a": ("a 0.8", {})}, labels=labels)
    with pytest.raises(ConfigurationError, match="labels must be"):
        by_vector({"a": ("a 0.8", {})}).invoke("?", labels=labels)


def test_a_named_day_finds_its_memories():
    """The memory of the day in the question is found among a hundred more similar memories, unless date_boost is 0."""
    memories = {f"m{n}": (f"m{n} 0.9", {"created_at": "2022-01-01"}) for n in range(120)}
    memories["day"] = ("day 0.5", {"created_at": "2023-05-03T10:00:00"})
    vector_store = store(memories)
    result = MemoryRetriever(vector_store).retrieve("what was said on 3 May 2023")
    assert "day" in ids(result)
    assert {d.id: d.metadata["score_breakdown"].get("time", 0) > 0 for d in result}["day"]
    assert "day" not in ids(
        MemoryRetriever(vector_store, memory={"date_boost": 0}).invoke("what was said on 3 May 2023")
    )


# -- sessions -----------------------------------------------------------------------------------------------------


def conversation():
    """Return two sessions of three turns."""
    return {
        f"{session}{n}": (f"{session}{n} 0.{n}", {"session_id": session, "turn": n, "created_at": NOW.isoformat()})
        for session in ("alpha", "omega")
        for n in (1, 2, 3)
    }


def test_the_last_turns_of_a_session_are_a_source():
    """The last session_turns turns of the given session have "session" among their sources."""
    retriever = MemoryRetriever(store(conversation()), memory={"novelty": None})
    result = retriever.retrieve("?", session_id="alpha", memory={"session_turns": 2})
    by_session = {hit.id for hit in result.hits if "session" in hit.found_by}
    assert by_session == {"alpha2", "alpha3"}
    assert {hit.id for hit in retriever.retrieve("?").hits if "session" in hit.found_by} == set()


def test_an_unknown_session_is_an_empty_one():
    """An unknown session gives the same hits as no session."""
    retriever = MemoryRetriever(store(conversation()))
    assert ids(retriever.invoke("?", session_id="nobody")) == ids(retriever.invoke("?"))


def test_a_session_of_another_tenant_gives_nothing(tmp_path):
    """Another tenant's session neither adds hits nor changes scores."""
    for tenant, text in (("one", "mine 0.5"), ("other", "secret 0.9")):
        with HybridGraphStore(tmp_path, Angles(), tenant=tenant) as vector_store:
            vector_store.add_texts([text], [{"session_id": f"of {tenant}", "turn": 1}], ids=[tenant])
    with HybridGraphStore(tmp_path, Angles(), tenant="one") as vector_store:
        retriever = MemoryRetriever(vector_store, as_of=NOW + DAY)
        assert ids(retriever.invoke("?", session_id="of other")) == ["one"]
        assert [hit.score for hit in retriever.retrieve("?", session_id="of other").hits] == pytest.approx(
            [hit.score for hit in retriever.retrieve("?").hits]
        )
        with pytest.raises(HybridGraphError, match="tenant"):
            retriever.invoke("?", session_id="of other", tenant="other")


def test_memories_that_repeat_the_session_are_down_weighted():
    """A memory that repeats a turn of the session loses half of its score, while the turn itself keeps its score."""
    memories = {
        "turn": ("a 0.6", {"session_id": "now", "turn": 1}),
        "echo": ("b 0.6", {}),
        "novel": ("z 0.6", {}),
    }
    result = by_vector(memories).retrieve("?", session_id="now", memory={"session_turns": 1})
    parts = {hit.id: hit.parts for hit in result.hits}
    assert set(parts) == {"turn", "echo", "novel"}
    assert parts["echo"]["novelty"] == pytest.approx(
        -math.fsum(v for k, v in parts["echo"].items() if k != "novelty") / 2
    )
    assert "novelty" not in parts["turn"]
    assert "novelty" not in parts["novel"]


def test_a_chat_history_is_a_session():
    """The messages of a chat history are returned as session hits, and memories that repeat them are down-weighted."""
    history = History(HumanMessage("a 0.6"), AIMessage("b 0.2"))
    retriever = MemoryRetriever(store({"echo": ("c 0.6", {}), "novel": ("z 0.6", {})}))
    result = retriever.retrieve("?", session=history)
    sources = {document.page_content: document.metadata["retrieval_source"] for document in result}
    assert {sources["a 0.6"], sources["b 0.2"]} == {"session"}
    parts = {hit.id: hit.parts for hit in result.hits}
    assert parts["echo"]["novelty"] < 0
    assert "novelty" not in parts["novel"]


def test_messages_must_match_the_filter():
    """Messages of a session that do not match the filter are not returned."""
    retriever = by_vector({"a": ("a 0.8", {"kind": "note"})})
    result = retriever.invoke("?", session=[HumanMessage("b 0.9")], filter=by_meta(kind="note"))
    assert ids(result) == ["a"]


def test_a_history_that_cannot_be_read_is_left_out():
    """If a chat history cannot be read, the search runs without it and reports session-failed."""

    class Broken(History):
        @property
        def messages(self):
            raise OSError("gone")

    result = MemoryRetriever(store({"a": ("a 0.8", {})})).retrieve("?", session=Broken())
    assert ids(result) == ["a"]
    assert "session-failed" in result.degraded


@pytest.mark.parametrize(
    "wrong", [{"session": 7}, {"memory": {"session_turns": -1}, "session_id": "s"}, {"session": [], "session_id": "s"}]
)
def test_invalid_sessions_are_rejected(wrong):
    """Invalid sessions, an invalid session_turns, or both session and session_id raise ConfigurationError."""
    retriever = by_vector({"a": ("a 0.8", {})})
    with pytest.raises(ConfigurationError):
        retriever.invoke("?", **wrong)


def test_a_session_id_needs_a_store_with_sessions():
    """session_id over another vector store raises an error that suggests session=."""
    plain = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    with pytest.raises(ConfigurationError, match="session="):
        MemoryRetriever(plain, [Document("a")]).invoke("a", session_id="s")


# -- labels and tools ---------------------------------------------------------------------------------------------


def test_all_labels_are_required():
    """A hit must have all labels of the retriever and of the call."""
    memories = {
        "both": ("a 0.5", {"labels": ["x", "y"]}),
        "one": ("b 0.9", {"labels": ["x"]}),
        "none": ("c 0.9", {}),
    }
    retriever = by_vector(memories, labels="x")
    assert set(ids(retriever.invoke("?"))) == {"both", "one"}
    assert ids(retriever.invoke("?", labels=["y"])) == ["both"]


def test_a_string_is_one_label():
    """A string in the metadata counts as one label, and part of it as none."""
    memories = {"art": ("a 0.5", {"labels": "art"}), "cartoon": ("b 0.9", {"labels": "cartoon"})}
    assert ids(by_vector(memories).invoke("?", labels="art")) == ["art"]
    assert ids(by_vector(memories, labels=["art"]).invoke("?")) == ["art"]


def test_labels_are_filtered_before_candidates_are_cut():
    """A memory with the label is found although 400 memories without it are more similar."""
    memories = {f"m{n}": (f"m{n} 0.9", {}) for n in range(400)}
    memories["wanted"] = ("w 0.1", {"labels": ["x"]})
    assert ids(by_vector(memories).invoke("?", labels="x")) == ["wanted"]


def test_a_tool_with_typed_time_and_labels():
    """A memory tool has arguments for the time, the labels and the session."""
    end = (NOW - 5 * DAY).isoformat()
    vector_store = store(
        {"old": ("old 0.9", {"valid_until": end, "labels": ["x"]}), "new": ("new 0.8", {"labels": ["x"]})}
    )
    tool = MemoryRetriever(vector_store).as_tool(name="remember", description="Remembers.")
    assert {"query", "k", "filter", "as_of", "labels", "session_id"} <= tool.args.keys()
    assert "old 0.9" not in tool.invoke({"query": "?", "labels": ["x"]})
    assert "old 0.9" in tool.invoke({"query": "?", "as_of": (NOW - 6 * DAY).date().isoformat(), "labels": ["x"]})


# -- other stores, other ways to make one -------------------------------------------------------------------------


def test_any_store_provides_its_metadata():
    """Over any vector store, confidence is read from the metadata of the Documents."""
    documents = [
        Document("the code is one", id="poison", metadata={"confidence": 0.05}),
        Document("the code is two", id="trusted", metadata={"confidence": 0.95}),
    ]
    plain = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    plain.add_documents(documents)
    retriever = MemoryRetriever(
        plain, documents, mode="belief_system", memory={"source_weights": {"vector": 0, "keyword": 1}}
    )
    assert ids(retriever.invoke("the code")) == ["trusted", "poison"]


def test_from_documents_and_from_config(tmp_path, monkeypatch):
    """from_documents and from_config each return a retriever that finds the matching memory."""
    documents = [Document("The gate code is 4711.", id="a"), Document("Ships sail.", id="b")]
    assert ids(MemoryRetriever.from_documents(documents, "lsa", k=1).invoke("gate code")) == ["a"]
    monkeypatch.chdir(tmp_path)
    vector_store = HybridGraphStore.from_texts(["The gate code is 4711."], "lsa", ids=["a"])
    retriever = MemoryRetriever.from_config(store=vector_store, mode="procedural")
    assert (ids(retriever.invoke("gate code")), retriever.k) == (["a"], 10)


def test_by_a_vector_alone():
    """With a vector and no text, memories are scored by similarity, confidence and age."""
    retriever = by_vector({"a": ("a 0.8", {"confidence": 1.0}), "b": ("b 0.8", {"confidence": 0.0})})
    assert ids(retriever.retrieve(None, vector=np.array([1.0, 0.0, 0.0]))) == ["a", "b"]


class TestStandard(RetrieversIntegrationTests):
    """langchain-tests' suite for retrievers."""

    @property
    def retriever_constructor(self):
        return MemoryRetriever

    @property
    def retriever_constructor_params(self):
        texts = [f"memory number {n} of many" for n in range(6)]
        return {"vector_store": HybridGraphStore.from_texts(texts, DeterministicFakeEmbedding(size=8))}

    @property
    def retriever_query_example(self):
        return "memory of many"


# -- nothing similar ----------------------------------------------------------------------------------------------

STRANGE = "Zyxwv?"  # a word that no memory has


def store_of_memories(**settings):
    """Return a store of three memories with the same time, of which the middle one has the highest confidence."""
    vector_store = HybridGraphStore(None, "lsa", **settings)
    vector_store.add_texts(
        ["Ada sings.", "Bo paints.", "Cy bakes."],
        [{"confidence": sure, "valid_from": NOW - DAY} for sure in (0.2, 0.9, 0.5)],
        ids=["ada", "bo", "cy"],
    )
    return vector_store


def test_the_most_trusted_memory_answers_if_nothing_is_similar():
    """If nothing is similar, the most confident memories are returned with similarity 0, and nothing-similar is
    reported.
    """
    result = MemoryRetriever(store_of_memories(), k=2).retrieve(STRANGE)
    assert ids(result) == ["bo", "cy"]
    assert "nothing-similar" in result.warnings
    assert [(hit.source, hit.vector_score, hit.parts["similarity"]) for hit in result.hits] == [
        ("recent", None, 0.0)
    ] * 2
    assert [hit.score for hit in result.hits] == [pytest.approx(math.fsum(hit.parts.values())) for hit in result.hits]


def test_the_newest_memory_answers_if_nothing_is_similar():
    """If nothing is similar, the newest of equally confident memories is ranked first."""
    vector_store = HybridGraphStore(None, "lsa")
    vector_store.add_texts(
        ["Ada sings.", "Bo paints."], [{"valid_from": NOW - n * DAY} for n in (1, 2)], ids=["later", "earlier"]
    )
    assert ids(MemoryRetriever(vector_store).invoke(STRANGE)) == ["later", "earlier"]


def test_excluded_memories_are_not_returned_if_nothing_is_similar():
    """If nothing is similar, filters, times, labels, tenants, min_score and k still apply to the memories returned
    instead.
    """
    retriever = MemoryRetriever(store_of_memories())
    assert ids(retriever.invoke(STRANGE, filter={"confidence": {"$lt": 0.3}})) == ["ada"]
    for excluding in (
        {"filter": {"confidence": {"$gt": 1}}},
        {"as_of": "1999-01-01"},
        {"labels": ["none"]},
        {"min_score": 0.99},
        {"k": 0},
    ):
        result = retriever.retrieve(STRANGE, **excluding)
        assert list(result) == []
    with pytest.raises(HybridGraphError):
        retriever.invoke(STRANGE, tenant="another")


def test_no_substitutes_are_returned_for_hits_below_min_score():
    """If similar memories were found but min_score excludes them all, the result is empty."""
    result = MemoryRetriever(store_of_memories(), min_score=1.0).retrieve("Who paints?")
    assert (list(result), result.warnings) == ([], ())


def test_only_memory_search_returns_substitutes():
    """If nothing is similar, HybridRetriever and a search from given seeds return an empty list."""
    from langchain_hybridgraph import HybridRetriever

    vector_store = store_of_memories()
    assert HybridRetriever(vector_store).invoke(STRANGE) == []
    assert MemoryRetriever(vector_store).invoke(STRANGE, seed_ids=["none"]) == []


def test_a_tool_reports_that_nothing_is_similar():
    """The tool's answer states that nothing similar was found before it lists the most recent memories."""
    tool = MemoryRetriever(store_of_memories(), k=1).as_tool(name="memories", description="What is remembered.")
    answer = tool.invoke({"query": STRANGE})
    assert answer.startswith("Nothing similar to the query was found. These are the most recent memories:\n\n--- data")
    assert answer.splitlines()[3].startswith("[1] id: bo")
    assert "Nothing similar" not in tool.invoke({"query": "Who paints?"})
