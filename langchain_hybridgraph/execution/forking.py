"""Locks and open engines in forked child processes."""

from __future__ import annotations

import ctypes
import os
import threading
from types import TracebackType
from weakref import WeakSet


class ForkSafeLock:
    """A lock that is free in a forked child, even if a thread of the parent held it.

    That thread does not exist in the child, so nothing would ever release the parent's lock there. What the lock
    protects may be half-changed in the child: it suits caches and counters whose every change may be lost or repeated.

    >>> lock = ForkSafeLock()
    >>> with lock:
    ...     lock.acquire(blocking=False)
    False
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _locks.add(self)

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Return whether the lock could be taken within ``timeout`` seconds; -1 waits without a limit."""
        return self._lock.acquire(blocking, timeout)

    def release(self) -> None:
        """Release the lock. Raises RuntimeError if it is free."""
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


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_free_locks)


def keep_alive_forever(part: object) -> None:
    """Keep an object of the parent alive forever in a forked child, because closing it would affect the parent.

    Destroying a Tantivy, Chroma or onnxruntime object waits for threads that the child does not have, and closing a
    SQLite connection may remove a log that the parent is writing to.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(part))
