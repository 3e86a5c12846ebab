"""Folders that are moved, replaced or deleted while a store has them open."""

import shutil
from contextlib import closing

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding

from langchain_hybridgraph import HybridGraphStore
from langchain_hybridgraph.errors import RetrievalError, StoreError
from langchain_hybridgraph.retrievers.hybrid import HybridRetriever

EMBEDDING = DeterministicFakeEmbedding(size=8)


def stored(folder, ids):
    store = HybridGraphStore(folder, EMBEDDING)
    store.add_texts([f"text {id}" for id in ids], ids=ids)
    return store


def test_a_relative_path_outlives_a_change_of_the_working_directory(tmp_path, monkeypatch):
    """A store opened by a relative path keeps using its folder after the working directory changes."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with closing(stored("index", ["a"])) as store:
        monkeypatch.chdir(tmp_path / "elsewhere")
        store.add_texts(["text b"], ids=["b"])
        assert store.admin.check().problems == ()
        assert len(store) == 2
    assert not (tmp_path / "elsewhere/index").exists()


def test_a_link_that_is_switched_to_another_index(tmp_path):
    """A store opened through a symbolic link keeps using the original folder after the link is changed."""
    for name in ("first", "second"):
        stored(tmp_path / name, [name]).close()
    link = tmp_path / "current"
    link.symlink_to(tmp_path / "first")
    with closing(HybridGraphStore(link, EMBEDDING)) as store:
        link.unlink()
        link.symlink_to(tmp_path / "second")
        store.add_texts(["text late"], ids=["late"])
        assert store.admin.check().problems == ()
        assert len(store) == 2
    with closing(HybridGraphStore(tmp_path / "second", EMBEDDING)) as second:
        assert second.admin.check().problems == ()
        assert len(second) == 1


def test_a_folder_that_was_made_again_at_the_same_path(tmp_path):
    """If the folder is replaced by a new index, the old store raises errors and the new index is not changed."""
    old = stored(tmp_path / "index", ["a"])
    shutil.rmtree(tmp_path / "index")
    new = stored(tmp_path / "index", ["b", "c", "d"])
    with pytest.raises(StoreError, match="was deleted or replaced while it was open: close this"):
        old.add_texts(["text e"], ids=["e"])
    with pytest.raises(RetrievalError, match="was deleted or replaced while it was open"):
        HybridRetriever(old).invoke("text")
    assert new.admin.check().problems == ()
    assert len(new) == 3
    old.close()
    new.add_texts(["text f"], ids=["f"])
    assert new.admin.check().problems == ()
    assert len(new) == 4
    new.close()


def test_a_catalog_that_was_deleted(tmp_path):
    """A store whose catalog was deleted refuses reads and writes, and does not create the file again."""
    with closing(stored(tmp_path / "index", ["a"])) as store:
        (tmp_path / "index/catalogue.sqlite").unlink()
        with pytest.raises(StoreError, match="was deleted or replaced while it was open"):
            store.add_texts(["text b"], ids=["b"])
        with pytest.raises(StoreError, match="was deleted or replaced while it was open"):
            len(store)
        assert not (tmp_path / "index/catalogue.sqlite").exists()
