"""Chroma as the approximate vector index of a folder."""

from __future__ import annotations

import logging
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from langchain_hybridgraph.errors import ReadOnlyError, StoreError
from langchain_hybridgraph.stores.embedded.catalog import outbox as catalog_outbox
from langchain_hybridgraph.stores.embedded.folder.writer_lock import FileLock
from langchain_hybridgraph.stores.engines.chroma.rows import Backlog, ChromaRows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from langchain_hybridgraph.records import Vector
    from langchain_hybridgraph.stores.embedded.catalog.catalog import Catalog
    from langchain_hybridgraph.stores.embedded.folder.generation import Generation

logger = logging.getLogger(__name__)

LOCK = "chroma.lock"
# Largest number of rows that one write adds while the Chroma index is being filled. Adding them takes about a second.
FILLED_AT_ONCE = 1_024


class CollectionVersion(NamedTuple):
    """The generation, catalog version and number of rows of a complete collection."""

    generation: int
    version: int
    rows: int


class OwnedChroma:
    """Chroma index of a large index folder. Only one process, its owner, may open it.

    If a large index has no owner, a process that writes to it becomes the owner. The owner updates Chroma whenever it
    writes, and remains the owner until it closes the folder or exits. All other processes search the vector matrix
    instead. If another process has written to the index, the owner also searches the matrix until it has updated
    Chroma.

    ``collected`` is the version of the index that the open collection contains. It is None if no collection is open, or
    if the open one is still being filled. If ``folder`` is None (an index in memory), Chroma is not used.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._lock = None if folder is None else FileLock(folder / LOCK)
        self._rows: ChromaRows | None = None
        self._backlog = Backlog()
        self._number = -1
        self.collected: CollectionVersion | None = None

    @property
    def is_open(self) -> bool:
        """Whether this process has Chroma open."""
        return self._rows is not None

    def own(self) -> bool:
        """Try to become the owner of Chroma, and return whether this process is the owner.

        Ownership is impossible if another process is the owner, if the folder is read-only, or if the index is in
        memory. It is also impossible in a forked process whose parent had Chroma open.
        """
        if self._lock is None or self._folder in _of_parent:
            return False
        try:
            return self._lock.acquire(deadline=time.monotonic())
        except ReadOnlyError:
            return False

    def exists(self, generation: int) -> bool:
        """Return whether the folder has a collection for this generation of vectors."""
        return self._folder is not None and self._path(generation).exists()

    def search(self, vector: Vector, n: int) -> NDArray[np.int64]:
        """Return approximately the ``n`` rows with the largest inner products, best first."""
        assert self._rows is not None, "a complete collection is open"
        return self._rows.search(vector, n)

    def follow(self, generation: Generation, catalog: Catalog, *, is_complete: bool = False) -> None:
        """Apply the catalog's changes to the collection. Only the owner may call this, while it holds the write lock.

        A call adds at most ``FILLED_AT_ONCE`` rows, unless ``is_complete`` is True. If Chroma cannot update the
        collection, for example because a process was killed in the middle of a write, the collection is deleted and
        rebuilt.
        """
        facts = catalog.facts()
        version, floor = int(facts["version"]), int(facts["floor"])
        if self.collected is not None and self.collected[:2] == (generation.number, version):
            return
        self.collected = None
        try:
            self._bring_towards(generation, catalog, version, floor, is_complete)
        except StoreError:
            logger.warning("the Chroma index of %s cannot be used and is being rebuilt", self._folder, exc_info=True)
            self.drop(generation.number)
            self._bring_towards(generation, catalog, version, floor, is_complete)
        if not self._backlog.missing:
            with catalog.writing() as connection:
                catalog_outbox.set_facts(connection, chroma_applied=version)
            self.collected = CollectionVersion(generation.number, version, len(self.open(generation.number)))

    def open(self, generation: int) -> ChromaRows:
        """Return the collection of this generation; create it if it is missing. Only the owner may call this.

        If the collection of another generation is open, it is closed and deleted. Raises StoreError if the collection
        cannot be opened.
        """
        self._open(generation)
        assert self._rows is not None
        return self._rows

    def drop(self, generation: int) -> None:
        """Close and delete the collection of this generation.

        Do nothing if this process cannot become the owner of Chroma.
        """
        if self.exists(generation) and self.own():
            if self._number == generation:
                self._close_rows()
            remove(self._path(generation))

    def close(self) -> None:
        """Close Chroma and stop being its owner."""
        self._close_rows()
        if self._lock is not None:
            self._lock.release()

    def leave_to_parent(self) -> None:
        """Prevent a forked child from opening the folder that its parent had open.

        The child inherits the state of Chroma's library, which refers to files opened by the parent.
        """
        if self._rows is not None and self._folder is not None:
            _of_parent.add(self._folder)

    def _path(self, generation: int) -> Path:
        assert self._folder is not None, "an index in memory has no collection"
        return self._folder / f"chroma-{generation}"

    def _open(self, generation: int) -> None:
        if self._rows is not None and self._number == generation:
            return
        before = self._number
        self._close_rows()
        if before not in (-1, generation):
            remove(self._path(before))
        self._rows, self._number = ChromaRows.in_folder(self._path(generation)), generation

    def _close_rows(self) -> None:
        rows, self._rows, self.collected = self._rows, None, None
        self._backlog.forget()
        if rows is not None:
            rows.close()

    def _bring_towards(
        self, generation: Generation, catalog: Catalog, version: int, floor: int, is_complete: bool
    ) -> None:
        rows = self.open(generation.number)
        applied = int(catalog.facts()["chroma_applied"])
        self._backlog.update(rows, generation, catalog, applied=applied, version=version, floor=floor)
        self._backlog.fill(rows, generation, None if is_complete else FILLED_AT_ONCE)


# Folders whose Chroma index was open in the parent of this forked process.
_of_parent: set[Path] = set()


def remove(path: Path) -> None:
    """Delete the files of a closed Chroma index; a no-op if the path does not exist."""
    shutil.rmtree(path, ignore_errors=not path.exists())
