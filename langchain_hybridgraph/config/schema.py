"""JSON schema of the settings file, for editors."""

from __future__ import annotations

import inspect
from typing import Any

from langchain_hybridgraph.config.fields import SECTIONS, SettingsTable
from langchain_hybridgraph.config.file_path import FILE
from langchain_hybridgraph.config.settings import HybridGraphSettings, allowed_values
from langchain_hybridgraph.config.value_forms import FACTORIES, named_objects
from langchain_hybridgraph.registry import parameters_of, required_parameters

TITLE = "Settings of langchain-hybridgraph"
NULL = {"type": "null"}
_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_SIMPLE = {bool: "boolean", int: "number", float: "number", str: "string"}


def schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of a settings file, generated from the table of keys.

    The schema rejects numbers written as strings, which :class:`HybridGraphSettings` accepts. Otherwise, it is less
    strict: it cannot detect contradictory settings or unknown operators in a filter, for example.

    >>> schema()["$defs"]["retriever_k"]["anyOf"]
    [{'minimum': 0, 'type': 'integer'}, {'type': 'null'}]
    """
    properties = HybridGraphSettings.model_json_schema()["properties"]
    flat = {key: {"$ref": f"#/$defs/{key}"} for key in SettingsTable.model_fields}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": TITLE,
        "description": f"Settings in a {FILE}: keys in their sections, or flat.",
        "type": ["object", "null"],
        "properties": {section: _section(section) for section in SECTIONS} | flat,
        "additionalProperties": False,
        "$defs": {key: _key(key, properties[key]) for key in SettingsTable.model_fields},
    }


def _section(section: str) -> dict[str, Any]:
    keys = [key for key in SettingsTable.model_fields if key.startswith(f"{section}_")]
    return {
        "description": SECTIONS[section].description,
        "type": ["object", "null"],
        "properties": {key.removeprefix(f"{section}_"): {"$ref": f"#/$defs/{key}"} for key in keys},
        "additionalProperties": False,
    }


def _key(key: str, generated: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of one key. For every key, null means unset."""
    field = SettingsTable.model_fields[key]
    what = generated.pop("names", None)
    annotations = {name: generated.pop(name, None) for name in ("title", "description", "default", "allowed")}
    members = [_bounded(member) for member in generated.pop("anyOf", [generated]) if member != NULL]
    return {
        "description": f"{annotations['description']} Allowed: {allowed_values(key)}.",
        **({} if field.default is None else {"default": annotations["default"]}),
        "anyOf": [*(members if what is None else _forms(what)), NULL],
    }


def _bounded(generated: dict[str, Any]) -> dict[str, Any]:
    """Rename bounds to JSON schema keywords, such as ``ge`` to ``minimum``.

    Pydantic leaves its own names in the schema if a value may also be None.
    """
    bounds = _BOUNDS | ({"minLength": "minItems"} if generated.get("type") == "array" else {})
    return {bounds.get(name, name): value for name, value in generated.items()}


_BY_FACTORY: dict[str, Any] = {"type": "string", "pattern": ".:."}
_BY_FACTORY_WITH_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"type": _BY_FACTORY},
    "required": ["type"],
}


def _forms(what: str) -> list[dict[str, Any]]:
    """Return one schema for each way to write an object in the settings.

    An object can be written as its name if it requires no parameters, as a mapping with a name and parameters, and for
    some stages as ``package.module:factory``.
    """
    names = [name for name, kind in named_objects(what).items() if not required_parameters(kind)]
    factories = [_BY_FACTORY, _BY_FACTORY_WITH_PARAMETERS] if what in FACTORIES else []
    return [{"enum": names}, *factories, *(_mapping(name, kind) for name, kind in named_objects(what).items())]


def _mapping(name: str, kind: Any) -> dict[str, Any]:
    signature = inspect.signature(kind).parameters
    parameters = {each: _simple(signature[each].default) for each in parameters_of(kind)}
    return {
        "type": "object",
        "properties": {"type": {"const": name}} | parameters,
        "required": ["type", *required_parameters(kind)],
        "additionalProperties": False,
    }


def _simple(default: Any) -> dict[str, Any]:
    """Derive the schema of a parameter from its default.

    The schema is empty unless the default is a bool, a number or a string.
    """
    kind = _SIMPLE.get(type(default))
    return {} if kind is None else {"type": kind, "default": default}
