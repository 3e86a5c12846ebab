"""Traversals: literal values, properties of all of them, and comparisons with networkx."""

import math
from dataclasses import replace

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.records import CONTAINS, Edge, Scope
from langchain_hybridgraph.search.pagerank import PersonalizedPageRank
from langchain_hybridgraph.search.scores import DistanceDecay, Flow, HopDecay, Propagation, RingDecay
from langchain_hybridgraph.search.traversals import BFS, Beam, BestFirst, WaterCircle
from langchain_hybridgraph.stores.graph import InMemoryGraph
from tests.support.samples.pinned_graph import EDGES, by_id, traverse, values

ALL = [BFS(), Beam(), WaterCircle(), BestFirst(), PersonalizedPageRank()]
SCORES = [
    HopDecay(), DistanceDecay(), DistanceDecay(assignment="best"), Propagation(), RingDecay(), Flow(), lambda r: r.own,
]  # fmt: skip
names = {"ids": lambda each: type(each).__name__}


@pytest.mark.parametrize("traversal", ALL, **names)
@pytest.mark.parametrize("score", SCORES, **names)
def test_every_traversal_works_with_every_score(traversal, score):
    """Every traversal with every score reaches the chain from A, and the path of D follows edges."""
    chunks = by_id(traverse(EDGES, traversal, score, own={"C": 0.4, "D": 0.3}))
    assert {"A", "B", "C", "D"} == set(chunks)
    assert chunks["D"].path in {("A", "C", "D"), ("B", "C", "D")}


@pytest.fixture(scope="module")
def star():
    """Return a graph with a chunk that has 100,000 neighbours."""
    return InMemoryGraph(Edge("hub", f"{n:06}", "cites") for n in range(100_000))


@pytest.mark.parametrize("traversal", ALL, **names)
def test_a_star_of_100_000(star, traversal):
    """The cap limits 100,000 neighbours to the smallest ids; WaterCircle has too little energy to reach any."""
    graph = star.scoped_graph(Scope(), traversal.edge_filter)
    result = traversal.traverse(graph, [("hub", 1.0)], HopDecay(score_expanded=False), None)
    expanded_ids = [a.id for a in result.chunks[1:]]
    expanded_nodes = 10 if isinstance(traversal, Beam) else 0 if isinstance(traversal, WaterCircle) else 50
    assert expanded_ids == [f"{n:06}" for n in range(expanded_nodes)]


@pytest.mark.parametrize("traversal", ALL, **names)
def test_an_entity_does_not_count_as_a_hop(traversal):
    """Two chunks with a common entity are one hop apart, and paths contain only chunks."""
    edges = [Edge("a", "entity:ada", "mentions"), Edge("b", "entity:ada", "mentions")]
    chunks = traverse(edges, traversal, HopDecay(), seeds=[("a", 1.0)]).chunks
    assert [(a.id, a.hops, a.path) for a in chunks] == [("a", 0, ("a",)), ("b", 1, ("a", "b"))]


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [(BFS, {"direction": "up"}), (PersonalizedPageRank, {"damping": 1}), (PersonalizedPageRank, {"tolerance": 0})],
)
def test_unusable_parameters_are_refused(kind, wrong):
    """The error for an invalid parameter of a traversal contains the value."""
    with pytest.raises(ConfigurationError, match=r" got "):
        kind(**wrong)


NODES = "abcdefg"


@given(
    st.sampled_from(ALL),
    st.sampled_from(SCORES),
    st.sampled_from(["out", "in", "both"]),
    st.lists(st.tuples(st.sampled_from(NODES), st.sampled_from(NODES), st.floats(0.1, 1.0)), max_size=20),
    st.dictionaries(st.sampled_from(NODES + "z"), st.floats(0, 1), max_size=3),
    st.dictionaries(st.sampled_from(NODES), st.floats(-1, 1)),
    st.integers(0, 4),
)
def test_invariants(traversal, score, direction, pairs, seeds, own, max_nodes):  # noqa: PLR0917 - all drawn
    """For any graph, values are in [0, 1] and in order, paths follow edges from a seed, and max_nodes is observed."""
    edges = [Edge(a, b, "cites", weight) for a, b, weight in pairs if a != b]
    traversal = replace(traversal, direction=direction, max_nodes=max_nodes)
    chunks = traverse(edges, traversal, score, seeds=list(seeds.items()), own=own).chunks
    steps = {(e.source, e.target) for e in edges if direction != "in"}
    steps |= {(e.target, e.source) for e in edges if direction != "out"}
    assert [(-round(a.value, 12), a.id) for a in chunks] == sorted((-round(a.value, 12), a.id) for a in chunks)
    assert seeds.keys() <= {a.id for a in chunks}
    assert len(chunks) <= len(seeds) + max_nodes
    for chunk in chunks:
        assert 0 <= chunk.value <= 1
        assert len(set(chunk.path)) == len(chunk.path) == chunk.hops + 1
        assert (chunk.path[0], chunk.path[-1]) == (chunk.seed, chunk.id)
        assert chunk.seed in seeds
        assert set(zip(chunk.path, chunk.path[1:], strict=False)) <= steps


FAR = [
    BFS(max_hops=7, hub_degree=None),
    Beam(max_hops=7, width=100, hub_degree=None),
    WaterCircle(max_hops=7, min_energy=0.0, hub_degree=None),
    BestFirst(max_rounds=1_000, start_k=10, k=100, hub_degree=None),
    PersonalizedPageRank(tolerance=1e-9, hub_degree=None),
]
some_arcs = st.dictionaries(
    st.tuples(st.sampled_from(NODES), st.sampled_from(NODES)).filter(lambda ends: ends[0] != ends[1]),
    st.floats(0.1, 1.0),
    max_size=14,
)


@given(st.sampled_from(FAR), some_arcs, st.dictionaries(st.sampled_from(NODES), st.floats(0.1, 1), min_size=1))
def test_reached_chunks_equal_those_of_networkx(traversal, arcs, seeds):
    """Without caps, the reached chunks are the seeds and their descendants in networkx."""
    graph = nx.DiGraph(list(arcs))
    there = seeds.keys() | {node for seed in seeds if seed in graph for node in nx.descendants(graph, seed)}
    edges = [Edge(*ends, "cites", weight) for ends, weight in arcs.items()]
    assert by_id(traverse(edges, traversal, RingDecay(min_energy=0.0), seeds=list(seeds.items()))).keys() == there


@given(some_arcs, st.dictionaries(st.sampled_from(NODES), st.floats(0.1, 1), min_size=1))
def test_the_energy_equals_that_of_the_shortest_path_of_networkx(arcs, seeds):
    """WaterCircle's energy at a chunk is that of networkx's shortest path over logarithms of weights and decay."""
    graph = nx.DiGraph()
    graph.add_nodes_from(seeds)
    graph.add_weighted_edges_from((*ends, -math.log(weight * 0.5)) for ends, weight in arcs.items())
    graph.add_weighted_edges_from(("source", seed, -math.log(score)) for seed, score in seeds.items())
    lightest = nx.single_source_dijkstra_path_length(graph, "source")
    edges = [Edge(*ends, "cites", weight) for ends, weight in arcs.items()]
    chunks = traverse(edges, FAR[2], Flow(), seeds=list(seeds.items())).chunks
    expected = {node: math.exp(-length) for node, length in lightest.items() if node != "source"}
    assert {a.id: a.value for a in chunks} == pytest.approx(expected)


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
SEED_SCORES = [("s1", 1.0), ("s2", 0.491935)]


@pytest.mark.parametrize(
    ("assignment", "value", "path"), [("nearest", 0.526314, ("s2", "x")), ("best", 0.810364, ("s1", "m", "x"))]
)
def test_the_seed_of_a_chunk(assignment, value, path):
    """By default a chunk is assigned to its nearest seed, or else to the seed that gives it the highest value."""
    result = by_id(traverse(TWO_SEEDS, BFS(), DistanceDecay(assignment=assignment), seeds=SEED_SCORES))
    assert (result["x"].value, result["x"].path) == (near(value), path)


def test_the_better_of_two_equally_near_seeds_is_used():
    """A chunk that is equally near to two seeds is assigned to the one with the higher score."""
    edges = [Edge("a", "x", "cites"), Edge("b", "x", "cites")]
    assert by_id(traverse(edges, BFS(), DistanceDecay(), seeds=[("b", 0.9), ("a", 0.5)]))["x"].path == ("b", "x")


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


def test_a_chunk_with_two_paths_counts_once():
    """Two paths to one chunk use up one place of max_nodes."""
    edges = [Edge("a", "x", "c", 0.9), Edge("b", "x", "c", 0.8), Edge("a", "y", "c", 0.1)]
    result = traverse(edges, BFS(max_nodes=2), PLAIN, seeds=[("a", 1.0), ("b", 0.9)], own=None)
    assert {a.id for a in result.chunks} == set("abxy")


def test_the_frontier_is_the_best_of_a_ring():
    """With max_frontier=1, both neighbours are reached, but only the heavier one is expanded."""
    edges = [Edge("a", "x", "c", 0.9), Edge("a", "y", "c", 0.5), Edge("x", "x2", "c"), Edge("y", "y2", "c")]
    assert set(by_id(traverse(edges, BFS(max_frontier=1), PLAIN, seeds=[("a", 1.0)]))) == {"a", "x", "y", "x2"}


def test_a_hub_passes_on_less():
    """A chunk with twice hub_degree edges passes on half of its value."""
    edges = [Edge("a", str(n), "c") for n in range(8)]
    assert values(traverse(edges, BFS(hub_degree=4), Flow(), seeds=[("a", 1.0)]))["0"] == near(0.5)


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
            expected[id] = max(expected.get(id, 0.0), 0.7 * own / best + 0.3 * 2.718281828459045**-hops)
    result = values(traverse(edges, BFS(4), score, seeds=[(id, own / 20) for id, own in seeds.items()]))
    assert result == pytest.approx(expected)


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
