"""SQL statements for copying an index.

Statements that write must be executed inside ``Catalog.writing()``, the others on a connection from
``Catalog.reading()``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from langchain_hybridgraph.records import Edge
from langchain_hybridgraph.stores.embedded.catalog import memory as catalog_memory
from langchain_hybridgraph.stores.embedded.catalog import outbox as catalog_outbox
from langchain_hybridgraph.stores.embedded.catalog import records as catalog_records
from langchain_hybridgraph.stores.embedded.catalog import writes as catalog_writes
from langchain_hybridgraph.stores.embedded.catalog.memory import MemoryValues
from langchain_hybridgraph.stores.embedded.catalog.records import json_list
from langchain_hybridgraph.stores.transfer import EdgeRecord, MemoryRecord, TenantSetting

if TYPE_CHECKING:
    import sqlite3

_EDGES = (
    "SELECT s.id, t.id, relation, weight, description, valid_from, valid_until, learned_at "
    "FROM nodes s CROSS JOIN edges e ON e.source = s.node CROSS JOIN nodes t ON t.node = e.target "
    "WHERE s.tenant = ?1 AND s.id >= ?2 AND (s.id, relation, t.id) > (?2, ?3, ?4) "
    "ORDER BY s.id, relation, t.id LIMIT ?5"
)
_HISTORIES = ("past_validity", "valid_from, valid_until"), ("past_trust", "confidence, utility")


def numbers(connection: sqlite3.Connection, tenant: str, kind: str, after: int) -> list[int]:
    """Return the row numbers of a tenant's chunks, or the node numbers of its parents, in ascending order.

    ``kind`` selects chunks or parents. Only numbers greater than ``after`` are returned.
    """
    column = "row" if kind == catalog_records.CHUNK else "node"
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


def memories(connection: sqlite3.Connection, tenant: str, ids: Iterable[str]) -> dict[str, MemoryRecord]:
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


def edges(connection: sqlite3.Connection, tenant: str, after: Sequence[str], size: int) -> list[EdgeRecord]:
    """Return up to ``size`` edges of a tenant, sorted by source, relation and target.

    Only edges that come after the edge ``after`` (source, relation, target) in this order are returned.
    """
    results = connection.execute(_EDGES, (tenant, *after, size))
    return [EdgeRecord(Edge(*values), learned_at) for *values, learned_at in results]


def settings(connection: sqlite3.Connection, tenant: str) -> list[TenantSetting]:
    """Return a tenant's search mode, if one is set, and the credibility of its sources."""
    modes = connection.execute("SELECT value FROM about WHERE name = ?", (catalog_records.mode_name(tenant),))
    credits = connection.execute("SELECT source, ok, bad FROM credibility WHERE tenant = ? ORDER BY source", (tenant,))
    return [*(TenantSetting("mode", row) for row in modes), *(TenantSetting("credibility", row) for row in credits)]


def count(connection: sqlite3.Connection, tenant: str) -> dict[str, int]:
    """Return the number of a tenant's parents, chunks, edges, files and settings, keyed by these names."""
    statement = (
        "SELECT (SELECT count(*) FROM nodes WHERE tenant = ?1 AND kind = 'parent'), "
        "(SELECT count(*) FROM nodes WHERE tenant = ?1 AND kind = 'chunk'), "
        "(SELECT count(*) FROM nodes CROSS JOIN edges ON source = node WHERE tenant = ?1), "
        "(SELECT count(*) FROM files WHERE tenant = ?1), "
        "(SELECT count(*) FROM credibility WHERE tenant = ?1) + (SELECT count(*) FROM about WHERE name = ?2)"
    )
    counts = connection.execute(statement, (tenant, catalog_records.mode_name(tenant))).fetchone()
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
            catalog_outbox.set_facts(connection, **{catalog_records.mode_name(tenant): values[0]})
        else:
            connection.execute("INSERT OR REPLACE INTO credibility VALUES (?, ?, ?, ?)", (tenant, *values))


def forget_fact(connection: sqlite3.Connection, name: str) -> None:
    """Delete a fact of the index."""
    connection.execute("DELETE FROM about WHERE name = ?", (name,))
