"""Log of the last queries of each session."""

from __future__ import annotations

from collections import OrderedDict, deque

from langchain_hybridgraph.execution.forking import ForkSafeLock

REMEMBERED_QUERIES = 10
REMEMBERED_SESSIONS = 1_000


class QueryLog:
    """Thread-safe log of the last 10 queries of each of the last 1,000 sessions.

    >>> log = QueryLog()
    >>> log.add("a", "red cars"); log.add("b", "trains"); log.add("a", "its price?")
    >>> log.of("a"), log.of("c")
    (['red cars', 'its price?'], [])
    """

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._queries: OrderedDict[str, deque[str]] = OrderedDict()

    def __reduce__(self) -> tuple[type[QueryLog], tuple[()]]:
        """Pickle without queries, so that a copy in another process starts empty."""
        return QueryLog, ()

    def add(self, session_id: str, query: str) -> None:
        """Add a query to the log of a session."""
        with self._lock:
            self._queries.setdefault(session_id, deque(maxlen=REMEMBERED_QUERIES)).append(query)
            self._queries.move_to_end(session_id)
            if len(self._queries) > REMEMBERED_SESSIONS:
                self._queries.popitem(last=False)

    def of(self, session_id: str) -> list[str]:
        """Return the queries of a session, oldest first."""
        with self._lock:
            return list(self._queries.get(session_id, ()))
