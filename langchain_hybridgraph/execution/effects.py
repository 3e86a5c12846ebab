"""Effects: the calls that a search waits for."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from langchain_hybridgraph.execution.trace import Trace
from langchain_hybridgraph.execution.worker_threads import Job, Lane, OverloadedError, submit, submit_soon

Result = TypeVar("Result")


class Effect(NamedTuple):
    """A call whose result a search waits for.

    ``source`` is the name of the call in the result's ``degraded``. ``run`` makes the call on a thread, and ``arun``
    makes it in an event loop. If ``arun`` is None, the event loop calls ``run`` on a worker instead.

    A ``quick`` call takes well under a millisecond, so it is not sent to a worker. ``deadline`` is a
    ``time.monotonic()`` time for this call alone, in addition to the search's deadline. A call on a worker that misses
    its deadline is abandoned, but keeps running. ``lane`` is the group to which the call belongs; by default, all calls
    of a source form a group. If too many calls of a group were abandoned, further calls of the group are rejected.
    ``context`` is the ``contextvars`` context of this call alone; the default is the search's context.
    """

    source: str
    run: Callable[[], Any]
    arun: Callable[[], Awaitable[Any]] | None = None
    quick: bool = False
    lane: Lane | None = None
    deadline: float | None = None
    context: Context | None = None

    @property
    def work(self) -> Callable[[], Any]:
        """Function that calls ``run``, in the context of this call if it has one."""
        return self.run if self.context is None else partial(self.context.run, self.run)


class Failure(NamedTuple):
    """Result of a failed call; ``late`` is True if its deadline passed or its lane was overloaded."""

    source: str
    error: Exception
    late: bool = False

    @property
    def reason(self) -> str:
        """Reason to report in ``degraded``."""
        return f"deadline-exceeded:{self.source}" if self.late else f"{self.source}-failed"


Search = Generator[Sequence[Effect], Sequence[Any], Result]
"""Generator that yields calls, receives their results (:class:`Failure` for a failed call), and returns its result."""


def failures_in(results: Sequence[Any]) -> list[Failure]:
    """Return the failures among the results of calls."""
    return [result for result in results if isinstance(result, Failure)]


def ask(trace: Trace, call: Effect, otherwise: Any = None) -> Search[Any]:
    """Make a call and return its result; if it fails, record the reason in ``trace`` and return ``otherwise``."""
    (result,) = yield from ask_all(trace, [call], otherwise)
    return result


def ask_all(trace: Trace, calls: Sequence[Effect], otherwise: Any = None) -> Search[list[Any]]:
    """Make calls at the same time and return their results, with ``otherwise`` for each call that failed."""
    results = yield calls
    for failure in failures_in(results):
        trace.record(failure.source, failure.error, failure.reason)
    return [otherwise if isinstance(result, Failure) else result for result in results]


def ask_or_raise(*calls: Effect) -> Search[list[Any]]:
    """Make calls at the same time and return their results. If any calls fail, raise the error of the first of them."""
    results = yield calls
    for failure in failures_in(results):
        raise failure.error
    return list(results)


def drive(search: Search[Result], deadline: float | None = None) -> Result:
    """Run a search to its end and return its result.

    A search may make several calls at the same time. The quick ones and the first slow one without a deadline run on
    this thread; the others run on workers. ``deadline`` is a ``time.monotonic()`` time. If a call on a worker has not
    returned by then, the search receives a late :class:`Failure` instead of a result. The call is abandoned, not
    cancelled: it keeps running until it returns.
    """
    try:
        calls = next(search)
        while True:
            calls = search.send(_run(calls, deadline))
    except StopIteration as stop:
        result: Result = stop.value
        return result
    finally:
        search.close()


async def adrive(search: Search[Result], deadline: float | None = None, lane: Lane | None = None) -> Result:
    """Run a search to its end without blocking the event loop, and return its result.

    The search itself runs on a worker, together with its quick calls. A slow call also runs there if it is the
    only slow one at that time and has neither ``arun`` nor a deadline. The event loop makes all other calls: it awaits
    ``arun``, or calls ``run`` on another worker. If the caller is cancelled, the search stops at its next call.
    ``lane`` is the lane of the search itself.
    """
    run = _SearchRun(search, deadline)
    results: Sequence[Any] | None = None
    try:
        while not isinstance(
            step := await _on_worker(partial(run.advance, results), lane or Lane("search"), run.context), _SearchResult
        ):
            results = await _arun(step, deadline, run.context)
        result: Result = step.result
        return result
    finally:
        run.stop()


async def offload(work: Callable[[], Result], lane: Lane | None = None) -> Result:
    """Run a function on a worker and return its result. A cancelled caller does not wait for the function to end."""
    return await _on_worker(work, lane or Lane("offloaded"), copy_context())


def deadline_in(seconds: float | None) -> float | None:
    """Return the deadline that is ``seconds`` from now, for :func:`drive`. None means no deadline."""
    return None if seconds is None else time.monotonic() + seconds


def part_of_deadline(deadline: float | None, part: float) -> float | None:
    """Return an earlier deadline, for work that may use only the fraction ``part`` of the remaining time.

    If ``deadline`` is None, return None.
    """
    now = time.monotonic()
    return None if deadline is None else now + part * max(0.0, deadline - now)


def deadline_of(call: Effect, deadline: float | None) -> float | None:
    """Return the earlier of a call's own deadline and the search's deadline; None means no deadline."""
    return min((moment for moment in (call.deadline, deadline) if moment is not None), default=None)


# -- waiting on a thread ----------------------------------------------------------------------------------------


def _run(calls: Sequence[Effect], deadline: float | None) -> list[Any]:
    """Run quick calls and the first slow call without a deadline on this thread, and the others on workers."""
    jobs: dict[int, Job[Any]] = {}
    inline: list[int] = []
    results: dict[int, Any] = {}
    for place, call in enumerate(calls):
        patience = _patience(deadline_of(call, deadline))
        if call.quick or (patience is None and not any(not calls[other].quick for other in inline)):
            inline.append(place)
        elif patience == 0:
            results[place] = _late(call)
        else:
            jobs[place] = _job(call, call.context or copy_context())
            submit(jobs[place])
    for place in inline:
        try:  # _outcome is not used because it would add a stack frame to every call to an engine
            results[place] = calls[place].work()
        except Exception as error:  # noqa: BLE001 - a source may raise any error; the search handles it
            results[place] = Failure(calls[place].source, error)
    for place, job in jobs.items():
        results[place] = _wait(calls[place], job, deadline_of(calls[place], deadline))
    return [results[place] for place in range(len(calls))]


def _wait(call: Effect, job: Job[Any], until: float | None) -> Any:
    try:
        return job.result(_patience(until))
    except Exception as error:  # noqa: BLE001 - see _run
        if isinstance(error, TimeoutError) and not job.done():
            job.abandon()
            return _late(call)
        return Failure(call.source, error, isinstance(error, OverloadedError))


def _job(call: Effect, context: Context) -> Job[Any]:
    return Job(call.run, call.lane or Lane(call.source), context)


def _patience(until: float | None) -> float | None:
    return None if until is None else max(0.0, until - time.monotonic())


def _late(call: Effect) -> Failure:
    return Failure(call.source, TimeoutError("no answer before the deadline"), late=True)


# -- waiting in an event loop -----------------------------------------------------------------------------------


class _SearchResult(NamedTuple, Generic[Result]):
    """The result of a finished search. An unfinished search has a list of next calls instead."""

    result: Result


def _outcome(call: Effect) -> Any:
    try:
        return call.work()
    except Exception as error:  # noqa: BLE001 - see _run
        return Failure(call.source, error)


class _SearchRun(Generic[Result]):
    """A search whose steps run on workers, one after the other, in one ``contextvars`` context."""

    def __init__(self, search: Search[Result], deadline: float | None) -> None:
        self.context = copy_context()
        self._search = search
        self._deadline = deadline
        self._lock = threading.Lock()
        self._is_running = self._is_stopped = False

    def advance(self, results: Sequence[Any] | None) -> _SearchResult[Result] | list[Effect | Any]:
        """Send the results to the search, and run it until it ends or the event loop has to wait for its next calls.

        Return the result of the search, or a list of the next calls. Quick calls have already been made; in the list,
        they are replaced by their results.
        """
        with self._lock:
            if self._is_stopped:
                raise asyncio.CancelledError
            self._is_running = True
        try:
            calls = next(self._search) if results is None else self._search.send(results)
            while not _is_awaited(calls, self._deadline):
                if self._is_stopped:
                    raise asyncio.CancelledError
                calls = self._search.send([_outcome(call) for call in calls])
            return [_outcome(call) if call.quick else call for call in calls]
        except StopIteration as stop:
            return _SearchResult(stop.value)
        finally:
            with self._lock:
                self._is_running = False
                is_stopped = self._is_stopped
            if is_stopped:
                self._search.close()

    def stop(self) -> None:
        """Close the search, either now or at the end of the running step."""
        with self._lock:
            self._is_stopped = True
            is_running = self._is_running
        if not is_running:
            self.context.run(self._search.close)


def _is_awaited(calls: Sequence[Effect], deadline: float | None) -> bool:
    """Return whether the event loop has to wait for the calls.

    It does if a slow call can be awaited or has a deadline, or if there are several slow calls.
    """
    slow = [call for call in calls if not call.quick]
    return len(slow) > 1 or any(call.arun is not None or deadline_of(call, deadline) is not None for call in slow)


async def _arun(calls: Sequence[Effect | Any], deadline: float | None, context: Context) -> Sequence[Any]:
    """Make calls in the event loop and return their results. Items that are already results are returned unchanged."""
    waiting = [_aoutcome(call, deadline_of(call, deadline), context) for call in calls if isinstance(call, Effect)]
    outcomes = iter([await waiting[0]] if len(waiting) == 1 else await asyncio.gather(*waiting))
    return [next(outcomes) if isinstance(call, Effect) else call for call in calls]


async def _aoutcome(call: Effect, until: float | None, context: Context) -> Any:
    job = None
    waiting: asyncio.Future[Any]
    if _patience(until) == 0:
        return _late(call)
    if call.arun is not None:
        waiting = asyncio.create_task(_awaited(call.arun), context=call.context or context.copy())
    else:
        job = _job(call, call.context or context.copy())
        submit_soon(job)
        waiting = asyncio.wrap_future(job)
    try:
        done, _ = await asyncio.wait([waiting], timeout=_patience(until))
    except asyncio.CancelledError:
        waiting.cancel()
        raise
    if not done:
        if job is not None:
            job.abandon()
        waiting.cancel()  # the coroutine is not awaited, because it may ignore the cancellation
        waiting.add_done_callback(_forget)
        return _late(call)
    try:
        return waiting.result()
    except Exception as error:  # noqa: BLE001 - a source may raise any error; the search handles it
        return Failure(call.source, error, isinstance(error, OverloadedError))


async def _awaited(arun: Callable[[], Awaitable[Any]]) -> Any:
    return await arun()


def _forget(waiting: asyncio.Future[Any]) -> None:
    """Retrieve the error of an abandoned call, because asyncio would otherwise report it."""
    if not waiting.cancelled():
        waiting.exception()


async def _on_worker(work: Callable[[], Result], lane: Lane, context: Context) -> Result:
    job = Job(work, lane, context)
    submit_soon(job)
    return await asyncio.wrap_future(job)
