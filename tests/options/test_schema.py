"""The JSON schema of the settings and docs/configuration.md agree with the settings."""

import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from langchain_hybridgraph.options.base import notation_of
from langchain_hybridgraph.registry import parameters_of
from langchain_hybridgraph.settings import OPTIONS, HybridGraphSettings, schema, template
from langchain_hybridgraph.settings_file import SECTIONS
from tests.support.samples.option_values import BAD, GOOD
from tests.support.servers.python_process import output_of_python

VALIDATOR = Draft202012Validator(schema())


def refused(settings):
    return [error.json_path for error in VALIDATOR.iter_errors(settings)]


def test_the_schema_is_valid():
    """The schema is a valid JSON schema and can be serialized."""
    Draft202012Validator.check_schema(json.loads(json.dumps(schema())))


@pytest.mark.parametrize(("key", "value"), GOOD.items())
def test_good_values_pass(key, value):
    """The schema accepts valid values as flat keys and in their section."""
    section, name = key.split("_", 1)
    assert refused({key: value}) == []
    assert refused({section: {name: value}}) == []


@pytest.mark.parametrize(("key", "value"), BAD.items())
def test_bad_values_are_rejected(key, value):
    """The schema rejects invalid values as flat keys and in their section."""
    section, name = key.split("_", 1)
    assert refused({key: value}) == [f"$.{key}"]
    assert refused({section: {name: value}}) == [f"$.{section}.{name}"]


@pytest.mark.parametrize("file", [{"retreiver": {}}, {"retriever": {"kay": 5}}, {"retriever": 5}, ["retriever_k"]])
def test_unknown_keys_are_rejected(file):
    """The schema rejects unknown keys, unknown sections and files that are not a mapping."""
    assert refused(file)


@pytest.mark.parametrize("file", [None, {}, {"retriever": None}, {"retriever": {"k": None}}])
def test_null_is_allowed_everywhere(file):
    """Null means unset for a file, a section and a key."""
    assert refused(file) == []


@pytest.mark.parametrize("key", ["retriever_fusion", "graph_traversal", "graph_score"])
def test_the_form_of_every_stage_passes(key):
    """The schema accepts every stage with all of its parameters."""
    objects = notation_of(OPTIONS[key]).kinds
    without_arguments = {name: kind for name, kind in objects.items() if name not in ("score", "cross_encoder", "llm")}
    assert without_arguments
    for name, kind in without_arguments.items():
        stage = kind()
        values = {each: getattr(stage, each) for each in parameters_of(kind)}
        form = json.loads(json.dumps({"type": name, **values}, default=sorted))
        assert refused({key: form}) == []
        assert getattr(HybridGraphSettings(**{key: form}), key) == form


def test_the_schema_describes_every_section_and_key():
    """The schema has every key flat and in its section, with a description."""
    json_schema = schema()
    assert [key for key in json_schema["properties"] if key in SECTIONS] == list(SECTIONS)
    assert [key for key in json_schema["properties"] if key not in SECTIONS] == list(HybridGraphSettings.model_fields)
    assert all("Allowed: " in each["description"] for each in json_schema["$defs"].values())


def test_the_template_shows_every_default(tmp_path):
    """Uncommenting every key of the template gives the default settings."""
    text, count = re.subn(r"^  #(?=\w)", "  ", template("h.schema.json"), flags=re.MULTILINE)
    assert count == len(HybridGraphSettings.model_fields)
    (tmp_path / "h.yaml").write_text(text, encoding="utf-8")
    assert dict(HybridGraphSettings.from_file(tmp_path / "h.yaml")) == dict(HybridGraphSettings())


ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_tables_are_up_to_date():
    """The generated option tables of all pages are up to date; otherwise the error names the command that writes
    them.
    """
    output_of_python("docs/option_tables.py", "--check", env={"PYTHONPATH": "."})


def test_the_table_has_a_row_per_key():
    """The table of settings has one row of four cells for each key, in the order of the keys."""
    rows = re.findall(r"^\| `[a-z]+_.*", PAGE.partition("<!-- options -->")[2], re.MULTILINE)
    assert [row.split("`")[1] for row in rows] == list(HybridGraphSettings.model_fields)
    assert all(row.count("|") == 5 for row in rows)


def test_the_examples_run(tmp_path, monkeypatch, capsys):
    """The page's Python blocks run in order with the page's YAML file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hybridgraph.yaml").write_text(blocks("yaml")[0], encoding="utf-8")
    namespace = {}
    for code in blocks("python"):
        exec(compile(code, "configuration.md", "exec"), namespace)
    output = capsys.readouterr().out.splitlines()
    assert output == ["Invoices are sent on Mondays. 5 2", "['Invoices are sent on Mondays.']"]
