"""Files that have not changed since an earlier ingest."""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from hashlib import blake2b
from importlib import metadata
from itertools import chain
from pathlib import Path
from types import BuiltinFunctionType, FunctionType
from typing import Any

from langchain_hybridgraph.ingestion.files import File, FileError
from langchain_hybridgraph.records import FileRecord
from langchain_hybridgraph.stores.protocols import RecordsFiles

_PACKAGE = __name__.partition(".")[0]
# Libraries used to read files or parse text.
_READERS = ("markdown-it-py", "mdit-py-plugins", "pypdf", "python-docx", "python-pptx", "openpyxl")


class _NoNameError(Exception):
    """Error for an option that has no name by which another process could identify it."""


def fingerprint(splitter: Any, builders: Iterable[Any], as_text: Sequence[str] = ()) -> bytes | None:
    """Return a digest of the options and code of an ingest, or None if other processes cannot identify an option.

    It covers the splitter and the edge builders, ``as_text``, the package's ingestion code, and the versions of Python
    and of the libraries that read files. Options that other processes cannot identify are models, lambdas, and
    functions or classes that are local or defined in ``__main__``.

    >>> from langchain_hybridgraph.ingestion import RecursiveSplitter
    >>> fingerprint(RecursiveSplitter(512, 50), []) == fingerprint(RecursiveSplitter(512, 40), [])
    False
    >>> fingerprint(RecursiveSplitter(counter=lambda text: len(text)), []) is None
    True
    """
    digest = blake2b(_code(), digest_size=16)
    try:
        for word in chain(_words(splitter), _words(as_text), *map(_options, builders)):
            digest.update(word.encode("utf-8", "surrogatepass") + b"\0")
    except (_NoNameError, RecursionError):
        return None
    return digest.digest()


@functools.cache
def _code() -> bytes:
    digest = blake2b(f"{sys.version_info}".encode())
    for name in (_PACKAGE.replace("_", "-"), *_READERS):
        version = ""
        with suppress(metadata.PackageNotFoundError):
            version = metadata.version(name)
        digest.update(f"{name} {version}\0".encode())
    package = Path(__file__).parents[1]
    for file in sorted([*(package / "ingestion").rglob("*.py"), *(package / "text").glob("*.[pt]*")]):
        digest.update(file.read_bytes())
    return digest.digest()


def _options(builder: Any) -> Iterator[str]:
    """Yield strings for a builder's class, relations and arguments, which are attributes with or without "_"."""
    yield _kind(builder)
    yield from _words(tuple(builder.relations))
    for name in inspect.signature(type(builder)).parameters:
        if name != "relation":  # already included in the relations
            value = next((getattr(builder, each) for each in (name, f"_{name}") if hasattr(builder, each)), builder)
            yield name
            yield from _words(value)


def _words(value: Any) -> Iterator[str]:
    """Yield strings that are equal for equal values only. Raise _NoNameError if other processes cannot identify it."""
    if value is None or isinstance(value, bool | int | float | str | bytes):
        yield f"{type(value).__name__} {value!r}"
    elif isinstance(value, Mapping):
        yield f"mapping {len(value)}"
        for key, each in value.items():
            yield from _words(key)
            yield from _words(each)
    elif isinstance(value, list | tuple):
        yield f"sequence {len(value)}"
        for each in value:
            yield from _words(each)
    elif isinstance(value, Set):
        yield f"set {sorted(map(repr, value))}"
    elif isinstance(value, type | FunctionType | BuiltinFunctionType):
        if "<" in value.__qualname__ or value.__module__ == "__main__":
            raise _NoNameError
        yield f"{value.__module__}.{value.__qualname__}"
    elif is_dataclass(value):
        yield _kind(value)
        for field in fields(value):
            yield field.name
            yield from _words(getattr(value, field.name))
    elif type(value).__module__.partition(".")[0] in ("langchain_text_splitters", _PACKAGE):
        yield _kind(value)
        yield from _words(vars(value))
    else:
        raise _NoNameError


def _kind(value: Any) -> str:
    kind = type(value)
    if "<" in kind.__qualname__ or kind.__module__ == "__main__":
        raise _NoNameError
    package = sys.modules.get(kind.__module__.partition(".")[0])
    return f"{kind.__module__}.{kind.__qualname__} {getattr(package, '__version__', '')}"


_TICK = 2_000_000_000
"""Nanoseconds within which two changes of a file may get the same modification time, in the coarsest file system."""


@dataclass
class _FileInProgress:
    """File being read, with the stamp and digest from before. If ``is_incomplete``, the next ingest reads it again."""

    file: File
    stamp: str
    digest: bytes
    chunks: int = 0
    parents: int = 0
    is_incomplete: bool = False
    documents: dict[str, None] = field(default_factory=dict)


class KnownFiles:
    """Records of ingested files, which let an ingest skip the files that have not changed.

    A file is not read if its stamp (size, times and inode) or the digest of its bytes equals the recorded one. Files
    recorded with another fingerprint than ``made_by`` are read again; if ``made_by`` is None, all files are read.
    """

    def __init__(self, store: RecordsFiles, made_by: bytes | None) -> None:
        self._store = store
        self._made_by = made_by
        records = {record.source: record for record in store.files.read()}
        self._stored_documents = {source: record.documents for source, record in records.items()}
        self._records = {source: record for source, record in records.items() if record.made_by == made_by}
        self._owners = {document: source for source, record in self._records.items() for document in record.documents}
        self._shared: set[str] = set()  # files with the same document: the last one replaces the others
        self._unread: dict[str, tuple[File, FileRecord]] = {}
        self._refreshed: dict[str, FileRecord] = {}  # new records of unchanged files with another stamp or path
        self._reading: dict[str, _FileInProgress] = {}

    def check_sources(self, files: Sequence[File]) -> str | None:
        """Return a warning if some of these files are also in the store under another ``source``, or None.

        Raise FileError if a ``source`` of these files belongs to another file in the store that still exists.
        """
        paths = dict(self._store.files.paths())
        for file in files:
            path = paths.get(file.source)
            if path is not None and path != _absolute(file.path) and _is_another_file(path, file.path):
                raise FileError(
                    f"{file.path} would have the source {file.source!r}, but an earlier ingest used this source "
                    f"for {os.fsdecode(path)}: pass the folder that contains both, run in that folder and pass "
                    "relative paths, or use another store"
                )

        for file in files:
            paths.pop(file.source, None)
        sources = {os.path.normpath(path): source for source, path in sorted(paths.items(), reverse=True)}
        if not sources:  # usual, and checking 10,000 files takes a tenth of a second
            return None
        others = ((file.source, sources.get(os.path.normpath(_absolute(file.path)))) for file in files)
        duplicates = [(source, other) for source, other in others if other is not None]
        if not duplicates:
            return None
        count = "1 file is" if len(duplicates) == 1 else f"{len(duplicates):,} files are"
        source, other = duplicates[0]
        return (
            f"{count} also in the index under another source, for example {source!r} as {other!r}; ingest in the same "
            "working folder each time, and delete the documents with one of the two sources"
        )

    def unchanged(self, file: File) -> FileRecord | None:
        """Return the record of an unchanged file and count the file as unread, or None if it must be read."""
        record = self._records.get(file.source)
        if record is None:
            return None
        stamp = _stamp(file.path)
        if (not stamp or stamp != record.stamp) and _digest(file.path) != record.digest:
            return None
        new_record = record._replace(stamp=stamp or record.stamp, path=_absolute(file.path))
        if new_record != record:
            self._refreshed[file.source] = new_record
        self._unread[file.source] = file, record
        return record

    def unread_record(self, file: File) -> FileRecord | None:
        """Return the record of an unchanged file, or None also if another file with the same document was read."""
        entry = self._unread.get(file.source)
        return None if entry is None else entry[1]

    def start_reading(self, file: File) -> None:
        """Record the stamp and digest of a file before it is read."""
        self._unread.pop(file.source, None)
        stamp = _stamp(file.path)
        self._reading[file.source] = _FileInProgress(file, stamp, _digest(file.path))

    def forget(self, file: File) -> None:
        """Mark the file that is being read as incomplete, so that the next ingest reads it again."""
        self._reading[file.source].is_incomplete = True

    def stored_documents(self, file: File) -> Sequence[str]:
        """Return the ids of the documents that the store has from this file, as far as they are known."""
        return self._stored_documents.get(file.source, (file.source,))

    def add(self, file: File, document: str, chunks: int, parents: int) -> None:
        """Record a document of the file that is being read, with the numbers of its chunks and parents."""
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
        """Return the unchanged files to read after all, because a file on which their edges depend has changed."""
        if not self._unread:
            return []
        sources = self._store.files.sources()
        files = [file for source, (file, _) in self._unread.items() if source not in sources]
        for file in files:
            del self._unread[file.source], self._records[file.source]
        return files

    @property
    def unread_records(self) -> list[FileRecord]:
        """Records of the unchanged files that were not read."""
        return [record for _, record in self._unread.values()]

    def save(self) -> None:
        """Store records, stamps and paths. Call this only when all chunks of the files are in the store."""
        records = [
            FileRecord(
                source,
                reading.stamp,
                b"" if reading.is_incomplete or self._made_by is None or source in self._shared else reading.digest,
                self._made_by or b"",
                reading.chunks,
                reading.parents,
                tuple(reading.documents),
                _absolute(reading.file.path),
            )
            for source, reading in self._reading.items()
            if reading.digest and reading.documents
        ]
        new_records = [record for source, record in self._refreshed.items() if source in self._unread]
        self._store.files.write([*records, *new_records])


def _absolute(path: Path) -> bytes:
    """Return the absolute path in the encoding of the file system, with symbolic links, whose targets may change."""
    return os.fsencode(os.path.join(os.getcwd(), path))  # pathlib takes twenty times as long


def _is_another_file(recorded: bytes, path: Path) -> bool:
    """Return whether the recorded file still exists (or cannot be checked) and is not the file at ``path``."""
    try:
        status = os.stat(recorded)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # it cannot be checked
        return True
    try:
        return not os.path.samestat(status, os.stat(path))
    except OSError:  # reading the file reports the reason
        return False


def _stamp(path: Path) -> str:
    """Return the size, times and inode of a file as one string, to detect changes, or "" if this could miss one.

    The next change of a file that was changed less than ``_TICK`` ago could get the same modification time.
    """
    now = time.time_ns()
    try:
        status = os.stat(path)
    except OSError:
        return ""  # reading the file reports the reason
    if not stat.S_ISREG(status.st_mode) or now - max(status.st_mtime_ns, status.st_ctime_ns) < _TICK:
        return ""
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"


def _digest(path: Path) -> bytes:
    try:
        if path.is_file():
            with path.open("rb") as file:
                return hashlib.file_digest(file, functools.partial(blake2b, digest_size=16)).digest()
    except OSError:  # reading the file reports the reason
        return b""
    return b""
