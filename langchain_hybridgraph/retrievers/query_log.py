"""The last queries of each session."""

from __future__ import annotations

from collections import OrderedDict, deque

from langchain_hybridgraph.forking import ForkSafeLock

REMEMBERED_QUERIES = 10
REMEMBERED_SESSIONS = 1_000


class AskedQueries:
    """The last 10 queries of each of the last 1,000 sessions, from any thread.

    >>> asked = AskedQueries()
    >>> asked.add("a", "red cars"); asked.add("b", "trains"); asked.add("a", "its price?")
    >>> asked.of("a"), asked.of("c")
    (['red cars', 'its price?'], [])
    """

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._asked: OrderedDict[str, deque[str]] = OrderedDict()

    def __reduce__(self) -> tuple[type[AskedQueries], tuple[()]]:
        """A copy, as a pickle makes one for another process, begins without queries."""
        return AskedQueries, ()

    def add(self, session_id: str, query: str) -> None:
        """Note a query of a session."""
        with self._lock:
            self._asked.setdefault(session_id, deque(maxlen=REMEMBERED_QUERIES)).append(query)
            self._asked.move_to_end(session_id)
            if len(self._asked) > REMEMBERED_SESSIONS:
                self._asked.popitem(last=False)

    def of(self, session_id: str) -> list[str]:
        """The queries of a session, oldest first."""
        with self._lock:
            return list(self._asked.get(session_id, ()))
