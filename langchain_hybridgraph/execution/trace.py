"""Stages, errors and degradation reasons of a search."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from langchain_hybridgraph.errors import HybridGraphError, RetrievalError

if TYPE_CHECKING:
    from langchain_hybridgraph.records import Answerability


class StageRun(NamedTuple):
    """A completed stage: its start (``time.perf_counter``), its duration including waiting, and its error."""

    name: str
    started_at: float
    took_ms: float
    error: Exception | None


class Trace:
    """Record of a search: its stages, its errors and the reasons for ``degraded``.

    Reasons are in order of occurrence; stages are in the order in which they ended.
    """

    def __init__(self) -> None:
        self._reasons: dict[str, None] = {}
        self.runs: list[StageRun] = []
        self.method = "hybrid"
        self.errors: dict[str, str] = {}
        self.remarks: dict[str, str] = {}
        self.started_at = time.perf_counter()
        self.raises = False
        self.results: Sequence[tuple[str, float]] = ()  # ids and scores of the result
        self.answerability: Answerability | None = None
        self.has_context = False  # whether the search used a conversation

    @property
    def reasons(self) -> tuple[str, ...]:
        """Reasons for ``degraded``, without duplicates."""
        return tuple(self._reasons)

    @property
    def stages(self) -> dict[str, float]:
        """Duration of each stage in milliseconds, summed over all its runs."""
        durations: dict[str, float] = {}
        for run in self.runs:
            durations[run.name] = durations.get(run.name, 0.0) + run.took_ms
        return durations

    @property
    def took_ms(self) -> float:
        """Milliseconds since the search started."""
        return (time.perf_counter() - self.started_at) * 1e3

    def degrade(self, reason: str | None, remark: str | None = None) -> None:
        """Add a reason to ``degraded``, unless it is None. ``remark`` explains the reason in the result's ``plan``."""
        if reason is not None:
            self._reasons[reason] = None
            if remark is not None:
                self.remarks[reason] = remark

    def note(self, where: str, error: BaseException) -> None:
        """Record an error message to be shown in the result's ``plan``.

        If ``raises`` is set, raise the error instead. An error that is not from this package is raised as
        RetrievalError.
        """
        if self.raises:
            if isinstance(error, HybridGraphError):
                raise error
            raise RetrievalError(f"{where} failed and on_error is 'raise' ({type(error).__name__}: {error})") from error
        self.errors[where] = f"{type(error).__name__}: {error}"

    def record(self, where: str, error: Exception, reason: str) -> None:
        """Record an error (see :meth:`note`), and add ``reason`` to ``degraded``."""
        self.note(where, error)
        self.degrade(reason)

    def stage(self, name: str) -> _Stage:
        """Return a context manager that measures the duration of a stage, including waiting."""
        return _Stage(name, self.runs)


class _Stage:
    """A running stage. It is a class because a generator-based context manager takes twice as long."""

    __slots__ = ("name", "runs", "started_at")

    def __init__(self, name: str, runs: list[StageRun]) -> None:
        self.name = name
        self.runs = runs

    def __enter__(self) -> None:
        self.started_at = time.perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        took_ms = (time.perf_counter() - self.started_at) * 1e3
        self.runs.append(StageRun(self.name, self.started_at, took_ms, error if isinstance(error, Exception) else None))
