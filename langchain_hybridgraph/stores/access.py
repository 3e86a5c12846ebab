"""Access to an open index: reads, searches, writes, fits."""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from langchain_hybridgraph.chunks import reference
from langchain_hybridgraph.errors import StoreError
from langchain_hybridgraph.execution.processes import report
from langchain_hybridgraph.records import (
    TITLE,
    Edge,
    RowResult,
    SourceResult,
    check_texts,
    checked_edges,
    coverage_of,
    heaviest_edges,
)
from langchain_hybridgraph.stores import catalog_writes
from langchain_hybridgraph.stores.catalog import EDGE
from langchain_hybridgraph.stores.chunk_rows import (
    CHUNK,
    GRAPH,
    ChunkRow,
    StoredChunk,
    StoredHashes,
    catalog_rows,
    chunk_in,
    json_list,
    text_hash,
)
from langchain_hybridgraph.stores.generations import FittedEmbedding, Generation, TransformsFitted, probe_facts
from langchain_hybridgraph.stores.index import BEHIND_SECONDS, IndexFolder
from langchain_hybridgraph.stores.vectors import background, unit

if TYPE_CHECKING:
    import sqlite3

    from numpy.typing import NDArray

    from langchain_hybridgraph.chunks import Chunk, Vector
    from langchain_hybridgraph.records import Query, Scope
    from langchain_hybridgraph.stores.bm25 import KeywordIndex

logger = logging.getLogger(__name__)

# Largest number of texts to which an embedding is fitted, chosen at regular intervals from all texts.
FIT_TEXTS = 100_000
# Number of texts embedded in one call, which is large enough for a fitted embedding to use several processes.
EMBEDDED_AT_ONCE = 16_384
# Number of the newest texts that are checked to determine whether a new fit is needed.
NEWEST_TEXTS = 500


# Number of pending rows at which the engines are updated in the middle of an ingest.
STEP_ROWS = 8_192


_SEARCHES = ("vector_search", "vector_scores", "keyword_search", "keyword_scores")


class Reader:
    """Reads and searches an index. Each search uses one snapshot of the index from start to end."""

    def __init__(self, index: IndexFolder) -> None:
        self._index = index

    @property
    def returns_rows(self) -> bool:
        """Whether searches may return row numbers (``Query.by_row``): not if one of them was overridden."""
        kind, own = type(self), vars(self)
        return not [name for name in _SEARCHES if name in own or getattr(kind, name) is not getattr(Reader, name)]

    # -- reading --------------------------------------------------------------------------------------------

    def read(self, ids: Sequence[str], scope: Scope, result_chunks: Mapping[str, Chunk]) -> dict[str, Chunk]:
        """Return the chunks among ``ids`` that are valid and pass the filter (see ``stores.protocols.ReadsChunks``)."""
        scope.check_tenant(self._index.settings.tenant)
        with self._index.guard:
            stored_rows = self._stored(ids, scope.known_at)
        readable = self._readable(stored_rows)
        return {entry.id: chunk for entry in readable if (chunk := chunk_in(entry, scope)) is not None}

    @property
    def damage(self) -> tuple[str, ...]:
        """Reasons for degradation that apply to all searches (see ``stores.protocols.KnowsDamage``)."""
        reasons = () if self._index.loss is None else ("commits-lost",)
        return (*reasons, "texts-damaged") if self._index.catalog.has_undecodable_texts else reasons

    def _readable(self, entries: Sequence[StoredChunk]) -> Sequence[StoredChunk]:
        """Return the entries that contain no damaged text."""
        if not self._index.catalog.has_undecodable_texts:
            return entries
        return [entry for entry in entries if not entry.has_replacements]

    def _stored(self, ids: Sequence[str], known_at: float | None) -> list[StoredChunk]:
        numbers = self._index.rows.numbers_of(ids)
        stored_rows = self._index.catalog.read_rows(numbers, known_at)
        while len(stored_rows) < len(numbers):
            # The index has changed in the meantime. A replaced chunk has a new row, a deleted chunk has none.
            snapshot = self._index.snapshot()
            numbers = snapshot.rows.numbers_of(ids)
            stored_rows = self._index.catalog.read_rows(numbers, known_at)
            if self._index.catalog.version() == snapshot.rows.version:
                break  # the index did not change between look-up and read, so the missing chunks have been deleted
        return stored_rows

    def read_parents(self, ids: Sequence[str], scope: Scope) -> dict[str, Chunk]:
        """Return the parents among ``ids`` that exist and are valid (see ``stores.protocols.HasParents``)."""
        scope.check_tenant(self._index.settings.tenant)
        with self._index.guard:
            stored_rows = self._index.catalog.read_ids(self._index.rows.tenant, ids, scope.known_at)
        readable = self._readable(stored_rows)
        return {entry.id: entry.chunk() for entry in readable if entry.valid(scope.as_of, scope.known_at)}

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
        by_reference = {reference(id): id for id in check_texts("ids", "ids", document_ids)}
        chunks: dict[str, set[str]] = {id: set() for id in document_ids}
        sql = "SELECT document, id FROM nodes WHERE tenant = ?1 AND document IN (SELECT value FROM json_each(?2))"
        for document, id in self._index.query(sql, json_list(by_reference.keys())):
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

    def edge_sources(self) -> list[str]:
        """Return the ids of all chunks and other nodes from which edges lead, sorted."""
        sql = "SELECT id FROM nodes WHERE tenant = ? AND node IN (SELECT source FROM edges) ORDER BY id"
        return [id for (id,) in self._index.query(sql)]

    def find(self, scope: Scope, n: int | None = None) -> list[str]:
        """Return the ids of the first ``n`` chunks in this scope, in the order in which they were added or changed."""
        scope.check_tenant(self._index.settings.tenant)
        with self._index.guard:
            rows = self._index.snapshot().rows
            return rows.ids(np.flatnonzero(self._index.allowed_rows(rows, scope))[:n].tolist())

    def list_chunks(self, scope: Scope, n: int) -> SourceResult:
        """Return the result of :meth:`find` with the score 1 (see ``stores.protocols.ListsChunks``)."""
        return SourceResult.of(dict.fromkeys(self.find(scope, n), 1.0))

    def __len__(self) -> int:
        """Return the number of chunks; parents are not counted."""
        with self._index.guard:
            return self._index.snapshot().rows.living

    # -- searching ------------------------------------------------------------------------------------------

    def vector_search(self, query: Query, n: int) -> SourceResult:
        """Return the ``n`` chunks with the largest cosine (see ``stores.protocols.SearchesVectors``).

        Large scopes in a large index are searched approximately, by binary codes (see ``stores.vectors``).
        """
        query.scope.check_tenant(self._index.settings.tenant)
        with self._index.guard:
            snapshot = self._index.snapshot()
            matrix = snapshot.generation.matrix
            if not snapshot.rows.living:
                return SourceResult([])
            if self._index.is_unfitted(snapshot.generation):
                lack = "no-vector-index" if snapshot.generation.unusable_files else "no-lsa-index"
                return SourceResult([], reason=lack)
            embedding = snapshot.generation.embedding
            if query.vector is None and query.text is None:
                raise ValueError("a query needs text or a vector, got neither")
            vector: Vector = unit(embedding.embed_query(query.text or "") if query.vector is None else query.vector)
            self._index.check_dimension(vector.shape[-1])
            if not vector.any():
                return SourceResult([], reason="query-out-of-vocabulary" if query.vector is None else None)
            assert matrix is not None, "chunks with vectors have a matrix"
            allowed_rows = self._index.allowed_rows(snapshot.rows, query.scope)
            rows, scores = matrix.search(vector, n, allowed_rows, approximate=True)
            version = None if snapshot.rows.restricts(query.scope) else snapshot.rows.version
            sample = snapshot.generation.sample(allowed_rows, version)
            mean = None if sample is None else background(sample, vector)
            damage = "vectors-damaged" if len(rows) else "no-vector-index"
            reason = damage if matrix.lacks(allowed_rows) else None
            coverage = coverage_of(embedding, query)
            numbers, score = snapshot.rows.numbers.of(rows), partial(self._cosines, vector)
            row_result = RowResult(numbers, scores, snapshot.rows.ids_of, score)
            result = SourceResult([], rows=row_result, vector=vector, background=mean, reason=reason, coverage=coverage)
            # Without a background, the verdict needs the cosines of all candidates.
            return result if query.by_row and mean is not None else result.with_ids()

    def vector_scores(self, vector: Vector, ids: Sequence[str]) -> dict[str, float]:
        """Return the cosine of the vector with each of these chunks, by id; missing chunks are left out."""
        with self._index.guard:
            table, generation = self._index.present
            if (matrix := generation.matrix) is None:
                return {}
            rows = table.rows(ids)
            present = ids if len(rows) == len(ids) else table.ids(rows)
            return dict(zip(present, matrix.scores(vector, rows).tolist(), strict=True))

    def _cosines(self, vector: Vector, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        with self._index.guard:
            table, generation = self._index.present
            rows = table.numbers.rows(numbers)
            cosines = np.full(len(numbers), np.nan, np.float32)
            if generation.matrix is not None:
                cosines[rows >= 0] = generation.matrix.scores(vector, rows[rows >= 0])
            return cosines

    def vectors(self, ids: Sequence[str]) -> NDArray[np.float32]:
        """Return the unit vectors of these chunks, len(ids) × dimension; the row of an id without a vector is zero."""
        with self._index.guard:
            table, generation = self._index.present
            matrix, rows = generation.matrix, np.array(table.places(ids), np.int64)
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
        query.scope.check_tenant(self._index.settings.tenant)
        if query.text is None:
            return SourceResult([], reason="no-query-text")
        text, scope = query.text, query.scope
        with self._index.guard:
            rows = self._index.snapshot().rows
            if self._index.keywords.renew(rows.version):
                rows = self._index.snapshot().rows  # the index may now have a later version

            def search(index: KeywordIndex) -> SourceResult:
                # Even if all rows are allowed, another thread may load new ones during the search.
                allowed_rows = self._index.allowed_rows(rows, scope)
                reason = self._index.keywords.reason
                if reason is None and rows.living > 0 and not index.applied_version:
                    reason = "no-keyword-index"
                elif reason is None and index.applied_version < rows.version:
                    reason = "keyword-behind" if self._index.catalog.age() > BEHIND_SECONDS else None
                return index.result(text, n, allowed_rows, rows.ids_of, reason, numbers=rows.numbers)

            result = self._index.keywords.query(search)
        if query.by_row and result.rows is not None:
            return result._replace(rows=result.rows._replace(score=partial(self._bm25, text)))
        return result.with_ids()

    def _bm25(self, text: str, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        rows = numbers.tolist()
        with self._index.guard:
            scores = self._index.keywords.query(lambda index: index.scores(text, rows))
        return np.array([scores.get(row, np.nan) for row in rows])

    def keyword_scores(self, text: str, ids: Sequence[str]) -> dict[str, float]:
        """Return the BM25 score of each of these chunks; chunks that share no word with ``text`` are left out."""
        with self._index.guard:
            table = self._index.rows
            scores = self._index.keywords.query(lambda index: index.scores(text, table.numbers_of(ids)))
            return dict(zip(table.ids(table.numbers.rows(list(scores)).tolist()), scores.values(), strict=True))


class Writer(Reader):
    """Reads an index, and writes and deletes its chunks, parents and edges.

    Vectors are written before the batch is committed; engines are updated by :meth:`flush`, by :meth:`remove`, and
    during a long ingest. ``after_flush`` is called after :meth:`flush`, without the write lock.
    """

    def __init__(self, index: IndexFolder, *, after_flush: Callable[[], object] | None = None) -> None:
        super().__init__(index)
        self._after_flush = after_flush

    def upsert(
        self,
        chunks: Sequence[Chunk],
        *,
        parents: Sequence[Chunk] = (),
        edges: Sequence[Edge] = (),
        vectors: NDArray[Any] | Sequence[Sequence[float]] | None = None,
        removed: Sequence[str] = (),
    ) -> dict[str, int]:
        """Write one batch in one transaction (see ``stores.protocols.AcceptsChunks``).

        The heavier of equal edges is kept, even if it is the stored one. With ``vectors``, texts are not embedded.
        Chunks with the ids ``removed`` are deleted in the same transaction.

        Raises StoreLockedError after ``write_timeout``, ValueError or TypeError for values that cannot be stored, and
        StoreError if the disk is full. Then nothing is written.
        """
        batch = catalog_rows(chunks, parents, self._index.rows.tenant)
        edges = checked_edges(edges)
        vectors_by_id = None if vectors is None else self._vectors_by_id(chunks, vectors)

        def remove(connection: sqlite3.Connection) -> Iterable[int]:
            return catalog_writes.delete_ids(connection, self._index.rows.tenant, removed)[1]

        return self.write_rows(batch, edges, vectors_by_id, remove if removed else None)

    def write_rows(
        self,
        batch: Sequence[ChunkRow],
        edges: Sequence[Edge] = (),
        vectors_by_id: Mapping[str, Vector] | None = None,
        also: Callable[[sqlite3.Connection], Iterable[int]] | None = None,
    ) -> dict[str, int]:
        """Write a batch like :meth:`upsert`; ``also`` writes in its transaction and returns rows that it changed."""
        early = self._embed_ahead(batch) if vectors_by_id is None else (-1, {}, 0)
        with self._index.writer():
            stored_hashes = self._index.catalog.stored_hashes(self._index.rows.tenant, (entry.id for entry in batch))
            changed = [entry for entry in batch if _changes(entry, stored_hashes.get(entry.id))]
            new = [entry for entry in changed if entry.kind == CHUNK]
            rows, embedded = self._write_vectors(new, vectors_by_id, early)
            facts = self._founding_facts(new, rows, has_own_vectors=vectors_by_id is not None)
            self._commit(changed, rows, stored_hashes, edges, facts, also=also)
            self._index.shared.pending_rows += len(new)
            if self._index.shared.pending_rows >= STEP_ROWS:
                self._update_engines()
        updated = sum(entry.id in stored_hashes and stored_hashes[entry.id].kind != GRAPH for entry in changed)
        return {
            "added": len(changed) - updated,
            "updated": updated,
            "unchanged": len(batch) - len(changed),
            "embedded": embedded,
        }

    def flush(self) -> int:
        """Bring the engines up to date and fit the embedding if due; return the number of embedded texts."""
        embedded = 0
        if not self._is_flushed():
            with self._index.writer():
                if not self._is_flushed():
                    if self._is_fit_due():
                        embedded = self.refit()
                    self._update_engines()
                    self._index.shared.flushed_version = self._index.catalog.version()
        if self._after_flush is not None:
            self._after_flush()
        return embedded

    def _is_flushed(self) -> bool:
        with self._index.guard:
            return self._index.shared.flushed_version == self._index.catalog.version()

    def replace_edges(self, sources: Sequence[str], relations: Sequence[str], edges: Sequence[Edge]) -> int:
        """Replace the edges with these sources and relations by ``edges``; return their number, stored or not.

        Equal edges count once; only the heaviest is written.
        """
        edges_by_key = heaviest_edges(checked_edges(edges))
        leaving, kinds = set(sources), set(relations)
        with self._index.writer():
            sources_read = leaving.union(edge.source for edge in edges_by_key.values())
            present = {_key(edge): edge for edge in self._index.catalog.edges(self._index.rows.tenant, sources_read)}
            replaced = {key for key, edge in present.items() if edge.source in leaving and edge.relation in kinds}
            stale = [present[key] for key in replaced if key not in edges_by_key]
            fresh = [edge for key, edge in edges_by_key.items() if present.get(key) != edge]
            if stale or fresh:
                now = self._index.clock()
                with self._index.catalog.writing() as connection:
                    entities = catalog_writes.graph_ends(connection, self._index.rows.tenant, stale)
                    catalog_writes.delete_edges(connection, self._index.rows.tenant, stale)
                    # Edges that already exist are changed in place and keep the time at which they were first ingested.
                    for changed in (True, False):
                        edges = [edge for edge in fresh if (_key(edge) in replaced) == changed]
                        catalog_writes.put_edges(connection, self._index.rows.tenant, edges, now, by_weight=not changed)
                    catalog_writes.delete_unmentioned(connection, entities)
        return len(edges_by_key)

    def remove(self, ids: Sequence[str]) -> int:
        """Delete chunks and parents together with their edges; return the number of these ids that existed.

        A parent is deleted with its last child. An entity is deleted with the last chunk that mentions it.
        """
        with self._index.writer():
            with self._index.catalog.writing() as connection:
                count, dead = catalog_writes.delete_ids(connection, self._index.rows.tenant, ids)
                if count:
                    catalog_writes.log_changes(connection, dead)
            self._index.snapshot()
            self._update_engines()
        return count

    def _vectors_by_id(self, chunks: Sequence[Chunk], vectors: Any) -> dict[str, Vector]:
        if isinstance(self._index.generation.embedding, FittedEmbedding):
            raise ValueError(
                f"the embedding {self._index.settings.name!r} is fitted to the texts, so vectors cannot be passed: "
                "leave vectors= out, or open the store with the embedding that made them"
            )
        units = unit(vectors)
        if units.shape[:1] != (len(chunks),) or (units.ndim != 2 and chunks):
            raise ValueError(f"vectors must have one entry per chunk, got {units.shape} for {len(chunks)} chunks")
        return dict(zip((chunk.id for chunk in chunks), units, strict=True))

    def _embed_ahead(self, batch: Sequence[ChunkRow]) -> EarlyVectors:
        """Embed the new texts of this batch before the write lock is taken, so that others can write meanwhile."""
        with self._index.guard:
            generation = self._index.snapshot().generation
            if self._index.is_unfitted(generation):
                return -1, {}, 0
            stored = self._index.catalog.stored_hashes(self._index.rows.tenant, (entry.id for entry in batch))
            changed = [entry for entry in batch if entry.kind == CHUNK and _changes(entry, stored.get(entry.id))]
            vectors = _vectors_of_same_texts(generation, changed, stored)
            texts = list(dict.fromkeys(entry.text for entry in changed if entry.text not in vectors))
            if texts:
                vectors |= zip(texts, self._index.embed(texts, generation), strict=True)
            return generation.number, vectors, len(texts)

    def _write_vectors(
        self, new: Sequence[ChunkRow], vectors_by_id: Mapping[str, Vector] | None, early: EarlyVectors
    ) -> tuple[list[int], int]:
        """Write the vectors of chunks to new rows; return the row numbers and the number of texts embedded."""
        index, facts = self._index, self._index.catalog.facts()
        start = int(facts["next_row"])
        rows = list(range(start, start + len(new)))
        if not new or index.is_unfitted(index.generation):
            return rows, 0
        embedded = 0
        if vectors_by_id is None:
            number, vector_of, embedded = early
            if number != index.generation.number:
                vector_of, embedded = {}, 0
            # If the index has changed in the meantime, texts may be missing.
            if missing := list(dict.fromkeys(entry.text for entry in new if entry.text not in vector_of)):
                vector_of |= zip(missing, index.embed(missing, index.generation), strict=True)
            embedded += len(missing)
            vectors_by_id = {entry.id: vector_of[entry.text] for entry in new}
        # Until the first vectors are committed, any dimension is allowed, even after failed attempts.
        matrix = index.generation.matrix
        if matrix is None or "dimension" not in facts:
            matrix = index.generation.create_matrix(len(vectors_by_id[new[0].id]))
        for vector in vectors_by_id.values():
            index.check_dimension(len(vector))
        [row] = index.generation.numbers.rows([start]).tolist()
        matrix.write(row, np.stack([vectors_by_id[e.id] for e in new]), texts=[entry.text_hash for entry in new])
        return rows, embedded

    def _commit(
        self,
        changed: Sequence[ChunkRow],
        rows: Sequence[int],
        stored_hashes: Mapping[str, StoredHashes],
        edges: Sequence[Edge],
        facts: Mapping[str, Any],
        *,
        also: Callable[[sqlite3.Connection], Iterable[int]] | None,
    ) -> None:
        if not changed and not edges and also is None:
            return
        row_of = dict(zip((entry.id for entry in changed if entry.kind == CHUNK), rows, strict=True))
        replaced = [stored_hashes[entry.id].row for entry in changed if entry.id in stored_hashes]
        now = self._index.clock()
        with self._index.catalog.writing() as connection:
            numbered = [entry._replace(row=row_of.get(entry.id)) for entry in changed]
            catalog_writes.insert_or_replace(connection, numbered, now)
            catalog_writes.put_edges(connection, self._index.rows.tenant, edges, now)
            if rows:
                catalog_writes.set_facts(connection, next_row=rows[-1] + 1, **facts)
            touched = [] if also is None else list(also(connection))
            if changed or touched:
                catalog_writes.log_changes(connection, [*rows, *(row for row in replaced if row is not None), *touched])
        if facts:
            self._index.confirm_embedding()
        self._index.snapshot()

    def _founding_facts(self, new: Sequence[ChunkRow], rows: Sequence[int], *, has_own_vectors: bool) -> dict[str, Any]:
        """Return the embedding's name, dimension and probe (first text); {} without vectors or if one is stored.

        If vectors are passed, the probe is embedded; if that fails, the embedding is identified by its name.
        """
        index = self._index
        if not new or index.generation.matrix is None or "probe_text" in index.catalog.facts():
            return {}
        facts = probe_facts(index.settings.name, index.generation, rows[0], new[0].text)
        if has_own_vectors:
            try:
                own = index.embed([new[0].text], index.generation)[0]
            except Exception:  # noqa: BLE001 - the first search raises the error of a model that cannot embed
                return facts
            index.check_dimension(len(own))
            facts["probe_vector"] = own.tobytes()
        return facts

    # -- the engines ----------------------------------------------------------------------------------------

    def _update_engines(self) -> None:
        """Bring the keyword index up to date, and pack the rows if many belong to deleted or replaced texts."""
        self._index.sync_keywords()
        end = int(self._index.catalog.facts()["next_row"])
        if self._index.generation.is_packing_due(end, len(self._index.keywords.index)) and self._index.tidy():
            self.pack()
            self._index.sync_keywords()

    def pack(self) -> None:
        """Write the vectors of existing rows to new files, in which they are next to each other, and switch to them.

        Without enough space on the disk, the old files stay in use. The caller must hold the write lock.
        """
        index, catalog = self._index, self._index.catalog
        try:
            fresh = index.generation.packed(int(catalog.facts()["next_row"]), catalog.row_numbers())
            try:
                self._switch_to(fresh)
            except StoreError:
                fresh.clear()
                raise
        except (OSError, StoreError):
            logger.warning("the space of deleted vectors in %s was not freed", index.settings.path, exc_info=True)
            return
        index.snapshot()
        index.tidy()

    def _switch_to(self, fresh: Generation, **facts: Any) -> None:
        """Make another generation the current one, and record ``facts`` about it, in a single commit."""
        index = self._index
        packing = {} if fresh.packing is None else {"packing": json.dumps(fresh.packing)}
        # With the lock, the commit and the new generation become visible to other threads at the same moment.
        with index.refresh_lock:
            with index.catalog.writing() as connection:
                catalog_writes.delete_facts(connection, "packing")
                catalog_writes.set_facts(connection, generation=fresh.number, **packing, **facts)
                catalog_writes.log_changes(connection, [])
            index.use_generation(fresh)

    # -- fitting --------------------------------------------------------------------------------------------

    def _is_fit_due(self) -> bool:
        """Return whether the embedding must be fitted now.

        A fit is due if there is none or its model cannot be read, or if texts have doubled or differ too much; but only
        if one in a hundred texts is new, because a fit reads all of them.
        """
        catalog, generation = self._index.catalog, self._index.generation
        if not isinstance(self._index.settings.embedding, FittedEmbedding):
            return False
        facts = catalog.facts()
        fitted, end = int(facts.get("fitted_row", -1)), int(facts["next_row"])
        if fitted == end and not generation.unusable_files:
            return False  # avoids reading the model
        if self._index.is_unfitted(generation):
            return catalog.count_rows() > 0
        fitted_texts = int(facts["fitted_texts"])
        if end - fitted < min(NEWEST_TEXTS, fitted_texts // 100):
            return False
        model = generation.embedding
        assert isinstance(model, FittedEmbedding), "what a model is read from is of the kind that was passed in"
        newest = [entry.text for entry in catalog.iterate(max(fitted, end - NEWEST_TEXTS))]
        return catalog.count_rows() >= max(1, 2 * fitted_texts) or model.needs_refit(newest)

    def refit(self) -> int:
        """Fit the embedding to the stored texts, embed them again as a new generation, and return their number.

        The caller must hold the write lock, and the embedding must be one that is fitted to texts.
        """
        index, catalog = self._index, self._index.catalog
        model = index.generation.embedding
        assert isinstance(model, FittedEmbedding), "only such an embedding can be fitted"
        chunks = catalog.count_rows()
        if not chunks:
            return 0
        every = -(-chunks // FIT_TEXTS)
        report("embedding", 0, chunks, "chunks")
        fitted = copy.copy(model)
        texts = [entry.text for place, entry in enumerate(catalog.iterate()) if place % every == 0]
        vectors = None
        if every == 1 and isinstance(fitted, TransformsFitted):
            vectors = fitted.fit_transform(texts)
        else:
            fitted = fitted.fit(texts)
        del texts
        old, end = index.generation, int(catalog.facts()["next_row"])
        if chunks < end:
            fresh = old.next_packing(old.number + 1, end, catalog.row_numbers(), fitted)
        else:
            fresh = Generation(index.settings.path, old.number + 1, None, fitted)
        fresh.begin()
        if fresh.model_file is not None:
            fitted.save(fresh.model_file)
        fresh.fill(self._embedded_pages(fitted, chunks, vectors))
        first = next(catalog.iterate())
        probe = probe_facts(index.settings.name, fresh, first.row or 0, first.text)
        self._switch_to(fresh, fitted_row=end, fitted_texts=chunks, **probe)
        index.snapshot()
        index.tidy()
        return chunks

    def _embedded_pages(
        self, model: FittedEmbedding, chunks: int, vectors: NDArray[Any] | None
    ) -> Iterator[tuple[list[int], NDArray[Any], list[bytes]]]:
        done = 0
        for page in self._index.catalog.pages(step=EMBEDDED_AT_ONCE):
            texts = [entry.text for entry in page]
            page_vectors = model.embed_documents(texts) if vectors is None else vectors[done : done + len(page)]
            yield [entry.row or 0 for entry in page], unit(page_vectors), [*map(text_hash, texts)]
            done += len(page)
            report("embedding", done, chunks, "chunks")


EarlyVectors = tuple[int, dict[str, "Vector"], int]
"""Number of a generation, vectors by text from before the write lock was taken, and how many its model computed."""


def _vectors_of_same_texts(
    generation: Generation, changed: Sequence[ChunkRow], stored: Mapping[str, StoredHashes]
) -> dict[str, Vector]:
    matrix = generation.matrix
    numbers = {
        entry.text: (old.row, entry.text_hash)
        for entry in changed
        if (old := stored.get(entry.id)) and old.row is not None and old.text_hash == entry.text_hash
    }
    if matrix is None or not numbers:
        return {}
    number_list, hashes = map(list, zip(*numbers.values(), strict=True))
    rows = generation.numbers.rows(number_list)
    each = zip(numbers, matrix.take(rows), matrix.intact(rows, hashes).tolist(), strict=True)
    # Of a row that another thread writes while this index in memory is packed, the old matrix has only zeros.
    return {text: vector for text, vector, is_intact in each if is_intact and vector.any()}


def _changes(entry: ChunkRow, stored_hashes: StoredHashes | None) -> bool:
    return stored_hashes is None or stored_hashes.kind != entry.kind or stored_hashes.content_hash != entry.content_hash


def _key(edge: Edge) -> tuple[str, str, str]:
    return edge.source, edge.target, edge.relation
