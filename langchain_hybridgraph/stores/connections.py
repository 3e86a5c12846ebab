"""Pool of connections to the catalog."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from langchain_hybridgraph.errors import FormatVersionError, NotAnIndexError, ReadOnlyError, StoreError
from langchain_hybridgraph.records.chunk_metadata import context_type_of
from langchain_hybridgraph.records.uris import chunk_uri
from langchain_hybridgraph.stores.catalog_writes import trim_graph_changes
from langchain_hybridgraph.stores.chunk_rows import parse_metadata

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


class CatalogConnections:
    """Pool of connections to one SQLite database.

    If ``path`` is None, the database is kept in memory. Any number of threads may read at the same time, but only one
    may write. With ``create``, a missing catalog is created, and a catalog in an older format is converted to the
    current one.

    Raises NotAnIndexError if the file is not a catalog, and FormatVersionError if its format is too new. Without
    ``create``, also raises NotAnIndexError if the file is missing, and FormatVersionError if its format is too old.
    """

    def __init__(self, path: Path | None, *, create: bool = False) -> None:
        self._path = path
        self._opened: tuple[int, int] | None = None  # device and inode of the file
        self._pool: list[tuple[object, sqlite3.Connection]] = []
        self._lock = threading.RLock()
        self._snapshot = threading.local()
        self._lent = 0
        _catalogs.add(self)
        self._closed = False
        self._is_writable = path is None or (
            os.access(path.parent, os.W_OK) and (not path.exists() or os.access(path, os.W_OK))
        )
        # A database in memory exists only in this connection.
        self._memory = _connection(":memory:") if path is None else None
        if path is not None and not create and not path.exists():
            raise NotAnIndexError(f"{path.parent} contains no index: there is no {path.name} in it")
        with self._opening(), self._borrowed() as connection:
            if create:
                migrate(connection)
            elif format_version(connection) == 0:
                raise NotAnIndexError(f"{path} is a SQLite database, but not a catalog of this package")
            check_format(format_version(connection))
        self._opened = self._place()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Borrow a connection for SELECT statements.

        Each statement reads the state of the last commit; inside :meth:`snapshot`, all statements read the same commit.
        """
        snapshot_connection: sqlite3.Connection | None = getattr(self._snapshot, "connection", None)
        try:
            if snapshot_connection is not None:
                yield snapshot_connection
            else:
                with self._borrowed() as connection:
                    yield connection
        except sqlite3.Error as error:
            raise StoreError(f"the catalog {self._path or 'in memory'} cannot be read: {error}") from error

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Make all reads of this thread within the ``with`` block use the same commit, despite concurrent writes."""
        if getattr(self._snapshot, "connection", None) is not None:
            yield  # a nested call uses the outer snapshot
            return
        with self.reading() as connection:
            connection.execute("BEGIN")
            self._snapshot.connection = connection
            try:
                yield
            finally:
                self._snapshot.connection = None
                connection.execute("COMMIT")

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Borrow a connection, and run the ``with`` block in one transaction.

        At the end of the block, the transaction is committed to disk. On any error, it is rolled back.
        """
        with self._lock, self._borrowed() as connection:
            self._check_place()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                trim_graph_changes(connection)
                connection.execute("COMMIT")
            except BaseException as error:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error):
                    raise StoreError(
                        f"none of this batch was written: {error}; write it again once the cause is fixed"
                    ) from error
                raise

    def checkpoint(self) -> None:
        """Copy the write-ahead log into the database file and empty the log.

        The log then no longer contains old versions of pages, which may include deleted data. If other connections are
        reading, part of the log may remain; no error is raised.
        """
        with self._lock, self._borrowed() as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close all connections; those in use are closed when they are returned.

        SQLite then moves the write-ahead log into the database if possible.
        """
        with self._lock:
            self._closed = True
            pool, self._pool = self._pool, []
            if self._memory is not None:
                pool.append((None, self._memory))
        for _, connection in pool:
            connection.close()

    @property
    def is_in_memory(self) -> bool:
        """Whether the database is kept in memory, without a file."""
        return self._path is None

    @property
    def is_lending(self) -> bool:
        """Whether a connection is in use."""
        return self._lent > 0

    def close_idle(self) -> None:
        """Close the connections that are not in use."""
        pool, self._pool = self._pool, []
        for _, connection in pool:
            connection.close()

    @contextmanager
    def _opening(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            self.close()
            if isinstance(error, sqlite3.OperationalError):
                raise StoreError(f"the catalog {self._path} cannot be opened: {error}") from error
            raise NotAnIndexError(
                f"{self._path} is not a catalog ({error}): restore the index from a backup, or ingest into a new folder"
            ) from error
        except BaseException:
            self.close()
            raise

    @contextmanager
    def _borrowed(self) -> Iterator[sqlite3.Connection]:
        if self._memory is not None:
            with self._lock:
                yield self._memory
            return
        with self._lending():
            self._check_place(may_be_gone=True)
            state = self._file_state()
            connection = self._pooled(state) or self._connect()
            try:
                yield connection
            finally:
                if self._closed:
                    connection.close()
                else:
                    self._pool.append((state, connection))

    @contextmanager
    def _lending(self) -> Iterator[None]:
        """Count one more connection as lent during the ``with`` block.

        If the process is about to fork, first wait until it has forked, unless this thread already holds a connection.
        """
        lent = getattr(self._snapshot, "lent", 0)
        with _fork.changed:
            if _fork.is_near and not lent:
                _fork.changed.wait_for(lambda: not _fork.is_near)
            self._lent += 1
        self._snapshot.lent = lent + 1
        try:
            yield
        finally:
            self._snapshot.lent = lent
            with _fork.changed:
                self._lent -= 1
                if _fork.is_near:
                    _fork.changed.notify_all()

    def _pooled(self, state: object) -> sqlite3.Connection | None:
        """Return an idle connection that was opened in this state of the file (:meth:`_file_state`), or None.

        Idle connections that were opened in another state are closed.
        """
        while True:
            try:
                file_state, connection = self._pool.pop()
            except IndexError:
                return None
            if file_state == state:
                return connection
            connection.close()

    def _check_place(self, *, may_be_gone: bool = False) -> None:
        """Raise StoreError if the file at the path is not the one that was opened.

        With ``may_be_gone``, a deleted file is accepted, because open connections can still read it.
        """
        place = self._place()
        if self._opened is None or place == self._opened or (place is None and may_be_gone):
            return
        assert self._path is not None
        raise StoreError(
            f"the index {self._path.parent} was {'deleted' if place is None else 'replaced'} while it was open: close "
            "this store and open the folder again"
        )

    def _place(self) -> tuple[int, int] | None:
        if self._path is None:
            return None
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _connect(self) -> sqlite3.Connection:
        assert self._path is not None
        self._check_place()
        if self._is_writable:
            connection = _connection(str(self._path))
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            return connection
        # WAL needs a file for shared memory, which cannot be created in a folder without write permission. The file
        # exists if another user is writing now or has left a log with commits. Without a log, the file is read as
        # immutable.
        mode = "mode=ro" if self._has_log() else "immutable=1"
        return _connection(f"{self._path.resolve().as_uri()}?{mode}", uri=True)

    def _file_state(self) -> object:
        """Return a value that identifies the file's state.

        A connection that opened the file as immutable does not notice another user's writes. It is reused only while
        the state stays the same.
        """
        assert self._path is not None
        if self._is_writable:
            return None
        if self._has_log():
            return "log"
        results = self._path.stat()
        return results.st_mtime_ns, results.st_size

    def _has_log(self) -> bool:
        assert self._path is not None
        try:
            return self._path.with_name(self._path.name + "-wal").stat().st_size > 0
        except FileNotFoundError:
            return False


class _Fork:
    """Signals that this process is about to fork, so that threads wait before they borrow a connection."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.is_near = False


_fork = _Fork()
_catalogs: weakref.WeakSet[CatalogConnections] = weakref.WeakSet()


def close_connections_before_fork(deadline: float) -> None:
    """Stop lending connections, wait until other threads have returned theirs, and close all idle ones.

    A SQLite connection must not be carried into a forked process, where it would rely on the parent's locks. If a
    connection of a catalog is still in use at the deadline (``time.monotonic()``), the child cannot use that catalog.

    A thread that already holds a connection may still borrow another one. All other threads wait until
    :func:`lend_again_after_fork` is called.
    """
    with _fork.changed:
        _fork.is_near = True
        own = {catalog for catalog in _catalogs if getattr(catalog._snapshot, "lent", 0)}
        others = [catalog for catalog in _catalogs if catalog not in own]  # a thread never waits for itself
        _fork.changed.wait_for(
            lambda: not any(catalog.is_lending for catalog in others), max(0.0, deadline - time.monotonic())
        )
    for catalog in list(_catalogs):
        if not catalog.is_in_memory:
            catalog.close_idle()


def lend_again_after_fork() -> None:
    """Allow connections to be lent again; called in the parent process."""
    with _fork.changed:
        _fork.is_near = False
        _fork.changed.notify_all()


def reset_in_child() -> None:
    """Discard the state of the parent's threads; called in the child process, where these threads do not exist."""
    global _fork  # noqa: PLW0603 - a lock that a thread of the parent holds is never released here
    _fork = _Fork()
    _catalogs.clear()


def _connection(database: str, *, uri: bool = False) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(
            database, timeout=10.0, isolation_level=None, check_same_thread=False, cached_statements=256, uri=uri
        )
    except sqlite3.OperationalError as error:
        raise ReadOnlyError(f"{database} cannot be opened: {error}") from error
    connection.execute("PRAGMA temp_store = MEMORY")
    add_functions(connection)
    return connection
