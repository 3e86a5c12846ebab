"""Dispatch and delivery of events, which never affects a search."""

import asyncio
import os
import threading
from contextvars import ContextVar, copy_context

import pytest

from langchain_hybridgraph import GraphRetriever, HierarchicalRetriever, HybridRetriever, LogSink, telemetry
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.retrievers import base, hierarchical
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from langchain_hybridgraph.search.context import TokenBudget
from langchain_hybridgraph.telemetry import Delivery, SearchEnded, add_sink, delivery_for, flush, remove_sink
from tests.support.servers.python_process import output_of_python
from tests.support.stores.pet_store import HISTORY, QUESTION, STAGES, broken, stages

PLAIN = [*STAGES, "search"]


@pytest.fixture
def events():
    """Return a list with the events of all searches in the process; ``all_of`` flushes it."""
    events = []
    sink = events.append
    add_sink(sink)
    yield events
    remove_sink(sink)


def all_of(events):
    assert flush(120)
    return events


def test_every_stage_that_runs_is_reported(store, events):
    """Graph expansion, reranking and the token budget send events as stages."""
    GraphRetriever(store, reranker=broken, selection={"budget": TokenBudget()}).retrieve(QUESTION)
    later = ["expand", "admit", "rerank", "select", "budget", "calibrate", "search"]
    assert stages(all_of(events)) == [*STAGES[:4], *later]


def test_an_event_describes_the_search(store, events):
    """The event of a search has retriever, k, mode, ids and scores, and its repr does not contain the query."""
    result = HybridRetriever(store, k=2).retrieve(QUESTION)
    event = all_of(events)[-1]
    assert (event.search.retriever, event.search.k, event.mode) == ("HybridRetriever", 2, "hybrid")
    assert event.results == tuple((d.id, d.metadata["relevance_score"]) for d in result)
    assert (event.search.query, event.search.query_length) == (QUESTION, 17)
    assert all(QUESTION not in repr(each) for each in events)


@pytest.mark.parametrize("ask", ["invoke", "retrieve", "ainvoke", "aretrieve", "stream", "batch", "abatch"])
async def test_every_search_method_is_reported_once(store, events, ask):
    """Each of several queries, also of concurrent ones, is one search with its own stages in order and no parent."""
    retriever = HybridRetriever(store, k=1)
    if "batch" in ask:
        answer = getattr(retriever, ask)([QUESTION, "Who barks?"] * 10)
    else:
        answer = getattr(retriever, ask)(QUESTION)
    if ask == "stream":
        list(answer)
    elif asyncio.iscoroutine(answer):
        await answer
    by_search = {}
    for event in all_of(events):
        by_search.setdefault(event.search, []).append(event)
    assert [stages(events) for events in by_search.values()] == [PLAIN] * (20 if "batch" in ask else 1)
    assert {search.parent for search in by_search} == {None}


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_retriever_over_a_retriever_is_the_parent(store, events, is_async):
    """The search of an AdvancedRetriever is the parent of its inner retriever's search."""
    retriever = AdvancedRetriever(HybridRetriever(store, k=1))
    if is_async:
        await retriever.aretrieve_with_context("Where is it?", HISTORY)
    else:
        retriever.retrieve_with_context("Where is it?", HISTORY)
    below, above = [event for event in all_of(events) if isinstance(event, SearchEnded)]
    assert (above.search.retriever, above.search.k, above.mode) == ("AdvancedRetriever", 1, "hybrid")
    assert below.search.parent is above.search
    own = [event.stage for event in events if event.search is above.search and event is not above]
    assert own == ["expand-query", "embed"]


async def test_a_tree_is_reported(store, events):
    """find, search and invoke of HierarchicalRetriever are reported with its mode and the uris found."""
    retriever = HierarchicalRetriever(pets_tree(), k=1)
    retriever.find("Which pets purr?")
    await retriever.asearch("Which pets purr?", session=["What do you know?"])
    retriever.invoke("Which pets purr?")
    ended = [event for event in all_of(events) if isinstance(event, SearchEnded)]
    assert [(event.mode, event.results[0][0]) for event in ended] == [("hierarchical", "pets/cats.md")] * 3
    assert "walk" in stages(events)


@pytest.mark.parametrize(("kind", "module"), [(HybridRetriever, base), (HierarchicalRetriever, hierarchical)])
def test_an_answer_that_cannot_be_converted_is_an_error(kind, module, events, monkeypatch):
    """If hits cannot be converted to Documents, statistics and sinks report an error, and no answer."""
    retriever = kind(pets_tree())
    monkeypatch.setattr(module, "annotate", lambda hits, *_: broken(hits, ()))
    with pytest.raises(TimeoutError, match="no answer") as raised:
        retriever.retrieve("Which pets purr?")
    stats = retriever.get_retrieval_stats()
    assert (stats["calls"], stats["errors"], stats["mean_documents"]) == (1, {"TimeoutError": 1}, None)
    assert all_of(events)[-1].error is raised.value


def pets_tree():
    from langchain_core.documents import Document

    from langchain_hybridgraph import HybridGraphStore, build_layers, ingest

    store = HybridGraphStore(None)
    pages = {"pets/cats.md": "Cats purr.", "pets/dogs.md": "Dogs bark.", "cars/fast.md": "A roadster is fast."}
    ingest([Document(text, metadata={"uri": uri}, id=uri) for uri, text in pages.items()], store)
    build_layers(store)
    return store


def test_a_retrievers_own_sinks_receive_events_of_inner_searches(store):
    """A retriever's own sinks receive the events of its inner retriever only for searches that it started."""
    events = []
    below = HybridRetriever(store, k=1)
    above = AdvancedRetriever(below, telemetry={"sinks": [events.append]})
    below.invoke(QUESTION)
    assert all_of(events) == []
    above.invoke(QUESTION)
    assert stages(all_of(events)) == [*PLAIN, "search"]


def test_a_sink_added_twice_receives_each_event_once(store):
    """A sink that is added twice, or to the process and the retriever, receives each event once, until removed."""
    events = []
    sink = events.append
    assert add_sink(sink) is add_sink(sink)
    HybridRetriever(store, telemetry={"sinks": [sink]}).invoke(QUESTION)
    assert stages(all_of(events)) == PLAIN
    remove_sink(sink)
    HybridRetriever(store).invoke(QUESTION)
    assert stages(all_of(events)) == PLAIN


@pytest.mark.parametrize(
    ("sink", "mend"),
    [("prometheus", r"such as PrometheusSink\("), (None, r"such as PrometheusSink\("), (LogSink, "pass an instance")],
)
def test_anything_but_a_sink_is_an_error(store, sink, mend):
    """Adding a value that is not a sink, or a sink's class, raises an error with the correct line."""
    before = telemetry._process_deliveries
    with pytest.raises(ConfigurationError, match=mend):
        add_sink(sink)
    assert telemetry._process_deliveries == before
    with pytest.raises(ValueError, match=mend):
        HybridRetriever(store, telemetry={"sinks": [sink]})


async def test_a_cancelled_search_is_reported(store, events):
    """A cancelled search is reported as cancelled, and the next search has no parent."""
    retriever = AdvancedRetriever(HybridRetriever(store), expander=Waiting())
    task = asyncio.create_task(retriever.aretrieve_with_context("Where is it?", HISTORY))
    await retriever.expander.is_called.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    event = all_of(events)[-1]
    assert (event.cancelled, event.error, event.results) == (True, None, ())
    await HybridRetriever(store).aretrieve(QUESTION)
    assert all_of(events)[-1].search.parent is None


class Waiting:
    """Expander that never returns."""

    def __init__(self):
        self.is_called = asyncio.Event()

    def __call__(self, query, inputs):
        threading.Event().wait()

    async def acall(self, query, inputs):
        self.is_called.set()
        await asyncio.Event().wait()


WHERE = ContextVar("where", default="nowhere")


class Stuck:
    """Sink that hangs until it is released."""

    def __init__(self):
        self.entered, self.let_go, self.events = threading.Event(), threading.Event(), []

    def __call__(self, event):
        self.entered.set()
        self.let_go.wait()
        self.events.append(event)


def test_a_sink_that_hangs_delays_nothing(store):
    """While one sink hangs, searches return hits and another sink receives all events."""
    stuck, events = Stuck(), []
    other = events.append
    retriever = HybridRetriever(store, k=1, telemetry={"sinks": [stuck, other]})
    try:
        answers = [retriever.invoke(QUESTION)[0].id for _ in range(20)]
        assert stuck.entered.wait(120)
        assert answers == ["cat"] * 20
        assert delivery_for(other).flush(120)
        assert not flush(timeout=0.1)
        assert stages(events).count("search") == 20
        assert stuck.events == []
    finally:
        stuck.let_go.set()
    assert flush(timeout=120)
    assert stages(stuck.events).count("search") == 20


@pytest.mark.parametrize("error", [ValueError("the disk is full"), SystemExit("the disk is full")])
def test_a_sink_that_raises_does_not_affect_a_search(store, caplog, error):
    """If a sink raises, searches return their hits, its events are counted as failed and one warning is logged."""

    def broken(event):
        raise error

    delivery = add_sink(broken)
    try:
        for _ in range(2):
            assert HybridRetriever(store, k=1).invoke(QUESTION)[0].id == "cat"
        assert delivery.flush(120)
    finally:
        remove_sink(broken)
    assert delivery.failed == 14
    (warning,) = [record for record in caplog.records if record.name == "langchain_hybridgraph.telemetry"]
    assert f"{type(error).__name__}: the disk is full" in warning.getMessage()


def test_the_queue_is_bounded(monkeypatch):
    """With a queue of two, a hanging sink has one event, two more wait, and further events are counted as dropped."""
    monkeypatch.setattr(telemetry, "MAX_WAITING", 2)
    stuck = Stuck()
    delivery = Delivery(stuck)
    delivery.enqueue(copy_context(), ["first"])
    assert stuck.entered.wait(120)
    for each in ("second", "third", "fourth", "fifth"):
        delivery.enqueue(copy_context(), [each])
    assert delivery.dropped == 2
    stuck.let_go.set()
    assert delivery.flush(120)
    assert stuck.events == ["first", "second", "third"]


def test_a_sink_runs_in_the_context_of_the_search():
    """A sink is called with the context variables of the caller that searches."""
    events = []
    delivery = Delivery(lambda event: events.append((event, WHERE.get(), threading.current_thread().name)))
    WHERE.set("request 7")
    delivery.enqueue(copy_context(), ["event"])
    assert delivery.flush(120)
    assert events == [("event", "request 7", "hybridgraph-telemetry")]


SHORT = """
import sys, threading
from langchain_hybridgraph.telemetry import Delivery
from contextvars import copy_context
{body}
"""


def run(body):
    return output_of_python("-c", SHORT.format(body=body))


def test_queued_events_are_delivered_at_exit():
    """Queued events are delivered when the interpreter exits."""
    body = "d = Delivery(lambda event: print(event, flush=True))\nfor i in range(3): d.enqueue(copy_context(), [i])"
    assert run(body).split() == ["0", "1", "2"]


def test_a_program_exits_even_if_a_sink_hangs():
    """A hanging sink does not keep the interpreter from exiting."""
    body = "Delivery(lambda event: threading.Event().wait()).enqueue(copy_context(), [1])\nprint('done')"
    assert run(body).strip() == "done"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
def test_a_forked_process_delivers_its_events():
    """A forked child process delivers its events in a new thread."""
    body = (
        "import os\nd = Delivery(lambda event: print(os.getpid() == first, event, flush=True))\n"
        "first = os.getpid()\nd.enqueue(copy_context(), ['parent'])\nd.flush(120)\nchild = os.fork()\n"
        "if child == 0:\n    d.enqueue(copy_context(), ['child'])\n    d.flush(120)\n    os._exit(0)\n"
        "os.waitpid(child, 0)"
    )
    assert run(body).splitlines() == ["True parent", "False child"]
