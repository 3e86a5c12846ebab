"""What a retriever counts of its calls."""

import pytest

from langchain_hybridgraph.query.trace import Trace
from langchain_hybridgraph.retrievers.statistics import RetrievalStatistics


def answer(*reasons):
    trace = Trace()
    for reason in reasons:
        trace.degrade(reason)
    return trace


def test_nothing_is_known_before_the_first_call():
    """What has no mean and no percentile yet is None, not 0."""
    report = RetrievalStatistics().report()
    assert report == {
        "calls": 0, "errors": {}, "mean_documents": None, "p50_ms": None, "p95_ms": None, "degraded": {}
    }  # fmt: skip


def test_the_mean_is_that_of_the_calls_that_were_answered():
    """A call that raises counts as a call and has no Documents; its error goes on."""
    statistics = RetrievalStatistics()
    statistics.answered(answer(), documents=2)
    statistics.answered(answer("vector-failed"), documents=4)
    with pytest.raises(OSError, match="gone"), statistics.counting_errors():
        raise OSError("gone")
    report = statistics.report()
    assert (report["calls"], report["mean_documents"]) == (3, 3.0)
    assert (report["errors"], report["degraded"]) == ({"OSError": 1}, {"vector-failed": 1})
