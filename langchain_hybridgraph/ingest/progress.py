"""Tells how far an ingest is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[int, int | None], None]


@contextmanager
def showing(progress: bool | Progress | None) -> Iterator[Progress]:
    """A function that takes (done, total or None): the given one, one that draws on the terminal, or a silent one.

    The terminal is stderr; when that is none, nothing is drawn. With rich installed it is a bar, else a line
    a second.
    """
    if callable(progress):
        yield progress
    elif not progress or not sys.stderr.isatty():
        yield lambda done, total: None
    else:
        try:
            from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar
        except ImportError:
            yield _Lines()
            return
        from rich.console import Console

        columns = SpinnerColumn(), TextColumn("documents"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        with Bar(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task("documents", total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)


def counted(count: int, one: str, several: str) -> str:
    """The number before its noun, as reports say it.

    >>> counted(1, "directory", "directories"), counted(0, "edge", "edges")
    ('1 directory', '0 edges')
    """
    return f"{count} {one if count == 1 else several}"


class _Lines:
    """Writes a line of progress at most once a second."""

    def __init__(self) -> None:
        self._next = time.monotonic() + 1.0

    def __call__(self, done: int, total: int | None) -> None:
        now = time.monotonic()
        if now >= self._next or done == total:
            self._next = now + 1.0
            print(f"{done} of {total} documents" if total else f"{done} documents", file=sys.stderr)  # noqa: T201 - it is asked for
