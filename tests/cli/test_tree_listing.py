"""The tree on the command line: ``find`` and ``tree``."""

import json

import pytest

from langchain_hybridgraph import HybridGraphStore
from tests.cli.commands import answer, hybridgraph
from tests.support.samples.files import write

FILES = {
    "my docs/über/cats.md": "# Cats\n\nCats purr when they are content.",
    "my docs/dogs.md": "Dogs bark at strangers.",
    "api/get.md": "GET /pets lists all pets.",
}


@pytest.fixture
def index(tmp_path):
    write(tmp_path / "lib", **FILES)
    folder = tmp_path / "index"
    assert hybridgraph("ingest", tmp_path / "lib", "--index", folder, "--embedding", "lsa").exit_code == 0
    return folder


@pytest.fixture
def bare(tmp_path):
    """Return an index without summaries of directories."""
    folder = tmp_path / "bare"
    with HybridGraphStore(folder) as store:
        store.add_texts(list(FILES.values()), [{"uri": f"lib/{name}"} for name in FILES], ids=list(FILES))
    return folder


def test_tree_makes_the_summaries_and_shows_them(bare):
    """tree creates missing summaries and prints each directory with its abstract and number of children."""
    first, again = (hybridgraph("tree", "--index", bare, "--depth", 3) for _ in range(2))
    assert "4 summarised" in first.stderr
    assert "0 summarised, 4 unchanged" in again.stderr
    lines = first.stdout.splitlines()
    assert [line.split("  ")[0] or line.split()[0] for line in lines[:1]] == ["lib"]
    assert any(line.startswith("    über  1  cats.md (Cats purr") for line in lines)
    assert again.stdout == first.stdout


def test_ingest_of_a_folder_makes_the_summaries(index, tmp_path):
    """ingest of a folder creates the summaries and updates those of changed directories."""
    assert "no-layers" not in answer("find", "Which pets purr?", "--index", index)["degraded"]
    (tmp_path / "lib" / "my docs" / "dogs.md").write_text("Dogs want walks.")
    assert "summaries: 4 directories" in hybridgraph("ingest", tmp_path / "lib", "--index", index).stdout
    assert "Dogs want walks" in hybridgraph("tree", "--index", index, "--no-update").stdout


def test_a_deleted_text_is_not_shown(index):
    """After a document is deleted, neither find nor tree prints its text."""
    hybridgraph("delete", "--index", index, "--document", "lib/my docs/dogs.md")
    find = hybridgraph("find", "Dogs bark at strangers", "--index", index).stdout
    assert "strangers." not in find + hybridgraph("tree", "--index", index, "--no-update").stdout
    assert "layers-stale: texts have changed" in " ".join(find.split())


MESSAGES = [{"role": "user", "content": "Tell me about cats."}, {"role": "assistant", "content": "Cats purr."}]


@pytest.mark.parametrize("conversation", [MESSAGES, {"messages": MESSAGES, "summary": "About pets."}])
def test_find_in_a_conversation(index, tmp_path, conversation):
    """With --history, find plans up to five queries from the conversation and prints them."""
    (tmp_path / "chat.json").write_text(json.dumps(conversation, indent=1))
    result = answer("find", "And when do they purr?", "--index", index, "--history", tmp_path / "chat.json")
    assert 1 <= len(result["query_results"]) <= 5
    assert "lib/my docs/über/cats.md" in [hit["uri"] for hit in result["contexts"]]
    explained = hybridgraph("find", "Do cats purr?", "--index", index, "--history", tmp_path / "chat.json", "--explain")
    assert "directories opened" in explained.stdout


@pytest.mark.parametrize("under", ["lib/my docs/", "./lib/my docs", "/home/me/lib/my docs"])
def test_under_accepts_any_form_of_a_path(index, under):
    """--under accepts a directory with a trailing slash or an absolute path."""
    result = answer("find", "cats dogs", "--index", index, "--under", under)
    assert result["query_results"][0]["roots"] == ["lib/my docs"]
    assert answer("tree", "--index", index, "--under", under)["tree"][0]["uri"] == "lib/my docs"


def test_the_schema_of_tree(index):
    """tree --json lists each directory and document before its children, with fixed keys."""
    tree = answer("tree", "--index", index, "--under", "lib/my docs", "--depth", 2)["tree"]
    assert [(each["uri"], each["depth"], each["contains"]) for each in tree] == [
        ("lib/my docs", 0, 2), ("lib/my docs/dogs.md", 1, 0), ("lib/my docs/über", 1, 1),
    ]  # fmt: skip
    assert set(tree[0]) == {"uri", "name", "depth", "contains", "abstract"}


def test_tree_during_a_write(index):
    """While another process writes, tree prints the existing tree."""
    with HybridGraphStore(index) as writer:
        writer.add_texts(["one more"])
        done = hybridgraph("tree", "--index", index)
    assert done.exit_code == 0
    assert "lib" in done.stdout
