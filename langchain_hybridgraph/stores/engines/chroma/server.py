"""Approximate vector index on a Chroma server."""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from langchain_hybridgraph.errors import ConfigurationError, StoreError
from langchain_hybridgraph.stores.embedded.catalog import outbox as catalog_outbox
from langchain_hybridgraph.stores.engines.chroma.rows import Backlog, ChromaRows
from langchain_hybridgraph.stores.engines.chroma.server_search import ChromaSearch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from langchain_hybridgraph.records import Vector
    from langchain_hybridgraph.stores.embedded.catalog.catalog import Catalog
    from langchain_hybridgraph.stores.embedded.folder.generation import Generation
    from langchain_hybridgraph.stores.engines.chroma.client import ChromaServer

logger = logging.getLogger(__name__)

# Largest number of rows added while holding the write lock. Adding them takes about a second; other writers wait.
FILLED_AT_ONCE = 4_096
# Seconds that a search waits for the server before it uses the local matrix.
SEARCH_TIMEOUT = 1.0
# Seconds to wait after a failure before trying the server again. Each further failure doubles the pause, up to the
# maximum.
PAUSE, LONGEST_PAUSE = 2.0, 60.0
# Names of facts in the catalog: the id of the index with the location of its files, and the state of the collection.
INDEX_ID, STATE = "vector_server_index", "vector_server"


class CollectionState(NamedTuple):
    """Recorded state of an index's collection on a server.

    ``collection`` is the id of the collection. ``applied`` is the catalog version up to which the collection contains
    all changes, or -1 if it is unknown. ``rows`` is the number of rows at that version. Each update of the collection
    increases ``turn``, so that other processes notice the update.
    """

    server: str
    collection: str
    generation: int
    applied: int
    rows: int
    turn: int


class ServedChroma:
    """The collection of one index on a Chroma server.

    The collection's name contains the id of the index and the generation of the vectors. The process that holds the
    write lock updates the collection from the catalog's list of pending changes. If the server does not answer, the
    changes stay pending, and searches use the local vector matrix. Only a caller that holds the write lock may call
    methods that change the collection.
    """

    def __init__(self, server: ChromaServer, folder: Path, catalog: Catalog) -> None:
        self.server = server
        self._folder, self._catalog = folder, catalog
        self._lock = threading.RLock()
        self._writer: tuple[int, ChromaRows] | None = None
        self._search: ChromaSearch | None = None
        self._backlog, self._turn = Backlog(), -1
        self._id: str | None = None
        self._retry_at, self._pause = 0.0, PAUSE
        self.is_failing = False
        """Whether the last search or update of the collection failed."""
        self.completion = threading.Lock()
        """Lock held by the thread that brings the collection up to date in the background."""

    @property
    def is_open(self) -> bool:
        """Whether this process has used the server since the last :meth:`close`."""
        return self._writer is not None or self._search is not None

    @property
    def is_waiting(self) -> bool:
        """Whether the collection needs an update that may be tried now.

        It needs one if it is missing or out of date. After a failure, no update is tried for some time.
        """
        state = self._state()
        is_behind = state is None or state.applied != self._catalog.version()
        return is_behind and time.monotonic() >= self._retry_at

    def searchable(self, generation: int, version: int) -> CollectionState | None:
        """Return the state of the collection if it can be searched now; otherwise, return None.

        It can be searched if it has exactly this generation and version. After a failure, it is not searched for some
        time.
        """
        state = self._state()
        if state is None or (state.generation, state.applied) != (generation, version):
            return None
        return None if time.monotonic() < self._retry_at else state

    def start_search(self, state: CollectionState, vector: Vector, n: int) -> Callable[[], NDArray[np.int64]]:
        """Send a query and return a function that waits for its result.

        The result is approximately the ``n`` rows with the largest inner products, best first. If the collection has
        fewer rows, all of them are returned. Both this method and the returned function raise StoreError if the server
        fails.
        """
        with self._noting_failure():
            wait = self._connected().start(state.collection, vector, n)

        def result() -> NDArray[np.int64]:
            with self._noting_failure():
                rows = wait()
            self._note_success()
            return rows

        return result

    def follow(self, generation: Generation, *, is_complete: bool = False) -> None:
        """Apply the catalog's changes to the collection.

        Unless ``is_complete`` is True, a call adds at most ``FILLED_AT_ONCE`` rows, and calls soon after a failure do
        nothing. If the server fails, a warning is logged and no error is raised. Raises ConfigurationError if the
        collection belongs to another index.
        """
        if generation.matrix is None or (not is_complete and time.monotonic() < self._retry_at):
            return
        try:
            self._bring_towards(generation, is_complete)
        except StoreError as error:
            self._note_failure(error)
        except ConfigurationError as error:
            self._note_failure(error)
            raise
        else:
            self._note_success()

    def open(self, generation: int, dimension: int) -> ChromaRows:
        """Open the collection that holds this generation's vectors, for writing; create it if it does not exist.

        The first call for a generation deletes this index's collections of other generations. Raises the errors of
        ``ChromaRows.on_server``.
        """
        with self._lock:
            if self._writer is None or self._writer[0] != generation:
                self._close_writer()
                name = self._name(generation)
                metadata: dict[str, str | int] = {"index": self._index_id(), "generation": generation}
                metadata["dimension"] = dimension
                rows = ChromaRows.on_server(self.server, name, metadata)
                rows.delete_collections(self._name(None), keep=name)
                self._writer = generation, rows
            return self._writer[1]

    def rebuild(self, generation: Generation) -> None:
        """Compare the rows of the collection with the rows of the index; add missing rows and delete surplus ones.

        Raises StoreError if the server fails.
        """
        self._backlog.forget()
        self._forget_state()
        self._bring_towards(generation, is_complete=True)
        self._note_success()

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            self._close_writer()
            if self._search is not None:
                search, self._search = self._search, None
                search.close()

    def _bring_towards(self, generation: Generation, is_complete: bool) -> None:
        assert generation.matrix is not None, "rows without vectors are not collected"
        rows = self.open(generation.number, generation.matrix.dimension)
        facts = self._catalog.facts()
        version, floor = int(facts["version"]), int(facts["floor"])
        own = self.server.name, rows.id, generation.number
        state = self._state()
        if state is None or state[:3] != own:
            state = CollectionState(*own, applied=-1, rows=0, turn=0)
            self._backlog.forget()
        if state.applied == version:
            return
        if state.turn != self._turn:  # another process has changed the collection
            self._backlog.forget()
        self._save(state._replace(turn=state.turn + 1))
        self._backlog.update(rows, generation, self._catalog, applied=state.applied, version=version, floor=floor)
        self._backlog.fill(rows, generation, None if is_complete else FILLED_AT_ONCE)
        if not self._backlog.missing:
            self._save(CollectionState(*own, applied=version, rows=len(rows), turn=state.turn + 1))

    def _connected(self) -> ChromaSearch:
        with self._lock:
            if self._search is None:
                self._search = ChromaSearch(self.server, SEARCH_TIMEOUT)
            return self._search

    def _name(self, generation: int | None) -> str:
        return f"hybridgraph-{self._index_id()}-{'' if generation is None else generation}"

    def _index_id(self) -> str:
        """Return the id of this index. Assign a new id if it has none or if the folder is a copy."""
        if (own_id := self._own_id()) is not None:
            return own_id
        id, (inode, path) = uuid.uuid4().hex[:16], _place(self._folder)
        with self._catalog.writing() as connection:
            catalog_outbox.set_facts(connection, **{INDEX_ID: f"{id} {inode} {path}"})
        return id

    def _own_id(self) -> str | None:
        """Return the id of this index, or None if it has none yet.

        If the folder is a copy, the original's id is ignored, because the copy needs a collection of its own.
        """
        self._id = self._id or _recorded_id(self._catalog, self._folder)
        return self._id

    def _state(self) -> CollectionState | None:
        state = _state_in(self._catalog)
        if state is None or state.server != self.server.name:
            return None
        return state if self._own_id() is not None else None

    def _save(self, state: CollectionState) -> None:
        with self._catalog.writing() as connection:
            catalog_outbox.set_facts(connection, **{STATE: json.dumps(state)})
        self._turn = state.turn

    def _forget_state(self) -> None:
        state = self._state()
        if state is not None:
            self._save(state._replace(applied=-1))

    @contextmanager
    def _noting_failure(self) -> Iterator[None]:
        try:
            yield
        except StoreError as error:
            self._note_failure(error)
            raise

    def _note_failure(self, error: Exception) -> None:
        with self._lock:
            self._retry_at, self._pause = time.monotonic() + self._pause, min(2 * self._pause, LONGEST_PAUSE)
            is_new, self.is_failing = not self.is_failing, True
        if is_new:
            logger.warning("%s; the vectors in the folder are searched instead", error)

    def _note_success(self) -> None:
        with self._lock:
            self._retry_at, self._pause, self.is_failing = 0.0, PAUSE, False

    def _close_writer(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer[1].close()


def recorded_state(catalog: Catalog, folder: Path) -> CollectionState | None:
    """Return the recorded state of the index's collection on a server, or None if none is recorded.

    If the folder is a copy, the result is None, because the collection belongs to the original.
    """
    return None if _recorded_id(catalog, folder) is None else _state_in(catalog)


def _state_in(catalog: Catalog) -> CollectionState | None:
    stored_fact = catalog.fact(STATE)
    return None if stored_fact is None else CollectionState(*json.loads(stored_fact))


def _recorded_id(catalog: Catalog, folder: Path) -> str | None:
    """Return the id of the index in this folder, or None if none was assigned or the folder is a copy.

    The folder is a copy if both its inode and its path differ from the recorded ones.
    """
    stored_fact = catalog.fact(INDEX_ID)
    if stored_fact is None:
        return None
    id, inode, path = str(stored_fact).split(" ", 2)
    own = _place(folder)
    return id if inode == own[0] or path == own[1] else None


def _place(folder: Path) -> tuple[str, str]:
    return str(folder.stat().st_ino), str(folder)
