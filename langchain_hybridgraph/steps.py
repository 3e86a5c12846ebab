"""Reports how far a long task is, from wherever its work is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple


class Step(NamedTuple):
    """How far a task is: ``done`` of ``total`` (None while that is not known) ``unit`` in the phase of this name."""

    phase: str
    done: int
    total: int | None
    unit: str


_listener: ContextVar[Callable[[Step], None] | None] = ContextVar("_listener", default=None)


@contextmanager
def listening(listener: Callable[[Step], None]) -> Iterator[None]:
    """Call a function with each step that is reported inside, in this thread."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def report(phase: str, done: int, total: int | None, unit: str) -> None:
    """Report a step to whoever is listening.

    >>> with listening(print):
    ...     report("reading", 2, 5, "files")
    Step(phase='reading', done=2, total=5, unit='files')
    """
    listener = _listener.get()
    if listener is not None:
        listener(Step(phase, done, total, unit))
