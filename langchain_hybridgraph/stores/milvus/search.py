"""Reads and searches in Milvus.

Milvus selects the candidates: one request finds the nearest vectors, the chunks with the most telling words, and all
chunks with a rare word, compound or name of the question. This module scores them, so scores mean the same as in the
embedded store and do not depend on how a server counts words; milvus-lite, for example, counts them per segment.
"""

from __future__ import annotations

import json
import time
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from hashlib import blake2b
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import ConfigurationError, EmbeddingMismatchError
from langchain_hybridgraph.execution.threads import ForkSafeLock
from langchain_hybridgraph.records import BEST_HITS, Query, Scope, SourceResult, best_first, coverage_of
from langchain_hybridgraph.stores.bm25 import K1, B, Field, Question, idf
from langchain_hybridgraph.stores.generations import FEWEST_SAMPLED
from langchain_hybridgraph.stores.milvus import schema
from langchain_hybridgraph.stores.milvus.connection import (
    MOST_BYTES,
    MOST_KEYS,
    MOST_RESULTS,
    Calls,
    MilvusConnection,
    ServerCall,
    client_library,
)
from langchain_hybridgraph.stores.protocols import HybridResult
from langchain_hybridgraph.stores.vectors import background, unit
from langchain_hybridgraph.text.analyzer import MOST_WORDS, Analyzer
from langchain_hybridgraph.text.identifiers import FEW, MOST_FORMS, compounds, forms, name_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.chunks import Vector
    from langchain_hybridgraph.stores.chunk_rows import ChunkRow

Consistency = Literal["Strong", "Session", "Bounded", "Eventually"]

CHUNK_FIELDS = ("id", "text", "metadata", "document", "parent", "added_at", "neighbours")
# Fields that scoring a chunk needs as well.
SCORED_FIELDS = (*CHUNK_FIELDS, "vector", "words")
# Seconds for which a row that has been read is not read again, except with "Strong" consistency.
FRESH = 2.0
MOST_FRESH = 4_096
# Seconds for which the number of chunks and the presence of edges are cached.
COUNTS_FRESH = 60.0
# Number of chunks whose words are counted for the document frequencies, number of chunks whose vectors give the mean
# cosine, and number of chunks that one call reads for this. Reading the words of 6,000 descriptions takes .4 s of
# processor time with milvus-lite.
MOST_SAMPLED = 10_000
MOST_SAMPLED_VECTORS = 500
SAMPLED_AT_ONCE = 2_500
# Beginnings of the tokens for words of headings, compounds and names, and the token before the words of the text.
KINDS = {"headings": "xh", "compounds": "xc", "name": "xn"}
TEXT = "xtext0"
TOKEN_LENGTH = 14
# Number of extra results, fetched so that ties at the end of the list can be ordered by id.
SPARE = 16
# Milvus adds the BM25 scores of texts and headings. The words of headings are searched only if their weight is at least
# this (questions of up to three words).
LEAST_HEADINGS_WEIGHT = 0.25
# Maximum number of chunks fetched because they contain a rare word, compound or name of the question.
MOST_RARE = 1_000


class RecentRows:
    """Cache of recently read chunks, by key, which saves calls to the server in the later stages of a search."""

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._rows: OrderedDict[str, tuple[float, schema.StoredRow]] = OrderedDict()

    def add(self, rows: Mapping[str, schema.StoredRow]) -> None:
        """Add rows that have just been read to the cache."""
        now = time.monotonic()
        with self._lock:
            for key, row in rows.items():
                self._rows.pop(key, None)
                self._rows[key] = now, row
            while len(self._rows) > MOST_FRESH:
                self._rows.popitem(last=False)

    def get(self, keys: Iterable[str], *, with_vectors: bool = False) -> dict[str, schema.StoredRow]:
        """Return the cached rows read less than ``FRESH`` seconds ago; if ``with_vectors``, only rows with a vector."""
        oldest = time.monotonic() - FRESH
        with self._lock:
            recent = {key: self._rows[key] for key in keys if key in self._rows}
        return {
            key: row.copied()
            for key, (read_at, row) in recent.items()
            if read_at > oldest and (row.vector is not None or not with_vectors)
        }

    def drop(self, keys: Iterable[str]) -> None:
        """Remove the rows with these keys. Call this when they are written or deleted."""
        with self._lock:
            for key in keys:
                self._rows.pop(key, None)


@dataclass
class MilvusIndex:
    """State shared by the parts of an open store. It can be pickled, without the caches."""

    connection: MilvusConnection
    names: schema.Collections
    facts: schema.CollectionSettings
    embedding: Any
    tenant: str  # value of Milvus' partition key: the tenant's name, or "" if there is no tenant
    consistency: Consistency
    recent: RecentRows = field(default_factory=RecentRows)
    cache: dict[str, tuple[int, float]] = field(default_factory=dict)
    written_at: float = 0.0
    statistics: WordStatistics | None = None
    counted_at: float = 0.0  # when the number of chunks was last compared with the statistics
    rows_written: int = 0  # number of rows written by this process since the statistics were read
    last_scores: TokenScores | None = None
    tree: Any = None  # when all rows were read, the rows, and their tree

    def __post_init__(self) -> None:
        if self.consistency not in get_args(Consistency):
            levels = ", ".join(get_args(Consistency))
            raise ConfigurationError(f"consistency must be one of {levels}, got {self.consistency!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return MilvusIndex, (self.connection, self.names, self.facts, self.embedding, self.tenant, self.consistency)

    @cached_property
    def analyzer(self) -> Analyzer:
        """Analyzer for the language of the store."""
        return Analyzer(self.facts.language)

    # -- expressions ------------------------------------------------------------------------------------------

    def key(self, id: str) -> str:
        """Return the primary key of the tenant's chunk or parent with this id."""
        return schema.key_of(self.tenant, id)

    def of_tenant(self, *conditions: str) -> str:
        """Return an expression that selects the tenant's rows for which all conditions are true."""
        return " and ".join((f"tenant == {schema.text(self.tenant)}", *conditions))

    def in_scope(self, scope: Scope, *conditions: str) -> str:
        """Return an expression that selects all rows in a scope, and possibly other rows."""
        self.check_scope(scope)
        condition_list = list(conditions)
        if scope.as_of is not None:
            as_of = max(-schema.ALWAYS, min(float(scope.as_of), schema.ALWAYS))
            condition_list += [f"valid_from <= {as_of!r}", f"valid_until >= {as_of!r}"]
        if scope.known_at is not None:
            condition_list.append(f"added_at <= {int(scope.known_at * 1e9)}")
        if scope.filter is not None:
            condition_list.append(schema.expression(scope.filter))
        return self.of_tenant(*condition_list)

    def check_scope(self, scope: Scope) -> None:
        """Raise TenantError if the scope belongs to another tenant."""
        scope.check_tenant(self.tenant or None)

    def note_write(self, keys: Sequence[str]) -> None:
        """Remove these rows from the cache, discard all cached counts, and record the time of the write."""
        self.recent.drop(keys)
        self.cache.clear()
        self.rows_written += len(keys)
        self.written_at = time.monotonic()

    # -- calls ------------------------------------------------------------------------------------------------

    def reading(self, method: str, collection: str, **arguments: Any) -> ServerCall:
        """Return the call of a method that reads from a collection."""
        return ServerCall(method, {"collection_name": collection, "consistency_level": self.consistency, **arguments})

    def read(self, collection: str, filter: str, fields: Sequence[str], limit: int = MOST_RESULTS) -> list[Any]:
        """Return up to ``limit`` rows that match an expression."""
        call = self.reading("query", collection, filter=filter, output_fields=list(fields), limit=limit)
        return list(self.connection.call(call.method, **call.arguments))

    def read_keys(self, collection: str, keys: Sequence[str], fields: Sequence[str]) -> Iterator[Any]:
        """Yield the rows with these keys, of any tenant; keys differ between tenants."""
        for part in in_parts(keys):
            # With a condition on the tenant, milvus-lite would evaluate all rows instead of looking the keys up.
            yield from self.read(collection, f"key in {schema.texts(part)}", fields, len(part))

    def read_all(self, collection: str, filter: str, fields: Sequence[str]) -> Iterator[Any]:
        """Yield all rows that match an expression, in the order of their keys; they are read page by page."""
        last = ""
        while True:
            after = f"{filter} and key > {schema.text(last)}" if last else filter
            page = sorted(self.read(collection, after, ["key", *fields]), key=lambda row: str(row["key"]))
            yield from page
            if len(page) < MOST_RESULTS:
                return
            last = page[-1]["key"]

    def all_rows(self, filter: str, *, with_vectors: bool = False) -> list[schema.StoredRow]:
        """Return all chunks that match an expression, in the order in which they were added or last changed."""
        fields = [*CHUNK_FIELDS, "vector"] if with_vectors else CHUNK_FIELDS
        rows = map(schema.stored_row, self.read_all(self.names.chunks, filter, fields))
        return sorted(rows, key=lambda row: row.added_at)

    def rows(self, collection: str, ids: Sequence[str], *, with_vectors: bool = False) -> dict[str, schema.StoredRow]:
        """Return the chunks or parents with these ids, as a dict by id; missing ids are left out."""
        fields = SCORED_FIELDS if with_vectors else CHUNK_FIELDS
        keys = [self.key(id) for id in dict.fromkeys(ids)]
        return {row.chunk.id: row for row in map(schema.stored_row, self.read_keys(collection, keys, fields))}

    def recent_rows(
        self, ids: Sequence[str], *, with_vectors: bool = False, are_scored: bool = False
    ) -> dict[str, schema.StoredRow]:
        """Return the chunks with these ids, in this order, from the cache or the server; missing ids are left out.

        With the consistency level "Strong", the cache is used only for scores (``are_scored``).
        """
        keys = {self.key(id): id for id in ids}
        is_strong = self.consistency == "Strong" and not are_scored
        recent = {} if is_strong else self.recent.get(keys, with_vectors=with_vectors)
        missing = [id for key, id in keys.items() if key not in recent]
        results = self.rows(self.names.chunks, missing, with_vectors=with_vectors)
        self.recent.add({self.key(id): row.copied() for id, row in results.items()})
        results |= {keys[key]: row for key, row in recent.items()}
        return {id: results[id] for id in keys.values() if id in results}

    def counted(self, collection: str, *conditions: str) -> Calls[int]:
        """Return the number of the tenant's rows in a collection that meet the conditions."""
        filter = self.of_tenant(*conditions)
        (row,) = yield self.reading("query", collection, filter=filter, output_fields=["count(*)"])
        return int(row["count(*)"])

    def counted_lately(self, collection: str, *conditions: str) -> Calls[int]:
        """Return the result of :meth:`counted`, which may be a minute old (two seconds for 0 of all rows)."""
        question = " ".join((collection, *conditions))
        count, until = self.cache.get(question, (0, 0.0))
        if time.monotonic() >= until:
            count = yield from self.counted(collection, *conditions)
            duration = COUNTS_FRESH if count or conditions else FRESH
            self.cache[question] = count, time.monotonic() + duration
        return count

    def has_rows(self, collection: str, *conditions: str) -> bool:
        """Return whether :meth:`counted_lately` counts any row."""
        return self.connection.run(self.counted_lately(collection, *conditions)) > 0

    def word_statistics(self) -> Calls[WordStatistics]:
        """Return the word statistics of the tenant's chunks, reading them if more than one chunk in 16 has changed.

        A large store is sampled: its smallest keys are random, because they are digests. Changes by other processes are
        noticed within a minute, by the number of chunks.
        """
        statistics, now = self.statistics, time.monotonic()
        if statistics is not None:
            is_current = 16 * self.rows_written <= statistics.texts
            if is_current and now < self.counted_at + COUNTS_FRESH:
                return statistics
        texts = yield from self.counted_lately(self.names.chunks)
        self.counted_at = now
        if statistics is not None and 16 * max(abs(texts - statistics.texts), self.rows_written) <= statistics.texts:
            return statistics
        self.rows_written = 0
        vectors = yield from self._sample(texts, MOST_SAMPLED_VECTORS, "vector")
        words = yield from self._sample(texts, MOST_SAMPLED, "words")
        self.statistics = WordStatistics.of(texts, words, vectors)
        return self.statistics

    def _sample(self, texts: int, most: int, name: str) -> Calls[list[Any]]:
        """Return a field of about ``most`` random chunks, or of all chunks if there are fewer, with several calls."""
        parts, values = 1 + min(texts, most) // SAMPLED_AT_ONCE, list[Any]()
        bounds = [f"{int(min(1.0, most / max(1, texts)) * part / parts * 2**32):08x}" for part in range(parts)]
        for start, end in pairwise([*bounds, "g" if texts <= most else f"{int(most / texts * 2**32):08x}"]):
            filter = self.of_tenant(f'key >= "{start}"', f'key < "{end}"')
            rows = yield self.reading(
                "query", self.names.chunks, filter=filter, output_fields=[name], limit=MOST_RESULTS
            )
            values += [row[name] for row in rows]
        return values

    # -- vectors ----------------------------------------------------------------------------------------------

    def query_vector(self, query: Query) -> Vector:
        """Return the query's unit vector; if there is no vector, embed the text. Raises ValueError if both are None."""
        if query.vector is None and query.text is None:
            raise ValueError("a query needs text or a vector, got neither")
        vector = self.embedding.embed_query(query.text or "") if query.vector is None else query.vector
        unit_vector: Vector = unit(vector)
        self.check_dimension(unit_vector.shape[-1])
        return unit_vector

    def check_dimension(self, dimension: int) -> None:
        """Raise EmbeddingMismatchError if a vector's dimension differs from the store's dimension."""
        if dimension != self.facts.dimension:
            raise EmbeddingMismatchError(
                f"the store has vectors of {self.facts.dimension} dimensions, got a vector of {dimension}; pass "
                f"vectors of the embedding that it was made with ({self.facts.embedding})"
            )


def in_parts(values: Sequence[str], size: int = MOST_KEYS) -> Iterator[Sequence[str]]:
    """Yield parts of at most ``size`` values, by default the maximum number of keys in one expression."""
    for start in range(0, len(values), size):
        yield values[start : start + size]


# -- searches ------------------------------------------------------------------------------------------------
# Each search is a generator of calls, so that a thread or an event loop can run it (see MilvusConnection).


def hybrid_search(
    index: MilvusIndex, query: Query, n: int, *, by_vector: bool = True, by_words: bool = True
) -> Calls[HybridResult]:
    """Return the ``n`` chunks with the largest cosine and the ``n`` chunks with the largest BM25 score, or only one."""
    index.check_scope(query.scope)
    vector = index.query_vector(query) if by_vector else None
    is_unknown = vector is not None and not vector.any()
    text = (query.text or "") if by_words else ""
    result = yield from _search(index, query, text, n, None if is_unknown else vector)
    if is_unknown and n > 0 and query.vector is None:
        result = result._replace(vector=SourceResult([], reason="query-out-of-vocabulary"))
    if by_words and query.text is None:
        result = result._replace(keyword=SourceResult([], reason="no-query-text"))
    return result


def keyword_scores(index: MilvusIndex, text: str, ids: Sequence[str]) -> Calls[dict[str, float]]:
    """Return the BM25 score of each of these chunks; chunks that share no word with ``text`` are left out."""
    scores = index.last_scores
    if scores is None or scores.question.text != text:
        scores = TokenScores.of(text, index, (yield from index.word_statistics()), {})
    rows = index.recent_rows(ids, with_vectors=True, are_scored=True)
    every = ((id, scores.bm25(Tokens.of(row.words))) for id, row in rows.items())
    return {id: score for id, score in every if score > 0}


def _search(index: MilvusIndex, query: Query, text: str, n: int, vector: Vector | None) -> Calls[HybridResult]:
    """Search for a text unless it has no words, and for a vector unless it is None, in one call.

    Milvus may return rows that are not in the scope; if too few others remain, the limit is raised.
    """
    milvus, scope, words = client_library(), query.scope, index.analyzer.words(text)
    if n < 1 or not (words or vector is not None):
        return HybridResult(SourceResult([]), SourceResult([]))
    statistics = yield from index.word_statistics()
    scores = TokenScores.of(text, index, statistics, {})
    rare = scores.rare_tokens(words, is_restricted=scope.filter is not None)
    filter, limit = index.in_scope(scope), n + SPARE
    while True:
        limit = min(limit, MOST_RESULTS)
        searches: list[tuple[str, Any, str, int]] = []
        if words:
            searches.append(("bm25", " ".join(scores.query_tokens(words)), "BM25", limit))
        if rare:
            searches.append(("bm25", " ".join(rare), "BM25", min(MOST_RARE, limit, 4 * (FEW + 1) * len(rare))))
        if vector is not None:
            searches.append(("vector", vector.tolist(), "COSINE", limit))
        (hits,) = yield index.reading(
            "hybrid_search",
            index.names.chunks,
            reqs=[
                milvus.AnnSearchRequest([data], field, {"metric_type": metric}, limit=most, expr=filter)
                for field, data, metric, most in searches
            ],
            ranker=milvus.RRFRanker(),  # the order does not matter, because all results are returned
            limit=min(sum(most for *_, most in searches), MOST_RESULTS),
            output_fields=list(SCORED_FIELDS),
        )
        rows_by_key = {hit["key"]: schema.stored_row(hit["entity"]) for hit in hits}
        index.recent.add(rows_by_key)
        rows = [row for row in rows_by_key.values() if row.is_in(scope)]
        if len(rows) == len(hits) or len(hits) < limit or len(rows) >= 2 * n or limit == MOST_RESULTS:
            break
        limit *= 4  # too many of the selected rows do not match the filter
    vector_result = SourceResult([])
    if vector is not None:
        cosines = ((row.chunk.id, float(row.vector @ vector)) for row in rows if row.vector is not None)
        sample = statistics.vectors
        best = best_first(cosines, n)
        mean = background(sample, vector) if len(sample) >= FEWEST_SAMPLED else None
        coverage = coverage_of(index.embedding, query)
        vector_result = SourceResult.of(best, vector=vector, background=mean, coverage=coverage)
    if not words:
        return HybridResult(vector_result, SourceResult([]))
    tokens = [Tokens.of(row.words) for row in rows]
    rows_with = {
        each: [place for place, one in enumerate(tokens) if each in one.text or each in one.others] for each in rare
    }
    if scope.filter is None:
        scores = TokenScores.of(text, index, statistics, {each: len(places) for each, places in rows_with.items()})
    index.last_scores = scores
    bm25 = {row.chunk.id: score for row, one in zip(rows, tokens, strict=True) if (score := scores.bm25(one)) > 0}
    best = best_first(bm25.items(), n)
    few = {each: places for each, places in rows_with.items() if len(places) <= FEW}
    exact = scores.question.exact_matches(lambda name, word: few.get(token(name, word), ()))
    first = set(islice(best, BEST_HITS))
    text_scores = [scores.bm25(one, ("text",)) for row, one in zip(rows, tokens, strict=True) if row.chunk.id in first]
    keyword = SourceResult.of(
        best,
        bound=scores.question.bound,
        exact={rows[place].chunk.id: probability for place, probability in exact.items()},
        words=scores.question.words(max(text_scores, default=0.0), scores.question.texts),
    )
    return HybridResult(vector_result, keyword)


# -- words ---------------------------------------------------------------------------------------------------


def words_of(analyzer: Analyzer, chunk: ChunkRow) -> str:
    """Return the tokens of a chunk for Milvus' BM25 function, separated by spaces; those that do not fit are left out.

    The words of the text follow ``TEXT``. Before it are the words of the headings, the compounds in the text and the
    name of the text (see ``text.identifiers``), each as a :func:`token` of its kind.
    """
    headings = Chunk(chunk.id, "", json.loads(chunk.metadata)).headings
    others = [token("headings", word) for word in analyzer.all_words(headings)]
    others += [token("compounds", form) for form in compounds(chunk.text)]
    others += [token("name", name) for name in [name_of(chunk.text)] if name]
    words = analyzer.joined_words(chunk.text)
    if not words.isascii():
        words = " ".join(map(as_ascii_word, words.split()))
    text = " ".join([*others[: MOST_BYTES // 32], TEXT, words])
    return text if len(text) <= MOST_BYTES else text[:MOST_BYTES].rpartition(" ")[0]


@lru_cache(maxsize=1 << 17)
def as_ascii_word(word: str) -> str:
    """Return an ASCII word unchanged, and an ASCII digest of any other word, so that no tokenizer splits it."""
    return word if word.isascii() else "x" + blake2b(word.encode(), digest_size=6).hexdigest()


def token(kind: str, form: str) -> str:
    """Return the token for a word of a text, a word of the headings, a compound or a name; tokens differ by kind."""
    return as_ascii_word(form) if kind == "text" else KINDS[kind] + blake2b(form.encode(), digest_size=6).hexdigest()


class Tokens(NamedTuple):
    """The tokens of a chunk: the words of its text, and all others (see :func:`words_of`)."""

    text: Counter[str]
    others: Counter[str]

    @classmethod
    def of(cls, words: str) -> Tokens:
        """Split the field that :func:`words_of` returned."""
        others, _, text = words.partition(TEXT)
        return cls(Counter(text.split()), Counter(others.split()))

    def length(self, field: Field) -> int:
        """Return the number of words in a field."""
        if field == "text":
            return self.text.total()
        return sum(count for token, count in self.others.items() if token.startswith(KINDS["headings"]))


class WordStatistics(NamedTuple):
    """Number of the tenant's chunks that contain a token, counted in all chunks or in a random sample of them.

    ``texts`` is the number of chunks, ``sampled`` that of counted ones, and ``vectors`` those of some of them.
    ``lengths`` are the mean lengths of texts and headings.
    """

    texts: int
    sampled: int
    frequencies: Counter[str]
    lengths: Mapping[Field, float]
    vectors: NDArray[np.float32]

    @classmethod
    def of(cls, texts: int, words: Iterable[str], vectors: Sequence[Vector]) -> WordStatistics:
        """Count the tokens of chunks."""
        sampled, frequencies, lengths = 0, Counter[str](), Counter["Field"]()
        for tokens in map(Tokens.of, words):
            sampled += 1
            frequencies.update([*tokens.text, *tokens.others])
            lengths.update({"text": tokens.length("text"), "headings": tokens.length("headings")})
        mean: dict[Field, float] = {name: length / sampled for name, length in lengths.items()}
        return cls(max(texts, sampled), sampled, frequencies, mean, np.array(vectors, np.float32))

    @property
    def scale(self) -> float:
        """Number of chunks for each counted chunk."""
        return self.texts / max(1, self.sampled)

    def frequency(self, token: str) -> float:
        """Return the estimated number of chunks with a token; half a sampled chunk if the sample does not have it."""
        count = self.frequencies[token]
        is_heading = token.startswith(KINDS["headings"]) and len(token) == TOKEN_LENGTH
        return self.scale * (count or (0.0 if self.sampled >= self.texts or is_heading else 0.5))


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

        ``counts`` maps tokens to the number of chunks that an unfiltered search returned, which is exact up to ``FEW``.
        """

        def frequency(field: Field, word: str) -> float:
            each = token(field, word)
            return counts[each] if counts.get(each, FEW + 1) <= FEW else statistics.frequency(each)

        question = Question(text, index.analyzer, statistics.texts, frequency, partial(idf, statistics.texts))
        fields: tuple[tuple[Field, float], ...] = (("text", 1.0), ("headings", question.headings_weight))
        weights = {
            field: [(token(field, word), weight * value) for word, value in question.information[field].items()]
            for field, weight in fields
        }
        return cls(question, statistics, weights)

    def bm25(self, tokens: Tokens, fields: Sequence[Field] = ("text", "headings")) -> float:
        """Return the BM25 score of a chunk."""
        score = 0.0
        for name in fields:
            counts = tokens.text if name == "text" else tokens.others
            frequencies = [(weight, counts[each]) for each, weight in self.weights[name] if each in counts]
            if frequencies:
                length, mean = tokens.length(name), self.statistics.lengths[name]
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
        """Return the tokens of the question that few chunks contain, or more chunks if the search ``is_restricted``."""
        query_forms = islice(forms(self.question.text).items(), MOST_FORMS)
        names = [
            token(kind, form) for form, is_compound in query_forms for kind in ("compounds", "name")[not is_compound :]
        ]
        tokens = dict.fromkeys([*map(as_ascii_word, words[:MOST_WORDS]), *names])
        most, (scale, counts) = FEW * (8 if is_restricted else 1), (self.statistics.scale, self.statistics.frequencies)
        return [each for each in tokens if (counts[each] - 1) * scale < most]
