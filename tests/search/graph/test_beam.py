"""Beam search: the best chunks of every ring."""

import pytest

from langchain_hybridgraph.records import Edge
from langchain_hybridgraph.search.scores import HopDecay
from langchain_hybridgraph.search.traversals import Beam
from tests.support.samples.pinned_graph import by_id, traverse

EDGES = [Edge("A", "p", "c", 0.9), Edge("A", "q", "c", 0.6), Edge("q", "r", "c", 1.0), Edge("p", "s", "c", 0.5)]


@pytest.mark.parametrize(("width", "rings"), [(1, [{"p"}, {"s"}]), (2, [{"p", "q"}, {"r", "s"}])])
def test_width(width, rings):
    """A beam of width 1 follows only the best chunk of a ring and never reaches the chunk behind q."""
    chunks = by_id(traverse(EDGES, Beam(width), HopDecay(), seeds=[("A", 0.9)]))
    assert [{id for id, a in chunks.items() if a.hops == hop} for hop in (1, 2)] == rings


def test_ties_at_the_edge_of_the_beam_are_broken_by_id():
    """Among chunks with equal values, the beam keeps those with the smallest ids, in any order of the edges."""
    edges = [Edge("A", id, "c") for id in "zxy"]
    assert set(by_id(traverse(edges, Beam(2), HopDecay(), seeds=[("A", 0.9)]))) == {"A", "x", "y"}


def test_candidates_outside_the_beam_do_not_set_capped():
    """The result is reported as capped only if max_nodes is exceeded, not if the beam leaves chunks out."""
    assert not traverse(EDGES, Beam(1), HopDecay()).capped
    assert traverse(EDGES, Beam(2, max_nodes=1), HopDecay(), seeds=[("A", 0.9)]).capped
