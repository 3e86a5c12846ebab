"""Graph of edges: one contract for the store and for edges in memory, and hops compared with networkx."""

import math
import sqlite3
from collections import defaultdict
from contextlib import ExitStack, closing
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph import InMemoryGraph
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import ConfigurationError, StoreError, TenantError
from langchain_hybridgraph.filters.expressions import parse_filter
from langchain_hybridgraph.ingestion.pipeline import ingest
from langchain_hybridgraph.records import CONTAINS, MENTIONS, REFERENCES, Edge, EdgeFilter, Query, Scope
from tests.support.stores.store_contents import changes
from tests.support.stores.words import chunk, open_words

CHUNKS = [f"c{number}" for number in range(8)]
OTHERS = ["entity:Ada", "entity:Bo", "docs/", "p0"]
ADA, BO = "entity:Ada", "entity:Bo"
NOW = Scope()


@pytest.fixture(params=["store", "edges in memory"])
def graph_of(request):
    """Return a function that makes a graph of these chunks and edges, restricted to a scope and an edge filter."""
    with ExitStack() as stores:

        def make(ids, edges, scope=NOW, **ways):
            if request.param == "edges in memory":
                return InMemoryGraph(edges).scoped_graph(scope, EdgeFilter(**ways))
            store = stores.enter_context(open_words())
            upsert(store, *ids, edges=edges)
            return store.scoped_graph(scope, EdgeFilter(**ways))

        yield make


@pytest.fixture
def store(place):
    with open_words(place) as store:
        yield store


def upsert(store, *ids, edges=()):
    store.upsert([chunk(id) for id in ids], edges=edges)


def mention(chunk, entity, weight=1.0, **options):
    return Edge(chunk, entity, MENTIONS, weight, **options)


def hops(graph, *ids, links=False):
    """Return the hops or the links from these nodes as {(from id, to id): (weight, via)}."""
    steps = (graph.links if links else graph.neighbours)(graph.nodes(list(ids)))
    vias = ["" if via < 0 else graph.ids(np.array([via]))[0] for via in steps.via.tolist()]
    ends = zip([ids[place] for place in steps.origin], graph.ids(steps.node), strict=True)
    hops_by_ends = dict(zip(ends, zip(steps.weight.round(9).tolist(), vias, strict=True), strict=True))
    assert len(hops_by_ends) == len(steps.node), "a hop occurs twice"
    return hops_by_ends


def ends(graph, *ids):
    return {end for _, end in hops(graph, *ids)}


def near(store, *ids, scope=NOW, **ways):
    return hops(store.scoped_graph(scope, EdgeFilter(**ways)), *ids)


# -- hops ---------------------------------------------------------------------------------------------------------


def test_ties_prefer_an_edge_then_the_rarest_entity(graph_of):
    """Among hops of equal weight, a direct edge is preferred, then the entity with the fewest mentions."""
    mentions = [*(mention(chunk, ADA) for chunk in "abc"), *(mention(chunk, BO) for chunk in "ab")]
    assert hops(graph_of("abc", mentions), "a") == {("a", "b"): (1.0, BO), ("a", "c"): (1.0, ADA)}
    assert hops(graph_of("abc", [*mentions, Edge("a", "b", "r")]), "a")["a", "b"] == (1.0, "")


def test_common_entities_are_followed_up_to_a_limit(graph_of):
    """A chunk's entities are followed from the rarest, which always is, up to four times ``hub_degree`` chunks."""
    mentions = [*(mention(chunk, ADA) for chunk in "abcdef"), *(mention(chunk, BO) for chunk in "ag")]
    graph = graph_of("abcdefg", mentions, hub_degree=1)
    assert (ends(graph, "a"), ends(graph, "b")) == ({"g"}, set("acdef"))
    assert ends(graph_of("abcdefg", mentions, hub_degree=2), "g", "a") == set("abcdefg")


def test_links_are_the_stored_edges(graph_of):
    """Links are the stored edges with their undamped weights; degrees and relations disregard the filter."""
    edges = [Edge("a", "b", "r", 0.5), mention("a", ADA, 0.8), mention("b", ADA, 0.25), mention("b", BO)]
    graph = graph_of("ab", edges, hub_degree=1)
    weights = {end: {to: weight for (_, to), (weight, _) in hops(graph, end, links=True).items()} for end in ("a", ADA)}
    assert weights == {"a": {"b": 0.5, ADA: 0.8}, ADA: {"a": 0.8, "b": 0.25}}
    back = graph_of("ab", edges, direction="in", relations=frozenset({MENTIONS}))
    assert back.relations == {"r", MENTIONS}
    assert back.degrees(back.nodes(["a", "b", ADA])).tolist() == [2, 3, 2]
    assert {end for _, end in hops(back, "b", links=True)} == {ADA, BO}


def test_chunks_and_entities_are_nodes(graph_of):
    """A mentioned node is an entity unless it is a chunk, and unknown ids are not nodes."""
    graph = graph_of("abc", [mention("a", "b"), Edge("b", "c", "cites"), mention("a", ADA)])
    nodes = graph.nodes(["a", "b", ADA, "never"])
    assert [node >= 0 for node in nodes] == [True, True, True, False]
    assert graph.is_chunk(nodes).tolist() == [True, True, False, False]
    assert graph.ids(nodes[:3]) == ["a", "b", ADA]
    assert ends(graph, "a") == {"b"}


def test_the_edge_of_each_step(graph_of):
    """Each step has its heaviest stored edge, both mentions of the shared entity, or None if it is not a hop."""
    light, heavy = Edge("a", "b", "r", 0.5, "said"), Edge("b", "a", "s", 0.9, "said otherwise")
    mentions = (mention("b", ADA, 0.8, description="b names Ada"), mention("c", ADA, 0.5))
    edges = [light, heavy, *mentions, Edge("b", ADA, "knows", 0.9)]
    steps = [("a", "b"), ("b", "c"), ("c", "a"), ("a", "no")]
    assert graph_of("abc", edges).edges(steps) == [light, mentions, None, None]
    both = graph_of("abc", edges, direction="both")
    assert both.edges([("a", "b"), ("c", "b")]) == [heavy, tuple(reversed(mentions))]


def test_without_damping_a_step_has_the_direct_edge_or_the_rarest_entity(graph_of):
    """Without ``hub_degree``, a step has the direct edge or else the rarest shared entity, whatever their weights."""
    rare, direct = (mention("a", BO, 0.5), mention("b", BO, 0.5)), Edge("a", "b", "r", 0.1)
    edges = [*(mention(chunk, ADA) for chunk in "abc"), *rare]
    assert graph_of("abc", edges, hub_degree=None).edges([("a", "b")]) == [rare]
    assert graph_of("abc", [*edges, direct], hub_degree=None).edges([("a", "b")]) == [direct]


@pytest.mark.parametrize(("day", "expected"), [(0, set()), (1, {"b"}), (2, {"b"}), (3, set())])
def test_an_edge_with_dates_is_valid_through_its_last_day(graph_of, day, expected):
    """An edge whose validity is given as dates is valid through its last day."""
    edges = [Edge("a", "b", "r", valid_from="1970-01-02", valid_until="1970-01-03")]
    assert ends(graph_of("ab", edges, Scope(as_of=day * 86_400.0 + 3_600.0)), "a") == expected


# -- edges in memory ----------------------------------------------------------------------------------------------


def test_changes_of_edges_in_memory():
    """Removing a chunk removes and counts its edges; a graph in use does not change, and an edge can come back."""
    edges = InMemoryGraph()
    assert not edges.has_graph
    edges.add([Edge("a", "b", "cites", 0.9), Edge("b", "c", "cites"), Edge("c", "a", "likes")])
    before = edges.scoped_graph(Scope(), EdgeFilter())
    assert (edges.has_graph, edges.remove(["b", "nowhere"]), len(edges)) == (True, 2, 1)
    after = edges.scoped_graph(Scope(), EdgeFilter())
    assert (ends(before, "a"), ends(after, "c"), after.relations) == ({"b"}, {"a"}, {"likes"})
    assert after.nodes(["b"]).tolist() == [-1]
    edges.add([Edge("a", "b", "cites", weight) for weight in (0.1, 0.2, 0.1)])
    assert near(edges, "a") == {("a", "b"): (0.2, "")}


def test_a_store_decides_which_chunks_are_visible():
    """A hidden chunk is neither a node nor a neighbour, each chunk is looked up once, and the store gives cosines."""
    lookups = []

    def visible(ids, scope):
        lookups.extend(ids)
        return {id for id in ids if id != "b"}

    edges = [mention("a", ADA, 0.5), mention("b", ADA, 0.8), Edge("a", "c", "cites", 0.3)]
    edges_of_store = InMemoryGraph(edges).for_store(visible, lambda vector, ids: {"a": 0.5})
    graph = edges_of_store.scoped_graph(Scope(), EdgeFilter())
    assert ends(graph, "a") == {"c"}
    assert set(hops(graph, ADA, links=True)) == {(ADA, "a")}
    assert graph.nodes(["b", "nowhere"]).tolist() == [-1, -1]
    assert sorted(lookups) == ["a", "b", "c"]
    cosines = graph.cosines(np.ones(2, np.float32), graph.nodes(["a", "c"]))
    assert cosines.tolist() == pytest.approx([0.5, math.nan], nan_ok=True)


@pytest.mark.parametrize("ends", [(None, "b", "r"), ("", "b", "r"), ("a", "b", ""), ("a", "b", None)])
def test_invalid_edges_are_refused(ends):
    """An edge with an empty or missing id or relation raises a ValueError, and no edge of its list is added."""
    edges = InMemoryGraph()
    with pytest.raises(ValueError, match="at least one character"):
        edges.add([Edge("a", "b", "r"), Edge(*ends)])
    assert len(edges) == 0
    with pytest.raises(ConfigurationError, match=r"must be a list of Edge, such as \[Edge"):
        edges.add(Edge("a", "b", "r"))


# -- edges of a store ---------------------------------------------------------------------------------------------


def test_parents_directories_and_missing_targets_are_not_nodes(store):
    """Parents, dangling targets and directories are not nodes; a missing target becomes one when it is added."""
    store.upsert(
        [Chunk("a", "text", {}, "d", "p")],
        parents=[Chunk("p", "text", {}, "d")],
        edges=[Edge("p", "a", "r"), Edge("a", "missing", "r"), Edge("docs/", "a", "contains"), mention("a", ADA)],
    )
    graph = store.scoped_graph(Scope(), EdgeFilter("both"))
    assert [node >= 0 for node in graph.nodes(["a", ADA, "p", "missing", "docs/"])] == [True, True, False, False, False]
    assert set(hops(graph, "a", links=True)) == {("a", ADA)}
    assert (store.admin.stats()["edges"], store.admin.stats()["entities"]) == (4, 1)
    upsert(store, "missing", ADA)
    assert near(store, "a") == {("a", "missing"): (1.0, ""), ("a", ADA): (1.0, "")}


def test_unknown_nodes_have_no_hops(store):
    """No nodes and unknown nodes have no hops, in an empty graph and in one with edges."""
    for _ in range(2):
        graph = store.scoped_graph(Scope(), EdgeFilter("both"))
        for nodes in (np.zeros(0, np.int64), np.array([-1])):
            assert [len(column) for column in graph.neighbours(nodes)] == [0] * 4
            assert [len(column) for column in graph.links(nodes)] == [0] * 4
        assert (graph.nodes([]).tolist(), graph.edges([])) == ([], [])
        upsert(store, "a", "b", edges=[Edge("a", "b", "r")])
    assert graph.degrees(np.array([-1])).tolist() == [0]


def test_cosines(store):
    """The graph's cosines of chunks equal the vector search's scores; an entity or unknown node has none."""
    upsert(store, "a", "b", edges=[mention("a", ADA)])
    vector = store.vector_search(Query("text of a", 1), 1).vector
    graph = store.scoped_graph(Scope(), EdgeFilter())
    cosines = graph.cosines(vector, graph.nodes(["a", ADA, "b", "missing"]))
    scores = store.vector_scores(vector, ["a", "b"])
    assert cosines[[0, 2]].tolist() == [scores["a"], scores["b"]]
    assert np.isnan(cosines[[1, 3]]).all()


def test_tenants_have_graphs_of_their_own(folder):
    """Two tenants with equal ids traverse only their own edges, and another tenant's scope raises TenantError."""
    with open_words(folder, tenant="x") as one, open_words(folder, tenant="y") as two:
        upsert(one, "a", "b", "c", edges=[Edge("a", "b", "r"), mention("a", ADA), mention("c", ADA)])
        assert (near(two, "a"), two.has_graph) == ({}, False)
        upsert(two, "a", "c", edges=[Edge("a", "c", "r", 0.5), mention("a", ADA)])
        assert near(two, "a") == {("a", "c"): (0.5, "")}
        assert {end for _, end in near(one, "a")} == {"b", "c"}
        with pytest.raises(TenantError):
            two.scoped_graph(Scope(tenant="x"), EdgeFilter())


def test_a_graph_in_use_does_not_change(store):
    """Changing a store does not change a graph already in use, and a closed store raises StoreError."""
    upsert(store, "a", "b", edges=[Edge("a", "b", "r"), mention("a", ADA), mention("b", ADA)])
    graph = store.scoped_graph(Scope(), EdgeFilter())
    nodes, ada = graph.nodes(["a"]), graph.nodes([ADA])
    store.upsert([Chunk("b", "another text")])
    assert near(store, "a") == {("a", "b"): (1.0, "")}
    store.remove(["a"])
    assert graph.ids(graph.neighbours(nodes).node) == ["b"]
    assert store.scoped_graph(Scope(), EdgeFilter()).nodes(["a"]).tolist() == [-1]
    store.close()
    with pytest.raises(StoreError, match="closed"):
        graph.ids(ada)


def test_an_entity_is_deleted_with_its_last_mention(store):
    """An entity and its edges are deleted with its last mention, by any kind of deletion."""
    knows = Edge(ADA, BO, "knows")
    upsert(store, "a", "b", edges=[mention("a", ADA), mention("b", ADA), mention("b", BO, 0.5), knows])
    store.remove(["a"])
    assert store.edges([ADA]) == [knows]
    store.replace_edges(["b"], [MENTIONS], [mention("b", BO, 0.5)])
    assert (store.edges([ADA]), store.admin.stats()["entities"]) == ([], 1)
    assert store.graph.prune(0.6) == 1
    assert store.admin.stats()["entities"] == 0


# -- against networkx ---------------------------------------------------------------------------------------------


def expected(store, scope, ways):
    """Return {(from, to): weight} of one hop between all chunks in scope, and the degrees, computed by networkx."""
    edges, visible = store.edges([*CHUNKS, *OTHERS]), set(store.find(scope))
    chunks, nodes = set(store.find(Scope())), nx.MultiDiGraph()
    nodes.add_nodes_from([*CHUNKS, *OTHERS])
    nodes.add_edges_from((edge.source, edge.target, edge.relation) for edge in edges)
    degree = dict(nodes.degree)
    entities = {e.target for e in edges if e.relation == MENTIONS} - chunks - {"p0"}
    direct, mentions = nx.DiGraph(), nx.DiGraph()
    for edge in edges:
        when = scope.as_of
        is_now = when is None or (edge.valid_from or -math.inf) <= when <= (edge.valid_until or math.inf)
        is_wanted = ways.relations is None or edge.relation in ways.relations
        if not (is_now and is_wanted and edge.weight >= ways.min_weight):
            continue
        steps = [(edge.source, edge.target)] if ways.direction != "in" else []
        steps += [(edge.target, edge.source)] if ways.direction != "out" else []
        for one, other in steps:
            heaviest = direct.get_edge_data(one, other, {"weight": 0})["weight"]
            direct.add_edge(one, other, weight=max(heaviest, edge.weight))
        if edge.relation == MENTIONS and edge.target in entities:
            mentions.add_edge(edge.source, edge.target, weight=edge.weight)
    passing = {id: min(1.0, ways.hub_degree / max(degree[id], 1)) if ways.hub_degree else 1.0 for id in degree}
    hop_weights = defaultdict(float)
    for one, other, weight in direct.edges(data="weight"):
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


some_edges = st.lists(edges_among(CHUNKS + OTHERS) | edges_among([*CHUNKS, ADA, BO], [MENTIONS]), max_size=40)
some_ways = st.builds(
    EdgeFilter,
    st.sampled_from(["out", "in", "both"]),
    st.sampled_from([None, frozenset({"r"}), frozenset({"s", MENTIONS})]),
    st.sampled_from([0.0, 0.5, 0.7]),
    st.sampled_from([None, 1, 3]),
)
some_scopes = st.builds(
    Scope, st.sampled_from([None, parse_filter({"odd": 1})]), st.none(), st.sampled_from([None, 5.0, 10.0, 15.0, 25.0])
)
puts = st.tuples(st.just("upsert"), st.lists(st.sampled_from(CHUNKS), max_size=8), some_edges)
removes = st.tuples(st.just("remove"), st.lists(st.sampled_from(CHUNKS), min_size=1, max_size=2), st.just([]))
replaces = st.tuples(st.just("replace"), st.lists(st.sampled_from(CHUNKS), max_size=2), some_edges)
prunes = st.tuples(st.sampled_from(["orphans", "light", "many"]), st.just([]), st.just([]))


def drawn_chunk(id):
    number = int(id[1:])
    times = {"valid_from": 10} if number == 3 else {"valid_until": 20} if number == 4 else {}
    return Chunk(id, f"text of {id}", {"odd": number % 2, **times}, parent_id="p0" if number == 5 else None)


def do(store, verb, ids, edges):
    if verb == "upsert":
        store.upsert([drawn_chunk(id) for id in dict.fromkeys(ids)], parents=[Chunk("p0", "parent")], edges=edges)
    elif verb == "remove":
        store.remove(ids)
    elif verb == "replace":
        store.replace_edges(ids, ["r", MENTIONS], edges)
    elif verb == "orphans":
        store.graph.prune_orphans()
    else:
        store.graph.prune(0.3 if verb == "light" else 0.0, 2 if verb == "many" else 0)


@given(
    st.lists(puts | puts | removes | replaces | prunes, min_size=1, max_size=8),
    st.lists(st.tuples(some_ways, some_scopes), min_size=8, max_size=8),
    st.sets(st.sampled_from(CHUNKS)),
)
def test_hops_equal_the_hops_of_networkx(tasks, calls, restriction):
    """After any changes, networkx finds the same hops, weights and degrees for any edge filter and scope, each hop has
    its edges, and a restricted graph keeps exactly the hops that end in it.
    """
    with closing(open_words()) as store:
        for task, (ways, scope) in zip(tasks, calls, strict=False):
            do(store, *task)
            expected_hops, degree = expected(store, scope, ways)
            graph = store.scoped_graph(scope, ways)
            actual = hops(graph, *store.find(NOW))
            assert {step: weight for step, (weight, _) in actual.items()} == pytest.approx(expected_hops)
            ids = [id for id in [*CHUNKS, ADA, BO] if graph.nodes([id])[0] >= 0]
            assert graph.degrees(graph.nodes(ids)).tolist() == [degree[id] for id in ids]
            within = hops(graph.restricted_to(graph.nodes(sorted(restriction))), *store.find(NOW))
            assert within == {step: hop for step, hop in actual.items() if step[1] in restriction}
            assert_edges_are_those_of_hops(graph, actual)


def assert_edges_are_those_of_hops(graph, actual):
    ids = {one for one, _ in actual}
    steps = [(one, other) for one in ids for other in ids if one != other]
    for step, edges in zip(steps, graph.edges(steps), strict=True):
        if step not in actual:
            assert edges is None
        elif actual[step][1]:
            assert [edge.source for edge in edges] == list(step)
            assert {edge.target for edge in edges} == {actual[step][1]}
        else:
            assert {edges.source, edges.target} == set(step)


# -- edges of chunks that are replaced and pruned ---------------------------------------------------------------------


def triples(store, *ids):
    return {(edge.source, edge.target, edge.relation) for edge in store.edges(ids)}


def graph_nodes(store):
    with store._index.catalog.reading() as connection:
        return {id for (id,) in connection.execute("SELECT id FROM nodes WHERE kind = 'graph'")}


# -- replacing ----------------------------------------------------------------------------------------------------


def test_an_edge_with_other_values_replaces_the_stored_one(store):
    """An edge with another weight (even a smaller one), description or time replaces the stored edge."""
    edge = Edge("a", "b", "r", 0.5, "said")
    for change in ({"weight": 0.4}, {"description": "said otherwise"}, {"valid_from": 1.0}):
        for each in (edge, replace(edge, **change)):
            store.replace_edges(["a"], ["r"], [each])
            assert store.edges(["a"]) == [each]


def test_ingesting_again_writes_nothing(store):
    """Ingesting documents with neighbours, links and directories again changes no row of the catalog."""
    chunks = [
        Chunk(f"{name}#{number}", f"part {number}, see [the other]({other}.md)", {"uri": f"docs/{name}"}, name)
        for name, other in (("one.md", "two"), ("two.md", "one"), ("three.md", "missing"))
        for number in range(3)
    ]
    first = ingest(chunks, store, split=None)
    before = changes(store)
    again = ingest(chunks, store, split=None)
    assert (again.added, again.updated, again.edges) == (0, 0, first.edges)
    assert first.edges > 0
    assert changes(store) - before == 0


# -- pruning ------------------------------------------------------------------------------------------------------


def test_edges_with_a_missing_end(store):
    """check() counts the edges to and from missing ids, and prune_orphans() deletes them and those ids."""
    links = [Edge("a", "missing", REFERENCES), Edge("gone", "a", "r"), Edge("gone", "missing", "r")]
    upsert(store, "a", "b", edges=[Edge("a", "b", REFERENCES), *links])
    store.upsert([], edges=[mention("a", "entity"), Edge("docs", "a", CONTAINS)])
    report = store.admin.check()
    assert report.ok
    (note,) = report.notes
    assert note.startswith("edges with an end that is not in the index: 3;")
    assert store.graph.prune_orphans() == 3
    assert triples(store, "a", "b", "gone") == {("a", "b", REFERENCES), ("a", "entity", MENTIONS)}
    assert graph_nodes(store) == {"docs", "entity"}
    assert store.admin.check().notes == ()


def test_a_directory_stays_while_there_is_a_chunk_below(store):
    """prune_orphans() keeps a directory with a chunk at any depth, and deletes an empty one."""
    full = [Edge("docs", "docs/api", CONTAINS), Edge("docs/api", "a", CONTAINS)]
    upsert(store, "a", "b", edges=[*full, Edge("docs", "docs/old", CONTAINS), Edge("b", "b/empty", CONTAINS)])
    assert store.graph.prune_orphans() == 2
    assert triples(store, "docs", "docs/api", "b") == {(e.source, e.target, e.relation) for e in full}
    assert graph_nodes(store) == {"docs", "docs/api"}
    store.remove(["a"])
    assert graph_nodes(store) == set()


def test_pruned_edges_return_with_the_next_ingest(store):
    """A pruned link to a missing document is written again when its source document is ingested again."""
    document = Chunk("one.md#1", "see [two](two.md)", {}, "one.md")
    ingest([document], store, split=None)
    waiting = triples(store, "one.md#1")
    assert waiting
    assert store.graph.prune_orphans() == len(waiting)
    ingest([document], store, split=None)
    assert triples(store, "one.md#1") == waiting


@pytest.mark.parametrize("column", ["valid_from", "valid_until"])
def test_an_edge_with_an_invalid_time_is_reported_and_repaired(tmp_path, column):
    """check() reports an edge whose stored time is invalid, and repair() deletes it and keeps the others."""
    with closing(open_words(tmp_path)) as store:
        upsert(store, "a", "b", "c", edges=[Edge("a", "b", "r"), Edge("a", "c", "r")])
    with closing(sqlite3.connect(tmp_path / "catalogue.sqlite")) as connection, connection:
        to_b = "target = (SELECT node FROM nodes WHERE id = 'b')"
        connection.execute(f"UPDATE edges SET {column} = '2024-01-01' WHERE {to_b}")
    with closing(open_words(tmp_path)) as store:
        (problem,) = store.admin.check().problems
        assert problem.startswith("1 edges")
        assert store.admin.repair().ok
        assert set(near(store, "a")) == {("a", "c")}
