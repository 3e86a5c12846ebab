"""Settings file, environment variables, and origins of values."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from langchain_hybridgraph.errors import ConfigurationError, as_path

if TYPE_CHECKING:
    import yaml

# This module imports no options, so that the help of a command is shown immediately.

# Descriptions and defaults that options of commands share with the options of retrievers and stores.
K = "Number of results."
K_DEFAULT = 10
K_LEAST = 0
MIN_SCORE = "Minimum score of a hit. If the best score is below 0.5, the texts probably contain no answer."
LANGUAGE = "Language of stemming and stop words in a new index."
TENANT = "Tenant whose chunks the store reads and writes."

FILE = "hybridgraph.yaml"
PREFIX = "HYBRIDGRAPH_"
SECTIONS: Mapping[str, str] = {
    "store": "The index: a HybridGraphStore, or a MilvusStore if uri is set; the keys after uri are for Milvus only.",
    "retriever": "Options of every retriever, including the weights of vector and keyword search.",
    "selection": "Options of every retriever: diversity, limits and depth of the search.",
    "index": "Keyword index for another vector store, or for documents.",
    "graph": "GraphRetriever: search along edges.",
    "memory": "MemoryRetriever: search in memories; the section graph also applies.",
    "tree": "HierarchicalRetriever: trees of directories and documents.",
    "advanced": "AdvancedRetriever: questions in a conversation.",
}
"""Sections of a settings file, with their descriptions."""


def settings_path(path: str | Path | None) -> Path | None:
    """Return ``path`` if it is set, or hybridgraph.yaml in the working directory if it exists, or None."""
    if path is None:
        return Path(FILE) if Path(FILE).exists() else None
    return as_path("path", path)


def set_variables() -> dict[str, str]:
    """Map each key set in the environment, in lower case, to the name of its variable. Empty ones are unset."""
    names = {name.lower().removeprefix(PREFIX.lower()): name for name, value in os.environ.items() if value}
    return {key: name for key, name in names.items() if name.lower() != key}


def has_settings(path: str | Path | None) -> bool:
    """Return whether there is a settings file or a variable with settings. If not, all settings have their defaults."""
    return settings_path(path) is not None or bool(set_variables())


class Origin(NamedTuple):
    """Origin of a value. ``name`` is the variable or the file, and ``line`` is the line in the file, counted from 1.

    >>> Origin("file", "hybridgraph.yaml", 3).written_key("retriever_k")
    'hybridgraph.yaml:3: retriever_k'
    >>> Origin("environment", "HYBRIDGRAPH_RETRIEVER_K").written_key("retriever_k")
    'HYBRIDGRAPH_RETRIEVER_K'
    """

    kind: Literal["call", "environment", "file", "default"]
    name: str = ""
    line: int | None = None

    def written_key(self, key: str) -> str:
        """Return the key as it appears in messages: the name of the variable, or the file, the line and the key."""
        if self.kind == "file":
            return f"{self}: {key}"
        return self.name if self.kind == "environment" else key

    def __str__(self) -> str:
        line = "" if self.line is None else f":{self.line}"
        return f"{self.name}{line}" if self.name else self.kind


class Problem(NamedTuple):
    """Error in one setting. ``message`` is a complete line that includes the origin."""

    key: str
    origin: Origin
    message: str
    value: Any = None
    allowed_values: str | None = None


class UnusableSettingsError(ConfigurationError):
    """Settings that cannot be used; the message has one line for each of ``problems``, sorted by origin and line."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        order = ("call", "environment", "file", "default")
        self.problems = tuple(sorted(problems, key=lambda each: (order.index(each.origin.kind), each.origin.line or 0)))
        super().__init__()
        self.args = ("\n".join(problem.message for problem in self.problems),)  # not shortened: each line is needed


class Value(NamedTuple):
    """Value of a key before validation, and its origin."""

    value: Any
    origin: Origin

    def problem(self, key: str, conflict: str) -> Problem:
        """Return an error in this value; ``conflict`` completes a sentence that begins with the key."""
        return Problem(key, self.origin, f"{self.origin.written_key(key)} {conflict}", self.value)


def read_settings_file(path: Path) -> tuple[dict[str, Value], list[Problem]]:
    """Return the settings in a YAML file by flat key, without null, and the errors in individual entries.

    Keys may be flat or in sections. A key that was merged with ``<<`` has the line of its section. Raises
    UnusableSettingsError for invalid YAML and for a file that is not a mapping, and ConfigurationError for a file that
    cannot be read.
    """
    root, content = _parse(path)
    if content is not None and not isinstance(content, Mapping):
        message = f"{path} contains {content!r:.60}; expected lines such as retriever_k: 5"
        raise UnusableSettingsError([Problem("", Origin("file", str(path)), message)])
    lines: dict[str, int] = {}
    values: dict[str, Value] = {}
    problems = []

    def from_file(key: str, value: Any) -> Value:
        return Value(value, Origin("file", str(path), lines.get(key, lines.get(key.partition("_")[0]))))

    for key, line in [] if root is None or content is None else _lines(root):
        if lines.setdefault(key, line) != line:
            where = "in one place" if key in SECTIONS else "flat or in its section"
            second = Value(None, Origin("file", str(path), line))
            problems.append(second.problem(key, f"appears twice, first on line {lines[key]}; set it once, {where}"))
    for name, value in (content or {}).items():
        if name not in SECTIONS:
            values[str(name)] = from_file(str(name), value)
        elif isinstance(value, Mapping):
            values |= {f"{name}_{inner}": from_file(f"{name}_{inner}", each) for inner, each in value.items()}
        elif value is not None:
            conflict = f"is {value!r}; expected a section of settings below it"
            problems.append(from_file(name, value).problem(name, conflict))
    for key in ("store_path", "index_path"):
        if key in values and isinstance(values[key].value, str):
            values[key] = values[key]._replace(value=path.parent / os.path.expanduser(values[key].value))
    return {key: value for key, value in values.items() if value.value is not None}, problems


def _parse(path: Path) -> tuple[yaml.Node | None, Any]:
    import yaml

    try:
        text = path.read_text(encoding="utf-8-sig")
        return yaml.compose(text, yaml.SafeLoader), yaml.safe_load(text)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: not UTF-8, or a date such as 2024-13-01
        mark = getattr(error, "problem_mark", None)
        origin = Origin("file", str(path), None if mark is None else mark.line + 1)
        reason = getattr(error, "problem", None) or " ".join(str(error).split())
        raise UnusableSettingsError([Problem("", origin, f"{origin}: this is not YAML: {reason}")]) from error


def _lines(root: yaml.Node) -> Iterator[tuple[str, int]]:
    """Yield (section or flat key, line) in file order. Merged keys (``<<``) have no line of their own."""
    for name, value in root.value:
        yield str(name.value), name.start_mark.line + 1
        if name.value in SECTIONS and isinstance(value.value, list):
            pairs = [pair for pair in value.value if isinstance(pair, tuple) and pair[0].value != "<<"]
            yield from ((f"{name.value}_{inner.value}", inner.start_mark.line + 1) for inner, _ in pairs)
