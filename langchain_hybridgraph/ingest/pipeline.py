"""Brings documents into a store."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.ingest.cutting import CutDocument, Cutter
from langchain_hybridgraph.ingest.edges import Compares, EdgeBuilder, EdgeSet, as_builders
from langchain_hybridgraph.ingest.progress import Progress, counted, showing
from langchain_hybridgraph.ingest.split import as_splitter
from langchain_hybridgraph.records import Chunk, Edge
from langchain_hybridgraph.serialization import Serializable
from langchain_hybridgraph.stores.base import TakesChunks

if TYPE_CHECKING:
    from langchain_core.documents import Document


@dataclass(frozen=True, slots=True)
class IngestReport(Serializable):
    """What one ingest did.

    ``documents`` were handed in and cut into ``chunks`` and ``parents``. Of both, ``added`` are new,
    ``updated`` had another text or other metadata before, ``unchanged`` were left alone; ``embedded`` chunks
    had a new text. ``removed`` is what changed (or pruned) documents no longer have. ``edges`` were written
    or found to be there. ``warnings`` say what was not done as requested, and which files were left out.
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

    def __str__(self) -> str:
        documents, chunks = counted(self.documents, "document", "documents"), counted(self.chunks, "chunk", "chunks")
        parents, edges = counted(self.parents, "parent", "parents"), counted(self.edges, "edge", "edges")
        return (
            f"{documents} in {self.seconds:.1f} s: {chunks} ({self.added} added, {self.updated} updated, "
            f"{self.unchanged} unchanged, {self.removed} removed, {self.embedded} embedded), {parents}, {edges}"
        )


@runtime_checkable
class ListsDocuments(Protocol):
    """A store that can say which documents it has; needed for pruning only."""

    def document_ids(self) -> Iterable[str]:
        """The ids of all documents, in any order."""
        ...


def ingest(
    documents: Iterable[Document | Chunk | CutDocument],
    store: Any,
    *,
    split: Any = "flat",
    edges: Any = "auto",
    progress: bool | Progress | None = None,
    batch_size: int = 1_000,
    prune_documents: bool | Callable[[str], bool] = False,
) -> IngestReport:
    """Cut documents into chunks, write those that are new or changed, and connect them; returns what was done.

    ``documents`` are LangChain Documents (or Chunks and CutDocuments, which are taken as they are), read one batch
    at a time, so a generator of any length will do. A document is named by its metadata ``document_id``, else its id,
    else its ``source``, else its content. What is handed in for a document replaces all that it had.
    Documents of one name are parts of one document, in order; only of those that are named by ``Document.id``
    the last one counts.

    ``split`` is ``"flat"`` (512 tokens, overlap 50), ``"parent_child"`` (1024 and 256), None (documents are
    chunks as they are), or any splitter (ours, LangChain's, a function). ``edges`` is ``"auto"`` (sequence,
    links, hierarchy, entities), a list of builders or their names, or None; the edges of builders that are not named
    stay. ``progress`` is True for a bar on the terminal, or a
    function of (documents done, total or None). Each batch of ``batch_size`` chunks is one transaction: after
    a crash, run it again, and what is there is neither written nor embedded a second time.
    ``prune_documents`` removes the documents that were not handed in (all, or those for whose id the function
    is true).

    Raises ConfigurationError for arguments that cannot be used, and whatever the store raises; the batches
    before that stay.

    >>> from langchain_core.documents import Document
    >>> from langchain_hybridgraph import HybridGraphStore
    >>> store = HybridGraphStore(None)
    >>> report = ingest([Document("# Cats\\n\\nThey purr.", id="cats"), Document("Dogs bark.", id="dogs")], store)
    >>> report.documents, report.added, [document.page_content for document in store.similarity_search("a bark", k=1)]
    (2, 2, ['Dogs bark.'])
    """
    if batch_size < 1:
        raise ConfigurationError(f"batch_size={batch_size}: give at least 1, the number of chunks per transaction")
    _check_several(documents)
    run = _Run(_taker(store), as_splitter(split), as_builders(edges), batch_size)
    if prune_documents and not isinstance(run.store, ListsDocuments):
        raise ConfigurationError(
            f"prune_documents needs a store that lists its documents, which {type(store).__name__} does not; "
            "leave it out and delete by id"
        )
    total = len(documents) if isinstance(documents, Sized) else None
    with showing(progress) as show:
        for document in documents:
            if run.take(document):
                show(run.written, total)
        for skipped in getattr(documents, "skipped", ()):  # what read_files left out
            run.note(skipped)
        run.write()
        show(run.written, total)
    run.remove(prune_documents)
    return run.finish()


class _Run:
    """One ingest on its way: what is not written yet, and what was counted."""

    def __init__(self, store: TakesChunks, splitter: Any, builders: Sequence[EdgeBuilder], batch_size: int) -> None:
        self.store = store
        self.written = 0
        self._started = time.perf_counter()
        self._warnings: dict[str, None] = {}
        self._cutter = Cutter(splitter, self.note)
        self._builders = builders
        self._batch_size = batch_size
        self._batch: list[CutDocument] = []
        self._begun: set[str] = set()
        self._pending = 0
        self._counts: Counter[str] = Counter()
        self._empty: list[str] = []
        self._seen: set[str] = set()
        # What documents had before and have not been given again. Mostly empty, so that it may be kept for all.
        self._vanished: dict[str, set[str]] = {}
        for builder in builders:
            builder.start(store)

    def take(self, document: Document | Chunk | CutDocument) -> bool:
        """Cut a document and write the batch when it is full; returns whether something was written."""
        cut = self._cutter.cut(document)
        again = not cut.continues and cut.id in self._begun
        if again:
            # The same document anew: what it had a moment ago must be seen as old.
            self.write()
        self._batch.append(cut)
        self._begun.add(cut.id)
        self._pending += len(cut.chunks)
        if not cut.chunks:
            self._empty.append(cut.id)
        if self._pending < self._batch_size and len(self._batch) < self._batch_size:
            return again
        self.write()
        return True

    def write(self) -> None:
        """Write the batch: chunks first, in transactions of the batch size, then the edges that are certain."""
        batch, self._batch, self._begun, self._pending = self._batch, [], set(), 0
        self._remember_old(batch)
        for chunks, parents in _transactions(batch, self._batch_size):
            self._counts.update(self.store.put(chunks, parents=parents))
        for document in batch:
            self._counts["chunks"] += len(document.chunks)
            self._counts["parents"] += len(document.parents)
        for builder in self._builders:
            self._write_edges(builder, (found for document in batch for found in builder.see(document)))
        self.written += len(batch)

    def remove(self, prune: bool | Callable[[str], bool]) -> None:
        """Delete what the documents no longer have, and the documents that were not handed in if that is wanted."""
        gone = {id for ids in self._vanished.values() for id in ids}
        if prune and isinstance(self.store, ListsDocuments):
            wanted = prune if callable(prune) else lambda document: True
            others = [id for id in self.store.document_ids() if id not in self._seen and wanted(id)]
            for some in _slices(others, 1_000):
                gone.update(*self.store.document_chunks(some).values())
        for ids in _slices(sorted(gone), 1_000):
            self._counts["removed"] += self.store.remove(ids)

    def finish(self) -> IngestReport:
        """Bring the indexes up to date, write the edges that waited, and report."""
        self._counts["embedded"] += self.store.settle()
        for builder in self._builders:
            for found in builder.finish():
                self._write_edges(builder, [found])
            for warning in getattr(builder, "warnings", ()):
                self.note(warning)
        if self._empty:
            named = ", ".join(self._empty[:3]) + (", …" if len(self._empty) > 3 else "")
            self.note(f"{len(self._empty)} documents have no text: {named}")
        names = ("chunks", "parents", "added", "updated", "unchanged", "removed", "embedded", "edges")
        return IngestReport(
            documents=self.written,
            seconds=time.perf_counter() - self._started,
            warnings=tuple(self._warnings),
            **{name: self._counts[name] for name in names},
        )

    def _remember_old(self, batch: Sequence[CutDocument]) -> None:
        begun = list(dict.fromkeys(document.id for document in batch if not document.continues))
        held = self.store.document_chunks(begun) if begun else {}
        for builder in self._builders:
            if isinstance(builder, Compares):
                builder.before(held)
        for document, ids in held.items():
            self._vanished[document] = set(ids)
        self._seen.update(begun)
        for cut in batch:
            old = self._vanished.get(cut.id)
            if old is not None:
                old.difference_update(chunk.id for chunk in (*cut.chunks, *cut.parents))
        for id in {cut.id for cut in batch}:
            if not self._vanished.get(id, True):
                del self._vanished[id]

    def _write_edges(self, builder: EdgeBuilder, found: Iterable[EdgeSet]) -> None:
        replaced: list[str] = []
        replacing: list[Edge] = []
        adding: list[Edge] = []
        for edges, replaces in found:
            (replacing if replaces else adding).extend(edges)
            replaced.extend(replaces)
        if replaced:
            self._counts["edges"] += self.store.replace_edges(replaced, list(builder.relations), replacing)
        if adding:
            self.store.put([], edges=adding)
            self._counts["edges"] += len(adding)

    def note(self, warning: str) -> None:
        """Add a warning to the report."""
        self._warnings[warning] = None


def _check_several(documents: object) -> None:
    if isinstance(documents, (str, Chunk)) or hasattr(documents, "page_content"):
        raise ConfigurationError(
            f"ingest takes an iterable of Documents, not one {type(documents).__name__}: ingest([document], store), "
            "or ingest(read_files([path]), store) for files"
        )


def _transactions(batch: Sequence[CutDocument], size: int) -> Iterator[tuple[list[Chunk], list[Chunk]]]:
    """The batch in slices of at most ``size`` chunks, each with the parents of its chunks that no earlier slice had.

    Parents of parents come last.
    """
    parents = {parent.id: parent for document in batch for parent in document.parents}
    chunks = [chunk for document in batch for chunk in document.chunks]
    for some in _slices(chunks, size):
        wanted = dict.fromkeys(chunk.parent_id for chunk in some)
        yield some, [parents.pop(id) for id in wanted if id is not None and id in parents]
    if parents:
        yield [], list(parents.values())


def _slices(values: Sequence[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(values), size):
        yield list(values[start : start + size])


def _taker(store: Any) -> TakesChunks:
    if isinstance(store, TakesChunks):
        return store
    raise ConfigurationError(
        f"{type(store).__name__} cannot take chunks; ingest writes to a HybridGraphStore(path, embedding=…)"
    )
