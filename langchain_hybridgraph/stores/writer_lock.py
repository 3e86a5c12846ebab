"""Locks between threads, processes and forks."""

import contextlib
import os
import random
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from langchain_hybridgraph.errors import ReadOnlyError, StoreError, StoreLockedError, StoreUnavailableError
from langchain_hybridgraph.execution.threads import at_fork

try:
    import fcntl
except ImportError:  # on Windows; see check_locks
    fcntl = None  # type: ignore[assignment]

# Seconds that a change waits for the write lock.
WRITE_TIMEOUT = 30.0
# Seconds between two attempts to lock a file held by another process. The first pauses are short, because most writes
# are.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.01


def check_locks(folder: Path) -> None:
    """Raise StoreError if this system has no locks on files, which every index in a folder needs."""
    if fcntl is None:
        raise StoreError(
            f"an index in a folder ({folder}) needs the file locks of Linux or macOS, which this system does not have: "
            "on Windows, use WSL or Docker; or write HybridGraphStore(None) for a store in memory, or "
            "HybridRetriever(vector_store) over another store such as Chroma"
        )


class FairLock:
    """A reentrant lock that threads acquire in the order in which they request it.

    >>> lock = FairLock()
    >>> lock.acquire(timeout=1.0), lock.acquire(timeout=1.0), lock.depth
    (True, True, 2)
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._owner: int | None = None
        self._waiting: deque[tuple[int, threading.Lock]] = deque()
        self.depth = 0

    def acquire(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds for the lock; return whether this thread holds it."""
        thread = threading.get_ident()
        with self._guard:
            if self._owner in {None, thread} and (self._owner == thread or not self._waiting):
                self._owner = thread
                self.depth += 1
                return True
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append((thread, turn))
        try:
            return turn.acquire(timeout=max(0.0, timeout)) or self._leave(thread, turn)
        except BaseException:  # an interrupted thread must not keep a lock that was just passed to it
            if self._leave(thread, turn):
                self.release()
            raise

    def release(self) -> None:
        """Release the lock, or pass it to the thread that has waited longest."""
        with self._guard:
            self.depth -= 1
            if self.depth:
                return
            self._owner = None
            if self._waiting:
                self._owner, turn = self._waiting.popleft()
                self.depth = 1
                turn.release()

    @property
    def is_own(self) -> bool:
        """Whether this thread holds the lock."""
        return self._owner == threading.get_ident()

    def _leave(self, thread: int, turn: threading.Lock) -> bool:
        """Stop waiting; return True if the lock has already been passed to this thread."""
        with self._guard, contextlib.suppress(ValueError):
            self._waiting.remove((thread, turn))
            return False
        return True


class FileLock:
    """Advisory lock on a file, released by the system when its process ends. A forked child never holds it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None
        _locks.add(self)

    def acquire(self, deadline: float) -> bool:
        """Try to acquire the lock, at least once, until ``deadline`` (``time.monotonic()``); return whether it is held.

        Raises ReadOnlyError if the file cannot be written to, and StoreError if the file system does not support locks.
        """
        if self._file is not None:
            return True
        file, pause = self._open(), _FIRST_PAUSE
        try:
            while not self._try(file):
                seconds_left = deadline - time.monotonic()
                if seconds_left <= 0:
                    return False
                time.sleep(min(seconds_left, pause * random.uniform(0.5, 1.5)))
                pause = min(2 * pause, _LONGEST_PAUSE)
            self._file, file = file, -1
        finally:
            if file >= 0:
                os.close(file)
        return True

    def release(self) -> None:
        """Release the lock; if it is not held, do nothing."""
        file, self._file = self._file, None
        if file is not None:
            fcntl.flock(file, fcntl.LOCK_UN)  # closing is not enough while a forked child has a copy
            os.close(file)

    def leave_to_parent(self) -> None:
        """In a forked child, close the inherited descriptor without releasing the parent's lock."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _try(self, file: int) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise StoreError(
                f"{self.path} cannot be locked ({error.strerror}): without locks, several writers would overwrite each "
                "other's changes; put the index on a local disk, or mount the network drive with support for locks"
            ) from error
        return True

    def _open(self) -> int:
        try:
            return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except FileNotFoundError as error:
            raise StoreUnavailableError(f"{self.path.parent} was moved or deleted: put it back") from error
        except OSError as error:
            raise ReadOnlyError(
                f"{self.path.parent} cannot be written to ({error.strerror}): searches work, but changes need a "
                "writable folder"
            ) from error


class WriterLock:
    """Write lock of an index folder, held for one change at a time; in memory if ``path`` is None.

    Threads acquire it in order. Processes use a file lock; while waiting, a process holds a second one, the queue,
    which it must enter for each change, so that nobody is kept out. Create one WriterLock per folder and process.
    """

    def __init__(self, path: Path | None) -> None:
        self._threads = FairLock()
        self._file = None if path is None else FileLock(path)
        self._queue = None if path is None else FileLock(path.with_name(f"{path.name}.queue"))

    @contextlib.contextmanager
    def turn(self, timeout: float) -> Iterator[None]:
        """Hold the lock within the ``with`` block; the same thread may nest calls.

        Raises StoreLockedError after ``timeout`` seconds of waiting, and ReadOnlyError for a read-only folder.
        """
        deadline = time.monotonic() + timeout
        if not self._threads.acquire(timeout):
            raise self._late(timeout, "another thread of this process")
        try:
            if self._threads.depth == 1:
                self._take_file(deadline, timeout)
            yield
        finally:
            if self._threads.depth == 1 and self._file is not None:
                self._file.release()
            self._threads.release()

    def begin_in_child(self) -> None:
        """In a forked child, release the lock if another thread held it, because that thread does not exist here."""
        if not self._threads.is_own:
            self._threads = FairLock()

    def _take_file(self, deadline: float, timeout: float) -> None:
        if self._file is None or self._queue is None:
            return
        try:
            if not (self._queue.acquire(deadline) and self._file.acquire(deadline)):
                raise self._late(timeout, "another process")
        finally:
            self._queue.release()

    def _late(self, timeout: float, holder: str) -> StoreLockedError:
        folder = "the index in memory" if self._file is None else self._file.path.parent
        return StoreLockedError(
            f"waited {timeout:g} s to write to {folder}, which {holder} is writing to: wait longer with "
            "write_timeout=…, or write in smaller batches there; reading is still possible"
        )


_locks: weakref.WeakSet[FileLock] = weakref.WeakSet()


def _leave_to_parent() -> None:
    for lock in list(_locks):
        lock.leave_to_parent()


at_fork(after_in_child=_leave_to_parent)
