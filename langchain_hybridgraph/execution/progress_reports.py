"""Progress reports for long tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, Self, TypeVar

T = TypeVar("T")
_EVERY = 500
_SLICE = 100


class Step(NamedTuple):
    """Progress of a task: in the current ``phase``, ``done`` of ``total`` items are done.

    ``total`` is None if it is unknown. ``unit`` is the name of the items, such as "chunks". ``share`` is the fraction
    of the complete task that is done, from 0 to 1, or None if it is unknown.
    """

    phase: str
    done: int
    total: int | None
    unit: str
    share: float | None = None


class TaskShare:
    """Completed fraction of a task that has several phases. It never decreases.

    Each phase covers a range of the fraction, such as 0.5 to 1, which is passed to :meth:`enter`. Steps that are
    reported inside the ``with`` block belong to the current phase. Before the first call of :meth:`enter`, the fraction
    is unknown.

    >>> with listening(lambda step: print(step.phase, step.share)), TaskShare() as task:
    ...     task.enter(0.5, 1.0)
    ...     report("embedding", 1, 2, "chunks")
    embedding 0.75
    """

    def __init__(self) -> None:
        self._part: tuple[float, float] | None = None
        self._share = 0.0

    def __enter__(self) -> Self:
        self._token = _task.set(self)
        return self

    def __exit__(self, *error: object) -> None:
        _task.reset(self._token)

    def enter(self, start: float, end: float) -> None:
        """Start a phase that takes the completed fraction from ``start`` to ``end``, such as from 0.5 to 1."""
        self._part = start, end

    def share_of(self, done: int, total: int | None) -> float | None:
        """Return the completed fraction after ``done`` of ``total`` items of the phase, or None if it is unknown."""
        if self._part is None:
            return None
        start, end = self._part
        within = min(done / total, 1.0) if total else 0.0
        self._share = max(self._share, start + (end - start) * within)
        return self._share


_listener: ContextVar[Callable[[Step], None] | None] = ContextVar("_listener", default=None)
_task: ContextVar[TaskShare | None] = ContextVar("_task", default=None)


@contextmanager
def listening(listener: Callable[[Step], None]) -> Iterator[None]:
    """Call a function with each step that this thread reports inside the ``with`` block."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def report(phase: str, done: int, total: int | None, unit: str) -> None:
    """Report a step to the listener, if there is one.

    >>> with listening(print):
    ...     report("reading", 2, 5, "files")
    Step(phase='reading', done=2, total=5, unit='files', share=None)
    """
    listener = _listener.get()
    if listener is not None:
        task = _task.get()
        listener(Step(phase, done, total, unit, None if task is None else task.share_of(done, total)))


def reporting(items: Iterable[T], phase: str, total: int | None, unit: str) -> Iterator[T]:
    """Yield the items. Report a step before the first item, and then before every 500th item.

    >>> with listening(print):
    ...     list(reporting("ab", "index", 2, "chunks"))
    Step(phase='index', done=0, total=2, unit='chunks', share=None)
    ['a', 'b']
    """
    for done, item in enumerate(items):
        if done % _EVERY == 0:
            report(phase, done, total, unit)
        yield item


def in_slices(items: Sequence[T], phase: str, unit: str) -> Iterator[Sequence[T]]:
    """Yield the items in slices, and report a step after each of them. Without a listener, all items are one slice.

    >>> with listening(print):
    ...     [len(part) for part in in_slices(range(150), "embedding", "chunks")]
    Step(phase='embedding', done=0, total=150, unit='chunks', share=None)
    Step(phase='embedding', done=100, total=150, unit='chunks', share=None)
    Step(phase='embedding', done=150, total=150, unit='chunks', share=None)
    [100, 50]
    """
    size = len(items) if _listener.get() is None else _SLICE
    report(phase, 0, len(items), unit)
    for start in range(0, len(items), size or 1):
        yield items[start : start + size]
        report(phase, min(start + size, len(items)), len(items), unit)
