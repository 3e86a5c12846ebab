"""Progress display of an ingest."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from langchain_hybridgraph.execution.processes import Step, listening

Progress = Callable[[Step], None]
INTERVAL = 10.0
"""Seconds between two lines of progress, if the output is not a terminal."""
_FEWEST = 0.01  # fraction of a task that must be finished before the remaining time is estimated


@contextmanager
def showing(progress: bool | Progress | None) -> Iterator[None]:
    """Pass each step reported inside the ``with`` block to ``progress``; True shows the steps on stderr.

    On a terminal, a bar shows the phase, the progress, the elapsed and the remaining time. Without rich, a line is
    printed every 2 seconds; without a terminal, every ``INTERVAL`` seconds.
    """
    if not progress:
        yield
        return
    display = nullcontext(progress) if callable(progress) else _display()
    with display as show, listening(show):
        yield


def counted(count: int, one: str, several: str) -> str:
    """Return the number followed by its noun in the singular or plural.

    >>> counted(1, "directory", "directories"), counted(0, "edge", "edges")
    ('1 directory', '0 edges')
    """
    return f"{count:,} {one if count == 1 else several}"


def _display() -> AbstractContextManager[Progress]:
    if not sys.stderr.isatty():
        return _lines(INTERVAL)
    try:
        from rich.progress import Progress as Bar
    except ImportError:
        return _lines(2.0)
    return _bar(Bar)


@contextmanager
def _bar(bar_class: Any) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    clock = _Clock()
    with bar_class(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None, count="", left="")

        def show(step: Step) -> None:
            clock.see(step)
            done, total = (step.done, step.total) if step.share is None else (step.share, 1.0)
            left = clock.remaining()
            bar.update(task, description=step.phase, completed=done, total=total, count=_count(step), left=left)

        yield show


@contextmanager
def _lines(interval: float) -> Iterator[Progress]:
    stopped, started, clock = threading.Event(), time.monotonic(), _Clock()

    def print_lines() -> None:
        while not stopped.wait(interval):
            step = clock.step
            if step is not None:
                parts = (_count(step), f"{time.monotonic() - started:.0f} s", clock.remaining())
                line = f"{step.phase}: {', '.join(filter(None, parts))}"
                print(line, file=sys.stderr, flush=True)  # noqa: T201 - it is requested

    thread = threading.Thread(target=print_lines, name="progress", daemon=True)
    thread.start()
    try:
        yield clock.see
    finally:
        stopped.set()
        thread.join()


class _Clock:
    """Estimator of the remaining time of the task, or of the current phase if the task's progress is unknown."""

    def __init__(self) -> None:
        self.step: Step | None = None
        self._started = time.monotonic()

    def see(self, step: Step) -> None:
        is_new_phase = step.share is None and (self.step is None or step.unit != self.step.unit)
        if is_new_phase or step.share == 0:
            self._started = time.monotonic()  # the speed measured so far does not apply
        self.step = step

    def remaining(self) -> str:
        return "" if self.step is None else _remaining(self.step, time.monotonic() - self._started)


def _count(step: Step) -> str:
    return f"{step.done:,} {step.unit}" if step.total is None else f"{step.done:,} of {step.total:,} {step.unit}"


def _remaining(step: Step, seconds: float) -> str:
    share = step.share if step.share is not None else step.done / step.total if step.total else 0.0
    return f"about {seconds / share * (1 - share):.0f} s left" if _FEWEST <= share <= 1 else ""
