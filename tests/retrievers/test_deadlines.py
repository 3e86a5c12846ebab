"""Deadlines of complete searches: a stage that hangs is left out and delays neither the answer nor the program's
exit.
"""

from __future__ import annotations

import asyncio
import threading

import pytest
from langchain_core.documents import BaseDocumentCompressor
from langchain_core.embeddings import DeterministicFakeEmbedding

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from tests.support.samples.clock import PATIENCE, make_late

TEXTS = ["The red roadster costs 200,000.", "The blue van costs 9,000.", "Trains are slow."]
HISTORY = ["User: Which car is red?", "Assistant: The roadster."]
QUESTION = "and its price?"
DEADLINE_MS = 1_000 * PATIENCE  # only the sources of make_late are late


class Gate:
    """Gate that blocks calls while it is shut; no call is blocked for longer than a test waits."""

    def __init__(self):
        self.hit = threading.Event()
        self._open = threading.Event()
        self._open.set()

    def shut(self):
        self._open.clear()

    def open(self):
        self._open.set()

    def pass_through(self):
        if not self._open.is_set():
            self.hit.set()
        self._open.wait(PATIENCE)


@pytest.fixture
def gate():
    new_gate = Gate()
    yield new_gate
    new_gate.open()


class GatedEmbeddings(DeterministicFakeEmbedding):
    """Embedding without async methods whose query calls may hang."""

    size: int = 16
    gate: object

    def embed_query(self, text):
        self.gate.pass_through()
        return super().embed_query(text)


class GatedCompressor(BaseDocumentCompressor):
    gate: object

    def compress_documents(self, documents, query, callbacks=None):
        self.gate.pass_through()
        return documents


def sync(retriever, *args, **options):
    return retriever.retrieve(*args, **options)


def awaited(retriever, *args, **options):
    return asyncio.run(retriever.aretrieve(*args, **options))


def in_time(work):
    """Return the result of the work; fail if it does not finish in time."""
    answers = []

    def run():
        try:
            answers.append(work())
        except Exception as error:  # noqa: BLE001 - raised by the thread that waits
            answers.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert answers, "the search did not return"
    if isinstance(answers[0], Exception):
        raise answers[0]
    return answers[0]


@pytest.fixture(params=[sync, awaited], ids=["sync", "async"])
def ask(request):
    return lambda *args, **options: in_time(lambda: request.param(*args, **options))


@pytest.fixture
def late(monkeypatch):
    return lambda *sources: make_late(monkeypatch, *sources)


def store(gate, **options):
    return HybridGraphStore.from_texts(TEXTS, GatedEmbeddings(gate=gate), ids=["roadster", "van", "train"], **options)


def test_a_deadline_is_in_milliseconds(gate, ask):
    """A search whose embedding hangs ends after ``deadline_ms`` milliseconds."""
    retriever = HybridRetriever(store(gate), deadline_ms=50, on_error="empty")
    gate.shut()
    assert "deadline-exceeded:vector" in ask(retriever, "red roadster").degraded


@pytest.mark.parametrize("by_call", [True, False], ids=["of the call", "of the retriever"])
def test_an_embedding_that_hangs_after_a_conversation(gate, late, ask, by_call):
    """If the embedding hangs in a search with a conversation, only the keywords of the original question are searched
    for, and the search ends.
    """
    late("expander", "vector")
    below = HybridRetriever(store(gate), deadline_ms=None if by_call else DEADLINE_MS)
    options = {"deadline_ms": DEADLINE_MS} if by_call else {}
    gate.shut()
    result = ask(AdvancedRetriever(below, k=2), "its price, of the roadster?", conversation_history=HISTORY, **options)
    assert result[0].id == "roadster"
    assert set(result.degraded) == {"expander-failed", "deadline-exceeded:vector"}


def test_an_embedding_that_hangs_only_while_the_question_is_expanded(gate, late, ask):
    """Half of the deadline is left for the search when expansion hangs, so the search itself is complete."""
    late("expander")

    class First(GatedEmbeddings):
        def embed_query(self, text):
            return DeterministicFakeEmbedding.embed_query(self, text) if text == QUESTION else super().embed_query(text)

    vector_store = HybridGraphStore.from_texts(TEXTS, First(gate=gate))
    gate.shut()
    result = ask(
        AdvancedRetriever(HybridRetriever(vector_store)),
        QUESTION,
        conversation_history=HISTORY,
        deadline_ms=DEADLINE_MS,
    )
    assert result.degraded == ("expander-failed",)


def test_a_reranker_made_for_each_call_leaves_few_threads(gate, late, ask):
    """Forty hanging rerankers, one per call, leave fewer than thirty extra threads."""
    late("rerank")
    vector_store = store(Gate())
    gate.shut()
    before = threading.active_count()
    for _ in range(40):
        retriever = HybridRetriever(vector_store, reranker=GatedCompressor(gate=gate), deadline_ms=DEADLINE_MS)
        assert "deadline-exceeded:rerank" in ask(retriever, "red roadster").degraded
    assert threading.active_count() - before < 30


def test_searches_that_hang_without_a_deadline_do_not_block_others(gate):
    """While forty searches hang in their embedding, a search in another store returns its hits."""
    hanging, other = HybridRetriever(store(gate)), HybridRetriever(store(Gate()))
    gate.shut()

    async def search():
        hung = [asyncio.create_task(hanging.ainvoke("red roadster")) for _ in range(40)]
        await asyncio.to_thread(gate.hit.wait, PATIENCE)
        answer = await other.ainvoke("red roadster")
        for task in hung:
            task.cancel()
        return answer

    assert len(in_time(lambda: asyncio.run(search()))) == 3
