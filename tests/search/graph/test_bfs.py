"""Breadth-first search: literal values, rings, caps, and comparisons with networkx."""

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.records import Edge
from langchain_hybridgraph.search.scores import DistanceDecay, Flow, HopDecay, Propagation, RingDecay
from langchain_hybridgraph.search.traversals import BFS
from tests.support.samples.pinned_graph import EDGES, by_id, traverse, values

PLAIN = HopDecay(score_expanded=False)


def near(expected):
    return pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("direction", "expanded_values"),
    [("out", {"C": 0.21, "D": 0.135}), ("both", {"C": 0.21, "D": 0.135, "Z": 0.126}), ("in", {"Z": 0.126})],
)
def test_hop_decay_in_each_direction(direction, expanded_values):
    """The values of SPEC: C has its best edge, in any order of edges and seeds, and Z an edge to A."""
    for edges, seeds in ((EDGES, [("A", 0.9), ("B", 0.5)]), (EDGES[::-1], [("B", 0.5), ("A", 0.9)])):
        result = values(traverse(edges, BFS(direction=direction), PLAIN, seeds=seeds))
        assert result == near({"A": 0.93, "B": 0.65} | expanded_values)


TWO_SEEDS = [Edge("s1", "m", "cites"), Edge("m", "x", "cites"), Edge("s2", "x", "cites")]
SCORES = [("s1", 1.0), ("s2", 0.491935)]


@pytest.mark.parametrize(
    ("assignment", "value", "path"), [("nearest", 0.526314, ("s2", "x")), ("best", 0.810364, ("s1", "m", "x"))]
)
def test_the_seed_of_a_chunk(assignment, value, path):
    """By default a chunk is assigned to its nearest seed, or else to the seed that gives it the highest value."""
    result = by_id(traverse(TWO_SEEDS, BFS(), DistanceDecay(assignment=assignment), seeds=SCORES))
    assert (result["x"].value, result["x"].path) == (near(value), path)


def test_the_better_of_two_equally_near_seeds_is_used():
    """A chunk that is equally near to two seeds is assigned to the one with the higher score."""
    edges = [Edge("a", "x", "cites"), Edge("b", "x", "cites")]
    result = by_id(traverse(edges, BFS(), DistanceDecay(), seeds=[("b", 0.9), ("a", 0.5)]))
    assert result["x"].path == ("b", "x")


def test_a_path_may_go_through_a_seed():
    """A seed keeps its own value, but the path of the chunk behind it starts at a better seed."""
    edges = [Edge("s1", "s2", "cites"), Edge("s2", "x", "cites")]
    result = by_id(traverse(edges, BFS(), DistanceDecay(assignment="best"), seeds=[("s1", 1.0), ("s2", 0.85)]))
    assert (result["s2"].path, result["x"].path) == (("s2",), ("s1", "s2", "x"))
    assert (result["s2"].value, result["x"].value) == near((0.7 * 0.85 + 0.3, 0.810364))


def test_ties_between_paths():
    """The shorter of two paths with equal values is used, or else the one with the smaller id."""
    edges = [Edge("b", "x", "cites", 0.5), Edge("a", "x", "cites", 0.5)]
    assert by_id(traverse(edges, BFS(), PLAIN, seeds=[("b", 0.9), ("a", 0.1)]))["x"].path == ("a", "x")
    edges = [Edge("a", "x", "cites"), Edge("a", "b", "cites"), Edge("b", "x", "cites")]
    assert by_id(traverse(edges, BFS(), RingDecay(decay=1.0), seeds=[("a", 0.5)]))["x"].path == ("a", "x")


def test_a_better_path_found_later_is_used_further_on():
    """A better path to x that is found later replaces the first one, for x and for the chunk after it."""
    edges = [Edge("a", "x", "c", 0.1), Edge("a", "m", "c"), Edge("m", "x", "c"), Edge("x", "y", "c")]
    result = by_id(traverse(edges, BFS(max_hops=3), Flow(), seeds=[("a", 0.8)]))
    assert result["x"][1:4] == (near(0.8), 2, ("a", "m", "x"))
    assert result["y"][1:4] == (near(0.8), 3, ("a", "m", "x", "y"))


def test_a_path_never_repeats_a_chunk():
    """A path never contains a chunk twice, even if a loop would increase its value."""
    edges = [Edge("a", "x", "c", 0.1), Edge("x", "y", "c"), Edge("y", "x", "c")]
    result = by_id(traverse(edges, BFS(max_hops=5), Propagation(), seeds=[("a", 0.1)], own={"x": 0.1, "y": 1.0}))
    assert (result["x"].path, result["y"].path) == (("a", "x"), ("a", "x", "y"))


def test_a_seed_can_gain_value_from_another_seed():
    """With propagation, a seed has the higher of its own value, .5, and its value as another seed's neighbour, .7."""
    result = by_id(traverse([Edge("a", "b", "c")], BFS(), Propagation(), seeds=[("a", 0.9), ("b", 0.5)]))
    assert result["b"][1:] == (near(0.7), 1, ("a", "b"), "a")


@pytest.mark.parametrize(("max_nodes", "ids", "is_capped"), [(1, "ax", True), (2, "axy", True), (3, "axyz", False)])
def test_the_cap_is_filled_ring_by_ring(max_nodes, ids, is_capped):
    """The best chunks of a ring come first, then those of the next ring; what is left out is reported as a cap."""
    edges = [Edge("a", "x", "c", 0.9), Edge("a", "y", "c", 0.1), Edge("y", "z", "c")]
    result = traverse(edges, BFS(max_nodes=max_nodes), PLAIN, seeds=[("a", 1.0)], own=None)
    assert ({a.id for a in result.chunks}, result.capped) == (set(ids), is_capped)


def test_the_frontier_is_the_best_of_a_ring():
    """With max_frontier=1, both neighbours are reached, but only the heavier one is expanded."""
    edges = [Edge("a", "x", "c", 0.9), Edge("a", "y", "c", 0.5), Edge("x", "x2", "c"), Edge("y", "y2", "c")]
    result = by_id(traverse(edges, BFS(max_frontier=1), PLAIN, seeds=[("a", 1.0)]))
    assert set(result) == {"a", "x", "y", "x2"}


def test_a_hub_passes_on_less():
    """A chunk with twice hub_degree edges passes on half of its value."""
    edges = [Edge("a", str(n), "c") for n in range(8)]
    result = values(traverse(edges, BFS(hub_degree=4), Flow(), seeds=[("a", 1.0)]))
    assert result["0"] == near(0.5)


NODES = "abcdefgh"


@given(
    st.lists(st.tuples(st.sampled_from(NODES), st.sampled_from(NODES)), max_size=25),
    st.sets(st.sampled_from(NODES), min_size=1, max_size=3),
    st.sampled_from(["out", "in", "both"]),
    st.integers(0, 5),
)
def test_distances_equal_those_of_networkx(pairs, seeds, direction, max_hops):
    """The number of hops to each chunk within max_hops equals the distance from the nearest seed in networkx."""
    edges = [Edge(a, b, "c") for a, b in pairs if a != b]
    graph = nx.DiGraph([(e.source, e.target) for e in edges])
    graph = {"out": graph, "in": graph.reverse(), "both": graph.to_undirected()}[direction]
    graph.add_nodes_from(seeds)
    result = traverse(edges, BFS(max_hops, direction=direction), DistanceDecay(), seeds=[(id, 0.5) for id in seeds])
    expected = nx.multi_source_dijkstra_path_length(graph, seeds, cutoff=max_hops)
    assert {a.id: a.hops for a in result.chunks} == expected


@given(
    st.lists(st.tuples(st.sampled_from(NODES), st.sampled_from(NODES)), max_size=25),
    st.dictionaries(st.sampled_from(NODES), st.integers(1, 20), min_size=1, max_size=4),
)
def test_best_assignment_equals_the_maximum_over_all_seeds(pairs, seeds):
    """With assignment="best", the value of a chunk is the maximum over all seeds, with distances from networkx."""
    edges = [Edge(a, b, "c") for a, b in pairs if a != b]
    graph = nx.DiGraph([(e.source, e.target) for e in edges])
    graph.add_nodes_from(seeds)
    score, best = DistanceDecay(assignment="best", tau=1.0), max(seeds.values())
    expected = {}
    for seed, own in seeds.items():
        for id, hops in nx.single_source_shortest_path_length(graph, seed, cutoff=4).items():
            value = 0.7 * own / best + 0.3 * 2.718281828459045**-hops
            expected[id] = max(expected.get(id, 0.0), value)
    result = values(traverse(edges, BFS(4), score, seeds=[(id, own / 20) for id, own in seeds.items()]))
    assert result == pytest.approx(expected)
