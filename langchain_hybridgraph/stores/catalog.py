"""Catalog: the SQLite database of an index folder."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, NamedTuple

from langchain_hybridgraph.chunks import chunk_uri, context_type_of
from langchain_hybridgraph.errors import NotAnIndexError
from langchain_hybridgraph.records import Edge, digest
from langchain_hybridgraph.stores.catalog_writes import count_edges
from langchain_hybridgraph.stores.chunk_rows import (
    CHUNK,
    GRAPH,
    INVALID_EDGES,
    IS_MENTIONED,
    LOST_EDGES,
    PARENT,
    POSITION,
    RowStates,
    StoredChunk,
    StoredHashes,
    json_list,
    number_list,
    parse_metadata,
    text_hash,
)
from langchain_hybridgraph.stores.connections import CatalogConnections, UndecodableTextError

_NUMERIC_FACTS, _TEXT_FACTS = ("version", "next_row", "floor", "generation", "graph_floor"), {"tenancy", "language"}
_RAW_COLUMNS = ("tenant", "id", "uri", "context_type", "kind", "document", "parent", "metadata", "text")
_RAW_NODES = "SELECT node, row, text_hash, content_hash, {} FROM nodes".format(
    ", ".join(f"CAST({name} AS BLOB)" for name in _RAW_COLUMNS)
)
# Nodes with an edge or a learned value that differs from its copy in an index. Without the condition, SQLite would read
# the copies twice.
_ALTERED_VALUES = " UNION ".join(
    f"SELECT {node} FROM "
    f"(SELECT * FROM {table} NOT INDEXED WHERE {node} > 0 EXCEPT SELECT * FROM {table} INDEXED BY {index})"
    for table, node, index in (
        ("edges", "source", "edge_values"),
        ("learned", "node", "learned_values"),
        ("past_validity", "node", "validity_values"),
        ("past_trust", "node", "trust_values"),
    )
)
_STATES_AT_ONCE = 10_000
# JSON list of a column of times. A list takes half the time of one tuple for each row, and json_group_array rounds.
_TIME = "iif({0} IS NULL, 'null', replace(printf('%!.17g', {0}), 'Inf', 'Infinity'))"
_TIMES = f"'[' || ifnull(group_concat({_TIME}), '') || ']'"
EDGE = "s.id, t.id, e.relation, e.weight, e.description, e.valid_from, e.valid_until"
_COLUMNS = (
    "row, tenant, id, kind, document, parent, text, metadata, l.valid_from, l.valid_until, learned_at, retracted_at"
)
_STORED = "nodes CROSS JOIN learned l USING (node)"
# The validity as it was known at a time: the values stored with the first change after that time.
_COLUMNS_THEN = _COLUMNS.replace("l.valid_from", "iif(p.node, p.valid_from, l.valid_from)").replace(
    "l.valid_until", "iif(p.node, p.valid_until, l.valid_until)"
)
_STORED_THEN = (
    f"{_STORED} LEFT JOIN past_validity p ON p.node = nodes.node AND p.known_until = "
    "(SELECT min(known_until) FROM past_validity WHERE node = nodes.node AND known_until > ?1)"
)


class DamagedNode(NamedTuple):
    """A damaged node, with the values for the columns that depend on its present text, metadata, document and id."""

    node: int
    row: int | None
    tenant: str
    id: str
    text_hash: bytes = b""
    metadata: str | None = None
    uri: str | None = None
    context_type: str | None = None


class DamagedNodes(NamedTuple):
    """Damaged nodes: those that are not valid UTF-8, and those with other texts or metadata than were written."""

    undecodable: list[DamagedNode]
    altered: list[DamagedNode]


class Catalog(CatalogConnections):
    """Read access to the catalog's database. Each statement reads the state of a single commit."""

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return all rows of a SELECT statement."""
        try:
            with self.reading() as connection:
                return connection.execute(sql, values).fetchall()
        except UndecodableTextError:
            with self.reading() as connection:
                return connection.execute(sql, values).fetchall()

    # -- facts ----------------------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """Return all facts of the index, such as its version, language and embedding, as a dict keyed by name."""
        facts = dict(self.query("SELECT name, value FROM about"))
        if not facts.keys() >= _TEXT_FACTS or not all(isinstance(facts.get(name), int) for name in _NUMERIC_FACTS):
            raise self._damaged_facts()
        return facts

    def _damaged_facts(self) -> NotAnIndexError:
        return NotAnIndexError(
            f"{self._path} is not a catalog (a fact about the index is damaged): restore the index from a backup"
        )

    def version(self) -> int:
        """Return the catalog's version: the number of the last commit that changed chunks or vectors."""
        try:
            return int(self.query("SELECT value FROM about WHERE name = 'version'")[0][0])
        except (IndexError, ValueError):
            raise self._damaged_facts() from None

    def age(self) -> float:
        """Return the number of seconds since the database's files were last written to; 0 for a catalog in memory."""
        times = []
        for path in () if self._path is None else (self._path, self._path.with_name(f"{self._path.name}-wal")):
            with suppress(FileNotFoundError):
                times.append(path.stat().st_mtime)
        return time.time() - max(times) if times else 0.0

    def graph_position(self) -> tuple[int, int]:
        """Return the catalog's version, and the number of the last change to the graph."""
        [(version, position)] = self.query(POSITION)
        return int(version), int(position)

    # -- reading --------------------------------------------------------------------------------------------

    def read_rows(self, rows: Iterable[int], known_at: float | None = None) -> list[StoredChunk]:
        """Return the existing chunks in these rows, unordered, with the validity known at ``known_at``."""
        return self.select("row IN (SELECT value FROM json_each(?2))", known_at, number_list(rows))

    def read_ids(self, tenant: str, ids: Iterable[str], known_at: float | None = None) -> list[StoredChunk]:
        """Return the chunks and parents with these ids, with their validity as known at ``known_at`` (None: now)."""
        return self.select("tenant = ?2 AND id IN (SELECT value FROM json_each(?3))", known_at, tenant, json_list(ids))

    def pages(self, start: int = 0, stop: int = 1 << 62, *, step: int = 2_000) -> Iterator[list[StoredChunk]]:
        """Yield pages of the chunks with a row in [start, stop), sorted by row. No lock is held between pages."""
        while page := self.select("row >= ?2 AND row < ?3 ORDER BY row LIMIT ?4", None, start, stop, step):
            yield page
            start = (page[-1].row or 0) + 1

    def iterate(self, start: int = 0, stop: int = 1 << 62) -> Iterator[StoredChunk]:
        """Yield all chunks with a row in [start, stop), sorted by row."""
        return chain.from_iterable(self.pages(start, stop))

    def texts(self, start: int = 0) -> Iterator[tuple[int, str]]:
        """Yield the row and text of all chunks, starting at row ``start``, sorted by row."""
        return ((entry.row or 0, entry.text) for entry in self.iterate(start))

    def row_states(self, tenant: str, end: int, rows: Sequence[int] | None = None) -> Iterator[RowStates]:
        """Yield the states of a tenant's chunks in these rows (None: all below ``end``), without deleted ones."""
        times = ("l.valid_from", "l.valid_until", "learned_at", "retracted_at")
        columns = ", ".join(["json_group_array(row)", "json_group_array(id)", *map(_TIMES.format, times)])
        # The plus prevents SQLite from using an index on the tenant, so only these rows are read.
        sql = f"SELECT {columns} FROM {_STORED} WHERE +tenant = ?1 AND row "
        pages: Iterable[list[Any]]
        if rows is not None:
            pages = [self.query(f"{sql} IN (SELECT value FROM json_each(?2))", (tenant, number_list(rows)))]
        else:
            starts = range(0, end, _STATES_AT_ONCE)
            pages = (self.query(f"{sql} >= ?2 AND row < ?3", (tenant, n, n + _STATES_AT_ONCE)) for n in starts)
        for [page] in pages:
            if page[0] != "[]":
                rows_of_page, ids, *times_of_page = map(json.loads, page)
                yield rows_of_page, ids, times_of_page

    def text_hashes(self) -> dict[int, bytes]:
        """Return the text hash of every chunk, as a dict keyed by row in ascending order."""
        return dict(self.query("SELECT row, text_hash FROM nodes WHERE row NOT NULL ORDER BY row"))

    def count_rows(self) -> int:
        """Return the number of chunks of all tenants."""
        return int(self.query("SELECT count(*) FROM nodes WHERE row NOT NULL")[0][0])

    def past_validity(self, rows: Iterable[int] | None = None) -> list[tuple[int, float, float, float]]:
        """Return (row, known until, valid from, valid until) for each earlier validity of these rows (None: all)."""
        condition = "" if rows is None else "AND row IN (SELECT value FROM json_each(?))"
        return self.query(
            "SELECT row, known_until, ifnull(valid_from, -9e999), ifnull(valid_until, 9e999) "
            f"FROM past_validity CROSS JOIN nodes USING (node) WHERE row NOT NULL {condition}",
            () if rows is None else (number_list(rows),),
        )

    def select(self, where: str, known_at: float | None, *values: Any) -> list[StoredChunk]:
        """Return the chunks and parents for which a condition is true; in it, ``values`` are numbered from ?2."""
        what = f"{_COLUMNS} FROM {_STORED}" if known_at is None else f"{_COLUMNS_THEN} FROM {_STORED_THEN}"
        return [StoredChunk(*row) for row in self.query(f"SELECT {what} WHERE {where}", (known_at, *values))]

    def count(self, tenant: str) -> dict[str, int]:
        """Return a dict with the numbers of a tenant's chunks, parents, edges and entities."""
        kinds = dict(self.query("SELECT kind, count(*) FROM nodes WHERE tenant = ? GROUP BY kind", (tenant,)))
        [(edges,)] = self.query("SELECT count(*) FROM edges JOIN nodes ON node = source WHERE tenant = ?", (tenant,))
        [(entities,)] = self.query(
            f"SELECT count(*) FROM nodes WHERE tenant = ? AND kind = '{GRAPH}' AND {IS_MENTIONED}", (tenant,)
        )
        counts = {"chunks": kinds.get(CHUNK, 0), "parents": kinds.get(PARENT, 0)}
        return {**counts, "edges": edges, "entities": entities}

    def has_parents(self, tenant: str) -> bool:
        """Return whether this tenant has any parent, or any chunk with the id of a parent."""
        # SQLite uses the partial index only if the kind is a literal, not a parameter.
        rows = self.query(
            f"SELECT 1 FROM nodes WHERE kind = '{PARENT}' AND tenant = ?1 "
            "UNION ALL SELECT 1 FROM nodes WHERE parent NOT NULL AND tenant = ?1 LIMIT 1",
            (tenant,),
        )
        return bool(rows)

    def stored_hashes(self, tenant: str, ids: Iterable[str]) -> dict[str, StoredHashes]:
        """Return the kind, row and hashes of each known id; an id that is used only in edges has the kind ``graph``."""
        results = self.query(
            "SELECT id, kind, row, text_hash, content_hash FROM nodes "
            "WHERE tenant = ? AND id IN (SELECT value FROM json_each(?))",
            (tenant, json_list(ids)),
        )
        return {id: StoredHashes(*rest) for id, *rest in results}

    def changed_rows(self, version: int) -> list[int]:
        """Return the rows that were changed by commits after ``version``."""
        return [row for (row,) in self.query("SELECT DISTINCT row FROM changes WHERE version > ?", (version,))]

    def edges(self, tenant: str, ids: Iterable[str], *, backwards: bool = False) -> list[Edge]:
        """Return the edges from these ids, or, with ``backwards``, to them, sorted by source, relation and target."""
        near_end = "t" if backwards else "s"
        results = self.query(
            f"SELECT {EDGE} FROM edges e "
            "JOIN nodes s ON s.node = e.source JOIN nodes t ON t.node = e.target "
            f"WHERE {near_end}.tenant = ? AND {near_end}.id IN (SELECT value FROM json_each(?)) "
            "ORDER BY s.id, relation, t.id",
            (tenant, json_list(ids)),
        )
        return [Edge(*values) for values in results]

    def damage(self) -> list[str]:
        """Return SQLite's messages about damage to the database, such as rows that differ from their indexes."""
        return [message for (message,) in self.query("PRAGMA integrity_check(5)") if message != "ok"]

    def edge_faults(self) -> list[str]:
        """Return messages about edges that cannot have been written."""
        with self.reading() as connection:
            dangling = connection.execute(f"SELECT count(*) FROM edges WHERE {LOST_EDGES}").fetchone()[0]
            wrong = connection.execute(f"SELECT count(*) FROM edges WHERE {INVALID_EDGES}").fetchone()[0]
        faults = [f"{dangling} edges point to missing nodes"] if dangling else []
        what = "have no weight, are never valid, or lead to themselves or another tenant"
        return faults + ([f"{wrong} edges {what}"] if wrong else [])

    def damaged_nodes(self) -> DamagedNodes:
        """Read all texts, ids and metadata, and return the nodes that have been damaged."""
        damaged = DamagedNodes([], [])
        with self.reading() as connection:
            for node, row, hash, content_hash, *values in connection.execute(_RAW_NODES):
                try:
                    contents: list[Any] = [None if raw is None else raw.decode() for raw in values]
                except UnicodeDecodeError:
                    tenant, id = (raw.decode(errors="replace") for raw in values[:2])
                    damaged.undecodable.append(DamagedNode(node, row, tenant, id))
                    continue
                tenant, id, *place, kind, document, parent, metadata, text = contents
                if text is None:
                    continue
                parsed = None if metadata is None else parse_metadata(metadata)
                is_as_written = content_hash in (b"", digest(kind, document or "", parent or "", metadata or "", text))
                uri, context_type = None, None
                if row is not None:
                    uri = chunk_uri(id, document or "", parsed or {})
                    context_type = context_type_of(parsed or {})
                if (parsed is None, is_as_written, text_hash(text), place) != (False, True, hash, [uri, context_type]):
                    readable = "{}" if parsed is None else metadata
                    damaged.altered.append(
                        DamagedNode(node, row, tenant, id, text_hash(text), readable, uri, context_type)
                    )
        return damaged

    def altered_values(self) -> list[DamagedNode]:
        """Return the nodes with an edge or a learned value that has been damaged, as :meth:`damage` shows."""
        sql = f"SELECT node, row, tenant, id FROM nodes WHERE node IN ({_ALTERED_VALUES})"
        return [DamagedNode(*values) for values in self.query(sql)]

    def count_edges(self) -> int:
        """Return the number of edges of all tenants."""
        with self.reading() as connection:
            return count_edges(connection)
