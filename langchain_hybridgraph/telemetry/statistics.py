"""Statistics of a retriever's calls."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from langchain_hybridgraph.execution.effects import Trace
from langchain_hybridgraph.execution.threads import ForkSafeLock


class RetrievalStatistics:
    """Statistics of one retriever's calls, which may come from any number of threads.

    >>> statistics = RetrievalStatistics()
    >>> statistics.record_answer(Trace(), documents=3)
    >>> statistics.report()["calls"], statistics.report()["mean_documents"]
    (1, 3.0)
    """

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._calls = self._answers = self._documents = 0
        self._errors: Counter[str] = Counter()
        self._degraded: Counter[str] = Counter()
        self._took_ms: deque[float] = deque(maxlen=1_000)

    def __reduce__(self) -> tuple[type[RetrievalStatistics], tuple[()]]:
        """Pickle without counts, so that a copy in another process counts its own calls."""
        return RetrievalStatistics, ()

    def record_answer(self, trace: Trace, documents: int) -> None:
        """Count a call that returned this number of Documents."""
        with self._lock:
            self._calls += 1
            self._answers += 1
            self._documents += documents
            self._degraded.update(trace.reasons)
            self._took_ms.append(trace.took_ms)

    @contextmanager
    def count_errors(self) -> Iterator[None]:
        """Return a context manager for a call. If the call raises, the call and the class of the error are counted.

        The error is not suppressed.
        """
        try:
            yield
        except Exception as error:
            with self._lock:
                self._calls += 1
                self._errors[type(error).__name__] += 1
            raise

    def report(self) -> dict[str, Any]:
        """Return the numbers of calls, errors and degradations, the mean number of Documents, and latency percentiles.

        ``p50_ms`` and ``p95_ms`` are percentiles of the last 1,000 calls that returned an answer, in milliseconds. The
        mean and the percentiles are None before the first answer.
        """
        with self._lock:
            durations_ms = list(self._took_ms)
            p50, p95 = (
                (round(float(p), 3) for p in np.percentile(durations_ms, [50, 95])) if durations_ms else (None, None)
            )
            return {
                "calls": self._calls,
                "errors": dict(self._errors),
                "mean_documents": self._documents / self._answers if self._answers else None,
                "p50_ms": p50,
                "p95_ms": p95,
                "degraded": dict(self._degraded),
            }
