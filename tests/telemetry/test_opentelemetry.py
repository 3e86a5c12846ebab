"""OpenTelemetrySink: the spans that an exporter receives."""

import threading

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from prometheus_client import CollectorRegistry, generate_latest

from langchain_hybridgraph import HybridRetriever, OpenTelemetrySink, PrometheusSink
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from langchain_hybridgraph.telemetry import flush
from tests.support.stores.pet_store import HISTORY, QUESTION, STAGES, broken


class Collector:
    """Tracer with the spans that its exporter received, in order of their start."""

    def __init__(self):
        self._exporter, provider = InMemorySpanExporter(), TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = provider.get_tracer("app")

    def spans(self):
        assert flush(120)
        return sorted(self._exporter.get_finished_spans(), key=lambda span: span.start_time)


@pytest.fixture
def collector():
    return Collector()


def test_a_search_is_a_span_with_a_child_per_stage(store, collector):
    """A search is a span with its attributes, without the query, and with one child span per stage within it."""
    HybridRetriever(store, k=2, telemetry={"tracer": collector.tracer}).invoke(QUESTION)
    search, *stages = collector.spans()
    assert (search.name, search.kind, search.parent) == ("retriever.retrieve", SpanKind.CLIENT, None)
    assert search.attributes == {
        "retriever.type": "HybridRetriever",
        "retriever.mode": "hybrid",
        "retriever.top_k": 2,
        "retriever.result_count": 2,
        "retriever.degraded": (),
    }
    assert search.status.is_unset
    assert [(span.name, span.attributes["retriever.stage"]) for span in stages] == [
        (f"retriever.{stage}", stage) for stage in STAGES
    ]
    for span in stages:
        assert span.parent == search.context
        assert search.start_time <= span.start_time <= span.end_time <= search.end_time


@pytest.mark.parametrize("text", [False, True])
def test_failures_within_a_search_are_recorded(store, collector, text):
    """A failing stage is an exception event, with the message only with text=True, and the span is not an error."""
    sink, registry = OpenTelemetrySink(collector.tracer, text=text), CollectorRegistry()
    sinks = [sink, PrometheusSink(registry)]
    HybridRetriever(store, reranker=broken, telemetry={"sinks": sinks}).invoke(QUESTION)
    search, *stages = collector.spans()
    (event,) = search.events
    message = {"exception.message": f"no answer to {QUESTION!r}"} if text else {}
    assert event.attributes == {"exception.type": "TimeoutError", "retriever.component": "rerank"} | message
    assert search.attributes["retriever.degraded"] == ("rerank-failed",)
    assert search.attributes.get("gen_ai.retrieval.query.text") == (QUESTION if text else None)
    assert search.status.is_unset
    exported = [span.to_json() for span in (search, *stages)]
    assert ("cat" in "".join(exported)) is text
    assert "cat" not in generate_latest(registry).decode()


@pytest.mark.parametrize("text", [False, True])
def test_an_exception_that_ends_the_search_is_recorded(store, collector, text):
    """A search that raises is an error span with its type, and only with text=True its message and stack trace."""
    with pytest.raises(ConfigurationError):
        HybridRetriever(store, telemetry={"sinks": [OpenTelemetrySink(collector.tracer, text=text)]}).retrieve(b"cat")
    (search, *_) = collector.spans()
    (event,) = search.events
    assert event.attributes["exception.type"].endswith("ConfigurationError")
    assert ("exception.stacktrace" in event.attributes, "cat" in search.to_json()) == (text, text)
    assert (search.status.status_code, search.attributes["error.type"]) == (StatusCode.ERROR, "ConfigurationError")


async def test_a_search_within_a_search_is_its_child(store, collector):
    """The span of an inner search is a child of the outer one's, even if only the outer retriever has a tracer."""
    retriever = AdvancedRetriever(HybridRetriever(store), telemetry={"tracer": collector.tracer})
    await retriever.aretrieve_with_context("Where is it?", HISTORY)
    spans = collector.spans()
    above, below = [span for span in spans if span.name == "retriever.retrieve"]
    assert [span.attributes["retriever.type"] for span in (above, below)] == ["AdvancedRetriever", "HybridRetriever"]
    assert below.parent == above.context
    stages = [span.name for span in spans if span.parent == above.context and span is not below]
    assert stages == ["retriever.expand-query", "retriever.embed"]


@pytest.mark.parametrize("is_async", [False, True])
async def test_the_callers_span_is_the_parent(store, collector, is_async):
    """A search within a span of the caller is a child of that span."""
    retriever = HybridRetriever(store, telemetry={"tracer": collector.tracer})
    with collector.tracer.start_as_current_span("request") as request:
        _ = await retriever.ainvoke(QUESTION) if is_async else retriever.invoke(QUESTION)
    search = next(span for span in collector.spans() if span.name == "retriever.retrieve")
    assert search.parent == request.get_span_context()


class Stuck(SpanExporter):
    """Exporter whose collector does not answer."""

    def __init__(self):
        self.let_go = threading.Event()

    def export(self, spans):
        self.let_go.wait()


def test_an_exporter_that_hangs_delays_no_search(store):
    """Searches return while an exporter hangs, even if it exports in the thread that ends the span."""
    for processor in (SimpleSpanProcessor, BatchSpanProcessor):
        exporter, provider = Stuck(), TracerProvider()
        provider.add_span_processor(processor(exporter))
        retriever = HybridRetriever(store, k=1, telemetry={"tracer": provider.get_tracer("app")})
        try:
            assert [retriever.invoke(QUESTION)[0].id for _ in range(5)] == ["cat"] * 5
        finally:
            exporter.let_go.set()
        assert flush(120)
