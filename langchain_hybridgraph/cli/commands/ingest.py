"""The command ``hybridgraph ingest``."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from langchain_hybridgraph.cli.open_index import existing_or_new, milvus_uri
from langchain_hybridgraph.cli.parameters import Index, Json, NewModel, Tenant
from langchain_hybridgraph.cli.settings import Config
from langchain_hybridgraph.cli.stderr_messages import as_commands, say
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.options.command_line import LANGUAGE
from langchain_hybridgraph.registry import nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_hybridgraph.ingestion.pipeline import IngestReport
    from langchain_hybridgraph.ingestion.readers.files import FileDocuments
    from langchain_hybridgraph.ingestion.summaries import LayersReport
    from langchain_hybridgraph.stores.embedded.store import EmbeddedStore
    from langchain_hybridgraph.vectorstores.milvus_store import MilvusStore


Paths = Annotated[
    list[Path],
    typer.Argument(metavar="PATHS", help="Files or folders: text, Markdown, HTML, PDF, Office, CSV, source code …"),
]


class Split(StrEnum):
    """Ways to split documents."""

    FLAT = "flat"
    PARENT_CHILD = "parent-child"
    NONE = "none"


def _split(value: str) -> Split:
    """Return the member of :class:`Split` with this name.

    ``parent_child``, the spelling in Python, is also accepted. Raises BadParameter for an unknown name.
    """
    name = value.replace("_", "-")
    names = [each.value for each in Split]
    if name not in names:
        raise typer.BadParameter(f"{value!r} is unknown; {nearest(name, names)}expected one of {', '.join(names)}")
    return Split(name)


def ingest(
    paths: Paths,
    *,
    index: Index,
    config: Config = None,
    embedding: NewModel = "auto",
    split: Annotated[
        Split,
        typer.Option(
            parser=_split,
            metavar="[flat|parent-child|none]",
            help="Whether to store chunks, small chunks with their parents, or complete documents.",
        ),
    ] = Split.FLAT,
    language: Annotated[str | None, typer.Option(metavar="NAME", help=LANGUAGE)] = None,
    edges: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Edges to create between chunks: auto, none, names such as sequence,links, or a JSON list of names "
            "and objects.",
        ),
    ] = "auto",
    prune: Annotated[
        bool, typer.Option("--prune", help="Delete documents whose files below PATHS no longer exist.")
    ] = False,
    follow_links: Annotated[
        bool, typer.Option("--follow-links", help="Follow symbolic links that point outside PATHS.")
    ] = False,
    tenant: Tenant = None,
    as_text: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN", help="Read files that match this pattern, such as '*.conf', as text. Can be repeated."
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print warnings and errors only.")] = False,
    as_json: Json = False,
) -> None:
    """Index files. Run again to index only what changed.

    Also updates the summaries of changed directories, which find and tree use.
    """
    from langchain_hybridgraph.ingestion.edges.registry import as_builders

    builders = as_builders(_edges(edges))
    skipped: list[str] = []
    may_prune = prune and (index.exists() or milvus_uri(index) is not None)
    documents = _documents(paths, skipped, follow_links=follow_links, as_text=as_text or (), may_be_deleted=may_prune)
    with closing(
        existing_or_new(index, embedding, language=language, tenant=tenant, config=config, quiet=quiet)
    ) as store:
        outcome = _ingest(documents, store, paths, split=split, edges=builders, prune=prune, progress=not quiet)
    for warning in outcome.report.warnings:
        if warning not in skipped:
            say(warning)
    if outcome.vanished:
        _report_vanished(outcome.vanished)
    if as_json:
        from langchain_hybridgraph.cli.json_output import ingest_answer, print_json

        print_json(ingest_answer(outcome.report, store.name, outcome.pruned or [], outcome.vanished, outcome.layers))
    elif not quiet:
        _print_report(outcome)
    if not outcome.report.documents and not outcome.pruned:
        raise documents.nothing_read(paths)


class Outcome(NamedTuple):
    """Result of ``hybridgraph ingest``.

    ``pruned`` lists the ids of documents that were deleted because their files no longer exist; it is None without
    ``--prune``. ``vanished`` lists the ids of such documents that were kept. ``layers`` reports the update of the
    directory summaries, or is None if there was no update.
    """

    report: IngestReport
    layers: LayersReport | None
    pruned: list[str] | None
    vanished: list[str]


def _documents(
    paths: list[Path], skipped: list[str], *, follow_links: bool, as_text: Sequence[str], may_be_deleted: bool
) -> FileDocuments:
    """Return the documents in ``paths``. Messages about files that cannot be read are printed and added to ``skipped``.

    Raises an error if a path does not exist, or if a folder has no files to read. With ``may_be_deleted``, neither is
    an error.
    """
    from langchain_hybridgraph.ingestion import read_files

    def skip(message: str) -> None:
        say(message)
        skipped.append(message)

    missing = _missing(paths)
    if missing and not may_be_deleted:
        raise _absent(missing[0])
    documents = read_files(
        [path for path in paths if path not in missing], skipped=skip, follow_links=follow_links, as_text=as_text
    )
    documents.may_be_empty = may_be_deleted
    documents.check(len(documents.files))
    documents.may_be_empty = True  # the report is printed before the error
    return documents


def _ingest(
    documents: FileDocuments,
    store: EmbeddedStore | MilvusStore,
    paths: list[Path],
    *,
    split: Split,
    edges: Any,
    prune: bool,
    progress: bool,
) -> Outcome:
    """Write the documents to the store, and bring the summaries of directories up to date.

    With ``prune``, documents whose files no longer exist are deleted. Otherwise, these documents are kept; the outcome
    lists them if the store records which files were read.
    """
    from langchain_hybridgraph.cli.deleted_files import DeletedFiles
    from langchain_hybridgraph.ingestion.pipeline import ingest as ingest_documents
    from langchain_hybridgraph.stores.protocols import RecordsFiles

    deleted = DeletedFiles(paths, store, documents.unread, prune=prune)
    if never_read := [path for path in _missing(paths) if not deleted.has_read(path)]:
        raise _absent(never_read[0])
    if never_read := [folder for folder in documents.empty_folders if not deleted.has_read(folder)]:
        raise documents.nothing_read(never_read)
    before = len(store)
    chunks = None if split is Split.NONE else split.value.replace("-", "_")
    # Finding deleted files requires the list of all documents, which is slow only with a server.
    prunable = deleted if prune or isinstance(store, RecordsFiles) else False
    try:
        report = ingest_documents(
            documents, store, split=chunks, edges=edges, progress=progress, prune_documents=prunable
        )
        layers = _summarise(store, paths, progress=progress) if report.documents or deleted.documents else None
    except KeyboardInterrupt:
        say(f"interrupted: {len(store):,} chunks are kept ({before:,} before); run the command again to continue")
        raise
    pruned, vanished = (deleted.documents, []) if prune else (None, deleted.documents)
    return Outcome(report, layers, pruned, vanished)


def _summarise(store: EmbeddedStore | MilvusStore, paths: list[Path], *, progress: bool) -> LayersReport | None:
    """Summarise the directories that have changed, and return a report.

    Do nothing and return None if the store cannot hold summaries, or if the index contains no summaries and no folder
    was ingested.
    """
    from langchain_hybridgraph.ingestion.summaries import HasLayers, build_layers

    if not isinstance(store, HasLayers):
        return None
    if store.summaries.index() is None and not any(path.is_dir() for path in paths):
        return None
    return build_layers(store, progress=progress)


def _edges(value: str) -> Any:
    """Parse ``--edges``: comma-separated names or JSON. Return an empty list for ``none``."""
    if not value.lstrip().startswith(("[", "{")):
        return [] if value == "none" else [name.strip() for name in value.split(",")]
    try:
        return json.loads(value)
    except json.JSONDecodeError as error:
        example = '\'["auto", {"type": "metadata", "keys": ["author"]}]\''
        raise ConfigurationError(f"--edges is not JSON ({error}); pass names, or something like {example}") from error


def _missing(paths: list[Path]) -> list[Path]:
    return [path for path in paths if not path.exists()]


def _absent(path: Path) -> typer.BadParameter:
    advice = f"; write {path} without quotes, so that the shell expands it" if "*" in str(path) else ""
    return typer.BadParameter(f"path '{path}' does not exist{advice}", param_hint="'PATHS'")


def _report_vanished(documents: list[str]) -> None:
    count = "the file of 1 document is" if len(documents) == 1 else f"the files of {len(documents):,} documents are"
    say(f"{count} gone{_first_ids(documents)}; run with --prune to delete such documents from the index")


def _print_report(outcome: Outcome) -> None:
    # Files that could not be read were reported on stderr.
    typer.echo(as_commands(str(replace(outcome.report, unread={}))))
    if outcome.pruned is not None:
        count = len(outcome.pruned)
        subject = "1 document whose file is gone" if count == 1 else f"{count} documents whose files are gone"
        typer.echo(f"deleted {subject}{_first_ids(outcome.pruned)}")
    if outcome.layers is not None:
        typer.echo(f"summaries: {outcome.layers}")


def _first_ids(documents: list[str]) -> str:
    """Return a colon followed by the first few ids, for use in a message. Without ids, the result is empty."""
    return f": {_join_names(documents[:3])}{', …' if len(documents) > 3 else ''}" if documents else ""


def _join_names(names: Any) -> str:
    return ", ".join(map(str, names))
