"""Graph of the embedded store: hops are compared with networkx, followed changes with a fresh read."""

from __future__ import annotations

import math
from collections import defaultdict
from contextlib import closing

import networkx as nx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from langchain_hybridgraph.errors import StoreError, TenantError
from langchain_hybridgraph.filters import parse_filter
from langchain_hybridgraph.records import MENTIONS, Chunk, Edge, EdgeFilter, Query, Scope
from langchain_hybridgraph.stores.embedded import adjacency, scoped_graph
from langchain_hybridgraph.stores.embedded.catalog import outbox as catalog_outbox
from langchain_hybridgraph.stores.embedded.folder.index_settings import IndexSettings
from langchain_hybridgraph.stores.embedded.store import EmbeddedStore
from langchain_hybridgraph.stores.protocols import HasGraph, implements
from langchain_hybridgraph.testing import HashedWords

CHUNKS = [f"c{number}" for number in range(8)]
OTHERS = ["Ada", "Bo", "docs/", "p0"]


@pytest.fixture(params=["disk", "memory"])
def store(request, tmp_path):
    path = tmp_path / "index" if request.param == "disk" else None
    with closing(opened(path)) as store:
        yield store


@pytest.fixture
def memory():
    with closing(opened(None)) as store:
        yield store


def opened(path, **options):
    return EmbeddedStore(IndexSettings(path=path, embedding=HashedWords(), name="words", **options))


def upsert(store, *ids, edges=()):
    store.upsert([Chunk(id, f"text of {id}") for id in ids], edges=edges)


def mention(chunk, entity, weight=1.0, **options):
    return Edge(chunk, entity, MENTIONS, weight, **options)


def near(store, *ids, scope=None, ways=None):
    """Return the hops from these chunks as {(from id, to id): (weight, via)}."""
    graph = store.scoped_graph(scope or Scope(), ways or EdgeFilter())
    return by_ids(graph, ids, graph.neighbours(graph.nodes(ids)))


def linked(store, *ids, scope=None, ways=None):
    """Return the links from these nodes as {(from id, to id): (weight, via)}."""
    graph = store.scoped_graph(scope or Scope(), ways or EdgeFilter())
    return by_ids(graph, ids, graph.links(graph.nodes(ids)))


def by_ids(graph, ids, hops):
    vias = ["" if via < 0 else graph.ids(np.array([via]))[0] for via in hops.via.tolist()]
    ends = zip([ids[place] for place in hops.origin], graph.ids(hops.node), strict=True)
    hops_by_ends = dict(zip(ends, zip(hops.weight.tolist(), vias, strict=True), strict=True))
    assert len(hops_by_ends) == len(hops.node), "a hop occurs twice"
    return hops_by_ends


def weights(hops):
    return {ends: weight for ends, (weight, _) in hops.items()}


# -- hops ---------------------------------------------------------------------------------------------------------


def test_the_store_has_a_graph(store):
    """The store implements HasGraph, and has_graph is true exactly while there is an edge between present nodes."""
    assert implements(store, HasGraph)
    upsert(store, "a", "b")
    assert not store.has_graph
    upsert(store, edges=[Edge("a", "b", "r")])
    assert store.has_graph
    store.remove(["b"])
    assert not store.has_graph


def test_directions(store):
    """Direction "out" follows an edge, "in" goes back, "both" does either."""
    upsert(store, "a", "b", "c", edges=[Edge("a", "b", "r", 0.5), Edge("c", "a", "r", 0.25)])
    assert near(store, "a") == {("a", "b"): (0.5, "")}
    assert near(store, "a", ways=EdgeFilter("in")) == {("a", "c"): (0.25, "")}
    assert near(store, "a", ways=EdgeFilter("both")) == {("a", "b"): (0.5, ""), ("a", "c"): (0.25, "")}


def test_the_heaviest_of_several_relations(store):
    """Two chunks joined by several edges are one hop apart, with the largest weight of the allowed edges."""
    upsert(store, "a", "b", edges=[Edge("a", "b", "r", 0.2), Edge("a", "b", "s", 0.8), Edge("b", "a", "r", 0.9)])
    assert near(store, "a") == {("a", "b"): (0.8, "")}
    assert near(store, "a", ways=EdgeFilter("both")) == {("a", "b"): (0.9, "")}
    assert near(store, "a", ways=EdgeFilter(relations=frozenset({"r"}))) == {("a", "b"): (0.2, "")}
    assert near(store, "a", ways=EdgeFilter(relations=frozenset({"never heard of"}))) == {}


def test_chunks_of_one_entity_are_one_hop_apart(store):
    """Chunks that mention the same entity are one hop apart, with the product of both weights (.8 · .5)."""
    upsert(store, "a", "b", edges=[mention("a", "Ada", 0.8), mention("b", "Ada", 0.5)])
    for direction in ("out", "in", "both"):
        assert near(store, "a", ways=EdgeFilter(direction)) == {("a", "b"): (pytest.approx(0.4), "Ada")}
        assert near(store, "b", ways=EdgeFilter(direction)) == {("b", "a"): (pytest.approx(0.4), "Ada")}
    assert near(store, "a", ways=EdgeFilter(relations=frozenset({"r"}))) == {}
    assert near(store, "a", ways=EdgeFilter(min_weight=0.6)) == {}


def test_ties_prefer_an_edge_then_the_rarest_entity(store):
    """Among hops of equal weight, a direct edge is preferred, then the entity with the fewest mentions."""
    mentions = [mention(chunk, "Ada") for chunk in "abc"] + [mention(chunk, "Bo") for chunk in "ab"]
    upsert(store, "a", "b", "c", edges=mentions)
    assert near(store, "a") == {("a", "b"): (1.0, "Bo"), ("a", "c"): (1.0, "Ada")}
    upsert(store, edges=[Edge("a", "b", "r")])
    assert near(store, "a")["a", "b"] == (1.0, "")


def test_links_are_the_stored_edges(store):
    """Links are the stored edges between chunks and entities, with their weights and without damping."""
    edges = [
        Edge("a", "b", "r", 0.5),
        mention("a", "Ada", 0.8),
        mention("b", "Ada", 0.25),
        Edge("Ada", "Bo", "knows", 0.5),
    ]
    upsert(store, "a", "b", edges=[*edges, mention("b", "Bo"), Edge("a", "missing", "r")])
    ways = EdgeFilter(hub_degree=1)
    assert weights(linked(store, "a", ways=ways)) == {("a", "b"): 0.5, ("a", "Ada"): 0.8}
    assert weights(linked(store, "Ada", ways=ways)) == {("Ada", "a"): 0.8, ("Ada", "b"): 0.25, ("Ada", "Bo"): 0.5}
    assert weights(linked(store, "b", ways=EdgeFilter("in"))) == {("b", "a"): 0.5, ("b", "Ada"): 0.25, ("b", "Bo"): 1.0}


def test_hubs_lower_the_weights_of_hops(store):
    """With hub_degree 2, a hop of a chunk of degree 4 has half its weight; an entity of degree 4 halves it again."""
    edges = [Edge("a", other, "r") for other in "bcd"]
    upsert(store, *"abcd", edges=[*edges, *(mention(chunk, "Ada") for chunk in "abxy")])
    hub = EdgeFilter(hub_degree=2)
    assert weights(near(store, "a", ways=hub)) == {("a", other): 0.5 for other in "bcd"}
    assert near(store, "b", ways=hub) == {("b", "a"): (0.5, "Ada")}
    assert near(store, "a", ways=EdgeFilter(relations=frozenset({MENTIONS}), hub_degree=2)) == {
        ("a", "b"): (0.25, "Ada")
    }
    assert weights(near(store, "a", ways=EdgeFilter(hub_degree=None))) == {("a", other): 1.0 for other in "bcd"}


def test_rare_entities_are_preferred_to_common_ones(monkeypatch, store):
    """If hops through entities are limited, the rarest entities come first, and the rarest is always used."""
    monkeypatch.setattr(scoped_graph, "FAN", 1)
    mentions = [mention(chunk, "Ada") for chunk in "ab"] + [mention(chunk, "Bo") for chunk in "acd"]
    upsert(store, *"abcdefg", edges=[*mentions, *(mention(chunk, "Cy") for chunk in "aefg")])
    assert {end for _, end in near(store, "a", ways=EdgeFilter(hub_degree=5))} == set("bcd")
    assert {end for _, end in near(store, "a", "e", ways=EdgeFilter(hub_degree=1))} == set("bafg")
    assert {end for _, end in near(store, "a", ways=EdgeFilter(hub_degree=None))} == set("bcdefg")
    store.upsert([Chunk(id, "text", {"kind": "x"}) for id in "ae"])
    scope = Scope(filter=parse_filter({"kind": "x"}))
    assert {end for _, end in near(store, "a", scope=scope, ways=EdgeFilter(hub_degree=5))} == {"e"}


def test_degrees_count_all_edges(store):
    """Degrees count edges of all relations in both directions, including edges to hidden or missing chunks."""
    upsert(
        store,
        "a",
        "b",
        edges=[Edge("a", "b", "r"), Edge("b", "a", "s"), mention("a", "Ada"), Edge("a", "missing", "r")],
    )
    graph = store.scoped_graph(Scope(), EdgeFilter(relations=frozenset({"s"})))
    assert graph.degrees(graph.nodes(["a", "b", "Ada"])).tolist() == [4, 2, 1]
    assert graph.degrees(np.array([-1])).tolist() == [0]


def test_relations_of_present_edges_are_listed(store):
    """The relations of all present edges are listed, regardless of the filter."""
    upsert(store, "a", "b", edges=[Edge("a", "b", "cites"), Edge("b", "a", "likes"), Edge("a", "missing", "cites")])
    assert store.scoped_graph(Scope(), EdgeFilter(relations=frozenset({"likes"}))).relations == {"cites", "likes"}
    store.replace_edges(["b"], ["likes"], [])
    assert store.scoped_graph(Scope(), EdgeFilter()).relations == {"cites"}
    store.upsert([], edges=[mention("a", "Ada"), Edge("b", "a", "likes")])
    assert store.scoped_graph(Scope(), EdgeFilter()).relations == {"cites", "likes", MENTIONS}


def test_chunks_and_entities_are_nodes(store):
    """Chunks and entities are nodes; parents, dangling targets, directories and unknown ids are not."""
    store.upsert(
        [Chunk("a", "text", {}, "d", "p")],
        parents=[Chunk("p", "text", {}, "d")],
        edges=[Edge("p", "a", "r"), Edge("a", "missing", "r"), Edge("docs/", "a", "contains"), mention("a", "Ada")],
    )
    graph = store.scoped_graph(Scope(), EdgeFilter())
    nodes = graph.nodes(["a", "Ada", "p", "missing", "docs/", "never"])
    assert [node >= 0 for node in nodes] == [True, True, False, False, False, False]
    assert graph.is_chunk(nodes).tolist() == [True, False, False, False, False, False]
    assert graph.ids(nodes[:2]) == ["a", "Ada"]
    assert weights(linked(store, "a", ways=EdgeFilter("both"))) == {("a", "Ada"): 1.0}


def test_unknown_nodes_have_no_hops(store):
    """No nodes and unknown nodes have no hops, in an empty store and in one with edges."""
    for _ in range(2):
        graph = store.scoped_graph(Scope(), EdgeFilter("both"))
        for nodes in (np.zeros(0, np.int64), np.array([-1])):
            assert [len(column) for column in graph.neighbours(nodes)] == [0] * 4
            assert [len(column) for column in graph.links(nodes)] == [0] * 4
        assert graph.nodes([]).tolist() == []
        assert graph.edges([]) == []
        upsert(store, "a", "b", edges=[Edge("a", "b", "r")])


def test_cosines(store):
    """The graph's cosines of chunks equal the vector search's scores; an entity or unknown node has none."""
    upsert(store, "a", "b", edges=[mention("a", "Ada")])
    vector = store.vector_search(Query("text of a", 1), 1).vector
    graph = store.scoped_graph(Scope(), EdgeFilter())
    cosines = graph.cosines(vector, graph.nodes(["a", "Ada", "b", "missing"]))
    scores = store.vector_scores(vector, ["a", "b"])
    assert cosines[[0, 2]].tolist() == [scores["a"], scores["b"]]
    assert np.isnan(cosines[[1, 3]]).all()


def test_the_edge_of_each_step(store):
    """Each step gets its heaviest stored edge, both mentions of the shared entity, or None if it is not a hop."""
    light, heavy = Edge("a", "b", "r", 0.5, "said"), Edge("b", "a", "s", 0.9, "said otherwise")
    mentions = [mention("b", "Ada", 0.8, description="b names Ada"), mention("c", "Ada", 0.5)]
    upsert(store, "a", "b", "c", edges=[light, heavy, *mentions, Edge("b", "Ada", "about")])
    assert store.scoped_graph(Scope(), EdgeFilter()).edges([("a", "b"), ("b", "c"), ("c", "a"), ("a", "no")]) == [
        light,
        tuple(mentions),
        None,
        None,
    ]
    assert store.scoped_graph(Scope(), EdgeFilter("both")).edges([("a", "b"), ("c", "b")]) == [
        heavy,
        tuple(reversed(mentions)),
    ]


# -- visibility ---------------------------------------------------------------------------------------------------


def test_edges_have_their_time(store):
    """An edge is traversed from valid_from until valid_until, both included; an edge without times always is."""
    edges = [
        Edge("a", "b", "r", valid_from=10.0, valid_until=20.0),
        mention("a", "Ada"),
        mention("c", "Ada", valid_from=15.0),
    ]
    upsert(store, "a", "b", "c", edges=edges)
    there = {when: {end for _, end in near(store, "a", scope=Scope(as_of=when))} for when in (9, 10, 15, 20, 21, None)}
    assert there == {9: set(), 10: {"b"}, 15: {"b", "c"}, 20: {"b", "c"}, 21: {"c"}, None: {"b", "c"}}


def test_a_filter_applies_to_every_hop(store):
    """No hop starts at, ends in or passes through a chunk that does not match the filter."""
    chunks = [Chunk(id, "text", {"kind": kind}) for id, kind in (("a", "x"), ("b", "y"), ("c", "x"))]
    store.upsert(
        chunks,
        edges=[Edge("a", "b", "r"), Edge("b", "c", "r"), mention("a", "Ada"), mention("c", "Ada"), mention("b", "Ada")],
    )
    scope = Scope(filter=parse_filter({"kind": "x"}))
    assert near(store, "a", "b", "c", scope=scope) == {("a", "c"): (1.0, "Ada"), ("c", "a"): (1.0, "Ada")}
    assert store.scoped_graph(scope, EdgeFilter()).nodes(["b"]).tolist() == [-1]
    hidden = store.scoped_graph(Scope(), EdgeFilter()).nodes(["b"])
    assert len(store.scoped_graph(scope, EdgeFilter("both")).neighbours(hidden).node) == 0


def test_expired_chunks_are_not_reached(store):
    """No hop ends in a chunk that is not valid at the requested time."""
    chunks = [Chunk("a", "text"), Chunk("b", "text", {"valid_until": 10}), Chunk("c", "text", {"valid_from": 20})]
    store.upsert(chunks, edges=[Edge("a", "b", "r"), Edge("a", "c", "r")])
    for when, there in ((5, {"b"}), (15, set()), (25, {"c"}), (None, {"b", "c"})):
        assert {end for _, end in near(store, "a", scope=Scope(as_of=when))} == there


def test_tenants_have_graphs_of_their_own(tmp_path):
    """Two tenants with equal ids traverse only their own edges, and another tenant's scope raises TenantError."""
    with closing(opened(tmp_path / "index", tenant="x")) as one:
        upsert(one, "a", "b", "c", edges=[Edge("a", "b", "r"), mention("a", "Ada"), mention("c", "Ada")])
    with closing(opened(tmp_path / "index", tenant="y")) as two, closing(opened(tmp_path / "index", tenant="x")) as one:
        assert near(two, "a") == {}
        assert not two.has_graph
        assert weights(near(one, "a")) == {("a", "b"): 1.0, ("a", "c"): 1.0}
        upsert(two, "a", "c", edges=[Edge("a", "c", "r", 0.5), mention("a", "Ada")])
        assert weights(near(two, "a")) == {("a", "c"): 0.5}
        assert weights(near(one, "a")) == {("a", "b"): 1.0, ("a", "c"): 1.0}
        with pytest.raises(TenantError):
            two.scoped_graph(Scope(tenant="x"), EdgeFilter())


# -- against networkx ---------------------------------------------------------------------------------------------


def tables(store):
    """Return the kind of every id, and all edges, as SQLite contains them."""
    with store._index.catalog.reading() as connection:
        kinds = dict(connection.execute("SELECT id, kind FROM nodes"))
    return kinds, store.edges(list(kinds))


def expected(store, scope, ways):
    """Return {(from, to): weight} of one hop between all chunks in scope, and the degrees, computed by networkx."""
    kinds, edges = tables(store)
    whole = nx.MultiDiGraph()
    whole.add_nodes_from(kinds)
    whole.add_edges_from((edge.source, edge.target, edge.relation) for edge in edges)
    degree = dict(whole.degree)
    entities = {e.target for e in edges if e.relation == MENTIONS and kinds[e.target] == "graph"}
    visible = set(store.find(scope))
    expected_graph, mentions = nx.DiGraph(), nx.DiGraph()
    for edge in edges:
        when = scope.as_of
        is_now = when is None or (edge.valid_from or -math.inf) <= when <= (edge.valid_until or math.inf)
        is_wanted = ways.relations is None or edge.relation in ways.relations
        if not (is_now and is_wanted and edge.weight >= ways.min_weight):
            continue
        ends = []
        if ways.direction != "in":
            ends.append((edge.source, edge.target))
        if ways.direction != "out":
            ends.append((edge.target, edge.source))
        for one, other in ends:
            heaviest = expected_graph.get_edge_data(one, other, {"weight": 0})["weight"]
            expected_graph.add_edge(one, other, weight=max(heaviest, edge.weight))
        if edge.relation == MENTIONS and edge.target in entities:
            mentions.add_edge(edge.source, edge.target, weight=edge.weight)
    passing = {id: min(1.0, ways.hub_degree / max(degree[id], 1)) if ways.hub_degree else 1.0 for id in kinds}
    hop_weights = defaultdict(float)
    for one, other, weight in expected_graph.edges(data="weight"):
        if {one, other} <= visible:
            hop_weights[one, other] = max(hop_weights[one, other], weight * passing[one])
    for entity in entities & set(mentions):
        there = [(id, weight) for id, _, weight in mentions.in_edges(entity, data="weight") if id in visible]
        for one, first in there:
            for other, second in there:
                if one != other:
                    weight = first * second * passing[one] * passing[entity]
                    hop_weights[one, other] = max(hop_weights[one, other], weight)
    return dict(hop_weights), degree


def edges_among(ids, relations=("r", "s", MENTIONS)):
    times = st.sampled_from([(a, b) for a in (None, None, 10.0, 20.0) for b in (None, None, 20.0, a or 10.0)])
    return st.builds(
        lambda ends, relation, weight, times: Edge(*ends, relation, weight, "", *times),
        st.lists(st.sampled_from(ids), min_size=2, max_size=2, unique=True),
        st.sampled_from(relations),
        st.sampled_from([0.2, 0.5, 0.7, 1.0]),
        times,
    )


some_edges = st.lists(edges_among(CHUNKS + OTHERS) | edges_among([*CHUNKS, "Ada", "Bo"], [MENTIONS]), max_size=40)
some_ways = st.builds(
    EdgeFilter,
    st.sampled_from(["out", "in", "both"]),
    st.sampled_from([None, frozenset({"r"}), frozenset({"s", MENTIONS})]),
    st.sampled_from([0.0, 0.5, 0.7]),
    st.sampled_from([None, 1, 3]),
)
some_scopes = st.builds(
    Scope,
    st.sampled_from([None, parse_filter({"odd": 1})]),
    st.none(),
    st.sampled_from([None, 5.0, 10.0, 15.0, 25.0]),
)


def drawn_chunk(id):
    number = int(id[1:])
    times = {"valid_from": 10} if number == 3 else {"valid_until": 20} if number == 4 else {}
    return Chunk(id, f"text of {id}", {"odd": number % 2, **times}, parent_id="p0" if number == 5 else None)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(some_edges, st.lists(st.tuples(some_ways, some_scopes), min_size=4, max_size=4), st.sampled_from([0, 4_000]))
def test_hops_equal_the_hops_of_networkx(monkeypatch, edges, calls, limit):
    """For any edges, edge filter and scope, networkx finds the same hops, weights and degrees."""
    monkeypatch.setattr(scoped_graph, "SORTED_HOPS", limit)
    with closing(opened(None)) as store:
        store.upsert([drawn_chunk(id) for id in CHUNKS], parents=[Chunk("p0", "parent")], edges=edges)
        for ways, scope in calls:
            hops, degree = expected(store, scope, ways)
            assert weights(near(store, *CHUNKS, scope=scope, ways=ways)) == pytest.approx(hops)
            graph = store.scoped_graph(scope, ways)
            ids = [id for id in [*CHUNKS, "Ada", "Bo"] if graph.nodes([id])[0] >= 0]
            assert graph.degrees(graph.nodes(ids)).tolist() == [degree[id] for id in ids]


@given(some_edges, some_ways, some_scopes, st.sets(st.sampled_from(CHUNKS)), st.lists(st.sampled_from(CHUNKS)))
def test_hops_of_a_restricted_graph_are_the_hops_that_end_there(edges, ways, scope, ends, deleted):
    """Restricting a graph to some chunks keeps exactly the hops that end in them, for any edge filter."""
    with closing(opened(None)) as store:
        store.upsert([drawn_chunk(id) for id in CHUNKS], edges=edges[: len(edges) // 2])
        store.scoped_graph(scope, ways)
        store.upsert([], edges=edges[len(edges) // 2 :])
        store.remove(deleted)
        graph = store.scoped_graph(scope, ways)
        nodes, there = graph.nodes(CHUNKS), graph.nodes(sorted(ends))
        every = [hop for hop in hops_of(graph.neighbours(nodes)) if hop[1] in there.tolist()]
        assert hops_of(graph.restricted_to(there).neighbours(nodes)) == every


def hops_of(hops):
    """Return the hops as rows (origin, node, weight, via), in ascending order."""
    return sorted(zip(*(column.tolist() for column in hops), strict=True))


@given(some_edges, some_ways, some_scopes)
def test_steps_have_the_edges_of_hops(edges, ways, scope):
    """A step that is a hop has the edge, or the two mentions, with the hop's weight; any other step has None."""
    with closing(opened(None)) as store:
        store.upsert([drawn_chunk(id) for id in CHUNKS], edges=edges)
        ways = EdgeFilter(ways.direction, ways.relations, ways.min_weight, None)
        hops = near(store, *CHUNKS, scope=scope, ways=ways)
        steps = [(one, other) for one in CHUNKS for other in CHUNKS if one != other]
        for step, was in zip(steps, store.scoped_graph(scope, ways).edges(steps), strict=True):
            weight, via = hops.get(step, (None, ""))
            if weight is None:
                assert was is None
            elif via:
                assert [edge.source for edge in was] == list(step)
                assert {edge.target for edge in was} == {via}
                assert was[0].weight * was[1].weight == pytest.approx(weight)
            else:
                assert {was.source, was.target} == set(step)
                assert was.weight == weight


# -- following changes --------------------------------------------------------------------------------------------

puts = st.tuples(
    st.just("upsert"), st.lists(st.sampled_from(CHUNKS), max_size=3), st.lists(edges_among(CHUNKS + OTHERS), max_size=6)
)
removes = st.tuples(st.just("remove"), st.lists(st.sampled_from(CHUNKS), min_size=1, max_size=2), st.just([]))
replaces = st.tuples(
    st.just("replace"),
    st.lists(st.sampled_from(CHUNKS), max_size=2),
    st.lists(edges_among(CHUNKS + OTHERS), max_size=4),
)
prunes = st.tuples(st.sampled_from(["orphans", "light", "many"]), st.just([]), st.just([]))


def do(store, number, task):
    verb, ids, edges = task
    if verb == "upsert":
        chunks = [Chunk(id, f"text {number} of {id}", {"odd": number % 2}) for id in dict.fromkeys(ids)]
        store.upsert(chunks, parents=[Chunk("p0", f"parent {number}")], edges=edges)
    elif verb == "remove":
        store.remove(ids)
    elif verb == "replace":
        store.replace_edges(ids, ["r", MENTIONS], edges)
    elif verb == "orphans":
        store.graph.prune_orphans()
    else:
        store.graph.prune(0.3 if verb == "light" else 0.0, 2 if verb == "many" else 0)


def everything(store):
    """Return every answer of the graph about all present ids."""
    ids = sorted(tables(store)[0])
    graph = store.scoped_graph(Scope(), EdgeFilter("both"))
    nodes = graph.nodes(ids)
    there = [id for id, node in zip(ids, nodes, strict=True) if node >= 0]
    return (
        there,
        near(store, *there, ways=EdgeFilter("both")),
        linked(store, *there, ways=EdgeFilter("both")),
        graph.degrees(nodes[nodes >= 0]).tolist(),
        graph.is_chunk(nodes).tolist(),
        len(graph.adjacency),
        graph.relations,
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(puts | puts | removes | replaces | prunes, min_size=1, max_size=12),
    st.sampled_from([0, 3, 5_000]),
    st.booleans(),
)
def test_followed_changes_equal_a_fresh_read(monkeypatch, tasks, recent, is_log_short):
    """A graph that follows any changes gives the same answers as one that is read again in full."""
    monkeypatch.setattr(adjacency, "RECENT_EDGES", recent)
    monkeypatch.setattr(
        "langchain_hybridgraph.stores.embedded.catalog.outbox._KEPT_CHANGES", 3 if is_log_short else 2_000
    )
    with closing(opened(None)) as store:
        for number, task in enumerate(tasks):
            do(store, number, task)
            followed = everything(store)
            mirror = store.graph._mirror
            state, mirror.state = mirror.state, None
            assert everything(store) == followed
            mirror.state = state
            hops, degree = expected(store, Scope(), EdgeFilter("both"))
            chunks = set(store.find(Scope()))
            actual = {ends: weight for ends, weight in weights(followed[1]).items() if ends[0] in chunks}
            assert actual == pytest.approx(hops)
            assert followed[5] == sum(degree.values()) // 2
            assert followed[6] == {edge.relation for edge in store.edges(tables(store)[0])}


def test_another_store_sees_every_write(tmp_path):
    """A reader follows the writer's new edges, deletions and replacements without reading the graph again."""
    with closing(opened(tmp_path / "index")) as writer, closing(opened(tmp_path / "index", read_only=True)) as reader:
        upsert(writer, "a", "b", edges=[Edge("a", "b", "r", 0.5)])
        assert weights(near(reader, "a")) == {("a", "b"): 0.5}
        half = reader.graph._mirror.state[1].out
        upsert(writer, "c", edges=[Edge("a", "c", "r"), Edge("a", "b", "r", 0.7)])
        assert weights(near(reader, "a")) == {("a", "b"): 0.7, ("a", "c"): 1.0}
        writer.remove(["b"])
        assert weights(near(reader, "a")) == {("a", "c"): 1.0}
        writer.replace_edges(["a"], ["r"], [])
        assert near(reader, "a") == {}
        assert not reader.has_graph
        assert reader.graph._mirror.state[1].out is half


def test_an_updated_chunk_keeps_its_edges(store):
    """A chunk keeps its edges when its text is updated."""
    upsert(store, "a", "b", edges=[Edge("a", "b", "r")])
    near(store, "a")
    store.upsert([Chunk("b", "another text")])
    assert weights(near(store, "a")) == {("a", "b"): 1.0}


def test_a_dangling_edge_becomes_a_hop_when_its_target_is_added(store):
    """An edge to a missing id or an entity becomes a hop once a chunk with that id is added."""
    upsert(store, "a", "b", edges=[Edge("a", "late", "r"), mention("a", "Ada"), mention("b", "Ada")])
    assert weights(near(store, "a")) == {("a", "b"): 1.0}
    upsert(store, "late", "Ada")
    assert weights(near(store, "a")) == {("a", "late"): 1.0, ("a", "Ada"): 1.0}


def test_a_graph_in_use_does_not_change(store):
    """Deleting a chunk does not change the hops of a graph already in use."""
    upsert(store, "a", "b", edges=[Edge("a", "b", "r"), mention("a", "Ada"), mention("c", "Ada")])
    graph = store.scoped_graph(Scope(), EdgeFilter())
    nodes = graph.nodes(["a", "Ada"])
    store.remove(["a"])
    assert graph.ids(graph.neighbours(nodes[:1]).node) == ["b"]
    assert graph.ids(nodes) == ["a", ""] or graph.ids(nodes) == ["a", "Ada"]
    assert store.scoped_graph(Scope(), EdgeFilter()).nodes(["a"]).tolist() == [-1]


def test_a_closed_store_raises_an_error(memory):
    """Methods that need the catalog or the matrix raise StoreError once the store is closed."""
    upsert(memory, "a", edges=[mention("a", "Ada")])
    graph = memory.scoped_graph(Scope(), EdgeFilter())
    ada = graph.nodes(["Ada"])
    memory.close()
    with pytest.raises(StoreError, match="closed"):
        graph.ids(ada)


# -- large graphs -------------------------------------------------------------------------------------------------


def test_a_star_of_100_000():
    """In a star of 100,000 chunks that mention one entity, all chunks are one hop from the centre and each other."""
    count = 100_000
    ids = [f"c{number}" for number in range(count)]
    with closing(opened(None)) as store:
        with store._index.catalog.writing() as connection:  # writing texts would take too long
            chunks = enumerate(["middle", *ids])
            insert = "INSERT INTO nodes (row, id, tenant, kind, document, text, metadata) VALUES "
            connection.executemany(f"{insert} (?, ?, '', 'chunk', '', '', '{{}}')", chunks)
            connection.execute(
                "INSERT INTO learned (node, learned_at, active_count, provenance_depth) SELECT node, 0, 0, 0 FROM nodes"
            )
            catalog_outbox.set_facts(connection, version=1, floor=1, next_row=count + 1)
        store.upsert([], edges=[Edge("middle", "c0", "r", 0.5), mention("c0", "Ada", 0.5)])
        with store._index.catalog.writing() as connection:
            copy = (
                "INSERT OR IGNORE INTO edges "
                "SELECT {}, relation, {}, weight, '', NULL, NULL, 0 FROM edges, nodes WHERE "
            )
            is_leaf = "row > 0 AND relation = "
            connection.execute(copy.format("source", "node") + is_leaf + "'r'")
            connection.execute(copy.format("node", "target") + is_leaf + "'mentions'")
        graph = store.scoped_graph(Scope(), EdgeFilter("both", hub_degree=1_000))
        start = graph.nodes(["middle"])
        assert graph.degrees(start).tolist() == [count]
        hops = graph.neighbours(start)
        assert sorted(graph.ids(hops.node)) == sorted(ids)
        assert np.allclose(hops.weight, 0.005)
        back = graph.neighbours(graph.nodes(["c7", "c8"]))
        assert np.bincount(back.origin).tolist() == [count, count]
        assert set(back.weight.round(6).tolist()) == {0.5, 0.0025}
        store.upsert([], edges=[Edge("middle", "c9", "s", 0.9)])
        hops = store.scoped_graph(Scope(), EdgeFilter()).neighbours(start)
        assert (len(hops.node), hops.weight.max()) == (count, pytest.approx(0.9 * 64 / 100_001))


# -- writing ------------------------------------------------------------------------------------------------------


def graph_ids(store):
    kinds, _ = tables(store)
    return {id for id, kind in kinds.items() if kind == "graph"}


def test_an_entity_is_deleted_with_its_last_mention(store):
    """An entity and its edges are deleted with its last mention, by any kind of deletion."""
    upsert(
        store,
        "a",
        "b",
        edges=[mention("a", "Ada"), mention("b", "Ada"), mention("b", "Bo", 0.5), Edge("Ada", "Bo", "knows")],
    )
    store.remove(["a"])
    assert graph_ids(store) == {"Ada", "Bo"}
    store.replace_edges(["b"], [MENTIONS], [mention("b", "Bo", 0.5)])
    assert graph_ids(store) == {"Bo"}
    assert store.edges(["Ada"]) == []
    assert store.graph.prune(0.6) == 1
    assert graph_ids(store) == set()


def test_an_entity_that_is_mentioned_again_stays(store):
    """Replacing a mention with another mention of the same entity keeps the entity's node."""
    upsert(store, "a", edges=[mention("a", "Ada", 0.5)])
    node = store.scoped_graph(Scope(), EdgeFilter()).nodes(["Ada"]).tolist()
    store.replace_edges(["a"], [MENTIONS], [mention("a", "Ada", 0.7)])
    assert store.scoped_graph(Scope(), EdgeFilter()).nodes(["Ada"]).tolist() == node


def test_deleting_leaves_nothing_behind(store):
    """Deleting a chunk deletes its edges and the ids that only its edges named."""
    upsert(store, "a", "b", edges=[Edge("a", "missing", "r"), Edge("docs/", "a", "contains"), Edge("b", "a", "r")])
    store.remove(["a"])
    assert tables(store) == ({"b": "chunk"}, [])


def test_light_edges_are_pruned(store):
    """prune(min_weight) deletes edges below the weight and keeps edges with exactly that weight."""
    upsert(store, "a", "b", "c", edges=[Edge("a", "b", "r", 0.3), Edge("a", "c", "r", 0.5), Edge("b", "c", "r", 0.4)])
    assert store.graph.prune(0.4) == 1
    assert {(edge.source, edge.target) for edge in store.edges(["a", "b"])} == {("a", "c"), ("b", "c")}


def test_pruning_keeps_the_heaviest_edges_of_each_source(store):
    """Pruning keeps the two heaviest edges of each source; ties go by relation, then target."""
    edges = [Edge("a", "b", "s", 0.9), Edge("a", "c", "s", 0.5), Edge("a", "c", "r", 0.5), Edge("a", "b", "r", 0.5)]
    upsert(store, "a", "b", "c", edges=[*edges, Edge("b", "c", "r", 0.1)])
    assert store.graph.prune(max_per_source=2) == 2
    assert store.edges(["a", "b"]) == [Edge("a", "b", "r", 0.5), Edge("a", "b", "s", 0.9), Edge("b", "c", "r", 0.1)]
    assert store.graph.prune() == 0


@pytest.mark.parametrize("options", [{"min_weight": 1.5}, {"min_weight": -0.1}, {"max_per_source": -1}])
def test_bad_bounds_of_pruning(memory, options):
    """A bound out of range raises a ValueError that names the bound."""
    with pytest.raises(ValueError, match=next(iter(options))):
        memory.graph.prune(**options)


def test_pruning_affects_only_its_tenant(tmp_path):
    """Pruning one tenant's graph keeps another tenant's edges."""
    for tenant in "xy":
        with closing(opened(tmp_path / "index", tenant=tenant)) as store:
            upsert(store, "a", "b", edges=[Edge("a", "b", "r", 0.3)])
    with closing(opened(tmp_path / "index", tenant="x")) as store:
        assert store.graph.prune(0.5, 1) == 1
    with closing(opened(tmp_path / "index", tenant="y")) as store:
        assert len(store.edges(["a"])) == 1


# -- care ---------------------------------------------------------------------------------------------------------


def test_stats_count_entities(store):
    """stats() counts mentioned graph nodes as entities, but not dangling targets."""
    upsert(store, "a", edges=[mention("a", "Ada"), Edge("a", "missing", "r")])
    assert (store.admin.stats()["edges"], store.admin.stats()["entities"]) == (2, 1)


def test_invalid_edges_are_reported_and_repaired(store):
    """check() reports edges with weight 0 and edges to themselves, and repair() deletes them."""
    upsert(store, "a", "b", edges=[Edge("a", "b", "r")])
    near(store, "a")
    with store._index.catalog.writing() as connection:
        connection.execute("UPDATE edges SET weight = 0")
        connection.execute("INSERT INTO edges VALUES (1, 'r', 1, 1.0, '', NULL, NULL, 0)")
    assert store.admin.check().problems == (
        "2 edges have no weight, are never valid, or lead to themselves or another tenant",
    )
    assert store.admin.repair().ok
    assert near(store, "a") == {}
    assert store.admin.check().counts["edges"] == 0
