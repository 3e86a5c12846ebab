"""Vector, keyword and hybrid search in Milvus.

A hybrid search needs the cosine and the BM25 score of each chunk, but Milvus' ``hybrid_search`` returns only one score.
This module therefore calls it with the weight 0 for the vector search. The returned score is then the BM25 score, or 0
for a chunk that only the vector search found. The cosine is computed from the chunk's vector, which is also returned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from langchain_hybridgraph.records import Query, Scope, ScoredId, SourceResult
from langchain_hybridgraph.stores.engines.bm25 import K1
from langchain_hybridgraph.stores.milvus.connection import Calls, ServerCall, client_library
from langchain_hybridgraph.stores.milvus.index import CHUNK_FIELDS, MilvusIndex
from langchain_hybridgraph.stores.milvus.limits import MOST_RESULTS
from langchain_hybridgraph.stores.milvus.rows import StoredRow, query_words, stored_row
from langchain_hybridgraph.stores.protocols import HybridResult
from langchain_hybridgraph.text.query_length import MOST_WORDS

if TYPE_CHECKING:
    from langchain_hybridgraph.records import Vector

# The idf of a word that occurs in one of a billion texts.
MOST_IDF = 21.0
# Number of extra results, fetched so that ties at the end of the list can be ordered by id.
SPARE = 16


class Searcher:
    """Vector, keyword and hybrid searches in one store.

    Each search is a generator that yields calls to the server, so it can be run by a thread or by an event loop (see
    :meth:`MilvusConnection.run` and :meth:`MilvusConnection.arun`).
    """

    def __init__(self, index: MilvusIndex) -> None:
        self._index = index

    def vector_search(self, query: Query, n: int) -> Calls[SourceResult]:
        """Return the ``n`` chunks with the largest cosine."""
        vector = self._index.query_vector(query.text, query.vector)
        if n < 1 or not vector.any():
            return SourceResult([], reason=_without_vector(query) if n > 0 else None)
        entries = yield from self._search(query.scope, n, "vector", vector.tolist(), "COSINE")
        return SourceResult(entries, vector)

    def keyword_search(self, query: Query, n: int) -> Calls[SourceResult]:
        """Return the ``n`` chunks with the largest BM25 score."""
        self._index.check_scope(query.scope)
        if query.text is None:
            return SourceResult([], reason="no-query-text")
        words = self._words(query.text)
        if n < 1 or not words:
            return SourceResult([])
        entries = yield from self._search(query.scope, n, "bm25", words, "BM25")
        return self._keyword_result(query.text, entries, n)

    def hybrid_search(self, query: Query, n: int) -> Calls[HybridResult]:
        """Return the ``n`` chunks with the largest cosine and the ``n`` chunks with the largest BM25 score."""
        words = self._words(query.text or "")
        vector = self._index.query_vector(query.text, query.vector)
        if n < 1 or not words or not vector.any():
            # Without words or a vector, at least one of the two searches makes no call.
            return HybridResult((yield from self.vector_search(query, n)), (yield from self.keyword_search(query, n)))
        limit = n + SPARE
        while True:
            (hits,) = yield self._hybrid_call(query.scope, vector, words, min(limit, MOST_RESULTS))
            rows = self._admitted(hits, query.scope)
            if len(rows) == len(hits) or len(hits) < limit or len(rows) >= 2 * n or limit >= MOST_RESULTS:
                break
            limit *= 4  # too many of the selected rows do not match the filter
        cosines = {row.chunk.id: float(row.vector @ vector) for row, _ in rows if row.vector is not None}
        bm25 = {row.chunk.id: score for row, score in rows if score > 0}
        nearest = _best(cosines.items(), n)
        keyword = self._keyword_result(query.text or "", _best(bm25.items(), n), n)
        return HybridResult(SourceResult(nearest, vector), keyword)

    def keyword_scores(self, text: str, ids: Sequence[str]) -> Calls[dict[str, float]]:
        """Return the BM25 score of each of these chunks; chunks that share no word with ``text`` are left out."""
        words = self._words(text)
        keys = [self._index.key(id) for id in dict.fromkeys(ids)][:MOST_RESULTS]
        if not words or not keys:
            return {}
        filter = self._index.with_keys(keys)
        (hits,) = yield self._search_call("bm25", words, "BM25", filter=filter, limit=len(keys), fields=["id"])
        return {hit["entity"]["id"]: abs(hit["distance"]) for hit in hits if hit["distance"]}

    # -- one search -------------------------------------------------------------------------------------------

    def _search(self, scope: Scope, n: int, field: str, data: Any, metric: str) -> Calls[list[ScoredId]]:
        """Return the ``n`` best hits in a scope.

        Milvus may return rows that are not in the scope. If fewer than ``n`` hits remain after these rows have been
        removed, the search is repeated with a larger limit, up to ``MOST_RESULTS``.
        """
        filter = self._index.in_scope(scope)
        limit = n + SPARE
        while True:
            limit = min(limit, MOST_RESULTS)
            (hits,) = yield self._search_call(field, data, metric, filter=filter, limit=limit, fields=CHUNK_FIELDS)
            rows = self._admitted(hits, scope)
            if len(rows) >= n or len(hits) < limit or limit == MOST_RESULTS:
                # milvus-lite returns negative BM25 scores.
                return _best(((row.chunk.id, abs(score) if metric == "BM25" else score) for row, score in rows), n)
            limit *= 4

    def _search_call(
        self, field: str, data: Any, metric: str, *, filter: str, limit: int, fields: Sequence[str]
    ) -> ServerCall:
        return ServerCall(
            "search",
            {
                "collection_name": self._index.names.chunks,
                "data": [data],
                "anns_field": field,
                "search_params": {"metric_type": metric},
                "filter": filter,
                "limit": limit,
                "output_fields": list(fields),
                "consistency_level": self._index.consistency,
            },
        )

    def _hybrid_call(self, scope: Scope, vector: Vector, words: str, limit: int) -> ServerCall:
        milvus = client_library()
        filter = self._index.in_scope(scope)
        requests = [
            milvus.AnnSearchRequest([vector.tolist()], "vector", {"metric_type": "COSINE"}, limit=limit, expr=filter),
            milvus.AnnSearchRequest([words], "bm25", {"metric_type": "BM25"}, limit=limit, expr=filter),
        ]
        return ServerCall(
            "hybrid_search",
            {
                "collection_name": self._index.names.chunks,
                "reqs": requests,
                "ranker": milvus.WeightedRanker(0.0, 1.0, norm_score=False),
                "limit": min(2 * limit, MOST_RESULTS),
                "output_fields": [*CHUNK_FIELDS, "vector"],
                "consistency_level": self._index.consistency,
            },
        )

    def _admitted(self, hits: Any, scope: Scope) -> list[tuple[StoredRow, float]]:
        """Cache the rows of all hits, and return those that are in a scope, with the server's scores."""
        rows = {hit["key"]: (stored_row(hit["entity"]), float(hit["distance"])) for hit in hits}
        self._index.recent.add({key: row for key, (row, _) in rows.items()})
        return [(row, score) for row, score in rows.values() if row.is_in(scope)]

    def _keyword_result(self, text: str, entries: list[ScoredId], n: int) -> SourceResult:
        """Return the result of a keyword search, with an upper bound on the BM25 score of any text.

        Milvus does not report how many texts contain a word, so the bound assumes that every word is extremely rare
        (``MOST_IDF``). It is therefore far above the BM25 scores of most texts.
        """
        words = self._index.analyzer.words(text)[:MOST_WORDS]
        rest = entries[-1].score if len(entries) >= n else 0.0
        return SourceResult(entries, bound=(K1 + 1) * MOST_IDF * len(words), rest=rest)

    def _words(self, text: str) -> str:
        return query_words(self._index.analyzer.words(text)[:MOST_WORDS])


def _best(scores: Iterable[tuple[str, float]], n: int) -> list[ScoredId]:
    return [ScoredId(id, score) for id, score in sorted(scores, key=lambda pair: (-pair[1], pair[0]))[:n]]


def _without_vector(query: Query) -> str | None:
    return "query-out-of-vocabulary" if query.vector is None else None
