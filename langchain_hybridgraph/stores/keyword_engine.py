"""Keyword index of a folder, with Tantivy or rank_bm25."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from langchain_hybridgraph.errors import StoreError, StoreLockedError
from langchain_hybridgraph.execution.processes import reporting
from langchain_hybridgraph.stores.bm25 import IndexedText, KeywordIndex, RankBM25Index

if TYPE_CHECKING:
    from langchain_hybridgraph.stores.catalog import Catalog
    from langchain_hybridgraph.stores.chunk_rows import StoredChunk

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")


# To add an engine, write its class and add its name here and in the next function.
Engine = Literal["tantivy", "rank_bm25"]


def keyword_index(engine: Engine, language: str | None = "english") -> KeywordIndex:
    """Return an empty index in memory.

    >>> type(keyword_index("tantivy")).__name__
    'TantivyIndex'
    """
    if engine == "rank_bm25":
        return RankBM25Index(language)
    from langchain_hybridgraph.stores.tantivy_index import TantivyIndex

    return TantivyIndex(language=language)


class KeywordEngine:
    """Keyword index of a folder, or in memory without ``path``; filled from the catalog under the write lock."""

    def __init__(self, path: Path | None, language: str, catalog: Catalog) -> None:
        self._path = path
        self._language = language
        self._catalog = catalog
        self._index: KeywordIndex | None = None
        self._opening = threading.RLock()
        self._complete: tuple[KeywordIndex, int] | None = None
        self.reason: str | None = None
        self.notes: tuple[str, ...] = ()
        """Reason why the index on disk could not be opened and was rebuilt, if it was."""

    @property
    def index(self) -> KeywordIndex:
        """The keyword index; ``reason`` is "keyword-fallback" if the index on disk could not be opened."""
        index = self._index
        if index is None:
            with self._opening:
                index = self._index = self._index or self._open()
        return index

    def query(self, question: Callable[[KeywordIndex], Answer]) -> Answer:
        """Call a function with the index, again if the index was replaced in the meantime, and return its result."""
        index = self.index
        try:
            return question(index)
        except StoreError:
            if self.index is index:
                raise
            return question(self.index)

    def renew(self, version: int) -> bool:
        """Load commits of other processes if the index is older than ``version``; return whether it was (re)opened.

        In fallback, Tantivy's index is tried again.
        """
        if self.index.applied_version < version:
            self.reload()
            return True
        if self.reason is None:
            return False
        with suppress(StoreError):  # for example because the other process has not filled the index yet
            self._tantivy()
        return self.reason is None

    def lags(self, version: int) -> bool:
        """Return whether the index cannot be opened, is incomplete or has another version."""
        if self._is_absent():
            return version > 0
        try:
            index = self._tantivy()
        except StoreError:
            return True
        return index.applied_version != version or not self._is_complete(index)

    def _is_absent(self) -> bool:
        return self._path is not None and not (self._path / "meta.json").exists()

    def _is_complete(self, index: KeywordIndex) -> bool:
        """Return whether the index has as many texts as the catalog.

        The version is not sufficient: after a kill on a busy machine, one in ten thousand deleted texts reappeared.
        """
        if self._complete != (index, index.applied_version):
            if len(index) != self._catalog.count_rows():
                return False
            self._complete = index, index.applied_version
        return True

    def lost_commits(self) -> dict[str, Any] | None:
        """Return the number of ``commits`` and the rows that only the index has, and the ``returned`` rows, or None.

        Commits are written to the catalog first, so the catalog is older only if its log was lost or damaged, or if it
        was restored from a backup. Texts that the lost commits deleted or replaced have returned.
        """
        if self._is_absent():
            return None
        try:
            index = self._tantivy()
            version = self._catalog.version()
            if index.applied_version <= version:
                return None
            indexed, stored = index.rows(), set(self._catalog.text_hashes())
        except StoreError:  # the index is rebuilt
            return None
        commits = index.applied_version - version
        return {"commits": commits, "missing": sorted(indexed - stored), "returned": sorted(stored - indexed)}

    def follow(self, version: int, floor: int) -> None:
        """Bring the index up to ``version``; rebuild it if that fails, if it is incomplete or older than ``floor``.

        If Tantivy cannot be used, only the fallback is updated.
        """
        if self._is_absent() and self._is_usable():
            if version:
                self.rebuild(version)
            return
        if self._index is not None and self._index.applied_version != version:
            self.reload()
        try:
            index = self._tantivy()
        except StoreError as error:
            if self._is_usable():
                logger.warning("the keyword index is rebuilt: %s", error)
                self.rebuild(version)
                self.notes = (f"the keyword index was damaged and has been rebuilt from the texts: {error}",)
                return
            index = self.index
        was_complete = self._complete == (index, index.applied_version)
        is_in_reach = floor <= index.applied_version <= version
        if not (is_in_reach and self._apply(index, version)):
            self.rebuild(version)
            return
        if was_complete:
            self._complete = index, version
        elif not self._is_complete(index):
            self.rebuild(version)

    def _apply(self, index: KeywordIndex, version: int) -> bool:
        if index.applied_version == version:
            return True
        touched = self._catalog.changed_rows(index.applied_version)
        alive = {entry.row: _indexed(entry) for entry in self._catalog.read_rows(touched)}
        try:
            added = reporting(alive.values(), "index", len(alive), "chunks")
            index.apply(version, added, [row for row in touched if row not in alive])
        except StoreLockedError:
            raise
        except StoreError:
            # A crash, a full disk or a restored backup may have damaged the files. The index can be rebuilt from the
            # texts in the catalog.
            logger.warning("the keyword index %s cannot be updated and is rebuilt", self._path, exc_info=True)
            return False
        return True

    def rebuild(self, version: int) -> None:
        """Rebuild the index, or else the fallback, from the catalog's texts; searches wait until it is complete."""
        with self._opening:
            self.close()
            if not self._is_usable():
                self._index = self._fall_back()
                return
            if self._path is not None:
                shutil.rmtree(self._path, ignore_errors=True)
            try:
                index = self._open_tantivy(create=True)
            except StoreError as error:
                raise StoreError(
                    f"the keyword index cannot be created in {self._path}: check its permissions and the free space"
                ) from error
            index.apply(version, reporting(self._texts(), "index", self._catalog.count_rows(), "chunks"), [])
            self._index, self.reason, self.notes = index, None, ()
            self._complete = index, version

    def _is_usable(self) -> bool:
        try:
            keyword_index("tantivy", self._language).close()
        except StoreError:
            return False
        return True

    def reload(self) -> None:
        """Make the commits of other processes visible."""
        index = self._index
        if index is None or self._path is None:
            return
        with suppress(StoreError):  # the writer is rebuilding the index, or the index is damaged
            if self.reason is None and index.applied_version:
                index.reload()
                return
        with self._opening:  # the next use opens the index again; running searches finish with the old one
            self._index = None

    def close(self) -> None:
        """Release files; the next use opens them again."""
        with self._opening:
            index, self._index = self._index, None
            self._complete = None  # otherwise Tantivy's files stay mapped
            if index is not None:
                index.close()

    def _tantivy(self) -> KeywordIndex:
        """Return Tantivy's index, opened if necessary; raise StoreError if it cannot be opened."""
        with self._opening:
            if self._index is None or self.reason is not None:
                self._index, self.reason = self._open_tantivy(), None
            return self._index

    def _open(self) -> KeywordIndex:
        before, self.reason = self.reason, None
        try:
            return self._open_tantivy()
        except StoreError as error:
            if before is None:  # a reader tries again at each reload
                logger.warning(
                    "keyword-fallback until the next write or repair() rebuilds the keyword index: %s", error
                )
        return self._fall_back()

    def _open_tantivy(self, *, create: bool = False) -> KeywordIndex:
        from langchain_hybridgraph.stores.tantivy_index import TantivyIndex

        version = self._catalog.version()
        index = TantivyIndex(
            # A catalog without commits may have lost those that an existing index contains.
            self._path if create or version or not self._is_absent() else None,
            self._language,
            writable=create or not self._is_absent(),
        )
        if not (index.applied_version or create or not version or self._path is None):
            index.close()
            raise StoreError(f"the keyword index {self._path} is empty; it has not been filled yet")
        return index

    def _fall_back(self) -> KeywordIndex:
        """Build a slower BM25 index in this process's memory from the stored texts."""
        self.reason = "keyword-fallback"
        index = RankBM25Index(self._language)
        index.apply(self._catalog.version(), self._texts(), [])
        return index

    def _texts(self) -> Iterator[IndexedText]:
        return map(_indexed, self._catalog.iterate())


def _indexed(entry: StoredChunk) -> IndexedText:
    return entry.row or 0, entry.text, entry.chunk().headings
