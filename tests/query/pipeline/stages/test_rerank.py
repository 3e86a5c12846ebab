"""Order of the hits by a reranker."""

from __future__ import annotations

from tests.support.samples.small_pipeline import hybrid, ids


class Reverse:
    """A reranker that turns the order round, or fails."""

    filters = False

    def __init__(self, error=None):
        self.error = error

    def rerank(self, query, hits):
        if self.error:
            raise self.error
        return [place / 10 for place in range(len(hits))]


def test_a_reranker_decides_the_order():
    """The last becomes the first, with its own score."""
    hits, _ = hybrid("abc", "", reranker=Reverse())
    assert ids(hits) == "cba"
    assert [hit.rerank_score for hit in hits] == [0.2, 0.1, 0.0]


def test_a_failing_reranker_leaves_the_earlier_order():
    """The result reports the failure."""
    hits, trace = hybrid("abc", "", reranker=Reverse(RuntimeError("model")))
    assert ids(hits) == "abc"
    assert trace.reasons == ("rerank-failed",)
    assert trace.errors["rerank"] == "RuntimeError: model"
