"""Documents of an index whose files no longer exist."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_hybridgraph.ingestion.readers.files import SEVERAL
from langchain_hybridgraph.ingestion.walking import source_of

if TYPE_CHECKING:
    from langchain_hybridgraph.stores.embedded.store import EmbeddedStore
    from langchain_hybridgraph.vectorstores.milvus_store import MilvusStore


class DeletedFiles:
    """Check for documents of these paths whose file, or line of a file, no longer exists.

    A file is deleted if the file system no longer has it. A line of a JSON Lines file is deleted if the file was read
    without it. Anything that cannot be checked (a folder without permission) counts as existing, and so does a document
    whose ``source`` is not that of a file below the paths. ``documents`` are the ids of the deleted ones, in the order
    of the checks.
    """

    def __init__(self, paths: Sequence[Path], store: EmbeddedStore | MilvusStore) -> None:
        self._places = [(source_of(path, path), path) for path in paths]
        self._store = store
        self.documents: list[str] = []

    def __call__(self, document: str) -> bool:
        """Return whether this document was deleted, and record its id if so."""
        source = self._source(document)
        is_gone = source is not None and any(_is_gone(source, base, path) for base, path in self._places)
        if is_gone:
            self.documents.append(document)
        return is_gone

    def has_read(self, path: Path) -> bool:
        """Return whether any document of the index was read from this path or from below it."""
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
    # Every relative source is below ".", also one from elsewhere: if its folder is here, it was read from here.
    return base != "." or "/" not in inside or _is_there(path / inside.partition("/")[0])


def _inside(source: str, base: str) -> str | None:
    """Return the path of a source relative to another, or None; every path without ``..`` is below ``.``."""
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
