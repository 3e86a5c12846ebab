"""Values of settings and their origins."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_settings import SettingsConfigDict

from langchain_hybridgraph.config.environment import PREFIX, set_variables
from langchain_hybridgraph.config.fields import SECTIONS, SettingsTable, in_group
from langchain_hybridgraph.config.file import SettingsFile, read_settings_file
from langchain_hybridgraph.config.file_path import settings_path
from langchain_hybridgraph.config.provenance import Origin, Problem, UnusableSettingsError
from langchain_hybridgraph.options.graph import SHORTHAND

_WEIGHTS = ("retriever_semantic_weight", "retriever_keyword_weight")
# Keys of the section graph that cannot be combined with a shorthand key.
_LONGHAND = ("traversal", "score", "preset")


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
    for each problem: the origin (a variable, or the file and line), the key, and the allowed values.

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

    def __init__(self, _file: Path | None = None, **overrides: Any) -> None:
        sources = _Sources.of(_file, overrides)
        problems = [*sources.problems(type(self)), *_conflicts(sources)]
        try:
            super().__init__(**sources.arguments(type(self)))
        except ValidationError as error:
            raise UnusableSettingsError([*problems, *_validation_problems(error, sources)]) from None
        problems += _invalid_weights(self, sources)
        if problems:
            raise UnusableSettingsError(problems)
        self._complete_weights()

    def _complete_weights(self) -> None:
        explicit = [key for key in _WEIGHTS if key in self.model_fields_set]
        if len(explicit) == 1:
            (other,) = set(_WEIGHTS) - set(explicit)
            # Assigned directly to keep it out of model_fields_set: the user did not set it.
            self.__dict__[other] = round(1 - getattr(self, explicit[0]), 12)

    @classmethod
    def from_file(cls, path: str | Path | None = None, **overrides: Any) -> HybridGraphSettings:
        """Load settings from a YAML file. Environment variables override the file, and arguments override both.

        Keys are flat (``retriever_k: 5``) or in sections (``retriever: {k: 5}``). If ``path`` is None,
        ``hybridgraph.yaml`` in the working directory is read if it exists.
        """
        return cls(_file=settings_path(path), **overrides)

    @classmethod
    def effective(cls, path: str | Path | None = None, **overrides: Any) -> list[EffectiveSetting]:
        """Return every setting with its value and origin, in the order of :meth:`table`.

        The arguments are the same as for :meth:`from_file`.
        """
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
        prefix = f"{section}_"
        options = {
            key.removeprefix(prefix): value
            for key, value in self
            if key in self.model_fields_set and key.startswith(prefix)
        }
        group = {name: value for name, value in options.items() if in_group(section, name)}
        flat = {name: value for name, value in options.items() if name not in group}
        return flat | ({section: group} if group else {})

    @classmethod
    def table(cls) -> str:
        """Return all keys as a Markdown table of key, default, allowed values and description.

        >>> print(next(row for row in HybridGraphSettings.table().splitlines() if "`retriever_k`" in row))
        | `retriever_k` | 10 | an integer ≥ 0 | Number of results. |
        """
        rows = [
            f"| `{key}` | {_default_text(field.default)} | {allowed_values(key)} | {field.description} |"
            for key, field in cls.model_fields.items()
        ]
        return "\n".join(["| Key | Default | Allowed | Meaning |", "|---|---|---|---|", *rows])


def allowed_values(key: str) -> str:
    """Return a description of a key's allowed values."""
    extra = SettingsTable.model_fields[key].json_schema_extra
    assert isinstance(extra, dict)
    return str(extra["allowed"])


def _default_text(default: Any) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    return "" if default in (None, ()) else str(default)


# -- sources of values ----------------------------------------------------------------------------------------


class _Sources(NamedTuple):
    """Sources of values, in order of precedence; ``variables`` maps keys to the names of environment variables."""

    explicit: Mapping[str, Any]
    variables: Mapping[str, str]
    file: SettingsFile | None

    @classmethod
    def of(cls, file: Path | None, explicit: Mapping[str, Any]) -> _Sources:
        explicit = {key: value for key, value in explicit.items() if value is not None}
        return cls(explicit, _variables(), None if file is None else read_settings_file(file))

    @property
    def _from_file(self) -> Mapping[str, Any]:
        return {} if self.file is None else self.file.values

    def arguments(self, keys: type[SettingsTable]) -> dict[str, Any]:
        """Return the values of valid keys from the arguments and the file.

        Keys of the file that a variable overrides are left out. The variables are not included, because
        pydantic-settings reads them itself.
        """
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
        """Return the value of a key as it was written, before validation, or None if the key is not set."""
        if key in self.explicit:
            return self.explicit[key]
        return os.environ[self.variables[key]] if key in self.variables else self._from_file.get(key)

    def problems(self, keys: type[SettingsTable]) -> Iterator[Problem]:
        """Yield the errors found without validating values: errors in the file, and unknown keys."""
        if self.file is not None:
            yield from self.file.problems
        for key in dict.fromkeys([*self.explicit, *self.variables, *self._from_file]):
            if key not in keys.model_fields:
                origin = self.origin(key)
                yield Problem(
                    key, origin, f"{origin.written_key(key)} is not a setting; {_nearest(key)}", self.value(key)
                )


def _variables() -> dict[str, str]:
    """Map the keys set by the environment, including misspelt keys, to the names of their variables.

    Variables whose names do not resemble any key, such as ``HYBRIDGRAPH_SETS``, are left out, because they belong to
    another program.
    """
    return {key: name for key, name in set_variables().items() if _is_ours(key)}


def _is_ours(key: str) -> bool:
    in_a_section = key.startswith(tuple(f"{section}_" for section in SECTIONS))
    return in_a_section or bool(
        _without_section(key) or get_close_matches(key, SettingsTable.model_fields, n=1, cutoff=0.8)
    )


def _without_section(key: str) -> list[str]:
    return [setting for setting in SettingsTable.model_fields if setting.split("_", 1)[1] == key]


def _nearest(key: str) -> str:
    near = _without_section(key) or get_close_matches(key, [*SettingsTable.model_fields, *SECTIONS], n=1)
    if near:
        return f"did you mean {' or '.join(near)}?"
    section, _, _ = key.partition("_")
    siblings = [setting for setting in SettingsTable.model_fields if setting.startswith(f"{section}_")]
    return f"the settings are {', '.join(siblings)}" if siblings else f"the sections are {', '.join(SECTIONS)}"


# -- errors ---------------------------------------------------------------------------------------------------


def _validation_problems(invalid: ValidationError, sources: _Sources) -> list[Problem]:
    problems = {}
    for error in invalid.errors():
        key = str(error["loc"][0])
        problems[key] = _problem(key, sources, _hint(error))
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


def _problem(key: str, sources: _Sources, hint: str = "") -> Problem:
    origin, value = sources.origin(key), sources.value(key)
    message = f"{origin.written_key(key)} is {value!r}; expected {allowed_values(key)}{hint}"
    return Problem(key, origin, message, value, allowed_values(key))


def _conflicts(sources: _Sources) -> Iterator[Problem]:
    """Yield an error if a shorthand key, such as ``graph_max_hops``, is combined with a traversal, score or preset."""
    short, long = (
        next((key for name in names if sources.value(key := f"graph_{name}") is not None), None)
        for names in (("max_hops", *SHORTHAND), _LONGHAND)
    )
    if short is not None and long is not None:
        yield _conflict(
            short, sources, f"cannot be combined with {sources.origin(long).written_key(long)}", "only one of them"
        )


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
