"""Events of stages and searches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from langchain_hybridgraph.degradation import warnings_in


@dataclass(frozen=True, eq=False)
class Search:
    """Search that has started.

    ``started_at`` is in nanoseconds since 1970, UTC. ``parent`` is the search of the retriever that called this one, or
    None. The ``repr`` omits the query, so events can be logged.
    """

    retriever: str
    k: int | None
    query: str | None = field(repr=False)
    started_at: int
    parent: Search | None = None

    @property
    def query_length(self) -> int:
        """Number of characters in the query, or 0 if there is no query."""
        return len(self.query or "")


@dataclass(frozen=True)
class StageEnded:
    """End of a stage. ``started_at`` is in nanoseconds since 1970, UTC. ``error`` is the exception that ended the
    stage, or None.
    """

    search: Search
    stage: str
    started_at: int
    took_ms: float
    error: Exception | None = None


@dataclass(frozen=True)
class SearchEnded:
    """End of a search, which returned ``results``, raised ``error``, or was cancelled by the caller (``cancelled``).

    ``mode`` is the ``retrieval_method`` of the hits; ``results`` are their ids and scores. ``errors`` maps failed
    components to their messages (``{"vector": "TimeoutError: …"}``), even if the search continued without them.
    ``has_context`` is true if the search used a conversation.
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
        """The reasons in ``degraded`` with the level ``warning``.

        Each of them means that part of the request was not carried out.
        """
        return warnings_in(self.degraded)

    @property
    def error_types(self) -> dict[str, str]:
        """Exception type of each failed component; the component ``retriever`` stands for the search itself.

        >>> search = Search("HybridRetriever", 10, "cat", 0)
        >>> SearchEnded(search, "keyword", 1.0, errors={"vector": "TimeoutError: no answer"}).error_types
        {'vector': 'TimeoutError'}
        """
        types = {component.partition(":")[0]: _type_in(message) for component, message in self.errors.items()}
        return types if self.error is None else types | {"retriever": type(self.error).__name__}


def _type_in(message: str) -> str:
    """Return the exception type at the start of a message, or "Exception" if the message does not begin with a type."""
    name = message.partition(":")[0]
    return name if name.isidentifier() else "Exception"


Event = StageEnded | SearchEnded
Sink = Callable[[Event], None]
"""Function that receives events one at a time, on its own thread. The events of stages precede the event of their
search.
"""
