"""The settings with their values: argument, environment, file, default."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_settings import SettingsConfigDict

from langchain_hybridgraph.config.file import SettingsFile, read
from langchain_hybridgraph.config.keys import SECTIONS, Keys
from langchain_hybridgraph.config.origins import Origin, Problem, UnusableSettingsError

FILE = "hybridgraph.yaml"
_PREFIX = "HYBRIDGRAPH_"
_WEIGHTS = ("retriever_semantic_weight", "retriever_keyword_weight")
# Shorthand for one traversal with one score, and what says them otherwise.
SHORTHAND = (
    "max_hops",
    "relation_filter",
    "min_weight",
    "max_nodes",
    "bidirectional",
    "vector_weight",
    "graph_weight",
    "hop_decay",
    "score_expanded",
)
_LONGHAND = ("traversal", "score", "preset")


class Effective(NamedTuple):
    """A setting as it comes out; ``value`` None is unset."""

    key: str
    value: Any
    default: Any
    origin: Origin


class HybridGraphSettings(Keys):
    """The settings of stores and retrievers; an argument goes before the environment, the file, the default.

    Environment variables are the keys in capitals after ``HYBRIDGRAPH_``, with mappings and lists as JSON; an empty
    one counts as unset. The file is read by :meth:`from_file` only. None (``null``) is unset everywhere. Raises
    UnusableSettingsError (a ConfigurationError) for unknown keys and unusable values; the message has a line for each
    that names the variable, or the file with its line, the key and what is allowed.

    >>> HybridGraphSettings(retriever_semantic_weight=0.6).retriever_keyword_weight
    0.4
    """

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX,
        env_ignore_empty=True,
        enable_decoding=False,
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
    )

    def __init__(self, _file: Path | None = None, **given: Any) -> None:
        sources = _Sources.of(_file, given)
        problems = [*sources.problems(type(self)), *_two_ways_to_say_it(sources)]
        try:
            super().__init__(**sources.arguments(type(self)))
        except ValidationError as error:
            raise UnusableSettingsError([*problems, *_said(error, sources)]) from None
        problems += _unusable_weights(self, sources)
        if problems:
            raise UnusableSettingsError(problems)
        self._complete_weights()

    def _complete_weights(self) -> None:
        named = [key for key in _WEIGHTS if key in self.model_fields_set]
        if len(named) == 1:
            (other,) = set(_WEIGHTS) - set(named)
            self.__dict__[other] = round(1 - getattr(self, named[0]), 12)  # not among the fields set: nobody gave it

    @classmethod
    def from_file(cls, path: str | Path | None = None, **given: Any) -> HybridGraphSettings:
        """The settings of a YAML file under those of the environment and the arguments.

        Keys stand flat (``retriever_k: 5``) or in sections (``retriever: {k: 5}``). Without a path,
        ``hybridgraph.yaml`` in the working directory is read if there is one.
        """
        return cls(_file=found(path), **given)

    @classmethod
    def effective(cls, path: str | Path | None = None, **given: Any) -> list[Effective]:
        """Every setting with its value and where that comes from, in the table's order; arguments as of from_file."""
        settings, sources = cls.from_file(path, **given), _Sources.of(found(path), given)
        origins = {key: sources.origin(key) for key in cls.model_fields}
        for key, other in (_WEIGHTS, _WEIGHTS[::-1]):
            if origins[key].kind == "default" and getattr(settings, key) != cls.model_fields[key].default:
                origins[key] = origins[other]  # made of the other weight
        fields = cls.model_fields.items()
        return [Effective(key, getattr(settings, key), field.default, origins[key]) for key, field in fields]

    def arguments(self, section: str) -> dict[str, Any]:
        """The keys of one section without its name, as a constructor takes them.

        Only those that were given, so that the rest is the constructor's.

        >>> HybridGraphSettings(retriever_min_score=0.2, retriever_keyword_weight=0.5).arguments("retriever")
        {'keyword_weight': 0.5, 'min_score': 0.2}
        """
        given = self.model_fields_set
        prefix = f"{section}_"
        return {key.removeprefix(prefix): value for key, value in self if key in given and key.startswith(prefix)}

    @classmethod
    def table(cls) -> str:
        """All keys as a Markdown table: key, default, allowed values, meaning.

        >>> print(next(row for row in HybridGraphSettings.table().splitlines() if "`retriever_k`" in row))
        | `retriever_k` | 10 | a whole number from 1 | How many Documents come back. |
        """
        rows = [
            f"| `{key}` | {_shown(field.default)} | {allowed(key)} | {field.description} |"
            for key, field in cls.model_fields.items()
        ]
        return "\n".join(["| Key | Default | Allowed | Meaning |", "|---|---|---|---|", *rows])


def found(path: str | Path | None) -> Path | None:
    """The file that is meant: the one named, else hybridgraph.yaml where there is one."""
    if path is None:
        return Path(FILE) if Path(FILE).exists() else None
    return Path(os.path.expanduser(path))


def allowed(key: str) -> str:
    """What a key may be, in words."""
    extra = Keys.model_fields[key].json_schema_extra
    assert isinstance(extra, dict)
    return str(extra["allowed"])


def _shown(default: Any) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    return "" if default in (None, ()) else str(default)


# -- where values come from -----------------------------------------------------------------------------------


class _Sources(NamedTuple):
    """What gives values, the first before the others; ``variables`` has the environment's own names of keys."""

    given: Mapping[str, Any]
    variables: Mapping[str, str]
    file: SettingsFile | None

    @classmethod
    def of(cls, file: Path | None, given: Mapping[str, Any]) -> _Sources:
        set_ones = {key: value for key, value in given.items() if value is not None}
        return cls(set_ones, _variables(), None if file is None else read(file))

    @property
    def _filed(self) -> Mapping[str, Any]:
        return {} if self.file is None else self.file.values

    def arguments(self, keys: type[Keys]) -> dict[str, Any]:
        """The known keys of file and arguments that no variable overrules; pydantic-settings reads the variables."""
        given = {key: self._filed[key] for key in self._filed.keys() - self.variables.keys()}
        given.update(self.given)
        return {key: value for key, value in given.items() if key in keys.model_fields}

    def origin(self, key: str) -> Origin:
        if key in self.given:
            return Origin("call")
        if key in self.variables:
            return Origin("environment", self.variables[key])
        if self.file is not None and key in self.file.values:
            return self.file.origin(key)
        return Origin("default")

    def value(self, key: str) -> Any:
        """What was given, as it was written."""
        if key in self.given:
            return self.given[key]
        return os.environ[self.variables[key]] if key in self.variables else self._filed.get(key)

    def problems(self, keys: type[Keys]) -> Iterator[Problem]:
        """What is wrong before values are looked at: the file's own, and keys that do not exist."""
        if self.file is not None:
            yield from self.file.problems
        for key in dict.fromkeys([*self.given, *self.variables, *self._filed]):
            if key not in keys.model_fields:
                origin = self.origin(key)
                yield Problem(key, origin, f"{origin.said(key)} is not a setting; {_nearest(key)}", self.value(key))


def _variables() -> dict[str, str]:
    """The environment's own names of the keys that it sets, misspelt ones too; case does not matter, empty is unset.

    A name after the prefix that resembles no key, such as ``HYBRIDGRAPH_SETS``, belongs to another program.
    """
    named = {name.lower().removeprefix(_PREFIX.lower()): name for name, value in os.environ.items() if value}
    return {key: name for key, name in named.items() if name.lower() != key and _is_ours(key)}


def _is_ours(key: str) -> bool:
    in_a_section = key.startswith(tuple(f"{section}_" for section in SECTIONS))
    return in_a_section or bool(_without_section(key) or get_close_matches(key, Keys.model_fields, n=1, cutoff=0.8))


def _without_section(key: str) -> list[str]:
    return [known for known in Keys.model_fields if known.split("_", 1)[1] == key]


def _nearest(key: str) -> str:
    near = _without_section(key) or get_close_matches(key, [*Keys.model_fields, *SECTIONS], n=1)
    if near:
        return f"did you mean {' or '.join(near)}?"
    section, _, _ = key.partition("_")
    siblings = [known for known in Keys.model_fields if known.startswith(f"{section}_")]
    return f"the settings are {', '.join(siblings)}" if siblings else f"the sections are {', '.join(SECTIONS)}"


# -- what is wrong --------------------------------------------------------------------------------------------


def _said(invalid: ValidationError, sources: _Sources) -> list[Problem]:
    problems = {}
    for error in invalid.errors():
        key = str(error["loc"][0])
        problems[key] = _problem(key, sources, _why(error))
    return list(problems.values())  # one per key, though a union errs once per member


def _why(error: Any) -> str:
    if error["type"] == "value_error":
        return f" ({error['ctx']['error']})"
    if error["type"] == "literal_error" and isinstance(error["input"], str):
        near = get_close_matches(error["input"], re.findall(r"'(\w+)'", error["ctx"]["expected"]), n=1)
        return f" (did you mean {near[0]}?)" if near else ""
    return ""


def _problem(key: str, sources: _Sources, why: str = "") -> Problem:
    origin, value = sources.origin(key), sources.value(key)
    message = f"{origin.said(key)} is {value!r}; wanted {allowed(key)}{why}"
    return Problem(key, origin, message, value, allowed(key))


def _two_ways_to_say_it(sources: _Sources) -> Iterator[Problem]:
    """A shorthand beside what it is short for."""
    short, long = (
        next((key for name in names if sources.value(key := f"graph_{name}") is not None), None)
        for names in (SHORTHAND, _LONGHAND)
    )
    if short is not None and long is not None:
        yield _against(short, sources, f"does not go with {sources.origin(long).said(long)}", "one of them alone")


def _unusable_weights(settings: HybridGraphSettings, sources: _Sources) -> Iterator[Problem]:
    """Weights that are usable alone and not together."""
    named = {key: getattr(settings, key) for key in _WEIGHTS if key in settings.model_fields_set}
    key = next(iter(named), "")
    if len(named) == 1 and named[key] > 1:
        (other,) = set(_WEIGHTS) - {key}
        how = f"is {named[key]:g} and {other} is not given"
        yield _against(key, sources, how, "a number from 0 to 1, or both weights")
    elif len(named) == len(_WEIGHTS) and not any(named.values()):
        yield _against(key, sources, "and the other weight are both 0", "one above 0, or nothing is searched")


def _against(key: str, sources: _Sources, how: str, wanted: str) -> Problem:
    origin = sources.origin(key)
    return Problem(key, origin, f"{origin.said(key)} {how}; wanted {wanted}", sources.value(key), wanted)
