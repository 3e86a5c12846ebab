"""Stored chunks whose links may need resolving again."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import NamedTuple, Protocol, runtime_checkable
from urllib.parse import unquote

from langchain_hybridgraph.chunks import Chunk, replace_surrogates
from langchain_hybridgraph.ingestion.chunking import CutDocument, first_chunk_id
from langchain_hybridgraph.ingestion.edges.document_lookup import file_name, folded, in_order
from langchain_hybridgraph.records import Query, Scope
from langchain_hybridgraph.stores.protocols import HasDocuments, ReadsIndex, SearchesKeywords, implements

MAX_NAMING_CHUNKS = 100  # maximum number of chunks searched for the name of a new document
_SLICE = 1_000
_BY_TEXT = re.compile(r"#(?:parent-)?[0-9a-f]{16}(?:-\d+)?\Z")  # id of a chunk that does not begin with a heading
_MAY_LINK = re.compile(r"\[|`|://|<[aA]\s")
_INDEX_NAMES = frozenset({"index", "readme"})


@runtime_checkable
class ReadableStore(ReadsIndex, HasDocuments, Protocol):
    """Store whose documents and chunks can be listed and read."""


class Backlinks:
    """Collector of stored chunks whose links may have to be resolved again after an ingest.

    If a document has lost chunks or gained a heading, the chunks that link to it are found by their stored edges, with
    one lookup for each such document.

    If a document is new in the store, the chunks that link to it are found by their pending edges. However, a link may
    have no pending edge, for example because the document was deleted and added again. A store with a keyword search
    (``stores.protocols.SearchesKeywords``) is therefore also searched for the document's file name, title and other
    names. Only the best ``MAX_NAMING_CHUNKS`` results are considered.
    """

    def __init__(self, store: ReadableStore, relation: str) -> None:
        self._store = store
        self._relation = relation
        self._old_ids: Mapping[str, Set[str]] = {}
        self._sources: dict[str, None] = {}
        self._new: list[_NewDocument] = []

    def before(self, old_ids: Mapping[str, Set[str]]) -> None:
        """Receive, for each document in the next batch, the ids of its stored chunks and parents."""
        self._old_ids = old_ids

    def see(self, document: CutDocument) -> None:
        """Collect the chunks whose links to this document may have changed.

        If the document has lost chunks, these are the chunks that link to the lost ones. If it has a new heading, they
        are all chunks that link to the document. If it is new in the store, it is only recorded, and :meth:`documents`
        finds the chunks that link to it.
        """
        if document.continues:  # only the first part of a document has headings that links can point to
            return
        old_ids = self._old_ids.get(document.id)
        if not old_ids:
            self._new.append(_NewDocument(document.id, _names(document)))
            return
        new_ids = {chunk.id for chunk in document.chunks}
        parents = {chunk.parent for chunk in document.chunks}
        lost_ids = sorted(old_ids - new_ids - parents)
        if any(not _BY_TEXT.search(id) for id in new_ids - old_ids):
            # A heading that now begins a chunk may previously have been inside any other chunk.
            lost_ids += sorted(new_ids & old_ids)
        if lost_ids:
            self._add_linking(lost_ids)

    def documents(self, excluded: Set[str]) -> Iterator[tuple[CutDocument, list[str]]]:
        """Yield (document, ids of its chunks whose links have to be resolved again). Documents in ``excluded`` are left
        out, and a document may be yielded in several parts.
        """
        for start in range(0, len(self._new), _SLICE):
            targets = {id for new in self._new[start : start + _SLICE] for id in new.ids()}
            self._add_linking(targets)
        if implements(self._store, SearchesKeywords):
            for new in self._new:
                self._add_naming(new, self._store)
        sources = sorted(self._sources)
        for start in range(0, len(sources), _SLICE):
            yield from self._read(sources[start : start + _SLICE], excluded)

    def _add_linking(self, ids: Iterable[str]) -> None:
        edges = self._store.edges(sorted(ids), backwards=True)
        self._sources.update((edge.source, None) for edge in edges if edge.relation == self._relation)

    def _add_naming(self, new: _NewDocument, store: SearchesKeywords) -> None:
        names = [folded(name) for name in new.names]
        entries = store.keyword_search(
            Query(" ".join(new.names), MAX_NAMING_CHUNKS, Scope()), MAX_NAMING_CHUNKS
        ).entries
        for chunk in self._store.get([entry.id for entry in entries]):
            # Most chunks with these words have no link, and normalising their text is slow.
            if _MAY_LINK.search(chunk.text) is None:
                continue
            text = folded(unquote(chunk.text))
            if any(name in text for name in names):
                self._sources[chunk.id] = None

    def _read(self, sources: list[str], excluded: Set[str]) -> Iterator[tuple[CutDocument, list[str]]]:
        ids_by_document: dict[str, list[str]] = {}
        for chunk in self._store.get(sources):
            if chunk.document not in excluded:
                ids_by_document.setdefault(chunk.document, []).append(chunk.id)
        for document, ids in ids_by_document.items():
            chunks = self._store.get(sorted(self._store.document_chunks([document])[document]))
            parents = {chunk.parent for chunk in chunks}
            leaf_chunks = in_order(chunk for chunk in chunks if chunk.id not in parents)
            for cut in _as_ingested(document, leaf_chunks):
                cut_ids = {chunk.id for chunk in cut.chunks}
                yield cut, [id for id in ids if id in cut_ids]


class _NewDocument(NamedTuple):
    """Document that is new in the store. ``names`` lists the names that links may use for it in addition to its id."""

    id: str
    names: tuple[str, ...]

    def ids(self) -> Iterator[str]:
        """Yield the chunk ids that may be the target of pending links to this document."""
        for name in (self.id, *self.names):
            if replace_surrogates(name) == name:
                yield from (name, first_chunk_id(name))


def _names(document: CutDocument) -> tuple[str, ...]:
    path = document.id.rstrip("/")
    if file_name(path) in _INDEX_NAMES:
        path = posixpath.dirname(path)
    stem = posixpath.splitext(posixpath.basename(path))[0]
    locations = (document.metadata.get(key) for key in ("source", "uri"))
    others = [str(name) for name in locations if name and name != document.id]
    return tuple(dict.fromkeys(name for name in (stem, document.title or "", *others) if name.strip()))


def _as_ingested(document: str, chunks: list[Chunk]) -> Iterator[CutDocument]:
    """Yield the stored chunks of a document in the form in which they were ingested. Chunks with generated ids belong
    to one CutDocument. Each chunk whose id the user chose is a CutDocument of its own.
    """
    own = [chunk for chunk in chunks if not chunk.id.startswith(f"{document}#")]
    cut = tuple(chunk for chunk in chunks if chunk.id.startswith(f"{document}#"))
    if cut:
        yield CutDocument(document, cut[0].metadata, cut)
    yield from (CutDocument(document, chunk.metadata, (chunk,)) for chunk in own)
