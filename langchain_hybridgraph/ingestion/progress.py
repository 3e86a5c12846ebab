"""Progress display of an ingest."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from langchain_hybridgraph.execution.processes import Step, listening

Progress = Callable[[Step], None]
INTERVAL = 10.0
"""Seconds between two lines of progress, if the output is not a terminal."""
_FEWEST = 0.01  # fraction of a task that must be finished before the remaining time is estimated


@contextmanager
def showing(progress: bool | Progress | None) -> Iterator[None]:
    """Pass each step reported inside the ``with`` block to ``progress``; True shows the steps on stderr.

    A line with the phase, the progress, the elapsed and the remaining time is updated every half second on a terminal,
    and printed every ``INTERVAL`` seconds otherwise.
    """
    if not progress:
        yield
        return
    with nullcontext(progress) if callable(progress) else _lines() as show, listening(show):
        yield


def counted(count: int, one: str, several: str) -> str:
    """Return the number followed by its noun in the singular or plural.

    >>> counted(1, "directory", "directories"), counted(0, "edge", "edges")
    ('1 directory', '0 edges')
    """
    return f"{count:,} {one if count == 1 else several}"


@contextmanager
def _lines() -> Iterator[Progress]:
    out, stopped, clock = sys.stderr, threading.Event(), _Clock()
    before, after = ("\r\033[K", "") if out.isatty() else ("", "\n")  # the code deletes the line before it is replaced

    def print_line() -> None:
        if clock.step is not None:
            out.write(f"{before}{clock.line()}{after}")
            out.flush()

    def print_lines() -> None:
        while not stopped.wait(0.5 if before else INTERVAL):
            print_line()

    thread = threading.Thread(target=print_lines, name="progress", daemon=True)
    thread.start()
    try:
        yield clock.see
    finally:
        stopped.set()
        thread.join()
        if before:
            print_line()
            out.write(before)


class _Clock:
    """Estimator of the remaining time of the task, or of the current phase if the task's progress is unknown."""

    def __init__(self) -> None:
        self.step: Step | None = None
        self._first = self._started = time.monotonic()

    def see(self, step: Step) -> None:
        is_new_phase = step.share is None and (self.step is None or step.unit != self.step.unit)
        if is_new_phase or step.share == 0:
            self._started = time.monotonic()  # the speed measured so far does not apply
        self.step = step

    def line(self) -> str:
        step, now = self.step, time.monotonic()
        assert step is not None
        done = f"{step.done:,} {step.unit}" if step.total is None else f"{step.done:,} of {step.total:,} {step.unit}"
        share = step.share if step.share is not None else step.done / step.total if step.total else 0.0
        left = f", about {(now - self._started) / share * (1 - share):.0f} s left" if _FEWEST <= share <= 1 else ""
        return f"{step.phase}: {done}, {now - self._first:.0f} s{left}"
