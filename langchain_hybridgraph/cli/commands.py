"""Commands of ``hybridgraph`` and their options."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from contextlib import closing
from difflib import get_close_matches
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from langchain_hybridgraph.cli.config_commands import config_app
from langchain_hybridgraph.cli.errors import PROBLEM, OneLineErrors, say
from langchain_hybridgraph.cli.history_file import conversation
from langchain_hybridgraph.cli.migrate_command import migrate
from langchain_hybridgraph.cli.open_index import existing, existing_or_new, existing_store
from langchain_hybridgraph.cli.open_milvus import milvus_uri
from langchain_hybridgraph.cli.settings import Config, configured
from langchain_hybridgraph.cli.tenants_commands import tenants_app
from langchain_hybridgraph.errors import ConfigurationError, FilterError
from langchain_hybridgraph.records import replace_surrogates

if TYPE_CHECKING:
    from langchain_hybridgraph.filters import Filter
    from langchain_hybridgraph.ingestion.pipeline import IngestReport
    from langchain_hybridgraph.ingestion.summaries import LayersReport
    from langchain_hybridgraph.stores.embedded.maintenance import CheckReport
    from langchain_hybridgraph.stores.embedded.store import EmbeddedStore
    from langchain_hybridgraph.vectorstores.milvus_store import MilvusStore

# LangChain, the engines and rich are imported by the commands that need them, so that help is shown at once.

app = typer.Typer(
    cls=OneLineErrors,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Search texts by meaning and by keywords, in one folder.",
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
    """Search texts by meaning and by keywords, in one folder."""


app.add_typer(tenants_app, name="tenants")
app.add_typer(config_app, name="config")

Index = Annotated[
    Path,
    typer.Option(
        "--index",
        "-i",
        metavar="DIR",
        help="Folder of the index, or milvus://HOST:PORT; or set HYBRIDGRAPH_STORE_PATH, "
        "or store_path in hybridgraph.yaml.",
        envvar="HYBRIDGRAPH_STORE_PATH",
        show_envvar=False,
    ),
]
Paths = Annotated[
    list[Path],
    typer.Argument(metavar="PATHS", help="Files or folders: text, Markdown, HTML, PDF, Office, JSONL …"),
]
NewModel = Annotated[
    str,
    typer.Option(metavar="MODEL", help="auto, lsa, minilm or package.module:factory; an existing index keeps its own."),
]
Tenant = Annotated[str | None, typer.Option(metavar="NAME", help="Tenant whose chunks the store reads and writes.")]
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

DEMO = Path(f"python-{sys.version_info.major}.{sys.version_info.minor}.hybridgraph")


class Split(StrEnum):
    """How documents are split."""

    FLAT = "flat"
    PARENT_CHILD = "parent-child"
    NONE = "none"


@app.command()
def ingest(
    paths: Paths,
    *,
    index: Index,
    config: Config = None,
    embedding: NewModel = "auto",
    split: Annotated[
        Split, typer.Option(help="Whether to store chunks, small chunks with their parents, or complete documents.")
    ] = Split.FLAT,
    language: Annotated[
        str | None, typer.Option(metavar="NAME", help="Language of stemming and stop words in a new index.")
    ] = None,
    edges: Annotated[
        str,
        typer.Option(
            metavar="NAMES", help="auto, none, names such as sequence,links, or a JSON list of names and objects."
        ),
    ] = "auto",
    prune: Annotated[
        bool, typer.Option("--prune", help="Delete documents whose files below PATHS no longer exist.")
    ] = False,
    follow_links: Annotated[
        bool, typer.Option("--follow-links", help="Follow symbolic links that lead out of PATHS.")
    ] = False,
    tenant: Tenant = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print warnings and errors only.")] = False,
    as_json: Json = False,
) -> None:
    """Index files. Run again to index only what changed.

    Summaries of directories, used by find and tree, are updated for directories that have changed.
    """
    from langchain_hybridgraph.cli.deleted_files import DeletedFiles
    from langchain_hybridgraph.ingestion import SUPPORTED_SUFFIXES, FileError, read_files
    from langchain_hybridgraph.ingestion.edges.registry import as_builders
    from langchain_hybridgraph.ingestion.pipeline import ingest as ingest_documents
    from langchain_hybridgraph.stores.protocols import RecordsFiles

    skipped: list[str] = []
    missing = [path for path in paths if not path.exists()]
    may_prune = prune and (index.exists() or milvus_uri(index) is not None)
    if missing and not may_prune:
        raise _absent(missing[0])
    existing_paths = [path for path in paths if path not in missing]
    documents = read_files(existing_paths, skipped=lambda message: _skip(message, skipped), follow_links=follow_links)
    nothing_to_read = FileError(
        f"nothing to read in {_listed(paths)}; folders are searched for {_listed(SUPPORTED_SUFFIXES)}"
    )
    if not documents.files and not may_prune:
        raise nothing_to_read
    chunks = None if split is Split.NONE else split.value.replace("-", "_")
    builders = as_builders(_edges(edges))
    with closing(
        existing_or_new(index, embedding, language=language, tenant=tenant, config=config, quiet=quiet)
    ) as store:
        deleted = DeletedFiles(paths, store, prune=prune)
        if never_read := [path for path in missing if not deleted.has_read(path)]:
            raise _absent(never_read[0])
        if not documents.files and not any(map(deleted.has_read, paths)):
            raise nothing_to_read
        before = len(store)
        # Finding what is no longer there reads the list of all documents, which takes long only from a server.
        prunable = deleted if prune or isinstance(store, RecordsFiles) else False
        try:
            report = ingest_documents(
                documents, store, split=chunks, edges=builders, progress=not quiet, prune_documents=prunable
            )
            if not report.documents and not (prune and deleted.documents):
                raise nothing_to_read
            layers = _summarise(store, paths, progress=not quiet)
        except KeyboardInterrupt:
            say(f"interrupted: {len(store):,} chunks are kept ({before:,} before); run the command again to continue")
            raise
    for warning in report.warnings:
        if warning not in skipped:
            say(warning)
    pruned, vanished = (deleted.documents, []) if prune else ([], deleted.documents)
    if vanished:
        count = "the file of 1 document is" if len(vanished) == 1 else f"the files of {len(vanished):,} documents are"
        say(f"{count} no longer there{_first_ids(vanished)}; run with --prune to delete what was read from there")
    if as_json:
        from langchain_hybridgraph.cli.json_output import ingest_answer, print_json

        print_json(ingest_answer(report, store.name, pruned, vanished, layers))
    elif not quiet:
        _print_report(report, pruned if prune else None, layers)


@app.command()
def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Question or keywords.")],
    *,
    index: Index,
    config: Config = None,
    k: Annotated[int, typer.Option("-k", metavar="N", min=1, help="Number of results.")] = 10,
    where: Where = None,
    history: History = None,
    graph: Annotated[bool, typer.Option("--graph", help="Follow edges from the hits.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Explain the rank of each hit.")] = False,
    as_json: Json = False,
    tenant: Tenant = None,
    embedding: Model = None,
) -> None:
    """Search an index; the best hits come first.

    Works while another process is writing to the index, and in a read-only folder.
    """
    from langchain_hybridgraph.retrievers.advanced.retriever import AdvancedRetriever
    from langchain_hybridgraph.retrievers.graph import GraphRetriever
    from langchain_hybridgraph.retrievers.hybrid import HybridRetriever

    filter = _parsed(where)
    messages = conversation(history).messages
    with existing_store(index, embedding=embedding, tenant=tenant, read_only=True, config=config) as store:
        settings = configured(config)
        retriever = (GraphRetriever if graph else HybridRetriever).from_settings(settings, store=store, k=k)
        if messages:
            advanced = AdvancedRetriever(retriever, **settings.arguments("advanced"))
            result = advanced.retrieve_with_context(replace_surrogates(query), messages, filter=filter)
        else:
            result = retriever.retrieve(replace_surrogates(query), filter=filter)
    if as_json:
        from langchain_hybridgraph.cli.json_output import print_json, search_answer

        print_json(search_answer(result))
    else:
        from langchain_hybridgraph.cli.terminal_output import show_result, terminal

        show_result(terminal(), result, language=store.language, explain=explain)


@app.command()
def find(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Question or keywords.")],
    *,
    index: Index,
    config: Config = None,
    under: Annotated[
        list[str] | None,
        typer.Option(metavar="URI", help="Search only below this URI, or path as given to ingest; may be repeated."),
    ] = None,
    k: Annotated[int, typer.Option("-k", metavar="N", min=1, help="Number of results.")] = 10,
    where: Where = None,
    history: History = None,
    explain: Annotated[bool, typer.Option("--explain", help="Explain the rank of each hit.")] = False,
    as_json: Json = False,
    tenant: Tenant = None,
    embedding: Model = None,
) -> None:
    """Search the tree of directories and documents from the top.

    Finds documents, each once, and directories, by the summaries that ingest and tree make. With --history up to five
    queries are planned from the conversation and the question, and -k limits each type of hit.
    """
    from langchain_hybridgraph.retrievers.hierarchical import HierarchicalRetriever

    filter = _parsed(where)
    session = conversation(history).session()
    with existing_store(index, embedding=embedding, tenant=tenant, read_only=True, config=config) as store:
        targets = None if under is None else [replace_surrogates(uri) for uri in under]
        retriever = HierarchicalRetriever.from_settings(configured(config), store=store, k=k)
        if session is None:
            result = retriever.find(replace_surrogates(query), targets, filter=filter)
        else:
            result = retriever.search(replace_surrogates(query), session, targets, filter=filter)
    if as_json:
        from langchain_hybridgraph.cli.json_output import find_answer, print_json

        print_json(find_answer(result))
    else:
        from langchain_hybridgraph.cli.terminal_output import show_contexts, terminal

        show_contexts(terminal(), result, explain=explain)


@app.command()
def tree(
    *,
    index: Index,
    config: Config = None,
    under: Annotated[
        str | None, typer.Option(metavar="URI", help="Show only this URI, or path, and its contents.")
    ] = None,
    depth: Annotated[int, typer.Option(metavar="N", min=1, help="Number of levels to show.")] = 2,
    as_it_is: Annotated[bool, typer.Option("--as-it-is", help="Do not update summaries.")] = False,
    as_json: Json = False,
    tenant: Tenant = None,
    embedding: Model = None,
) -> None:
    """Show the directories of an index, and update the summaries of those that have changed.

    While another process is writing, or in a read-only folder, existing summaries are shown.
    """
    from langchain_hybridgraph.cli.tree_listing import branches
    from langchain_hybridgraph.errors import ReadOnlyError, StoreLockedError
    from langchain_hybridgraph.ingestion.summaries import build_layers

    with existing(index, embedding=embedding, tenant=tenant, read_only=as_it_is, config=config) as store:
        if not as_it_is:
            try:
                say(str(build_layers(store, progress=True)))
            except (ReadOnlyError, StoreLockedError) as error:
                say(f"not summarised: {error}")
        listing = branches(store, None if under is None else replace_surrogates(under), depth)
    if as_json:
        from langchain_hybridgraph.cli.json_output import print_json

        print_json({"tree": [branch._asdict() for branch in listing]})
    else:
        from langchain_hybridgraph.cli.terminal_output import show_branches, terminal

        show_branches(terminal(), listing)
        if not listing:
            typer.echo("nothing is in this index")


@app.command()
def delete(
    *,
    index: Index,
    config: Config = None,
    id: Annotated[list[str] | None, typer.Option(metavar="ID", help="Id of a chunk; may be repeated.")] = None,
    document: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Id of a document with all its chunks; may be repeated.")
    ] = None,
    where: Where = None,
    tenant: Tenant = None,
    embedding: Model = None,
    as_json: Json = False,
) -> None:
    """Delete by id, by document and by filter.

    Deletes everything that matches any of them, with its edges and with parents that have no other child. The exit code
    is 1 if an id is unknown.
    """
    filter = _parsed(where)
    if not id and not document and filter is None:
        raise ConfigurationError("nothing to delete: pass --id, --document or a --filter that is not empty")
    with existing_store(index, embedding=embedding, tenant=tenant, config=config) as store:
        before = len(store)
        unknown_documents = _unknown(document or [], store.document_ids()) if document else {}
        unknown_ids = set(id or []).difference(chunk.id for chunk in store.get(id or []))
        store.delete(id or [], document=document or [], filter=filter)
        left = len(store)
    unknown = unknown_documents | {one: f"no chunk has the id {one}" for one in sorted(unknown_ids)}
    for hint in unknown.values():
        say(hint)
    if as_json:
        from langchain_hybridgraph.cli.json_output import print_json

        print_json({"deleted": before - left, "chunks": left, "unknown": list(unknown)})
    else:
        typer.echo(f"deleted {before - left} of {before} chunks")
    if unknown:
        raise typer.Exit(PROBLEM)


@app.command()
def stats(
    *, index: Index, config: Config = None, tenant: Tenant = None, embedding: Model = None, as_json: Json = False
) -> None:
    """Show statistics of an index."""
    with existing(index, embedding=embedding, tenant=tenant, read_only=True) as store:
        facts = store.admin.stats()
    if as_json:
        from langchain_hybridgraph.cli.json_output import print_json

        print_json(facts)
    else:
        from langchain_hybridgraph.cli.terminal_output import show_facts, terminal

        show_facts(terminal(), facts)


@app.command()
def check(
    *, index: Index, config: Config = None, tenant: Tenant = None, embedding: Model = None, as_json: Json = False
) -> None:
    """Check whether an index is consistent.

    Catalog, vectors and search engines are compared; the exit code is 1 if they differ.
    """
    with existing(index, embedding=embedding, tenant=tenant, config=config) as store:
        report = store.admin.check()
    if not report.ok:
        say(f"to repair it: hybridgraph repair --index {index}")
    _judge(report, as_json)


@app.command()
def repair(
    *,
    index: Index,
    config: Config = None,
    refit: Annotated[
        bool, typer.Option("--refit", help="Fit lsa to all words of the index, and embed every text again.")
    ] = False,
    tenant: Tenant = None,
    embedding: Model = None,
    as_json: Json = False,
) -> None:
    """Repair an index, then check it.

    The search engines are rebuilt from the catalog; no accepted text is lost.
    """
    with existing(index, embedding=embedding, tenant=tenant, config=config) as store:
        if refit:
            say(f"{store.name} is fitted to {store.admin.refit():,} texts")
        report = store.admin.repair()
    _judge(report, as_json)


app.command()(migrate)


@app.command()
def demo(
    *,
    index: Annotated[Path, typer.Option("--index", "-i", metavar="DIR", help="Folder of the index.")] = DEMO,
    embedding: NewModel = "lsa",
) -> None:
    """Index Python's own documentation and search it.

    The documentation is read from the running interpreter's standard library; nothing is downloaded.
    """
    from langchain_hybridgraph.cli.demo import run

    run(index, embedding)


def _unknown(documents: list[str], existing: Iterable[str]) -> dict[str, str]:
    """Explain each id that no document has: list the documents below it if it is a path, else similar ids."""
    existing = list(existing)
    hints = {}
    for id in documents:
        if id in existing:
            continue
        below = [one for one in existing if one.startswith(f"{id.rstrip('/')}/")]
        if below:
            hints[id] = (
                f"{id} is not a document; {len(below)} are below it: {_listed(below[:3])}{', …' * (len(below) > 3)}"
            )
        else:
            near = get_close_matches(id, existing, 3)
            hints[id] = f"no document is named {id}" + (f"; did you mean {_listed(near)}?" if near else "")
    return hints


def _absent(path: Path) -> typer.BadParameter:
    return typer.BadParameter(f"path '{path}' does not exist.", param_hint="'PATHS'")


def _skip(message: str, skipped: list[str]) -> None:
    say(message)
    skipped.append(message)


def _print_report(report: IngestReport, deleted: list[str] | None, layers: LayersReport | None) -> None:
    """Print what an ingest did; ``deleted`` are the ids of deleted documents, None without ``--prune``."""
    typer.echo(str(report))
    if deleted is not None:
        count = len(deleted)
        subject = "1 document whose file is gone" if count == 1 else f"{count} documents whose files are gone"
        typer.echo(f"deleted {subject}{_first_ids(deleted)}")
    if layers is not None:
        typer.echo(f"summaries: {layers}")


def _summarise(store: EmbeddedStore | MilvusStore, paths: list[Path], *, progress: bool) -> LayersReport | None:
    """Summarise the directories that have changed, if there are summaries already or a folder was ingested."""
    from langchain_hybridgraph.ingestion.summaries import HasLayers, build_layers

    if not isinstance(store, HasLayers):
        return None
    if store.summaries.index() is None and not any(path.is_dir() for path in paths):
        return None
    return build_layers(store, progress=progress)


def _judge(report: CheckReport, as_json: bool) -> None:
    for part in report.unchecked:
        say(f"not checked: {part}")
    if as_json:
        from langchain_hybridgraph.cli.json_output import check_answer, print_json

        print_json(check_answer(report))
    else:
        typer.echo("\n".join(report.problems) or f"no problems in {report.counts['chunks']:,} chunks")
    if not report.ok:
        raise typer.Exit(PROBLEM)


def _edges(value: str) -> Any:
    """Parse ``--edges``: comma-separated names, or JSON; an empty list for none."""
    if not value.lstrip().startswith(("[", "{")):
        return [] if value == "none" else [name.strip() for name in value.split(",")]
    try:
        return json.loads(value)
    except json.JSONDecodeError as error:
        example = '\'["auto", {"type": "metadata", "keys": ["author"]}]\''
        raise ConfigurationError(f"--edges is not JSON ({error}); pass names, or something like {example}") from error


def _parsed(where: str | None) -> Filter | None:
    """Parse a JSON filter, before the index is opened; None for one without conditions."""
    if where is None:
        return None
    from langchain_hybridgraph.filters import parse_filter

    try:
        return parse_filter(json.loads(where))
    except json.JSONDecodeError as error:
        raise FilterError(f"--filter is not JSON ({error}); pass something like '{{\"year\": 2020}}'") from error


def _first_ids(documents: list[str]) -> str:
    """Return a colon and the first few ids; an empty string if there are no ids."""
    return f": {_listed(documents[:3])}{', …' if len(documents) > 3 else ''}" if documents else ""


def _listed(names: Any) -> str:
    return ", ".join(map(str, names))
