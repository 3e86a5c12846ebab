"""The engines of an open index, kept in step with its catalogue."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from langchain_hybridgraph.errors import (
    ReadOnlyError,
    StoreError,
    StoreLockedError,
)
from langchain_hybridgraph.stores import catalog
from langchain_hybridgraph.stores.opening import OpenIndex, is_large

logger = logging.getLogger(__name__)

# So many versions of the outbox are kept for readers in other processes; who is further behind reads all anew.
KEPT_VERSIONS = 64


class FollowedIndex(OpenIndex):
    """An open index whose Tantivy and Chroma follow the outbox: both can be made anew at any time."""

    def rebuild(self, engine: str) -> None:
        """Make an engine anew from the catalogue and the matrix: ``"keywords"`` (Tantivy) or ``"vectors"`` (Chroma)."""
        if engine not in {"keywords", "vectors"}:
            raise ValueError(f"there is no engine {engine!r} to rebuild; there are 'keywords' and 'vectors'")
        with self._writer():
            if engine == "keywords":
                self._keywords.rebuild(self._rows.version)
            else:
                self._rebuild_collection()

    def _step(self) -> None:
        """Bring the engines up to the catalogue's version, then shorten the outbox."""
        facts = self._catalogue.about()
        version, floor = int(facts["version"]), int(facts["floor"])
        try:
            self._keywords.follow(version, floor)
            if self.path is not None and self._generation.matrix is not None:
                self._follow_collection(int(facts["chroma_applied"]), version, floor)
        except StoreError as error:
            raise StoreError(
                f"everything written is safe in the catalogue, but an index beside it is not up to date: {error}; "
                "the next write or opening brings it up to date"
            ) from error
        self._pending = 0
        if version - floor > 2 * KEPT_VERSIONS:
            with self._catalogue.writing() as connection:
                catalog.trim_changes(connection, version - KEPT_VERSIONS)

    def _follow_collection(self, applied: int, version: int, floor: int) -> None:
        if applied == version:
            return
        if applied >= floor:
            try:
                self._update_collection(applied, version)
                return
            except StoreError:
                # A kill or a full disk in the middle of Chroma's writing leaves files that it cannot read any more.
                logger.warning("Chroma's part of %s cannot be used and is made anew", self.path, exc_info=True)
        self._rebuild_collection()

    def _update_collection(self, applied: int, version: int) -> None:
        collection = self._generation.open_collection()
        touched = self._catalogue.changed_rows(applied)
        alive = sorted(entry.row for entry in self._catalogue.read_rows(touched) if entry.row is not None)
        with self._changing_collection(version):
            self._generation.collect(alive)
            collection.delete(sorted(set(touched).difference(alive)))

    def _rebuild_collection(self) -> None:
        if self.path is None or self._generation.matrix is None:
            return
        with self._catalogue.writing() as connection:
            catalog.set_about(connection, chroma_applied=0)
        self._generation.drop_collection()
        with self._changing_collection(self._rows.version):
            self._generation.collect(self._catalogue.rows())

    @contextmanager
    def _changing_collection(self, version: int) -> Iterator[None]:
        """Bring Chroma to this version; nobody asks it meanwhile, and after a failure it is opened afresh."""
        self._generation.collected = None
        try:
            yield
        except BaseException:
            self._generation.close_collection()
            raise
        with self._catalogue.writing() as connection:
            catalog.set_about(connection, chroma_applied=version)
        self._in_step(version)

    def _in_step(self, version: int) -> None:
        self._generation.collected = version, len(self._generation.open_collection())

    def _catch_up(self) -> None:
        """Bring lagging engines up to date and open Chroma for a large index, where this store may be the writer."""
        if self._read_only or not (is_large(self._seen) or self._keywords.lags(self._rows.version)):
            return
        try:
            with self._writer():
                self._step()
                if is_large(self._seen):
                    self._in_step(self._rows.version)
                else:
                    self._step_down()
        except (StoreLockedError, ReadOnlyError):
            # Whoever holds the lock brings the engines up to date; the scan of the matrix needs none.
            return
        except StoreError:
            logger.warning("%s can be read, but not be brought up to date", self.path, exc_info=True)
