"""Indexes of earlier and later versions of the package, and folders without an index."""

import os
import sqlite3

import pytest

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from langchain_hybridgraph.errors import ConfigurationError, FormatVersionError, NotAnIndexError, StoreLockedError
from langchain_hybridgraph.records import Scope
from langchain_hybridgraph.stores.embedded.catalog import migrations as catalog_migrations
from langchain_hybridgraph.stores.embedded.folder import creation
from langchain_hybridgraph.stores.embedded.folder.writer_lock import WriterLock

TEXTS = ["Cats purr at home.", "Dogs bark at cats.", "Trains are slow."]


@pytest.fixture
def folder(tmp_path):
    """Return an index of the present version."""
    with HybridGraphStore(tmp_path / "index", "lsa") as store:
        store.add_texts(TEXTS)
    return tmp_path / "index"


@pytest.fixture
def tomorrow(monkeypatch):
    """Patch in a later version of the package, whose catalog has one more table."""
    steps = (*catalog_migrations.MIGRATIONS, "CREATE TABLE of_tomorrow (name TEXT);")
    monkeypatch.setattr(catalog_migrations, "MIGRATIONS", steps)
    monkeypatch.setattr(catalog_migrations, "FORMAT_VERSION", len(steps))
    return len(steps)


def format_of(folder):
    with sqlite3.connect(folder / "catalogue.sqlite") as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.close()
    return version


def best_text(folder, **options):
    with HybridGraphStore(folder, "lsa", **options) as store:
        return HybridRetriever(store, k=1).invoke("Who barks?")[0].page_content


def test_an_index_of_the_first_format_is_brought_up_to_date(folder):
    """Opening it for writing adds the missing tables, and everything is found and can be changed."""
    with sqlite3.connect(folder / "catalogue.sqlite") as connection:
        connection.execute("ALTER TABLE learned DROP COLUMN updated_at")
        for trigger in ("chunk_put", "chunk_changed", "chunk_deleted"):
            connection.execute(f"DROP TRIGGER {trigger}")
        for table in ("files", "file_documents"):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    assert best_text(folder) == "Dogs bark at cats."
    assert format_of(folder) == catalog_migrations.FORMAT_VERSION
    with HybridGraphStore(folder, "lsa") as store:
        store.add_texts(["Birds sing."], [{"updated_at": "2026-01-02"}], ids=["birds"])
        assert store.memory.states(["birds"], Scope())["birds"].updated_at is not None
        assert store.admin.check().ok


def test_an_old_index_is_brought_up_to_date(folder, tomorrow):
    """Opening it for writing migrates it, and all its contents are found."""
    assert format_of(folder) == tomorrow - 1
    assert best_text(folder) == "Dogs bark at cats."
    assert format_of(folder) == tomorrow


def test_an_old_index_opened_for_reading_says_how_to_migrate(folder, tomorrow):
    """A reader changes nothing; the error contains the line that migrates the index."""
    with pytest.raises(FormatVersionError, match=r"format 3.*reads 4.*HybridGraphStore\(path, embedding\)\.close\(\)"):
        best_text(folder, read_only=True)
    assert format_of(folder) == tomorrow - 1
    assert best_text(folder) == best_text(folder, read_only=True)


def test_an_old_index_that_is_being_written_to_is_left_alone(folder, tomorrow, monkeypatch):
    """The other process may still be of the old version."""
    monkeypatch.setattr(creation, "CREATION_PATIENCE", 0.1)
    with WriterLock(folder / "writer.lock").turn(timeout=1), pytest.raises(StoreLockedError):
        best_text(folder)
    assert format_of(folder) == tomorrow - 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_old_index_in_a_folder_that_cannot_be_written_to(folder, tomorrow):
    """The error says how to migrate."""
    for path in (*folder.iterdir(), folder):
        path.chmod(path.stat().st_mode & ~0o222)
    with pytest.raises(FormatVersionError, match="open it once for writing"):
        best_text(folder)
    folder.chmod(0o755)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_newer_index_says_what_to_upgrade(folder, read_only):
    """The index is not changed."""
    with sqlite3.connect(folder / "catalogue.sqlite") as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(FormatVersionError, match=r"format 99.*pip install --upgrade"):
        best_text(folder, read_only=read_only)
    assert format_of(folder) == 99


def test_a_migration_that_fails_changes_nothing(folder, monkeypatch):
    """Each step is one transaction; the old index stays complete."""
    steps = (*catalog_migrations.MIGRATIONS, "CREATE TABLE half (name TEXT); INSERT INTO nowhere VALUES (1);")
    with monkeypatch.context() as patch:
        patch.setattr(catalog_migrations, "MIGRATIONS", steps)
        patch.setattr(catalog_migrations, "FORMAT_VERSION", len(steps))
        with pytest.raises(Exception, match="nowhere"):
            best_text(folder)
    assert format_of(folder) == len(steps) - 1
    assert best_text(folder) == "Dogs bark at cats."


def test_a_collection_of_chroma_is_not_an_index(tmp_path):
    """The error names the contents, and nothing is written into the folder."""
    from langchain_chroma import Chroma
    from langchain_core.embeddings import DeterministicFakeEmbedding

    Chroma("notes", DeterministicFakeEmbedding(size=4), persist_directory=str(tmp_path / "chroma")).add_texts(TEXTS)
    before = sorted((tmp_path / "chroma").iterdir())
    with pytest.raises(NotAnIndexError, match=r"holds a Chroma collection.*HybridRetriever\(Chroma\("):
        HybridGraphStore(tmp_path / "chroma", "lsa")
    assert sorted((tmp_path / "chroma").iterdir()) == before


def test_another_language_is_refused(tmp_path):
    """A folder keeps the language that it was made with; another one is an error, the same or none is not."""
    HybridGraphStore(tmp_path / "index", "lsa", language="german").close()
    for same in ("german", "de", None):
        with HybridGraphStore(tmp_path / "index", language=same) as store:
            assert store.language == "german"
    with pytest.raises(ConfigurationError, match=r"made with language='german', got 'english': leave language= out"):
        HybridGraphStore(tmp_path / "index", language="english")
