"""Keyword index of the texts in another vector store."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from langchain_core.documents import Document

from langchain_hybridgraph.adapters.document_ids import Identity
from langchain_hybridgraph.errors import ConfigurationError, StoreError
from langchain_hybridgraph.execution.forking import ForkSafeLock
from langchain_hybridgraph.filters import compare
from langchain_hybridgraph.records import Chunk, Scope, replace_surrogates
from langchain_hybridgraph.records.queries import filterable
from langchain_hybridgraph.records.validity import begin_of, end_of
from langchain_hybridgraph.stores.columns import MetadataColumns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.records import Mask
    from langchain_hybridgraph.stores.protocols import KeywordIndex

    Times = NDArray[np.float64]


class ScopedRows:
    """Growing list of chunks that quickly finds the chunks in a scope.

    The row of a chunk is its position in the list. Chunks can only be added at the end. Several threads may use one
    object.

    >>> from langchain_hybridgraph.filters import parse_filter
    >>> rows = ScopedRows([Chunk("a", "", {"year": 2020}), Chunk("b", "", {"year": 2024})])
    >>> rows.mask(Scope(filter=parse_filter({"year": {"$gt": 2021}})))
    array([False,  True])
    """

    def __init__(self, chunks: Iterable[Chunk] = ()) -> None:
        self._chunks: Any = []  # a list, or another sequence with a copy method to which a list can be added
        self._columns = MetadataColumns(self._read)
        self._times: tuple[Times, Times] = (np.zeros(0), np.zeros(0))
        self._growing = ForkSafeLock()
        self.extend(chunks)

    @classmethod
    def of(cls, chunks: Sequence[Chunk], times: tuple[Sequence[float], Sequence[float]]) -> Self:
        """Return the rows of chunks that are read when they are needed, with the known times of their validity."""
        rows = cls()
        rows._chunks, rows._times = chunks, (np.array(times[0], np.float64), np.array(times[1], np.float64))
        return rows

    def copy(self) -> Self:
        """Return the same rows as a new object, to which other chunks can be added."""
        with self._growing:
            rows = type(self)()
            rows._chunks, rows._times = self._chunks.copy(), self._times
        return rows

    def __len__(self) -> int:
        return len(self._chunks)

    def __getitem__(self, row: int) -> Chunk:
        chunk: Chunk = self._chunks[row]
        return chunk

    def extend(self, chunks: Iterable[Chunk]) -> None:
        """Add chunks at the end."""
        with self._growing:
            added = list(chunks)
            begins = [begin_of(chunk.metadata) for chunk in added]
            ends = [end_of(chunk.metadata) for chunk in added]
            self._times = (np.append(self._times[0], begins), np.append(self._times[1], ends))
            self._chunks += added

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


logger = logging.getLogger(__name__)

Engine = Literal["tantivy", "rank_bm25"]


class DocumentIndex:
    """Documents in memory, with a keyword index of their texts.

    ``is_given`` is True if the Documents come from the user, and False if they were read from the vector store.
    ``stored_documents`` are the Documents that the vector store currently has, or None if they are not known.
    ``id_key`` is the metadata key that contains the Documents' ids, if there is one; see ``Identity`` in
    ``document_ids.py``. If several Documents have the same id, the last one is used. Each text has a row in the keyword
    index. A changed text gets a new row, and its old row is not reused.

    ``chunks`` maps ids to chunks. ``contents`` maps the store's ids of all its texts to hashes of their contents, or is
    None if the store has not been read. ``store_version`` is the version of the store that the user provided.
    """

    def __init__(
        self,
        documents: Iterable[Document],
        *,
        engine: Engine = "tantivy",
        language: str = "english",
        id_key: str | None = None,
        stored_documents: Sequence[Document] | None = None,
        is_given: bool = True,
    ) -> None:
        user_documents = list(documents)
        self.is_given = is_given
        self.engine = engine
        self.id_key = id_key
        self.identity = Identity(user_documents, stored_documents, id_key)
        self.ids: list[str] = []  # by row
        self.row_of: dict[str, int] = {}
        self.chunks: Mapping[str, Chunk] = _ChunksById(self)
        self.contents: dict[str, int] | None = None
        self.store_version: Any = None
        self._scoped = ScopedRows()
        self.has_parents = False
        self._changing = ForkSafeLock()
        self.index, self.reason = self.empty_index(engine, language)
        chunks = {id: chunk_of(document, id) for document, id in zip(user_documents, self.identity.ids, strict=True)}
        self.change(list(chunks.values()))

    def user_chunk(self, id: str) -> Chunk | None:
        """Return the user's chunk with this id, or None if there is none or the texts come from the vector store."""
        return self.chunks.get(id) if self.is_given else None

    def rows_of_store(self) -> tuple[ScopedRows, dict[str, int]]:
        """Return a copy of the rows, and the row of each of the store's texts by the store's id."""
        with self._changing:
            row_of = {self.identity.stored_id(id) or id: row for id, row in self.row_of.items()}
            return self._scoped.copy(), row_of

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Prevent other processes from changing the index. An index in memory has no other processes."""
        yield

    def change(
        self,
        add: Sequence[Chunk],
        remove: Collection[str] = (),
        stored: Mapping[str, int] = MappingProxyType({}),
        deleted: Collection[str] = (),
    ) -> None:
        """Remove texts, then add texts; a new text replaces an existing text with the same id.

        ``stored`` and ``deleted`` are the changes of ``contents``.
        """
        with self._changing:
            replaced_rows = [self.row_of[id] for id in {*remove, *(chunk.id for chunk in add)} if id in self.row_of]
            rows = range(len(self.ids), len(self.ids) + len(add))
            self.ids += [chunk.id for chunk in add]
            self._scoped.extend(add)
            self.row_of |= {chunk.id: row for row, chunk in zip(rows, add, strict=True)}
            self.has_parents |= any(chunk.parent is not None for chunk in add)
            self.index.apply(
                self.index.applied_version + 1,
                [(row, chunk.text, chunk.headings) for row, chunk in zip(rows, add, strict=True)],
                replaced_rows,
            )
            for id in set(remove).difference(chunk.id for chunk in add):
                self.row_of.pop(id, None)
            self._note_contents(stored, deleted)

    def _note_contents(self, stored: Mapping[str, int], deleted: Collection[str]) -> None:
        if self.contents is not None:
            for id in deleted:
                self.contents.pop(id, None)
            self.contents |= stored

    def state(self) -> tuple[int, dict[int, Chunk], int]:
        """Return the version of the index, its chunks by row, and the number of rows ever used."""
        with self._changing:
            return self.index.applied_version, {row: self.chunks[id] for id, row in self.row_of.items()}, len(self.ids)

    def allowed_rows(self, scope: Scope) -> Mask | None:
        """Return one bool per row (whether its text is in the scope), or None if the scope excludes nothing."""
        return self._scoped.mask(scope)

    @staticmethod
    def empty_index(engine: str, language: str) -> tuple[KeywordIndex, str | None]:
        """Return an empty keyword index in memory, and a reason if it is not the requested one.

        If Tantivy is requested but cannot be used, the index is a rank_bm25 index, and the reason is
        ``keyword-fallback``. Otherwise, the reason is None.
        """
        from langchain_hybridgraph.stores.rank_bm25_index import RankBM25Index

        if engine == "rank_bm25":
            return RankBM25Index(language), None
        if engine != "tantivy":
            raise ConfigurationError(f"keyword_engine must be 'tantivy' or 'rank_bm25', got {engine!r}")
        from langchain_hybridgraph.stores.tantivy_index import TantivyIndex

        try:
            return TantivyIndex(None, language), None
        except StoreError as error:
            logger.warning("using rank_bm25 instead of Tantivy (keyword-fallback): %s", error)
            return RankBM25Index(language), "keyword-fallback"


class _ChunksById(Mapping[str, Chunk]):
    """The chunks of a DocumentIndex by id."""

    def __init__(self, texts: DocumentIndex) -> None:
        self._texts = texts

    def __getitem__(self, id: str) -> Chunk:
        return self._texts._scoped[self._texts.row_of[id]]

    def __contains__(self, id: object) -> bool:
        return id in self._texts.row_of

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts.row_of)

    def __len__(self) -> int:
        return len(self._texts.row_of)


def chunk_of(document: Document, id: str) -> Chunk:
    """Convert a Document to a chunk with this id."""
    return Chunk(id, replace_surrogates(document.page_content), document.metadata)


def with_user_metadata(chunk: Chunk, user_chunk: Chunk | None) -> Chunk:
    """Return a stored chunk with missing metadata added from the user's Document, because some stores drop metadata."""
    if user_chunk is None or user_chunk.metadata.keys() <= chunk.metadata.keys():
        return chunk
    return replace(chunk, metadata={**user_chunk.metadata, **chunk.metadata})
