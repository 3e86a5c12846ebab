"""What sinks are told: one event per stage and one per search."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from langchain_hybridgraph.degradation import warnings_in


@dataclass(frozen=True, eq=False)
class Search:
    """A search, from its beginning.

    ``began`` is in nanoseconds since 1970, UTC. ``parent`` is the search that this one is a part of: that of the
    retriever which asked this one. The query stands in no ``repr``, so that an event may be logged as it is.
    """

    retriever: str
    k: int | None
    query: str | None = field(repr=False)
    began: int
    parent: Search | None = None

    @property
    def query_length(self) -> int:
        """Characters of the query, 0 without a text."""
        return len(self.query or "")

    @property
    def query_hash(self) -> str:
        """The first 12 hexadecimal digits of the query's SHA-256, "" without a text: equal queries have equal ones.

        >>> Search("HybridRetriever", 10, "cat", 0).query_hash
        '77af778b51ab'
        """
        text = self.query or ""
        return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12] if text else ""


@dataclass(frozen=True)
class StageEnded:
    """A stage of a search has ended; ``began`` as in :class:`Search`, ``error`` is what went through it."""

    search: Search
    stage: str
    began: int
    took_ms: float
    error: Exception | None = None


@dataclass(frozen=True)
class SearchEnded:
    """A search has ended: with ``results``, or with ``error``, or because nobody waits for it (``cancelled``).

    ``mode`` is ``retrieval_method`` of its hits; ``results`` are their ids and scores; ``errors`` is what single
    components said that failed (``{"vector": "TimeoutError: …"}``), also when the search went on without them.
    ``has_context`` says whether a conversation had its part in the search.
    """

    search: Search
    mode: str
    took_ms: float
    results: tuple[tuple[str, float], ...] = ()
    degraded: tuple[str, ...] = ()
    errors: Mapping[str, str] = field(default_factory=dict, repr=False)
    error: Exception | None = field(default=None, repr=False)
    cancelled: bool = False
    has_context: bool = False

    @property
    def warnings(self) -> tuple[str, ...]:
        """The reasons in ``degraded`` that mean that something requested did not happen."""
        return warnings_in(self.degraded)

    @property
    def error_types(self) -> dict[str, str]:
        """The exception types of the components that failed, by component; ``retriever`` is the search itself.

        >>> search = Search("HybridRetriever", 10, "cat", 0)
        >>> SearchEnded(search, "keyword", 1.0, errors={"vector": "TimeoutError: no answer"}).error_types
        {'vector': 'TimeoutError'}
        """
        types = {where.partition(":")[0]: _type_in(said) for where, said in self.errors.items()}
        return types if self.error is None else types | {"retriever": type(self.error).__name__}


def _type_in(said: str) -> str:
    """The type that ``Trace.note`` has put before the message; a planner may say something without one."""
    name = said.partition(":")[0]
    return name if name.isidentifier() else "Exception"


Event = StageEnded | SearchEnded
Sink = Callable[[Event], None]
"""Is called with one event after the other, on a thread of its own; the stages of a search come before the search."""
