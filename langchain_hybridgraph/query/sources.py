"""Where candidates come from: the vector side and the keyword side of a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from langchain_hybridgraph.query.calls import Call
from langchain_hybridgraph.records import Found, Query
from langchain_hybridgraph.stores.base import (
    AwaitsVectors,
    HasQuickWords,
    Local,
    SearchesKeywords,
    SearchesVectors,
    can,
)


class Source(Protocol):
    """One list of candidates and its weight in the fusion."""

    @property
    def name(self) -> str:
        """The word in ``retrieval_source`` and in ``degraded``."""
        ...

    @property
    def weight(self) -> float:
        """What its ranks or scores count, relative to the other sources."""
        ...

    def search(self, query: Query, n: int) -> Call | None:
        """A call that gives a Found with up to n entries; None when the query has nothing for this source."""
        ...

    def score(self, query: Query, found: Found, ids: Sequence[str]) -> Call | None:
        """A call that gives {id: this source's own score} of candidates that others found; None if it cannot."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class VectorSource:
    """The chunks of largest cosine."""

    store: SearchesVectors
    weight: float
    name: str = "vector"

    def search(self, query: Query, n: int) -> Call | None:
        """Search by the query's vector, else by the vector of its text."""
        if query.vector is None and query.text is None:
            return None
        store = self.store
        awaited = (lambda: store.avector_search(query, n)) if can(store, AwaitsVectors) else None
        return Call(self.name, lambda: store.vector_search(query, n), awaited, lane=(id(store), self.name))

    def score(self, query: Query, found: Found, ids: Sequence[str]) -> Call | None:
        """Cosines with the vector that was searched for."""
        vector, store = found.vector, self.store
        if vector is None:
            return None
        quick = can(store, Local) and store.is_local
        return Call(self.name, lambda: store.vector_scores(vector, ids), quick=quick)


@dataclass(frozen=True, slots=True, eq=False)
class KeywordSource:
    """The chunks of largest BM25."""

    store: SearchesKeywords
    weight: float
    name: str = "keyword"

    def search(self, query: Query, n: int) -> Call | None:
        """Search by the words of the query's text."""
        if query.text is None:
            return None
        store = self.store
        quick = can(store, HasQuickWords) and store.quick_words
        return Call(self.name, lambda: store.keyword_search(query, n), quick=quick, lane=(id(store), self.name))

    def score(self, query: Query, found: Found, ids: Sequence[str]) -> Call | None:
        """BM25 of candidates that the words did not bring among the first n."""
        text = query.text
        if text is None:
            return None
        return Call(self.name, lambda: self.store.keyword_scores(text, ids), quick=True)
