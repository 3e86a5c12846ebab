"""Summaries of directories, in an index of their own."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import NotAnIndexError, StoreError
from langchain_hybridgraph.records import Scope
from langchain_hybridgraph.stores.access import Writer
from langchain_hybridgraph.stores.catalog import Catalog
from langchain_hybridgraph.stores.check import Maintenance
from langchain_hybridgraph.stores.generations import Generation
from langchain_hybridgraph.stores.graph_view import DirectoryTree
from langchain_hybridgraph.stores.index import CATALOG, IndexFolder, IndexSettings, read_facts
from langchain_hybridgraph.stores.tree import Tree
from langchain_hybridgraph.stores.writer_lock import WRITE_TIMEOUT

logger = logging.getLogger(__name__)

FOLDER = "layers"
STATE = "state"
"""Metadata key for the state of the directory when it was summarised (see ``stores.tree.Tree``)."""


class SummaryIndex(Writer):
    """An index that contains only summaries of directories: chunks whose ids are the uris of their directories."""

    def __init__(self, settings: IndexSettings) -> None:
        super().__init__(IndexFolder(settings))
        self.admin = Maintenance(self._index, self)
        self._states: tuple[int, Mapping[str, str]] | None = None

    def states(self) -> Mapping[str, str]:
        """Return, for each uri, the state of the directory when it was summarised."""
        version, present = self._index.snapshot().rows.version, self._states
        if present is None or present[0] != version:
            states = {chunk.id: str(chunk.metadata.get(STATE)) for chunk in self.all()}
            present = self._states = version, states
        return present[1]

    def all(self) -> list[Chunk]:
        """Return all summaries, including outdated ones, sorted by uri."""
        return self.get(self.document_ids())

    def close(self) -> None:
        """Release files and engines."""
        self._index.close()


class CurrentSummaries:
    """Summaries of directories, with a check for outdated ones.

    A summary is outdated once a text at or below its directory changes. Only searches with ``store`` also return those.
    """

    def __init__(self, index: SummaryIndex, tree: Tree) -> None:
        self.store = index
        self._states, self._tree = index.states(), tree

    def __len__(self) -> int:
        """Return the number of summaries, including outdated ones."""
        return len(self._states)

    def is_current(self, uri: str) -> bool:
        """Return whether the directory has a summary that is up to date."""
        return self._matches(uri, self._states.get(uri))

    def get(self, uris: Iterable[str]) -> dict[str, Chunk]:
        """Return the up-to-date summaries of these directories, by uri."""
        stored = self.store.get(list(uris))
        return {chunk.id: chunk for chunk in stored if self._matches(chunk.id, chunk.metadata.get(STATE))}

    def _matches(self, uri: str, state: str | None) -> bool:
        node = self._tree.node(uri)
        return node >= 0 and state == self._tree.state(node)


_Place = tuple[int, int]
"""Generation and inode of the catalog; the inode is 0 in memory."""


class _SummaryMirror:
    """Open index of the summaries, and the place of its catalog."""

    opened: tuple[_Place, SummaryIndex] | None = None


class Summaries:
    """Summaries of directories, kept in an index of their own: the subfolder ``layers-N`` of the index folder.

    Only tree searches find them, and they do not affect the store's BM25. ``N`` is the generation of the vectors.
    """

    def __init__(self, index: IndexFolder, tree: DirectoryTree) -> None:
        self._index, self._tree = index, tree

    def current(self) -> CurrentSummaries | None:
        """Return the summaries, compared with the current tree, or None if there are none."""
        summaries = self.index()
        if summaries is None:
            return None
        tree = self._tree.scoped(Scope(None, self._index.settings.tenant, time.time()))
        return CurrentSummaries(summaries, tree)

    def index(self) -> SummaryIndex | None:
        """Return the index of the summaries, or None if the current generation has none.

        Raises NotAnIndexError or another StoreError if it is damaged.
        """
        index, mirror = self._index, self._mirror
        with index.guard:
            number = index.snapshot().generation.number
            with index.refresh_lock:
                place, open_index = self._place(number), mirror.opened
                if open_index is not None and open_index[0] == place:
                    return open_index[1]
                if index.settings.path is None:
                    return None
                if place is None:
                    for folder in _other_folders(index.settings.path, None):  # not carried over yet, or damaged
                        Catalog(folder / CATALOG).close()
                    return None
                return self._open_as_present(number)

    def index_for_writing(self) -> SummaryIndex:
        """Return the index of the summaries, created if necessary from those of the previous generation.

        An index that is damaged is deleted first.
        """
        try:
            if (present := self.index()) is not None:
                return present
        except NotAnIndexError as error:
            logger.warning("%s; they are deleted and written again", error)
            self.discard()
        index, mirror = self._index, self._mirror
        with index.guard, index.refresh_lock:
            number = index.snapshot().generation.number
            before, open_index = self._before(number), mirror.opened
            for tenant in before.keys() - {index.settings.tenant}:
                with closing(self._open(number, tenant)) as other:
                    other.upsert(before[tenant])
                    other.flush()
            summaries = self._open_as_present(number)
            if open_index is not None:
                open_index[1].close()
        summaries.upsert(before.get(index.settings.tenant, []))
        summaries.flush()
        if index.settings.path is not None:
            for folder in _other_folders(index.settings.path, number):
                shutil.rmtree(folder, ignore_errors=True)
        return summaries

    def carry_over(self) -> None:
        """Embed the previous generation's summaries again for the current one, unless it already has some."""
        path = self._index.settings.path
        try:
            has_others = self._mirror.opened is not None if path is None else any(_other_folders(path, None))
            if has_others and self.index() is None:
                self.index_for_writing()
        except StoreError:  # the texts are stored; check() reports the damage
            logger.warning("the summaries of directories in %s are not up to date", path, exc_info=True)

    def maintenance(self) -> Maintenance | None:
        """Return the maintenance object for the index of the summaries, or None if there are no summaries.

        Raises StoreError if they are damaged.
        """
        summaries = self.index()
        if summaries is None:
            self._before(self._index.generation.number)
        return None if summaries is None else summaries.admin

    def discard(self) -> None:
        """Close and delete the summaries of all tenants."""
        path = self._index.settings.path
        with self._index.writer():
            self.close()
            for folder in () if path is None else _other_folders(path, None):
                shutil.rmtree(folder)

    def close(self) -> None:
        """Close the index of the summaries, if it is open."""
        open_index, self._mirror.opened = self._mirror.opened, None
        if open_index is not None:
            open_index[1].close()

    @property
    def _mirror(self) -> _SummaryMirror:
        return self._index.mirror(_SummaryMirror)

    def _place(self, number: int) -> _Place | None:
        """Return the place of the summaries of a generation, or None if there are none."""
        path = self._index.settings.path
        if path is None:
            return number, 0
        folder = _folder(path, number)
        try:
            return number, (folder / CATALOG).stat().st_ino
        except FileNotFoundError:
            # Raises NotAnIndexError if only the catalog is missing; otherwise it has been created in the meantime.
            return self._place(number) if read_facts(folder) else None

    def _open_as_present(self, number: int) -> SummaryIndex:
        try:
            summaries = self._open(number, self._index.settings.tenant)
        except NotAnIndexError as error:
            raise NotAnIndexError(f"{error}; repair() writes the summaries of directories again") from error
        place = self._place(number)
        assert place is not None, "the index has just been opened"
        self._mirror.opened = place, summaries
        return summaries

    def _open(self, number: int, tenant: str | None) -> SummaryIndex:
        index = self._index
        path = index.settings.path
        return SummaryIndex(
            replace(
                index.settings,
                path=None if path is None else _folder(path, number),
                embedding=_BorrowedEmbedding(index.generation),
                load=None,
                tenant=tenant,
                language=index.shared.language,
                write_timeout=WRITE_TIMEOUT,
                check_embedding=False,  # the index of the texts has already checked it
            )
        )

    def _before(self, number: int) -> dict[str | None, list[Chunk]]:
        before: dict[str | None, list[Chunk]] = {}
        if self._index.settings.path is None:
            open_index = self._mirror.opened
            if open_index is not None and open_index[0][0] != number:
                before[self._index.settings.tenant] = open_index[1].all()
        elif folders := _other_folders(self._index.settings.path, number):
            with closing(Catalog(max(folders, key=_generation) / CATALOG)) as catalog:
                for entry in catalog.iterate():
                    before.setdefault(entry.tenant or None, []).append(entry.chunk())
        return before


class _BorrowedEmbedding:
    """Embeds summaries with the model of the texts, which only their own index may fit."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text."""
        return self._generation.embedding.embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of one text."""
        return self._generation.embedding.embed_query(text)


def _folder(path: Path, number: int) -> Path:
    return path / f"{FOLDER}-{number}"


def _other_folders(path: Path, number: int | None) -> list[Path]:
    """Return the folders that contain summaries, except that of generation ``number``."""
    present = None if number is None else _folder(path, number).name
    return [each for each in path.glob(f"{FOLDER}-*") if each.name != present]


def _generation(folder: Path) -> int:
    number = folder.name.rpartition("-")[2]
    return int(number) if number.isdecimal() else -1
