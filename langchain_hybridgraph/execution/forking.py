"""Locks and open engines in forked child processes."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from types import TracebackType
from weakref import WeakSet


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

    That thread does not exist in the child, so an ordinary lock would never be released there. In the child, the data
    that the lock protects may be half changed. Use the lock only for caches and counters, for which it does not matter
    if a change is lost or repeated.

    >>> lock = ForkSafeLock()
    >>> with lock:
    ...     lock.acquire(blocking=False)
    False
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _locks.add(self)

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Try to acquire the lock within ``timeout`` seconds (-1: no limit); return whether this succeeded."""
        return self._lock.acquire(blocking, timeout)

    def release(self) -> None:
        """Release the lock; raise RuntimeError if it is not held."""
        self._lock.release()

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock.release()


_locks: WeakSet[ForkSafeLock] = WeakSet()


def _free_locks() -> None:
    for lock in list(_locks):
        lock._lock = threading.Lock()


at_fork(after_in_child=_free_locks)


def keep_alive_forever(part: object) -> None:
    """Keep an object alive until the process ends, so that a forked child never destroys an inherited object.

    Destroying a Tantivy, Chroma or onnxruntime object waits for threads that the child does not have. Closing a SQLite
    connection may delete a log to which the parent is writing.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(part))
