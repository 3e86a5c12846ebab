"""Selection of the hits of the result."""

from __future__ import annotations

from tests.support.samples.small_pipeline import hybrid, ids


def test_min_score_is_a_lower_bound():
    """A hit with exactly min_score is returned, and a hit below it is not."""
    hits, _ = hybrid("ab", "")
    exact = hits[1].score
    equal, _ = hybrid("ab", "", min_score=exact)
    fewer, _ = hybrid("ab", "", min_score=exact + 1e-9)
    assert (ids(equal), ids(fewer)) == ("ab", "a")
