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
"""Nanoseconds within which two changes of a file may get the same modification time, in the coarsest file system."""


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
    """Records of the files of one ingest, used to skip files that have not changed.

    A file is not read if its status in the file system or the digest of its bytes equals the recorded one. A file
    written less than two seconds before the check is compared only by digest, because it may have been written again
    within the resolution of its modification time.
    """

    def __init__(self, store: RecordsFiles, made_by: bytes) -> None:
        self._store = store
        self._made_by = made_by
        self._records = {record.source: record for record in store.files.read() if record.made_by == made_by}
        self._owners = {document: source for source, record in self._records.items() for document in record.documents}
        self._shared: set[str] = set()  # files with the same document: the last one replaces the others
        self._unread: dict[str, tuple[File, FileRecord]] = {}
        self._restamped: dict[str, FileRecord] = {}
        self._reading: dict[str, _FileInProgress] = {}

    def unchanged(self, file: File) -> FileRecord | None:
        """Return the record of a file that has not changed since it was read, or None for a file that must be read."""
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
        """Return the record of an unchanged file, or None if the file has changed or shares a document with a file that
        was read.
        """
        entry = self._unread.get(file.source)
        return None if entry is None else entry[1]

    def start_reading(self, file: File) -> None:
        """Record the state of a file before it is read."""
        self._unread.pop(file.source, None)
        stamp = _stamp(file.path)
        self._reading[file.source] = _FileInProgress(file, stamp, _digest(file.path))

    def forget(self, file: File) -> None:
        """Do not record the file that was just read, so that the next ingest reads it again."""
        self._reading.pop(file.source, None)

    def add(self, file: File, document: str, chunks: int, parents: int) -> None:
        """Record a document of the file that is being read, with its numbers of chunks and parents."""
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
        """Return unchanged files that must be read after all, because a file that their edges depend on has changed."""
        if not self._unread:
            return []
        sources = {record.source for record in self._store.files.read()}
        files = [file for source, (file, _) in self._unread.items() if source not in sources]
        for file in files:
            del self._unread[file.source], self._records[file.source]
        return files

    @property
    def unread_records(self) -> list[FileRecord]:
        """Records of the unchanged files, which were not read."""
        return [record for _, record in self._unread.values()]

    def save(self) -> None:
        """Record the files that were read. Call this only when all their chunks are in the store."""
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
    """Return the file's status in the file system, or "" if the file was changed too recently or cannot be read."""
    now = time.time_ns()
    try:
        status = os.stat(path)
    except OSError:
        return ""  # reading the file reports the reason
    if not stat.S_ISREG(status.st_mode) or now - max(status.st_mtime_ns, status.st_ctime_ns) < _TICK:
        return ""
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"


def _digest(path: Path) -> bytes:
    """Return a digest of the bytes of a file, or b"" if it is not a regular file or cannot be read."""
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
