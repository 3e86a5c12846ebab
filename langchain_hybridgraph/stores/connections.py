"""Pool of connections to the catalog."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager
from operator import methodcaller
from pathlib import Path

from langchain_hybridgraph.errors import FormatVersionError, NotAnIndexError, ReadOnlyError, StoreError
from langchain_hybridgraph.stores.catalog_writes import trim_graph_changes

# Number of the schema, which ``schema.sql`` stores in the database. A catalog with another number cannot be opened.
FORMAT_VERSION = 6


# SQLite's own message would contain the text.
_UNDECODABLE = "a text that is not valid UTF-8: check() names it, and repair() deletes it"
_DAMAGED_SCHEMA = "its schema is damaged"
_RESTORE = "restore the index from a backup, or ingest into a new folder"
_decode_with_replacement = methodcaller("decode", "utf-8", "replace")


def _is_undecodable(error: BaseException) -> bool:
    return isinstance(error, sqlite3.OperationalError) and str(error).startswith("Could not decode")


def _check_format(connection: sqlite3.Connection, path: Path | None) -> None:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version == 0:
        raise NotAnIndexError(f"{path} is a SQLite database, but not a catalog of this package")
    if version != FORMAT_VERSION:
        advice = "ingest the documents into a new folder"
        if version > FORMAT_VERSION:
            advice = 'pip install --upgrade "langchain-hybridgraph"'
        raise FormatVersionError(
            f"the index has format {version}, but this version of langchain-hybridgraph reads format {FORMAT_VERSION}: "
            + advice
        )


class UndecodableTextError(StoreError):
    """A text in the catalog is not valid UTF-8. Later reads of the same catalog replace what cannot be decoded."""


class ForkGate:
    """Counts the threads that open, use or close a connection, so that a fork can wait until there are none.

    A child inherits SQLite's locks and its list of open files: it would wait forever for a lock that another thread
    held, and write without a lock to a file that was open. ``is_lost`` in a child of such a fork.
    """

    def __init__(self) -> None:
        self.is_lost = False
        self._users: list[int] = []  # threads; an iterator may be closed by another thread than its own
        self._forking: int | None = None
        self._changed = threading.Condition()

    @contextmanager
    def use(self) -> Iterator[None]:
        """Make forks wait for the ``with`` block; before it, wait for the end of a fork."""
        thread = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: self._forking in {None, thread} or thread in self._users)
            self._users.append(thread)
        try:
            yield
        finally:
            with self._changed:
                self._users.remove(thread)
                if self._forking is not None:
                    self._changed.notify_all()

    def hold(self, deadline: float) -> None:
        """Let no other thread in, and wait for those inside until ``deadline`` (``time.monotonic()``)."""
        with self._changed:
            self._forking = threading.get_ident()
            self._changed.wait_for(lambda: not self._users, max(0.0, deadline - time.monotonic()))

    def let_in(self) -> None:
        """Let threads in again after :meth:`hold`."""
        with self._changed:
            self._forking = None
            self._changed.notify_all()

    def begin_in_child(self) -> None:
        """Reset the gate in a forked child."""
        self.is_lost = self.is_lost or bool(self._users)
        self._users, self._forking, self._changed = [], None, threading.Condition()


gate = ForkGate()
"""Gate through which all connections of the package are opened, used and closed."""


class CatalogConnections:
    """Pool of connections to one SQLite database: any number of reading threads, one writer.

    With ``path`` None, the database is in memory. Raises NotAnIndexError if the file is missing or not a catalog, and
    FormatVersionError for another version's.
    """

    def __init__(self, path: Path | None, *, create: bool = False) -> None:
        self._path = path
        self._opened: tuple[int, int] | None = None  # device and inode of the file
        self._pool: list[tuple[object, sqlite3.Connection]] = []
        self._lock = threading.RLock()
        self._snapshot = threading.local()
        self.has_undecodable_texts = False
        """Whether a read has met a text that is not valid UTF-8; reads then replace its damaged bytes by U+FFFD."""
        _catalogs.add(self)
        self._closed = False
        self._is_writable = path is None or (
            os.access(path.parent, os.W_OK) and (not path.exists() or os.access(path, os.W_OK))
        )
        # A database in memory exists only in this connection.
        with gate.use():
            self._memory = _connection(":memory:") if path is None else None
        if path is not None and not create and not path.exists():
            raise NotAnIndexError(f"{path.parent} contains no index: there is no {path.name} in it")
        try:
            with self._borrowed() as connection:
                if create:
                    schema = Path(__file__).with_name("schema.sql").read_text("utf-8")
                    connection.executescript(f"BEGIN IMMEDIATE;\n{schema}COMMIT;")
                _check_format(connection, path)
        except BaseException as error:
            self.close()
            if isinstance(error, sqlite3.OperationalError):
                raise StoreError(f"the catalog {path} cannot be opened: {error}") from error
            if isinstance(error, sqlite3.DatabaseError | UnicodeDecodeError):
                cause = error if isinstance(error, sqlite3.DatabaseError) else _DAMAGED_SCHEMA
                raise NotAnIndexError(f"{path} is not a catalog ({cause}): {_RESTORE}") from None
            raise
        self._opened = self._place()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Borrow a connection for SELECT statements; inside :meth:`snapshot`, all of them read the same commit."""
        snapshot_connection: sqlite3.Connection | None = getattr(self._snapshot, "connection", None)
        try:
            if snapshot_connection is not None:
                yield self._decoding(snapshot_connection)
            else:
                with self._borrowed() as connection:
                    yield self._decoding(connection)
        except sqlite3.Error as error:
            if _is_undecodable(error):
                self.has_undecodable_texts = True
                raise UndecodableTextError(f"the catalog {self._path} contains {_UNDECODABLE}") from None
            raise StoreError(f"the catalog {self._path or 'in memory'} cannot be read: {error}") from error
        except UnicodeDecodeError:
            raise StoreError(f"the catalog {self._path} cannot be read: {_DAMAGED_SCHEMA}") from None

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
            self._check_place()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._decoding(connection)
                trim_graph_changes(connection)
                connection.execute("COMMIT")
            except BaseException as error:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                if _is_undecodable(error):
                    self.has_undecodable_texts = True
                    raise UndecodableTextError(f"none of this batch was written: there is {_UNDECODABLE}") from None
                if isinstance(error, sqlite3.Error):
                    raise StoreError(
                        f"none of this batch was written to {self._path or 'the index in memory'}: {error}; write it "
                        "again once the cause is fixed"
                    ) from error
                raise

    def copy_to(self, path: Path) -> None:
        """Copy the database to a new file, while others may read and write it."""
        try:
            with self._borrowed() as connection, closing(_connection(str(path))) as copy:
                connection.backup(copy)
        except sqlite3.Error as error:
            raise StoreError(f"{path} cannot be written: {error}") from error

    def checkpoint(self, mode: str = "TRUNCATE") -> None:
        """Copy the write-ahead log, which may contain deleted data, into the database and empty it if nobody reads.

        With ``mode="PASSIVE"``, it is not emptied, so there is no wait for readers.
        """
        with self._lock, self._borrowed() as connection:
            connection.execute(f"PRAGMA wal_checkpoint({mode})")

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

    def _decoding(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        # Decoding in Python takes .1 µs longer for each text.
        connection.text_factory = _decode_with_replacement if self.has_undecodable_texts else str
        return connection

    @contextmanager
    def _borrowed(self) -> Iterator[sqlite3.Connection]:
        if gate.is_lost:
            raise StoreError(
                f"{self._path or 'the index in memory'} cannot be used in process {os.getpid()}, which was forked "
                "while another thread was using the index, or opening or closing one, so SQLite may fail here: start "
                "workers with spawn or forkserver, or fork while no thread reads or writes"
            )
        if self._memory is not None:
            with self._lock, gate.use():
                yield self._memory
            return
        with gate.use():
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

    def _pooled(self, state: object) -> sqlite3.Connection | None:
        """Return an idle connection opened in this state of the file, or None; close those of other states."""
        while True:
            try:
                file_state, connection = self._pool.pop()
            except IndexError:
                return None
            if file_state == state:
                return connection
            connection.close()

    def _check_place(self, *, may_be_gone: bool = False) -> None:
        """Raise StoreError if the file is not the one that was opened; it may be deleted if ``may_be_gone``."""
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
        """Return a value that identifies the file's state, whose changes an immutable connection does not notice."""
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


_catalogs: weakref.WeakSet[CatalogConnections] = weakref.WeakSet()


def hold_connections(deadline: float) -> None:
    """Wait until no thread uses a connection, at most until ``deadline``, and close those that are not in use."""
    gate.hold(deadline)
    for catalog in list(_catalogs):
        catalog.close_idle()


def _connection(database: str, *, uri: bool = False) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(
            database, timeout=10.0, isolation_level=None, check_same_thread=False, cached_statements=256, uri=uri
        )
    except sqlite3.OperationalError as error:
        raise ReadOnlyError(f"{database} cannot be opened: {error}") from error
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection
