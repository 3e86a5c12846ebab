"""Credibility of sources, computed by hand."""

from langchain_hybridgraph.memory.scores import credibility


def test_the_credibility_of_a_source():
    """The credibility of a source is (1 + confirmed) / (2 + confirmed + refuted)."""
    assert (credibility(0, 0), credibility(2, 1), credibility(0, 8)) == (0.5, 3 / 5, 1 / 10)
