"""Sources of a store with native hybrid search."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from langchain_hybridgraph.execution.effects import Effect
from langchain_hybridgraph.execution.worker_threads import lane_of
from langchain_hybridgraph.query.sources import KeywordSource, VectorSource
from langchain_hybridgraph.records import Query, SourceResult

if TYPE_CHECKING:
    from langchain_hybridgraph.stores.protocols import HybridResult, SearchesHybrid


def hybrid_sources(
    store: SearchesHybrid, vector_weight: float, keyword_weight: float
) -> tuple[VectorSource, KeywordSource]:
    """Return the two sources of one search; the first one to be called makes the request for both."""
    shared = _SharedCall(store)
    return (
        _HybridVectorSource(store, vector_weight, shared=shared),
        _HybridKeywordSource(store, keyword_weight, shared=shared),
    )


class _SharedCall:
    """One call of the store per query; each source receives its part of the result."""

    def __init__(self, store: SearchesHybrid) -> None:
        self.store = store
        self._lock = Lock()
        self._result: tuple[Query, HybridResult | Exception] | None = None
        self._task: tuple[Query, asyncio.Task[HybridResult]] | None = None

    def run(self, query: Query, n: int) -> HybridResult:
        """Return the result; a second thread waits for the first one's call."""
        with self._lock:
            if self._result is None or self._result[0] is not query:
                try:
                    self._result = query, self.store.hybrid_search(query, n)
                except Exception as error:  # noqa: BLE001 - both sources fail with it
                    self._result = query, error
            result = self._result[1]
        if isinstance(result, Exception):
            raise result
        return result

    async def arun(self, query: Query, n: int) -> HybridResult:
        """Await and return the result; the call is cancelled only together with the event loop."""
        if self._task is None or self._task[0] is not query:
            self._task = query, asyncio.ensure_future(self.store.ahybrid_search(query, n))
            self._task[1].add_done_callback(_retrieve)
        return await asyncio.shield(self._task[1])


@dataclass(frozen=True, slots=True, eq=False)
class _HybridVectorSource(VectorSource):
    """Vector results of the shared call."""

    shared: _SharedCall = field(kw_only=True)

    def search(self, query: Query, n: int) -> Effect | None:
        """Search by the query's vector or the vector of its text; a query without text is a separate call."""
        if query.text is None:
            return VectorSource.search(self, query, n)
        shared = self.shared

        async def arun() -> SourceResult:
            return (await shared.arun(query, n)).vector

        return Effect(self.name, lambda: shared.run(query, n).vector, arun, lane=lane_of(self.name, self.store))


@dataclass(frozen=True, slots=True, eq=False)
class _HybridKeywordSource(KeywordSource):
    """Keyword results of the shared call."""

    shared: _SharedCall = field(kw_only=True)

    def search(self, query: Query, n: int) -> Effect | None:
        """Search by the words of the query's text."""
        if query.text is None:
            return None
        shared = self.shared

        async def arun() -> SourceResult:
            return (await shared.arun(query, n)).keyword

        return Effect(self.name, lambda: shared.run(query, n).keyword, arun, lane=lane_of(self.name, self.store))

    def score(self, query: Query, result: SourceResult, ids: Sequence[str]) -> Effect | None:
        """Return None: the BM25 of chunks beyond the best n is not worth another round trip."""
        return None


def _retrieve(task: asyncio.Task[HybridResult]) -> None:
    """Retrieve the error of an abandoned call, so that asyncio does not report it."""
    if not task.cancelled():
        task.exception()
