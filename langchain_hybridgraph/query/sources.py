"""Vector, keyword and session sources of candidates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from langchain_hybridgraph.execution.effects import Effect
from langchain_hybridgraph.execution.worker_threads import lane_of
from langchain_hybridgraph.records import Query, Scope, SourceResult
from langchain_hybridgraph.stores.protocols import (
    AwaitsVectors,
    HasFastKeywords,
    HasFastLookups,
    SearchesKeywords,
    SearchesVectors,
    implements,
)

if TYPE_CHECKING:
    from langchain_hybridgraph.filters import Filter


class Source(Protocol):
    """Source of one ranked list of candidates, with its weight in the fusion."""

    @property
    def name(self) -> str:
        """Name that appears in ``retrieval_source`` and in ``degraded``."""
        ...

    @property
    def weight(self) -> float:
        """Weight of this source's ranks or scores, relative to other sources."""
        ...

    def search(self, query: Query, n: int) -> Effect | None:
        """Return the call that searches for up to n entries, or None if the query has no input for this source.

        The call returns a SourceResult.
        """
        ...

    def score(self, query: Query, result: SourceResult, ids: Sequence[str]) -> Effect | None:
        """Return the call that scores other sources' candidates, or None if this source cannot score them.

        The call returns this source's scores by id.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class VectorSource:
    """Source of the chunks whose vectors have the largest cosines with the query's vector."""

    store: SearchesVectors
    weight: float
    name: str = "vector"

    def search(self, query: Query, n: int) -> Effect | None:
        """Return the call that searches by the query's vector, or by the vector of its text if it has no vector."""
        if query.vector is None and query.text is None:
            return None
        store = self.store
        search, lane = partial(store.vector_search, query, n), lane_of(self.name, store)
        awaited = partial(store.avector_search, query, n) if implements(store, AwaitsVectors) else None
        return Effect(self.name, search, awaited, lane=lane)

    def score(self, query: Query, result: SourceResult, ids: Sequence[str]) -> Effect | None:
        """Return the call that computes the cosines of the chunks ``ids`` with the query's vector.

        Return None if there is no query vector.
        """
        vector, store = result.vector, self.store
        if vector is None:
            return None
        quick = implements(store, HasFastLookups) and store.has_fast_lookups
        return Effect(self.name, partial(store.vector_scores, vector, ids), quick=quick, lane=lane_of(self.name, store))


@dataclass(frozen=True, slots=True, eq=False)
class KeywordSource:
    """Source of the chunks with the highest BM25 scores."""

    store: SearchesKeywords
    weight: float
    name: str = "keyword"

    def search(self, query: Query, n: int) -> Effect | None:
        """Return the call that searches for the words of the query's text, or None for a query without text."""
        if query.text is None:
            return None
        store = self.store
        quick = implements(store, HasFastKeywords) and store.has_fast_keyword_search
        return Effect(self.name, partial(store.keyword_search, query, n), quick=quick, lane=lane_of(self.name, store))

    def score(self, query: Query, result: SourceResult, ids: Sequence[str]) -> Effect | None:
        """Return the call that computes the BM25 scores of the chunks ``ids``, or None for a query without text."""
        text = query.text
        if text is None:
            return None
        return Effect(self.name, partial(self.store.keyword_scores, text, ids), quick=True)


@dataclass(frozen=True, slots=True, eq=False)
class TimedVectorSource:
    """Source of the chunks most similar to the query, with additional chunks from times that the query mentions.

    The user may mean a chunk from a mentioned time even if other chunks are more similar. Therefore a second search is
    limited to these times. ``within`` returns the filter for this search. If the query mentions no time, ``within``
    returns None, and there is no second search.
    """

    all: VectorSource
    within: Callable[[Query], Filter | None]

    @property
    def name(self) -> str:
        """See :class:`Source`."""
        return self.all.name

    @property
    def weight(self) -> float:
        """See :class:`Source`."""
        return self.all.weight

    @property
    def store(self) -> SearchesVectors:
        """Store that is searched."""
        return self.all.store

    def search(self, query: Query, n: int) -> Effect | None:
        """Return the call that searches all chunks and, if the query mentions times, also the chunks from these times.

        Both searches use the same vector.
        """
        call = self.all.search(query, n)
        times = self.within(query)
        if call is None or times is None:
            return call
        store, first, afirst = self.store, call.run, call.arun

        def run() -> SourceResult:
            result = first()
            return _both(result, store.vector_search(_narrowed(query, times, result), n))

        async def arun() -> SourceResult:
            assert afirst is not None
            assert implements(store, AwaitsVectors)
            result = await afirst()
            return _both(result, await store.avector_search(_narrowed(query, times, result), n))

        return call._replace(run=run, arun=None if afirst is None else arun)

    def score(self, query: Query, result: SourceResult, ids: Sequence[str]) -> Effect | None:
        """See :class:`VectorSource`."""
        return self.all.score(query, result, ids)


@dataclass(frozen=True, slots=True, eq=False)
class ListedSource:
    """Source of the first chunks in the query's scope, in the store's order; the text of the query is not used."""

    store: object
    listing: Callable[[Scope, int], SourceResult]
    weight: float = 1.0
    name: str = "filter"

    def search(self, query: Query, n: int) -> Effect:
        """Return the call that lists the chunks."""
        scope = query.scope
        return Effect(self.name, partial(self.listing, scope, n), lane=lane_of(self.name, self.store))

    def score(self, query: Query, result: SourceResult, ids: Sequence[str]) -> Effect | None:
        """Return None: this source cannot score chunks that it did not list."""
        return None


def _narrowed(query: Query, times: Filter, result: SourceResult) -> Query:
    filter = query.scope.filter
    scope = replace(query.scope, filter=times if filter is None else filter & times)
    return replace(query, scope=scope, vector=query.vector if result.vector is None else result.vector)


def _both(result: SourceResult, more: SourceResult) -> SourceResult:
    entries = {entry.id: entry for entry in (*more.entries, *result.entries)}
    return result._replace(entries=sorted(entries.values(), key=lambda entry: (-entry.score, entry.id)))
