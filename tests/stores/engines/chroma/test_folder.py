"""Approximate vector index with Chroma's HNSW."""

import numpy as np
import pytest

from langchain_hybridgraph.errors import StoreError
from langchain_hybridgraph.stores.engines.chroma import folder as chroma_folder
from langchain_hybridgraph.stores.engines.chroma.folder import OwnedChroma
from langchain_hybridgraph.stores.engines.chroma.rows import ChromaRows
from langchain_hybridgraph.stores.engines.vector_matrix import unit


@pytest.fixture
def rows(tmp_path):
    opened = ChromaRows.in_folder(tmp_path / "chroma")
    yield opened
    opened.close()


VECTORS = unit(np.random.default_rng(0).normal(size=(50, 8)))


def test_the_nearest_rows_come_first(rows):
    """With few rows, the approximate search returns the exact nearest rows."""
    rows.upsert(range(50), VECTORS)
    nearest = rows.search(VECTORS[7], 5)
    assert nearest.tolist() == np.argsort(-(VECTORS @ VECTORS[7]))[:5].tolist()
    assert nearest.dtype == np.int64


def test_a_row_is_replaced(rows):
    """Writing an existing row replaces its vector and does not add a row."""
    rows.upsert(range(50), VECTORS)
    rows.upsert([3], VECTORS[9:10])
    assert set(rows.search(VECTORS[9], 2).tolist()) == {3, 9}
    assert (len(rows), rows.rows()) == (50, set(range(50)))


def test_rows_are_deleted(rows):
    """Deleted rows are not found, and deleting missing rows or none has no effect."""
    rows.upsert(range(50), VECTORS)
    rows.delete([7, 8, 1000])
    rows.delete([])
    assert rows.rows() == set(range(50)) - {7, 8}
    assert not {7, 8} & set(rows.search(VECTORS[7], 50).tolist())


def test_an_empty_collection_finds_nothing(rows):
    """Searching an empty collection returns no rows."""
    assert rows.search(VECTORS[0], 5).tolist() == []
    assert (len(rows), rows.rows()) == (0, set())


def test_more_rows_than_fit_into_one_call(rows):
    """More rows than Chroma accepts in one call can be written and deleted."""
    many = unit(np.random.default_rng(1).normal(size=(6_000, 4)))
    rows.upsert(range(6_000), many)
    assert len(rows) == 6_000
    rows.delete(range(6_000))
    assert len(rows) == 0


def test_rows_are_kept_after_reopening(tmp_path):
    """Rows are found after closing and reopening the collection."""
    first = ChromaRows.in_folder(tmp_path / "chroma")
    first.upsert(range(50), VECTORS)
    first.close()
    second = ChromaRows.in_folder(tmp_path / "chroma")
    assert second.search(VECTORS[7], 1).tolist() == [7]
    second.close()


def test_a_damaged_folder_is_a_store_error(tmp_path):
    """Opening a damaged folder raises StoreError, and after removing the folder a new index works."""
    first = ChromaRows.in_folder(tmp_path / "chroma")
    first.upsert(range(50), VECTORS)
    first.close()
    (tmp_path / "chroma" / "chroma.sqlite3").write_bytes(b"no database" * 1000)
    with pytest.raises(StoreError, match="Chroma could not open"):
        ChromaRows.in_folder(tmp_path / "chroma")
    chroma_folder.remove(tmp_path / "chroma")
    chroma_folder.remove(tmp_path / "chroma")
    again = ChromaRows.in_folder(tmp_path / "chroma")
    again.upsert([1], VECTORS[1:2])
    assert again.rows() == {1}
    again.close()


def test_a_closed_collection_is_a_store_error(tmp_path):
    """Searching a closed collection raises StoreError instead of crashing."""
    rows = ChromaRows.in_folder(tmp_path / "chroma")
    rows.upsert(range(50), VECTORS)
    rows.close()
    with pytest.raises(StoreError):
        rows.search(VECTORS[0], 3)


def test_the_collection_of_another_owner_stays(tmp_path):
    """A collection is deleted only by its owner, at the time the owner opens the next one."""
    owner, other = OwnedChroma(tmp_path), OwnedChroma(tmp_path)
    assert owner.own()
    owner.open(1).upsert(range(50), VECTORS)
    assert not other.own()
    other.drop(1)
    assert owner.exists(1)
    assert owner.open(1).search(VECTORS[7], 1).tolist() == [7]
    owner.open(2)
    assert (owner.exists(1), owner.exists(2)) == (False, True)
    owner.close()
    other.drop(2)
    assert not other.exists(2)
    other.close()
