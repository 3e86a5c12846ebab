"""LangChain retrievers as sources of candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from langchain_hybridgraph.adapters.documents import chunk_id, content_key, to_document
from langchain_hybridgraph.execution.effects import Effect
from langchain_hybridgraph.records import Chunk, Query, Scope, ScoredId, SourceResult
from langchain_hybridgraph.result import RetrievalResult
from langchain_hybridgraph.retrievers.any_retriever import AnyRetriever, Result
from langchain_hybridgraph.stores.protocols import FindsContents, ReadsChunks, implements

SCORE_KEYS = ("bm25_score", "score", "relevance_score")


@dataclass(frozen=True, slots=True, eq=False)
class RetrieverSource:
    """Source of the Documents that another retriever returns, in that retriever's order.

    For this package's retrievers, the scores are those of the hits. For other retrievers, the scores come from the
    metadata: from ``bm25_score``, ``score`` or ``relevance_score``, tried in this order. A key is used only if all
    Documents have it and are sorted by it, best first. If there is no such key, the scores are 1 − rank/n, with ranks
    from 0.

    A Document whose id is not in ``store`` gets the id that the store uses for the same text and source. With
    ``callbacks``, the retriever's run is a child of the caller's run.
    """

    retriever: BaseRetriever
    weight: float
    id_key: str | None = None
    store: FindsContents | None = None
    callbacks: Any = None
    name: str = "keyword"

    def search(self, query: Query, n: int) -> Effect | None:
        """Return an Effect that calls the retriever, or None if the query has no text.

        The retriever's own setting determines the number of Documents.
        """
        text = query.text
        if text is None:
            return None

        call = AnyRetriever(self.retriever).call(self.name, text, self.callbacks)
        search_now, search_async = call.run, call.arun

        async def asearch() -> SourceResult:
            assert search_async is not None
            return self._source_result(await search_async(), query.scope)

        def run() -> SourceResult:
            return self._source_result(search_now(), query.scope)

        return call._replace(run=run, arun=None if search_async is None else asearch)

    def score(self, query: Query, result: SourceResult, ids: Sequence[str]) -> Effect | None:
        """Return None, because a retriever can score only the chunks that it returns."""
        return None

    def _source_result(self, result: Result | list[Document], scope: Scope) -> SourceResult:
        hits = result.hits if isinstance(result, RetrievalResult) else ()
        documents = [to_document(hit.chunk) for hit in hits] or list(result)
        scores = [hit.score for hit in hits] or _scores(documents)
        ids = [chunk_id(document, self.id_key) for document in documents]
        if self.store is not None and self.id_key is None:
            ids = self._stored_ids(self.store, documents, ids, scope)
        chunks = [Chunk(id, d.page_content, d.metadata) for id, d in zip(ids, documents, strict=True)]
        entries = zip(chunks, scores, strict=True)
        return SourceResult([ScoredId(chunk.id, score, chunk) for chunk, score in entries])

    @staticmethod
    def _stored_ids(store: FindsContents, documents: Sequence[Document], ids: Sequence[str], scope: Scope) -> list[str]:
        """Return the ids under which the store knows these Documents.

        An id that is not in the store is replaced by the store's id for the same text and source, if there is one.
        """
        stored_ids_of = store.ids_of_contents([content_key(document) for document in documents])
        other = {id: stored_ids_of.get(content_key(d), id) for id, d in zip(ids, documents, strict=True)}
        differing = [id for id, name in other.items() if id != name]
        stored_chunks = store.read(differing, scope, {}) if differing and implements(store, ReadsChunks) else {}
        return [id if id in stored_chunks else other[id] for id in ids]


def _scores(documents: Sequence[Document]) -> list[float]:
    for key in SCORE_KEYS:
        scores = [score for d in documents if isinstance(score := d.metadata.get(key), int | float)]
        if len(scores) == len(documents) and scores == sorted(scores, reverse=True):
            return [float(score) for score in scores]
    return [1.0 - place / len(documents) for place in range(len(documents))]
