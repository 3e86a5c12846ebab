"""Writes to a store in Milvus.

Milvus has no transactions across collections. Chunks refer to parents, and edges refer to chunks. Therefore, parents
are written first, then chunks, and then edges; deletions use the reverse order. To complete a failed write, repeat it.
Chunks that were already written are then neither embedded again nor counted as changed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from langchain_hybridgraph.chunks import reference
from langchain_hybridgraph.execution.processes import in_slices
from langchain_hybridgraph.execution.threads import ForkSafeLock
from langchain_hybridgraph.records import checked_edges
from langchain_hybridgraph.stores.chunk_rows import CHUNK, catalog_rows
from langchain_hybridgraph.stores.milvus.filters import has_any, mark, texts
from langchain_hybridgraph.stores.milvus.index import MilvusIndex, in_parts
from langchain_hybridgraph.stores.milvus.limits import MOST_BATCH_BYTES, MOST_ROWS
from langchain_hybridgraph.stores.milvus.rows import (
    check_row,
    chunk_row,
    edge_rows,
    heaviest,
    neighbour_row,
    upsert_request,
    words_of,
)
from langchain_hybridgraph.stores.milvus.schema import collection_schemas, input_fields
from langchain_hybridgraph.stores.vectors import unit

if TYPE_CHECKING:
    from concurrent.futures import Future

    from langchain_hybridgraph.chunks import Chunk, Vector
    from langchain_hybridgraph.records import Edge
    from langchain_hybridgraph.stores.chunk_rows import ChunkRow

STORED_FIELDS = ("id", "content_hash", "text_hash", "neighbours")
# Largest number of chunks whose neighbours are collected before their lists are written.
MOST_NOTED = 10_000
NEW: Mapping[str, Any] = MappingProxyType({"neighbours": ()})
# Unlike a server, milvus-lite does not support concurrent writes.
_LITE_TURN = ForkSafeLock()


class Writer:
    """Writer for chunks, parents and edges in Milvus.

    Each chunk's row lists the chunk's neighbours, so that a traversal can read the edges of a chunk and of its
    neighbours in the same call. If a chunk is written before its edges, :meth:`flush` completes its list. The lists
    only save calls: a traversal also finds neighbours that are missing from them.
    """

    def __init__(self, index: MilvusIndex) -> None:
        self._index = index
        self._noted: dict[str, list[str]] = {}

    def upsert(
        self,
        chunks: Sequence[Chunk],
        parents: Sequence[Chunk],
        edges: Sequence[Edge],
        vectors: Sequence[Sequence[float]] | None,
    ) -> dict[str, int]:
        """Write a batch and return the counts defined by ``stores.protocols.AcceptsChunks``."""
        index = self._index
        own_vectors = self._given_vectors(chunks, vectors)
        edges = checked_edges(edges)
        neighbours = _targets(edges)
        rows = catalog_rows(chunks, parents, index.tenant_name)
        for row in rows:
            check_row(row)
        counts = {"added": 0, "updated": 0, "unchanged": 0, "embedded": 0}
        for collection, is_chunk in ((index.names.parents, False), (index.names.chunks, True)):
            of_kind = {row.id: row for row in rows if (row.kind == CHUNK) is is_chunk}
            stored = self._stored_rows(collection, list(of_kind))
            changed = [
                row
                for id, row in of_kind.items()
                if id not in stored or stored[id]["content_hash"] != row.content_hash.hex()
            ]
            counts["added"] += sum(row.id not in stored for row in changed)
            counts["updated"] += sum(row.id in stored for row in changed)
            counts["unchanged"] += len(of_kind) - len(changed)
            units: dict[str, Vector] = {}
            if is_chunk:
                same = [
                    row.id for row in changed if row.id in stored and stored[row.id]["text_hash"] == row.text_hash.hex()
                ]
                units = self._stored_vectors(same) | own_vectors
                missing = [row for row in changed if row.id not in units]
                units |= self._embedded(missing)
                counts["embedded"] += len(missing)
            neighbour_ids = {
                row.id: [*stored.get(row.id, NEW)["neighbours"], *neighbours.pop(row.id, ())] for row in changed
            }
            self._write_rows(collection, changed, units, neighbour_ids)
        self._add_edges(edges)
        self._note_neighbours(neighbours)
        return counts

    def flush(self) -> None:
        """Write pending lists of neighbours. In milvus-lite, also build the indexes.

        Without indexes, milvus-lite compares a query with every row. A server builds its indexes automatically and
        limits the rate of flush requests, so no flush request is sent to it.
        """
        self._write_neighbours()
        connection = self._index.connection
        if connection.is_lite:
            for collection in self._index.names:
                connection.call("flush", collection_name=collection)

    def remove(self, ids: Sequence[str]) -> int:
        """Delete chunks and parents together with their edges; return the number deleted.

        Parents left without children are also deleted, but not included in the number.
        """
        index, names = self._index, self._index.names
        removed, parents = 0, set()
        for keys in in_parts([index.key(id) for id in dict.fromkeys(ids)]):
            self._delete(names.edges, f"(source_key in {texts(keys)} or target_key in {texts(keys)})")
            for collection in (names.chunks, names.parents):
                stored = index.read(collection, index.with_keys(keys), ["parent"], len(keys))
                parents |= {row["parent"] for row in stored if row["parent"]}
                removed += len(stored)
                if stored:
                    self._delete(collection, f"key in {texts(row['key'] for row in stored)}")
            index.note_write(keys)
        self._remove_childless(parents - set(ids))
        return removed

    def replace_edges(self, sources: Sequence[str], relations: Sequence[str], edges: Sequence[Edge]) -> int:
        """Delete all edges that have one of these sources and one of these relations, and write ``edges`` instead.

        Return the number of distinct edges in ``edges``.
        """
        index = self._index
        new = heaviest(checked_edges(edges))
        new_keys = {(edge.source, edge.target, edge.relation) for edge in new}
        for keys in in_parts([index.key(id) for id in dict.fromkeys(sources)]):
            condition = f"source_key in {texts(keys)} and relation in {texts(relations)}"
            stored = index.read_all(index.names.edges, index.of_tenant(condition), ["source", "target", "relation"])
            removed = [row["key"] for row in stored if (row["source"], row["target"], row["relation"]) not in new_keys]
            for part in in_parts(removed):
                self._delete(index.names.edges, f"key in {texts(part)}")
        self._write(index.names.edges, edge_rows(new, index.tenant_name))
        self._note_neighbours(_targets(new))
        return len(new)

    # -- parts of a write -------------------------------------------------------------------------------------

    def _stored_rows(self, collection: str, ids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        """Return the stored hashes and neighbours of the rows with these ids, by id."""
        index, stored = self._index, {}
        for keys in in_parts([index.key(id) for id in ids]):
            for row in index.read(collection, index.with_keys(keys), STORED_FIELDS, len(keys)):
                stored[row["id"]] = row
        return stored

    def _given_vectors(self, chunks: Sequence[Chunk], vectors: Sequence[Sequence[float]] | None) -> dict[str, Vector]:
        """Return the vectors passed by the caller, scaled to length 1, by id."""
        if vectors is None or not chunks:
            return {}
        for vector in vectors:
            self._index.check_width(len(vector))
        return dict(zip((chunk.id for chunk in chunks), unit(vectors), strict=True))

    def _stored_vectors(self, ids: Sequence[str]) -> dict[str, Vector]:
        rows = self._index.rows(self._index.names.chunks, ids, with_vectors=True)
        return {id: row.vector for id, row in rows.items() if row.vector is not None}

    def _embedded(self, rows: Sequence[ChunkRow]) -> dict[str, Vector]:
        """Return the vectors of the rows' texts."""
        if not rows:
            return {}
        parts = in_slices([row.text for row in rows], "embedding", "chunks")
        vectors = np.concatenate([unit(self._index.embedding.embed_documents(list(part))) for part in parts])
        self._index.check_width(vectors.shape[-1])
        return dict(zip((row.id for row in rows), vectors, strict=True))

    def _write_rows(
        self,
        collection: str,
        rows: Sequence[ChunkRow],
        vectors: Mapping[str, Vector],
        neighbours: Mapping[str, Sequence[str]],
    ) -> None:
        added_at = time.time_ns()
        self._write(
            collection,
            (
                self._prepare_row(chunk_row(row, added_at + n, neighbours[row.id]), row, vectors)
                for n, row in enumerate(rows)
            ),
        )

    def _prepare_row(self, stored: dict[str, Any], row: ChunkRow, vectors: Mapping[str, Vector]) -> dict[str, Any]:
        if row.kind != CHUNK:
            return stored | {"unused": [0.0, 1.0]}
        words = words_of(self._index.analyzer, row)
        return stored | {"vector": vectors[row.id], "words": words}

    def _add_edges(self, edges: Sequence[Edge]) -> None:
        """Write edges, except those that are already stored with an equal or larger weight.

        Two edges are the same if they have the same source, target and relation.
        """
        index = self._index
        rows = {row["key"]: row for row in edge_rows(heaviest(edges), index.tenant_name)}
        for keys in in_parts(list(rows)):
            stored = index.read(index.names.edges, index.with_keys(keys), ["key", "weight"], len(keys))
            for row in stored:
                if row["weight"] >= rows[row["key"]]["weight"]:
                    del rows[row["key"]]
        self._write(index.names.edges, list(rows.values()))

    def _note_neighbours(self, neighbours: Mapping[str, Sequence[str]]) -> None:
        """Collect neighbours of chunks. They are written later, because more edges of the same chunks may follow."""
        for id, neighbour_ids in neighbours.items():
            self._noted.setdefault(id, []).extend(neighbour_ids)
        if len(self._noted) > MOST_NOTED:
            self._write_neighbours()

    def _write_neighbours(self) -> None:
        """Add the collected neighbours to the lists in the stored chunks' rows."""
        index, collection = self._index, self._index.names.chunks
        noted, self._noted = self._noted, {}
        for keys in in_parts([index.key(id) for id in noted]):
            changed = []
            for row in index.read(collection, index.with_keys(keys), ["key", "id", "neighbours"], len(keys)):
                neighbour_ids = dict.fromkeys([*row["neighbours"], *noted[row["id"]]])
                if len(neighbour_ids) > len(row["neighbours"]):
                    changed.append(neighbour_row(index.tenant_name, row["key"], neighbour_ids))
            for start in range(0, len(changed), MOST_ROWS):
                part = changed[start : start + MOST_ROWS]
                self._change("upsert", collection_name=collection, data=part, partial_update=True)
            index.recent.drop(row["key"] for row in changed)

    def _write(self, collection: str, rows: Iterable[dict[str, Any]]) -> None:
        """Write rows in batches; each batch is prepared while the previous one is being written."""
        running: Future[None] | None = None
        with ThreadPoolExecutor(1) as sender:
            for batch in _batches(rows):
                request = upsert_request(collection, batch, self._kinds[collection])
                if running is not None:
                    running.result()
                running = sender.submit(self._send, request, [row["key"] for row in batch])
            if running is not None:
                running.result()

    def _send(self, request: Any, keys: Sequence[str]) -> None:
        with self._turn():
            self._index.connection.upsert(request)
        self._index.note_write(keys)

    @cached_property
    def _kinds(self) -> dict[str, dict[str, str]]:
        schemas = collection_schemas(self._index.facts)
        return {name: input_fields(schema) for name, schema in zip(self._index.names, schemas, strict=True)}

    def _delete(self, collection: str, condition: str) -> None:
        self._change("delete", collection_name=collection, filter=self._index.of_tenant(condition))

    def _change(self, method: str, **arguments: Any) -> None:
        with self._turn():
            self._index.connection.call(method, **arguments)

    def _turn(self) -> AbstractContextManager[Any]:
        return _LITE_TURN if self._index.connection.is_lite else nullcontext()

    def _remove_childless(self, parents: set[str]) -> None:
        index, orphans = self._index, []
        for parent in sorted(parents):
            child = has_any([mark("parent", reference(parent))])
            if not index.read(index.names.chunks, index.of_tenant(child), ["key"], 1):
                orphans.append(index.key(parent))
        for keys in in_parts(orphans):
            self._delete(index.names.parents, f"key in {texts(keys)}")


def _targets(edges: Sequence[Edge]) -> dict[str, list[str]]:
    """Return the targets of the edges, by source."""
    targets: dict[str, list[str]] = {}
    for edge in edges:
        targets.setdefault(edge.source, []).append(edge.target)
    return targets


def _batches(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        bytes = len(row.get("text", "")) + len(row.get("words", "")) + 4 * len(row.get("vector", ())) + 500
        if batch and (len(batch) == MOST_ROWS or size + bytes > MOST_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += bytes
    if batch:
        yield batch
