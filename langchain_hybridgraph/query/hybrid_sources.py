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
    """Return a vector source and a keyword source that share one request to the store.

    The source that is called first makes the request.
    """
    shared = _SharedCall(store)
    return (
        _HybridVectorSource(store, vector_weight, shared_call=shared),
        _HybridKeywordSource(store, keyword_weight, shared_call=shared),
    )


class _SharedCall:
    """Call to the store that is made once per query. Each source receives its part of the result."""

    def __init__(self, store: SearchesHybrid) -> None:
        self.store = store
        self._lock = Lock()
        self._result: tuple[Query, HybridResult | Exception] | None = None
        self._task: tuple[Query, asyncio.Task[HybridResult]] | None = None

    def run(self, query: Query, n: int) -> HybridResult:
        """Return the store's result for the query, calling the store only once.

        If another thread has already called the store, wait for its result.
        """
        with self._lock:
            if self._result is None or self._result[0] is not query:
                try:
                    self._result = query, self.store.hybrid_search(query, n)
                except Exception as error:  # noqa: BLE001 - both sources raise the same error
                    self._result = query, error
            result = self._result[1]
        if isinstance(result, Exception):
            raise result
        return result

    async def arun(self, query: Query, n: int) -> HybridResult:
        """Await the store's result for the query, calling the store only once.

        Cancelling one of the sources does not cancel the call, because the other source needs the result.
        """
        if self._task is None or self._task[0] is not query:
            self._task = query, asyncio.ensure_future(self.store.ahybrid_search(query, n))
            self._task[1].add_done_callback(_retrieve)
        return await asyncio.shield(self._task[1])


@dataclass(frozen=True, slots=True, eq=False)
class _HybridVectorSource(VectorSource):
    """Vector source that takes its results from the shared call."""

    shared_call: _SharedCall = field(kw_only=True)

    def search(self, query: Query, n: int) -> Effect | None:
        """Return the call that searches by the query's vector or the vector of its text.

        If the query has no text, there is no keyword search to share the call with, so the source makes its own call.
        """
        if query.text is None:
            return VectorSource.search(self, query, n)
        shared = self.shared_call

        async def arun() -> SourceResult:
            return (await shared.arun(query, n)).vector

        return Effect(self.name, lambda: shared.run(query, n).vector, arun, lane=lane_of(self.name, self.store))


@dataclass(frozen=True, slots=True, eq=False)
class _HybridKeywordSource(KeywordSource):
    """Keyword source that takes its results from the shared call."""

    shared_call: _SharedCall = field(kw_only=True)

    def search(self, query: Query, n: int) -> Effect | None:
        """Return the call that searches for the words of the query. Return None if the query has no text."""
        if query.text is None:
            return None
        shared = self.shared_call

        async def arun() -> SourceResult:
            return (await shared.arun(query, n)).keyword

        return Effect(self.name, lambda: shared.run(query, n).keyword, arun, lane=lane_of(self.name, self.store))

    def score(self, query: Query, result: SourceResult, ids: Sequence[str]) -> Effect | None:
        """Return the call that computes BM25 scores; the store usually has just read the chunks, but may have to."""
        call = KeywordSource.score(self, query, result, ids)
        return None if call is None else call._replace(quick=False, lane=lane_of(self.name, self.store))


def _retrieve(task: asyncio.Task[HybridResult]) -> None:
    """Retrieve the error of an abandoned call, so that asyncio does not report it."""
    if not task.cancelled():
        task.exception()
