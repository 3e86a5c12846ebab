"""SQL statements for the state of memories."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from langchain_hybridgraph.chunks import ParsedMetadata, reference
from langchain_hybridgraph.records import MemoryState
from langchain_hybridgraph.stores.catalog_writes import put_entries
from langchain_hybridgraph.stores.chunk_rows import ChunkRow, json_list, parse_metadata

if TYPE_CHECKING:
    import sqlite3

_NAMES = (
    "valid_from, valid_until, learned_at, retracted_at, expires_at, confidence, utility, active_count, used_at, "
    "updated_at, created_at, memory_type, provenance_depth"
)
_STATELESS = "kind <> 'graph' AND node NOT IN (SELECT node FROM learned)"
_OWNERLESS = "node NOT IN (SELECT node FROM nodes WHERE kind <> 'graph')"


# A join to the first change after the time ?1, which has the values known at that time.
_THEN = (
    "LEFT JOIN {0} {1} ON {1}.node = l.node AND {1}.known_until = "
    "(SELECT min(known_until) FROM {0} WHERE node = l.node AND known_until > ?1)"
)
_LEARNED = (
    "SELECT nodes.id, iif(t.node, t.confidence, l.confidence), iif(t.node, t.utility, l.utility), active_count, "
    "used_at, updated_at, iif(v.node, v.valid_from, l.valid_from), iif(v.node, v.valid_until, l.valid_until), "
    "created_at, learned_at, memory_type, provenance_depth, "
    "iif(v.node, v.valid_until, l.valid_until) IS NOT l.expires_at "
    # CROSS makes SQLite join in this order: ids, nodes, states.
    "FROM json_each(?3) asked CROSS JOIN nodes ON tenant = ?2 AND nodes.id = asked.value "
    f"CROSS JOIN learned l ON l.node = nodes.node {_THEN.format('past_trust', 't')} "
    f"{_THEN.format('past_validity', 'v')} WHERE learned_at <= ?1 AND ifnull(retracted_at, 9e999) > ?1"
)
_AFTER_ALL_CHANGES = sys.float_info.max


class MemoryValues(NamedTuple):
    """The state of a chunk or parent: one row of the table ``learned``."""

    valid_from: float | None
    valid_until: float | None
    learned_at: float
    retracted_at: float | None
    expires_at: float | None
    confidence: float | None
    utility: float | None
    active_count: int
    used_at: float | None
    updated_at: float | None
    created_at: float | None
    memory_type: str | None
    provenance_depth: int


class StoredMemory(NamedTuple):
    """The state of a chunk or parent, with its node, row, hash of its text and metadata."""

    node: int
    row: int | None
    text_hash: bytes
    metadata: str
    values: MemoryValues

    @property
    def source(self) -> str | None:
        """The ``source`` in the metadata, or None if there is none."""
        source = (parse_metadata(self.metadata) or {}).get("source")
        return None if source is None else reference(str(source))


def learned(
    connection: sqlite3.Connection, tenant: str, ids: Iterable[str], known_at: float | None
) -> dict[str, MemoryState]:
    """Return the state of each of these chunks and parents, now or as known at ``known_at``.

    Those not known then are left out. Values other than validity, confidence and utility are always current.
    """
    time = _AFTER_ALL_CHANGES if known_at is None else known_at
    rows = connection.execute(_LEARNED, (time, tenant, json_list(ids)))
    return {
        id: dataclasses.replace(MemoryState(*values), end_learned=bool(end_learned))
        for id, *values, end_learned in rows
    }


# Row, confidence, utility, active count, used at, updated at, began at, valid until, provenance depth, memory type.
ByRow = tuple[
    int, float | None, float | None, int, float | None, float | None, float | None, float | None, int, str | None
]
_BY_ROW = (
    "SELECT row, confidence, utility, active_count, used_at, updated_at, coalesce(valid_from, created_at, learned_at), "
    "iif(valid_until IS expires_at, valid_until, NULL), "
    "provenance_depth, memory_type FROM {source} WHERE tenant = ?1 AND {condition}"
)
FROM_ROW = _BY_ROW.format(source="nodes CROSS JOIN learned USING (node)", condition="row >= ?2 AND row < ?3")
CHANGED = _BY_ROW.format(
    source="(SELECT DISTINCT node FROM learned_changes WHERE number > ?2) CROSS JOIN nodes USING (node) "
    "CROSS JOIN learned USING (node)",
    condition="row NOT NULL",
)


def insert_or_replace(connection: sqlite3.Connection, entries: Sequence[ChunkRow], now: float) -> None:
    """Insert or replace chunks and parents, and set their state from their metadata.

    An existing chunk keeps a learned value unless that value changes in its metadata. A chunk with a changed text is a
    new statement, learned ``now``.
    """
    ids = [entry.id for entry in entries]
    existing = read_states(connection, entries[0].tenant, ids) if entries else {}
    put_entries(connection, entries)
    new = [entry for entry in entries if entry.id not in existing]
    fresh = {entry.id: _initial(entry.metadata_values, now) for entry in new}
    again = {entry.id: _after_ingest(entry, existing[entry.id], now) for entry in entries if entry.id in existing}
    connection.executemany(
        f"INSERT INTO learned (node, {_NAMES}) VALUES "
        f"((SELECT node FROM nodes WHERE tenant = ? AND id = ?){', ?' * len(MemoryValues._fields)})",
        ((entry.tenant, entry.id, *fresh[entry.id]) for entry in new),
    )
    for id, after in again.items():
        replace(connection, existing[id].node, existing[id].values, after, now)


def _initial(metadata: ParsedMetadata, now: float) -> MemoryValues:
    return MemoryValues(
        valid_from=metadata.valid_from,
        valid_until=metadata.valid_until,
        learned_at=now,
        retracted_at=None,
        expires_at=metadata.valid_until,
        confidence=metadata.confidence,
        utility=metadata.utility,
        active_count=metadata.active_count or 0,
        used_at=None,
        updated_at=metadata.updated_at,
        created_at=metadata.created_at,
        memory_type=metadata.memory_type,
        provenance_depth=metadata.provenance_depth or 0,
    )


def _after_ingest(entry: ChunkRow, before: StoredMemory, now: float) -> MemoryValues:
    """Return the state after an entry is written again.

    A change in the metadata replaces a value, but a removed value is cleared only if the current value still comes from
    the old metadata.
    """
    old_metadata = ParsedMetadata.of(parse_metadata(before.metadata) or {})
    first, last = _initial(old_metadata, now)._asdict(), _initial(entry.metadata_values, now)._asdict()
    values = before.values._asdict()
    changed = [name for name in last if last[name] != first[name]]
    after = before.values._replace(
        **{name: last[name] for name in changed if last[name] is not None or values[name] == first[name]}
    )
    if entry.text_hash == before.text_hash:
        return after
    return after._replace(learned_at=now, retracted_at=None)


def read_states(connection: sqlite3.Connection, tenant: str, ids: Iterable[str]) -> dict[str, StoredMemory]:
    """Return the current state of each of these chunks and parents, retracted or not; unknown ids are left out."""
    rows = connection.execute(
        f"SELECT id, node, row, text_hash, metadata, {_NAMES} FROM nodes JOIN learned USING (node) "
        "WHERE tenant = ? AND id IN (SELECT value FROM json_each(?))",
        (tenant, json_list(ids)),
    ).fetchall()
    return {
        id: StoredMemory(node, row, digest, metadata, MemoryValues(*values))
        for id, node, row, digest, metadata, *values in rows
    }


def sessions(connection: sqlite3.Connection, tenant: str) -> dict[str, int]:
    """Return the number of turns of each session, keyed by session id."""
    rows = connection.execute(
        "SELECT session, count(*) FROM nodes WHERE tenant = ? AND session IS NOT NULL GROUP BY session", (tenant,)
    )
    return dict(rows.fetchall())


def count(connection: sqlite3.Connection, tenant: str) -> dict[str, int]:
    """Return how many sessions and retracted memories a tenant has: ``{"sessions": …, "retracted": …}``."""
    retracted = connection.execute(
        "SELECT count(*) FROM learned CROSS JOIN nodes USING (node) WHERE retracted_at NOT NULL AND tenant = ?",
        (tenant,),
    ).fetchone()[0]
    return {"sessions": len(sessions(connection, tenant)), "retracted": int(retracted)}


def faults(connection: sqlite3.Connection) -> list[str]:
    """Return one message for each kind of fault in the tables of learned values; [] if there are none."""
    missing, orphans = connection.execute(
        f"SELECT (SELECT count(*) FROM nodes WHERE {_STATELESS}), (SELECT count(*) FROM learned WHERE {_OWNERLESS}) "
        f"+ (SELECT count(*) FROM past_validity WHERE {_OWNERLESS}) "
        f"+ (SELECT count(*) FROM past_trust WHERE {_OWNERLESS})"
    ).fetchone()
    faults = []
    if missing:
        faults.append(f"{missing} chunks have no learned values, so searches miss them; repair() restores initial ones")
    if orphans:
        faults.append(f"{orphans} learned values belong to no chunk; repair() deletes them")
    return faults


def repair(connection: sqlite3.Connection, now: float) -> list[int]:
    """Restore missing learned values from the metadata and delete orphaned ones; return the rows of restored chunks."""
    unlearned = connection.execute(f"SELECT node, row, metadata FROM nodes WHERE {_STATELESS}").fetchall()
    connection.executemany(
        f"INSERT INTO learned (node, {_NAMES}) VALUES (?{', ?' * len(MemoryValues._fields)})",
        ((node, *_initial(ParsedMetadata.of(parse_metadata(metadata) or {}), now)) for node, _, metadata in unlearned),
    )
    connection.executemany("INSERT INTO learned_changes (node) VALUES (?)", ((node,) for node, _, _ in unlearned))
    for table in ("learned", "past_validity", "past_trust"):
        connection.execute(f"DELETE FROM {table} WHERE {_OWNERLESS}")
    return [row for _, row, _ in unlearned if row is not None]


def revise(connection: sqlite3.Connection, memory: StoredMemory, after: MemoryValues, now: float) -> list[int]:
    """Write the new state of a chunk or parent; return ``[row]`` if the times of a chunk have changed, else []."""
    replace(connection, memory.node, memory.values, after, now)
    return [memory.row] if memory.row is not None and memory.values[:4] != after[:4] else []


def replace(connection: sqlite3.Connection, node: int, before: MemoryValues, after: MemoryValues, now: float) -> None:
    """Write the new state of a node and record the previous one; delete its history if ``learned_at`` changes."""
    if before == after:
        return
    if after.learned_at != before.learned_at:  # a new statement without a history
        connection.execute("DELETE FROM past_validity WHERE node = ?", (node,))
        connection.execute("DELETE FROM past_trust WHERE node = ?", (node,))
    elif now > before.learned_at:  # values that were replaced immediately have no history
        if (before.valid_from, before.valid_until) != (after.valid_from, after.valid_until):
            _note(connection, "past_validity", node, now, before.valid_from, before.valid_until)
        if (before.confidence, before.utility) != (after.confidence, after.utility):
            _note(connection, "past_trust", node, now, before.confidence, before.utility)
    places = ", ".join(f"{name} = ?" for name in MemoryValues._fields)
    connection.execute(f"UPDATE learned SET {places} WHERE node = ?", (*after, node))


def _note(connection: sqlite3.Connection, table: str, node: int, now: float, *values: float | None) -> None:
    connection.execute(f"INSERT OR IGNORE INTO {table} VALUES (?, ?, ?, ?)", (node, now, *values))
