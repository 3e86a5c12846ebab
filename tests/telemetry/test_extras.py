"""Telemetry without its optional libraries, which are never imported unless needed."""

import pytest

from tests.support.servers.python_process import output_of_python

SEARCH = """
from langchain_hybridgraph import HybridGraphStore, HybridRetriever
store = HybridGraphStore.from_texts(["the cat sat", "dogs bark"], "lsa")
HybridRetriever(store, k=1).invoke("Where is the cat?")
"""


BLOCKED = "import sys\nsys.modules['prometheus_client'] = sys.modules['opentelemetry'] = None\n"


def test_a_search_needs_no_telemetry_library():
    """With neither telemetry library installed, a search can be logged and sent to a sink."""
    listening = "from langchain_hybridgraph import LogSink, add_sink\nadd_sink(LogSink())\nadd_sink(print)\n"
    assert "stage='gather'" in output_of_python("-c", BLOCKED + listening + SEARCH)


@pytest.mark.parametrize(("sink", "extra"), [("PrometheusSink", "prometheus"), ("OpenTelemetrySink", "otel")])
def test_a_missing_extra_names_its_line(sink, extra):
    """The error for a missing library names the extra to install."""
    message = output_of_python(
        "-c",
        f"{BLOCKED}from langchain_hybridgraph import {sink}\n"
        f"try:\n    {sink}()\nexcept ImportError as error:\n    print(type(error).__name__, error)",
    )
    assert message.startswith("MissingExtraError")
    assert f'pip install "langchain-hybridgraph[{extra}]"' in message


def test_a_search_opens_no_connection_and_loads_no_metrics():
    """A search with default telemetry opens no network connection and does not import prometheus_client."""
    hook = """
import sys
def told(event, args):
    if event in ("socket.connect", "socket.getaddrinfo"):
        print("asked for", args)
sys.addaudithook(told)
"""
    assert output_of_python("-c", f"{hook}{SEARCH}\nprint('prometheus_client' in sys.modules)").strip() == "False"
