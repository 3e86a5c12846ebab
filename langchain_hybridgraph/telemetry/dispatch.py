"""Delivery of events to sinks, one thread per sink."""

import atexit
import logging
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, cast
from weakref import WeakSet, WeakValueDictionary

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.execution.effects import Trace
from langchain_hybridgraph.execution.threads import ForkSafeLock, at_fork
from langchain_hybridgraph.telemetry.events import Event, Search, SearchEnded, Sink, StageEnded

MAX_WAITING = 1_000
"""Maximum number of searches whose events wait for a sink. The events of further searches are dropped and counted."""

EXIT_SECONDS = 1.0
_IDLE_SECONDS = 30.0

_log = logging.getLogger("langchain_hybridgraph.telemetry")


class Delivery:
    """Queue and thread that deliver events to one sink, so that a search need not wait for the sink.

    A sink that raises still receives the next event; only its first error is logged, as a warning. While a sink hangs,
    the events of up to ``MAX_WAITING`` searches wait, and those of further searches are dropped. ``failed`` and
    ``dropped`` count events. The daemon thread ends when it is idle; interpreter exit waits for it up to one second.
    """

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.failed = self.dropped = 0
        self._is_running = False
        self._reset()
        _all.add(self)

    def enqueue(self, context: Context, events: Sequence[Event]) -> None:
        """Queue the events of a search for the sink, which receives them in ``context``; never wait and never raise."""
        with self._lock:
            if self._waiting.qsize() >= MAX_WAITING:
                self.dropped += len(events)
                return
            self._waiting.put((context, events))
            if self._is_running:
                return
            try:
                threading.Thread(target=self._work, name="hybridgraph-telemetry", daemon=True).start()
            except RuntimeError:  # no more threads are available, or the interpreter is exiting
                self.dropped += len(events)
            else:
                self._is_running = True

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until the sink has received all events so far; return False after ``timeout`` seconds."""
        return self._mark().wait(timeout)

    def _mark(self) -> threading.Event:
        """Return a ``threading.Event`` that is set when the sink has received everything queued so far."""
        mark = threading.Event()
        with self._lock:
            if self._is_running:
                self._waiting.put(mark)
            else:  # the thread ends only when the queue is empty
                mark.set()
        return mark

    def _reset(self) -> None:
        """Create an empty queue and a new lock, also in a forked process, in which the thread does not run."""
        self._lock = threading.Lock()
        self._waiting: SimpleQueue[tuple[Context, Sequence[Event]] | threading.Event] = SimpleQueue()
        self._is_running = False

    def _work(self) -> None:
        while True:
            with suppress(Empty):
                self._deliver(self._waiting.get(timeout=_IDLE_SECONDS))
                continue
            with self._lock:
                if self._waiting.empty():
                    self._is_running = False
                    return

    def _deliver(self, batch: tuple[Context, Sequence[Event]] | threading.Event) -> None:
        if isinstance(batch, threading.Event):
            batch.set()
            return
        context, events = batch
        for event in events:
            try:
                context.run(self.sink, event)
            except BaseException as error:  # noqa: BLE001 - a sink is foreign code; its errors must not stop delivery
                self.failed += 1
                if self.failed == 1:
                    _log.warning(
                        "the telemetry sink %r raised %s: %s; searches are not affected, and further errors of "
                        "this sink are only counted (Delivery.failed)",
                        self.sink,
                        type(error).__name__,
                        error,
                    )


_all: WeakSet[Delivery] = WeakSet()


def flush(timeout: float = EXIT_SECONDS) -> bool:
    """Wait until all sinks have received all events so far; return False after ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    marks = [delivery._mark() for delivery in list(_all)]
    return all(mark.wait(max(0.0, deadline - time.monotonic())) for mark in marks)


def _reset_all() -> None:
    for delivery in list(_all):
        delivery._reset()


atexit.register(flush)
at_fork(after_in_child=_reset_all)


Answer = TypeVar("Answer")
Results = Callable[[Any], Iterable[tuple[str, float]]]
"""Function that returns the ids and scores of an answer."""

_process_deliveries: tuple[Delivery, ...] = ()
_by_owner: WeakValueDictionary[tuple[Any, int], Delivery] = WeakValueDictionary()
_lock = ForkSafeLock()


# The running search and its deliveries.
_current: ContextVar[tuple[Search | None, tuple[Delivery, ...]]] = ContextVar("_current", default=(None, ()))


def add_sink(sink: Sink) -> Delivery:
    """Report all searches of this process to a sink, and return its :class:`Delivery`.

    A sink is a callable that takes an event. It is called on a thread of its own, so it may be slow, raise or hang
    without affecting searches. Adding the same sink again has no effect. Every sink receives all events: two LogSinks
    log each search twice, but PrometheusSinks that share a registry count it once. Raises ConfigurationError for an
    object that is not callable, and for a class instead of an instance.

    >>> events = []
    >>> delivery = add_sink(events.append)
    >>> from langchain_hybridgraph import HybridGraphStore, HybridRetriever
    >>> store = HybridGraphStore.from_texts(["the cat sat", "dogs bark"], "lsa")
    >>> _ = HybridRetriever(store, k=1).invoke("Where is the cat?")
    >>> delivery.flush()
    True
    >>> events[-1].search.retriever, events[-1].mode, len(events[-1].results)
    ('HybridRetriever', 'hybrid', 1)
    >>> remove_sink(events.append)
    """
    global _process_deliveries  # noqa: PLW0603 - sinks belong to the process, like handlers of logging
    check_sink(sink)
    for existing in _process_deliveries:
        if existing.sink == sink:
            return existing
    delivery = delivery_for(sink)
    with _lock:
        _process_deliveries = (*_process_deliveries, delivery)
    return delivery


def remove_sink(sink: Sink) -> None:
    """Stop reporting searches to a sink. Searches that have already started are still reported to it."""
    global _process_deliveries  # noqa: PLW0603 - as above
    with _lock:
        _process_deliveries = tuple(delivery for delivery in _process_deliveries if delivery.sink != sink)


def check_sink(sink: Any) -> None:
    """Raise ConfigurationError for an object that cannot receive events. The message contains the fix."""
    if isinstance(sink, type) or not callable(sink):
        raise ConfigurationError(
            f"{sink!r} is not a sink; pass an instance that can be called with an event, such as PrometheusSink()"
        )


def delivery_for(owner: Any, make: Callable[[Any], Sink] | None = None) -> Delivery:
    """Return the delivery for a sink: ``owner`` itself or, if ``make`` is passed, ``make(owner)``.

    Calls with the same arguments return the same delivery while it is in use. A sink that ``make`` returns must keep a
    reference to ``owner``, because deliveries are looked up by ``id(owner)``.
    """
    key = (make, id(owner))
    with _lock:
        delivery = _by_owner.get(key)
        if delivery is None:
            delivery = _by_owner[key] = Delivery(owner if make is None else make(owner))
    return delivery


def deliveries_for_search(own: Sequence[Delivery] = ()) -> tuple[Delivery, ...]:
    """Return the deliveries, without duplicates, for a search that starts now.

    These are those of its retriever (``own``), of the process, and of any search that it is a part of.
    """
    _, inherited = _current.get()
    if not own and not inherited:
        return _process_deliveries
    return tuple(dict.fromkeys((*own, *_process_deliveries, *inherited)))


def report_search(
    search: Generator[Any, Any, Answer],
    deliveries: tuple[Delivery, ...],
    trace: Trace,
    *,
    retriever: str,
    query: object,
    k: object,
    results: Results,
) -> Generator[Any, Any, Answer]:
    """Run a search, return its answer, and report the search, also if it raises, to the sinks of ``deliveries``.

    All events are queued together at the end, because a thread that woke up for each event would slow down the search.
    ``results`` is a function that returns the ids and scores of an answer.
    """
    outer, _ = _current.get()
    started_at = time.time_ns() - int((time.perf_counter() - trace.started_at) * 1e9)
    text = query if query is None or isinstance(query, str) else f"{query!r}"
    n = k if isinstance(k, int) else None
    started = Search(retriever, n, text, started_at, outer)
    token = _current.set((started, deliveries))
    error: BaseException | None = None
    answer: Any = None
    try:
        answer = yield from search
    except BaseException as raised:
        error = raised
        raise
    finally:
        with suppress(ValueError):  # an abandoned search may be closed in another context
            _current.reset(token)
        try:
            events = _events(started, trace, () if error is not None else results(answer), error)
            for delivery in deliveries:
                delivery.enqueue(copy_context(), events)
        except Exception:  # noqa: BLE001 - the answer of the search is complete, so no error may replace it
            _log.warning("a search could not be reported to its sinks", exc_info=True)
        del error  # it refers to this frame
    return cast("Answer", answer)


def _events(
    search: Search, trace: Trace, results: Iterable[tuple[str, float]], error: BaseException | None
) -> list[Event]:
    raised = error if isinstance(error, Exception) else None
    ended = SearchEnded(
        search=search,
        mode=trace.method,
        took_ms=trace.took_ms,
        results=tuple(results),
        degraded=trace.reasons,
        has_context=trace.has_context,
        errors=dict(trace.errors),
        error=raised,
        cancelled=error is not None and raised is None,
    )
    stages = (
        StageEnded(
            search, run.name, search.started_at + int((run.started_at - trace.started_at) * 1e9), run.took_ms, run.error
        )
        for run in trace.runs
    )
    return [*stages, ended]
