"""Keeping the engines of an open index in step with its catalogue."""

from __future__ import annotations

import logging

from langchain_hybridgraph.errors import ReadOnlyError, StoreError, StoreLockedError, quote_value
from langchain_hybridgraph.stores.embedded import catalog
from langchain_hybridgraph.stores.embedded.index_folder import OpenIndex, is_large

logger = logging.getLogger(__name__)

# Versions of the outbox that are kept for readers in other processes; a reader further behind reads everything again.
KEPT_VERSIONS = 64


class FollowedIndex(OpenIndex):
    """An open index whose Tantivy and Chroma follow the outbox: both can be rebuilt at any time."""

    def rebuild(self, engine: str) -> None:
        """Rebuild an engine from the catalogue and the matrix: ``"keywords"`` (Tantivy) or ``"vectors"`` (Chroma).

        Raises ValueError for another name.
        """
        if engine not in {"keywords", "vectors"}:
            raise ValueError(f"{quote_value(engine)} is not an engine; pass 'keywords' or 'vectors'")
        with self._writer():
            if engine == "keywords":
                self._keywords.rebuild(self._rows.version)
            else:
                self._rebuild_collection()

    def _step(self, *, is_complete: bool = False) -> None:
        """Bring the engines up to the catalogue's version, then shorten the outbox.

        A Chroma that is far behind gets there over several steps, unless ``is_complete``.
        """
        facts = self._catalogue.facts()
        version, floor = int(facts["version"]), int(facts["floor"])
        try:
            self._keywords.follow(version, floor)
            if self._uses_chroma():
                self._folder.chroma.follow(self._generation, self._catalogue, is_complete=is_complete)
        except StoreError as error:
            raise StoreError(
                f"everything written is safe in the catalogue, but an index next to it is not up to date: {error}; "
                "the next write or opening brings it up to date"
            ) from error
        self._pending = 0
        if version - floor > 2 * KEPT_VERSIONS:
            with self._catalogue.writing() as connection:
                catalog.trim_changes(connection, version - KEPT_VERSIONS)

    def _uses_chroma(self) -> bool:
        """Whether this store brings Chroma up to date: for a large index, in the process that owns it."""
        return self.path is not None and is_large(self._seen) and self._folder.chroma.own()

    def _rebuild_collection(self) -> None:
        if self._generation.matrix is None or not self._folder.chroma.own():
            return
        self._folder.chroma.drop(self._generation.number)
        if self._uses_chroma():
            self._folder.chroma.follow(self._generation, self._catalogue, is_complete=True)

    def _catch_up(self) -> None:
        """Bring lagging engines up to date if no other process is writing at the moment."""
        if self._read_only or not (self._keywords.lags(self._rows.version) or self._uses_chroma()):
            return
        try:
            with self._writer(timeout=0):
                self._step()
        except (StoreLockedError, ReadOnlyError):
            # The process that holds the turn brings the engines up to date.
            return
        except StoreError:
            logger.warning("%s can be read, but not be brought up to date", self.path, exc_info=True)
