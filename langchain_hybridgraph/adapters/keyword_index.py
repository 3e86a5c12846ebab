"""Keyword index of the texts in another vector store."""

from __future__ import annotations

import logging
import os
import re
import secrets
import shutil
import time
import zlib
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Self

import orjson
from langchain_core.documents import Document

from langchain_hybridgraph import errors
from langchain_hybridgraph.adapters.documents import Identity, ScopedRows, chunk_of, with_user_metadata
from langchain_hybridgraph.adapters.vector_stores import StoreAdapter, in_pages
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.execution.threads import ForkSafeLock
from langchain_hybridgraph.stores.bm25 import IndexedText, KeywordIndex
from langchain_hybridgraph.stores.keyword_engine import Engine, keyword_index
from langchain_hybridgraph.text.analyzer import Analyzer

Refresh = Literal["auto", "never"] | float
UNREAD = -1
IN_MEMORY = "the keyword index is in memory, not in %s: %s"
"""Warning in the log, with the folder and an error."""
_HASHED = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS

logger = logging.getLogger(__name__)


class IndexChange(NamedTuple):
    """Texts to add or replace, ids of texts to remove, and changes of :attr:`DocumentIndex.contents`."""

    add: Sequence[Chunk]
    remove: Collection[str] = ()
    stored: Mapping[str, int] = MappingProxyType({})
    deleted: Collection[str] = ()


class DocumentIndex:
    """Documents in memory, with a keyword index of their texts.

    ``is_given`` is True if the Documents come from the user, and False if they were read from the vector store.
    ``stored_documents`` are the Documents that the vector store currently has, or None if they are not known.
    ``id_key`` is the metadata key that contains the Documents' ids, if there is one (see :class:`Identity`). If several
    Documents have the same id, the last one is used. A changed text gets a new row, and its old row is not reused.

    ``chunks`` maps ids to chunks. ``contents`` maps the store's ids of all its texts to hashes of their contents, or is
    None if the store has not been read.
    """

    def __init__(
        self,
        documents: Iterable[Document],
        *,
        engine: Engine = "tantivy",
        language: str = "english",
        id_key: str | None = None,
        stored_documents: Collection[Document] | None = None,
        is_given: bool = True,
    ) -> None:
        self.is_given = is_given
        self.id_key = id_key
        self._changing = ForkSafeLock()
        self.index, self.reason = self.empty_index(engine, language)
        in_order: list[Document] = []
        self.index.apply(1, self._texts(documents, in_order), [])
        self.clear(Identity(in_order, stored_documents, id_key))
        chunks = [chunk_of(document, id) for document, id in zip(in_order, self.identity.ids, strict=True)]
        if replaced_rows := self._note(IndexChange(chunks)):
            self.index.apply(2, [], replaced_rows)

    def clear(self, identity: Identity) -> None:
        """Forget all texts, apart from those in the keyword index."""
        self.identity = identity
        self.chunks = ScopedRows()
        self.contents: dict[str, int] | None = None
        self.has_parents = False

    def user_chunk(self, id: str) -> Chunk | None:
        """Return the user's chunk with this id, or None if there is none or the texts come from the vector store."""
        return self.chunks.get(id) if self.is_given else None

    def exclusive(self) -> AbstractContextManager[None]:
        """Prevent other processes from changing the index. An index in memory has no other processes."""
        return nullcontext()

    def change(self, change: IndexChange) -> None:
        """Remove and then add or replace texts."""
        with self._changing:
            texts = [(row, chunk.text, chunk.headings) for row, chunk in enumerate(change.add, len(self.chunks.ids))]
            self.index.apply(self.index.applied_version + 1, texts, self._note(change))

    @staticmethod
    def _texts(documents: Iterable[Document], read: list[Document]) -> Iterator[IndexedText]:
        """Yield the texts of Documents for the index, which analyses them while a store reads the next ones."""
        for row, document in enumerate(documents):
            read.append(document)
            chunk = chunk_of(document, "")
            yield row, chunk.text, chunk.headings

    def _note(self, change: IndexChange) -> list[int]:
        """Apply a change to everything apart from the keyword index, and return the rows to remove from that."""
        replaced_rows = self.chunks.change(change.remove, [chunk.id for chunk in change.add], change.add)
        self.has_parents |= any(chunk.parent is not None for chunk in change.add)
        if self.contents is not None:
            for id in change.deleted:
                self.contents.pop(id, None)
            self.contents |= change.stored
        return replaced_rows

    def state(self) -> tuple[int, dict[int, Chunk], int]:
        """Return the version of the index, its chunks by row, and the number of rows ever used."""
        with self._changing:
            rows = self.chunks
            return self.index.applied_version, {row: rows[id] for id, row in rows.row_of.items()}, len(rows.ids)

    @staticmethod
    def empty_index(engine: Engine, language: str) -> tuple[KeywordIndex, str | None]:
        """Return an empty keyword index, and ``keyword-fallback`` if it is not the requested one, otherwise None."""
        try:
            return keyword_index(engine, language), None
        except errors.StoreError as error:
            logger.warning("using rank_bm25 instead of Tantivy (keyword-fallback): %s", error)
            return keyword_index("rank_bm25", language), "keyword-fallback"


class RefreshReport(NamedTuple):
    """Result of a keyword index refresh: the numbers of added, changed and removed texts."""

    added: int = 0
    changed: int = 0
    removed: int = 0


@dataclass
class StoreContents:
    """All Documents of a store by id, with hashes of their contents, and their number just before they were read.

    The number is :data:`UNREAD` if reading them failed.
    """

    documents: dict[str, Document] = field(default_factory=dict)
    hashes: dict[str, int] = field(default_factory=dict)
    size: int | None = None

    @classmethod
    def of(cls, adapter: StoreAdapter) -> Self:
        """Read all texts of a store."""
        contents = cls()
        deque(contents.reading(adapter), maxlen=0)
        return contents

    def reading(self, adapter: StoreAdapter, *, merges_copies: bool = False) -> Iterator[Document]:
        """Read all texts of a store into ``documents``, and yield each while the store reads the next ones.

        With ``merges_copies``, only the first of several Documents with equal text and metadata is yielded.
        """
        self.size, hashes = adapter.count(), set[int]()
        for document in adapter.documents():
            id, content = str(document.id), _content(document)
            self.documents[id], self.hashes[id] = document, content
            if not merges_copies or content not in hashes:
                yield document
            hashes.add(content)


class Freshness:
    """Updater that applies the changes in a vector store to its keyword index.

    Added and deleted texts are detected when the number of texts in the store changes. A text that was changed in place
    is detected only by :meth:`refresh`. If the user passed Documents, other texts that were in the store then are never
    added.

    With ``merges_copies``, equal texts with equal metadata have one row in the index. ``on_read`` is called with all
    Documents of the store when they are read again.
    """

    def __init__(
        self, texts: DocumentIndex, adapter: StoreAdapter, contents: StoreContents | None, *, merges_copies: bool
    ) -> None:
        self.texts = texts
        self.adapter = adapter
        self.on_read: Callable[[Iterable[Document]], None] | None = None
        self._merges_copies = merges_copies
        self._ids_of_copies: dict[int, str] = {}  # by content
        self._size: int | None = None  # number of texts in the store when it was last read
        self._is_behind = False
        if contents is not None:
            self._remember(contents)
        self._checking, self._refreshing = ForkSafeLock(), ForkSafeLock()
        self._checked_at: float | None = None

    @classmethod
    def in_folder(cls, texts: KeptIndex, adapter: StoreAdapter, *, merges_copies: bool) -> Self:
        """Open the index in a folder and apply the changes in the store since it was written, or build it.

        It is built if it is missing, damaged, or of another collection. Changed texts are found only if the store's
        texts are in memory.
        """
        freshness = cls(texts, adapter, None, merges_copies=merges_copies)
        with texts.locked():
            try:
                with texts.exclusive():
                    freshness._note_copies(freshness._first_copies(texts.contents))
                    freshness._apply_changes()
            except UnusableIndex as error:
                if (texts.path / _CURRENT).exists():
                    logger.warning("the keyword index in %s is built again: %s", texts.path, error)
                contents = StoreContents.of(adapter)
                documents = list(contents.documents.values())
                with texts.replacement(Identity(documents, documents, texts.id_key)):
                    freshness._compare(contents)
        return freshness

    @property
    def is_unread(self) -> bool:
        """Whether reading the store's texts has failed since the retriever was created."""
        return self._size == UNREAD

    def ids_of_copies(self, chunks: Iterable[Chunk]) -> dict[str, str]:
        """Return, for chunks with copies in the store, the id of the copy that is in the keyword index."""
        ids = self._ids_of_copies
        return {chunk.id: ids[content] for chunk in chunks if (content := content_hash(chunk)) in ids} if ids else {}

    def with_ids_of_copies(self, stored_ids: Iterable[str], ids: list[str | None]) -> list[str | None]:
        """Return the ids assigned to these texts of the store, with one id for all copies of a text."""
        copies, contents = self._ids_of_copies, self.texts.contents
        if not copies or contents is None:
            return ids
        return [copies.get(contents.get(stored, -1), id) for stored, id in zip(stored_ids, ids, strict=True)]

    def bring_up_to_date(
        self, refresh: Refresh = "auto", started_at: float | None = None
    ) -> tuple[str | None, str | None]:
        """Check the store for changes and apply them to the index.

        ``refresh`` is ``"auto"`` to check before each search, a number to check at most once in this number of seconds,
        or ``"never"`` to detect changes without applying them. ``started_at`` is the time at which the search started,
        by default now.

        Returns (``keyword-stale``, remark) if the index is out of date afterwards, (``no-keyword-index``, remark) if it
        also has no texts, otherwise (None, None).
        """
        started_at = time.monotonic() if started_at is None else started_at
        if not self._check(refresh, started_at):
            return None, None
        reason = "keyword-stale" if self.texts.chunks else "no-keyword-index"
        if refresh == "never" or not self.adapter.can_list:
            return reason, "the store has changed since its texts were read: refresh() applies the changes"
        try:
            with self._refreshing, self.texts.exclusive():
                self._catch_up()
        except Exception as error:  # noqa: BLE001 - a server may fail with anything; the present index is used
            return reason, f"updating the index with the store's latest texts failed ({errors.describe_error(error)})"
        return None, None

    def renew(self) -> None:
        """Apply the store's changes to the index, if the store can be read.

        Raises StoreError or OSError if the folder of the index has no index of this collection any more.
        """
        # A server may fail with anything; searches report it.
        failures = nullcontext() if self.adapter.is_in_memory else suppress(Exception)
        with self._refreshing, self.texts.exclusive(), failures:
            self._apply_changes()

    def is_up_to_date(self, refresh: Refresh, started_at: float) -> bool:
        """Return whether the index is up to date; False if finding out would require a request to a server."""
        needs_request = self._is_due(refresh, started_at) and not self.adapter.is_local
        return not needs_request and not self._check(refresh, started_at)

    def refresh(self) -> RefreshReport:
        """Apply the store's changes to the index. Raises ConfigurationError if the store cannot be listed."""
        if not self.adapter.can_list:
            raise errors.ConfigurationError(
                "the texts of this vector store cannot be listed: call refresh(documents) "
                "with all texts for the keyword index"
            )
        with self._refreshing, self.texts.exclusive():
            return self._compare(StoreContents.of(self.adapter))

    # -- checking -----------------------------------------------------------------------------------------------

    def _check(self, refresh: Refresh, started_at: float) -> bool:
        """Return whether the store has changed since it was read. Concurrent searches share a check."""
        with self._checking:
            if self._is_due(refresh, started_at):
                checked_at = time.monotonic()
                with suppress(Exception):  # a server may fail with anything; the vector search reports it
                    self._is_behind = self.adapter.count() != self._size
                self._checked_at = checked_at
            return self._is_behind

    def _is_due(self, refresh: Refresh, started_at: float) -> bool:
        checked_at = self._checked_at
        return checked_at is None or checked_at + (refresh if isinstance(refresh, float | int) else 0.0) < started_at

    # -- applying changes ----------------------------------------------------------------------------------------

    def _apply_changes(self) -> None:
        if self.adapter.is_in_memory:
            self._compare(StoreContents.of(self.adapter))
        else:
            self._catch_up()

    def _catch_up(self) -> None:
        size = self.adapter.count()
        if size == self._size:
            return  # another search has caught up in the meantime
        if self.texts.contents is None:
            self._compare(StoreContents.of(self.adapter))
        else:
            contents, ids = self.texts.contents, set(self.adapter.ids())
            pages = in_pages(sorted(ids.difference(contents)))
            new = {str(document.id): document for page in pages for document in self.adapter.get(page)}
            self._apply(new, {id: _content(document) for id, document in new.items()}, contents.keys() - ids)
            self._size, self._is_behind = size, False

    def _compare(self, store_contents: StoreContents) -> RefreshReport:
        """Apply the changed contents of the store to the index, or only record them if there were none before."""
        contents, documents, hashes = self.texts.contents, store_contents.documents, store_contents.hashes
        done = RefreshReport()
        if contents is None:
            for document in documents.values():
                self.texts.identity.of_stored(document)
        else:
            changed = {id: document for id, document in documents.items() if contents.get(id) != hashes[id]}
            done = self._apply(changed, {id: hashes[id] for id in changed}, contents.keys() - documents.keys())
        self._remember(store_contents, contents)
        return done

    def _apply(
        self, documents: Mapping[str, Document], hashes: Mapping[str, int], deleted: Collection[str]
    ) -> RefreshReport:
        """Apply the store's new or changed ``documents``, whose contents have these hashes, and its deletions."""
        texts, identity, old = self.texts, self.texts.identity, self.texts.contents or {}
        if not (documents or deleted):
            return RefreshReport()
        before = self._first_copies(old)
        after = self._first_copies({id: content for id, content in old.items() if id not in deleted} | dict(hashes))
        firsts = set(after.values())
        # A text that is not new enters the index only in place of a copy.
        entering = [
            id
            for id in after.values()
            if not self._is_indexed(id)
            and (id not in old or self._is_indexed(before[old[id] if self._merges_copies else id]))
        ]
        changed = [id for id in documents if id in firsts and id in old and self._is_indexed(id)]
        if unread := [id for id in entering if id not in documents]:
            documents = {**documents, **{str(each.id): each for each in self.adapter.get(unread)}}
        removed = [id for id in identity.forget({*deleted, *before.values()} - firsts) if id in texts.chunks]
        new = {identity.of_stored(documents[id]): documents[id] for id in entering if id in documents}
        added = [chunk_of(each, id) for id, each in new.items() if id not in texts.chunks or id in removed]
        ids = {identity.of_stored(documents[id]): documents[id] for id in changed}
        other = [with_user_metadata(each, id, texts.user_chunk(id)) for id, each in ids.items()]
        texts.change(IndexChange([*added, *other], removed, hashes, deleted))
        self._note_copies(after)
        return RefreshReport(len(added), len(other), len(removed))

    def _is_indexed(self, stored_id: str) -> bool:
        return self.texts.identity.id_of.get(stored_id) in self.texts.chunks

    def _first_copies(self, contents: Mapping[str, int] | None) -> dict[int | str, str]:
        """Return the stored id of a copy of each text, in the index if possible, by content or, if each counts, id."""
        contents = contents or {}
        keys: Collection[int | str] = contents.values() if self._merges_copies else contents.keys()
        first: dict[int | str, str] = {}
        for id, key in zip(contents, keys, strict=True):
            other = first.setdefault(key, id)
            if other != id and not self._is_indexed(other) and self._is_indexed(id):
                first[key] = id
        return first

    def _note_copies(self, first: Mapping[int | str, str]) -> None:
        if not self._merges_copies:
            return
        identity, counts = self.texts.identity, Counter((self.texts.contents or {}).values())
        copied = (content for content, count in counts.items() if count > 1 and content in first)
        self._ids_of_copies = {content: identity.id_of.get(first[content]) or first[content] for content in copied}

    def _remember(self, store_contents: StoreContents, contents: dict[str, int] | None = None) -> None:
        contents = store_contents.hashes if contents is None else contents
        self.texts.contents = contents
        self._size, self._is_behind = store_contents.size, store_contents.size == UNREAD
        self._note_copies(self._first_copies(contents))
        if self.on_read is not None:
            self.on_read(store_contents.documents.values())


def content_hash(chunk: Chunk) -> int:
    """Return a hash of a chunk's text and metadata that is the same in every process, and equal for copies."""
    try:
        content = orjson.dumps([chunk.text, chunk.own_metadata], option=_HASHED)  # takes a third of the time of repr
    except TypeError:
        content = repr(chunk.content).encode(errors="surrogatepass")
    return int.from_bytes(blake2b(content, digest_size=7).digest())


def _content(document: Document) -> int:
    return content_hash(chunk_of(document, str(document.id)))


# Keyword index in a folder.

FORMAT = 3
_CURRENT, _LOCK = "current", "writer.lock"
_KEYWORDS, _CHANGES = "keywords", "changes.jsonl"
_GENERATION = re.compile("[0-9a-f]{16}")


class UnusableIndex(errors.StoreError):
    """The index in a folder cannot be used."""


class KeptIndex(DocumentIndex):
    """Keyword index of all texts of a vector store, in a folder that several processes may use.

    The folder has the following files. ``current`` contains the name of the folder with the other files, so that an
    index that is built again replaces the old one at once.

    - ``changes.jsonl``: a line that describes the index, and one line per change, after its checksum
    - ``keywords``: Tantivy's index. Its commit ends a change: its version is the number of changes that are valid.

    A process changes the folder only while it holds the folder's lock, and first loads what other processes have
    written (:meth:`exclusive`). If a change of an open index cannot be written, the index continues in memory.
    """

    def __init__(self, path: Path, *, language: str, id_key: str | None, **about: str) -> None:
        from langchain_hybridgraph.stores.writer_lock import WRITE_TIMEOUT, WriterLock

        path.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.locked: Callable[[], AbstractContextManager[None]] = partial(WriterLock(path / _LOCK).turn, WRITE_TIMEOUT)
        self._about = {"format": FORMAT, "language": Analyzer(language).name, "id_key": id_key, **about}
        self._language = language
        self._folder = path  # of the files
        self._is_loaded = False  # whether the files in it are loaded
        self.has_left_folder = False
        super().__init__((), language=language, id_key=id_key, is_given=False)

    def clear(self, identity: Identity) -> None:
        """Forget all texts."""
        super().clear(identity)
        self.contents = {}
        self._loaded, self._end = 0, 0  # number of changes that were loaded or written, and where the last one ends

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the folder's lock, with the latest changes loaded.

        Raises UnusableIndex if the folder has no index, or if it is damaged or another one.
        """
        with ExitStack() as stack:
            try:
                stack.enter_context(self.locked())
            except (errors.ReadOnlyError, errors.StoreUnavailableError) as error:
                self._leave_folder(error)
            if not self.has_left_folder:
                self._load()
            yield

    def _load(self) -> None:
        try:
            try:
                current = (self.path / _CURRENT).read_text("ascii", "replace").strip()
            except FileNotFoundError as error:
                raise UnusableIndex("there is no index yet") from error
            folder = self.path / current
            if self._is_loaded and folder == self._folder:
                self.index.reload()
            else:
                self._open(folder)
            self._load_changes()
            if len(self.index) != len(self.chunks):
                raise ValueError(f"it has {len(self.index)} texts instead of {len(self.chunks)}")
        except UnusableIndex:
            raise
        except (OSError, ValueError, KeyError, TypeError, AttributeError, errors.HybridGraphError) as error:
            raise UnusableIndex(f"it is damaged ({error})") from error
        self._is_loaded = True

    def _leave_folder(self, error: Exception) -> None:
        """Continue in memory. Raises the error if no index was loaded."""
        if not self._is_loaded:
            raise error
        logger.warning(IN_MEMORY, self.path, errors.describe_error(error))
        texts = [(self.chunks.row_of[id], chunk.text, chunk.headings) for id, chunk in self.chunks.items()]
        index, self.reason = self.empty_index("tantivy", self._language)
        index.apply(self.index.applied_version + 1, texts, [])
        self.index, self.has_left_folder, self.locked = index, True, nullcontext

    def _open(self, folder: Path) -> None:
        from langchain_hybridgraph.stores.tantivy_index import TantivyIndex

        with (folder / _CHANGES).open("rb") as changes:
            header = changes.readline()
        about = orjson.loads(header)
        for key, value in self._about.items():
            if (before := about.get(key)) != value:
                what = "it belongs to" if key == "collection" else "it was built with"
                raise UnusableIndex(f"{what} another {key} ({before} instead of {value})")
        (folder / _KEYWORDS / "meta.json").stat()  # otherwise Tantivy would create an empty index
        index = TantivyIndex(folder / _KEYWORDS, self._language, writable=True)
        if files := index.damaged_files():
            raise ValueError(f"the checksum of {files[0]} is wrong")
        self.clear(Identity([], id_key=self.id_key))
        self.index, self._folder, self._end = index, folder, len(header)

    def _load_changes(self) -> None:
        """Load the changes that are part of the index, but not yet in memory."""
        with (self._folder / _CHANGES).open("rb") as changes:
            changes.seek(self._end)
            while self._loaded < self.index.applied_version:
                line = changes.readline()
                checksum, _, content = line.partition(b" ")
                if zlib.crc32(content) != int(checksum, 16):
                    raise ValueError("a line of changes has a wrong checksum")
                change = orjson.loads(content)
                added = [Chunk(*each) for each in change["texts"]]
                self._note(IndexChange(added, change["removed"], change["stored"], change["deleted"]))
                self.identity.forget(change["deleted"])
                for stored in change["stored"]:
                    self.identity.pair(change["pairs"].get(stored, stored), stored)
                self._end += len(line)
                self._loaded += 1

    @contextmanager
    def replacement(self, identity: Identity) -> Iterator[None]:
        """Begin a new index, which replaces the one in the folder after the ``with`` block."""
        from langchain_hybridgraph.stores.tantivy_index import TantivyIndex

        self._is_loaded = False
        self._folder = self.path / secrets.token_hex(8)
        self.clear(identity)
        try:
            self._folder.mkdir()
            self._end = _write(self._folder / _CHANGES, 0, orjson.dumps(self._about) + b"\n")
            self.index = TantivyIndex(self._folder / _KEYWORDS, self._language, writable=True)
            yield
            unfinished = self.path / f"{_CURRENT}.new"
            _write(unfinished, 0, self._folder.name.encode())
            unfinished.replace(self.path / _CURRENT)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        for old in self.path.iterdir():
            if _GENERATION.fullmatch(old.name) and old != self._folder:
                shutil.rmtree(old, ignore_errors=True)

    def change(self, change: IndexChange) -> None:
        """Implement :meth:`DocumentIndex.change`; the change is also written to the folder, if possible."""
        if self.has_left_folder:
            super().change(change)
            return
        line = {
            "texts": [[chunk.id, chunk.text, dict(chunk.metadata)] for chunk in change.add],
            "removed": list(change.remove),
            "stored": dict(change.stored),
            "pairs": {} if self.id_key is None else {id: self.identity.id_of.get(id) for id in change.stored},
            "deleted": list(change.deleted),
        }
        is_loaded, self._is_loaded = self._is_loaded, False
        try:
            self._end = _write(self._folder / _CHANGES, self._end, _encode(line))
            super().change(change)
        except (OSError, errors.StoreError) as error:
            self._is_loaded = is_loaded
            self._leave_folder(error)
            super().change(change)
        self._loaded += 1
        self._is_loaded = True


def _encode(change: Mapping[str, Any]) -> bytes:
    """Return a change as a line with a checksum. Raises StoreError if JSON would change the metadata of a text."""
    try:
        content = orjson.dumps(change)
    except TypeError as error:
        raise errors.StoreError(f"the metadata of a text cannot be stored as JSON ({error})") from error
    for before, after in zip(change["texts"], orjson.loads(content)["texts"], strict=True):
        if before != after:
            raise errors.StoreError(
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
