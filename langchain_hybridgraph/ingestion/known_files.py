"""Files that have not changed since an earlier ingest."""

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
"""Nanoseconds within which two changes of a file may have the same time, in the file system with the coarsest times."""


@dataclass
class _FileInProgress:
    """File that is being read: its state before reading, and the number of its chunks and parents so far."""

    file: File
    stamp: str
    digest: bytes
    chunks: int = 0
    parents: int = 0
    documents: dict[str, None] = field(default_factory=dict)


class KnownFiles:
    """Files of one ingest: which of them need not be read, and records of those that were read.

    A file need not be read if its status in the file system is as recorded, or if its bytes have the recorded digest.
    A file written less than two seconds before the check is compared only by digest: it may have been written again
    within the resolution of its modification time.
    """

    def __init__(self, store: RecordsFiles, made_by: bytes) -> None:
        self._store = store
        self._made_by = made_by
        self._records = {record.source: record for record in store.files.read() if record.made_by == made_by}
        self._owners = {document: source for source, record in self._records.items() for document in record.documents}
        self._shared: set[str] = set()  # files that share a document: the last one wins, so all are read
        self._unread: dict[str, tuple[File, FileRecord]] = {}
        self._restamped: dict[str, FileRecord] = {}
        self._reading: dict[str, _FileInProgress] = {}

    def unchanged(self, file: File) -> FileRecord | None:
        """Return the record of a file that has not changed since it was read; None for a file that must be read."""
        record = self._records.get(file.source)
        if record is None:
            return None
        stamp = _stamp(file.path)
        if not stamp or stamp != record.stamp:
            if _digest(file.path) != record.digest:
                return None
            if stamp:
                self._restamped[file.source] = record._replace(stamp=stamp)
        self._unread[file.source] = file, record
        return record

    def unread_record(self, file: File) -> FileRecord | None:
        """Return the record of an unchanged file; None if it changed, or if something it depends on did."""
        entry = self._unread.get(file.source)
        return None if entry is None else entry[1]

    def start_reading(self, file: File) -> None:
        """Record the state of a file before it is read."""
        self._unread.pop(file.source, None)
        stamp = _stamp(file.path)
        self._reading[file.source] = _FileInProgress(file, stamp, _digest(file.path))

    def add(self, file: File, document: str, chunks: int, parents: int) -> None:
        """Count the chunks and parents of a document in the file that is being read."""
        source = file.source
        reading = self._reading[source]
        reading.documents[document] = None
        reading.chunks += chunks
        reading.parents += parents
        owner = self._owners.setdefault(document, source)
        if owner != source:
            self._shared.update((owner, source))
            self._records.pop(owner, None)
            self._unread.pop(owner, None)

    def outdated(self) -> list[File]:
        """Return the unread files whose records were deleted because something that they depend on has changed."""
        if not self._unread:
            return []
        sources = {record.source for record in self._store.files.read()}
        files = [file for source, (file, _) in self._unread.items() if source not in sources]
        for file in files:
            del self._unread[file.source], self._records[file.source]
        return files

    @property
    def unread_records(self) -> list[FileRecord]:
        """Records of the files that were not read."""
        return [record for _, record in self._unread.values()]

    def save(self) -> None:
        """Record the files that were read; call this when all their chunks are in the store."""
        records = [
            FileRecord(
                source,
                reading.stamp,
                reading.digest,
                self._made_by,
                reading.chunks,
                reading.parents,
                tuple(reading.documents),
            )
            for source, reading in self._reading.items()
            if reading.digest and reading.documents and source not in self._shared
        ]
        restamped = [record for source, record in self._restamped.items() if source in self._unread]
        self._store.files.write([*records, *restamped])


def _stamp(path: Path) -> str:
    """Return the file's status in the file system; "" if it cannot be trusted, or the file cannot be read."""
    now = time.time_ns()
    try:
        status = os.stat(path)
    except OSError:
        return ""  # reading the file reports the reason
    if not stat.S_ISREG(status.st_mode) or now - max(status.st_mtime_ns, status.st_ctime_ns) < _TICK:
        return ""
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"


def _digest(path: Path) -> bytes:
    """Return a digest of the bytes of a file; b"" if it is not a regular file or cannot be read."""
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
