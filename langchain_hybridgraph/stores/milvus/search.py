"""Vector, keyword and hybrid search in Milvus.

Milvus selects the candidates, and this module scores them. One request finds the nearest vectors, the chunks with the
most telling words, and all chunks with a rare word, compound or name of the question. It also returns their vectors and
words, from which the cosines, the BM25 scores and the exact matches are computed. Scores therefore mean the same as in
the embedded store. They do not depend on how a server counts words; milvus-lite, for example, counts them per segment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_hybridgraph.records import BEST_HITS, Query, Scope, ScoredId, SourceResult, coverage_of
from langchain_hybridgraph.stores.bm25 import K1, B, Field, Question, idf
from langchain_hybridgraph.stores.generations import FEWEST_SAMPLED
from langchain_hybridgraph.stores.milvus.connection import Calls, ServerCall, client_library
from langchain_hybridgraph.stores.milvus.index import CHUNK_FIELDS, SCORED_FIELDS, MilvusIndex
from langchain_hybridgraph.stores.milvus.limits import MOST_RESULTS
from langchain_hybridgraph.stores.milvus.rows import (
    COMPOUND,
    HEADING,
    NAME,
    StoredRow,
    Tokens,
    WordStatistics,
    as_ascii_word,
    stored_row,
    token,
)
from langchain_hybridgraph.stores.protocols import HybridResult
from langchain_hybridgraph.stores.vectors import background
from langchain_hybridgraph.text.analyzer import MOST_WORDS
from langchain_hybridgraph.text.identifiers import FEW, MOST_FORMS, forms

if TYPE_CHECKING:
    from langchain_hybridgraph.chunks import Vector

# Number of extra results, fetched so that ties at the end of the list can be ordered by id.
SPARE = 16
# Milvus adds the BM25 scores of texts and headings. The words of headings are searched only if their weight is at least
# this (questions of up to three words).
LEAST_HEADINGS_WEIGHT = 0.25
# Maximum number of chunks fetched because they contain a rare word, compound or name of the question.
MOST_RARE = 1_000


class Searcher:
    """Vector, keyword and hybrid searches in one store.

    Each search is a generator that yields calls to the server, so it can be run by a thread or by an event loop (see
    :meth:`MilvusConnection.run` and :meth:`MilvusConnection.arun`).
    """

    def __init__(self, index: MilvusIndex) -> None:
        self._index = index

    def vector_search(self, query: Query, n: int) -> Calls[SourceResult]:
        """Return the ``n`` chunks with the largest cosine.

        Milvus may return rows that are not in the scope. If fewer than ``n`` hits remain after these rows have been
        removed, the search is repeated with a larger limit, up to ``MOST_RESULTS``.
        """
        vector = self._index.query_vector(query.text, query.vector)
        if n < 1 or not vector.any():
            return SourceResult([], reason=_without_vector(query) if n > 0 else None)
        filter, limit = self._index.in_scope(query.scope), n + SPARE
        while True:
            limit = min(limit, MOST_RESULTS)
            (hits,) = yield self._vector_call(vector, filter, limit)
            rows = self._admitted(hits, query.scope)
            if len(rows) >= n or len(hits) < limit or limit == MOST_RESULTS:
                break
            limit *= 4
        statistics = yield from self._index.word_statistics()
        cosines = ((row.chunk.id, cosine) for row, cosine in rows)
        return _nearest(cosines, n, vector, statistics, coverage_of(self._index.embedding, query))

    def keyword_search(self, query: Query, n: int) -> Calls[SourceResult]:
        """Return the ``n`` chunks with the largest BM25 score."""
        self._index.check_scope(query.scope)
        if query.text is None:
            return SourceResult([], reason="no-query-text")
        return (yield from self._search(query, query.text, n, None)).keyword

    def hybrid_search(self, query: Query, n: int) -> Calls[HybridResult]:
        """Return the ``n`` chunks with the largest cosine and the ``n`` chunks with the largest BM25 score."""
        vector = self._index.query_vector(query.text, query.vector)
        if n < 1 or query.text is None or not vector.any() or not self._index.analyzer.words(query.text):
            # Without words or a vector, at least one of the two searches makes no call.
            return HybridResult((yield from self.vector_search(query, n)), (yield from self.keyword_search(query, n)))
        return (yield from self._search(query, query.text, n, vector))

    def keyword_scores(self, text: str, ids: Sequence[str]) -> Calls[dict[str, float]]:
        """Return the BM25 score of each of these chunks; chunks that share no word with ``text`` are left out."""
        scores: TokenScores | None = self._index.last_scores
        if scores is None or scores.question.text != text:
            scores = TokenScores.of(text, self._index, (yield from self._index.word_statistics()), {})
        rows = self._index.recent_rows(ids, with_vectors=True, are_scored=True)
        every = ((id, scores.bm25(Tokens.of(row.words))) for id, row in rows.items())
        return {id: score for id, score in every if score > 0}

    # -- one search -------------------------------------------------------------------------------------------

    def _search(self, query: Query, text: str, n: int, vector: Vector | None) -> Calls[HybridResult]:
        """Return the results of both searches. Without ``vector``, the result of the vector search is empty."""
        index, scope, words = self._index, query.scope, self._index.analyzer.words(text)
        if n < 1 or not words:
            return HybridResult(SourceResult([]), SourceResult([]))
        statistics = yield from index.word_statistics()
        scores = TokenScores.of(text, index, statistics, {})
        rare = scores.rare_tokens(words, is_restricted=scope.filter is not None)
        filter, limit = index.in_scope(scope), n + SPARE
        while True:
            limit = min(limit, MOST_RESULTS)
            requests = {" ".join(scores.query_tokens(words)): limit}
            if rare:
                requests[" ".join(rare)] = min(MOST_RARE, limit, 4 * (FEW + 1) * len(rare))
            (hits,) = yield self._hybrid_call(vector, requests, filter, limit)
            rows = [row for row, _ in self._admitted(hits, scope)]
            if len(rows) == len(hits) or len(hits) < limit or len(rows) >= 2 * n or limit == MOST_RESULTS:
                break
            limit *= 4  # too many of the selected rows do not match the filter
        tokens = [Tokens.of(row.words) for row in rows]
        rows_with = {
            each: [place for place, one in enumerate(tokens) if each in one.text or each in one.others] for each in rare
        }
        if scope.filter is None:
            scores = TokenScores.of(text, index, statistics, {each: len(rows) for each, rows in rows_with.items()})
        index.last_scores = scores
        bm25 = {row.chunk.id: score for row, one in zip(rows, tokens, strict=True) if (score := scores.bm25(one)) > 0}
        entries = _best(bm25.items(), n)
        exact = scores.question.exact_matches(partial(_rows_with, rows_with))
        best = [scores.bm25(tokens[place], ("text",)) for place in _places(rows, entries[:BEST_HITS])]
        keyword = SourceResult(
            entries,
            bound=scores.question.bound,
            rest=entries[-1].score if len(entries) >= n else 0.0,
            exact={rows[place].chunk.id: probability for place, probability in exact.items()},
            words=scores.question.words(max(best, default=0.0), scores.question.texts),
        )
        if vector is None:
            return HybridResult(SourceResult([]), keyword)
        cosines = ((row.chunk.id, float(row.vector @ vector)) for row in rows if row.vector is not None)
        return HybridResult(_nearest(cosines, n, vector, statistics, coverage_of(index.embedding, query)), keyword)

    def _vector_call(self, vector: Vector, filter: str, limit: int) -> ServerCall:
        return ServerCall(
            "search",
            {
                "collection_name": self._index.names.chunks,
                "data": [vector.tolist()],
                "anns_field": "vector",
                "search_params": {"metric_type": "COSINE"},
                "filter": filter,
                "limit": limit,
                "output_fields": list(CHUNK_FIELDS),
                "consistency_level": self._index.consistency,
            },
        )

    def _hybrid_call(self, vector: Vector | None, tokens: Mapping[str, int], filter: str, limit: int) -> ServerCall:
        """Return the call that searches for a vector and for each of these strings of tokens, up to its limit."""
        milvus = client_library()
        requests = [
            milvus.AnnSearchRequest([each], "bm25", {"metric_type": "BM25"}, limit=most, expr=filter)
            for each, most in tokens.items()
        ]
        if vector is not None:
            nearest = milvus.AnnSearchRequest(
                [vector.tolist()], "vector", {"metric_type": "COSINE"}, limit=limit, expr=filter
            )
            requests.append(nearest)
        return ServerCall(
            "hybrid_search",
            {
                "collection_name": self._index.names.chunks,
                "reqs": requests,
                "ranker": milvus.RRFRanker(),  # the order does not matter, because all results are returned
                "limit": min(sum(tokens.values()) + limit, MOST_RESULTS),
                "output_fields": list(SCORED_FIELDS),
                "consistency_level": self._index.consistency,
            },
        )

    def _admitted(self, hits: Any, scope: Scope) -> list[tuple[StoredRow, float]]:
        """Cache the rows of all hits, and return those that are in a scope, with the server's scores."""
        rows = {hit["key"]: (stored_row(hit["entity"]), float(hit["distance"])) for hit in hits}
        self._index.recent.add({key: row for key, (row, _) in rows.items()})
        return [(row, score) for row, score in rows.values() if row.is_in(scope)]


class TokenScores(NamedTuple):
    """The BM25 scores of a question.

    ``weights`` contains, for each field, the tokens of the question with idf · count, and ``lengths`` the mean length.
    """

    question: Question
    statistics: WordStatistics
    weights: Mapping[Field, Sequence[tuple[str, float]]]

    @classmethod
    def of(cls, text: str, index: MilvusIndex, statistics: WordStatistics, counts: Mapping[str, int]) -> TokenScores:
        """Return the scores of a question.

        ``counts`` maps tokens to the number of chunks with them that a search without a filter found. Up to ``FEW``, it
        is exact and replaces the estimated number.
        """

        def frequency(field: Field, word: str) -> float:
            each = _token(field, word)
            return counts[each] if counts.get(each, FEW + 1) <= FEW else statistics.frequency(each)

        question = Question(text, index.analyzer, statistics.texts, frequency, partial(idf, statistics.texts))
        fields: tuple[tuple[Field, float], ...] = (("text", 1.0), ("headings", question.headings_weight))
        weights = {
            field: [(_token(field, word), weight * value) for word, value in question.information(field).items()]
            for field, weight in fields
        }
        return cls(question, statistics, weights)

    def bm25(self, tokens: Tokens, fields: Sequence[Field] = ("text", "headings")) -> float:
        """Return the BM25 score of a chunk."""
        score = 0.0
        for field in fields:
            counts = tokens.text if field == "text" else tokens.others
            frequencies = [(weight, counts[each]) for each, weight in self.weights[field] if each in counts]
            if frequencies:
                length, mean = tokens.length(field), self.statistics.lengths[field]
                rest = K1 * (1 - B + B * length / mean)
                score += sum(weight * (K1 + 1) * count / (count + rest) for weight, count in frequencies)
        return score

    def query_tokens(self, words: Sequence[str]) -> list[str]:
        """Return the tokens for which Milvus searches, given the words of the question."""
        matching_words = [word for word, count in self.question.terms for _ in range(count)]
        telling = matching_words if len(words) > MOST_WORDS else words
        has_headings = self.question.headings_weight >= LEAST_HEADINGS_WEIGHT
        headings = [each for each, _ in self.weights["headings"]] if has_headings else []
        return [*map(as_ascii_word, telling[:MOST_WORDS]), *headings]

    def rare_tokens(self, words: Sequence[str], *, is_restricted: bool) -> list[str]:
        """Return the tokens for words, compounds and names of the question that few chunks contain.

        With ``is_restricted``, because the search has a filter, more chunks may contain them.
        """
        query_forms = islice(forms(self.question.text).items(), MOST_FORMS)
        names = [
            _token(kind, form) for form, is_compound in query_forms for kind in ("compounds", "name")[not is_compound :]
        ]
        tokens = dict.fromkeys([*map(as_ascii_word, words[:MOST_WORDS]), *names])
        most, (scale, counts) = FEW * (8 if is_restricted else 1), (self.statistics.scale, self.statistics.frequencies)
        return [each for each in tokens if (counts[each] - 1) * scale < most]


def _token(field: str, word: str) -> str:
    """Return the token that stands for a word, compound or name in Milvus."""
    if field == "text":
        return as_ascii_word(word)
    return token({"headings": HEADING, "compounds": COMPOUND, "name": NAME}[field], word)


def _rows_with(rows: Mapping[str, Sequence[int]], field: str, word: str) -> Sequence[int]:
    places = rows.get(_token(field, word), ())
    return places if len(places) <= FEW else ()


def _places(rows: Sequence[StoredRow], entries: Sequence[ScoredId]) -> list[int]:
    ids = {entry.id for entry in entries}
    return [place for place, row in enumerate(rows) if row.chunk.id in ids]


def _nearest(
    cosines: Iterable[tuple[str, float]], n: int, vector: Vector, statistics: WordStatistics, coverage: float | None
) -> SourceResult:
    """Return the result of a vector search, with the mean and standard deviation of the cosines of a sample."""
    sample = statistics.vectors
    mean = background(sample, vector) if len(sample) >= FEWEST_SAMPLED else None
    return SourceResult(_best(cosines, n), vector, background=mean, coverage=coverage)


def _best(scores: Iterable[tuple[str, float]], n: int) -> list[ScoredId]:
    return [ScoredId(id, score) for id, score in sorted(scores, key=lambda pair: (-pair[1], pair[0]))[:n]]


def _without_vector(query: Query) -> str | None:
    return "query-out-of-vocabulary" if query.vector is None else None
