"""Chunks, parents and edges in Milvus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, get_args

import numpy as np

from langchain_hybridgraph.chunks import Chunk, reference
from langchain_hybridgraph.errors import ConfigurationError, quote_value
from langchain_hybridgraph.records import Edge, Query, Scope, ScoredId, SourceResult, check_name
from langchain_hybridgraph.stores.chunk_rows import text_hash
from langchain_hybridgraph.stores.milvus.connection import TIMEOUT, MilvusConnection, client_library
from langchain_hybridgraph.stores.milvus.filters import has_any, mark, texts
from langchain_hybridgraph.stores.milvus.graph import EDGE_FIELDS, FetchedGraph
from langchain_hybridgraph.stores.milvus.index import CHUNK_FIELDS, Consistency, MilvusIndex, in_parts
from langchain_hybridgraph.stores.milvus.limits import MOST_KEYS
from langchain_hybridgraph.stores.milvus.memory import MilvusMemory, MilvusSessions
from langchain_hybridgraph.stores.milvus.rows import stored_edge, stored_row
from langchain_hybridgraph.stores.milvus.schema import (
    COLLECTION,
    Collections,
    CollectionSettings,
    open_collections,
    stored_facts,
)
from langchain_hybridgraph.stores.milvus.search import Searcher
from langchain_hybridgraph.stores.milvus.tree import Tree
from langchain_hybridgraph.stores.milvus.uri import Address
from langchain_hybridgraph.stores.milvus.writer import Writer
from langchain_hybridgraph.stores.protocols import HybridResult
from langchain_hybridgraph.text.analyzer import Analyzer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.chunks import Vector
    from langchain_hybridgraph.records import EdgeFilter
    from langchain_hybridgraph.stores.protocols import Graph
    from langchain_hybridgraph.stores.tree import ScopedTree

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
# Alternatives to the attributes that only a store in a folder has, by name.
INSTEAD: Mapping[str, str] = MappingProxyType(
    {
        "admin": "len(store) counts its chunks, and Milvus' own tools, such as Attu and milvus-backup, show, check and "
        "back up its collections",
        "files": "ingest reads all files, and neither embeds nor writes what has not changed",
        "summaries": "directories are ranked by their documents; summaries need a HybridGraphStore",
    }
)


class MilvusChunkStore:
    """A store in three Milvus collections (chunks, parents, edges), searched by vector, keyword and graph.

    ``uri`` is ``milvus://host:19530/database`` (also with ``http://`` and ``https://``), or ``milvus:notes.db`` for
    milvus-lite in this process. ``embedding`` computes the vectors; ``name`` identifies its model. ``collection`` is
    the prefix of the collections' names; missing collections are created. If they are created with a ``tenant``, they
    are multi-tenant: every store that is opened on them later needs a tenant as well. The tenant is Milvus' partition
    key. ``language`` determines stemming and stop words. ``consistency`` is Milvus' consistency level for reads;
    ``timeout`` is the time limit in seconds for each call to the server.

    Any number of processes may use the same collections at the same time; the last write to a chunk wins. A write is
    not a transaction: repeat it after a failure. Chunks that were written before the failure are not embedded again.

    Raises StoreUnavailableError if the server cannot be reached or refuses access. Raises NotAnIndexError or
    FormatVersionError if this version of the package cannot read the existing collections. Raises
    EmbeddingMismatchError if they were created with another embedding, and ConfigurationError if they were created with
    another language. Raises TenantError if they are multi-tenant and no tenant is passed, or the reverse. Raises
    ConfigurationError for other invalid arguments, and ValueError for a tenant name that cannot be stored.
    """

    lacks = LACKS

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError; for an attribute that other stores have, the message suggests an alternative."""
            if name in INSTEAD:
                raise AttributeError(f"a store in Milvus has no {name}: {INSTEAD[name]}")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

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
        level = _checked_level(consistency)
        self.tenant = tenant
        self._use(MilvusIndex(connection, names, facts, embedding, Analyzer(facts.language), tenant, level))

    def _use(self, index: MilvusIndex) -> None:
        self._index = index
        self._searcher = Searcher(index)
        self._writer = Writer(index)
        self._tree = Tree(index)
        self.memory = MilvusMemory(index)
        self.sessions = MilvusSessions(index)

    @classmethod
    def settings_of(cls, uri: str, *, token: str = "", collection: str = COLLECTION) -> CollectionSettings | None:
        """Return the settings with which a store was created, or None if the store does not exist.

        Raises StoreUnavailableError, NotAnIndexError and FormatVersionError like the constructor.
        """
        client_library()
        connection = MilvusConnection(Address.parse(uri, token), TIMEOUT)
        try:
            return stored_facts(connection, Collections.of(collection))
        finally:
            connection.close()

    def tenants(self) -> list[str]:
        """Return the names of all tenants of the collections, sorted.

        All rows are read, because Milvus cannot list the distinct values of a field.
        """
        rows = (row for name in self._index.names for row in self._index.read_all(name, 'key > ""', ["tenant"]))
        return sorted({row["tenant"] for row in rows})

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
        """Return a copy of this store with another consistency level for reads; the copy uses the same connection.

        With ``"Strong"``, reads include all finished writes of all processes. With ``"Session"``, they include all
        finished writes of this process. ``"Bounded"`` and ``"Eventually"`` are fastest, but reads may lag behind by
        seconds.
        """
        other = copy(self)
        other._use(replace(self._index, consistency=_checked_level(level)))
        return other

    def close(self) -> None:
        """Close the connection to the server."""
        self._index.connection.close()

    # -- reading ----------------------------------------------------------------------------------------------

    has_fast_lookups = False

    def read(self, ids: Sequence[str], scope: Scope, result_chunks: Mapping[str, Chunk]) -> dict[str, Chunk]:
        """Return the chunks among ``ids`` that exist and are in the scope (see ``stores.protocols.ReadsChunks``)."""
        self._index.check_scope(scope)
        rows = self._index.recent_rows(ids)
        return {id: row.chunk for id, row in rows.items() if row.is_in(scope)}

    @property
    def has_parents(self) -> bool:
        """Whether the store has any parents, or any chunk with the id of a parent.

        The first parent written by another process is noticed within two seconds, the first such chunk within a minute,
        and the deletion of the last one within a minute.
        """
        names = self._index.names
        return self._index.has_rows(names.parents) or self._index.has_rows(names.chunks, 'parent != ""')

    def read_parents(self, ids: Sequence[str], scope: Scope) -> dict[str, Chunk]:
        """Return the parents among ``ids`` that exist and are valid (see ``stores.protocols.HasParents``)."""
        self._index.check_scope(scope)
        rows = self._index.rows(self._index.names.parents, ids)
        rows |= self._index.recent_rows([id for id in ids if id not in rows])
        return {id: row.chunk for id, row in rows.items() if row.is_in(scope, filtered=False)}

    def get(self, ids: Sequence[str]) -> list[Chunk]:
        """Return the chunks and parents with these ids, valid or not, in the order of ``ids``.

        Missing ids are left out.
        """
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
        names, filter = self._index.names, self._index.of_tenant()
        rows = (
            row for name in (names.chunks, names.parents) for row in self._index.read_all(name, filter, ["document"])
        )
        return sorted({row["document"] for row in rows})

    def ids_of_contents(self, contents: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Return the ids of the chunks with these texts and sources (see ``stores.protocols.FindsContents``)."""
        id_of = {}
        hashes = [mark("hash", text_hash(text).hex()) for text, _ in contents]
        for part in in_parts(hashes):
            filter = self._index.of_tenant(has_any(part))
            for entity in self._index.read_all(self._index.names.chunks, filter, CHUNK_FIELDS):
                chunk = stored_row(entity).chunk
                id_of[chunk.text, str(chunk.metadata.get("source", ""))] = chunk.id
        return {content: id_of[content] for content in contents if content in id_of}

    def find(self, scope: Scope) -> list[str]:
        """Return the ids of all chunks in this scope, in the order in which they were added or last changed."""
        filter = self._index.in_scope(scope)
        rows = [stored_row(entity) for entity in self._index.read_all(self._index.names.chunks, filter, CHUNK_FIELDS)]
        return [row.chunk.id for row in sorted(rows, key=lambda row: row.added_at) if row.is_in(scope)]

    def list_chunks(self, scope: Scope, n: int) -> SourceResult:
        """Return the first ``n`` chunks of a scope, in the order in which they were added or last changed.

        Milvus returns rows in no particular order. Therefore, this method first reads the write times of all chunks in
        the scope. It then reads only the chunks that were written first.
        """
        index, collection = self._index, self._index.names.chunks
        chunk_rows = index.read_all(collection, index.in_scope(scope), ["added_at"])
        keys = [key for _, key in sorted((row["added_at"], row["key"]) for row in chunk_rows)]
        ids: list[str] = []
        for part in in_parts(keys, min(max(n, 100), MOST_KEYS)):
            rows = index.read_keys(collection, part)
            ids += [rows[key].chunk.id for key in part if key in rows and rows[key].is_in(scope)]
            if len(ids) >= n:
                break
        return SourceResult([ScoredId(id, 1.0) for id in ids[: max(n, 0)]])

    def __len__(self) -> int:
        """Return the number of chunks; parents are not counted."""
        return self._index.count(self._index.names.chunks, self._index.of_tenant())

    # -- searching --------------------------------------------------------------------------------------------

    def vector_search(self, query: Query, n: int) -> SourceResult:
        """Return the ``n`` chunks with the largest cosine (see ``stores.protocols.SearchesVectors``)."""
        return self._index.connection.run(self._searcher.vector_search(query, n))

    async def avector_search(self, query: Query, n: int) -> SourceResult:
        """Return the result of :meth:`vector_search` without blocking the event loop."""
        return await self._index.connection.arun(self._searcher.vector_search(query, n))

    def keyword_search(self, query: Query, n: int) -> SourceResult:
        """Return the ``n`` chunks with the largest BM25 score (see ``stores.protocols.SearchesKeywords``)."""
        return self._index.connection.run(self._searcher.keyword_search(query, n))

    async def akeyword_search(self, query: Query, n: int) -> SourceResult:
        """Return the result of :meth:`keyword_search` without blocking the event loop."""
        return await self._index.connection.arun(self._searcher.keyword_search(query, n))

    def hybrid_search(self, query: Query, n: int) -> HybridResult:
        """Run a vector search and a keyword search in one call (see ``stores.protocols.SearchesHybrid``)."""
        return self._index.connection.run(self._searcher.hybrid_search(query, n))

    async def ahybrid_search(self, query: Query, n: int) -> HybridResult:
        """Return the result of :meth:`hybrid_search` without blocking the event loop."""
        return await self._index.connection.arun(self._searcher.hybrid_search(query, n))

    def vector_scores(self, vector: Vector, ids: Sequence[str]) -> dict[str, float]:
        """Return the cosine of each of these chunks with a unit vector; missing chunks are left out."""
        rows = self._index.recent_rows(ids, with_vectors=True, are_scored=True)
        return {id: float(row.vector @ vector) for id, row in rows.items() if row.vector is not None}

    def keyword_scores(self, text: str, ids: Sequence[str]) -> dict[str, float]:
        """Return the BM25 score of each of these chunks; chunks that share no word with ``text`` are left out."""
        return self._index.connection.run(self._searcher.keyword_scores(text, ids))

    def vectors(self, ids: Sequence[str]) -> NDArray[np.float32]:
        """Return the unit vectors of these chunks, as an array of shape (len(ids), dimension).

        The row of an id without a vector contains zeros.
        """
        rows = self._index.recent_rows(ids, with_vectors=True)
        vectors = np.zeros((len(ids), self._index.facts.dimension), np.float32)
        for place, id in enumerate(ids):
            if id in rows and (vector := rows[id].vector) is not None:
                vectors[place] = vector
        return vectors

    # -- edges ------------------------------------------------------------------------------------------------

    @property
    def has_graph(self) -> bool:
        """Whether the store has any edges.

        The first edge written by another process is noticed within two seconds, and the deletion of the last one within
        a minute.
        """
        return self._index.has_rows(self._index.names.edges)

    def scoped_graph(self, scope: Scope, edge_filter: EdgeFilter) -> Graph:
        """Return the part of the graph that is visible in a scope (see ``stores.protocols.HasGraph``)."""
        return FetchedGraph(self._index, scope, edge_filter)

    def scoped_tree(self, scope: Scope) -> ScopedTree:
        """Return the tree of directories and documents, limited to what is visible in a scope."""
        return self._tree.scoped(scope)

    def edges(self, ids: Sequence[str], *, backwards: bool = False) -> list[Edge]:
        """Return the edges that leave these chunks, sorted by source, relation and target.

        With ``backwards``, return the edges that lead to these chunks instead.
        """
        side, results = ("target_key" if backwards else "source_key"), list[Edge]()
        for keys in in_parts([self._index.key(id) for id in dict.fromkeys(ids)]):
            filter = self._index.of_tenant(f"{side} in {texts(keys)}")
            results += map(stored_edge, self._index.read_all(self._index.names.edges, filter, EDGE_FIELDS))
        return sorted(results, key=lambda edge: (edge.source, edge.relation, edge.target))

    def replace_edges(self, sources: Sequence[str], relations: Sequence[str], edges: Sequence[Edge]) -> int:
        """Delete all edges that have one of these sources and one of these relations, and write ``edges`` instead.

        Return the number of edges written. If several ``edges`` have the same source, target and relation, only the
        heaviest is written.
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

        If ``vectors`` is passed (one vector per chunk), the chunks are not embedded. The call is not a transaction:
        after a failure, part of the batch may have been written, and repeating the call completes it.
        """
        return self._writer.upsert(chunks, parents, edges, vectors)

    def flush(self) -> int:
        """Write pending lists of neighbours, which speed up traversals. In milvus-lite, also build the indexes.

        Always return 0, the number of texts embedded by this call: ``upsert`` has already embedded all texts.
        """
        self._writer.flush()
        return 0

    def remove(self, ids: Sequence[str]) -> int:
        """Delete chunks and parents together with their edges; return the number deleted.

        Parents that are left without children are deleted, too, but they are not included in the number.
        """
        return self._writer.remove(ids)


def _checked_level(level: Consistency) -> Consistency:
    if level not in get_args(Consistency):
        raise ConfigurationError(f"consistency must be one of {', '.join(get_args(Consistency))}, got {level!r}")
    return level
