"""A JSON schema of the file, for editors."""

from __future__ import annotations

import inspect
from typing import Any

from langchain_hybridgraph.config.keys import FACTORIES, SECTIONS, Keys, kinds
from langchain_hybridgraph.config.settings import FILE, HybridGraphSettings, allowed
from langchain_hybridgraph.query.forms import parameters_of

TITLE = "Settings of langchain-hybridgraph"
NULL = {"type": "null"}
_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_SIMPLE = {bool: "boolean", int: "number", float: "number", str: "string"}


def schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of a file of settings, made of the table of keys.

    A file that it refuses is refused by :class:`HybridGraphSettings`, or holds a number as text. What it cannot know
    (that two settings contradict each other, that a filter's operator does not exist) it lets through.

    >>> schema()["$defs"]["retriever_k"]["anyOf"]
    [{'minimum': 1, 'type': 'integer'}, {'type': 'null'}]
    """
    drawn = HybridGraphSettings.model_json_schema()["properties"]
    flat = {key: {"$ref": f"#/$defs/{key}"} for key in Keys.model_fields}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": TITLE,
        "description": f"What stands in a {FILE}: keys in their sections, or flat.",
        "type": ["object", "null"],
        "properties": {section: _section(section) for section in SECTIONS} | flat,
        "additionalProperties": False,
        "$defs": {key: _key(key, drawn[key]) for key in Keys.model_fields},
    }


def _section(section: str) -> dict[str, Any]:
    named = [key for key in Keys.model_fields if key.startswith(f"{section}_")]
    return {
        "description": SECTIONS[section],
        "type": ["object", "null"],
        "properties": {key.removeprefix(f"{section}_"): {"$ref": f"#/$defs/{key}"} for key in named},
        "additionalProperties": False,
    }


def _key(key: str, drawn: dict[str, Any]) -> dict[str, Any]:
    """One key; null is unset for each."""
    field = Keys.model_fields[key]
    what = drawn.pop("names", None)
    told = {name: drawn.pop(name, None) for name in ("title", "description", "default", "allowed")}
    members = [_bounded(member) for member in drawn.pop("anyOf", [drawn]) if member != NULL]
    return {
        "description": f"{told['description']} Allowed: {allowed(key)}.",
        **({} if field.default is None else {"default": told["default"]}),
        "anyOf": [*(members if what is None else _forms(what)), NULL],
    }


def _bounded(drawn: dict[str, Any]) -> dict[str, Any]:
    """With JSON schema's words for bounds: pydantic leaves its own where a value may also be None."""
    bounds = _BOUNDS | ({"minLength": "minItems"} if drawn.get("type") == "array" else {})
    return {bounds.get(name, name): value for name, value in drawn.items()}


_BY_FACTORY: dict[str, Any] = {"type": "string", "pattern": ".:."}
_BY_FACTORY_WITH_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"type": _BY_FACTORY},
    "required": ["type"],
}


def _forms(what: str) -> list[dict[str, Any]]:
    """A name, where nothing else must be given, or one of the mappings."""
    bare = [name for name, kind in kinds(what).items() if not _required(kind)]
    made = [_BY_FACTORY, _BY_FACTORY_WITH_PARAMETERS] if what in FACTORIES else []
    return [{"enum": bare}, *made, *(_mapping(name, kind) for name, kind in kinds(what).items())]


def _mapping(name: str, kind: Any) -> dict[str, Any]:
    signature = inspect.signature(kind).parameters
    taken = {each: _simple(signature[each].default) for each in parameters_of(kind)}
    return {
        "type": "object",
        "properties": {"type": {"const": name}} | taken,
        "required": ["type", *_required(kind)],
        "additionalProperties": False,
    }


def _simple(default: Any) -> dict[str, Any]:
    """The type of a parameter by its default, where that is a single value."""
    found = _SIMPLE.get(type(default))
    return {} if found is None else {"type": found, "default": default}


def _required(kind: Any) -> list[str]:
    parameters = inspect.signature(kind).parameters
    return [each for each in parameters_of(kind) if parameters[each].default is inspect.Parameter.empty]
