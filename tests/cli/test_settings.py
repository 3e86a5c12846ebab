"""The command line reads settings from hybridgraph.yaml and the environment."""

import pytest
from typer.main import get_command

from langchain_hybridgraph import __version__
from langchain_hybridgraph.cli.app import app
from langchain_hybridgraph.settings import OPTIONS
from langchain_hybridgraph.stores.index import read_facts
from tests.cli.commands import answer, hybridgraph

SETTINGS = """
store: {path: my.index, embedding: lsa, language: german}
retriever: {k: 1, min_score: 0.01}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Change to a directory with a settings file and two texts."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# Cats\n\nThey purr.")
    (tmp_path / "docs" / "b.md").write_text("# Dogs\n\nThey bark.")
    (tmp_path / "hybridgraph.yaml").write_text(SETTINGS)
    return tmp_path


def hits(*arguments):
    return len(answer("search", "They purr and bark", *arguments)["hits"])


def test_the_file_in_this_folder_is_read(folder):
    """Index, embedding, language and k are read from hybridgraph.yaml, and an option overrides the file."""
    assert hybridgraph("ingest", "docs").exit_code == 0
    facts = answer("stats")
    assert (facts["embedding"], facts["language"], facts["chunks"]) == ("lsa", "german", 2)
    assert (folder / "my.index").exists()
    assert hits() == 1
    assert hits("-k", 2) == 2


def test_the_environment_overrides_the_file(folder, monkeypatch):
    """An environment variable overrides the file, and an option overrides the variable."""
    assert hybridgraph("ingest", "docs").exit_code == 0
    monkeypatch.setenv("HYBRIDGRAPH_RETRIEVER_K", "2")
    assert hits() == 2
    assert hits("-k", 1) == 1
    monkeypatch.setenv("HYBRIDGRAPH_STORE_PATH", str(folder / "elsewhere"))
    assert "elsewhere contains no index" in hybridgraph("search", "cats").stderr


def test_a_variable_alone_is_a_setting(folder, monkeypatch):
    """Without a file, environment variables are checked and used."""
    (folder / "hybridgraph.yaml").unlink()
    monkeypatch.setenv("HYBRIDGRAPH_STORE_LANGUAGE", "german")
    assert hybridgraph("ingest", "docs", "--index", "index", "--embedding", "lsa").exit_code == 0
    assert read_facts(folder / "index")["language"] == "german"
    monkeypatch.setenv("HYBRIDGRAPH_STORE_WRITE_TIMEOUT", "soon")
    done = hybridgraph("ingest", "docs", "--index", "index")
    assert done.exit_code == 2
    assert "HYBRIDGRAPH_STORE_WRITE_TIMEOUT must be a number ≥ 0, got 'soon'" in done.stderr


def test_settings_of_the_retriever_apply(folder):
    """The retriever's settings in the file apply to search, search --graph and find."""
    assert hybridgraph("ingest", "docs").exit_code == 0
    graph = "graph: {traversal: {type: bfs, max_hops: 0}}\n"
    (folder / "hybridgraph.yaml").write_text(SETTINGS.replace("0.01", "1.0") + graph)
    assert hits("-k", 2) == 0
    assert hits("-k", 2, "--graph") == 0
    assert answer("find", "purr")["contexts"] == []


def test_the_version_is_shown():
    """--version prints only the name and the version."""
    assert hybridgraph("--version").stdout == f"hybridgraph {__version__}\n"


@pytest.mark.parametrize(
    ("verb", "option", "key"),
    [
        ("search", "k", "retriever_k"),
        ("search", "min_score", "retriever_min_score"),
        ("ingest", "tenant", "store_tenant"),
        ("ingest", "language", "store_language"),
    ],
)
def test_options_are_described_like_the_settings_with_the_same_meaning(verb, option, key):
    """Options that correspond to settings have the same descriptions as the settings."""
    command = get_command(app).commands[verb]
    description = next(parameter.help for parameter in command.params if parameter.name == option)
    assert description == OPTIONS[key].description
