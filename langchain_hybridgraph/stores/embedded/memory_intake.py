"""Writing new memories."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from langchain_hybridgraph.records import checked_edges
from langchain_hybridgraph.stores.embedded.catalog import memory as catalog_memory
from langchain_hybridgraph.stores.embedded.catalog.memory import StoredMemory
from langchain_hybridgraph.stores.embedded.catalog.rows import catalog_rows
from langchain_hybridgraph.stores.embedded.folder.embedding_check import FittedEmbedding
from langchain_hybridgraph.stores.embedded.folder.index_folder import IndexFolder
from langchain_hybridgraph.stores.embedded.memory import EmbeddedMemory
from langchain_hybridgraph.stores.embedded.reader import Reader
from langchain_hybridgraph.stores.embedded.writer import Writer
from langchain_hybridgraph.text.analyzer import Analyzer

if TYPE_CHECKING:
    import sqlite3

    from numpy.typing import NDArray

    from langchain_hybridgraph.chunks import Chunk, Vector
    from langchain_hybridgraph.filters.expressions import Filter
    from langchain_hybridgraph.memory.admission import MemoryChange
    from langchain_hybridgraph.records import Edge, MemoryState, Scope


class MemoryIntake:
    """The operations on an index that are needed to admit new memories (see ``memory.admission.MemoryTarget``)."""

    def __init__(self, index: IndexFolder, reader: Reader, writer: Writer, feedback: EmbeddedMemory) -> None:
        self._index, self._reader, self._writer, self._feedback = index, reader, writer, feedback

    def clock(self) -> float:
        """Return the current time of the store's clock, in Unix seconds."""
        return self._index.clock()

    def get(self, ids: Sequence[str]) -> list[Chunk]:
        """Return the chunks and parents with these ids; missing ids are left out."""
        return self._reader.get(ids)

    def vectors(self, ids: Sequence[str]) -> NDArray[np.float32]:
        """Return the unit vectors of these chunks; for an id without a vector, the row is all zeros."""
        return self._reader.vectors(ids)

    def edges(self, ids: Sequence[str]) -> list[Edge]:
        """Return the edges that leave these chunks."""
        return self._reader.edges(ids)

    def states(self, ids: Sequence[str], scope: Scope) -> dict[str, MemoryState]:
        """Return the state of each of these chunks; missing chunks are left out."""
        return self._feedback.states(ids, scope)

    def credibility(self, source: str) -> float:
        """Return the credibility of a source, which is 0.5 for an unknown source."""
        return self._feedback.credibility(source)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the write lock within the ``with`` block; other threads and processes may still read."""
        with self._index.writer():
            yield

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        """Return the unit vectors of texts, or None if there are no texts or the embedding has not been fitted yet."""
        with self._index.guard:
            generation = self._index.snapshot().generation
            return None if self._index.is_unfitted(generation) or not texts else self._index.embed(texts, generation)

    def nearest(
        self, vector: Vector, n: int, period: tuple[float, float], filter: Filter | None = None
    ) -> list[tuple[str, float]]:
        """Return (id, cosine) pairs for the ``n`` nearest chunks, nearest first.

        Only chunks that match the filter and are valid at some time in the period are returned.
        """
        with self._index.guard:
            snapshot = self._index.snapshot()
            matrix = snapshot.generation.matrix
            if matrix is None:
                return []
            allowed_rows = snapshot.rows.overlapping(*period)
            if filter is not None:
                allowed_rows &= self._index.columns.mask(filter, len(allowed_rows))
            rows, scores = matrix.search(vector, n, allowed_rows[: len(matrix)])
            return [(entry.id, entry.score) for entry in snapshot.rows.scored_ids(rows.tolist(), scores.tolist())]

    def has_pretrained_model(self) -> bool:
        """Return whether the vectors come from a model that was not fitted to the texts of this index."""
        return not isinstance(self._index.embedding, FittedEmbedding)

    def unknown_word_share(self, text: str, other: str) -> float:
        """Return the share of the words in ``text`` that are neither known to the model nor contained in ``other``.

        The vectors of a model fitted to the corpus ignore unknown words. Such a model cannot distinguish "lives in
        Rome" from "lives in Paris" until it has been fitted to a text with "Rome". For any other model, the result is
        0.
        """
        with self._index.guard:
            if not isinstance(self._index.embedding, FittedEmbedding):
                return 0.0
            analyzer = Analyzer(self._index.language)
            words = list(dict.fromkeys(analyzer.words(text)))
            other_words = set(analyzer.words(other))
            others = [word for word in words if word not in other_words]
            if not others:
                return 0.0
            return int(np.count_nonzero(~self._index.embed(others, self._index.generation).any(axis=1))) / len(words)

    def insert(
        self,
        chunks: Sequence[Chunk],
        vectors: NDArray[np.float32] | None,
        edges: Sequence[Edge],
        changes: Sequence[MemoryChange],
    ) -> None:
        """Write new memories, their edges and the changes to existing memories in one transaction.

        ``vectors`` is the result of :meth:`embed`. A memory without a creation time gets the current time.
        """
        batch = catalog_rows(chunks, [], self._index.rows.tenant)
        vectors_by_id = None
        # A model fitted to the corpus may have been fitted again since the vectors were computed.
        if vectors is not None and not isinstance(self._index.embedding, FittedEmbedding):
            vectors_by_id = {chunk.id: vector for chunk, vector in zip(chunks, vectors, strict=True)}
        with self._index.writer():
            undated = [entry.id for entry in batch if entry.metadata_values.created_at is None]
            also = partial(self._change, undated=undated, changes=changes, now=self._index.clock())
            self._writer.write(batch, checked_edges(edges), vectors_by_id, also)
            self._writer.flush()

    def _change(
        self, connection: sqlite3.Connection, *, undated: Sequence[str], changes: Sequence[MemoryChange], now: float
    ) -> Iterator[int]:
        for memory in self._stored_memories(connection, undated).values():
            if memory.values.created_at is None:
                yield from catalog_memory.revise(
                    connection, memory, memory.values._replace(created_at=memory.values.learned_at), now
                )
        for change in changes:
            for memory in self._stored_memories(connection, [change.id]).values():
                after = memory.values._replace(active_count=memory.values.active_count + change.uses)
                if change.uses:
                    after = after._replace(used_at=now)
                if change.confidence is not None:
                    after = after._replace(confidence=change.confidence)
                yield from catalog_memory.revise(connection, memory, after, now)

    def _stored_memories(self, connection: sqlite3.Connection, ids: Iterable[str]) -> dict[str, StoredMemory]:
        return catalog_memory.read_states(connection, self._index.rows.tenant, ids)
