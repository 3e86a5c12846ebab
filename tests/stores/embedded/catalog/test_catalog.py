"""Catalog: the SQLite database of an index."""

import sqlite3
import subprocess
import sys

import pytest

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import FormatVersionError, NotAnIndexError, StoreError
from langchain_hybridgraph.records import Edge
from langchain_hybridgraph.stores.embedded.catalog import outbox as catalog_outbox
from langchain_hybridgraph.stores.embedded.catalog import writes as catalog_writes
from langchain_hybridgraph.stores.embedded.catalog.catalog import Catalog
from langchain_hybridgraph.stores.embedded.catalog.memory import insert_or_replace
from langchain_hybridgraph.stores.embedded.catalog.migrations import FORMAT_VERSION
from langchain_hybridgraph.stores.embedded.catalog.rows import catalog_rows


@pytest.fixture(params=["disk", "memory"])
def catalog(request, tmp_path):
    opened = Catalog(tmp_path / "catalogue.sqlite" if request.param == "disk" else None, create=True)
    yield opened
    opened.close()


@pytest.fixture
def path(tmp_path):
    Catalog(tmp_path / "catalogue.sqlite", create=True).close()
    return tmp_path / "catalogue.sqlite"


def insert(catalog, *chunks, parents=(), edges=(), tenant="", first=0):
    rows = iter(range(first, first + len(chunks)))
    entries = [
        entry._replace(row=next(rows) if entry.kind == "chunk" else None)
        for entry in catalog_rows(chunks, parents, tenant)
    ]
    with catalog.writing() as connection:
        insert_or_replace(connection, entries, 0.0)
        catalog_writes.put_edges(connection, tenant, edges, 0.0)
        catalog_outbox.log_changes(connection, [entry.row for entry in entries if entry.row is not None])


def delete(catalog, *ids, tenant=""):
    with catalog.writing() as connection:
        return catalog_writes.delete_ids(connection, tenant, ids)


def ids(catalog, tenant=""):
    return {entry.id for entry in catalog.read_ids(tenant, ["a", "b", "c", "p", "q"])}


# -- opening --------------------------------------------------------------------------------------------------------


def test_the_file_records_its_format(path):
    """A new catalog file contains the number of its format."""
    assert sqlite3.connect(path).execute("PRAGMA user_version").fetchone() == (FORMAT_VERSION,)


def test_a_newer_format_is_refused(path):
    """Opening a newer format raises an error that contains its number and the upgrade command."""
    sqlite3.connect(path).execute(f"PRAGMA user_version = {FORMAT_VERSION + 1}")
    with pytest.raises(FormatVersionError, match=rf"format {FORMAT_VERSION + 1}.*pip install --upgrade"):
        Catalog(path)


def test_no_file(tmp_path):
    """Opening a missing catalog raises NotAnIndexError and creates no file."""
    with pytest.raises(NotAnIndexError, match="contains no index"):
        Catalog(tmp_path / "catalogue.sqlite")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_not_a_database(tmp_path):
    """Opening a text file as a catalog raises NotAnIndexError."""
    (tmp_path / "catalogue.sqlite").write_text("not a database, but long enough to be read as one" * 50)
    with pytest.raises(NotAnIndexError, match="is not a catalog"):
        Catalog(tmp_path / "catalogue.sqlite")


def test_a_database_of_another_application(tmp_path):
    """Opening a SQLite file without the package's format number raises NotAnIndexError."""
    sqlite3.connect(tmp_path / "catalogue.sqlite").execute("CREATE TABLE t (x)")
    with pytest.raises(NotAnIndexError, match="not a catalog of this package"):
        Catalog(tmp_path / "catalogue.sqlite")


def test_a_damaged_database_is_a_store_error(path):
    """Reading a damaged database raises StoreError instead of an SQLite error."""
    catalog = Catalog(path)
    insert(catalog, *(Chunk(f"c{n}", "text " * 50) for n in range(500)))
    catalog.close()
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(bytes(data))
    with pytest.raises(StoreError):
        Catalog(path).read_rows([1, 2, 3])


# -- transactions ---------------------------------------------------------------------------------------------------


def test_an_error_rolls_back(catalog):
    """A transaction that raises an error stores nothing, and the next one works."""
    entries = [e._replace(row=0) for e in catalog_rows([Chunk("a", "t")], [], "")]

    def fail(connection):
        insert_or_replace(connection, entries, 0.0)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), catalog.writing() as connection:
        fail(connection)
    assert ids(catalog) == set()
    insert(catalog, Chunk("b", "t"))
    assert ids(catalog) == {"b"}


def test_an_error_of_sqlite_says_that_nothing_was_written(catalog):
    """A failed SQLite statement raises a StoreError that says that none of the batch was written."""
    with pytest.raises(StoreError, match="none of this batch was written"), catalog.writing() as connection:
        connection.execute("INSERT INTO nodes (node) VALUES (1)")
    assert ids(catalog) == set()


def test_a_snapshot_is_one_commit(path):
    """All reads inside a snapshot see the same commit, even if another connection writes meanwhile."""
    reader, writer = Catalog(path), Catalog(path)
    with reader.snapshot():
        before = reader.version()
        insert(writer, Chunk("a", "t"))
        assert (reader.version(), ids(reader), reader.rows()) == (before, set(), [])
    assert (reader.version(), ids(reader), reader.rows()) == (before + 1, {"a"}, [0])


def test_pages_hold_no_lock(catalog):
    """Chunks can be written while pages are read, and every earlier chunk is read once."""
    insert(catalog, *(Chunk(f"c{n}", "t") for n in range(10)))
    rows = []
    for page in catalog.pages(stop=10, step=3):
        rows += [entry.row for entry in page]
        insert(catalog, Chunk(f"new{len(rows)}", "t"), first=100 + len(rows))
    assert rows == list(range(10))


# -- chunks and parents ---------------------------------------------------------------------------------------------


def test_an_entry_is_replaced_by_its_id(catalog):
    """Writing an existing id replaces its row and content, but not another tenant's entry."""
    insert(catalog, Chunk("a", "old"), tenant="one")
    insert(catalog, Chunk("a", "others'"), tenant="two", first=1)
    insert(catalog, Chunk("a", "new"), tenant="one", first=2)
    assert [(e.tenant, e.text) for e in sorted(catalog.read_rows([0, 1, 2]))] == [("two", "others'"), ("one", "new")]


def test_texts_and_metadata_with_nul(catalog):
    """NUL characters in texts and metadata are kept."""
    insert(catalog, Chunk("a", "x\0y", {"k\0": "v\0w"}))
    chunk = catalog.read_rows([0])[0].chunk()
    assert (chunk.text, dict(chunk.metadata)) == ("x\0y", {"k\0": "v\0w"})


def test_an_id_with_nul_finds_nothing(catalog):
    """An id with a NUL does not match the id before the NUL, as it would in SQLite's json_each."""
    insert(catalog, Chunk("a", "t"))
    assert catalog.read_ids("", ["a\0b", "\ud800"]) == []
    assert delete(catalog, "a\0b") == (0, [])


def test_metadata_is_a_read_only_mapping(catalog):
    """A chunk's metadata behaves like a dictionary that cannot be changed."""
    insert(catalog, Chunk("a", "t", {"x": 1, "y": [2]}))
    metadata = catalog.read_rows([0])[0].chunk().metadata
    assert (len(metadata), list(metadata), metadata["y"], metadata.get("z")) == (2, ["x", "y"], [2], None)
    assert repr(metadata) == "{'x': 1, 'y': [2]}"
    with pytest.raises(TypeError):
        metadata["x"] = 5


def test_thousands_of_rows_in_one_read(catalog):
    """One read accepts more rows or ids than SQLite's limit of variables."""
    insert(catalog, *(Chunk(f"c{n}", "t") for n in range(33_000)))
    assert len(catalog.read_rows(range(33_000))) == 33_000
    assert len(catalog.read_ids("", [f"c{n}" for n in range(33_000)])) == 33_000


def test_deleting_returns_the_count_and_the_rows(catalog):
    """Deleting returns the number of chunks and parents deleted and the rows that they occupied."""
    insert(catalog, Chunk("a", "t"), Chunk("b", "t"), parents=[Chunk("p", "t")])
    assert delete(catalog, "a", "p", "unknown", "a") == (2, [0])
    assert ids(catalog) == {"b"}


def test_a_parent_is_deleted_with_its_last_child(catalog):
    """A parent is deleted with its last child, even if its children are in several documents."""
    children = Chunk("a", "t", {}, "one", "p"), Chunk("b", "t", {}, "two", "p")
    insert(catalog, *children, parents=[Chunk("p", "t"), Chunk("q", "t", {}, "one")])
    delete(catalog, "a")
    assert ids(catalog) == {"b", "p", "q"}
    delete(catalog, "b")
    assert ids(catalog) == {"q"}


def test_a_parent_without_children_yet_is_kept(catalog):
    """Deleting a chunk of the same document keeps a parent that has no children yet."""
    insert(catalog, Chunk("a", "t", {}, "doc"), parents=[Chunk("p", "t", {}, "doc")])
    delete(catalog, "a")
    assert ids(catalog) == {"p"}


def test_deleting_affects_one_tenant(catalog):
    """Deleting chunks of one tenant keeps another tenant's chunks, parents and edges with equal ids."""
    for number, tenant in enumerate(("one", "two")):
        chunks = Chunk("a", "t", {}, "d", "p"), Chunk("b", "t", {}, "d", "p")
        insert(
            catalog,
            *chunks,
            parents=[Chunk("p", "t")],
            edges=[Edge("a", "b", "r")],
            tenant=tenant,
            first=number * 2,
        )
    delete(catalog, "a", "b", tenant="one")
    assert (ids(catalog, "one"), ids(catalog, "two")) == (set(), {"a", "b", "p"})
    assert (catalog.edges("one", ["a"]), len(catalog.edges("two", ["a"]))) == ([], 1)


# -- edges ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at_once", [True, False])
def test_the_heaviest_of_equal_edges_is_kept(catalog, at_once):
    """The heaviest of several edges with equal ends and relation is kept, with its description and times."""
    edges = [Edge("a", "b", "r", 0.5, "weak"), Edge("a", "b", "r", 0.9, "strong", 1.0, 2.0), Edge("a", "b", "r", 0.7)]
    for batch in [edges] if at_once else [[edge] for edge in edges]:
        insert(catalog, edges=batch)
    assert catalog.edges("", ["a"]) == [Edge("a", "b", "r", 0.9, "strong", 1.0, 2.0)]


def test_direction_and_relation_distinguish_edges(catalog):
    """Edges with other directions or relations are separate, and are returned by source, relation and target."""
    edges = [Edge("a", "b", "s"), Edge("a", "c", "r"), Edge("a", "b", "r"), Edge("b", "a", "r")]
    insert(catalog, edges=edges)
    assert [(e.target, e.relation) for e in catalog.edges("", ["a"])] == [("b", "r"), ("c", "r"), ("b", "s")]
    assert [e.source for e in catalog.edges("", ["a"], backwards=True)] == ["b"]


def test_ends_need_not_exist(catalog):
    """An edge may be written before its chunks, and its ends become chunks when these are added."""
    insert(catalog, edges=[Edge("a", "b", "r")])
    assert (ids(catalog), catalog.stored_hashes("", ["a"])["a"].kind) == (set(), "graph")
    insert(catalog, Chunk("a", "t"), Chunk("b", "t"))
    assert ids(catalog) == {"a", "b"}
    assert catalog.edges("", ["a"]) == [Edge("a", "b", "r")]


def test_edges_are_deleted_with_their_ends(catalog):
    """Deleting a chunk deletes its edges in both directions; updating it keeps them."""
    insert(catalog, Chunk("a", "t"), edges=[Edge("a", "b", "r"), Edge("c", "a", "r"), Edge("b", "c", "r")])
    insert(catalog, Chunk("a", "changed"), first=1)
    assert len(catalog.edges("", ["a", "b", "c"])) == 3
    delete(catalog, "a")
    assert catalog.edges("", ["a", "b", "c"]) == [Edge("b", "c", "r")]


def test_edges_are_deleted_by_their_ends_and_relation(catalog):
    """Deleting an edge ignores its weight and keeps edges in the other direction or with another relation."""
    insert(catalog, edges=[Edge("a", "b", "r"), Edge("a", "b", "s"), Edge("b", "a", "r")])
    with catalog.writing() as connection:
        catalog_writes.delete_edges(connection, "", [Edge("a", "b", "r", 0.5)])
    assert catalog.edges("", ["a", "b"]) == [Edge("a", "b", "s"), Edge("b", "a", "r")]


def test_edges_to_missing_nodes_are_a_fault(catalog):
    """An edge with a missing end is reported as a fault and can be deleted."""
    insert(catalog, edges=[Edge("a", "b", "r"), Edge("b", "c", "r")])
    assert catalog.faults() == []
    with catalog.writing() as connection:
        connection.execute("DELETE FROM nodes WHERE id = 'c'")
    assert catalog.faults() == ["1 edges point to missing nodes"]
    with catalog.writing() as connection:
        catalog_writes.delete_lost_edges(connection)
    assert (catalog.faults(), len(catalog.edges("", ["a"]))) == ([], 1)


def test_counts_are_per_tenant(catalog):
    """Chunks, parents, edges and entities are counted per tenant."""
    insert(catalog, Chunk("a", "t"), parents=[Chunk("p", "t")], edges=[Edge("a", "b", "r")], tenant="one")
    assert catalog.count("one") == {"chunks": 1, "parents": 1, "edges": 1, "entities": 0}
    assert catalog.count("two") == {"chunks": 0, "parents": 0, "edges": 0, "entities": 0}
    assert (catalog.has_parents("one"), catalog.has_parents("two")) == (True, False)


# -- the outbox -----------------------------------------------------------------------------------------------------


def test_changes_since_a_version(catalog):
    """The outbox lists each row changed since a version once, until it is trimmed."""
    for number in range(3):
        insert(catalog, Chunk("a", str(number)), Chunk("b", str(number)), first=2 * number)
    with catalog.writing() as connection:
        assert catalog_outbox.log_changes(connection, [0, 0, 7]) == 4
    assert (sorted(catalog.changed_rows(1)), sorted(catalog.changed_rows(4))) == ([0, 2, 3, 4, 5, 7], [])
    with catalog.writing() as connection:
        catalog_outbox.trim_changes(connection, 3)
    assert (sorted(catalog.changed_rows(0)), catalog.facts()["floor"]) == ([0, 7], 3)


def test_a_killed_writer_leaves_complete_commits(path):
    """A process killed inside a transaction leaves only its earlier commits."""
    code = f"""
import os, sqlite3
from pathlib import Path
from langchain_hybridgraph.stores.embedded.catalog.catalog import Catalog
from langchain_hybridgraph.stores.embedded.catalog.outbox import set_facts
catalog = Catalog(Path({str(path)!r}))
with catalog.writing() as connection:
    set_facts(connection, committed=1)
with catalog.writing() as connection:
    set_facts(connection, uncommitted=1)
    os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    about = Catalog(path).facts()
    assert ("committed" in about, "uncommitted" in about) == (True, False)
