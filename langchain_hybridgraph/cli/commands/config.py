"""Commands of ``hybridgraph config``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from langchain_hybridgraph.cli.errors import PROBLEM, say
from langchain_hybridgraph.errors import ConfigurationError

if TYPE_CHECKING:
    from langchain_hybridgraph.settings import EffectiveSetting
    from langchain_hybridgraph.settings_file import Origin, Problem

config_app = typer.Typer(context_settings={"help_option_names": ["-h", "--help"]})

File = Annotated[
    Path | None,
    typer.Argument(metavar="FILE", help="YAML file; default: hybridgraph.yaml in the current folder, if it exists."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

_SECRET = re.compile(r"(api_?key|token|secret|password)$", re.IGNORECASE)


@config_app.callback(invoke_without_command=True)
def config(context: typer.Context) -> None:
    """Create, show and check the settings file."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@config_app.command()
def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write.")] = Path("hybridgraph.yaml"),
) -> None:
    """Create a settings file.

    It contains all settings with their defaults. A JSON schema for editors is written next to it. An existing file is
    not changed.
    """
    from langchain_hybridgraph.settings import schema, template

    schema_file = file.with_name(f"{file.stem}.schema.json")
    if schema_file.exists() and not _is_ours(schema_file):
        raise ConfigurationError(f"{schema_file} exists and was not written by this command: choose another file name")
    try:
        with file.open("x", encoding="utf-8") as new_file:
            new_file.write(template(schema_file.name))
    except FileExistsError:
        raise ConfigurationError(
            f"{file} already exists: choose another file name, or show this one with hybridgraph config show {file}"
        ) from None
    except OSError as error:
        raise ConfigurationError(
            f"{file} cannot be written: {error.strerror}; choose a file in an existing folder that you can write to"
        ) from None
    schema_file.write_text(json.dumps(schema(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    typer.echo(f"wrote {file} (all settings, commented out) and {schema_file}")


@config_app.command()
def show(
    file: File = None,
    *,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Setting to override; may be repeated."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show every setting with its value and its origin.

    The origin is "call" (set with --set), the name of an environment variable, a line in the file, or "default".
    """
    from langchain_hybridgraph.settings import HybridGraphSettings
    from langchain_hybridgraph.settings_file import settings_path

    settings = HybridGraphSettings.effective(file, **_arguments(assignments or []))
    if as_json:
        from langchain_hybridgraph.cli.output import print_json

        rows_as_json = [
            {
                "key": each.key,
                "value": _plain(each.value, each.key),
                "default": _plain(each.default),
                **_origin(each.origin),
            }
            for each in settings
        ]
        print_json({"file": _path_text(settings_path(file)), "settings": rows_as_json})
        return
    rows = [
        (each.key, json.dumps(_plain(each.value, each.key), ensure_ascii=False), str(each.origin)) for each in settings
    ]
    typer.echo("\n".join(_columns(rows)))


@config_app.command()
def check(file: File = None, *, as_json: Json = False) -> None:
    """Check whether the settings are valid.

    Each problem is printed on one line: where it is (file and line, or environment variable), the key, and the allowed
    values. The exit code is 1 if there are problems. An embedding named as package.module:factory is imported for this
    check, but not created.
    """
    from langchain_hybridgraph.settings import HybridGraphSettings
    from langchain_hybridgraph.settings_file import UnusableSettingsError, settings_path

    problems: tuple[Problem, ...] = ()
    count = 0
    try:
        count = len(HybridGraphSettings.from_file(file).model_fields_set)
        problems = _embedding_problems(HybridGraphSettings.effective(file))
    except UnusableSettingsError as error:
        problems = error.problems
    read = settings_path(file)
    if as_json:
        from langchain_hybridgraph.cli.output import print_json

        print_json({"file": _path_text(read), "ok": not problems, "problems": [_problem(each) for each in problems]})
    elif problems:
        typer.echo("\n".join(problem.message for problem in problems))
    else:
        typer.echo(f"no problems in {count} settings of {'the environment' if read is None else read}")
    if read is None:
        say("there is no hybridgraph.yaml in the current folder; only the environment was checked")
    if problems:
        raise typer.Exit(PROBLEM)


@config_app.command("schema")
def print_schema() -> None:
    """Print the JSON schema of the settings file, for editors."""
    from langchain_hybridgraph.cli.output import print_json
    from langchain_hybridgraph.settings import schema

    print_json(schema())


def _arguments(assignments: Iterable[str]) -> dict[str, Any]:
    from langchain_hybridgraph.settings_file import parse_value

    pairs = [(each, *each.partition("=")) for each in assignments]
    if wrong := [text for text, key, equals, _ in pairs if not (key and equals)]:
        raise ConfigurationError(f"--set {wrong[0]} is not a setting; pass KEY=VALUE, such as retriever_k=3")
    return {key: parse_value(value) for _, key, _, value in pairs}


def _embedding_problems(settings: Iterable[EffectiveSetting]) -> tuple[Problem, ...]:
    """Return a problem if an embedding named as package.module:factory cannot be imported.

    The import runs the code of that module.
    """
    from langchain_hybridgraph.registry import imported_factory
    from langchain_hybridgraph.settings import allowed_values
    from langchain_hybridgraph.settings_file import Problem

    (key, value, _, origin) = next(each for each in settings if each.key == "store_embedding")
    name = value.get("type") if isinstance(value, Mapping) else value
    if not isinstance(name, str) or ":" not in name:
        return ()
    try:
        imported_factory("embedding", name)
    except ConfigurationError as error:
        return (Problem(key, origin, f"{origin.written_key(key)}: {error}", value, allowed_values(key)),)
    return ()


def _is_ours(file: Path) -> bool:
    from langchain_hybridgraph.settings import TITLE

    try:
        return bool(json.loads(file.read_text(encoding="utf-8"))["title"] == TITLE)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _problem(problem: Problem) -> dict[str, Any]:
    value = _plain(problem.value)
    fields = {"key": problem.key or None, "value": value, "allowed": problem.allowed_values, "message": problem.message}
    return _origin(problem.origin) | fields


def _origin(origin: Origin) -> dict[str, Any]:
    return {
        "origin": origin.kind,
        "variable": origin.name if origin.kind == "environment" else None,
        "line": origin.line,
    }


def _path_text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _plain(value: Any, name: str = "") -> Any:
    """Return the value in JSON form, with the values of secret parameters hidden."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each, str(key)) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, str) and value and _SECRET.search(name):
        return "…"
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _columns(rows: list[tuple[str, str, str]]) -> list[str]:
    widths = [max(len(row[place]) for row in rows) for place in (0, 1)]
    return [f"{key:{widths[0]}}  {value:{min(widths[1], 40)}}  {origin}" for key, value, origin in rows]
