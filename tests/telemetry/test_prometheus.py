"""PrometheusSink: the metrics that a Prometheus server scrapes."""

import urllib.request
from itertools import product

import pytest
from langchain_core.messages import HumanMessage
from prometheus_client import REGISTRY, CollectorRegistry, start_http_server
from prometheus_client.parser import text_string_to_metric_families

from langchain_hybridgraph import HybridRetriever, MemoryRetriever, PrometheusSink, add_sink, remove_sink
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from langchain_hybridgraph.telemetry import flush
from tests.support.stores.pet_store import HISTORY, QUESTION, broken

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
    below = HybridRetriever(store, k=1, reranker=broken)
    AdvancedRetriever(below).retrieve_with_context("Where is it?", HISTORY)
    scraped = scrape()
    assert scraped["rag_retrieval_duration_seconds_count", "context", "AdvancedRetriever"] == 1
    assert scraped["rag_retrieval_degraded_total", "rerank-failed"] == 1
    assert scraped["rag_pipeline_errors_total", "rerank", "TimeoutError"] == 1
