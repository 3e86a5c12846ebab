"""open_store() and settings that open a folder or a Milvus store."""

import re

import pytest

from langchain_hybridgraph import HybridGraphSettings, HybridGraphStore, HybridRetriever, MilvusStore, open_store
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.vectorstores.hybrid_graph_store import store_from_settings
from tests.support.stores.milvus_calls import WordEmbeddings


def test_a_path_opens_a_folder(tmp_path):
    """open_store() with a path, as a string or a Path, opens the index in that folder."""
    for location in (tmp_path / "index", str(tmp_path / "index")):
        with open_store(location, "lsa", language="german") as store:
            assert isinstance(store, HybridGraphStore)
            assert store.language == "german"


def test_a_uri_opens_milvus(tmp_path):
    """open_store() with a Milvus URI opens a MilvusStore with the options passed."""
    pytest.importorskip("pymilvus")
    with open_store(f"milvus:{tmp_path / 'lite.db'}", WordEmbeddings(), tenant="ada") as store:
        assert isinstance(store, MilvusStore)
        assert store.tenant == "ada"


def test_settings_open_milvus(tmp_path):
    """Settings with store_uri give a retriever that searches that Milvus server."""
    pytest.importorskip("pymilvus")
    fake = {"type": "langchain_core.embeddings:DeterministicFakeEmbedding", "size": 8}
    settings = HybridGraphSettings(
        store_uri=f"milvus:{tmp_path / 'lite.db'}", store_embedding=fake, store_collection="notes", retriever_k=1
    )
    retriever = HybridRetriever.from_settings(settings)
    assert isinstance(retriever.vector_store, MilvusStore)
    retriever.vector_store.add_texts(["A parcel takes two days."], ids=["parcel"])
    assert [document.id for document in retriever.invoke("parcel")] == ["parcel"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"store_uri": "milvus://db", "store_path": "index"},
            "store_path applies only to a folder, .* specify a server",
        ),
        ({"store_uri": "milvus://db", "store_read_only": True}, "store_read_only applies only to a folder"),
        (
            {"store_path": "index", "store_collection": "notes"},
            "store_collection applies only to a server, .* set either store_uri",
        ),
        ({"store_uri": "milvus://db"}, "needs an embedding"),
        ({}, "store_path is not set"),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else None,
)
def test_settings_of_two_kinds_of_store_are_refused(settings, message):
    """Settings that do not apply to the configured kind of store raise a ConfigurationError."""
    with pytest.raises(ConfigurationError, match=message):
        store_from_settings(HybridGraphSettings(**settings))


@pytest.mark.parametrize("location", ["milvs:notes.db", "Milvus:notes.db", "htps://db"])
def test_a_misspelt_scheme_does_not_become_a_folder(tmp_path, monkeypatch, location):
    """The error names the schemes that exist, and nothing is created."""
    monkeypatch.chdir(tmp_path)
    for opened in (open_store, HybridGraphStore):
        with pytest.raises(ConfigurationError, match="scheme of a store must be milvus, http or https"):
            opened(location, WordEmbeddings())
    with pytest.raises(ConfigurationError, match=re.escape(location)):
        MilvusStore(location, WordEmbeddings())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_may_have_a_colon_in_its_name(tmp_path, monkeypatch):
    """Only what resembles a scheme is refused, and never an absolute path."""
    monkeypatch.chdir(tmp_path)
    for location in ("notes:2024", str(tmp_path / "milvs:notes")):
        open_store(location, "lsa").close()
    assert {path.name for path in tmp_path.iterdir()} == {"notes:2024", "milvs:notes"}


def test_the_other_kind_of_store_is_suggested():
    """A Milvus URI without an embedding, or as the path of HybridGraphStore, raises an error that helps."""
    with pytest.raises(ConfigurationError, match=r'needs an embedding: open_store\("milvus://db", "minilm"\)'):
        open_store("milvus://db")
    with pytest.raises(ConfigurationError, match=r"path must be a folder, got 'milvus://db'; open_store\(uri"):
        HybridGraphStore("milvus://db", "lsa")
