"""dashboards/hybridgraph.json queries only metrics and labels that are exported."""

import json
import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from langchain_hybridgraph import HybridRetriever, PrometheusSink
from langchain_hybridgraph.telemetry import flush
from tests.support.stores.pet_store import QUESTION, broken, pets

FILE = Path(__file__).parents[2] / "dashboards" / "hybridgraph.json"
DASHBOARD = json.loads(FILE.read_text(encoding="utf-8"))
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
VARIABLES = DASHBOARD["templating"]["list"]
METRIC = re.compile(r"rag_\w+")
SELECTED = re.compile(r"(rag_\w+)(?:\{([^}]*)\})?")
GROUPED = re.compile(r"by \(([\w, ]+)\)")


@pytest.fixture(scope="module")
def exported():
    """Return the labels of each exported sample after a degraded search."""
    registry = CollectorRegistry()
    HybridRetriever(pets(), reranker=broken, telemetry={"sinks": [PrometheusSink(registry)]}).invoke(QUESTION)
    assert flush(120)
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {each.name: set(each.labels) for family in families for each in family.samples}


def test_every_metric_is_exported(exported):
    """Every metric in the dashboard's panels and variables is exported, and all four are shown."""
    queries = {
        name for text in [*QUERIES, *(each["definition"] for each in VARIABLES[1:])] for name in METRIC.findall(text)
    }
    assert queries - exported.keys() == set()
    assert len({re.sub("_(bucket|count|sum|total)$", "", name.replace("_count_", "_")) for name in queries}) == 4


def test_every_label_is_exported(exported):
    """Every label that a query selects or groups by is a label of the metric."""
    assert any(SELECTED.search(query) for query in QUERIES)
    assert any(GROUPED.search(query) for query in QUERIES)
    for query in QUERIES:
        labels = set()
        for name, selected in SELECTED.findall(query):
            labels |= exported[name]
            assert set(re.findall(r"(\w+)=~?", selected)) <= exported[name], query
        for grouped in GROUPED.findall(query):
            assert set(grouped.split(", ")) <= labels, query
