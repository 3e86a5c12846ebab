"""Indexes written by earlier or later versions of the package, and folders without an index."""

import sqlite3

import pytest

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from langchain_hybridgraph.errors import ConfigurationError, FormatVersionError, NotAnIndexError

TEXTS = ["Cats purr at home.", "Dogs bark at cats.", "Trains are slow."]


@pytest.fixture
def folder(tmp_path):
    """Return the folder of an index in the current format."""
    with HybridGraphStore(tmp_path / "index", "lsa") as store:
        store.add_texts(TEXTS)
    return tmp_path / "index"


def format_of(folder):
    with sqlite3.connect(folder / "catalogue.sqlite") as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.close()
    return version


def best_text(folder, **options):
    with HybridGraphStore(folder, "lsa", **options) as store:
        return HybridRetriever(store, k=1).invoke("Who barks?")[0].page_content


@pytest.mark.parametrize("read_only", [False, True])
def test_an_older_index_is_refused(folder, read_only):
    """Opening an index of an older format raises an error that says what to do, and changes nothing."""
    with sqlite3.connect(folder / "catalogue.sqlite") as connection:
        connection.execute("PRAGMA user_version = 4")
    connection.close()
    with pytest.raises(FormatVersionError, match=r"format 4.*format 5: ingest the documents into a new folder"):
        best_text(folder, read_only=read_only)
    assert format_of(folder) == 4


@pytest.mark.parametrize("read_only", [False, True])
def test_a_newer_index_is_refused(folder, read_only):
    """Opening an index of a newer format raises an error with the upgrade command, and changes nothing."""
    with sqlite3.connect(folder / "catalogue.sqlite") as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(FormatVersionError, match=r"format 99.*pip install --upgrade"):
        best_text(folder, read_only=read_only)
    assert format_of(folder) == 99


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
