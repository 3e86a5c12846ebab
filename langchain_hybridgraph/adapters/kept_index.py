"""Keyword index of a vector store in a folder."""

from __future__ import annotations

import logging
import os
import re
import secrets
import shutil
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import orjson

from langchain_hybridgraph.adapters.documents import Identity
from langchain_hybridgraph.adapters.keyword_index import DocumentIndex
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import ConfigurationError, HybridGraphError
from langchain_hybridgraph.text.analyzer import Analyzer

FORMAT = 3
_CURRENT, _LOCK = "current", "writer.lock"
_KEYWORDS, _CHANGES = "keywords", "changes.jsonl"
_GENERATION = re.compile("[0-9a-f]{16}")

logger = logging.getLogger(__name__)


class UnusableIndex(Exception):
    """The index in a folder cannot be used; the message is the reason, or empty if there is no index yet."""


class KeptIndex(DocumentIndex):
    """Keyword index of all texts of a vector store, in a folder that several processes may use.

    The folder has the following files. ``current`` contains the name of the folder with the other files, so that an
    index that is built again replaces the old one at once.

    - ``changes.jsonl``: a line that describes the index, and one line per change, after its checksum
    - ``keywords``: Tantivy's index. Its commit ends a change: its version is the number of changes that are valid.

    A process changes the folder only while it holds the folder's lock, and first loads what other processes have
    written (:meth:`exclusive`). If the folder cannot be used or written to, the index continues in memory.
    """

    def __init__(self, path: Path, *, collection: str, language: str, id_key: str | None, equal_texts: str) -> None:
        from langchain_hybridgraph.stores.writer_lock import WriterLock

        self.path = path
        self._generation: Path | None = None
        self._is_in_memory = False
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
        self._loaded, self._end = 0, 0  # number of changes that were loaded or written, and where the last one ends
        super().__init__((), language=language, id_key=id_key, is_given=False)
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
        self.clear(Identity([], id_key=self.id_key))
        try:
            with (folder / _CHANGES).open("rb") as changes:
                header = changes.readline()
            about = orjson.loads(header)
            for key, value in self._about.items():
                if (before := about.get(key)) != value:
                    what = "it belongs to" if key == "collection" else "it was built with"
                    raise UnusableIndex(f"{what} another {key} ({before} instead of {value})")
            (folder / _KEYWORDS / "meta.json").stat()  # otherwise Tantivy would create an empty index
            self.index = TantivyIndex(folder / _KEYWORDS, self._language, writable=os.access(folder, os.W_OK))
            if files := self.index.damaged_files():
                raise ValueError(f"the checksum of {files[0]} is wrong")
            self._end = len(header)
            self._load_changes(folder)
            if len(self.index) != len(self.row_of):
                raise ValueError(f"it has {len(self.index)} texts instead of {len(self.row_of)}")
        except (OSError, ValueError, KeyError, TypeError, AttributeError, HybridGraphError) as error:
            raise UnusableIndex(f"it is damaged ({error})") from error
        self._generation = folder

    def _current_name(self) -> str | None:
        try:
            name = (self.path / _CURRENT).read_text("ascii", "replace").strip()
        except OSError:
            return None
        return name if _GENERATION.fullmatch(name) else "damaged"

    def _load_changes(self, folder: Path) -> None:
        """Load the changes that are part of the index in ``folder``, but not yet in memory."""
        with (folder / _CHANGES).open("rb") as changes:
            changes.seek(self._end)
            while self._loaded < self.index.applied_version:
                line = changes.readline()
                checksum, _, content = line.partition(b" ")
                if zlib.crc32(content) != int(checksum, 16):
                    raise ValueError("a line of changes has a wrong checksum")
                change = orjson.loads(content)
                added = [Chunk(*each) for each in change["texts"]]
                self._note(added, change["removed"], change["stored"], change["deleted"])
                self.identity.forget(change["deleted"])
                self.identity.pair(change["pairs"] or {id: id for id in change["stored"]})
                self._end += len(line)
                self._loaded += 1

    # -- writing ------------------------------------------------------------------------------------------------

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the folder's lock, with the latest changes loaded. If this fails, the next change is in memory."""
        from langchain_hybridgraph.stores.writer_lock import WRITE_TIMEOUT

        if self._is_in_memory:
            yield
            return
        with ExitStack() as stack:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                stack.enter_context(self._lock.turn(WRITE_TIMEOUT))
            except (HybridGraphError, OSError) as error:
                self._obstacle = str(error)
            if self._generation is not None:
                try:
                    if self._current_name() != self._generation.name:
                        raise ValueError("another process or retriever has built it again")
                    self.index.reload()
                    self._load_changes(self._generation)
                except (HybridGraphError, OSError, ValueError) as error:
                    self._continue_in_memory(str(error))
            try:
                yield
            finally:
                self._obstacle = ""

    def create(self, identity: Identity) -> None:
        """Begin a new index in the folder; :meth:`publish` completes it."""
        from langchain_hybridgraph.stores.tantivy_index import TantivyIndex

        self.clear(identity)
        if self._obstacle:
            self._continue_in_memory(self._obstacle)
            return
        self._generation = self.path / secrets.token_hex(8)
        try:
            self._generation.mkdir(parents=True)
            self._end = _write(self._generation / _CHANGES, 0, orjson.dumps(self._about) + b"\n")
            self.index = TantivyIndex(self._generation / _KEYWORDS, self._language, writable=True)
        except (OSError, HybridGraphError) as error:
            self._continue_in_memory(str(error))

    def clear(self, identity: Identity) -> None:
        """Forget all texts."""
        super().clear(identity)
        self.contents, self._loaded, self._end = {}, 0, 0

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
        if self._generation is not None:
            try:
                if self._obstacle:
                    raise OSError(self._obstacle)
                change = {
                    "texts": [[chunk.id, chunk.text, dict(chunk.metadata)] for chunk in add],
                    "removed": list(remove),
                    "stored": dict(stored),
                    "pairs": {} if self.id_key is None else {id: self.identity.id_of(id) for id in stored},
                    "deleted": list(deleted),
                }
                line = _encode(change)
                self._end = _write(self._generation / _CHANGES, self._end, line)
            except (OSError, TypeError, ValueError) as error:
                self._continue_in_memory(str(error))
        try:
            super().change(add, remove, stored, deleted)
            self._loaded += 1
        except HybridGraphError as error:  # for example because the disk is full
            self._continue_in_memory(str(error))

    def _continue_in_memory(self, reason: str) -> None:
        logger.warning("the keyword index in %s is not used, but kept in memory: %s", self.path, reason)
        generation, self._generation, self._is_in_memory = self._generation, None, True
        memory, self.reason = self.empty_index("tantivy", self._language)
        memory.apply(1, ((row, (text := self.chunks[id]).text, text.headings) for id, row in self.row_of.items()), [])
        self.index = memory
        if generation is not None and self._current_name() != generation.name:
            shutil.rmtree(generation, ignore_errors=True)  # it was not published


def _encode(change: Mapping[str, Any]) -> bytes:
    """Return a change as a line with a checksum. Raises an error if JSON would change the metadata of a text."""
    try:
        content = orjson.dumps(change)
    except TypeError as error:
        raise TypeError(f"the metadata of a text cannot be stored as JSON ({error})") from error
    for before, after in zip(change["texts"], orjson.loads(content)["texts"], strict=True):
        if before != after:
            raise ValueError(
                f"the metadata of {before[0]!r} would be changed by storing it as JSON: {before[2]!r:.200}"
            )
    return b"%08x %b\n" % (zlib.crc32(content + b"\n"), content)


def _write(path: Path, end: int, data: bytes) -> int:
    """Replace everything after the first ``end`` bytes of a file, wait until it is on disk, and return the new end."""
    with path.open("r+b" if path.exists() else "wb") as file:
        file.truncate(end)
        file.seek(end)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return end + len(data)
