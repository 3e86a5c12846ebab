"""Updates of the keyword index of a vector store."""

from __future__ import annotations

import logging
import random
import time
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

import orjson
from langchain_core.documents import Document

from langchain_hybridgraph.adapters.documents import Identity
from langchain_hybridgraph.adapters.kept_index import KeptIndex, UnusableIndex
from langchain_hybridgraph.adapters.keyword_index import DocumentIndex, chunk_of, with_user_metadata
from langchain_hybridgraph.adapters.vector_stores import in_pages
from langchain_hybridgraph.errors import ConfigurationError, describe_error
from langchain_hybridgraph.execution.threads import ForkSafeLock

if TYPE_CHECKING:
    from langchain_hybridgraph.adapters.keyword_index import FilteredSearch
    from langchain_hybridgraph.adapters.vector_stores import StoreAdapter
    from langchain_hybridgraph.chunks import Chunk


Refresh = Literal["auto", "never"] | float
STALE = "keyword-stale"
# Number of texts that are compared with those of the store when an index is opened from a folder.
SAMPLED_TEXTS = 64
_HASHED = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS

logger = logging.getLogger(__name__)


class RefreshReport(NamedTuple):
    """Result of a keyword index refresh: the numbers of added, changed and removed texts."""

    added: int = 0
    changed: int = 0
    removed: int = 0


@dataclass
class StoreContents:
    """All Documents of a store by id, with hashes of their contents, and their number just before they were read.

    If reading them failed, ``error`` describes why.
    """

    documents: dict[str, Document] = field(default_factory=dict)
    hashes: dict[str, int] = field(default_factory=dict)
    size: int | None = None
    error: str | None = None

    @classmethod
    def of(cls, adapter: StoreAdapter) -> Self:
        """Read all texts of a store."""
        contents = cls()
        deque(contents.reading(adapter), maxlen=0)
        return contents

    def reading(self, adapter: StoreAdapter) -> Iterator[Document]:
        """Read all texts of a store into ``documents``, and yield each while the store reads the next ones."""
        self.size = adapter.count()
        for document in adapter.documents():
            id = str(document.id)
            self.documents[id], self.hashes[id] = document, _content(document)
            yield document

    def without_copies(self, documents: Iterable[Document]) -> Iterator[Document]:
        """Yield the first of each group of these Documents with equal text and metadata."""
        hashes: set[int] = set()
        for document in documents:
            content = self.hashes[str(document.id)]
            if content not in hashes:
                hashes.add(content)
                yield document


class Freshness:
    """Updater that applies the changes in a vector store to its keyword index.

    Added and deleted texts are detected when the number of texts in the store changes. A text that was changed in place
    is detected only by :meth:`refresh`. If the user passed Documents, other texts that were in the store then are never
    added.

    ``error`` describes why the store's texts could not be listed, until they have been listed once. With
    ``merges_copies``, equal texts with equal metadata have one row in the index. ``filtered`` is the filtered search
    that receives all Documents that are read again.
    """

    def __init__(
        self,
        texts: DocumentIndex,
        adapter: StoreAdapter,
        store_contents: StoreContents | None,
        *,
        merges_copies: bool = False,
    ) -> None:
        self.texts = texts
        self.adapter = adapter
        self.error: str | None = None
        self.filtered: FilteredSearch | None = None
        self._merges_copies = merges_copies
        self._ids_of_copies: dict[int, str] = {}  # by content
        self._size: int | None = None  # number of texts in the store when it was last read
        if store_contents is not None:
            self._remember(store_contents)
        self._checking, self._refreshing = ForkSafeLock(), ForkSafeLock()
        self._checked_at: float | None = None
        self._is_behind = False

    @classmethod
    def in_folder(cls, texts: KeptIndex, adapter: StoreAdapter, *, merges_copies: bool = False) -> Self:
        """Open the index in a folder and apply the changes in the store since it was written, or build it.

        It is built if it is missing, damaged, or of another collection. Changed texts are found if the store's texts
        are in memory, or if one of a sample of texts was changed. Otherwise, only added and deleted texts are found.
        """
        freshness = cls(texts, adapter, None, merges_copies=merges_copies)
        with texts.exclusive():
            try:
                texts.open()
                freshness._note_copies(freshness._first_copies(texts.contents))
                freshness._follow_store()
            except UnusableIndex as error:
                if str(error):
                    logger.warning("the keyword index in %s is built again: %s", texts.path, error)
                contents = StoreContents.of(adapter)
                documents = list(contents.documents.values())
                texts.create(Identity(documents, documents, texts.id_key))
                freshness._compare(contents)
                texts.publish()
        return freshness

    def _follow_store(self) -> None:
        """Apply the changes since the index was written. Raises UnusableIndex if it has none of the store's texts."""
        self._size, contents = self.adapter.count(), self.texts.contents or {}
        sample = self.adapter.get(random.sample(list(contents), min(SAMPLED_TEXTS, len(contents))))
        if contents and not sample:
            raise UnusableIndex("it contains none of the texts in the collection")
        is_changed = any(contents.get(str(document.id)) != _content(document) for document in sample)
        if is_changed or self.adapter.is_in_memory:
            self._compare(StoreContents.of(self.adapter))
        else:
            self._compare_ids()

    @property
    def stored_ids(self) -> Set[str]:
        """Ids of the texts that the store contained when it was last read."""
        return (self.texts.contents or {}).keys()

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

        Returns (``keyword-stale``, remark) if the index is out of date afterwards, (``no-keyword-index``, remark) if
        the store has failed whenever it was read, otherwise (None, None).
        """
        started_at = time.monotonic() if started_at is None else started_at
        if self.error is not None:
            return self._read_again(refresh, started_at)
        if not self._check(refresh, started_at):
            return None, None
        if refresh == "never" or not self.adapter.can_list:
            return STALE, "the store has changed since its texts were read: refresh() applies the changes"
        try:
            with self._refreshing, self.texts.exclusive():
                self._catch_up()
        except Exception as error:  # noqa: BLE001 - a server may fail with anything; the present index is used
            return STALE, f"the store has changed, and reading it failed ({describe_error(error)})"
        return None, None

    def is_up_to_date(self, refresh: Refresh, started_at: float) -> bool:
        """Return whether the index is up to date; False if finding out would require a request to a server."""
        needs_request = self._is_due(refresh, started_at) and not self.adapter.is_local
        return self.error is None and not needs_request and not self._check(refresh, started_at)

    def refresh(self, documents: Sequence[Document] | None = None) -> RefreshReport:
        """Apply the store's changes to the index, or replace all texts in the index with ``documents``.

        Raises ConfigurationError if ``documents`` is None and the store cannot be listed.
        """
        with self._refreshing, self.texts.exclusive():
            store_contents = StoreContents.of(self.adapter) if self.adapter.can_list else None
            if documents is not None:
                return self._replace(documents, store_contents)
            if store_contents is None:
                raise ConfigurationError(
                    "the texts of this vector store cannot be listed: call refresh(documents) "
                    "with all texts for the keyword index"
                )
            return self._compare(store_contents)

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

    def _read_again(self, refresh: Refresh, started_at: float) -> tuple[str | None, str | None]:
        if refresh != "never" and self._is_due(refresh, started_at):
            self._checked_at = time.monotonic()
            try:
                self.refresh()
            except Exception as error:  # noqa: BLE001 - a server may fail with anything; the vector search continues
                self.error = describe_error(error)
        if self.error is None:
            return None, None
        return "no-keyword-index", (
            f"the texts of the vector store could not be listed ({self.error}); refresh() tries again, or pass "
            "documents=[…] to the retriever"
        )

    def _is_due(self, refresh: Refresh, started_at: float) -> bool:
        checked_at = self._checked_at
        return checked_at is None or checked_at + (refresh if isinstance(refresh, float | int) else 0.0) < started_at

    # -- applying changes ----------------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        size = self.adapter.count()
        if size == self._size:
            return  # another search has caught up in the meantime
        if self.texts.contents is None:
            self._compare(StoreContents.of(self.adapter))
        else:
            self._compare_ids()
            self._size, self._is_behind = size, False

    def _compare_ids(self) -> None:
        contents, ids = self.texts.contents or {}, set(self.adapter.ids())
        pages = in_pages(sorted(ids.difference(contents)))
        new = {str(document.id): document for page in pages for document in self.adapter.get(page)}
        self._apply(new, {id: _content(document) for id, document in new.items()}, contents.keys() - ids)

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
        other = [with_user_metadata(chunk_of(each, id), texts.user_chunk(id)) for id, each in ids.items()]
        texts.change([*added, *other], removed, hashes, deleted)
        self._note_copies(after)
        return RefreshReport(len(added), len(other), len(removed))

    def _is_indexed(self, stored_id: str) -> bool:
        return self.texts.identity.id_of(stored_id) in self.texts.chunks

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
        self._ids_of_copies = {content: identity.id_of(first[content]) or first[content] for content in copied}

    def _replace(self, documents: Sequence[Document], store_contents: StoreContents | None) -> RefreshReport:
        texts = self.texts
        stored = None if store_contents is None else list(store_contents.documents.values())
        identity = Identity(documents, stored, texts.id_key)
        chunks = {id: chunk_of(document, id) for document, id in zip(documents, identity.ids, strict=True)}
        added = [chunk for id, chunk in chunks.items() if id not in texts.chunks]
        changed = [chunk for id, chunk in chunks.items() if id in texts.chunks and chunk != texts.chunks[id]]
        removed = texts.chunks.keys() - chunks.keys()
        texts.identity = identity
        texts.change([*added, *changed], removed)
        if store_contents is not None:
            self._remember(store_contents)
        return RefreshReport(len(added), len(changed), len(removed))

    def _remember(self, store_contents: StoreContents, contents: dict[str, int] | None = None) -> None:
        contents = store_contents.hashes if contents is None else contents
        self.texts.contents = contents
        self._size, self.error, self._is_behind = store_contents.size, store_contents.error, False
        self._note_copies(self._first_copies(contents))
        if self.filtered is not None:
            self.filtered.note(store_contents.documents.values())


def content_hash(chunk: Chunk) -> int:
    """Return a hash of a chunk's text and metadata that is the same in every process, and equal for copies."""
    try:
        content = orjson.dumps([chunk.text, chunk.own_metadata], option=_HASHED)  # takes a third of the time of repr
    except TypeError:
        content = repr(chunk.content).encode(errors="surrogatepass")
    return int.from_bytes(blake2b(content, digest_size=7).digest())


def _content(document: Document) -> int:
    return content_hash(chunk_of(document, str(document.id)))
