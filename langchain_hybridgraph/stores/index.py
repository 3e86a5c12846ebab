"""Index folders, shared within a process."""

from __future__ import annotations

import json
import logging
import os
import shutil
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeVar

import numpy as np

from langchain_hybridgraph import errors
from langchain_hybridgraph.execution.processes import in_slices
from langchain_hybridgraph.execution.threads import at_fork, keep_alive_forever
from langchain_hybridgraph.records import Scope, check_name, filterable
from langchain_hybridgraph.stores import catalog_writes
from langchain_hybridgraph.stores.catalog import CallGate, Catalog, gate, hold_connections
from langchain_hybridgraph.stores.generations import (
    Embedding,
    FittedEmbedding,
    Generation,
    Packing,
    is_embedding_of,
    remove_others,
)
from langchain_hybridgraph.stores.keyword_engine import KeywordEngine
from langchain_hybridgraph.stores.protocols import implements
from langchain_hybridgraph.stores.row_table import UNPACKED, MetadataColumns, RowNumbers, Rows
from langchain_hybridgraph.stores.vectors import sync_path, unit
from langchain_hybridgraph.stores.writer_lock import WRITE_TIMEOUT, WriterLock, check_locks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.chunks import Mask


Mirror = TypeVar("Mirror")


logger = logging.getLogger(__name__)

# Number of versions kept in the outbox for readers in other processes. A reader that lacks more versions reads all
# rows again.
KEPT_VERSIONS = 64
# Number of seconds after a commit at which a keyword index without this commit is reported as out of date.
BEHIND_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class IndexSettings:
    """Settings of one open index.

    ``name`` identifies the model of ``embedding``; ``load`` reads a fitted one from an open file. ``path`` None means
    in memory. An index created with a ``tenant`` is opened only with a tenant, and shows only its data. A write that
    waits ``write_timeout`` seconds raises StoreLockedError.

    Raises ValueError for a tenant name that cannot be stored, and ConfigurationError for an invalid timeout.
    """

    path: Path | None
    embedding: Embedding
    name: str
    load: Callable[[BinaryIO], Embedding] | None = None
    tenant: str | None = None
    language: str = "english"
    read_only: bool = False
    write_timeout: float = WRITE_TIMEOUT
    check_embedding: bool = True

    def __post_init__(self) -> None:
        if self.tenant is not None:
            check_name(self.tenant, "tenant")
        errors.check_number("write_timeout", self.write_timeout, ge=0, le=threading.TIMEOUT_MAX)
        if self.path is not None:
            # The real path stays the same if the working directory or a link changes.
            object.__setattr__(self, "path", Path(os.path.realpath(self.path)))


# Seconds to wait for another process that is creating the index in the same folder.
CREATION_PATIENCE = 10.0


def read_facts(path: Path | None) -> dict[str, Any]:
    """Return the facts of the index in this folder, keyed by name, or {} if there is no index yet.

    Raises NotAnIndexError for other contents, FormatVersionError, and StoreError on a system without file locks.
    """
    if path is None:
        return {}
    check_locks(path)
    if not is_folder(path):
        return {}
    if (path / CATALOG).exists():
        with closing(Catalog(path / CATALOG)) as catalog:
            return catalog.facts()
    if any(not entry.name.startswith((LOCK, CATALOG)) for entry in path.iterdir()):
        raise errors.NotAnIndexError(
            f"{path} is not empty and contains no index ({CATALOG} is missing): check the path, use a new folder, or "
            "search a collection of Chroma with HybridRetriever(Chroma(…))"
        )
    return {}


def is_folder(path: Path) -> bool:
    """Return whether a folder for an index exists. Raises NotAnIndexError for a file and a path that cannot be one."""
    try:
        os.fspath(path).encode()  # Tantivy needs a path in UTF-8
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) else "it contains a NUL or is not valid Unicode"
        raise errors.NotAnIndexError(f"{errors.quote_value(str(path))} cannot contain an index: {cause}") from None
    if not path.is_dir():
        raise errors.NotAnIndexError(f"{path} is a file; pass a folder")
    return True


def create_index(settings: IndexSettings) -> None:
    """Create a new index; if several processes try, the others wait for the first.

    Raises NotAnIndexError for settings with ``read_only``, and ReadOnlyError for a folder that cannot be written to.
    """
    path = settings.path
    assert path is not None, "an index in memory has no folder"
    if settings.read_only:
        raise errors.NotAnIndexError(
            f"{path} contains no index, and a store opened with read_only=True cannot create one: "
            "check the path, or open it without read_only"
        )
    new_folders = [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise errors.ReadOnlyError(f"cannot create the folder {path}: {error.strerror}") from error
    with WriterLock(path / LOCK).turn(CREATION_PATIENCE):
        if not read_facts(path):
            for leftover in path.glob(f"{CATALOG}.new*"):
                leftover.unlink()
            unfinished = path / f"{CATALOG}.new"
            create_catalog(unfinished, settings).close()
            unfinished.rename(path / CATALOG)
            for folder in (path, *(folder.parent for folder in new_folders)):
                sync_path(folder)


def create_catalog(path: Path | None, settings: IndexSettings) -> Catalog:
    """Create the catalog of a new index in this file, or in memory if ``path`` is None."""
    catalog = Catalog(path, create=True)
    with catalog.writing() as connection:
        tenancy = "single" if settings.tenant is None else "multi"
        catalog_writes.set_facts(connection, tenancy=tenancy, language=settings.language)
    return catalog


def check_tenancy(facts: Mapping[str, Any], settings: IndexSettings) -> None:
    """Raise TenantError if the index has tenants but the settings have no tenant, or the other way round."""
    if facts["tenancy"] == "multi" and settings.tenant is None:
        raise errors.TenantError(f"{settings.path} has tenants: open it with tenant=…")
    if facts["tenancy"] == "single" and settings.tenant is not None:
        raise errors.TenantError(
            f"{settings.path} was made without tenants, so it cannot be opened for tenant {settings.tenant!r}: leave "
            "tenant= out, or make a new folder with a tenant from the start"
        )


CATALOG, KEYWORDS, LOCK = "catalogue.sqlite", "keywords", "writer.lock"
SUMMARIES = "layers-*"


def copy_index(source: Path, destination: Path, *ignored: str) -> None:
    """Copy an index and its summaries to a new folder, with everything on disk; nobody may write to them meanwhile.

    Files that are never changed in place, those of Tantivy and fitted models, become hard links if possible.
    """
    ignore = shutil.ignore_patterns(f"{LOCK}*", f"{CATALOG}-*", f"{CATALOG}.new*", ".tantivy-*", *ignored)
    shutil.copytree(source, destination, ignore=ignore, copy_function=_copy_file)
    for path in (*destination.rglob("*"), destination):
        sync_path(path)


def _copy_file(source: str, destination: str) -> None:
    path = Path(source)
    if path.name == CATALOG:
        with closing(Catalog(path)) as catalog:
            catalog.copy_to(Path(destination))
        return
    if path.parent.name == KEYWORDS or path.suffix == ".npz":
        with suppress(OSError):  # another file system, or one without hard links
            os.link(source, destination)
            return
    shutil.copy2(source, destination)


class OpenFolder:
    """Catalog, engines and write lock of one folder, shared by the stores of a process until the last one is closed."""

    def __init__(self, path: Path | None, catalog: Catalog) -> None:
        self.path = path
        self.catalog = catalog
        self.language = str(catalog.facts()["language"])
        """Language of the keyword index."""
        self.lock = WriterLock(path and path / LOCK)
        self.keywords = KeywordEngine(path and path / KEYWORDS, self.language, catalog)
        self.flushed_version = -1
        """Version of the catalog at which the engines and the model were last brought up to date."""
        self.pending_rows = 0
        """Number of rows written since the engines were last brought up to date."""
        self.is_tidy = path is None
        """Whether the folder contains no files of other generations and packings, such as a crash leaves."""
        self._holders = 0 if path else 1  # an index in memory is never shared between stores

    @classmethod
    def of(cls, path: Path) -> OpenFolder:
        """Return the open folder at this path, opening it if necessary; each call needs one of :meth:`release`."""
        with _guard:
            catalog = (path / CATALOG).stat()
            key = path.resolve(), catalog.st_dev, catalog.st_ino  # each mount of a folder has its own key
            folder = _open.get(key)
            if folder is None:
                folder = _open[key] = cls(path, Catalog(path / CATALOG))
            folder._holders += 1
            return folder

    def release(self) -> None:
        """Record that a store no longer uses the folder. When no store uses it, close the engines and the catalog."""
        with _guard:
            self._holders -= 1
            if self._holders:
                return
            for key in [key for key, folder in _open.items() if folder is self]:
                del _open[key]
        self.keywords.close()
        self.catalog.close()


_guard = threading.RLock()  # the finaliser of a store may run inside it
_open: dict[tuple[Path, int, int], OpenFolder] = {}


class Snapshot(NamedTuple):
    """The state of the index at version ``rows.version``; a search uses one snapshot throughout."""

    rows: Rows
    generation: Generation


@dataclass(slots=True)
class _OpenParts:
    """State of an IndexFolder while its folder is open; copies and forked children open the folder again."""

    folder: OpenFolder
    snapshot: Snapshot
    release: weakref.finalize[[], IndexFolder]
    refresh_lock: threading.RLock = field(default_factory=threading.RLock)
    guard: CallGate = field(default_factory=lambda: CallGate(_calls))
    is_known_embedding: bool = False
    loss: Mapping[str, Any] | None = None
    mirrors: dict[type, Any] = field(default_factory=dict)


class IndexFolder:
    """Index folder opened by one store, with a mirror of the committed state in memory.

    Readers use a :meth:`snapshot` while they hold the ``guard``; changes are made inside :meth:`writer`. An index on
    disk can be pickled, copied and used after a fork. ``clock`` returns the time of a change in Unix seconds.

    Raises NotAnIndexError, FormatVersionError, EmbeddingMismatchError and TenantError.
    """

    def __init__(self, settings: IndexSettings) -> None:
        self.settings = settings
        self.clock: Callable[[], float] = time.time
        self._opened: _OpenParts | None = None
        self._open()

    # -- the parts of the folder ----------------------------------------------------------------------------

    @property
    def catalog(self) -> Catalog:
        """Database of all committed data."""
        return self._state.folder.catalog

    @property
    def keywords(self) -> KeywordEngine:
        """Keyword index of the folder."""
        return self._state.folder.keywords

    @property
    def shared(self) -> OpenFolder:
        """Parts that are shared by all stores of this process that have the folder open."""
        return self._state.folder

    @property
    def guard(self) -> AbstractContextManager[None]:
        """Context manager that every call enters. It prevents the folder from being closed during the call."""
        return self._state.guard.use()

    @property
    def refresh_lock(self) -> threading.RLock:
        """Lock to hold while a mirror in memory is being updated."""
        return self._state.refresh_lock

    @property
    def present(self) -> Snapshot:
        """The last :meth:`snapshot`."""
        return self._state.snapshot

    @property
    def rows(self) -> Rows:
        """Rows of the last :meth:`snapshot`."""
        return self._state.snapshot.rows

    @property
    def generation(self) -> Generation:
        """Vectors of the last :meth:`snapshot`."""
        return self._state.snapshot.generation

    def mirror(self, kind: type[Mirror]) -> Mirror:
        """Return the object of class ``kind`` that mirrors a part of the folder until it is closed."""
        mirrors = self._state.mirrors
        mirror: Mirror | None = mirrors.get(kind)
        return mirror or mirrors.setdefault(kind, kind())

    # -- opening and closing --------------------------------------------------------------------------------

    def close(self) -> None:
        """Wait for running calls, then release files and engines, once. An unreferenced index closes itself."""
        state = self._state
        if state.guard.shut():
            state.snapshot.generation.close()
            # Stores are part of reference cycles, so they are freed much later than they are closed.
            state.snapshot = self._empty_snapshot(state.folder)
            state.mirrors.clear()
            state.release()

    def _empty_snapshot(self, folder: OpenFolder) -> Snapshot:
        settings = self.settings
        tenant = settings.tenant or ""
        columns = MetadataColumns(partial(_metadata, folder.catalog, tenant, UNPACKED))
        generation = Generation(settings.path, -1, None, settings.embedding)
        return Snapshot(Rows(tenant, UNPACKED, columns), generation)

    @property
    def _state(self) -> _OpenParts:
        parts = self._opened
        if parts is None:
            with _reopening:
                parts = self._opened or self._open()
        return parts

    def _open(self) -> _OpenParts:
        with _openings.use():
            folder, settings = self._open_folder(), self.settings
            release = weakref.finalize(self, folder.release)
            parts = self._opened = _OpenParts(folder, self._empty_snapshot(folder), release)
            try:
                self.snapshot()
                self._catch_up()
                if settings.read_only:
                    parts.loss = parts.loss or self.keywords.lost_commits()
            except BaseException:
                self.close()
                self._opened = None  # makes the next use try again
                raise
            _indexes.add(self)
            return parts

    def change_embedding(self, embedding: Embedding) -> None:
        """Replace the embedding in the settings; call this before the first use of a copied or unpickled index."""
        self.settings = replace(self.settings, embedding=embedding)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_opened": None}

    def leave_to_parent(self) -> bool:
        """In a forked child, leave the parent's objects; return whether another thread was using them."""
        parts, thread = self._opened, threading.get_ident()
        if parts is None:
            return False
        users = parts.guard.begin_in_child()
        if self.settings.path is None:
            parts.folder.lock.begin_in_child()
        else:
            parts.release.detach()
            keep_alive_forever(parts)
            self._opened = None
        return any(user != thread for user in users)

    def _open_folder(self) -> OpenFolder:
        settings = self.settings
        if settings.path is None:
            return OpenFolder(None, create_catalog(None, settings))
        facts = read_facts(settings.path)
        if not facts:
            create_index(settings)
            facts = read_facts(settings.path)
        check_tenancy(facts, settings)
        return OpenFolder.of(settings.path)

    def query(self, sql: str, *values: Any) -> list[Any]:
        """Return all rows of a SELECT statement, in which ?1 is the tenant and ``values`` are numbered from ?2."""
        catalog, tenant = self.catalog, self.rows.tenant
        with self.guard:
            return catalog.query(sql, (tenant, *values))

    def _check_embedding(self, facts: Mapping[str, Any]) -> None:
        if "embedding" not in facts or self._state.is_known_embedding or not self.settings.check_embedding:
            return
        if not is_embedding_of(facts, self.settings.name, self.settings.embedding):
            raise errors.EmbeddingMismatchError(
                f"{self.settings.path} was made with the embedding {facts['embedding']!r} ({facts['dimension']} "
                f"dimensions), but {self.settings.name!r} was passed: pass the embedding that it was made with, or "
                "ingest the documents into a new folder"
            )
        self.confirm_embedding()

    def confirm_embedding(self) -> None:
        """Record that the embedding in the settings matches the index, so no further check is needed."""
        self._state.is_known_embedding = True

    @contextmanager
    def writer(self, timeout: float | None = None) -> Iterator[None]:
        """Hold the write lock within the ``with`` block. The latest commit is loaded before the block starts.

        Raises StoreLockedError after waiting for ``timeout`` seconds (None: ``write_timeout``), and ReadOnlyError for
        an index that was opened with ``read_only``. A thread may nest calls.
        """
        if self.settings.read_only:
            raise errors.ReadOnlyError(
                f"{self.settings.path} was opened with read_only=True: open it without read_only to change it"
            )
        # A thread that waits for the lock is not in a call, so a fork does not wait for it.
        with self.shared.lock.turn(self.settings.write_timeout if timeout is None else timeout), self.guard:
            self.snapshot()
            if not self.shared.is_tidy:
                self.tidy()
            yield

    def tidy(self) -> bool:
        """Delete the files of other generations and packings, unless the catalog would need them without its log.

        The caller must hold the write lock. Return whether they were deleted; if not, the next writer tries again.
        """
        self.shared.is_tidy = self.settings.path is None or self.catalog.checkpoint("PASSIVE")
        if self.shared.is_tidy:
            remove_others(self.generation)
        return self.shared.is_tidy

    # -- the mirror in memory -------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Load the changes that any process has committed since the last call, and return the current state."""
        state = self._state
        catalog = state.folder.catalog
        if catalog.version() != state.snapshot.rows.version:
            with state.refresh_lock:
                # The new version may not contain a damaged text any more.
                catalog.has_undecodable_texts = False
                latest, facts = self._latest()
                while latest.generation.unusable_files and catalog.version() != latest.rows.version:
                    # In the meantime, the writer has switched to the next generation and deleted the files of this one.
                    latest, facts = self._latest()
                self._check_embedding(facts)
                state.snapshot = latest
                state.loss = json.loads(facts["loss"]) if "loss" in facts else None
        return state.snapshot

    @property
    def loss(self) -> Mapping[str, Any] | None:
        """Number of ``commits`` and rows ``missing`` that the catalog has lost, and ``returned`` older rows, or None.

        The keyword index shows the loss; the catalog records it until a repair.
        """
        return self._state.loss

    def use_generation(self, generation: Generation) -> None:
        """Switch to another generation of vectors; the caller holds ``refresh_lock`` and has committed the change."""
        self._state.snapshot = Snapshot(self._renumbered(generation.numbers), generation)

    def allowed_rows(self, rows: Rows, scope: Scope) -> Mask:
        """Return a mask of the rows in a scope: known and valid at the scope's times, and matching its filter."""
        mask = rows.valid_rows(scope.as_of, scope.known_at)
        if scope.filter is not None:
            mask &= rows.columns.mask(scope.filter, len(mask))
        return mask

    def _latest(self) -> tuple[Snapshot, dict[str, Any]]:
        with self.catalog.snapshot():
            facts = self.catalog.facts()
            generation = self._latest_generation(facts)
            return Snapshot(self._latest_rows(facts, generation.numbers), generation), facts

    def _latest_generation(self, facts: Mapping[str, Any]) -> Generation:
        number, dimension = int(facts["generation"]), facts.get("dimension")
        packing = Packing(*json.loads(facts["packing"])) if "packing" in facts else None
        present = self.generation
        is_present = (number, packing) == (present.number, present.packing)
        if is_present and (present.matrix is not None or dimension is None):
            if present.matrix is not None:
                present.matrix.remap()
            return present
        settings = self.settings
        has_model = number == present.number  # a packing does not change it
        embedding = present.embedding if has_model else settings.embedding
        generation = Generation(settings.path, number, dimension, embedding, packing, living=self.catalog.row_numbers)
        if has_model:
            generation.unusable_files += tuple({"model"} & {*present.unusable_files})
        elif settings.load is not None and settings.path is not None and number > 0:
            generation.load(settings.load)
        return generation

    def _renumbered(self, numbers: RowNumbers) -> Rows:
        rows = self.rows
        if rows.numbers is numbers:
            return rows
        return rows.renumbered(numbers, partial(_metadata, self.catalog, rows.tenant, numbers))

    def _latest_rows(self, facts: Mapping[str, Any], numbers: RowNumbers) -> Rows:
        rows, catalog, end = self._renumbered(numbers), self.catalog, int(facts["next_row"])
        touched: list[int] | None = None
        if rows.version < max(int(facts["floor"]), 0):
            rows = Rows(rows.tenant, numbers, rows.columns)
        else:
            touched = catalog.changed_rows(rows.version)
        return rows.updated(
            touched or [],
            catalog.row_states(rows.tenant, end, touched),
            end=end,
            version=int(facts["version"]),
            has_parents=catalog.has_parents(rows.tenant),
            past=catalog.past_validity(touched),
        )

    # -- the keyword index -----------------------------------------------------------------------------------

    def sync_keywords(self) -> None:
        """Bring the keyword index up to the catalog's version and shorten a long outbox; needs the write lock."""
        if loss := self.keywords.lost_commits():
            with self.catalog.writing() as connection:
                catalog_writes.set_facts(connection, loss=json.dumps(loss))
                catalog_writes.log_changes(connection, [])
            self.snapshot()
        facts = self.catalog.facts()
        version, floor = int(facts["version"]), int(facts["floor"])
        try:
            self.keywords.follow(version, floor)
        except errors.StoreError as error:
            raise errors.StoreError(
                f"all changes are in the catalog, but a search engine is not up to date: {error}; "
                "the next write, or opening the store again, updates it"
            ) from error
        self.shared.pending_rows = 0
        if version - floor > 2 * KEPT_VERSIONS:
            with self.catalog.writing() as connection:
                # Readers in other processes that lack these changes read all rows again.
                connection.execute("DELETE FROM changes WHERE version <= ?", (version - KEPT_VERSIONS,))
                catalog_writes.set_facts(connection, floor=version - KEPT_VERSIONS)

    def _catch_up(self) -> None:
        """Bring the keyword index up to date, unless the index is read-only or another process is writing."""
        if self.settings.read_only or not self.keywords.lags(self.rows.version):
            return
        try:
            with self.writer(timeout=0):
                self.sync_keywords()
        except (errors.StoreLockedError, errors.ReadOnlyError):
            # The process that holds the write lock brings the keyword index up to date.
            return
        except errors.StoreError:
            logger.warning(
                "the index %s can be read, but its search engines could not be brought up to date",
                self.settings.path,
                exc_info=True,
            )

    # -- the embedding ---------------------------------------------------------------------------------------

    def is_unfitted(self, generation: Generation) -> bool:
        """Return whether the embedding must still be fitted; fitting replaces the original with a copy."""
        original = self.settings.embedding
        return generation.embedding is original and implements(original, FittedEmbedding)

    def embed(self, texts: Sequence[str], generation: Generation) -> NDArray[np.float32]:
        """Return the unit vectors of texts, of shape (len(texts), dimension).

        A fitted embedding must already have been fitted. Raises ValueError unless it returns one vector per text.
        """
        parts = []
        for part in in_slices(texts, "embedding", "chunks"):
            vectors = unit(generation.embedding.embed_documents(list(part)))
            if vectors.ndim != 2 or len(vectors) != len(part):
                raise ValueError(
                    f"the embedding returned the shape {vectors.shape} for {len(part)} texts; it must return one "
                    "vector per text"
                )
            parts.append(vectors)
        return np.concatenate(parts)

    def check_dimension(self, dimension: int) -> None:
        """Raise EmbeddingMismatchError if vectors of this dimension do not fit the index."""
        matrix = self.generation.matrix
        if matrix is not None and dimension != matrix.dimension:
            name = self.catalog.facts().get("embedding", self.settings.name)
            raise errors.EmbeddingMismatchError(
                f"the vector has {dimension} dimensions, but the index has {matrix.dimension} (embedding {name!r}): "
                "use the embedding that the index was made with"
            )


def _metadata(
    catalog: Catalog, tenant: str, numbers: RowNumbers, start: int, stop: int
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for page in catalog.pages(*numbers.span(start, stop)):
        rows = numbers.rows([entry.row or 0 for entry in page]).tolist()
        for row, entry in zip(rows, page, strict=True):
            if entry.tenant == tenant:
                yield row, filterable(entry.chunk())


# -- forks --------------------------------------------------------------------------------------------------------

# Seconds that a fork waits for calls of other threads to end.
FORK_PATIENCE = 5.0

_reopening = threading.RLock()
_calls: list[int] = []  # the threads that are using or opening an index
_openings = CallGate(_calls)
_forks = threading.Lock()  # one fork at a time
_indexes: weakref.WeakSet[IndexFolder] = weakref.WeakSet()


def _before_fork() -> None:
    """Wait a limited time for running calls and for SQLite, and close idle connections, which a child could not use."""
    _forks.acquire()
    deadline = time.monotonic() + FORK_PATIENCE
    for guard in _guards():
        guard.hold(deadline)
    hold_connections(time.monotonic() + FORK_PATIENCE)


def _after_fork_in_parent() -> None:
    for guard in (gate, *_guards()):
        guard.let_in()
    _forks.release()


def _after_fork_in_child() -> None:
    global _reopening, _forks, _guard
    _reopening, _forks, _guard = threading.RLock(), threading.Lock(), threading.RLock()
    _openings.begin_in_child()
    in_use = [bool(gate.begin_in_child()), *(index.leave_to_parent() for index in list(_indexes))]
    gate.is_lost = gate.is_lost or any(in_use)
    keep_alive_forever(list(_open.values()))  # the parent's folders
    _open.clear()


def _guards() -> list[CallGate]:
    return [_openings, *(parts.guard for index in list(_indexes) if (parts := index._opened) is not None)]


at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
