"""Index folders opened once and shared within a process."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from langchain_hybridgraph.errors import StoreError
from langchain_hybridgraph.execution.threads import at_fork, keep_alive_forever
from langchain_hybridgraph.stores.embedded.catalog import connections as catalog_connections
from langchain_hybridgraph.stores.embedded.catalog.catalog import Catalog
from langchain_hybridgraph.stores.embedded.folder.keyword_index import KeywordEngine
from langchain_hybridgraph.stores.embedded.folder.writer_lock import WriterLock

CATALOG, KEYWORDS, LOCK = "catalogue.sqlite", "keywords", "writer.lock"
# Seconds that a fork waits for reads and writes of other threads to end.
FORK_PATIENCE = 5.0

Key = tuple[Path, int, int]


class OpenFolder:
    """The catalog, the engines and the write lock of one folder, opened once per process.

    The first store on a folder opens them; the last store to be closed or garbage-collected closes them. A forked child
    process does not share them: its stores open the folder again.
    """

    def __init__(self, path: Path | None, catalog: Catalog) -> None:
        self.path = path
        self.catalog = catalog
        self.language = str(catalog.facts()["language"])
        self.lock = WriterLock(path and path / LOCK)
        self.keywords = KeywordEngine(path and path / KEYWORDS, self.language, catalog)
        self.flushed_version = -1
        """Version of the catalog at which the engines and the model were last brought up to date."""
        self.pending_rows = 0
        """Number of rows written since the engines were last brought up to date."""
        self.is_tidy = path is None
        """Whether this process has deleted the files that a crash may have left in the folder."""
        self.has_turn = True
        """Whether no other thread was writing when this process was last forked."""
        self._holders = 0

    @classmethod
    def of(cls, path: Path) -> OpenFolder:
        """Return the open folder at this path; if no store of this process uses it yet, open it.

        Each call must be matched by one call to :meth:`release`. Raises StoreError if this process was forked
        while another thread was using the folder.
        """
        with _guard:
            key = _key(path)
            if key in _lost_in_fork:
                raise StoreError(
                    f"{path} cannot be opened in process {os.getpid()}, which was forked while another thread was "
                    "using the index, so SQLite may fail here: start workers with spawn or "
                    "forkserver, or fork while no thread reads or writes"
                )
            folder = _open.get(key)
            if folder is None:
                folder = _open[key] = cls(path, Catalog(path / CATALOG))
            folder._holders += 1
            return folder

    @classmethod
    def in_memory(cls, catalog: Catalog) -> OpenFolder:
        """Return the open folder of an index in memory, which is never shared between stores."""
        folder = cls(None, catalog)
        folder._holders = 1
        return folder

    def release(self) -> None:
        """Record that a store no longer uses the folder. When no store uses it, close the engines and the catalog."""
        with _guard:
            self._holders -= 1
            if self._holders:
                return
            for key in [key for key, folder in _open.items() if folder is self]:
                del _open[key]
        self.keywords.close()
        self.catalog.close()


def _key(path: Path) -> Key:
    """Return the key under which the folder at this path is shared.

    If a folder is mounted twice, for example once read-only, each mount has a key of its own.
    """
    catalog = (path / CATALOG).stat()
    return path.resolve(), catalog.st_dev, catalog.st_ino


_guard = threading.RLock()  # the finaliser of a store may run inside it
_open: dict[Key, OpenFolder] = {}
_lost_in_fork: set[Key] = set()


def _before_fork() -> None:
    """Before a fork, pause writers and close the connections that a child must not inherit.

    Wait up to ``FORK_PATIENCE`` seconds for running reads and writes to finish.
    """
    deadline = time.monotonic() + FORK_PATIENCE
    for folder in list(_open.values()):
        folder.has_turn = folder.lock.pause(deadline)
    catalog_connections.close_connections_before_fork(deadline)


def _after_fork_in_parent() -> None:
    catalog_connections.lend_again_after_fork()
    for folder in list(_open.values()):
        folder.lock.resume()


def _after_fork_in_child() -> None:
    global _guard  # noqa: PLW0603 - a thread of the parent may hold it, which the child does not have
    _guard = threading.RLock()
    catalog_connections.reset_in_child()
    for key, folder in _open.items():
        keep_alive_forever(folder)
        if folder.catalog.is_lending or not folder.has_turn:
            _lost_in_fork.add(key)
    _open.clear()


at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
