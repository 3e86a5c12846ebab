"""Worker threads are limited, fair to their lanes, and not blocked by calls that hang."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from contextvars import ContextVar, copy_context

import pytest

from langchain_hybridgraph.execution import threads as worker_threads
from langchain_hybridgraph.execution.effects import Effect, adrive, drive, offload
from langchain_hybridgraph.execution.threads import Job, Lane, OverloadedError, Workers

PATIENCE = 30.0


def job(run, lane=None):
    return Job(run, lane or Lane("test"), copy_context())


def threads():
    return sum(thread.name.startswith("hybridgraph-") for thread in threading.enumerate())


def eventually(condition):
    until = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < until:
        time.sleep(0.005)
    return condition()


class Hanging:
    """Call that hangs until it is released and counts how often it was started."""

    def __init__(self):
        self.gate = threading.Event()
        self.started = 0
        self._lock = threading.Lock()

    def __call__(self):
        with self._lock:
            self.started += 1
        self.gate.wait(PATIENCE)


@pytest.fixture
def hanging():
    calls = Hanging()
    yield calls
    calls.gate.set()


@pytest.fixture
def patient(monkeypatch):
    """Treat no call as overdue."""
    monkeypatch.setattr(worker_threads, "OVERDUE_SECONDS", 1_000.0)


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(worker_threads, "OVERDUE_SECONDS", 0.05)


def test_no_more_calls_run_at_once_than_there_are_workers(patient, hanging):
    """If two workers get 20 calls, two calls run and the others wait."""
    pool = Workers(2, level=1)
    jobs = [job(hanging) for _ in range(20)]
    pool.submit(jobs)
    assert eventually(lambda: hanging.started == 2)
    time.sleep(0.05)
    assert hanging.started == 2
    hanging.gate.set()
    assert [each.result(PATIENCE) for each in jobs] == [None] * 20


def test_a_burst_of_searches_takes_few_threads():
    """400 concurrent searches use at most the workers of one level and one supervising thread."""
    before = threads()
    most = 0

    def look():
        nonlocal most
        most = max(most, threads())
        time.sleep(0.001)

    async def burst():
        await asyncio.gather(*(offload(look) for _ in range(400)))

    asyncio.run(burst())
    assert 0 < most <= before + worker_threads.WORKERS + 1


def test_another_call_runs_in_place_of_an_abandoned_one(patient, hanging):
    """A call is answered even after more calls were abandoned than there are workers."""
    pool = Workers(2, level=1)
    for number in range(6):
        hung = job(hanging, Lane("test", number))
        pool.submit([hung])
        assert eventually(lambda number=number: hanging.started == number + 1)
        hung.abandon()
    fine = job(lambda: "fine")
    pool.submit([fine])
    assert fine.result(PATIENCE) == "fine"


def test_another_call_runs_in_place_of_an_overdue_one(impatient, hanging):
    """A call is answered even if more calls without a deadline are hanging than there are workers."""
    pool = Workers(2, level=1)
    pool.submit([job(hanging, Lane("dead")) for _ in range(10)])
    fine = job(lambda: "fine", Lane("alive"))
    pool.submit([fine])
    assert fine.result(PATIENCE) == "fine"


def test_hanging_calls_of_a_lane_are_bounded(impatient, hanging, monkeypatch):
    """Only a limited number of hanging calls of one lane is started, and calls of other lanes are answered."""
    monkeypatch.setattr(worker_threads, "OVERDUE_CALLS", 5)
    pool = Workers(2, level=1)
    pool.submit([job(hanging, Lane("dead")) for _ in range(50)])
    assert eventually(lambda: hanging.started >= 5)
    time.sleep(0.3)
    assert hanging.started <= 5 + 2
    fine = job(lambda: "fine", Lane("alive"))
    pool.submit([fine])
    assert fine.result(PATIENCE) == "fine"


def test_lanes_take_turns(patient, hanging):
    """A call of one lane does not wait for all calls of a busy lane."""
    pool, order = Workers(1, level=1), []
    pool.submit([job(hanging, Lane("first"))])
    assert eventually(lambda: hanging.started == 1)
    busy = [job(lambda: order.append("busy"), Lane("busy")) for _ in range(10)]
    pool.submit(busy)
    pool.submit([other := job(lambda: order.append("other"), Lane("other"))])
    hanging.gate.set()
    other.result(PATIENCE)
    assert order.index("other") <= 2


def test_a_call_abandoned_in_the_queue_never_begins(patient, hanging):
    """A call that is abandoned while it is queued is never started."""
    pool = Workers(1, level=1)
    pool.submit([first := job(hanging), queued := job(hanging)])
    assert eventually(lambda: hanging.started == 1)
    queued.abandon()
    hanging.gate.set()
    first.result(PATIENCE)
    pool.submit([last := job(lambda: "last")])
    assert (last.result(PATIENCE), hanging.started) == ("last", 1)


def test_objects_made_for_one_call_leave_few_threads(patient, hanging):
    """Abandoned calls are limited per kind, even if each has its own lane; a new call is accepted once some have
    returned.
    """
    pool = Workers(2, level=1)
    hung = [job(hanging, Lane("rerank", number)) for number in range(worker_threads.ABANDONED_CALLS_OF_KIND)]
    for number, each in enumerate(hung, start=1):
        pool.submit([each])
        assert eventually(lambda number=number: hanging.started == number)
        each.abandon()
    pool.submit([refused := job(hanging, Lane("rerank", "another"))])
    with pytest.raises(OverloadedError):
        refused.result(PATIENCE)
    hanging.gate.set()
    assert all(each.exception(PATIENCE) is None for each in hung)

    def accepts_calls():
        pool.submit([again := job(lambda: "again", Lane("rerank", "another"))])
        return again.exception(PATIENCE) is None

    assert eventually(accepts_calls)


def test_nested_calls_do_not_wait_for_each_other():
    """Searches that occupy all workers and wait for calls on workers complete without a deadlock."""

    def outer():
        def search():
            answers = yield [Effect("a", lambda: 1), Effect("b", lambda: 2)]
            return sum(answers)

        return drive(search(), time.monotonic() + PATIENCE)

    async def burst():
        return await asyncio.gather(*(offload(outer) for _ in range(10 * worker_threads.WORKERS)))

    assert asyncio.run(asyncio.wait_for(burst(), PATIENCE)) == [3] * 10 * worker_threads.WORKERS


async def test_a_cancelled_search_stops_at_its_next_call():
    """A cancelled search is closed after its running call, and makes no further calls."""
    started_at, gate, closed, calls = threading.Event(), threading.Event(), threading.Event(), []

    def first():
        started_at.set()
        gate.wait(PATIENCE)

    def search():
        try:
            yield [Effect("first", first)]
            yield [Effect("second", lambda: calls.append("second"), quick=True)]
        finally:
            closed.set()

    task = asyncio.create_task(adrive(search()))
    await asyncio.to_thread(started_at.wait, PATIENCE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not closed.is_set()
    gate.set()
    assert await asyncio.to_thread(closed.wait, PATIENCE)
    assert calls == []


async def test_a_search_that_is_cancelled_in_the_queue_never_begins(patient, hanging):
    """A search that is cancelled while it is queued is never run."""
    busy = [asyncio.create_task(offload(hanging)) for _ in range(worker_threads.WORKERS)]
    assert await asyncio.to_thread(eventually, lambda: hanging.started == worker_threads.WORKERS)
    calls = []
    queued = [asyncio.create_task(offload(lambda: calls.append(1))) for _ in range(50)]
    await asyncio.sleep(0.05)
    for task in queued:
        task.cancel()
    await asyncio.gather(*queued, return_exceptions=True)
    await asyncio.sleep(0.05)
    hanging.gate.set()
    await asyncio.gather(*busy)
    await offload(lambda: None)
    assert calls == []


async def test_context_variables_are_those_of_the_caller():
    """A search and all its calls see the caller's context variables, and changes in the search do not leak to the
    caller.
    """
    variable = ContextVar("variable", default="unset")
    values = []

    async def awaited():
        values.append(variable.get())

    def search():
        values.append(variable.get())
        variable.set("inner")
        yield [Effect("run", lambda: values.append(variable.get())), Effect("arun", lambda: None, awaited)]
        values.append(variable.get())

    variable.set("outer")
    await adrive(search())
    assert (sorted(values), variable.get()) == (["inner", "inner", "inner", "outer"], "outer")


async def test_a_call_that_raises_stop_iteration_fails_and_does_not_hang():
    """A call that raises StopIteration, which an asyncio Future cannot hold, gives a failure and does not hang."""

    def search():
        (failure,) = yield [Effect("vector", lambda: next(iter(())))]
        return failure.reason

    until = time.monotonic() + PATIENCE
    assert await asyncio.wait_for(adrive(search(), until), PATIENCE) == "vector-failed"


async def test_a_coroutine_that_ignores_cancellation_does_not_delay_the_result():
    """A search returns at its deadline even if a coroutine ignores its cancellation."""
    over = asyncio.Event()

    async def stubborn():
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                continue

    def search():
        (late,) = yield [Effect("vector", lambda: None, stubborn)]
        return late.reason

    reason = await asyncio.wait_for(adrive(search(), time.monotonic() + 0.05), PATIENCE)
    over.set()
    assert reason == "deadline-exceeded:vector"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
def test_a_forked_process_has_workers_of_its_own():
    """A forked child can search although all of its parent's workers are busy."""
    program = """
import asyncio, os, sys, threading, time
from contextvars import copy_context
from langchain_hybridgraph.execution import threads as worker_threads
from langchain_hybridgraph.execution.effects import Effect, adrive, drive, offload

gate = threading.Event()
for number in range(100):
    worker_threads.submit(worker_threads.Job(lambda: gate.wait(60), worker_threads.Lane("busy"), copy_context()))
asyncio.run(offload(lambda: None, worker_threads.Lane("other")))

def search():
    answers = yield [Effect("a", lambda: 1), Effect("b", lambda: 2)]
    return answers

child = os.fork()
if child == 0:
    assert drive(search(), time.monotonic() + 30) == [1, 2]
    assert list(asyncio.run(adrive(search(), time.monotonic() + 30))) == [1, 2]
    os._exit(7)
_, status = os.waitpid(child, 0)
gate.set()
assert asyncio.run(offload(lambda: "parent")) == "parent"
sys.exit(os.waitstatus_to_exitcode(status))
"""
    ended = subprocess.run([sys.executable, "-W", "ignore", "-c", program], timeout=600, check=False)
    assert ended.returncode == 7


def test_hanging_calls_do_not_delay_the_end_of_the_process():
    """A process ends without waiting for an abandoned call."""
    program = """
import asyncio, threading, time
from langchain_hybridgraph.execution.effects import Effect, adrive

def search():
    answers = yield [Effect("vector", lambda: time.sleep(600))]
    return answers[0].reason

print(asyncio.run(adrive(search(), time.monotonic() + 0.1)))
"""
    ended = subprocess.run([sys.executable, "-c", program], timeout=600, check=True, capture_output=True, text=True)
    assert ended.stdout.strip() == "deadline-exceeded:vector"
