"""Chunks, parents and edges in Milvus."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from langchain_hybridgraph import records
from langchain_hybridgraph.chunks import Chunk, reference
from langchain_hybridgraph.errors import ConfigurationError, check_number, quote_value
from langchain_hybridgraph.execution.processes import in_slices
from langchain_hybridgraph.execution.threads import ForkSafeLock
from langchain_hybridgraph.memory_scores import MemoryColumns, state_in
from langchain_hybridgraph.stores.chunk_rows import CHUNK, PARENT, ChunkRow, catalog_rows, text_hash
from langchain_hybridgraph.stores.generations import Embedding, NoEmbedding
from langchain_hybridgraph.stores.milvus import schema, search
from langchain_hybridgraph.stores.milvus.connection import MOST_KEYS, TIMEOUT, Address, MilvusConnection, client_library
from langchain_hybridgraph.stores.milvus.graph import FetchedGraph
from langchain_hybridgraph.stores.milvus.search import Consistency, MilvusIndex, in_parts, words_of
from langchain_hybridgraph.stores.protocols import Graph, HybridResult
from langchain_hybridgraph.stores.tree import Tree, tree_of_chunks
from langchain_hybridgraph.stores.vectors import unit
from langchain_hybridgraph.text.analyzer import Analyzer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.chunks import Vector

STORED_FIELDS = ("id", "content_hash", "text_hash", "neighbours")
# Maximum number of rows and of bytes in one write. A gRPC message can have 64 MB, and many servers accept less. An
# upsert of 1,000 chunks takes several writes, each of which is prepared while the server processes the one before.
MOST_ROWS = 250
MOST_BATCH_BYTES = 16_000_000
# Largest number of chunks whose neighbours are collected before their lists are written.
MOST_NOTED = 10_000
# Unlike a server, milvus-lite does not support concurrent writes.
_LITE_TURN = ForkSafeLock()

LACKS: Mapping[str, str] = MappingProxyType(
    {
        "summaries": "`HierarchicalRetriever` ranks directories by their documents instead.",
        "memory updates": "`MemoryRetriever` uses only the values in the metadata.",
        "history": "`known_at=` leaves out chunks that were written later, but old versions of a chunk are not kept.",
        "files": "`ingest` reads all files; unchanged texts are neither embedded nor written again.",
        "transactions": "A write that failed must be repeated to be completed.",
        "fitted embeddings": "The vectors of a fitted model change with the texts; use a pretrained model.",
    }
)


class MilvusChunkStore:
    """A store in three Milvus collections (chunks, parents, edges), searched by vector, keyword and graph.

    ``embedding`` computes the vectors, and its ``name`` identifies its model. Options and errors are those of
    ``MilvusStore``. Raises ValueError for a tenant name that cannot be stored.

    Each chunk's row lists the chunk's neighbours, so that a traversal can read the edges of both in the same call. If a
    chunk is written before its edges, :meth:`flush` completes its list, on which no result depends.
    """

    lacks = LACKS

    def __init__(
        self,
        uri: str,
        embedding: Embedding | str,
        *,
        token: str = "",
        database: str = "",
        tenant: str | None = None,
        collection: str = schema.COLLECTION,
        language: str | None = None,
        consistency: Consistency = "Session",
        timeout: float = TIMEOUT,
    ) -> None:
        if tenant is not None:
            records.check_name(tenant, "a tenant")
        if not (collection.isascii() and collection.isidentifier()):
            raise ConfigurationError(
                f"collection must consist of letters, digits and underscores, got {quote_value(collection)}"
            )
        check_number("timeout", timeout, gt=0)
        model, name = self._named_model(embedding, language or "english")
        client_library()
        connection = MilvusConnection(Address.parse(uri, token, database), timeout)
        names = schema.Collections.of(collection)
        dimension = model.dimension if isinstance(model, NoEmbedding) else len(model.embed_query("dimension"))
        language_name = Analyzer(language or "english").language
        requested = schema.CollectionSettings(name, dimension, language_name, tenant is not None)
        facts = schema.open_collections(connection, names, requested, language_given=language is not None)
        self._index = index = MilvusIndex(connection, names, facts, model, tenant or "", consistency)
        self._noted: dict[str, list[str]] = {}  # neighbours that :meth:`flush` writes
        self.tenant = tenant
        self.memory = MilvusMemory(index)
        self.sessions = MilvusSessions(index)

    def _named_model(self, embedding: Any, language: str) -> tuple[Embedding, str]:
        """Return the embedding to use and the name that identifies its model."""
        return embedding, embedding.name

    @classmethod
    def settings_of(
        cls, uri: str, *, token: str = "", collection: str = schema.COLLECTION
    ) -> schema.CollectionSettings | None:
        """Return the settings with which a store was created, or None without a store. Raises as the constructor."""
        client_library()
        with closing(MilvusConnection(Address.parse(uri, token), TIMEOUT)) as connection:
            return schema.stored_facts(connection, schema.Collections.of(collection))

    def tenants(self) -> list[str]:
        """Return the names of all tenants of the collections, sorted; this reads the tenant of every row."""
        index = self._index
        return sorted({row["tenant"] for name in index.names for row in index.read_all(name, 'key > ""', ["tenant"])})

    @property
    def name(self) -> str:
        """Name of the embedding model."""
        return self._index.facts.embedding

    @property
    def language(self) -> str:
        """Language whose stemming and stop words are used."""
        return self._index.facts.language

    def close(self) -> None:
        """Close the connection to the server."""
        self._index.connection.close()

    # -- reading ----------------------------------------------------------------------------------------------

    def read(self, ids: Sequence[str], scope: records.Scope, result_chunks: Mapping[str, Chunk]) -> dict[str, Chunk]:
        """Return the chunks among ``ids`` that exist and are in the scope (see ``stores.protocols.ReadsChunks``)."""
        self._index.check_scope(scope)
        rows = self._index.recent_rows(ids)
        return {id: row.chunk for id, row in rows.items() if row.is_in(scope)}

    @property
    def has_parents(self) -> bool:
        """Whether the store has any parents, or any chunk with the id of a parent; may lag by a minute."""
        names = self._index.names
        return self._index.has_rows(names.parents) or self._index.has_rows(names.chunks, 'parent != ""')

    def read_parents(self, ids: Sequence[str], scope: records.Scope) -> dict[str, Chunk]:
        """Return the parents among ``ids`` that exist and are valid (see ``stores.protocols.HasParents``)."""
        self._index.check_scope(scope)
        rows = self._index.rows(self._index.names.parents, ids)
        rows |= self._index.recent_rows([id for id in ids if id not in rows])
        return {id: row.chunk for id, row in rows.items() if row.is_in(scope, filtered=False)}

    def get(self, ids: Sequence[str]) -> list[Chunk]:
        """Return the chunks and parents with these ids, valid or not, in their order; missing ids are left out."""
        names = self._index.names
        rows = self._index.rows(names.parents, ids) | self._index.rows(names.chunks, ids)
        return [rows[id].chunk for id in dict.fromkeys(ids) if id in rows]

    def document_chunks(self, document_ids: Sequence[str]) -> dict[str, set[str]]:
        """Return the ids of each document's current chunks and parents, or an empty set for an unknown document."""
        chunks: dict[str, set[str]] = {id: set() for id in document_ids}
        by_reference = {reference(id): id for id in chunks}
        for part in in_parts(list(by_reference)):
            filter = self._index.of_tenant(schema.has_any([schema.mark("document", name) for name in part]))
            for collection in (self._index.names.chunks, self._index.names.parents):
                for row in self._index.read_all(collection, filter, ["id", "document"]):
                    chunks[by_reference[row["document"]]].add(row["id"])
        return chunks

    def document_ids(self) -> list[str]:
        """Return the ids of all documents, sorted."""
        index, filter = self._index, self._index.of_tenant()
        names = index.names.chunks, index.names.parents
        return sorted({row["document"] for name in names for row in index.read_all(name, filter, ["document"])})

    def ids_of_contents(self, contents: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Return the ids of the chunks with these texts and sources (see ``stores.protocols.FindsContents``)."""
        id_of = {}
        for part in in_parts([schema.mark("hash", text_hash(text).hex()) for text, _ in contents]):
            for row in self._index.all_rows(self._index.of_tenant(schema.has_any(part))):
                id_of[row.chunk.text, str(row.chunk.metadata.get("source", ""))] = row.chunk.id
        return {content: id_of[content] for content in contents if content in id_of}

    def find(self, scope: records.Scope) -> list[str]:
        """Return the ids of all chunks in this scope, in the order in which they were added or last changed."""
        return [row.chunk.id for row in self._index.all_rows(self._index.in_scope(scope)) if row.is_in(scope)]

    def list_chunks(self, scope: records.Scope, n: int) -> records.SourceResult:
        """Return the first ``n`` chunks of a scope, in the order in which they were added or last changed.

        Milvus does not order rows, so the write times of all chunks in the scope are read first, then the ``n`` chunks.
        """
        index = self._index
        rows = index.read_all(index.names.chunks, index.in_scope(scope), ["id", "added_at"])
        ids_in_order = [row["id"] for row in sorted(rows, key=lambda row: (row["added_at"], row["key"]))]
        ids: list[str] = []
        for part in in_parts(ids_in_order, min(max(n, 100), MOST_KEYS)):
            ids += [id for id, row in index.recent_rows(part).items() if row.is_in(scope)]
            if len(ids) >= n:
                break
        return records.SourceResult.of(dict.fromkeys(ids[: max(n, 0)], 1.0))

    def __len__(self) -> int:
        return self._index.connection.run(self._index.counted(self._index.names.chunks))

    # -- searching --------------------------------------------------------------------------------------------

    def vector_search(self, query: records.Query, n: int) -> records.SourceResult:
        """Return the ``n`` chunks with the largest cosine (see ``stores.protocols.SearchesVectors``)."""
        return self._index.connection.run(search.hybrid_search(self._index, query, n, by_words=False)).vector

    async def avector_search(self, query: records.Query, n: int) -> records.SourceResult:
        """Return the result of :meth:`vector_search` without blocking the event loop."""
        calls = search.hybrid_search(self._index, query, n, by_words=False)
        return (await self._index.connection.arun(calls)).vector

    def keyword_search(self, query: records.Query, n: int) -> records.SourceResult:
        """Return the ``n`` chunks with the largest BM25 score (see ``stores.protocols.SearchesKeywords``)."""
        return self._index.connection.run(search.hybrid_search(self._index, query, n, by_vector=False)).keyword

    def hybrid_search(self, query: records.Query, n: int) -> HybridResult:
        """Run a vector search and a keyword search in one call (see ``stores.protocols.SearchesHybrid``)."""
        return self._index.connection.run(search.hybrid_search(self._index, query, n))

    async def ahybrid_search(self, query: records.Query, n: int) -> HybridResult:
        """Return the result of :meth:`hybrid_search` without blocking the event loop."""
        return await self._index.connection.arun(search.hybrid_search(self._index, query, n))

    def vector_scores(self, vector: Vector, ids: Sequence[str]) -> dict[str, float]:
        """Return the cosine of each of these chunks with a unit vector; missing chunks are left out."""
        rows = self._index.recent_rows(ids, with_vectors=True, are_scored=True)
        return {id: float(row.vector @ vector) for id, row in rows.items() if row.vector is not None}

    def keyword_scores(self, text: str, ids: Sequence[str]) -> dict[str, float]:
        """Return the BM25 score of each of these chunks; chunks that share no word with ``text`` are left out."""
        return self._index.connection.run(search.keyword_scores(self._index, text, ids))

    def vectors(self, ids: Sequence[str]) -> NDArray[np.float32]:
        """Return the chunks' unit vectors, an array of shape (len(ids), dimension), with zeros for unknown chunks."""
        rows = self._index.recent_rows(ids, with_vectors=True)
        vectors = np.zeros((len(ids), self._index.facts.dimension), np.float32)
        for place, id in enumerate(ids):
            if id in rows and (vector := rows[id].vector) is not None:
                vectors[place] = vector
        return vectors

    # -- edges ------------------------------------------------------------------------------------------------

    @property
    def has_graph(self) -> bool:
        """Whether the store has any edges; may lag behind other processes by seconds, or a minute after deletions."""
        return self._index.has_rows(self._index.names.edges)

    def scoped_graph(self, scope: records.Scope, edge_filter: records.EdgeFilter) -> Graph:
        """Return the part of the graph that is visible in a scope (see ``stores.protocols.HasGraph``)."""
        return FetchedGraph(self._index, scope, edge_filter)

    def scoped_tree(self, scope: records.Scope) -> Tree:
        """Return the tree of directories and documents, limited to what is visible in a scope.

        The tree is read again after a write and after two seconds, with one call per 16,384 chunks, so it suits
        thousands of documents rather than millions.
        """
        index = self._index
        index.check_scope(scope)
        read_at, rows, tree = index.tree or (-math.inf, [], None)
        if tree is None or index.written_at > read_at or time.monotonic() > read_at + search.FRESH:
            read_at = time.monotonic()
            rows = index.all_rows(index.of_tenant(), with_vectors=True)
            vectors = {row.chunk.id: row.vector for row in rows if row.vector is not None}

            def nearest(vector: Vector, ids: Sequence[str], n: int) -> Sequence[str]:
                cosines = {id: float(vectors[id] @ vector) for id in ids if id in vectors}
                return sorted(cosines, key=lambda id: -cosines[id])[:n]

            chunks = {number: row.chunk for number, row in enumerate(rows)}
            tree = tree_of_chunks(chunks, len(rows), nearest)
            index.tree = read_at, rows, tree
        state, tree_rows = tree
        return Tree(state, tree_rows, np.array([row.is_in(scope) for row in rows], np.bool_))

    def edges(self, ids: Sequence[str], *, backwards: bool = False) -> list[records.Edge]:
        """Return the edges from these chunks (``backwards``: to them), sorted by source, relation and target."""
        side, results = ("target_key" if backwards else "source_key"), list[records.Edge]()
        for keys in in_parts([self._index.key(id) for id in dict.fromkeys(ids)]):
            filter = self._index.of_tenant(f"{side} in {schema.texts(keys)}")
            rows = self._index.read_all(self._index.names.edges, filter, schema.EDGE_FIELDS)
            results += map(schema.stored_edge, rows)
        return sorted(results, key=lambda edge: (edge.source, edge.relation, edge.target))

    def edge_sources(self) -> list[str]:
        """Return the ids of all chunks and other nodes from which edges lead, sorted."""
        index = self._index
        return sorted({row["source"] for row in index.read_all(index.names.edges, index.of_tenant(), ["source"])})

    # -- writing ----------------------------------------------------------------------------------------------

    def upsert(
        self,
        chunks: Sequence[Chunk],
        *,
        parents: Sequence[Chunk] = (),
        edges: Sequence[records.Edge] = (),
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
                index.check_dimension(len(vector))
            own_vectors = dict(zip((chunk.id for chunk in chunks), unit(vectors), strict=True))
        edges = records.checked_edges(edges)
        rows = catalog_rows(chunks, parents, index.tenant)
        for row in rows:
            schema.check_row(row)
        counts = {"added": 0, "updated": 0, "unchanged": 0, "embedded": 0}
        for collection, kind in ((index.names.parents, PARENT), (index.names.chunks, CHUNK)):
            of_kind = {row.id: row for row in rows if row.kind == kind}
            keys = [index.key(id) for id in of_kind]
            stored = {row["id"]: row for row in index.read_keys(collection, keys, STORED_FIELDS)}
            hashes = {id: row["content_hash"] for id, row in stored.items()}
            changed = [row for id, row in of_kind.items() if hashes.get(id) != row.content_hash.hex()]
            updated = [row for row in changed if row.id in stored]
            counts["added"] += len(changed) - len(updated)
            counts["updated"] += len(updated)
            counts["unchanged"] += len(of_kind) - len(changed)
            units: dict[str, Vector] = {}
            if kind == CHUNK:
                same_text = [row.id for row in updated if stored[row.id]["text_hash"] == row.text_hash.hex()]
                same_rows = index.rows(collection, same_text, with_vectors=True)
                units = {id: row.vector for id, row in same_rows.items() if row.vector is not None} | own_vectors
                missing = [row for row in changed if row.id not in units]
                units |= self._embedded(missing)
                counts["embedded"] += len(missing)
            neighbours = {id: row["neighbours"] for id, row in stored.items()}
            self._write(collection, self._rows(changed, neighbours, units))
        self._add_edges(edges)
        self._note_neighbours(edges)
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
            self._delete(names.edges, f"(source_key in {schema.texts(keys)} or target_key in {schema.texts(keys)})")
            for collection in (names.chunks, names.parents):
                stored = list(index.read_keys(collection, keys, ["parent"]))
                parents |= {row["parent"] for row in stored if row["parent"]}
                removed += len(stored)
                if stored:
                    self._delete(collection, f"key in {schema.texts(row['key'] for row in stored)}")
            index.note_write(keys)
        childless = []
        for parent in sorted(parents - set(ids)):
            child = schema.has_any([schema.mark("parent", reference(parent))])
            if not index.read(names.chunks, index.of_tenant(child), ["key"], 1):
                childless.append(index.key(parent))
        for keys in in_parts(childless):
            self._delete(names.parents, f"key in {schema.texts(keys)}")
        return removed

    def replace_edges(self, sources: Sequence[str], relations: Sequence[str], edges: Sequence[records.Edge]) -> int:
        """Replace the edges that have one of these sources and one of these relations; return the number written.

        Of several ``edges`` with the same source, target and relation, only the heaviest is written.
        """
        index, collection = self._index, self._index.names.edges
        edges = list(records.heaviest_edges(records.checked_edges(edges)).values())
        new = {row["key"]: row for row in schema.edge_rows(edges, index.tenant)}
        for keys in in_parts([index.key(id) for id in dict.fromkeys(sources)]):
            condition = f"source_key in {schema.texts(keys)} and relation in {schema.texts(relations)}"
            stored = index.read_all(collection, index.of_tenant(condition), ["key"])
            for part in in_parts([row["key"] for row in stored if row["key"] not in new]):
                self._delete(collection, f"key in {schema.texts(part)}")
        self._write(collection, new.values())
        self._note_neighbours(edges)
        return len(new)

    # -- parts of a write -------------------------------------------------------------------------------------

    def _rows(
        self, rows: Sequence[ChunkRow], neighbours: Mapping[str, Sequence[str]], vectors: Mapping[str, Vector]
    ) -> Iterator[dict[str, Any]]:
        now = time.time_ns()
        for n, row in enumerate(rows):
            fields = schema.chunk_row(row, now + n, neighbours.get(row.id, ()))
            if row.kind == CHUNK:
                yield fields | {"vector": vectors[row.id], "words": words_of(self._index.analyzer, row)}
            else:
                yield fields | {"unused": schema.UNUSED}

    def _embedded(self, rows: Sequence[ChunkRow]) -> dict[str, Vector]:
        if not rows:
            return {}
        parts = in_slices([row.text for row in rows], "embedding", "chunks")
        vectors = np.concatenate([unit(self._index.embedding.embed_documents(list(part))) for part in parts])
        self._index.check_dimension(vectors.shape[-1])
        return dict(zip((row.id for row in rows), vectors, strict=True))

    def _add_edges(self, edges: Sequence[records.Edge]) -> None:
        """Write edges, except those that are already stored with an equal or larger weight."""
        index, collection = self._index, self._index.names.edges
        rows = {row["key"]: row for row in schema.edge_rows(records.heaviest_edges(edges).values(), index.tenant)}
        for row in index.read_keys(collection, list(rows), ["key", "weight"]):
            if row["weight"] >= rows[row["key"]]["weight"]:
                del rows[row["key"]]
        self._write(collection, rows.values())

    def _note_neighbours(self, edges: Sequence[records.Edge]) -> None:
        """Collect neighbours of chunks. They are written later, because more edges of the same chunks may follow."""
        for edge in edges:
            self._noted.setdefault(edge.source, []).append(edge.target)
        if len(self._noted) > MOST_NOTED:
            self._write_neighbours()

    def _write_neighbours(self) -> None:
        index, collection = self._index, self._index.names.chunks
        noted, self._noted = self._noted, {}
        changed = []
        for row in index.read_keys(collection, [index.key(id) for id in noted], ["key", "id", "neighbours"]):
            ids = dict.fromkeys([*row["neighbours"], *noted[row["id"]]])
            if len(ids) > len(row["neighbours"]):
                changed.append({"key": row["key"], "tenant": index.tenant, "neighbours": schema.neighbours_field(ids)})
        self._write(collection, changed, partial_update=True)

    def _write(self, collection: str, rows: Iterable[dict[str, Any]], *, partial_update: bool = False) -> None:
        """Write rows in batches; each batch is prepared while the previous one is being written."""
        running: Future[None] | None = None
        with ThreadPoolExecutor(1) as sender:
            for batch in _batches(rows):
                if running is not None:
                    running.result()
                running = sender.submit(self._send, collection, batch, partial_update)
            if running is not None:
                running.result()

    def _send(self, collection: str, batch: list[dict[str, Any]], partial_update: bool) -> None:
        with self._turn():
            self._index.connection.call("upsert", collection_name=collection, data=batch, partial_update=partial_update)
        self._index.note_write([row["key"] for row in batch])

    def _delete(self, collection: str, condition: str) -> None:
        with self._turn():
            filter = self._index.of_tenant(condition)
            self._index.connection.call("delete", collection_name=collection, filter=filter)

    def _turn(self) -> AbstractContextManager[Any]:
        return _LITE_TURN if self._index.connection.is_lite else nullcontext()


class MilvusMemory:
    """Memory states of chunks, which change only if a chunk is written again with other metadata."""

    mode = None

    def __init__(self, index: MilvusIndex) -> None:
        self._index = index

    def states(self, ids: Sequence[str], scope: records.Scope) -> dict[str, records.MemoryState]:
        """Return the memory state of each of these chunks (see ``stores.protocols.HasMemory``)."""
        self._index.check_scope(scope)
        states = {}
        for id, row in self._index.recent_rows(ids).items():
            if scope.known_at is None or row.added_at <= scope.known_at * 1e9:
                states[id] = replace(state_in(row.chunk.metadata), learned_at=row.added_at / 1e9)
        return states

    def columns(self, ids: Sequence[str], scope: records.Scope) -> MemoryColumns:
        """Return the memory states as columns with one entry per id."""
        states = self.states(ids, scope)
        return MemoryColumns.of([states.get(id, records.MemoryState()) for id in ids])


class MilvusSessions:
    """Sessions in Milvus; each turn is a chunk with ``session_id`` and ``turn`` in its metadata."""

    def __init__(self, index: MilvusIndex) -> None:
        self._index = index

    def turns(self, session_id: str, n: int, scope: records.Scope) -> list[Chunk]:
        """Return the last ``n`` turns of a session in the call's scope, newest first."""
        filter = self._index.in_scope(scope, schema.has_any([schema.mark("session", reference(session_id))]))
        turns = [row for row in self._index.all_rows(filter) if row.is_in(scope)]
        turns.sort(key=lambda row: (row.chunk.metadata.get("turn") or 0, row.added_at), reverse=True)
        return [row.chunk for row in turns[:n]]


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
