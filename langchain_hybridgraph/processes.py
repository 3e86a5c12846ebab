"""Worker processes that share one task's work."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from itertools import chain, islice
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

FEW = 12
"""Number of inputs from which on worker processes are started: starting one takes as long as several inputs."""
MOST = 3
"""Number of worker processes at most; more would wait for the process that writes what they have made."""
_AHEAD = 4  # inputs per worker that are computed, or waiting to be, before their turn


@contextmanager
def worker_processes(count: int | None = None) -> Iterator[None]:
    """Let :func:`ordered_map` use worker processes inside the ``with`` block, in this thread.

    ``count`` is their number; by default one for each core except this process's own, up to ``MOST``. They are started
    when there is enough to do, and ended with the block. They do not import the program's main module, so a script
    needs no ``if __name__ == "__main__"``.
    """
    pool = _Pool(_spare_cores() if count is None else count)
    token = _current.set(pool)
    try:
        yield
    finally:
        _current.reset(token)
        pool.close()


def ordered_map(function: Callable[[T], R], inputs: Iterable[T]) -> Iterator[R]:
    """Yield the function's result for each input, in order, computed by worker processes if there are many inputs.

    An input should mean about a quarter of a second of work. ``function`` is one of a module (or a ``partial`` of one);
    its result must depend on its argument only. This process computes, too, while it would have to wait. What a worker
    cannot compute, or raises an error for, is computed here, so errors are those of a plain ``map``. Inputs are taken
    a few ahead of their turn.

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


def _spare_cores() -> int:
    if not sys.executable or getattr(sys, "frozen", False):  # the executable is the application, not Python
        return 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores - 1, MOST)


class _Task(Generic[T, R]):
    """One call; ``results`` is empty as long as there is none, and after a failure."""

    def __init__(self, function: Callable[[T], R], argument: T) -> None:
        self.function = function
        self.argument = argument
        self.results: list[R] = []
        self.done = threading.Event()

    def compute(self) -> None:
        """Compute the result here; an error comes again when it is this task's turn."""
        with suppress(Exception):
            self.results = [self.function(self.argument)]
        self.done.set()


class _Pool:
    """Worker processes, each with a thread that hands it one task after the other."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._tasks: SimpleQueue[_Task[Any, Any] | None] = SimpleQueue()
        self._workers: list[_Worker] = []

    def map(self, function: Callable[[T], R], inputs: Iterable[T]) -> Iterator[R]:
        """Yield the results in order."""
        if not self._workers:
            self._workers = [_Worker(self._tasks) for _ in range(self.count)]
        ahead: deque[_Task[T, R]] = deque()
        remaining = iter(inputs)
        try:
            while True:
                for argument in islice(remaining, _AHEAD * self.count - len(ahead)):
                    ahead.append(_Task(function, argument))
                    self._tasks.put(ahead[-1])
                if not ahead:
                    return
                yield self._result(ahead.popleft())
        finally:
            while self._next() is not None:  # the caller has stopped
                pass

    def _result(self, task: _Task[T, R]) -> R:
        while not task.done.is_set():
            other = self._next()
            if other is None:
                task.done.wait()
            else:
                other.compute()
        return task.results[0] if task.results else task.function(task.argument)

    def _next(self) -> _Task[Any, Any] | None:
        try:
            return self._tasks.get_nowait()
        except Empty:
            return None

    def close(self) -> None:
        """End the processes, whatever they are doing."""
        for worker in self._workers:
            self._tasks.put(None)
            worker.end()


class _Worker:
    """A process that computes, and the thread that waits for it."""

    def __init__(self, tasks: SimpleQueue[_Task[Any, Any] | None]) -> None:
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        self._process: subprocess.Popen[bytes] | None = None
        with suppress(OSError):  # not allowed, or no memory: the others compute what this one would have
            self._process = subprocess.Popen(
                [sys.executable, "-c", f"from {__name__} import _serve; _serve()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": paths},
                start_new_session=True,  # Ctrl-C is for the process that started it
            )
            threading.Thread(target=self._run, args=(self._process, tasks), name="worker", daemon=True).start()

    def _run(self, process: subprocess.Popen[bytes], tasks: SimpleQueue[_Task[Any, Any] | None]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        while (task := tasks.get()) is not None:
            try:
                pickle.dump((task.function, task.argument), process.stdin, pickle.HIGHEST_PROTOCOL)
                process.stdin.flush()
                task.results = pickle.load(process.stdout)  # noqa: S301 - written by our own process
            except Exception:  # noqa: BLE001 - the process is over, or the task cannot be sent
                self.end()
                return
            finally:
                task.done.set()

    def end(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def _serve() -> None:
    """Compute what is read from standard input until there is no more."""
    out, sys.stdout = sys.stdout.buffer, sys.stderr  # a library that prints must not be taken for a result
    while True:
        try:
            function, argument = pickle.load(sys.stdin.buffer)  # noqa: S301 - written by the process that started this
        except EOFError:
            return
        try:
            results = [function(argument)]
        except Exception:  # noqa: BLE001 - computed again, and raised, where its result is due
            results = []
        pickle.dump(results, out, pickle.HIGHEST_PROTOCOL)
        out.flush()


_current: ContextVar[_Pool | None] = ContextVar("_current", default=None)
