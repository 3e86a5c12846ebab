"""Catalog: the SQLite database of an index folder."""

import json
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import chain, starmap
from pathlib import Path
from typing import Any, NamedTuple

from langchain_hybridgraph import errors
from langchain_hybridgraph.chunks import chunk_uri, context_type_of
from langchain_hybridgraph.records import Edge, digest
from langchain_hybridgraph.stores.catalog_writes import MEMORY_TABLES, OWNERLESS, STATELESS, trim_graph_changes
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
    parse_metadata,
    text_hash,
)

# Number of the schema, which ``schema.sql`` stores in the database. A catalog with another number cannot be opened.
FORMAT_VERSION = 6

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
_NO_LIMIT = {"l.valid_from": "-Inf", "l.valid_until": "Inf", "learned_at": "-Inf", "retracted_at": "Inf"}
# JSON lists of columns of times, ±infinity if missing. A list takes half the time of one tuple for each row,
# json_group_array rounds, and printf takes longer than everything else.
_TIMES = [
    f"'[' || replace(ifnull(group_concat(iif({name} IS NULL, '{limit}', printf('%!.17g', {name}))), ''), "
    "'Inf', 'Infinity') || ']'"
    for name, limit in _NO_LIMIT.items()
]
EDGE = "s.id, t.id, e.relation, e.weight, e.description, e.valid_from, e.valid_until"
_COLUMNS = "row, tenant, id, document, parent, text, metadata, l.valid_from, l.valid_until, learned_at, retracted_at"
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


class CallGate:
    """Counts the threads inside, so that closing and forking can wait for them.

    A thread that is inside one of several gates with the same ``calls`` may enter the others during a fork, so that it
    can finish its call.
    """

    def __init__(self, calls: list[int] | None = None) -> None:
        self.is_lost = False
        """Whether this process was forked while another thread was inside, so that nothing may be used here."""
        self._users: list[int] = []  # threads; an iterator may be closed by another thread than its own
        self._calls = [] if calls is None else calls
        self._forking: int | None = None
        self._is_shut = False
        self._changed = threading.Condition()

    @contextmanager
    def use(self) -> Iterator[None]:
        """Make closing and forks wait for the ``with`` block; before it, wait for the end of a fork."""
        thread = threading.get_ident()
        with self._changed:
            while self._forking not in (None, thread) and thread not in self._calls:
                self._changed.wait()
            if self._is_shut:
                raise errors.StoreError("the store is closed: open it again with HybridGraphStore(path)")
            self._users.append(thread)
            self._calls.append(thread)
        try:
            yield
        finally:
            with self._changed:
                self._users.remove(thread)
                self._calls.remove(thread)
                if self._forking is not None or self._is_shut:
                    self._changed.notify_all()

    def shut(self, patience: float = 10.0) -> bool:
        """Reject new calls and wait up to ``patience`` seconds for running ones; return False if already shut."""
        with self._changed:
            if self._is_shut:
                return False
            self._is_shut = True
            self._changed.wait_for(lambda: not self._users, patience)
            return True

    def hold(self, deadline: float) -> None:
        """Let no other thread in, and wait for those inside until ``deadline`` (``time.monotonic()``)."""
        thread = threading.get_ident()
        with self._changed:
            self._forking = thread
            self._changed.wait_for(lambda: set(self._users) <= {thread}, max(0.0, deadline - time.monotonic()))

    def let_in(self) -> None:
        """Let threads in again after :meth:`hold`."""
        with self._changed:
            self._forking = None
            self._changed.notify_all()

    def begin_in_child(self) -> list[int]:
        """Reset the gate in a forked child; return the threads that were inside during the fork."""
        users, thread = self._users, threading.get_ident()
        self._users = [each for each in users if each == thread]
        self._calls[:] = [each for each in self._calls if each == thread]
        self._forking, self._changed = None, threading.Condition()
        return users


gate = CallGate()
"""Gate through which all connections to SQLite are opened, used and closed.

A child inherits SQLite's locks and its list of open files: it would wait forever for a lock that another thread held,
and write without a lock to a file that was open.
"""


def check_pages(connection: sqlite3.Connection) -> None:
    """Raise sqlite3.DatabaseError if a page of the database is damaged."""
    [(message,)] = connection.execute("PRAGMA quick_check(1)")
    if message != "ok":
        raise sqlite3.DatabaseError(message)


class Catalog:
    """A pool of connections to the database: any number of reading threads, one writer.

    With ``path`` None, the database is in memory. Raises NotAnIndexError if the file is missing or not a catalog, and
    FormatVersionError for another version's.
    """

    def __init__(self, path: Path | None, *, create: bool = False) -> None:
        self._path = path
        self._uri = "" if path is None else path.resolve().as_uri()
        self._address = f"{self._uri}?mode={'rwc' if create else 'rw'}"
        self._log = path and path.with_name(f"{path.name}-wal")
        self._opened: tuple[int, int] | None = None  # device and inode of the file
        self._pool: list[tuple[str, sqlite3.Connection]] = []
        self._lock = threading.RLock()
        self._snapshot = threading.local()
        self.has_undecodable_texts = False
        """Whether a read has met a text that is not valid UTF-8; its damaged bytes are replaced by U+FFFD."""
        _catalogs.add(self)
        self._closed = False
        self._is_writable = path is None or (
            os.access(path.parent, os.W_OK) and (not path.exists() or os.access(path, os.W_OK))
        )
        if path is not None and not create and not path.exists():
            raise errors.NotAnIndexError(f"{path.parent} contains no index: there is no {path.name} in it")
        # A database in memory exists only in this connection.
        with gate.use():
            self._memory = self._connect(":memory:") if path is None else None
        try:
            with self._borrowed() as connection:
                if create:
                    schema = Path(__file__).with_name("schema.sql").read_text("utf-8")
                    connection.executescript(f"BEGIN IMMEDIATE;\n{schema}COMMIT;")
                self._check_format(connection)
        except BaseException as error:
            self.close()
            if isinstance(error, sqlite3.Error | UnicodeDecodeError):
                kind = errors.StoreError if isinstance(error, sqlite3.OperationalError) else errors.NotAnIndexError
                raise kind(self._explain(error, f"the catalog {path} cannot be opened")) from None
            raise
        self._opened = None if path is None else self._place()

    def _check_format(self, connection: sqlite3.Connection) -> None:
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version == 0:
            raise errors.NotAnIndexError(f"{self._path} is a SQLite database, but not a catalog of this package")
        if version != FORMAT_VERSION:
            raise errors.FormatVersionError(
                f"the index has format {version}, but this version of langchain-hybridgraph reads format "
                f"{FORMAT_VERSION}: ingest the documents into a new folder, or read a newer format with "
                'pip install --upgrade "langchain-hybridgraph"'
            )

    def _explain(self, error: Exception, text: str = "") -> str:
        """Return the message for an error of SQLite: what to do if the catalog is damaged, or else this text."""
        is_damaged = type(error) is sqlite3.DatabaseError or isinstance(error, UnicodeDecodeError)
        cause = "its schema" if isinstance(error, UnicodeDecodeError) else " ".join(str(error).split())
        advice = "restore the index from a backup, or ingest into a new folder"
        return f"the catalog {self._path} is damaged ({cause}): {advice}" if is_damaged else f"{text}: {cause}"

    # -- connections ----------------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Borrow a connection for SELECT statements; inside :meth:`snapshot`, all of them read the same commit."""
        snapshot_connection: sqlite3.Connection | None = getattr(self._snapshot, "connection", None)
        try:
            if snapshot_connection is not None:
                yield snapshot_connection
            else:
                with self._borrowed() as connection:
                    yield connection
        except (sqlite3.Error, UnicodeDecodeError) as error:
            message = self._explain(error, f"the catalog {self._path or 'in memory'} cannot be read")
            raise errors.StoreError(message) from error

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
        """Borrow a connection for one transaction: committed to disk at the end, rolled back on any error."""
        with self._lock, self._borrowed() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                trim_graph_changes(connection)
                connection.execute("COMMIT")
            except BaseException as error:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error):
                    text = f"none of this batch was written to {self._path or 'the index in memory'}"
                    message = self._explain(error, f"{text}, so write it again once the cause is fixed")
                    raise errors.StoreError(message) from error
                raise

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return all rows of a SELECT statement, which reads the state of a single commit."""
        with self.reading() as connection:
            connection.text_factory = str
            try:
                return connection.execute(sql, values).fetchall()
            except sqlite3.OperationalError as error:
                if "Could not decode" not in str(error):
                    raise
                connection.text_factory = self._decode
                return connection.execute(sql, values).fetchall()
            finally:
                connection.text_factory = self._decode

    def copy_to(self, path: Path) -> None:
        """Copy the database to a new file, while others may use it. Raises StoreError if its pages are damaged."""
        try:
            with self._borrowed() as connection, closing(sqlite3.connect(path)) as copy:
                connection.backup(copy)
                check_pages(copy)
        except sqlite3.Error as error:
            raise errors.StoreError(self._explain(error, f"{path} cannot be written")) from error

    def checkpoint(self, mode: str = "TRUNCATE") -> bool:
        """Copy the write-ahead log, which may contain deleted data, into the database and empty it if nobody reads.

        With ``mode="PASSIVE"``, it is not emptied, so there is no wait for readers. Return whether all of the log was
        copied; a reader of an earlier commit or a full disk can prevent that.
        """
        with self._lock, self._borrowed() as connection:
            try:
                [(is_busy, logged, copied)] = connection.execute(f"PRAGMA wal_checkpoint({mode})")
            except sqlite3.OperationalError:
                return False
            return not is_busy and bool(logged == copied)

    def close(self) -> None:
        """Close all connections; those in use are closed when they are returned."""
        with self._lock, gate.use():
            self._closed = True
            self.close_idle()
            if self._memory is not None:
                self._memory.close()

    def close_idle(self) -> None:
        """Close the connections to the file that are not in use."""
        pool, self._pool = self._pool, []
        for _, connection in pool:
            connection.close()

    @contextmanager
    def _borrowed(self) -> Iterator[sqlite3.Connection]:
        if gate.is_lost:
            raise errors.StoreError(
                f"{self._path or 'the index in memory'} cannot be used in process {os.getpid()}, which was forked "
                "while another thread was using an index, or opening or closing one, so SQLite may fail here: start "
                "workers with spawn or forkserver, or fork while no thread reads or writes"
            )
        if self._memory is not None:
            with self._lock, gate.use():
                yield self._memory
            return
        assert self._path is not None
        with gate.use():
            if self._opened not in (None, self._place()):
                raise errors.StoreUnavailableError(
                    f"the index {self._path.parent} was deleted or replaced while it was open: close this store and "
                    "open the folder again"
                )
            address = self._address if self._is_writable else self._read_only_address()
            connection = self._pooled(address) or self._connect(address)
            try:
                yield connection
            finally:
                if self._closed:
                    connection.close()
                else:
                    self._pool.append((address, connection))

    def _pooled(self, address: str) -> sqlite3.Connection | None:
        """Return an idle connection to this address, or None; close those to others."""
        while True:
            try:
                other, connection = self._pool.pop()
            except IndexError:
                return None
            if other == address:
                return connection
            connection.close()

    def _place(self) -> tuple[int, int] | None:
        assert self._path is not None
        try:
            status = os.stat(self._path)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _read_only_address(self) -> str:
        """Return the URI of a database in a folder without write permission, which changes with the file's state."""
        assert self._path is not None
        assert self._log is not None
        # WAL needs a file for shared memory, which cannot be created in such a folder. The file exists if another user
        # is writing now or has left a log with commits. Without a log, the file is read as immutable; a connection
        # would not notice its changes, so each state of the file has another address.
        with suppress(FileNotFoundError):
            if self._log.stat().st_size > 0:
                return f"{self._uri}?mode=ro"
        status = self._path.stat()
        return f"{self._uri}?immutable=1&state={status.st_mtime_ns}-{status.st_size}"

    def _connect(self, address: str) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(
                address, timeout=10.0, isolation_level=None, check_same_thread=False, cached_statements=256, uri=True
            )
        except sqlite3.OperationalError as error:
            raise errors.ReadOnlyError(f"{self._path} cannot be opened: {error}") from error
        connection.text_factory = self._decode
        connection.execute("PRAGMA temp_store = MEMORY")
        if self._is_writable:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
        return connection

    def _decode(self, text: bytes) -> str:
        try:
            return text.decode()
        except UnicodeDecodeError:
            self.has_undecodable_texts = True
            return text.decode(errors="replace")

    # -- facts ----------------------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """Return all facts of the index, such as its version, language and embedding, as a dict keyed by name."""
        facts = dict(self.query("SELECT name, value FROM about"))
        if not facts.keys() >= _TEXT_FACTS or not all(isinstance(facts.get(name), int) for name in _NUMERIC_FACTS):
            raise errors.NotAnIndexError(self._explain(sqlite3.DatabaseError("a fact about the index")))
        return facts

    def version(self) -> int:
        """Return the catalog's version: the number of the last commit that changed chunks or vectors."""
        try:
            return int(self.query("SELECT value FROM about WHERE name = 'version'")[0][0])
        except (IndexError, ValueError):
            raise errors.NotAnIndexError(self._explain(sqlite3.DatabaseError("a fact about the index"))) from None

    def age(self) -> float:
        """Return the number of seconds since the database's files were last written to; 0 for a catalog in memory."""
        times = []
        for path in filter(None, (self._path, self._log)):
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
        return self.select("row IN (SELECT value FROM json_each(?2))", known_at, json.dumps(list(rows)))

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

    def row_states(self, tenant: str, end: int, rows: Sequence[int] | None = None) -> Iterator[RowStates]:
        """Yield the states of a tenant's chunks in these rows (None: all below ``end``), without deleted ones."""
        columns = ", ".join(["json_group_array(row)", "json_group_array(id)", *_TIMES])
        # The plus prevents SQLite from using an index on the tenant, so only these rows are read.
        sql = f"SELECT {columns} FROM {_STORED} WHERE +tenant = ?1 AND row "
        pages: Iterable[list[Any]]
        if rows is not None:
            pages = [self.query(f"{sql} IN (SELECT value FROM json_each(?2))", (tenant, json.dumps(list(rows))))]
        else:
            starts = range(0, end, _STATES_AT_ONCE)
            pages = (self.query(f"{sql} >= ?2 AND row < ?3", (tenant, n, n + _STATES_AT_ONCE)) for n in starts)
        for [page] in pages:
            if page[0] != "[]":
                rows_of_page, ids, *times_of_page = map(json.loads, page)
                yield rows_of_page, ids, times_of_page

    def row_numbers(self) -> list[int]:
        """Return the row number of every chunk, ascending."""
        return [row for (row,) in self.query("SELECT row FROM nodes WHERE row NOT NULL ORDER BY row")]

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
            () if rows is None else (json.dumps(list(rows)),),
        )

    def select(self, where: str, known_at: float | None, *values: Any) -> list[StoredChunk]:
        """Return the chunks and parents for which a condition is true; in it, ``values`` are numbered from ?2."""
        what = f"{_COLUMNS} FROM {_STORED}" if known_at is None else f"{_COLUMNS_THEN} FROM {_STORED_THEN}"
        return list(starmap(StoredChunk, self.query(f"SELECT {what} WHERE {where}", (known_at, *values))))

    def count(self, tenant: str) -> dict[str, int]:
        """Return a dict with the numbers of a tenant's chunks, parents, edges, entities, sessions and retractions."""
        of_tenant = "FROM nodes WHERE tenant = ?1 AND"
        counts = {
            "chunks": f"SELECT count(*) {of_tenant} kind = '{CHUNK}'",
            "parents": f"SELECT count(*) {of_tenant} kind = '{PARENT}'",
            "edges": "SELECT count(*) FROM edges JOIN nodes ON node = source WHERE tenant = ?1",
            "entities": f"SELECT count(*) {of_tenant} kind = '{GRAPH}' AND {IS_MENTIONED}",
            "sessions": f"SELECT count(DISTINCT session) {of_tenant} session NOT NULL",
            "retracted": "SELECT count(*) FROM learned CROSS JOIN nodes USING (node) "
            "WHERE retracted_at NOT NULL AND tenant = ?1",
        }
        return {name: self.query(sql, (tenant,))[0][0] for name, sql in counts.items()}

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

    def record_faults(self) -> list[str]:
        """Return messages about edges and learned values that cannot have been written."""
        owners = " UNION ALL ".join(f"SELECT node FROM {table}" for table in MEMORY_TABLES)
        faults = {
            "edges point to missing nodes": f"edges WHERE {LOST_EDGES}",
            "edges have no weight, are never valid, or lead to themselves or another tenant": (
                f"edges WHERE {INVALID_EDGES}"
            ),
            "chunks have no learned values, so searches miss them; repair() restores initial ones": (
                f"nodes WHERE {STATELESS}"
            ),
            "learned values belong to no chunk; repair() deletes them": f"({owners}) WHERE {OWNERLESS}",
        }
        counts = {what: self.query(f"SELECT count(*) FROM {source}")[0][0] for what, source in faults.items()}
        return [f"{count} {what}" for what, count in counts.items() if count]

    def damaged_nodes(self) -> tuple[list[DamagedNode], list[DamagedNode]]:
        """Read all nodes; return those that are not valid UTF-8, and those with another text or other metadata."""
        undecodable, altered = list[DamagedNode](), list[DamagedNode]()
        with self.reading() as connection:
            for node, row, hash, content_hash, *values in connection.execute(_RAW_NODES):
                try:
                    contents: list[Any] = [None if raw is None else raw.decode() for raw in values]
                except UnicodeDecodeError:
                    tenant, id = (raw.decode(errors="replace") for raw in values[:2])
                    undecodable.append(DamagedNode(node, row, tenant, id))
                    continue
                tenant, id, *place, kind, document, parent, metadata, text = contents
                if text is None:
                    continue
                parsed = None if metadata is None else parse_metadata(metadata)
                is_as_written = content_hash in (b"", digest(kind, document or "", parent or "", metadata or "", text))
                present: list[str | None] = [None, None]
                if row is not None:
                    present = [chunk_uri(id, document or "", parsed or {}), context_type_of(parsed or {})]
                if parsed is None or not is_as_written or text_hash(text) != hash or place != present:
                    readable = "{}" if parsed is None else metadata
                    altered.append(DamagedNode(node, row, tenant, id, text_hash(text), readable, *present))
        return undecodable, altered

    def altered_values(self) -> list[DamagedNode]:
        """Return the nodes with an edge or a learned value that has been damaged, as :meth:`damage` shows."""
        sql = f"SELECT node, row, tenant, id FROM nodes WHERE node IN ({_ALTERED_VALUES})"
        return [DamagedNode(*values) for values in self.query(sql)]


_catalogs: weakref.WeakSet[Catalog] = weakref.WeakSet()


def hold_connections(deadline: float) -> None:
    """Wait until no thread uses a connection, at most until ``deadline``, and close those that are not in use."""
    gate.hold(deadline)
    for catalog in list(_catalogs):
        catalog.close_idle()
