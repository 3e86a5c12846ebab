"""Sinks: log lines without the query, Prometheus metrics and OpenTelemetry spans."""

import json
import logging
import threading
import urllib.request
from itertools import product

import pytest
from langchain_core.messages import HumanMessage
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest, start_http_server
from prometheus_client.parser import text_string_to_metric_families

from langchain_hybridgraph import HybridRetriever, LogSink, MemoryRetriever, OpenTelemetrySink, PrometheusSink
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from langchain_hybridgraph.telemetry import add_sink, flush, remove_sink
from tests.support.stores.pet_store import HISTORY, QUESTION, STAGES, broken


@pytest.fixture
def logger(caplog):
    """Return a logger whose records are kept."""
    caplog.set_level(logging.INFO, "test.retrieval")
    return logging.getLogger("test.retrieval")


def records(caplog):
    assert flush(120)
    return [record for record in caplog.records if record.name == "test.retrieval"]


def logged(record):
    return json.loads(record.getMessage().partition(" ")[2])


def test_a_line_describes_the_search(store, logger, caplog):
    """A search is logged with the query's length and hash, k, results, mode and degradation, as JSON and as
    attributes.
    """
    HybridRetriever(store, k=2, telemetry={"logger": logger}).invoke(QUESTION)
    (record,) = records(caplog)
    line = logged(record)
    assert record.levelname == "INFO"
    assert line.pop("took_ms") == record.took_ms > 0
    assert line == {
        "retriever": "HybridRetriever",
        "mode": "hybrid",
        "k": 2,
        "results": 2,
        "degraded": [],
        "errors": {},
        "cancelled": False,
        "query_length": 17,
        "query_hash": "ba4dd41eacda",
    }
    assert {name: getattr(record, name) for name in line} == line


@pytest.mark.parametrize("text", [False, True])
def test_a_degraded_search_is_a_warning(store, logger, caplog, text):
    """A degraded search is a warning with error types; the query and the messages are logged only with text=True."""
    HybridRetriever(store, reranker=broken, telemetry={"sinks": [LogSink(logger, text=text)]}).invoke(QUESTION)
    (record,) = records(caplog)
    assert (record.levelname, record.degraded) == ("WARNING", ["rerank-failed"])
    message = f"TimeoutError: no answer to {QUESTION!r}"
    assert record.errors == {"rerank": message if text else "TimeoutError"}
    assert getattr(record, "query", None) == (QUESTION if text else None)
    assert (QUESTION in str(vars(record))) is text


def test_a_normal_outcome_is_not_a_warning(store, logger, caplog):
    """A degradation reason of level ``info`` is logged at level INFO."""
    assert MemoryRetriever(store, telemetry={"logger": logger}).retrieve(QUESTION).degraded == ("no-edges",)
    (record,) = records(caplog)
    assert (record.levelname, record.degraded) == ("INFO", ["no-edges"])


def test_a_search_that_raises_is_an_error_without_the_query(store, logger, caplog):
    """A search that raises is logged as an error with the exception's type, without its message."""
    with pytest.raises(ConfigurationError, match="got b'Where is the cat"):
        HybridRetriever(store, telemetry={"logger": logger}).retrieve(QUESTION.encode())
    (record,) = records(caplog)
    assert (record.levelname, record.errors) == ("ERROR", {"retriever": "ConfigurationError"})
    assert "Where" not in str(vars(record))


def test_stages_are_lines_at_debug(store, logger, caplog):
    """At level DEBUG each stage is logged in its own line before the search."""
    caplog.set_level(logging.DEBUG, "test.retrieval")
    HybridRetriever(store, telemetry={"logger": logging.LoggerAdapter(logger)}).invoke(QUESTION)
    *stages, search = records(caplog)
    assert [logged(record)["stage"] for record in stages] == STAGES
    assert {record.levelname for record in stages} == {"DEBUG"}
    assert search.getMessage().startswith("retrieval {")


PLAIN = ("plain", "HybridRetriever")
MODES = ("plain", "context")
KINDS = ("HybridRetriever", "AdvancedRetriever", "MemoryRetriever")


@pytest.fixture
def scrape():
    """Return a function that scrapes the samples of all searches, by name and labels."""
    registry = CollectorRegistry()
    sink = PrometheusSink(registry)
    add_sink(sink)
    server, thread = start_http_server(0, "127.0.0.1", registry)

    def scraped():
        assert flush(120)
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/metrics", timeout=120) as answer:
            text = answer.read().decode()
        families = text_string_to_metric_families(text)
        return {(each.name, *each.labels.values()): each.value for family in families for each in family.samples}

    yield scraped
    remove_sink(sink)
    server.shutdown()
    thread.join()
    server.server_close()


def test_searches_are_scraped(store, scrape):
    """Two searches are scraped with their number, durations and numbers of Documents."""
    retriever = HybridRetriever(store)
    retriever.invoke(QUESTION, k=1)
    took_ms = retriever.retrieve(QUESTION, k=2).took_ms
    scraped = scrape()
    assert scraped["rag_retrieval_duration_seconds_count", *PLAIN] == 2
    assert scraped["rag_retrieval_duration_seconds_bucket", "+Inf", *PLAIN] == 2
    assert 0 < scraped["rag_retrieval_duration_seconds_sum", *PLAIN] < 60 + took_ms
    assert scraped["rag_retrieved_documents_count_sum", *PLAIN] == 3
    assert scraped["rag_retrieved_documents_count_bucket", "1.0", *PLAIN] == 1
    assert scraped["rag_retrieved_documents_count_bucket", "2.0", *PLAIN] == 2


def test_sinks_of_one_registry_count_a_search_once(store):
    """Several sinks with the same registry count a search and its failures once."""
    registry = CollectorRegistry()
    sinks = [PrometheusSink(registry) for _ in range(3)]
    assert PrometheusSink() is PrometheusSink(REGISTRY) is not sinks[0]
    try:
        add_sink(sinks[0])
        add_sink(sinks[1])
        HybridRetriever(store, reranker=broken, telemetry={"sinks": [sinks[2]]}).invoke(QUESTION)
        assert flush(120)
    finally:
        remove_sink(sinks[0])
        remove_sink(sinks[1])
    labels = {"mode": "plain", "retriever": "HybridRetriever"}
    assert registry.get_sample_value("rag_retrieval_duration_seconds_count", labels) == 1
    assert registry.get_sample_value("rag_retrieval_degraded_total", {"reason": "rerank-failed"}) == 1


def test_mode_and_class_are_labels(store, scrape):
    """The mode (plain or context) and the retriever's class are labels of the metrics."""
    HybridRetriever(store, semantic_weight=0, keyword_weight=1).invoke(QUESTION)
    advanced = AdvancedRetriever(HybridRetriever(store))
    advanced.retrieve_with_context("Where is it?", HISTORY)
    advanced.retrieve_with_context(QUESTION, [])
    memories = MemoryRetriever(store)
    memories.retrieve(QUESTION, session=[HumanMessage("I have a cat.")])
    memories.retrieve(QUESTION)
    scraped = scrape()
    counts = {
        labels: scraped["rag_retrieval_duration_seconds_count", *labels]
        for labels in product(MODES, KINDS)
        if ("rag_retrieval_duration_seconds_count", *labels) in scraped
    }
    assert counts == {
        ("plain", "HybridRetriever"): 1,
        ("context", "AdvancedRetriever"): 1,
        ("plain", "AdvancedRetriever"): 1,
        ("context", "MemoryRetriever"): 1,
        ("plain", "MemoryRetriever"): 1,
    }


def test_nested_searches_are_counted_once(store, scrape):
    """An inner search is not counted separately, and its degradations and errors are counted once."""
    AdvancedRetriever(HybridRetriever(store, k=1, reranker=broken)).retrieve_with_context("Where is it?", HISTORY)
    scraped = scrape()
    assert scraped["rag_retrieval_duration_seconds_count", "context", "AdvancedRetriever"] == 1
    assert scraped["rag_retrieval_degraded_total", "rerank-failed"] == 1
    assert scraped["rag_pipeline_errors_total", "rerank", "TimeoutError"] == 1


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
    HybridRetriever(store, reranker=broken, telemetry={"sinks": [sink, PrometheusSink(registry)]}).invoke(QUESTION)
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
