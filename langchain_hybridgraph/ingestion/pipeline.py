"""Ingestion of documents into a store."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from langchain_hybridgraph.chunks import Chunk, Serializable
from langchain_hybridgraph.errors import ConfigurationError, check_whole_number
from langchain_hybridgraph.execution import processes
from langchain_hybridgraph.execution.processes import Progress, counted, report
from langchain_hybridgraph.ingestion import splitting
from langchain_hybridgraph.ingestion.edges.base import EdgeBuilder, EdgeSet, as_builders, slices
from langchain_hybridgraph.ingestion.edges.entities import EntityEdges, find_mentions
from langchain_hybridgraph.ingestion.files import File, FileDocuments, KnownFiles, listed_suffixes, read_text_file
from langchain_hybridgraph.records import SESSION, Edge
from langchain_hybridgraph.stores.generations import FittedEmbedding
from langchain_hybridgraph.stores.protocols import AcceptsChunks, RecordsFiles
from langchain_hybridgraph.text.analyzer import approximate_tokens

if TYPE_CHECKING:
    from langchain_core.documents import Document

_BATCH = 1 << 17  # number of bytes that one task reads


def _is_portable(splitter: splitting.Splitter | None) -> bool:
    if isinstance(splitter, splitting.ParentChildSplitter):
        return _is_portable(splitter.parents) and _is_portable(splitter.children)
    return type(splitter) is splitting.RecursiveSplitter and splitter.counter is approximate_tokens


def _batches(files: Iterable[File], records: KnownFiles) -> Iterator[list[File]]:
    batch, size = list[File](), 0
    for file in files:
        records.start_reading(file)
        batch.append(file)
        with suppress(OSError):  # reading the file reports the reason
            size += file.path.stat().st_size
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _cut_files(splitter: Any, has_mentions: bool, files: Iterable[File]) -> list[splitting.CutDocument | None]:
    cuts: list[splitting.CutDocument | None] = []
    for file in files:
        cut, notes = None, list[str]()
        with suppress(Exception):  # the caller reads the file again, and reports the reason
            if document := read_text_file(file):
                cut = splitting.Cutter(splitter, notes.append).cut(document)
                if cut.chunks and has_mentions:
                    cut = replace(cut, mentions=find_mentions(cut))
        cuts.append(cut if cut and cut.id == file.source and not notes else None)
    return cuts


@dataclass(frozen=True, slots=True)
class IngestReport(Serializable):
    """Counts and warnings of one ingest.

    - ``documents``: number of documents read or unchanged. A file with several parts, such as a PDF's pages, is one
      document. Files without text are counted, too.
    - ``chunks``, ``parents``: numbers of chunks and parents of these documents.
    - ``added``, ``updated``, ``unchanged``, ``removed``: numbers of chunks and parents together. ``updated`` counts new
      texts or metadata, and ``removed`` those deleted because their document was changed or pruned.
    - ``embedded``: number of texts that were embedded.
    - ``edges``: number of edges that were written or existed already, without the edges of unchanged files.
    - ``seconds``: duration of the ingest.
    - ``warnings``: messages, for example about files that were left out or documents without text.
    - ``skipped``: number of files that were left out, by suffix.
    - ``unread``: reasons why files or folders could not be read (damaged, encrypted, not text, …), by path. JSON Lines
      files with invalid lines are included.
    """

    documents: int
    chunks: int
    parents: int
    added: int
    updated: int
    unchanged: int
    removed: int
    embedded: int
    edges: int
    seconds: float
    warnings: tuple[str, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        documents, chunks = counted(self.documents, "document", "documents"), counted(self.chunks, "chunk", "chunks")
        parents, edges = counted(self.parents, "parent", "parents"), counted(self.edges, "edge", "edges")
        left_out = f"; skipped {listed_suffixes(self.skipped)}" if self.skipped else ""
        if self.unread:
            first = ", ".join(f"{path} ({reason})" for path, reason in islice(self.unread.items(), 3))
            left_out += f"; could not read {first}{', …' if len(self.unread) > 3 else ''}"
        return (
            f"{documents} in {self.seconds:.1f} s: {chunks} ({self.added:,} added, {self.updated:,} updated, "
            f"{self.unchanged:,} unchanged, {self.removed:,} removed, {self.embedded:,} embedded), {parents}, "
            f"{edges}{left_out}"
        )

    def _repr_html_(self) -> str:
        from langchain_hybridgraph.display import fields_table

        values = {name: value for name, value in self.to_dict().items() if name != "warnings" and value != {}}
        return fields_table(type(self).__name__, values, self.warnings)


def ingest(
    documents: Iterable[Document | Chunk | splitting.CutDocument],
    store: Any,
    *,
    split: Any = "flat",
    edges: Any = "auto",
    progress: bool | Progress | None = None,
    batch_size: int = 1_000,
    prune_documents: bool | Callable[[str], bool] = False,
) -> IngestReport:
    """Split documents into chunks, write the new and changed chunks, add edges, and return a report.

    ``documents`` are LangChain Documents (or Chunks and CutDocuments, which are not split). They are read one batch at
    a time, so a generator of any length can be passed. LangChain loaders are also accepted.

    The id of a document is the first of these that is set: ``document_id`` in its metadata, ``Document.id``, ``source``
    in its metadata, or else a hash of the content. The new chunks of a document replace all chunks stored earlier under
    its id. Documents with the same ``document_id`` or ``source`` are parts of one document, in order. If several
    documents have the same ``Document.id``, only the last one is kept.

    - ``split`` is ``"flat"`` (256 tokens, overlap 50), ``"parent_child"`` (1024 and 256), None (each document is one
      chunk), or a splitter: one of this package's or LangChain's splitters, or a function.
    - ``edges`` is ``"auto"`` (sequence, links, hierarchy, entities), a list of builders or their names, or None. Stored
      edges of other builders are not changed.
    - ``progress`` is True for a line of progress on the terminal (or, without one, a line every ten seconds), or a
      function that takes a :class:`~langchain_hybridgraph.execution.processes.Step`.
    - ``batch_size`` is the number of chunks per transaction. Chunks stored by an interrupted ingest are neither written
      nor embedded a second time.
    - ``prune_documents=True`` removes all stored documents that were not passed in, also texts and memories that were
      added in another way, but no sessions. To remove only some of them, pass a function that receives the id of a
      document and returns whether to remove it. Documents of files and folders that could not be read are kept.

    If ``documents`` comes from ``read_files``, files that have not changed are skipped, unless they were last ingested
    with another ``split``, other ``edges`` or another version of this package, or their edges depend on a changed or
    deleted file. All files are read if ``split`` or ``edges`` contains a model or a lambda, which cannot be compared.

    Raises ConfigurationError for invalid arguments, and with ``prune_documents=True`` if no document is passed. Raises
    FileError if an earlier ingest used the ``source`` of a file for another file that still exists, and if nothing was
    read from ``read_files``, unless a function prunes documents. Errors from reading and storing documents are also
    raised. Batches already written remain.

    >>> from langchain_core.documents import Document
    >>> from langchain_hybridgraph import HybridGraphStore
    >>> store = HybridGraphStore(None)
    >>> report = ingest([Document("# Cats\\n\\nThey purr.", id="cats"), Document("Dogs bark.", id="dogs")], store)
    >>> report.documents, report.added, [document.page_content for document in store.similarity_search("a bark", k=1)]
    (2, 2, ['Dogs bark.'])
    """
    source = _as_documents(documents)
    if not isinstance(store, AcceptsChunks):
        kind = type(store).__name__
        raise ConfigurationError(f"{kind} cannot store chunks; ingest writes to a HybridGraphStore(path, embedding=…)")
    if prune_documents and not hasattr(store, "document_ids"):
        raise ConfigurationError(
            f"prune_documents needs a store that can list its documents, but {type(store).__name__} cannot; "
            "leave prune_documents out, and delete documents by id"
        )
    check_whole_number("batch_size", batch_size, 1)
    splitter, builders = splitting.as_splitter(split), as_builders(edges)
    if isinstance(source, FileDocuments):
        source.may_be_empty |= bool(prune_documents)  # all of its files may have been deleted
    with processes.showing(progress), processes.worker_processes(), processes.TaskShare() as task:
        run = _IngestRun(store, splitter, builders, batch_size, task)
        if isinstance(source, FileDocuments) and isinstance(store, RecordsFiles):
            run.take_files(source, KnownFiles(store, splitter, builders, source.as_text), prune_documents)
        else:
            run.take_all(source, prune_documents)
        return run.finish(source)


# Fractions of an ingest's duration after which all files are written and all chunks are embedded, by whether the
# embedding is fitted to the chunks. Measured with a fit: .4 and .83 for 350 files of documentation, .5 and .65 for
# 2,300 files. Without a fit, embedding takes most of the time. Measured with a model that embeds 100 chunks per second
# while files are written: .87.
_SHARES = {False: (0.9, 0.9), True: (0.5, 0.75)}


class _IngestRun:
    def __init__(
        self, store: Any, splitter: Any, builders: Sequence[EdgeBuilder], batch_size: int, task: processes.TaskShare
    ) -> None:
        self._started = time.perf_counter()
        self._store = store
        self._splitter = splitter
        self._builders = builders
        self._batch_size = batch_size
        self._task = task
        self._write_end, self._embed_end = _SHARES[isinstance(getattr(store, "embedding", None), FittedEmbedding)]
        self._written_share = 0.0  # share of the files or documents that are written, 0 if their number is unknown
        self._position: tuple[int, int | None, str] = (0, None, "documents")
        self._warnings: dict[str, None] = {}
        self._batch: list[splitting.CutDocument] = []
        self._batch_ids: set[str] = set()
        self._pending = 0  # number of chunks in the batch, with 1 for a document without chunks
        self._counts = Counter[str]()
        self._empty: dict[str, None] = {}
        self._document_ids: set[str] = set()
        # Stored chunks of each document that its new version no longer has. There are usually few, so they fit into
        # memory.
        self._vanished: dict[str, set[str]] = {}
        self._start()

    def _start(self) -> None:
        self._cutter = splitting.Cutter(self._splitter, self.note)
        for builder in self._builders:
            builder.start(self._store)

    def take_all(self, documents: Iterable[Any], prune: bool | Callable[[str], bool]) -> None:
        """Ingest documents, delete the stored chunks that are no longer needed, and write the remaining edges."""
        total = len(documents) if isinstance(documents, Sized) else None
        for number, document in enumerate(documents, start=1):
            self._at(number, total, "documents")
            self._take(self._cut(document))
        self._write()
        self._remove(prune, getattr(documents, "unread_sources", ()))
        self._connect()

    def take_files(self, documents: FileDocuments, files: KnownFiles, prune: bool | Callable[[str], bool]) -> None:
        waiting = documents.files
        documents.check(len(waiting))
        if (warning := files.check_sources(waiting)) is not None:
            self.note(warning)
        while True:
            changed = [file for file in waiting if not files.is_unchanged(file)]
            sources = {file.source for file in changed}
            cuts = self._cut_ahead(changed, files)
            for number, file in enumerate(waiting, start=1):
                self._at(number, len(waiting), "files")
                if file.source in files.unread:
                    self._document_ids.update(files.unread[file.source][1].documents)
                elif file.source in sources:
                    self._take_file(documents, file, next(cuts), files)
                else:  # this file shares a document with a file that was read in the meantime
                    files.start_reading(file)
                    self._take_file(documents, file, None, files)
            self._write()
            self._document_ids.update(files.stored_documents(documents.unread_sources))
            self._remove(prune, documents.unread_sources)
            prune = False
            if waiting := files.outdated():
                self._cutter = splitting.Cutter(self._splitter, self.note)
                continue
            self._connect()
            if not (waiting := files.outdated()):
                break
            self._start()
        files.save()
        for _, record in files.unread.values():
            sizes = {"documents": len(record.documents), "chunks": record.chunks, "parents": record.parents}
            self._counts.update(sizes, unchanged=record.chunks + record.parents)
            self._empty.update(dict.fromkeys(() if record.chunks else record.documents))
        documents.check(self._counts["documents"])

    def _cut_ahead(self, files: Iterable[File], records: KnownFiles) -> Iterator[splitting.CutDocument | None]:
        """Read and split files, in worker processes if there are many. Yield None for files left to the caller.

        These are files that are not text, cannot be read, cause a warning or may be part of a larger document, and all
        files if the splitter is None or might give different results in another process.
        """
        if not _is_portable(self._splitter):
            for file in files:
                records.start_reading(file)
                yield None
            return
        has_mentions = any(isinstance(builder, EntityEdges) for builder in self._builders)
        cut_batch = partial(_cut_files, self._splitter, has_mentions)
        yield from chain.from_iterable(processes.ordered_map(cut_batch, _batches(files, records)))

    def _take_file(
        self, documents: FileDocuments, file: File, ahead: splitting.CutDocument | None, files: KnownFiles
    ) -> None:
        is_cut = ahead is not None and self._cutter.adopt(ahead)
        for document in [ahead] if is_cut else documents.read(file):
            try:
                cut = self._cut(document)
            except (RecursionError, MemoryError) as error:
                documents.leave_out(file, error)
                break
            self._take(cut)
            if (warning := files.add(file, cut.id, len(cut.chunks), len(cut.parents))) is not None:
                self.note(warning)
        if str(file.path) in documents.unread:  # each ingest reports what cannot be read
            files.forget(file)

    def _at(self, number: int, total: int | None, unit: str) -> None:
        """Report which of ``total`` documents or files is read; all of them are written after the last one."""
        self._position = number, total, unit
        if total:
            self._task.enter(self._write_end * self._written_share, self._write_end * self._written_share)
        report("reading", *self._position)

    def _cut(self, document: Any) -> splitting.CutDocument:
        report("cutting", *self._position)
        return self._cutter.cut(document)

    def _take(self, cut: splitting.CutDocument) -> None:
        if not cut.continues and cut.id in self._batch_ids:
            # If a document occurs twice, write its first version before the batch that replaces it.
            self._write()
        self._batch.append(cut)
        self._batch_ids.add(cut.id)
        if cut.chunks:
            self._empty.pop(cut.id, None)
        elif not cut.continues:
            self._empty[cut.id] = None
        self._pending += max(len(cut.chunks), 1)
        if self._pending >= self._batch_size:
            self._write()

    def _write(self) -> None:
        """Write the batch: its chunks in transactions, then the edges that do not depend on later documents."""
        batch, self._batch, self._batch_ids, self._pending = self._batch, [], set(), 0
        if not batch:
            return
        self._remember_old(batch)
        report("embedding", *self._position)
        number, of, _ = self._position
        transactions = list(_transactions(batch, self._batch_size))
        for left, (chunks, parents) in zip(range(len(transactions), 0, -1), transactions, strict=True):
            if of:
                start = self._written_share
                self._written_share += (number / of - start) / left
                self._task.enter(self._write_end * start, self._write_end * self._written_share)
            self._counts.update(self._store.upsert(chunks, parents=parents))
        report("edges", *self._position)
        for builder in self._builders:
            self._write_edges(builder, (edge_set for document in batch for edge_set in builder.see(document)))
        for document in batch:
            self._counts["documents"] += not document.continues
            self._counts["chunks"] += len(document.chunks)
            self._counts["parents"] += len(document.parents)

    def _remove(self, prune: bool | Callable[[str], bool], unread: Sequence[str]) -> None:
        """Delete chunks that left their document and, if ``prune`` allows it, documents that were not passed in.

        Documents whose ids begin with one of the ``unread`` sources are kept.
        """
        vanished, self._vanished = set(chain.from_iterable(self._vanished.values())), {}
        if prune:
            # Sessions are not documents that could be passed.
            is_prunable = prune if callable(prune) else lambda id: not id.startswith(SESSION)
            absent, sources = set(self._store.document_ids()) - self._document_ids, tuple(unread)
            others = [id for id in sorted(absent) if not id.startswith(sources) and is_prunable(id)]
            if others and not self._document_ids and not callable(prune):
                raise ConfigurationError(
                    "no document was passed, so prune_documents=True would delete all documents: check where they are "
                    "read from, or pass prune_documents=lambda id: True to delete them"
                )
            for batch in slices(others, 1_000):
                vanished.update(*self._store.document_chunks(batch).values())
        for ids in slices(sorted(vanished), 1_000):
            self._counts["removed"] += self._store.remove(ids)

    def _connect(self) -> None:
        report("index", *self._position)
        is_estimated = self._position[1] is not None
        if is_estimated:
            self._task.enter(self._write_end, self._embed_end)
        self._counts["embedded"] += self._store.flush()
        if is_estimated:
            self._task.enter(self._embed_end, 1.0)
        for done, builder in enumerate(self._builders):
            report("edges", done, len(self._builders), "kinds of edges")
            for edge_set in builder.finish():
                self._write_edges(builder, [edge_set])
            self._warnings.update(dict.fromkeys(builder.warnings))

    def finish(self, documents: Iterable[Any]) -> IngestReport:
        self._warnings.update(dict.fromkeys(getattr(documents, "skipped", ())))  # files that read_files left out
        if self._empty:
            first = ", ".join(islice(self._empty, 3)) + (", …" if len(self._empty) > 3 else "")
            self.note(f"{counted(len(self._empty), 'document has', 'documents have')} no text: {first}")
        names = ("documents", "chunks", "parents", "added", "updated", "unchanged", "removed", "embedded", "edges")
        return IngestReport(
            seconds=time.perf_counter() - self._started,
            warnings=tuple(self._warnings),
            skipped=dict(getattr(documents, "passed_over", {})),
            unread=dict(getattr(documents, "unread", {})),
            **{name: self._counts[name] for name in names},
        )

    def _remember_old(self, batch: Sequence[splitting.CutDocument]) -> None:
        started = list(dict.fromkeys(document.id for document in batch if not document.continues))
        old_ids = self._store.document_chunks(started) if started else {}
        for builder in self._builders:
            builder.before(old_ids)
        self._vanished.update((document, set(ids)) for document, ids in old_ids.items() if ids)
        self._document_ids.update(started)
        for cut in batch:
            if old := self._vanished.get(cut.id):
                old.difference_update(chunk.id for chunk in (*cut.chunks, *cut.parents))
                if not old:
                    del self._vanished[cut.id]

    def _write_edges(self, builder: EdgeBuilder, edge_sets: Iterable[EdgeSet]) -> None:
        replaced, replacements, additions = list[str](), list[Edge](), list[Edge]()
        for edges, replaces in edge_sets:
            (replacements if replaces else additions).extend(edges)
            replaced.extend(replaces)
        if replaced:
            self._counts["edges"] += self._store.replace_edges(replaced, list(builder.relations), replacements)
        if additions:
            self._store.upsert([], edges=additions)
            self._counts["edges"] += len(additions)

    def note(self, warning: str) -> None:
        self._warnings[warning] = None


def _as_documents(documents: Any) -> Iterable[Any]:
    if callable(load := getattr(documents, "lazy_load", None)):
        documents = load()
    is_one = isinstance(documents, (str, os.PathLike, Chunk, AcceptsChunks)) or hasattr(documents, "page_content")
    if is_one or not isinstance(documents, Iterable):
        raise ConfigurationError(
            f"ingest takes an iterable of Documents and then the store, not {type(documents).__name__}: "
            "ingest([document], store); for files, ingest(read_files(path), store), with read_files from "
            "langchain_hybridgraph.ingestion"
        )
    return documents


def _transactions(batch: Sequence[splitting.CutDocument], size: int) -> Iterator[tuple[Sequence[Chunk], list[Chunk]]]:
    """Yield the batch as (at most ``size`` chunks, their parents), each parent once; parents of parents come last."""
    parents = {parent.id: parent for document in batch for parent in document.parents}
    for batch_chunks in slices([chunk for document in batch for chunk in document.chunks], size):
        parent_ids = dict.fromkeys(chunk.parent_id for chunk in batch_chunks)
        yield batch_chunks, [parents.pop(id) for id in parent_ids if id is not None and id in parents]
    if parents:
        yield [], list(parents.values())
