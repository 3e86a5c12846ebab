"""The code in docs/telemetry.md runs and its tables are complete."""

import logging
import re
import urllib.request
from pathlib import Path

from prometheus_client import REGISTRY

from langchain_hybridgraph import PrometheusSink, telemetry
from langchain_hybridgraph.telemetry import flush, remove_sink
from tests.support.stores.pet_store import STAGES

PAGE = (Path(__file__).parents[2] / "docs" / "telemetry.md").read_text(encoding="utf-8")


def test_the_code_runs(capsys, monkeypatch):
    """The page's code runs in order and prints the stages, the metrics and the log line."""
    monkeypatch.setattr(logging.root, "handlers", [])
    names = {}
    level = logging.root.level
    try:
        for code in re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
            exec(compile(code, "docs/telemetry.md", "exec"), names)
        assert flush(120)
        with urllib.request.urlopen(f"http://127.0.0.1:{names['server'].server_port}/metrics", timeout=120) as answer:
            assert b'rag_retrieval_duration_seconds_count{mode="plain",retriever="HybridRetriever"}' in answer.read()
    finally:
        names["server"].shutdown()
        names["server"].server_close()

        for delivery in telemetry._process_deliveries:
            remove_sink(delivery.sink)
        logging.root.setLevel(level)
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [*STAGES, "HybridRetriever hybrid 1 ()"]
    assert 'INFO retrieval {"retriever": "HybridRetriever"' in printed.err


def test_the_metrics_are_those_of_the_sink():
    """The page's table lists exactly the metrics of PrometheusSink, with their labels."""

    sink = PrometheusSink(REGISTRY)
    metrics = (sink._duration, sink._documents, sink._degraded, sink._errors)
    table = dict(re.findall(r"^\| `(rag_\w+)` \| \w+ \| (.*?) \|", PAGE, re.MULTILINE))
    exported = {each._name + ("_total" if each._type == "counter" else ""): each._labelnames for each in metrics}
    assert {name: tuple(re.findall(r"`(\w+)`", labels)) for name, labels in table.items()} == exported
