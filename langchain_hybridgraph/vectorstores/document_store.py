"""LangChain's VectorStore interface for a store of chunks."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Self

from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore

from langchain_hybridgraph import errors
from langchain_hybridgraph.adapters.documents import resolve_as_of, to_document
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import ConfigurationError, FilterError, HybridGraphError
from langchain_hybridgraph.filters.expressions import Filter, parse_filter
from langchain_hybridgraph.options.arguments import check_documents, check_lengths, check_vector
from langchain_hybridgraph.records import (
    Hit,
    Query,
    Scope,
    SourceResult,
    TimeRange,
    check_texts,
    memory_id,
    query_error,
)
from langchain_hybridgraph.search.pipeline import select_hits
from langchain_hybridgraph.times import parse_time

BATCH = 1_000


class DocumentStore(VectorStore):
    """LangChain VectorStore that keeps its Documents in a store of chunks. Scores are cosines; higher is better."""

    @property
    def _chunks(self) -> Any:
        """The store itself, which also has the methods of a store of chunks (see ``stores.protocols``)."""
        return self

    def _overview(self) -> Mapping[str, Any]:
        """Return facts about the store for display in a notebook."""
        return {}

    def _repr_html_(self) -> str:
        from langchain_hybridgraph.display import fields_table

        try:
            return fields_table(repr(self), self._overview())
        except HybridGraphError as error:  # for example, the store is closed
            return fields_table(repr(self), {}, [str(error)])

    # -- writing ----------------------------------------------------------------------------------------------

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        vectors: Sequence[Sequence[float]] | None = None,
        batch_size: int = BATCH,
        **kwargs: Any,
    ) -> list[str]:
        """Add texts and return their ids. Each batch of ``batch_size`` texts is one durable write.

        A missing id is derived from text and metadata; an existing one is replaced, and unchanged texts are not
        embedded again. If ``vectors`` (one per text) are passed, nothing is embedded. Raises ValueError for lists of
        different lengths.
        """
        if kwargs:
            raise TypeError(f"add_texts does not take {sorted(kwargs)}; it takes metadatas, ids, vectors, batch_size")
        text_list = check_texts("texts", "texts", texts)
        check_lengths(len(text_list), metadatas=metadatas, ids=ids, vectors=vectors)
        errors.check_whole_number("batch_size", batch_size, least=1)
        all_metadata = [{} for _ in text_list] if metadatas is None else metadatas
        all_ids = [None] * len(text_list) if ids is None else ids
        chunks = [chunk_from(*each) for each in zip(text_list, all_metadata, all_ids, strict=True)]
        for start in range(0, len(chunks), batch_size):
            part = slice(start, start + batch_size)
            self._chunks.upsert(chunks[part], vectors=None if vectors is None else vectors[part])
        if chunks:
            self._chunks.flush()
        return [chunk.id for chunk in chunks]

    def add_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:
        """Add Documents, with the options of :meth:`add_texts`, and return their ids.

        Raises ConfigurationError if ``documents`` is not a list of Documents.
        """
        return super().add_documents(check_documents(documents), **kwargs)

    @classmethod
    def from_documents(cls, documents: list[Document], embedding: Any = None, **kwargs: Any) -> Self:
        """Return a store with these Documents; options as in :meth:`from_texts`, errors as :meth:`add_documents`."""
        return super().from_documents(check_documents(documents), embedding, **kwargs)

    @classmethod
    async def afrom_documents(cls, documents: list[Document], embedding: Any = None, **kwargs: Any) -> Self:
        """Return the result of :meth:`from_documents` without blocking the event loop."""
        return await super().afrom_documents(check_documents(documents), embedding, **kwargs)

    def delete(
        self,
        ids: list[str] | None = None,
        *,
        document: str | Sequence[str] | None = None,
        filter: Filter | Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> bool | None:
        """Delete chunks that have one of these ids, belong to one of these documents or match the filter.

        Their edges and parents without children are deleted, too; missing ids are ignored. Raises ValueError without
        any condition and for ``ids`` as a single string, and FilterError for an empty filter.
        """
        if kwargs:
            raise TypeError(f"delete does not take {sorted(kwargs)}; pass ids, document or filter")
        if ids is None and document is None and filter is None:
            raise ConfigurationError("delete() needs ids=[…], document=… or filter={…}, got none of them")
        chunks, ids_to_delete = self._chunks, [] if ids is None else list(check_texts("ids", "ids", ids))
        if document is not None:
            documents = [document] if isinstance(document, str) else check_texts("document", "ids", document)
            for ids_of_one in chunks.document_chunks(documents).values():
                ids_to_delete += sorted(ids_of_one)
        if filter is not None:
            parsed = parse_filter(filter)
            if parsed is None:
                raise FilterError("delete(filter={}) would delete everything; pass a filter that is not empty")
            ids_to_delete += chunks.find(Scope(filter=parsed, tenant=chunks.tenant))
        chunks.remove(ids_to_delete)
        return True

    # -- reading ----------------------------------------------------------------------------------------------

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the Documents with these ids in order, without missing ones. Raises ValueError for a single string."""
        return [to_document(chunk) for chunk in self._chunks.get(check_texts("ids", "ids", ids))]

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the ``k`` Documents with the largest cosine; accepts ``filter=``, ``as_of=`` and ``known_at=``.

        With a blank query and a filter, return the first ``k`` matching Documents in the order of their last change.
        """
        return [document for document, _ in self.similarity_search_with_score(query, k, **kwargs)]

    def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> list[tuple[Document, float]]:
        """Return the Documents of :meth:`similarity_search` with their cosines; 1 for a blank query with a filter."""
        return self._nearest_documents(self._query(query, None, k, **kwargs), k)

    def similarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the ``k`` Documents whose vectors are nearest to this vector."""
        return [document for document, _ in self.similarity_search_with_score_by_vector(embedding, k, **kwargs)]

    def similarity_search_with_score_by_vector(
        self, embedding: list[float], k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Return the ``k`` Documents whose vectors are nearest to this vector, best first, each with its cosine."""
        return self._nearest_documents(self._query(None, embedding, k, **kwargs), k)

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Return ``k`` Documents that are similar to the query but not to each other (Carbonell and Goldstein 1998)."""
        return self._diverse(self._query(query, None, k, **kwargs), k, fetch_k, lambda_mult)

    def max_marginal_relevance_search_by_vector(
        self, embedding: list[float], k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Return ``k`` Documents that are similar to the vector but not to each other."""
        return self._diverse(self._query(None, embedding, k, **kwargs), k, fetch_k, lambda_mult)

    @abstractmethod
    def close(self) -> None:
        """Close the store."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return lambda cosine: min(1.0, max(0.0, cosine))

    def _query(
        self,
        text: str | None,
        vector: Sequence[float] | None,
        k: int,
        *,
        filter: Filter | Mapping[str, Any] | None = None,
        as_of: float | str | datetime | TimeRange | None = None,
        known_at: float | str | datetime | None = None,
        **unknown: Any,
    ) -> Query:
        if unknown:
            raise TypeError(
                f"similarity_search does not take {', '.join(unknown)}; the options are k, filter, as_of, known_at"
            )
        errors.check_whole_number("k", k, least=0, most=math.inf)
        if not isinstance(text, str | None):
            raise query_error(text)
        transaction_time = None if known_at is None else parse_time(known_at)
        scope = Scope(parse_filter(filter), self._chunks.tenant, resolve_as_of(as_of), transaction_time)
        return Query(text, k, scope, None if vector is None else check_vector(vector))

    def _nearest_documents(self, query: Query, k: int) -> list[tuple[Document, float]]:
        chunks = self._chunks
        result = chunks.list_chunks(query.scope, k) if _is_filter_only(query) else chunks.vector_search(query, k)
        return [(to_document(chunk), score) for chunk, score in self._read_scored(result, query)]

    def _read_scored(self, result: SourceResult, query: Query) -> list[tuple[Chunk, float]]:
        chunks = self._chunks.read(result.ids, query.scope, {})
        return [(chunks[id], result.scores[id]) for id in result.ids if id in chunks]

    def _diverse(self, query: Query, k: int, fetch_k: int, lambda_mult: float) -> list[Document]:
        if _is_filter_only(query):
            return [document for document, _ in self._nearest_documents(query, k)]
        errors.check_number("lambda_mult", lambda_mult, ge=0, le=1)
        errors.check_whole_number("fetch_k", fetch_k, least=0, most=math.inf)
        candidates = self._read_scored(self._chunks.vector_search(query, max(k, fetch_k)), query)
        hits = [Hit(chunk, score, "vector", {"vector": score}) for chunk, score in candidates]
        vectors = self._chunks.vectors([hit.id for hit in hits])
        return [to_document(hit.chunk) for hit in select_hits(hits, k, mmr_lambda=lambda_mult, vectors=vectors)]


def _is_filter_only(query: Query) -> bool:
    return query.vector is None and not (query.text or "").strip() and query.scope.filter is not None


def chunk_from(text: str, metadata: Mapping[str, Any], id: str | None) -> Chunk:
    """Return a chunk. If ``id`` is None, its id is derived from text and metadata. Raises ValueError for the id ""."""
    errors.check_mapping("metadata", metadata)
    if id is None:
        id = memory_id(text, metadata)
    if not id:
        raise ConfigurationError('an id must not be empty, got ""; pass None to derive the id from the text')
    return Chunk(id, text, metadata)
