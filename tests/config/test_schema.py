"""The JSON schema says what the settings say."""

import json

import pytest
import yaml
from jsonschema import Draft202012Validator
from values import BAD, GOOD

from langchain_hybridgraph.config import HybridGraphSettings
from langchain_hybridgraph.config.keys import KINDS, SECTIONS, kinds
from langchain_hybridgraph.config.schema import schema
from langchain_hybridgraph.config.template import template
from langchain_hybridgraph.query.forms import form_of

VALIDATOR = Draft202012Validator(schema())


def refused(settings):
    return [error.json_path for error in VALIDATOR.iter_errors(settings)]


def test_it_is_a_schema():
    """By the standard, and as JSON."""
    Draft202012Validator.check_schema(json.loads(json.dumps(schema())))


@pytest.mark.parametrize(("key", "value"), GOOD.items())
def test_good_values_pass(key, value):
    """Flat and in their section."""
    section, name = key.split("_", 1)
    assert refused({key: value}) == []
    assert refused({section: {name: value}}) == []


@pytest.mark.parametrize(("key", "value"), BAD.items())
def test_bad_values_are_refused(key, value):
    """Flat and in their section."""
    section, name = key.split("_", 1)
    assert refused({key: value}) == [f"$.{key}"]
    assert refused({section: {name: value}}) == [f"$.{section}.{name}"]


@pytest.mark.parametrize("file", [{"retreiver": {}}, {"retriever": {"kay": 5}}, {"retriever": 5}, ["retriever_k"]])
def test_what_is_no_setting_is_refused(file):
    """Unknown keys and sections, and what is no mapping."""
    assert refused(file)


@pytest.mark.parametrize("file", [None, {}, {"retriever": None}, {"retriever": {"k": None}}])
def test_nothing_is_allowed_everywhere(file):
    """Null is unset, for a file, a section and a key."""
    assert refused(file) == []


def test_a_new_file_passes():
    """What ``config init`` writes."""
    assert refused(yaml.safe_load(template("x.json"))) == []


@pytest.mark.parametrize("what", [what for what in KINDS if what not in ("mode", "planner")])
def test_the_form_of_every_stage_passes(what):
    """Each with all of its parameters, as it is written down."""
    key = {"expander": "advanced", "traversal": "graph", "score": "graph", "mode": "memory"}.get(
        what, "retriever"
    ) + f"_{what}"
    for name, kind in kinds(what).items():
        if name not in ("score", "cross_encoder", "llm"):
            form = json.loads(json.dumps(form_of(what, kind(), kinds(what))))
            assert refused({key: form}) == []
            assert getattr(HybridGraphSettings(**{key: form}), key) == form


def test_every_section_is_there():
    """And every key, in it and flat, with what it means."""
    made = schema()
    assert [key for key in made["properties"] if key in SECTIONS] == list(SECTIONS)
    assert [key for key in made["properties"] if key not in SECTIONS] == list(HybridGraphSettings.model_fields)
    assert all("Allowed: " in each["description"] for each in made["$defs"].values())
