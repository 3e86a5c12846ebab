"""Protocols for stores that search chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from langchain_hybridgraph.stores.protocols.reading import ReadsChunks

if TYPE_CHECKING:
    from langchain_hybridgraph.chunks import Vector
    from langchain_hybridgraph.records import Query, SourceResult


@runtime_checkable
class SearchesVectors(Protocol):
    """A store that searches chunks by vector."""

    def vector_search(self, query: Query, n: int) -> SourceResult:
        """Return the ``n`` chunks in the query's scope with the largest cosines, best first, ties by id.

        If the query has no vector, its text is embedded. ``SourceResult.vector`` is the unit vector that was used, or
        None if the store does not report it.
        """
        ...

    def vector_scores(self, vector: Vector, ids: Sequence[str]) -> dict[str, float]:
        """Return the cosine of each of these chunks; chunks whose cosine is unknown are left out."""
        ...


@runtime_checkable
class AwaitsVectors(SearchesVectors, Protocol):
    """A store whose vector search is a network call that an event loop can await."""

    async def avector_search(self, query: Query, n: int) -> SourceResult:
        """Return the result of :meth:`SearchesVectors.vector_search` without blocking the event loop."""
        ...


@runtime_checkable
class SearchesKeywords(Protocol):
    """A store that searches chunks by keywords."""

    def keyword_search(self, query: Query, n: int) -> SourceResult:
        """Return the ``n`` chunks in the query's scope with the largest BM25 scores, best first, ties by id.

        ``SourceResult.bound`` is an upper bound on the BM25 score of any text, or None if the store does not report
        one.
        """
        ...

    def keyword_scores(self, text: str, ids: Sequence[str]) -> dict[str, float]:
        """Return the BM25 score of each of these chunks; chunks that share no word with ``text`` are left out."""
        ...


@runtime_checkable
class HasFastKeywords(Protocol):
    """A store that reports whether its keyword search takes no longer than starting a thread."""

    @property
    def has_fast_keyword_search(self) -> bool:
        """Whether a keyword search currently takes no longer than starting a thread."""
        ...


class HybridResult(NamedTuple):
    """The results of a vector search and a keyword search made in one call."""

    vector: SourceResult
    keyword: SourceResult


@runtime_checkable
class SearchesHybrid(SearchesVectors, SearchesKeywords, Protocol):
    """A store that runs a vector search and a keyword search in one call, for example to save a round trip to its
    server.

    For such a store, a pipeline does not request BM25 scores for chunks that only the vector search returned.
    """

    def hybrid_search(self, query: Query, n: int) -> HybridResult:
        """Return the results of :meth:`vector_search` and :meth:`keyword_search`."""
        ...

    async def ahybrid_search(self, query: Query, n: int) -> HybridResult:
        """Return the result of :meth:`hybrid_search` without blocking the event loop."""
        ...


class SearchableStore(ReadsChunks, SearchesVectors, SearchesKeywords, Protocol):
    """A store that returns chunks by id and can be searched by vector and by keywords."""
