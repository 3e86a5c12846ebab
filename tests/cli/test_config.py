"""hybridgraph config: init, show and check with real files."""

import json
from functools import partial
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from langchain_hybridgraph.settings import HybridGraphSettings
from tests.cli.commands import hybridgraph

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Change to an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


config = partial(hybridgraph, "config")


# -- init --


def test_init_writes_a_valid_file_and_its_schema(folder):
    """config init writes a file that changes no setting and a schema that the file names and satisfies."""
    assert config("init").exit_code == 0
    text = (folder / "hybridgraph.yaml").read_text(encoding="utf-8")
    schema = json.loads((folder / text.splitlines()[0].split("$schema=")[1]).read_text(encoding="utf-8"))
    Draft202012Validator(schema).validate(yaml.safe_load(text))
    assert HybridGraphSettings.from_file("hybridgraph.yaml") == HybridGraphSettings()
    assert config("check").stdout == "no problems in 0 settings of hybridgraph.yaml\n"


def test_init_never_overwrites(folder):
    """config init changes neither an existing settings file nor an existing schema."""
    (folder / "hybridgraph.yaml").write_text("retriever_k: 3\n")
    done = config("init")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("hybridgraph: hybridgraph.yaml already exists: choose another file name")
    assert (folder / "hybridgraph.yaml").read_text() == "retriever_k: 3\n"
    (folder / "mine.schema.json").write_text("{}")
    assert config("init", "mine.yaml").exit_code == 2
    assert (folder / "mine.schema.json").read_text() == "{}"
    assert not (folder / "mine.yaml").exists()


# -- show --


def test_show_lists_values_with_their_origin(folder, monkeypatch):
    """config show lists each value with its origin: variable, file and line, or default; --json has fixed keys."""
    (folder / "h.yaml").write_text("selection:\n  overfetch: 4\nretriever: {as_of: 2024-05-01}\n")
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


def test_show_keeps_secrets(folder):
    """config show does not print the API key of a service."""
    (folder / "h.yaml").write_text("store: {embedding: {type: 'a:B', api_key: sk-123, model: large}}\n")
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


def test_check_names_file_line_key_and_what_is_allowed(folder, monkeypatch):
    """config check reports all problems at once, one per line with file, line, key and accepted values."""
    (folder / "h.yaml").write_text(BROKEN)
    monkeypatch.setenv("HYBRIDGRAPH_STORE_TENNANT", "a")
    done = config("check", "h.yaml")
    problems = json.loads(config("check", "h.yaml", "--json").stdout)["problems"]
    assert [each["message"] for each in problems] == done.stdout.splitlines()
    assert list(problems[1].values())[:6] == ["file", None, 3, "retriever_k", "many", "an integer ≥ 0"]
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "HYBRIDGRAPH_STORE_TENNANT is not a setting; did you mean store_tenant?",
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
