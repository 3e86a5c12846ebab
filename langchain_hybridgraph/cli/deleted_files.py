"""Which documents of an index were files that are gone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_hybridgraph.ingestion.readers.files import SEVERAL
from langchain_hybridgraph.ingestion.walking import source_of

if TYPE_CHECKING:
    from langchain_hybridgraph.retrievers.store import HybridGraphStore


class DeletedFiles:
    """Whether a document, which was not handed in, was read from below one of these paths and is not there any more.

    A file is gone when the file system says so, and a line of a JSON Lines file when the others were read without it.
    What cannot be looked at (a folder without permission) is not gone, nor is what has another ``source`` than a file
    below the paths would have. ``documents`` are the ids of those that were gone, in the order of asking.
    """

    def __init__(self, paths: Sequence[Path], store: HybridGraphStore) -> None:
        self._places = [(source_of(path, path), path) for path in paths]
        self._store = store
        self.documents: list[str] = []

    def __call__(self, document: str) -> bool:
        """Whether this document is gone; then it is noted, too."""
        source = self._source(document)
        is_gone = source is not None and any(_is_gone(source, base, path) for base, path in self._places)
        if is_gone:
            self.documents.append(document)
        return is_gone

    def has_read(self, path: Path) -> bool:
        """Whether any document of the index was read from this path or from below it."""
        base = source_of(path, path)
        sources = map(self._source, self._store.document_ids())
        return any(source is not None and _inside(source, base) is not None for source in sources)

    def _source(self, document: str) -> str | None:
        chunks = self._store.get(sorted(self._store.document_chunks([document]).get(document, ()))[:1])
        source = chunks[0].metadata.get("source") if chunks else None
        return source if isinstance(source, str) else None


def _is_gone(source: str, base: str, path: Path) -> bool:
    inside = _inside(source, base)
    if inside is None:
        return False
    file = path / inside if inside else path
    if _is_there(file):
        return file.suffix.lower() in SEVERAL
    # Everything lies below ".", also what was ingested from elsewhere: what has its folder here was surely read here.
    return base != "." or "/" not in inside or _is_there(path / inside.partition("/")[0])


def _inside(source: str, base: str) -> str | None:
    """Where a source stands below another, None where it does not; every path without ``..`` is below ``.``."""
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
    except OSError:  # it cannot be looked at
        return True
    return True
