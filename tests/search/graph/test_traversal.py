"""Properties of all traversals."""

import math
from dataclasses import fields, replace

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.records import Edge, Scope
from langchain_hybridgraph.search.evidence import LinkEvidence
from langchain_hybridgraph.search.pagerank import PersonalizedPageRank
from langchain_hybridgraph.search.scores import DistanceDecay, Flow, HopDecay, Propagation, RingDecay
from langchain_hybridgraph.search.traversals import BFS, Beam, BestFirst, WaterCircle
from langchain_hybridgraph.stores.graph import InMemoryGraph
from tests.support.samples.pinned_graph import EDGES, by_id, traverse

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


@pytest.mark.parametrize("traversal", ALL, **names)
def test_a_seed_that_is_not_in_the_graph_is_returned(traversal):
    """A seed that is not in the graph is returned with its own value, and its path is its own id."""
    chunks = by_id(traverse(EDGES, traversal, HopDecay(), seeds=[("nowhere", 0.9), ("B", 0.5)]))
    assert chunks["nowhere"][1:] == (pytest.approx(0.93), 0, ("nowhere",), "nowhere")
    assert chunks["C"].path == ("B", "C")


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


@pytest.mark.parametrize("traversal", [*ALL, LinkEvidence()], **names)
def test_negative_parameters_are_refused(traversal):
    """Every number among the parameters of a traversal is refused if it is negative."""
    numbers = [each.name for each in fields(traversal) if isinstance(getattr(traversal, each.name), int | float)]
    assert {"min_weight", "max_nodes"} < set(numbers)
    for name in numbers:
        with pytest.raises(ConfigurationError, match=f"{name} must be .*, got -1"):
            replace(traversal, **{name: -1})


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (BFS, {"max_hops": 1.5}),
        (BFS, {"max_frontier": 0}),
        (BFS, {"direction": "up"}),
        (BFS, {"relations": "cites"}),
        (BFS, {"min_weight": "a"}),
        (Beam, {"width": 0}),
        (WaterCircle, {"ring_decay": 2}),
        (BestFirst, {"k": 0}),
        (PersonalizedPageRank, {"damping": 1}),
        (PersonalizedPageRank, {"tolerance": 0}),
    ],
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
