"""``hybridgraph migrate`` copies an index."""

import json

import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")
pytest.importorskip("milvus_lite")

from langchain_core.embeddings import DeterministicFakeEmbedding
from typer.testing import CliRunner

from langchain_hybridgraph import HybridGraphStore, migration
from langchain_hybridgraph.cli.app import app


def hybridgraph(*arguments):
    """Run the command line in this process."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def index(tmp_path):
    """Return an index of three texts."""
    texts = ["Ada likes tea.", "Ada lives in Paris.", "Bo plays chess."]
    model = DeterministicFakeEmbedding(size=16)
    HybridGraphStore.from_texts(texts, model, path=tmp_path / "index").close()
    return tmp_path / "index"


def test_the_report_is_printed(index, tmp_path):
    """migrate prints the numbers of copied items, as JSON with --json, and nothing with --quiet."""
    uri = f"milvus:{tmp_path / 'lite.db'}"
    done = hybridgraph("migrate", index, uri)
    assert done.exit_code == 0
    assert "chunks               3" in done.stdout
    answer = json.loads(hybridgraph("migrate", uri, tmp_path / "copy", "--json").stdout)
    assert (answer["ok"], answer["copied"]["chunks"], answer["problems"]) == (True, 3, [])
    assert hybridgraph("migrate", uri, tmp_path / "other", "--quiet").output == ""


def test_a_difference_is_a_problem(index, tmp_path, monkeypatch):
    """If source and copy differ, migrate exits with 1 and prints each problem in one line."""
    monkeypatch.setattr(migration.MilvusChunkStore, "upsert", lambda *_, **__: None)
    done = hybridgraph("migrate", index, f"milvus:{tmp_path / 'lite.db'}", "--quiet")
    assert done.exit_code == 1
    assert "the chunks and vectors in" in done.stderr


def test_errors_are_one_line(tmp_path):
    """A missing source gives a one-line error."""
    done = hybridgraph("migrate", tmp_path / "nowhere", f"milvus:{tmp_path / 'lite.db'}")
    assert done.exit_code == 2
    assert len(done.stderr.splitlines()) == 1
    assert "contains no index" in done.stderr
