"""The tree at the command line: ``find`` and ``tree``."""

import json

import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")

from typer.testing import CliRunner

from langchain_hybridgraph import HybridGraphStore
from langchain_hybridgraph.cli.commands import app

FILES = {
    "my docs/über/cats.md": "# Cats\n\nCats purr when they are content.",
    "my docs/dogs.md": "Dogs bark at strangers.",
    "api/get.md": "GET /pets lists all pets.",
}


def hybridgraph(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def answer(*arguments):
    done = hybridgraph(*arguments, "--json")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def index(tmp_path):
    for name, text in FILES.items():
        file = tmp_path / "lib" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    folder = tmp_path / "index"
    assert hybridgraph("ingest", tmp_path / "lib", "--index", folder, "--embedding", "lsa").exit_code == 0
    return folder


def test_find_before_there_are_summaries(index):
    """It finds, and says what would make it better."""
    done = hybridgraph("find", "Which pets purr?", "--index", index)
    assert "lib/my docs/über/cats.md" in done.stdout
    assert "hybridgraph tree makes them" in " ".join(done.stdout.split())


def test_tree_makes_the_summaries_and_shows_them(index):
    """Each directory with the number of what it contains, and its abstract; again, nothing is made."""
    first, again = (hybridgraph("tree", "--index", index, "--depth", 3) for _ in range(2))
    assert "4 summarised" in first.stderr
    assert "0 summarised, 4 unchanged" in again.stderr
    lines = first.stdout.splitlines()
    assert [line.split("  ")[0] or line.split()[0] for line in lines[:1]] == ["lib"]
    assert any(line.startswith("    über  1  cats.md (Cats purr") for line in lines)
    assert again.stdout == first.stdout


def test_the_schema_of_tree(index):
    """A list of directories and documents, each before what it contains."""
    shown = answer("tree", "--index", index, "--under", "lib/my docs", "--depth", 2)["tree"]
    assert [(each["uri"], each["depth"], each["contains"]) for each in shown] == [
        ("lib/my docs", 0, 2), ("lib/my docs/dogs.md", 1, 0), ("lib/my docs/über", 1, 1),
    ]  # fmt: skip
    assert set(shown[0]) == {"uri", "name", "depth", "contains", "abstract"}


def test_the_schema_of_find(index):
    """Names that stay."""
    hybridgraph("tree", "--index", index)
    found = answer("find", "Which pets purr?", "--index", index, "--under", "lib/my docs", "-k", 3)
    assert set(found) == {"queries", "degraded", "took_ms", "hits"}
    assert set(found["hits"][0]) == {
        "rank", "uri", "context_type", "is_leaf", "score", "abstract", "relations", "text",
    }  # fmt: skip
    assert all(hit["uri"].startswith("lib/my docs") for hit in found["hits"])
    assert found["queries"][0]["roots"] == ["lib/my docs"]


def test_find_explains(index):
    """Why each hit stands where it stands, and how much was looked at."""
    hybridgraph("tree", "--index", index)
    said = " ".join(hybridgraph("find", "Which pets purr?", "--index", index, "--explain").stdout.split())
    assert "hierarchy 0." in said
    assert "directories opened" in said


def test_a_uri_that_is_not_there(index):
    """One line, exit code 1 or 2, and what there is."""
    for verb in (["find", "x"], ["tree"]):
        done = hybridgraph(*verb, "--index", index, "--under", "libb")
        assert done.exit_code in (1, 2)
        assert "nothing that the call may see lies under 'libb'; did you mean 'lib'?" in done.stderr


def test_tree_beside_a_writer(index):
    """It shows what there is, and says that it has made nothing."""
    with HybridGraphStore(index) as writer:
        writer.add_texts(["one more"])
        done = hybridgraph("tree", "--index", index)
    assert done.exit_code == 0
    assert "lib" in done.stdout


def test_tree_as_it_is(index):
    """Nothing is made."""
    done = hybridgraph("tree", "--index", index, "--as-it-is")
    assert (done.exit_code, done.stderr) == (0, "")
    assert not list(index.glob("layers-*"))


def test_filters(index):
    """As for search."""
    found = answer("find", "Which cats purr?", "--index", index, "--filter", '{"title": "Cats"}')
    assert [hit["uri"] for hit in found["hits"]] == ["lib/my docs/über/cats.md"]
