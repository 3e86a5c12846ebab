"""Beam search, best-first search and rings with decreasing energy."""

import math

import pytest

from langchain_hybridgraph.records import CONTAINS, Edge
from langchain_hybridgraph.search.scores import Flow, HopDecay, Propagation
from langchain_hybridgraph.search.traversals import Beam, BestFirst, WaterCircle
from tests.support.samples.pinned_graph import EDGES, by_id, traverse, values

FORK = [Edge("A", "p", "c", 0.9), Edge("A", "q", "c", 0.6), Edge("q", "r", "c", 1.0), Edge("p", "s", "c", 0.5)]


@pytest.mark.parametrize(("width", "rings"), [(1, [{"p"}, {"s"}]), (2, [{"p", "q"}, {"r", "s"}])])
def test_width(width, rings):
    """A beam of width 1 follows only the best chunk of a ring and never reaches the chunk behind q."""
    chunks = by_id(traverse(FORK, Beam(width), HopDecay(), seeds=[("A", 0.9)]))
    assert [{id for id, a in chunks.items() if a.hops == hop} for hop in (1, 2)] == rings


def test_ties_at_the_edge_of_the_beam_are_broken_by_id():
    """Among chunks with equal values, the beam keeps those with the smallest ids, in any order of the edges."""
    edges = [Edge("A", id, "c") for id in "zxy"]
    assert set(by_id(traverse(edges, Beam(2), HopDecay(), seeds=[("A", 0.9)]))) == {"A", "x", "y"}


def test_candidates_outside_the_beam_do_not_set_capped():
    """The result is reported as capped only if max_nodes is exceeded, not if the beam leaves chunks out."""
    assert not traverse(FORK, Beam(1), HopDecay()).capped
    assert traverse(FORK, Beam(2, max_nodes=1), HopDecay(), seeds=[("A", 0.9)]).capped


OWN = {
    "A": 0.8, "B": 0.7, "C": 0.6, "D": 0.5, "E": 0.4,
    "a1": 0.9, "a2": 0.6, "b1": 0.5, "c1": 0.5, "d1": 0.5, "e1": 0.99,
}  # fmt: skip
TREE = [Edge("root", id, CONTAINS) for id in "ABCDE"]
TREE += [Edge(id[0].upper(), id, CONTAINS) for id in ("a1", "a2", "b1", "c1", "d1", "e1")]
ROOT = [("root", math.nan)]


def test_the_search_ends_when_the_best_stay_the_same():
    """The search ends once the best two chunks have not changed for three rounds, so E is never expanded."""
    result = traverse(TREE, BestFirst(k=2), Propagation(), seeds=ROOT, own=OWN)
    chunks = by_id(result)
    assert result.converged
    assert set(chunks) == {"root", *OWN} - {"e1"}
    assert (chunks["a1"].value, chunks["A"].value) == pytest.approx((0.85, 0.80), abs=1e-6)
    assert chunks["a1"].path == ("root", "A", "a1")


def test_a_complete_traversal_did_not_converge():
    """A traversal that reaches the end of the graph is not reported as converged."""
    result = traverse(TREE, BestFirst(k=99, max_rounds=99), Propagation(), seeds=ROOT, own=OWN)
    assert (len(result.chunks), result.converged) == (12, False)


def test_the_search_starts_at_the_best_seeds():
    """Only the start_k best seeds are expanded at the start; another seed is expanded when an edge leads to it."""
    edges = [Edge("a", "a1", "c"), Edge("b", "b1", "c"), Edge("a1", "c", "c"), Edge("c", "c1", "c")]
    seeds = [("a", 0.9), ("b", 0.8), ("c", 0.7)]
    assert set(by_id(traverse(edges, BestFirst(start_k=1), HopDecay(), seeds=seeds))) == {"a", "a1", "b", "c", "c1"}


def test_the_cap_takes_the_best_children():
    """With max_nodes=3, the best three of five children are reached."""
    result = traverse(TREE, BestFirst(max_nodes=3), Propagation(), seeds=ROOT, own=OWN)
    assert ([a.id for a in result.chunks], result.capped) == (["A", "B", "C", "root"], True)


def test_energy():
    """Energy is multiplied by weight and decay at each hop: .9 · .8 · .5 = .36, and .36 · .9 · .5 = .162."""
    energies = values(traverse(EDGES, WaterCircle(), Flow()))
    assert energies == pytest.approx({"A": 0.9, "B": 0.5, "C": 0.36, "D": 0.162}, abs=1e-6)


def test_too_little_energy_is_not_reached():
    """A chunk with less energy than min_energy is not reached: .9 · .1 · .5 = .045 is less than .05."""
    energies = values(traverse([Edge("A", "x", "c", 0.1), Edge("A", "y", "c", 0.12)], WaterCircle(), HopDecay()))
    assert set(energies) == {"A", "B", "y"}
