"""Delivery: what a sink does is no matter of the search."""

import gc
import os
import subprocess
import sys
import threading
from contextvars import ContextVar, copy_context

import pytest

from langchain_hybridgraph import HybridRetriever, add_sink, remove_sink
from langchain_hybridgraph.telemetry import delivery as module
from langchain_hybridgraph.telemetry import flush
from langchain_hybridgraph.telemetry.delivery import Delivery
from langchain_hybridgraph.telemetry.dispatch import delivery_for
from tests.support.stores.pet_store import QUESTION, pets, stages

WHERE = ContextVar("where", default="nowhere")


class Stuck:
    """A sink that hangs until it is let go."""

    def __init__(self):
        self.entered, self.let_go, self.events = threading.Event(), threading.Event(), []

    def __call__(self, event):
        self.entered.set()
        self.let_go.wait()
        self.events.append(event)


@pytest.fixture(scope="module")
def store():
    return pets()


def test_a_sink_that_hangs_holds_nothing_up(store):
    """While one sink hangs, searches answer and another sink hears them all."""
    stuck, events = Stuck(), []
    other = events.append
    retriever = HybridRetriever(store, k=1, telemetry={"sinks": [stuck, other]})
    try:
        answers = [retriever.invoke(QUESTION)[0].id for _ in range(20)]
        assert stuck.entered.wait(10)
        assert answers == ["cat"] * 20
        assert delivery_for(other).flush(10)
        assert not flush(timeout=0.1)
        assert stages(events).count("search") == 20
        assert stuck.events == []
    finally:
        stuck.let_go.set()
    assert flush(timeout=10)
    assert stages(stuck.events).count("search") == 20


def test_a_sink_that_raises_touches_no_search(store, caplog):
    """The search answers, each event counts as failed, and one warning says so."""

    def broken(event):
        raise ValueError("the disk is full")

    delivery = add_sink(broken)
    try:
        assert HybridRetriever(store, k=1).invoke(QUESTION)[0].id == "cat"
        assert delivery.flush(10)
    finally:
        remove_sink(broken)
    assert (delivery.failed, delivery.delivered) == (7, 0)
    (warning,) = [record for record in caplog.records if record.name == "langchain_hybridgraph.telemetry"]
    assert "ValueError: the disk is full" in warning.getMessage()


def test_a_sink_that_exits_touches_no_search(store):
    """SystemExit in a sink ends neither the process nor the delivery."""

    def leaving(event):
        raise SystemExit

    delivery = add_sink(leaving)
    try:
        HybridRetriever(store).invoke(QUESTION)
        HybridRetriever(store).invoke(QUESTION)
        assert delivery.flush(10)
    finally:
        remove_sink(leaving)
    assert delivery.failed == 14


def test_the_queue_is_bounded():
    """With room for two, a sink that hangs has one in its hands, two wait, and the rest is counted as dropped."""
    stuck = Stuck()
    delivery = Delivery(stuck, size=2)
    delivery.enqueue(copy_context(), ["first"])
    assert stuck.entered.wait(10)
    for each in ("second", "third", "fourth", "fifth"):
        delivery.enqueue(copy_context(), [each])
    assert delivery.dropped == 2
    stuck.let_go.set()
    assert delivery.flush(10)
    assert (stuck.events, delivery.delivered) == (["first", "second", "third"], 3)


def test_a_sink_hears_in_the_context_of_the_search():
    """Context variables of who searches are those of the sink: the current span, a request's id."""
    events = []
    delivery = Delivery(lambda event: events.append((event, WHERE.get(), threading.current_thread().name)))
    WHERE.set("request 7")
    delivery.enqueue(copy_context(), ["event"])
    assert delivery.flush(10)
    assert events == [("event", "request 7", "hybridgraph-telemetry")]


def test_the_thread_ends_and_starts_again(monkeypatch):
    """A delivery with nothing to do has no thread; the next event begins one."""
    monkeypatch.setattr(module, "_IDLE_SECONDS", 0.01)
    events = []
    delivery = Delivery(events.append)
    delivery.enqueue(copy_context(), [1])
    assert delivery.flush(10)
    while delivery._is_running:
        threading.Event().wait(0.01)
    delivery.enqueue(copy_context(), [2])
    assert delivery.flush(10)
    assert events == [1, 2]


def test_a_delivery_that_nobody_has_is_gone():
    """It is held by who uses it; the list for flushing does not keep it."""
    before = len(module._all)
    Delivery(print)
    gc.collect()
    assert len(module._all) <= before


SHORT = """
import sys
from langchain_hybridgraph.telemetry.delivery import Delivery
from contextvars import copy_context
{body}
"""


def run(body):
    return subprocess.run(
        [sys.executable, "-c", SHORT.format(body=body)], capture_output=True, text=True, timeout=60, check=True
    ).stdout


def test_a_program_that_ends_tells_first():
    """Queued events are delivered at the interpreter's exit."""
    body = "d = Delivery(lambda event: print(event, flush=True))\nfor i in range(3): d.enqueue(copy_context(), [i])"
    assert run(body).split() == ["0", "1", "2"]


def test_a_program_ends_though_a_sink_hangs():
    """The exit waits a second, no longer."""
    body = (
        "import threading\nDelivery(lambda event: threading.Event().wait()).enqueue(copy_context(), [1])\nprint('done')"
    )
    assert run(body).strip() == "done"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_tells_too():
    """A child, which has no thread of its parent's, delivers what it is given."""
    body = (
        "import os\nd = Delivery(lambda event: print(os.getpid() == first, event, flush=True))\n"
        "first = os.getpid()\nd.enqueue(copy_context(), ['parent'])\nd.flush(10)\nchild = os.fork()\n"
        "if child == 0:\n    d.enqueue(copy_context(), ['child'])\n    d.flush(10)\n    os._exit(0)\n"
        "os.waitpid(child, 0)"
    )
    assert run(body).splitlines() == ["True parent", "False child"]
