"""Adapter for langchain-chroma."""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import InitVar, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from langchain_core.documents import Document

from langchain_hybridgraph.adapters import vector_stores
from langchain_hybridgraph.errors import StoreError
from langchain_hybridgraph.execution.threads import ForkSafeLock
from langchain_hybridgraph.filters.expressions import And, Comparison, Filter, compare
from langchain_hybridgraph.filters.operators import ORDERINGS, Path
from langchain_hybridgraph.records import Scope
from langchain_hybridgraph.stores.vectors import cosines, unit

if TYPE_CHECKING:
    from langchain_hybridgraph.adapters.documents import ScopedRows
    from langchain_hybridgraph.chunks import Chunk, Mask, Vector


# Number of texts or ids read at a time; Chroma skips the earlier ones for each page (20,000 texts: .5 s, not .8).
FIRST_PAGE, LARGE_PAGE = 500, 2_500
# Maximum size in bytes of the vectors that are kept in memory.
MOST_KEPT = 128 * 2**20
# Number of searches that read vectors after which all vectors of a collection of at most this size are read, once. It
# takes 27 ms per 1,000 texts, so a program that searches only a few times does not wait for it.
READ_ALL_AFTER, MOST_READ_AT_ONCE = 10, 25_000
# Age in seconds from which the time of a file's last change is trusted: the system's clock has steps of at most 10 ms,
# and file systems without fractions of a second round to at most 2 s.
SETTLED_SECONDS, SETTLED_WHOLE_SECONDS = 0.05, 2.5
# Number of Documents in memory from which they are dropped, unless all were read at once.
MOST_DOCUMENTS = 2_000
# Difference between a distance from Chroma and that of a vector in memory from which the vector is read again, relative
# to the squared lengths.
TOLERANCE = 1e-5
# Number of places in the collection from which a sample of vectors is taken.
PLACES = 8
# Calls of Chroma's engine that change no text of an existing collection. Other calls count as changes.
HARMLESS_CALLS = {
    *("count", "count_collections", "get", "get_max_batch_size", "get_version", "heartbeat", "query"),
    *("create_collection", "create_database", "create_tenant", "list_collections", "list_databases"),
    *("get_collection", "get_collection_by_id", "get_database", "get_tenant"),
}


class UnreadVectorsError(StoreError):
    """Chroma has not read the vectors of texts that another process has added."""


@contextmanager
def _chroma_errors() -> Iterator[None]:
    """Convert Chroma's error for vectors that it has not read."""
    try:
        yield
    except Exception as error:
        if "Error finding id" not in str(error):
            raise
        raise UnreadVectorsError(
            "Chroma has not read the vectors of texts that another process has added: restart this program, or write "
            "to the collection here, or use a Chroma server"
        ) from error


class CollectionMemory:
    """Data of the collection with this id in memory, read while its database was in the state ``state``.

    ``count`` and ``documents`` are used only if they are certain to be up to date. ``vectors`` maps ids to unit vectors
    and the lengths as stored.
    """

    def __init__(self, collection: object = None, state: object = None) -> None:
        self.collection, self.state = collection, state
        self.count: int | None = None
        self.documents: dict[str, Document] = {}
        self.vectors: dict[str, tuple[Vector, float]] = {}

    def add(self, vectors: Mapping[str, tuple[Vector, float]]) -> None:
        """Keep these vectors; if there would be too many, drop the others first."""
        size = sum(vector.nbytes for vector, _ in itertools.islice(vectors.values(), 1))
        if (len(self.vectors) + len(vectors)) * size > MOST_KEPT:
            self.vectors = {}
        self.vectors |= vectors


class WatchedBindings:
    """Chroma's engine for a database in memory, with a number that changes before and after each call of a change."""

    _versions = itertools.count()

    def __init__(self, bindings: Any) -> None:
        self._bindings = bindings
        self.version = next(self._versions)

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._bindings, name)
        return call if name in HARMLESS_CALLS else partial(self._change, call)

    def _change(self, call: Any, *arguments: Any, **options: Any) -> Any:
        self.version = next(self._versions)
        try:
            return call(*arguments, **options)
        finally:
            self.version = next(self._versions)


class ChromaDialect(vector_stores.MongoDialect):
    """Filter language of Chroma.

    Embedded Chroma 1.5 supports only top-level keys, has no ``$exists``, orders only numbers, and truncates a
    fractional operand if the stored value is an integer.
    """

    def key(self, path: Path) -> str | None:
        reserved = path[0].startswith(("$", "#", "chroma:"))
        return path[0] if len(path) == 1 and vector_stores.is_text(path[0]) and not reserved else None

    def holds(self, key: str, operator: str, operand: Any) -> dict[str, Any] | None:
        if operator == "$in":
            texts, truths, numbers, others = vector_stores.by_kind(operand)
            if others:
                return None
            floats = numbers if all(type(number) is int for number in numbers) else list(map(float, numbers))
            # The elements of a list in Chroma must have the same type.
            lists = [values for values in (texts, truths, floats) if values]
            return self.any_of([{key: {"$in": values} if len(values) > 1 else {"$eq": values[0]}} for values in lists])
        if operator in ORDERINGS and vector_stores.is_number(operand):
            # An operand with a fraction is truncated towards zero if the value is an integer.
            inclusive = operator if float(operand).is_integer() else operator[:3] + "e"
            return {key: {inclusive: operand}}
        return None


class ChromaAdapter(vector_stores.ReadableAdapter):
    """Adapter for a langchain-chroma collection. It converts the distances of the collection to cosines.

    Vectors, and the last Documents, are kept in memory after they were read. All are dropped when the database file of
    a collection in a folder changes, or when a call changes a database in memory. A server does not report changes:
    Documents are then always read, and a vector is read again if it contradicts the distance that Chroma returned, if
    its text was a hit and had changed, or if few texts match a filter.
    """

    searches_by_vector = True
    dialect = ChromaDialect()

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        configuration = store._collection.configuration
        self._space = (configuration.get("hnsw") or configuration.get("spann") or {}).get("space", "l2")
        self._memory = CollectionMemory()
        self._reads = 0
        self.is_local = "fastapi" not in store._collection._client.get_settings().chroma_api_impl

    @property
    def collection(self) -> str:
        """Implement :meth:`StoreAdapter.collection`; a collection that is made again has another id."""
        return f"Chroma {self._store._collection.name} {self._store._collection.id}"

    def search(self, text: str | None, vector: Vector | None, n: int, where: Any) -> vector_stores.NearestDocuments:
        assert vector is not None, "Chroma is always searched by a vector"
        with _chroma_errors():
            results = self._store.similarity_search_by_vector_with_relevance_scores(vector.tolist(), k=n, filter=where)
        if self._space == "cosine":
            return vector_stores.NearestDocuments([(document, 1.0 - distance) for document, distance in results])
        return self.by_vectors([document for document, _ in results], vector)

    def get(self, ids: Sequence[str]) -> list[Document]:
        memory, is_current = self._current()
        previous = memory.documents if is_current else {}
        by_id = {id: previous[id] for id in ids if id in previous}
        if missing := [id for id in ids if id not in by_id]:
            page = self._store.get(ids=missing, include=["documents", "metadatas"])
            new = {str(document.id): document for document in _documents(page)}
            by_id |= new
            if is_current and new:
                memory.documents = (previous if len(previous) < MOST_DOCUMENTS else {}) | new
        return [by_id[id] for id in ids if id in by_id]

    def vectors(self, ids: Sequence[str]) -> dict[str, Vector]:
        return {id: vector for id, (vector, _) in self._vectors(ids).items()}

    def scores(self, vector: Vector, ids: Sequence[str], *, current: bool = False) -> dict[str, float]:
        vectors = self._vectors(ids, current=current)
        return dict(zip(vectors, _cosines(vectors, vector).tolist(), strict=True)) if vectors else {}

    def forget_vectors(self, ids: Iterable[str]) -> None:
        """Read the vectors of these ids again the next time that they are needed."""
        for id in ids:
            self._memory.vectors.pop(id, None)

    def _vectors(self, ids: Sequence[str], *, current: bool = False) -> dict[str, tuple[Vector, float]]:
        """Return the unit vectors and lengths of the ids in the store, certainly those of now if ``current``."""
        memory, is_current = self._current()
        if current and not is_current:
            return self._read_vectors(ids)
        previous = memory.vectors
        vectors = {id: previous[id] for id in ids if id in previous}
        missing = [id for id in ids if id not in vectors]
        if missing and (new := self._read_vectors(missing)):
            memory.add(new)
            self._reads += 1
            if self._reads == READ_ALL_AFTER and self.count() <= MOST_READ_AT_ONCE:
                for page in self._pages(["embeddings"]):
                    memory.add(_with_lengths(page))
            vectors |= new
        return vectors

    def _read_vectors(self, ids: Sequence[str]) -> dict[str, tuple[Vector, float]]:
        """Return the vectors, without those that Chroma cannot return (see :class:`UnreadVectorsError`)."""
        if not ids:
            return {}  # Chroma rejects an empty list
        with suppress(UnreadVectorsError), _chroma_errors():
            return _with_lengths(self._store.get(ids=list(ids), include=["embeddings"]))
        middle = len(ids) // 2
        return self._read_vectors(ids[:middle]) | self._read_vectors(ids[middle:]) if middle else {}

    def count(self) -> int:
        memory, is_current = self._current()
        if not is_current or memory.count is None:
            memory.count = int(self._store._collection.count())
        return memory.count

    def _current(self) -> tuple[CollectionMemory, bool]:
        """Return the data in memory, dropped after a change, and whether they are certain to be up to date."""
        state, collection = self._state(), self._store._collection.id
        if self._memory.collection != collection or (state is not None and state != self._memory.state):
            self._memory = CollectionMemory(collection, state)
        return self._memory, state is not None

    def _state(self) -> object:
        """Return a value that differs after every change of the database, or None if that is not certain.

        It is not certain for a server, for a folder on Windows, which updates the times of open files late, and if the
        database changed so recently that another change may get the same time.
        """
        client = self._store._collection._client
        settings = client.get_settings()
        if not self.is_local:
            return None
        if not settings.is_persistent:
            if not isinstance(bindings := getattr(client, "bindings", None), WatchedBindings):
                if bindings is None:
                    return None
                bindings = client.bindings = WatchedBindings(bindings)
            return bindings.version
        if os.name != "posix":
            return None
        states: list[object] = []
        for name in ("chroma.sqlite3", "chroma.sqlite3-wal"):
            try:
                status = os.stat(os.path.join(settings.persist_directory, name))
            except FileNotFoundError:
                states.append(None)
                continue
            is_whole = status.st_ctime_ns % 10**9 == 0
            if time.time() - status.st_ctime < (SETTLED_WHOLE_SECONDS if is_whole else SETTLED_SECONDS):
                return None
            states.append((status.st_ino, status.st_ctime_ns, status.st_size))
        return None if states[0] is None else tuple(states)

    def documents(self) -> Iterator[Document]:
        memory, is_current = self._current()
        if not is_current and self.is_local:  # often it was filled just before: then each search would read again
            time.sleep(SETTLED_SECONDS)
            memory, is_current = self._current()
        documents: dict[str, Document] = {}
        for page in self._pages(["documents", "metadatas"]):
            new = _documents(page)
            if is_current and len(documents) < MOST_READ_AT_ONCE:
                documents |= {str(each.id): each for each in new}
            yield from new
        if len(documents) <= MOST_READ_AT_ONCE and is_current:
            memory.documents = documents

    def ids(self) -> Iterator[str]:
        for page in self._pages([]):
            yield from page["ids"]

    def nearest(self, vector: Vector, n: int, among: Sequence[str] | None = None) -> list[tuple[str, float]]:
        """Return the n nearest ids, or the nearest of those in ``among``, which must exist, with their distances."""
        if among is not None and not among:
            return []  # Chroma would search among all
        options: dict[str, Any] = {} if among is None else {"ids": list(among)}
        with _chroma_errors():
            answer = self._store._collection.query(
                query_embeddings=[vector.tolist()], n_results=n, include=["distances"], **options
            )
        return list(zip(answer["ids"][0], answer["distances"][0], strict=True))

    def cosines(self, vector: Vector, distances: Sequence[tuple[str, float]]) -> dict[str, float]:
        """Convert distances from :meth:`nearest` to cosines, by id."""
        if self._space == "cosine":
            return {id: 1.0 - distance for id, distance in distances}
        distance_of = dict(distances)
        if self._current()[1]:
            return self.scores(vector, list(distance_of))
        if not (vectors := self._vectors(list(distance_of))):
            return {}
        length, lengths = float(np.linalg.norm(vector)), np.array([length for _, length in vectors.values()])
        products = _cosines(vectors, vector)
        inner, squares = products * lengths * length, length * length + lengths**2
        expected = squares - 2 * inner if self._space == "l2" else 1.0 - inner
        is_changed = np.abs(expected - np.array([distance_of[id] for id in vectors])) > TOLERANCE * squares
        if is_changed.any():
            self.forget_vectors(itertools.compress(vectors, is_changed.tolist()))
            return self.scores(vector, list(vectors))
        return dict(zip(vectors, products.tolist(), strict=True))

    def ids_where(self, filter: Filter, limit: int) -> list[str] | None:
        """Return up to ``limit`` ids that match the filter, or None if Chroma cannot express the filter."""
        where = vector_stores.translate(filter, self.dialect)
        return None if where is None else list(self._store.get(where=where, include=[], limit=limit)["ids"])

    def sample(self) -> Sequence[Vector]:
        """Implement :meth:`StoreAdapter.sample`; the sample consists of pages at regular intervals."""
        apart = max(1, self.count() // PLACES)
        limit = vector_stores.SAMPLED // PLACES
        pages = [self._store.get(limit=limit, offset=page * apart, include=["embeddings"]) for page in range(PLACES)]
        return [vector for page in pages for vector in page["embeddings"]]

    def _pages(self, include: list[str]) -> Iterator[Mapping[str, Any]]:
        read = partial(self._store.get, include=include)
        page = read(offset=0, limit=FIRST_PAGE)
        start = FIRST_PAGE
        with ThreadPoolExecutor(1) as reader:  # the next page is read while the caller processes this one
            while len(page["ids"]) in (FIRST_PAGE, LARGE_PAGE):
                following = reader.submit(read, offset=start, limit=LARGE_PAGE)
                yield page
                page = following.result()
                start += LARGE_PAGE
            yield page


def _with_lengths(page: Mapping[str, Any]) -> dict[str, tuple[Vector, float]]:
    if not page["ids"]:
        return {}
    matrix = np.asarray(page["embeddings"], np.float32)
    return dict(zip(page["ids"], zip(unit(matrix), np.linalg.norm(matrix, axis=1).tolist(), strict=True), strict=True))


def _cosines(vectors: Mapping[str, tuple[Vector, float]], vector: Vector) -> Vector:
    matrix = np.concatenate([each for each, _ in vectors.values()]).reshape(len(vectors), -1)  # faster than np.stack
    return cosines(matrix, unit(vector))


def _documents(answer: Mapping[str, Any]) -> list[Document]:
    rows = zip(answer["ids"], answer["documents"], answer["metadatas"], strict=True)
    return [Document(id=id, page_content=text or "", metadata=metadata or {}) for id, text, metadata in rows]


# Filtered search in Chroma.
#
# Chroma's ``where`` cannot express most of the filter language, such as the order of ISO times and nested values. It
# also makes a search slower: with 20,000 texts, a search takes 21 ms without a filter, 55 ms if the filter matches one
# text in a hundred, and 150 to 260 ms if it matches half of them. Evaluating the filter in memory on the metadata of
# all texts takes well under a millisecond, and so does a search that requests only ids. Then the best n texts are read.

Answer = TypeVar("Answer")

# Maximum number of matches whose vectors are read and compared: 3 ms for 100, 8 ms for 300.
FEW = 300
# Maximum number of results that are requested in order to drop those that do not match (1,000 take 15 ms). If more are
# needed, the store searches only among the matches (30 ms).
MOST_REQUESTED = 1_500
_SPARE = 16


@dataclass(eq=False, repr=False)
class FilteredSearch:
    """Vector search among the texts in a scope (the filter, tenant and time of a call).

    The metadata of the store's texts are in memory, in ``rows`` by the store's ids, to which ``documents`` are added.
    Added and deleted texts are detected when the number of texts in the store changes, and changed metadata only when a
    Document is read again. Thread-safe.
    """

    _adapter: ChromaAdapter
    _chunk_of: Callable[[Document], Chunk]
    _rows: ScopedRows
    documents: InitVar[Iterable[Document]]
    _changing: ForkSafeLock = field(default_factory=ForkSafeLock)

    def __post_init__(self, documents: Iterable[Document]) -> None:
        self._change(documents)

    def ids(self, vector: Vector, n: int, scope: Scope) -> dict[str, float]:
        """Return the n nearest ids in the scope with their cosines.

        The metadata in memory may be old, so texts for the user have to be read and checked again.
        """
        if self._rows.mask(scope) is None:
            return self._adapter.cosines(vector, self._adapter.nearest(vector, n))
        return self._caught_up(lambda: self._nearest(vector, n, scope))

    def nearest(self, vector: Vector, n: int, ids: Sequence[str]) -> list[str]:
        """Return the n of ``ids`` that are nearest to the vector, nearest first; unknown ids are left out."""
        distances = self._caught_up(lambda: self._adapter.nearest(vector, n, [id for id in ids if id in self._rows]))
        return [id for id, _ in distances]

    def note(self, documents: Iterable[Document]) -> None:
        """Update the metadata from Documents that were just read."""
        with self._changing:
            if changed := [each for each in documents if self._is_changed(each)]:
                self._change(changed)
                self._adapter.forget_vectors(str(each.id) for each in changed)

    def _caught_up(self, search: Callable[[], Answer]) -> Answer:
        """Update the rows and search; repeat both if the search fails and the store has changed in the meantime."""
        self._catch_up()
        try:
            return search()
        except Exception:
            # A text may have been deleted; if another text was added, the number of texts has not changed.
            if not self._catch_up(always=True):
                raise
            return search()

    def _catch_up(self, *, always: bool = False) -> bool:
        """Add new texts, drop deleted ones, and return whether anything changed.

        The store's ids are read only if its number of texts has changed or ``always`` is set.
        """
        with self._changing:
            if not always and self._adapter.count() == len(self._rows):
                return False
            stored_ids, row_of = set(self._adapter.ids()), self._rows.row_of
            deleted, new = row_of.keys() - stored_ids, stored_ids - row_of.keys()
            pages = vector_stores.in_pages(sorted(new))
            self._change((each for page in pages for each in self._adapter.get(page)), deleted)
            return bool(deleted or new)

    def _nearest(self, vector: Vector, n: int, scope: Scope) -> dict[str, float]:
        self._note_new_matches(scope)
        mask = self._mask(scope)
        matches = int(np.count_nonzero(mask))
        if matches <= max(n, FEW):
            cosines = self._adapter.scores(vector, self._ids_in(mask), current=True)
            if len(cosines) < matches:
                raise StoreError("texts were deleted from the vector store during the search; search again")
            return dict(sorted(cosines.items(), key=lambda pair: (-pair[1], pair[0]))[:n])
        requested = math.ceil(1.5 * n * len(self._rows) / matches) + _SPARE
        if requested <= MOST_REQUESTED:
            matching = [each for each in self._adapter.nearest(vector, requested) if self._is_in(each[0], mask)]
            if len(matching) >= n:
                return self._adapter.cosines(vector, matching[:n])
        return self._adapter.cosines(vector, self._adapter.nearest(vector, n, self._ids_in(mask)))

    def _note_new_matches(self, scope: Scope) -> None:
        """Update the rows of texts that now match the scope because their metadata were changed in the store.

        The store is searched by a condition of the scope (``$eq`` or ``$in``) that matches few rows, if there is one.
        """
        masks = [(each, self._mask(Scope(each))) for each in _conditions(scope)]
        for comparison, mask in sorted(masks, key=lambda pair: np.count_nonzero(pair[1])):
            if np.count_nonzero(mask) > FEW:
                return
            if (there := self._adapter.ids_where(comparison, 2 * FEW)) is not None:
                self.note(self._adapter.get([id for id in there if not self._is_in(id, mask)]))
                return

    def _mask(self, scope: Scope) -> Mask:
        living, mask = self._rows.living, self._rows.mask(scope)
        return living if mask is None else living & mask[: len(living)]

    def _ids_in(self, mask: Mask) -> list[str]:
        return [self._rows.ids[row] for row in np.flatnonzero(mask).tolist()]

    def _is_in(self, id: str, mask: Mask) -> bool:
        row = self._rows.row_of.get(id, len(mask))
        return row < len(mask) and bool(mask[row])

    def _is_changed(self, document: Document) -> bool:
        if (chunk := self._rows.get(document.id or "")) is None:
            return False
        is_same = chunk.text == document.page_content and chunk.metadata == document.metadata
        return not is_same and chunk != self._chunk_of(document)

    def _change(self, documents: Iterable[Document], deleted: Collection[str] = ()) -> None:
        chunks = {each.id: self._chunk_of(each) for each in documents if each.id is not None}
        self._rows.change(deleted, list(chunks), list(chunks.values()))


def _conditions(scope: Scope) -> list[Comparison]:
    """Return tests for equality that every text in the scope passes.

    Those of ``document_id`` are left out, because it may be derived and not stored.
    """
    tenant = [] if scope.tenant is None else [compare("tenant", "$eq", scope.tenant)]
    parts = scope.filter.parts if isinstance(scope.filter, And) else (scope.filter,)
    comparisons = [part for part in parts if isinstance(part, Comparison) and part.path != ("document_id",)]
    return [each for each in (*tenant, *comparisons) if each.operator in ("$eq", "$in")]
