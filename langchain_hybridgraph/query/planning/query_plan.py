"""Query plans and the protocol of planners."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, overload

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.records.serialization import Serializable

MEMORY, RESOURCE, SKILL = "memory", "resource", "skill"
LARGEST_PLAN = 5


@dataclass(frozen=True, slots=True)
class TypedQuery(Serializable):
    """Query for contexts of one type, or of all types.

    ``context_type`` is ``MEMORY``, ``RESOURCE``, ``SKILL`` or another type; None means all types. ``intent`` is the
    purpose of the query in a few words. ``priority`` is an integer from 1, the highest, to 5. Raises ConfigurationError
    for any other priority and for a query without text.

    >>> TypedQuery("user's favourite editor", MEMORY, priority=2).weight
    0.8
    """

    query: str
    context_type: str | None = None
    intent: str = ""
    priority: int = 1

    def __post_init__(self) -> None:
        if not self.query.strip() or self.priority not in range(1, 6):
            raise ConfigurationError(
                f"{self!r}: a query must have text and a priority from 1 (highest) to 5, "
                'such as TypedQuery("install Chroma", "skill", priority=2)'
            )

    @property
    def weight(self) -> float:
        """Factor for the scores of the query's hits: (6 − priority) / 5."""
        return (6 - self.priority) / 5


@dataclass(frozen=True, eq=False)
class QueryPlan(Serializable, Sequence[TypedQuery]):
    """Sequence of queries to run. If it is empty, nothing is searched for.

    A plan equals any sequence of the same queries.

    ``reasoning`` explains the choice of queries. ``session_context`` is the part of the session that the planner
    received: one line for the summary and for each of the last messages. Either may be "". If the planner failed, the
    plan contains only the raw query, ``degraded`` contains ``planner-failed``, and ``error`` is the error message.

    >>> plan = QueryPlan((TypedQuery("install Chroma", SKILL),))
    >>> plan == [TypedQuery("install Chroma", SKILL)], plan.degraded
    (True, ())
    """

    queries: tuple[TypedQuery, ...]
    degraded: tuple[str, ...] = ()
    error: str = ""
    reasoning: str = ""
    session_context: str = ""

    @classmethod
    def raw(cls, query: str, error: BaseException, session_context: str = "") -> QueryPlan:
        """Return the plan to use if the planner failed: only the query as the user wrote it, for all types."""
        message = f"{type(error).__name__}: {error}"
        reasoning = "The planner failed, so the original question is searched for."
        return cls((TypedQuery(query),), ("planner-failed",), message, reasoning, session_context)

    @overload
    def __getitem__(self, index: int) -> TypedQuery: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[TypedQuery, ...]: ...
    def __getitem__(self, index: int | slice) -> TypedQuery | tuple[TypedQuery, ...]:
        return self.queries[index]

    def __len__(self) -> int:
        return len(self.queries)

    def __iter__(self) -> Iterator[TypedQuery]:
        return iter(self.queries)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Sequence) and not isinstance(other, str):
            return list(self.queries) == list(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # plans equal lists, which are not hashable


class Planner(Protocol):
    """Function that returns the queries to search for."""

    def __call__(self, summary: str | None, messages: Sequence[Any], query: str) -> Sequence[TypedQuery]:
        """Return up to 5 queries to search for, or none for small talk.

        ``query`` is the user's message. ``messages`` are the last 5 messages of the session, oldest first, or all of
        them if the planner sets ``reads_all_messages``. ``summary`` is the session's summary. A planner that cannot
        make its own plan may return a :class:`QueryPlan` with the reason in ``degraded``.
        """
        ...

    async def acall(self, summary: str | None, messages: Sequence[Any], query: str) -> Sequence[TypedQuery]:
        """Return the same result as calling the planner, without blocking the event loop."""
        ...


def best(queries: Sequence[TypedQuery]) -> tuple[TypedQuery, ...]:
    """Return the 5 queries with the highest priority, highest first.

    Queries with equal priority keep their order. Of queries with the same type and the same text, ignoring case and
    extra spaces, only the first is returned.

    >>> a, b = TypedQuery("Cats", priority=2), TypedQuery("dogs", priority=1)
    >>> [query.query for query in best([a, b, TypedQuery("cats ", priority=3)])]
    ['dogs', 'Cats']
    """
    once: dict[tuple[str | None, str], TypedQuery] = {}
    for query in sorted(queries, key=lambda query: query.priority):
        once.setdefault((query.context_type, " ".join(query.query.casefold().split())), query)
    return tuple(once.values())[:LARGEST_PLAN]
