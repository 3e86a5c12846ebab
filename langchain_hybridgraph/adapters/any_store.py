"""LangChain vector stores as stores of the pipeline."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore

from langchain_hybridgraph.adapters import vector_stores
from langchain_hybridgraph.adapters.chroma import FEW, ChromaAdapter, FilteredSearch
from langchain_hybridgraph.adapters.documents import Identity, ScopedRows, content_key, to_document, with_user_metadata
from langchain_hybridgraph.adapters.keyword_index import Freshness, Refresh
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.execution.effects import Effect
from langchain_hybridgraph.records import Query, Scope, SourceResult, best_first, coverage_of, in_scope
from langchain_hybridgraph.search.sources import KeywordSource
from langchain_hybridgraph.stores.tree import Tree, TreeRows, TreeState, tree_of_chunks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.chunks import Vector


# Classes are recognised by their name and an attribute of the class (not of its instances), so that libraries that are
# not in use are not imported.
_ADAPTERS: Mapping[tuple[str, str], Callable[[Any], vector_stores.StoreAdapter]] = {
    ("Chroma", "_collection"): ChromaAdapter,
    ("QdrantVectorStore", "client"): vector_stores.QdrantAdapter,
    ("Milvus", "client"): vector_stores.MilvusAdapter,
    ("PGVector", "create_collection"): vector_stores.PGVectorAdapter,
    ("FAISS", "merge_from"): vector_stores.FAISSAdapter,
    ("InMemoryVectorStore", "load"): vector_stores.InMemoryAdapter,
    ("LlamaIndexVectorStore", "nodes"): lambda store: store.adapter(),
}


def adapter_of(store: VectorStore) -> vector_stores.StoreAdapter:
    """Return the adapter for the class of a vector store or its nearest base class, or else the general adapter."""
    for kind in type(store).__mro__:
        for (name, attribute), adapter in _ADAPTERS.items():
            if kind.__name__ == name and hasattr(kind, attribute):
                return adapter(store)
    return vector_stores.StoreAdapter(store)


# Maximum number of Documents that are requested because the vector store cannot apply a filter.
MOST_FETCHED = 20_000


class VectorStoreAdapter:
    """Pipeline store that combines a LangChain VectorStore with a keyword index.

    A filter is applied in the first of these ways that the vector store supports:

    - If the store can return ids without texts (Chroma) and there is a keyword index, the filter is evaluated in memory
      on the metadata of all texts.
    - If the store accepts a function or can express the filter in its own language, the store applies the filter.
    - Otherwise, more and more results are requested until enough of them match.

    The metadata of every hit are checked against the filter afterwards. A text's tenant is under ``tenant``.

    The pipeline uses the ids that ``identity`` assigns; only this class uses the vector store's own ids.
    ``freshness`` has the keyword index and keeps it up to date. ``identity`` and ``extra_chunks``, chunks by assigned
    id, are used only without it. ``documents`` are the Documents in the store, if the index is of the user's Documents.
    """

    def __init__(
        self,
        vector_store: VectorStore,
        *,
        freshness: Freshness | None = None,
        identity: Identity | None = None,
        extra_chunks: Mapping[str, Chunk] = MappingProxyType({}),
        documents: Iterable[Document] = (),
    ) -> None:
        self.vector_store = vector_store
        self.freshness = freshness
        self.texts = None if freshness is None else freshness.texts
        self._identity = identity or Identity([])
        self._extra_chunks = extra_chunks
        self._ids_by_origin = {content_key(to_document(chunk)): id for id, chunk in extra_chunks.items()}
        self._adapter = adapter_of(vector_store) if freshness is None else freshness.adapter
        self._brings_parents = False
        self._tree: tuple[int, TreeState, TreeRows] | None = None  # with the version of the texts
        self._filtered: FilteredSearch | None = None
        if freshness is not None and isinstance(self._adapter, ChromaAdapter):
            rows = ScopedRows() if freshness.texts.is_given else freshness.texts.chunks.renamed(self._stored_id)
            self._filtered = FilteredSearch(self._adapter, self._chunk, rows, documents)
            freshness.on_read = self._filtered.note

    @property
    def identity(self) -> Identity:
        """The current assignment of ids to texts. It is replaced when all texts in the index are replaced."""
        return self._identity if self.texts is None else self.texts.identity

    @property
    def has_fast_keyword_search(self) -> bool:
        """Whether a keyword search is so fast that it is not worth starting a thread."""
        return self.texts is not None and len(self.texts.chunks.ids) <= self.texts.index.quick_rows

    def read(self, ids: Sequence[str], scope: Scope, result_chunks: Mapping[str, Chunk]) -> dict[str, Chunk]:
        """Return the chunks with these ids that are in the scope, from the results, the texts or the vector store."""
        return self._read(ids, scope, result_chunks)

    @property
    def has_parents(self) -> bool:
        """Whether any text that was read or found so far has a parent in its metadata."""
        return self._brings_parents or (self.texts is not None and self.texts.has_parents)

    def read_parents(self, ids: Sequence[str], scope: Scope) -> dict[str, Chunk]:
        """Return the parents with these ids that belong to the scope's tenant and are valid at its time."""
        return self._read(ids, scope, {}, filtered=False)

    def ids_of_contents(self, contents: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Return the ids of the chunks in ``extra_chunks`` that have these texts and sources, by (text, source)."""
        return {content: id for content in contents if (id := self._ids_by_origin.get(content)) is not None}

    def ids_of_copies(self, chunks: Iterable[Chunk]) -> dict[str, str]:
        """Return, for chunks with copies in the vector store, the id of the copy that is in the keyword index."""
        return {} if self.freshness is None else self.freshness.ids_of_copies(chunks)

    def originals(self, ids: Sequence[str]) -> dict[str, Chunk | None]:
        """Return the vector store's current chunk for each id, or None if the text has been deleted.

        Ids of texts that were never seen in the store are left out. The result is {} if the store cannot look up ids.
        """
        stored = {theirs: id for id in ids if (theirs := self.identity.stored_id_of.get(id)) is not None}
        if not stored:
            return {}
        try:
            there = {document.id: document for document in self._adapter.get(list(stored))}
        except NotImplementedError:
            return {}
        if self._filtered is not None:
            self._filtered.note(there.values())
        return {id: self._completed(now, id) if (now := there.get(theirs)) else None for theirs, id in stored.items()}

    def _read(
        self, ids: Sequence[str], scope: Scope, result_chunks: Mapping[str, Chunk], *, filtered: bool = True
    ) -> dict[str, Chunk]:
        texts = self.texts.chunks if self.texts else self._extra_chunks
        chunks = {id: chunk for id in ids if (chunk := result_chunks.get(id) or texts.get(id)) is not None}
        if missing := [id for id in ids if id not in chunks]:
            with suppress(NotImplementedError):  # the store cannot look up ids
                documents = self._adapter.get([self._stored_id(id) for id in missing])
                chunks |= {chunk.id: chunk for chunk in map(self._chunk, reversed(documents))}
        return {id: chunks[id] for id in ids if id in chunks and in_scope(chunks[id], scope, filtered=filtered)}

    def vector_search(self, query: Query, n: int) -> SourceResult:
        """Return at most n Documents in the query's scope, nearest first, ties by id."""
        vector = self._adapter.embedded(query)
        if vector is not None:
            with suppress(Exception):  # a store that cannot be listed or read by id now may still be searched
                if (result := self._nearest_ids(vector, n, query)) is not None:
                    return result
        where = self._pushed_down(query.scope)
        is_applied = where is not None or _is_free(query.scope)
        fetched = n if is_applied else 2 * n
        while True:
            nearest = self._adapter.search(query.text, vector, fetched, where)
            hits = list(self._in_scope(nearest.documents, query.scope))
            scores, chunks = {chunk.id: score for chunk, score in hits}, {chunk.id: chunk for chunk, _ in hits}
            result = self._result(scores, chunks, n, query, vector, are_cosines=nearest.are_cosines)
            if len(result.ids) >= n or len(nearest.documents) < fetched or fetched >= MOST_FETCHED:
                return result._replace(reason=None if is_applied else "filter-post-applied")
            fetched *= 4

    def _nearest_ids(self, vector: Vector, n: int, query: Query) -> SourceResult | None:
        """Return the nearest n ids in the scope, or None if their texts have to be read.

        More ids are requested if most of them belong to copies of a text.
        """
        texts, scope = self.texts, query.scope
        if texts is None or (self._filtered is None and (texts.is_given or texts.chunks.mask(scope) is not None)):
            return None
        fetched = n
        while True:
            if self._filtered is None:
                cosines = self._adapter.nearest_ids(vector, fetched)
            else:
                cosines = self._filtered.ids(vector, fetched, scope)
            if cosines is None:
                return None
            result = self._result(self._without_texts(cosines), {}, n, query, vector)
            if 2 * len(result.ids) >= n or len(cosines) < fetched or fetched >= MOST_FETCHED:
                return result
            fetched *= 4

    def _without_texts(self, cosines: Mapping[str, float]) -> dict[str, float]:
        """Return the cosines by assigned id. Texts of the store without such an id are read, as it may depend on them.

        If several texts of the store have one id, the nearest counts.
        """
        ids = list(map(self.identity.id_of.get, cosines))
        if None in ids:
            for document in self._adapter.get([theirs for theirs, id in zip(cosines, ids, strict=True) if id is None]):
                self._chunk(document)
            ids = list(map(self.identity.id_of.get, cosines))
        if self.freshness is not None:
            ids = self.freshness.with_ids_of_copies(cosines, ids)
        pairs = reversed(list(zip(ids, cosines.values(), strict=True)))
        return {id: cosine for id, cosine in pairs if id is not None}

    def _result(
        self,
        scores: Mapping[str, float],
        chunks: Mapping[str, Chunk],
        n: int,
        query: Query,
        vector: Vector | None,
        *,
        are_cosines: bool = True,
    ) -> SourceResult:
        best = best_first(scores.items(), n)
        chunks = {id: chunks[id] for id in best} if chunks else {}
        background = None if vector is None else self._adapter.background(vector)
        coverage = coverage_of(getattr(self.vector_store, "embeddings", None), query)
        return SourceResult.of(
            best, chunks=chunks, vector=vector, background=background, are_cosines=are_cosines, coverage=coverage
        )

    def scoped_tree(self, scope: Scope) -> Tree:
        """Return the directory tree of the texts in a scope, with the same rules as that of the embedded store."""
        assert self.texts is not None, "a tree needs texts that can be listed"
        if self._tree is None or self._tree[0] != self.texts.index.applied_version:
            version, chunks, rows = self.texts.state()
            self._tree = version, *tree_of_chunks(chunks, rows, self._nearest)
        _, tree_state, tree_rows = self._tree
        mask, alive = self.texts.chunks.mask(scope), tree_state.alive
        return Tree(tree_state, tree_rows, alive if mask is None else alive & mask[: len(alive)])

    def _nearest(self, vector: Vector, ids: Sequence[str], n: int) -> Sequence[str]:
        """Sort ``ids`` by distance from the vector, nearest first. Of many ids, only 2 n may be returned."""
        if self._filtered is not None and len(ids) > FEW:
            stored = {self._stored_id(id): id for id in ids}
            return [stored[theirs] for theirs in self._filtered.nearest(vector, 2 * n, list(stored))]
        cosines = self.vector_scores(vector, ids)
        return sorted(ids, key=lambda id: -cosines.get(id, -1.0))

    def vector_scores(self, vector: Vector, ids: Sequence[str]) -> dict[str, float]:
        """Return the cosine of each chunk with the vector, by id.

        Chunks whose vectors the store does not return are left out.
        """
        ids_by_stored_id = {self._stored_id(id): id for id in ids}
        scores = self._adapter.scores(vector, list(ids_by_stored_id))
        return {ids_by_stored_id[theirs]: score for theirs, score in scores.items()}

    def keyword_search(self, query: Query, n: int) -> SourceResult:
        """Return the n chunks in the query's scope with the best BM25 scores, best first, ties by id."""
        if self.texts is None or query.text is None:
            return SourceResult([], reason="no-keyword-index")
        if not self.texts.chunks and self.texts.is_given:
            return SourceResult(
                [], reason="no-keyword-index", remark="documents= was empty, so keyword search finds nothing"
            )
        ids, allowed_texts = self.texts.chunks.ids, self.texts.chunks.mask(query.scope)
        result = self.texts.index.result(
            query.text, n, allowed_texts, lambda rows: [ids[row] for row in rows], self.texts.reason
        )
        # The vector store may have other metadata than the index, so its hits may be texts that this mask leaves out.
        return result.with_ids()._replace(is_complete=result.is_complete and allowed_texts is None)

    def keyword_scores(self, text: str, ids: Sequence[str]) -> dict[str, float]:
        """Return the BM25 scores of these chunks by id, leaving out chunks that contain no word of the text."""
        if self.texts is None:
            return {}
        rows = [self.texts.chunks.row_of[id] for id in ids if id in self.texts.chunks.row_of]
        return {self.texts.chunks.ids[row]: score for row, score in self.texts.index.scores(text, rows).items()}

    def list_chunks(self, scope: Scope, n: int, *, refresh: Refresh = "auto") -> SourceResult:
        """Return the first n texts in a scope.

        The user's Documents come in the order in which they were passed. If none were passed, the texts come in the
        order in which the store lists them. Later additions and changes come last.

        Without a keyword index, the texts are read from the store. If the store cannot list them, it is searched for an
        empty string.
        """
        if self.texts is None or self.freshness is None:
            if not self._adapter.can_list:
                return self.vector_search(Query("", min(n, MOST_FETCHED), scope), min(n, MOST_FETCHED))
            documents = ((document, 1.0) for document in self._adapter.documents())
            chunks = {chunk.id: chunk for chunk, _ in islice(self._in_scope(documents, scope), n)}
            return SourceResult.of(dict.fromkeys(chunks, 1.0), chunks=chunks)
        reason, remark = self.freshness.bring_up_to_date(refresh)
        mask = self.texts.chunks.mask(scope)
        rows = sorted(self.texts.chunks.row_of.values())
        allowed_rows = (row for row in rows if mask is None or (row < len(mask) and mask[row]))
        ids = [self.texts.chunks.ids[row] for row in islice(allowed_rows, n)]
        return SourceResult.of(dict.fromkeys(ids, 1.0), reason=reason, remark=remark)

    def _pushed_down(self, scope: Scope) -> Any:
        """Return a filter for the store that every Document in the scope matches, or None."""
        if _is_free(scope):
            return None
        # The store cannot filter by derived metadata, or by metadata that only the passed Documents have.
        keys = frozenset() if scope.filter is None else {path[0] for path in scope.filter.keys()}  # noqa: SIM118 - a Filter is not a dict
        is_derived, extra_keys = "document_id" in keys, self.identity.extra_keys

        def admits(document: Document) -> bool:
            return admits_metadata(document.metadata) if document.id is None else in_scope(self._chunk(document), scope)

        def admits_metadata(metadata: dict[str, Any]) -> bool:
            if is_derived and metadata.get("document_id") is None and metadata.get("source") is None:
                return True  # the document id derives from an unknown id, so the Document can only be checked later
            return in_scope(Chunk("", "", metadata), scope)

        if self._adapter.filter_argument == "document":
            return admits
        if self._adapter.filter_argument == "metadata" and not extra_keys:
            return admits_metadata
        if scope.filter is None or is_derived or not extra_keys.isdisjoint(keys):
            return None
        return vector_stores.translate(scope.filter, self._adapter.dialect)

    def _stored_id(self, id: str) -> str:
        return self.identity.stored_id_of.get(id) or id

    def _in_scope(self, documents: Iterable[tuple[Document, float]], scope: Scope) -> Iterator[tuple[Chunk, float]]:
        """Yield the chunks and scores of the Documents in the scope, each id once."""
        ids: set[str] = set()
        for document, score in documents:
            chunk = self._chunk(document)
            if chunk.id not in ids and in_scope(chunk, scope):
                ids.add(chunk.id)
                yield chunk, score

    def _chunk(self, document: Document) -> Chunk:
        return self._completed(document, self.identity.of_stored(document))

    def _completed(self, document: Document, id: str) -> Chunk:
        user_chunk = self._extra_chunks.get(id) if self.texts is None else self.texts.user_chunk(id)
        chunk = with_user_metadata(document, id, user_chunk)
        self._brings_parents = self._brings_parents or chunk.parent is not None
        return chunk


class StoreWithVectors(VectorStoreAdapter):
    """Pipeline store whose VectorStore can return vectors."""

    def vectors(self, ids: Sequence[str]) -> NDArray[np.float32]:
        """Return one unit vector per id, in the shape (len(ids), dimension). An id without a vector gets zeros."""
        stored = [self._stored_id(id) for id in ids]
        by_id = self._adapter.vectors(stored)
        width = len(next(iter(by_id.values()), ()))
        return np.stack([by_id.get(id, np.zeros(width, np.float32)) for id in stored])


@dataclass(frozen=True, slots=True, eq=False)
class FreshKeywordSource(KeywordSource):
    """Keyword search that updates the keyword index before it searches.

    The store is not checked if another call has checked it since this call started.
    """

    store: VectorStoreAdapter
    refresh: Refresh = "auto"
    started_at: float = field(default_factory=time.monotonic)

    def search(self, query: Query, n: int) -> Effect | None:
        """Return the call that searches for the words of the query, or None if the query has no text."""
        if query.text is None:
            return None
        store, freshness, options = self.store, self.store.freshness, (self.refresh, self.started_at)

        def run() -> SourceResult:
            reason, remark = (None, None) if freshness is None else freshness.bring_up_to_date(*options)
            result = store.keyword_search(query, n)
            return result if reason is None else result._replace(reason=reason, remark=remark)

        quick = store.has_fast_keyword_search and (freshness is None or freshness.is_up_to_date(*options))
        return Effect(self.name, run, quick=quick, owner=store)


def pipeline_store(vector_store: VectorStore, **options: Any) -> VectorStoreAdapter:
    """Create the store that lets a pipeline use a VectorStore; ``options`` are those of :class:`VectorStoreAdapter`."""
    kind = StoreWithVectors if adapter_of(vector_store).gives_vectors else VectorStoreAdapter
    return kind(vector_store, **options)


def _is_free(scope: Scope) -> bool:
    return scope.filter is None and scope.tenant is None
