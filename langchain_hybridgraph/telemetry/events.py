"""Events and statistics of searches."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.callbacks.manager import ahandle_event, handle_event

from langchain_hybridgraph.degradation import warnings_in
from langchain_hybridgraph.execution.effects import Trace
from langchain_hybridgraph.execution.threads import ForkSafeLock


@dataclass(frozen=True, eq=False)
class Search:
    """Search that has started; ``repr`` omits the query, so events can be logged.

    ``started_at`` is in nanoseconds since 1970, UTC. ``parent`` is the search that called this one, or None.
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
    """End of a stage; ``started_at`` is in nanoseconds since 1970, UTC, and ``error`` the exception that ended it."""

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
        """The reasons in ``degraded`` with the level ``warning``: part of the request was not carried out."""
        return warnings_in(self.degraded)

    @property
    def error_types(self) -> dict[str, str]:
        """Exception type of each failed component; the component ``retriever`` stands for the search itself."""
        types: dict[str, str] = {}
        for component, message in self.errors.items():
            name = message.partition(":")[0]
            types[component.partition(":")[0]] = name if name.isidentifier() else "Exception"
        return types if self.error is None else types | {"retriever": type(self.error).__name__}


Event = StageEnded | SearchEnded
Sink = Callable[[Event], None]
"""Function that receives events one at a time, on its own thread. The events of stages precede the event of their
search.
"""


STAGE = "retrieval_stage"
SEARCH = "retrieval_search"


def report_stages(manager: CallbackManagerForRetrieverRun, trace: Trace) -> None:
    """Report a search and its stages to the handlers of a LangChain run, on the caller's thread, before the run ends.

    An error in a handler is logged, or raised if its ``raise_error`` is set.
    """
    for arguments, run in _calls(manager, trace):
        handle_event(manager.handlers, *arguments, **run)


async def areport_stages(manager: AsyncCallbackManagerForRetrieverRun, trace: Trace) -> None:
    """Do the same as :func:`report_stages`, but await the handlers."""
    for arguments, run in _calls(manager, trace):
        await ahandle_event(manager.handlers, *arguments, **run)


def _calls(manager: Any, trace: Trace) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    if not manager.handlers:
        return []
    search = {
        "mode": trace.method,
        "degraded": list(trace.reasons),
        "remarks": dict(trace.remarks),
        "took_ms": round(trace.took_ms, 3),
        "results": [{"id": id, "score": score} for id, score in trace.results()],
    }
    events: list[tuple[str, dict[str, Any]]] = [
        (
            STAGE,
            {
                "stage": run.name,
                "after_ms": round((run.started_at - trace.started_at) * 1e3, 3),
                "took_ms": round(run.took_ms, 3),
                "error": None if run.error is None else type(run.error).__name__,
            },
        )
        for run in trace.runs
    ]
    run = {"run_id": manager.run_id, "tags": manager.tags, "metadata": manager.metadata}
    return [(("on_custom_event", "ignore_custom_event", *event), run) for event in (*events, (SEARCH, search))]


class RetrievalStatistics:
    """Statistics of one retriever's calls, which may come from any number of threads.

    >>> statistics = RetrievalStatistics()
    >>> statistics.record_answer(Trace(), documents=3)
    >>> statistics.report()["calls"], statistics.report()["mean_documents"]
    (1, 3.0)
    """

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._answers = self._documents = 0
        self._errors: Counter[str] = Counter()
        self._degraded: Counter[str] = Counter()
        self._took_ms: deque[float] = deque(maxlen=1_000)

    def __reduce__(self) -> tuple[type[RetrievalStatistics], tuple[()]]:
        return RetrievalStatistics, ()

    def record_answer(self, trace: Trace, documents: int) -> None:
        """Count a call that returned this number of Documents."""
        with self._lock:
            self._answers += 1
            self._documents += documents
            for reason in trace.reasons:
                self._degraded[reason] += 1
            self._took_ms.append(trace.took_ms)

    def record_error(self, error: Exception) -> None:
        """Count a call that raised an error, and the class of the error."""
        with self._lock:
            self._errors[type(error).__name__] += 1

    def report(self) -> dict[str, Any]:
        """Return the numbers of calls, errors and degradations, the mean number of Documents, and latency percentiles.

        ``p50_ms`` and ``p95_ms`` are those of the last 1,000 calls that returned an answer, or None before the first.
        """
        with self._lock:
            p50, p95 = np.percentile(self._took_ms, [50, 95]).round(3).tolist() if self._took_ms else (None, None)
            return {
                "calls": self._answers + self._errors.total(),
                "errors": dict(self._errors),
                "mean_documents": self._documents / self._answers if self._answers else None,
                "p50_ms": p50,
                "p95_ms": p95,
                "degraded": dict(self._degraded),
            }
