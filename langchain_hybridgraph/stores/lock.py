"""The lock that lets one writer at a time into an index folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from langchain_hybridgraph.errors import ReadOnlyError, StoreLockedError


class WriterLock:
    """An advisory lock on a file; the operating system frees it when its holder dies, however it dies.

    Two open stores exclude each other, whether they are in two processes or in one.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._file is not None

    def acquire(self) -> None:
        """Take the lock or raise StoreLockedError naming its holder; ReadOnlyError where nothing can be written."""
        if self._file is not None:
            return
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise ReadOnlyError(
                f"{self._path.parent} cannot be written to ({error.strerror}): queries work, changes need a "
                "writable folder"
            ) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(file, 64).decode("ascii", "replace").strip() or "unknown"
            os.close(file)
            raise StoreLockedError(
                f"{self._path.parent} is being written to by another open store (process {holder}): "
                "close() that one first; reading is possible meanwhile"
            ) from error
        self._file = file
        with contextlib.suppress(OSError):  # on a full disk the lock holds all the same, it only names nobody
            os.ftruncate(file, 0)
            os.write(file, str(os.getpid()).encode())

    def release(self) -> None:
        """Give the lock back; nothing happens when it is not held."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
