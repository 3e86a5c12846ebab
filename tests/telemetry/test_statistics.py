"""Statistics of a retriever's calls."""

import os
import subprocess
import sys

import pytest

from langchain_hybridgraph.execution.effects import Trace
from langchain_hybridgraph.telemetry.events import RetrievalStatistics


def answer(*reasons):
    trace = Trace()
    for reason in reasons:
        trace.degrade(reason)
    return trace


def test_nothing_is_known_before_the_first_call():
    """Means and percentiles are None before the first call."""
    report = RetrievalStatistics().report()
    assert report == {
        "calls": 0, "errors": {}, "mean_documents": None, "p50_ms": None, "p95_ms": None, "degraded": {}
    }  # fmt: skip


def test_the_mean_excludes_calls_that_raised():
    """A call that raises is counted as a call and an error, but not in the mean number of Documents."""
    statistics = RetrievalStatistics()
    statistics.record_answer(answer(), documents=2)
    statistics.record_answer(answer("vector-failed"), documents=4)
    with pytest.raises(OSError, match="gone"), statistics.count_errors():
        raise OSError("gone")
    report = statistics.report()
    assert (report["calls"], report["mean_documents"]) == (3, 3.0)
    assert (report["errors"], report["degraded"]) == ({"OSError": 1}, {"vector-failed": 1})


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
def test_a_forked_process_is_not_blocked_by_locks_of_its_parent():
    """A forked child can add a sink and report while threads of the parent hold the locks."""
    program = """
import os, sys, threading
from langchain_hybridgraph import HybridGraphStore, HybridRetriever, add_sink
from langchain_hybridgraph.telemetry import dispatch

retriever = HybridRetriever(HybridGraphStore.from_texts(["the cat sat", "dogs bark"]))
held, release = threading.Event(), threading.Event()

def hold():
    with retriever._statistics._lock:
        held.set()
        release.wait(60)

def change():
    with dispatch._lock:
        changing.set()
        release.wait(0.5)

changing = threading.Event()
for lock in (hold, change):
    threading.Thread(target=lock, daemon=True).start()
held.wait(60)
changing.wait(60)
child = os.fork()
if child == 0:
    heard = []
    add_sink(heard.append)
    retriever._statistics.report()
    os._exit(7)
release.set()
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""
    ended = subprocess.run([sys.executable, "-W", "ignore", "-c", program], timeout=600, check=False)
    assert ended.returncode == 7
