"""Every part of a search may raise, hang or return rubbish; the search still answers in time, and says so."""

import asyncio
import threading
import time

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding

from langchain_hybridgraph import (
    GraphRetriever,
    HierarchicalRetriever,
    HybridGraphStore,
    HybridRetriever,
    MemoryRetriever,
)
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.execution import effects
from langchain_hybridgraph.records import Edge, FusedCandidate
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from langchain_hybridgraph.search.traversals import BFS
from tests.support.models.function_retriever import FunctionRetriever
from tests.support.samples.clock import PATIENCE, make_late

QUESTION = "Which red car is fast?"
HISTORY = ["User: Which car is red?", "Assistant: The roadster."]
DEADLINE_MS = 1_000 * PATIENCE  # only the sources of make_late are late
KEY = "sk-live-0123456789abcdef"
BOTH_WAYS = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
RUBBISH = (None, "rubbish", float("nan"), [["a"], None], object(), 2 * [FusedCandidate("c0", 1.0, {"rank": 1.0})])
CHUNKS = [
    Chunk(f"c{n}", f"The {color} car number {n} is fast.", {"source": f"cars/{n}.md"}, parent_id="p")
    for n, color in enumerate(["red", "blue", "green", "grey"])
]


class Part:
    """Part that raises, hangs until the end of the test, or returns rubbish once it is broken."""

    def __init__(self, how, rubbish=None):
        self.how, self.rubbish = how, rubbish
        self.has_call, self.released = threading.Event(), threading.Event()

    def __call__(self, *arguments, **options):
        self.has_call.set()
        if self.how == "raises":
            raise RuntimeError(f"the provider refused api_key={KEY}")
        if self.how == "hangs":
            self.released.wait(PATIENCE)
        return self.rubbish


class Words(DeterministicFakeEmbedding):
    """Embedding whose queries may be embedded by a broken part."""

    size: int = 16
    part: object = None
    text_without_part: str = ""

    def embed_query(self, text):
        return super().embed_query(text) if self.part is None or text == self.text_without_part else self.part()


class Traversal:
    edge_filter = BFS().edge_filter

    def __init__(self, part):
        self.traverse = part


class History:
    """Chat history whose messages are read by a broken part."""

    def __init__(self, part):
        self._part = part

    @property
    def messages(self):
        return self._part()


class SlowStore(HybridGraphStore):
    """Store whose parents are read by a broken part, as from a server."""

    has_fast_lookups = False
    part: object = None

    def read_parents(self, ids, scope):
        return self.part()


def new_store(kind=HybridGraphStore, **options):
    store = kind(None, Words(**options))
    parent = Chunk("p", "All cars.", {"source": "cars/all.md"})
    store.upsert(CHUNKS, parents=[parent], edges=[Edge("c0", "c1", "cites", 0.9)])
    store.flush()
    return store


def over_slow_store(part):
    store = new_store(SlowStore)
    store.part = part
    return HybridRetriever(store), {}


def over_another_store(part):
    """Return a retriever over a vector store of another library whose search is broken."""
    from langchain_core.vectorstores import InMemoryVectorStore

    class Broken(InMemoryVectorStore):
        def similarity_search_with_score(self, *arguments, **options):
            return part()

        def similarity_search_with_score_by_vector(self, *arguments, **options):
            return part()

        def _similarity_search_with_score_by_vector(self, *arguments, **options):
            return part()

    store = Broken(Words())
    store.add_texts([chunk.text for chunk in CHUNKS], ids=[chunk.id for chunk in CHUNKS])
    return HybridRetriever(store), {}


def advanced(**options):
    return AdvancedRetriever(HybridRetriever(new_store()), **options)


# For each part: the source of its calls, and the retriever with the options of the call.
PARTS = {
    "embedding": ("vector", lambda part: (HybridRetriever(new_store(part=part)), {})),
    "vector store": ("vector", over_another_store),
    "keywords": (
        "keyword",
        lambda part: (HybridRetriever(new_store(), keyword_retriever=FunctionRetriever(find=part)), {}),
    ),
    "fusion": ("fusion", lambda part: (HybridRetriever(new_store(), fusion=part), {})),
    "reranker": ("rerank", lambda part: (HybridRetriever(new_store(), reranker=lambda query, texts: part()), {})),
    "parents": ("parents", over_slow_store),
    "traversal": ("graph", lambda part: (GraphRetriever(new_store(), graph={"traversal": Traversal(part)}), {})),
    "planner": ("planner", lambda part: (HierarchicalRetriever(new_store(), planner=part), {"session": HISTORY})),
    "session": ("session", lambda part: (HierarchicalRetriever(new_store()), {"session": History(part)})),
    "expander": ("expander", lambda part: (advanced(expander=part), {"conversation_history": HISTORY})),
    "history": ("history", lambda part: (advanced(get_session_history=part), {})),
    "messages": ("history", lambda part: (advanced(), {"conversation_history": History(part)})),
    "sink": (None, lambda part: (HybridRetriever(new_store(), telemetry={"sinks": [part]}), {})),
}


def in_time(work):
    """Return the result of the work, which runs on another thread; fail if it does not finish in time."""
    answers = []

    def run():
        try:
            answers.append(work())
        except BaseException as error:  # noqa: BLE001 - raised by the thread that waits
            answers.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE / 2)
    assert answers, "the search did not return"
    if isinstance(answers[0], BaseException):
        raise answers[0]
    return answers[0]


def answer(retriever, query=QUESTION, *, is_async, **options):
    """Return the result of a search; fail if the caller's thread or event loop is blocked."""

    async def with_clock():
        search = asyncio.create_task(retriever.aretrieve(query, **options))
        before, longest = asyncio.get_running_loop().time(), 0.0
        while not search.done():
            await asyncio.sleep(0.01)
            now = asyncio.get_running_loop().time()
            longest, before = max(longest, now - before), now
        assert longest < PATIENCE / 4, "the event loop was blocked"
        return await search

    return in_time(lambda: asyncio.run(with_clock()) if is_async else retriever.retrieve(query, **options))


@BOTH_WAYS
@pytest.mark.parametrize(
    "how", ["raises", "hangs", *RUBBISH], ids=lambda how: how if how in ("raises", "hangs") else ""
)
@pytest.mark.parametrize("name", PARTS)
def test_a_search_with_a_broken_part_answers(monkeypatch, name, how, is_async):
    """The search returns hits in time, reports the part that failed, and shows no key of its message."""
    source, make = PARTS[name]
    part = Part(how) if how in ("raises", "hangs") else Part("rubbish", how)
    if how == "hangs" and source is not None:
        make_late(monkeypatch, source)
    retriever, options = make(part)
    try:
        result = answer(retriever, is_async=is_async, deadline_ms=DEADLINE_MS, **options)
    finally:
        part.released.set()
    assert len(result) > 0
    assert part.has_call.is_set() or how == "hangs"  # on a busy machine, its time may be over before its thread starts
    assert KEY not in repr((result.plan, result.degraded))
    # A function may return None instead of a history, and any text is an expanded question.
    is_valid = (name == "history" and how is None) or (name == "expander" and how == "rubbish")
    if how == "hangs" and source in ("vector", "keyword", "rerank", "graph"):
        assert f"deadline-exceeded:{source}" in result.degraded
    if name == "fusion":
        assert ("interleaved" in result.degraded, result.plan["method"]) == (True, "interleave")
    if source is not None and not is_valid:
        sources = (source, "planner") if name == "session" else (source,)  # a planner may refuse the messages
        assert any(each in reason for reason in result.degraded for each in sources), result.degraded


@BOTH_WAYS
def test_a_session_of_memories_that_cannot_be_read_is_left_out(is_async):
    """If a chat history cannot be read, memories are searched without it and session-failed is reported."""
    result = answer(MemoryRetriever(new_store()), is_async=is_async, session=History(Part("raises")))
    assert (len(result) > 0, "session-failed" in result.degraded) == (True, True)


# -- deadlines ----------------------------------------------------------------------------------------------------


@pytest.fixture
def hanging():
    part = Part("hangs")
    yield part
    part.released.set()


@BOTH_WAYS
def test_a_deadline_is_in_milliseconds(hanging, is_async):
    """A search whose embedding hangs ends after ``deadline_ms`` milliseconds."""
    retriever = HybridRetriever(new_store(part=hanging), deadline_ms=50, on_error="empty")
    assert "deadline-exceeded:vector" in answer(retriever, is_async=is_async).degraded


@BOTH_WAYS
@pytest.mark.parametrize("by_call", [True, False], ids=["of the call", "of the retriever"])
def test_an_embedding_that_hangs_after_a_conversation(monkeypatch, hanging, by_call, is_async):
    """If the embedding hangs in a search with a conversation, only the keywords of the original question are searched
    for, and the search ends.
    """
    make_late(monkeypatch, "expander", "vector")
    below = HybridRetriever(new_store(part=hanging), deadline_ms=None if by_call else DEADLINE_MS)
    options = {"deadline_ms": DEADLINE_MS} if by_call else {}
    retriever = AdvancedRetriever(below, k=2)
    result = answer(retriever, "is it green?", is_async=is_async, conversation_history=HISTORY, **options)
    assert result.hits[0].child.id == "c2"
    assert set(result.degraded) == {"expander-failed", "deadline-exceeded:vector"}


@BOTH_WAYS
@pytest.mark.parametrize("how", ["raises", "hangs"])
def test_an_embedding_that_fails_only_while_the_question_is_expanded(monkeypatch, hanging, how, is_async):
    """The raw question is searched completely: half of the deadline is left for it, even if the expansion hangs."""
    hanging.how = how
    if how == "hangs":
        make_late(monkeypatch, "expander")
    retriever = AdvancedRetriever(HybridRetriever(new_store(part=hanging, text_without_part="is it green?")))
    options = {"conversation_history": HISTORY, "deadline_ms": DEADLINE_MS}
    result = answer(retriever, "is it green?", is_async=is_async, **options)
    assert (result.degraded, result.plan["searched"]) == (("expander-failed",), "raw")


@pytest.mark.parametrize("name", ["planner", "session", "expander", "history", "messages"])
def test_half_of_the_time_is_left_for_the_search(monkeypatch, name):
    """Reading the conversation and planning or expanding the question have half of the time until the deadline."""
    source, make = PARTS[name]
    seconds, deadline_of = {}, effects.deadline_of

    def recorded(call, deadline):
        until = deadline_of(call, deadline)
        seconds[call.source] = until - time.monotonic()
        return until

    monkeypatch.setattr(effects, "deadline_of", recorded)
    retriever, options = make(Part("rubbish"))
    retriever.retrieve(QUESTION, deadline_ms=DEADLINE_MS, **options)
    assert seconds[source] <= PATIENCE / 2 < seconds["vector"]


@BOTH_WAYS
def test_a_reranker_made_for_each_call_leaves_few_threads(monkeypatch, hanging, is_async):
    """Forty hanging rerankers, one per call, leave fewer than thirty extra threads."""
    make_late(monkeypatch, "rerank")
    store, before = new_store(), threading.active_count()
    for _ in range(40):
        retriever = HybridRetriever(store, reranker=lambda query, texts: hanging(), deadline_ms=DEADLINE_MS)
        assert "deadline-exceeded:rerank" in answer(retriever, is_async=is_async).degraded
    assert threading.active_count() - before < 30


def test_searches_that_hang_without_a_deadline_do_not_block_others(hanging):
    """While forty searches hang in their embedding, a search in another store returns its hits."""
    stuck, other = HybridRetriever(new_store(part=hanging)), HybridRetriever(new_store())

    async def search():
        hung = [asyncio.create_task(stuck.ainvoke(QUESTION)) for _ in range(40)]
        await asyncio.to_thread(hanging.has_call.wait, PATIENCE)
        documents = await other.ainvoke(QUESTION)
        for task in hung:
            task.cancel()
        return documents

    assert len(in_time(lambda: asyncio.run(search()))) == 1
