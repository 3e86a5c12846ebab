"""Commands of hybridgraph and their options."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from langchain_hybridgraph.chunks import replace_surrogates
from langchain_hybridgraph.cli import settings as options
from langchain_hybridgraph.cli.console import PROBLEM, OneLineErrors, as_commands, print_answer, say
from langchain_hybridgraph.cli.settings import IndexLocation, conversation, flag, option
from langchain_hybridgraph.errors import ConfigurationError, FilterError, needs_extra
from langchain_hybridgraph.settings_file import K_DEFAULT, LANGUAGE

if TYPE_CHECKING:
    from langchain_hybridgraph.filters.expressions import Filter
    from langchain_hybridgraph.stores.check import CheckReport

# LangChain, the engines and rich are imported by the commands that need them, so that help is shown immediately.

app = typer.Typer(
    cls=OneLineErrors,
    rich_markup_mode=None,  # with rich, lines of a second paragraph are broken as in the source
    pretty_exceptions_enable=False,
    context_settings=options.HELP_OPTIONS,
)


def _show_version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"hybridgraph {version('langchain-hybridgraph')}")
        raise typer.Exit


@app.callback()
def main(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Index documents and search them by meaning and by keywords."""


DEMO = Path(f"python-{sys.version_info.major}.{sys.version_info.minor}.hybridgraph")


class Split(StrEnum):
    """Ways to split documents."""

    flat = "flat"
    parent_child = "parent-child"
    none = "none"


@app.command()
def ingest(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATHS", help="Files or folders: text, Markdown, HTML, PDF, Office, CSV, source code …"),
    ],
    *,
    index: options.Index,
    config: options.Config = None,
    embedding: options.NewModel = "auto",
    split: Annotated[
        Split, typer.Option(help="Whether to store chunks, small chunks with their parents, or complete documents.")
    ] = Split.flat,
    language: Annotated[str | None, option("NAME", LANGUAGE)] = None,
    edges: Annotated[
        str,
        option(
            "NAMES",
            "Edges between chunks: auto, none, names such as sequence,links, or a JSON list of names and objects.",
        ),
    ] = "auto",
    prune: Annotated[bool, flag("--prune", "Delete documents whose files below PATHS no longer exist.")] = False,
    follow_links: Annotated[bool, flag("--follow-links", "Follow symbolic links that point outside PATHS.")] = False,
    tenant: options.Tenant = None,
    as_text: Annotated[
        list[str] | None,
        option("PATTERN", "Read files that match this pattern, such as '*.conf', as text. Can be repeated."),
    ] = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Index files. Run again to index only what changed.

    Also updates the summaries of changed directories, which find and tree use.
    """
    from langchain_hybridgraph.cli.ingest import edge_builders, ingest_files

    report = ingest_files(
        paths,
        partial(IndexLocation(index, config, embedding, tenant).open_or_create, language=language, quiet=quiet),
        split=None if split is Split.none else split.name,
        edges=edge_builders(edges),
        prune=prune,
        follow_links=follow_links,
        as_text=as_text or (),
        progress=not quiet,
    )
    if as_json or not quiet:
        print_answer(report.to_dict(), str(report), as_json)
    if report.error is not None:
        raise report.error


@app.command()
def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Question or keywords.")],
    *,
    index: options.Index,
    config: options.Config = None,
    k: options.Count = K_DEFAULT,
    min_score: options.MinScore = None,
    where: options.Where = None,
    history: options.History = None,
    graph: Annotated[bool, flag("--graph", "Follow edges from the hits.")] = False,
    explain: options.Explain = False,
    as_json: options.Json = False,
    tenant: options.Tenant = None,
    embedding: options.Model = None,
) -> None:
    """Search an index for chunks; the best hits come first.

    Works while another process is writing to the index, and in a read-only folder.
    """
    from langchain_hybridgraph.cli.output import print_result
    from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
    from langchain_hybridgraph.retrievers.graph import GraphRetriever
    from langchain_hybridgraph.retrievers.hybrid import HybridRetriever

    query, filter = replace_surrogates(query), _parse_filter(where)
    messages = conversation(history).get("messages")
    with IndexLocation(index, config, embedding, tenant).open(read_only=True) as store:
        settings = options.configured(config)
        retriever = (GraphRetriever if graph else HybridRetriever).from_settings(settings, store=store, k=k)
        if messages:
            advanced_arguments = settings.arguments("advanced")
            advanced_arguments.pop("retriever", None)  # --graph selects the retriever
            advanced = AdvancedRetriever(retriever, **advanced_arguments)
            result = advanced.retrieve_with_context(query, messages, filter=filter, min_score=min_score)
        else:
            result = retriever.retrieve(query, filter=filter, min_score=min_score)
    print_result(result, as_json, explain=explain, language=store.language)


@app.command()
def find(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Question or keywords.")],
    *,
    index: options.Index,
    config: options.Config = None,
    under: Annotated[
        list[str] | None, option("URI", "URI, or path as passed to ingest, to search below; may be repeated.")
    ] = None,
    k: options.Count = K_DEFAULT,
    where: options.Where = None,
    history: options.History = None,
    explain: options.Explain = False,
    as_json: options.Json = False,
    tenant: options.Tenant = None,
    embedding: options.Model = None,
) -> None:
    """Search for documents and directories, from the top of the directory tree down.

    A document is listed at most once. A directory is listed only if it has a summary (written by `hybridgraph ingest`
    or `hybridgraph tree`). With --history, up to five queries are derived from the conversation; -k then applies to
    each type of result (memories, documents and skills).
    """
    from langchain_hybridgraph.cli.output import print_contexts
    from langchain_hybridgraph.retrievers.hierarchical import HierarchicalRetriever

    query, filter = replace_surrogates(query), _parse_filter(where)
    session = conversation(history) or None
    with IndexLocation(index, config, embedding, tenant).open(read_only=True) as store:
        targets = None if under is None else [replace_surrogates(uri) for uri in under]
        retriever = HierarchicalRetriever.from_settings(options.configured(config), store=store, k=k)
        if session is None:
            result = retriever.find(query, targets, filter=filter)
        else:
            result = retriever.search(query, session, targets, filter=filter)
    print_contexts(result, as_json, explain=explain)


@app.command()
def tree(
    *,
    index: options.IndexFolder,
    config: options.Config = None,
    under: Annotated[str | None, option("URI", "URI or path to show, with its contents.")] = None,
    depth: Annotated[int, option("N", "Number of levels to show.", min=1)] = 2,
    no_update: Annotated[bool, flag("--no-update", "Do not update summaries.")] = False,
    as_json: options.Json = False,
    tenant: options.Tenant = None,
    embedding: options.Model = None,
) -> None:
    """Show the directories of an index with their summaries.

    First updates the summaries of changed directories, unless the folder is read-only or another process is writing.
    """
    from langchain_hybridgraph.cli.output import branches, print_branches
    from langchain_hybridgraph.errors import EmbeddingMismatchError, ReadOnlyError, StoreLockedError
    from langchain_hybridgraph.ingestion.summaries import build_layers

    with IndexLocation(index, config, embedding, tenant).open_folder(read_only=no_update, embeds=False) as store:
        if not no_update:
            try:
                say(str(build_layers(store, progress=True)))
            except (EmbeddingMismatchError, ReadOnlyError, StoreLockedError) as error:
                say(f"not summarised: {error}")
        listing = list(branches(store, None if under is None else replace_surrogates(under), depth))
    print_branches(listing, as_json)


@app.command()
def delete(
    *,
    index: options.Index,
    config: options.Config = None,
    id: Annotated[list[str] | None, option("ID", "Id of a chunk; may be repeated.")] = None,
    document: Annotated[
        list[str] | None, option("ID", "Id of a document with all its chunks; may be repeated.")
    ] = None,
    where: options.Where = None,
    tenant: options.Tenant = None,
    embedding: options.Model = None,
    as_json: options.Json = False,
) -> None:
    """Delete chunks by id, document or filter.

    Chunks that match any of these are deleted, with their edges and with parents that have no other child. The exit
    code is 1 if an id is unknown.
    """
    from langchain_hybridgraph.execution.processes import counted

    filter = _parse_filter(where)
    if not id and not document and filter is None:
        raise ConfigurationError("nothing to delete: pass --id, --document or a --filter that is not empty")
    with IndexLocation(index, config, embedding, tenant).open(embeds=False) as store:
        before = len(store)
        chunk_ids = {chunk.id for chunk in store.get(id or [])}
        unknown = {one: "document" for one, chunks in store.document_chunks(document or []).items() if not chunks}
        unknown |= {one: "chunk" for one in id or [] if one not in chunk_ids}
        store.delete(id or [], document=document or [], filter=filter)
        chunks_left = len(store)
    for one, kind in unknown.items():
        say(f"no {kind} has the id {one}")
    deleted = before - chunks_left
    text = f"deleted {counted(deleted, 'chunk', 'chunks')}, {chunks_left:,} left"
    answer = {"deleted": deleted, "chunks": chunks_left, "unknown": list(unknown)}
    print_answer(answer, text, as_json, is_ok=not unknown)


@app.command()
def stats(
    *,
    index: options.IndexFolder,
    config: options.Config = None,
    tenant: options.Tenant = None,
    embedding: options.Model = None,
    as_json: options.Json = False,
) -> None:
    """Show statistics of an index."""
    with IndexLocation(index, None, embedding, tenant).open_folder(read_only=True, embeds=False) as store:
        facts = store.admin.stats()
    width = max(map(len, facts))
    lines = (f"{name:<{width}}  {'–' if value is None else value}" for name, value in facts.items())
    print_answer(facts, "\n".join(lines), as_json)


@app.command()
def check(
    *,
    index: options.IndexFolder,
    config: options.Config = None,
    embedding: options.Model = None,
    as_json: options.Json = False,
) -> None:
    """Check whether an index is consistent.

    Search engines that lack recent changes are first brought up to date. Then catalog, vectors and search engines are
    compared, for all tenants; the exit code is 1 if they differ.
    """
    with IndexLocation(index, config, embedding).open_folder(all_tenants=True, embeds=False) as store:
        report = store.admin.check()
    if not report.ok:
        say(f"to repair it: hybridgraph repair --index {index}")
    _judge(report, as_json)


@app.command()
def repair(
    *,
    index: options.IndexFolder,
    config: options.Config = None,
    refit: Annotated[bool, flag("--refit", "Fit lsa to all words of the index, and embed every text again.")] = False,
    embedding: options.Model = None,
    as_json: options.Json = False,
) -> None:
    """Repair an index, then check it.

    The search engines are rebuilt from the catalog, for all tenants. Only chunks that can no longer be read are
    deleted, and named.
    """
    with IndexLocation(index, config, embedding).open_folder(all_tenants=True, embeds=False) as store:
        if refit:
            say(f"{store.name} is fitted to {store.admin.refit():,} texts")
        report = store.admin.repair()
    _judge(report, as_json)


@app.command()
def backup(
    destination: Annotated[Path, typer.Argument(metavar="DEST", help="New folder for the copy.")],
    *,
    index: options.IndexFolder,
    config: options.Config = None,
    embedding: options.Model = None,
    as_json: options.Json = False,
) -> None:
    """Copy an index to a new folder, while other processes may read and write it.

    The copy is a complete index of all tenants. To restore it, copy it to the place of the index.
    """
    with IndexLocation(index, config, embedding).open_folder(all_tenants=True, embeds=False) as store:
        path = store.admin.backup(destination)
    print_answer({"path": str(path)}, f"{index} is backed up in {path}", as_json)


@app.command()
def demo(
    *,
    index: Annotated[Path, typer.Option("--index", "-i", metavar="DIR", help="Folder of the index.")] = DEMO,
    embedding: options.NewModel = "lsa",
) -> None:
    """Index Python's own documentation and search it.

    The documentation is read from the running interpreter's standard library; nothing is downloaded.
    """
    from langchain_hybridgraph.cli.ingest import run_demo

    run_demo(index, embedding)


@app.command("mcp")
def serve_mcp(
    *,
    index: options.Index,
    config: options.Config = None,
    http: Annotated[
        int | None, option("PORT", "Serve streamable HTTP on this port instead of stdio.", min=1, max=65535)
    ] = None,
    host: Annotated[str, option("HOST", "Address to listen on, with --http.")] = "127.0.0.1",
    tokens: Annotated[Path | None, option("FILE", "JSON file of bearer tokens, with --http.")] = None,
    tenant: options.Tenant = None,
    embedding: options.Model = None,
) -> None:
    """Serve tools for agents over the Model Context Protocol."""
    from langchain_hybridgraph.server.access import Limits, Tokens, check_host, read_tokens
    from langchain_hybridgraph.server.mcp import create_server

    if http is None and tokens is not None:
        raise ConfigurationError(
            "--tokens is for clients that connect over HTTP: pass --http PORT too, or leave it out; over stdio, the "
            "program that starts the server has all rights"
        )
    accepted = [] if http is None else read_tokens(tokens)
    check_host(host, accepted)

    def open_store(name: str | None) -> Any:
        return IndexLocation(index, config, embedding, name).open()

    limits = Limits()
    permissions = Tokens(accepted, tenant, limits)
    with open_store(permissions.tenants[0]):
        server = create_server(open_store, permissions)
    if http is None:
        server.run("stdio")
    else:
        from langchain_hybridgraph.cli.serve import log_as_json, run
        from langchain_hybridgraph.server.mcp import http_app

        log_as_json()
        run(http_app(server, permissions, limits, host), host, http, "--http", "/mcp")


def _judge(report: CheckReport, as_json: bool) -> None:
    from langchain_hybridgraph.execution.processes import counted

    for part in report.unchecked:
        say(f"not checked: {part}")
    for note in report.notes:
        say(f"note: {note}")
    no_problems = f"no problems in {counted(report.counts['chunks'], 'chunk', 'chunks')}"
    problems = [as_commands(problem) for problem in report.problems]
    answer = {"ok": report.ok, **report.to_dict(), "problems": problems}
    print_answer(answer, "\n".join(problems) or no_problems, as_json, is_ok=report.ok)


def _parse_filter(where: str | None) -> Filter | None:
    if where is None:
        return None
    from langchain_hybridgraph.filters.expressions import parse_filter

    try:
        return parse_filter(json.loads(where))
    except json.JSONDecodeError as error:
        raise FilterError(f"--filter is not JSON ({error}); pass something like '{{\"year\": 2020}}'") from error


@app.command()
def migrate(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="An index folder, or milvus://HOST:PORT.")],
    destination: Annotated[
        str, typer.Argument(metavar="DEST", help="An index folder that does not exist yet, or milvus://HOST:PORT.")
    ],
    *,
    collection: Annotated[str | None, option("NAME", "Collection to copy from Milvus.")] = None,
    destination_collection: Annotated[str | None, option("NAME", "Collection to copy to in Milvus.")] = None,
    source_token: Annotated[
        str, option("TOKEN", "Token of the source server.", envvar="HYBRIDGRAPH_SOURCE_TOKEN")
    ] = "",
    destination_token: Annotated[
        str, option("TOKEN", "Token of the destination server.", envvar="HYBRIDGRAPH_DESTINATION_TOKEN")
    ] = "",
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Copy an index to Milvus, or a store in Milvus to an index or another collection.

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
            progress=not quiet,
        )
    except KeyboardInterrupt:
        say("interrupted: run the same command again to continue")
        raise
    for problem in report.problems:
        say(problem)
    if as_json or not quiet:
        print_answer({"ok": report.ok, **report.to_dict()}, str(report), as_json)
    if not report.ok:
        raise typer.Exit(PROBLEM)


@app.command()
def serve(
    *,
    index: options.Index,
    config: options.Config = None,
    host: Annotated[str, option("HOST", "Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, option("PORT", "Port for HTTP.", min=1, max=65535)] = 8000,
    grpc_port: Annotated[int | None, option("PORT", "Port for gRPC; default: gRPC is off.", min=1, max=65535)] = None,
    tokens: Annotated[
        Path | None, option("FILE", "JSON file with bearer tokens; default: HYBRIDGRAPH_TOKENS, if it is set.")
    ] = None,
    watch: Annotated[
        Path | None, option("DIR", "Folder to index, now and whenever its files change.", exists=True)
    ] = None,
    read_only: Annotated[bool, flag("--read-only", "Refuse all changes.")] = False,
    max_body: Annotated[int, option("BYTES", "Maximum size of a request.", min=1)] = 10_000_000,
    max_k: Annotated[int, option("N", "Maximum number of results.", min=1)] = 100,
    rate: Annotated[float, option("N", "Maximum number of requests per second and token.")] = 100,
    deadline: Annotated[float, option("SECONDS", "Maximum duration of a search.")] = 30,
    tenant: options.Tenant = None,
    embedding: options.Model = None,
) -> None:
    """Serve an index over HTTP, and over gRPC if requested.

    Serving other machines requires tokens. Works while other processes write to the index.
    """
    with needs_extra("serve", "FastAPI and uvicorn", "server"):
        from langchain_hybridgraph.cli.serve import log_as_json, make_app, run
    from langchain_hybridgraph.server.access import Limits

    limits = Limits(body=max_body, k=max_k, rate=rate, burst=max(1, int(2 * rate)), deadline=deadline)
    log_as_json()
    served = make_app(
        IndexLocation(index, config, embedding, tenant),
        host=host,
        tokens_file=tokens,
        watch=watch,
        read_only=read_only,
        limits=limits,
        grpc_port=grpc_port,
    )
    run(served, host, port)


tenants_app = typer.Typer(context_settings=options.HELP_OPTIONS)


@tenants_app.callback(invoke_without_command=True)
def tenants(
    context: typer.Context,
    *,
    index: options.OptionalIndex = None,
    as_json: options.Json = False,
    config: options.Config = None,
) -> None:
    """List the tenants of an index, each with the number of its chunks."""
    if context.invoked_subcommand is not None:
        return
    from langchain_hybridgraph.stores.check import list_tenants

    path = options.required_index(context, index)
    assert path is not None, "otherwise an error was raised"
    counts = list_tenants(path)
    lines = (f"{name}  {count:,} chunk{'' if count == 1 else 's'}" for name, count in counts.items())
    print_answer({"tenants": counts}, "\n".join(lines) or "no tenants", as_json)


@tenants_app.command()
def drop(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Tenant, as listed by hybridgraph tenants.")],
    *,
    index: options.IndexFolder,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
    as_json: options.Json = False,
    config: options.Config = None,
) -> None:
    """Delete all data of a tenant.

    Other tenants are not changed. This cannot be undone.
    """
    from langchain_hybridgraph.stores.check import drop_tenant

    if not yes and (sys.stdin is None or not _is_confirmed(f"Delete all data in {index} of {name!r}?")):
        say("nothing was deleted: answer y, or pass --yes")
        raise typer.Exit(PROBLEM)
    dropped = drop_tenant(index, name)
    counts = ", ".join(f"{kind}: {count:,}" for kind, count in dropped.items())
    print_answer({"tenant": name, "dropped": dropped}, f"dropped {name} ({counts})", as_json)


def _is_confirmed(question: str) -> bool:
    try:
        return typer.confirm(question, err=True)
    except typer.Abort:  # the input ended without an answer
        return False


app.add_typer(tenants_app, name="tenants")
app.add_typer(options.config_app, name="config")
