"""Breadth-first search: the pins, rings, caps, and distances as networkx finds them."""

from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.query.graph import BFS
from langchain_hybridgraph.query.graph.scores import DistanceDecay, Flow, HopDecay, Propagation, RingDecay
from langchain_hybridgraph.records import Edge
from tests.support.samples.pinned_graph import EDGES, by_id, values, walked

PLAIN = HopDecay(score_expanded=False)


def near(expected):
    return pytest.approx(expected, abs=1e-6)


def test_hop_decay():
    """C has the value of its best edge, D that of its last edge at two hops."""
    assert values(walked(EDGES, BFS(), PLAIN)) == near({"A": 0.93, "B": 0.65, "C": 0.21, "D": 0.135})


def test_both_directions():
    """Z, which has an edge to A, is reached backwards."""
    result = values(walked(EDGES, BFS(direction="both"), PLAIN))
    assert result == near({"A": 0.93, "B": 0.65, "C": 0.21, "D": 0.135, "Z": 0.126})


def test_back_only():
    """Only Z is reached along incoming edges."""
    assert values(walked(EDGES, BFS(direction="in"), PLAIN)) == near({"A": 0.93, "B": 0.65, "Z": 0.126})


def test_min_weight():
    """With .85 the edge from A does not exist: C comes from B."""
    result = by_id(walked(EDGES, BFS(min_weight=0.85), RingDecay()))
    assert (result["C"].value, result["C"].path) == (near(0.25), ("B", "C"))


def test_no_seed_bonus():
    """Seeds have their own part only."""
    result = values(walked(EDGES, BFS(), HopDecay(seed_bonus=False, score_expanded=False)))
    assert (result["A"], result["B"]) == near((0.63, 0.35))


def test_ring_decay():
    """The path to C with more energy goes through A."""
    result = by_id(walked(EDGES, BFS(), RingDecay()))
    assert (result["C"].value, result["D"].value) == near((0.36, 0.162))
    assert result["D"].path == ("A", "C", "D")


def test_the_best_edge_counts_in_either_order():
    """Neither the order of the edges nor that of the seeds hides the better edge."""
    result = by_id(walked(EDGES[::-1], BFS(), PLAIN, seeds=[("B", 0.5), ("A", 0.9)]))
    assert result["C"].path == ("B", "C")


TWO_SEEDS = [Edge("s1", "m", "cites"), Edge("m", "x", "cites"), Edge("s2", "x", "cites")]
SCORES = [("s1", 1.0), ("s2", 0.491935)]


def test_the_nearest_seed():
    """x is assigned to s2, one edge away, although s1 would give it a higher value."""
    result = by_id(walked(TWO_SEEDS, BFS(), DistanceDecay(), seeds=SCORES))
    assert (result["x"].value, result["x"].path) == (near(0.526314), ("s2", "x"))


def test_the_best_seed():
    """x is assigned to s1, two edges away."""
    result = by_id(walked(TWO_SEEDS, BFS(), DistanceDecay(assignment="best"), seeds=SCORES))
    assert (result["x"].value, result["x"].path) == (near(0.810364), ("s1", "m", "x"))


def test_the_better_of_two_equally_near_seeds_counts():
    """Both seeds are one edge away."""
    edges = [Edge("a", "x", "cites"), Edge("b", "x", "cites")]
    result = by_id(walked(edges, BFS(), DistanceDecay(), seeds=[("b", 0.9), ("a", 0.5)]))
    assert result["x"].path == ("b", "x")


def test_a_better_seed_behind_a_seed_counts_further_out():
    """s2 has a higher value as a seed, and the chunk after it a higher value through s1: its path goes through s2."""
    edges = [Edge("s1", "s2", "cites"), Edge("s2", "x", "cites")]
    result = by_id(walked(edges, BFS(), DistanceDecay(assignment="best"), seeds=[("s1", 1.0), ("s2", 0.85)]))
    assert (result["s2"].path, result["x"].path) == (("s2",), ("s1", "s2", "x"))
    assert (result["s2"].value, result["x"].value) == near((0.7 * 0.85 + 0.3, 0.810364))


def test_ties_between_paths_are_broken_by_id():
    """Two edges have equal weights at the same hop; the smaller id wins."""
    edges = [Edge("b", "x", "cites", 0.5), Edge("a", "x", "cites", 0.5)]
    assert by_id(walked(edges, BFS(), PLAIN, seeds=[("b", 0.9), ("a", 0.1)]))["x"].path == ("a", "x")


def test_the_shorter_path_wins_ties():
    """Energy without decay over weights of 1 keeps the path of the first ring."""
    edges = [Edge("a", "x", "cites"), Edge("a", "b", "cites"), Edge("b", "x", "cites")]
    assert by_id(walked(edges, BFS(), RingDecay(decay=1.0), seeds=[("a", 0.5)]))["x"].path == ("a", "x")


def test_a_better_path_that_comes_later_counts_on():
    """x is reached by a light edge first and by a heavy path through m later; the chunk after x has the heavy path."""
    edges = [Edge("a", "x", "c", 0.1), Edge("a", "m", "c"), Edge("m", "x", "c"), Edge("x", "y", "c")]
    result = by_id(walked(edges, BFS(max_hops=3), Flow(), seeds=[("a", 0.8)]))
    assert result["x"][1:4] == (near(0.8), 2, ("a", "m", "x"))
    assert result["y"][1:4] == (near(0.8), 3, ("a", "m", "x", "y"))


def test_a_path_never_repeats_a_chunk():
    """A better path to x goes through y, but y was reached through x: no path contains a chunk twice."""
    edges = [Edge("a", "x", "c", 0.1), Edge("x", "y", "c"), Edge("y", "x", "c")]
    result = by_id(walked(edges, BFS(max_hops=5), Propagation(), seeds=[("a", 0.1)], own={"x": 0.1, "y": 1.0}))
    assert (result["x"].path, result["y"].path) == (("a", "x"), ("a", "x", "y"))


def test_a_seed_that_another_seed_makes_better():
    """By propagation b has .7 as a's neighbour, and .5 alone."""
    result = by_id(walked([Edge("a", "b", "c")], BFS(), Propagation(), seeds=[("a", 0.9), ("b", 0.5)]))
    assert result["b"][1:] == (near(0.7), 1, ("a", "b"), "a")


def test_the_cap_keeps_the_best_and_says_so():
    """The two heaviest of three neighbours are kept; the seed does not count."""
    edges = [Edge("a", id, "c", weight) for id, weight in (("x", 0.3), ("y", 0.9), ("z", 0.6))]
    walk = walked(edges, BFS(max_nodes=2), PLAIN, seeds=[("a", 1.0)])
    assert ([a.id for a in walk.chunks], walk.capped) == (["a", "y", "z"], True)


def test_the_cap_is_filled_ring_by_ring():
    """The first ring takes precedence over the second, however good that is; chunks left out are not expanded."""
    edges = [Edge("a", "x", "c", 0.9), Edge("a", "y", "c", 0.1), Edge("y", "z", "c")]
    walk = walked(edges, BFS(max_nodes=1), PLAIN, seeds=[("a", 1.0)], own=None)
    assert ([a.id for a in walk.chunks], walk.capped) == (["a", "x"], True)


def test_a_cap_that_fits_is_none():
    """A cap equal to the number of chunks does not set ``capped``."""
    walk = walked(EDGES, BFS(max_nodes=2), PLAIN)
    assert ({a.id for a in walk.chunks}, walk.capped) == ({"A", "B", "C", "D"}, False)


def test_no_hops_and_many():
    """0 hops reach the seeds only; 50 reach the end of a line and no further."""
    line = [Edge(f"{n:02}", f"{n + 1:02}", "next") for n in range(60)]
    assert [a.id for a in walked(line, BFS(max_hops=0), PLAIN, seeds=[("00", 1.0)]).chunks] == ["00"]
    far = walked(line, BFS(max_hops=50, max_nodes=99), PLAIN, seeds=[("00", 1.0)])
    assert sorted(a.hops for a in far.chunks) == list(range(51))


def test_the_frontier_is_the_best_of_a_ring():
    """Both neighbours are reached, and only the heavier one is expanded."""
    edges = [Edge("a", "x", "c", 0.9), Edge("a", "y", "c", 0.5), Edge("x", "x2", "c"), Edge("y", "y2", "c")]
    result = by_id(walked(edges, BFS(max_frontier=1), PLAIN, seeds=[("a", 1.0)]))
    assert set(result) == {"a", "x", "y", "x2"}


def test_a_hub_passes_on_less():
    """A chunk with twice hub_degree edges passes on half."""
    edges = [Edge("a", str(n), "c") for n in range(8)]
    result = values(walked(edges, BFS(hub_degree=4), Flow(), seeds=[("a", 1.0)]))
    assert result["0"] == near(0.5)


NODES = "abcdefgh"


@given(
    st.lists(st.tuples(st.sampled_from(NODES), st.sampled_from(NODES)), max_size=25),
    st.sets(st.sampled_from(NODES), min_size=1, max_size=3),
    st.sampled_from(["out", "in", "both"]),
    st.integers(0, 5),
)
def test_distances_are_those_of_networkx(pairs, seeds, direction, max_hops):
    """The nearest seed's distance, for all within max_hops."""
    edges = [Edge(a, b, "c") for a, b in pairs if a != b]
    graph = nx.DiGraph([(e.source, e.target) for e in edges])
    graph = {"out": graph, "in": graph.reverse(), "both": graph.to_undirected()}[direction]
    graph.add_nodes_from(seeds)
    walk = walked(edges, BFS(max_hops, direction=direction), DistanceDecay(), seeds=[(id, 0.5) for id in seeds])
    expected = nx.multi_source_dijkstra_path_length(graph, seeds, cutoff=max_hops)
    assert {a.id: a.hops for a in walk.chunks} == expected


@given(
    st.lists(st.tuples(st.sampled_from(NODES), st.sampled_from(NODES), st.integers(1, 10)), max_size=25),
    st.dictionaries(st.sampled_from(NODES), st.integers(1, 10), min_size=1, max_size=3),
)
def test_the_best_energy_is_that_of_all_simple_paths(pairs, seeds):
    """Against every simple path that networkx lists."""
    edges = list({(a, b): Edge(a, b, "c", weight / 10) for a, b, weight in pairs if a != b}.values())
    graph = nx.DiGraph()
    graph.add_nodes_from(seeds)
    graph.add_weighted_edges_from((e.source, e.target, e.weight) for e in edges)
    expected = {id: score / 10 for id, score in seeds.items()}
    for seed, score in seeds.items():
        for target in graph.nodes - {seed}:
            for path in nx.all_simple_paths(graph, seed, target, cutoff=3):
                energy = score / 10
                for step in pairwise(path):
                    energy *= graph.edges[step]["weight"] * 0.5
                expected[target] = max(expected.get(target, 0.0), energy)
    scored = [(id, score / 10) for id, score in seeds.items()]
    assert values(walked(edges, BFS(3), RingDecay(min_energy=0), seeds=scored)) == pytest.approx(expected)


@given(
    st.lists(st.tuples(st.sampled_from(NODES), st.sampled_from(NODES)), max_size=25),
    st.dictionaries(st.sampled_from(NODES), st.integers(1, 20), min_size=1, max_size=4),
)
def test_the_best_assignment_is_the_best_of_all_seeds(pairs, seeds):
    """Against each seed's distances, as networkx finds them."""
    edges = [Edge(a, b, "c") for a, b in pairs if a != b]
    graph = nx.DiGraph([(e.source, e.target) for e in edges])
    graph.add_nodes_from(seeds)
    score, best = DistanceDecay(assignment="best", tau=1.0), max(seeds.values())
    expected = {}
    for seed, own in seeds.items():
        for id, hops in nx.single_source_shortest_path_length(graph, seed, cutoff=4).items():
            value = 0.7 * own / best + 0.3 * 2.718281828459045**-hops
            expected[id] = max(expected.get(id, 0.0), value)
    result = values(walked(edges, BFS(4), score, seeds=[(id, own / 20) for id, own in seeds.items()]))
    assert result == pytest.approx(expected)
