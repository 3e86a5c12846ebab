"""An open index folder: its writer's turn and a mirror of its committed state."""

from __future__ import annotations

import copy
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np

from langchain_hybridgraph.errors import (
    ConfigurationError,
    EmbeddingMismatchError,
    NotAnIndexError,
    ReadOnlyError,
    StoreError,
    TenantError,
    quote_value,
)
from langchain_hybridgraph.forking import keep_alive_forever
from langchain_hybridgraph.stores.embedded import catalog
from langchain_hybridgraph.stores.embedded.catalog import Catalogue, StoredChunk
from langchain_hybridgraph.stores.embedded.catalog_migrations import is_older
from langchain_hybridgraph.stores.embedded.catalog_rows import check_name
from langchain_hybridgraph.stores.embedded.close_guard import CloseGuard
from langchain_hybridgraph.stores.embedded.generation import Embedding, Generation, remove_leftovers
from langchain_hybridgraph.stores.embedded.row_table import Rows
from langchain_hybridgraph.stores.embedded.shared_folder import CATALOGUE, FORK_PATIENCE, LOCK, OpenFolder
from langchain_hybridgraph.stores.embedded.writer_lock import WriterLock
from langchain_hybridgraph.stores.engines.metadata_columns import MetadataColumns
from langchain_hybridgraph.stores.engines.vector_matrix import unit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.records import Scope, Vector

logger = logging.getLogger(__name__)

# Up to this size the matrix is searched faster than Chroma.
MATRIX_BYTES = 400 << 20
# Seconds to wait for another process that is creating the index in the same folder, or converting it.
CREATION_PATIENCE = 10.0
# Seconds that a change waits for its turn to write.
WRITE_TIMEOUT = 30.0
# Cosine from which the probe text's vector counts as the one that the index was made with.
SAME_VECTOR = 0.99


@runtime_checkable
class FittedEmbedding(Embedding, Protocol):
    """An embedding that is fitted to the corpus and kept in the index folder."""

    def fit(self, texts: Sequence[str]) -> Self:
        """Learn from the texts."""
        ...

    def save(self, path: Path) -> None:
        """Write the fitted model to a file, durably."""
        ...

    def needs_refit(self, texts: Sequence[str]) -> bool:
        """Return whether these texts, added since the fit, differ too much from the texts it was fitted to."""
        ...


class Snapshot(NamedTuple):
    """One state of the index, that of ``rows.version``; a search uses one state from beginning to end."""

    rows: Rows
    generation: Generation


def read_facts(path: Path | None, *, read_only: bool = False) -> dict[str, Any]:
    """Return the facts of the index in this folder, {} when there is none yet.

    An index made by an earlier version of the package is converted to the present format; with ``read_only``, or in a
    folder that cannot be written to, FormatVersionError explains how to convert it. Raises NotAnIndexError for a folder
    with other contents or a path that is not a folder, and StoreLockedError if another process writes to an index that
    has to be converted.
    """
    if path is None or not path.exists():
        return {}
    if not path.is_dir():
        raise NotAnIndexError(f"{path} is a file; an index is a folder")
    if (path / CATALOGUE).exists():
        if not read_only and is_older(path / CATALOGUE):
            _bring_up_to_date(path)
        catalogue = Catalogue(path / CATALOGUE)
        try:
            return catalogue.facts()
        finally:
            catalogue.close()
    if (path / "chroma.sqlite3").exists():
        raise NotAnIndexError(
            f"{path} holds a Chroma collection, not an index: search it with "
            f"HybridRetriever(Chroma(…, persist_directory={str(path)!r})), or name another folder for a new index"
        )
    if any(not entry.name.startswith((LOCK, CATALOGUE)) for entry in path.iterdir()):
        raise NotAnIndexError(
            f"{path} is not empty and holds no index ({CATALOGUE} is missing): name another folder for a new one"
        )
    return {}


def _bring_up_to_date(path: Path) -> None:
    try:
        with WriterLock(path / LOCK).turn(CREATION_PATIENCE):
            Catalogue(path / CATALOGUE, create=True).close()
    except ReadOnlyError:
        return  # reading the catalogue then reports what to do


# The attributes of a store that belong to this process: a copy, a pickle and a forked child open them again.
OPEN_STATE = frozenset(
    {
        *("_refreshing", "_gate", "_folder", "_finalizer", "_catalogue", "_keywords", "_seen", "_columns"),
        *("_is_known_embedding", "_pending", "language"),
        *("_graph_state", "_has_graph", "_mirror", "_tree", "_places", "_layers", "_states"),
    }
)


class OpenIndex:
    """An index folder as one store sees it: the parts that the process shares, and a mirror of the committed state.

    The turn to write is taken for each change and then passed on. A store on disk can be pickled and copied, and keeps
    working in a forked process, where it opens the folder again on first use.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        embedding: Embedding,
        name: str,
        load: Callable[[Path], Embedding] | None = None,
        tenant: str | None = None,
        language: str = "english",
        read_only: bool = False,
        write_timeout: float = WRITE_TIMEOUT,
    ) -> None:
        if tenant is not None:
            check_name(tenant, "tenant")
        _check_timeout(write_timeout)
        # The folder itself: neither a change of the working directory nor of a link may lead to another one.
        self.path = None if path is None else Path(os.path.realpath(path))
        self.name = name
        self.clock: Callable[[], float] = time.time
        self.tenant = tenant
        self.write_timeout = write_timeout
        self._unfitted_embedding = embedding
        self._load = load
        self._read_only = read_only
        self._wanted_language = language
        self._open()

    def _open(self) -> None:
        self._folder = self._open_folder()
        self._refreshing = threading.RLock()
        self._gate = CloseGuard()
        self._pending = 0
        self._finalizer = weakref.finalize(self, self._folder.release)
        self._catalogue = self._folder.catalogue
        self._keywords = self._folder.keywords
        self.language = self._folder.language
        self._seen = Snapshot(Rows(self.tenant or ""), Generation(self.path, -1, None, self._unfitted_embedding))
        self._columns = MetadataColumns(partial(_metadata, self._catalogue, self.tenant or ""))
        self._is_known_embedding = False
        try:
            self._refresh()
            self._catch_up()
        except BaseException:
            self.close()
            for name in OPEN_STATE & self.__dict__.keys():  # a store that opens on first use tries again then
                del self.__dict__[name]
            raise
        _stores.add(self)

    @property
    def embedding(self) -> Embedding:
        """The embedding of the present generation."""
        return self._generation.embedding

    @property
    def _rows(self) -> Rows:
        return self._seen.rows

    @property
    def _generation(self) -> Generation:
        return self._seen.generation

    # -- opening and closing --------------------------------------------------------------------------------

    def close(self) -> None:
        """Wait for running calls, then release files and engines; closing twice is a no-op.

        A store that is no longer referenced closes itself.
        """
        if self._gate.shut():
            self._generation.close()
            self._finalizer()

    def __getattr__(self, name: str) -> Any:
        """Open the folder on first use, for a store that comes from a pickle, a copy or a fork."""
        if name not in OPEN_STATE:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        with _reopening:
            if "_gate" not in self.__dict__:
                self._open()
        return object.__getattribute__(self, name)

    def __getstate__(self) -> dict[str, Any]:
        """Return the settings, from which the folder is opened again; raises StoreError for an index in memory."""
        if self.path is None:
            raise StoreError(
                f"a {type(self).__name__} in memory cannot be copied or pickled: give it a folder, "
                f"{type(self).__name__}(path), which every process and every copy can open"
            )
        return {name: value for name, value in self.__dict__.items() if name not in OPEN_STATE}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return another store on the same folder, with the same embedding."""
        return copy.copy(self)

    def _forget_parent(self) -> None:
        """In a forked child, keep only the settings, so that the next use opens the folder again."""
        if self.path is None:
            self._gate.begin_in_child()  # the index is the child's own copy
            return
        self._finalizer.detach()
        for name in OPEN_STATE & self.__dict__.keys():
            keep_alive_forever(self.__dict__.pop(name))

    def _open_folder(self) -> OpenFolder:
        if self.path is None:
            catalogue = Catalogue(None, create=True)
            self._found(catalogue, self._wanted_language)
            return OpenFolder.in_memory(catalogue)
        facts = read_facts(self.path, read_only=self._read_only)
        if not facts:
            self._create(self.path, self._wanted_language)
            facts = read_facts(self.path)
        self._check_tenancy(facts)
        return OpenFolder.of(self.path)

    def _create(self, path: Path, language: str) -> None:
        """Create a new index; of several processes that try at once one does, and the index appears complete."""
        if self._read_only:
            raise NotAnIndexError(
                f"{path} holds no index, and a store opened with read_only=True cannot create one: "
                "check the path, or open it without read_only"
            )
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ReadOnlyError(f"cannot create the folder {path}: {error.strerror}") from error
        with WriterLock(path / LOCK).turn(CREATION_PATIENCE):
            if not read_facts(path):
                self._create_alone(path, language)

    def _create_alone(self, path: Path, language: str) -> None:
        for leftover in path.glob(f"{CATALOGUE}.new*"):
            leftover.unlink()
        unfinished = path / f"{CATALOGUE}.new"
        catalogue = Catalogue(unfinished, create=True)
        self._found(catalogue, language)
        catalogue.close()
        unfinished.rename(path / CATALOGUE)

    def _found(self, catalogue: Catalogue, language: str) -> None:
        with catalogue.writing() as connection:
            tenancy = "single" if self.tenant is None else "multi"
            catalog.set_facts(connection, tenancy=tenancy, language=language)

    def _check_tenancy(self, facts: Mapping[str, Any]) -> None:
        if facts["tenancy"] == "multi" and self.tenant is None:
            raise TenantError(f"{self.path} holds several tenants: open it with tenant=…")
        if facts["tenancy"] == "single" and self.tenant is not None:
            raise TenantError(
                f"{self.path} was made without tenants, so it cannot be opened for tenant {self.tenant!r}: leave "
                "tenant= out, or make a new folder with a tenant from the start"
            )

    def _check_scope(self, scope: Scope) -> None:
        if scope.tenant is not None and scope.tenant != self.tenant:
            raise TenantError(
                f"the store is open for tenant {self.tenant!r}, but the call requests tenant {scope.tenant!r}: "
                "open a store for that tenant"
            )

    def _check_embedding(self, facts: Mapping[str, Any], generation: Generation) -> None:
        """Raise EmbeddingMismatchError unless the recorded probe text still gets the recorded vector."""
        recorded_name = facts.get("embedding")
        if recorded_name is None or self._is_known_embedding:
            return
        embedding = generation.embedding
        if recorded_name == self.name and (isinstance(embedding, FittedEmbedding) or "probe_text" not in facts):
            self._is_known_embedding = True
            return
        try:
            vectors = unit(embedding.embed_documents([facts["probe_text"]] * 2))
        except Exception:  # noqa: BLE001 - a model that cannot embed now is recognised by name; queries raise its error
            same = recorded_name == self.name
        else:
            # A model that disagrees with itself (random test vectors) cannot be told apart from another.
            same = _similar(vectors[0], np.frombuffer(facts["probe_vector"], np.float32)) or (
                recorded_name == self.name and not _similar(vectors[0], vectors[1])
            )
        if not same:
            raise EmbeddingMismatchError(
                f"{self.path} was made with the embedding {recorded_name!r} ({facts['dimension']} dimensions), not "
                f"with this {self.name!r}: open it with that one, or ingest the documents into a new folder"
            )
        self._is_known_embedding = True

    @contextmanager
    def _writer(self, timeout: float | None = None) -> Iterator[None]:
        """Be the writer for one change: wait for the turn, load what others have written, and pass the turn on."""
        if self._read_only:
            raise ReadOnlyError(f"{self.path} was opened with read_only=True: open it without read_only to change it")
        with self._gate, self._folder.lock.turn(self.write_timeout if timeout is None else timeout):
            self._refresh()
            if not self._folder.is_tidy:
                remove_leftovers(self._generation, self._folder.chroma.drop)
                self._folder.is_tidy = True
            yield

    def _catch_up(self) -> None:
        """Bring the parts derived from the catalogue up to date, once at opening; a no-op for readers."""

    # -- the mirror in memory -------------------------------------------------------------------------------

    def _refresh(self) -> Snapshot:
        """Load what was committed since, by this store or another process; return the state to work on."""
        if self._catalogue.version() != self._rows.version:
            with self._refreshing:
                seen, facts = self._latest()
                while seen.generation.lost and self._catalogue.version() != seen.rows.version:
                    # The writer has switched to the next generation meanwhile and removed the files of this one.
                    seen, facts = self._latest()
                self._check_embedding(facts, seen.generation)
                self._seen = seen
        return self._seen

    def _latest(self) -> tuple[Snapshot, dict[str, Any]]:
        with self._catalogue.snapshot():
            facts = self._catalogue.facts()
            generation = self._latest_generation(facts)
            return Snapshot(self._latest_rows(facts), generation), facts

    def _latest_generation(self, facts: Mapping[str, Any]) -> Generation:
        number, dimension = int(facts["generation"]), facts.get("dimension")
        present = self._generation
        if number == present.number and (present.matrix is not None or dimension is None):
            if present.matrix is not None:
                present.matrix.remap()
            return present
        generation = Generation(self.path, number, dimension, self._unfitted_embedding)
        if self._load is not None and self.path is not None and number > 0:
            generation.load(self._load)
        return generation

    def _latest_rows(self, facts: Mapping[str, Any]) -> Rows:
        rows, touched = self._rows, []
        if rows.version < int(facts["floor"]) or rows.version < 0:
            rows, stored = Rows(rows.tenant), self._catalogue.iterate()
            past = self._catalogue.past_validity()
        else:
            touched = self._catalogue.changed_rows(rows.version)
            stored = iter(self._catalogue.read_rows(touched))
            past = self._catalogue.past_validity(touched)
        return rows.updated(
            touched,
            stored,
            end=int(facts["next_row"]),
            version=int(facts["version"]),
            has_parents=self._catalogue.has_parents(rows.tenant),
            past=past,
        )

    # -- the embedding ---------------------------------------------------------------------------------------

    def _is_unfitted(self, generation: Generation) -> bool:
        """Return whether the model is yet to be fitted; a fitted copy is used, never the embedding passed in."""
        return isinstance(generation.embedding, FittedEmbedding) and generation.embedding is self._unfitted_embedding

    def _embed(self, texts: Sequence[str], generation: Generation) -> NDArray[np.float32]:
        vectors = unit(generation.embedding.embed_documents(list(texts)))
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise ValueError(
                f"the embedding returned the shape {vectors.shape} for {len(texts)} texts; it must return one vector "
                "per text"
            )
        return vectors

    def _check_width(self, width: int) -> None:
        matrix = self._generation.matrix
        if matrix is not None and width != matrix.dimension:
            raise EmbeddingMismatchError(
                f"the vector has {width} dimensions, but the index was made with {matrix.dimension} "
                f"({self._catalogue.facts().get('embedding', self.name)!r}): use the embedding that it was made with"
            )


def _metadata(catalogue: Catalogue, tenant: str, start: int, stop: int) -> Iterable[tuple[int, Mapping[str, Any]]]:
    for entry in catalogue.iterate(start, stop):
        if entry.tenant == tenant and entry.row is not None:
            yield entry.row, filterable(entry)


def _check_timeout(seconds: Any) -> None:
    if not isinstance(seconds, int | float) or not seconds >= 0:
        raise ConfigurationError(
            f"write_timeout must be a number of seconds, at least 0, got {quote_value(seconds)}: it is how long a "
            "change "
            "waits while others write"
        )


def filterable(entry: StoredChunk) -> dict[str, Any]:
    """Return the metadata as filters see it: with the document's id, even where that was derived."""
    return {"document_id": entry.document, **entry.chunk().metadata}


def is_large(seen: Snapshot) -> bool:
    """Return whether Chroma is faster than the matrix."""
    matrix = seen.generation.matrix
    return matrix is not None and len(seen.rows) * matrix.dimension * 4 > MATRIX_BYTES


def _similar(one: Vector, other: Vector) -> bool:
    return one.shape == other.shape and (float(one @ other) >= SAME_VECTOR or not (one.any() or other.any()))


_reopening = threading.RLock()
_stores: weakref.WeakSet[OpenIndex] = weakref.WeakSet()


def _hold_memory() -> None:
    """Wait until no thread uses an index in memory: the child would never see the locks of that thread released."""
    deadline = time.monotonic() + FORK_PATIENCE
    for store in _in_memory():
        store._gate.hold(deadline)


def _release_memory() -> None:
    for store in _in_memory():
        store._gate.let_in()


def _in_memory() -> list[OpenIndex]:
    return [store for store in list(_stores) if store.path is None]


def _reopen_in_child() -> None:
    global _reopening  # noqa: PLW0603 - a thread of the parent may hold it, which the child does not have
    _reopening = threading.RLock()
    for store in list(_stores):
        store._forget_parent()


# Runs before the hook of the module shared_folder, which is registered first, and after a fork after it.
os.register_at_fork(before=_hold_memory, after_in_parent=_release_memory, after_in_child=_reopen_in_child)
