"""An index folder that is open: who may write, and what is seen of it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol, Self, runtime_checkable

import numpy as np

from langchain_hybridgraph.errors import (
    EmbeddingMismatchError,
    NotAnIndexError,
    ReadOnlyError,
    StoreError,
    StoreLockedError,
    TenantError,
)
from langchain_hybridgraph.stores import catalog
from langchain_hybridgraph.stores.catalog import Catalogue, Stored
from langchain_hybridgraph.stores.catalog_schema import is_older
from langchain_hybridgraph.stores.columns import MetadataColumns
from langchain_hybridgraph.stores.gate import Gate
from langchain_hybridgraph.stores.generation import Embeds, Generation, remove_leftovers
from langchain_hybridgraph.stores.keywords import Keywords
from langchain_hybridgraph.stores.lock import WriterLock
from langchain_hybridgraph.stores.rows import Rows
from langchain_hybridgraph.stores.vectors import unit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.records import Scope, Vector

logger = logging.getLogger(__name__)

CATALOGUE, KEYWORDS, LOCK = "catalogue.sqlite", "keywords", "writer.lock"
# Up to this size the matrix is searched faster than Chroma.
MATRIX_BYTES = 400 << 20
# Seconds to wait for another process that is just making the index in the same folder.
CREATION_PATIENCE = 10.0
# The cosine from which on the probe text's vector counts as the one that the index was made with.
SAME_VECTOR = 0.99


@runtime_checkable
class Fitted(Embeds, Protocol):
    """An embedding that is made from the corpus itself and kept in the index folder."""

    def fit(self, texts: Sequence[str]) -> Self:
        """Learn from the texts."""
        ...

    def save(self, path: Path) -> None:
        """Write what was learned to a file, durably."""
        ...

    def needs_refit(self, texts: Sequence[str]) -> bool:
        """Whether these texts, taken in since the fit, are too far from what was learned."""
        ...


class Seen(NamedTuple):
    """One state of the index, that of ``rows.version``; a search works on one from beginning to end."""

    rows: Rows
    generation: Generation


def recorded(path: Path | None, *, read_only: bool = False) -> dict[str, Any]:
    """The facts of the index in this folder, {} when there is none yet.

    An index of an earlier version of the package is brought to the present format; with ``read_only``, or in a folder
    that cannot be written to, FormatVersionError says how. Raises NotAnIndexError for a folder that holds other things,
    or a path that is no folder, and StoreLockedError for an index to be brought up to date while another writes to it.
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
            return catalogue.about()
        finally:
            catalogue.close()
    if (path / "chroma.sqlite3").exists():
        raise NotAnIndexError(
            f"{path} holds a Chroma collection and no index: search it with "
            f"HybridRetriever(Chroma(…, persist_directory={str(path)!r})), or name another folder for a new index"
        )
    if any(not entry.name.startswith((LOCK, CATALOGUE)) for entry in path.iterdir()):
        raise NotAnIndexError(
            f"{path} is not empty and holds no index ({CATALOGUE} is missing): name another folder for a new one"
        )
    return {}


def _bring_up_to_date(path: Path) -> None:
    lock = WriterLock(path / LOCK)
    try:
        lock.acquire()
    except ReadOnlyError:
        return  # reading the catalogue then says what is to be done
    try:
        Catalogue(path / CATALOGUE, create=True).close()
    finally:
        lock.release()


class OpenIndex:
    """The catalogue, the engines beside it, the writer's lock, and a mirror of what was committed."""

    def __init__(
        self,
        path: Path | None,
        *,
        embedding: Embeds,
        name: str,
        load: Callable[[Path], Embeds] | None = None,
        tenant: str | None = None,
        language: str = "english",
        read_only: bool = False,
    ) -> None:
        self.path = path
        self.name = name
        self._given = embedding
        self.clock: Callable[[], float] = time.time
        self.tenant = tenant
        self._load = load
        self._read_only = read_only
        self._writing = threading.RLock()
        self._refreshing = threading.RLock()
        self._gate = Gate()
        self._lock = None if path is None else WriterLock(path / LOCK)
        self._pending = 0
        self._catalogue = self._open_catalogue(language)
        self.language = str(self._catalogue.about()["language"])
        self._keywords = Keywords(path and path / KEYWORDS, self.language, self._catalogue)
        self._seen = Seen(Rows(tenant or ""), Generation(path, -1, None, embedding))
        self._columns = MetadataColumns(self._metadata)
        self._is_known_embedding = False
        try:
            self._refresh()
            self._catch_up()
        except BaseException:
            self.close()
            raise

    @property
    def embedding(self) -> Embeds:
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
        """Wait for running calls, then release files and the writer's lock; closing twice does nothing."""
        if self._gate.shut():
            self._release()

    def __getstate__(self) -> NoReturn:
        """Raises StoreError: what is open here, files and locks, cannot be copied or sent to another process."""
        kind, folder = type(self).__name__, "folder" if self.path is None else str(self.path)
        inside = "this one is in memory only: make it in a folder, and " if self.path is None else ""
        raise StoreError(
            f"a {kind} is not copied or pickled; {inside}open the folder where it is wanted, in each process anew: "
            f"{kind}({folder!r}), and make the retrievers there"
        )

    def _release(self) -> None:
        with self._writing:
            self._generation.close()
            self._keywords.close()
            self._catalogue.close()
            if self._lock is not None:
                self._lock.release()

    def _open_catalogue(self, language: str) -> Catalogue:
        if self.path is None:
            catalogue = Catalogue(None, create=True)
            self._found(catalogue, language)
            return catalogue
        facts = recorded(self.path, read_only=self._read_only)
        if not facts:
            self._create(self.path, language)
            facts = recorded(self.path)
        self._check_tenancy(facts)
        return Catalogue(self.path / CATALOGUE)

    def _create(self, path: Path, language: str) -> None:
        """Found a new index; of several processes that try at once one does, and it appears whole."""
        if self._read_only:
            raise NotAnIndexError(f"{path} holds no index, and a store that is opened read_only makes none")
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ReadOnlyError(f"the folder {path} cannot be made: {error.strerror}") from error
        lock, patience = WriterLock(path / LOCK), time.monotonic() + CREATION_PATIENCE
        while not recorded(path):
            try:
                lock.acquire()
            except StoreLockedError:
                if time.monotonic() > patience:
                    raise
                time.sleep(0.02)
                continue
            try:
                if not recorded(path):
                    self._create_alone(path, language)
            finally:
                lock.release()

    def _create_alone(self, path: Path, language: str) -> None:
        for left in path.glob(f"{CATALOGUE}.new*"):
            left.unlink()
        unfinished = path / f"{CATALOGUE}.new"
        catalogue = Catalogue(unfinished, create=True)
        self._found(catalogue, language)
        catalogue.close()
        unfinished.rename(path / CATALOGUE)

    def _found(self, catalogue: Catalogue, language: str) -> None:
        with catalogue.writing() as connection:
            tenancy = "single" if self.tenant is None else "multi"
            catalog.set_about(connection, tenancy=tenancy, language=language)

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
            raise TenantError(f"the store is open for tenant {self.tenant!r}, the call asks for {scope.tenant!r}")

    def _check_embedding(self, facts: Mapping[str, Any], generation: Generation) -> None:
        """Raise EmbeddingMismatchError unless the recorded probe text still gets the recorded vector."""
        made_with = facts.get("embedding")
        if made_with is None or self._is_known_embedding:
            return
        embedding = generation.embedding
        if made_with == self.name and isinstance(embedding, Fitted):
            self._is_known_embedding = True
            return
        try:
            vectors = unit(embedding.embed_documents([facts["probe_text"]] * 2))
        except Exception:  # noqa: BLE001 - a model that cannot embed now is told by its name; queries raise its error
            same = made_with == self.name
        else:
            # A model that does not agree with itself (random test vectors) cannot be told from another.
            same = _similar(vectors[0], np.frombuffer(facts["probe_vector"], np.float32)) or (
                made_with == self.name and not _similar(vectors[0], vectors[1])
            )
        if not same:
            raise EmbeddingMismatchError(
                f"{self.path} was made with the embedding {made_with!r} ({facts['dimension']} dimensions), not with "
                f"this {self.name!r}: open it with that one, or ingest the documents into a new folder"
            )
        self._is_known_embedding = True

    @property
    def writable(self) -> bool:
        """Whether this store holds the writer's lock now."""
        return self._lock is None or self._lock.held

    @contextmanager
    def _writer(self) -> Iterator[None]:
        """Be the writer: the lock is kept from the first write until close, and released by a crash."""
        if self._read_only:
            raise ReadOnlyError(f"{self.path} was opened with read_only=True: open it without to change it")
        with self._gate, self._writing:
            if self._lock is not None and not self._lock.held:
                self._step_up(self._lock)
            yield

    def _step_up(self, lock: WriterLock) -> None:
        lock.acquire()
        try:
            self._keywords.take_over()
            self._refresh()
            remove_leftovers(self._generation)
        except BaseException:
            self._step_down()
            raise

    def _step_down(self) -> None:
        """Let another process be the writer; only before anybody searches, since engines are closed."""
        self._generation.close_collection()
        self._keywords.hand_over()
        if self._lock is not None:
            self._lock.release()

    def _catch_up(self) -> None:
        """Bring up to date what lies beside the catalogue, once at opening; nothing for who only looks."""

    # -- the mirror in memory -------------------------------------------------------------------------------

    def _current(self) -> Seen:
        """The state to search: the latest commit, or for a moment the one before when this store has just written.

        While this store holds the writer's lock nobody else commits, and asking SQLite would cost 0.05 ms a time.
        """
        return self._seen if self.writable else self._refresh()

    def _refresh(self) -> Seen:
        """See what was committed since, by this store or by another process; returns the state to work on."""
        if self._catalogue.version() != self._rows.version:
            with self._refreshing:
                seen, facts = self._latest()
                while seen.generation.lost and self._catalogue.version() != seen.rows.version:
                    # The writer has switched to the next generation meanwhile and removed the files of this one.
                    seen, facts = self._latest()
                self._check_embedding(facts, seen.generation)
                self._seen = seen
        return self._seen

    def _latest(self) -> tuple[Seen, dict[str, Any]]:
        with self._catalogue.snapshot():
            facts = self._catalogue.about()
            generation = self._latest_generation(facts)
            return Seen(self._latest_rows(facts), generation), facts

    def _latest_generation(self, facts: Mapping[str, Any]) -> Generation:
        number, dimension = int(facts["generation"]), facts.get("dimension")
        present = self._generation
        if number == present.number and (present.matrix is not None or dimension is None):
            if present.matrix is not None:
                present.matrix.remap()
            return present
        generation = Generation(self.path, number, dimension, self._given)
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

    def _metadata(self, start: int, stop: int) -> Iterable[tuple[int, Mapping[str, Any]]]:
        for entry in self._catalogue.iterate(start, stop):
            if entry.tenant == self._rows.tenant and entry.row is not None:
                yield entry.row, filterable(entry)

    # -- the embedding ---------------------------------------------------------------------------------------

    def _is_unfitted(self, generation: Generation) -> bool:
        """Whether the model is still to be made; the one that was given is never used, but a fitted copy of it."""
        return isinstance(generation.embedding, Fitted) and generation.embedding is self._given

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = unit(self.embedding.embed_documents(list(texts)))
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise ValueError(
                f"the embedding gave {vectors.shape} for {len(texts)} texts; one vector per text is wanted"
            )
        return vectors

    def _check_width(self, width: int) -> None:
        matrix = self._generation.matrix
        if matrix is not None and width != matrix.dimension:
            raise EmbeddingMismatchError(
                f"a vector of {width} dimensions was given, the index was made with {matrix.dimension} "
                f"({self._catalogue.about().get('embedding', self.name)!r}): use the embedding that it was made with"
            )


def filterable(entry: Stored) -> dict[str, Any]:
    """The metadata as filters see it: with the document's id, also where it was derived."""
    return {"document_id": entry.document, **entry.chunk().metadata}


def is_large(seen: Seen) -> bool:
    """Whether Chroma is faster than the matrix."""
    matrix = seen.generation.matrix
    return matrix is not None and len(seen.rows) * matrix.dimension * 4 > MATRIX_BYTES


def _similar(one: Vector, other: Vector) -> bool:
    return one.shape == other.shape and (float(one @ other) >= SAME_VECTOR or not (one.any() or other.any()))
