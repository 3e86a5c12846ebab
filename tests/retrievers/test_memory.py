"""MemoryRetriever: modes, sessions, times and confidence, over the embedded store and others."""

import math
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from langchain_core.chat_history import InMemoryChatMessageHistory
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.vectorstores import InMemoryVectorStore
from pydantic import ValidationError

from langchain_hybridgraph import HybridGraphStore, HybridRetriever, MemoryRetriever
from langchain_hybridgraph.errors import ConfigurationError, HybridGraphError
from langchain_hybridgraph.filters.expressions import by_meta
from langchain_hybridgraph.options.models import MODES
from langchain_hybridgraph.records import Edge
from langchain_hybridgraph.search.traversals import BFS
from tests.support.samples.clock import NOW, stop_the_clock
from tests.support.samples.document_lists import ids

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


def store(memories, edges=(), **settings):
    """Return a store of texts by id, each with its metadata."""
    vector_store = HybridGraphStore(None, Angles(), **settings)
    vector_store.add_texts(
        [text for text, _ in memories.values()], [metadata for _, metadata in memories.values()], ids=list(memories)
    )
    vector_store.upsert([], edges=list(edges))
    return vector_store


def by_vector(memories, memory=None, **settings):
    """Return a retriever that uses only vectors. The number in each text is its cosine with the question."""
    weights = {"vector": 1.0, "keyword": 0.0}
    return MemoryRetriever(store(memories), memory={"source_weights": weights} | (memory or {}), **settings)


# -- scores -------------------------------------------------------------------------------------------------------


def test_hotness_is_added_before_hits_are_cut_to_k():
    """A frequently used memory is returned although it is not among the k most similar."""
    memories = {f"a{n}": (f"a{n} 0.{9 - n}", {}) for n in range(8)}
    memories["used"] = ("used 0.1", {"active_count": 10**6})
    assert "used" not in ids(by_vector(memories, k=2).invoke("?"))
    assert ids(by_vector(memories, k=2, memory={"hotness": {"alpha": 0.9}}).invoke("?"))[0] == "used"


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
    memory = {"source_weights": weights, "hotness": 0.2}
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
    options = {"k": 20, "filter": {"kind": "even"}, "as_of": NOW}
    retrievers = [kind(vector_store, memory=memory) for kind in (MemoryRetriever, ReadsFirst)]
    one, other = (retriever.retrieve("a3", **options) for retriever in retrievers)
    assert ids(one) == ids(other)
    assert len(one) == 20
    for hit, read in zip(one.hits, other.hits, strict=True):
        assert hit.parts == pytest.approx(read.parts)
        assert (hit.path, hit.source, hit.vector_score) == (read.path, read.source, read.vector_score)


def test_a_requested_traversal_without_edges_is_a_warning():
    """Missing edges are a warning if a setting or call requested a traversal, but not for a mode's default."""
    memories = store({"poison": ("p 0.9", {}), "trusted": ("t 0.8", {})})
    plain = MemoryRetriever(memories)
    assert (plain.retrieve("?").degraded, plain.retrieve("?").warnings) == (("no-edges",), ())
    assert MemoryRetriever(memories, graph={"traversal": "bfs"}).retrieve("?").warnings == ("no-graph-store",)
    assert plain.retrieve("?", graph={"traversal": "bfs"}).warnings == ("no-graph-store",)
    assert plain.retrieve("?", seed_ids=["poison"]).warnings == ("no-graph-store",)


# -- modes --------------------------------------------------------------------------------------------------------


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
        useless = {"type": "general", "utility": 0.0}
        assert (weights(without_mode), weights(with_mode), weights(with_mode, mode=useless)) == (0.05, 0.20, 0.0)
        store.memory.set_mode(useless)
        assert weights(without_mode) == 0.0
        store.memory.set_mode(None)
        assert weights(without_mode) == 0.10


def chain():
    """Return a store with five memories in a chain, of which only the first is similar to the question."""
    memories = {name: (f"{name} 0.{9 if name == 'a' else 1}", {}) for name in "abcde"}
    return store(memories, [Edge(one, other, "sequence") for one, other in zip("abcd", "bcde", strict=True)])


def test_the_traversal_may_change_per_call():
    """A traversal given in a call replaces the mode's, and without a graph weight no edge is traversed."""
    retriever = MemoryRetriever(chain(), graph={"seed_k": 1})

    def farthest(**options):
        return max(document.metadata["hops"] for document in retriever.retrieve("a", **options))

    assert (farthest(mode="agent_memory"), farthest(mode="procedural")) == (2, 3)
    assert farthest(graph={"traversal": {"type": "bfs", "max_hops": 4, "direction": "out"}}) == 4
    assert farthest(graph={"traversal": WALK}) == 1
    assert farthest(memory={"source_weights": {"vector": 1.0}}) == 0


NO_HOPS = {"type": "bfs", "max_hops": 0}
WALK = {"type": "bfs", "max_hops": 1, "direction": "out"}


NO_HOPS_MODE = {"type": "general", "traversal": NO_HOPS}


@pytest.mark.parametrize("settings", [{"graph": {"traversal": NO_HOPS}}, {"mode": NO_HOPS_MODE, "fusion": "rrf"}])
def test_a_traversal_without_hops_follows_no_edge(settings):
    """If the traversal may not follow an edge, the answer is the same as in a store without edges."""
    memories = {name: (f"{name} 0.{9 if name == 'a' else 1}", {}) for name in "abcde"}
    with_edges, without = (MemoryRetriever(one, **settings).retrieve("a") for one in (chain(), store(memories)))
    assert {document.metadata["hops"] for document in with_edges} == {0}
    assert [hit.id for hit in with_edges.hits] == [hit.id for hit in without.hits]
    assert [hit.score for hit in with_edges.hits] == pytest.approx([hit.score for hit in without.hits], abs=1e-4)


@pytest.mark.parametrize(
    ("settings", "walk"),
    [
        ({}, "evidence and water_circle"),
        ({"mode": "procedural"}, "evidence and bfs"),
        ({"graph": {"traversal": WALK}}, "bfs"),
        ({"mode": {"type": "general", "traversal": WALK}}, "bfs"),
        ({"graph": {"score": "hop_decay"}}, "water_circle"),
        ({"preset": "beam"}, "beam"),
    ],
)
def test_only_the_default_adds_the_links_of_the_best_hits(settings, walk):
    """The default traversal also follows links of the best hits; a traversal that was set is used alone."""
    assert MemoryRetriever(chain(), **settings).retrieve("a").plan["walk"]["traversal"] == walk


@pytest.mark.parametrize("settings", [{}, {"fusion": "rrf"}])
def test_given_seeds_are_followed_without_a_graph_weight(settings):
    """With seed_ids, only the seeds and the memories they lead to are returned, even if the graph's weight is 0."""
    vector_store = store({"a": ("a 0.9", {}), "b": ("b 0.5", {}), "c": ("c 0.1", {})}, [Edge("b", "c", "cites", 1.0)])
    retriever = MemoryRetriever(vector_store, memory={"source_weights": {"vector": 1.0, "graph": 0.0}}, **settings)
    assert set(ids(retriever.invoke("?", seed_ids=["b"]))) == {"b", "c"}


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


# -- times --------------------------------------------------------------------------------------------------------


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
    retriever = MemoryRetriever(vector_store, graph={"traversal": BFS(direction="both")}, as_of=may)

    def at(time):
        return {hit.id: hit for hit in retriever.retrieve("home", known_at=time).hits}

    assert set(at(march)) == {"paris", "rumour", "far"}
    assert set(at(april)) == set(at(may)) == {"rome", "far"}
    assert ids(retriever.invoke("home", known_at=may, labels=["none"])) == []
    assert [at(time)["far"].parts["confidence"] for time in (march, april)] == pytest.approx([0.15, 0.015])
    assert [at(time)["far"].hops for time in (april, may)] == [0, 1]


def test_a_superseded_fact_keeps_its_confidence():
    """A superseded fact has its full confidence if as_of is before the time it was superseded."""
    with HybridGraphStore(None, "lsa") as vector_store:
        facts = [{"valid_from": "2020-01-01", "confidence": 0.9}] * 2
        vector_store.add_texts(["Ada lives in Paris.", "Bo plays chess."], facts, ids=["a", "b"])
        vector_store.memory.supersede("a", "Ada lives in Rome.", at="2024-07-01")
        retriever = MemoryRetriever(vector_store, k=1, mode="belief_system", as_of="2024-06-30T23:00")
        [hit] = retriever.retrieve("Where does Ada live?").hits
        assert (hit.id, hit.parts["confidence"]) == ("a", pytest.approx(0.45 * 0.9))


QUESTION = "What does the red roadster cost?"
ANSWERS = {"red": "The red roadster costs 200000 euros.", "tea": "Tea is green.", "boats": "Rui repairs boats."}


@pytest.mark.parametrize(
    "call",
    [
        {"session_id": "s"},
        {"config": {"configurable": {"session_id": "s"}}},
        {"config": {"configurable": {"thread_id": "s"}}},
        {"session": [("user", QUESTION)], "filter": {"role": {"$exists": False}}},
        {"session_id": "s", "memory": {"source_weights": {"vector": 1}}},
    ],
    ids=["stored", "config", "thread", "messages", "weightless"],
)
def test_the_question_is_not_a_memory_of_its_session(call):
    """The question, as the session's last turn, is neither returned nor used for novelty, but earlier turns are."""
    with HybridGraphStore.from_texts(list(ANSWERS.values()), "lsa", ids=list(ANSWERS)) as vector_store:
        vector_store.sessions.add("s", [("user", "Tea, please."), ("user", QUESTION)])
        result = MemoryRetriever(vector_store, k=5, annotate="all").invoke(QUESTION, **call)
        assert (result[0].id, "novelty" in result[0].metadata["score_breakdown"]) == ("red", False)
        texts = [document.page_content for document in result]
        assert QUESTION not in texts
        assert "Tea, please." in texts or "session" in call or "memory" in call


def test_a_session_in_the_call_overrides_the_configuration():
    """The configuration's thread_id is used as the session unless the call passes a session_id."""
    with HybridGraphStore.from_texts(["Tea is green.", "Coal is black."], "lsa") as vector_store:
        vector_store.sessions.add("s", [("user", "Rui comes on Friday.")])
        retriever, thread = MemoryRetriever(vector_store, k=3), {"configurable": {"thread_id": "s"}}

        def finds_turn(config=None, **options):
            hits = retriever.invoke("coal", config, annotate="all", **options)
            return any(hit.metadata["score_breakdown"]["similarity"] > 0.01 for hit in hits if hit.id == "session:s#1")

        assert [finds_turn(thread), finds_turn(session_id="s")] == [True, True]
        assert [finds_turn(thread, session_id="t"), finds_turn()] == [False, False]


def test_a_named_day_finds_its_memories():
    """The memory of the day in the question is found among a hundred more similar memories, unless date_boost is 0."""
    memories = {f"m{n}": (f"m{n} 0.9", {"created_at": "2022-01-01"}) for n in range(120)}
    memories["day"] = ("day 0.5", {"created_at": "2023-05-03T10:00:00"})
    retriever, question = MemoryRetriever(store(memories)), "what was said on 3 May 2023"
    [hit] = [hit for hit in retriever.retrieve(question).hits if hit.id == "day"]
    assert hit.parts["time"] > 0
    assert "day" not in ids(retriever.invoke(question, memory={"date_boost": 0}))


# -- sessions -----------------------------------------------------------------------------------------------------


def conversation():
    """Return two sessions of three turns."""
    return {
        f"{session}{n}": (f"{session}{n} 0.{n}", {"session_id": session, "turn": n, "created_at": NOW.isoformat()})
        for session in ("alpha", "omega")
        for n in (1, 2, 3)
    }


def test_the_last_turns_of_a_session_are_a_source():
    """The last session_turns turns of the given session, if it exists, have "session" among their sources."""
    retriever = MemoryRetriever(store(conversation()), memory={"novelty": None})

    def from_session(**options):
        return {hit.id for hit in retriever.retrieve("?", **options).hits if "session" in hit.found_by}

    assert from_session(session_id="alpha", memory={"session_turns": 2}) == {"alpha2", "alpha3"}
    assert from_session(session_id="nobody") == from_session() == set()


def test_memories_that_repeat_the_session_are_down_weighted():
    """A memory that repeats a turn of the session loses half of its score, while the turn itself keeps its score."""
    memories = {"turn": ("a 0.6", {"session_id": "now", "turn": 1}), "echo": ("b 0.6", {}), "novel": ("z 0.6", {})}
    result = by_vector(memories).retrieve("?", session_id="now", memory={"session_turns": 1})
    parts = {hit.id: dict(hit.parts) for hit in result.hits}
    novelty = parts["echo"].pop("novelty")
    assert novelty == pytest.approx(-math.fsum(parts["echo"].values()) / 2)
    assert ("novelty" in parts["turn"], "novelty" in parts["novel"]) == (False, False)


def test_a_chat_history_is_a_session():
    """The messages of a chat history are returned as session hits, and memories that repeat them are down-weighted."""
    history = InMemoryChatMessageHistory(messages=[HumanMessage("a 0.6"), AIMessage("b 0.2")])
    result = MemoryRetriever(store({"echo": ("c 0.6", {}), "novel": ("z 0.6", {})})).retrieve("?", session=history)
    sources = {document.page_content: document.metadata["retrieval_source"] for document in result}
    assert {sources["a 0.6"], sources["b 0.2"]} == {"session"}
    parts = {hit.id: hit.parts for hit in result.hits}
    assert parts["echo"]["novelty"] < 0
    assert "novelty" not in parts["novel"]


def test_messages_must_match_the_filter():
    """Messages of a session that do not match the filter are not returned."""
    retriever = by_vector({"a": ("a 0.8", {"kind": "note"})})
    assert ids(retriever.invoke("?", session=[HumanMessage("b 0.9")], filter=by_meta(kind="note"))) == ["a"]


PLAIN = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": 3}, "labels must be a string or a list of strings, got 3"),
        ({"mode": "genral"}, "did you mean 'general'"),
        ({"mode": {"type": "general", "recencie": 1}}, "did you mean 'recency'"),
        ({"memory": {"source_weights": {"vectors": 1}}}, "mapping of vector, keyword, graph and session"),
        ({"memory": {"source_weights": {"vector": -1}}}, "numbers ≥ 0"),
    ],
)
def test_invalid_options_are_rejected(options, message):
    """Invalid options are rejected at construction and in a call, with the nearest name."""
    vector_store = store({"a": ("a 0.8", {})})
    with pytest.raises((ValidationError, ConfigurationError)):
        MemoryRetriever(vector_store, **options)
    with pytest.raises(ConfigurationError, match=message):
        MemoryRetriever(vector_store).invoke("?", **options)


@pytest.mark.parametrize(
    ("vector_store", "options", "message"),
    [
        (None, {"session": 7}, "the history is 7"),
        (None, {"session": [], "session_id": "s"}, "only one"),
        (None, {"as_of": "tomorrow"}, "ISO 8601"),
        (PLAIN, {"session_id": "s"}, "session="),
        (PLAIN, {"known_at": "2024-01-01"}, "HybridGraphStore"),
    ],
)
def test_invalid_calls_are_rejected(vector_store, options, message):
    """A session or time that cannot be used, by itself or over this store, raises an error that says why."""
    own = store({"a": ("a 0.8", {})})
    retriever = MemoryRetriever(own) if vector_store is None else MemoryRetriever(vector_store, [Document("a")])
    with pytest.raises(ValueError, match=message):
        retriever.invoke("?", **options)


# -- labels and tools ---------------------------------------------------------------------------------------------


def test_all_labels_are_required():
    """A hit must have all labels of the retriever and of the call, also behind 400 more similar memories."""
    memories = {f"m{n}": (f"m{n} 0.9", {}) for n in range(400)}
    memories |= {"both": ("a 0.1", {"labels": ["art", "y"]}), "one": ("b 0.2", {"labels": "art"})}
    memories["part"] = ("c 0.9", {"labels": "cartoon"})
    retriever = by_vector(memories, labels="art")
    assert ids(retriever.invoke("?")) == ["one", "both"]
    assert ids(retriever.invoke("?", labels=["y"])) == ["both"]


def test_a_tool_with_typed_time_and_labels():
    """A memory tool has arguments for the time, the labels and the session."""
    old = ("old 0.9", {"valid_until": (NOW - 5 * DAY).isoformat(), "labels": ["x"]})
    vector_store = store({"old": old, "new": ("new 0.8", {"labels": ["x"]})})
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
    weights = {"source_weights": {"vector": 0, "keyword": 1}}
    retriever = MemoryRetriever(plain, documents, mode="belief_system", memory=weights)
    assert ids(retriever.invoke("the code")) == ["trusted", "poison"]


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
    """If nothing is similar, the most confident memories are returned with similarity 0 and a warning.

    A search by other retrievers, from given seeds or with similar memories below min_score returns none.
    """
    vector_store = store_of_memories()
    retriever = MemoryRetriever(vector_store, k=2)
    result = retriever.retrieve(STRANGE)
    assert (ids(result), "nothing-similar" in result.warnings) == (["bo", "cy"], True)
    for hit in result.hits:
        assert (hit.source, hit.vector_score, hit.parts["similarity"]) == ("recent", None, 0.0)
        assert hit.score == pytest.approx(math.fsum(hit.parts.values()))
    assert HybridRetriever(vector_store).invoke(STRANGE) == retriever.invoke(STRANGE, seed_ids=["none"]) == []
    below = MemoryRetriever(vector_store, min_score=1.0).retrieve("Who paints?")
    assert (list(below), below.warnings) == ([], ())


def test_excluded_memories_are_not_returned_if_nothing_is_similar():
    """If nothing is similar, filters, times, labels, tenants, min_score and k still apply to the memories returned
    instead.
    """
    retriever = MemoryRetriever(store_of_memories())
    assert ids(retriever.invoke(STRANGE, filter={"confidence": {"$lt": 0.3}})) == ["ada"]
    sure = {"filter": {"confidence": {"$gt": 1}}}
    for excluding in (sure, {"as_of": "1999-01-01"}, {"labels": ["none"]}, {"min_score": 0.99}, {"k": 0}):
        assert list(retriever.retrieve(STRANGE, **excluding)) == []
    with pytest.raises(HybridGraphError):
        retriever.invoke(STRANGE, tenant="another")


def test_a_tool_reports_that_nothing_is_similar():
    """The tool's answer states that nothing similar was found before it lists the most recent memories."""
    tool = MemoryRetriever(store_of_memories(), k=1).as_tool(name="memories", description="What is remembered.")
    answer = tool.invoke({"query": STRANGE})
    assert answer.startswith("Nothing similar to the query was found. These are the most recent memories:\n\n--- data")
    assert answer.splitlines()[3].startswith("[1] id: bo")
    assert "Nothing similar" not in tool.invoke({"query": "Who paints?"})
