"""The command line with a store in Milvus."""

import json

import pytest
from typer.testing import CliRunner

from langchain_hybridgraph.cli.app import app
from langchain_hybridgraph.vectorstores.milvus_store import MilvusStore
from tests.support.stores.milvus_calls import WordEmbeddings

pytest.importorskip("milvus_lite")


class Words(WordEmbeddings):
    """Embedding that the command line can import by name."""


MODEL = f"{__name__}:Words"


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("milvus")
    (folder / "docs").mkdir()
    (folder / "docs" / "rivers.md").write_text("# Rivers\n\nThe river floods the valley.")
    (folder / "docs" / "bread.md").write_text("# Bread\n\nBread and butter.")
    uri = f"milvus:{folder / 'lite.db'}"
    code, output, error = run("ingest", folder / "docs", "--index", uri, "--embedding", MODEL, "--json")
    assert code == 0, error
    assert json.loads(output)["added"] == 2
    return uri


def test_search_and_find_work_on_a_store_in_milvus(index):
    """search ranks the matching text first, and find lists it."""
    code, output, _ = run("search", "Which river floods?", "--index", index, "--embedding", MODEL, "--json")
    assert code == 0
    assert json.loads(output)["hits"][0]["chunk"]["id"].endswith("rivers.md#0")
    code, output, _ = run("find", "Which river floods?", "--index", index, "--embedding", MODEL, "--json")
    assert (code, "rivers.md" in output) == (0, True)


def test_delete_works_on_a_store_in_milvus(index):
    """delete --filter deletes the matching texts from a store in Milvus."""
    MilvusStore(index, Words()).add_texts(["old", "new"], [{"year": 1}, {"year": 2}], ids=["old", "new"])
    code, output, _ = run("delete", "--filter", '{"year": {"$exists": true}}', "--index", index, "--json")
    assert (code, json.loads(output)["deleted"]) == (0, 2)


def test_the_embedding_of_a_store_in_milvus_has_to_be_named(index):
    """Without --embedding, a store in Milvus with a custom embedding cannot be opened."""
    code, _, error = run("search", "x", "--index", index)
    assert (code, "pass it as --embedding" in error) == (2, True)


def test_a_search_does_not_create_a_store_in_milvus(index, monkeypatch):
    """A search in a missing collection raises an error instead of creating the collection."""
    monkeypatch.setenv("HYBRIDGRAPH_STORE_COLLECTION", "other")
    code, _, error = run("search", "x", "--index", index, "--embedding", MODEL)
    assert (code, "contains no store in the collection 'other'" in error) == (2, True)


def test_the_embedding_may_be_set_in_the_environment(index, monkeypatch):
    """With HYBRIDGRAPH_STORE_EMBEDDING set, no command needs --embedding."""
    monkeypatch.setenv("HYBRIDGRAPH_STORE_EMBEDDING", MODEL)
    code, output, error = run("search", "Which river floods?", "--index", index, "--json")
    assert code == 0, error
    assert json.loads(output)["hits"][0]["chunk"]["id"].endswith("rivers.md#0")


def test_a_mistyped_location_creates_nothing(tmp_path, monkeypatch):
    """A search in a missing milvus-lite file creates nothing, and a misspelt scheme is an error."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.md").write_text("a river")
    code, _, error = run("search", "x", "--index", "milvus:missing.db", "--embedding", MODEL)
    assert (code, "contains no store" in error) == (2, True)
    code, _, error = run("ingest", tmp_path, "--index", "milvs:notes.db", "--embedding", MODEL)
    assert (code, "must be milvus, http or https" in error) == (2, True)
    assert list(tmp_path.iterdir()) == [tmp_path / "a.md"]
