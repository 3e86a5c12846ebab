"""Earlier chunks whose links may have changed."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import NamedTuple, Protocol, runtime_checkable
from urllib.parse import unquote

from langchain_hybridgraph.ingestion.chunking import CutDocument, first_chunk_id
from langchain_hybridgraph.ingestion.edges.document_lookup import file_name, folded, in_order
from langchain_hybridgraph.records import Chunk, Query, Scope, replace_surrogates
from langchain_hybridgraph.stores.protocols import HasDocuments, ReadsIndex, SearchesKeywords, implements

MOST_FOUND = 100  # maximum number of chunks that may name a new document
_SLICE = 1_000
_BY_TEXT = re.compile(r"#(?:parent-)?[0-9a-f]{16}(?:-\d+)?\Z")  # does not begin with a heading
_MAY_LINK = re.compile(r"\[|`|://|<[aA]\s")
_INDEX_NAMES = frozenset({"index", "readme"})


@runtime_checkable
class Readable(ReadsIndex, HasDocuments, Protocol):
    """Store whose documents can be read again."""


class Backlinks:
    """Chunks that link to new or changed documents, or to lost headings, collected during one ingest.

    For a heading that was removed, and for a document that has a new heading, the edges show which chunks link to it:
    one lookup for each such document. Deleting a document deletes the edges to it. For a new document, these are
    therefore the chunks with a pending link to it, and the ``MOST_FOUND`` chunks with the highest BM25 scores for its
    file name or title (in a store with keyword search: ``stores.protocols.SearchesKeywords``).
    """

    def __init__(self, store: Readable, relation: str) -> None:
        self._store = store
        self._relation = relation
        self._held: Mapping[str, Set[str]] = {}
        self._sources: dict[str, None] = {}
        self._new: list[_New] = []

    def before(self, held: Mapping[str, Set[str]]) -> None:
        """Remember the chunks of the next documents, before they are written."""
        self._held = held

    def see(self, document: CutDocument) -> None:
        """Collect links to headings that the document has lost, and to a document with a new heading."""
        if document.continues:  # only the first part has headings that can be linked
            return
        held = self._held.get(document.id)
        if not held:
            self._new.append(_New(document.id, _names(document)))
            return
        now = {chunk.id for chunk in document.chunks}
        parents = {chunk.parent for chunk in document.chunks}
        lost = sorted(held - now - parents)
        if any(not _BY_TEXT.search(id) for id in now - held):
            # A heading at the beginning of a chunk may have been inside any of the others before.
            lost += sorted(now & held)
        if lost:
            self._arriving(lost)

    def documents(self, seen: Set[str]) -> Iterator[tuple[CutDocument, list[str]]]:
        """Yield the documents that are not in ``seen``, each with those of its chunks whose links have to be read
        again.
        """
        for start in range(0, len(self._new), _SLICE):
            waited = {id for new in self._new[start : start + _SLICE] for id in new.ids()}
            self._arriving(waited)
        if implements(self._store, SearchesKeywords):
            for new in self._new:
                self._naming(new, self._store)
        sources = sorted(self._sources)
        for start in range(0, len(sources), _SLICE):
            yield from self._read(sources[start : start + _SLICE], seen)

    def _arriving(self, ids: Iterable[str]) -> None:
        edges = self._store.edges(sorted(ids), backwards=True)
        self._sources.update((edge.source, None) for edge in edges if edge.relation == self._relation)

    def _naming(self, new: _New, store: SearchesKeywords) -> None:
        names = [folded(name) for name in new.names]
        entries = store.keyword_search(Query(" ".join(new.names), MOST_FOUND, Scope()), MOST_FOUND).entries
        for chunk in self._store.get([entry.id for entry in entries]):
            # Most texts with these words have no link, and folding a text takes long.
            if _MAY_LINK.search(chunk.text) is None:
                continue
            text = folded(unquote(chunk.text))
            if any(name in text for name in names):
                self._sources[chunk.id] = None

    def _read(self, sources: list[str], seen: Set[str]) -> Iterator[tuple[CutDocument, list[str]]]:
        wanted: dict[str, list[str]] = {}
        for chunk in self._store.get(sources):
            if chunk.document not in seen:
                wanted.setdefault(chunk.document, []).append(chunk.id)
        for document, ids in wanted.items():
            chunks = self._store.get(sorted(self._store.document_chunks([document])[document]))
            parents = {chunk.parent for chunk in chunks}
            held = in_order(chunk for chunk in chunks if chunk.id not in parents)
            for cut in _as_handed_in(document, held):
                here = {chunk.id for chunk in cut.chunks}
                yield cut, [id for id in ids if id in here]


class _New(NamedTuple):
    """Document that is new in the store, with its names in links other than its id."""

    id: str
    names: tuple[str, ...]

    def ids(self) -> Iterator[str]:
        """Return the targets of links to it before it existed."""
        for name in (self.id, *self.names):
            if replace_surrogates(name) == name:
                yield from (name, first_chunk_id(name))


def _names(document: CutDocument) -> tuple[str, ...]:
    path = document.id.rstrip("/")
    if file_name(path) in _INDEX_NAMES:
        path = posixpath.dirname(path)
    stem = posixpath.splitext(posixpath.basename(path))[0]
    given = (document.metadata.get(key) for key in ("source", "uri"))
    others = [str(name) for name in given if name and name != document.id]
    return tuple(dict.fromkeys(name for name in (stem, document.title or "", *others) if name.strip()))


def _as_handed_in(document: str, chunks: list[Chunk]) -> Iterator[CutDocument]:
    """Return the complete document, or its chunks one by one if these have ids of their own."""
    own = [chunk for chunk in chunks if not chunk.id.startswith(f"{document}#")]
    cut = tuple(chunk for chunk in chunks if chunk.id.startswith(f"{document}#"))
    if cut:
        yield CutDocument(document, cut[0].metadata, cut)
    yield from (CutDocument(document, chunk.metadata, (chunk,)) for chunk in own)
