"""Keyword index of the texts in another vector store."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from langchain_core.documents import Document

from langchain_hybridgraph.adapters.documents import Identity
from langchain_hybridgraph.adapters.vector_stores import in_pages
from langchain_hybridgraph.chunks import Chunk, begin_of, end_of, replace_surrogates
from langchain_hybridgraph.errors import StoreError
from langchain_hybridgraph.execution.threads import ForkSafeLock
from langchain_hybridgraph.filters.expressions import And, Comparison, compare
from langchain_hybridgraph.records import Scope, filterable
from langchain_hybridgraph.stores.keyword_engine import Engine, keyword_index
from langchain_hybridgraph.stores.row_table import MetadataColumns

if TYPE_CHECKING:
    from langchain_hybridgraph.adapters.chroma import ChromaAdapter
    from langchain_hybridgraph.chunks import Mask, Vector
    from langchain_hybridgraph.stores.bm25 import IndexedText, KeywordIndex

logger = logging.getLogger(__name__)


class ScopedRows(Mapping[str, Chunk]):
    """Chunks by id, with a search for the chunks in a scope.

    Each version of a chunk gets a new row. ``ids`` are the ids by row, ``row_of`` has the current row of each id, and
    ``living`` has one bool per row: whether it is current. Thread-safe.
    """

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.row_of: dict[str, int] = {}
        self.living: Mask = np.zeros(0, np.bool_)
        self._chunks: list[Chunk] = []
        self._columns = MetadataColumns(self._read)
        self._times = (np.zeros(0), np.zeros(0))
        self._changing = ForkSafeLock()

    def __getitem__(self, id: str) -> Chunk:
        return self._chunks[self.row_of[id]]

    def __contains__(self, id: object) -> bool:
        return id in self.row_of

    def __iter__(self) -> Iterator[str]:
        return iter(self.row_of)

    def __len__(self) -> int:
        return len(self.row_of)

    def renamed(self, new_id: Callable[[str], str]) -> Self:
        """Return the same rows, with other ids, as a new object that can be changed independently."""
        with self._changing:
            rows = type(self)()
            rows._chunks, rows._times, rows.living = self._chunks.copy(), self._times, self.living
            rows.ids = list(map(new_id, self.ids))
            rows.row_of = {rows.ids[row]: row for row in self.row_of.values()}
        return rows

    def change(self, remove: Collection[str], ids: Sequence[str], chunks: Sequence[Chunk]) -> list[int]:
        """Remove chunks, then add or replace those with these ids; return the rows that are no longer current."""
        with self._changing:
            rows = range(len(self.ids), len(self.ids) + len(ids))
            outdated = [self.row_of[id] for id in {*remove, *ids} if id in self.row_of]
            for id in remove:
                self.row_of.pop(id, None)
            begins = [begin_of(chunk.metadata) for chunk in chunks]
            ends = [end_of(chunk.metadata) for chunk in chunks]
            self._times = (np.append(self._times[0], begins), np.append(self._times[1], ends))
            self._chunks += chunks
            self.ids += ids
            self.row_of |= zip(ids, rows, strict=True)
            outdated += [row for id, row in zip(ids, rows, strict=True) if self.row_of[id] != row]
            living = np.append(self.living, np.ones(len(ids), np.bool_))
            living[outdated] = False
            self.living = living
        return outdated

    def mask(self, scope: Scope) -> Mask | None:
        """Return one bool per row (whether its chunk is in the scope), or None if the scope excludes nothing."""
        begins, ends = self._times
        masks: list[Mask] = []
        if scope.as_of is not None and np.isfinite([begins.max(initial=-np.inf), ends.min(initial=np.inf)]).any():
            masks.append((begins <= scope.as_of) & (ends >= scope.as_of))
        if scope.tenant is not None:
            masks.append(self._columns.mask(compare("tenant", "$eq", scope.tenant), len(begins)))
        if scope.filter is not None:
            masks.append(self._columns.mask(scope.filter, len(begins)))
        return np.logical_and.reduce(masks) if masks else None

    def _read(self, start: int, stop: int) -> Iterator[tuple[int, Mapping[str, Any]]]:
        for row in range(start, stop):
            yield row, filterable(self._chunks[row])


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
        self.engine = engine
        self.id_key = id_key
        self._changing = ForkSafeLock()
        self.index, self.reason = self.empty_index(engine, language)
        in_order: list[Document] = []
        self.index.apply(1, self._texts(documents, in_order), [])
        self.clear(Identity(in_order, stored_documents, id_key))
        chunks = [chunk_of(document, id) for document, id in zip(in_order, self.identity.ids, strict=True)]
        if replaced_rows := self._note(chunks):
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

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Prevent other processes from changing the index. An index in memory has no other processes."""
        yield

    def change(
        self, add: Sequence[Chunk], remove: Collection[str], stored: Mapping[str, int], deleted: Collection[str]
    ) -> None:
        """Remove and then add or replace texts; ``stored`` and ``deleted`` are the changes of ``contents``."""
        with self._changing:
            texts = [(row, chunk.text, chunk.headings) for row, chunk in enumerate(add, len(self.chunks.ids))]
            replaced_rows = self._note(add, remove, stored, deleted)
            self.index.apply(self.index.applied_version + 1, texts, replaced_rows)

    @staticmethod
    def _texts(documents: Iterable[Document], read: list[Document]) -> Iterator[IndexedText]:
        """Yield the texts of Documents for the index, which analyses them while a store reads the next ones."""
        for row, document in enumerate(documents):
            read.append(document)
            chunk = chunk_of(document, "")
            yield row, chunk.text, chunk.headings

    def _note(
        self,
        add: Sequence[Chunk],
        remove: Collection[str] = (),
        stored: Mapping[str, int] = MappingProxyType({}),
        deleted: Collection[str] = (),
    ) -> list[int]:
        """Apply a change to everything apart from the keyword index, and return the rows to remove from that."""
        replaced_rows = self.chunks.change(remove, [chunk.id for chunk in add], add)
        self.has_parents |= any(chunk.parent is not None for chunk in add)
        if self.contents is not None:
            for id in deleted:
                self.contents.pop(id, None)
            self.contents |= stored
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
        except StoreError as error:
            logger.warning("using rank_bm25 instead of Tantivy (keyword-fallback): %s", error)
            return keyword_index("rank_bm25", language), "keyword-fallback"


def chunk_of(document: Document, id: str) -> Chunk:
    """Convert a Document to a chunk with this id."""
    return Chunk(id, replace_surrogates(document.page_content), document.metadata)


def with_user_metadata(chunk: Chunk, user_chunk: Chunk | None) -> Chunk:
    """Return a stored chunk with missing metadata added from the user's Document, because some stores drop metadata."""
    if user_chunk is None or user_chunk.metadata.keys() <= chunk.metadata.keys():
        return chunk
    return replace(chunk, metadata={**user_chunk.metadata, **chunk.metadata})


# Filtered search in Chroma.
#
# Chroma's ``where`` cannot express most of the filter language, such as the order of ISO times and nested values. It
# also makes a search slower: with 20,000 texts, a search takes 21 ms without a filter, 55 ms if the filter matches one
# text in a hundred, and 150 to 260 ms if it matches half of them. Evaluating the filter in memory on the metadata of
# all texts takes well under a millisecond, and so does a search that requests only ids. Then the best n texts are read.

Answer = TypeVar("Answer")

# Maximum number of matches whose vectors are read and compared: 3 ms for 100, 8 ms for 300.
FEW = 300
# Maximum number of results that are requested in order to drop those that do not match (1,000 take 15 ms). If more are
# needed, the store searches only among the matches (30 ms).
MOST_REQUESTED = 1_500
_SPARE = 16


class FilteredSearch:
    """Vector search among the texts in a scope (the filter, tenant and time of a call).

    The metadata of the store's texts are in memory, in ``rows`` by the store's ids, to which ``documents`` are added.
    Added and deleted texts are detected when the number of texts in the store changes, and changed metadata only when a
    Document is read again. Thread-safe.
    """

    def __init__(
        self,
        adapter: ChromaAdapter,
        chunk_of: Callable[[Document], Chunk],
        rows: ScopedRows,
        documents: Iterable[Document],
    ) -> None:
        self._adapter = adapter
        self._chunk_of = chunk_of
        self._changing = ForkSafeLock()
        self._rows = rows
        self._change(documents)

    def ids(self, vector: Vector, n: int, scope: Scope) -> dict[str, float]:
        """Return the n nearest ids in the scope with their cosines.

        The metadata in memory may be old, so texts for the user have to be read and checked again.
        """
        if self._rows.mask(scope) is None:
            return self._adapter.cosines(vector, self._adapter.nearest(vector, n))
        return self._caught_up(lambda: self._nearest(vector, n, scope))

    def nearest(self, vector: Vector, n: int, ids: Sequence[str]) -> list[str]:
        """Return the n of ``ids`` that are nearest to the vector, nearest first; unknown ids are left out."""
        distances = self._caught_up(lambda: self._adapter.nearest(vector, n, [id for id in ids if id in self._rows]))
        return [id for id, _ in distances]

    def note(self, documents: Iterable[Document]) -> bool:
        """Update the metadata from Documents that were just read, and return whether any of them had changed."""
        with self._changing:
            changed = [each for each in documents if self._is_changed(each)]
            if changed:
                self._change(changed)
                self._adapter.forget_vectors(str(each.id) for each in changed)
            return bool(changed)

    def _caught_up(self, search: Callable[[], Answer]) -> Answer:
        """Update the rows and search; repeat both if the search fails and the store has changed in the meantime."""
        self._catch_up()
        try:
            return search()
        except Exception:
            # A text may have been deleted; if another text was added, the number of texts has not changed.
            if not self._catch_up(always=True):
                raise
            return search()

    def _catch_up(self, *, always: bool = False) -> bool:
        """Add new texts, drop deleted ones, and return whether anything changed.

        The store's ids are read only if its number of texts has changed or ``always`` is set.
        """
        with self._changing:
            if not always and self._adapter.count() == len(self._rows):
                return False
            stored_ids, row_of = set(self._adapter.ids()), self._rows.row_of
            deleted, new = row_of.keys() - stored_ids, stored_ids - row_of.keys()
            self._change((each for page in in_pages(sorted(new)) for each in self._adapter.get(page)), deleted)
            return bool(deleted or new)

    def _nearest(self, vector: Vector, n: int, scope: Scope) -> dict[str, float]:
        self._note_new_matches(scope)
        mask = self._mask(scope)
        matches = int(np.count_nonzero(mask))
        if matches <= max(n, FEW):
            cosines = self._adapter.scores(vector, self._ids_in(mask), current=True)
            if len(cosines) < matches:
                raise StoreError("texts were deleted from the vector store during the search; search again")
            return dict(sorted(cosines.items(), key=lambda pair: (-pair[1], pair[0]))[:n])
        requested = math.ceil(1.5 * n * len(self._rows) / matches) + _SPARE
        if requested <= MOST_REQUESTED:
            candidates = self._adapter.nearest(vector, requested)
            matching = [each for each in candidates if self._is_in(each[0], mask)]
            if len(matching) >= n:
                return self._adapter.cosines(vector, matching[:n])
        return self._adapter.cosines(vector, self._adapter.nearest(vector, n, self._ids_in(mask)))

    def _note_new_matches(self, scope: Scope) -> None:
        """Update the rows of texts that now match the scope because their metadata were changed in the store.

        The store is searched by a condition of the scope (``$eq`` or ``$in``) that matches few rows, if there is one.
        """
        masks = [(each, self._mask(Scope(each))) for each in _conditions(scope)]
        for comparison, mask in sorted(masks, key=lambda pair: np.count_nonzero(pair[1])):
            if np.count_nonzero(mask) > FEW:
                return
            there = self._adapter.ids_where(comparison, 2 * FEW)
            if there is not None:
                self.note(self._adapter.get([id for id in there if not self._is_in(id, mask)]))
                return

    def _mask(self, scope: Scope) -> Mask:
        living, mask = self._rows.living, self._rows.mask(scope)
        return living if mask is None else living & mask[: len(living)]

    def _ids_in(self, mask: Mask) -> list[str]:
        return [self._rows.ids[row] for row in np.flatnonzero(mask).tolist()]

    def _is_in(self, id: str, mask: Mask) -> bool:
        row = self._rows.row_of.get(id, len(mask))
        return row < len(mask) and bool(mask[row])

    def _is_changed(self, document: Document) -> bool:
        chunk = self._rows.get(document.id or "")
        if chunk is None:
            return False
        is_same = chunk.text == document.page_content and chunk.metadata == document.metadata
        return not is_same and chunk != self._chunk_of(document)

    def _change(self, documents: Iterable[Document], deleted: Collection[str] = ()) -> None:
        chunks = {each.id: self._chunk_of(each) for each in documents if each.id is not None}
        self._rows.change(deleted, list(chunks), list(chunks.values()))


def _conditions(scope: Scope) -> list[Comparison]:
    """Return tests for equality that every text in the scope passes.

    Those of ``document_id`` are left out, because it may be derived and not stored.
    """
    tenant = [] if scope.tenant is None else [compare("tenant", "$eq", scope.tenant)]
    parts = scope.filter.parts if isinstance(scope.filter, And) else (scope.filter,)
    comparisons = [part for part in parts if isinstance(part, Comparison) and part.path != ("document_id",)]
    return [each for each in (*tenant, *comparisons) if each.operator in ("$eq", "$in")]
