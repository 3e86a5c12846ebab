"""Sessions and ingested files of an index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from langchain_hybridgraph.chunks import Chunk, ParsedMetadata, reference
from langchain_hybridgraph.errors import ConfigurationError, quote_value
from langchain_hybridgraph.records import FileRecord, check_name
from langchain_hybridgraph.stores import catalog_memory
from langchain_hybridgraph.stores.chunk_rows import chunk_in
from langchain_hybridgraph.stores.index import IndexFolder
from langchain_hybridgraph.stores.writing import Writer
from langchain_hybridgraph.times import iso_time, parse_time

if TYPE_CHECKING:
    from langchain_hybridgraph.records import Scope

MEMORY_TYPE = "episodic"
LONGEST_TTL = 100 * 365 * 86_400.0
"""Largest time to live of a turn, in seconds: a century."""
# Number of turns that are read at once.
PAGE = 100


class Sessions:
    """The sessions of an index; each turn is a chunk with ``session_id`` and ``turn`` in its metadata."""

    def __init__(self, index: IndexFolder, writer: Writer) -> None:
        self._index, self._writer = index, writer

    def turns(self, session_id: str, n: int, scope: Scope) -> list[Chunk]:
        """Return up to ``n`` turns of a session in the scope, newest first (see ``stores.protocols.HasSessions``)."""
        self._index.check_scope(scope)
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
        lifetime = ttl.total_seconds() if isinstance(ttl, timedelta) else ttl
        if lifetime is not None and not 0 < lifetime <= LONGEST_TTL:
            raise ConfigurationError(
                f"ttl must be a timedelta or a number of seconds above 0, at most 100 years, got {quote_value(ttl)}"
            )
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
                chunks.append(Chunk(f"session:{session_id}#{number}", text, one, f"session:{session_id}"))
            self._writer.upsert(chunks)
            if chunks:
                self._writer.flush()
        return [chunk.id for chunk in chunks]

    def counts(self) -> dict[str, int]:
        """Return the number of turns of each session, by session id."""
        with self._index.guard, self._index.catalog.reading() as connection:
            return catalog_memory.sessions(connection, self._index.rows.tenant)

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
                connection.executemany(
                    "INSERT INTO file_documents (tenant, source, place, document) VALUES (?, ?, ?, ?)",
                    ((*key, place, document) for place, document in documents),
                )
                if record.digest:
                    connection.execute(
                        "INSERT OR REPLACE INTO files (tenant, source, stamp, digest, made_by, chunks, parents) "
                        "VALUES (?, ?, ?, ?, ?, ?, ?)",
                        (tenant, *record[:-2]),
                    )
                if record.path:
                    connection.execute(
                        "INSERT OR REPLACE INTO file_paths (tenant, source, path) VALUES (?, ?, ?)",
                        (*key, record.path),
                    )
