"""Reads the YAML file of settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_hybridgraph.config.keys import SECTIONS
from langchain_hybridgraph.config.origins import Origin, Problem, UnusableSettingsError
from langchain_hybridgraph.errors import ConfigurationError

if TYPE_CHECKING:
    import yaml


class SettingsFile(NamedTuple):
    """A file's settings by their flat keys, without those that are null, and the lines on which they stand."""

    path: Path
    values: Mapping[str, Any]
    lines: Mapping[str, int]
    problems: tuple[Problem, ...]

    def origin(self, key: str) -> Origin:
        """The file, with the line of this key, or of its section where ``<<`` takes it in from elsewhere."""
        line = self.lines.get(key, self.lines.get(key.partition("_")[0]))
        return Origin("file", str(self.path), line)


def read(path: Path) -> SettingsFile:
    """The settings of a YAML file; keys stand flat or in their sections.

    What is wrong with single entries stands in ``problems``. Raises UnusableSettingsError for what is no YAML or no
    mapping, ConfigurationError for a file that cannot be read.
    """
    root, content = _parsed(path)
    if content is not None and not isinstance(content, Mapping):
        message = f"{path} holds {content!r:.60}; wanted lines such as retriever_k: 5"
        raise UnusableSettingsError([Problem("", Origin("file", str(path)), message)])
    lines = [] if root is None else list(_lines(root))
    file = SettingsFile(path, {}, dict(reversed(lines)), ())
    problems = [*_not_once(lines, file), *_no_sections(content or {}, file)]
    values = {key: value for key, value in _flat(content or {}) if value is not None}
    if isinstance(index := values.get("store_path"), str):
        values["store_path"] = path.parent / Path(index).expanduser() if index[:1] != "~" else index
    return file._replace(values=values, problems=tuple(problems))


def value_of(text: str) -> Any:
    """What a text would be in a file; the text itself where it is no YAML.

    >>> value_of("5"), value_of("{type: rrf}"), value_of("[")
    (5, {'type': 'rrf'}, '[')
    """
    import yaml

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        return text


def _parsed(path: Path) -> tuple[yaml.Node | None, Any]:
    import yaml

    try:
        text = path.read_text(encoding="utf-8-sig")
        return yaml.compose(text, yaml.SafeLoader), yaml.safe_load(text)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    except yaml.MarkedYAMLError as error:
        line = None if error.problem_mark is None else error.problem_mark.line + 1
        raise _not_yaml(Origin("file", str(path), line), str(error.problem)) from error
    except RecursionError:
        raise _not_yaml(Origin("file", str(path)), "it is nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:  # ValueError: not UTF-8, or a date such as 2024-13-01
        raise _not_yaml(Origin("file", str(path)), " ".join(str(error).split())) from error


def _not_yaml(origin: Origin, why: str) -> UnusableSettingsError:
    return UnusableSettingsError([Problem("", origin, f"{origin}: this is not YAML: {why}")])


def _lines(root: yaml.Node) -> Iterator[tuple[str, int]]:
    """Sections and flat keys, in the file's order, with their lines; ``<<`` takes in what stands elsewhere."""
    for name, value in root.value:
        yield str(name.value), name.start_mark.line + 1
        if name.value in SECTIONS and isinstance(value.value, list):
            pairs = [pair for pair in value.value if isinstance(pair, tuple) and pair[0].value != "<<"]
            yield from ((f"{name.value}_{inner.value}", inner.start_mark.line + 1) for inner, _ in pairs)


def _not_once(lines: list[tuple[str, int]], file: SettingsFile) -> Iterator[Problem]:
    for key, times in Counter(key for key, _ in lines).items():
        if times > 1:
            origin = Origin("file", str(file.path), [line for name, line in lines if name == key][1])
            first = file.lines[key]
            where = "in one place" if key in SECTIONS else "flat or in its section"
            message = f"{origin}: {key} stands there twice, first on line {first}; wanted once, {where}"
            yield Problem(key, origin, message)


def _no_sections(content: Mapping[Any, Any], file: SettingsFile) -> Iterator[Problem]:
    for name, value in content.items():
        if name in SECTIONS and not isinstance(value, Mapping | None):
            origin = file.origin(name)
            message = f"{origin.said(name)} is {value!r}; wanted a section of settings below it"
            yield Problem(name, origin, message, value, "a section of settings")


def _flat(content: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in content.items():
        if name not in SECTIONS:
            yield str(name), value
        elif isinstance(value, Mapping):
            yield from ((f"{name}_{inner}", each) for inner, each in value.items())
