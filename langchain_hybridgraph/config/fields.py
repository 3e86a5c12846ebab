"""Keys of all settings."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Set
from dataclasses import asdict, is_dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, WithJsonSchema, create_model
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from langchain_hybridgraph.errors import quote_value
from langchain_hybridgraph.memory.duplicates import NEAR_DUPLICATE
from langchain_hybridgraph.number_checks import number_in_range
from langchain_hybridgraph.options.advanced import ConversationFields
from langchain_hybridgraph.options.command_line import LANGUAGE, TENANT
from langchain_hybridgraph.options.graph import GraphFields, GraphOptions
from langchain_hybridgraph.options.group import OptionGroup
from langchain_hybridgraph.options.hierarchical import HierarchicalFields, TreeOptions
from langchain_hybridgraph.options.hybrid import HybridFields
from langchain_hybridgraph.options.keyword_index import IndexOptions
from langchain_hybridgraph.options.memory import SOURCES, MemoryFields, MemoryOptions
from langchain_hybridgraph.options.retriever import PipelineFields
from langchain_hybridgraph.options.selection import SelectionOptions
from langchain_hybridgraph.options.validation.expected_values import one_of
from langchain_hybridgraph.stores.embedded.folder.writer_lock import WRITE_TIMEOUT
from langchain_hybridgraph.stores.milvus.connection import TIMEOUT
from langchain_hybridgraph.stores.milvus.schema import COLLECTION

# Tables of the objects that a setting can name. Each table is written as module:variable.
KINDS: Mapping[str, str] = {
    "fusion": "query.fusion:FUSIONS",
    "traversal": "query.graph:TRAVERSALS",
    "score": "query.graph.scores:GRAPH_SCORES",
    "reranker": "adapters.named_stages:RERANKERS",
    "planner": "adapters.named_stages:PLANNERS",
    "expander": "query.conversation:EXPANDERS",
    "mode": "options.memory_modes:CHANGES",
}


# Stages that a factory function in the application may create, named as package.module:factory.
FACTORIES = frozenset({"reranker", "planner"})


def named_objects(what: str) -> Mapping[str, Any]:
    """Return the objects that a setting such as ``"fusion"`` can name, by name."""
    module, name = KINDS[what].split(":")
    table: Mapping[str, Any] = getattr(import_module(f"langchain_hybridgraph.{module}"), name)
    return table


# -- validation of values -------------------------------------------------------------------------------------


def _reject_bool(value: Any) -> Any:
    if isinstance(value, bool):  # YAML reads yes and on as True, which pydantic would convert to 1
        raise ValueError("a truth value is not a number")
    return value


def _decode_json(value: Any) -> Any:
    """Parse a string from an environment variable as JSON, and return other values unchanged."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return json.loads(value)
    except json.JSONDecodeError as error:
        raise ValueError(f"this is not JSON: {error}") from error


def _split_list(value: Any) -> Any:
    """Return a list. A string from an environment variable is JSON or comma-separated names."""
    value = _decode_json(value)
    return [each.strip() for each in value.split(",")] if isinstance(value, str) else value


def _from_home(path: Path) -> Path:
    return Path(os.path.expanduser(path))  # Path.expanduser raises for an unknown user


def _check_form(what: str, form: Any) -> Any:
    """Check a name or mapping that stands for an object.

    The object is created, to check its parameters, only if its class is a dataclass. Objects that load a model are
    therefore never created here.
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
    from langchain_hybridgraph.filters import parse_filter

    parse_filter(form)
    return form


def _vector_server(form: str | dict[str, Any]) -> str | dict[str, Any]:
    from langchain_hybridgraph.stores.engines.chroma_client import ChromaServer

    ChromaServer.parse(form)
    return form


def _time(value: Any) -> Any:
    from langchain_hybridgraph.times import parse_time

    parse_time(value)
    return value


def _budget(value: int | dict[str, Any]) -> dict[str, Any]:
    from langchain_hybridgraph.query.budget import TokenBudget

    form = {"max_tokens": value} if isinstance(value, int) else value
    if "counter" in form:
        raise ValueError("a counter is a function, so it cannot be set here; pass it to TokenBudget in code")
    _check_parameters("budget", TokenBudget, form)
    return form


def _mode(form: Any) -> Any:
    from langchain_hybridgraph.memory.scoring import Composite

    parameters = dict(form) if isinstance(form, Mapping) else {}
    parameters.pop("type", None)
    if (traversal := parameters.pop("traversal", None)) is not None:
        _check_form("traversal", traversal)
    _check_parameters("mode", Composite, {name: value for name, value in parameters.items() if value is not None})
    return form


def _hotness(value: float | dict[str, Any]) -> float | dict[str, Any]:
    from langchain_hybridgraph.memory.hotness import Hotness

    _check_parameters("hotness", Hotness, value if isinstance(value, dict) else {"alpha": value})
    return value


def _novelty(value: dict[str, Any]) -> dict[str, Any]:
    from langchain_hybridgraph.memory.novelty import Novelty

    _check_parameters("novelty", Novelty, value)
    return value


def _check_parameters(what: str, kind: Any, parameters: Mapping[str, Any]) -> None:
    from langchain_hybridgraph.registry import from_config

    from_config(what, {"type": what, **parameters}, {what: kind}, callable)


def _sources(weights: dict[str, float]) -> dict[str, float]:
    if unknown := weights.keys() - set(SOURCES):
        raise ValueError(f"{', '.join(sorted(unknown))} is not one of them")
    if any(weight < 0 for weight in weights.values()):
        raise ValueError("a weight must be at least 0")
    return weights


def _embedding(value: str | dict[str, Any]) -> str | dict[str, Any]:
    name = value if isinstance(value, str) else value.get("type")
    if name not in ("auto", "lsa", "minilm") and not (isinstance(name, str) and all(name.partition(":"))):
        raise ValueError(f"{quote_value(name)} is not one of them")
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
ServerForm = Annotated[str | dict[str, Any], BeforeValidator(_decode_json), AfterValidator(_vector_server)]
Roots = Annotated[dict[str, list[str]], BeforeValidator(_decode_json)]


class Form(NamedTuple):
    """Notation of a value in a file, for options whose Python type does not determine the notation.

    If the value can name an object, ``names`` is the table of these objects, and ``allowed_values`` is shown after
    their names.
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
        "auto, lsa, minilm or package.module:factory, or a mapping of such a type and its parameters",
    ),
    "vector_server": Form(ServerForm, "a URL, or a mapping of url, tenant, database, token, headers and timeout"),
    "language": Form(Language, "the English name of a language, such as german"),
    "filter": _FILTER,
    "seed_filter": _FILTER,
    "as_of": _TIME,
    "known_at": _TIME,
    "fusion": Form(FusionForm, _PARAMETERS, "fusion"),
    "traversal": Form(TraversalForm, _PARAMETERS, "traversal"),
    "score": Form(ScoreForm, _PARAMETERS, "score"),
    "reranker": Form(RerankerForm, _FACTORY, "reranker"),
    "planner": Form(PlannerForm, _FACTORY, "planner"),
    "expander": Form(ExpanderForm, f"{_PARAMETERS} (append_history: turns)", "expander"),
    "mode": Form(
        ModeForm,
        "or a mapping of such a type and of similarity, confidence, recency, utility, decay_per_hour and traversal",
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
"""Forms by the name of an option."""

IN_CODE_ONLY = frozenset({"keyword_retriever", "version", "edges", "session", "get_session_history"})
"""Options whose values are objects, which a file cannot contain."""


class StoreFields(BaseModel):
    """Arguments of HybridGraphStore that a file can set."""

    path: Path | None = Field(
        None, description="Folder of the index. In a settings file, a relative path starts at the file's folder."
    )
    embedding: Any = Field(None, description="Embedding model; unset: the model with which the index was built.")
    language: str | None = Field(None, description=LANGUAGE)
    tenant: str | None = Field(None, description=TENANT)
    read_only: bool = Field(False, description="Whether to open the store read-only.")
    write_timeout: float = Field(
        WRITE_TIMEOUT,
        ge=0,
        description="Maximum time, in seconds, that a write waits for writes of other threads and processes.",
    )
    vector_server: Any = Field(None, description="Chroma server that searches the vectors of a large index.")
    near_duplicate: float = Field(
        NEAR_DUPLICATE,
        gt=0,
        le=1,
        description="Minimum cosine similarity at which remember merges a memory with an existing one.",
    )


class ServerFields(BaseModel):
    """Arguments of MilvusStore that a file can set, in addition to embedding, language and tenant."""

    uri: str | None = Field(None, description="URI of a Milvus server that stores the index, instead of a folder.")
    token: str | None = Field(
        None,
        description="Token of the server, or user:password. Set it in an environment variable rather than in a file.",
    )
    collection: str = Field(COLLECTION, description="Prefix of the names of the collections.")
    consistency: Literal["Strong", "Session", "Bounded", "Eventually"] = Field(
        "Session", description="Consistency level of reads."
    )
    timeout: float = Field(TIMEOUT, gt=0, description="Time limit of a call to the server, in seconds.")


class InnerRetriever(BaseModel):
    """Settings of the retriever that an AdvancedRetriever creates."""

    retriever: Literal["hybrid", "graph", "hierarchical", "memory"] = Field("hybrid", description="Retriever to wrap.")


class SettingsSection(NamedTuple):
    """Section of a file, with the classes whose fields are its keys."""

    description: str
    options: tuple[type[BaseModel], ...]


SECTIONS: Mapping[str, SettingsSection] = {
    "store": SettingsSection(
        "The index: a HybridGraphStore, or a MilvusStore if uri is set; the keys after uri are for Milvus only.",
        (StoreFields, ServerFields),
    ),
    "retriever": SettingsSection(
        "Options of every retriever, including the weights of vector and keyword search.",
        (HybridFields, PipelineFields),
    ),
    "selection": SettingsSection(
        "Options of every retriever: diversity, limits and depth of the search.", (SelectionOptions,)
    ),
    "index": SettingsSection("Keyword index for another vector store, or for documents.", (IndexOptions,)),
    "graph": SettingsSection("GraphRetriever: search along edges.", (GraphFields, GraphOptions)),
    "memory": SettingsSection(
        "MemoryRetriever: search in memories; the section graph also applies.", (MemoryFields, MemoryOptions)
    ),
    "tree": SettingsSection(
        "HierarchicalRetriever: trees of directories and documents.", (HierarchicalFields, TreeOptions)
    ),
    "advanced": SettingsSection(
        "AdvancedRetriever: questions in a conversation.", (InnerRetriever, ConversationFields)
    ),
}
"""Sections of a file.

If a section has the name of an option group, it contains the options of this group and related options.
"""


def in_group(section: str, name: str) -> bool:
    """Return whether an option in a section comes from the section's own option group, not from its related options."""
    return any(issubclass(kind, OptionGroup) and name in kind.model_fields for kind in SECTIONS[section].options)


# -- the keys of the fields -----------------------------------------------------------------------------------


def _keys() -> dict[str, Any]:
    return {
        f"{section}_{name}": _key(name, field)
        for section, (_, kinds) in SECTIONS.items()
        for kind in kinds
        for name, field in kind.model_fields.items()
        if name not in IN_CODE_ONLY and not _is_group(field.annotation)
    }


def _is_group(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, OptionGroup)


def _key(name: str, field: FieldInfo) -> tuple[Any, Any]:
    """Return the type of a key and its pydantic field: default, description, bounds and allowed values."""
    form = FORMS.get(name)
    default = _in_file(field.get_default(call_default_factory=True), form)
    bounds = _bounds(field)
    kind, allowed_values = _derived(field.annotation, bounds) if form is None else (form.type, _describe_allowed(form))
    extra: JsonDict = {"allowed": allowed_values}
    if form is not None and form.names is not None:
        extra["names"] = form.names
    key = Field(default, description=field.description, json_schema_extra=extra, **bounds)
    return (kind | None if default is None else kind), key


def _in_file(default: Any, form: Form | None) -> Any:
    """Return a default in the notation of a settings file."""
    if form is not None and form.names is not None and default is not None:
        return next(name for name, kind in named_objects(form.names).items() if type(default) is kind)
    if is_dataclass(default) and not isinstance(default, type):
        return asdict(default)
    if isinstance(default, Set):
        return tuple(sorted(default))
    if isinstance(default, Mapping):
        return {name: list(value) if isinstance(value, tuple) else value for name, value in default.items()}
    return default


_BOUNDS = {Ge: "ge", Gt: "gt", Le: "le", Lt: "lt", MinLen: "min_length"}


def _bounds(field: FieldInfo) -> dict[str, Any]:
    names = {_BOUNDS[type(bound)]: bound for bound in field.metadata if type(bound) in _BOUNDS}
    return {name: getattr(bound, name) for name, bound in names.items()}


def _derived(annotation: Any, bounds: Mapping[str, Any]) -> tuple[Any, str]:
    """Derive the type of a key and a description of its allowed values from the type of the option."""
    kind = annotation
    if get_origin(annotation) in (Union, UnionType):
        (kind,) = (member for member in get_args(annotation) if member is not NoneType)
    if get_origin(kind) is Literal:
        return kind, one_of(get_args(kind))
    if kind is bool:
        return kind, "true or false"
    if kind is int:
        return Count, number_in_range("an integer", bounds)
    if kind is float:
        return Number, number_in_range("a number", bounds)
    return str, "a string"


def _describe_allowed(form: Form) -> str:
    return form.allowed_values if form.names is None else f"{one_of(named_objects(form.names))}, {form.allowed_values}"


if TYPE_CHECKING:

    class SettingsTable(BaseSettings):
        """All settings. The first word of a key is its section, the rest the name of an option."""

        def __getattr__(self, key: str) -> Any:
            """Return the value of a key."""
            ...
else:
    SettingsTable = create_model(
        "SettingsTable",
        __base__=BaseSettings,
        __doc__="All settings. The first word of a key is its section, the rest the name of an option.",
        **_keys(),
    )
