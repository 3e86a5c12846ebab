"""Synchronisation of the engines with the catalog."""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import TYPE_CHECKING

from langchain_hybridgraph.errors import ConfigurationError, ReadOnlyError, StoreError, StoreLockedError, quote_value
from langchain_hybridgraph.stores.embedded.catalog import outbox as catalog_outbox
from langchain_hybridgraph.stores.embedded.folder.index_folder import IndexFolder
from langchain_hybridgraph.stores.engines.vector_engine_choice import searches_chroma, searches_server

if TYPE_CHECKING:
    from langchain_hybridgraph.stores.embedded.folder.index_settings import IndexSettings
    from langchain_hybridgraph.stores.engines.chroma.server import ServedChroma

logger = logging.getLogger(__name__)

# Number of versions kept in the outbox for readers in other processes. A reader that lacks more versions reads all
# rows again.
KEPT_VERSIONS = 64
# Number of seconds after a commit at which an engine without this commit is reported as out of date.
BEHIND_SECONDS = 5.0


def open_index(settings: IndexSettings) -> IndexFolder:
    """Open an index folder and bring its engines up to date.

    The engines are also brought up to date when a copy or a forked process opens the folder again.
    """
    return IndexFolder(settings, on_open=catch_up)


class EngineSync:
    """Updates Tantivy and Chroma from the outbox of an index, and rebuilds them.

    The caller must hold the write lock, except for :meth:`complete`, which acquires it.
    """

    def __init__(self, index: IndexFolder) -> None:
        self._index = index

    def rebuild(self, engine: str) -> None:
        """Rebuild one engine, ``"keywords"`` (Tantivy) or ``"vectors"`` (Chroma), from the catalog and the matrix.

        Raises ValueError for any other name.
        """
        if engine not in {"keywords", "vectors"}:
            raise ValueError(f"{quote_value(engine)} is not an engine; pass 'keywords' or 'vectors'")
        if engine == "keywords":
            self._index.keywords.rebuild(self._index.rows.version)
        else:
            self._rebuild_collection()

    def step(self, *, is_complete: bool = False) -> None:
        """Bring the engines up to the catalog's version, then shorten the outbox if it is long.

        If Chroma is many changes behind, one call applies only some of them, unless ``is_complete`` is True. A Chroma
        server that does not answer is updated later.
        """
        facts = self._index.catalog.facts()
        version, floor = int(facts["version"]), int(facts["floor"])
        try:
            self._index.keywords.follow(version, floor)
            if (server := used_server(self._index)) is not None:
                server.follow(self._index.generation, is_complete=is_complete)
            elif uses_chroma(self._index):
                self._index.shared.chroma.follow(self._index.generation, self._index.catalog, is_complete=is_complete)
        except StoreError as error:
            raise StoreError(
                f"all changes are in the catalog, but a search engine is not up to date: {error}; "
                "the next write, or opening the store again, updates it"
            ) from error
        self._index.shared.pending_rows = 0
        if version - floor > 2 * KEPT_VERSIONS:
            with self._index.catalog.writing() as connection:
                catalog_outbox.trim_changes(connection, version - KEPT_VERSIONS)

    def complete(self) -> None:
        """Bring the collection on a Chroma server up to date.

        The work is done in steps, so that other processes can write in between.
        """
        server = used_server(self._index)
        while server is not None and server.is_waiting and not server.is_failing:
            with self._index.writer():
                server.follow(self._index.generation)

    def _rebuild_collection(self) -> None:
        if (server := used_server(self._index)) is not None:
            server.rebuild(self._index.generation)
        if self._index.generation.matrix is None or not self._index.shared.chroma.own():
            return
        self._index.shared.chroma.drop(self._index.generation.number)
        if uses_chroma(self._index):
            self._index.shared.chroma.follow(self._index.generation, self._index.catalog, is_complete=True)


def complete_in_background(index: IndexFolder) -> None:
    """Bring the collection on a server up to date on a separate thread.

    Nothing happens if the store is read-only, if such a thread is already running, or if the server has failed
    recently. If another process holds the write lock, that process brings the collection up to date.
    """
    server = used_server(index)
    if server is None or index.settings.read_only or not server.is_waiting:
        return
    if server.completion.acquire(blocking=False):
        work = partial(_complete, index, server)
        threading.Thread(target=work, name="hybridgraph-vector-server", daemon=True).start()


def _complete(index: IndexFolder, server: ServedChroma) -> None:
    try:
        with index.writer(timeout=0):
            server.follow(index.generation)
        EngineSync(index).complete()
    except (StoreError, ConfigurationError):
        logger.debug("the vectors of %s on a server were not brought up to date", index.settings.path, exc_info=True)
    finally:
        server.completion.release()


def uses_chroma(index: IndexFolder) -> bool:
    """Return whether this process has to update the Chroma collection in the folder.

    It has to if the index is large, no Chroma server is used, and this process owns Chroma or can become its owner.
    """
    matrix = index.generation.matrix
    if matrix is None or index.settings.path is None or index.shared.server is not None:
        return False
    return searches_chroma(len(index.rows), matrix.dimension) and index.shared.chroma.own()


def used_server(index: IndexFolder) -> ServedChroma | None:
    """Return the collection on a Chroma server, or None if there is no server or the index is too small to use it."""
    server = index.shared.server
    return server if server is not None and searches_server(len(index.rows)) else None


def catch_up(index: IndexFolder) -> None:
    """Bring the engines up to date, unless the index is read-only or another process is writing.

    A failure is logged.
    """
    server = used_server(index)
    is_behind = uses_chroma(index) if server is None else server.is_waiting
    if index.settings.read_only or not (index.keywords.lags(index.rows.version) or is_behind):
        return
    try:
        with index.writer(timeout=0):
            EngineSync(index).step()
    except (StoreLockedError, ReadOnlyError):
        # The process that holds the write lock brings the engines up to date.
        return
    except StoreError:
        logger.warning(
            "the index %s can be read, but its search engines could not be brought up to date",
            index.settings.path,
            exc_info=True,
        )
