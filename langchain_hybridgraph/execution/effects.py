"""Searches as generators of calls, and their drivers."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar, cast

from langchain_hybridgraph.errors import HybridGraphError, RetrievalError, describe_error
from langchain_hybridgraph.execution.threads import Job, Lane, OverloadedError, lane_of, submit, submit_soon
from langchain_hybridgraph.records import Answerability

# Stages, errors and degradation reasons of a search.


class StageRun(NamedTuple):
    """A completed stage: its start (``time.perf_counter``), its duration including waiting, and its error."""

    name: str
    started_at: float
    took_ms: float
    error: Exception | None


class Trace:
    """Record of a search: its stages, its errors and the reasons for ``degraded``.

    Reasons are in order of occurrence; stages are in the order in which they ended.
    """

    def __init__(self, *, raises: bool = False) -> None:
        self._reasons: dict[str, None] = {}
        self.runs: list[StageRun] = []
        self.method = "hybrid"
        self.errors: dict[str, str] = {}
        self.remarks: dict[str, str] = {}
        self.started_at = time.perf_counter()
        self.raises = raises
        self.results: Callable[[], Iterable[tuple[str, float]]] = tuple  # returns the ids and scores of the result
        self.answerability: Answerability | None = None
        self.has_context = False  # whether the search used a conversation

    @property
    def reasons(self) -> tuple[str, ...]:
        """Reasons for ``degraded``, without duplicates."""
        return tuple(self._reasons)

    @property
    def stages(self) -> dict[str, float]:
        """Duration of each stage in milliseconds, summed over all its runs."""
        durations: dict[str, float] = {}
        for run in self.runs:
            durations[run.name] = round(durations.get(run.name, 0.0) + run.took_ms, 3)
        return durations

    @property
    def took_ms(self) -> float:
        """Milliseconds since the search started."""
        return (time.perf_counter() - self.started_at) * 1e3

    def degrade(self, reason: str | None, remark: str | None = None) -> None:
        """Add a reason to ``degraded``, unless it is None. ``remark`` explains the reason in the result's ``plan``."""
        if reason is not None:
            self._reasons[reason] = None
            if remark is not None:
                self.remarks[reason] = remark

    def note(self, where: str, error: BaseException) -> None:
        """Record an error message to be shown in the result's ``plan``.

        If ``raises`` is set, raise the error instead, as RetrievalError if it is not from this package.
        """
        if self.raises:
            if isinstance(error, HybridGraphError):
                raise error
            raise RetrievalError(f"{where} failed and on_error is 'raise' ({describe_error(error)})") from error
        self.errors[where] = describe_error(error)

    def record(self, where: str, error: Exception, reason: str) -> None:
        """Record an error (see :meth:`note`), and add ``reason`` to ``degraded``."""
        self.note(where, error)
        self.degrade(reason)

    def stage(self, name: str) -> _Stage:
        """Return a context manager that measures the duration of a stage, including waiting."""
        return _Stage(name, time.perf_counter(), self.runs)


class _Stage(NamedTuple):
    """A running stage. It is a class because a generator-based context manager takes twice as long."""

    name: str
    started_at: float
    runs: list[StageRun]

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        took_ms = (time.perf_counter() - self.started_at) * 1e3
        self.runs.append(StageRun(self.name, self.started_at, took_ms, error if isinstance(error, Exception) else None))


# Effects: the calls that a search waits for.

Result = TypeVar("Result")


class Effect(NamedTuple):
    """A call whose result a search waits for.

    ``source`` is the name of the call in the result's ``degraded``. ``run`` makes the call on a thread, and ``arun``
    makes it in an event loop. If ``arun`` is None, the event loop calls ``run`` on a worker instead.

    A ``quick`` call takes well under a millisecond, so it is not sent to a worker. ``deadline`` is a
    ``time.monotonic()`` time for this call alone, in addition to the search's deadline. A call on a worker that misses
    its deadline is abandoned, but keeps running. If too many calls of the source to one object (``owner``) were
    abandoned, further ones are rejected. ``context`` is the ``contextvars`` context of this call alone; the default is
    the search's context.
    """

    source: str
    run: Callable[[], Any]
    arun: Callable[[], Awaitable[Any]] | None = None
    quick: bool = False
    owner: object = None
    deadline: float | None = None
    context: Context | None = None


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
    return [result for result in results if isinstance(result, Failure)] if Failure in map(type, results) else []


def ask(trace: Trace, call: Effect) -> Search[Any]:
    """Make a call and return its result; if it fails, record the reason in ``trace`` and return None."""
    (result,) = yield [call]
    if isinstance(result, Failure):
        trace.record(result.source, result.error, result.reason)
        return None
    return result


def ask_or_raise(*calls: Effect) -> Search[Sequence[Any]]:
    """Make calls at the same time and return their results. If any calls fail, raise the error of the first of them."""
    results = yield calls
    for failure in failures_in(results):
        raise failure.error
    return results


def drive(search: Search[Result], deadline: float | None = None) -> Result:
    """Run a search to its end and return its result.

    Of simultaneous calls, the quick ones and the first slow one without a deadline run on this thread; the others run
    on workers. If a call on a worker has not returned by ``deadline``, a ``time.monotonic()`` time, the search receives
    a late :class:`Failure` instead of a result. The call is abandoned, not cancelled: it keeps running until it
    returns.
    """
    try:
        calls = next(search)
        while True:
            calls = search.send(_run(calls, deadline))
    except StopIteration as stop:
        return cast("Result", stop.value)
    finally:
        search.close()


async def adrive(search: Search[Result], deadline: float | None = None, lane: Lane | None = None) -> Result:
    """Run a search to its end without blocking the event loop, and return its result.

    The search itself runs on a worker, in ``lane``, together with its quick calls, and with a slow call that has
    neither ``arun`` nor a deadline and is the only one at that time. The event loop makes all other calls: it awaits
    ``arun``, or calls ``run`` on another worker. If the caller is cancelled, the search stops at its next call.
    """
    run = _SearchRun(search, deadline)
    results: Sequence[Any] | None = None
    try:
        while not isinstance(
            step := await _on_worker(partial(run.advance, results), lane or Lane("search"), run.context), _SearchResult
        ):
            results = await _arun(step, deadline, run.context)
        return cast("Result", step.result)
    finally:
        run.stop()


async def offload(work: Callable[[], Result], lane: Lane | None = None) -> Result:
    """Run a function on a worker and return its result. A cancelled caller does not wait for the function to end."""
    return await _on_worker(work, lane or Lane("offloaded"), copy_context())


def deadline_in(seconds: float | None) -> float | None:
    """Return the deadline that is ``seconds`` from now, for :func:`drive`. None means no deadline."""
    return None if seconds is None else time.monotonic() + seconds


def part_of_deadline(deadline: float | None, part: float) -> float | None:
    """Return an earlier deadline, after the fraction ``part`` of the remaining time; None for None."""
    now = time.monotonic()
    return None if deadline is None else now + part * max(0.0, deadline - now)


def deadline_of(call: Effect, deadline: float | None) -> float | None:
    """Return the earlier of a call's own deadline and the search's deadline; None means no deadline."""
    if call.deadline is None or deadline is None:
        return call.deadline if deadline is None else deadline
    return min(call.deadline, deadline)


# -- waiting on a thread ----------------------------------------------------------------------------------------


def _run(calls: Sequence[Effect], deadline: float | None) -> list[Any]:
    """Run quick calls and the first slow call without a deadline on this thread, and the others on workers."""
    jobs: dict[int, Job[Any]] = {}
    inline: list[int] = []
    results: list[Any] = [None] * len(calls)
    has_slow = False
    for place, call in enumerate(calls):
        until = deadline_of(call, deadline)
        if call.quick or (until is None and not has_slow):
            inline.append(place)
            has_slow = has_slow or not call.quick
        elif until is not None and until <= time.monotonic():
            results[place] = _late(call)
        else:
            jobs[place] = Job(call.run, lane_of(call.source, call.owner), call.context or copy_context())
            submit(jobs[place])
    for place in inline:
        results[place] = _outcome(calls[place])
    for place, job in jobs.items():
        call = calls[place]
        try:
            results[place] = job.result(_patience(deadline_of(call, deadline)))
        except Exception as error:  # noqa: BLE001 - see _outcome
            if isinstance(error, TimeoutError) and not job.done():
                job.abandon()
                results[place] = _late(call)
            else:
                results[place] = Failure(call.source, error, isinstance(error, OverloadedError))
    return results


def _outcome(call: Effect) -> Any:
    try:
        return call.run() if call.context is None else call.context.run(call.run)
    except Exception as error:  # noqa: BLE001 - a source may raise any error; the search handles it
        return Failure(call.source, error)


def _patience(until: float | None) -> float | None:
    return None if until is None else max(0.0, until - time.monotonic())


def _late(call: Effect) -> Failure:
    return Failure(call.source, TimeoutError("no answer before the deadline"), late=True)


# -- waiting in an event loop -----------------------------------------------------------------------------------


class _SearchResult(NamedTuple, Generic[Result]):
    """The result of a finished search. An unfinished search has a list of next calls instead."""

    result: Result


class _SearchRun(Generic[Result]):
    """A search whose steps run on workers, one after the other, in one ``contextvars`` context."""

    def __init__(self, search: Search[Result], deadline: float | None) -> None:
        self.context = copy_context()
        self._search = search
        self._deadline = deadline
        self._lock = threading.Lock()
        self._is_running = self._is_stopped = False

    def advance(self, results: Sequence[Any] | None) -> _SearchResult[Result] | list[Effect | Any]:
        """Send the results to the search, and run it until it ends or the event loop has to wait.

        Return the result of the search, or a list of its next calls, with results in place of the quick ones.
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
    """Return whether a slow call can be awaited or has a deadline, or there are several slow calls."""
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
        job = Job(call.run, lane_of(call.source, call.owner), call.context or context.copy())
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
        waiting.add_done_callback(forget)
        return _late(call)
    try:
        return waiting.result()
    except Exception as error:  # noqa: BLE001 - see _outcome
        return Failure(call.source, error, isinstance(error, OverloadedError))


async def _awaited(arun: Callable[[], Awaitable[Any]]) -> Any:
    return await arun()


def forget(waiting: asyncio.Future[Any]) -> None:
    """Retrieve the error of an abandoned call, because asyncio would otherwise report it."""
    if not waiting.cancelled():
        waiting.exception()


async def _on_worker(work: Callable[[], Result], lane: Lane, context: Context) -> Result:
    job = Job(work, lane, context)
    submit_soon(job)
    return await asyncio.wrap_future(job)


# Detection of native asynchronous methods.

# Methods that do the work of an LLM, a chat model, an embedding, a chat history, a retriever, a compressor, a store and
# any other Runnable.
_METHODS = (
    *("_acall", "_agenerate", "aembed_query", "aget_messages"),
    *("_aget_relevant_documents", "acompress_documents", "asimilarity_search", "ainvoke"),
)
_PACKAGE = __name__.partition(".")[0]
_DEPTH = 8


def is_asynchronous(thing: Any) -> bool:
    """Return whether a LangChain object has native asynchronous methods, which do not occupy a thread while they wait.

    The default ones run the synchronous methods in the event loop's default executor. If such a call hangs,
    ``asyncio.run`` never returns, because it waits for that executor. Objects without native asynchronous methods
    should therefore be called on a worker.

    LangChain's own chains and retrievers, and this package's models that wrap a chat model, are asynchronous if they
    contain a model, store or retriever that is asynchronous. Unknown objects are treated as asynchronous.
    """
    return _is_asynchronous(thing, _DEPTH) is not False


def _is_asynchronous(thing: Any, depth: int) -> bool | None:
    """Return whether the object is asynchronous, or None if this is unknown."""
    kind = type(thing)
    name = next((name for name in _METHODS if hasattr(kind, name)), "")
    method: Any = getattr(kind, name, None)
    is_of_core = inspect.isfunction(method) and method.__module__.startswith("langchain_core.")
    if is_of_core and "run_in_executor" in method.__code__.co_names:
        return False
    own = None if not name or (name == "ainvoke" and is_of_core) else True
    package = kind.__module__.partition(".")[0]
    if not depth or not package.startswith("langchain") or (package == _PACKAGE and name != "ainvoke"):
        return own
    parts = {_is_asynchronous(part, depth - 1) for part in _parts(thing)} - {None}
    return any(parts) if parts else own


def _parts(thing: Any) -> Iterator[Any]:
    """Yield the LangChain objects in the attributes of an object, such as the steps of a chain."""
    slots = [getattr(thing, name, None) for name in getattr(type(thing), "__slots__", ())]
    for value in [*slots, *getattr(thing, "__dict__", {}).values()]:
        parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else [value]
        yield from (part for part in parts if any(hasattr(type(part), name) for name in _METHODS))


# Searches that are parts of other searches.

T = TypeVar("T")


def together(searches: Sequence[Search[T]]) -> Search[list[T]]:
    """Run several searches at the same time, each in a ``contextvars`` context of its own, and return their results.

    In each step, the calls of all searches are made at the same time. If a search raises, its error is raised; to
    prevent this, wrap the searches in :func:`attempt`.
    """
    if len(searches) == 1:
        return [(yield from searches[0])]
    contexts = [copy_context() for _ in searches]
    results: dict[int, T] = {}
    results_to_send: dict[int, Any] = dict.fromkeys(range(len(searches)))
    try:
        while results_to_send:
            calls_by_place: dict[int, list[Effect]] = {}
            for place, answer in results_to_send.items():
                context = contexts[place]
                try:
                    calls = context.run(searches[place].send, answer)
                    calls_by_place[place] = [call._replace(context=call.context or context.copy()) for call in calls]
                except StopIteration as stop:
                    results[place] = stop.value
            calls_of_all = [call for calls in calls_by_place.values() for call in calls]
            answers = iter((yield calls_of_all) if calls_by_place else ())
            results_to_send = {place: [next(answers) for _ in calls] for place, calls in calls_by_place.items()}
    finally:
        for search, context in zip(searches, contexts, strict=True):
            context.run(search.close)
    return [results[place] for place in range(len(searches))]


def attempt(source: str, search: Search[T]) -> Search[T | Failure]:
    """Return the result of a search, or a :class:`Failure` of this source if the search raises."""
    try:
        return (yield from search)
    except Exception as error:  # noqa: BLE001 - as for a call, the outer search handles the failure
        return Failure(source, error, isinstance(error, OverloadedError))


def within(search: Search[T], deadline: float | None) -> Search[T]:
    """Run a search and apply a deadline, if not None, to each of its calls; an earlier one is kept."""
    if deadline is None:
        return (yield from search)
    results: Any = None
    try:
        while True:
            calls = search.send(results)
            results = yield [call._replace(deadline=deadline_of(call, deadline)) for call in calls]
    except StopIteration as stop:
        return cast("T", stop.value)
    finally:
        search.close()
