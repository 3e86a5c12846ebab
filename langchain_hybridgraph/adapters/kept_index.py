"""Keyword index of a vector store in a folder."""

from __future__ import annotations

import logging
import os
import re
import secrets
import shutil
import struct
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import accumulate
from pathlib import Path
from types import MappingProxyType
from typing import Any, overload

import orjson

from langchain_hybridgraph.adapters.documents import Identity
from langchain_hybridgraph.adapters.keyword_index import DocumentIndex, ScopedRows
from langchain_hybridgraph.chunks import Chunk, begin_of, end_of
from langchain_hybridgraph.errors import ConfigurationError, HybridGraphError
from langchain_hybridgraph.text.analyzer import Analyzer

FORMAT = 2
_CURRENT, _LOCK = "current", "writer.lock"
_KEYWORDS, _ROWS, _TEXTS = "keywords", "rows.jsonl", "texts"
_GENERATION = re.compile("[0-9a-f]{16}")
_FOOTER = struct.Struct("<II")  # at the end of Tantivy's files: the length of the JSON before it, and a constant

logger = logging.getLogger(__name__)


class UnusableIndex(Exception):
    """The index in a folder cannot be used; the message is the reason, or empty if there is no index yet."""


class KeptIndex(DocumentIndex):
    """Keyword index of all texts of a vector store, in a folder that several processes may use.

    The folder has the following files. ``current`` contains the name of the folder with the other files, so that an
    index that is built again replaces the old one at once.

    - ``texts``: the text and the metadata of each row as JSON, one after another
    - ``rows.jsonl``: a line that describes the index, and one line per change
    - ``keywords``: Tantivy's index. Its commit ends a change: its version is the number of lines that are valid.

    A process changes the folder only while it holds the folder's lock, and first loads what other processes have
    written (:meth:`exclusive`). If the folder cannot be used or written to, the index continues in memory.
    """

    def __init__(self, path: Path, *, collection: str, language: str, id_key: str | None, equal_texts: str) -> None:
        from langchain_hybridgraph.stores.writer_lock import WriterLock

        self.path = path
        self._generation: Path | None = None
        self._obstacle = ""  # why the folder cannot be written to at the moment
        self._about = {
            "format": FORMAT,
            "collection": collection,
            "language": Analyzer(language).name,
            "id_key": id_key,
            "equal_texts": equal_texts,
        }
        self._language = language
        self._lock = WriterLock(path / _LOCK)
        self._ends = {_ROWS: 0, _TEXTS: 0}  # numbers of bytes that are valid
        super().__init__((), language=language, id_key=id_key, is_given=False)
        self.contents = {}
        if path.exists() and not path.is_dir():
            raise ConfigurationError(f"the path of a keyword index must be a folder, but {str(path)!r} is a file")

    # -- opening ------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Open the index in the folder. Raises UnusableIndex if there is none, or if it is damaged or another one."""
        from langchain_hybridgraph.stores.tantivy_index import TantivyIndex

        name = self._current_name()
        if name is None:
            raise UnusableIndex("")
        folder = self.path / name
        try:
            with (folder / _ROWS).open("rb") as rows:
                about = orjson.loads(rows.readline())
            for key, value in self._about.items():
                if (before := about.get(key)) != value:
                    what = "it belongs to" if key == "collection" else "it was built with"
                    raise UnusableIndex(f"{what} another {key} ({before} instead of {value})")
            _check_segments(folder / _KEYWORDS)
            index = TantivyIndex(folder / _KEYWORDS, self._language, writable=os.access(folder, os.W_OK))
            lines = (folder / _ROWS).read_bytes().split(b"\n")[: index.applied_version + 1]
            changes = [orjson.loads(line) for line in lines[1:]]
            if not changes or len(changes) != index.applied_version:
                raise ValueError("lines are missing")
            rows_of_file = _FileRows(folder / _TEXTS, self.ids, [n for each in changes for n in each["lengths"]])
            rows_of_file.check([(len(each["lengths"]), each["crc"]) for each in changes])
            self._scoped = ScopedRows.of(rows_of_file, _times_of(changes))
            for change in changes:
                self._note(change)
            if len(index) != len(self.row_of):
                raise ValueError(f"it has {len(index)} texts instead of {len(self.row_of)}")
        except (OSError, ValueError, KeyError, TypeError, AttributeError, HybridGraphError) as error:
            raise UnusableIndex(f"it is damaged ({error})") from error
        self.index, self._generation = index, folder
        self._ends = {_ROWS: sum(map(len, lines)) + len(lines), _TEXTS: rows_of_file.size}

    def _current_name(self) -> str | None:
        try:
            name = (self.path / _CURRENT).read_text("ascii", "replace").strip()
        except OSError:
            return None
        return name if _GENERATION.fullmatch(name) else "damaged"

    def _note(self, change: Mapping[str, Any]) -> None:
        """Apply a line of ``rows.jsonl`` to the data in memory, apart from the rows of metadata."""
        start = len(self.ids)
        self.ids += change["ids"]
        for id in change["removed"]:
            self.row_of.pop(id, None)
        self.row_of |= {id: row for row, id in enumerate(change["ids"], start)}
        self.has_parents |= change["has_parents"]
        self._note_contents(dict(zip(*change["stored"], strict=True)), change["deleted"])
        self.identity.forget(change["deleted"])
        self.identity.pair(change["pairs"] or {id: id for id in change["stored"][0]})

    # -- writing ------------------------------------------------------------------------------------------------

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the folder's lock, with the latest changes loaded. If this fails, the index continues in memory."""
        if self._generation is None:
            yield
            return
        with self.turn_if_possible():
            try:
                self._load_changes(self._generation)
            except (HybridGraphError, OSError, ValueError, UnusableIndex) as error:
                self._continue_in_memory(str(error))
            yield

    @contextmanager
    def turn_if_possible(self) -> Iterator[None]:
        """Hold the folder's lock. If this is not possible, the index can be read, but its next change is in memory."""
        from langchain_hybridgraph.stores.writer_lock import WRITE_TIMEOUT

        with ExitStack() as stack:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                stack.enter_context(self._lock.turn(WRITE_TIMEOUT))
            except (HybridGraphError, OSError) as error:
                self._obstacle = str(error)
            try:
                yield
            finally:
                self._obstacle = ""

    def create(self, identity: Identity) -> None:
        """Begin a new index in the folder; :meth:`publish` completes it."""
        from langchain_hybridgraph.stores.tantivy_index import TantivyIndex

        self.ids, self.row_of, self.contents, self._scoped = [], {}, {}, ScopedRows()
        self.has_parents, self.identity = False, identity
        if self._obstacle:
            self._continue_in_memory(self._obstacle)
            return
        generation = self.path / secrets.token_hex(8)
        try:
            generation.mkdir(parents=True)
            header = orjson.dumps(self._about) + b"\n"
            (generation / _ROWS).write_bytes(header)
            (generation / _TEXTS).touch()
            self.index = TantivyIndex(generation / _KEYWORDS, self._language, writable=True)
        except (OSError, HybridGraphError) as error:
            shutil.rmtree(generation, ignore_errors=True)
            self._continue_in_memory(str(error))
        else:
            self._generation, self._ends = generation, {_ROWS: len(header), _TEXTS: 0}
            self.change(())

    def publish(self) -> None:
        """Let the index that was begun by :meth:`create` replace the one in the folder, and delete the old files."""
        if self._generation is None:
            return
        try:
            unfinished = self.path / f"{_CURRENT}.new"
            _write(unfinished, 0, self._generation.name.encode())
            unfinished.replace(self.path / _CURRENT)
        except OSError as error:
            self._continue_in_memory(str(error))
            return
        for old in self.path.iterdir():
            if _GENERATION.fullmatch(old.name) and old != self._generation:
                shutil.rmtree(old, ignore_errors=True)

    def change(
        self,
        add: Sequence[Chunk],
        remove: Collection[str] = (),
        stored: Mapping[str, int] = MappingProxyType({}),
        deleted: Collection[str] = (),
    ) -> None:
        """Implement :meth:`DocumentIndex.change`; the change is also written to the folder."""
        if self._generation is None:
            super().change(add, remove, stored, deleted)
            return
        try:
            if self._obstacle:
                raise OSError(self._obstacle)
            self._append(self._generation, add, remove, stored, deleted)
        except (OSError, TypeError, ValueError) as error:
            self._continue_in_memory(str(error))
            super().change(add, remove, stored, deleted)
            return
        try:
            super().change(add, remove, stored, deleted)
        except HybridGraphError as error:  # for example because the disk is full
            self._continue_in_memory(str(error))

    def _append(
        self,
        folder: Path,
        add: Sequence[Chunk],
        remove: Collection[str],
        stored: Mapping[str, int],
        deleted: Collection[str],
    ) -> None:
        texts = [_encode(chunk) for chunk in add]
        first = len(self.ids)
        times = [(row, begin_of(chunk.metadata), end_of(chunk.metadata)) for row, chunk in enumerate(add, first)]
        line = {
            "ids": [chunk.id for chunk in add],
            "lengths": list(map(len, texts)),
            "crc": zlib.crc32(b"".join(texts)),
            "times": [each for each in times if abs(each[1]) < float("inf") or abs(each[2]) < float("inf")],
            "has_parents": any(chunk.parent is not None for chunk in add),
            "removed": list(remove),
            "stored": [list(stored), list(stored.values())],
            "pairs": {} if self.id_key is None else {id: self.identity.id_of(id) for id in stored},
            "deleted": list(deleted),
        }
        self._ends[_TEXTS] = _write(folder / _TEXTS, self._ends[_TEXTS], b"".join(texts))
        self._ends[_ROWS] = _write(folder / _ROWS, self._ends[_ROWS], orjson.dumps(line) + b"\n")

    def _load_changes(self, folder: Path) -> None:
        """Load what other processes have written since this index was opened or changed."""
        if self._current_name() != folder.name:
            raise UnusableIndex("another process or retriever has built it again")
        applied_before = self.index.applied_version
        self.index.reload()
        if self.index.applied_version == applied_before:
            return
        with (folder / _ROWS).open("rb") as rows:
            rows.seek(self._ends[_ROWS])
            lines = [rows.readline() for _ in range(self.index.applied_version - applied_before)]
        for line in lines:
            change = orjson.loads(line)
            added = _FileRows(folder / _TEXTS, change["ids"], change["lengths"], self._ends[_TEXTS])
            self._scoped.extend(added)
            self._note(change)
            self._ends = {_ROWS: self._ends[_ROWS] + len(line), _TEXTS: added.size}

    # -- memory -------------------------------------------------------------------------------------------------

    def _continue_in_memory(self, reason: str) -> None:
        logger.warning("the keyword index in %s is not used, but kept in memory: %s", self.path, reason)
        generation, self._generation = self._generation, None
        memory, self.reason = self.empty_index("tantivy", self._language)
        memory.apply(1, ((row, (text := self.chunks[id]).text, text.headings) for id, row in self.row_of.items()), [])
        self.index = memory
        if generation is not None and self._current_name() != generation.name:
            shutil.rmtree(generation, ignore_errors=True)  # it was not published


class _FileRows(Sequence[Chunk]):
    """Chunks by row, read from a file when needed; ``lengths`` and ``start``, the first row's place, are in bytes."""

    def __init__(self, path: Path, ids: Sequence[str], lengths: Sequence[int], start: int = 0) -> None:
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._close: Callable[[int], None] = os.close
        self._ids = ids
        self._places = list(accumulate(lengths, initial=start))
        self._added: list[Chunk] = []

    @property
    def size(self) -> int:
        """Place in the file at which the rows end."""
        return self._places[-1]

    def check(self, parts: Sequence[tuple[int, int]]) -> None:
        """Raise ValueError unless the next n rows have the checksum c, for each part (n, c)."""
        row = 0
        for rows, checksum in parts:
            stop = row + rows
            if zlib.crc32(os.pread(self._file, self._places[stop] - self._places[row], self._places[row])) != checksum:
                raise ValueError("texts are missing or changed")
            row = stop

    def __len__(self) -> int:
        return len(self._places) - 1 + len(self._added)

    @overload
    def __getitem__(self, row: int) -> Chunk: ...
    @overload
    def __getitem__(self, row: slice) -> list[Chunk]: ...
    def __getitem__(self, row: int | slice) -> Chunk | list[Chunk]:
        if isinstance(row, slice):
            return [self[each] for each in range(*row.indices(len(self)))]
        in_file = len(self._places) - 1
        if row >= in_file:
            return self._added[row - in_file]
        start = self._places[row]
        text, metadata = orjson.loads(os.pread(self._file, self._places[row + 1] - start, start))
        return Chunk(self._ids[row], text, metadata)

    def copy(self) -> _FileRows:
        return self.__add__(())

    def __add__(self, chunks: Sequence[Chunk]) -> _FileRows:
        rows = _FileRows.__new__(_FileRows)
        rows.__dict__.update(self.__dict__, _file=os.dup(self._file), _added=[*self._added, *chunks])
        return rows

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._close(self._file)


def _encode(chunk: Chunk) -> bytes:
    """Return the text and metadata of a chunk as JSON. Raises an error if JSON would change the metadata."""
    metadata = dict(chunk.metadata)
    try:
        encoded = orjson.dumps([chunk.text, metadata])
    except TypeError as error:
        raise TypeError(f"the metadata of {chunk.id!r} cannot be stored as JSON ({error})") from error
    if orjson.loads(encoded)[1] != metadata:
        raise ValueError(f"the metadata of {chunk.id!r} would be changed by storing it as JSON: {metadata!r:.200}")
    return encoded


def _write(path: Path, end: int, data: bytes) -> int:
    """Replace everything after the first ``end`` bytes of a file, wait until it is on disk, and return the new end."""
    with path.open("r+b" if path.exists() else "wb") as file:
        file.truncate(end)
        file.seek(end)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return end + len(data)


def _times_of(changes: Sequence[Mapping[str, Any]]) -> tuple[list[float], list[float]]:
    rows = sum(len(change["ids"]) for change in changes)
    begins, ends = [-float("inf")] * rows, [float("inf")] * rows
    for row, begin, end in (each for change in changes for each in change["times"]):
        begins[row] = -float("inf") if begin is None else begin
        ends[row] = float("inf") if end is None else end
    return begins, ends


def _check_segments(folder: Path) -> None:
    """Raise ValueError unless every file of Tantivy's segments has the checksum at its end."""
    segments = {
        each["segment_id"].replace("-", "") for each in orjson.loads((folder / "meta.json").read_bytes())["segments"]
    }
    for file in folder.iterdir():
        if file.name.partition(".")[0] in segments:
            data = file.read_bytes()
            length, _ = _FOOTER.unpack(data[-_FOOTER.size :].rjust(_FOOTER.size, b"\0"))
            end = len(data) - _FOOTER.size - length
            if end < 0 or orjson.loads(data[end : end + length])["crc"] != zlib.crc32(data[:end]):
                raise ValueError(f"{file.name} is damaged")
