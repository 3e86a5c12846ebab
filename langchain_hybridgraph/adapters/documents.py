"""Conversion between hits, chunks and LangChain Documents."""

from __future__ import annotations

import copy
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from langchain_core import indexing
from langchain_core.documents import Document

from langchain_hybridgraph.chunks import Chunk, labels_of, replace_surrogates, validity_of
from langchain_hybridgraph.errors import ConfigurationError, quote_value
from langchain_hybridgraph.execution.threads import ForkSafeLock
from langchain_hybridgraph.filters.expressions import compare
from langchain_hybridgraph.records import ALL_TIME, Annotate, Hit, Scope, content_id, filterable
from langchain_hybridgraph.stores.row_table import MetadataColumns
from langchain_hybridgraph.times import parse_time

if TYPE_CHECKING:
    from langchain_core.document_loaders import BaseLoader
    from langchain_core.vectorstores import VectorStore

    from langchain_hybridgraph.chunks import Mask

Match = TypeVar("Match")


def chosen_level(requested_level: Annotate | None, return_scores: bool | None, own: Annotate) -> Annotate:
    """Return the level of annotation for a call.

    It is ``requested_level`` or else ``own``, the retriever's. With ``return_scores``, "none" becomes "score".
    """
    if not isinstance(return_scores, bool | None):
        raise ConfigurationError(f"return_scores must be true or false, got {quote_value(return_scores)}")
    level = own if requested_level is None else requested_level
    return "score" if return_scores and level == "none" else level


def to_document(chunk: Chunk) -> Document:
    """Convert a chunk to a Document with the same id, text and metadata."""
    return Document(id=chunk.id, page_content=chunk.text, metadata=dict(chunk.metadata))


def chunk_id(document: Document, id_key: str | None = None) -> str:
    """Return the value of ``id_key``, the Document's id, or a hash of its text and source.

    Raises ValueError if the metadata have no ``id_key``.
    """
    if id_key is not None:
        if document.metadata.get(id_key) is None:
            raise ValueError(
                f"id_key={quote_value(id_key)}: the document {quote_value(document.page_content[:60])} does not have "
                "this metadata key; add it, or pass another id_key"
            )
        return str(document.metadata[id_key])
    return document.id or content_id(*content_key(document))


def content_key(document: Document) -> tuple[str, str]:
    """Return the text and the source of a Document, which identify it if it has no id."""
    return document.page_content, str(document.metadata.get("source", ""))


def chunk_of(document: Document, id: str) -> Chunk:
    """Convert a Document to a chunk with this id."""
    return Chunk(id, replace_surrogates(document.page_content), document.metadata)


def with_user_metadata(document: Document, id: str, user_chunk: Chunk | None) -> Chunk:
    """Convert a stored Document to a chunk, with missing metadata from the user's chunk: some stores drop metadata."""
    chunk = chunk_of(document, id)
    if user_chunk is None or user_chunk.metadata.keys() <= chunk.metadata.keys():
        return chunk
    return replace(chunk, metadata={**user_chunk.metadata, **chunk.metadata})


def annotate(
    hits: Sequence[Hit], method: str, degraded: Sequence[str] = (), prefix: str = "", level: Annotate = "all"
) -> list[Document]:
    """Convert hits to new Documents whose metadata describe how they were found; stored objects are not changed.

    At the level ``"score"`` only the score is added, and at ``"none"`` the metadata are returned as stored. ``prefix``
    is put in front of each added key. An added key overwrites a stored key with the same name.
    """
    documents = []
    for rank, hit in enumerate(hits, start=1):
        stored = hit.chunk.metadata
        # Stored metadata is parsed again for each query, but a dict passed by the caller must not be shared.
        is_shared = isinstance(stored, dict) and not _PLAIN.issuperset(map(type, stored.values()))
        metadata = dict(copy.deepcopy(stored) if is_shared else stored)
        if level != "none":
            ours = _annotations(hit, rank, method, degraded) if level == "all" else score_notes(hit.score)
            metadata |= {prefix + key: value for key, value in ours.items()}
        documents.append(Document(id=hit.chunk.id, page_content=hit.chunk.text, metadata=metadata))
    return documents


def score_notes(score: float) -> dict[str, Any]:
    """Return a mapping with the score under the two keys that LangChain's tools read."""
    return {"relevance_score": score, "score": score}


def _annotations(hit: Hit, rank: int, method: str, degraded: Sequence[str]) -> dict[str, Any]:
    matched_chunk = hit.child or hit.chunk
    labels = labels_of(hit.chunk.metadata)
    notes: dict[str, Any] = {
        "retrieval_rank": rank,
        **score_notes(hit.score),
        "retrieval_method": method,
        "retrieval_source": hit.source,
        "vector_score": hit.vector_score,
        "bm25_score": hit.bm25_score,
        "rerank_score": hit.rerank_score,
        "score_breakdown": dict(hit.parts),
        "hops": hit.hops,
        "source_path": list(hit.path),
        "graph_context": [dict(edge) for edge in hit.graph_context],
        "chunk_id": matched_chunk.id,
        "parent_id": matched_chunk.parent,
    }
    if labels:
        notes["label"] = labels[0]
    if degraded:
        notes["degraded"] = list(degraded)
    return notes


_PLAIN = frozenset((str, int, float, bool, type(None)))


def resolve_as_of(as_of: Any) -> float | None:
    """Return the time at which chunks have to be valid, in Unix seconds (None: now), or None for ``ALL_TIME``."""
    if as_of is ALL_TIME:
        return None
    return time.time() if as_of is None else parse_time(as_of)


# Metadata keys in which vector stores may return an id that is missing from Document.id.
ID_KEYS = ("_id", "pk", "id")


def metadata_id(metadata: Mapping[str, Any], keys: Sequence[str] = ID_KEYS) -> str | None:
    """Return the value of the first of ``keys`` that has one, as a string, or None.

    >>> metadata_id({"pk": 7, "id": "x"})
    '7'
    """
    return next((str(metadata[key]) for key in keys if metadata.get(key) is not None), None)


class Identity:
    """Assignment of ids to texts. A text gets the same id whether the vector store or the keyword index finds it.

    ``documents`` are the user's Documents, and ``stored_documents`` are the vector store's current Documents. Pass None
    if the vector store cannot list them; a stored Document is then matched when a search finds it.

    The id of a text is the first of these that is available:

    - the value of ``id_key`` in the metadata
    - the ``id`` of the user's Document
    - the id of the text in the vector store
    - an id in the metadata of the user's Document (``_id``, ``pk`` or ``id``), unless another text has the same id
    - a hash of text and source

    Each of the user's Documents is matched with the stored Document that has the same id, or else, once, with the one
    of the same text whose metadata agree best, unless their sources differ.
    """

    def __init__(
        self,
        documents: Sequence[Document],
        stored_documents: Collection[Document] | None = None,
        id_key: str | None = None,
    ) -> None:
        self._id_key = id_key
        self.id_of: dict[str, str] = {}
        """Assigned ids of the texts whose ids in the store are known, by these ids."""
        self.stored_id_of: dict[str, str] = {}
        """The store's own ids of these texts, by their assigned ids."""
        self._by_text: dict[str, list[tuple[Document, str]]] = defaultdict(list)
        paired = _pairs(documents, stored_documents or (), id_key)
        texts: dict[str, set[str]] = defaultdict(set)
        for document in documents:
            if document.id is None and (id := metadata_id(document.metadata)) is not None:
                texts[id].add(document.page_content)
        self.extra_keys: set[str] = set()
        """Metadata keys that only the user's Documents have, so the store cannot filter by them."""
        self.ids: list[str] = []
        for document, partner in zip(documents, paired, strict=True):
            theirs = None if partner is None else partner.id
            if partner is not None and partner is not document:
                self.extra_keys |= document.metadata.keys() - partner.metadata.keys()
            id = chunk_id(document, id_key)
            if id_key is None and document.id is None:
                own = metadata_id(document.metadata)
                # Several texts may share an id, for example the id of the document from which they were taken.
                id = theirs or (own if own and len(texts[own]) == 1 else id)
            self.ids.append(id)
            if theirs is not None:
                self.pair(id, theirs)
        for document, id in zip(documents, self.ids, strict=True):
            if id not in self.stored_id_of:
                self._by_text[replace_surrogates(document.page_content)].append((document, id))
        self._passed_ids = frozenset(self.ids)

    def of_stored(self, document: Document) -> str:
        """Return the id for a Document that the vector store returned, and record the store's own id."""
        theirs = document.id
        if theirs is not None and theirs in self.id_of:
            return self.id_of[theirs]
        id = self._match_id(document)
        if theirs is not None:
            self.pair(id, theirs)
        return id

    def forget(self, stored_ids: Iterable[str]) -> list[str]:
        """Forget texts that were deleted from the vector store, given their store ids; return their assigned ids."""
        ids = [self.id_of.pop(theirs) for theirs in list(stored_ids) if theirs in self.id_of]
        for id in ids:
            self.stored_id_of.pop(id, None)
        return ids

    def pair(self, id: str, theirs: str) -> None:
        """Assign an id to the text with this id in the store."""
        self.id_of[theirs] = id
        self.stored_id_of.setdefault(id, theirs)

    def _match_id(self, document: Document) -> str:
        if self._id_key is not None and document.metadata.get(self._id_key) is not None:
            return str(document.metadata[self._id_key])
        if document.id in self._passed_ids:
            return document.id
        candidates = [
            (user_document, id)
            for user_document, id in self._by_text.get(replace_surrogates(document.page_content), ())
            if id not in self.stored_id_of or document.id is None
        ]
        return _closest(document, candidates) or chunk_id(document)


def _pairs(
    documents: Sequence[Document], stored_documents: Collection[Document], id_key: str | None
) -> list[Document | None]:
    def own_id(document: Document) -> str | None:
        if id_key is not None:
            return metadata_id(document.metadata, (id_key,))
        return document.id or metadata_id(document.metadata)

    by_id = {id: document for document in stored_documents if (id := own_id(document)) is not None}
    pairs = [by_id.get(own_id(document) or "") for document in documents]
    paired_ids = {partner.id for partner in pairs if partner is not None}
    free: dict[str, list[tuple[Document, Document]]] = defaultdict(list)
    for document in stored_documents:
        if document.id not in paired_ids:
            free[replace_surrogates(document.page_content)].append((document, document))
    for place, document in enumerate(documents):
        same_text = free.get(replace_surrogates(document.page_content), []) if pairs[place] is None else []
        if (best := _closest(document, same_text)) is not None:
            same_text.remove((best, best))
            pairs[place] = best
    return pairs


def _closest(document: Document, others: Iterable[tuple[Document, Match]]) -> Match | None:
    """Return the value of the other Document with the same or an unknown source whose metadata agree best."""
    source, best, most = document.metadata.get("source"), None, (False, -1)
    for other, value in others:
        other_source = other.metadata.get("source")
        equal_values = sum(other.metadata.get(key) == value for key, value in document.metadata.items())
        agreement = (source == other_source, equal_values)
        if (source == other_source or None in (source, other_source)) and agreement > most:
            best, most = value, agreement
    return best


class ScopedRows(Mapping[str, Chunk]):
    """Chunks by id, with a search for the chunks in a scope.

    Each version of a chunk gets a new row. ``ids`` are the ids by row, ``row_of`` has the current row of each id, and
    ``living`` has one bool per row: whether it is current. Thread-safe.
    """

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.row_of: dict[str, int] = {}
        self.living: Mask = np.zeros(0, np.bool_)
        self._chunks: list[Chunk] = []
        self._columns = MetadataColumns(self._read)
        self._times = np.zeros((2, 0))  # begins and ends
        self._changing = ForkSafeLock()

    def __getitem__(self, id: str) -> Chunk:
        return self._chunks[self.row_of[id]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.row_of)

    def __len__(self) -> int:
        return len(self.row_of)

    def renamed(self, new_id: Callable[[str], str]) -> Self:
        """Return the same rows, with other ids, as a new object that can be changed independently."""
        with self._changing:
            rows = type(self)()
            rows._chunks, rows._times, rows.living = self._chunks.copy(), self._times, self.living
            rows.ids = list(map(new_id, self.ids))
            rows.row_of = {rows.ids[row]: row for row in self.row_of.values()}
        return rows

    def change(self, remove: Collection[str], ids: Sequence[str], chunks: Sequence[Chunk]) -> list[int]:
        """Remove chunks, then add or replace those with these ids; return the rows that are no longer current."""
        with self._changing:
            rows = range(len(self.ids), len(self.ids) + len(ids))
            outdated = [self.row_of[id] for id in {*remove, *ids} if id in self.row_of]
            for id in remove:
                self.row_of.pop(id, None)
            times = np.array([validity_of(chunk.metadata) for chunk in chunks]).reshape(-1, 2)
            self._times = np.append(self._times, times.T, axis=1)
            self._chunks += chunks
            self.ids += ids
            self.row_of |= zip(ids, rows, strict=True)
            outdated += [row for id, row in zip(ids, rows, strict=True) if self.row_of[id] != row]
            living = np.append(self.living, np.ones(len(ids), np.bool_))
            living[outdated] = False
            self.living = living
        return outdated

    def mask(self, scope: Scope) -> Mask | None:
        """Return one bool per row (whether its chunk is in the scope), or None if the scope excludes nothing."""
        begins, ends = self._times
        masks: list[Mask] = []
        if scope.as_of is not None and np.isfinite([begins.max(initial=-np.inf), ends.min(initial=np.inf)]).any():
            masks.append((begins <= scope.as_of) & (ends >= scope.as_of))
        if scope.tenant is not None:
            masks.append(self._columns.mask(compare("tenant", "$eq", scope.tenant), len(begins)))
        if scope.filter is not None:
            masks.append(self._columns.mask(scope.filter, len(begins)))
        return np.logical_and.reduce(masks) if masks else None

    def _read(self, start: int, stop: int) -> Iterator[tuple[int, Mapping[str, Any]]]:
        for row in range(start, stop):
            yield row, filterable(self._chunks[row])


# LangChain skips Documents whose key the record manager contains. With ids as keys, it would never update a changed
# text, so all Documents are passed on; the store itself skips unchanged Documents.
_DEFAULTS: dict[str, Any] = {"force_update": True, "batch_size": 1_000}


def index(
    documents: Iterable[Document] | BaseLoader,
    record_manager: indexing.RecordManager,
    store: VectorStore,
    **options: Any,
) -> indexing.IndexingResult:
    """Run LangChain's ``index`` and keep the Documents' own ids, so that edges and ``parent_id`` remain valid.

    ``options`` are passed to LangChain (``batch_size``, which is 1,000 by default, ``cleanup``, ``source_id_key`` …). A
    changed Document is updated. For an unchanged Document, a HybridGraphStore does only one lookup in its catalog.
    Raises ValueError for a Document without an id.

    >>> from langchain_core.indexing import InMemoryRecordManager
    >>> from langchain_hybridgraph import HybridGraphStore
    >>> manager = InMemoryRecordManager("example")
    >>> manager.create_schema()
    >>> index([Document(id="a", page_content="text")], manager, HybridGraphStore())["num_added"]
    1
    """
    return indexing.index(documents, record_manager, store, key_encoder=kept_id, **_DEFAULTS | options)


async def aindex(
    documents: Iterable[Document] | BaseLoader,
    record_manager: indexing.RecordManager,
    store: VectorStore,
    **options: Any,
) -> indexing.IndexingResult:
    """Run :func:`index` asynchronously, through ``langchain_core.indexing.aindex``."""
    return await indexing.aindex(documents, record_manager, store, key_encoder=kept_id, **_DEFAULTS | options)


def kept_id(document: Document) -> str:
    """Return the Document's own id, as LangChain's ``key_encoder``. Raises ValueError if it has none."""
    if not document.id:
        raise ValueError(
            f"a document without an id cannot be indexed by its id: {quote_value(document.page_content[:60])}; "
            "give every Document an id"
        )
    return document.id
