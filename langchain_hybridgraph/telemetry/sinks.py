"""Sinks that log, trace and count searches."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from langchain_hybridgraph.errors import ConfigurationError, MissingExtraError, describe_error
from langchain_hybridgraph.telemetry.events import Event, Search, SearchEnded, StageEnded

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer
    from prometheus_client import CollectorRegistry


LOGGER = "langchain_hybridgraph.retrieval"

Logger = logging.Logger | logging.LoggerAdapter[Any]


class LogSink:
    """Sink that logs each search and, at level DEBUG, each stage.

    The default logger is ``langchain_hybridgraph.retrieval``. A search is logged at level ERROR if it raised an error,
    at WARNING if it has :attr:`~SearchEnded.warnings`, and at INFO otherwise. The message is ``retrieval`` or
    ``stage``, followed by a JSON object, whose keys are also attributes of the log record (``extra=``).

    The query is logged only as its length and a short hash, and errors only as their types, because error messages may
    quote the query. With ``text=True``, the query and the error messages of the search are logged in full.

    >>> from langchain_hybridgraph.telemetry.events import Search
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
        try:
            from opentelemetry import trace
        except ImportError as missing:
            raise MissingExtraError(
                "OpenTelemetrySink needs the OpenTelemetry API, which cannot be imported: "
                'pip install "langchain-hybridgraph[otel]"'
            ) from missing
        self.tracer = trace.get_tracer("langchain_hybridgraph") if tracer is None else tracer
        self.text = text
        self._trace: Any = trace
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
_lock = threading.Lock()


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
        try:
            from prometheus_client import REGISTRY
        except ImportError as missing:
            raise MissingExtraError(
                "PrometheusSink needs prometheus_client, which cannot be imported: "
                'pip install "langchain-hybridgraph[prometheus]"'
            ) from missing
        key = REGISTRY if registry is None else registry
        with _lock:
            if key not in _by_registry:
                _by_registry[key] = sink = super().__new__(cls)
                sink._create_metrics(registry=key)
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
