"""The catalogue: the SQLite database that accepts chunks and from which everything else can be rebuilt."""

from __future__ import annotations

import json
import logging
import math
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from langchain_hybridgraph.chunk_metadata import ParsedMetadata
from langchain_hybridgraph.errors import NotAnIndexError, ReadOnlyError, StoreError
from langchain_hybridgraph.records import CONTAINS, MENTIONS, Chunk, Edge
from langchain_hybridgraph.stores.embedded import catalog_files
from langchain_hybridgraph.stores.embedded.catalog_migrations import check_format, format_version, migrate
from langchain_hybridgraph.stores.protocols import FileRecord
from langchain_hybridgraph.uris import TITLE

logger = logging.getLogger(__name__)

# Kinds of nodes; a graph node is only named by edges: an entity, a directory, or a chunk that is not there (yet).
CHUNK, PARENT, GRAPH = "chunk", "parent", "graph"
_LOST = "source NOT IN (SELECT node FROM nodes) OR target NOT IN (SELECT node FROM nodes)"
# The nodes that edges may join in a tenant: chunks, parents, entities a chunk mentions, directories with a chunk below.
_JOINED = f"""
WITH RECURSIVE joined (node) AS (
    SELECT node FROM nodes WHERE tenant = ?1 AND kind <> '{GRAPH}'
    UNION SELECT target FROM edges JOIN nodes ON node = source
        WHERE tenant = ?1 AND kind <> '{GRAPH}' AND relation = '{MENTIONS}'
    UNION SELECT source FROM joined JOIN edges ON target = node AND relation = '{CONTAINS}'
)
"""
_MODE = "mode "
_POSITION = (
    "SELECT value, ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'graph_changes'), 0) "
    "FROM about WHERE name = 'version'"
)
# Columns of an edge for the graph in memory.
_ARC = "e.source, e.target, relation, weight, ifnull(e.valid_from, -9e999), ifnull(e.valid_until, 9e999), e.learned_at"
_METADATA = "SELECT id, metadata FROM nodes WHERE metadata IS NOT NULL"
_IS_MENTIONED = f"EXISTS (SELECT 1 FROM edges m WHERE m.target = nodes.node AND m.relation = '{MENTIONS}')"
_ARCS_AT_ONCE = 50_000
_EDGE = "s.id, t.id, e.relation, e.weight, e.description, e.valid_from, e.valid_until"
# Smallest number of graph changes kept in the log, and the share of the number of nodes added to it. A reader that
# has missed more reads the graph again, which is faster than following the log.
_KEPT_CHANGES, _KEPT_SHARE = 2_000, 4
_WRONG = (
    "NOT weight BETWEEN 5e-324 AND 1 OR source = target OR valid_until < valid_from OR "
    "typeof(valid_from) NOT IN ('real', 'null') OR typeof(valid_until) NOT IN ('real', 'null') OR "
    "(SELECT tenant FROM nodes WHERE node = source) <> (SELECT tenant FROM nodes WHERE node = target)"
)
_COLUMNS = (
    "row, tenant, id, kind, document, parent, text, metadata, l.valid_from, l.valid_until, learned_at, retracted_at"
)
_STORED = "nodes CROSS JOIN learned l USING (node)"
# The validity as it was known at a time: the values that held until the first change after it.
_COLUMNS_THEN = _COLUMNS.replace("l.valid_from", "iif(p.node, p.valid_from, l.valid_from)").replace(
    "l.valid_until", "iif(p.node, p.valid_until, l.valid_until)"
)
_STORED_THEN = (
    f"{_STORED} LEFT JOIN past_validity p ON p.node = nodes.node AND p.known_until = "
    "(SELECT min(known_until) FROM past_validity WHERE node = nodes.node AND known_until > ?1)"
)


# Source, target, relation, weight, valid from, valid until, learned at; nodes by number.
Arc = tuple[int, int, str, float, float, float, float]


class ChunkRow(NamedTuple):
    """One accepted chunk or parent as the catalogue writes it; ``row`` None for a parent."""

    tenant: str
    id: str
    kind: str
    row: int | None
    document: str
    parent: str | None
    session: str | None
    turn: int | None
    text: str
    metadata: str
    text_hash: bytes
    content_hash: bytes
    given: ParsedMetadata


class StoredHashes(NamedTuple):
    """Hashes and row that the catalogue holds for an id, as far as writing needs them."""

    kind: str
    row: int | None
    text_hash: bytes | None
    content_hash: bytes | None


class StoredChunk(NamedTuple):
    """One chunk or parent as the catalogue reads it."""

    row: int | None
    tenant: str
    id: str
    kind: str
    document: str
    parent: str | None
    text: str
    metadata: str
    valid_from: float | None
    valid_until: float | None
    learned_at: float = -math.inf
    retracted_at: float | None = None

    def chunk(self) -> Chunk:
        """Return the record that leaves the store; its metadata is parsed on first access."""
        return Chunk(self.id, self.text, StoredMetadata(self.metadata), self.document, self.parent)

    def valid(self, as_of: float | None, known_at: float | None = None) -> bool:
        """Return whether it was known at one time (None: now) and is valid at the other (None: any).

        Known means ingested and not retracted.
        """
        return self._known(known_at) and (
            as_of is None
            or (
                (self.valid_from is None or self.valid_from <= as_of)
                and (self.valid_until is None or self.valid_until >= as_of)
            )
        )

    def _known(self, known_at: float | None) -> bool:
        if known_at is None:
            return self.retracted_at is None
        return self.learned_at <= known_at and (self.retracted_at is None or self.retracted_at > known_at)


class Place(NamedTuple):
    """Position of a chunk in the tree, from its metadata."""

    row: int
    id: str
    document: str
    uri: Any
    url: Any
    source: Any
    context_type: Any


class StoredMetadata(Mapping[str, Any]):
    """JSON metadata parsed on first access: most candidates of a query are never looked at.

    Metadata that cannot be parsed is treated as empty and logged: a damaged row must not fail searches for other rows.
    """

    def __init__(self, raw: str) -> None:
        self._raw = raw

    @cached_property
    def _parsed(self) -> dict[str, Any]:
        return parse_metadata(self._raw) or {}

    def __getitem__(self, key: str) -> Any:
        return self._parsed[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parsed)

    def __len__(self) -> int:
        return len(self._parsed)

    def __repr__(self) -> str:
        return repr(self._parsed)


def parse_metadata(metadata: str) -> dict[str, Any] | None:
    """Parse the metadata of a row; return None (and log a warning) if it cannot be read."""
    try:
        read = json.loads(metadata)
    except (ValueError, RecursionError, TypeError) as error:
        logger.warning("metadata in the catalogue cannot be read (%s): %.80r", error, metadata)
        return None
    return read if isinstance(read, dict) else None


class Catalogue:
    """Connections to one SQLite database and the statements that run on it.

    ``path`` None keeps it in memory. Reads may run on any number of threads; one write at a time.
    Raises NotAnIndexError if the file is not a catalogue, and FormatVersionError if its format is too new, or too old
    and ``create`` is False (``create`` converts an old catalogue to the present format).
    """

    def __init__(self, path: Path | None, *, create: bool = False) -> None:
        self._path = path
        self._opened: tuple[int, int] | None = None  # device and inode of the file
        self._pool: list[tuple[object, sqlite3.Connection]] = []
        self._lock = threading.RLock()
        self._snapshot = threading.local()
        self._lent = 0
        _catalogues.add(self)
        self._closed = False
        self._is_writable = path is None or (
            os.access(path.parent, os.W_OK) and (not path.exists() or os.access(path, os.W_OK))
        )
        # An in-memory database exists only in this one connection.
        self._memory = _connection(":memory:") if path is None else None
        if path is not None and not create and not path.exists():
            raise NotAnIndexError(f"{path.parent} holds no index: there is no {path.name} in it")
        with self._opening(), self._borrowed() as connection:
            if create:
                migrate(connection)
            elif format_version(connection) == 0:
                raise NotAnIndexError(f"{path} is a SQLite database, but not a catalogue of this package")
            check_format(format_version(connection))
        self._opened = self._place()

    # -- connections ----------------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Borrow a connection for SELECTs; each sees the last commit, or inside :meth:`snapshot` the same one."""
        held: sqlite3.Connection | None = getattr(self._snapshot, "connection", None)
        try:
            if held is not None:
                yield held
            else:
                with self._borrowed() as connection:
                    yield connection
        except sqlite3.Error as error:
            raise StoreError(f"the catalogue {self._path or 'in memory'} cannot be read: {error}") from error

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Make everything that this thread reads inside see the same commit, whatever is written meanwhile."""
        if getattr(self._snapshot, "connection", None) is not None:
            yield  # nested
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
        """Borrow a connection inside one transaction, committed (and on disk) at the end, rolled back on any error."""
        with self._lock, self._borrowed() as connection:
            self._check_place()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                _trim_graph_changes(connection)
                connection.execute("COMMIT")
            except BaseException as error:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error):
                    raise StoreError(f"nothing of this batch was written: {error}") from error
                raise

    def checkpoint(self) -> None:
        """Move the write-ahead log into the database, so that no old page is left; not possible while others read."""
        with self._lock, self._borrowed() as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close all connections; the write-ahead log is moved into the database where that is possible."""
        with self._lock:
            self._closed = True
            pool, self._pool = self._pool, []
            if self._memory is not None:
                pool.append((None, self._memory))
        for _, connection in pool:
            connection.close()

    @property
    def is_in_memory(self) -> bool:
        """Whether the catalogue has no file."""
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
                raise StoreError(f"the catalogue {self._path} cannot be opened: {error}") from error
            raise NotAnIndexError(f"{self._path} is not a catalogue: {error}") from error
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
        """Count a connection as lent; while a fork is being prepared, a thread without a connection waits for it."""
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
        """Return a pooled connection made when the file was as it is now; close the others."""
        while True:
            try:
                made, connection = self._pool.pop()
            except IndexError:
                return None
            if made == state:
                return connection
            connection.close()

    def _check_place(self, *, may_be_gone: bool = False) -> None:
        """Raise StoreError if the file at the path, and so those next to it, are not the ones that were opened.

        Connections outlive a deleted file, so that reading may go on.
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
        # A folder that cannot be written to has no place for the shared memory of WAL, unless another user is writing
        # there now or left a log with commits behind. Without a log the file may be read as immutable.
        mode = "mode=ro" if self._has_log() else "immutable=1"
        return _connection(f"{self._path.resolve().as_uri()}?{mode}", uri=True)

    def _file_state(self) -> object:
        """Identify the file's state, on which a connection depends: an immutable one misses another user's writes."""
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

    # -- facts ----------------------------------------------------------------------------------------------

    def facts(self) -> dict[str, Any]:
        """Return the facts of the index: version, next_row, generation, tenancy, language, embedding …"""
        with self.reading() as connection:
            return dict(connection.execute("SELECT name, value FROM about"))

    def version(self) -> int:
        """Return the number of the last commit that changed a chunk."""
        with self.reading() as connection:
            return int(connection.execute("SELECT value FROM about WHERE name = 'version'").fetchone()[0])

    def age(self) -> float:
        """Return the seconds since its files were last written to; 0 for a catalogue in memory."""
        written = []
        for path in () if self._path is None else (self._path, self._path.with_name(f"{self._path.name}-wal")):
            with suppress(FileNotFoundError):
                written.append(path.stat().st_mtime)
        return time.time() - max(written) if written else 0.0

    def graph_position(self) -> tuple[int, int]:
        """Return the number of the last commit that changed a chunk, and that of the last change to the graph."""
        with self.reading() as connection:
            version, position = connection.execute(_POSITION).fetchone()
        return int(version), int(position)

    # -- reading --------------------------------------------------------------------------------------------

    def read_rows(self, rows: Iterable[int], known_at: float | None = None) -> list[StoredChunk]:
        """Return the chunks of these rows, in no particular order; replaced and deleted rows are left out.

        Their validity is as known at ``known_at``, None for what is known now.
        """
        return self._select("row IN (SELECT value FROM json_each(?2))", known_at, _numbers(rows))

    def read_ids(self, tenant: str, ids: Iterable[str], known_at: float | None = None) -> list[StoredChunk]:
        """Return the chunks and parents with these ids."""
        return self._select("tenant = ?2 AND id IN (SELECT value FROM json_each(?3))", known_at, tenant, json_list(ids))

    def read_texts(self, tenant: str, hashes: Iterable[bytes]) -> list[StoredChunk]:
        """Return the chunks whose texts have these hashes."""
        wanted = json.dumps([digest.hex().upper() for digest in hashes])
        return self._select(
            "tenant = ?2 AND row NOT NULL AND hex(text_hash) IN (SELECT value FROM json_each(?3))", None, tenant, wanted
        )

    def pages(self, start: int = 0, stop: int = 1 << 62, *, step: int = 2_000) -> Iterator[list[StoredChunk]]:
        """Yield all chunks with a row in [start, stop), by row, one page at a time; no lock is held between pages."""
        while page := self._select("row >= ?2 AND row < ?3 ORDER BY row LIMIT ?4", None, start, stop, step):
            yield page
            start = (page[-1].row or 0) + 1

    def iterate(self, start: int = 0, stop: int = 1 << 62) -> Iterator[StoredChunk]:
        """Yield all chunks with a row in [start, stop), by row."""
        return chain.from_iterable(self.pages(start, stop))

    def texts(self, start: int = 0) -> Iterator[tuple[int, str]]:
        """Yield row and text of all chunks from this row on, by row."""
        return ((entry.row or 0, entry.text) for entry in self.iterate(start))

    def places(self, start: int, stop: int, tenant: str) -> Iterator[Place]:
        """Yield the tree positions of a tenant's chunks with a row in [start, stop), from their metadata.

        Python parses the metadata: SQLite's JSON has no NaN, and one malformed text would fail the statement.
        """
        with self.reading() as connection:
            results = connection.execute(
                # The plus keeps SQLite from using an index on the tenant: only the new rows are read.
                "SELECT row, id, document, metadata FROM nodes WHERE row >= ? AND row < ? AND +tenant = ? ORDER BY row",
                (start, stop, tenant),
            )
            while page := results.fetchmany(2_000):
                for row, id, document, metadata in page:
                    named = StoredMetadata(metadata)
                    yield Place(row, id, document, *map(named.get, ("uri", "url", "source", "context_type")))

    def rows(self) -> list[int]:
        """Return the rows of all chunks, ascending."""
        with self.reading() as connection:
            return [row for (row,) in connection.execute("SELECT row FROM nodes WHERE row NOT NULL ORDER BY row")]

    def text_hashes(self) -> dict[int, bytes]:
        """Return the text hash of every chunk by its row, ascending."""
        with self.reading() as connection:
            return dict(connection.execute("SELECT row, text_hash FROM nodes WHERE row NOT NULL ORDER BY row"))

    def count_rows(self) -> int:
        """Return the number of chunks, of all tenants."""
        with self.reading() as connection:
            return int(connection.execute("SELECT count(*) FROM nodes WHERE row NOT NULL").fetchone()[0])

    def past_validity(self, rows: Iterable[int] | None = None) -> list[tuple[int, float, float, float]]:
        """Return earlier validity as (row, known until, valid from, valid until), of these rows or of all."""
        chosen = "" if rows is None else "AND row IN (SELECT value FROM json_each(?))"
        with self.reading() as connection:
            return connection.execute(
                "SELECT row, known_until, ifnull(valid_from, -9e999), ifnull(valid_until, 9e999) "
                f"FROM past_validity CROSS JOIN nodes USING (node) WHERE row NOT NULL {chosen}",
                () if rows is None else (_numbers(rows),),
            ).fetchall()

    def turns(self, tenant: str, session: str, known_at: float | None) -> Iterator[StoredChunk]:
        """Yield the turns of a session, the newest first: those with a number, then the others by age."""
        page, size = 0, 100
        while results := self._select(
            "tenant = ?2 AND session = ?3 ORDER BY turn DESC, created_at DESC, row DESC LIMIT ?4 OFFSET ?5",
            known_at,
            tenant,
            session,
            size,
            page * size,
        ):
            yield from results
            page += 1

    def _select(self, where: str, known_at: float | None, *values: Any) -> list[StoredChunk]:
        what = f"{_COLUMNS} FROM {_STORED}" if known_at is None else f"{_COLUMNS_THEN} FROM {_STORED_THEN}"
        with self.reading() as connection:
            results = connection.execute(f"SELECT {what} WHERE {where}", (known_at, *values)).fetchall()
        return [StoredChunk(*values) for values in results]

    def count(self, tenant: str) -> dict[str, int]:
        """Return a tenant's number of chunks, parents, edges and entities."""
        with self.reading() as connection:
            kinds = dict(
                connection.execute("SELECT kind, count(*) FROM nodes WHERE tenant = ? GROUP BY kind", (tenant,))
            )
            edges = connection.execute(
                "SELECT count(*) FROM edges JOIN nodes ON node = source WHERE tenant = ?", (tenant,)
            ).fetchone()[0]
            entities = connection.execute(
                f"SELECT count(*) FROM nodes WHERE tenant = ? AND kind = '{GRAPH}' AND {_IS_MENTIONED}", (tenant,)
            ).fetchone()[0]
        counts = {"chunks": kinds.get(CHUNK, 0), "parents": kinds.get(PARENT, 0)}
        return {**counts, "edges": edges, "entities": entities}

    def tenants(self) -> dict[str, int]:
        """Return the number of chunks of each tenant that has any data, by name."""
        with self.reading() as connection:
            return dict(
                connection.execute(
                    "WITH named (tenant) AS (SELECT tenant FROM nodes UNION SELECT tenant FROM credibility "
                    f"UNION SELECT substr(name, {len(_MODE) + 1}) FROM about WHERE name GLOB '{_MODE}*') "
                    "SELECT tenant, (SELECT count(row) FROM nodes n WHERE n.tenant = named.tenant) FROM named "
                    "ORDER BY tenant"
                )
            )

    def has_parents(self, tenant: str) -> bool:
        """Return whether this tenant has any parent."""
        with self.reading() as connection:
            # A literal, not a parameter: SQLite uses the partial index only then.
            row = connection.execute(f"SELECT 1 FROM nodes WHERE kind = '{PARENT}' AND tenant = ? LIMIT 1", (tenant,))
            return row.fetchone() is not None

    def stored_hashes(self, tenant: str, ids: Iterable[str]) -> dict[str, StoredHashes]:
        """Return the hashes and row of these ids; ids that only edges name have the kind ``graph``."""
        with self.reading() as connection:
            results = connection.execute(
                "SELECT id, kind, row, text_hash, content_hash FROM nodes "
                "WHERE tenant = ? AND id IN (SELECT value FROM json_each(?))",
                (tenant, json_list(ids)),
            )
            return {id: StoredHashes(*rest) for id, *rest in results}

    def documents(self, tenant: str, documents: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield (document, id) for every chunk and parent of these documents."""
        with self.reading() as connection:
            yield from connection.execute(
                "SELECT document, id FROM nodes WHERE tenant = ? AND document IN (SELECT value FROM json_each(?))",
                (tenant, json_list(documents)),
            ).fetchall()

    def document_ids(self, tenant: str) -> list[str]:
        """Return the ids of all documents of a tenant, sorted."""
        with self.reading() as connection:
            results = connection.execute(
                "SELECT DISTINCT document FROM nodes WHERE tenant = ? AND document NOT NULL ORDER BY document",
                (tenant,),
            )
            return [document for (document,) in results]

    def files(self, tenant: str) -> list[FileRecord]:
        """Return the records of the files whose documents are still as the ingest wrote them."""
        with self.reading() as connection:
            return catalog_files.read(connection, tenant)

    def title_edges(self, tenant: str) -> list[Edge]:
        """Return the edges that lead to titles of documents, by title and source."""
        with self.reading() as connection:
            results = connection.execute(
                f"SELECT {_EDGE} FROM nodes t CROSS JOIN edges e ON e.target = t.node "
                "CROSS JOIN nodes s ON s.node = e.source WHERE t.tenant = ? AND t.id >= ? AND t.id < ? "
                "ORDER BY t.id, s.id",
                (tenant, TITLE, f"{TITLE}{chr(0x10FFFF)}"),
            ).fetchall()
        return [Edge(*values) for values in results]

    def changed_rows(self, version: int) -> list[int]:
        """Return the rows that commits after ``version`` changed."""
        with self.reading() as connection:
            return [
                row for (row,) in connection.execute("SELECT DISTINCT row FROM changes WHERE version > ?", (version,))
            ]

    def edges(self, tenant: str, ids: Iterable[str], *, backwards: bool = False) -> list[Edge]:
        """Return the edges that leave these ids (``backwards``: arrive at them), by source, relation and target."""
        here = "t" if backwards else "s"
        with self.reading() as connection:
            results = connection.execute(
                f"SELECT {_EDGE} FROM edges e "
                "JOIN nodes s ON s.node = e.source JOIN nodes t ON t.node = e.target "
                f"WHERE {here}.tenant = ? AND {here}.id IN (SELECT value FROM json_each(?)) "
                "ORDER BY s.id, relation, t.id",
                (tenant, json_list(ids)),
            ).fetchall()
        return [Edge(*values) for values in results]

    def faults(self) -> list[str]:
        """Return the faults that SQLite and the tables' own rules find; [] for a sound catalogue."""
        with self.reading() as connection:
            faults = [row[0] for row in connection.execute("PRAGMA quick_check(5)") if row[0] != "ok"]
            lost = connection.execute(f"SELECT count(*) FROM edges WHERE {_LOST}").fetchone()[0]
            wrong = connection.execute(f"SELECT count(*) FROM edges WHERE {_WRONG}").fetchone()[0]
            unread = [id for id, metadata in connection.execute(_METADATA) if parse_metadata(metadata) is None]
        faults += [f"{lost} edges point to missing nodes"] if lost else []
        if unread:
            faults.append(f"the metadata of {len(unread)} chunks cannot be read ({unread[0]!r:.80} …); add them again")
        what = "have no weight, are never valid, or lead to themselves or another tenant"
        return faults + ([f"{wrong} edges {what}"] if wrong else [])

    # -- the graph ------------------------------------------------------------------------------------------

    def has_edges(self, tenant: str) -> bool:
        """Return whether this tenant has any edge."""
        with self.reading() as connection:
            results = connection.execute(
                "SELECT 1 FROM edges JOIN nodes ON node = source WHERE tenant = ? LIMIT 1", (tenant,)
            )
            return results.fetchone() is not None

    def count_edges(self) -> int:
        """Return the number of edges, of all tenants."""
        with self.reading() as connection:
            return _count_edges(connection)

    def chunk_nodes(self) -> list[tuple[int, int]]:
        """Return (row, node) of every chunk, of all tenants."""
        with self.reading() as connection:
            return connection.execute("SELECT row, node FROM nodes WHERE row NOT NULL ORDER BY row").fetchall()

    def parent_nodes(self, tenant: str) -> list[int]:
        """Return the nodes of all parents of a tenant."""
        with self.reading() as connection:
            results = connection.execute(f"SELECT node FROM nodes WHERE kind = '{PARENT}' AND tenant = ?", (tenant,))
            return [node for (node,) in results]

    def arcs(self, tenant: str) -> Iterator[list[Arc]]:
        """Yield all edges of a tenant (of all tenants together for ""), some ten thousand at a time."""
        of_tenant = "nodes CROSS JOIN edges e ON e.source = node WHERE tenant = ?"
        with self.reading() as connection:
            results = connection.execute(
                f"SELECT {_ARC} FROM " + (of_tenant if tenant else "edges e"),
                (tenant,) if tenant else (),
            )
            while arcs := results.fetchmany(_ARCS_AT_ONCE):
                yield arcs

    def changed_pairs(self, position: int) -> list[tuple[int, int]]:
        """Return the pairs of nodes whose edges changed after ``position``; a changed node is paired with itself."""
        with self.reading() as connection:
            return connection.execute(
                "SELECT DISTINCT source, target FROM graph_changes WHERE number > ?", (position,)
            ).fetchall()

    def changed_nodes(self, tenant: str, position: int) -> list[tuple[int, int, int]]:
        """Return (node, row or -1, whether it is an entity) of this tenant's nodes that changed after ``position``."""
        with self.reading() as connection:
            return connection.execute(
                "WITH touched (node) AS (SELECT source FROM graph_changes WHERE number > ?1 "
                "UNION SELECT target FROM graph_changes WHERE number > ?1) "
                f"SELECT nodes.node, ifnull(row, -1), kind = '{GRAPH}' AND {_IS_MENTIONED} "
                "FROM touched CROSS JOIN nodes ON nodes.node = touched.node WHERE tenant = ?2",
                (position, tenant),
            ).fetchall()

    def changed_arcs(self, tenant: str, position: int) -> list[Arc]:
        """Return the present edges between this tenant's pairs of nodes that changed after ``position``."""
        with self.reading() as connection:
            return connection.execute(
                f"SELECT {_ARC} FROM (SELECT DISTINCT source, target FROM graph_changes WHERE number > ?) c "
                "CROSS JOIN edges e ON e.target = c.target AND e.source = c.source "
                "CROSS JOIN nodes ON node = e.source WHERE tenant = ?",
                (position, tenant),
            ).fetchall()

    def graph_nodes(self, tenant: str, ids: Iterable[str]) -> dict[str, int]:
        """Return the nodes of those ids that only edges name."""
        with self.reading() as connection:
            return dict(
                connection.execute(
                    f"SELECT id, node FROM nodes WHERE tenant = ? AND kind = '{GRAPH}' "
                    "AND id IN (SELECT value FROM json_each(?))",
                    (tenant, json_list(ids)),
                )
            )

    def ids_of_nodes(self, nodes: Iterable[int]) -> dict[int, str]:
        """Return the id of each node that exists."""
        with self.reading() as connection:
            return dict(
                connection.execute(
                    "SELECT node, id FROM nodes WHERE node IN (SELECT value FROM json_each(?))", (_numbers(nodes),)
                )
            )

    def edges_between(
        self, pairs: Iterable[tuple[int, int]], known_at: float | None = None
    ) -> list[tuple[int, int, Edge]]:
        """Return (source, target, edge) for all edges between the nodes of each pair, as known at a time or now."""
        with self.reading() as connection:
            results = connection.execute(
                f"SELECT e.source, e.target, {_EDGE} FROM json_each(?) p "
                "CROSS JOIN edges e ON e.source = json_extract(p.value, '$[0]') "
                "AND e.target = json_extract(p.value, '$[1]') "
                "JOIN nodes s ON s.node = e.source JOIN nodes t ON t.node = e.target "
                "WHERE e.learned_at <= ifnull(?, 9e999)",
                (json.dumps(list(pairs)), known_at),
            ).fetchall()
        return [(source, target, Edge(*values)) for source, target, *values in results]


# -- writing: statements that run inside Catalogue.writing() ------------------------------------------------------


def mode_name(tenant: str) -> str:
    """Return the name of the fact that holds a tenant's mode."""
    return _MODE + tenant


class _Fork:
    """State that keeps connections from being lent while this process is about to fork."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.is_near = False


_fork = _Fork()
_catalogues: weakref.WeakSet[Catalogue] = weakref.WeakSet()


def close_connections_before_fork(deadline: float) -> None:
    """Wait until all connections of this process are back, close them, and lend none until the fork is over.

    SQLite must not be carried into a forked process: its record of locks would be the parent's. A catalogue
    that is still ``is_lending`` at the deadline (``time.monotonic()``) cannot be used in the child.
    """
    with _fork.changed:
        _fork.is_near = True
        own = {catalogue for catalogue in _catalogues if getattr(catalogue._snapshot, "lent", 0)}
        others = [catalogue for catalogue in _catalogues if catalogue not in own]  # a thread never waits for itself
        _fork.changed.wait_for(
            lambda: not any(catalogue.is_lending for catalogue in others), max(0.0, deadline - time.monotonic())
        )
    for catalogue in list(_catalogues):
        if not catalogue.is_in_memory:
            catalogue.close_idle()


def lend_again_after_fork() -> None:
    """In the parent, lend connections as before."""
    with _fork.changed:
        _fork.is_near = False
        _fork.changed.notify_all()


def reset_in_child() -> None:
    """In the child, forget the parent's threads, which neither wait nor hold anything here."""
    global _fork  # noqa: PLW0603 - a lock that a thread of the parent holds is never released here
    _fork = _Fork()
    _catalogues.clear()


def set_facts(connection: sqlite3.Connection, **facts: Any) -> None:
    """Write facts of the index."""
    connection.executemany("INSERT OR REPLACE INTO about VALUES (?, ?)", facts.items())


def put_entries(connection: sqlite3.Connection, entries: Sequence[ChunkRow]) -> None:
    """Insert or replace chunks and parents by (tenant, id); edges that name them stay.

    ``catalog_feedback.insert_or_replace`` writes everything else about them in the same transaction.
    """
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
    """Insert edges, creating missing ends; of two with the same source, target and relation the heavier is kept.

    Without ``by_weight`` the new edge is kept. An edge whose validity changes counts as learned at ``now``; its earlier
    validity is not kept.
    """
    # Sorted, so that the same edges get the same node numbers, which break ties.
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
    """Delete the edges that have the source, relation and target of one of these."""
    connection.executemany(
        "DELETE FROM edges WHERE source = (SELECT node FROM nodes WHERE tenant = ?1 AND id = ?2) AND relation = ?3 "
        "AND target = (SELECT node FROM nodes WHERE tenant = ?1 AND id = ?4)",
        ((tenant, edge.source, edge.relation, edge.target) for edge in edges),
    )


def delete_orphan_edges(connection: sqlite3.Connection, tenant: str) -> int:
    """Delete a tenant's edges with a missing end, then its graph nodes without an edge; return the number of edges."""
    connection.execute(
        f"{_JOINED} DELETE FROM edges WHERE source IN (SELECT node FROM nodes WHERE tenant = ?1) "
        "AND (source NOT IN joined OR target NOT IN joined)",
        (tenant,),
    )
    # A cursor's rowcount is not set by a statement that begins with WITH.
    deleted = int(connection.execute("SELECT changes()").fetchone()[0])
    connection.execute(
        f"DELETE FROM nodes WHERE tenant = ? AND kind = '{GRAPH}' "
        "AND NOT EXISTS (SELECT 1 FROM edges WHERE source = node) "
        "AND NOT EXISTS (SELECT 1 FROM edges WHERE target = node)",
        (tenant,),
    )
    return deleted


def delete_weak_edges(connection: sqlite3.Connection, tenant: str, min_weight: float, max_per_source: int) -> int:
    """Delete a tenant's edges below a weight, then all but the heaviest per source (0: all stay); return their number.

    Entities that are no longer mentioned are deleted with their edges, which are counted too.
    """
    before = _count_edges(connection)
    mentioned = _mentioned(connection, tenant)
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
    delete_unmentioned(connection, mentioned)
    return before - _count_edges(connection)


def graph_ends(connection: sqlite3.Connection, tenant: str, edges: Iterable[Edge]) -> list[int]:
    """Return the entities that these edges mention."""
    targets = json_list({edge.target for edge in edges if edge.relation == MENTIONS})
    results = connection.execute(
        f"SELECT node FROM nodes WHERE tenant = ? AND kind = '{GRAPH}' AND id IN (SELECT value FROM json_each(?))",
        (tenant, targets),
    )
    return [node for (node,) in results]


def delete_unmentioned(connection: sqlite3.Connection, entities: Iterable[int]) -> None:
    """Delete those of these entities that are no longer mentioned, their edges, and the nodes that only those named."""
    left = connection.execute(
        f"SELECT node FROM nodes WHERE node IN (SELECT value FROM json_each(?)) AND NOT {_IS_MENTIONED}",
        (_numbers(entities),),
    ).fetchall()
    if left:
        _delete_nodes(connection, [node for (node,) in left])


def delete_ids(connection: sqlite3.Connection, tenant: str, ids: Iterable[str]) -> tuple[int, list[int]]:
    """Delete chunks and parents with their edges; parents go when their last child goes.

    Return the number of ``ids`` that existed, and the rows that were freed.
    """
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

    The probe text of the embedding is deleted if it was the tenant's; the next write chooses another.
    """
    connection.execute("PRAGMA secure_delete = ON")
    results = connection.execute("SELECT row FROM nodes WHERE tenant = ? AND row NOT NULL ORDER BY row", (tenant,))
    rows = [row for (row,) in results]
    # Edges join nodes of one tenant.
    connection.execute("DELETE FROM edges WHERE source IN (SELECT node FROM nodes WHERE tenant = ?)", (tenant,))
    connection.execute("DELETE FROM nodes WHERE tenant = ?", (tenant,))
    catalog_files.forget(connection, tenant)
    connection.execute("DELETE FROM credibility WHERE tenant = ?", (tenant,))
    connection.execute("DELETE FROM about WHERE name = ?", (mode_name(tenant),))
    connection.execute(
        "DELETE FROM about WHERE name IN ('probe_text', 'probe_vector') AND NOT EXISTS "
        "(SELECT 1 FROM nodes JOIN about a ON a.name = 'probe_text' WHERE row NOT NULL AND text = a.value)"
    )
    return rows


def delete_lost_edges(connection: sqlite3.Connection) -> None:
    """Delete edges with a missing end and invalid edges; readers of the graph then read it again."""
    connection.execute(f"DELETE FROM edges WHERE {_LOST} OR {_WRONG}")
    connection.execute("INSERT INTO graph_changes (source, target) VALUES (0, 0)")
    _forget_graph_changes(connection, connection.execute(_POSITION).fetchone()[1])


def log_changes(connection: sqlite3.Connection, rows: Iterable[int]) -> int:
    """Record in the outbox that these rows changed, as a new version; return its number."""
    connection.execute("UPDATE about SET value = value + 1 WHERE name = 'version'")
    version = int(connection.execute("SELECT value FROM about WHERE name = 'version'").fetchone()[0])
    connection.executemany("INSERT INTO changes VALUES (?, ?)", ((version, row) for row in set(rows)))
    return version


def trim_changes(connection: sqlite3.Connection, floor: int) -> None:
    """Drop the changes up to version ``floor``; a reader that has not seen them must read everything again."""
    connection.execute("DELETE FROM changes WHERE version <= ?", (floor,))
    set_facts(connection, floor=floor)


def _delete_nodes(connection: sqlite3.Connection, nodes: Sequence[int]) -> None:
    """Delete nodes with their edges, the entities no longer mentioned, and the nodes that no edge names any more."""
    catalog_files.forget_linking(connection, nodes)
    listed = (_numbers(nodes),)
    ends = connection.execute(
        f"SELECT target, relation = '{MENTIONS}' FROM edges JOIN nodes ON node = target "
        f"WHERE kind = '{GRAPH}' AND source IN (SELECT value FROM json_each(?1)) "
        f"UNION SELECT source, 0 FROM edges JOIN nodes ON node = source "
        f"WHERE kind = '{GRAPH}' AND target IN (SELECT value FROM json_each(?1))",
        listed,
    ).fetchall()
    connection.execute("DELETE FROM edges WHERE source IN (SELECT value FROM json_each(?))", listed)
    connection.execute("DELETE FROM edges WHERE target IN (SELECT value FROM json_each(?))", listed)
    connection.execute("DELETE FROM nodes WHERE node IN (SELECT value FROM json_each(?))", listed)
    delete_unmentioned(connection, [node for node, is_entity in ends if is_entity])
    connection.execute(
        "DELETE FROM nodes WHERE node IN (SELECT value FROM json_each(?)) "
        "AND NOT EXISTS (SELECT 1 FROM edges WHERE source = node) "
        "AND NOT EXISTS (SELECT 1 FROM edges WHERE target = node)",
        (_numbers({node for node, _ in ends}),),
    )
    _delete_empty_directories(connection, [node for node, is_entity in ends if not is_entity])


def _delete_empty_directories(connection: sqlite3.Connection, nodes: Sequence[int]) -> None:
    """Delete those of these nodes that contain nothing and are only contained, then directories that became empty."""
    while nodes:
        empty = [
            node
            for (node,) in connection.execute(
                f"SELECT node FROM nodes WHERE node IN (SELECT value FROM json_each(?)) AND kind = '{GRAPH}' "
                "AND NOT EXISTS (SELECT 1 FROM edges WHERE source = node) "
                f"AND NOT EXISTS (SELECT 1 FROM edges WHERE target = node AND relation <> '{CONTAINS}')",
                (_numbers(nodes),),
            )
        ]
        listed = (_numbers(empty),)
        above = connection.execute(
            "SELECT DISTINCT source FROM edges WHERE target IN (SELECT value FROM json_each(?))", listed
        ).fetchall()
        connection.execute("DELETE FROM edges WHERE target IN (SELECT value FROM json_each(?))", listed)
        connection.execute("DELETE FROM nodes WHERE node IN (SELECT value FROM json_each(?))", listed)
        nodes = [node for (node,) in above]


def _mentioned(connection: sqlite3.Connection, tenant: str) -> list[int]:
    results = connection.execute(
        f"SELECT node FROM nodes WHERE tenant = ? AND kind = '{GRAPH}' AND {_IS_MENTIONED}", (tenant,)
    )
    return [node for (node,) in results]


def _count_edges(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM edges").fetchone()[0])


def _trim_graph_changes(connection: sqlite3.Connection) -> None:
    """Drop the older half of the graph's changes when there are too many."""
    first, last, nodes = connection.execute(
        "SELECT (SELECT min(number) FROM graph_changes), (SELECT max(number) FROM graph_changes), "
        "(SELECT max(node) FROM nodes)"
    ).fetchone()
    if first is not None and last - first >= _KEPT_CHANGES + (nodes or 0) // _KEPT_SHARE:
        _forget_graph_changes(connection, (first + last) // 2)


def _forget_graph_changes(connection: sqlite3.Connection, floor: int) -> None:
    connection.execute("DELETE FROM graph_changes WHERE number <= ?", (floor,))
    set_facts(connection, graph_floor=floor)


def _connection(database: str, *, uri: bool = False) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(
            database, timeout=10.0, isolation_level=None, check_same_thread=False, cached_statements=256, uri=uri
        )
    except sqlite3.OperationalError as error:
        raise ReadOnlyError(f"{database} cannot be opened: {error}") from error
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


def json_list(texts: Iterable[str]) -> str:
    """Encode texts for ``json_each``. It ends a text at a NUL, so texts with one are left out; none is stored."""
    return json.dumps([text for text in texts if "\0" not in text])


def _numbers(values: Iterable[int]) -> str:
    return json.dumps(list(values))
