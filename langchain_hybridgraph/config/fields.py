"""Keys of all settings."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import asdict, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import BaseModel, Field, create_model
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from langchain_hybridgraph.config.value_forms import FORMS, IN_CODE_ONLY, Count, Form, Number, named_objects
from langchain_hybridgraph.memory.duplicates import NEAR_DUPLICATE
from langchain_hybridgraph.number_ranges import number_in_range
from langchain_hybridgraph.options.advanced import ConversationFields
from langchain_hybridgraph.options.command_line import LANGUAGE, TENANT
from langchain_hybridgraph.options.graph import GraphFields, GraphOptions
from langchain_hybridgraph.options.group import OptionGroup
from langchain_hybridgraph.options.hierarchical import HierarchicalFields, TreeOptions
from langchain_hybridgraph.options.hybrid import HybridFields
from langchain_hybridgraph.options.keyword_index import IndexOptions
from langchain_hybridgraph.options.memory import MemoryFields, MemoryOptions
from langchain_hybridgraph.options.retriever import PipelineFields
from langchain_hybridgraph.options.selection import SelectionOptions
from langchain_hybridgraph.options.validation.expected_values import one_of
from langchain_hybridgraph.registry import required_parameters
from langchain_hybridgraph.stores.milvus.connection import TIMEOUT
from langchain_hybridgraph.stores.milvus.schema import COLLECTION
from langchain_hybridgraph.stores.writer_lock import WRITE_TIMEOUT


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
    near_duplicate: float = Field(
        NEAR_DUPLICATE,
        gt=0,
        le=1,
        description="Minimum cosine similarity at which remember merges a memory with an existing one.",
    )


class ServerFields(BaseModel):
    """Arguments of MilvusStore that a file can set. Those shared with HybridGraphStore are in :class:`StoreFields`."""

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
    """Section of a settings file, and the classes whose fields define its keys."""

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
"""Sections of a settings file, by name.

If a section has the name of an option group, it contains the options of this group and related options.
"""


def in_group(section: str, name: str) -> bool:
    """Return whether a section has an option group that contains this option."""
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
    """Return the type of a key, and its pydantic field with the default, description, bounds and allowed values."""
    form = None if get_origin(field.annotation) is Literal else FORMS.get(name)
    default = _in_file(field.get_default(call_default_factory=True), form)
    bounds = _bounds(field)
    kind, allowed_values = _derived(field.annotation, bounds) if form is None else (form.type, _describe_allowed(form))
    extra: JsonDict = {"allowed": allowed_values}
    if form is not None and form.names is not None:
        extra["names"] = form.names
    key = Field(default, description=field.description, json_schema_extra=extra, **bounds)
    return (kind | None if default is None else kind), key


def _in_file(default: Any, form: Form | None) -> Any:
    """Return a default as it is written in a settings file."""
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
    if form.names is None:
        return form.allowed_values
    required = {name: required_parameters(kind) for name, kind in named_objects(form.names).items() if name != "llm"}
    names = [f"{{type: {name}, {needed[0]}: …}}" if needed else name for name, needed in required.items()]
    return f"{one_of(names)}, {form.allowed_values}"  # these contain llm, which needs a model


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
