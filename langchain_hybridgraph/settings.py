"""Settings from arguments, the environment and a file."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import asdict, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, ValidationError, WithJsonSchema, create_model
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, SettingsConfigDict

from langchain_hybridgraph.memory.duplicates import NEAR_DUPLICATE
from langchain_hybridgraph.options.groups import OptionGroup, groups_of, stage_forms
from langchain_hybridgraph.options.models import (
    ConversationFields,
    GraphFields,
    GraphOptions,
    HierarchicalFields,
    HybridFields,
    IndexOptions,
    LanguageOption,
    MemoryFields,
    MemoryOptions,
    PipelineFields,
    SelectionOptions,
    TreeOptions,
)
from langchain_hybridgraph.options.values import Notation, expected_value, is_number, notation_of
from langchain_hybridgraph.registry import is_factory, name_of
from langchain_hybridgraph.settings_file import (
    FILE,
    LANGUAGE,
    PREFIX,
    SECTIONS,
    TENANT,
    Origin,
    Problem,
    SettingsFile,
    UnusableSettingsError,
    read_settings_file,
    set_variables,
    settings_path,
)
from langchain_hybridgraph.stores.milvus.connection import TIMEOUT, Address
from langchain_hybridgraph.stores.milvus.schema import COLLECTION
from langchain_hybridgraph.stores.writer_lock import WRITE_TIMEOUT

# -- the keys -------------------------------------------------------------------------------------------------


def _embedding(value: Any) -> Any:
    name = value.get("type") if isinstance(value, Mapping) else value
    if name not in ("auto", "lsa", "minilm") and not (isinstance(name, str) and all(name.partition(":"))):
        raise ValueError  # the error of the setting already contains the value and lists the allowed ones
    return value


def _server_uri(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError
    Address.parse(value)
    return value


_EMBEDDING = Notation(
    "auto, lsa, minilm, package.module:factory, or a mapping with a type and its parameters",
    _embedding,
    [
        {"enum": ["auto", "lsa", "minilm"]},
        {"type": "string", "pattern": ".:."},
        {"type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"]},
    ],
)
_URI = Notation(
    "a URI such as milvus://host:19530/database",
    _server_uri,
    [{"type": "string", "pattern": "^(milvus:.|https?://.|.*\\.db$)"}],
)


class StoreFields(BaseModel):
    """Arguments of HybridGraphStore that a file can set."""

    path: Path | None = Field(
        None, description="Folder of the index. In a settings file, a relative path starts at the file's folder."
    )
    embedding: Annotated[Any, _EMBEDDING] = Field(
        None, description="Embedding model; unset: the model with which the index was built."
    )
    language: LanguageOption = Field(None, description=LANGUAGE)
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

    uri: Annotated[Any, _URI] = Field(
        None, description="URI of a Milvus server that stores the index, instead of a folder."
    )
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


MODELS: Mapping[str, tuple[type[BaseModel], ...]] = {
    "store": (StoreFields, ServerFields),
    "retriever": (HybridFields, PipelineFields),
    "selection": (SelectionOptions,),
    "index": (IndexOptions,),
    "graph": (GraphFields, GraphOptions),
    "memory": (MemoryFields, MemoryOptions),
    "tree": (HierarchicalFields, TreeOptions),
    "advanced": (InnerRetriever, ConversationFields),
}
"""Models whose fields are the keys of each section.

If a section has the name of an option group, it contains the options of this group and related options.
"""
IN_CODE_ONLY = frozenset({"keyword_retriever", "version", "edges", "session", "get_session_history"})
"""Options whose values are objects, which a file cannot contain."""


OPTIONS: Mapping[str, FieldInfo] = {
    f"{section}_{name}": option
    for section, kinds in MODELS.items()
    for kind in kinds
    for name, option in kind.model_fields.items()
    if name not in IN_CODE_ONLY and name not in groups_of(kind)
}
"""Option of each key. The first word of a key is its section, the rest the name of the option."""


def _key(option: FieldInfo) -> tuple[Any, Any]:
    """Return the type of a key, and its field: the option, with values as they are written in a file."""
    notation = notation_of(option)
    default = _file_value(option.get_default(call_default_factory=True), None if notation is None else notation.kinds)
    kind: Any = option.annotation if notation is None else Any
    metadata: list[Any] = [*option.metadata] if notation is None else [AfterValidator(notation.checked)]
    if notation is not None:
        is_list = any(each.get("type") == "array" for each in notation.schema)
        metadata.append(BeforeValidator(_split_list if is_list else _decode_json))
        metadata.append(WithJsonSchema({"anyOf": list(notation.schema)}))
    elif is_number(kind):
        metadata.append(BeforeValidator(_reject_bool))
    elif kind == Path | None:
        metadata.append(AfterValidator(_from_home))
    kind = Annotated[kind, *metadata] if metadata else kind
    return kind | None if default is None else kind, Field(default, description=option.description)


def _file_value(default: Any, kinds: Mapping[str, Any] | None) -> Any:
    """Return a default as it is written in a settings file; ``kinds`` are the classes that the value can name."""
    if kinds and default is not None:
        return name_of(default, kinds)
    if is_dataclass(default) and not isinstance(default, type):
        return asdict(default)
    if isinstance(default, Set):
        return tuple(sorted(default))
    if isinstance(default, Mapping):
        return {name: list(value) if isinstance(value, tuple) else value for name, value in default.items()}
    return default


def _reject_bool(value: Any) -> Any:
    if isinstance(value, bool):  # YAML reads yes and on as True, which pydantic would convert to 1
        raise ValueError("a Boolean is not a number")
    return value


def _decode_json(value: Any) -> Any:
    """Parse a string that begins like a JSON object or list, as in an environment variable."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return json.loads(value)
    except json.JSONDecodeError as error:
        raise ValueError(f"this is not JSON: {error}") from error


def _split_list(value: Any) -> Any:
    value = _decode_json(value)
    if isinstance(value, str):
        return tuple(each.strip() for each in value.split(","))
    return tuple(value) if isinstance(value, list) else value


def _from_home(path: Path | None) -> Path | None:
    return None if path is None else Path(os.path.expanduser(path))  # Path.expanduser raises for an unknown user


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
        **{key: _key(option) for key, option in OPTIONS.items()},
    )


# -- the settings ---------------------------------------------------------------------------------------------

ALLOW_FACTORIES = f"{PREFIX}ALLOW_FACTORIES"
"""Environment variable that must be 1 for a file to name factories."""
_CREATED = frozenset({"store_embedding", "retriever_reranker", "tree_planner", "advanced_expander"})
_WEIGHTS = ("retriever_semantic_weight", "retriever_keyword_weight")


class EffectiveSetting(NamedTuple):
    """Setting with the value in effect and its origin. A ``value`` of None means unset."""

    key: str
    value: Any
    default: Any
    origin: Origin


class HybridGraphSettings(SettingsTable):
    """Settings of stores and retrievers.

    An argument overrides an environment variable, and an environment variable overrides the settings file.

    The name of an environment variable is ``HYBRIDGRAPH_`` followed by the key in upper case. In variables, mappings
    are JSON, lists are JSON or comma-separated, and an empty variable is treated as unset. A file is read only by
    :meth:`from_file` and :meth:`effective`. None (``null``) always means unset.

    Raises UnusableSettingsError (a ConfigurationError) for unknown keys and invalid values. Its message has one line
    for each problem: its origin, the key, and the allowed values.

    >>> HybridGraphSettings(retriever_semantic_weight=0.6).retriever_keyword_weight
    0.4
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_ignore_empty=True,
        enable_decoding=False,
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
    )

    def __init__(self, _file: Path | None = None, _allow_factories: bool = False, **overrides: Any) -> None:
        sources = _Sources.of(_file, overrides)
        problems = [*sources.problems(type(self))]
        if not _allow_factories and os.environ.get(ALLOW_FACTORIES, "").lower() not in ("1", "true", "yes", "on"):
            problems += sources.factories()
        try:
            super().__init__(**sources.arguments(type(self)))
        except ValidationError as error:
            raise UnusableSettingsError([*problems, *_validation_problems(error, sources)]) from None
        problems += _invalid_weights(self, sources)
        if problems:
            raise UnusableSettingsError(problems)
        explicit = [key for key in _WEIGHTS if key in self.model_fields_set]
        if len(explicit) == 1:
            (other,) = set(_WEIGHTS) - set(explicit)
            # Assigned directly to keep it out of model_fields_set: the user did not set it.
            self.__dict__[other] = round(1 - getattr(self, explicit[0]), 12)

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
        return cls(_file=settings_path(path), _allow_factories=allow_factories, **overrides)

    @classmethod
    def effective(cls, path: str | Path | None = None, **overrides: Any) -> list[EffectiveSetting]:
        """Return every setting with its value and origin, for the same arguments as :meth:`from_file`."""
        settings, sources = cls.from_file(path, **overrides), _Sources.of(settings_path(path), overrides)
        origins = {key: sources.origin(key) for key in cls.model_fields}
        for key, other in (_WEIGHTS, _WEIGHTS[::-1]):
            if origins[key].kind == "default" and getattr(settings, key) != cls.model_fields[key].default:
                origins[key] = origins[other]  # computed from the other weight
        fields = cls.model_fields.items()
        return [EffectiveSetting(key, getattr(settings, key), field.default, origins[key]) for key, field in fields]

    def arguments(self, section: str) -> dict[str, Any]:
        """Return the settings of one section as arguments of a constructor.

        Only settings that were set are included, so the constructor's defaults apply to the rest. If the section has an
        option group, the options of the group are in a mapping under the section's name.

        >>> HybridGraphSettings(graph_preset="beam", graph_seed_k=3).arguments("graph")
        {'preset': 'beam', 'graph': {'seed_k': 3}}
        """
        options = {name: getattr(self, f"{section}_{name}") for name in _names_in(section)}
        options = {name: value for name, value in options.items() if f"{section}_{name}" in self.model_fields_set}
        groups = [kind for kind in MODELS[section] if issubclass(kind, OptionGroup)]
        group = {name: value for name, value in options.items() if any(name in kind.model_fields for kind in groups)}
        flat = {name: value for name, value in options.items() if name not in group}
        return flat | ({section: group} if group else {})

    @classmethod
    def table(cls) -> str:
        """Return all keys as a Markdown table of key, default, allowed values and description.

        >>> print(next(row for row in HybridGraphSettings.table().splitlines() if "`retriever_k`" in row))
        | `retriever_k` | 10 | an integer ≥ 0 | Number of results. |
        """
        rows = []
        for key, field in cls.model_fields.items():
            default = "" if field.default in (None, ()) else str(field.default)
            default = default.lower() if isinstance(field.default, bool) else default
            rows.append(f"| `{key}` | {default} | {allowed_values(key)} | {field.description} |")
        return "\n".join(["| Key | Default | Allowed | Meaning |", "|---|---|---|---|", *rows])


def allowed_values(key: str) -> str:
    """Return a description of a key's allowed values."""
    return expected_value(OPTIONS[key], in_file=True)


# -- sources of values ----------------------------------------------------------------------------------------


class _Sources(NamedTuple):
    """Sources of values, in order of precedence; ``variables`` maps keys to the names of environment variables."""

    explicit: Mapping[str, Any]
    variables: Mapping[str, str]
    file: SettingsFile | None

    @classmethod
    def of(cls, file: Path | None, explicit: Mapping[str, Any]) -> _Sources:
        explicit = {key: value for key, value in explicit.items() if value is not None}
        # Variables whose names resemble no key, such as HYBRIDGRAPH_SETS, belong to another program.
        variables = {key: name for key, name in set_variables().items() if _is_ours(key)}
        return cls(explicit, variables, None if file is None else read_settings_file(file))

    @property
    def _from_file(self) -> Mapping[str, Any]:
        return {} if self.file is None else self.file.values

    def arguments(self, keys: type[SettingsTable]) -> dict[str, Any]:
        """Return the values of valid keys from the arguments and the file that no variable overrides."""
        values = {key: self._from_file[key] for key in self._from_file.keys() - self.variables.keys()}
        values.update(self.explicit)
        return {key: value for key, value in values.items() if key in keys.model_fields}

    def origin(self, key: str) -> Origin:
        if key in self.explicit:
            return Origin("call")
        if key in self.variables:
            return Origin("environment", self.variables[key])
        if self.file is not None and key in self.file.values:
            return self.file.origin(key)
        return Origin("default")

    def value(self, key: str) -> Any:
        """Return the value of a key before validation, or None if the key is not set."""
        if key in self.explicit:
            return self.explicit[key]
        return os.environ[self.variables[key]] if key in self.variables else self._from_file.get(key)

    def factories(self) -> Iterator[Problem]:
        """Yield the factories that the file names."""
        for key, value in self._from_file.items():
            names = value.values() if isinstance(value, Mapping) else [value]
            factory = next((name for name in names if isinstance(name, str) and is_factory(name)), None)
            if factory is not None and key in _CREATED and self.origin(key).kind == "file":
                message = (
                    f"{self.origin(key).written_key(key)} is {value!r}, and {factory} would be imported and called; "
                    f"if you trust the file, set {ALLOW_FACTORIES}=1, or pass allow_factories=True to from_file"
                )
                yield Problem(key, self.origin(key), message, value)

    def problems(self, keys: type[SettingsTable]) -> Iterator[Problem]:
        """Yield errors in the file and unknown keys."""
        if self.file is not None:
            yield from self.file.problems
        for key in dict.fromkeys([*self.explicit, *self.variables, *self._from_file]):
            if key not in keys.model_fields:
                origin = self.origin(key)
                advice = _nearest(key)
                section, _, name = key.partition("_")
                for what, form in stage_forms({name: self.value(key)}).items() if section == "graph" else ():
                    advice = f"write graph_{what}: {{{', '.join(f'{each}: {value}' for each, value in form.items())}}}"
                message = f"{origin.written_key(key)} is not a setting; {advice}"
                yield Problem(key, origin, message, self.value(key))


def _is_ours(key: str) -> bool:
    in_a_section = key.startswith(tuple(f"{section}_" for section in SECTIONS))
    return in_a_section or bool(_without_section(key) or get_close_matches(key, OPTIONS, n=1, cutoff=0.8))


def _without_section(key: str) -> list[str]:
    return [setting for setting in OPTIONS if setting.split("_", 1)[1] == key]


def _nearest(key: str) -> str:
    near = _without_section(key) or get_close_matches(key, [*OPTIONS, *SECTIONS], n=1)
    if near:
        return f"did you mean {' or '.join(near)}?"
    section, _, _ = key.partition("_")
    siblings = [setting for setting in OPTIONS if setting.startswith(f"{section}_")]
    return f"the settings are {', '.join(siblings)}" if siblings else f"the sections are {', '.join(SECTIONS)}"


# -- errors ---------------------------------------------------------------------------------------------------


def _validation_problems(invalid: ValidationError, sources: _Sources) -> list[Problem]:
    problems = {}
    for error in invalid.errors():
        key = str(error["loc"][0])
        origin, value = sources.origin(key), sources.value(key)
        message = f"{origin.written_key(key)} is {value!r}; expected {allowed_values(key)}{_hint(error)}"
        problems[key] = Problem(key, origin, message, value, allowed_values(key))
    return list(problems.values())  # one problem per key, although a union reports an error for each of its members


def _hint(error: Any) -> str:
    if error["type"] == "value_error":
        reason = str(error["ctx"]["error"])
        if isinstance(error["input"], str) and (suggestion := re.search(r"did you mean [^?]*\?", reason)):
            reason = suggestion[0]  # the rest of the reason lists the allowed values, as the message does
        return f" ({reason})" if reason else ""
    if error["type"] == "literal_error" and isinstance(error["input"], str):
        near = get_close_matches(error["input"], re.findall(r"'(\w+)'", error["ctx"]["expected"]), n=1)
        return f" (did you mean {near[0]}?)" if near else ""
    return ""


def _invalid_weights(settings: HybridGraphSettings, sources: _Sources) -> Iterator[Problem]:
    """Yield an error if both weights are 0, or if one weight is above 1 and the other is not set."""
    weights = {key: getattr(settings, key) for key in _WEIGHTS if key in settings.model_fields_set}
    key = next(iter(weights), "")
    if len(weights) == 1 and weights[key] > 1:
        (other,) = set(_WEIGHTS) - {key}
        conflict = f"is {weights[key]:g} and {other} is not set"
        yield _conflict(key, sources, conflict, "a number from 0 to 1, or both weights")
    elif len(weights) == len(_WEIGHTS) and not any(weights.values()):
        yield _conflict(key, sources, "and the other weight are both 0", "at least one above 0")


def _conflict(key: str, sources: _Sources, conflict: str, expected: str) -> Problem:
    origin = sources.origin(key)
    return Problem(
        key, origin, f"{origin.written_key(key)} {conflict}; expected {expected}", sources.value(key), expected
    )


# -- the JSON schema and the template of a file ---------------------------------------------------------------

TITLE = "Settings of langchain-hybridgraph"


def schema() -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of a settings file, for editors.

    The schema rejects numbers written as strings, which :class:`HybridGraphSettings` accepts. Otherwise, it is less
    strict.

    >>> schema()["$defs"]["retriever_k"]["anyOf"]
    [{'minimum': 0, 'type': 'integer'}, {'type': 'null'}]
    """
    generated = HybridGraphSettings.model_json_schema()["properties"]
    sections = {
        section: {
            "description": description,
            "type": ["object", "null"],
            "properties": {name: {"$ref": f"#/$defs/{section}_{name}"} for name in _names_in(section)},
            "additionalProperties": False,
        }
        for section, description in SECTIONS.items()
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": TITLE,
        "description": f"Settings in a {FILE}: keys in their sections, or flat.",
        "type": ["object", "null"],
        "properties": sections | {key: {"$ref": f"#/$defs/{key}"} for key in OPTIONS},
        "additionalProperties": False,
        "$defs": {key: _key_schema(key, generated[key]) for key in OPTIONS},
    }


def _names_in(section: str) -> list[str]:
    return [key.removeprefix(f"{section}_") for key in OPTIONS if key.startswith(f"{section}_")]


def _key_schema(key: str, generated: dict[str, Any]) -> dict[str, Any]:
    null = {"type": "null"}
    default = {} if generated.get("default") is None else {"default": generated["default"]}
    values = {name: value for name, value in generated.items() if name not in ("title", "description", "default")}
    members = [member for member in values.pop("anyOf", [values]) if member != null]
    return {
        "description": f"{OPTIONS[key].description} Allowed: {allowed_values(key)}.",
        **default,
        "anyOf": [*members, null],
    }


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

    >>> [line for line in template("s.json").splitlines() if line.startswith("  #k:")]
    ['  #k: 10']
    """
    lines = [_HEAD.format(schema=schema)]
    for section, description in SECTIONS.items():
        lines += [f"# {description}", f"{section}:"]
        for name in _names_in(section):
            key = f"{section}_{name}"
            default = SettingsTable.model_fields[key].default
            text = f"{OPTIONS[key].description} Allowed: {allowed_values(key)}."
            lines += [f"  # {line}" for line in wrap(text, 112)]
            lines += [f"  #{name}:{'' if default is None else f' {json.dumps(default, ensure_ascii=False)}'}", ""]
    return "\n".join(lines)
