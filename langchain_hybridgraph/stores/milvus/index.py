"""State of an open store in Milvus."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from langchain_hybridgraph.errors import EmbeddingMismatchError, TenantError
from langchain_hybridgraph.stores.milvus.connection import Calls, MilvusConnection, ServerCall
from langchain_hybridgraph.stores.milvus.filters import expression, text, texts
from langchain_hybridgraph.stores.milvus.limits import (
    MOST_KEYS,
    MOST_RESULTS,
    MOST_SAMPLED,
    MOST_SAMPLED_VECTORS,
    SAMPLED_AT_ONCE,
)
from langchain_hybridgraph.stores.milvus.row_cache import COUNTS_FRESH, FRESH, RecentRows
from langchain_hybridgraph.stores.milvus.rows import StoredRow, WordStatistics, key_of, seconds, stored_row
from langchain_hybridgraph.stores.vectors import unit
from langchain_hybridgraph.text.analyzer import Analyzer

if TYPE_CHECKING:
    from langchain_hybridgraph.chunks import Vector
    from langchain_hybridgraph.records import Scope
    from langchain_hybridgraph.stores.milvus.schema import Collections, CollectionSettings

Consistency = Literal["Strong", "Session", "Bounded", "Eventually"]

CHUNK_FIELDS = ("id", "text", "metadata", "document", "parent", "added_at", "content_hash", "neighbours")
# Fields that scoring a chunk needs as well.
SCORED_FIELDS = (*CHUNK_FIELDS, "vector", "words")


@dataclass
class MilvusIndex:
    """State shared by the parts of an open store: connection, settings, tenant and caches."""

    connection: MilvusConnection
    names: Collections
    facts: CollectionSettings
    embedding: Any
    analyzer: Analyzer
    tenant: str | None
    consistency: Consistency
    recent: RecentRows = field(default_factory=RecentRows)
    cache: dict[str, tuple[int, float]] = field(default_factory=dict)
    written_at: float = 0.0
    statistics: WordStatistics | None = None
    counted_at: float = 0.0  # when the number of chunks was last compared with the statistics
    rows_written: int = 0  # number of rows written by this process since the statistics were read
    last_scores: Any = None  # see search.TokenScores

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling, without the analyzer and the caches."""
        transient = ("analyzer", "recent", "cache", "statistics", "last_scores")
        return {name: value for name, value in self.__dict__.items() if name not in transient}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(
            state, analyzer=Analyzer(state["facts"].language), recent=RecentRows(), cache={}, statistics=None
        )

    # -- expressions ------------------------------------------------------------------------------------------

    @property
    def tenant_name(self) -> str:
        """Value of Milvus' partition key: the tenant's name, or "" if there is no tenant."""
        return self.tenant or ""

    def key(self, id: str) -> str:
        """Return the primary key of the tenant's chunk or parent with this id."""
        return key_of(self.tenant_name, id)

    def of_tenant(self, *conditions: str) -> str:
        """Return an expression that selects the tenant's rows for which all conditions are true."""
        return " and ".join((f"tenant == {text(self.tenant_name)}", *conditions))

    def in_scope(self, scope: Scope, *conditions: str) -> str:
        """Return an expression that selects all rows in a scope, and possibly other rows."""
        self.check_scope(scope)
        condition_list = list(conditions)
        if scope.as_of is not None:
            condition_list += [f"valid_from <= {seconds(scope.as_of)}", f"valid_until >= {seconds(scope.as_of)}"]
        if scope.known_at is not None:
            condition_list.append(f"added_at <= {int(scope.known_at * 1e9)}")
        if scope.filter is not None:
            condition_list.append(expression(scope.filter))
        return self.of_tenant(*condition_list)

    def with_keys(self, keys: Iterable[str]) -> str:
        """Return an expression that selects the rows with these keys.

        No condition on the tenant is needed, because keys differ between tenants. With any further condition,
        milvus-lite would evaluate all rows instead of looking the keys up.
        """
        return f"key in {texts(keys)}"

    def check_scope(self, scope: Scope) -> None:
        """Raise TenantError if the scope belongs to another tenant."""
        if scope.tenant is not None and scope.tenant != self.tenant:
            raise TenantError(
                f"the store is open for tenant {self.tenant!r}, but the call requests "
                f"tenant {scope.tenant!r}: open a store for that tenant"
            )

    def neighbours(self, ids: Iterable[str]) -> list[str]:
        """Return the neighbours that cached rows list for these chunks; some neighbours may be missing."""
        rows = self.recent.get(map(self.key, ids), with_vectors=False)
        return [id for row in rows.values() for id in row.neighbours]

    def note_write(self, keys: Iterable[str]) -> None:
        """Remove these rows from the cache, discard all cached counts, and record the time of the write."""
        keys = list(keys)
        self.recent.drop(keys)
        self.cache.clear()
        self.rows_written += len(keys)
        self.written_at = time.monotonic()

    # -- calls ------------------------------------------------------------------------------------------------

    def query(self, collection: str, filter: str, fields: Sequence[str], limit: int) -> ServerCall:
        """Return the call to read the rows that match an expression."""
        return ServerCall(
            "query",
            {
                "collection_name": collection,
                "filter": filter,
                "output_fields": list(fields),
                "limit": limit,
                "consistency_level": self.consistency,
            },
        )

    def read(self, collection: str, filter: str, fields: Sequence[str], limit: int = MOST_RESULTS) -> list[Any]:
        """Return up to ``limit`` rows that match an expression."""
        call = self.query(collection, filter, fields, limit)
        return list(self.connection.call(call.method, **call.arguments))

    def read_all(self, collection: str, filter: str, fields: Sequence[str]) -> Iterator[Any]:
        """Yield all rows that match an expression, in the order of their keys; they are read page by page."""
        last = ""
        while True:
            after = f"{filter} and key > {text(last)}" if last else filter
            page = sorted(self.read(collection, after, ["key", *fields]), key=lambda row: str(row["key"]))
            yield from page
            if len(page) < MOST_RESULTS:
                return
            last = page[-1]["key"]

    def count(self, collection: str, filter: str) -> int:
        """Return the number of rows that match an expression."""
        call = self._count_call(collection, filter)
        return int(self.connection.call(call.method, **call.arguments)[0]["count(*)"])

    def _count_call(self, collection: str, filter: str) -> ServerCall:
        arguments = self.query(collection, filter, ["count(*)"], 0).arguments
        return ServerCall("query", {name: value for name, value in arguments.items() if name != "limit"})

    def rows(self, collection: str, ids: Sequence[str], *, with_vectors: bool = False) -> dict[str, StoredRow]:
        """Return the chunks or parents with these ids, as a dict by id; missing ids are left out."""
        fields = SCORED_FIELDS if with_vectors else CHUNK_FIELDS
        results = {}
        for keys in in_parts([self.key(id) for id in dict.fromkeys(ids)]):
            for entity in self.read(collection, self.with_keys(keys), fields, len(keys)):
                row = stored_row(entity)
                results[row.chunk.id] = row
        return results

    def read_keys(self, collection: str, keys: Sequence[str]) -> dict[str, StoredRow]:
        """Return the chunks with these keys, as a dict by key, and add them to the cache."""
        entities = self.read(collection, self.with_keys(keys), ["key", *CHUNK_FIELDS], len(keys))
        rows = {entity["key"]: stored_row(entity) for entity in entities}
        self.recent.add({key: row.copied() for key, row in rows.items()})
        return rows

    def recent_rows(
        self, ids: Sequence[str], *, with_vectors: bool = False, are_scored: bool = False
    ) -> dict[str, StoredRow]:
        """Return the chunks with these ids, in this order; missing ids are left out.

        Cached chunks are not read from the server again, unless the consistency level is "Strong" and the rows are read
        for more than their scores (``are_scored``). Chunks that are read are added to the cache.
        """
        keys = {self.key(id): id for id in ids}
        is_strong = self.consistency == "Strong" and not are_scored
        recent = {} if is_strong else self.recent.get(keys, with_vectors=with_vectors)
        missing = [id for key, id in keys.items() if key not in recent]
        results = self.rows(self.names.chunks, missing, with_vectors=with_vectors)
        self.recent.add({self.key(id): row.copied() for id, row in results.items()})
        results |= {keys[key]: row for key, row in recent.items()}
        return {id: results[id] for id in keys.values() if id in results}

    def has_rows(self, collection: str, *conditions: str) -> bool:
        """Return whether the tenant has any row in a collection that meets the conditions; the result is cached.

        True is cached for a minute; if the rows are deleted during this time, searches only do unnecessary work. False
        is cached for a minute if there are conditions, and otherwise for ``FRESH`` seconds. Rows that another process
        adds during this time are not noticed.
        """
        question = " ".join((collection, *conditions))
        has_any_row, until = self.cache.get(question, (False, 0.0))
        if time.monotonic() >= until:
            has_any_row = bool(self.read(collection, self.of_tenant(*conditions), ["key"], 1))
            self.cache[question] = (
                has_any_row,
                time.monotonic() + (COUNTS_FRESH if has_any_row or conditions else FRESH),
            )
        return bool(has_any_row)

    def count_of(self, collection: str) -> int:
        """Return the number of the tenant's rows in a collection; it may be up to a minute old."""
        return self.connection.run(self.counted(collection))

    def counted(self, collection: str) -> Calls[int]:
        """Return the result of :meth:`count_of`, yielding the call to the server if one is needed."""
        question = f"number of {collection}"
        count, until = self.cache.get(question, (0, 0.0))
        if time.monotonic() >= until:
            (row,) = yield self._count_call(collection, self.of_tenant())
            count = int(row["count(*)"])
            self.cache[question] = count, time.monotonic() + COUNTS_FRESH
        return count

    def word_statistics(self) -> Calls[WordStatistics]:
        """Return the word statistics of the tenant's chunks, reading them if more than one chunk in 16 has changed.

        They come from all chunks or from a random sample: the chunks with the smallest keys, which are digests. Changes
        by other processes are noticed within a minute, by the number of chunks.
        """
        statistics, now = self.statistics, time.monotonic()
        if (
            statistics is not None
            and 16 * self.rows_written <= statistics.texts
            and now < self.counted_at + COUNTS_FRESH
        ):
            return statistics
        texts = yield from self.counted(self.names.chunks)
        self.counted_at = now
        if statistics is not None and 16 * max(abs(texts - statistics.texts), self.rows_written) <= statistics.texts:
            return statistics
        self.rows_written = 0
        vectors = yield from self._sample(texts, MOST_SAMPLED_VECTORS, "vector")
        words = yield from self._sample(texts, MOST_SAMPLED, "words")
        self.statistics = WordStatistics.of(texts, words, vectors)
        return self.statistics

    def _sample(self, texts: int, most: int, field: str) -> Calls[list[Any]]:
        """Return a field of about ``most`` random chunks, or of all chunks if there are fewer, with several calls."""
        parts, values = 1 + min(texts, most) // SAMPLED_AT_ONCE, list[Any]()
        bounds = [f"{int(min(1.0, most / max(1, texts)) * part / parts * 2**32):08x}" for part in range(parts)]
        for start, end in pairwise([*bounds, "g" if texts <= most else f"{int(most / texts * 2**32):08x}"]):
            filter = self.of_tenant(f'key >= "{start}"', f'key < "{end}"')
            values += [row[field] for row in (yield self.query(self.names.chunks, filter, [field], MOST_RESULTS))]
        return values

    # -- vectors ----------------------------------------------------------------------------------------------

    def query_vector(self, text: str | None, vector: Vector | None) -> Vector:
        """Return the query's unit vector; if there is no vector, embed the text. Raises ValueError if both are None."""
        if vector is None and text is None:
            raise ValueError("a query needs text or a vector, got neither")
        unit_vector: Vector = unit(self.embedding.embed_query(text or "") if vector is None else vector)
        self.check_width(unit_vector.shape[-1])
        return unit_vector

    def check_width(self, width: int) -> None:
        """Raise EmbeddingMismatchError if a vector's dimension differs from the store's dimension."""
        if width != self.facts.dimension:
            raise EmbeddingMismatchError(
                f"the store has vectors of {self.facts.dimension} dimensions, got a vector of {width}; pass vectors of "
                f"the embedding that it was made with ({self.facts.embedding})"
            )


def in_parts(values: Sequence[str], size: int = MOST_KEYS) -> Iterator[Sequence[str]]:
    """Yield the values in parts of at most ``size`` values.

    By default, ``size`` is the maximum number of keys in one expression.
    """
    for start in range(0, len(values), size):
        yield values[start : start + size]
