"""Adapter for langchain-chroma."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from langchain_core.documents import Document

from langchain_hybridgraph.adapters.vector_stores import (
    SAMPLED,
    MongoDialect,
    NearestDocuments,
    StoreAdapter,
    by_kind,
    is_number,
    is_text,
    translate,
)
from langchain_hybridgraph.filters.operators import ORDERINGS
from langchain_hybridgraph.stores.vectors import cosines, unit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.chunks import Vector
    from langchain_hybridgraph.filters.expressions import Filter
    from langchain_hybridgraph.filters.operators import Path


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


class ChromaDialect(MongoDialect):
    """Filter language of Chroma.

    Embedded Chroma 1.5 supports only top-level keys, has no ``$exists``, orders only numbers, and truncates a
    fractional operand if the stored value is an integer.
    """

    def key(self, path: Path) -> str | None:
        reserved = path[0].startswith(("$", "#", "chroma:"))
        return path[0] if len(path) == 1 and is_text(path[0]) and not reserved else None

    def holds(self, key: str, operator: str, operand: Any) -> dict[str, Any] | None:
        if operator == "$in":
            texts, truths, numbers, others = by_kind(operand)
            if others:
                return None
            floats = numbers if all(type(number) is int for number in numbers) else list(map(float, numbers))
            # The elements of a list in Chroma must have the same type.
            lists = [values for values in (texts, truths, floats) if values]
            return self.any_of([{key: {"$in": values} if len(values) > 1 else {"$eq": values[0]}} for values in lists])
        if operator in ORDERINGS and is_number(operand):
            # An operand with a fraction is truncated towards zero if the value is an integer.
            inclusive = operator if float(operand).is_integer() else operator[:3] + "e"
            return {key: {inclusive: operand}}
        return None


class ChromaAdapter(StoreAdapter):
    """Adapter for a langchain-chroma collection. It converts the distances of the collection to cosines.

    Vectors, and the last Documents, are kept in memory after they were read. All are dropped when the database file of
    a collection in a folder changes, or when a call changes a database in memory. A server does not report changes:
    Documents are then always read, and a vector is read again if it contradicts the distance that Chroma returned, if
    its text was a hit and had changed, or if few texts match a filter.
    """

    searches_by_vector = True
    gives_vectors = True
    can_list = True
    dialect = ChromaDialect()

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        configuration = store._collection.configuration
        space = (configuration.get("hnsw") or configuration.get("spann") or {}).get("space", "l2")
        self._space = space
        self._memory = CollectionMemory()
        self._reads = 0
        self.is_local = "fastapi" not in store._collection._client.get_settings().chroma_api_impl

    @property
    def collection(self) -> str:
        """Implement :meth:`StoreAdapter.collection`; a collection that is made again has another id."""
        return f"Chroma {self._store._collection.name} {self._store._collection.id}"

    def search(self, text: str | None, vector: Vector | None, n: int, where: Any) -> NearestDocuments:
        assert vector is not None, "Chroma is always searched by a vector"
        results = self._store.similarity_search_by_vector_with_relevance_scores(vector.tolist(), k=n, filter=where)
        if self._space == "cosine":
            return NearestDocuments([(document, 1.0 - distance) for document, distance in results])
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
        # Chroma rejects an empty list.
        return _with_lengths(self._store.get(ids=list(ids), include=["embeddings"])) if ids else {}

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
        vectors = self._vectors(list(distance_of))
        if not vectors:
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
        where = translate(filter, self.dialect)
        return None if where is None else list(self._store.get(where=where, include=[], limit=limit)["ids"])

    def sample(self) -> Sequence[Vector]:
        """Implement :meth:`StoreAdapter.sample`; the sample consists of pages at regular intervals."""
        apart = max(1, self.count() // PLACES)
        pages = [
            self._store.get(limit=SAMPLED // PLACES, offset=page * apart, include=["embeddings"])["embeddings"]
            for page in range(PLACES)
        ]
        return [vector for page in pages for vector in page]

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


def _cosines(vectors: Mapping[str, tuple[Vector, float]], vector: Vector) -> NDArray[np.float32]:
    matrix = np.concatenate([each for each, _ in vectors.values()]).reshape(len(vectors), -1)  # faster than np.stack
    return cosines(matrix, unit(vector))


def _documents(answer: Mapping[str, Any]) -> list[Document]:
    rows = zip(answer["ids"], answer["documents"], answer["metadatas"], strict=True)
    return [Document(id=id, page_content=text or "", metadata=metadata or {}) for id, text, metadata in rows]
