"""Worker processes, and progress of long tasks."""

import os
import pickle
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Generic, NamedTuple, Self, TypeVar

# Worker processes that share the work of one task.

T = TypeVar("T")
R = TypeVar("R")

FEW = 12
"""Smallest number of inputs for which workers are started; starting one takes as long as computing several results."""
MOST = 3
"""Largest number of workers; more of them would only wait for the process that writes their results."""
_AHEAD = 4  # number of inputs per worker that are read before their results are needed


@contextmanager
def worker_processes(count: int | None = None) -> Iterator[None]:
    """Let :func:`ordered_map` use worker processes inside the ``with`` block, in this thread.

    ``count`` is the number of processes; the default is one less than the number of cores, up to ``MOST``. They start
    when there is enough work, and do not import the program's main module, so a script does not need ``if __name__ ==
    "__main__"``.
    """
    if count is None:
        has_python = sys.executable and not getattr(sys, "frozen", False)  # needed to start workers
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        count = min(cores - 1, MOST) if has_python else 0
    pool = _Pool(count)
    token = _current.set(pool)
    try:
        yield
    finally:
        _current.reset(token)
        pool.close()


def ordered_map(function: Callable[[T], R], inputs: Iterable[T]) -> Iterator[R]:
    """Yield the function's result for each input, in order; a few inputs are read before they are needed.

    Inside :func:`worker_processes`, worker processes share the work if there are many inputs; one should take about a
    quarter of a second. ``function`` must be defined at module level (or be a ``partial`` of such a function), and its
    result may depend only on its argument. If a worker fails on an input, this process computes the result again, so
    errors are the same as with ``map``.

    >>> with worker_processes():
    ...     list(ordered_map(abs, [-1, 2]))
    [1, 2]
    """
    pool = _current.get()
    if pool is None or not pool.count:
        yield from map(function, inputs)
        return
    waiting = iter(inputs)
    first = list(islice(waiting, FEW))
    every = chain(first, waiting)
    yield from map(function, every) if len(first) < FEW else pool.map(function, every)


@dataclass(slots=True)
class _Task(Generic[T, R]):
    """Input, the call of a worker, and the result if this process computed it while it waited, as a list."""

    argument: T
    call: Future[list[R]]
    results: list[R] = field(default_factory=list)


class _Pool:
    """Threads that each pass their tasks to a worker process of their own."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._threads = ThreadPoolExecutor(max(1, count), "worker")
        self._local = threading.local()
        self._processes: list[subprocess.Popen[bytes]] = []

    def map(self, function: Callable[[T], R], inputs: Iterable[T]) -> Iterator[R]:
        tasks: deque[_Task[T, R]] = deque()
        remaining = iter(inputs)
        try:
            while True:
                for argument in islice(remaining, _AHEAD * self.count - len(tasks)):
                    tasks.append(_Task(argument, self._threads.submit(self._compute, function, argument)))
                if not tasks:
                    return
                for task in tasks:  # this process computes results, too, while it waits for the first one
                    if tasks[0].call.done():
                        break
                    if task.call.cancel():
                        with suppress(Exception):  # the error occurs again when the result is needed
                            task.results = [function(task.argument)]
                task = tasks.popleft()
                results = task.results if task.call.cancelled() else task.call.result()
                yield results[0] if results else function(task.argument)
        finally:
            for task in tasks:
                task.call.cancel()

    def _compute(self, function: Callable[[T], R], argument: T) -> list[R]:
        """Return the result as a list, or an empty list if the worker process failed to compute it."""
        if not hasattr(self._local, "process"):
            self._local.process = self._start()
        process = self._local.process
        try:
            pickle.dump((function, argument), process.stdin, pickle.HIGHEST_PROTOCOL)
            process.stdin.flush()
            results: list[R] = pickle.load(process.stdout)  # noqa: S301 - written by our own process
        except Exception:  # noqa: BLE001 - the process has ended or did not start, or the task cannot be sent
            self._local.process = None
            return []
        return results

    def _start(self) -> subprocess.Popen[bytes] | None:
        with suppress(OSError):  # not permitted, or out of memory
            process = start_python(f"from {__name__} import _serve; _serve()")
            self._processes.append(process)
            return process
        return None

    def close(self) -> None:
        """Kill the processes, even while they are computing."""
        for process in self._processes:
            process.kill()
        self._threads.shutdown(cancel_futures=True)
        for process in self._processes:
            process.kill()
            process.wait()


def start_python(code: str, **options: Any) -> subprocess.Popen[Any]:
    """Run code in another Python process that can import the same modules, with pipes for its input and output.

    Only the parent process handles Ctrl-C.
    """
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": paths, "PYTHONIOENCODING": "utf-8:surrogatepass"},
        start_new_session=True,
        **options,
    )


def _serve() -> None:
    """Read tasks from standard input, compute them and write the results, until the input ends."""
    out, sys.stdout = sys.stdout.buffer, sys.stderr  # keeps the output of libraries that print apart from the results
    while True:
        try:
            function, argument = pickle.load(sys.stdin.buffer)  # noqa: S301 - written by the process that started this
        except EOFError:
            return
        try:
            results = [function(argument)]
        except Exception:  # noqa: BLE001 - the parent process computes the result again and raises the error
            results = []
        pickle.dump(results, out, pickle.HIGHEST_PROTOCOL)
        out.flush()


_current: ContextVar[_Pool | None] = ContextVar("_current", default=None)


# Progress reports for long tasks.

_EVERY = 500
_SLICE = 100


class Step(NamedTuple):
    """Progress of a task: in the current ``phase``, ``done`` of ``total`` items (None: unknown) are done.

    ``unit`` is the name of the items, such as "chunks". ``share`` is the fraction of the complete task that is done,
    from 0 to 1, or None if it is unknown.
    """

    phase: str
    done: int
    total: int | None
    unit: str
    share: float | None = None


class TaskShare:
    """Completed fraction of a task that has several phases. It never decreases, and is unknown before :meth:`enter`.

    :meth:`enter` starts a phase, which covers a range of the fraction, such as 0.5 to 1. Steps that are reported inside
    the ``with`` block belong to the current phase.

    >>> with showing(lambda step: print(step.phase, step.share)), TaskShare() as task:
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


def report(phase: str, done: int, total: int | None, unit: str) -> None:
    """Report a step to the listener, if there is one.

    >>> with showing(print):
    ...     report("reading", 2, 5, "files")
    Step(phase='reading', done=2, total=5, unit='files', share=None)
    """
    listener = _listener.get()
    if listener is not None:
        task = _task.get()
        listener(Step(phase, done, total, unit, None if task is None else task.share_of(done, total)))


def reporting(items: Iterable[T], phase: str, total: int | None, unit: str) -> Iterator[T]:
    """Yield the items. Report a step before the first item, and then before every 500th item.

    >>> with showing(print):
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

    >>> with showing(print):
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


# Display of progress.

Progress = Callable[[Step], None]
INTERVAL = 10.0
"""Seconds between two lines of progress, if the output is not a terminal."""
_FEWEST = 0.01  # fraction of a task that must be finished before the remaining time is estimated


@contextmanager
def showing(progress: bool | Progress | None) -> Iterator[None]:
    """Pass each step reported inside the ``with`` block to ``progress``; True shows the steps on stderr.

    A step is shown as a line with the phase, the progress, the elapsed and the remaining time, at most every half
    second on a terminal, where the line is updated, and every ``INTERVAL`` seconds otherwise.
    """
    if not progress:
        yield
        return
    lines = _Lines()
    token = _listener.set(progress if callable(progress) else lines.show)
    try:
        yield
    finally:
        _listener.reset(token)
        lines.clear()


def counted(count: int, one: str, several: str) -> str:
    """Return the number followed by its noun in the singular or plural.

    >>> counted(1, "directory", "directories"), counted(0, "edge", "edges")
    ('1 directory', '0 edges')
    """
    return f"{count:,} {one if count == 1 else several}"


class _Lines:
    """Lines on stderr, with the remaining time of the task or, if the task's progress is unknown, of its phase."""

    def __init__(self) -> None:
        self._out = sys.stderr
        # On a terminal, the code deletes the line before it is replaced.
        self._before, self._after, self._interval = (
            ("\r\033[K", "", 0.5) if self._out.isatty() else ("", "\n", INTERVAL)
        )
        self._first = self._started = self._shown_at = time.monotonic()
        self._unit = ""
        self._is_shown = False

    def show(self, step: Step) -> None:
        """Print a line for a step, unless the last line has just been printed."""
        now = time.monotonic()
        if step.share == 0 or (step.share is None and step.unit != self._unit):
            self._started = now  # the speed measured so far does not apply
        self._unit = step.unit
        if now - self._shown_at >= self._interval:
            self._shown_at, self._is_shown = now, True
            self._out.write(f"{self._before}{self.line(step, now)}{self._after}")
            self._out.flush()

    def line(self, step: Step, now: float) -> str:
        """Return the line for a step."""
        done = f"{step.done:,} {step.unit}" if step.total is None else f"{step.done:,} of {step.total:,} {step.unit}"
        share = step.share if step.share is not None else step.done / step.total if step.total else 0.0
        left = f", about {(now - self._started) / share * (1 - share):.0f} s left" if _FEWEST <= share <= 1 else ""
        return f"{step.phase}: {done}, {now - self._first:.0f} s{left}"

    def clear(self) -> None:
        """Delete the line on a terminal."""
        if self._is_shown:
            self._out.write(self._before)
