"""``hybridgraph migrate`` copies an index."""

import json

import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")

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
    HybridGraphStore.from_texts(texts, "lsa", path=tmp_path / "index").close()
    return tmp_path / "index"


def test_copied_items_are_printed(index, tmp_path):
    """migrate prints the numbers of copied and verified items."""
    done = hybridgraph("migrate", index, tmp_path / "copy")
    assert done.exit_code == 0
    assert "chunks               3 copied            3 verified" in done.stdout
    with HybridGraphStore(tmp_path / "copy") as store:
        assert len(store) == 3


def test_the_report_is_one_json_object(index, tmp_path):
    """migrate --json prints only the report, and --quiet prints nothing."""
    answer = json.loads(hybridgraph("migrate", index, tmp_path / "copy", "--json").stdout)
    assert (answer["ok"], answer["copied"]["chunks"], answer["problems"]) == (True, 3, [])
    assert hybridgraph("migrate", index, tmp_path / "other", "--quiet").output == ""


def test_a_difference_is_a_problem(index, tmp_path, monkeypatch):
    """If source and copy differ, migrate exits with 1 and prints each problem in one line."""
    monkeypatch.setattr(migration._Copy, "_verify", lambda self, *arguments: [])
    done = hybridgraph("migrate", index, tmp_path / "copy", "--quiet")
    assert done.exit_code == 1
    assert "chunks: 3 were copied, and they are 0 in the destination" in done.stderr


@pytest.mark.parametrize(
    ("source", "message"), [("nowhere", "contains no index"), ("http://127.0.0.1:1", "pass --embedding")]
)
def test_errors_are_one_line(tmp_path, source, message):
    """A missing source, or a Chroma server without --embedding, gives a one-line error."""
    done = hybridgraph("migrate", source, tmp_path / "copy")
    assert done.exit_code == 2
    assert len(done.stderr.splitlines()) == 1
    assert message in done.stderr
