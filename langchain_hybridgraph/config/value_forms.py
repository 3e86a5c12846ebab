"""Notation and validation of values in settings."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from langchain_hybridgraph.options.memory import SOURCES

# Tables of the objects that a setting can name. Each table is written as module:variable.
KINDS: Mapping[str, str] = {
    "fusion": "search.fusion:FUSIONS",
    "traversal": "search.expansion:TRAVERSALS",
    "score": "search.scores:GRAPH_SCORES",
    "reranker": "adapters.conversations:RERANKERS",
    "planner": "adapters.conversations:PLANNERS",
    "expander": "adapters.conversations:EXPANDERS",
    "mode": "options.memory_modes:CHANGES",
}


# Stages that a factory function in the application may create, named as package.module:factory.
FACTORIES = frozenset({"reranker", "planner", "expander"})


def named_objects(what: str) -> Mapping[str, Any]:
    """Return the class or factory function for each name that a setting such as ``"fusion"`` accepts."""
    module, name = KINDS[what].split(":")
    table: Mapping[str, Any] = getattr(import_module(f"langchain_hybridgraph.{module}"), name)
    return table


# -- validation of values -------------------------------------------------------------------------------------


def _reject_bool(value: Any) -> Any:
    if isinstance(value, bool):  # YAML reads yes and on as True, which pydantic would convert to 1
        raise ValueError("a Boolean is not a number")
    return value


def _decode_json(value: Any) -> Any:
    """Parse a string that begins like a JSON object or list, as in an environment variable. Return other values
    unchanged.
    """
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return json.loads(value)
    except json.JSONDecodeError as error:
        raise ValueError(f"this is not JSON: {error}") from error


def _split_list(value: Any) -> Any:
    """Split a string into a list; other values are returned unchanged.

    The string comes from an environment variable, and contains a JSON list or comma-separated names.
    """
    value = _decode_json(value)
    return [each.strip() for each in value.split(",")] if isinstance(value, str) else value


def _from_home(path: Path) -> Path:
    return Path(os.path.expanduser(path))  # Path.expanduser raises for an unknown user


def _check_form(what: str, form: Any) -> Any:
    """Check a setting that describes an object by its name or by a mapping, and return the setting.

    If the object's class is a dataclass, an object is created to check the parameters. Objects of other classes are not
    created, because they may load a model.
    """
    from langchain_hybridgraph.registry import parse_config

    table = named_objects(what)
    if what in FACTORIES and _is_factory(form):
        return form
    name, parameters = parse_config(what, form, table)
    if is_dataclass(table[name]):
        from langchain_hybridgraph.registry import from_config

        from_config(what, {"type": name, **parameters}, table, callable)
    return form


def _is_factory(form: Any) -> bool:
    name = form.get("type") if isinstance(form, Mapping) else form
    return isinstance(name, str) and all(name.partition(":"))


def _filter(form: dict[str, Any]) -> dict[str, Any]:
    from langchain_hybridgraph.filters.expressions import parse_filter

    parse_filter(form)
    return form


def _time(value: Any) -> Any:
    from langchain_hybridgraph.times import parse_time

    parse_time(value)
    return value


def _budget(value: int | dict[str, Any]) -> dict[str, Any]:
    from langchain_hybridgraph.search.selection import TokenBudget

    form = {"max_tokens": value} if isinstance(value, int) else value
    if "counter" in form:
        raise ValueError("a counter is a function, so it cannot be a setting; pass it to TokenBudget in code")
    _check_parameters("budget", TokenBudget, form)
    return form


def _mode(form: Any) -> Any:
    from langchain_hybridgraph.memory.scores import Composite

    parameters = dict(form) if isinstance(form, Mapping) else {}
    parameters.pop("type", None)
    if (traversal := parameters.pop("traversal", None)) is not None:
        _check_form("traversal", traversal)
    _check_parameters("mode", Composite, {name: value for name, value in parameters.items() if value is not None})
    return form


def _hotness(value: float | dict[str, Any]) -> float | dict[str, Any]:
    from langchain_hybridgraph.memory.scores import Hotness

    _check_parameters("hotness", Hotness, value if isinstance(value, dict) else {"alpha": value})
    return value


def _novelty(value: dict[str, Any]) -> dict[str, Any]:
    from langchain_hybridgraph.memory.scores import Novelty

    _check_parameters("novelty", Novelty, value)
    return value


def _check_parameters(what: str, kind: Any, parameters: Mapping[str, Any]) -> None:
    from langchain_hybridgraph.registry import from_config

    from_config(what, {"type": what, **parameters}, {what: kind}, callable)


def _sources(weights: dict[str, float]) -> dict[str, float]:
    if unknown := weights.keys() - set(SOURCES):
        raise ValueError(f"unknown: {', '.join(sorted(unknown))}")
    if any(weight < 0 for weight in weights.values()):
        raise ValueError("a weight must be at least 0")
    return weights


def _embedding(value: str | dict[str, Any]) -> str | dict[str, Any]:
    name = value if isinstance(value, str) else value.get("type")
    if name not in ("auto", "lsa", "minilm") and not (isinstance(name, str) and all(name.partition(":"))):
        raise ValueError  # the error of the setting already contains the value and lists the allowed ones
    return value


def _server_uri(value: str) -> str:
    from langchain_hybridgraph.stores.milvus.uri import Address

    Address.parse(value)
    return value


def _language(value: str) -> str:
    from langchain_hybridgraph.text.analyzer import language_name

    return language_name(value)


Number = Annotated[float, BeforeValidator(_reject_bool)]
Count = Annotated[int, BeforeValidator(_reject_bool)]
ServerUri = Annotated[
    str,
    AfterValidator(_server_uri),
    WithJsonSchema({"type": "string", "pattern": "^(milvus:.|https?://.|.*\\.db$)"}),
]
Folder = Annotated[Path, AfterValidator(_from_home)]
Language = Annotated[str, AfterValidator(_language)]
Names = Annotated[tuple[str, ...], BeforeValidator(_split_list)]
Numbers = Annotated[tuple[Number, ...], BeforeValidator(_split_list)]
FilterForm = Annotated[dict[str, Any], BeforeValidator(_decode_json), AfterValidator(_filter)]
NameOrObject = Annotated[str | dict[str, Any], BeforeValidator(_decode_json)]
FusionForm = Annotated[NameOrObject, AfterValidator(partial(_check_form, "fusion"))]
TraversalForm = Annotated[NameOrObject, AfterValidator(partial(_check_form, "traversal"))]
ScoreForm = Annotated[NameOrObject, AfterValidator(partial(_check_form, "score"))]
RerankerForm = Annotated[NameOrObject, AfterValidator(partial(_check_form, "reranker"))]
PlannerForm = Annotated[NameOrObject, AfterValidator(partial(_check_form, "planner"))]
ExpanderForm = Annotated[NameOrObject, AfterValidator(partial(_check_form, "expander"))]
EmbeddingForm = Annotated[
    NameOrObject,
    AfterValidator(_embedding),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["auto", "lsa", "minilm"]},
                {"type": "string", "pattern": ".:."},
                {"type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"]},
            ]
        }
    ),
]
Budget = Annotated[
    Count | dict[str, Any],
    BeforeValidator(_decode_json),
    BeforeValidator(_reject_bool),
    AfterValidator(_budget),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1},
                {
                    "type": "object",
                    "properties": {"max_tokens": {"type": "integer", "minimum": 1}, "fill": {"type": "boolean"}},
                    "additionalProperties": False,
                },
            ]
        }
    ),
]
Time = Annotated[Any, AfterValidator(_time), WithJsonSchema({"type": ["string", "number"]})]
ModeForm = Annotated[NameOrObject, AfterValidator(partial(_check_form, "mode")), AfterValidator(_mode)]
_NUMBER = {"type": "number", "minimum": 0}
HotnessForm = Annotated[
    Number | dict[str, Any],
    BeforeValidator(_decode_json),
    BeforeValidator(_reject_bool),
    AfterValidator(_hotness),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0, "maximum": 1},
                {
                    "type": "object",
                    "properties": {"alpha": _NUMBER, "half_life_days": _NUMBER},
                    "additionalProperties": False,
                },
            ]
        }
    ),
]
NoveltyForm = Annotated[
    dict[str, Any],
    BeforeValidator(_decode_json),
    AfterValidator(_novelty),
    WithJsonSchema(
        {
            "type": "object",
            "properties": dict.fromkeys(("above", "slope", "floor"), _NUMBER),
            "additionalProperties": False,
        }
    ),
]
SourceWeights = Annotated[
    dict[str, Number],
    BeforeValidator(_decode_json),
    AfterValidator(_sources),
    WithJsonSchema({"type": "object", "properties": dict.fromkeys(SOURCES, _NUMBER), "additionalProperties": False}),
]
Roots = Annotated[dict[str, list[str]], BeforeValidator(_decode_json)]


class Form(NamedTuple):
    """Notation of an option in a settings file, for options whose Python type does not determine it.

    ``type`` is the Pydantic type that checks the value, and ``allowed_values`` describes the values in messages. If the
    value may be the name of an object, ``names`` is the option's key in ``KINDS``; messages list the possible names
    before ``allowed_values``.
    """

    type: Any
    allowed_values: str
    names: str | None = None


_PARAMETERS = "or a mapping of its parameters"
_FACTORY = "package.module:factory, or a mapping such as {type: llm, model: provider:model}"
_FILTER = Form(FilterForm, "a mapping such as {year: {$gte: 2020}}")
_TIME = Form(Time, "a time such as 2024-05-01 or 2024-05-01T10:00:00Z, or Unix seconds")
_TEXTS = Form(Names, "a list of strings")

FORMS: Mapping[str, Form] = {
    "path": Form(Folder, "a path"),
    "uri": Form(ServerUri, "a URI such as milvus://host:19530/database"),
    "embedding": Form(
        EmbeddingForm,
        "auto, lsa, minilm, package.module:factory, or a mapping with a type and its parameters",
    ),
    "language": Form(Language, "a language such as german, its ISO code, multilingual, cjk or none"),
    "filter": _FILTER,
    "seed_filter": _FILTER,
    "as_of": _TIME,
    "known_at": _TIME,
    "fusion": Form(FusionForm, _PARAMETERS, "fusion"),
    "traversal": Form(TraversalForm, _PARAMETERS, "traversal"),
    "score": Form(ScoreForm, _PARAMETERS, "score"),
    "reranker": Form(RerankerForm, _FACTORY, "reranker"),
    "planner": Form(PlannerForm, _FACTORY, "planner"),
    "expander": Form(ExpanderForm, _FACTORY, "expander"),
    "mode": Form(
        ModeForm,
        "or a mapping with a type and similarity, confidence, recency, utility, decay_per_hour and traversal",
        "mode",
    ),
    "budget": Form(Budget, "an integer ≥ 1, or a mapping of max_tokens and fill"),
    "refresh": Form(
        Literal["auto", "never"] | Annotated[Number, Field(ge=0)], "auto, never or a number of seconds ≥ 0"
    ),
    "seed_labels": _TEXTS,
    "labels": _TEXTS,
    "relation_filter": _TEXTS,
    "hop_decay": Form(Numbers, "a list of numbers"),
    "source_weights": Form(SourceWeights, "a mapping of vector, keyword, graph and session to numbers ≥ 0"),
    "hotness": Form(HotnessForm, "a number from 0 to 1, or a mapping of alpha and half_life_days"),
    "novelty": Form(NoveltyForm, "a mapping of above, slope and floor"),
    "roots": Form(Roots, "a mapping such as {memory: [user/memories]}"),
}
"""Notation of each option that needs a :class:`Form`, by option name."""

IN_CODE_ONLY = frozenset({"keyword_retriever", "version", "edges", "session", "get_session_history"})
"""Options whose values are objects, which a file cannot contain."""
