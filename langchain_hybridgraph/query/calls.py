"""How a search waits: it yields calls, a driver runs them and sends back what came of each."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Hashable, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar

Result = TypeVar("Result")

# So many calls of one lane may be given up on and still be running before the lane is skipped at once.
ABANDONED_CALLS = 4
_IDLE_SECONDS = 30.0


class Call(NamedTuple):
    """One piece of waiting.

    ``source`` names it in ``degraded``. ``run`` does the work; ``arun`` does it in an event loop, None where the
    work is local and belongs on a thread. ``quick`` work (well under a millisecond) is not worth a thread.
    ``lane`` is what is overloaded when the calls on it do not come back.
    """

    source: str
    run: Callable[[], Any]
    arun: Callable[[], Awaitable[Any]] | None = None
    quick: bool = False
    lane: Hashable = None


class Failure(NamedTuple):
    """What is sent instead of a result when a call failed; ``late`` when its deadline passed."""

    source: str
    error: Exception
    late: bool = False

    @property
    def reason(self) -> str:
        """The word for ``degraded``."""
        return f"deadline-exceeded:{self.source}" if self.late else f"{self.source}-failed"


Search = Generator[Sequence[Call], Sequence[Any], Result]


def drive(search: Search[Result], deadline: float | None = None) -> Result:
    """Run a search to its end on this thread and a few beside it.

    ``deadline`` is a ``time.monotonic()`` moment: later answers are not waited for, a :class:`Failure` that is
    late is sent in their place. Such work is abandoned, not cancelled: it runs on until it comes back by itself.
    """
    return _advance(search, lambda calls: _run(calls, deadline))


async def adrive(search: Search[Result], deadline: float | None = None) -> Result:
    """Run a search to its end in the event loop; calls that have no ``arun`` run on threads."""
    try:
        calls = next(search)
        while True:
            calls = search.send(await _arun(calls, deadline))
    except StopIteration as stop:
        result: Result = stop.value
        return result
    finally:
        search.close()  # a search that was interrupted ends now and not when it is collected


def deadline_in(seconds: float | None) -> float | None:
    """The moment for :func:`drive` that is so many seconds from now; None, which waits, for None."""
    return None if seconds is None else time.monotonic() + seconds


def _advance(search: Search[Result], run: Callable[[Sequence[Call]], Sequence[Any]]) -> Result:
    try:
        calls = next(search)
        while True:
            calls = search.send(run(calls))
    except StopIteration as stop:
        result: Result = stop.value
        return result
    finally:
        search.close()


def _run(calls: Sequence[Call], deadline: float | None) -> list[Any]:
    """The first slow call inline (unless it might miss the deadline), the others on threads beside it."""
    waiting: dict[int, Future[Any]] = {}
    inline: list[int] = []
    for place, call in enumerate(calls):
        if call.quick or (deadline is None and not any(not calls[other].quick for other in inline)):
            inline.append(place)
        else:
            waiting[place] = _workers.submit(call)
    results: dict[int, Any] = {place: _outcome(calls[place]) for place in inline}
    for place, future in waiting.items():
        results[place] = _wait(calls[place], future, deadline)
    return [results[place] for place in range(len(calls))]


async def _arun(calls: Sequence[Call], deadline: float | None) -> list[Any]:
    return list(await asyncio.gather(*(_aoutcome(call, deadline) for call in calls)))


async def _aoutcome(call: Call, deadline: float | None) -> Any:
    if call.quick:
        return _outcome(call)
    patience = None if deadline is None else max(0.0, deadline - time.monotonic())
    future = None if call.arun is not None else _workers.submit(call)
    try:
        return await asyncio.wait_for(asyncio.wrap_future(future) if future else call.arun(), patience)  # type: ignore[misc]  # one of the two is there
    except Exception as error:  # noqa: BLE001 - one source may fail with anything; the search decides what it means
        late = isinstance(error, TimeoutError) and deadline is not None and time.monotonic() >= deadline
        if late and future is not None:
            _workers.abandon(call, future)
        return Failure(call.source, error, late or isinstance(error, _Overloaded))


async def offload(work: Callable[[], Result]) -> Result:
    """Run local work on a thread and await it; a cancelled caller does not wait for it."""
    done: Future[Result] = _workers.submit(Call("offloaded", work))
    return await asyncio.wrap_future(done)


def _outcome(call: Call) -> Any:
    try:
        return call.run()
    except Exception as error:  # noqa: BLE001 - one source may fail with anything; the search decides what it means
        return Failure(call.source, error)


def _wait(call: Call, future: Future[Any], deadline: float | None) -> Any:
    try:
        return future.result(None if deadline is None else max(0.0, deadline - time.monotonic()))
    except Exception as error:  # noqa: BLE001 - as above
        if isinstance(error, TimeoutError) and not future.done():
            _workers.abandon(call, future)
            return Failure(call.source, TimeoutError("no answer before the deadline"), late=True)
        return Failure(call.source, error, isinstance(error, _Overloaded))


class _Overloaded(TimeoutError):
    """Too many calls of a lane were given up on and have not come back."""


class _Workers:
    """Daemon threads that grow with the need: a call that hangs keeps neither the next one nor the exit waiting.

    (A ThreadPoolExecutor has a fixed size, so hanging calls starve it, and it joins its threads at exit.)
    """

    def __init__(self) -> None:
        self._tasks: SimpleQueue[tuple[Call, Future[Any], Any]] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._abandoned: Counter[Hashable] = Counter()

    def submit(self, call: Call) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            if self._abandoned[call.lane] >= ABANDONED_CALLS and call.lane is not None:
                future.set_exception(_Overloaded(f"{call.source}: {ABANDONED_CALLS} earlier calls have not come back"))
                return future
            self._tasks.put((call, future, copy_context()))
            if self._idle > 0:
                self._idle -= 1
            else:
                threading.Thread(target=self._work, name="hybridgraph", daemon=True).start()
        return future

    def abandon(self, call: Call, future: Future[Any]) -> None:
        with self._lock:
            self._abandoned[call.lane] += 1
        future.add_done_callback(lambda _: self._return(call.lane))

    def _return(self, lane: Hashable) -> None:
        with self._lock:
            self._abandoned[lane] -= 1

    def _work(self) -> None:
        while True:
            try:
                call, future, context = self._tasks.get(timeout=_IDLE_SECONDS)
            except Empty:
                with self._lock:
                    # A task may have been put for this thread between the wait's end and here.
                    if self._idle > 0:
                        self._idle -= 1
                        return
                continue
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(context.run(call.run))
                except BaseException as error:  # noqa: BLE001 - handed to whoever waits
                    future.set_exception(error)
            del call, future, context
            with self._lock:
                self._idle += 1


_workers = _Workers()
