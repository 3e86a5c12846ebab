"""Effects: calls that run at the same time, fail independently and are abandoned at a deadline."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from langchain_hybridgraph.execution import threads as worker_threads
from langchain_hybridgraph.execution.effects import Effect, Failure, adrive, drive, offload
from langchain_hybridgraph.execution.threads import Lane


def gathered(*batch: Effect):
    """Yield one batch of calls, as a search does, and return their results."""
    answers = yield list(batch)
    return answers


def stubborn(gate: threading.Event):
    return lambda: gate.wait(20)


class Owner:
    """Owner of a lane, new in each test so that tests do not share abandoned calls."""


def test_results_come_in_the_order_of_the_calls():
    """Results are in the order of the calls, even if a later call returns first."""
    slow = Effect("slow", lambda: time.sleep(0.05) or "slow")
    fast = Effect("fast", lambda: "fast")
    assert drive(gathered(slow, fast)) == ["slow", "fast"]


def test_calls_run_at_the_same_time():
    """Two calls that wait for each other both return, so they run at the same time."""
    barrier = threading.Barrier(2, timeout=10)
    answers = drive(gathered(Effect("a", barrier.wait), Effect("b", barrier.wait)))
    assert sorted(answers) == [0, 1]


def test_the_first_call_runs_on_the_callers_thread():
    """A single call runs on the caller's thread."""
    here = threading.get_ident()
    assert drive(gathered(Effect("a", threading.get_ident))) == [here]


def test_a_failing_call_does_not_affect_the_others():
    """A failing call gives a Failure with its source and error; the other calls return their results."""
    broken = Effect("vector", lambda: 1 / 0)
    failure, fine = drive(gathered(broken, Effect("keyword", lambda: "fine")))
    assert isinstance(failure, Failure)
    assert (failure.reason, type(failure.error), fine) == ("vector-failed", ZeroDivisionError, "fine")


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_interrupts_pass_through(error):
    """KeyboardInterrupt and SystemExit end the search instead of becoming failures."""

    def interrupt():
        raise error

    with pytest.raises(error):
        drive(gathered(Effect("vector", interrupt)))
    with pytest.raises(error):
        drive(gathered(Effect("keyword", lambda: 1), Effect("vector", interrupt)))


def test_a_late_call_is_reported_without_waiting_for_it():
    """A call that misses the deadline gives a Failure with its source, without delaying the other results."""
    gate = threading.Event()
    started_at = time.monotonic()
    late, fine = drive(
        gathered(Effect("vector", stubborn(gate), lane=Lane("test", Owner())), Effect("keyword", lambda: "fine")),
        started_at + 0.1,
    )
    gate.set()
    assert late.reason == "deadline-exceeded:vector"
    assert fine == "fine"
    assert time.monotonic() - started_at < 10


def test_hanging_calls_do_not_starve_the_next():
    """After 40 hanging calls, an unrelated call is still answered before its deadline."""
    gate = threading.Event()
    for _ in range(40):
        drive(gathered(Effect("vector", stubborn(gate), lane=Lane("test", Owner()))), time.monotonic() + 0.001)
    assert drive(gathered(Effect("keyword", lambda: "fine")), time.monotonic() + 10) == ["fine"]
    gate.set()


def test_a_lane_of_abandoned_calls_is_skipped_until_one_returns():
    """A lane with ABANDONED_CALLS hanging calls gets no further calls until one of them has returned."""
    gate, lane, starts = threading.Event(), Lane("test", Owner()), threading.Semaphore(0)

    def hang():
        starts.release()
        gate.wait(20)

    hanging = 0
    while hanging < worker_threads.ABANDONED_CALLS:  # on a busy machine, a call may be late before it starts
        (failure,) = drive(gathered(Effect("vector", hang, lane=lane)), time.monotonic() + 0.05)
        assert failure.late
        hanging += starts.acquire(timeout=0.5)
    (skipped,) = drive(gathered(Effect("vector", hang, lane=lane)), time.monotonic() + 10)
    assert skipped.reason == "deadline-exceeded:vector"
    assert not starts.acquire(blocking=False)
    gate.set()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        (answer,) = drive(gathered(Effect("vector", lambda: "back", lane=lane)), time.monotonic() + 10)
        if answer == "back":
            return
        time.sleep(0.01)
    pytest.fail("the lane was never tried again")


async def test_both_drivers_give_the_same():
    """The synchronous and the asynchronous driver give the same results and failures."""
    batch = [Effect("a", lambda: 1), Effect("b", lambda: 1 / 0), Effect("c", lambda: 3, quick=True)]
    sync, awaited = drive(gathered(*batch)), await adrive(gathered(*batch))
    assert [getattr(one, "reason", one) for one in sync] == [getattr(one, "reason", one) for one in awaited]


async def test_native_coroutines_are_awaited_together():
    """Two coroutines that wait for each other both return."""
    first, second = asyncio.Event(), asyncio.Event()

    async def one():
        first.set()
        await second.wait()
        return "one"

    async def two():
        await first.wait()
        second.set()
        return "two"

    answers = await adrive(gathered(Effect("a", lambda: None, one), Effect("b", lambda: None, two)))
    assert answers == ["one", "two"]


async def test_an_awaited_call_has_a_deadline_too():
    """A coroutine that misses the deadline is reported with its source."""
    (late,) = await adrive(gathered(Effect("vector", lambda: None, asyncio.Event().wait)), time.monotonic() + 0.05)
    assert late.reason == "deadline-exceeded:vector"


async def test_cancellation_passes_through():
    """A cancelled search raises CancelledError instead of reporting a failed source."""
    task = asyncio.create_task(adrive(gathered(Effect("vector", lambda: None, asyncio.Event().wait))))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_offloaded_work_leaves_the_loop_free():
    """The event loop keeps running while the work blocks a thread."""
    gate = threading.Event()
    work = asyncio.ensure_future(offload(lambda: gate.wait(20)))
    await asyncio.sleep(0)
    gate.set()
    assert await work is True
