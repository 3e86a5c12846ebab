"""Files that have not changed since an earlier ingest."""

import functools
import hashlib
import inspect
import io
import os
import pickle
import stat
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import is_dataclass
from hashlib import blake2b
from importlib import metadata
from pathlib import Path
from typing import Any

from langchain_hybridgraph.ingestion.files import File, FileError
from langchain_hybridgraph.records import FileRecord
from langchain_hybridgraph.stores.protocols import RecordsFiles

_PACKAGE = __name__.partition(".")[0]
# Libraries used to read files or split text.
_READERS = ("markdown-it-py", "pypdf", "python-docx", "python-pptx", "openpyxl", "langchain-text-splitters")


def fingerprint(splitter: Any, builders: Iterable[Any], as_text: Sequence[str] = ()) -> bytes | None:
    """Return a digest of the options and code of an ingest, or None if other processes cannot identify an option.

    It covers the splitter and the edge builders, ``as_text``, the package's ingestion code, and the versions of Python
    and of the libraries that read files. Options that other processes cannot identify are lambdas, functions or classes
    that are local or defined in ``__main__``, and models.
    """
    options = io.BytesIO()
    try:
        _OptionsPickler(options).dump((splitter, list(map(_options, builders)), list(as_text)))
    except Exception:  # noqa: BLE001 - an option may raise anything when it is pickled
        return None
    words = options.getvalue()
    return None if b"__main__" in words else blake2b(_code() + words, digest_size=16).digest()


class _OptionsPickler(pickle.Pickler):
    """Pickler that refuses models and other large objects, whose states are not options."""

    def reducer_override(self, value: Any) -> Any:
        package = type(value).__module__.partition(".")[0]
        is_option = isinstance(value, type) or is_dataclass(value)
        if is_option or package in ("builtins", "langchain_text_splitters", _PACKAGE):
            return NotImplemented
        raise pickle.PicklingError(f"{type(value).__name__} is not an option")


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


def _options(builder: Any) -> list[Any]:
    """Return a builder's class, relations and arguments, which are attributes with or without "_"."""
    names = [name for name in inspect.signature(type(builder)).parameters if name != "relation"]
    values = [getattr(builder, name, getattr(builder, f"_{name}", builder)) for name in names]
    return [type(builder), tuple(builder.relations), values]


_TICK = 2_000_000_000
"""Nanoseconds within which two changes of a file may get the same modification time, in the coarsest file system."""


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
        self.unread: dict[str, tuple[File, FileRecord]] = {}  # unchanged files, without those that share a document
        self._reading: dict[str, FileRecord] = {}  # files that are read in this ingest
        self._documents: dict[str, dict[str, None]] = {}  # their documents

    def check_sources(self, files: Sequence[File]) -> None:
        """Raise FileError if a ``source`` of these files belongs to another file in the store that still exists."""
        paths = dict(self._store.files.paths())
        for file in files:
            path = paths.get(file.source)
            if path is not None and path != _absolute(file.path) and _is_another_file(path, file.path):
                raise FileError(
                    f"{file.path} would have the source {file.source!r}, but an earlier ingest used this source "
                    f"for {os.fsdecode(path)}: pass the folder that contains both, run in that folder and pass "
                    "relative paths, or use another store"
                )

    def is_unchanged(self, file: File) -> bool:
        """Return whether a file has not changed; if so, count it as unread."""
        record = self._records.get(file.source)
        if record is None:
            return False
        stamp = _stamp(file.path)
        if (not stamp or stamp != record.stamp) and _digest(file.path) != record.digest:
            return False
        self.unread[file.source] = file, record._replace(stamp=stamp or record.stamp, path=_absolute(file.path))
        return True

    def start_reading(self, file: File) -> None:
        """Record the stamp and digest of a file before it is read."""
        self.unread.pop(file.source, None)
        digest = b"" if self._made_by is None else _digest(file.path)
        self._reading[file.source] = FileRecord(
            file.source, _stamp(file.path), digest, self._made_by or b"", 0, 0, (), _absolute(file.path)
        )
        self._documents[file.source] = {}

    def forget(self, file: File) -> Sequence[str]:
        """Let the next ingest read this file again. Return the ids of its documents in the store, if they are known."""
        self._reading[file.source] = self._reading[file.source]._replace(digest=b"")
        return self._stored_documents.get(file.source, (file.source,))

    def add(self, file: File, document: str, chunks: int, parents: int) -> None:
        """Record a document of the file that is being read, with the numbers of its chunks and parents."""
        source = file.source
        reading = self._reading[source]
        self._reading[source] = reading._replace(chunks=reading.chunks + chunks, parents=reading.parents + parents)
        self._documents[source][document] = None
        owner = self._owners.setdefault(document, source)
        if owner != source:
            self._shared.update((owner, source))
            self._records.pop(owner, None)
            self.unread.pop(owner, None)

    def outdated(self) -> list[File]:
        """Return the unchanged files to read after all, because a file on which their edges depend has changed."""
        sources = self._store.files.sources() if self.unread else ()
        files = [file for source, (file, _) in self.unread.items() if source not in sources]
        for file in files:
            del self.unread[file.source], self._records[file.source]
        return files

    def save(self) -> None:
        """Store records, stamps and paths. Call this only when all chunks of the files are in the store."""
        records = [
            record._replace(documents=tuple(documents), digest=b"" if source in self._shared else record.digest)
            for source, record in self._reading.items()
            if (documents := self._documents[source])
        ]
        of_moved_files = [record for source, (_, record) in self.unread.items() if record != self._records[source]]
        self._store.files.write([*records, *of_moved_files])


def _absolute(path: Path) -> bytes:
    """Return the absolute path in the encoding of the file system, with symbolic links, whose targets may change."""
    return os.fsencode(os.path.join(os.getcwd(), path))  # pathlib takes twenty times as long


def _is_another_file(recorded: bytes, path: Path) -> bool:
    """Return whether the recorded file still exists (or cannot be checked) and is not the file at ``path``."""
    try:
        status = os.stat(recorded)
    except OSError as error:
        return not isinstance(error, FileNotFoundError | NotADirectoryError)
    with suppress(OSError):  # reading the file reports the reason
        return not os.path.samestat(status, os.stat(path))
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
    with suppress(OSError):  # reading the file reports the reason
        if path.is_file():
            with path.open("rb") as file:
                return hashlib.file_digest(file, functools.partial(blake2b, digest_size=16)).digest()
    return b""
