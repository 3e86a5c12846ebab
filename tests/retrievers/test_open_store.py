"""A path or a URI opens the store that it names."""

import pytest
from milvus_calls import WordEmbeddings

from langchain_hybridgraph import HybridGraphStore, MilvusStore, open_store
from langchain_hybridgraph.errors import ConfigurationError


def test_a_path_opens_a_folder(tmp_path):
    """A path, as text or Path, is the folder of an index."""
    for location in (tmp_path / "index", str(tmp_path / "index")):
        with open_store(location, "lsa", language="german") as store:
            assert isinstance(store, HybridGraphStore)
            assert store.language == "german"


def test_a_uri_opens_milvus(tmp_path):
    """A URI of Milvus opens a store there, with its options."""
    pytest.importorskip("pymilvus")
    with open_store(f"milvus:{tmp_path / 'lite.db'}", WordEmbeddings(), tenant="ada") as store:
        assert isinstance(store, MilvusStore)
        assert store.tenant == "ada"


def test_milvus_needs_an_embedding():
    """There is no model that suits every server, so one has to be named."""
    with pytest.raises(ConfigurationError, match=r'needs an embedding: open_store\("milvus://db", "minilm"\)'):
        open_store("milvus://db")


def test_the_embedded_store_points_to_milvus():
    """A URI given as a folder's path says what opens it."""
    with pytest.raises(ConfigurationError, match=r"path must be a folder, got 'milvus://db'; open_store\(uri"):
        HybridGraphStore("milvus://db", "lsa")
