"""Options shared by commands, and ``hybridgraph config``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from langchain_hybridgraph.cli.console import PROBLEM, print_answer, print_json
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.settings_file import K_LEAST, MIN_SCORE, TENANT, K, has_settings

if TYPE_CHECKING:
    from langchain_hybridgraph.settings import HybridGraphSettings
    from langchain_hybridgraph.settings_file import Origin, Problem

HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}


def required_index(context: typer.Context, index: Path | None) -> Path | None:
    """Return the index, or raise ConfigurationError if there is none, unless the shell completes a command."""
    if index is None and not context.resilient_parsing:
        raise ConfigurationError(
            "no index was given: pass --index, or set HYBRIDGRAPH_STORE_PATH, or store_path in hybridgraph.yaml"
        )
    return index


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


# Without a default, help would show ``[required]`` in spite of the settings.
_DEFAULT: dict[str, Any] = {"default_factory": lambda: None, "callback": required_index, "show_default": False}
Index = Annotated[Path, _index_option("Folder of the index, or milvus://HOST:PORT", **_DEFAULT)]
IndexFolder = Annotated[Path, _index_option("Folder of the index", **_DEFAULT)]
OptionalIndex = Annotated[Path | None, _index_option("Folder of the index")]
NewModel = Annotated[
    str,
    typer.Option(
        metavar="MODEL",
        help="Embedding model: auto, lsa, minilm, package.module:factory, or a JSON object with type and arguments; "
        "auto keeps the model of an existing index.",
    ),
]
Tenant = Annotated[str | None, typer.Option(metavar="NAME", help=TENANT)]
Model = Annotated[
    str | None,
    typer.Option("--embedding", metavar="MODEL", help="Embedding of the index, unless it is lsa or minilm."),
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
    embedding = settings.store_embedding
    if isinstance(embedding, Mapping):
        embedding = json.dumps(embedding)
    embeds_nothing = context.info_name in ("backup", "check", "delete", "stats")
    if embeds_nothing or (context.info_name != "ingest" and ":" not in (embedding or "")):
        embedding = None  # an index records the built-in model that it uses
    values = {
        "index": settings.store_path or settings.store_uri,
        "tenant": settings.store_tenant,
        "embedding": embedding,
        "language": settings.store_language,
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

    It contains all settings with their defaults. A JSON schema for editors is written next to it. Existing files are
    not changed.
    """
    from langchain_hybridgraph.settings import schema, template

    schema_file = file.with_name(f"{file.stem}.schema.json")
    for path in (file, schema_file):
        if path.exists():
            raise ConfigurationError(f"{path} already exists: choose another file name, or delete it")
    try:
        file.write_text(template(schema_file.name), encoding="utf-8")
        schema_file.write_text(json.dumps(schema(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error.strerror}; choose another folder") from None
    typer.echo(f"wrote {file} (all settings, commented out) and {schema_file}")


@config_app.command()
def show(file: File = None, *, as_json: Json = False) -> None:
    """Show every setting with its value and its origin.

    The origin is the name of an environment variable, a line in the file, or "default".
    """
    from langchain_hybridgraph.settings import HybridGraphSettings
    from langchain_hybridgraph.settings_file import settings_path

    settings = [each._replace(value=_masked(each.value, each.key)) for each in HybridGraphSettings.effective(file)]
    rows = [(each.key, json.dumps(each.value, ensure_ascii=False), each.origin) for each in settings]
    text = "\n".join(f"{key:{max(len(row[0]) for row in rows)}}  {value:40}  {origin}" for key, value, origin in rows)
    fields = [
        {"key": each.key, "value": each.value, "default": each.default, **_origin(each.origin)} for each in settings
    ]
    print_answer({"file": settings_path(file), "settings": fields}, text, as_json)


@config_app.command()
def check(file: File = None, *, as_json: Json = False) -> None:
    """Check whether the settings are valid.

    Each problem is printed on one line: where it is (file and line, or environment variable), the key, and the allowed
    values. The exit code is 1 if there are problems.
    """
    from langchain_hybridgraph.settings_file import FILE, UnusableSettingsError, settings_path

    problems: tuple[Problem, ...] = ()
    count = 0
    try:
        count = len(configured(file).model_fields_set)
    except UnusableSettingsError as error:
        problems = error.problems
    path = settings_path(file)
    fields = [
        _origin(each.origin)
        | {"key": each.key or None, "value": _masked(each.value)}
        | {"allowed": each.allowed_values, "message": each.message}
        for each in problems
    ]
    place = f"the environment; there is no {FILE} in the current folder" if path is None else path
    text = "\n".join(problem.message for problem in problems) or f"no problems in {count} settings of {place}"
    print_answer({"file": path, "ok": not problems, "problems": fields}, text, as_json)
    if problems:
        raise typer.Exit(PROBLEM)


@config_app.command("schema")
def print_schema() -> None:
    """Print the JSON schema of the settings file, for editors."""
    from langchain_hybridgraph.settings import schema

    print_json(schema())


def _origin(origin: Origin) -> dict[str, Any]:
    variable = origin.name if origin.kind == "environment" else None
    return {"origin": origin.kind, "variable": variable, "line": origin.line}


_SECRET = re.compile(r"(api_?key|token|secret|password)$", re.IGNORECASE)


def _masked(value: Any, name: str = "") -> Any:
    """Return the value with those of secret parameters hidden."""
    if isinstance(value, Mapping):
        return {key: _masked(each, str(key)) for key, each in value.items()}
    return "…" if isinstance(value, str) and value and _SECRET.search(name) else value
