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
    """One query, and the type of contexts that it searches.

    ``context_type`` is ``MEMORY``, ``RESOURCE``, ``SKILL`` or another type; None is every type. ``intent`` is the
    purpose in a few words. ``priority`` is a whole number from 1, the highest, to 5. Raises ConfigurationError for
    another priority and for a query without text.

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
                f"{self!r}: a query needs a text and a priority from 1, the highest, to 5, "
                'such as TypedQuery("install Chroma", "skill", priority=2)'
            )

    @property
    def weight(self) -> float:
        """Weight of the query's hits relative to those of other queries: (6 − priority) / 5."""
        return (6 - self.priority) / 5


@dataclass(frozen=True, eq=False)
class QueryPlan(Serializable, Sequence[TypedQuery]):
    """The queries of a plan, as a sequence; an empty plan searches nothing.

    It equals any sequence of the same queries.

    ``degraded`` contains ``planner-failed`` if the planner failed and the raw query replaces its plan; ``error`` is the
    error. ``reasoning`` explains the choice of queries. ``session_context`` is the part of the session that the planner
    received: the summary and the last messages, a line each. Both are "" if there is nothing to report.

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
        """Return a plan with the query as the user wrote it, in every type, for a planner that failed."""
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

    __hash__ = None  # type: ignore[assignment]  # equal to lists, which have no hash either


class Planner(Protocol):
    """Function that decides what to search for."""

    def __call__(self, summary: str | None, messages: Sequence[Any], query: str) -> Sequence[TypedQuery]:
        """Return up to 5 queries for a summary, messages (oldest first) and the query; none for small talk.

        A planner that falls back to another plan returns a :class:`QueryPlan` with the reason in ``degraded``. A
        planner receives the last 5 messages of a longer session, unless it has ``reads_all_messages``.
        """
        ...

    async def acall(self, summary: str | None, messages: Sequence[Any], query: str) -> Sequence[TypedQuery]:
        """Return the same result as calling the planner, without blocking the event loop."""
        ...


def best(queries: Sequence[TypedQuery]) -> tuple[TypedQuery, ...]:
    """Return the 5 queries of highest priority, ties in their order; duplicates within a type are dropped.

    >>> a, b = TypedQuery("Cats", priority=2), TypedQuery("dogs", priority=1)
    >>> [query.query for query in best([a, b, TypedQuery("cats ", priority=3)])]
    ['dogs', 'Cats']
    """
    once: dict[tuple[str | None, str], TypedQuery] = {}
    for query in sorted(queries, key=lambda query: query.priority):
        once.setdefault((query.context_type, " ".join(query.query.casefold().split())), query)
    return tuple(once.values())[:LARGEST_PLAN]
