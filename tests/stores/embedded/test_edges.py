"""Edges of the embedded store: differences are written, edges with a missing end are pruned."""

import sqlite3
from contextlib import closing

import pytest

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.ingestion.pipeline import ingest
from langchain_hybridgraph.records import CONTAINS, MENTIONS, REFERENCES, Edge, EdgeFilter, Scope
from tests.support.stores.words import open_words


@pytest.fixture(params=["disk", "memory"])
def store(request, tmp_path):
    path = tmp_path / "index" if request.param == "disk" else None
    with closing(open_words(path)) as store:
        yield store


@pytest.fixture
def memory():
    with closing(open_words()) as store:
        yield store


def changes(store):
    """Return the number of rows written, inserted or deleted so far."""
    with store._index.catalog.reading() as connection:
        return connection.total_changes


def triples(store, *ids):
    return {(edge.source, edge.target, edge.relation) for edge in store.edges(ids)}


def upsert(store, *ids, edges=()):
    store.upsert([Chunk(id, f"text of {id}", {}) for id in ids], edges=edges)


def graph_nodes(store):
    with store._index.catalog.reading() as connection:
        return {id for (id,) in connection.execute("SELECT id FROM nodes WHERE kind = 'graph'")}


# -- replacing ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed",
    [
        Edge("a", "b", "r", 0.4, "said"),
        Edge("a", "b", "r", 0.5, "said otherwise"),
        Edge("a", "b", "r", 0.5, "said", valid_from=1.0),
    ],
)
def test_an_edge_with_other_values_replaces_the_stored_one(store, changed):
    """An edge with another weight (even a smaller one), description or time replaces the stored edge."""
    store.replace_edges(["a"], ["r"], [Edge("a", "b", "r", 0.5, "said")])
    store.replace_edges(["a"], ["r"], [changed])
    assert store.edges(["a"]) == [changed]


def test_ingesting_again_writes_nothing(memory):
    """Ingesting documents with neighbours, links and directories again changes no row of the catalog."""
    chunks = [
        Chunk(f"{name}#{number}", f"part {number}, see [the other]({other}.md)", {"uri": f"docs/{name}"}, name)
        for name, other in (("one.md", "two"), ("two.md", "one"), ("three.md", "missing"))
        for number in range(3)
    ]
    first = ingest(chunks, memory, split=None)
    before = changes(memory)
    again = ingest(chunks, memory, split=None)
    assert (again.added, again.updated, again.edges) == (0, 0, first.edges)
    assert first.edges > 0
    assert changes(memory) - before == 0


# -- pruning ------------------------------------------------------------------------------------------------------


def test_edges_with_a_missing_end_are_deleted(store):
    """prune_orphans() deletes and counts the edges to and from missing ids, and deletes those ids."""
    links = [Edge("a", "missing", REFERENCES), Edge("gone", "a", "r"), Edge("gone", "missing", "r")]
    upsert(store, "a", "b", edges=[Edge("a", "b", REFERENCES), *links])
    assert store.graph.prune_orphans() == 3
    assert triples(store, "a", "b", "gone") == {("a", "b", REFERENCES)}
    assert graph_nodes(store) == set()


def test_a_check_counts_edges_with_missing_ends(store):
    """check() counts edges to and from missing ids, which are not problems."""
    upsert(store, "a", edges=[Edge("a", "entity", MENTIONS), Edge("folder", "a", CONTAINS), Edge("a", "zzz", "r")])
    store.upsert([], edges=[Edge("x", "a", "r"), Edge("a", "y", "r"), Edge("w", "x", "r")])
    report = store.admin.check()
    assert report.ok
    (note,) = report.notes
    assert note.startswith("4 edges have an end that is not in the index")
    upsert(store, "zzz", "x", "y", "w")
    assert store.admin.check().notes == ()


def test_an_entity_stays_while_a_chunk_mentions_it(store):
    """An entity and its edges are kept while a chunk mentions it, and deleted with the last such chunk."""
    upsert(store, "a", "b", edges=[Edge("a", "Ada", MENTIONS), Edge("b", "Bo", MENTIONS), Edge("Ada", "Bo", "knows")])
    assert store.graph.prune_orphans() == 0
    assert graph_nodes(store) == {"Ada", "Bo"}
    store.remove(["a"])
    assert store.graph.prune_orphans() == 0
    assert triples(store, "b", "Ada") == {("b", "Bo", MENTIONS)}
    assert graph_nodes(store) == {"Bo"}


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


DAY = 86_400.0


def one_hop_away(store, as_of):
    graph = store.scoped_graph(Scope(as_of=as_of), EdgeFilter())
    return graph.ids(graph.neighbours(graph.nodes(["a"])).node)


@pytest.mark.parametrize("column", ["valid_from", "valid_until"])
def test_an_edge_with_an_invalid_time_is_reported_and_repaired(tmp_path, column):
    """check() reports an edge whose stored time is invalid, and repair() deletes it and keeps the others."""
    with closing(open_words(tmp_path)) as store:
        upsert(store, "a", "b", "c", edges=[Edge("a", "b", "r"), Edge("a", "c", "r")])
    with closing(sqlite3.connect(tmp_path / "catalogue.sqlite")) as connection, connection:
        connection.execute(
            f"UPDATE edges SET {column} = '2024-01-01' WHERE target = (SELECT node FROM nodes WHERE id = 'b')"
        )
    with closing(open_words(tmp_path)) as store:
        (problem,) = store.admin.check().problems
        assert problem.startswith("1 edges")
        assert store.admin.repair().ok
        assert one_hop_away(store, DAY) == ["c"]
