"""Writes to a store in Milvus."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from langchain_hybridgraph.chunks import reference
from langchain_hybridgraph.execution.processes import in_slices
from langchain_hybridgraph.execution.threads import ForkSafeLock
from langchain_hybridgraph.records import Edge, checked_edges, heaviest_edges
from langchain_hybridgraph.stores.chunk_rows import CHUNK, ChunkRow, catalog_rows
from langchain_hybridgraph.stores.milvus.filters import has_any, mark, texts
from langchain_hybridgraph.stores.milvus.schema import (
    UNUSED,
    check_row,
    chunk_row,
    edge_rows,
    neighbours_field,
)
from langchain_hybridgraph.stores.milvus.search import MilvusIndex, in_parts, words_of
from langchain_hybridgraph.stores.vectors import unit

if TYPE_CHECKING:
    from langchain_hybridgraph.chunks import Chunk, Vector


STORED_FIELDS = ("id", "content_hash", "text_hash", "neighbours")
# Maximum number of rows and of bytes in one write. A gRPC message can have 64 MB, and many servers accept less. An
# upsert of 1,000 chunks takes several writes, each of which is prepared while the server processes the one before.
MOST_ROWS = 250
MOST_BATCH_BYTES = 16_000_000
# Largest number of chunks whose neighbours are collected before their lists are written.
MOST_NOTED = 10_000
# Unlike a server, milvus-lite does not support concurrent writes.
_LITE_TURN = ForkSafeLock()


class MilvusWriter:
    """The part of a store in Milvus that writes chunks, parents and edges.

    Each chunk's row lists the chunk's neighbours, so that a traversal can read the edges of both in the same call. If a
    chunk is written before its edges, :meth:`flush` completes its list, on which no result depends.
    """

    def __init__(self, index: MilvusIndex) -> None:
        self._index = index
        self._noted: dict[str, list[str]] = {}

    def upsert(
        self,
        chunks: Sequence[Chunk],
        *,
        parents: Sequence[Chunk] = (),
        edges: Sequence[Edge] = (),
        vectors: Sequence[Sequence[float]] | None = None,
    ) -> dict[str, int]:
        """Write a batch (see ``stores.protocols.AcceptsChunks``).

        The call is not a transaction: after a failure, part of the batch may have been written; repeat it to complete
        it.
        """
        index = self._index
        own_vectors: dict[str, Vector] = {}
        if vectors is not None and chunks:
            for vector in vectors:
                index.check_width(len(vector))
            own_vectors = dict(zip((chunk.id for chunk in chunks), unit(vectors), strict=True))
        edges = checked_edges(edges)
        neighbours = _targets(edges)
        rows = catalog_rows(chunks, parents, index.tenant)
        for row in rows:
            check_row(row)
        counts = {"added": 0, "updated": 0, "unchanged": 0, "embedded": 0}
        for collection, is_chunk in ((index.names.parents, False), (index.names.chunks, True)):
            of_kind = {row.id: row for row in rows if (row.kind == CHUNK) is is_chunk}
            keys = [index.key(id) for id in of_kind]
            stored = {row["id"]: row for row in index.read_keys(collection, keys, STORED_FIELDS)}
            changed = [
                row
                for id, row in of_kind.items()
                if id not in stored or stored[id]["content_hash"] != row.content_hash.hex()
            ]
            updated = [row for row in changed if row.id in stored]
            counts["added"] += len(changed) - len(updated)
            counts["updated"] += len(updated)
            counts["unchanged"] += len(of_kind) - len(changed)
            units: dict[str, Vector] = {}
            if is_chunk:
                same_text = [row.id for row in updated if stored[row.id]["text_hash"] == row.text_hash.hex()]
                same_rows = index.rows(collection, same_text, with_vectors=True)
                units = {id: row.vector for id, row in same_rows.items() if row.vector is not None} | own_vectors
                missing = [row for row in changed if row.id not in units]
                units |= self._embedded(missing)
                counts["embedded"] += len(missing)
            neighbour_ids = {
                row.id: [*(stored[row.id]["neighbours"] if row.id in stored else ()), *neighbours.pop(row.id, ())]
                for row in changed
            }
            self._write(collection, self._rows(changed, neighbour_ids, units))
        self._add_edges(edges)
        self._note_neighbours(neighbours)
        return counts

    def flush(self) -> int:
        """Write pending lists of neighbours and return 0, because ``upsert`` has already embedded all texts.

        In milvus-lite, also build the indexes, which a server does by itself.
        """
        self._write_neighbours()
        connection = self._index.connection
        if connection.is_lite:
            for collection in self._index.names:
                connection.call("flush", collection_name=collection)
        return 0

    def remove(self, ids: Sequence[str]) -> int:
        """Delete chunks and parents together with their edges; return the number deleted.

        Parents that are left without children are deleted, too, but they are not included in the number.
        """
        index, names = self._index, self._index.names
        removed, parents = 0, set()
        for keys in in_parts([index.key(id) for id in dict.fromkeys(ids)]):
            self._delete(names.edges, f"(source_key in {texts(keys)} or target_key in {texts(keys)})")
            for collection in (names.chunks, names.parents):
                stored = list(index.read_keys(collection, keys, ["parent"]))
                parents |= {row["parent"] for row in stored if row["parent"]}
                removed += len(stored)
                if stored:
                    self._delete(collection, f"key in {texts(row['key'] for row in stored)}")
            index.note_write(keys)
        childless = []
        for parent in sorted(parents - set(ids)):
            child = has_any([mark("parent", reference(parent))])
            if not index.read(names.chunks, index.of_tenant(child), ["key"], 1):
                childless.append(index.key(parent))
        for keys in in_parts(childless):
            self._delete(names.parents, f"key in {texts(keys)}")
        return removed

    def replace_edges(self, sources: Sequence[str], relations: Sequence[str], edges: Sequence[Edge]) -> int:
        """Replace the edges that have one of these sources and one of these relations; return the number written.

        Of several ``edges`` with the same source, target and relation, only the heaviest is written.
        """
        index, collection = self._index, self._index.names.edges
        edges = list(heaviest_edges(checked_edges(edges)).values())
        new = {row["key"]: row for row in edge_rows(edges, index.tenant)}
        for keys in in_parts([index.key(id) for id in dict.fromkeys(sources)]):
            condition = f"source_key in {texts(keys)} and relation in {texts(relations)}"
            stored = index.read_all(collection, index.of_tenant(condition), ["key"])
            for part in in_parts([row["key"] for row in stored if row["key"] not in new]):
                self._delete(collection, f"key in {texts(part)}")
        self._write(collection, new.values())
        self._note_neighbours(_targets(edges))
        return len(new)

    # -- parts of a write -------------------------------------------------------------------------------------

    def _rows(
        self, rows: Sequence[ChunkRow], neighbours: Mapping[str, Sequence[str]], vectors: Mapping[str, Vector]
    ) -> Iterator[dict[str, Any]]:
        now = time.time_ns()
        for n, row in enumerate(rows):
            fields = chunk_row(row, now + n, neighbours[row.id])
            if row.kind == CHUNK:
                yield fields | {"vector": vectors[row.id], "words": words_of(self._index.analyzer, row)}
            else:
                yield fields | {"unused": UNUSED}

    def _embedded(self, rows: Sequence[ChunkRow]) -> dict[str, Vector]:
        if not rows:
            return {}
        parts = in_slices([row.text for row in rows], "embedding", "chunks")
        vectors = np.concatenate([unit(self._index.embedding.embed_documents(list(part))) for part in parts])
        self._index.check_width(vectors.shape[-1])
        return dict(zip((row.id for row in rows), vectors, strict=True))

    def _add_edges(self, edges: Sequence[Edge]) -> None:
        """Write edges, except those that are already stored with an equal or larger weight."""
        index, collection = self._index, self._index.names.edges
        rows = {row["key"]: row for row in edge_rows(heaviest_edges(edges).values(), index.tenant)}
        for row in index.read_keys(collection, list(rows), ["key", "weight"]):
            if row["weight"] >= rows[row["key"]]["weight"]:
                del rows[row["key"]]
        self._write(collection, rows.values())

    def _note_neighbours(self, neighbours: Mapping[str, Sequence[str]]) -> None:
        """Collect neighbours of chunks. They are written later, because more edges of the same chunks may follow."""
        for id, neighbour_ids in neighbours.items():
            self._noted.setdefault(id, []).extend(neighbour_ids)
        if len(self._noted) > MOST_NOTED:
            self._write_neighbours()

    def _write_neighbours(self) -> None:
        index, collection = self._index, self._index.names.chunks
        noted, self._noted = self._noted, {}
        changed = []
        for row in index.read_keys(collection, [index.key(id) for id in noted], ["key", "id", "neighbours"]):
            ids = dict.fromkeys([*row["neighbours"], *noted[row["id"]]])
            if len(ids) > len(row["neighbours"]):
                changed.append({"key": row["key"], "tenant": index.tenant, "neighbours": neighbours_field(ids)})
        for start in range(0, len(changed), MOST_ROWS):
            part = changed[start : start + MOST_ROWS]
            with self._turn():
                index.connection.call("upsert", collection_name=collection, data=part, partial_update=True)
        index.recent.drop(row["key"] for row in changed)

    def _write(self, collection: str, rows: Iterable[dict[str, Any]]) -> None:
        """Write rows in batches; each batch is prepared while the previous one is being written."""
        running: Future[None] | None = None
        with ThreadPoolExecutor(1) as sender:
            for batch in _batches(rows):
                if running is not None:
                    running.result()
                running = sender.submit(self._send, collection, batch)
            if running is not None:
                running.result()

    def _send(self, collection: str, batch: list[dict[str, Any]]) -> None:
        with self._turn():
            self._index.connection.call("upsert", collection_name=collection, data=batch)
        self._index.note_write([row["key"] for row in batch])

    def _delete(self, collection: str, condition: str) -> None:
        with self._turn():
            filter = self._index.of_tenant(condition)
            self._index.connection.call("delete", collection_name=collection, filter=filter)

    def _turn(self) -> AbstractContextManager[Any]:
        return _LITE_TURN if self._index.connection.is_lite else nullcontext()


def _targets(edges: Sequence[Edge]) -> dict[str, list[str]]:
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
