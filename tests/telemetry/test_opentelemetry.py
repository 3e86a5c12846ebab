"""OpenTelemetrySink: the spans that a collector receives."""

import json
import logging
import threading
import urllib.parse

import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as OverGRPC
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as OverHTTP
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter
from prometheus_client import CollectorRegistry, generate_latest

from langchain_hybridgraph import HybridRetriever, LogSink, OpenTelemetrySink, PrometheusSink, RetrievalError
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from langchain_hybridgraph.telemetry import Search, SearchEnded, flush
from tests.support.servers.otlp_receiver import attributes, over_grpc, over_http, spans_in
from tests.support.stores.pet_store import QUESTION, broken, pets

HISTORY = ["User: Tell me of the cat.", "Assistant: The cat sat on the mat."]
STAGES = [
    "retriever.gather",
    "retriever.rank",
    "retriever.fuse",
    "retriever.admit",
    "retriever.select",
    "retriever.calibrate",
]
CLIENT, INTERNAL, ERROR = 3, 1, 2  # as OTLP numbers kinds and states


@pytest.fixture(scope="module")
def store():
    return pets()


class Collector:
    """Tracer with the spans that its collector received."""

    def __init__(self, exporter, exports):
        self.provider = TracerProvider()
        self.provider.add_span_processor(BatchSpanProcessor(exporter))
        self.tracer = self.provider.get_tracer("app")
        self._exports = exports

    def spans(self):
        assert flush(120)
        assert self.provider.force_flush()
        return spans_in(self._exports)


@pytest.fixture(params=["http", "grpc"])
def both(request):
    with over_http() if request.param == "http" else over_grpc() as (endpoint, exports):
        exporter = OverHTTP(endpoint=endpoint) if request.param == "http" else OverGRPC(endpoint, insecure=True)
        collector = Collector(exporter, exports)
        yield collector
        collector.provider.shutdown()


@pytest.fixture
def collector():
    with over_http() as (endpoint, exports):
        collector = Collector(OverHTTP(endpoint=endpoint), exports)
        yield collector
        collector.provider.shutdown()


class LineHandler(logging.Handler):
    """Handler that collects the lines of a private logger."""

    def __init__(self):
        super().__init__()
        self.lines = []
        self.logger = logging.Logger("app", logging.DEBUG)
        self.logger.addHandler(self)

    def emit(self, record):
        self.lines.append(f"{record.getMessage()} {vars(record)}")


def test_a_search_is_a_span_with_a_child_per_stage(store, both):
    """A search is a span with one child span per stage, exported over HTTP and gRPC with names, kinds and times."""
    HybridRetriever(store, telemetry={"tracer": both.tracer}).invoke(QUESTION)
    search, *stages = both.spans()
    assert (search.name, search.kind, search.parent_span_id) == ("retriever.retrieve", CLIENT, b"")
    assert [span.name for span in stages] == STAGES
    assert {(span.parent_span_id, span.trace_id, span.kind) for span in stages} == {
        (search.span_id, search.trace_id, INTERNAL)
    }
    assert all(
        search.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano <= search.end_time_unix_nano
        for span in stages
    )


def test_a_span_has_the_attributes_of_a_retrieval(store, collector):
    """A span has this package's attributes and those of the semantic conventions, without the query."""
    HybridRetriever(store, k=2, telemetry={"tracer": collector.tracer}).invoke(QUESTION)
    search = collector.spans()[0]
    assert attributes(search) == {
        "retriever.type": "HybridRetriever",
        "retriever.mode": "hybrid",
        "retriever.top_k": 2,
        "retriever.result_count": 2,
        "retriever.degraded": [],
        "gen_ai.operation.name": "retrieval",
        "gen_ai.request.top_k": 2.0,
    }
    assert search.status.code == 0


def test_text_and_documents_are_opted_in(store, collector):
    """With text=True and documents=True, a span has the query and the ids with their scores."""
    sink = OpenTelemetrySink(collector.tracer, text=True, documents=True)
    documents = HybridRetriever(store, k=1, telemetry={"sinks": [sink]}).invoke(QUESTION, return_scores=True)
    exported = attributes(collector.spans()[0])
    assert exported["gen_ai.retrieval.query.text"] == QUESTION
    assert json.loads(exported["gen_ai.retrieval.documents"]) == [
        {"id": "cat", "score": documents[0].metadata["relevance_score"]}
    ]


def test_failures_within_a_search_are_recorded(store, collector):
    """A failing stage is an exception event with component and type but no message, and the span is not an error."""
    HybridRetriever(store, telemetry={"tracer": collector.tracer}, reranker=broken).invoke(QUESTION)
    search = collector.spans()[0]
    (event,) = search.events
    assert (event.name, attributes(event)) == (
        "exception",
        {
            "exception.type": "TimeoutError",
            "retriever.component": "rerank",
        },
    )
    assert attributes(search)["retriever.degraded"] == ["rerank-failed"]
    assert search.status.code == 0


def test_an_exception_that_ends_the_search_is_recorded(store, collector):
    """A search that raises is an error span with error.type and the stack trace, but without the message."""
    with pytest.raises(ConfigurationError):
        HybridRetriever(store, telemetry={"tracer": collector.tracer}).retrieve(b"secret")
    search = collector.spans()[0]
    (event,) = search.events
    recorded = attributes(event)
    assert recorded["exception.type"] == "langchain_hybridgraph.errors.ConfigurationError"
    assert "exception.message" not in recorded
    assert ", in plan" in recorded["exception.stacktrace"]
    assert (search.status.code, attributes(search)["error.type"]) == (ERROR, "ConfigurationError")


QUOTED = {
    "as it is": str,
    "escaped by Python": repr,
    "escaped by JSON": json.dumps,
    "in a URL": urllib.parse.quote,
    "cut off": lambda query: query[:10],
    "in capitals": str.upper,
}


SECRET = 'SECRET "cat" isn\'t\non mät?'


@pytest.mark.parametrize("form", QUOTED)
def test_no_message_that_quotes_the_query_is_reported(store, collector, form):
    """An error message that quotes the query in any form is not in spans, log lines or metrics."""
    lines, registry = LineHandler(), CollectorRegistry()

    def reranker(query, texts):
        raise ValueError(f"cannot rank {QUOTED[form](query)}")

    listening = {"tracer": collector.tracer, "logger": lines.logger, "sinks": [PrometheusSink(registry)]}
    HybridRetriever(store, reranker=reranker, telemetry=listening).retrieve(SECRET)
    exported = [str(collector.spans()), "".join(lines.lines), generate_latest(registry).decode()]
    assert all("ValueError" in each for each in exported)
    assert [quoted for quoted in ("SECRET", "cannot rank") if quoted in "".join(exported)] == []


@pytest.mark.parametrize("form", QUOTED)
def test_no_message_of_a_final_exception_is_reported(collector, form):
    """The message of the exception that ends a search, and of its cause, is not in spans, log lines or metrics."""
    lines, registry = LineHandler(), CollectorRegistry()
    try:
        try:
            raise ValueError(QUOTED[form](SECRET))
        except ValueError as first:
            raise RetrievalError("no answer to " + QUOTED[form](SECRET)) from first
    except RetrievalError as error:
        ended = SearchEnded(Search("HybridRetriever", 1, SECRET, 1), "hybrid", 1.0, error=error)
    for sink in (OpenTelemetrySink(collector.tracer), LogSink(lines.logger), PrometheusSink(registry)):
        sink(ended)
    exported = [str(collector.spans()), "".join(lines.lines), generate_latest(registry).decode()]
    assert all("RetrievalError" in each for each in exported)
    assert [quoted for quoted in ("SECRET", "no answer") if quoted in "".join(exported)] == []


async def test_a_search_within_a_search_is_its_child(store, collector):
    """The span of an inner search is a child of the outer search's span, even if only the outer retriever has a
    tracer.
    """
    retriever = AdvancedRetriever(HybridRetriever(store), telemetry={"tracer": collector.tracer})
    await retriever.aretrieve_with_context("Where is it?", HISTORY)
    spans = collector.spans()
    above, below = [span for span in spans if span.name == "retriever.retrieve"]
    assert [attributes(span)["retriever.type"] for span in (above, below)] == ["AdvancedRetriever", "HybridRetriever"]
    assert below.parent_span_id == above.span_id
    stages = [span.name for span in spans if span.parent_span_id == above.span_id and span is not below]
    assert stages == ["retriever.expand-query", "retriever.embed"]
    assert {span.trace_id for span in spans} == {above.trace_id}


@pytest.mark.parametrize("is_async", [False, True])
async def test_the_callers_span_is_the_parent(store, collector, is_async):
    """A search within a span of the caller is a child of that span."""
    retriever = HybridRetriever(store, telemetry={"tracer": collector.tracer})
    with collector.tracer.start_as_current_span("request"):
        _ = await retriever.ainvoke(QUESTION) if is_async else retriever.invoke(QUESTION)
    request, search = collector.spans()[:2]
    assert (request.name, search.name, search.parent_span_id) == ("request", "retriever.retrieve", request.span_id)


class Stuck(SpanExporter):
    """Exporter whose collector does not answer."""

    def __init__(self):
        self.let_go = threading.Event()

    def export(self, spans):
        self.let_go.wait()


def test_an_exporter_that_hangs_delays_no_search(store):
    """An exporter that hangs does not delay searches, even if it exports each span as it ends."""
    exporter, provider = Stuck(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    retriever = HybridRetriever(store, telemetry={"tracer": provider.get_tracer("app")})
    try:
        assert [retriever.invoke(QUESTION)[0].id for _ in range(5)] == ["cat"] * 5
    finally:
        exporter.let_go.set()
    assert flush(120)
