"""SQL statements that write to the catalog."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from langchain_hybridgraph.records import CONTAINS, ENTITY, MENTIONS, TITLE, Edge
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
    number_list,
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


def put_entries(connection: sqlite3.Connection, entries: Sequence[ChunkRow]) -> None:
    """Insert or replace chunks and parents by (tenant, id), without their state; their edges are kept."""
    names = ChunkRow._fields[:-1]
    updates = ", ".join(f"{name} = excluded.{name}" for name in names[2:])
    connection.executemany(
        f"INSERT INTO nodes ({', '.join(names)}) VALUES ({', '.join('?' * len(names))}) "
        f"ON CONFLICT (tenant, id) DO UPDATE SET {updates}",
        (entry[:-1] for entry in entries),
    )


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
    nodes = dict(
        connection.execute(
            "SELECT id, node FROM nodes WHERE tenant = ? AND id IN (SELECT value FROM json_each(?))",
            (tenant, json_list(ends)),
        )
    )
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
    mentioned = connection.execute(
        f"SELECT node FROM nodes WHERE tenant = ? AND kind = '{GRAPH}' AND {IS_MENTIONED}", (tenant,)
    ).fetchall()
    connection.execute(
        "DELETE FROM edges WHERE weight < ? AND source IN (SELECT node FROM nodes WHERE tenant = ?)",
        (min_weight, tenant),
    )
    if max_per_source:
        connection.execute(
            "DELETE FROM edges WHERE (source, relation, target) IN (SELECT source, relation, target FROM "
            "(SELECT e.source, e.relation, e.target, row_number() OVER "
            "(PARTITION BY e.source ORDER BY e.weight DESC, e.relation, t.id) AS place "
            "FROM edges e JOIN nodes t ON t.node = e.target WHERE t.tenant = ?) WHERE place > ?)",
            (tenant, max_per_source),
        )
    delete_unmentioned(connection, [node for (node,) in mentioned])
    return int(before - connection.execute(count).fetchone()[0])


def graph_ends(connection: sqlite3.Connection, tenant: str, edges: Iterable[Edge]) -> list[int]:
    """Return the nodes of the entities that these edges mention."""
    targets = json_list({edge.target for edge in edges if edge.relation == MENTIONS})
    results = connection.execute(
        f"SELECT node FROM nodes WHERE tenant = ? AND kind = '{GRAPH}' AND id IN (SELECT value FROM json_each(?))",
        (tenant, targets),
    )
    return [node for (node,) in results]


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


def repair_nodes(
    connection: sqlite3.Connection, undecodable: Sequence[int], altered: Iterable[tuple[Any, ...]]
) -> None:
    """Delete nodes that are not valid UTF-8, and accept others (node, text hash, metadata, uri, context type).

    An accepted node has no hash of its contents, so adding the original text again replaces it.
    """
    _delete_nodes(connection, undecodable)
    connection.executemany(
        "UPDATE nodes SET text_hash = ?2, metadata = ?3, uri = ?4, context_type = ?5, content_hash = x'' "
        "WHERE node = ?1",
        altered,
    )


def accept_values(connection: sqlite3.Connection) -> None:
    """Make the indexes agree with the tables, and delete the records of files, so that the next ingest reads them."""
    connection.execute("REINDEX")
    connection.execute("DELETE FROM files")


def delete_lost_edges(connection: sqlite3.Connection) -> None:
    """Delete invalid edges and edges with a missing end. Readers of the graph then have to read it again."""
    connection.execute(f"DELETE FROM edges WHERE {LOST_EDGES} OR {INVALID_EDGES}")
    connection.execute("INSERT INTO graph_changes (source, target) VALUES (0, 0)")
    forget_graph_changes(connection, connection.execute(POSITION).fetchone()[1])


def _select(connection: sqlite3.Connection, sql: str, nodes: Iterable[int]) -> list[int]:
    """Run a statement with nodes as ?1, and return the first column of its result."""
    return [row[0] for row in connection.execute(sql, (number_list(nodes),))]


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
