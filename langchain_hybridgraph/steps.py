"""Progress reports of long tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, TypeVar

T = TypeVar("T")
_EVERY = 500


class Step(NamedTuple):
    """Progress of a task: ``done`` of ``total`` (None if unknown) items, named ``unit``, in the current ``phase``."""

    phase: str
    done: int
    total: int | None
    unit: str


_listener: ContextVar[Callable[[Step], None] | None] = ContextVar("_listener", default=None)


@contextmanager
def listening(listener: Callable[[Step], None]) -> Iterator[None]:
    """Call a function with each step reported inside the ``with`` block, in this thread."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def report(phase: str, done: int, total: int | None, unit: str) -> None:
    """Report a step to the listener, if there is one.

    >>> with listening(print):
    ...     report("reading", 2, 5, "files")
    Step(phase='reading', done=2, total=5, unit='files')
    """
    listener = _listener.get()
    if listener is not None:
        listener(Step(phase, done, total, unit))


def reporting(items: Iterable[T], phase: str, total: int | None, unit: str) -> Iterator[T]:
    """Yield the items, and report a step before the first item and at every 500th.

    >>> with listening(print):
    ...     list(reporting("ab", "index", 2, "chunks"))
    Step(phase='index', done=0, total=2, unit='chunks')
    ['a', 'b']
    """
    for done, item in enumerate(items):
        if done % _EVERY == 0:
            report(phase, done, total, unit)
        yield item
