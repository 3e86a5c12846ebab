"""The commands that index files, ingest and demo."""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Container, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from langchain_hybridgraph.cli.console import as_commands, print_answer, say
from langchain_hybridgraph.cli.open_index import existing, existing_or_new
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.ingestion import read_files, read_python_docs
from langchain_hybridgraph.ingestion.edges.base import EdgeBuilder, as_builders
from langchain_hybridgraph.ingestion.files import LINES, source_of
from langchain_hybridgraph.ingestion.pipeline import ingest as ingest_documents
from langchain_hybridgraph.ingestion.summaries import build_layers
from langchain_hybridgraph.stores.protocols import RecordsFiles

if TYPE_CHECKING:
    from langchain_hybridgraph.ingestion.files import FileDocuments
    from langchain_hybridgraph.ingestion.pipeline import IngestReport
    from langchain_hybridgraph.ingestion.summaries import LayersReport
    from langchain_hybridgraph.stores.store import EmbeddedStore
    from langchain_hybridgraph.vectorstores.milvus_store import MilvusStore


def print_report(
    report: IngestReport,
    layers: LayersReport | None,
    deleted: DeletedFiles,
    *,
    embedding: str,
    skipped: list[str],
    quiet: bool,
    as_json: bool,
) -> None:
    """Print the report of an ingest, and the warnings that were not printed when files were ``skipped``.

    The JSON object has the fields of :class:`IngestReport`, ``embedding``, ``pruned`` (ids of documents that
    ``--prune`` deleted because their files no longer exist), ``vanished`` (ids of such documents that were kept) and
    ``layers`` (the fields of :class:`LayersReport`, or null if the summaries were not updated).
    """
    for warning in report.warnings:
        if warning not in skipped:
            say(warning)
    count = len(deleted.documents)
    ids = f": {', '.join(deleted.documents[:3])}{', …' * (count > 3)}"
    lines = [as_commands(str(replace(report, unread={})))]  # files that could not be read were reported on stderr
    if deleted.prune:
        subject = "1 document whose file is gone" if count == 1 else f"{count} documents whose files are gone"
        lines.append(f"deleted {subject}{ids if count else ''}")
    elif count:
        files = "the file of 1 document is" if count == 1 else f"the files of {count:,} documents are"
        say(f"{files} gone{ids}; run with --prune to delete such documents from the index")
    if layers is not None:
        lines.append(f"summaries: {layers}")
    pruned, vanished = (deleted.documents, []) if deleted.prune else ([], deleted.documents)
    others = {"embedding": embedding, "pruned": pruned, "vanished": vanished, "layers": layers}
    if as_json or not quiet:
        print_answer(report.to_dict() | others, "\n".join(lines), as_json)


def documents_in(
    paths: list[Path], skipped: list[str], *, follow_links: bool, as_text: Sequence[str], may_be_deleted: bool
) -> FileDocuments:
    """Return the documents in ``paths``; messages about unreadable files are printed and added to ``skipped``.

    Unless ``may_be_deleted``, raises an error for a path that does not exist, and for a folder without files to read.
    """

    def skip(message: str) -> None:
        say(message)
        skipped.append(message)

    missing = [path for path in paths if not path.exists()]
    if missing and not may_be_deleted:
        raise _absent(missing[0])
    documents = read_files(
        [path for path in paths if path not in missing], skipped=skip, follow_links=follow_links, as_text=as_text
    )
    documents.may_be_empty = may_be_deleted
    documents.check(len(documents.files))
    documents.may_be_empty = True  # the report is printed before the error
    return documents


def write_documents(
    documents: FileDocuments,
    store: EmbeddedStore | MilvusStore,
    paths: list[Path],
    deleted: DeletedFiles,
    *,
    split: str | None,
    edges: list[EdgeBuilder],
    progress: bool,
) -> tuple[IngestReport, LayersReport | None]:
    """Write the documents to the store, find or delete those whose files no longer exist, and update the summaries.

    Summaries are not updated in a store without them, or if the index has none and no folder was ingested.
    """
    for path in paths:
        if not path.exists() and not deleted.has_read(path):
            raise _absent(path)
    if never_read := [folder for folder in documents.empty_folders if not deleted.has_read(folder)]:
        raise documents.nothing_read(never_read)
    before = len(store)
    # Finding deleted files requires the list of all documents, which is slow only with a server.
    prunable = deleted if deleted.prune or isinstance(store, RecordsFiles) else False
    try:
        report = ingest_documents(
            documents, store, split=split, edges=edges, progress=progress, prune_documents=prunable
        )
        if not (report.documents or deleted.documents) or not hasattr(store, "summaries"):
            return report, None
        if store.summaries.index() is None and not any(path.is_dir() for path in paths):
            return report, None
        return report, build_layers(store, progress=progress)
    except KeyboardInterrupt:
        say(f"interrupted: {len(store):,} chunks are kept ({before:,} before); run the command again to continue")
        raise


def edge_builders(value: str) -> list[EdgeBuilder]:
    """Return the edge builders that ``--edges`` names: comma-separated names, JSON, or ``none``."""
    if not value.lstrip().startswith(("[", "{")):
        return as_builders([] if value == "none" else [name.strip() for name in value.split(",")])
    try:
        return as_builders(json.loads(value))
    except json.JSONDecodeError as error:
        example = '\'["auto", {"type": "metadata", "keys": ["author"]}]\''
        raise ConfigurationError(f"--edges is not JSON ({error}); pass names, or something like {example}") from error


def _absent(path: Path) -> typer.BadParameter:
    advice = f"; write {path} without quotes, so that the shell expands it" if "*" in str(path) else ""
    return typer.BadParameter(f"path '{path}' does not exist{advice}", param_hint="'PATHS'")


class DeletedFiles:
    """Finder for indexed documents below ``paths`` whose files no longer exist.

    Call the object with the id of each document that was not read in this run. If the document's file no longer exists,
    the id is appended to ``documents``, and the call returns ``prune``; otherwise False. A document of a JSON Lines
    file also counts as deleted if it is missing from the file, unless the file is in ``unread``.

    A document is kept if its file cannot be checked, if its ``source`` is not below ``paths``, or if a file still
    exists at the path that the index recorded for it.
    """

    def __init__(
        self, paths: Sequence[Path], store: EmbeddedStore | MilvusStore, unread: Container[str], *, prune: bool
    ) -> None:
        self._places = [(source_of(path, path), path) for path in paths]
        self._store = store
        self._unread = unread
        self.prune = prune
        # The path from which each source was read; empty if the store does not record paths.
        self._former_paths = store.files.paths() if isinstance(store, RecordsFiles) else {}
        self.documents: list[str] = []

    def __call__(self, document: str) -> bool:
        """Return whether to delete this document, and record its id if its file no longer exists."""
        source = self._sources.get(document)
        is_gone = source is not None and any(self._is_gone(source, base, path) for base, path in self._places)
        if is_gone:
            self.documents.append(document)
        return is_gone and self.prune

    def has_read(self, path: Path) -> bool:
        """Return whether any document of the index was read from this path or from a file below it."""
        base = source_of(path, path)
        return any(_inside(source, base) is not None for source in self._sources.values())

    def _is_gone(self, source: str, base: str, path: Path) -> bool:
        inside = _inside(source, base)
        if inside is None:
            return False
        file = path / inside if inside else path
        if _is_there(file):
            return file.suffix.lower() in LINES and str(file) not in self._unread
        former_path = self._former_paths.get(source)
        if former_path is not None and _is_there(Path(os.fsdecode(former_path))):
            return False
        # Every relative source seems to be below ".". If its folder exists here, assume that it was read from here.
        return base != "." or "/" not in inside or _is_there(path / inside.partition("/")[0])

    @cached_property
    def _sources(self) -> dict[str, str]:
        """Map the id of each document whose file is below ``paths`` to the document's source."""
        sources: dict[str, str] = {}
        documents = iter(self._store.document_ids())
        while batch := list(islice(documents, 1_000)):
            first = {min(ids): id for id, ids in self._store.document_chunks(batch).items() if ids}
            for chunk in self._store.get(list(first)):
                source = chunk.metadata.get("source")
                if isinstance(source, str) and any(_inside(source, base) is not None for base, _ in self._places):
                    sources[first[chunk.id]] = source
        return sources


def _inside(source: str, base: str) -> str | None:
    """Return the path of a source relative to ``base``, or None if the source is neither ``base`` nor below it."""
    if base == ".":
        return None if "://" in source or source.startswith(("/", "..")) else source
    if source == base:
        return ""
    return source.removeprefix(f"{base}/") if source.startswith(f"{base}/") else None


def _is_there(file: Path) -> bool:
    try:
        file.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # it cannot be checked
        return True
    return True


# Questions of the demo, with a remark and the options of the search.
QUESTIONS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "How do I run a command with a timeout?": ("", {}),
    "What is the difference between a deep and a shallow copy?": ("", {}),
    "How do I cache the results of a function?": ("", {}),
    "a temporary file that is deleted when it is closed": ("", {}),
    "What does yield from do?": ("", {}),
    "a lock that the same thread may acquire again": ("", {}),
    "log messages to a rotating file": (
        'Only among classes: --filter \'{"labels": {"$contains": "class"}}\'',
        {"filter": {"labels": {"$contains": "class"}}},
    ),
    "floccinaucinihilipilification": (
        "A word that occurs nowhere: the answer is empty, and gives the reason.",
        {},
    ),
}


def run_demo(index: Path, embedding: str) -> None:
    """Index the documentation of Python's standard library, and show the answers to some questions."""
    from langchain_hybridgraph.cli.output import print_result
    from langchain_hybridgraph.retrievers.hybrid import HybridRetriever

    typer.secho(f"The documentation of Python {platform.python_version()}'s standard library", bold=True)
    with closing(existing_or_new(index, embedding)) as store:
        typer.echo(str(ingest_documents(list(read_python_docs()), store, progress=True)))
    with existing(index, embedding=None if embedding == "auto" else embedding) as store:
        retriever = HybridRetriever(store, k=3)
        for question, (remark, options) in QUESTIONS.items():
            typer.secho(f"\n> {question}", fg="cyan", bold=True)
            if remark:
                typer.secho(remark, dim=True)
            print_result(retriever.retrieve(question, **options), language=store.language)
    # The command that runs this program in the user's shell, even if hybridgraph is not on the PATH.
    command = "hybridgraph" if shutil.which("hybridgraph") else "python -m langchain_hybridgraph.cli"
    typer.echo(f'\nAsk your own: {command} search "…" --index {index}')
