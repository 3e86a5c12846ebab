"""Personalized PageRank: literal values, caps and comparisons with networkx."""

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.records import MENTIONS, Edge
from langchain_hybridgraph.search.pagerank import PersonalizedPageRank
from langchain_hybridgraph.search.scores import DistanceDecay, Flow, PathFeatures
from tests.support.samples.pinned_graph import by_id, traverse, values

NODES = "abcdefgh"
ENTITIES = ["entity:x", "entity:y"]


def exact(damping=0.5, **settings):
    return PersonalizedPageRank(damping, rarity=0, tolerance=1e-13, hub_degree=None, max_nodes=99, **settings)


def test_a_rare_entity_passes_more():
    """With rarity, a chunk that shares a rare entity with the seed gets more mass than one that shares a common
    entity.
    """
    edges = [Edge("a", "entity:rare", MENTIONS), Edge("r", "entity:rare", MENTIONS)]
    edges += [Edge(id, "entity:common", MENTIONS) for id in "abcdefg"]
    flat = values(traverse(edges, exact(), Flow(), seeds=[("a", 1.0)]))
    damped = values(traverse(edges, PersonalizedPageRank(rarity=1.0), Flow(), seeds=[("a", 1.0)]))
    assert damped["r"] > flat["r"] > flat["b"] > damped["b"]


def test_a_hub_passes_on_less():
    """A chunk with eight edges passes on half of its mass if hub_degree is four."""
    edges = [Edge("a", str(n), "c") for n in range(8)]
    masses = values(traverse(edges, PersonalizedPageRank(hub_degree=4), Flow(), seeds=[("a", 1.0)]))
    assert masses["0"] == pytest.approx(0.5 * 0.5 / 8)


def test_the_path_carries_the_largest_mass():
    """The path to a chunk is the one with the largest mass: two heavy edges instead of one light edge."""
    edges = [Edge("a", "x", "c", 0.1), Edge("a", "m", "c", 1.0), Edge("m", "x", "c", 1.0)]
    assert by_id(traverse(edges, exact(0.8), Flow(), seeds=[("a", 1.0)]))["x"].path == ("a", "m", "x")


def test_ties_between_masses_are_broken_by_id():
    """If two paths have equal mass, the one with the smaller id is used."""
    edges = [Edge("s", "b", "c"), Edge("s", "a", "c"), Edge("b", "x", "c"), Edge("a", "x", "c")]
    assert by_id(traverse(edges, exact(), Flow(), seeds=[("s", 1.0)]))["x"].path == ("s", "a", "x")


def test_the_features_that_a_score_receives():
    """A score receives hops and weights between chunks, with the weights through an entity multiplied, and the
    previous value.
    """
    received = {}

    def listening(features):
        received[int(features.hops[0])] = PathFeatures._make(a if isinstance(a, float) else a[0] for a in features)
        return 0.5 / (1 + features.hops)

    edges = [Edge("a", "entity:x", MENTIONS, 0.5), Edge("b", "entity:x", MENTIONS, 0.4), Edge("b", "c", "cites", 0.3)]
    traverse(edges, exact(), listening, seeds=[("a", 0.8)], own={"c": 0.7})
    last = received[2]
    assert (last.seed, last.best_seed, last.hops, last.previous_value, last.own) == (0.8, 0.8, 2, 0.25, 0.7)
    assert (last.weight, last.product) == pytest.approx((0.3, 0.06))


def test_an_entity_as_a_seed():
    """Paths from a seed that is an entity start at the chunks that mention it, and the entity itself is not
    returned.
    """
    edges = [Edge("a", "entity:x", MENTIONS), Edge("a", "b", "cites")]
    masses = traverse(edges, exact(), DistanceDecay(), seeds=[("entity:x", 0.8)]).chunks
    assert [(a.id, round(a.value, 6), a.path) for a in masses] == [("a", 1.0, ("a",)), ("b", 0.881959, ("a", "b"))]
    assert {a.seed for a in masses} == {"entity:x"}


def test_an_exceeded_bound_is_reported():
    """Chunks beyond max_touched are not reached, and the result is reported as capped."""
    edges = [Edge("a", "b", "c"), *(Edge("b", str(n), "c") for n in range(50))]
    result = traverse(edges, PersonalizedPageRank(max_touched=10), Flow(), seeds=[("a", 1.0)])
    assert ([a.id for a in result.chunks], result.capped) == (["a", "b"], True)
    assert not traverse(edges, PersonalizedPageRank(), Flow(), seeds=[("a", 1.0)]).capped


@given(
    st.lists(st.tuples(st.sampled_from(NODES), st.sampled_from(NODES), st.floats(0.1, 1.0)), max_size=25),
    st.lists(st.tuples(st.sampled_from(NODES), st.sampled_from(ENTITIES), st.floats(0.1, 1.0)), max_size=8),
    st.dictionaries(st.sampled_from(NODES), st.floats(0.1, 1.0), min_size=1, max_size=3),
    st.sampled_from(["out", "in", "both"]),
    st.sampled_from([0.2, 0.5, 0.85]),
)
def test_masses_equal_those_of_networkx(pairs, mentions, seeds, direction, damping):
    """The masses of chunks, relative to the largest, equal those of networkx in a graph of chunks and entities."""
    edges = list({(a, b): Edge(a, b, "c", weight) for a, b, weight in pairs if a != b}.values())
    mentions = list({(a, e): Edge(a, e, MENTIONS, weight) for a, e, weight in mentions}.values())
    graph = nx.DiGraph()
    graph.add_nodes_from(seeds)
    steps = [(e.source, e.target, e.weight) for e in edges if direction != "in"]
    steps += [(e.target, e.source, e.weight) for e in edges if direction != "out"]
    steps += [step for e in mentions for step in ((e.source, e.target, e.weight), (e.target, e.source, e.weight))]
    for source, target, weight in steps:
        heaviest = graph.get_edge_data(source, target, {"weight": 0.0})["weight"]
        graph.add_edge(source, target, weight=max(heaviest, weight))
    ranks = nx.pagerank(graph, damping, personalization=seeds, tol=1e-13, max_iter=1000)
    chunks = {id: rank for id, rank in ranks.items() if id not in ENTITIES and rank > 1e-9}
    expected = {id: rank / max(chunks.values()) for id, rank in chunks.items()}
    result = traverse(edges + mentions, exact(damping, direction=direction), Flow(), seeds=list(seeds.items()))
    assert {id: value for id, value in values(result).items() if value > 1e-8} == pytest.approx(expected, abs=1e-6)
