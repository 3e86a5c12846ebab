"""Graph whose edges are kept in memory."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding

from langchain_hybridgraph.adapters.any_store import VectorStoreAdapter
from langchain_hybridgraph.adapters.keyword_index import DocumentIndex
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.filters.expressions import parse_filter
from langchain_hybridgraph.records import MENTIONS, Edge, EdgeFilter, Scope
from langchain_hybridgraph.stores.graph import InMemoryGraph
from langchain_hybridgraph.stores.protocols import HasGraph, implements

MENTIONED = [
    Edge("a", "entity:ada", MENTIONS, 0.5),
    Edge("b", "entity:ada", MENTIONS, 0.8),
    Edge("a", "c", "cites", 0.3),
]


def neighbours(graph, id):
    """Return (id, weight, entity in between) for all nodes one hop away."""
    hops = graph.neighbours(graph.nodes([id]))
    via = [graph.ids(np.array([node]))[0] if node >= 0 else None for node in hops.via.tolist()]
    return sorted(zip(graph.ids(hops.node), hops.weight.round(9).tolist(), via, strict=True))


def links(graph, id):
    hops = graph.links(graph.nodes([id]))
    return sorted(zip(graph.ids(hops.node), hops.weight.tolist(), strict=True))


def opened(edges, *, as_of=None, visible=None, **ways):
    return InMemoryGraph(edges, visible=visible).scoped_graph(Scope(as_of=as_of), EdgeFilter(**ways))


def test_a_store_with_an_edge_has_a_graph():
    """has_graph is true as soon as the store has an edge."""
    store = InMemoryGraph()
    assert implements(store, HasGraph)
    assert not store.has_graph
    store.add([Edge("a", "b", "cites")])
    assert (store.has_graph, len(store)) == (True, 1)


def test_chunks_one_hop_away():
    """Chunks are one hop apart through an edge, or through a shared entity with the product of both weights."""
    assert neighbours(opened(MENTIONED), "a") == [("b", 0.4, "entity:ada"), ("c", 0.3, None)]


def test_links_are_the_edges_themselves():
    """Links lead from a chunk to chunks and entities, and from an entity to the chunks that mention it."""
    graph = opened(MENTIONED)
    assert links(graph, "a") == [("c", 0.3), ("entity:ada", 0.5)]
    assert links(graph, "entity:ada") == [("a", 0.5), ("b", 0.8)]


@pytest.mark.parametrize(("direction", "expected"), [("out", ["c"]), ("in", ["z"]), ("both", ["c", "z"])])
def test_direction(direction, expected):
    """Edges are traversed from source to target, in reverse, or both, depending on the direction."""
    graph = opened([Edge("a", "c", "cites"), Edge("z", "a", "cites")], direction=direction)
    assert [id for id, _, _ in neighbours(graph, "a")] == expected


def test_entities_are_shared_in_every_direction():
    """Chunks that mention the same entity are neighbours in every direction."""
    assert [id for id, _, _ in neighbours(opened(MENTIONED, direction="in"), "a")] == ["b"]


def test_relations_and_weight():
    """Edges with another relation or too small a weight are not traversed."""
    assert neighbours(opened(MENTIONED, relations=frozenset({"cites"})), "a") == [("c", 0.3, None)]
    assert neighbours(opened(MENTIONED, min_weight=0.5), "a") == [("b", 0.4, "entity:ada")]
    assert neighbours(opened(MENTIONED, relations=frozenset({"unknown"})), "a") == []


@pytest.mark.parametrize(("as_of", "expected"), [(9.0, []), (10.0, ["b"]), (20.0, ["b"]), (21.0, []), (None, ["b"])])
def test_an_edge_has_its_time(as_of, expected):
    """An edge is traversed from valid_from until valid_until, both included; without as_of it always is."""
    graph = opened([Edge("a", "b", "cites", valid_from=10.0, valid_until=20.0)], as_of=as_of)
    assert [id for id, _, _ in neighbours(graph, "a")] == expected


def test_hidden_chunks_are_not_reached():
    """A hidden chunk is neither a node nor a neighbour, not even through an entity."""
    graph = opened(MENTIONED, visible=lambda ids, scope: {id for id in ids if id != "b"})
    assert neighbours(graph, "a") == [("c", 0.3, None)]
    assert links(graph, "entity:ada") == [("a", 0.5)]
    assert graph.nodes(["b", "nowhere"]).tolist() == [-1, -1]


def test_a_chunk_is_requested_once():
    """The visibility of each chunk is looked up once per graph."""
    lookups = []

    def visible(ids, scope):
        lookups.extend(ids)
        return ids

    graph = opened(MENTIONED, visible=visible)
    neighbours(graph, "a")
    links(graph, "a")
    assert sorted(lookups) == ["a", "b", "c"]


def test_the_heavier_of_two_equal_edges_is_kept():
    """The heavier of two equal edges is kept with its description, in either order."""
    light, heavy = Edge("a", "b", "cites", 0.3, "light"), Edge("a", "b", "cites", 0.7, "heavy")
    for edges in ([light, heavy], [heavy, light]):
        assert opened(edges).edges([("a", "b")]) == [heavy]


def test_parallel_edges_are_one_hop():
    """Edges of several relations between two chunks are one hop, with the largest weight."""
    edges = [Edge("a", "b", "cites", 0.3), Edge("a", "b", "supports", 0.6), Edge("b", "a", "cites", 0.4)]
    assert neighbours(opened(edges, direction="both"), "a") == [("b", 0.6, None)]


def test_the_rarest_of_equally_heavy_entities_is_used():
    """A hop goes through the shared entity with the fewest mentions if their weights are equal."""
    edges = [Edge(chunk, entity, MENTIONS) for chunk in "ab" for entity in ("entity:x", "entity:y")]
    edges.append(Edge("c", "entity:y", MENTIONS))
    assert neighbours(opened(edges), "a")[0] == ("b", 1.0, "entity:x")


def test_weights_at_hubs_are_divided():
    """With hub_degree 2, hops at a node or entity of degree 4 have half their weight; links keep theirs."""
    edges = [Edge("hub", str(n), "cites") for n in range(4)]
    assert neighbours(opened(edges, hub_degree=2), "hub")[0] == ("0", 0.5, None)
    mentions = [Edge(str(n), "entity:e", MENTIONS) for n in range(4)]
    assert neighbours(opened(mentions, hub_degree=2), "0")[0] == ("1", 0.5, "entity:e")
    assert links(opened(edges, hub_degree=2), "hub")[0] == ("0", 1.0)


def test_a_chunk_that_is_mentioned_is_a_chunk():
    """A mentioned node with outgoing edges is a chunk, not an entity."""
    graph = opened([Edge("a", "b", MENTIONS), Edge("b", "c", "cites")])
    assert graph.is_chunk(graph.nodes(["a", "b", "c"])).tolist() == [True, True, True]
    assert neighbours(graph, "a") == [("b", 1.0, None)]


def test_degrees_count_every_edge():
    """Degrees count all edges, regardless of the filter."""
    graph = opened(MENTIONED, relations=frozenset({"none"}))
    assert graph.degrees(graph.nodes(["a", "b", "entity:ada"])).tolist() == [2, 1, 2]


def test_the_length_of_a_graph_is_its_number_of_chunks():
    """The length of a graph is its number of chunks, without entities."""
    assert len(opened(MENTIONED)) == 3


def test_the_steps_of_paths():
    """A step has its heaviest stored edge, both mentions of the shared entity, or None."""
    graph = opened([*MENTIONED, Edge("a", "c", "supports", 0.2)], direction="both")
    assert graph.edges([("a", "c"), ("c", "a"), ("b", "a"), ("b", "c"), ("a", "nowhere")]) == [
        MENTIONED[2],
        MENTIONED[2],
        (MENTIONED[1], MENTIONED[0]),
        None,
        None,
    ]


def test_removing_takes_all_edges_of_a_chunk():
    """Removing a chunk removes and counts its edges in both directions, and does not change an open graph."""
    store = InMemoryGraph([Edge("a", "b", "cites"), Edge("b", "c", "cites"), Edge("c", "a", "cites")])
    before = store.scoped_graph(Scope(), EdgeFilter())
    assert (store.remove(["b", "nowhere"]), len(store)) == (2, 1)
    after = store.scoped_graph(Scope(), EdgeFilter())
    assert (neighbours(before, "a"), neighbours(after, "c")) == ([("b", 1.0, None)], [("a", 1.0, None)])
    assert after.nodes(["b"]).tolist() == [-1]


def test_relations_of_present_edges_are_listed():
    """The relations of all present edges are listed, regardless of the filter."""
    graph = InMemoryGraph([Edge("a", "b", "cites"), Edge("b", "c", "likes")])
    assert graph.scoped_graph(Scope(), EdgeFilter(relations=frozenset({"likes"}))).relations == {"cites", "likes"}
    graph.remove(["c"])
    assert graph.scoped_graph(Scope(), EdgeFilter()).relations == {"cites"}


def test_an_edge_can_come_back():
    """A removed edge can be added again with another weight."""
    store = InMemoryGraph([Edge("a", "b", "cites", 0.9), Edge("b", "c", "cites")])
    store.remove(["a"])
    store.add([Edge("a", "b", "cites", 0.2)])
    assert neighbours(store.scoped_graph(Scope(), EdgeFilter()), "a") == [("b", 0.2, None)]


def test_cosines_come_from_the_store():
    """Cosines come from the store, and are NaN for ids without a vector or a graph without a store."""
    edges = [Edge("a", "b", "cites")]
    graph = InMemoryGraph(edges, cosines=lambda vector, ids: {"a": 0.5}).scoped_graph(Scope(), EdgeFilter())
    nodes = graph.nodes(["a", "b"])
    assert graph.cosines(np.ones(2, np.float32), nodes).tolist() == pytest.approx([0.5, math.nan], nan_ok=True)
    assert np.isnan(opened(edges).cosines(np.ones(2, np.float32), nodes)).all()


def test_a_plain_store_decides_visibility():
    """The filter of a plain vector store applies to every hop, and its vectors give the cosines."""
    embeddings = DeterministicFakeEmbedding(size=8)
    documents = [
        Document(id=id, page_content=id, metadata={"year": year}) for id, year in (("a", 1), ("b", 2), ("c", 1))
    ]
    store = VectorStoreAdapter(
        Chroma.from_documents(documents, embeddings, collection_name="visible"), DocumentIndex(documents)
    )
    edges = [Edge("a", "b", "cites"), Edge("b", "c", "cites"), Edge("a", "c", "cites", 0.5), Edge("a", "gone", "cites")]
    graph_over_store = InMemoryGraph(
        edges, visible=lambda ids, scope: store.read(ids, scope, {}), cosines=store.vector_scores
    )
    graph = graph_over_store.scoped_graph(Scope(filter=parse_filter({"year": 1})), EdgeFilter())
    assert neighbours(graph, "a") == [("c", 0.5, None)]
    own = np.array(embeddings.embed_query("c"), np.float32)
    assert graph.cosines(own / np.linalg.norm(own), graph.nodes(["c"])).tolist() == pytest.approx([1.0])


IDS = "abcde"


@given(
    st.lists(
        st.tuples(st.sampled_from(IDS), st.sampled_from(IDS), st.sampled_from("rs"), st.integers(1, 5)), max_size=20
    ),
    st.lists(st.sampled_from(IDS), max_size=2),
    st.sampled_from(["out", "in", "both"]),
)
def test_hops_equal_those_of_a_loop_over_the_edges(numbers, removed, direction):
    """After additions and removals, the hops equal those found by a loop over the edges."""
    edges = [Edge(a, b, r, w / 5) for a, b, r, w in numbers if a != b]
    store = InMemoryGraph(edges[:10])
    store.remove(removed)
    store.add(edges[10:])
    there = [e for e in edges[:10] if not {e.source, e.target} & set(removed)] + edges[10:]
    expected = {}
    for edge in there:
        for a, b, way in ((edge.source, edge.target, "out"), (edge.target, edge.source, "in")):
            if direction in (way, "both"):
                expected[a, b] = max(expected.get((a, b), 0.0), edge.weight)
    graph = store.scoped_graph(Scope(), EdgeFilter(direction))
    nodes = graph.nodes(list(IDS))
    inside = [id for id, node in zip(IDS, nodes, strict=True) if node >= 0]
    hops = graph.neighbours(nodes[nodes >= 0])
    actual = {(inside[o], id): w for o, id, w in zip(hops.origin, graph.ids(hops.node), hops.weight, strict=True)}
    assert actual == expected
    assert all(edge is not None for edge in graph.edges(list(expected)))


def test_chunks_without_edges_are_forgotten():
    """A chunk without edges is not counted in the length of the graph."""
    store = InMemoryGraph([Edge("a", "b", "cites"), Edge("b", "c", "cites"), Edge("c", "entity:x", "mentions")])
    store.remove(["c"])
    assert len(store.scoped_graph(Scope(), EdgeFilter())) == 2


@pytest.mark.parametrize("ends", [(None, "b", "r"), ("", "b", "r"), ("a", "b", ""), ("a", "b", None)])
def test_values_that_a_store_refuses_are_refused(ends):
    """An edge with an empty or missing id or relation raises a ValueError, and no edge of its list is added."""
    store = InMemoryGraph()
    with pytest.raises(ValueError, match="at least one character"):
        store.add([Edge("a", "b", "r"), Edge(*ends)])
    assert len(store) == 0


def test_one_edge_is_not_a_list():
    """Adding a single edge instead of a list raises a ConfigurationError that shows an example."""
    with pytest.raises(ConfigurationError, match=r"must be a list of Edge, such as \[Edge"):
        InMemoryGraph().add(Edge("a", "b", "r"))


def test_an_edge_with_dates_is_valid_through_its_last_day():
    """An edge whose validity is given as dates is valid through its last day."""
    edges = [Edge("a", "b", "r", valid_from="1970-01-02", valid_until="1970-01-03")]
    assert [neighbours(opened(edges, as_of=day * 86_400.0 + 3_600.0), "a") for day in (0, 1, 2, 3)] == [
        [],
        [("b", 1.0, None)],
        [("b", 1.0, None)],
        [],
    ]
