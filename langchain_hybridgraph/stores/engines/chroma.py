"""The approximate vector index: Chroma's HNSW over rows."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from langchain_hybridgraph.errors import ReadOnlyError, StoreError
from langchain_hybridgraph.stores.embedded import catalog
from langchain_hybridgraph.stores.embedded.writer_lock import FileLock
from langchain_hybridgraph.stores.engines.chroma_client import guarded, open_folder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.records import Vector
    from langchain_hybridgraph.stores.embedded.catalog import Catalogue
    from langchain_hybridgraph.stores.embedded.generation import Generation

logger = logging.getLogger(__name__)

COLLECTION, LOCK = "rows", "chroma.lock"
# Largest number of rows that one write adds while an index that has become large is still being filled: one second.
FILLED_AT_ONCE = 1_024


class ChromaRows:
    """Row numbers in a Chroma collection of unit vectors, without texts and metadata.

    Only one process may open it: a second one, even a reader, has crashed and has damaged the index (measured with
    chromadb 1.5.9). The inner product of unit vectors is the cosine and, unlike Chroma's own cosine, accepts a vector
    of zeros.

    Raises StoreError if Chroma cannot open the folder; the folder can then be rebuilt from the matrix.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with guarded("open", path):
            path.mkdir(exist_ok=True)
            self._client = open_folder(path)
            self._collection = self._client.get_or_create_collection(
                COLLECTION, configuration={"hnsw": {"space": "ip"}}, embedding_function=None
            )
            self._batch = int(self._client.get_max_batch_size())

    def __len__(self) -> int:
        """Return the number of rows in the index."""
        with guarded("count", self._path):
            return int(self._collection.count())

    def upsert(self, rows: Sequence[int], vectors: NDArray[np.float32]) -> None:
        """Insert or replace rows with their unit vectors."""
        with guarded("upsert", self._path):
            for start in range(0, len(rows), self._batch):
                part = slice(start, start + self._batch)
                self._collection.upsert(ids=[str(row) for row in rows[part]], embeddings=vectors[part])

    def delete(self, rows: Sequence[int]) -> None:
        """Delete rows; missing rows are ignored."""
        with guarded("delete", self._path):
            for start in range(0, len(rows), self._batch):
                self._collection.delete(ids=[str(row) for row in rows[start : start + self._batch]])

    def search(self, vector: Vector, n: int) -> NDArray[np.int64]:
        """Return about the n rows of largest inner product, best first; approximate, fewer if there are fewer rows."""
        with guarded("query", self._path):
            answer = self._collection.query(query_embeddings=vector, n_results=n, include=[])
        return np.array(answer["ids"][0], dtype=np.int64)

    def rows(self) -> set[int]:
        """Return all rows in the index."""
        with guarded("get", self._path):
            return {int(row) for row in self._collection.get(include=[])["ids"]}

    def close(self) -> None:
        """Release Chroma's files."""
        with guarded("close", self._path):
            self._client.close()


class Collected(NamedTuple):
    """The state of the catalogue that a complete collection holds, and its number of rows."""

    generation: int
    version: int
    rows: int


class OwnedChroma:
    """The Chroma index of a large folder, in the one process that owns it.

    The first process that finds the index large owns it until it closes the folder or dies. The owner brings Chroma up
    to date when it writes. All other processes search the vector matrix instead, as does the owner after another
    process has written. ``collected`` is the state that can be searched, None while the collection is incomplete.
    ``folder`` None, an index in memory, has no Chroma.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._lock = None if folder is None else FileLock(folder / LOCK)
        self._rows: ChromaRows | None = None
        self._missing: list[int] | None = None
        self._number = self._version = -1
        self.collected: Collected | None = None

    @property
    def is_open(self) -> bool:
        """Whether this process has Chroma open."""
        return self._rows is not None

    def own(self) -> bool:
        """Return whether this process owns Chroma; it takes ownership if no process has it."""
        if self._lock is None or self._folder in _of_parent:
            return False
        try:
            return self._lock.acquire(deadline=time.monotonic())
        except ReadOnlyError:
            return False

    def exists(self, generation: int) -> bool:
        """Return whether the folder has a collection of this generation."""
        return self._folder is not None and self._path(generation).exists()

    def search(self, vector: Vector, n: int) -> NDArray[np.int64]:
        """Return about the n rows of largest inner product, best first."""
        assert self._rows is not None, "a complete collection is open"
        return self._rows.search(vector, n)

    def follow(self, generation: Generation, catalogue: Catalogue, *, is_complete: bool = False) -> None:
        """Bring the collection closer to the catalogue's state; only the owner may, during its turn to write.

        A collection far behind is filled over several calls, unless ``is_complete`` requires all of it now. If Chroma
        can no longer read it, for example after a kill in the middle of a write, it is rebuilt.
        """
        facts = catalogue.facts()
        version, floor = int(facts["version"]), int(facts["floor"])
        if self.collected is not None and self.collected[:2] == (generation.number, version):
            return
        self.collected = None
        try:
            self._bring_towards(generation, catalogue, version, floor, is_complete)
        except StoreError:
            logger.warning("the Chroma index of %s cannot be used and is rebuilt", self._folder, exc_info=True)
            self.drop(generation.number)
            self._bring_towards(generation, catalogue, version, floor, is_complete)
        if not self._missing:
            with catalogue.writing() as connection:
                catalog.set_facts(connection, chroma_applied=version)
            self.collected = Collected(generation.number, version, len(self.open(generation.number)))

    def open(self, generation: int) -> ChromaRows:
        """Return the collection of this generation; only for the owner. Raises StoreError if it cannot be opened."""
        self._open(generation)
        assert self._rows is not None
        return self._rows

    def drop(self, generation: int) -> None:
        """Close and delete the collection of this generation, unless another process owns Chroma and may have it open.

        What stays is deleted when the folder is next written to by its owner, or after it was closed.
        """
        if self.exists(generation) and self.own():
            if self._number == generation:
                self._close_rows()
            remove(self._path(generation))

    def close(self) -> None:
        """Close Chroma and let another process own it."""
        self._close_rows()
        if self._lock is not None:
            self._lock.release()

    def leave_to_parent(self) -> None:
        """In a forked child, never open a Chroma that was open in the parent, whose state Chroma's library keeps."""
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
        self._rows, self._number = ChromaRows(self._path(generation)), generation

    def _close_rows(self) -> None:
        rows, self._rows, self.collected = self._rows, None, None
        self._missing, self._version = None, -1
        if rows is not None:
            rows.close()

    def _bring_towards(
        self, generation: Generation, catalogue: Catalogue, version: int, floor: int, is_complete: bool
    ) -> None:
        self._open(generation.number)
        self._note_changes(generation, catalogue, version, floor)
        self._fill(generation, None if is_complete else FILLED_AT_ONCE)

    def _note_changes(self, generation: Generation, catalogue: Catalogue, version: int, floor: int) -> None:
        """Delete dead rows from the collection, and record which rows are still missing."""
        assert self._rows is not None
        applied = self._version if self._missing is not None else int(catalogue.facts()["chroma_applied"])
        if not self._missing and not len(self._rows):
            applied = -1
        if applied < max(floor, 1):
            living = generation.nonzero_rows(catalogue.rows())
            present = self._rows.rows()
            missing, dead = living - present, present - living
        else:
            touched = set(catalogue.changed_rows(applied))
            living = {entry.row for entry in catalogue.read_rows(touched) if entry.row is not None}
            missing = set(self._missing or ()) - touched | generation.nonzero_rows(sorted(living))
            dead = touched - living
        self._rows.delete(sorted(dead))
        self._missing, self._version = sorted(missing), version

    def _fill(self, generation: Generation, most: int | None) -> None:
        assert self._rows is not None
        assert self._missing is not None
        part = self._missing[:most]
        for rows, vectors in generation.vectors(part):
            self._rows.upsert(rows.tolist(), vectors)
        self._missing = self._missing[len(part) :]


# Folders whose Chroma was open in the parent of this forked process.
_of_parent: set[Path] = set()


def remove(path: Path) -> None:
    """Delete a closed index; a no-op if there is none."""
    shutil.rmtree(path, ignore_errors=not path.exists())
