"""Worker threads shared by all searches."""

import asyncio
import ctypes
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future
from contextvars import Context
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary, WeakSet

# Locks and open engines in forked child processes.


def at_fork(
    before: Callable[[], object] | None = None,
    after_in_parent: Callable[[], object] | None = None,
    after_in_child: Callable[[], object] | None = None,
) -> None:
    """Register functions to call at a fork, as :func:`os.register_at_fork` does; on Windows, there are no forks."""
    if hasattr(os, "register_at_fork"):
        hooks = {"before": before, "after_in_parent": after_in_parent, "after_in_child": after_in_child}
        os.register_at_fork(**{name: hook for name, hook in hooks.items() if hook is not None})


class ForkSafeLock:
    """A lock that is free in a forked child, even if a thread of the parent held it.

    That thread does not exist in the child, and the data may be half changed there. Use the lock only for caches and
    counters, for which it does not matter if a change is lost or repeated.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _locks.add(self)

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


_locks: WeakSet[ForkSafeLock] = WeakSet()


def _free_locks() -> None:
    for lock in list(_locks):
        lock._lock = threading.Lock()


at_fork(after_in_child=_free_locks)


def keep_alive_forever(part: object) -> None:
    """Keep an object alive until the process ends, so that a forked child never destroys an inherited object.

    Destroying a Tantivy, Chroma or onnxruntime object waits for threads that the child does not have; closing a SQLite
    connection may delete a log to which the parent is writing.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(part))


# Bounded pools of daemon threads for blocking calls.

Result = TypeVar("Result")

WORKERS = min(32, (os.cpu_count() or 1) + 4)
"""Largest number of calls that run at the same time, apart from overdue and abandoned calls.

The default executor of asyncio has the same size.
"""

OVERDUE_SECONDS = 1.0
"""Number of seconds after which a running call is overdue, and another call may run in its place."""

OVERDUE_CALLS = 32
"""Number of running overdue calls of one lane at which further calls of the lane have to wait."""

ABANDONED_CALLS = 4
"""Number of running abandoned calls of one lane at which further calls of the lane are rejected."""

ABANDONED_CALLS_OF_KIND = 16
"""Number of running abandoned calls of all lanes of one kind at which further calls of this kind are rejected.

This limit is needed for objects that are created for a single call, each of which has a lane of its own.
"""

_IDLE_SECONDS = 10.0


class Lane(NamedTuple):
    """A group of calls that share limits; for an object, its source and class (``kind``) and id (``of``)."""

    kind: Hashable
    of: Hashable = None


def lane_of(source: str, thing: object) -> Lane:
    """Return the lane for the calls that a source makes to an object, such as a store, a model or a retriever."""
    return Lane((source, type(thing)), id(thing))


class OverloadedError(TimeoutError):
    """Raised when too many calls of a lane were abandoned and have not returned."""


class Job(Future[Result], Generic[Result]):
    """A call in ``context`` that is queued, running or done; two jobs in one context must not run at the same time."""

    def __init__(self, run: Callable[[], Result], lane: Lane, context: Context) -> None:
        super().__init__()
        self.lane = lane
        self.workers: Workers | None = None
        self.is_abandoned = False
        self._run = run
        self._context = context

    def abandon(self) -> None:
        """Stop waiting for the call. A queued call is never started; a running call keeps running."""
        if not self.cancel() and self.workers is not None:
            self.workers.abandon(self)

    def execute(self) -> None:
        """Run the call on this thread, unless it was cancelled."""
        if not self.set_running_or_notify_cancel():
            return
        try:
            result = self._context.run(self._run)
        except StopIteration as error:  # an asyncio Future cannot contain it, so the caller would wait forever
            self.set_exception(RuntimeError(f"the call raised StopIteration({error})"))
        except BaseException as error:  # noqa: BLE001 - passed on to the caller
            self.set_exception(error)
        else:
            self.set_result(result)


class Workers:
    """A bounded pool of threads: at most ``size`` calls run at the same time, and the lanes take turns.

    A call that is abandoned, or that has been running for ``OVERDUE_SECONDS``, no longer counts towards ``size``, so
    another call can run. Threads are daemons: unlike those of a ThreadPoolExecutor, they do not prevent the interpreter
    from exiting while a call hangs. Idle threads end after a few seconds.
    """

    def __init__(self, size: int, level: int) -> None:
        self._size = size
        self._level = level
        self._changed = threading.Condition(threading.Lock())
        self._queues: dict[Lane, deque[Job[Any]]] = {}
        self._running: dict[Job[Any], float] = {}  # running calls that are included in the size, oldest first
        self._overdue: Counter[Lane] = Counter()
        self._abandoned: Counter[Hashable] = Counter()  # number of abandoned calls by lane, and by kind of lane
        self._idle = self._watching = 0

    def submit(self, jobs: Iterable[Job[Any]]) -> None:
        """Queue jobs; a job of an overloaded lane fails with :class:`OverloadedError`."""
        refused = []
        with self._changed:
            for job in jobs:
                job.workers = self
                abandoned, kind = self._abandoned[job.lane], self._abandoned[job.lane.kind]
                if abandoned >= ABANDONED_CALLS or kind >= ABANDONED_CALLS_OF_KIND:
                    refused.append(job)
                else:
                    self._queues.setdefault(job.lane, deque()).append(job)
            self._wake_thread()
        for job in refused:
            job.set_exception(OverloadedError("too many earlier calls have not returned"))

    def abandon(self, job: Job[Any]) -> None:
        """Let another job run while an abandoned one keeps running; see :meth:`Job.abandon`."""
        with self._changed:
            if job.done() or job.is_abandoned:
                return
            job.is_abandoned = True
            self._abandoned.update([job.lane, job.lane.kind])
            if self._running.pop(job, None) is None:
                self._overdue -= Counter([job.lane])
            self._wake_thread()

    def _wake_thread(self) -> None:
        if not self._queues:
            return
        if self._idle:
            if len(self._running) < self._size or not self._watching:
                self._changed.notify()
            return
        threading.Thread(target=self._work, name=f"hybridgraph-{self._level}", daemon=True).start()
        self._idle += 1

    def _work(self) -> None:
        _thread.level = self._level
        while (job := self._take()) is not None:
            job.execute()
            with self._changed:
                self._idle += 1
                if job.is_abandoned:
                    self._abandoned -= Counter([job.lane, job.lane.kind])
                elif self._running.pop(job, None) is None:
                    self._overdue -= Counter([job.lane])
            del job  # an idle thread must not keep the result alive

    def _take(self) -> Job[Any] | None:
        """Wait for the next job that may run and return it, or None after being idle for too long.

        While jobs are queued, one thread always waits here to notice overdue calls.
        """
        with self._changed:
            idle_until = time.monotonic() + _IDLE_SECONDS
            while True:
                now = time.monotonic()
                for running, started_at in list(self._running.items()):
                    if now - started_at < OVERDUE_SECONDS:
                        break
                    del self._running[running]
                    self._overdue[running.lane] += 1
                if (job := self._next()) is not None:
                    self._idle -= 1
                    self._running[job] = now
                    self._wake_thread()
                    return job
                if not self._queues and now >= idle_until:
                    self._idle -= 1
                    return None
                self._wait(now, idle_until)

    def _wait(self, now: float, idle_until: float) -> None:
        """Wait for a notification; while jobs are queued, wait only until a running call becomes overdue."""
        if not self._queues:
            self._changed.wait(idle_until - now)
            return
        overdue_in = max(0.0, next(iter(self._running.values())) + OVERDUE_SECONDS - now) if self._running else None
        self._watching += 1
        self._changed.wait(overdue_in)
        self._watching -= 1

    def _next(self) -> Job[Any] | None:
        """Return the first job of the next lane, or None if no further job may run now."""
        if len(self._running) >= self._size:
            return None
        for lane, queue in self._queues.items():
            if self._overdue[lane] < OVERDUE_CALLS:
                job = queue.popleft()
                del self._queues[lane]
                if queue:
                    self._queues[lane] = queue  # moves the lane behind the others
                return job
        return None


def submit(job: Job[Any]) -> None:
    """Queue a job, from a worker at the next level, else at level 1.

    Each level has its own workers, so a call that waits for other calls never occupies a worker that they need.
    """
    _workers().submit([job])


def submit_soon(job: Job[Any]) -> None:
    """Queue a job in the next iteration of the running event loop, together with other jobs submitted until then.

    Otherwise, the first job would slow down the loop, which still submits the others: only one thread holds the
    interpreter's lock.
    """
    loop = asyncio.get_running_loop()
    new_jobs = _new_jobs.setdefault(loop, [])
    if not new_jobs:
        loop.call_soon(_submit_new, new_jobs)
    new_jobs.append(job)


def _submit_new(new_jobs: list[Job[Any]]) -> None:
    jobs, new_jobs[:] = new_jobs[:], []
    _workers().submit(jobs)


def _workers() -> Workers:
    level = getattr(_thread, "level", 0) + 1
    return _levels.get(level) or _levels.setdefault(level, Workers(WORKERS, level))


def _forget_workers() -> None:
    """Discard all workers in a forked process, which has neither their threads nor reliable locks."""
    global _new_jobs  # noqa: PLW0603 - the workers belong to the process
    _levels.clear()
    _new_jobs = WeakKeyDictionary()


_thread = threading.local()
_levels: dict[int, Workers] = {}
_new_jobs: WeakKeyDictionary[asyncio.AbstractEventLoop, list[Job[Any]]] = WeakKeyDictionary()
at_fork(after_in_child=_forget_workers)
