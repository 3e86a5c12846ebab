"""Store that keeps an index in one folder.

A write adds vectors to the matrix (fsync), commits the batch to the catalog, then updates the engines. A crash before
the commit leaves unused vectors, one after it engines that are updated later; committed batches are never lost.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from langchain_hybridgraph.chunks import Chunk, ParsedMetadata, reference
from langchain_hybridgraph.errors import StoreError, check_mapping, check_number
from langchain_hybridgraph.records import SESSION, EdgeFilter, FileRecord, Scope, check_name
from langchain_hybridgraph.stores.access import Writer
from langchain_hybridgraph.stores.check import Maintenance
from langchain_hybridgraph.stores.chunk_rows import chunk_in, json_list
from langchain_hybridgraph.stores.generations import Embedding
from langchain_hybridgraph.stores.graph import ScopedGraph
from langchain_hybridgraph.stores.graph_view import DirectoryTree, GraphView
from langchain_hybridgraph.stores.index import IndexFolder, IndexSettings
from langchain_hybridgraph.stores.memory import EmbeddedMemory
from langchain_hybridgraph.stores.summaries import Summaries
from langchain_hybridgraph.stores.tree import Tree
from langchain_hybridgraph.times import iso_time, parse_time

MEMORY_TYPE = "episodic"
LONGEST_TTL = 100 * 365 * 86_400.0
"""Largest time to live of a turn, in seconds: a century."""
# Number of turns that are read at once.
PAGE = 100
LACKS: Mapping[str, str] = MappingProxyType(
    {
        "several machines": "The folder must be on the local disk of one machine.",
        "one request": "A search does not leave the process, so there is no round trip to save.",
        "native async": "In an event loop, a search runs on a thread.",
    }
)
LACKS_IN_MEMORY: Mapping[str, str] = MappingProxyType(
    {**LACKS, "tenants": "A store in memory has only one tenant.", "several processes": "Nothing is on disk."}
)


class Sessions:
    """The sessions of an index; each turn is a chunk with ``session_id`` and ``turn`` in its metadata."""

    def __init__(self, index: IndexFolder, writer: Writer) -> None:
        self._index, self._writer = index, writer

    def turns(self, session_id: str, n: int, scope: Scope) -> list[Chunk]:
        """Return up to ``n`` turns of a session in the scope, newest first (see ``stores.protocols.HasSessions``)."""
        scope.check_tenant(self._index.settings.tenant)
        order = "tenant = ?2 AND session = ?3 ORDER BY turn DESC, created_at DESC, row DESC LIMIT ?4 OFFSET ?5"
        name, turns, page = (self._index.rows.tenant, reference(session_id)), list[Chunk](), 0
        with self._index.guard:
            while len(turns) < n and (
                entries := self._index.catalog.select(order, scope.known_at, *name, PAGE, page * PAGE)
            ):
                turns += filter(None, (chunk_in(entry, scope) for entry in entries))
                page += 1
        return turns[: max(n, 0)]

    def add_pairs(
        self,
        session_id: str,
        turns: Sequence[tuple[str, str]],
        *,
        created_at: Any = None,
        ttl: float | timedelta | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[str]:
        """Append (role, text) turns to a session in one transaction and return their ids.

        They expire ``ttl`` (seconds or a timedelta) after ``created_at`` (None: now).
        """
        check_name(session_id, "session_id")
        check_mapping("metadata", {} if metadata is None else metadata)
        lifetime = ttl.total_seconds() if isinstance(ttl, timedelta) else ttl
        if lifetime is not None:
            check_number("ttl (a timedelta, or seconds)", lifetime, gt=0, le=LONGEST_TTL)
        with self._index.writer():
            created = self._index.clock() if created_at is None else parse_time(created_at)
            sql = "SELECT ifnull(max(turn), 0) FROM nodes WHERE tenant = ? AND session = ?"
            [(last,)] = self._index.query(sql, session_id)
            ends = {} if lifetime is None else {"valid_until": iso_time(created + lifetime)}
            about = {"memory_type": MEMORY_TYPE, **(metadata or {}), "session_id": session_id, **ends}
            chunks = []
            for number, (role, text) in enumerate(turns, last + 1):
                one = {**about, "role": role, "turn": number, "created_at": iso_time(created)}
                ParsedMetadata.check(one)
                chunks.append(Chunk(f"{SESSION}{session_id}#{number}", text, one, f"{SESSION}{session_id}"))
            self._writer.upsert(chunks)
            if chunks:
                self._writer.flush()
        return [chunk.id for chunk in chunks]

    def counts(self) -> dict[str, int]:
        """Return the number of turns of each session, by session id."""
        sql = "SELECT session, count(*) FROM nodes WHERE tenant = ? AND session NOT NULL GROUP BY session"
        return dict(self._index.query(sql))

    def delete(self, session_id: str) -> int:
        """Delete all turns of a session and return their number, which is 0 for an unknown session."""
        with self._index.writer():
            sql = "SELECT id FROM nodes WHERE tenant = ? AND session = ?"
            return self._writer.remove([id for (id,) in self._index.query(sql, reference(session_id))])


class FileRecords:
    """Records of ingested files (see ``stores.protocols.FileRecords``)."""

    def __init__(self, index: IndexFolder) -> None:
        self._index = index

    def read(self) -> list[FileRecord]:
        """Return the records of the files whose chunks and edges are still as the ingest wrote them."""
        documents: dict[str, list[str]] = {}
        for source, document in self._index.query(
            "SELECT source, document FROM file_documents WHERE tenant = ? ORDER BY source, place"
        ):
            documents.setdefault(source, []).append(document)
        rows = self._index.query(
            "SELECT source, stamp, digest, made_by, chunks, parents, path "
            "FROM files LEFT JOIN file_paths USING (tenant, source) WHERE tenant = ?"
        )
        return [FileRecord._make((*values, tuple(documents.get(values[0], ())), path or b"")) for *values, path in rows]

    def sources(self) -> set[str]:
        """Return the sources of the files that :meth:`read` returns."""
        return {source for (source,) in self._index.query("SELECT source FROM files WHERE tenant = ?")}

    def paths(self) -> dict[str, bytes]:
        """Return the absolute path of each file with documents in the index, by source, with or without a record."""
        rows = self._index.query(
            "SELECT source, path FROM file_paths p WHERE tenant = ? AND EXISTS ("
            "SELECT 1 FROM file_documents d CROSS JOIN nodes n ON n.tenant = d.tenant AND n.document = d.document "
            "WHERE d.tenant = p.tenant AND d.source = p.source)"
        )
        return dict(rows)

    def write(self, records: Sequence[FileRecord]) -> None:
        """Insert or replace the records of files. Without a digest, only documents and path are stored."""
        tenant = self._index.rows.tenant
        if not records:
            return
        with self._index.writer(), self._index.catalog.writing() as connection:
            for record in records:
                key, documents = (tenant, record.source), enumerate(map(reference, record.documents))
                connection.execute("DELETE FROM file_documents WHERE tenant = ? AND source = ?", key)
                sql = "INSERT INTO file_documents (tenant, source, place, document) VALUES (?, ?, ?, ?)"
                connection.executemany(sql, ((*key, place, document) for place, document in documents))
                if record.digest:
                    connection.execute(
                        "INSERT OR REPLACE INTO files (tenant, source, stamp, digest, made_by, chunks, parents) "
                        "VALUES (?, ?, ?, ?, ?, ?, ?)",
                        (tenant, *record[:-2]),
                    )
                if record.path:
                    sql = "INSERT OR REPLACE INTO file_paths (tenant, source, path) VALUES (?, ?, ?)"
                    connection.execute(sql, (*key, record.path))

    def forget(self, documents: Iterable[str]) -> None:
        """Delete the records of the files that contain these documents, so that an ingest reads them again."""
        sql = (
            "DELETE FROM files WHERE tenant = ?1 AND source IN (SELECT source FROM file_documents "
            "WHERE tenant = ?1 AND document IN (SELECT value FROM json_each(?2)))"
        )
        with self._index.writer(), self._index.catalog.writing() as connection:
            connection.execute(sql, (self._index.rows.tenant, json_list(map(reference, documents))))


class EmbeddedStore(Writer):
    """Chunks, parents and edges in one folder, searched by vector, by keyword and through the graph.

    Methods implement ``stores.protocols``; other functions are in ``memory``, ``sessions``, ``graph``, ``summaries``,
    ``files`` and ``admin``. Any number of processes may read while one writes. A store on disk can be pickled and
    copied, and works after a fork.

    Raises NotAnIndexError, FormatVersionError, EmbeddingMismatchError or another StoreError if a folder cannot be
    opened, and TenantError for a missing or superfluous tenant.
    """

    has_fast_lookups = True

    def __init__(self, settings: IndexSettings) -> None:
        self._assemble(IndexFolder(settings))

    def _assemble(self, index: IndexFolder) -> None:
        """Create the store's attributes; none refers back to the store, so that an unused one is freed immediately."""
        self.path: Path | None = index.settings.path
        """Folder of the index; None for a store in memory."""
        self.name: str = index.settings.name
        """Name of the embedding model."""
        self.tenant: str | None = index.settings.tenant
        """Tenant whose data the store can access; None for a folder without tenants."""
        self._tree = DirectoryTree(index)
        self.summaries = Summaries(index, self._tree)
        super().__init__(index, after_flush=self.summaries.carry_over)
        writer = self._writer = Writer(index, after_flush=self.summaries.carry_over)
        self.graph = GraphView(index)
        self.files = FileRecords(index)
        self.sessions = Sessions(index, writer)
        self.memory = EmbeddedMemory(index, writer)

    @property
    def admin(self) -> Maintenance:
        """Checks, repairs, backups and statistics of the index."""
        return Maintenance(self._index, self._writer, self.summaries.maintenance, self._renew_summaries)

    def _renew_summaries(self) -> None:
        self.summaries.discard()

    # -- settings -------------------------------------------------------------------------------------------

    @property
    def lacks(self) -> Mapping[str, str]:
        """Names of the features that this store does not have (see docs/engines.md), mapped to the reasons."""
        return LACKS_IN_MEMORY if self.path is None else LACKS

    @property
    def language(self) -> str:
        """Language of the keyword index."""
        return self._index.shared.language

    @property
    def embedding(self) -> Embedding:
        """Embedding that the store uses; for an embedding such as LSA, this is the latest fitted model."""
        return self._index.generation.embedding

    @property
    def clock(self) -> Callable[[], float]:
        """Function that returns the current time in Unix seconds; to replay past events, set another function."""
        return self._index.clock

    @clock.setter
    def clock(self, clock: Callable[[], float]) -> None:
        self._index.clock = clock

    def __repr__(self) -> str:
        tenant = "" if self.tenant is None else f", tenant={self.tenant!r}"
        path = None if self.path is None else str(self.path)
        return f"{type(self).__name__}({path!r}, {self.name!r}{tenant})"

    # -- opening and closing --------------------------------------------------------------------------------

    def close(self) -> None:
        """Wait for running calls, then release files and engines, once. An unreferenced store closes itself."""
        self.summaries.close()
        self._index.close()

    def __getstate__(self) -> dict[str, Any]:
        """Raise StoreError for a store in memory."""
        if self.path is None:
            raise StoreError(
                f"a {type(self).__name__} in memory cannot be copied or pickled: give it a folder, "
                f"{type(self).__name__}(path), which every process and every copy can open"
            )
        return {"index": copy.copy(self._index)}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self._assemble(state["index"])

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return copy.copy(self)

    # -- graph and tree -------------------------------------------------------------------------------------

    @property
    def has_graph(self) -> bool:
        """Whether the store currently has any edges."""
        return self.graph.has_edges()

    def scoped_graph(self, scope: Scope, edge_filter: EdgeFilter) -> ScopedGraph:
        """Return the part of the graph that a call with this scope may see (see ``stores.protocols.HasGraph``)."""
        return self.graph.scoped(scope, edge_filter)

    def scoped_tree(self, scope: Scope) -> Tree:
        """Return the tree that a call with this scope may see (see ``stores.protocols.HasTree``)."""
        return self._tree.scoped(scope)
