"""Files that an earlier ingest has read unchanged."""

from __future__ import annotations

import os
import stat
import time
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

from langchain_hybridgraph.ingestion.readers.files import File
from langchain_hybridgraph.stores.protocols import FileRecord, RecordsFiles

_TICK = 2_000_000_000
"""Nanoseconds within which two changes of a file may have the same time, in the coarsest of file systems."""


@dataclass
class _Reading:
    """A file that is being read: how it was before, and what it has given so far."""

    file: File
    stamp: str
    digest: bytes
    chunks: int = 0
    parents: int = 0
    documents: dict[str, None] = field(default_factory=dict)


class KnownFiles:
    """Files of one ingest: those that need not be read, and records of the others.

    A file need not be read if its status in the file system is as recorded, or else if its bytes have the same digest.
    A file written less than two seconds before the check is compared by digest only: it may have been written again
    within the resolution of its time.
    """

    def __init__(self, store: RecordsFiles, made_by: bytes) -> None:
        self._store = store
        self._made_by = made_by
        self._records = {record.source: record for record in store.files.read() if record.made_by == made_by}
        self._owners = {document: source for source, record in self._records.items() for document in record.documents}
        self._shared: set[str] = set()  # files that have a document in common: the last one counts, so all are read
        self._kept: dict[str, tuple[File, FileRecord]] = {}
        self._restamped: dict[str, FileRecord] = {}
        self._reading: dict[str, _Reading] = {}

    def unchanged(self, file: File) -> FileRecord | None:
        """The record of a file that is as it was when it was read; None for one that is to be read."""
        record = self._records.get(file.source)
        if record is None:
            return None
        stamp = _stamp(file.path)
        if not stamp or stamp != record.stamp:
            if _digest(file.path) != record.digest:
                return None
            if stamp:
                self._restamped[file.source] = record._replace(stamp=stamp)
        self._kept[file.source] = file, record
        return record

    def kept_record(self, file: File) -> FileRecord | None:
        """The record of a file that was found to be unchanged, and still need not be read."""
        kept = self._kept.get(file.source)
        return None if kept is None else kept[1]

    def begin(self, file: File) -> None:
        """Note how a file is before it is read."""
        self._kept.pop(file.source, None)
        stamp = _stamp(file.path)
        self._reading[file.source] = _Reading(file, stamp, _digest(file.path))

    def add(self, file: File, document: str, chunks: int, parents: int) -> None:
        """Note what a file that was begun has given."""
        source = file.source
        reading = self._reading[source]
        reading.documents[document] = None
        reading.chunks += chunks
        reading.parents += parents
        owner = self._owners.setdefault(document, source)
        if owner != source:
            self._shared.update((owner, source))
            self._records.pop(owner, None)
            self._kept.pop(owner, None)

    def outdated(self) -> list[File]:
        """The files that were not read, but on which something depends that has changed since; each once."""
        if not self._kept:
            return []
        there = {record.source for record in self._store.files.read()}
        found = [file for source, (file, _) in self._kept.items() if source not in there]
        for file in found:
            del self._kept[file.source], self._records[file.source]
        return found

    @property
    def kept(self) -> list[FileRecord]:
        """The records of the files that were not read."""
        return [record for _, record in self._kept.values()]

    def remember(self) -> None:
        """Record the files that were read, now that all they have given is in the store."""
        records = [
            FileRecord(source, one.stamp, one.digest, self._made_by, one.chunks, one.parents, tuple(one.documents))
            for source, one in self._reading.items()
            if one.digest and one.documents and source not in self._shared
        ]
        restamped = [record for source, record in self._restamped.items() if source in self._kept]
        self._store.files.write([*records, *restamped])


def _stamp(path: Path) -> str:
    """Return the file's status in the file system; "" if it cannot be trusted, or the file cannot be read."""
    now = time.time_ns()
    try:
        found = os.stat(path)
    except OSError:
        return ""  # reading it says why
    if not stat.S_ISREG(found.st_mode) or now - max(found.st_mtime_ns, found.st_ctime_ns) < _TICK:
        return ""
    return f"{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino}"


def _digest(path: Path) -> bytes:
    """A digest of the bytes of a file, b"" for what is not a regular file or cannot be read."""
    if not path.is_file():
        return b""
    digest = blake2b(digest_size=16)
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError:
        return b""
    return digest.digest()
