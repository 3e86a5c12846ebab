"""The command line with a store in Milvus, and copies of indexes to it."""

import json

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding

from langchain_hybridgraph import HybridGraphStore, migration
from langchain_hybridgraph.vectorstores.milvus_store import MilvusStore
from tests.cli.commands import answer, hybridgraph
from tests.support.stores.words import Words

pytest.importorskip("milvus_lite")


MODEL = "tests.support.stores.words:Words"


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("milvus")
    (folder / "docs").mkdir()
    (folder / "docs" / "rivers.md").write_text("# Rivers\n\nThe river floods the valley.")
    (folder / "docs" / "bread.md").write_text("# Bread\n\nBread and butter.")
    uri = f"milvus:{folder / 'lite.db'}"
    assert answer("ingest", folder / "docs", "--index", uri, "--embedding", MODEL)["added"] == 2
    return uri


def test_search_and_find_work_on_a_store_in_milvus(index):
    """search ranks the matching text first, and find lists it."""
    result = answer("search", "Which river floods?", "--index", index, "--embedding", MODEL)
    assert result["hits"][0]["chunk"]["id"].endswith("rivers.md#0")
    result = answer("find", "Which river floods?", "--index", index, "--embedding", MODEL)
    assert "rivers.md" in str(result)


def test_delete_works_on_a_store_in_milvus(index):
    """delete --filter deletes the matching texts from a store in Milvus, without its embedding."""
    MilvusStore(index, Words()).add_texts(["old", "new"], [{"year": 1}, {"year": 2}], ids=["old", "new"])
    year = ("--filter", '{"year": {"$exists": true}}')
    assert answer("delete", *year, "--index", index)["deleted"] == 2


def test_the_embedding_of_a_store_in_milvus_has_to_be_set(index, monkeypatch):
    """A store in Milvus with a custom embedding needs --embedding or HYBRIDGRAPH_STORE_EMBEDDING."""
    done = hybridgraph("search", "x", "--index", index)
    assert (done.exit_code, "pass it as --embedding" in done.stderr) == (2, True)
    monkeypatch.setenv("HYBRIDGRAPH_STORE_EMBEDDING", MODEL)
    assert answer("search", "Which river floods?", "--index", index)["hits"]


def test_a_search_does_not_create_a_store_in_milvus(index, monkeypatch):
    """A search in a missing collection raises an error instead of creating the collection."""
    monkeypatch.setenv("HYBRIDGRAPH_STORE_COLLECTION", "other")
    done = hybridgraph("search", "x", "--index", index, "--embedding", MODEL)
    assert (done.exit_code, "contains no store in the collection 'other'" in done.stderr) == (2, True)


def test_a_mistyped_location_creates_nothing(tmp_path, monkeypatch):
    """A search in a missing milvus-lite file creates nothing, and a misspelt scheme is an error."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.md").write_text("a river")
    done = hybridgraph("search", "x", "--index", "milvus:missing.db", "--embedding", MODEL)
    assert (done.exit_code, "contains no store" in done.stderr) == (2, True)
    done = hybridgraph("ingest", tmp_path, "--index", "milvs:notes.db", "--embedding", MODEL)
    assert (done.exit_code, "must be milvus, http or https" in done.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == [tmp_path / "a.md"]


# -- migrate --------------------------------------------------------------------------------------------------


@pytest.fixture
def folder_index(tmp_path):
    """Return an index of three texts."""
    texts = ["Ada likes tea.", "Ada lives in Paris.", "Bo plays chess."]
    HybridGraphStore.from_texts(texts, DeterministicFakeEmbedding(size=16), path=tmp_path / "index").close()
    return tmp_path / "index"


def test_the_report_is_printed(folder_index, tmp_path):
    """migrate prints the numbers of copied items, as JSON with --json, and nothing with --quiet."""
    uri = f"milvus:{tmp_path / 'lite.db'}"
    done = hybridgraph("migrate", folder_index, uri)
    assert done.exit_code == 0
    assert "chunks               3" in done.stdout
    answer = json.loads(hybridgraph("migrate", uri, tmp_path / "copy", "--json").stdout)
    assert (answer["ok"], answer["copied"]["chunks"], answer["problems"]) == (True, 3, [])
    assert hybridgraph("migrate", uri, tmp_path / "other", "--quiet").output == ""


def test_a_difference_is_a_problem(folder_index, tmp_path, monkeypatch):
    """If source and copy differ, migrate exits with 1 and prints each problem in one line."""
    monkeypatch.setattr(migration.MilvusChunkStore, "upsert", lambda *_, **__: None)
    done = hybridgraph("migrate", folder_index, f"milvus:{tmp_path / 'lite.db'}", "--quiet")
    assert done.exit_code == 1
    assert "the chunks and vectors in" in done.stderr


def test_a_missing_source_is_one_line(tmp_path):
    """A missing source gives a one-line error."""
    done = hybridgraph("migrate", tmp_path / "nowhere", f"milvus:{tmp_path / 'lite.db'}")
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
    assert "contains no index" in done.stderr
