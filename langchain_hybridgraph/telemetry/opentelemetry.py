"""Spans for OpenTelemetry."""

from __future__ import annotations

import json
import traceback
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from langchain_hybridgraph.errors import MissingExtraError
from langchain_hybridgraph.telemetry.events import Event, Search, SearchEnded, StageEnded

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

NAME = "retriever.retrieve"


class OpenTelemetrySink:
    """Makes a span ``retriever.retrieve`` of each search, and of each of its stages a child (``retriever.gather``, …).

    Its attributes are ``retriever.type``, ``retriever.mode``, ``retriever.top_k``, ``retriever.result_count``,
    ``retriever.degraded`` (the reasons), and those of the semantic conventions for retrieval
    (open-telemetry/semantic-conventions-genai, in development): ``gen_ai.operation.name``, ``gen_ai.request.top_k``,
    ``error.type``, and on request ``gen_ai.retrieval.query.text`` (``text=True``) and ``gen_ai.retrieval.documents``
    (``documents=True``: ids and scores, as JSON). An exception that ends the search is recorded and makes the status
    an error; what failed while the search went on is an ``exception`` event with a ``retriever.component``. Without
    ``text=True`` their type is recorded, and where in the code they were raised, but neither their message nor lines
    of it in a stack trace: a message may quote the query, whole or cut, escaped or in capitals.

    The parent is the span that is current where the search is asked for, or the span of the search which it is a
    part of. Spans are made when the search has ended, with the times that it had, so that neither a sampler nor an
    exporter can hold it up; spans of engines' own instrumentation are therefore beside and not below it.

    Without a tracer it is that of the global provider. Raises MissingExtraError, which names the line to install,
    without the API of OpenTelemetry.
    """

    def __init__(self, tracer: Tracer | None = None, *, text: bool = False, documents: bool = False) -> None:
        self.tracer = _tracer() if tracer is None else tracer
        self.text = text
        self.documents = documents
        self._spans: WeakKeyDictionary[Search, Span] = WeakKeyDictionary()

    def __call__(self, event: Event) -> None:
        """Make a child of a stage; end the span of a search."""
        if isinstance(event, StageEnded):
            self._make_child(event)
        else:
            self._end(event)

    def _span(self, search: Search) -> Span:
        """The span of a search, begun when it is first heard of; that may be by the end of a search within it."""
        from opentelemetry.trace import SpanKind

        span = self._spans.get(search)
        if span is None:
            attributes: dict[str, Any] = {"gen_ai.operation.name": "retrieval", "retriever.type": search.retriever}
            if search.k is not None:
                attributes |= {"retriever.top_k": search.k, "gen_ai.request.top_k": float(search.k)}
            if self.text and search.query is not None:
                attributes["gen_ai.retrieval.query.text"] = search.query
            span = self._spans[search] = self.tracer.start_span(
                NAME, self._above(search), SpanKind.CLIENT, attributes, start_time=search.began
            )
        return span

    def _above(self, search: Search) -> Context | None:
        """Where the span of the search that it is a part of is current; None is where it was asked for."""
        from opentelemetry.trace import set_span_in_context

        return None if search.parent is None else set_span_in_context(self._span(search.parent))

    def _make_child(self, event: StageEnded) -> None:
        from opentelemetry.trace import Status, StatusCode, set_span_in_context

        span = self.tracer.start_span(
            f"retriever.{event.stage}",
            set_span_in_context(self._span(event.search)),
            attributes={"retriever.stage": event.stage},
            start_time=event.began,
        )
        if event.error is not None:
            span.set_attribute("error.type", type(event.error).__name__)
            span.set_status(Status(StatusCode.ERROR))
        span.end(_after(event.began, event.took_ms))

    def _end(self, event: SearchEnded) -> None:
        span = self._span(event.search)
        ended = _after(event.search.began, event.took_ms)
        span.set_attributes(
            {
                "retriever.mode": event.mode,
                "retriever.result_count": len(event.results),
                "retriever.degraded": list(event.degraded),
            }
        )
        if self.documents:
            found = [{"id": id, "score": score} for id, score in event.results]
            span.set_attribute("gen_ai.retrieval.documents", json.dumps(found))
        if event.cancelled:
            span.set_attribute("retriever.cancelled", True)
        for component, type_ in event.error_types.items():
            if component != "retriever":
                noted = {"exception.type": type_, "retriever.component": component}
                if self.text:
                    noted["exception.message"] = event.errors.get(component, type_).partition(": ")[2]
                span.add_event("exception", noted, ended)
        if event.error is not None:
            self._record(event.error, span, ended)
        span.end(ended)

    def _record(self, error: Exception, span: Span, ended: int) -> None:
        from opentelemetry.trace import Status, StatusCode

        if self.text:
            span.record_exception(error, timestamp=ended)
            span.set_status(Status(StatusCode.ERROR, str(error)))
        else:
            recorded = {"exception.type": _name(error), "exception.stacktrace": _places(error)}
            span.add_event("exception", recorded, ended)
            span.set_status(Status(StatusCode.ERROR))
        span.set_attribute("error.type", type(error).__name__)


def _name(error: Exception) -> str:
    """The type's name as record_exception writes it."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _places(error: Exception) -> str:
    """Where an exception came from, without what it and those that caused it say."""
    frames = traceback.extract_tb(error.__traceback__)  # the code's lines stay out, which may hold the question, too
    places = [f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}\n' for frame in frames]
    return "".join(["Traceback (most recent call last):\n", *places, _name(error)])


def _after(began: int, took_ms: float) -> int:
    return began + int(took_ms * 1e6)


def _tracer() -> Tracer:
    try:
        from opentelemetry.trace import get_tracer
    except ImportError as missing:
        raise MissingExtraError(
            "OpenTelemetrySink needs the API of OpenTelemetry, which cannot be imported: "
            'pip install "langchain-hybridgraph[otel]"'
        ) from missing
    from langchain_hybridgraph import __version__

    return get_tracer("langchain_hybridgraph", __version__)
