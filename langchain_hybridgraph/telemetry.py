"""Report searches to sinks, such as logs.

Each sink has a thread of its own.

>>> from langchain_hybridgraph.telemetry import LogSink, add_sink, remove_sink
>>> sink = LogSink()
>>> _ = add_sink(sink)
>>> remove_sink(sink)
"""

from __future__ import annotations

import atexit
import hashlib
import json
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from importlib import import_module
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

import numpy as np
from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.callbacks.manager import ahandle_event, handle_event

from langchain_hybridgraph.degradation import warnings_in
from langchain_hybridgraph.errors import ConfigurationError, describe_error, needs_extra
from langchain_hybridgraph.execution.effects import Trace
from langchain_hybridgraph.execution.threads import ForkSafeLock, at_fork

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer
    from prometheus_client import CollectorRegistry

# -- events and statistics ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Search:
    """Search that has started; ``repr`` omits the query, so events can be logged.

    ``started_at`` is in nanoseconds since 1970, UTC. ``parent`` is the search that called this one, or None.
    """

    retriever: str
    k: int | None
    query: str | None = field(repr=False)
    started_at: int
    parent: Search | None = None

    @property
    def query_length(self) -> int:
        """Number of characters in the query, or 0 if there is no query."""
        return len(self.query or "")


@dataclass(frozen=True)
class StageEnded:
    """End of a stage; ``started_at`` is in nanoseconds since 1970, UTC, and ``error`` the exception that ended it."""

    search: Search
    stage: str
    started_at: int
    took_ms: float
    error: Exception | None = None


@dataclass(frozen=True)
class SearchEnded:
    """End of a search, which returned ``results``, raised ``error``, or was cancelled by the caller (``cancelled``).

    ``mode`` is the ``retrieval_method`` of the hits; ``results`` are their ids and scores. ``errors`` maps failed
    components to their messages (``{"vector": "TimeoutError: …"}``), even if the search continued without them.
    ``has_context`` is true if the search used a conversation.
    """

    search: Search
    mode: str
    took_ms: float
    results: tuple[tuple[str, float], ...] = ()
    degraded: tuple[str, ...] = ()
    errors: Mapping[str, str] = field(default_factory=dict, repr=False)
    error: Exception | None = field(default=None, repr=False)
    cancelled: bool = False
    has_context: bool = False

    @property
    def warnings(self) -> tuple[str, ...]:
        """The reasons in ``degraded`` with the level ``warning``: part of the request was not carried out."""
        return warnings_in(self.degraded)

    @property
    def error_types(self) -> dict[str, str]:
        """Exception type of each failed component; the component ``retriever`` stands for the search itself."""
        types: dict[str, str] = {}
        for component, message in self.errors.items():
            name = message.partition(":")[0]
            types[component.partition(":")[0]] = name if name.isidentifier() else "Exception"
        return types if self.error is None else types | {"retriever": type(self.error).__name__}


Event = StageEnded | SearchEnded
Sink = Callable[[Event], None]
"""Function that receives events one at a time, on its own thread. The events of stages precede the event of their
search.
"""


STAGE = "retrieval_stage"
SEARCH = "retrieval_search"


def report_stages(manager: CallbackManagerForRetrieverRun, trace: Trace) -> None:
    """Report a search and its stages to the handlers of a LangChain run, on the caller's thread, before the run ends.

    An error in a handler is logged, or raised if its ``raise_error`` is set.
    """
    for arguments, run in _calls(manager, trace):
        handle_event(manager.handlers, *arguments, **run)


async def areport_stages(manager: AsyncCallbackManagerForRetrieverRun, trace: Trace) -> None:
    """Do the same as :func:`report_stages`, but await the handlers."""
    for arguments, run in _calls(manager, trace):
        await ahandle_event(manager.handlers, *arguments, **run)


def _calls(manager: Any, trace: Trace) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    if not manager.handlers:
        return []
    search = {
        "mode": trace.method,
        "degraded": list(trace.reasons),
        "remarks": dict(trace.remarks),
        "took_ms": round(trace.took_ms, 3),
        "results": [{"id": id, "score": score} for id, score in trace.results()],
    }
    stages = [
        {
            "stage": run.name,
            "after_ms": round((run.started_at - trace.started_at) * 1e3, 3),
            "took_ms": round(run.took_ms, 3),
            "error": None if run.error is None else type(run.error).__name__,
        }
        for run in trace.runs
    ]
    events = [*((STAGE, stage) for stage in stages), (SEARCH, search)]
    run = {"run_id": manager.run_id, "tags": manager.tags, "metadata": manager.metadata}
    return [(("on_custom_event", "ignore_custom_event", *event), run) for event in events]


class RetrievalStatistics:
    """Statistics of one retriever's calls, which may come from any number of threads.

    >>> statistics = RetrievalStatistics()
    >>> statistics.record_answer(Trace(), documents=3)
    >>> statistics.report()["calls"], statistics.report()["mean_documents"]
    (1, 3.0)
    """

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._answers = self._documents = 0
        self._errors: Counter[str] = Counter()
        self._degraded: Counter[str] = Counter()
        self._took_ms: deque[float] = deque(maxlen=1_000)

    def __reduce__(self) -> tuple[type[RetrievalStatistics], tuple[()]]:
        return RetrievalStatistics, ()

    def record_answer(self, trace: Trace, documents: int) -> None:
        """Count a call that returned this number of Documents."""
        with self._lock:
            self._answers += 1
            self._documents += documents
            self._degraded.update(trace.reasons)
            self._took_ms.append(trace.took_ms)

    def record_error(self, error: Exception) -> None:
        """Count a call that raised an error, and the class of the error."""
        with self._lock:
            self._errors[type(error).__name__] += 1

    def report(self) -> dict[str, Any]:
        """Return the numbers of calls, errors and degradations, the mean number of Documents, and latency percentiles.

        ``p50_ms`` and ``p95_ms`` are those of the last 1,000 calls that returned an answer, or None before the first.
        """
        with self._lock:
            p50, p95 = np.percentile(self._took_ms, [50, 95]).round(3).tolist() if self._took_ms else (None, None)
            return {
                "calls": self._answers + self._errors.total(),
                "errors": dict(self._errors),
                "mean_documents": self._documents / self._answers if self._answers else None,
                "p50_ms": p50,
                "p95_ms": p95,
                "degraded": dict(self._degraded),
            }


# -- delivery -------------------------------------------------------------------------------------------------

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
            self._waiting.put(lambda: self._deliver(context, events))
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
                self._waiting.put(mark.set)
            else:  # the thread ends only when the queue is empty
                mark.set()
        return mark

    def _reset(self) -> None:
        """Create an empty queue and a new lock, also in a forked process, in which the thread does not run."""
        self._lock = threading.Lock()
        self._waiting: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._is_running = False

    def _work(self) -> None:
        while True:
            with suppress(Empty):
                self._waiting.get(timeout=_IDLE_SECONDS)()
                continue
            with self._lock:
                if self._waiting.empty():
                    self._is_running = False
                    return

    def _deliver(self, context: Context, events: Sequence[Event]) -> None:
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


# -- sinks ----------------------------------------------------------------------------------------------------

LOGGER = "langchain_hybridgraph.retrieval"

Logger = logging.Logger | logging.LoggerAdapter[Any]


class LogSink:
    """Sink that logs each search and, at level DEBUG, each stage.

    The default logger is ``langchain_hybridgraph.retrieval``. A search is logged at level ERROR if it raised an error,
    at WARNING if it has :attr:`~SearchEnded.warnings`, and at INFO otherwise. The message is ``retrieval`` or
    ``stage``, followed by a JSON object, whose keys are also attributes of the log record (``extra=``).

    The query is logged only as its length and a short hash, and errors only as their types, because error messages may
    quote the query. With ``text=True``, the query and the error messages of the search are logged in full.

    >>> from langchain_hybridgraph.telemetry import Search, SearchEnded
    >>> import sys
    >>> logger = logging.Logger("example")
    >>> logger.addHandler(logging.StreamHandler(sys.stdout))
    >>> LogSink(logger)(SearchEnded(Search("HybridRetriever", 10, "cat", 0), "hybrid", 1.5, (("id", 0.9),)))
    retrieval {"retriever": "HybridRetriever", "mode": "hybrid", "k": 10, "results": 1, "degraded": [], \
"errors": {}, "cancelled": false, "took_ms": 1.5, "query_length": 3, "query_hash": "77af778b51ab"}
    """

    def __init__(self, logger: Logger | str | None = None, *, text: bool = False) -> None:
        self.logger = logger_from(LOGGER if logger is None else logger)
        self.text = text

    def __call__(self, event: Event) -> None:
        """Log an event."""
        search = event.search
        if isinstance(event, StageEnded):
            level, name = logging.DEBUG, "stage"
            error = None if event.error is None else type(event.error).__name__
            own: dict[str, Any] = {"stage": event.stage, "error": error}
        else:
            level, name = logging.WARNING if event.warnings else logging.INFO, "retrieval"
            errors = dict(event.errors) if self.text else event.error_types
            if event.error is not None:
                level = logging.ERROR
                errors |= {"retriever": describe_error(event.error)} if self.text else {}
            own = {"mode": event.mode, "k": search.k, "results": len(event.results), "degraded": list(event.degraded)}
            own |= {"errors": errors, "cancelled": event.cancelled}
        if self.logger.isEnabledFor(level):
            fields = {"retriever": search.retriever, **own, "took_ms": round(event.took_ms, 3)}
            fields |= {"query_length": search.query_length, "query_hash": query_hash(search.query)}
            fields |= {"query": search.query} if self.text else {}
            self.logger.log(level, "%s %s", name, json.dumps(fields, ensure_ascii=False, default=str), extra=fields)


def logger_from(logger: Any) -> Logger:
    """Return a logger that was passed as an object or by name. Raises ConfigurationError for anything else."""
    if isinstance(logger, str):
        return logging.getLogger(logger)
    if isinstance(logger, logging.Logger | logging.LoggerAdapter):
        return logger
    raise ConfigurationError(f'logger must be a logger such as logging.getLogger("…"), or its name, got {logger!r}')


def query_hash(query: str | None) -> str:
    """Return the first 12 hexadecimal digits of the SHA-256 of a query, or "" for an empty query or None."""
    return hashlib.sha256(query.encode("utf-8", "replace")).hexdigest()[:12] if query else ""


class OpenTelemetrySink:
    """Sink that creates a span ``retriever.retrieve`` per search and a child span per stage (``retriever.gather``, …).

    A search span has the attributes ``retriever.type``, ``retriever.mode``, ``retriever.top_k``,
    ``retriever.result_count`` and ``retriever.degraded`` (the reasons), ``retriever.cancelled`` if the caller gave up,
    and ``error.type`` if the search raised. A stage span has ``retriever.stage`` and, if the stage failed,
    ``error.type``.

    Each failed component is an ``exception`` event with the attributes ``exception.type`` and ``retriever.component``.
    An exception that ends the search, whose component is ``retriever``, also sets the status to error. With
    ``text=True``, the query (``gen_ai.retrieval.query.text``), the messages of exceptions and the stack trace are
    recorded, too.

    The parent of a search span is the caller's current span, or the span of the outer search. The spans are created,
    with the actual times, after the search has ended, so that exporters cannot delay it. A span that an engine's own
    instrumentation creates is therefore a sibling of the search span, not its child.

    The default tracer is that of the global provider. Raises MissingExtraError without the OpenTelemetry API.
    """

    def __init__(self, tracer: Tracer | None = None, *, text: bool = False) -> None:
        with needs_extra("OpenTelemetrySink", "the OpenTelemetry API", "otel"):
            trace: Any = import_module("opentelemetry.trace")  # "opentelemetry" alone may be another library's folder
        self.tracer = trace.get_tracer("langchain_hybridgraph") if tracer is None else tracer
        self.text = text
        self._trace = trace
        self._spans: WeakKeyDictionary[Search, Span] = WeakKeyDictionary()

    def __call__(self, event: Event) -> None:
        """Create the span of a stage, or end the span of a search."""
        if isinstance(event, SearchEnded):
            self._end(event)
            return
        span = self.tracer.start_span(
            f"retriever.{event.stage}",
            self._trace.set_span_in_context(self._span(event.search)),
            attributes={"retriever.stage": event.stage},
            start_time=event.started_at,
        )
        self._set_error(span, event.error)
        span.end(event.started_at + int(event.took_ms * 1e6))

    def _span(self, search: Search) -> Span:
        """Return the span of a search. The span is created at the first event of the search or of an inner search."""
        span = self._spans.get(search)
        if span is None:
            # Without a parent search, OpenTelemetry uses the context of the caller.
            context = None if search.parent is None else self._trace.set_span_in_context(self._span(search.parent))
            attributes: dict[str, Any] = {"retriever.type": search.retriever}
            if search.k is not None:
                attributes["retriever.top_k"] = search.k
            if self.text and search.query is not None:
                attributes["gen_ai.retrieval.query.text"] = search.query
            span = self._spans[search] = self.tracer.start_span(
                "retriever.retrieve", context, self._trace.SpanKind.CLIENT, attributes, start_time=search.started_at
            )
        return span

    def _end(self, event: SearchEnded) -> None:
        span = self._span(event.search)
        ended = event.search.started_at + int(event.took_ms * 1e6)
        attributes: dict[str, Any] = {
            "retriever.mode": event.mode,
            "retriever.result_count": len(event.results),
            "retriever.degraded": list(event.degraded),
        }
        span.set_attributes(attributes | ({"retriever.cancelled": True} if event.cancelled else {}))
        for component, type_ in event.error_types.items():
            failure = {"exception.type": type_, "retriever.component": component}
            if self.text and component in event.errors:
                failure["exception.message"] = event.errors[component].partition(": ")[2]
            if component != "retriever" or not self.text:
                span.add_event("exception", failure, ended)
        if event.error is not None and self.text:
            span.record_exception(event.error, timestamp=ended)
        self._set_error(span, event.error)
        span.end(ended)

    def _set_error(self, span: Span, error: Exception | None) -> None:
        if error is not None:
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, str(error) if self.text else None))


SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
DOCUMENTS = (0, 1, 2, 3, 5, 10, 20, 50, 100)


_by_registry: WeakKeyDictionary[CollectorRegistry, PrometheusSink] = WeakKeyDictionary()


class PrometheusSink:
    """Sink that counts searches in a ``prometheus_client`` registry, by default the global one.

    The application must expose the registry, for example with ``prometheus_client.start_http_server``. The metrics are:

    - ``rag_retrieval_duration_seconds{mode, retriever}`` (histogram): duration of searches, including those that raised
    - ``rag_retrieved_documents_count{mode, retriever}`` (histogram): number of Documents returned by a search
    - ``rag_retrieval_degraded_total{reason}``: number of searches with this reason in ``degraded``; only reasons with
      the level ``warning`` are counted
    - ``rag_pipeline_errors_total{component, exception_type}``: number of failures, including those that did not end the
      search; for a search that raised, the component is ``retriever``

    The label ``mode`` is ``context`` for a search with a conversation and ``plain`` otherwise; ``retriever`` is the
    name of the retriever's class. A search started by another retriever of this package is part of the outer search,
    and is not counted separately. A registry has one sink, which every call with this registry returns. Raises
    MissingExtraError without ``prometheus_client``.

    >>> from prometheus_client import CollectorRegistry
    >>> registry = CollectorRegistry()
    >>> PrometheusSink(registry)(SearchEnded(Search("HybridRetriever", 10, "cat", 0), "hybrid", 1.5, (("id", 0.9),)))
    >>> labels = {"mode": "plain", "retriever": "HybridRetriever"}
    >>> registry.get_sample_value("rag_retrieved_documents_count_sum", labels)
    1.0
    """

    def __new__(cls, registry: CollectorRegistry | None = None) -> PrometheusSink:
        """Return the sink of a registry."""
        with needs_extra("PrometheusSink", "prometheus_client", "prometheus"):
            from prometheus_client import REGISTRY
        key = REGISTRY if registry is None else registry
        with _lock:
            if key not in _by_registry:
                sink = super().__new__(cls)
                sink._create_metrics(registry=key)
                _by_registry[key] = sink
            return _by_registry[key]

    def _create_metrics(self, **options: Any) -> None:
        from prometheus_client import Counter, Histogram

        labels, failure = ["mode", "retriever"], ["component", "exception_type"]
        seconds, documents = {"buckets": SECONDS, **options}, {"buckets": DOCUMENTS, **options}
        self._duration = Histogram("rag_retrieval_duration_seconds", "Duration of searches.", labels, **seconds)
        self._documents = Histogram("rag_retrieved_documents_count", "Documents per search.", labels, **documents)
        self._degraded = Counter("rag_retrieval_degraded_total", "Degraded searches.", ["reason"], **options)
        self._errors = Counter("rag_pipeline_errors_total", "Failures of components.", failure, **options)

    def __call__(self, event: Event) -> None:
        """Count a search. Stages, inner searches and cancelled searches are not counted."""
        if isinstance(event, StageEnded) or event.cancelled or event.search.parent is not None:
            return
        labels = "context" if event.has_context else "plain", event.search.retriever
        self._duration.labels(*labels).observe(event.took_ms / 1e3)
        if event.error is None:
            self._documents.labels(*labels).observe(len(event.results))
        for reason in event.warnings:
            self._degraded.labels(reason).inc()
        for failure in event.error_types.items():
            self._errors.labels(*failure).inc()
