"""Edges from citations in metadata."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from langchain_hybridgraph.chunks import Chunk, replace_surrogates
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.filters.expressions import parse_filter
from langchain_hybridgraph.ingestion.edges.base import EdgeBuilder, EdgeSet, slices
from langchain_hybridgraph.ingestion.edges.links import first_chunks, text_of
from langchain_hybridgraph.ingestion.splitting import CutDocument, first_chunk_id
from langchain_hybridgraph.records import CITES, Edge, Scope
from langchain_hybridgraph.stores.protocols import AcceptsChunks, ReadsIndex

_SLICE = 1_000
_DOI = re.compile(r"(?:https?://(?:dx\.)?doi\.org/|doi:\s*)?(10\.\d{4,9}/\S+)", re.IGNORECASE)
# Fields of a reference object that may identify the cited document, best first.
_NAMES = ("id", "document_id", "doi", "DOI", "title", "source", "uri", "url")


class CitationEdges(EdgeBuilder):
    """Edges of weight 1 from each document to the documents that it cites in a metadata field.

    An edge connects the first chunks of the two documents. Each entry of the field is an id, title, DOI (in any usual
    spelling), source or uri, or an object that contains one of these. A title is used only if exactly one document has
    it. Documents of earlier ingests are found by their id and, if the store can be queried by metadata
    (``stores.protocols.ReadsIndex``), also by the other names, with titles as written.

    A citation of a missing document becomes a pending edge to the id that the first chunk of the document will have.
    When the document is ingested, the edge is redirected to it. With ``pending=False``, such citations are ignored.

    >>> from langchain_hybridgraph import HybridGraphStore, ingest
    >>> store = HybridGraphStore(None)
    >>> old = Chunk("p1", "On computable numbers.", {"doi": "10.1112/plms/s2-42.1.230", "title": "Numbers"}, "p1")
    >>> new = Chunk("p2", "Machinery.", {"citations": ["https://doi.org/10.1112/PLMS/s2-42.1.230"], "title": "Mind"})
    >>> _ = ingest([new, old], store, split=None, edges=[CitationEdges()])
    >>> [(edge.source, edge.relation, edge.target, edge.description) for edge in store.edges(["p2"])]
    [('p2', 'cites', 'p1', 'Mind cites Numbers.')]
    """

    def __init__(self, field: str = "citations", relation: str = CITES, *, pending: bool = True) -> None:
        if not field:
            raise ConfigurationError('CitationEdges(field=""): name the metadata field, such as "citations"')
        self.relations = (relation,)
        self._field = field
        self._pending = pending

    def start(self, store: AcceptsChunks) -> None:
        """Clear the names and citations recorded during the previous ingest."""
        self._store, self._names = store, _CitableNames()
        self._waiting: dict[str, _CitingChunk] = {}

    def see(self, document: CutDocument) -> Iterator[EdgeSet]:
        """Record the document's names and citations; delete old edges from all its chunks except the first."""
        if not document.chunks:
            return
        first, *others = document.chunks
        if not document.continues:
            self._names.add(first, document)
        has_own_id = not first.id.startswith(f"{document.id}#")
        cited = _references(document.metadata.get(self._field))
        self._waiting[first.id] = _CitingChunk(first.id, document.title or document.id, has_own_id, cited)
        if others:
            yield EdgeSet((), [chunk.id for chunk in others])

    def finish(self) -> Iterator[EdgeSet]:
        """Yield the edges of all citations, then earlier pending edges that lead to an existing document now."""
        for batch in slices(list(self._waiting.values()), _SLICE):
            earlier = _EarlierDocuments(
                self._store, [name for citing in batch for name in citing.cited if not self._names.find(name)]
            )
            edges = [edge for citing in batch for edge in self._edges(citing, earlier)]
            yield EdgeSet(edges, [citing.chunk for citing in batch])
        yield from self._redirected(self._store)

    def _edges(self, citing: _CitingChunk, earlier: _EarlierDocuments) -> Iterator[Edge]:
        targets: set[str] = set()
        for name in citing.cited:
            target = self._names.find(name) or earlier.find(name)
            if target is None and self._pending:
                bare = _doi(name) or replace_surrogates(name).replace("\0", "\ufffd")
                target = _Citation(bare if citing.has_own_id else first_chunk_id(bare), name)
            if target is not None and target.chunk != citing.chunk and target.chunk not in targets:
                targets.add(target.chunk)
                text = f"{citing.label} cites {target.label}."
                yield Edge(citing.chunk, target.chunk, self.relations[0], 1.0, text)

    def _redirected(self, store: AcceptsChunks) -> Iterator[EdgeSet]:
        """Yield the edges of earlier chunks that cite a document that was missing until now."""
        targets = self._names.pending_targets.items()
        pending_targets = {name: chunk for name, chunk in targets if replace_surrogates(name) == name != chunk}
        if not isinstance(store, ReadsIndex) or not pending_targets:
            return
        for chunk in store.get(list(pending_targets)):
            del pending_targets[chunk.id]  # edges to an existing chunk are not pending
        for ids in slices(list(pending_targets), _SLICE):
            incoming = store.edges(ids, backwards=True)
            sources = sorted(
                {e.source for e in incoming if e.relation in self.relations and e.source not in self._waiting}
            )
            own = [edge for edge in store.edges(sources) if edge.relation in self.relations]
            redirected = [(edge, pending_targets.get(edge.target, edge.target)) for edge in own]
            edges = [replace(edge, target=to) for edge, to in redirected if to != edge.source]
            if sources:
                yield EdgeSet(edges, sources)


class _CitingChunk(NamedTuple):
    chunk: str
    label: str
    has_own_id: bool
    cited: Sequence[str]


class _Citation(NamedTuple):
    chunk: str
    label: str


class _CitableNames:
    def __init__(self) -> None:
        self._exact: dict[str, _Citation] = {}
        self._titles: dict[str, _Citation | None] = {}  # None if several documents have the title
        # First chunk of each document, by the ids under which pending edges may refer to the document.
        self.pending_targets: dict[str, str] = {}

    def add(self, first: Chunk, document: CutDocument) -> None:
        metadata = {**first.metadata, **document.metadata}
        cited = _Citation(first.id, document.title or document.id)
        names = [first.id, document.id, *(text_of(metadata.get(key)) for key in ("source", "uri", "doi"))]
        names += [_doi(name) for name in names]
        for name in filter(None, names):
            self._exact.setdefault(name, cited)
        for name in filter(None, [*names, document.title]):
            self.pending_targets.update({name: first.id, first_chunk_id(name): first.id})
        title = _folded_title(document.title or "")
        if title:
            other = self._titles.setdefault(title, cited)
            self._titles[title] = cited if other is None or other.chunk == first.id else None

    def find(self, name: str) -> _Citation | None:
        """Return the first document with this id, source, uri or DOI, or the only document with this title."""
        return self._exact.get(name) or self._exact.get(_doi(name)) or self._titles.get(_folded_title(name))


class _EarlierDocuments:
    def __init__(self, store: AcceptsChunks, names: Iterable[str]) -> None:
        self._names = _CitableNames()
        self._chunks: dict[str, set[str]] = {}
        distinct = sorted(set(names))
        if not distinct:
            return
        self._chunks = {id: chunks for id, chunks in store.document_chunks(distinct).items() if chunks}
        missing = [name for name in distinct if name not in self._chunks]
        if missing and isinstance(store, ReadsIndex):
            dois = [doi for name in missing if (doi := _doi(name))]
            spellings = [form for doi in dois for form in (doi, f"https://doi.org/{doi}", f"doi:{doi}")]
            conditions = [{key: {"$in": missing}} for key in ("title", "source", "uri")]
            scope = Scope(parse_filter({"$or": [*conditions, {"doi": {"$in": [*missing, *spellings]}}]}))
            for chunk in first_chunks(store.get([*store.find(scope), *missing])):
                self._names.add(chunk, CutDocument(chunk.document, chunk.metadata, (chunk,)))

    def find(self, name: str) -> _Citation | None:
        chunks = self._chunks.get(name)
        if chunks is None:
            return self._names.find(name)
        first = first_chunk_id(name)
        return _Citation(first if first in chunks else name if name in chunks else min(chunks), name)


def _references(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        identifier = next((value[key] for key in _NAMES if value.get(key)), None)
        return [] if identifier is None else _references(identifier)
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return list(dict.fromkeys(name for entry in value for name in _references(entry)))
    name = text_of(value).strip()
    return [name] if name else []


def _doi(name: str) -> str:
    """Return the DOI in a name, in lower case and without a prefix, or "" if the name is not a DOI."""
    match = _DOI.fullmatch(name.strip())
    return match[1].lower() if match else ""


def _folded_title(title: str) -> str:
    return " ".join(title.split()).casefold()
