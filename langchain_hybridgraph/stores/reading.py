"""Reads and searches of an open index."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from langchain_hybridgraph.chunks import reference
from langchain_hybridgraph.records import TITLE, Edge, ScoredId, SourceResult, coverage_of
from langchain_hybridgraph.stores.catalog import EDGE
from langchain_hybridgraph.stores.chunk_rows import StoredChunk, chunk_in, json_list, text_hash
from langchain_hybridgraph.stores.index import BEHIND_SECONDS, IndexFolder
from langchain_hybridgraph.stores.row_table import Rows
from langchain_hybridgraph.stores.vectors import background, unit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.chunks import Chunk, Vector
    from langchain_hybridgraph.records import Query, Scope
    from langchain_hybridgraph.stores.bm25 import KeywordIndex
    from langchain_hybridgraph.stores.generations import Embedding


class Reader:
    """Reads and searches an index. Each search uses one snapshot of the index from start to end."""

    def __init__(self, index: IndexFolder) -> None:
        self._index = index

    # -- reading --------------------------------------------------------------------------------------------

    def read(self, ids: Sequence[str], scope: Scope, result_chunks: Mapping[str, Chunk]) -> dict[str, Chunk]:
        """Return the chunks among ``ids`` that are valid and pass the filter (see ``stores.protocols.ReadsChunks``)."""
        self._index.check_scope(scope)
        with self._index.guard:
            stored_rows = self._stored(ids, scope.known_at)
        undamaged = self._undamaged(stored_rows)
        return {entry.id: chunk for entry in undamaged if (chunk := chunk_in(entry, scope)) is not None}

    @property
    def damage(self) -> tuple[str, ...]:
        """Reasons for degradation that apply to all searches (see ``stores.protocols.KnowsDamage``)."""
        reasons = {
            "commits-lost": self._index.loss is not None,
            "texts-damaged": self._index.catalog.has_undecodable_texts,
        }
        return tuple(reason for reason, applies in reasons.items() if applies)

    def _undamaged(self, entries: Iterable[StoredChunk]) -> Iterable[StoredChunk]:
        """Return the entries without those that cannot be decoded."""
        if not self._index.catalog.has_undecodable_texts:
            return entries
        return [entry for entry in entries if not entry.has_replacements]

    def _stored(self, ids: Sequence[str], known_at: float | None) -> list[StoredChunk]:
        rows = self._index.rows.rows(ids)
        stored_rows = self._index.catalog.read_rows(rows, known_at)
        while len(stored_rows) < len(rows):
            # The index has changed in the meantime. A replaced chunk has a new row, a deleted chunk has none.
            snapshot = self._index.snapshot()
            rows = snapshot.rows.rows(ids)
            stored_rows = self._index.catalog.read_rows(rows, known_at)
            if self._index.catalog.version() == snapshot.rows.version:
                break  # the index did not change between look-up and read, so the missing chunks have been deleted
        return stored_rows

    def read_parents(self, ids: Sequence[str], scope: Scope) -> dict[str, Chunk]:
        """Return the parents among ``ids`` that exist and are valid (see ``stores.protocols.HasParents``)."""
        self._index.check_scope(scope)
        with self._index.guard:
            stored_rows = self._index.catalog.read_ids(self._index.rows.tenant, ids, scope.known_at)
        entries = self._undamaged(stored_rows)
        return {entry.id: entry.chunk() for entry in entries if entry.valid(scope.as_of, scope.known_at)}

    @property
    def has_parents(self) -> bool:
        """Whether the store has any parents."""
        return self._index.rows.has_parents

    def get(self, ids: Sequence[str]) -> list[Chunk]:
        """Return the chunks and parents with these ids, valid or not, in the order of ``ids``, without missing ones."""
        with self._index.guard:
            chunks = {entry.id: entry.chunk() for entry in self._index.catalog.read_ids(self._index.rows.tenant, ids)}
        return [chunks[id] for id in dict.fromkeys(ids) if id in chunks]

    def document_chunks(self, document_ids: Sequence[str]) -> dict[str, set[str]]:
        """Return the ids of each document's current chunks and parents, by document id."""
        by_reference = {reference(id): id for id in document_ids}
        chunks: dict[str, set[str]] = {id: set() for id in document_ids}
        condition = "document IN (SELECT value FROM json_each(?2))"
        sql = f"SELECT document, id FROM nodes WHERE tenant = ?1 AND {condition}"
        for document, id in self._index.query(sql, json_list(by_reference)):
            chunks[by_reference[document]].add(id)
        return chunks

    def ids_of_contents(self, contents: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Return the id of a chunk for each existing (text, source) pair."""
        hashes = json.dumps([text_hash(text).hex().upper() for text, _ in contents])
        condition = "tenant = ?2 AND row NOT NULL AND hex(text_hash) IN (SELECT value FROM json_each(?3))"
        with self._index.guard:
            entries = self._index.catalog.select(condition, None, self._index.rows.tenant, hashes)
        id_of_content = {(entry.text, str(entry.chunk().metadata.get("source", ""))): entry.id for entry in entries}
        return {content: id_of_content[content] for content in contents if content in id_of_content}

    def document_ids(self) -> list[str]:
        """Return the ids of all documents, sorted."""
        sql = "SELECT DISTINCT document FROM nodes WHERE tenant = ? AND document NOT NULL ORDER BY document"
        return [document for (document,) in self._index.query(sql)]

    def title_edges(self) -> list[Edge]:
        """Return the edges to ``title:`` nodes (titles of documents), sorted by title and source."""
        results = self._index.query(
            f"SELECT {EDGE} FROM nodes t CROSS JOIN edges e ON e.target = t.node "
            "CROSS JOIN nodes s ON s.node = e.source WHERE t.tenant = ? AND t.id >= ? AND t.id < ? "
            "ORDER BY t.id, s.id",
            TITLE,
            f"{TITLE}{chr(0x10FFFF)}",
        )
        return [Edge(*values) for values in results]

    def edges(self, ids: Sequence[str], *, backwards: bool = False) -> list[Edge]:
        """Return the edges from these chunks, or, with ``backwards``, to them, by source, relation and target."""
        with self._index.guard:
            return self._index.catalog.edges(self._index.rows.tenant, ids, backwards=backwards)

    def find(self, scope: Scope, n: int | None = None) -> list[str]:
        """Return the ids of the first ``n`` chunks in this scope, in the order in which they were added or changed."""
        self._index.check_scope(scope)
        with self._index.guard:
            rows = self._index.snapshot().rows
            return rows.ids(np.flatnonzero(self._index.allowed_rows(rows, scope))[:n].tolist())

    def list_chunks(self, scope: Scope, n: int) -> SourceResult:
        """Return the result of :meth:`find` with the score 1 (see ``stores.protocols.ListsChunks``)."""
        return SourceResult([ScoredId(id, 1.0) for id in self.find(scope, n)])

    def __len__(self) -> int:
        """Return the number of chunks; parents are not counted."""
        with self._index.guard:
            return self._index.snapshot().rows.living

    # -- searching ------------------------------------------------------------------------------------------

    def vector_search(self, query: Query, n: int) -> SourceResult:
        """Return the ``n`` chunks with the largest cosine (see ``stores.protocols.SearchesVectors``).

        Large scopes in a large index are searched approximately, by binary codes (see ``stores.vectors``).
        """
        self._index.check_scope(query.scope)
        with self._index.guard:
            snapshot = self._index.snapshot()
            matrix = snapshot.generation.matrix
            if not snapshot.rows.living:
                return SourceResult([])
            if self._index.is_unfitted(snapshot.generation):
                return SourceResult(
                    [], reason="no-vector-index" if snapshot.generation.unusable_files else "no-lsa-index"
                )
            embedding = snapshot.generation.embedding
            vector = self._query_vector(query, embedding)
            if not vector.any():
                return SourceResult([], reason="query-out-of-vocabulary" if query.vector is None else None)
            assert matrix is not None, "chunks with vectors have a matrix"
            allowed_rows = self._index.allowed_rows(snapshot.rows, query.scope)
            rows, scores = matrix.search(vector, n, allowed_rows, approximate=True)
            hits = snapshot.rows.scored_ids(rows.tolist(), scores.tolist())
            is_unrestricted = query.scope.filter is None and query.scope.known_at is None
            sample = snapshot.generation.sample(allowed_rows, snapshot.rows.version if is_unrestricted else None)
            mean = None if sample is None else background(sample, vector)
            coverage = coverage_of(embedding, query)
            reason = None
            if matrix.lacks(allowed_rows):
                reason = "vectors-damaged" if hits else "no-vector-index"
            return SourceResult(hits, vector, background=mean, reason=reason, coverage=coverage)

    def vector_scores(self, vector: Vector, ids: Sequence[str]) -> dict[str, float]:
        """Return the cosine of the vector with each of these chunks, by id; missing chunks are left out."""
        with self._index.guard:
            table, matrix = self._index.rows, self._index.generation.matrix
            if matrix is None:
                return {}
            rows = table.rows(ids)
            return dict(zip(table.ids(rows), matrix.scores(vector, rows).tolist(), strict=True))

    def vectors(self, ids: Sequence[str]) -> NDArray[np.float32]:
        """Return the unit vectors of these chunks, len(ids) × dimension; the row of an id without a vector is zero."""
        with self._index.guard:
            matrix, rows = self._index.generation.matrix, np.array(self._index.rows.places(ids), np.int64)
            vectors = np.zeros((len(ids), 1 if matrix is None else matrix.dimension), np.float32)
            if matrix is not None and (rows >= 0).any():
                vectors[rows >= 0] = matrix.take(rows[rows >= 0])
            return vectors

    @property
    def has_fast_keyword_search(self) -> bool:
        """Whether a keyword search is so fast that it should run on the calling thread.

        Because of the global interpreter lock, a search of 0.2 ms took 1 ms on another thread.
        """
        with self._index.guard:
            return self._index.rows.living <= self._index.keywords.index.quick_rows

    def keyword_search(self, query: Query, n: int) -> SourceResult:
        """Return the ``n`` chunks with the largest BM25 score; its statistics cover all tenants of the folder."""
        self._index.check_scope(query.scope)
        if query.text is None:
            return SourceResult([], reason="no-query-text")
        text, scope = query.text, query.scope
        with self._index.guard:
            rows = self._index.snapshot().rows
            if self._index.keywords.renew(rows.version):
                rows = self._index.snapshot().rows  # the index may now have a later version

            def search(index: KeywordIndex) -> SourceResult:
                is_current = rows.full and index.applied_version == rows.version
                is_all = scope.filter is None and scope.known_at is None and is_current
                allowed_rows = None if is_all else self._index.allowed_rows(rows, scope)
                reason = self._index.keywords.reason or self._lag(index, rows)
                return index.result(text, n, allowed_rows, rows.ids, reason)

            return self._index.keywords.query(search)

    def _lag(self, index: KeywordIndex, rows: Rows) -> str | None:
        """Return why the keyword index may lack texts, or None."""
        if rows.living > 0 and not index.applied_version:
            return "no-keyword-index"
        is_behind = index.applied_version < rows.version and self._index.catalog.age() > BEHIND_SECONDS
        return "keyword-behind" if is_behind else None

    def keyword_scores(self, text: str, ids: Sequence[str]) -> dict[str, float]:
        """Return the BM25 score of each of these chunks; chunks that share no word with ``text`` are left out."""
        with self._index.guard:
            table = self._index.rows
            scores = self._index.keywords.query(lambda index: index.scores(text, table.rows(ids)))
            return dict(zip(table.ids(scores), scores.values(), strict=True))

    def _query_vector(self, query: Query, embedding: Embedding) -> Vector:
        if query.vector is None and query.text is None:
            raise ValueError("a query needs text or a vector, got neither")
        values = embedding.embed_query(query.text or "") if query.vector is None else query.vector
        vector: Vector = unit(values)
        self._index.check_width(vector.shape[-1])
        return vector
