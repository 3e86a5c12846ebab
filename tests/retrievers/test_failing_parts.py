"""Every part of a search may raise, hang or return rubbish; the search still answers, and says so."""

import asyncio
import threading

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.retrievers import BaseRetriever

from langchain_hybridgraph import GraphRetriever, HierarchicalRetriever, HybridGraphStore, HybridRetriever
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.records import Edge
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from langchain_hybridgraph.search.traversals import BFS
from tests.support.samples.clock import PATIENCE, make_late

QUESTION = "Which red car is fast?"
HISTORY = ["User: Which car is red?", "Assistant: The roadster."]
KEY = "sk-live-0123456789abcdef"
RUBBISH = (None, "rubbish", float("nan"), [["a"], None], object())
CHUNKS = [
    Chunk(f"c{n}", f"The {color} car number {n} is fast.", {"source": f"cars/{n}.md"}, parent_id="p")
    for n, color in enumerate(["red", "blue", "green", "grey"])
]


class Part:
    """Part that raises, hangs until the end of the test, or returns rubbish once it is broken."""

    def __init__(self, how, rubbish=None):
        self.how, self.rubbish, self.is_broken, self.is_called = how, rubbish, False, False
        self.released = threading.Event()

    def __call__(self, *arguments, **options):
        self.is_called = True
        if self.how == "raises":
            raise RuntimeError(f"the provider refused api_key={KEY}")
        if self.how == "hangs":
            self.released.wait(PATIENCE)
        return self.rubbish


class Words(DeterministicFakeEmbedding):
    """Embedding whose queries may be embedded by a broken part."""

    size: int = 16
    part: object = None

    def embed_query(self, text):
        return super().embed_query(text) if self.part is None else self.part()


class Keywords(BaseRetriever):
    part: object

    def _get_relevant_documents(self, query, *, run_manager):
        return self.part()


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


def new_store(kind=HybridGraphStore, part=None):
    store = kind(None, Words(part=part))
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


# For each part: the source of its calls, and the retriever with the options of the call.
PARTS = {
    "embedding": ("vector", lambda part: (HybridRetriever(new_store(part=part)), {})),
    "vector store": ("vector", over_another_store),
    "keywords": ("keyword", lambda part: (HybridRetriever(new_store(), keyword_retriever=Keywords(part=part)), {})),
    "fusion": ("fusion", lambda part: (HybridRetriever(new_store(), fusion=part), {})),
    "reranker": ("rerank", lambda part: (HybridRetriever(new_store(), reranker=lambda query, texts: part()), {})),
    "parents": ("parents", over_slow_store),
    "traversal": ("graph", lambda part: (GraphRetriever(new_store(), graph={"traversal": Traversal(part)}), {})),
    "planner": (
        "planner",
        lambda part: (
            HierarchicalRetriever(new_store(), planner=lambda summary, messages, query: part()),
            {"session": HISTORY},
        ),
    ),
    "session": ("session", lambda part: (HierarchicalRetriever(new_store()), {"session": History(part)})),
    "expander": (
        "expander",
        lambda part: (
            AdvancedRetriever(HybridRetriever(new_store()), expander=lambda query, turns: part()),
            {"conversation_history": HISTORY},
        ),
    ),
    "history": (
        "history",
        lambda part: (
            AdvancedRetriever(HybridRetriever(new_store()), get_session_history=lambda session_id: part()),
            {},
        ),
    ),
    "messages": (
        "history",
        lambda part: (AdvancedRetriever(HybridRetriever(new_store())), {"conversation_history": History(part)}),
    ),
    "sink": (
        None,
        lambda part: (HybridRetriever(new_store(), telemetry={"sinks": [part]}), {}),
    ),
}


def answer(retriever, options, *, is_async):
    """Return the result of a search on another thread; fail if the caller's thread or event loop is blocked."""

    async def beside_a_clock():
        search = asyncio.create_task(retriever.aretrieve(QUESTION, **options))
        longest = before = asyncio.get_running_loop().time()
        longest = 0.0
        while not search.done():
            await asyncio.sleep(0.01)
            now = asyncio.get_running_loop().time()
            longest, before = max(longest, now - before), now
        assert longest < PATIENCE / 4, "the event loop was blocked"
        return await search

    answers = []

    def run():
        try:
            answers.append(asyncio.run(beside_a_clock()) if is_async else retriever.retrieve(QUESTION, **options))
        except BaseException as error:  # noqa: BLE001 - raised by the thread that waits
            answers.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE / 2)
    assert answers, "the search did not return"
    if isinstance(answers[0], BaseException):
        raise answers[0]
    return answers[0]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
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
        result = answer(retriever, options | {"deadline_ms": 1_000 * PATIENCE}, is_async=is_async)
    finally:
        part.released.set()
    assert len(result) > 0
    assert part.is_called or how == "hangs"  # on a busy machine, its time may be over before its thread starts
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
