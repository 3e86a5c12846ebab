"""Temporary folder for reading a write-protected index."""

from __future__ import annotations

import tempfile
from pathlib import Path

_LOCKS = (".tantivy-writer.lock", ".tantivy-meta.lock")


class LinkedFolder:
    """A temporary folder with links to the files of an index that this process cannot write to.

    Before Tantivy reads an index, it creates a lock file. It can create this file here, but not in a folder without
    write permission.
    """

    def __init__(self, original: Path) -> None:
        self._original = original
        self._holder = tempfile.TemporaryDirectory(prefix="hybridgraph-")
        self.folder = Path(self._holder.name)
        self.renew()

    def renew(self) -> None:
        """Add links to the files that are new since the last call."""
        for file in self._original.iterdir():
            link = self.folder / file.name
            if file.name not in _LOCKS and not link.is_symlink():
                link.symlink_to(file.resolve())

    def remove(self) -> None:
        """Delete the folder; the files of the index are kept."""
        self._holder.cleanup()
