"""Index folders as sources and destinations of copies."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import NotAnIndexError, StoreError
from langchain_hybridgraph.records import Edge, Query, Scope, SourceResult
from langchain_hybridgraph.stores import catalog_memory, catalog_writes, chunk_rows
from langchain_hybridgraph.stores.catalog import Catalog
from langchain_hybridgraph.stores.catalog_memory import MemoryValues
from langchain_hybridgraph.stores.chunk_rows import CHUNK, PARENT, catalog_rows, json_list
from langchain_hybridgraph.stores.folder import CATALOG, IndexSettings, read_facts
from langchain_hybridgraph.stores.generations import Generation, NoEmbedding
from langchain_hybridgraph.stores.store import EmbeddedStore
from langchain_hybridgraph.stores.summaries import FOLDER, STATE
from langchain_hybridgraph.stores.transfer import (
    KINDS,
    ChunkRecord,
    EdgeRecord,
    Kind,
    MemoryRecord,
    RecordPage,
    StoreFacts,
    SummaryRecord,
    TenantSetting,
)

if TYPE_CHECKING:
    import sqlite3

    from numpy.typing import NDArray

_EDGES = (
    "SELECT s.id, t.id, relation, weight, description, valid_from, valid_until, learned_at "
    "FROM nodes s CROSS JOIN edges e ON e.source = s.node CROSS JOIN nodes t ON t.node = e.target "
    "WHERE s.tenant = ?1 AND s.id >= ?2 AND (s.id, relation, t.id) > (?2, ?3, ?4) "
    "ORDER BY s.id, relation, t.id LIMIT ?5"
)
_HISTORIES = ("past_validity", "valid_from, valid_until"), ("past_trust", "confidence, utility")


def record_numbers(connection: sqlite3.Connection, tenant: str, kind: str, after: int) -> list[int]:
    """Return the row numbers of a tenant's chunks, or the node numbers of its parents, in ascending order.

    ``kind`` selects chunks or parents. Only numbers greater than ``after`` are returned.
    """
    column = "row" if kind == chunk_rows.CHUNK else "node"
    # The plus prevents SQLite from sorting by the index on rows, which contains the rows of all tenants.
    results = connection.execute(
        f"SELECT {column} FROM nodes WHERE tenant = ? AND kind = ? AND +{column} > ? ORDER BY +{column}",
        (tenant, kind, after),
    )
    return [number for (number,) in results]


def ids_of(connection: sqlite3.Connection, nodes: Iterable[int]) -> list[str]:
    """Return the ids of these nodes, sorted by node; unknown nodes are left out."""
    results = connection.execute(
        "SELECT id FROM nodes WHERE node IN (SELECT value FROM json_each(?)) ORDER BY node", (json.dumps(list(nodes)),)
    )
    return [id for (id,) in results]


def read_memories(connection: sqlite3.Connection, tenant: str, ids: Iterable[str]) -> dict[str, MemoryRecord]:
    """Return the state of each of these chunks and parents, with its history."""
    states = catalog_memory.read_states(connection, tenant, ids)
    nodes = json.dumps([state.node for state in states.values()])
    histories = [_history(connection, table, columns, nodes) for table, columns in _HISTORIES]
    return {
        id: MemoryRecord(state.values._asdict(), *(history.get(state.node, ()) for history in histories))
        for id, state in states.items()
    }


def _history(connection: sqlite3.Connection, table: str, columns: str, nodes: str) -> dict[int, tuple[Any, ...]]:
    past: dict[int, tuple[Any, ...]] = {}
    for node, *change in connection.execute(
        f"SELECT node, known_until, {columns} FROM {table} WHERE node IN (SELECT value FROM json_each(?)) "
        "ORDER BY node, known_until",
        (nodes,),
    ):
        past[node] = (*past.get(node, ()), tuple(change))
    return past


def edges_after(connection: sqlite3.Connection, tenant: str, after: Sequence[str], size: int) -> list[EdgeRecord]:
    """Return up to ``size`` edges of a tenant, sorted by source, relation and target.

    Only edges that come after the edge ``after`` (source, relation, target) in this order are returned.
    """
    results = connection.execute(_EDGES, (tenant, *after, size))
    return [EdgeRecord(Edge(*values), learned_at) for *values, learned_at in results]


def tenant_settings(connection: sqlite3.Connection, tenant: str) -> list[TenantSetting]:
    """Return a tenant's search mode, if one is set, and the credibility of its sources."""
    modes = connection.execute("SELECT value FROM about WHERE name = ?", (chunk_rows.mode_name(tenant),))
    credits = connection.execute("SELECT source, ok, bad FROM credibility WHERE tenant = ? ORDER BY source", (tenant,))
    return [*(TenantSetting("mode", row) for row in modes), *(TenantSetting("credibility", row) for row in credits)]


def count_records(connection: sqlite3.Connection, tenant: str) -> dict[str, int]:
    """Return the number of a tenant's parents, chunks, edges, files and settings, keyed by these names."""
    statement = (
        "SELECT (SELECT count(*) FROM nodes WHERE tenant = ?1 AND kind = 'parent'), "
        "(SELECT count(*) FROM nodes WHERE tenant = ?1 AND kind = 'chunk'), "
        "(SELECT count(*) FROM nodes CROSS JOIN edges ON source = node WHERE tenant = ?1), "
        "(SELECT count(*) FROM files WHERE tenant = ?1), "
        "(SELECT count(*) FROM credibility WHERE tenant = ?1) + (SELECT count(*) FROM about WHERE name = ?2)"
    )
    counts = connection.execute(statement, (tenant, chunk_rows.mode_name(tenant))).fetchone()
    return dict(zip(("parents", "chunks", "edges", "files", "settings"), counts, strict=True))


def count_rows_before(connection: sqlite3.Connection, row: int) -> int:
    """Return the number of chunks of all tenants in rows below this one."""
    return int(connection.execute("SELECT count(*) FROM nodes WHERE row < ?", (row,)).fetchone()[0])


def restore_memories(connection: sqlite3.Connection, tenant: str, records: dict[str, MemoryRecord]) -> None:
    """Replace the states of stored chunks and parents with these records, including the histories."""
    nodes = dict(
        connection.execute(
            "SELECT id, node FROM nodes WHERE tenant = ? AND id IN (SELECT value FROM json_each(?))",
            (tenant, json_list(records)),
        )
    )
    names = MemoryValues._fields
    connection.executemany(
        f"UPDATE learned SET {', '.join(f'{name} = ?' for name in names)} WHERE node = ?",
        ((*(record.values[name] for name in names), nodes[id]) for id, record in records.items()),
    )
    for place, (table, columns) in enumerate(_HISTORIES, start=1):
        connection.executemany(
            f"INSERT OR REPLACE INTO {table} (node, known_until, {columns}) VALUES (?, ?, ?, ?)",
            ((nodes[id], *change) for id, record in records.items() for change in record[place]),
        )


def put_edges(connection: sqlite3.Connection, tenant: str, records: Iterable[EdgeRecord], now: float) -> None:
    """Insert or replace edges; edges without a time are stored as learned at ``now``."""
    by_time: dict[float, list[Edge]] = {}
    for edge, learned_at in records:
        by_time.setdefault(now if learned_at is None else learned_at, []).append(edge)
    for learned_at, received in by_time.items():
        catalog_writes.put_edges(connection, tenant, received, learned_at, by_weight=False)


def put_settings(connection: sqlite3.Connection, tenant: str, records: Iterable[TenantSetting]) -> None:
    """Insert or replace a tenant's search mode and the credibility of its sources."""
    for name, values in records:
        if name == "mode":
            catalog_writes.set_facts(connection, **{chunk_rows.mode_name(tenant): values[0]})
        else:
            connection.execute("INSERT OR REPLACE INTO credibility VALUES (?, ?, ?, ?)", (tenant, *values))


def forget_fact(connection: sqlite3.Connection, name: str) -> None:
    """Delete a fact of the index."""
    connection.execute("DELETE FROM about WHERE name = ?", (name,))


PROGRESS = "migration"
"""Name of the fact with the progress of an unfinished copy."""


class TransferIndex(EmbeddedStore):
    """An index, or one tenant's part of it, opened to be copied or to receive a copy.

    The embedding is not loaded.
    """

    @classmethod
    def of(
        cls, path: Path, name: str, tenant: str, *, language: str = "english", read_only: bool = False
    ) -> TransferIndex:
        """Open the index at this path; unless ``read_only`` is True, create it if it is missing.

        ``name`` is the name of the index's embedding. ``tenant`` is "" for an index without tenants.
        """
        return cls(
            IndexSettings(
                path=path,
                embedding=NoEmbedding(),
                name=name,
                tenant=tenant or None,
                language=language,
                read_only=read_only,
            )
        )

    def restore(
        self, chunks: Sequence[ChunkRecord], parents: Sequence[ChunkRecord], also: Callable[[sqlite3.Connection], None]
    ) -> None:
        """Write chunks and parents with their vectors and memory states.

        ``also`` receives the connection, so that it can write other data in the same transaction.
        """
        tenant = self.tenant or ""
        batch = catalog_rows([record.chunk for record in chunks], [record.chunk for record in parents], tenant)
        memories = {record.chunk.id: record.memory for record in (*parents, *chunks) if record.memory is not None}

        def write(connection: sqlite3.Connection) -> Sequence[int]:
            restore_memories(connection, tenant, memories)
            also(connection)
            return ()

        self.write_rows(batch, (), {r.chunk.id: r.vector for r in chunks if r.vector is not None}, write)

    def present_summaries(self) -> list[SummaryRecord]:
        """Return all summaries of directories, including outdated ones, with their vectors.

        Each record states whether the summary is up to date.
        """
        summaries = self.summaries.current()
        if summaries is None:
            return []
        chunks = summaries.store.all()
        vectors = summaries.store.vectors([chunk.id for chunk in chunks])
        return [
            SummaryRecord(chunk, vectors[place], summaries.is_current(chunk.id)) for place, chunk in enumerate(chunks)
        ]

    def restore_summaries(self, summaries: Sequence[SummaryRecord]) -> None:
        """Write summaries of directories; those that were up to date in the source are recorded as up to date."""
        tree = self.scoped_tree(Scope(None, self.tenant, time.time()))
        summary_chunks = [
            Chunk(
                chunk.id,
                chunk.text,
                {
                    **chunk.metadata,
                    STATE: tree.state(node) if is_current and (node := tree.node(chunk.id)) >= 0 else "",
                },
            )
            for chunk, _, is_current in summaries
        ]
        index = self.summaries.index_for_writing()
        index.upsert(summary_chunks, vectors=np.stack([vector for _, vector, _ in summaries]))
        index.flush()


class EmbeddedSource:
    """An index folder from which records are copied.

    Other processes may write to it during the copy. The copy then reports that its source has changed.
    """

    kinds: Sequence[Kind] = KINDS

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.name = str(self.path)
        if not read_facts(self.path):
            raise NotAnIndexError(f"{path} contains no index: check the path")
        self._catalog = Catalog(self.path / CATALOG)
        self._generation: Generation | None = None
        self._opened: dict[str, TransferIndex] = {}

    def facts(self) -> StoreFacts:
        """Return the settings and the version of the index."""
        with self._catalog.snapshot():
            about = self._catalog.facts()
            is_multi = about["tenancy"] == "multi"
            tenants = tuple(self._catalog.tenants()) if is_multi else ("",)
            position = self._catalog.graph_position()
            with self._catalog.reading() as connection:
                memory = catalog_memory.position(connection)
                before = count_rows_before(connection, int(about.get("fitted_row", 0)))
        model = self.path / f"model-{about['generation']}.npz"
        return StoreFacts(
            embedding=str(about.get("embedding", "")),
            dimension=about.get("dimension"),
            tenants=tenants,
            has_tenants=is_multi,
            language=str(about["language"]),
            version=".".join(map(str, (about["generation"], *position, memory))),
            model=model if model.exists() else None,
            fitted_texts=int(about.get("fitted_texts", 0)),
            fitted_before=before,
        )

    def counts(self, tenant: str) -> Mapping[str, int]:
        """Return how many records of each kind a tenant has."""
        with self._catalog.reading() as connection:
            counts = count_records(connection, tenant)
        return {**counts, "summaries": len(self._summaries(tenant))}

    def pages(self, tenant: str, kind: Kind, after: Any, size: int) -> Iterator[RecordPage]:
        """Yield a tenant's records of one kind in pages (see ``stores.transfer.CopySource``)."""
        if kind == "edges":
            yield from self._edge_pages(tenant, after or ["", "", ""], size)
        elif kind in {"chunks", "parents"}:
            yield from self._chunk_pages(tenant, kind, -1 if after is None else after, size)
        elif kind == "summaries":
            if after is None and (summaries := self._summaries(tenant)):
                yield RecordPage(summaries, True)
        elif after is None:
            with self._catalog.reading() as connection:
                read = catalog_writes.read_files if kind == "files" else tenant_settings
                yield RecordPage(read(connection, tenant), True)

    def _edge_pages(self, tenant: str, after: Sequence[str], size: int) -> Iterator[RecordPage]:
        while True:
            with self._catalog.reading() as connection:
                records = edges_after(connection, tenant, after, size)
            if not records:
                return
            last = records[-1].edge
            after = [last.source, last.relation, last.target]
            yield RecordPage(records, after)

    def _chunk_pages(self, tenant: str, kind: str, after: int, size: int) -> Iterator[RecordPage]:
        with self._catalog.reading() as connection:
            numbers = record_numbers(connection, tenant, CHUNK if kind == "chunks" else PARENT, after)
        for start in range(0, len(numbers), size):
            part = numbers[start : start + size]
            with self._catalog.snapshot(), self._catalog.reading() as connection:
                if kind == "chunks":
                    stored_chunks = sorted(self._catalog.read_rows(part), key=lambda entry: entry.row or 0)
                    vectors: list[Any] = list(self._vectors([entry.row or 0 for entry in stored_chunks]))
                else:
                    stored_chunks = self._catalog.read_ids(tenant, ids_of(connection, part))
                    stored_chunks.sort(key=lambda entry: entry.id)
                    vectors = [None] * len(stored_chunks)
                memories = read_memories(connection, tenant, [entry.id for entry in stored_chunks])
            chunks = zip(stored_chunks, vectors, strict=True)
            yield RecordPage(
                [ChunkRecord(entry.chunk(), vector, memories[entry.id]) for entry, vector in chunks], part[-1]
            )

    def _vectors(self, rows: Sequence[int]) -> NDArray[np.float32]:
        about = self._catalog.facts()
        number = int(about["generation"])
        if self._generation is None or self._generation.number != number:
            self._generation = Generation(self.path, number, about.get("dimension"), NoEmbedding())
        matrix = self._generation.matrix
        if matrix is not None:
            matrix.remap()
        if matrix is None or not matrix.intact(rows).all():
            raise StoreError(
                f"{self.path} has chunks without a usable vector; run hybridgraph repair --index {self.path}, then the "
                "same command again"
            )
        return matrix.take(rows)

    def vector_search(self, tenant: str, query: Query, n: int) -> SourceResult:
        """Return the ``n`` chunks of a tenant whose vectors are nearest to the query vector."""
        return self._index(tenant).vector_search(query, n)

    def keyword_search(self, tenant: str, query: Query, n: int) -> SourceResult | None:
        """Return the ``n`` chunks of a tenant that match the query's words best."""
        return self._index(tenant).keyword_search(query, n)

    def _summaries(self, tenant: str) -> list[SummaryRecord]:
        has_any = any(self.path.glob(f"{FOLDER}-*"))
        return self._index(tenant).present_summaries() if has_any else []

    def _index(self, tenant: str) -> TransferIndex:
        if tenant not in self._opened:
            self._close_indexes()
            name = self.facts().embedding
            self._opened[tenant] = TransferIndex.of(self.path, name, tenant, read_only=True)
        return self._opened[tenant]

    def _close_indexes(self) -> None:
        for index in self._opened.values():
            index.close()
        self._opened.clear()

    def close(self) -> None:
        """Release all open files."""
        self._close_indexes()
        if self._generation is not None:
            self._generation.close()
        self._catalog.close()


class EmbeddedDestination:
    """An index folder that receives a copy.

    Each page of records is written in the same transaction as the progress of the copy.
    """

    kinds: Sequence[Kind] = KINDS

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.name = str(self.path)
        self._facts: StoreFacts | None = None
        self._index: TransferIndex | None = None
        self._source: EmbeddedSource | None = None
        read_facts(self.path)

    def progress(self) -> Mapping[str, Any] | None:
        """Return the progress of an unfinished copy into this folder, or None if there is none."""
        stored_value = read_facts(self.path).get(PROGRESS)
        return None if stored_value is None else dict(json.loads(stored_value))

    def begin(self, facts: StoreFacts) -> None:
        """Create an empty index with the settings of the source, or keep the index of an unfinished copy.

        If the folder already contains an empty index, it is used, provided that both it and the source have tenants or
        that neither has. Raises StoreError if the folder contains any other index.
        """
        self._facts = facts
        about = read_facts(self.path)
        if PROGRESS in about:
            return
        if about:
            with closing(EmbeddedSource(self.path)) as present:
                existing = sum(sum(present.counts(tenant).values()) for tenant in present.facts().tenants)
            if existing or about["tenancy"] != ("multi" if facts.has_tenants else "single"):
                raise StoreError(f"{self.path} already contains an index: choose a new folder, or delete this one")
        TransferIndex.of(self.path, facts.embedding, facts.tenants[0] if facts.has_tenants else "",
                         language=facts.language).close()  # fmt: skip
        fitted: dict[str, Any] = {}
        if facts.model is not None:
            shutil.copyfile(facts.model, self.path / "model-1.npz")
            fitted = {"generation": 1, "fitted_texts": facts.fitted_texts, "fitted_row": facts.fitted_before}
        with closing(Catalog(self.path / CATALOG)) as catalog, catalog.writing() as connection:
            catalog_writes.set_facts(connection, **{PROGRESS: "{}", "language": facts.language, **fitted})

    def adapt(self, kind: Kind, records: Sequence[Any]) -> tuple[Sequence[Any], Mapping[str, int]]:
        """Return the records unchanged, because an index can store all of them."""
        return records, {}

    def write(self, tenant: str, kind: Kind, records: Sequence[Any], progress: Mapping[str, Any]) -> None:
        """Write records and the new progress of the copy in one transaction.

        Summaries are an exception: they are written first, to an index of their own.
        """
        index = self._opened(tenant)
        if kind == "summaries":
            index.restore_summaries(records)

        def also(connection: sqlite3.Connection) -> None:
            if kind == "edges":
                put_edges(connection, tenant, records, index.clock())
            elif kind == "files":
                catalog_writes.put_files(connection, tenant, records)
            elif kind == "settings":
                put_settings(connection, tenant, records)
            catalog_writes.set_facts(connection, **{PROGRESS: json.dumps(progress)})

        chunks = records if kind == "chunks" else ()
        index.restore(chunks, records if kind == "parents" else (), also)

    def flush(self) -> None:
        """Bring the keyword index up to date."""
        if self._index is not None:
            self._index.flush()

    def finish(self) -> Sequence[str]:
        """Check the index and return the problems found.

        If there are none, the copy is finished and its progress is deleted.
        """
        assert self._facts is not None, "begin comes first"
        index = self._opened(self._facts.tenants[0] if self._facts.tenants else "")
        problems = index.admin.check().problems
        self.close()
        if not problems:
            with closing(Catalog(self.path / CATALOG)) as catalog, catalog.writing() as connection:
                forget_fact(connection, PROGRESS)
        return problems

    def _opened(self, tenant: str) -> TransferIndex:
        assert self._facts is not None, "begin comes first"
        if self._index is None or (self._index.tenant or "") != tenant:
            if self._index is not None:
                self._index.close()
            self._index = TransferIndex.of(self.path, self._facts.embedding, tenant, language=self._facts.language)
        return self._index

    # -- reading the copy -----------------------------------------------------------------------------------

    @property
    def _as_source(self) -> EmbeddedSource:
        if self._source is None:
            self._source = EmbeddedSource(self.path)
        return self._source

    def facts(self) -> StoreFacts:
        """Return the settings and the version of the index."""
        return self._as_source.facts()

    def counts(self, tenant: str) -> Mapping[str, int]:
        """Return how many records of each kind a tenant has."""
        return self._as_source.counts(tenant)

    def pages(self, tenant: str, kind: Kind, after: Any, size: int) -> Iterator[RecordPage]:
        """Yield a tenant's records of one kind in pages."""
        return self._as_source.pages(tenant, kind, after, size)

    def vector_search(self, tenant: str, query: Query, n: int) -> SourceResult:
        """Return the ``n`` chunks of a tenant whose vectors are nearest to the query vector."""
        return self._as_source.vector_search(tenant, query, n)

    def keyword_search(self, tenant: str, query: Query, n: int) -> SourceResult | None:
        """Return the ``n`` chunks of a tenant that match the query's words best."""
        return self._as_source.keyword_search(tenant, query, n)

    def close(self) -> None:
        """Release all open files."""
        if self._source is not None:
            self._source.close()
            self._source = None
        if self._index is not None:
            self._index.close()
            self._index = None
