"""Updates of the keyword index of a vector store."""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self
from weakref import WeakMethod

import orjson
from langchain_core.documents import Document

from langchain_hybridgraph.adapters.documents import Identity
from langchain_hybridgraph.adapters.kept_index import KeptIndex, UnusableIndex
from langchain_hybridgraph.adapters.keyword_index import DocumentIndex, chunk_of, with_user_metadata
from langchain_hybridgraph.adapters.vector_stores import in_pages
from langchain_hybridgraph.errors import ConfigurationError, describe_error
from langchain_hybridgraph.execution.threads import ForkSafeLock

if TYPE_CHECKING:
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


class StoreState(NamedTuple):
    """State of a store, different after a change: the number of its texts, or a version provided by the user."""

    size: int | None = None
    version: Any = None


class StoreContents(NamedTuple):
    """All Documents of a store and its state just before they were read, or the ``error`` if it failed."""

    documents: Sequence[Document]
    state: StoreState
    error: str | None = None


def read_store(
    adapter: StoreAdapter, version: Any = None, prepare: Callable[[str], object] | None = None
) -> StoreContents | None:
    """Read all texts of a store, or return None if its texts cannot be listed.

    ``prepare`` is called for each text while the store reads the next ones.
    """
    if not adapter.can_list:
        return None
    state, documents = state_of(adapter, version), []
    for document in adapter.documents():
        documents.append(document)
        if prepare is not None:
            prepare(document.page_content)
    return StoreContents(documents, state)


def state_of(adapter: StoreAdapter, version: Any) -> StoreState:
    """Return the current state of a store. The texts are counted only without a version, which may be a function."""
    current = version() if callable(version) else version
    return StoreState(adapter.count() if current is None else None, current)


class Freshness:
    """Updater that applies the changes in a vector store to its keyword index.

    Added and deleted texts are detected when the number of texts in the store changes. A text that was changed in place
    is detected only by :meth:`refresh`, or if the user provides a ``version``. If the user passed Documents, other
    texts that were in the store then are never added.

    ``error`` describes why the store's texts could not be listed, until they have been listed once. With
    ``merges_copies``, equal texts with equal metadata have one row in the index.
    """

    def __init__(
        self,
        texts: DocumentIndex,
        adapter: StoreAdapter,
        store_contents: StoreContents | None,
        version: Any,
        *,
        merges_copies: bool = False,
    ) -> None:
        self.texts = texts
        self.adapter = adapter
        self.error: str | None = None
        self._merges_copies = merges_copies
        self._ids_of_copies: dict[int, str] = {}  # by content
        self._state = StoreState(version=version() if callable(version) else version)
        self._followers: list[WeakMethod[Callable[[Sequence[Document]], object]]] = []
        if store_contents is not None:
            self._remember(store_contents)
        self._checking, self._refreshing = ForkSafeLock(), ForkSafeLock()
        self._checked_at: float | None = None
        self._behind: StoreState | None = None

    @classmethod
    def in_folder(cls, texts: KeptIndex, adapter: StoreAdapter, version: Any, *, merges_copies: bool = False) -> Self:
        """Open the index in a folder and apply the changes in the store since it was written, or build it.

        It is built if it is missing, damaged, or of another collection. Without a ``version``, changed texts are found
        if the store's texts are in memory, or if one of a sample of texts was changed. Otherwise, only added and
        deleted texts are found.
        """
        freshness = cls(texts, adapter, None, version, merges_copies=merges_copies)
        with texts.turn_if_possible():
            try:
                texts.open()
                freshness._note_copies(freshness._first_copies(texts.contents))
                freshness._follow_store(texts, version)
            except UnusableIndex as error:
                if str(error):
                    logger.warning("the keyword index in %s is built again: %s", texts.path, error)
                store_contents = StoreContents((), state_of(adapter, version))
                store_contents = store_contents._replace(documents=list(adapter.documents()))
                texts.create(Identity(store_contents.documents, store_contents.documents, texts.id_key))
                freshness._compare(store_contents)
                texts.publish()
        return freshness

    def _follow_store(self, texts: KeptIndex, version: Any) -> None:
        """Apply the changes since the index was written. Raises UnusableIndex if it has none of the store's texts."""
        now = state_of(self.adapter, version)
        self._state = now
        if now.version is not None and now.version == texts.store_version:
            return
        contents = texts.contents or {}
        sample = self.adapter.get(random.sample(list(contents), min(SAMPLED_TEXTS, len(contents))))
        if contents and not sample:
            raise UnusableIndex("it contains none of the texts in the collection")
        is_changed = any(contents.get(str(document.id)) != _content(document) for document in sample)
        if is_changed or self.adapter.is_in_memory or now.version is not None:
            self._compare(StoreContents(list(self.adapter.documents()), now))
        else:
            self._compare_ids()

    def follow(self, note: Callable[[Sequence[Document]], object]) -> None:
        """Register a method, without keeping its object alive, to call with all Documents that are read again."""
        self._followers = [follower for follower in self._followers if follower() is not None] + [WeakMethod(note)]

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
        self, refresh: Refresh, version: Any, started_at: float | None = None
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
            return self._read_again(refresh, version, started_at)
        behind = self._check(refresh, version, started_at)
        if behind is None:
            return None, None
        if refresh == "never" or not self.adapter.can_list:
            return STALE, "the store has changed since its texts were read: refresh() applies the changes"
        try:
            self._catch_up(behind)
        except Exception as error:  # noqa: BLE001 - a server may fail with anything; the present index is used
            return STALE, f"the store has changed, and reading it failed ({describe_error(error)})"
        return None, None

    def catch_up(self, version: Any) -> None:
        """Apply the store's changes for a new retriever: changed texts only if all texts are in memory."""
        if self.adapter.is_in_memory:
            self.refresh(version)
        else:
            self.bring_up_to_date("auto", version)

    def is_up_to_date(self, refresh: Refresh, version: Any, started_at: float) -> bool:
        """Return whether the index is up to date; False if finding out would require a request to a server."""
        is_due = self._is_due(refresh, started_at)
        if self.error is not None:
            return False
        asks_store = not self.adapter.is_local and (version is None or callable(version))
        return not (is_due and asks_store) and self._check(refresh, version, started_at) is None

    def refresh(self, version: Any, documents: Sequence[Document] | None = None) -> RefreshReport:
        """Apply the store's changes to the index, or replace all texts in the index with ``documents``.

        Raises ConfigurationError if ``documents`` is None and the store cannot be listed.
        """
        with self._refreshing, self.texts.exclusive():
            store_contents = read_store(self.adapter, version)
            if documents is not None:
                return self._replace(documents, store_contents, version)
            if store_contents is None:
                raise ConfigurationError(
                    "the texts of this vector store cannot be listed: call refresh(documents) "
                    "with all texts for the keyword index"
                )
            return self._compare(store_contents)

    # -- checking -----------------------------------------------------------------------------------------------

    def _check(self, refresh: Refresh, version: Any, started_at: float) -> StoreState | None:
        """Return the state of the store if it has changed since it was read. Concurrent searches share a check."""
        with self._checking:
            if self._is_due(refresh, started_at):
                looked = time.monotonic()
                try:
                    now = state_of(self.adapter, version)
                except Exception:  # noqa: BLE001 - a server may fail with anything; the vector search reports it
                    now = self._state
                is_read = self.texts.contents is not None or self.adapter.can_list
                is_behind = now != self._state and (is_read or now.version != self._state.version)
                self._behind = now if is_behind else None
                self._checked_at = looked
            return self._behind

    def _read_again(self, refresh: Refresh, version: Any, started_at: float) -> tuple[str | None, str | None]:
        if refresh != "never" and self._is_due(refresh, started_at):
            self._checked_at = time.monotonic()
            try:
                self.refresh(version)
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

    def _catch_up(self, now: StoreState) -> None:
        with self._refreshing, self.texts.exclusive():
            if now == self._state:
                return  # another search has caught up in the meantime
            if self.texts.contents is None or now.version != self._state.version:
                store_contents = StoreContents(list(self.adapter.documents()), now)
                self._compare(store_contents)
                return
            self._compare_ids()
            self._state = now
            self._behind = None

    def _compare_ids(self) -> None:
        contents, ids = self.texts.contents or {}, list(self.adapter.ids())
        new = [
            document for page in in_pages(sorted(set(ids).difference(contents))) for document in self.adapter.get(page)
        ]
        self._take_in(new, (), contents.keys() - set(ids), self.texts.store_version)

    def _compare(self, store_contents: StoreContents) -> RefreshReport:
        """Apply the changed contents of the store to the index, or only record them if there were none before."""
        contents = self.texts.contents
        if contents is None:
            for document in store_contents.documents:
                self.texts.identity.of_stored(document)
            done = RefreshReport()
        else:
            new = [document for document in store_contents.documents if document.id not in contents]
            changed = [d for d in store_contents.documents if d.id in contents and contents[d.id] != _content(d)]
            deleted = contents.keys() - {document.id for document in store_contents.documents}
            done = self._take_in(new, changed, deleted, store_contents.state.version)
        self._remember(store_contents, contents)
        self._behind = None
        return done

    def _take_in(
        self, new: Sequence[Document], changed: Sequence[Document], deleted: Collection[str], version: Any
    ) -> RefreshReport:
        texts, identity = self.texts, self.texts.identity
        is_new_version, texts.store_version = version != texts.store_version, version
        if not (new or changed or deleted or is_new_version):
            return RefreshReport()
        contents = texts.contents or {}
        before = self._first_copies(contents)
        indexed = {key: id for key, id in before.items() if self._is_indexed(id)}
        # Changed texts that were copies of a text in the index have no row of their own yet.
        old = {each.id: contents[str(each.id)] for each in changed}
        unindexed = {id for id, content in old.items() if content in indexed and not self._is_indexed(str(id))}
        hashes = {str(document.id): _content(document) for document in (*new, *changed)}
        after = self._first_copies({id: content for id, content in contents.items() if id not in deleted} | hashes)
        firsts = set(after.values())
        successors = [
            id for key in indexed if (id := after.get(key, indexed[key])) != indexed[key] and id not in hashes
        ]
        removed = [id for id in identity.forget({*deleted, *before.values()} - firsts) if id in texts.chunks]
        own = [*new, *(d for d in changed if d.id in unindexed), *(self.adapter.get(successors) if successors else ())]
        ids = {
            id: document
            for document in own
            if document.id in firsts and ((id := identity.of_stored(document)) not in texts.chunks or id in removed)
        }
        added = [chunk_of(document, id) for id, document in ids.items()]
        known_ids = ((d, identity.of_stored(d)) for d in changed if d.id in firsts and d.id not in unindexed)
        other = [with_user_metadata(chunk_of(d, id), texts.user_chunk(id)) for d, id in known_ids if id in texts.chunks]
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

    def _replace(
        self, documents: Sequence[Document], store_contents: StoreContents | None, version: Any
    ) -> RefreshReport:
        texts = self.texts
        identity = Identity(documents, None if store_contents is None else store_contents.documents, texts.id_key)
        chunks = {id: chunk_of(document, id) for document, id in zip(documents, identity.ids, strict=True)}
        added = [chunk for id, chunk in chunks.items() if id not in texts.chunks]
        changed = [chunk for id, chunk in chunks.items() if id in texts.chunks and chunk != texts.chunks[id]]
        removed = texts.chunks.keys() - chunks.keys()
        texts.identity = identity
        texts.change([*added, *changed], removed)
        if store_contents is None:
            self._state = StoreState(version=version() if callable(version) else version)
        else:
            self._remember(store_contents)
        self._behind = None
        return RefreshReport(len(added), len(changed), len(removed))

    def _remember(self, store_contents: StoreContents, contents: dict[str, int] | None = None) -> None:
        if contents is None:
            contents = {str(document.id): _content(document) for document in store_contents.documents}
        self.texts.contents = contents
        self._state, self.error = store_contents.state, store_contents.error
        self._note_copies(self._first_copies(contents))
        for follower in self._followers:
            if (note := follower()) is not None:
                note(store_contents.documents)


def without_copies(documents: Sequence[Document]) -> list[Document]:
    """Return the first of each group of Documents with equal text and metadata."""
    counts = Counter(document.page_content for document in documents)
    if len(counts) == len(documents):
        return list(documents)
    contents = (_content(each) if counts[each.page_content] > 1 else each.page_content for each in documents)
    first: dict[int | str, Document] = {}
    for content, document in zip(contents, documents, strict=True):
        first.setdefault(content, document)
    return list(first.values())


def content_hash(chunk: Chunk) -> int:
    """Return a hash of a chunk's text and metadata that is the same in every process, and equal for copies."""
    try:
        content = orjson.dumps([chunk.text, chunk.own_metadata], option=_HASHED)  # takes a third of the time of repr
    except TypeError:
        content = repr(chunk.content).encode(errors="surrogatepass")
    return int.from_bytes(blake2b(content, digest_size=7).digest())


def _content(document: Document) -> int:
    return content_hash(chunk_of(document, str(document.id)))
