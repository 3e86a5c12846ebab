"""Effects: calls that run at the same time, fail independently, and are abandoned at a deadline."""

import asyncio
import os
import threading
import time
from contextvars import ContextVar

import pytest

from langchain_hybridgraph.execution import threads as worker_threads
from langchain_hybridgraph.execution.effects import Effect, Failure, adrive, attempt, drive, offload, together
from langchain_hybridgraph.execution.threads import Lane
from tests.support.samples.clock import PATIENCE
from tests.support.servers.python_process import output_of_python

NAME: ContextVar[str] = ContextVar("name", default="outside")
SOON = 0.02  # seconds until the deadline of a call that never returns


class Owner:
    """Owner of a lane, new in each test so that tests do not share abandoned calls."""


@pytest.fixture
def gate():
    new_gate = threading.Event()
    yield new_gate
    new_gate.set()


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def run(request):
    """Return a function that runs a search by the synchronous or the asynchronous driver."""
    if request.param:
        return lambda search, deadline=None: asyncio.run(adrive(search, deadline))
    return drive


def gathered(*batch: Effect):
    """Yield one batch of calls, as a search does, and return their results."""
    return (yield list(batch))


def steps_of(*steps):
    """Make one call after the other and return all results."""
    results = []
    for step in steps:
        results += yield [Effect("step", step)]
    return results


def test_calls_run_at_the_same_time_and_return_in_order(run):
    """Results are in the order of the calls, even if the first one waits for the second."""
    done = threading.Event()
    slow = Effect("slow", lambda: done.wait(PATIENCE) and "slow")
    assert run(gathered(slow, Effect("fast", lambda: done.set() or "fast"))) == ["slow", "fast"]


def test_a_failing_call_does_not_affect_the_others(run):
    """A failing call gives a Failure with its source and error; the other calls return their results."""
    failure, fine = run(gathered(Effect("vector", lambda: 1 / 0), Effect("keyword", lambda: "fine", quick=True)))
    assert isinstance(failure, Failure)
    assert (failure.reason, type(failure.error), fine) == ("vector-failed", ZeroDivisionError, "fine")


def test_a_call_that_raises_stop_iteration_fails_and_does_not_hang(run):
    """A call that raises StopIteration, which an asyncio Future cannot hold, gives a failure."""
    (failure,) = run(gathered(Effect("vector", lambda: next(iter(())))), time.monotonic() + PATIENCE)
    assert failure.reason == "vector-failed"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_interrupts_pass_through(error):
    """KeyboardInterrupt and SystemExit end the search instead of becoming failures."""

    def interrupt():
        raise error

    with pytest.raises(error):
        drive(gathered(Effect("vector", interrupt)))
    with pytest.raises(error):
        drive(gathered(Effect("keyword", lambda: 1), Effect("vector", interrupt)))


async def test_a_coroutine_that_ignores_cancellation_does_not_delay_the_result():
    """A search returns at its deadline even if a coroutine ignores its cancellation."""
    over = asyncio.Event()

    async def stubborn():
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                continue

    (late,) = await adrive(gathered(Effect("vector", lambda: None, stubborn)), time.monotonic() + SOON)
    over.set()
    assert late.reason == "deadline-exceeded:vector"


async def test_calls_that_hang_without_a_deadline_do_not_block_others(gate, monkeypatch):
    """Calls of another lane are answered although more calls hang than there are workers, and not all of them begin."""
    monkeypatch.setattr(worker_threads, "OVERDUE_SECONDS", 0.0)
    starts, lane, count = [], Lane("dead", Owner()), 3 * worker_threads.OVERDUE_CALLS
    hung = [asyncio.ensure_future(offload(lambda: starts.append(1) or gate.wait(PATIENCE), lane)) for _ in range(count)]
    for _ in range(3):
        assert await asyncio.wait_for(offload(lambda: "fine", Lane("alive")), PATIENCE) == "fine"
    assert len(starts) <= worker_threads.OVERDUE_CALLS + worker_threads.WORKERS
    gate.set()
    await asyncio.gather(*hung)
    assert len(starts) == count


def test_a_lane_of_abandoned_calls_is_skipped_until_one_returns(run, gate):
    """A lane with ABANDONED_CALLS hanging calls gets no further calls until one of them has returned."""
    owner, starts = Owner(), threading.Semaphore(0)
    ended = threading.Semaphore(0)

    def hang():
        starts.release()
        gate.wait(PATIENCE)
        ended.release()

    hanging = 0
    while hanging < worker_threads.ABANDONED_CALLS:  # on a busy machine, a call may be late before it begins
        (failure,) = run(gathered(Effect("vector", hang, owner=owner)), time.monotonic() + SOON)
        assert failure.late
        hanging += starts.acquire(timeout=SOON)
    (skipped,) = run(gathered(Effect("vector", hang, owner=owner)), time.monotonic() + PATIENCE)
    assert skipped.reason == "deadline-exceeded:vector"
    assert not starts.acquire(blocking=False)
    gate.set()
    for _ in range(worker_threads.ABANDONED_CALLS):
        assert ended.acquire(timeout=PATIENCE)
    answer = None
    while answer != "back":  # the worker that has made the call frees the lane a moment later
        (answer,) = run(gathered(Effect("vector", lambda: "back", owner=owner)), time.monotonic() + PATIENCE)


async def test_no_more_calls_run_at_once_than_there_are_workers():
    """400 concurrent searches use at most the workers of one level and one supervising thread."""
    before, counts = threading.active_count(), []
    await asyncio.gather(*(offload(lambda: counts.append(threading.active_count())) for _ in range(400)))
    assert len(counts) == 400
    assert max(counts) <= before + worker_threads.WORKERS + 1


async def test_nested_calls_do_not_wait_for_each_other():
    """Searches that occupy all workers and wait for calls on workers complete without a deadlock."""

    def outer():
        return sum(drive(gathered(Effect("a", lambda: 1), Effect("b", lambda: 2)), time.monotonic() + PATIENCE))

    count = 10 * worker_threads.WORKERS
    assert await asyncio.gather(*(offload(outer) for _ in range(count))) == [3] * count


async def test_a_cancelled_search_stops_at_its_next_call(gate):
    """A cancelled search raises CancelledError, is closed after its running call, and makes no further calls."""
    starts, closed, calls = threading.Event(), threading.Event(), []

    def search():
        try:
            yield [Effect("first", lambda: starts.set() or gate.wait(PATIENCE))]
            yield [Effect("second", lambda: calls.append("second"), quick=True)]
        finally:
            closed.set()

    task = asyncio.create_task(adrive(search()))
    await asyncio.to_thread(starts.wait, PATIENCE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not closed.is_set()
    gate.set()
    assert await asyncio.to_thread(closed.wait, PATIENCE)
    assert calls == []


async def test_context_variables_are_those_of_the_caller():
    """A search and all its calls see the caller's context variables, and its changes do not leak to the caller."""
    values = []

    async def awaited():
        values.append(NAME.get())

    def search():
        values.append(NAME.get())
        NAME.set("inner")
        yield [Effect("run", lambda: values.append(NAME.get())), Effect("arun", lambda: None, awaited)]
        values.append(NAME.get())

    NAME.set("outer")
    await adrive(search())
    assert (sorted(values), NAME.get()) == (["inner", "inner", "inner", "outer"], "outer")


# -- searches that are parts of other searches --------------------------------------------------------------------


def test_inner_searches_run_at_the_same_time(run):
    """Two searches whose calls wait for each other both return, each with all its results in order."""
    barrier = threading.Barrier(2, timeout=PATIENCE)
    one, other = run(together([steps_of(barrier.wait, lambda: 5), steps_of(barrier.wait)]))
    assert sorted([one[0], *other]) == [0, 1]
    assert one[1] == 5
    assert run(together([])) == []


def test_each_inner_search_has_a_context_of_its_own(run):
    """Context variables that a search sets are visible in its own calls, but not in other searches or outside."""

    async def name():
        await asyncio.sleep(0)
        return NAME.get()

    def set_name(value):
        NAME.set(value)
        calls = [Effect("worker", NAME.get), Effect("quick", NAME.get, quick=True), Effect("awaited", NAME.get, name)]
        return (yield [Effect("inline", NAME.get), *calls])

    before = NAME.get()
    assert run(together([set_name("a"), set_name("b")])) == [["a"] * 4, ["b"] * 4]
    assert NAME.get() == before


def failing(error):
    yield []
    raise error


def test_a_search_that_raises_closes_the_others():
    """An error in one search closes the other searches and is raised, unless it is an attempt."""
    closed = []

    def waiting():
        try:
            yield [Effect("a", lambda: 1)]
            yield [Effect("b", lambda: 2)]
        finally:
            closed.append(True)

    error = OSError("gone")
    with pytest.raises(OSError, match="gone"):
        drive(together([waiting(), failing(error)]))
    assert closed == [True]
    attempts = [attempt("a", failing(error)), attempt("b", steps_of(lambda: 1))]
    assert drive(together(attempts)) == [Failure("a", error), [1]]


# -- processes ----------------------------------------------------------------------------------------------------

PROGRAM = """
import asyncio, os, sys, threading, time
from langchain_hybridgraph.execution.effects import Effect, adrive, drive, offload
from langchain_hybridgraph.execution.threads import Lane

def search(*calls):
    return (yield [Effect("vector", call) for call in calls])

hang = threading.Event().wait
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
def test_processes_with_hanging_calls():
    """A forked child can search although all of its parent's workers are busy, and hanging calls do not delay exit."""
    program = """
async def main():
    hung = [asyncio.ensure_future(offload(hang, Lane("busy"))) for _ in range(100)]
    await offload(lambda: None, Lane("other"))
    child = os.fork()
    if child == 0:
        assert drive(search(lambda: 1, lambda: 2), time.monotonic() + 60) == [1, 2]
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    (failure,) = await adrive(search(hang), time.monotonic() + 0.05)
    assert await offload(lambda: "parent", Lane("other")) == "parent"
    print(failure.reason, flush=True)
    for each in hung:
        each.cancel()

asyncio.run(main())
"""
    assert output_of_python("-W", "ignore", "-c", PROGRAM + program).strip() == "deadline-exceeded:vector"
