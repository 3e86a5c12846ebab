"""Detection of documents whose files were deleted."""

from __future__ import annotations

import os
from collections.abc import Container, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_hybridgraph.ingestion.folder_scan import source_of
from langchain_hybridgraph.ingestion.readers.files import SEVERAL
from langchain_hybridgraph.stores.protocols import RecordsFiles

if TYPE_CHECKING:
    from langchain_hybridgraph.stores.store import EmbeddedStore
    from langchain_hybridgraph.vectorstores.milvus_store import MilvusStore

_BATCH = 1_000  # number of documents that are read at a time


class DeletedFiles:
    """Finder for indexed documents below ``paths`` whose files no longer exist.

    Call the object with the id of each document that was not read in this run. If the document's file no longer exists,
    the id is appended to ``documents``, and the call returns ``prune``. Otherwise, the call returns False.

    A JSON Lines file or a mailbox contains several documents. Even if the file exists, a document that was not found in
    it counts as deleted, unless the file is in ``unread``.

    The call returns False for a document whose file cannot be checked, for example because of missing permissions, and
    for a document whose ``source`` is not below ``paths``. It also returns False if a file still exists at the path
    that the index recorded for the document.
    """

    def __init__(
        self, paths: Sequence[Path], store: EmbeddedStore | MilvusStore, unread: Container[str], *, prune: bool
    ) -> None:
        self._places = [(source_of(path, path), path) for path in paths]
        self._store = store
        self._unread = unread
        self._prune = prune
        self.documents: list[str] = []

    def __call__(self, document: str) -> bool:
        """Return whether to delete this document, and record its id if its file no longer exists."""
        source = self._sources.get(document)
        is_gone = source is not None and any(self._is_gone(source, base, path) for base, path in self._places)
        if is_gone:
            self.documents.append(document)
        return is_gone and self._prune

    def has_read(self, path: Path) -> bool:
        """Return whether any document of the index was read from this path or from a file below it."""
        base = source_of(path, path)
        return any(_inside(source, base) is not None for source in self._sources.values())

    def _is_gone(self, source: str, base: str, path: Path) -> bool:
        inside = _inside(source, base)
        if inside is None:
            return False
        file = path / inside if inside else path
        if _is_there(file):
            return file.suffix.lower() in SEVERAL and str(file) not in self._unread
        former_path = self._paths_by_source.get(source)
        if former_path is not None and _is_there(Path(os.fsdecode(former_path))):
            return False
        # Every relative source seems to be below ".". If its folder exists here, assume that it was read from here.
        return base != "." or "/" not in inside or _is_there(path / inside.partition("/")[0])

    @cached_property
    def _paths_by_source(self) -> Mapping[str, bytes]:
        """Map each source to the path it was read from; empty if the store does not record paths."""
        return self._store.files.paths() if isinstance(self._store, RecordsFiles) else {}

    @cached_property
    def _sources(self) -> dict[str, str]:
        """Map the id of each document whose file is below ``paths`` to the document's source.

        The index is read only once, at the first check.
        """
        sources: dict[str, str] = {}
        documents = iter(self._store.document_ids())
        while batch := list(islice(documents, _BATCH)):
            first = {min(ids): id for id, ids in self._store.document_chunks(batch).items() if ids}
            for chunk in self._store.get(list(first)):
                source = chunk.metadata.get("source")
                if isinstance(source, str) and any(_inside(source, base) is not None for base, _ in self._places):
                    sources[first[chunk.id]] = source
        return sources


def _inside(source: str, base: str) -> str | None:
    """Return the path of a source relative to ``base``, or None if the source is neither ``base`` nor below it.

    If ``base`` is ``.``, every relative path that does not start with ``..`` counts as below it.
    """
    if base == ".":
        return None if "://" in source or source.startswith(("/", "..")) else source
    if source == base:
        return ""
    return source.removeprefix(f"{base}/") if source.startswith(f"{base}/") else None


def _is_there(file: Path) -> bool:
    try:
        file.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # it cannot be checked
        return True
    return True
