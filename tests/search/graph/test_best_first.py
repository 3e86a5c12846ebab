"""Best-first search over a small hierarchy."""

import math

import pytest

from langchain_hybridgraph.records import CONTAINS, Edge
from langchain_hybridgraph.search.scores import HopDecay, Propagation
from langchain_hybridgraph.search.traversals import BestFirst
from tests.support.samples.pinned_graph import by_id, traverse

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
