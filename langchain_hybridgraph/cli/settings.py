"""Options shared by commands, and ``hybridgraph config``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from langchain_hybridgraph.cli.console import PROBLEM, print_answer, print_json, say
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.settings_file import K_LEAST, MIN_SCORE, TENANT, K, has_settings

if TYPE_CHECKING:
    from langchain_hybridgraph.settings import EffectiveSetting, HybridGraphSettings
    from langchain_hybridgraph.settings_file import Origin, Problem

HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}


def missing_index() -> Path:
    """Raise ConfigurationError because no index was given.

    This is the default of ``--index``: without one, its help would show ``[required]`` in spite of the settings.
    """
    raise ConfigurationError(
        "no index was given: pass --index, or set HYBRIDGRAPH_STORE_PATH, or store_path in hybridgraph.yaml"
    )


def _index_option(index: str, **options: Any) -> Any:
    return typer.Option(
        "--index",
        "-i",
        metavar="DIR",
        help=f"{index}; required, unless HYBRIDGRAPH_STORE_PATH or store_path in hybridgraph.yaml is set.",
        envvar="HYBRIDGRAPH_STORE_PATH",
        show_envvar=False,
        **options,
    )


_DEFAULT: dict[str, Any] = {"default_factory": missing_index, "show_default": False}
Index = Annotated[Path, _index_option("Folder of the index, or milvus://HOST:PORT", **_DEFAULT)]
IndexFolder = Annotated[Path, _index_option("Folder of the index", **_DEFAULT)]
OptionalIndex = Annotated[Path | None, _index_option("Folder of the index")]
NewModel = Annotated[
    str,
    typer.Option(
        metavar="MODEL",
        help="Embedding model: auto, lsa, minilm or package.module:factory; auto keeps the model of an existing index.",
    ),
]
Tenant = Annotated[str | None, typer.Option(metavar="NAME", help=TENANT)]
Model = Annotated[
    str | None,
    typer.Option("--embedding", metavar="MODEL", help="Embedding of the index, if it is a package.module:factory."),
]
Where = Annotated[
    str | None, typer.Option("--filter", metavar="JSON", help='Metadata filter, such as \'{"year": {"$gte": 2020}}\'.')
]
History = Annotated[
    Path | None,
    typer.Option(
        "--history",
        metavar="FILE",
        allow_dash=True,
        help='File with the conversation so far: lines such as "User: …", or JSON; - reads standard input.',
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print warnings and errors only.")]
MinScore = Annotated[float | None, typer.Option(metavar="SCORE", min=0, max=1, help=MIN_SCORE)]
Count = Annotated[int, typer.Option("-k", "--top-k", metavar="N", min=K_LEAST, help=K)]
Explain = Annotated[bool, typer.Option("--explain", help="Explain the rank of each hit.")]
File = Annotated[
    Path | None,
    typer.Argument(metavar="FILE", help="YAML file; default: hybridgraph.yaml in the current folder, if it exists."),
]


def configured(config: Path | None) -> HybridGraphSettings:
    """Return the settings from a file (by default hybridgraph.yaml, if it exists) and from the environment."""
    from langchain_hybridgraph.settings import HybridGraphSettings

    return HybridGraphSettings.from_file(config)


def _set_defaults(context: typer.Context, config: Path | None) -> Path | None:
    if context.resilient_parsing or not has_settings(config):
        return config
    settings = configured(config)
    embedding = settings.store_embedding if "store_embedding" in settings.model_fields_set else None
    if not isinstance(embedding, str | None):
        raise ConfigurationError(
            f"store_embedding is {embedding!r}; the command line takes a name, such as minilm or package.module:factory"
        )
    if context.info_name != "ingest" and ":" not in (embedding or ""):
        embedding = None  # an index records the built-in model that it uses
    values = {
        "index": settings.store_path or settings.store_uri,
        "tenant": settings.store_tenant,
        "embedding": embedding,
        "language": settings.store_language if "store_language" in settings.model_fields_set else None,
        "k": settings.retriever_k,
    }
    defaults = {name: str(value) for name, value in values.items() if value is not None}
    context.default_map = {**(context.default_map or {}), **defaults}
    return config


Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Settings file; default: hybridgraph.yaml in the current folder, if it exists.",
        callback=_set_defaults,
        is_eager=True,
    ),
]

config_app = typer.Typer(context_settings=HELP_OPTIONS)


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
    from langchain_hybridgraph.settings import TITLE, schema, template

    schema_file = file.with_name(f"{file.stem}.schema.json")
    try:
        is_ours = not schema_file.exists() or json.loads(schema_file.read_text(encoding="utf-8"))["title"] == TITLE
    except (OSError, ValueError, KeyError, TypeError):
        is_ours = False
    if not is_ours:
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
    from langchain_hybridgraph.settings_file import parse_value, settings_path

    arguments = {}
    for assignment in assignments or []:
        key, equals, value = assignment.partition("=")
        if not key or not equals:
            raise ConfigurationError(f"--set {assignment} is not a setting; pass KEY=VALUE, such as retriever_k=3")
        arguments[key] = parse_value(value)
    settings = [
        each._replace(value=_plain(each.value, each.key), default=_plain(each.default))
        for each in HybridGraphSettings.effective(file, **arguments)
    ]
    rows = [(each.key, json.dumps(each.value, ensure_ascii=False), each.origin) for each in settings]
    widths = max(len(key) for key, _, _ in rows), min(max(len(value) for _, value, _ in rows), 40)
    text = "\n".join(f"{key:{widths[0]}}  {value:{widths[1]}}  {origin}" for key, value, origin in rows)
    fields = [
        {"key": each.key, "value": each.value, "default": each.default, **_origin(each.origin)} for each in settings
    ]
    print_answer({"file": settings_path(file), "settings": fields}, text, as_json)


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
        count = len(configured(file).model_fields_set)
        problems = _embedding_problems(HybridGraphSettings.effective(file))
    except UnusableSettingsError as error:
        problems = error.problems
    path = settings_path(file)
    fields = [
        {
            **_origin(each.origin),
            "key": each.key or None,
            "value": _plain(each.value),
            "allowed": each.allowed_values,
            "message": each.message,
        }
        for each in problems
    ]
    no_problems = f"no problems in {count} settings of {'the environment' if path is None else path}"
    text = "\n".join(problem.message for problem in problems) or no_problems
    print_answer({"file": path, "ok": not problems, "problems": fields}, text, as_json)
    if path is None:
        say("there is no hybridgraph.yaml in the current folder; only the environment was checked")
    if problems:
        raise typer.Exit(PROBLEM)


@config_app.command("schema")
def print_schema() -> None:
    """Print the JSON schema of the settings file, for editors."""
    from langchain_hybridgraph.settings import schema

    print_json(schema())


def _embedding_problems(settings: Iterable[EffectiveSetting]) -> tuple[Problem, ...]:
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


def _origin(origin: Origin) -> dict[str, Any]:
    variable = origin.name if origin.kind == "environment" else None
    return {"origin": origin.kind, "variable": variable, "line": origin.line}


_SECRET = re.compile(r"(api_?key|token|secret|password)$", re.IGNORECASE)


def _plain(value: Any, name: str = "") -> Any:
    """Return the value in JSON form, with the values of secret parameters hidden."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each, str(key)) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, str) and value and _SECRET.search(name):
        return "…"
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
