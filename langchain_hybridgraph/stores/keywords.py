"""The keyword side of the embedded store: Tantivy kept in step, rank_bm25 where it cannot be opened."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from langchain_hybridgraph.errors import StoreError

if TYPE_CHECKING:
    from langchain_hybridgraph.stores.base import KeywordIndex
    from langchain_hybridgraph.stores.catalog import Catalogue

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")


class Keywords:
    """The keyword index of a folder (``path`` None: in memory), opened at the first use, filled from the catalogue.

    It is open for reading until :meth:`take_over` says that this process is the writer.
    """

    def __init__(self, path: Path | None, language: str, catalogue: Catalogue) -> None:
        self._path = path
        self._writable = path is None
        self._language = language
        self._catalogue = catalogue
        self._index: KeywordIndex | None = None
        self._opening = threading.Lock()
        self.reason: str | None = None

    @property
    def index(self) -> KeywordIndex:
        """The engine; ``reason`` is "keyword-fallback" when the one on disk could not be opened."""
        index = self._index
        if index is None:
            with self._opening:
                index = self._index = self._index or self._open()
        return index

    def ask(self, question: Callable[[KeywordIndex], Answer]) -> Answer:
        """What the index answers; one that was replaced under the question is asked anew."""
        index = self.index
        try:
            return question(index)
        except StoreError:
            if self.index is index:
                raise
            return question(self.index)

    def take_over(self) -> None:
        """Open for writing from now on; only the holder of the writer's lock may."""
        if not self._writable:
            self._writable = True
            self._forget()

    def hand_over(self) -> None:
        """Open for reading only from now on, so that another process can take over."""
        if self._path is not None:
            self.close()
            self._writable = False

    def lags(self, version: int) -> bool:
        """Whether there is something for :meth:`follow` to do."""
        if self._path is not None and not self._path.exists():
            return version > 0
        return self.index.applied != version or self.reason is not None or not self._is_whole()

    def _is_whole(self) -> bool:
        """Whether the index has as many texts as the catalogue.

        After a kill on a busy machine one deleted text in some ten thousand was seen to be back, mark and all.
        """
        return len(self.index) == self._catalogue.count_rows()

    def follow(self, version: int, floor: int) -> None:
        """Bring the index up to ``version``; anew when the outbox, which begins after ``floor``, is too short."""
        applied = self.index.applied
        if self.reason is not None or not floor <= applied <= version:
            self.rebuild(version)
        elif applied < version:
            touched = self._catalogue.changed_rows(applied)
            alive = {entry.row: entry.text for entry in self._catalogue.read_rows(touched) if entry.row is not None}
            self.index.apply(version, alive.items(), [row for row in touched if row not in alive])
            if not self._is_whole():
                self.rebuild(version)
        elif not self._is_whole():
            self.rebuild(version)

    def rebuild(self, version: int) -> None:
        """Make the index anew from the catalogue's texts; who asks meanwhile waits."""
        with self._opening:
            self._close()
            if self._path is not None:
                shutil.rmtree(self._path, ignore_errors=True)
            index = self._open()
            if self.reason is not None:
                raise StoreError(f"no keyword index can be made in {self._path}: look at its permissions and the disk")
            index.apply(version, self._catalogue.texts(), [])
            self._index = index

    def reload(self) -> None:
        """See what another process has committed."""
        index = self._index
        if index is None:
            return
        if self.reason is None and index.applied:
            try:
                index.reload()
            except StoreError:
                # The writer is just making it anew, or it is damaged: opening it again tells.
                self._forget()
        else:
            # Perhaps the writer has made one since.
            self._forget()

    def close(self) -> None:
        """Release files; the next use opens them again."""
        with self._opening:
            self._close()

    def _close(self) -> None:
        index, self._index = self._index, None
        if index is not None:
            index.close()

    def _forget(self) -> None:
        """Open anew at the next use; who is searching now finishes on the old one."""
        with self._opening:
            self._index = None

    def _open(self) -> KeywordIndex:
        from langchain_hybridgraph.stores.tantivy_index import TantivyIndex

        before, self.reason = self.reason, None
        if not self._writable and not self._catalogue.version():
            return TantivyIndex(None, self._language)
        try:
            return TantivyIndex(self._path, self._language, writable=self._writable)
        except StoreError as error:
            # The rung below: the texts are at hand, so BM25 is computed from them; slower, and made anew each time.
            self.reason = "keyword-fallback"
            if before is None:
                # A reader tries again at each reload, as long as the writer has not made the index.
                logger.warning(
                    "BM25 is computed over the stored texts (keyword-fallback) until the next write or repair() makes "
                    "the keyword index anew: %s",
                    " ".join(str(error).split()),
                )
            return self._fallback()

    def _fallback(self) -> KeywordIndex:
        from langchain_hybridgraph.stores.rank_bm25_index import RankBM25Index

        index = RankBM25Index(self._language)
        index.apply(self._catalogue.version(), self._catalogue.texts(), [])
        return index
