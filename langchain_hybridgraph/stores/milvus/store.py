"""Chunks, parents and edges in Milvus."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from langchain_hybridgraph.chunks import Chunk, ParsedMetadata, reference
from langchain_hybridgraph.errors import ConfigurationError, quote_value
from langchain_hybridgraph.memory_scores import MemoryColumns
from langchain_hybridgraph.records import (
    Edge,
    EdgeFilter,
    MemoryState,
    Query,
    Scope,
    ScoredId,
    SourceResult,
    check_name,
)
from langchain_hybridgraph.stores.chunk_rows import TreePosition, text_hash
from langchain_hybridgraph.stores.milvus import search
from langchain_hybridgraph.stores.milvus.connection import MOST_KEYS, TIMEOUT, Address, MilvusConnection, client_library
from langchain_hybridgraph.stores.milvus.filters import has_any, mark, texts
from langchain_hybridgraph.stores.milvus.graph import EDGE_FIELDS, FetchedGraph
from langchain_hybridgraph.stores.milvus.schema import (
    COLLECTION,
    Collections,
    CollectionSettings,
    open_collections,
    stored_edge,
    stored_facts,
)
from langchain_hybridgraph.stores.milvus.search import Consistency, MilvusIndex, in_parts
from langchain_hybridgraph.stores.milvus.write import Writer
from langchain_hybridgraph.stores.protocols import Graph, HybridResult
from langchain_hybridgraph.stores.tree import Tree, TreeState, UriNumbers
from langchain_hybridgraph.text.analyzer import Analyzer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.chunks import Vector

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

    ``embedding`` computes the vectors, and ``name`` identifies its model. Other options and errors are those of
    ``MilvusStore``. Raises ValueError for a tenant name that cannot be stored.
    """

    lacks = LACKS

    def __init__(
        self,
        uri: str,
        *,
        embedding: Any,
        name: str,
        token: str = "",
        database: str = "",
        tenant: str | None = None,
        collection: str = COLLECTION,
        language: str | None = None,
        consistency: Consistency = "Session",
        timeout: float = TIMEOUT,
    ) -> None:
        if tenant is not None:
            check_name(tenant, "a tenant")
        if not (collection.isascii() and collection.isidentifier()):
            raise ConfigurationError(
                f"collection must consist of letters, digits and underscores, got {quote_value(collection)}"
            )
        if not timeout > 0:
            raise ConfigurationError(f"timeout must be a number of seconds above 0, got {timeout!r}")
        client_library()
        connection = MilvusConnection(Address.parse(uri, token, database), timeout)
        names = Collections.of(collection)
        dimension = len(embedding.embed_query("dimension"))
        requested = CollectionSettings(name, dimension, Analyzer(language or "english").language, tenant is not None)
        facts = open_collections(connection, names, requested, language_given=language is not None)
        self.tenant = tenant
        self._use(MilvusIndex(connection, names, facts, embedding, tenant or "", consistency))

    def _use(self, index: MilvusIndex) -> None:
        self._index = index
        self._writer = Writer(index)
        self.memory = MilvusMemory(index)
        self.sessions = MilvusSessions(index)

    @classmethod
    def settings_of(cls, uri: str, *, token: str = "", collection: str = COLLECTION) -> CollectionSettings | None:
        """Return the settings with which a store was created, or None without a store. Raises as the constructor."""
        client_library()
        connection = MilvusConnection(Address.parse(uri, token), TIMEOUT)
        try:
            return stored_facts(connection, Collections.of(collection))
        finally:
            connection.close()

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

    @property
    def consistency(self) -> Consistency:
        """Milvus' consistency level for reads."""
        return self._index.consistency

    def with_consistency(self, level: Consistency) -> Self:
        """Return a copy of this store with another consistency level for reads; the copy uses the same connection."""
        other = copy(self)
        other._use(replace(self._index, consistency=level, tree=None))
        return other

    def close(self) -> None:
        """Close the connection to the server."""
        self._index.connection.close()

    # -- reading ----------------------------------------------------------------------------------------------

    def read(self, ids: Sequence[str], scope: Scope, result_chunks: Mapping[str, Chunk]) -> dict[str, Chunk]:
        """Return the chunks among ``ids`` that exist and are in the scope (see ``stores.protocols.ReadsChunks``)."""
        self._index.check_scope(scope)
        rows = self._index.recent_rows(ids)
        return {id: row.chunk for id, row in rows.items() if row.is_in(scope)}

    @property
    def has_parents(self) -> bool:
        """Whether the store has any parents, or any chunk with the id of a parent; may lag by a minute."""
        names = self._index.names
        return self._index.has_rows(names.parents) or self._index.has_rows(names.chunks, 'parent != ""')

    def read_parents(self, ids: Sequence[str], scope: Scope) -> dict[str, Chunk]:
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
            filter = self._index.of_tenant(has_any([mark("document", name) for name in part]))
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
        for part in in_parts([mark("hash", text_hash(text).hex()) for text, _ in contents]):
            for row in self._index.all_rows(self._index.of_tenant(has_any(part))):
                id_of[row.chunk.text, str(row.chunk.metadata.get("source", ""))] = row.chunk.id
        return {content: id_of[content] for content in contents if content in id_of}

    def find(self, scope: Scope) -> list[str]:
        """Return the ids of all chunks in this scope, in the order in which they were added or last changed."""
        return [row.chunk.id for row in self._index.all_rows(self._index.in_scope(scope)) if row.is_in(scope)]

    def list_chunks(self, scope: Scope, n: int) -> SourceResult:
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
        return SourceResult([ScoredId(id, 1.0) for id in ids[: max(n, 0)]])

    def __len__(self) -> int:
        return self._index.connection.run(self._index.counted(self._index.names.chunks))

    # -- searching --------------------------------------------------------------------------------------------

    def vector_search(self, query: Query, n: int) -> SourceResult:
        """Return the ``n`` chunks with the largest cosine (see ``stores.protocols.SearchesVectors``)."""
        return self._index.connection.run(search.vector_search(self._index, query, n))

    async def avector_search(self, query: Query, n: int) -> SourceResult:
        """Return the result of :meth:`vector_search` without blocking the event loop."""
        return await self._index.connection.arun(search.vector_search(self._index, query, n))

    def keyword_search(self, query: Query, n: int) -> SourceResult:
        """Return the ``n`` chunks with the largest BM25 score (see ``stores.protocols.SearchesKeywords``)."""
        return self._index.connection.run(search.keyword_search(self._index, query, n))

    def hybrid_search(self, query: Query, n: int) -> HybridResult:
        """Run a vector search and a keyword search in one call (see ``stores.protocols.SearchesHybrid``)."""
        return self._index.connection.run(search.hybrid_search(self._index, query, n))

    async def ahybrid_search(self, query: Query, n: int) -> HybridResult:
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

    def scoped_graph(self, scope: Scope, edge_filter: EdgeFilter) -> Graph:
        """Return the part of the graph that is visible in a scope (see ``stores.protocols.HasGraph``)."""
        return FetchedGraph(self._index, scope, edge_filter)

    def scoped_tree(self, scope: Scope) -> Tree:
        """Return the tree of directories and documents, limited to what is visible in a scope.

        The tree is read again after a write and after two seconds, with one call per 16,384 chunks, so it suits
        thousands of documents rather than millions.
        """
        index = self._index
        index.check_scope(scope)
        rows = index.tree
        if rows is None or index.written_at > rows.read_at or time.monotonic() > rows.read_at + search.FRESH:
            rows = index.tree = _TreeRows(index)
        return Tree(rows.tree_state, rows, np.array([row.is_in(scope) for row in rows.rows], np.bool_))

    def edges(self, ids: Sequence[str], *, backwards: bool = False) -> list[Edge]:
        """Return the edges from these chunks (``backwards``: to them), sorted by source, relation and target."""
        side, results = ("target_key" if backwards else "source_key"), list[Edge]()
        for keys in in_parts([self._index.key(id) for id in dict.fromkeys(ids)]):
            filter = self._index.of_tenant(f"{side} in {texts(keys)}")
            results += map(stored_edge, self._index.read_all(self._index.names.edges, filter, EDGE_FIELDS))
        return sorted(results, key=lambda edge: (edge.source, edge.relation, edge.target))

    def replace_edges(self, sources: Sequence[str], relations: Sequence[str], edges: Sequence[Edge]) -> int:
        """Replace the edges that have one of these sources and one of these relations; return the number written.

        Of several ``edges`` with the same source, target and relation, only the heaviest is written.
        """
        return self._writer.replace_edges(sources, relations, edges)

    # -- writing ----------------------------------------------------------------------------------------------

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
        return self._writer.upsert(chunks, parents, edges, vectors)

    def flush(self) -> int:
        """Write pending lists of neighbours and return 0, because ``upsert`` has already embedded all texts."""
        self._writer.flush()
        return 0

    def remove(self, ids: Sequence[str]) -> int:
        """Delete chunks and parents together with their edges; return the number deleted.

        Parents that are left without children are deleted, too, but they are not included in the number.
        """
        return self._writer.remove(ids)


class MilvusMemory:
    """Memory states of chunks, which change only if a chunk is written again with other metadata."""

    mode = None

    def __init__(self, index: MilvusIndex) -> None:
        self._index = index

    def states(self, ids: Sequence[str], scope: Scope) -> dict[str, MemoryState]:
        """Return the memory state of each of these chunks (see ``stores.protocols.HasMemory``)."""
        self._index.check_scope(scope)
        states = {}
        for id, row in self._index.recent_rows(ids).items():
            if scope.known_at is None or row.added_at <= scope.known_at * 1e9:
                metadata = ParsedMetadata.of(row.chunk.metadata)._asdict()
                values = {name: value for name, value in metadata.items() if value is not None}
                states[id] = MemoryState(learned_at=row.added_at / 1e9, **values)
        return states

    def columns(self, ids: Sequence[str], scope: Scope) -> MemoryColumns:
        """Return the memory states as columns with one entry per id."""
        states = self.states(ids, scope)
        return MemoryColumns.of([states.get(id, MemoryState()) for id in ids])


class MilvusSessions:
    """Sessions in Milvus; each turn is a chunk with ``session_id`` and ``turn`` in its metadata."""

    def __init__(self, index: MilvusIndex) -> None:
        self._index = index

    def turns(self, session_id: str, n: int, scope: Scope) -> list[Chunk]:
        """Return the last ``n`` turns of a session in the call's scope, newest first."""
        filter = self._index.in_scope(scope, has_any([mark("session", reference(session_id))]))
        turns = [row for row in self._index.all_rows(filter) if row.is_in(scope)]
        turns.sort(key=lambda row: (row.chunk.metadata.get("turn") or 0, row.added_at), reverse=True)
        return [row.chunk for row in turns[:n]]


class _TreeRows:
    """All chunks of a tenant, in the order in which they were added or changed (see ``directory_tree.TreeRows``)."""

    def __init__(self, index: MilvusIndex) -> None:
        self.read_at = time.monotonic()
        self.rows = index.all_rows(index.of_tenant(), with_vectors=True)
        places = UriNumbers()
        places.grow(len(self.rows), (TreePosition.of(number, row.chunk) for number, row in enumerate(self.rows)))
        self.tree_state = TreeState(places, np.ones(len(self.rows), np.bool_))
        self._numbers = {row.chunk.id: number for number, row in enumerate(self.rows)}

    def ids(self, rows: Iterable[int]) -> list[str]:
        return [self.rows[row].chunk.id for row in rows]

    def row(self, id: str) -> int:
        return self._numbers.get(id, -1)

    def nearest(self, vector: Vector, rows: Sequence[int], n: int) -> Sequence[int]:
        cosines = {row: float(own @ vector) for row in rows if (own := self.rows[row].vector) is not None}
        return sorted(cosines, key=lambda row: (-cosines[row], row))[:n]
