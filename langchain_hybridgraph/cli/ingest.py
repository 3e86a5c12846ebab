"""The commands that index files, ingest and demo."""

from __future__ import annotations

import json
import os
import platform
import stat
from collections.abc import Callable, Container, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from langchain_hybridgraph.cli.console import as_commands, say
from langchain_hybridgraph.cli.settings import IndexLocation
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.execution.processes import counted
from langchain_hybridgraph.ingestion import read_files, read_python_docs
from langchain_hybridgraph.ingestion.edges.base import EdgeBuilder, as_builders, slices
from langchain_hybridgraph.ingestion.files import LINES, source_of
from langchain_hybridgraph.ingestion.pipeline import IngestReport, ingest
from langchain_hybridgraph.ingestion.summaries import LayersReport, build_layers
from langchain_hybridgraph.stores.protocols import RecordsFiles

if TYPE_CHECKING:
    from langchain_hybridgraph.stores.store import EmbeddedStore
    from langchain_hybridgraph.vectorstores.milvus_store import MilvusStore


class FilesReport(NamedTuple):
    """Report of an ingest of files.

    ``pruned`` has the ids of documents that were deleted because their files no longer exist, ``layers`` is None if the
    summaries were not updated, and ``error`` is set if there was nothing to read and nothing to delete.
    """

    ingest: IngestReport
    layers: LayersReport | None
    embedding: str
    pruned: list[str]
    error: Exception | None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of :class:`IngestReport` with ``embedding``, ``pruned`` and ``layers``.

        Messages name options of the command line, as on stderr.
        """
        messages = {
            "warnings": [as_commands(warning) for warning in self.ingest.warnings],
            "unread": {path: as_commands(reason) for path, reason in self.ingest.unread.items()},
        }
        others = {"embedding": self.embedding, "pruned": self.pruned, "layers": self.layers}
        return self.ingest.to_dict() | messages | others

    def __str__(self) -> str:
        lines = [as_commands(str(replace(self.ingest, skipped={}, unread={})))]  # they were reported on stderr
        if self.pruned:
            ids = ", ".join(self.pruned[:3]) + ", …" * (len(self.pruned) > 3)
            lines.append(f"deleted {counted(len(self.pruned), 'document', 'documents')} whose files are gone: {ids}")
        return "\n".join(lines if self.layers is None else [*lines, f"summaries: {self.layers}"])


def ingest_files(
    paths: Sequence[Path],
    open_store: Callable[[], EmbeddedStore | MilvusStore],
    *,
    prune: bool,
    progress: bool = False,
    follow_links: bool = False,
    as_text: Sequence[str] = (),
    **options: Any,
) -> FilesReport:
    """Write the documents in files to a store, and update the summaries of directories if the store has them.

    ``options`` are those of ``ingest``. With ``prune``, documents whose files no longer exist are deleted. Files that
    cannot be read are reported on stderr. Raises an error for a path that does not exist and, unless ``prune`` is set,
    for a folder without files to read.
    """
    for path in paths:
        if not path.exists():
            advice = f"; write {path} without quotes, so that the shell expands it" if "*" in str(path) else ""
            raise typer.BadParameter(f"path '{path}' does not exist{advice}", param_hint="'PATHS'")
    documents = read_files(paths, skipped=say, follow_links=follow_links, as_text=as_text)
    documents.may_be_empty = prune
    documents.check(len(documents.files))
    documents.may_be_empty = True  # the report is printed before the error
    with closing(open_store()) as store:
        before = len(store)
        deleted = DeletedFiles(paths, store, documents.unread)
        try:
            report = ingest(documents, store, progress=progress, prune_documents=prune and deleted, **options)
            layers = None
            has_summaries = hasattr(store, "summaries") and (
                store.summaries.index() is not None or any(path.is_dir() for path in paths)
            )
            if has_summaries and (report.documents or deleted.documents):
                layers = build_layers(store, progress=progress)
        except KeyboardInterrupt:
            say(f"interrupted: {len(store):,} chunks are kept ({before:,} before); run the command again to continue")
            raise
        name = store.name
    for warning in report.warnings:
        if warning not in documents.skipped:
            say(warning)
    is_empty = not (report.documents or deleted.documents)
    return FilesReport(report, layers, name, deleted.documents, documents.nothing_read() if is_empty else None)


def edge_builders(value: str) -> list[EdgeBuilder]:
    """Return the edge builders that ``--edges`` names: comma-separated names, JSON, or ``none``."""
    if not value.lstrip().startswith(("[", "{")):
        return as_builders([] if value == "none" else [name.strip() for name in value.split(",")])
    try:
        return as_builders(json.loads(value))
    except json.JSONDecodeError as error:
        example = '\'["auto", {"type": "metadata", "keys": ["author"]}]\''
        raise ConfigurationError(f"--edges is not JSON ({error}); pass names, or something like {example}") from error


class DeletedFiles:
    """Finder for indexed documents below ``paths`` whose files no longer exist.

    Call the object with the id of each document that was not read in this run. If the document's file no longer exists,
    the call returns True, and the id is appended to ``documents``. A document of a JSON Lines file also counts as
    deleted if it is missing from the file, unless the file is in ``unread``.

    A document is kept if its file cannot be checked, if its ``source`` is not below ``paths``, or if a file still
    exists at the path that the index recorded for it.
    """

    def __init__(self, paths: Sequence[Path], store: EmbeddedStore | MilvusStore, unread: Container[str]) -> None:
        self._places = [(source_of(path, path), path) for path in paths]
        self._store = store
        self._unread = unread
        # The path from which each source was read; empty if the store does not record paths.
        self._former_paths = store.files.paths() if isinstance(store, RecordsFiles) else {}
        self.documents: list[str] = []

    def __call__(self, document: str) -> bool:
        """Return whether the file of this document no longer exists; if so, record the id of the document."""
        source = self._sources.get(document)
        is_gone = source is not None and any(self._is_gone(source, base, path) for base, path in self._places)
        if is_gone:
            self.documents.append(document)
        return is_gone

    def _is_gone(self, source: str, base: str, path: Path) -> bool:
        if (inside := _inside(source, base)) is None:
            return False
        file = path / inside if inside else path
        if _is_there(file):
            return file.suffix.lower() in LINES and str(file) not in self._unread
        former_path = self._former_paths.get(source)
        if former_path is not None and _is_there(Path(os.fsdecode(former_path))):
            return False
        # Every relative source seems to be below ".". If its folder exists here, assume that it was read from here.
        return base != "." or "/" not in inside or _is_there(path / inside.partition("/")[0], may_be_folder=True)

    @cached_property
    def _sources(self) -> dict[str, str]:
        """Map the id of each document whose file is below ``paths`` to the document's source."""
        sources: dict[str, str] = {}
        for batch in slices(list(self._store.document_ids()), 1_000):
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


def _is_there(file: Path, *, may_be_folder: bool = False) -> bool:
    try:
        mode = file.lstat().st_mode
    except OSError as error:  # another error: it cannot be checked
        return not isinstance(error, FileNotFoundError | NotADirectoryError)
    return may_be_folder or not stat.S_ISDIR(mode)


QUESTIONS = (
    "How do I run a command with a timeout?",
    "What is the difference between a deep and a shallow copy?",
    "a temporary file that is deleted when it is closed",
    "a lock that the same thread may acquire again",
    "log messages to a rotating file",
    "floccinaucinihilipilification",
)
"""Questions of the demo; the last one is a word that occurs nowhere."""


def run_demo(index: Path, embedding: str) -> None:
    """Index the documentation of Python's standard library, and show the answers to some questions."""
    from langchain_hybridgraph.cli.output import print_result
    from langchain_hybridgraph.retrievers.hybrid import HybridRetriever

    typer.secho(f"The documentation of Python {platform.python_version()}'s standard library", bold=True)
    with closing(IndexLocation(index, embedding=embedding).open_or_create()) as store:
        typer.echo(str(ingest(list(read_python_docs()), store, progress=True)))
    with IndexLocation(index, embedding=None if embedding == "auto" else embedding).open_folder() as store:
        retriever = HybridRetriever(store, k=3)
        for question in QUESTIONS:
            typer.secho(f"\n> {question}", fg="cyan", bold=True)
            print_result(retriever.retrieve(question), language=store.language)
    typer.echo(f'\nAsk your own: hybridgraph search "…" --index {index}')
