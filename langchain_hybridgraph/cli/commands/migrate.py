"""The command ``hybridgraph migrate``."""

from __future__ import annotations

from typing import Annotated

import typer

from langchain_hybridgraph.cli.errors import PROBLEM
from langchain_hybridgraph.cli.stderr_messages import say


def migrate(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="An index folder, milvus://HOST:PORT, a Chroma folder or http://HOST:PORT."
        ),
    ],
    destination: Annotated[
        str, typer.Argument(metavar="DEST", help="An index folder that does not exist yet, or milvus://HOST:PORT.")
    ],
    *,
    collection: Annotated[
        str | None, typer.Option(metavar="NAME", help="Collection to copy from Milvus or Chroma.")
    ] = None,
    destination_collection: Annotated[
        str | None, typer.Option(metavar="NAME", help="Collection to copy to in Milvus.")
    ] = None,
    source_token: Annotated[
        str, typer.Option(metavar="TOKEN", envvar="HYBRIDGRAPH_SOURCE_TOKEN", help="Token of the source server.")
    ] = "",
    destination_token: Annotated[
        str,
        typer.Option(metavar="TOKEN", envvar="HYBRIDGRAPH_DESTINATION_TOKEN", help="Token of the destination server."),
    ] = "",
    embedding: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Model that computed the vectors of a Chroma source.")
    ] = None,
    language: Annotated[
        str, typer.Option(metavar="NAME", help="Language of the texts of a Chroma source.")
    ] = "english",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print warnings and errors only.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Copy an index, a Milvus store or a Chroma collection to a new store.

    Vectors are copied, not embedded again. Run the same command again after an interruption to continue. At the end
    the two stores are compared; the exit code is 1 if they differ.
    """
    from langchain_hybridgraph.migration import migrate as copy

    try:
        report = copy(
            source,
            destination,
            collection=collection,
            destination_collection=destination_collection,
            source_token=source_token,
            destination_token=destination_token,
            embedding=embedding,
            language=language,
            progress=not quiet,
        )
    except KeyboardInterrupt:
        say("interrupted: run the same command again to continue")
        raise
    for problem in report.problems:
        say(problem)
    if as_json:
        from langchain_hybridgraph.cli.json_output import print_json

        print_json({"ok": report.ok, **report.to_dict()})
    elif not quiet:
        from langchain_hybridgraph.cli.terminal_output import show_migration, terminal

        show_migration(terminal(), report)
    if not report.ok:
        raise typer.Exit(PROBLEM)
