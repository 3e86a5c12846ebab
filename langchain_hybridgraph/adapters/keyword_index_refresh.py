"""Updates to the keyword index of a vector store."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Collection, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self
from weakref import WeakMethod

from langchain_core.documents import Document

from langchain_hybridgraph.adapters.document_ids import Identity
from langchain_hybridgraph.adapters.kept_index import KeptIndex, UnusableIndex
from langchain_hybridgraph.adapters.keyword_index import DocumentIndex, chunk_of, with_user_metadata
from langchain_hybridgraph.adapters.vector_stores.adapter import in_pages
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.execution.forking import ForkSafeLock

if TYPE_CHECKING:
    from langchain_hybridgraph.adapters.vector_stores import StoreAdapter

Refresh = Literal["auto", "never"] | float
STALE = "keyword-stale"
# Number of texts that are compared with those of the store when an index is opened from a folder.
SAMPLED_TEXTS = 64

logger = logging.getLogger(__name__)


class RefreshReport(NamedTuple):
    """Result of a keyword index refresh: the numbers of added, changed and removed texts."""

    added: int = 0
    changed: int = 0
    removed: int = 0


class StoreState(NamedTuple):
    """State of a store: the number of its texts, or a version provided by the user.

    A different state means that the store has changed.
    """

    size: int | None = None
    version: Any = None


class StoreContents(NamedTuple):
    """All Documents of a store, and the state of the store just before they were read."""

    documents: Sequence[Document]
    state: StoreState


def read_store(adapter: StoreAdapter, version: Any = None) -> StoreContents | None:
    """Read all texts of a store, or return None if its texts cannot be listed."""
    if not adapter.can_list:
        return None
    state = state_of(adapter, version)
    return StoreContents(list(adapter.documents()), state)


def state_of(adapter: StoreAdapter, version: Any) -> StoreState:
    """Return the current state of a store.

    ``version`` may be a function, which is called. The texts are counted only if there is no version.
    """
    current = version() if callable(version) else version
    return StoreState(adapter.count() if current is None else None, current)


class Freshness:
    """Updater that applies the changes in a vector store to its keyword index.

    Added and deleted texts are detected when the number of texts in the store changes. A text that was changed in place
    is detected only by :meth:`refresh`, or if the user provides a ``version``. If the user passed Documents, texts that
    were already in the store at that time are not added to the index later, because the user may have left them out
    deliberately.
    """

    def __init__(
        self, texts: DocumentIndex, adapter: StoreAdapter, store_contents: StoreContents | None, version: Any
    ) -> None:
        self.texts = texts
        self.adapter = adapter
        self._state = StoreState(version=version() if callable(version) else version)
        self._followers: list[WeakMethod[Callable[[Sequence[Document]], object]]] = []
        if store_contents is not None:
            self._remember(store_contents)
        self._checking, self._refreshing = ForkSafeLock(), ForkSafeLock()
        self._checked_at: float | None = None
        self._behind: StoreState | None = None

    @classmethod
    def kept(cls, texts: KeptIndex, adapter: StoreAdapter, version: Any) -> Self:
        """Open the index in a folder and apply the changes in the store since it was written, or build it.

        It is built if there is none, if it is damaged, or if it belongs to another collection. Without a ``version``,
        changed texts are found if the store's texts are in memory, or if one of a sample of texts was changed.
        Otherwise, only added and deleted texts are found.
        """
        freshness = cls(texts, adapter, None, version)
        with texts.turn_if_possible():
            try:
                texts.open()
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
        """Apply the changes in the store since the index was written.

        Raises UnusableIndex if the index contains none of the store's texts.
        """
        now = state_of(self.adapter, version)
        self._state = now
        if now.version is not None and now.version == texts.store_version:
            return
        contents = texts.contents or {}
        sample = self.adapter.get(random.sample(list(contents), min(SAMPLED_TEXTS, len(contents))))
        if contents and not sample:
            raise UnusableIndex("it contains none of the texts in the collection")
        is_changed = any(contents.get(str(document.id)) != content_hash(document) for document in sample)
        if is_changed or self.adapter.is_in_memory or now.version is not None:
            self._compare(StoreContents(list(self.adapter.documents()), now))
        else:
            self._compare_ids()

    def follow(self, note: Callable[[Sequence[Document]], object]) -> None:
        """Register a method to call with all Documents of the store whenever they are read again.

        The object of the method is not kept alive.
        """
        self._followers = [follower for follower in self._followers if follower() is not None] + [WeakMethod(note)]

    def bring_up_to_date(
        self, refresh: Refresh, version: Any, started_at: float | None = None
    ) -> tuple[str | None, str | None]:
        """Check the store for changes and apply them to the index.

        ``refresh`` is ``"auto"`` to check before each search, a number to check at most once in this number of seconds,
        or ``"never"`` to detect changes without applying them. ``started_at`` is the time at which the search started,
        by default now.

        Returns (``keyword-stale``, remark) if the index is out of date afterwards, otherwise (None, None). A failed
        check is not reported here, because the vector search reports that the store cannot be reached.
        """
        behind = self._check(refresh, version, time.monotonic() if started_at is None else started_at)
        if behind is None:
            return None, None
        if refresh == "never" or not self.adapter.can_list:
            return STALE, "the store has changed since its texts were read: refresh() applies the changes"
        try:
            self._catch_up(behind)
        except Exception as error:  # noqa: BLE001 - a server may fail with anything; the present index is used
            return STALE, f"the store has changed, and reading it failed ({type(error).__name__}: {error})"
        return None, None

    def catch_up(self, version: Any) -> None:
        """Apply the store's changes for a new retriever: changed texts only if all texts are in memory."""
        if self.adapter.is_in_memory:
            self.refresh(version)
        else:
            self.bring_up_to_date("auto", version)

    def is_up_to_date(self, refresh: Refresh, version: Any, started_at: float) -> bool:
        """Return whether the index is up to date.

        The result is False if finding out would require a request to a server.
        """
        is_due = self._is_due(refresh, started_at)
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
        """Return the current state of the store if it has changed since the store was read, otherwise None.

        Concurrent searches share one check.
        """
        with self._checking:
            if self._is_due(refresh, started_at):
                looked = time.monotonic()
                try:
                    now = state_of(self.adapter, version)
                except Exception:  # noqa: BLE001 - a server may fail with anything; the vector search reports it
                    now = self._state
                self._behind = now if self._is_behind(now) else None
                self._checked_at = looked
            return self._behind

    def _is_due(self, refresh: Refresh, started_at: float) -> bool:
        checked_at = self._checked_at
        return checked_at is None or checked_at + (refresh if isinstance(refresh, float | int) else 0.0) < started_at

    def _is_behind(self, now: StoreState) -> bool:
        was_read = self.texts.contents is not None
        return now != self._state and (was_read or self.adapter.can_list or now.version != self._state.version)

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
        """Apply the differences between the ids in the store and those of the index."""
        contents, ids = self.texts.contents or {}, list(self.adapter.ids())
        new = [
            document for page in in_pages(sorted(set(ids).difference(contents))) for document in self.adapter.get(page)
        ]
        self._take_in(new, (), contents.keys() - set(ids), self.texts.store_version)

    def _compare(self, store_contents: StoreContents) -> RefreshReport:
        """Apply the differences between the current and the previous contents of the store to the index.

        If there are no previous contents, the current contents are only recorded.
        """
        contents = self.texts.contents
        if contents is None:
            for document in store_contents.documents:
                self.texts.identity.of_stored(document)
            done = RefreshReport()
        else:
            new = [document for document in store_contents.documents if document.id not in contents]
            changed = [d for d in store_contents.documents if d.id in contents and contents[d.id] != content_hash(d)]
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
        removed = [id for id in identity.forget(deleted) if id in texts.chunks]
        ids = {id: d for d in new if (id := identity.of_stored(d)) not in texts.chunks or id in removed}
        added = [chunk_of(d, id) for id, d in ids.items()]
        known_ids = ((d, identity.of_stored(d)) for d in changed)
        other = [with_user_metadata(chunk_of(d, id), texts.user_chunk(id)) for d, id in known_ids if id in texts.chunks]
        if new or changed or deleted or is_new_version:
            hashes = {str(document.id): content_hash(document) for document in (*new, *changed)}
            texts.change([*added, *other], removed, hashes, deleted)
        return RefreshReport(len(added), len(other), len(removed))

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
            contents = {str(document.id): content_hash(document) for document in store_contents.documents}
        self.texts.contents = contents
        self._state = store_contents.state
        for follower in self._followers:
            if (note := follower()) is not None:
                note(store_contents.documents)


def content_hash(document: Document) -> int:
    """Return a hash of a Document's text and metadata, which is the same in every process."""
    metadata = repr(sorted(document.metadata.items(), key=lambda item: str(item[0])))
    contents = f"{len(metadata)} {metadata}{document.page_content}".encode(errors="surrogatepass")
    return int.from_bytes(blake2b(contents, digest_size=7).digest())
