"""SQL statements for changes and memories in the catalog."""

import dataclasses
import json
import sqlite3
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from langchain_hybridgraph.chunks import ParsedMetadata, reference
from langchain_hybridgraph.records import CONTAINS, ENTITY, MENTIONS, TITLE, Edge, MemoryState
from langchain_hybridgraph.stores.chunk_rows import (
    GRAPH,
    INVALID_EDGES,
    IS_MENTIONED,
    LOST_EDGES,
    PARENT,
    POSITION,
    ChunkRow,
    json_list,
    mode_name,
    parse_metadata,
)

# The log of graph changes is cut when it exceeds _KEPT_CHANGES plus the number of nodes divided by _KEPT_SHARE. A
# reader that has missed more changes reads the full graph, which is faster than following such a long log.
_KEPT_CHANGES, _KEPT_SHARE = 2_000, 4


def set_facts(connection: sqlite3.Connection, **facts: Any) -> None:
    """Insert or replace facts of the index."""
    connection.executemany("INSERT OR REPLACE INTO about VALUES (?, ?)", facts.items())


def delete_facts(connection: sqlite3.Connection, *names: str) -> None:
    """Delete facts of the index."""
    connection.executemany("DELETE FROM about WHERE name = ?", ((name,) for name in names))


def log_changes(connection: sqlite3.Connection, rows: Iterable[int]) -> int:
    """Record ``rows`` as changed by a new version of the catalog, and return its number."""
    connection.execute("UPDATE about SET value = value + 1 WHERE name = 'version'")
    version = int(connection.execute("SELECT value FROM about WHERE name = 'version'").fetchone()[0])
    connection.executemany("INSERT INTO changes VALUES (?, ?)", ((version, row) for row in set(rows)))
    return version


def trim_graph_changes(connection: sqlite3.Connection) -> None:
    """Delete the older half of the log of graph changes if the log is too long."""
    first, last, nodes = connection.execute(
        "SELECT (SELECT min(number) FROM graph_changes), (SELECT max(number) FROM graph_changes), "
        "(SELECT max(node) FROM nodes)"
    ).fetchone()
    if first is not None and last - first >= _KEPT_CHANGES + (nodes or 0) // _KEPT_SHARE:
        forget_graph_changes(connection, (first + last) // 2)


def forget_graph_changes(connection: sqlite3.Connection, floor: int) -> None:
    """Delete graph changes up to number ``floor``; readers that lack them must read the graph again."""
    connection.execute("DELETE FROM graph_changes WHERE number <= ?", (floor,))
    set_facts(connection, graph_floor=floor)


_FILES_OF = (
    "DELETE FROM files WHERE (tenant, source) IN "
    "(SELECT f.tenant, f.source FROM file_documents f JOIN ({}) d ON f.tenant = d.tenant AND f.document = d.document)"
)
# Files with an edge to one of these nodes. Without the node, the edges of their documents would be different.
_LINKING = _FILES_OF.format(
    "SELECT DISTINCT n.tenant, n.document FROM json_each(?) gone CROSS JOIN edges e ON e.target = gone.value "
    "CROSS JOIN nodes n ON n.node = e.source WHERE n.document NOT NULL"
)
# Files that mention the title of a deleted document. Without the title, some of these mentions would disappear.
_MENTIONING = _FILES_OF.format(
    "SELECT DISTINCT n.tenant, n.document FROM json_each(?) gone "
    f"CROSS JOIN nodes t ON t.node = gone.value AND t.kind = 'graph' AND substr(t.id, 1, {len(TITLE)}) = '{TITLE}' "
    f"CROSS JOIN nodes x ON x.tenant = t.tenant AND x.id = '{ENTITY}' || substr(t.id, {len(TITLE) + 1}) "
    f"CROSS JOIN edges e ON e.target = x.node AND e.relation = '{MENTIONS}' "
    "CROSS JOIN nodes n ON n.node = e.source WHERE n.document NOT NULL"
)


def forget_files(connection: sqlite3.Connection, tenant: str) -> None:
    """Delete the records of a tenant's files, except paths and documents, so that the next ingest reads them again."""
    connection.execute("DELETE FROM files WHERE tenant = ?", (tenant,))


# The nodes of tenant ?1 that edges may connect: chunks, parents, entities that a chunk mentions, and directories that
# contain a chunk.
_CONNECTED_NODES = f"""
WITH RECURSIVE joined (node) AS (
    SELECT node FROM nodes WHERE tenant = ?1 AND kind <> '{GRAPH}'
    UNION SELECT target FROM edges JOIN nodes ON node = source
        WHERE tenant = ?1 AND kind <> '{GRAPH}' AND relation = '{MENTIONS}'
    UNION SELECT source FROM joined JOIN edges ON target = node AND relation = '{CONTAINS}'
)
"""
_IS_ORPHAN = "source IN (SELECT node FROM nodes WHERE tenant = ?1) AND (source NOT IN joined OR target NOT IN joined)"
_IS_LONE = (
    f"kind = '{GRAPH}' AND NOT EXISTS (SELECT 1 FROM edges WHERE source = node) "
    "AND NOT EXISTS (SELECT 1 FROM edges WHERE target = node)"
)
_IN_LIST = "IN (SELECT value FROM json_each(?1))"


def put_edges(
    connection: sqlite3.Connection, tenant: str, edges: Collection[Edge], now: float, *, by_weight: bool = True
) -> None:
    """Insert edges and create missing nodes at their ends.

    The heavier of equal edges is kept, or the new one unless ``by_weight``. A changed validity is learned at ``now``.
    """
    # The ends are sorted because node numbers break ties; the same edges must always get the same numbers.
    ends = sorted({end for edge in edges for end in (edge.source, edge.target)})
    connection.executemany(
        "INSERT OR IGNORE INTO nodes (tenant, id, kind) VALUES (?, ?, ?)", ((tenant, end, GRAPH) for end in ends)
    )
    sql = "SELECT id, node FROM nodes WHERE tenant = ? AND id IN (SELECT value FROM json_each(?))"
    nodes = dict(connection.execute(sql, (tenant, json_list(ends))))
    connection.executemany(
        "INSERT INTO edges (source, relation, target, weight, description, valid_from, valid_until, learned_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET weight = excluded.weight, "
        "description = excluded.description, valid_from = excluded.valid_from, valid_until = excluded.valid_until, "
        "learned_at = iif((valid_from, valid_until) IS (excluded.valid_from, excluded.valid_until), "
        "learned_at, excluded.learned_at)" + (" WHERE excluded.weight > weight" if by_weight else ""),
        (
            (nodes[e.source], e.relation, nodes[e.target], e.weight, e.description, e.valid_from, e.valid_until, now)
            for e in edges
        ),
    )


def delete_edges(connection: sqlite3.Connection, tenant: str, edges: Collection[Edge]) -> None:
    """Delete the stored edges with the same source, relation and target as any of these edges."""
    connection.executemany(
        "DELETE FROM edges WHERE source = (SELECT node FROM nodes WHERE tenant = ?1 AND id = ?2) AND relation = ?3 "
        "AND target = (SELECT node FROM nodes WHERE tenant = ?1 AND id = ?4)",
        ((tenant, edge.source, edge.relation, edge.target) for edge in edges),
    )


def count_orphan_edges(connection: sqlite3.Connection, tenant: str) -> int:
    """Return the number of a tenant's edges with a missing end."""
    count = f"{_CONNECTED_NODES} SELECT count(*) FROM edges WHERE {_IS_ORPHAN}"
    return int(connection.execute(count, (tenant,)).fetchone()[0])


def delete_orphan_edges(connection: sqlite3.Connection, tenant: str) -> int:
    """Delete edges with a missing end, then graph nodes without edges; return the number of deleted edges."""
    deleted = count_orphan_edges(connection, tenant)
    connection.execute(f"{_CONNECTED_NODES} DELETE FROM edges WHERE {_IS_ORPHAN}", (tenant,))
    connection.execute(f"DELETE FROM nodes WHERE tenant = ? AND {_IS_LONE}", (tenant,))
    return deleted


def delete_weak_edges(connection: sqlite3.Connection, tenant: str, min_weight: float, max_per_source: int) -> int:
    """Delete edges below ``min_weight``, then all but the ``max_per_source`` heaviest per source (0: all kept).

    Return the number of deleted edges, including those of entities without mentions.
    """
    count = "SELECT count(*) FROM edges"
    before = connection.execute(count).fetchone()[0]
    sql = f"SELECT node FROM nodes WHERE tenant = ? AND kind = '{GRAPH}' AND {IS_MENTIONED}"
    mentioned = [node for (node,) in connection.execute(sql, (tenant,))]
    sql = "DELETE FROM edges WHERE weight < ? AND source IN (SELECT node FROM nodes WHERE tenant = ?)"
    connection.execute(sql, (min_weight, tenant))
    if max_per_source:
        connection.execute(
            "DELETE FROM edges WHERE (source, relation, target) IN (SELECT source, relation, target FROM "
            "(SELECT e.source, e.relation, e.target, row_number() OVER "
            "(PARTITION BY e.source ORDER BY e.weight DESC, e.relation, t.id) AS place "
            "FROM edges e JOIN nodes t ON t.node = e.target WHERE t.tenant = ?) WHERE place > ?)",
            (tenant, max_per_source),
        )
    delete_unmentioned(connection, mentioned)
    return int(before - connection.execute(count).fetchone()[0])


def graph_ends(connection: sqlite3.Connection, tenant: str, edges: Iterable[Edge]) -> list[int]:
    """Return the nodes of the entities that these edges mention."""
    targets = json_list({edge.target for edge in edges if edge.relation == MENTIONS})
    sql = f"SELECT node FROM nodes WHERE tenant = ? AND kind = '{GRAPH}' AND id IN (SELECT value FROM json_each(?))"
    return [node for (node,) in connection.execute(sql, (tenant, targets))]


def delete_unmentioned(connection: sqlite3.Connection, entities: Iterable[int]) -> None:
    """Delete the entities among these nodes that are no longer mentioned, with their edges and orphaned graph nodes."""
    orphan_nodes = _select(connection, f"SELECT node FROM nodes WHERE node {_IN_LIST} AND NOT {IS_MENTIONED}", entities)
    if orphan_nodes:
        _delete_nodes(connection, orphan_nodes)


def delete_ids(connection: sqlite3.Connection, tenant: str, ids: Iterable[str]) -> tuple[int, list[int]]:
    """Delete chunks and parents with edges, and childless parents; return the number deleted and the freed rows."""
    results = connection.execute(
        f"SELECT node, row, parent FROM nodes WHERE tenant = ? AND kind <> '{GRAPH}' "
        "AND id IN (SELECT value FROM json_each(?))",
        (tenant, json_list(ids)),
    ).fetchall()
    _delete_nodes(connection, [node for node, _, _ in results])
    childless = connection.execute(
        f"SELECT node FROM nodes p WHERE kind = '{PARENT}' AND tenant = ?1 "
        "AND id IN (SELECT value FROM json_each(?2)) "
        "AND NOT EXISTS (SELECT 1 FROM nodes c WHERE c.tenant = ?1 AND c.parent = p.id)",
        (tenant, json_list({parent for _, _, parent in results if parent is not None})),
    ).fetchall()
    _delete_nodes(connection, [node for (node,) in childless])
    return len(results), [row for _, row, _ in results if row is not None]


def delete_tenant(connection: sqlite3.Connection, tenant: str) -> list[int]:
    """Delete all data of a tenant and overwrite it on disk; return the freed rows, ascending.

    The probe text of the index is deleted as well, unless a chunk of another tenant has the same text.
    """
    connection.execute("PRAGMA secure_delete = ON")
    results = connection.execute("SELECT row FROM nodes WHERE tenant = ? AND row NOT NULL ORDER BY row", (tenant,))
    rows = [row for (row,) in results]
    # Edges connect only nodes of the same tenant.
    connection.execute("DELETE FROM edges WHERE source IN (SELECT node FROM nodes WHERE tenant = ?)", (tenant,))
    connection.execute("DELETE FROM nodes WHERE tenant = ?", (tenant,))
    for table in ("files", "file_documents", "file_paths", "credibility"):
        connection.execute(f"DELETE FROM {table} WHERE tenant = ?", (tenant,))
    connection.execute("DELETE FROM about WHERE name = ?", (mode_name(tenant),))
    connection.execute(
        "DELETE FROM about WHERE name IN ('probe_text', 'probe_vector') AND NOT EXISTS "
        "(SELECT 1 FROM nodes JOIN about a ON a.name = 'probe_text' WHERE row NOT NULL AND text = a.value)"
    )
    return rows


def _select(connection: sqlite3.Connection, sql: str, nodes: Iterable[int]) -> list[int]:
    """Run a statement with nodes as ?1, and return the first column of its result."""
    return [row[0] for row in connection.execute(sql, (json.dumps(list(nodes)),))]


def _delete_nodes(connection: sqlite3.Connection, nodes: Sequence[int]) -> None:
    """Delete nodes, their edges and file records, then unmentioned entities, lone nodes and empty directories."""
    if connection.execute("SELECT 1 FROM files LIMIT 1").fetchone() is not None:
        _select(connection, _LINKING, nodes)
        _select(connection, _MENTIONING, nodes)
    ends = f"JOIN nodes ON node = {{}} WHERE kind = '{GRAPH}' AND {{}} {_IN_LIST}"
    targets = f"SELECT target FROM edges {ends.format('target', 'source')}"
    entities = set(_select(connection, f"{targets} AND relation = '{MENTIONS}'", nodes))
    others = {
        *_select(connection, f"{targets} AND relation <> '{MENTIONS}'", nodes),
        *_select(connection, f"SELECT source FROM edges {ends.format('source', 'target')}", nodes),
    }
    _select(connection, f"DELETE FROM edges WHERE source {_IN_LIST}", nodes)
    _select(connection, f"DELETE FROM edges WHERE target {_IN_LIST}", nodes)
    _select(connection, f"DELETE FROM nodes WHERE node {_IN_LIST}", nodes)
    delete_unmentioned(connection, entities)
    _select(connection, f"DELETE FROM nodes WHERE node {_IN_LIST} AND {_IS_LONE}", entities | others)
    # Empty directories, then the directories above them that become empty.
    while others:
        empty = _select(
            connection,
            f"SELECT node FROM nodes WHERE node {_IN_LIST} AND kind = '{GRAPH}' "
            "AND NOT EXISTS (SELECT 1 FROM edges WHERE source = node) "
            f"AND NOT EXISTS (SELECT 1 FROM edges WHERE target = node AND relation <> '{CONTAINS}')",
            others,
        )
        others = set(_select(connection, f"SELECT source FROM edges WHERE target {_IN_LIST}", empty))
        _select(connection, f"DELETE FROM edges WHERE target {_IN_LIST}", empty)
        _select(connection, f"DELETE FROM nodes WHERE node {_IN_LIST}", empty)


def repair(
    connection: sqlite3.Connection,
    undecodable: Sequence[int],
    altered: Iterable[tuple[Any, ...]],
    now: float,
    *,
    accept_values: bool,
) -> list[int]:
    """Repair the catalog, and return the rows of chunks whose learned values are restored from the metadata.

    Delete nodes that are not valid UTF-8, edges that are invalid or lack an end, and learned values without a chunk.
    Accept other nodes (node, text hash, metadata, uri, context type): without a hash of its contents, an accepted node
    is replaced if its original text is added again. With ``accept_values``, make the indexes agree with the tables.
    """
    _delete_nodes(connection, undecodable)
    connection.executemany(
        "UPDATE nodes SET text_hash = ?2, metadata = ?3, uri = ?4, context_type = ?5, content_hash = x'' "
        "WHERE node = ?1",
        altered,
    )
    if accept_values:
        connection.execute("REINDEX")
        connection.execute("DELETE FROM files")  # so that the next ingest reads them
    connection.execute(f"DELETE FROM edges WHERE {LOST_EDGES} OR {INVALID_EDGES}")
    connection.execute("INSERT INTO graph_changes (source, target) VALUES (0, 0)")
    # Readers of the graph have to read it again.
    forget_graph_changes(connection, connection.execute(POSITION).fetchone()[1])
    unlearned = connection.execute(f"SELECT node, row, metadata FROM nodes WHERE {STATELESS}").fetchall()
    connection.executemany(
        f"INSERT INTO learned (node, {_NAMES}) VALUES (?{', ?' * len(MemoryValues._fields)})",
        ((node, *_initial(ParsedMetadata.of(parse_metadata(metadata) or {}), now)) for node, _, metadata in unlearned),
    )
    connection.executemany("INSERT INTO learned_changes (node) VALUES (?)", ((node,) for node, _, _ in unlearned))
    for table in MEMORY_TABLES:
        connection.execute(f"DELETE FROM {table} WHERE {OWNERLESS}")
    return [row for _, row, _ in unlearned if row is not None]


# -- memories -----------------------------------------------------------------------------------------------------

MEMORY_TABLES = ("learned", "past_validity", "past_trust")
STATELESS = "kind <> 'graph' AND node NOT IN (SELECT node FROM learned)"
OWNERLESS = "node NOT IN (SELECT node FROM nodes WHERE kind <> 'graph')"


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


_NAMES = ", ".join(MemoryValues._fields)


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
    new = [entry for entry in entries if entry.id not in existing]
    names = ChunkRow._fields[:-1]
    updates = ", ".join(f"{name} = excluded.{name}" for name in names[2:])
    connection.executemany(
        f"INSERT INTO nodes ({', '.join(names)}) VALUES ({', '.join('?' * len(names))}) "
        f"ON CONFLICT (tenant, id) DO UPDATE SET {updates}",
        (entry[:-1] for entry in entries),
    )
    connection.executemany(
        f"INSERT INTO learned (node, {_NAMES}) VALUES "
        f"((SELECT node FROM nodes WHERE tenant = ? AND id = ?){', ?' * len(MemoryValues._fields)})",
        ((entry.tenant, entry.id, *_initial(entry.metadata_values, now)) for entry in new),
    )
    for entry in entries:
        if (before := existing.get(entry.id)) is not None:
            revise(connection, before, _after_ingest(entry, before, now), now)


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


def revise(connection: sqlite3.Connection, memory: StoredMemory, after: MemoryValues, now: float) -> list[int]:
    """Write the new state of a chunk or parent, and record the previous one.

    Return ``[row]`` if the times of a chunk have changed, else []. A changed ``learned_at`` deletes the history.
    """
    before = memory.values
    if before == after:
        return []
    if after.learned_at != before.learned_at:  # a new statement without a history
        connection.execute("DELETE FROM past_validity WHERE node = ?", (memory.node,))
        connection.execute("DELETE FROM past_trust WHERE node = ?", (memory.node,))
    elif now > before.learned_at:  # values that were replaced immediately have no history
        for table, first, second in (
            ("past_validity", "valid_from", "valid_until"),
            ("past_trust", "confidence", "utility"),
        ):
            old, new = ((getattr(values, first), getattr(values, second)) for values in (before, after))
            if old != new:
                connection.execute(f"INSERT OR IGNORE INTO {table} VALUES (?, ?, ?, ?)", (memory.node, now, *old))
    places = ", ".join(f"{name} = ?" for name in MemoryValues._fields)
    connection.execute(f"UPDATE learned SET {places} WHERE node = ?", (*after, memory.node))
    return [memory.row] if memory.row is not None and before[:4] != after[:4] else []
