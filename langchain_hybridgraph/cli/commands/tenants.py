"""Commands of ``hybridgraph tenants``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from langchain_hybridgraph.cli.parameters import missing_index
from langchain_hybridgraph.cli.settings import Config
from langchain_hybridgraph.cli.stderr_messages import say
from langchain_hybridgraph.errors import ConfigurationError

tenants_app = typer.Typer(context_settings={"help_option_names": ["-h", "--help"]})

Index = Annotated[
    Path | None,
    typer.Option(
        "--index",
        "-i",
        metavar="DIR",
        help="Folder of the index; required, unless HYBRIDGRAPH_STORE_PATH or store_path in hybridgraph.yaml is set.",
        envvar="HYBRIDGRAPH_STORE_PATH",
        show_envvar=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@tenants_app.callback(invoke_without_command=True)
def tenants(context: typer.Context, *, index: Index = None, as_json: Json = False, config: Config = None) -> None:
    """List the tenants of an index, each with the number of its chunks."""
    if context.invoked_subcommand is not None:
        context.obj = index
        return
    from langchain_hybridgraph.stores.tenants import list_tenants

    counts = list_tenants(_folder(index))
    if as_json:
        from langchain_hybridgraph.cli.json_output import print_json

        print_json({"tenants": counts})
    else:
        lines = (f"{name}  {count:,} chunk{'' if count == 1 else 's'}" for name, count in counts.items())
        typer.echo("\n".join(lines) or "no tenants")


@tenants_app.command()
def drop(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Tenant, as listed by hybridgraph tenants.")],
    *,
    index: Index = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
    as_json: Json = False,
    config: Config = None,
) -> None:
    """Delete all data of a tenant.

    Other tenants are not changed. This cannot be undone.
    """
    from langchain_hybridgraph.stores.tenants import drop_tenant

    folder = _folder(index or context.obj)
    if not yes and not _is_confirmed(f"Delete all data in {folder} of {name!r}?"):
        say("nothing was deleted")
        raise typer.Exit
    dropped = drop_tenant(folder, name)
    if as_json:
        from langchain_hybridgraph.cli.json_output import print_json

        print_json({"tenant": name, "dropped": dropped})
    else:
        typer.echo(f"dropped {name}: " + ", ".join(_counted(count, kind) for kind, count in dropped.items()))


def _counted(count: int, kind: str) -> str:
    singular = "entity" if kind == "entities" else kind.removesuffix("s")
    return f"{count:,} {singular if count == 1 else kind}"


def _is_confirmed(question: str) -> bool:
    try:
        if sys.stdin is None:  # the process was started without standard input
            raise typer.Abort
        return typer.confirm(question, err=True)
    except typer.Abort:
        raise ConfigurationError("nothing was deleted: the input ended without an answer; pass --yes") from None


def _folder(index: Path | None) -> Path:
    return missing_index() if index is None else index
