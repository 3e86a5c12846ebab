"""Telemetry without what it would tell: nothing is imported unasked, and a missing extra names its line."""

import subprocess
import sys

import pytest

SEARCH = """
from langchain_hybridgraph import HybridGraphStore, HybridRetriever
store = HybridGraphStore.from_texts(["the cat sat", "dogs bark"], "lsa")
HybridRetriever(store, k=1).invoke("Where is the cat?")
"""


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout


BLOCKED = "import sys\nsys.modules['prometheus_client'] = sys.modules['opentelemetry'] = None\n"


def test_a_search_needs_neither():
    """With both libraries out of reach a search answers, told to a logger and to a sink."""
    listening = "from langchain_hybridgraph import LogSink, add_sink\nadd_sink(LogSink())\nadd_sink(print)\n"
    assert "stage='gather'" in run(BLOCKED + listening + SEARCH)


def test_the_sinks_are_there_without_their_libraries():
    """Their names can be imported; only creating one needs its library."""
    assert (
        run(BLOCKED + "from langchain_hybridgraph import LogSink, OpenTelemetrySink, PrometheusSink; LogSink()") == ""
    )


def test_a_search_loads_no_metrics():
    """prometheus_client is not imported unasked. (OpenTelemetry's API is by langsmith, where it is installed.)"""
    assert run(f"import sys\n{SEARCH}\nprint('prometheus_client' in sys.modules)").strip() == "False"


@pytest.mark.parametrize(("sink", "extra"), [("PrometheusSink", "prometheus"), ("OpenTelemetrySink", "otel")])
def test_a_missing_extra_names_its_line(sink, extra):
    """The error names the extra to install if the library cannot be imported."""
    message = run(
        f"{BLOCKED}from langchain_hybridgraph import {sink}\n"
        f"try:\n    {sink}()\nexcept ImportError as error:\n    print(type(error).__name__, error)"
    )
    assert message.startswith("MissingExtraError")
    assert f'pip install "langchain-hybridgraph[{extra}]"' in message


def test_nothing_phones_home():
    """A process that searches with telemetry at its defaults opens no connection to anywhere."""
    hook = """
import sys
def told(event, args):
    if event in ("socket.connect", "socket.getaddrinfo"):
        print("asked for", args)
sys.addaudithook(told)
"""
    assert run(hook + SEARCH) == ""
