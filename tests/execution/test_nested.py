"""Searches that are parts of other searches."""

from __future__ import annotations

import asyncio
import threading
import time
from contextvars import ContextVar

import pytest

from langchain_hybridgraph.execution.effects import Effect, Failure, adrive, attempt, drive, together, within

NAME: ContextVar[str] = ContextVar("name", default="outside")


def run(search, is_async):
    return asyncio.run(adrive(search)) if is_async else drive(search)


def steps_of(*steps):
    """Make one call after the other, as a search does, and return all results."""
    results = []
    for step in steps:
        results += yield [Effect("step", step)]
    return results


def failing(error):
    yield []
    raise error


@pytest.mark.parametrize("is_async", [False, True])
def test_searches_run_at_the_same_time(is_async):
    """Two searches whose calls wait for each other both return, so they run at the same time."""
    barrier = threading.Barrier(2, timeout=10)
    results = run(together([steps_of(barrier.wait), steps_of(barrier.wait)]), is_async)
    assert sorted(results) == [[0], [1]]


def test_results_come_in_the_order_of_the_searches():
    """Results are in the order of the searches, each of which may have any number of steps."""
    one, two = (lambda: 1), (lambda: 2)
    assert drive(together([steps_of(one, two), steps_of(two), steps_of()])) == [[1, 2], [2], []]
    assert drive(together([steps_of(one)])) == [[1]]
    assert drive(together([])) == []


@pytest.mark.parametrize("is_async", [False, True])
def test_each_search_has_a_context_of_its_own(is_async):
    """Context variables that a search sets are visible in its own calls, but not in other searches or outside."""

    def set_name(name):
        NAME.set(name)
        return (yield [Effect("inline", NAME.get), Effect("worker", NAME.get), Effect("quick", NAME.get, quick=True)])

    assert run(together([set_name("a"), set_name("b")]), is_async) == [["a"] * 3, ["b"] * 3]
    assert NAME.get() == "outside"


def test_awaited_calls_have_the_context_of_their_search():
    """Each of two coroutines sees the context variables of its own search."""

    async def name():
        await asyncio.sleep(0)
        return NAME.get()

    def set_name(value):
        NAME.set(value)
        return (yield [Effect("awaited", NAME.get, name)])

    assert asyncio.run(adrive(together([set_name("a"), set_name("b")]))) == [["a"], ["b"]]


def test_a_search_that_raises_closes_the_others():
    """An error in one search closes the other searches and is raised."""
    closed = []

    def waiting():
        try:
            yield [Effect("a", lambda: 1)]
            yield [Effect("b", lambda: 2)]
        finally:
            closed.append(True)

    with pytest.raises(OSError, match="gone"):
        drive(together([waiting(), failing(OSError("gone"))]))
    assert closed == [True]


def test_an_attempt_that_fails_leaves_the_others_running():
    """The result of a failed attempt is a Failure with its source and error; other searches complete."""
    error = OSError("gone")
    results = drive(together([attempt("a", failing(error)), attempt("b", steps_of(lambda: 1))]))
    assert results == [Failure("a", error), [1]]


@pytest.mark.parametrize("is_async", [False, True])
def test_calls_after_the_deadline_are_late(is_async):
    """The deadline of an inner search applies only to the calls of that search."""
    gate = threading.Event()

    def outer():
        (inner,) = yield from within(steps_of(lambda: gate.wait(20)), time.monotonic() + 0.05)
        (own,) = yield [Effect("own", lambda: "on time")]
        return inner, own

    inner, own = run(outer(), is_async)
    gate.set()
    assert (inner.source, inner.late, own) == ("step", True, "on time")


def test_the_earlier_deadline_applies():
    """A call keeps its own deadline if that is earlier than the deadline of its search."""
    now = time.monotonic()
    calls = [Effect("a", print, deadline=now + 1), Effect("b", print, deadline=now + 3), Effect("c", print)]

    def search():
        yield calls

    assert [call.deadline for call in next(within(search(), now + 2))] == [now + 1, now + 2, now + 2]
    assert next(within(search(), None)) is calls
