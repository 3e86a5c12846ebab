"""WaterCircle: rings with decreasing energy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.records import Edge
from langchain_hybridgraph.search.scores import Flow, HopDecay, RingDecay
from langchain_hybridgraph.search.traversals import BFS, WaterCircle
from tests.support.samples.pinned_graph import EDGES, traverse, values


def test_energy():
    """Energy is multiplied by weight and decay at each hop: .9 · .8 · .5 = .36, and .36 · .9 · .5 = .162."""
    energies = values(traverse(EDGES, WaterCircle(), Flow()))
    assert energies == pytest.approx({"A": 0.9, "B": 0.5, "C": 0.36, "D": 0.162}, abs=1e-6)


def test_too_little_energy_is_not_reached():
    """A chunk with less energy than min_energy is not reached: .9 · .1 · .5 = .045 is less than .05."""
    energies = values(traverse([Edge("A", "x", "c", 0.1), Edge("A", "y", "c", 0.12)], WaterCircle(), HopDecay()))
    assert set(energies) == {"A", "B", "y"}


NODES = "abcdef"


@given(
    st.lists(st.tuples(st.sampled_from(NODES), st.sampled_from(NODES), st.floats(0.1, 1.0)), max_size=15),
    st.dictionaries(st.sampled_from(NODES), st.floats(0.1, 1.0), min_size=1, max_size=2),
)
def test_rings_equal_ring_decay(pairs, seeds):
    """WaterCircle's flow equals RingDecay over breadth-first search, without chunks of value 0."""
    edges = [Edge(a, b, "c", weight) for a, b, weight in pairs if a != b]
    flow = values(traverse(edges, WaterCircle(), Flow(), seeds=list(seeds.items())))
    ring = values(traverse(edges, BFS(3), RingDecay(), seeds=list(seeds.items())))
    assert flow == pytest.approx({id: value for id, value in ring.items() if value > 0})
