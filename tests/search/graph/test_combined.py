"""Evidence from one hop combined with a traversal of further hops."""

import pytest

from langchain_hybridgraph.records import Edge, Scope
from langchain_hybridgraph.search.evidence import CombinedTraversal, LinkEvidence
from langchain_hybridgraph.search.scores import NoisyOr
from langchain_hybridgraph.search.traversals import BFS, WaterCircle
from langchain_hybridgraph.stores.graph import InMemoryGraph

EDGES = [Edge("a", "b", "cites"), Edge("b", "c", "cites"), Edge("c", "d", "cites"), Edge("d", "e", "cites")]


def traverse(traversal, seeds=(("a", 1.0),)):
    graph = InMemoryGraph(EDGES).scoped_graph(Scope(), traversal.edge_filter)
    return {chunk.id: chunk for chunk in traversal.traverse(graph, list(seeds), NoisyOr(), None).chunks}


def test_a_combined_traversal_reaches_as_far_as_its_second_part():
    """Evidence reaches one hop; a combined traversal also reaches the chunks of its second traversal."""
    assert set(traverse(LinkEvidence())) == {"a", "b"}
    assert set(traverse(CombinedTraversal(beyond=WaterCircle(max_hops=3, direction="both")))) == set("abcd")
    assert set(traverse(CombinedTraversal(beyond=BFS(max_hops=2, direction="both")))) == set("abc")


def test_a_chunk_has_the_better_of_both_values():
    """A chunk that evidence and traversal both reach has the higher of the two values."""
    combined, evidence, ring = (
        traverse(one) for one in (CombinedTraversal(), LinkEvidence(), WaterCircle(direction="both"))
    )
    assert evidence.keys() | ring.keys() >= set("bcd")
    for id in "bcd":
        assert combined[id].value == max(other[id].value for other in (evidence, ring) if id in other)


@pytest.mark.parametrize(("sources", "expected"), [(1, {"b"}), (2, {"b", "c", "e"})])
def test_the_second_part_starts_at_the_best_seeds(sources, expected):
    """With sources=1, only the neighbours of the best seed are reached."""
    combined = CombinedTraversal(LinkEvidence(sources=sources), BFS(max_hops=1, direction="both"))
    chunks = traverse(combined, [("d", 0.5), ("a", 0.9)])
    assert {id for id, chunk in chunks.items() if chunk.hops} == expected


def test_a_seed_is_not_evidence_for_itself():
    """A seed without evidence from other chunks has the value 0."""
    assert traverse(CombinedTraversal(), [("e", 0.9), ("a", 0.5)])["a"].value == 0.0
