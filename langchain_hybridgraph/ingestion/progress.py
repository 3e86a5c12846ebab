"""Progress display of an ingest."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from langchain_hybridgraph.execution.processes import Step, listening

Progress = Callable[[Step], None]
INTERVAL = 10.0
"""Seconds between two lines of progress, if the output is not a terminal."""
_FEWEST = 0.01  # fraction of a task that must be finished before the remaining time is estimated


@contextmanager
def showing(progress: bool | Progress | None) -> Iterator[None]:
    """Show the steps that are reported inside the ``with`` block. If ``progress`` is a function, it is called with each
    step; if it is True, the steps are shown on stderr; otherwise, they are not shown.

    On a terminal with rich installed, a bar shows the phase, the progress, the elapsed time and an estimate of the
    remaining time. Without rich, a line is printed every 2 seconds; without a terminal, every ``INTERVAL`` seconds.
    """
    if callable(progress):
        with listening(progress):
            yield
        return
    if not progress:
        yield
        return
    with _display() as show, listening(show):
        yield


def counted(count: int, one: str, several: str) -> str:
    """Return the number followed by its noun in the singular or plural.

    >>> counted(1, "directory", "directories"), counted(0, "edge", "edges")
    ('1 directory', '0 edges')
    """
    return f"{count:,} {one if count == 1 else several}"


def _display() -> Any:
    if sys.stderr.isatty():
        try:
            return _bar()
        except ImportError:
            return _LinePrinter(2.0)
    return _LinePrinter(INTERVAL)


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    return _ProgressBar(Bar(*columns, console=Console(stderr=True), transient=True))


class _ProgressBar:
    def __init__(self, bar: Any) -> None:
        self._bar = bar
        self._task: Any = None
        self._clock = _Clock()

    def __enter__(self) -> Progress:
        self._bar.start()
        self._task = self._bar.add_task("starting", total=None, count="", left="")
        return self._show

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def _show(self, step: Step) -> None:
        self._clock.see(step)
        left = self._clock.remaining()
        completed, total = (step.done, step.total) if step.share is None else (step.share, 1.0)
        self._bar.update(
            self._task, description=step.phase, completed=completed, total=total, count=_count(step), left=left
        )


class _LinePrinter:
    """Progress display that prints a line every ``interval`` seconds, without control characters."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._stopped = threading.Event()
        self._started = time.monotonic()
        self._clock = _Clock()
        self._thread = threading.Thread(target=self._print, name="progress", daemon=True)

    def __enter__(self) -> Progress:
        self._thread.start()
        return self._show

    def __exit__(self, *error: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _show(self, step: Step) -> None:
        self._clock.see(step)

    def _print(self) -> None:
        while not self._stopped.wait(self._interval):
            step = self._clock.step
            if step is not None:
                parts = (_count(step), f"{time.monotonic() - self._started:.0f} s", self._clock.remaining())
                line = f"{step.phase}: {', '.join(filter(None, parts))}"
                print(line, file=sys.stderr, flush=True)  # noqa: T201 - it is requested


class _Clock:
    """Estimator of the remaining time of the complete task. If the progress of the task is unknown, the estimate is for
    the current phase.
    """

    def __init__(self) -> None:
        self.step: Step | None = None
        self._started = time.monotonic()

    def see(self, step: Step) -> None:
        is_new_phase = step.share is None and (self.step is None or step.unit != self.step.unit)
        if is_new_phase or step.share == 0:
            self._started = time.monotonic()  # the speed measured so far does not apply
        self.step = step

    def remaining(self) -> str:
        """Return a description of the estimated remaining time, or "" if there is no estimate."""
        return "" if self.step is None else _remaining(self.step, time.monotonic() - self._started)


def _count(step: Step) -> str:
    return f"{step.done:,} {step.unit}" if step.total is None else f"{step.done:,} of {step.total:,} {step.unit}"


def _remaining(step: Step, seconds: float) -> str:
    share = step.share if step.share is not None else step.done / step.total if step.total else 0.0
    return f"about {seconds / share * (1 - share):.0f} s left" if _FEWEST <= share <= 1 else ""
