"""SQL statements for the records of ingested files."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable

from langchain_hybridgraph.records import ENTITY, MENTIONS, TITLE
from langchain_hybridgraph.stores.protocols import FileRecord

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


def read(connection: sqlite3.Connection, tenant: str) -> list[FileRecord]:
    """Return the records of a tenant's files whose documents are unchanged since the ingest."""
    documents: dict[str, list[str]] = {}
    for source, document in connection.execute(
        "SELECT source, document FROM file_documents WHERE tenant = ? ORDER BY source, place", (tenant,)
    ):
        documents.setdefault(source, []).append(document)
    rows = connection.execute(
        "SELECT source, stamp, digest, made_by, chunks, parents, path "
        "FROM files LEFT JOIN file_paths USING (tenant, source) WHERE tenant = ?",
        (tenant,),
    )
    return [FileRecord._make((*values, tuple(documents.get(values[0], ())), path or b"")) for *values, path in rows]


def paths(connection: sqlite3.Connection, tenant: str) -> dict[str, bytes]:
    """Return the paths of a tenant's files, keyed by source. Files without documents in the catalog are left out."""
    rows = connection.execute(
        "SELECT source, path FROM file_paths p WHERE tenant = ? AND EXISTS ("
        "SELECT 1 FROM file_documents d CROSS JOIN nodes n ON n.tenant = d.tenant AND n.document = d.document "
        "WHERE d.tenant = p.tenant AND d.source = p.source)",
        (tenant,),
    )
    return dict(rows.fetchall())


def insert_or_replace(connection: sqlite3.Connection, tenant: str, records: Collection[FileRecord]) -> None:
    """Insert or replace the records of files. If a record has no digest, only its documents and its path are stored."""
    connection.executemany(
        "DELETE FROM file_documents WHERE tenant = ? AND source = ?", ((tenant, record.source) for record in records)
    )
    connection.executemany(
        "INSERT INTO file_documents (tenant, source, place, document) VALUES (?, ?, ?, ?)",
        (
            (tenant, record.source, place, document)
            for record in records
            for place, document in enumerate(record.documents)
        ),
    )
    connection.executemany(
        "INSERT OR REPLACE INTO files (tenant, source, stamp, digest, made_by, chunks, parents) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        ((tenant, *record[:-2]) for record in records if record.digest),
    )
    connection.executemany(
        "INSERT OR REPLACE INTO file_paths (tenant, source, path) VALUES (?, ?, ?)",
        ((tenant, record.source, record.path) for record in records if record.path),
    )


def forget(connection: sqlite3.Connection, tenant: str) -> None:
    """Delete the records of a tenant's files, so that the next ingest reads the files again.

    The paths and documents of the files are kept.
    """
    connection.execute("DELETE FROM files WHERE tenant = ?", (tenant,))


def delete(connection: sqlite3.Connection, tenant: str) -> None:
    """Delete all stored data about a tenant's files."""
    for table in ("files", "file_documents", "file_paths"):
        connection.execute(f"DELETE FROM {table} WHERE tenant = ?", (tenant,))


def forget_linking(connection: sqlite3.Connection, nodes: Iterable[int]) -> None:
    """Delete the records of files whose edges will change when these nodes are deleted.

    These are the files that link to one of the nodes, and the files that mention the title of a deleted document. Call
    this function before the nodes are deleted.
    """
    if connection.execute("SELECT 1 FROM files LIMIT 1").fetchone() is None:
        return
    node_list = (json.dumps(list(nodes)),)
    connection.execute(_LINKING, node_list)
    connection.execute(_MENTIONING, node_list)
