"""Delivery of events to sinks, which never affects a search."""

import os
import subprocess
import sys
import threading
from contextvars import ContextVar, copy_context

import pytest

from langchain_hybridgraph import HybridRetriever, add_sink, remove_sink
from langchain_hybridgraph.telemetry import dispatch, flush
from langchain_hybridgraph.telemetry.dispatch import Delivery, delivery_for
from tests.support.stores.pet_store import QUESTION, stages

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
    monkeypatch.setattr(dispatch, "MAX_WAITING", 2)
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
import sys
from langchain_hybridgraph.telemetry.dispatch import Delivery
from contextvars import copy_context
{body}
"""


def run(body):
    return subprocess.run(
        [sys.executable, "-c", SHORT.format(body=body)], capture_output=True, text=True, timeout=600, check=True
    ).stdout


def test_queued_events_are_delivered_at_exit():
    """Queued events are delivered when the interpreter exits."""
    body = "d = Delivery(lambda event: print(event, flush=True))\nfor i in range(3): d.enqueue(copy_context(), [i])"
    assert run(body).split() == ["0", "1", "2"]


def test_a_program_exits_even_if_a_sink_hangs():
    """A hanging sink does not keep the interpreter from exiting."""
    body = (
        "import threading\nDelivery(lambda event: threading.Event().wait()).enqueue(copy_context(), [1])\nprint('done')"
    )
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
