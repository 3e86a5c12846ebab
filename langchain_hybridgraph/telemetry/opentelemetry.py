"""OpenTelemetry spans of searches."""

from __future__ import annotations

import json
import traceback
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from langchain_hybridgraph.errors import MissingExtraError
from langchain_hybridgraph.telemetry.events import Event, Search, SearchEnded, StageEnded

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

NAME = "retriever.retrieve"


class OpenTelemetrySink:
    """Sink that creates a span ``retriever.retrieve`` per search and a child span per stage (``retriever.gather``, …).

    A search span has the following attributes. Those that begin with ``gen_ai`` and ``error`` follow the semantic
    conventions for retrieval (open-telemetry/semantic-conventions-genai, in development).

    - ``retriever.type``, ``retriever.mode``, ``retriever.top_k``, ``retriever.result_count``, ``retriever.degraded``
      (the reasons), ``gen_ai.operation.name`` and ``gen_ai.request.top_k``
    - ``retriever.cancelled`` if the caller gave up, and ``error.type`` if the search raised
    - ``gen_ai.retrieval.query.text`` with ``text=True``
    - ``gen_ai.retrieval.documents`` (ids and scores, as JSON) with ``documents=True``

    A stage span has ``retriever.stage`` and, if the stage failed, ``error.type``.

    An exception that ends the search is recorded and sets the status to error. A failure that does not end the search
    is recorded as an ``exception`` event with the attribute ``retriever.component``. Without ``text=True``, the
    messages of exceptions and the source lines of their tracebacks are not recorded, because they may quote the query.

    The parent of a search span is the caller's current span, or the span of the outer search if another retriever
    started the search. The spans are created, with the actual times, only after the search has ended, so that samplers
    and exporters cannot delay the search. A span that an engine's own instrumentation creates is therefore a sibling of
    the search span, not its child.

    The default tracer is that of the global provider. Raises MissingExtraError if the OpenTelemetry API cannot be
    imported; the message contains the install command.
    """

    def __init__(self, tracer: Tracer | None = None, *, text: bool = False, documents: bool = False) -> None:
        self.tracer = _tracer() if tracer is None else tracer
        self.text = text
        self.documents = documents
        self._spans: WeakKeyDictionary[Search, Span] = WeakKeyDictionary()

    def __call__(self, event: Event) -> None:
        """Create the span of a stage, or end the span of a search."""
        if isinstance(event, StageEnded):
            self._make_child(event)
        else:
            self._end(event)

    def _span(self, search: Search) -> Span:
        """Return the span of a search. The span is created at the first event of the search or of an inner search."""
        from opentelemetry.trace import SpanKind

        span = self._spans.get(search)
        if span is None:
            attributes: dict[str, Any] = {"gen_ai.operation.name": "retrieval", "retriever.type": search.retriever}
            if search.k is not None:
                attributes |= {"retriever.top_k": search.k, "gen_ai.request.top_k": float(search.k)}
            if self.text and search.query is not None:
                attributes["gen_ai.retrieval.query.text"] = search.query
            span = self._spans[search] = self.tracer.start_span(
                NAME, self._parent_context(search), SpanKind.CLIENT, attributes, start_time=search.started_at
            )
        return span

    def _parent_context(self, search: Search) -> Context | None:
        """Return the context of the parent search's span, or None if there is no parent search.

        With None, OpenTelemetry uses the context of the caller.
        """
        from opentelemetry.trace import set_span_in_context

        return None if search.parent is None else set_span_in_context(self._span(search.parent))

    def _make_child(self, event: StageEnded) -> None:
        from opentelemetry.trace import Status, StatusCode, set_span_in_context

        span = self.tracer.start_span(
            f"retriever.{event.stage}",
            set_span_in_context(self._span(event.search)),
            attributes={"retriever.stage": event.stage},
            start_time=event.started_at,
        )
        if event.error is not None:
            span.set_attribute("error.type", type(event.error).__name__)
            span.set_status(Status(StatusCode.ERROR))
        span.end(_after(event.started_at, event.took_ms))

    def _end(self, event: SearchEnded) -> None:
        span = self._span(event.search)
        ended = _after(event.search.started_at, event.took_ms)
        span.set_attributes(
            {
                "retriever.mode": event.mode,
                "retriever.result_count": len(event.results),
                "retriever.degraded": list(event.degraded),
            }
        )
        if self.documents:
            documents = [{"id": id, "score": score} for id, score in event.results]
            span.set_attribute("gen_ai.retrieval.documents", json.dumps(documents))
        if event.cancelled:
            span.set_attribute("retriever.cancelled", True)
        for component, type_ in event.error_types.items():
            if component != "retriever":
                attributes = {"exception.type": type_, "retriever.component": component}
                if self.text:
                    attributes["exception.message"] = event.errors.get(component, type_).partition(": ")[2]
                span.add_event("exception", attributes, ended)
        if event.error is not None:
            self._record(event.error, span, ended)
        span.end(ended)

    def _record(self, error: Exception, span: Span, ended: int) -> None:
        from opentelemetry.trace import Status, StatusCode

        if self.text:
            span.record_exception(error, timestamp=ended)
            span.set_status(Status(StatusCode.ERROR, str(error)))
        else:
            attributes = {"exception.type": _name(error), "exception.stacktrace": _stack(error)}
            span.add_event("exception", attributes, ended)
            span.set_status(Status(StatusCode.ERROR))
        span.set_attribute("error.type", type(error).__name__)


def _name(error: Exception) -> str:
    """Return the name of the exception type in the form that record_exception writes."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _stack(error: Exception) -> str:
    """Format the traceback of an exception, without its message and without its causes."""
    frames = traceback.extract_tb(error.__traceback__)  # source lines are left out, because they may contain the query
    lines = [f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}\n' for frame in frames]
    return "".join(["Traceback (most recent call last):\n", *lines, _name(error)])


def _after(started_at: int, took_ms: float) -> int:
    return started_at + int(took_ms * 1e6)


def _tracer() -> Tracer:
    try:
        from opentelemetry.trace import get_tracer
    except ImportError as missing:
        raise MissingExtraError(
            "OpenTelemetrySink needs the OpenTelemetry API, which cannot be imported: "
            'pip install "langchain-hybridgraph[otel]"'
        ) from missing
    return get_tracer("langchain_hybridgraph", version("langchain-hybridgraph"))
