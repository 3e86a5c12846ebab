"""Settings on the command line: hybridgraph.yaml, the environment, and the commands of config."""

import json
from functools import partial
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator
from typer.main import get_command

from langchain_hybridgraph import __version__
from langchain_hybridgraph.cli.app import app
from langchain_hybridgraph.settings import OPTIONS, HybridGraphSettings
from langchain_hybridgraph.stores.index import read_facts
from tests.cli.commands import answer, hybridgraph
from tests.support.samples.files import write

SETTINGS = """
store: {path: my.index, embedding: lsa, language: german}
retriever: {k: 1, min_score: 0.01}
"""


@pytest.fixture
def folder(empty_folder):
    """Write a settings file and two texts into the working directory."""
    texts = {"docs/a.md": "# Cats\n\nThey purr.", "docs/b.md": "# Dogs\n\nThey bark."}
    return write(empty_folder, **texts, hybridgraph_DOT_yaml=SETTINGS)


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


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    """Change to an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


config = partial(hybridgraph, "config")


# -- init --


def test_init_writes_a_valid_file_and_its_schema(empty_folder):
    """config init writes a file that changes no setting and a schema that the file names and satisfies."""
    assert config("init").exit_code == 0
    text = (empty_folder / "hybridgraph.yaml").read_text(encoding="utf-8")
    schema = json.loads((empty_folder / text.splitlines()[0].split("$schema=")[1]).read_text(encoding="utf-8"))
    Draft202012Validator(schema).validate(yaml.safe_load(text))
    assert HybridGraphSettings.from_file("hybridgraph.yaml") == HybridGraphSettings()
    assert config("check").stdout == "no problems in 0 settings of hybridgraph.yaml\n"


def test_init_never_overwrites(empty_folder):
    """config init changes neither an existing settings file nor an existing schema."""
    (empty_folder / "hybridgraph.yaml").write_text("retriever_k: 3\n")
    done = config("init")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("hybridgraph: hybridgraph.yaml already exists: choose another file name")
    assert (empty_folder / "hybridgraph.yaml").read_text() == "retriever_k: 3\n"
    (empty_folder / "mine.schema.json").write_text("{}")
    assert config("init", "mine.yaml").exit_code == 2
    assert (empty_folder / "mine.schema.json").read_text() == "{}"
    assert not (empty_folder / "mine.yaml").exists()


# -- show --


def test_show_lists_values_with_their_origin(empty_folder, monkeypatch):
    """config show lists each value with its origin: variable, file and line, or default; --json has fixed keys."""
    (empty_folder / "h.yaml").write_text("selection:\n  overfetch: 4\nretriever: {as_of: 2024-05-01}\n")
    monkeypatch.setenv("HYBRIDGRAPH_RETRIEVER_K", "2")
    rows = {
        key: rest.split()
        for key, rest in (line.split(maxsplit=1) for line in config("show", "h.yaml").stdout.splitlines())
    }
    result = json.loads(config("show", "h.yaml", "--json").stdout)
    settings = {each.pop("key"): tuple(each.values()) for each in result["settings"]}
    assert list(rows) == list(settings) == list(HybridGraphSettings.model_fields)
    assert list(result["settings"][0]) == ["value", "default", "origin", "variable", "line"]
    variable = "HYBRIDGRAPH_RETRIEVER_K"
    for key, row, setting in (
        ("retriever_k", ["2", variable], (2, 10, "environment", variable, None)),
        ("selection_overfetch", ["4", "h.yaml:2"], (4, 3, "file", None, 2)),
        ("graph_preset", ["null", "default"], (None, None, "default", None, None)),
    ):
        assert (rows[key], settings[key]) == (row, setting)
    assert settings["retriever_as_of"][0] == "2024-05-01"


def test_show_keeps_secrets(empty_folder):
    """config show does not print the API key of a service."""
    (empty_folder / "h.yaml").write_text("store: {embedding: {type: 'a:B', api_key: sk-123, model: large}}\n")
    for done in (config("show", "h.yaml"), config("show", "h.yaml", "--json")):
        assert "sk-123" not in done.stdout
        assert "large" in done.stdout


# -- check --

BROKEN = """\
# ours
retriever:
  k: many
  on_error: rais
graph:
  max_hops: 2
retreiver: {}
"""


def test_check_names_file_line_key_and_what_is_allowed(empty_folder, monkeypatch):
    """config check reports all problems at once, one per line with file, line, key and accepted values."""
    (empty_folder / "h.yaml").write_text(BROKEN)
    monkeypatch.setenv("HYBRIDGRAPH_STORE_TENNANT", "a")
    done = config("check", "h.yaml")
    problems = json.loads(config("check", "h.yaml", "--json").stdout)["problems"]
    assert [each["message"] for each in problems] == done.stdout.splitlines()
    assert list(problems[1].values())[:6] == ["file", None, 3, "retriever_k", "many", "an integer ≥ 0"]
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "HYBRIDGRAPH_STORE_TENNANT is not a setting; did you mean HYBRIDGRAPH_STORE_TENANT?",
        "h.yaml:3: retriever_k must be an integer ≥ 0, got 'many'",
        "h.yaml:4: retriever_on_error must be degrade, empty or raise, got 'rais'; did you mean 'raise'?",
        "h.yaml:6: graph_max_hops is not a setting; write graph_traversal: {type: bfs, max_hops: 2}",
        "h.yaml:7: retreiver is not a setting; did you mean retriever?",
    ]


def test_check_without_a_file_looks_at_the_environment(monkeypatch):
    """Without a default file, config check reads only the environment, but a file passed by name must exist."""
    done = config("check")
    expected = "no problems in 0 settings of the environment; there is no hybridgraph.yaml in the current folder\n"
    assert (done.exit_code, done.stdout) == (0, expected)
    assert json.loads(config("check", "--json").stdout) == {"file": None, "ok": True, "problems": []}
    monkeypatch.setenv("HYBRIDGRAPH_RETRIEVER_K", "-1")
    assert config("check").exit_code == 1
    for verb in ("check", "show"):
        done = config(verb, "gone.yaml")
        assert (done.exit_code, "gone.yaml cannot be read: No such file" in done.stderr) == (2, True)


# -- schema, help --


def test_schema_is_json():
    """config schema prints the schema that config init writes."""
    config("init")
    printed = json.loads(config("schema").stdout)
    assert printed == json.loads(Path("hybridgraph.schema.json").read_text(encoding="utf-8"))
