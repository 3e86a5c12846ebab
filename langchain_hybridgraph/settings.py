"""Settings from arguments, the environment and a file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, Field, ValidationError, ValidationInfo, create_model, field_validator
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python
from pydantic_settings import BaseSettings, SettingsConfigDict

from langchain_hybridgraph import settings_file
from langchain_hybridgraph.errors import ConfigurationError, quote_value
from langchain_hybridgraph.memory_scores import NEAR_DUPLICATE
from langchain_hybridgraph.options import base, models
from langchain_hybridgraph.registry import is_factory, name_of
from langchain_hybridgraph.search.fusion import both_weights
from langchain_hybridgraph.stores.milvus.connection import TIMEOUT, Address
from langchain_hybridgraph.stores.milvus.schema import COLLECTION
from langchain_hybridgraph.stores.writer_lock import WRITE_TIMEOUT

# -- the keys -------------------------------------------------------------------------------------------------


def _embedding(value: Any) -> Any:
    name = value.get("type") if isinstance(value, Mapping) else value
    if name not in ("auto", "lsa", "minilm") and not (isinstance(name, str) and all(name.partition(":"))):
        raise ValueError
    return value


_EMBEDDING = base.Notation(
    "auto, lsa, minilm, package.module:factory, or a mapping with a type and its parameters",
    _embedding,
    [
        {"enum": ["auto", "lsa", "minilm"]},
        {"type": "string", "pattern": ".:."},
        {"type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"]},
    ],
)
_URI = base.Notation(
    "a URI such as milvus://host:19530/database",
    Address.parse,
    [{"type": "string", "pattern": "^(milvus:.|https?://.|.*\\.db$)"}],
)


class StoreFields(base.OptionModel):
    """Arguments of HybridGraphStore that a file can set."""

    path: Path | None = None
    """Folder of the index. In a settings file, a relative path starts at the file's folder."""
    embedding: Annotated[Any, _EMBEDDING] = None
    """Embedding model; unset: the model with which the index was built."""
    language: models.LanguageOption = Field(None, description=settings_file.LANGUAGE)
    tenant: str | None = Field(None, description=settings_file.TENANT)
    read_only: bool = False
    """Whether to open the store read-only."""
    write_timeout: float = Field(WRITE_TIMEOUT, ge=0)
    """Maximum time, in seconds, that a write waits for writes of other threads and processes."""
    near_duplicate: float = Field(NEAR_DUPLICATE, gt=0, le=1)
    """Minimum cosine similarity at which remember merges a memory with an existing one."""


class ServerFields(base.OptionModel):
    """Arguments of MilvusStore that a file can set. Those shared with HybridGraphStore are in :class:`StoreFields`."""

    uri: Annotated[str | None, _URI] = None
    """URI of a Milvus server that stores the index, instead of a folder."""
    token: str | None = None
    """Token of the server, or user:password. Set it in an environment variable rather than in a file."""
    collection: str = COLLECTION
    """Prefix of the names of the collections."""
    consistency: Literal["Strong", "Session", "Bounded", "Eventually"] = "Session"
    """Consistency level of reads."""
    timeout: float = Field(TIMEOUT, gt=0)
    """Time limit of a call to the server, in seconds."""


class InnerRetriever(base.OptionModel):
    """Settings of the retriever that an AdvancedRetriever creates."""

    retriever: Literal["hybrid", "graph", "hierarchical", "memory"] = "hybrid"
    """Retriever to wrap."""


MODELS: Mapping[str, tuple[type[BaseModel], ...]] = {
    "store": (StoreFields, ServerFields),
    "retriever": (models.HybridFields, models.PipelineFields),
    "selection": (models.SelectionOptions,),
    "index": (models.IndexOptions,),
    "graph": (models.GraphFields, models.GraphOptions),
    "memory": (models.MemoryFields, models.MemoryOptions),
    "tree": (models.HierarchicalFields, models.TreeOptions),
    "advanced": (InnerRetriever, models.ConversationFields),
}
"""Models whose fields are the keys of each section.

If a section has the name of an option group, it contains the options of this group and related options.
"""
IN_CODE_ONLY = frozenset({"keyword_retriever", "edges", "session", "get_session_history"})
"""Options whose values are objects, which a file cannot contain."""


OPTIONS: Mapping[str, FieldInfo] = {
    f"{section}_{name}": option
    for section, kinds in MODELS.items()
    for kind in kinds
    for name, option in kind.model_fields.items()
    if name not in IN_CODE_ONLY and name not in base.groups_of(kind)
}
"""Option of each key. The first word of a key is its section, the rest the name of the option."""


def _key(option: FieldInfo) -> tuple[Any, Any]:
    """Return the type of a key, and its field: the option, with values as they are written in a file."""
    notation = base.notation_of(option)
    default = option.get_default(call_default_factory=True)
    kinds = None if notation is None else notation.kinds
    default = name_of(default, kinds) if kinds and default is not None else to_jsonable_python(default)
    metadata = [each.as_written() if isinstance(each, base.Notation) else each for each in option.metadata]
    kind: Any = Annotated[option.annotation, *metadata] if metadata else option.annotation
    return kind | None, Field(default, description=f"{option.description} Allowed: {base.expected_value(option)}.")


_FIELDS: Any = {key: _key(option) for key, option in OPTIONS.items()}
SettingsTable: Any = create_model("SettingsTable", __base__=BaseSettings, **_FIELDS)


# -- the settings ---------------------------------------------------------------------------------------------

ALLOW_FACTORIES = f"{settings_file.PREFIX}ALLOW_FACTORIES"
"""Environment variable that must be 1 for a file to name factories."""
_CREATED = frozenset({"store_embedding", "retriever_reranker", "tree_planner", "advanced_expander"})


class EffectiveSetting(NamedTuple):
    """Setting with the value in effect and its origin. A ``value`` of None means unset."""

    key: str
    value: Any
    default: Any
    origin: settings_file.Origin


class HybridGraphSettings(SettingsTable):  # type: ignore[misc]  # its fields are those of OPTIONS
    """Settings of stores and retrievers. The first word of a key is its section, the rest the name of an option.

    An argument overrides an environment variable, and an environment variable overrides the settings file.

    The name of an environment variable is ``HYBRIDGRAPH_`` followed by the key in upper case. In variables, mappings
    are JSON, lists are JSON or comma-separated, and an empty variable is treated as unset. A file is read only by
    :meth:`from_file` and :meth:`effective`. None (``null``) always means unset.

    Raises UnusableSettingsError (a ConfigurationError) for unknown keys and invalid values. Its message has one line
    for each problem: its origin, the key, and the allowed values.

    >>> HybridGraphSettings(retriever_k=3).retriever_k
    3
    """

    model_config = SettingsConfigDict(
        env_prefix=settings_file.PREFIX,
        env_ignore_empty=True,
        enable_decoding=False,
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
    )

    def __init__(self, _file: Path | None = None, _allow_factories: bool = False, **overrides: Any) -> None:
        values, problems = _values(_file, overrides)
        if not _allow_factories and os.environ.get(ALLOW_FACTORIES, "").lower() not in ("1", "true", "yes", "on"):
            problems += _factories(values)
        keys = type(self).model_fields
        problems += (_unknown(key, value) for key, value in values.items() if key not in keys)
        try:
            super().__init__(**{key: value.value for key, value in values.items() if key in keys})
            both_weights(self.retriever_semantic_weight, self.retriever_keyword_weight)
        except ValidationError as error:
            problems += _invalid(error, values)
        except ConfigurationError as error:
            key = next(key for key in ("retriever_semantic_weight", "retriever_keyword_weight") if key in values)
            problems.append(values[key].problem(key, f"cannot be used: {error}"))
        if problems:
            raise settings_file.UnusableSettingsError(problems)

    @field_validator("*", mode="before")
    @classmethod
    def _converted(cls, value: Any, info: ValidationInfo) -> Any:
        """Convert a value as it is written in a file or an environment variable."""
        option = OPTIONS[str(info.field_name)]
        kind, is_list = option.annotation, option.annotation == frozenset[str]
        if isinstance(value, bool) and base.is_number(kind):  # YAML reads yes as True, which pydantic makes 1
            raise ValueError
        if isinstance(value, str) and (is_list or base.notation_of(option)):
            if value.lstrip().startswith(("{", "[")):
                return json.loads(value)
            return [each.strip() for each in value.split(",")] if is_list else value
        if isinstance(value, str | Path) and kind == Path | None:
            return os.path.expanduser(value)  # Path.expanduser raises for an unknown user
        return value

    @classmethod
    def from_file(
        cls, path: str | Path | None = None, *, allow_factories: bool = False, **overrides: Any
    ) -> HybridGraphSettings:
        """Load settings from a YAML file. Environment variables override the file, and arguments override both.

        Keys are flat (``retriever_k: 5``) or in sections (``retriever: {k: 5}``). If ``path`` is None,
        ``hybridgraph.yaml`` in the working directory is read if it exists. A file may name factories
        (``package.module:factory``), which are imported and called, only with ``allow_factories=True`` or if the
        variable ``HYBRIDGRAPH_ALLOW_FACTORIES`` is 1.
        """
        return cls(_file=settings_file.settings_path(path), _allow_factories=allow_factories, **overrides)

    @classmethod
    def effective(cls, path: str | Path | None = None, **overrides: Any) -> list[EffectiveSetting]:
        """Return every setting with its JSON value and its origin, for the same arguments as :meth:`from_file`."""
        settings = cls.from_file(path, **overrides).model_dump(mode="json")
        values = _values(settings_file.settings_path(path), overrides)[0]
        default = settings_file.Value(None, settings_file.Origin("default"))
        return [
            EffectiveSetting(key, settings[key], field.default, values.get(key, default).origin)
            for key, field in cls.model_fields.items()
        ]

    def arguments(self, section: str) -> dict[str, Any]:
        """Return the settings of one section as arguments of a constructor.

        Only settings that were set are included, so the constructor's defaults apply to the rest. If the section has an
        option group, the options of the group are in a mapping under the section's name.

        >>> HybridGraphSettings(graph_preset="beam", graph_seed_k=3).arguments("graph")
        {'preset': 'beam', 'graph': {'seed_k': 3}}
        """
        options = {name: getattr(self, f"{section}_{name}") for name in _names_in(section)}
        options = {name: value for name, value in options.items() if f"{section}_{name}" in self.model_fields_set}
        groups = [kind for kind in MODELS[section] if issubclass(kind, base.OptionGroup)]
        group = {name: value for name, value in options.items() if any(name in kind.model_fields for kind in groups)}
        flat = {name: value for name, value in options.items() if name not in group}
        return flat | ({section: group} if group else {})


def check_settings(value: Any) -> None:
    """Raise ConfigurationError unless the value is a HybridGraphSettings object."""
    if not isinstance(value, HybridGraphSettings):
        advice = "write HybridGraphSettings.from_file(path)"
        raise ConfigurationError(f"settings must be a HybridGraphSettings object, got {quote_value(value)}; {advice}")


def allowed_values(key: str) -> str:
    """Return a description of a key's allowed values."""
    return base.expected_value(OPTIONS[key])


# -- sources of values ----------------------------------------------------------------------------------------


def _values(
    file: Path | None, overrides: Mapping[str, Any]
) -> tuple[dict[str, settings_file.Value], list[settings_file.Problem]]:
    """Return the value of each key that is set, from the source with the highest precedence, and errors in the file."""
    values, problems = ({}, []) if file is None else settings_file.read_settings_file(file)
    # Variables whose names resemble no key, such as HYBRIDGRAPH_SETS, belong to another program.
    for key, name in settings_file.set_variables().items():
        if _is_ours(key):
            values[key] = settings_file.Value(os.environ[name], settings_file.Origin("environment", name))
    call = settings_file.Origin("call")
    values |= {key: settings_file.Value(value, call) for key, value in overrides.items() if value is not None}
    return values, problems


def _factories(values: Mapping[str, settings_file.Value]) -> Iterator[settings_file.Problem]:
    """Yield the factories that the file names."""
    for key in _CREATED & values.keys():
        value = values[key].value
        names = value.values() if isinstance(value, Mapping) else [value]
        factory = next((name for name in names if isinstance(name, str) and is_factory(name)), None)
        if factory is not None and values[key].origin.kind == "file":
            conflict = f"is {value!r}, and {factory} would be imported and called; if you trust the file"
            advice = f"set {ALLOW_FACTORIES}=1 or use HybridGraphSettings.from_file(path, allow_factories=True)"
            yield values[key].problem(key, f"{conflict}, {advice}")


def _unknown(key: str, value: settings_file.Value) -> settings_file.Problem:
    section, _, name = key.partition("_")
    is_variable = value.origin.kind == "environment"
    near = [f"{settings_file.PREFIX}{each.upper()}" if is_variable else each for each in _similar_keys(key)]
    advice = f"did you mean {' or '.join(near)}?" if near else f"the sections are {', '.join(settings_file.SECTIONS)}"
    for what, form in base.equivalent_options(name, value.value).get("graph", {}).items() if section == "graph" else ():
        advice = f"write graph_{what}: {{{', '.join(f'{each}: {inner}' for each, inner in form.items())}}}"
    return value.problem(key, f"is not a setting; {advice}")


def _is_ours(key: str) -> bool:
    """Return whether the name of a variable is a key, or similar to one. A section is not a key."""
    in_a_section = key.startswith(tuple(f"{section}_" for section in settings_file.SECTIONS))
    return in_a_section or (key not in settings_file.SECTIONS and bool(_similar_keys(key, 0.8)))


def _similar_keys(key: str, cutoff: float = 0.6) -> list[str]:
    """Return the keys that have this name in their section, or else the most similar key or section, if any."""
    names = [*OPTIONS, *settings_file.SECTIONS]
    in_sections = [each for each in OPTIONS if each.split("_", 1)[1] == key]
    return in_sections or get_close_matches(key, names, n=1, cutoff=cutoff)


def _invalid(invalid: ValidationError, values: Mapping[str, settings_file.Value]) -> list[settings_file.Problem]:
    problems = {}
    for error in invalid.errors():
        key = str(error["loc"][0])
        value, origin = values[key]
        reason = str(error["ctx"]["error"]) if error["type"] == "value_error" else ""
        message = base.wrong_value(OPTIONS[key], origin.written_key(key), value) + (f" ({reason})" if reason else "")
        problems[key] = settings_file.Problem(key, origin, message, value, allowed_values(key))
    return list(problems.values())  # one problem per key, although a union reports an error for each of its members


# -- the JSON schema and the template of a file ---------------------------------------------------------------

TITLE = "Settings of langchain-hybridgraph"


def schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of a settings file, for editors.

    The schema rejects numbers written as strings, which :class:`HybridGraphSettings` accepts. Otherwise, it is less
    strict.

    >>> schema()["$defs"]["retriever_k"]["anyOf"]
    [{'minimum': 0, 'type': 'integer'}, {'type': 'null'}]
    """
    sections = {
        section: {
            "description": description,
            "type": ["object", "null"],
            "properties": {name: {"$ref": f"#/$defs/{section}_{name}"} for name in _names_in(section)},
            "additionalProperties": False,
        }
        for section, description in settings_file.SECTIONS.items()
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": TITLE,
        "description": f"Settings in a {settings_file.FILE}: keys in their sections, or flat.",
        "type": ["object", "null"],
        "properties": sections | {key: {"$ref": f"#/$defs/{key}"} for key in OPTIONS},
        "additionalProperties": False,
        "$defs": HybridGraphSettings.model_json_schema()["properties"],
    }


def _names_in(section: str) -> list[str]:
    return [key.removeprefix(f"{section}_") for key in OPTIONS if key.startswith(f"{section}_")]


_HEAD = """\
# yaml-language-server: $schema={schema}
#
# Settings of langchain-hybridgraph. Keys that are commented out show their defaults. To change one, remove the "#" and
# edit the value. Environment variables (HYBRIDGRAPH_RETRIEVER_K=3) override this file; arguments of constructors and
# calls override both. Run "hybridgraph config show" to see the values in effect, "hybridgraph config check" to check
# them.
"""


def template(schema: str) -> str:
    """Return the text of a settings file in which every setting is commented out and shows its default.

    ``schema`` is the path of the JSON schema to which the file refers.
    """
    lines = [_HEAD.format(schema=schema)]
    for section, description in settings_file.SECTIONS.items():
        lines += [f"# {description}", f"{section}:"]
        for name in _names_in(section):
            key = f"{section}_{name}"
            field = SettingsTable.model_fields[key]
            default = field.default
            lines += [f"  # {line}" for line in wrap(str(field.description), 112)]
            lines += [f"  #{name}:{'' if default is None else f' {json.dumps(default, ensure_ascii=False)}'}", ""]
    return "\n".join(lines)
