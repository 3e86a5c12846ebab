"""Indexes written by earlier or later versions of the package, and folders without an index."""

import os
import sqlite3

import pytest
from langchain_core.documents import Document

from langchain_hybridgraph import HybridGraphStore, HybridRetriever, build_layers, ingest
from langchain_hybridgraph.errors import ConfigurationError, FormatVersionError, NotAnIndexError, StoreLockedError
from langchain_hybridgraph.records import Scope
from langchain_hybridgraph.stores import connections as catalog_migrations
from langchain_hybridgraph.stores import folder as creation
from langchain_hybridgraph.stores.writer_lock import WriterLock

TEXTS = ["Cats purr at home.", "Dogs bark at cats.", "Trains are slow."]


@pytest.fixture
def folder(tmp_path):
    """Return the folder of an index in the current format."""
    with HybridGraphStore(tmp_path / "index", "lsa") as store:
        store.add_texts(TEXTS)
    return tmp_path / "index"


@pytest.fixture
def tomorrow(monkeypatch):
    """Simulate a later version of the package, whose catalog has one more table."""
    steps = (*catalog_migrations.MIGRATIONS, "CREATE TABLE of_tomorrow (name TEXT);")
    monkeypatch.setattr(catalog_migrations, "MIGRATIONS", steps)
    monkeypatch.setattr(catalog_migrations, "FORMAT_VERSION", len(steps))
    return len(steps)


def format_of(folder):
    with sqlite3.connect(folder / "catalogue.sqlite") as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.close()
    return version


def drop_tree_positions(connection):
    for column in ("uri", "context_type"):
        connection.execute(f"ALTER TABLE nodes DROP COLUMN {column}")


def tree_of(store):
    """Return the context type of each directory and document, by uri."""
    tree = store.scoped_tree(Scope())
    types, level = {}, tree.top()
    while level:
        types.update({tree.uri(node): tree.context_type(node) for node in level})
        level = [child for node in level for child in tree.children(node)]
    return types


def best_text(folder, **options):
    with HybridGraphStore(folder, "lsa", **options) as store:
        return HybridRetriever(store, k=1).invoke("Who barks?")[0].page_content


def test_an_index_of_the_first_format_is_brought_up_to_date(folder):
    """Opening an index of format 1 for writing adds the missing tables, and its chunks can be found and changed."""
    with sqlite3.connect(folder / "catalogue.sqlite") as connection:
        connection.execute("ALTER TABLE learned DROP COLUMN updated_at")
        drop_tree_positions(connection)
        for trigger in ("chunk_put", "chunk_changed", "chunk_deleted"):
            connection.execute(f"DROP TRIGGER {trigger}")
        for table in ("files", "file_documents", "file_paths"):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    assert best_text(folder) == "Dogs bark at cats."
    assert format_of(folder) == catalog_migrations.FORMAT_VERSION
    with HybridGraphStore(folder, "lsa") as store:
        store.add_texts(["Birds sing."], [{"updated_at": "2026-01-02"}], ids=["birds"])
        assert store.memory.states(["birds"], Scope())["birds"].updated_at is not None
        assert store.admin.check().ok


def test_an_index_of_the_fourth_format_keeps_its_tree(tmp_path):
    """The migration derives the tree from the stored metadata, even if it contains NaN or is damaged."""
    metadata = [
        {"uri": "guide/install.md/", "context_type": "guide"},
        {"url": "https://docs.org/use#install"},
        {"source": "notes", "document_id": "a", "size": float("nan")},
        {"source": "notes/b.md", "document_id": "notes/b.md", "context_type": 7},
        {"document_id": "python://asyncio/Queue"},
        {"uri": "broken/c.md", "document_id": "c"},
    ]
    with HybridGraphStore(tmp_path / "index", "lsa") as store:
        store.add_texts([f"Text {number}." for number in range(6)], metadata)
        expected = tree_of(store)
    assert expected["guide/install.md"] == "guide"
    with sqlite3.connect(tmp_path / "index" / "catalogue.sqlite") as connection:
        connection.execute("UPDATE nodes SET metadata = '{' WHERE uri = 'broken/c.md'")
        drop_tree_positions(connection)
        connection.execute("PRAGMA user_version = 4")
    connection.close()
    del expected["broken"], expected["broken/c.md"]
    with HybridGraphStore(tmp_path / "index", "lsa") as store:
        assert tree_of(store) == {**expected, "c": None}


def test_the_summaries_of_an_old_index_are_brought_up_to_date(tmp_path):
    """Opening an old index for writing also migrates its summaries, which can then be read and written again."""
    path = tmp_path / "index"
    documents = [Document(f"{name} live here.", metadata={"uri": f"pets/{name}.md"}) for name in ("Cats", "Dogs")]
    with HybridGraphStore(path, "lsa") as store:
        ingest(documents, store)
        assert build_layers(store).summarised == 1
    folders = [path, *(catalog.parent for catalog in path.glob("*/catalogue.sqlite"))]
    assert len(folders) == 2
    for each in folders:
        with sqlite3.connect(each / "catalogue.sqlite") as connection:
            drop_tree_positions(connection)
            connection.execute("PRAGMA user_version = 4")
        connection.close()
    HybridGraphStore(path, "lsa").close()
    assert [format_of(each) for each in folders] == [catalog_migrations.FORMAT_VERSION] * 2
    with HybridGraphStore(path, "lsa", read_only=True) as store:
        assert (store.admin.check().ok, store.admin.stats()["layers"]) == (True, 1)
    with HybridGraphStore(path, "lsa") as store:
        store.add_texts([f"A new text about boats, trains and city number {number}." for number in range(20)])
        assert build_layers(store).directories == 1


def test_a_chunk_written_by_an_earlier_version_has_its_place_in_the_tree(tmp_path):
    """A process of an earlier version that still has the index open writes no uri; it is computed when read."""
    with HybridGraphStore(tmp_path / "index", "lsa") as store:
        store.add_texts(["Cats purr.", "Mountains smoke."], [{"uri": "pets/cats.md"}, {"uri": "geo/volcano.md"}])
    with sqlite3.connect(tmp_path / "index" / "catalogue.sqlite") as connection:
        connection.execute("UPDATE nodes SET uri = NULL WHERE uri = 'geo/volcano.md'")
    connection.close()
    with HybridGraphStore(tmp_path / "index", "lsa") as store:
        assert sorted(tree_of(store)) == ["geo", "geo/volcano.md", "pets", "pets/cats.md"]


def test_an_old_index_is_brought_up_to_date(folder, tomorrow):
    """Opening an index of the previous format for writing migrates it and keeps its contents."""
    assert format_of(folder) == tomorrow - 1
    assert best_text(folder) == "Dogs bark at cats."
    assert format_of(folder) == tomorrow


def test_an_old_index_opened_for_reading_is_refused(folder, tomorrow):
    """Opening an old index read-only raises an error that contains the code to migrate it, and changes nothing."""
    with pytest.raises(FormatVersionError, match=r"format 5.*format 6.*HybridGraphStore\(path, embedding\)\.close\(\)"):
        best_text(folder, read_only=True)
    assert format_of(folder) == tomorrow - 1
    assert best_text(folder) == best_text(folder, read_only=True)


def test_an_old_index_that_is_being_written_to_is_left_alone(folder, tomorrow, monkeypatch):
    """An old index is not migrated while another process writes to it, since that process may run the old version."""
    monkeypatch.setattr(creation, "CREATION_PATIENCE", 0.1)
    with WriterLock(folder / "writer.lock").turn(timeout=1), pytest.raises(StoreLockedError):
        best_text(folder)
    assert format_of(folder) == tomorrow - 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_old_index_in_a_folder_that_cannot_be_written_to(folder, tomorrow):
    """Opening an old index in a read-only folder raises an error that explains how to migrate it."""
    for path in (*folder.iterdir(), folder):
        path.chmod(path.stat().st_mode & ~0o222)
    with pytest.raises(FormatVersionError, match="open it once for writing with the embedding"):
        best_text(folder)
    folder.chmod(0o755)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_newer_index_is_refused(folder, read_only):
    """Opening an index of a newer format raises an error with the upgrade command, and changes nothing."""
    with sqlite3.connect(folder / "catalogue.sqlite") as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(FormatVersionError, match=r"format 99.*pip install --upgrade"):
        best_text(folder, read_only=read_only)
    assert format_of(folder) == 99


def test_a_migration_that_fails_changes_nothing(folder, monkeypatch):
    """A failed migration leaves the old index complete and usable."""
    steps = (*catalog_migrations.MIGRATIONS, "CREATE TABLE half (name TEXT); INSERT INTO nowhere VALUES (1);")
    with monkeypatch.context() as patch:
        patch.setattr(catalog_migrations, "MIGRATIONS", steps)
        patch.setattr(catalog_migrations, "FORMAT_VERSION", len(steps))
        with pytest.raises(Exception, match="nowhere"):
            best_text(folder)
    assert format_of(folder) == len(steps) - 1
    assert best_text(folder) == "Dogs bark at cats."


def test_a_collection_of_chroma_is_not_an_index(tmp_path):
    """Opening a Chroma collection as an index raises an error that identifies it, and writes nothing to its folder."""
    from langchain_chroma import Chroma
    from langchain_core.embeddings import DeterministicFakeEmbedding

    Chroma("notes", DeterministicFakeEmbedding(size=4), persist_directory=str(tmp_path / "chroma")).add_texts(TEXTS)
    before = sorted((tmp_path / "chroma").iterdir())
    with pytest.raises(NotAnIndexError, match=r"contains a Chroma collection.*HybridRetriever\(Chroma\("):
        HybridGraphStore(tmp_path / "chroma", "lsa")
    assert sorted((tmp_path / "chroma").iterdir()) == before


def test_another_language_is_refused(tmp_path):
    """Opening a folder with another language raises ConfigurationError; the same language or None is accepted."""
    HybridGraphStore(tmp_path / "index", "lsa", language="german").close()
    for same in ("german", "de", None):
        with HybridGraphStore(tmp_path / "index", language=same) as store:
            assert store.language == "german"
    expected = r"made with language='german', but language='english' was passed: leave it out"
    with pytest.raises(ConfigurationError, match=expected):
        HybridGraphStore(tmp_path / "index", language="english")
