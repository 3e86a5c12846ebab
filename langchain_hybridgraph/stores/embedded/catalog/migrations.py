"""Tables of the catalog, as numbered migrations."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from langchain_hybridgraph.chunks import chunk_uri, context_type_of
from langchain_hybridgraph.errors import FormatVersionError
from langchain_hybridgraph.stores.embedded.catalog.records import parse_metadata

FIRST = """
CREATE TABLE about (
    name TEXT PRIMARY KEY,
    value NOT NULL
) WITHOUT ROWID;

-- Everything that has an id. Chunks are searched, parents are pointed to, other nodes are only joined by edges.
-- A chunk's row is its position in the engines; every accepted version of a chunk gets a new row. Neither rows nor
-- node numbers are ever reused.
CREATE TABLE nodes (
    node INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('chunk', 'parent', 'graph')),
    row INTEGER UNIQUE,
    document TEXT,
    parent TEXT,
    session TEXT,
    turn INTEGER,
    text TEXT,
    metadata TEXT,
    text_hash BLOB,
    content_hash BLOB,
    UNIQUE (tenant, id)
);
CREATE INDEX nodes_by_document ON nodes (tenant, document) WHERE document IS NOT NULL;
CREATE INDEX children ON nodes (tenant, parent) WHERE parent IS NOT NULL;
CREATE INDEX chunks_by_text ON nodes (tenant, hex(text_hash)) WHERE row NOT NULL;
CREATE INDEX parents ON nodes (tenant) WHERE kind = 'parent';
CREATE INDEX turns ON nodes (tenant, session, turn) WHERE session IS NOT NULL;

-- The state of each chunk and parent, apart from its text because it is short and changes often.
-- valid_*: when it is true in the world. learned_at to retracted_at: when the store asserts it. A chunk past expires_at
-- may be deleted; a superseded fact has also ended, but is kept.
CREATE TABLE learned (
    node INTEGER PRIMARY KEY,
    valid_from REAL,
    valid_until REAL,
    learned_at REAL NOT NULL,
    retracted_at REAL,
    expires_at REAL,
    confidence REAL,
    utility REAL,
    active_count INTEGER NOT NULL,
    used_at REAL,
    created_at REAL,
    memory_type TEXT,
    provenance_depth INTEGER NOT NULL
);
CREATE INDEX expiring ON learned (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX retracted ON learned (retracted_at) WHERE retracted_at IS NOT NULL;
-- Earlier values, each with the time until which it was known.
CREATE TABLE past_validity (
    node INTEGER NOT NULL,
    known_until REAL NOT NULL,
    valid_from REAL,
    valid_until REAL,
    PRIMARY KEY (node, known_until)
) WITHOUT ROWID;
CREATE TABLE past_trust (
    node INTEGER NOT NULL,
    known_until REAL NOT NULL,
    confidence REAL,
    utility REAL,
    PRIMARY KEY (node, known_until)
) WITHOUT ROWID;
-- Nodes whose state changed, the last 5,000 changes: mirrors in memory follow this log, in this process and in
-- others.
CREATE TABLE learned_changes (
    number INTEGER PRIMARY KEY,
    node INTEGER NOT NULL
);
CREATE TRIGGER learned_otherwise AFTER UPDATE ON learned BEGIN
    INSERT INTO learned_changes (node) VALUES (new.node);
    DELETE FROM learned_changes WHERE number <= (SELECT max(number) FROM learned_changes) - 5000;
END;
-- Number of times a source's statements were confirmed and refuted.
CREATE TABLE credibility (
    tenant TEXT NOT NULL,
    source TEXT NOT NULL,
    ok INTEGER NOT NULL,
    bad INTEGER NOT NULL,
    PRIMARY KEY (tenant, source)
) WITHOUT ROWID;

CREATE TABLE edges (
    source INTEGER NOT NULL,
    relation TEXT NOT NULL,
    target INTEGER NOT NULL,
    weight REAL NOT NULL,
    description TEXT NOT NULL,
    valid_from REAL,
    valid_until REAL,
    learned_at REAL NOT NULL,
    PRIMARY KEY (source, relation, target)
) WITHOUT ROWID;
CREATE INDEX edges_by_target ON edges (target, source);

-- Edges and nodes (source = target) that each statement changed: the graph in memory follows this log, in this
-- process and in others. Triggers write it, so that no statement can forget to.
CREATE TABLE graph_changes (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    source INTEGER NOT NULL,
    target INTEGER NOT NULL
);
CREATE TRIGGER edge_added AFTER INSERT ON edges
    BEGIN INSERT INTO graph_changes (source, target) VALUES (new.source, new.target); END;
CREATE TRIGGER edge_changed AFTER UPDATE ON edges
    BEGIN INSERT INTO graph_changes (source, target) VALUES (new.source, new.target); END;
CREATE TRIGGER edge_deleted AFTER DELETE ON edges
    BEGIN INSERT INTO graph_changes (source, target) VALUES (old.source, old.target); END;
CREATE TRIGGER chunk_added AFTER INSERT ON nodes WHEN new.row NOT NULL
    BEGIN INSERT INTO graph_changes (source, target) VALUES (new.node, new.node); END;
CREATE TRIGGER node_changed AFTER UPDATE ON nodes WHEN new.row IS NOT old.row OR new.kind <> old.kind
    BEGIN INSERT INTO graph_changes (source, target) VALUES (new.node, new.node); END;
CREATE TRIGGER node_deleted AFTER DELETE ON nodes
    BEGIN INSERT INTO graph_changes (source, target) VALUES (old.node, old.node); END;
CREATE TRIGGER node_forgotten AFTER DELETE ON nodes WHEN old.kind <> 'graph' BEGIN
    DELETE FROM learned WHERE node = old.node;
    DELETE FROM past_validity WHERE node = old.node;
    DELETE FROM past_trust WHERE node = old.node;
END;

-- The outbox: the rows that each version changed. Engines and readers look up the present state in nodes.
CREATE TABLE changes (
    version INTEGER NOT NULL,
    row INTEGER NOT NULL,
    PRIMARY KEY (version, row)
) WITHOUT ROWID;

INSERT INTO about VALUES ('version', 0), ('next_row', 0), ('floor', 0), ('generation', 0),
    ('chroma_applied', 0), ('graph_floor', 0);
"""

# The time of the last update according to the chunk's metadata. For chunks stored before this migration, it is NULL
# until they are stored again with different metadata.
UPDATED_AT = "ALTER TABLE learned ADD COLUMN updated_at REAL;"

# Files that an ingest has read completely. The next ingest skips those that have not changed. Any change to a chunk of
# a file's documents deletes the file's record in the same transaction; the list of its documents is kept.
FILES = """
CREATE TABLE files (
    tenant TEXT NOT NULL,
    source TEXT NOT NULL,
    stamp TEXT NOT NULL,
    digest BLOB NOT NULL,
    made_by BLOB NOT NULL,
    chunks INTEGER NOT NULL,
    parents INTEGER NOT NULL,
    PRIMARY KEY (tenant, source)
) WITHOUT ROWID;
CREATE TABLE file_documents (
    tenant TEXT NOT NULL,
    source TEXT NOT NULL,
    place INTEGER NOT NULL,
    document TEXT NOT NULL,
    PRIMARY KEY (tenant, source, place)
) WITHOUT ROWID;
CREATE INDEX files_of_documents ON file_documents (tenant, document);
CREATE TRIGGER chunk_put AFTER INSERT ON nodes WHEN new.document NOT NULL BEGIN
    DELETE FROM files WHERE (tenant, source) IN (
        SELECT tenant, source FROM file_documents WHERE tenant = new.tenant AND document = new.document
    );
END;
CREATE TRIGGER chunk_changed AFTER UPDATE OF document, content_hash ON nodes BEGIN
    DELETE FROM files WHERE (tenant, source) IN (
        SELECT tenant, source FROM file_documents
        WHERE tenant = new.tenant AND document IN (old.document, new.document)
    );
END;
CREATE TRIGGER chunk_deleted AFTER DELETE ON nodes WHEN old.document NOT NULL BEGIN
    DELETE FROM files WHERE (tenant, source) IN (
        SELECT tenant, source FROM file_documents WHERE tenant = old.tenant AND document = old.document
    );
END;
"""

# Absolute path of each file, so that another file with the same source is noticed. It is kept when the file's record is
# deleted. Files that were ingested before this migration have no path until they are ingested again.
FILE_PATHS = """
CREATE TABLE file_paths (
    tenant TEXT NOT NULL,
    source TEXT NOT NULL,
    path BLOB NOT NULL,
    PRIMARY KEY (tenant, source)
) WITHOUT ROWID;
"""

# Position of each chunk in the directory tree, so that the tree can be read without the metadata.
TREE_POSITIONS = """
ALTER TABLE nodes ADD COLUMN uri TEXT;
ALTER TABLE nodes ADD COLUMN context_type TEXT;
UPDATE nodes SET uri = chunk_uri(id, document, metadata) WHERE row NOT NULL;
UPDATE nodes SET context_type = context_type_of(metadata) WHERE row NOT NULL AND metadata LIKE '%context_type%';
"""

MIGRATIONS = (FIRST, UPDATED_AT, FILES, FILE_PATHS, TREE_POSITIONS)
FORMAT_VERSION = len(MIGRATIONS)


def add_functions(connection: sqlite3.Connection) -> None:
    """Add the SQL functions ``chunk_uri(id, document, metadata)`` and ``context_type_of(metadata)`` to a connection.

    They are written in Python, because SQLite's JSON has no NaN, and a single malformed string would make a statement
    fail.
    """
    connection.create_function("chunk_uri", 3, _chunk_uri, deterministic=True)
    connection.create_function("context_type_of", 1, _context_type, deterministic=True)


def migrate(connection: sqlite3.Connection) -> None:
    """Convert a catalog to the current format, with one transaction per migration.

    Raises FormatVersionError for a catalog written by a newer version of the package.
    """
    version = format_version(connection)
    if version > FORMAT_VERSION:
        check_format(version)
    for number, script in enumerate(MIGRATIONS[version:], start=version + 1):
        connection.executescript(f"BEGIN IMMEDIATE;\n{script}\nPRAGMA user_version = {number};\nCOMMIT;")


def _chunk_uri(id: str, document: str | None, metadata: str) -> str:
    return chunk_uri(id, document or "", parse_metadata(metadata) or {})


def _context_type(metadata: str) -> str | None:
    return context_type_of(parse_metadata(metadata) or {})


def format_version(connection: sqlite3.Connection) -> int:
    """Return the number of the last migration applied to the catalog, or 0 for an empty database."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def is_older(path: Path) -> bool:
    """Return whether the file is a catalog in an earlier format, which :func:`migrate` can convert."""
    if not path.exists():
        return False
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return 0 < format_version(connection) < FORMAT_VERSION
    except sqlite3.Error:
        return False  # the file is not a catalog; the error that opening it raises gives the reason


def check_format(version: int) -> None:
    """Raise FormatVersionError if the format is not the current one; the message explains how to convert or upgrade."""
    if version < FORMAT_VERSION:
        raise FormatVersionError(
            f"the index has format {version}, but this version of langchain-hybridgraph reads format {FORMAT_VERSION}; "
            "to convert the index, open it once for writing with the embedding it was created with: "
            "HybridGraphStore(path, embedding).close()"
        )
    if version > FORMAT_VERSION:
        raise FormatVersionError(
            f"the index has format {version}, but this version of langchain-hybridgraph reads up to format "
            f"{FORMAT_VERSION}: "
            'pip install --upgrade "langchain-hybridgraph"'
        )
