"""Reordering of hits by a reranker."""

from __future__ import annotations

from tests.support.samples.small_pipeline import hybrid, ids


class Reverse:
    """Reranker that reverses the order or fails."""

    filters = False

    def __init__(self, error=None):
        self.error = error

    def rerank(self, query, hits):
        if self.error:
            raise self.error
        return [place / 10 for place in range(len(hits))]


def test_a_reranker_determines_the_order():
    """Hits are ordered by the reranker's scores."""
    hits, _ = hybrid("abc", "", reranker=Reverse())
    assert ids(hits) == "cba"
    assert [hit.rerank_score for hit in hits] == [0.2, 0.1, 0.0]


def test_a_failing_reranker_leaves_the_earlier_order():
    """If the reranker fails, hits keep their order and the failure is reported."""
    hits, trace = hybrid("abc", "", reranker=Reverse(RuntimeError("model")))
    assert ids(hits) == "abc"
    assert trace.reasons == ("rerank-failed",)
    assert trace.errors["rerank"] == "RuntimeError: model"
