"""Adapter for langchain-chroma."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np
from langchain_core.documents import Document

from langchain_hybridgraph.adapters.vector_stores.adapter import PAGE, SAMPLED, NearestDocuments, StoreAdapter
from langchain_hybridgraph.adapters.vector_stores.filter_translation import by_kind, is_number, is_text, translate
from langchain_hybridgraph.filters import ORDERINGS
from langchain_hybridgraph.filters.translation import Dialect
from langchain_hybridgraph.stores.engines.vector_matrix import cosines, unit

if TYPE_CHECKING:
    from langchain_hybridgraph.filters import Filter, Path
    from langchain_hybridgraph.records import Vector

# Maximum size in bytes of the vectors that are kept in memory.
MOST_KEPT = 128 * 2**20
# Age in seconds from which the time of a file's last change is trusted. File systems round it to at most two seconds.
SETTLED_SECONDS = 2.5
# Number of places in the collection from which a sample of vectors is taken.
PLACES = 8


@dataclass
class Kept:
    """Data of a collection in memory, read while its database file was in the state ``file``.

    ``count`` is the number of texts, and ``vectors`` are stored vectors by id.
    """

    file: object = None
    count: int | None = None
    vectors: dict[str, Vector] = field(default_factory=dict)


class ChromaAdapter(StoreAdapter):
    """Adapter for a langchain-chroma collection. It converts the distances of the collection to cosines.

    Vectors that were read are kept in memory. They are read again after every change of a collection in a folder. For
    other collections, Chroma does not report changes; a vector is read again if it contradicts the distance that
    Chroma returned, if the text was a hit and had changed, and for a filter that few texts match.
    """

    searches_by_vector = True
    gives_vectors = True
    can_list = True

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        configuration = store._collection.configuration
        space = (configuration.get("hnsw") or configuration.get("spann") or {}).get("space", "l2")
        self._space = space
        self._kept = Kept()
        self.is_local = "fastapi" not in store._collection._client.get_settings().chroma_api_impl

    def translate(self, filter: Any) -> Any:
        """Implement :meth:`StoreAdapter.translate`."""
        return chroma_where(filter)

    def search(self, text: str | None, vector: Vector | None, n: int, where: Any) -> NearestDocuments:
        """Implement :meth:`StoreAdapter.search`."""
        assert vector is not None, "Chroma is always searched by a vector"
        results = self._store.similarity_search_by_vector_with_relevance_scores(vector.tolist(), k=n, filter=where)
        if self._space == "cosine":
            return NearestDocuments([(document, 1.0 - distance) for document, distance in results])
        return self.by_vectors([document for document, _ in results], vector)

    def get(self, ids: Sequence[str]) -> list[Document]:
        """Implement :meth:`StoreAdapter.get`.

        Chroma's ``get_by_ids`` is not used, because it fails for entries without text or metadata.
        """
        return _documents(self._store.get(ids=list(ids), include=["documents", "metadatas"])) if ids else []

    def vectors(self, ids: Sequence[str]) -> dict[str, Vector]:
        """Implement :meth:`StoreAdapter.vectors`."""
        return {id: unit(vector) for id, vector in self._stored_vectors(ids).items()}

    def scores(self, vector: Vector, ids: Sequence[str]) -> dict[str, float]:
        """Implement :meth:`StoreAdapter.scores`."""
        vectors = self._stored_vectors(ids)
        products = cosines(unit(np.stack(list(vectors.values()))), unit(vector)) if vectors else np.zeros(0)
        return dict(zip(vectors, products.tolist(), strict=True))

    def forget_vectors(self, ids: Iterable[str]) -> None:
        """Implement :meth:`~langchain_hybridgraph.adapters.filtered_search.SearchesIds.forget_vectors`."""
        kept, is_current = self._current()
        for id in () if is_current else ids:
            kept.vectors.pop(id, None)

    def _stored_vectors(self, ids: Iterable[str]) -> dict[str, Vector]:
        """Return the vectors of the ids that are in the store, from memory or from Chroma."""
        kept, _ = self._current()
        vectors = {id: kept.vectors.get(id) for id in ids}
        if missing := [id for id, vector in vectors.items() if vector is None]:
            page = self._store.get(ids=missing, include=["embeddings"])
            read = dict(zip(page["ids"], np.asarray(page["embeddings"], np.float32), strict=True))
            if sum(vector.nbytes for vector in read.values()) * (1 + len(kept.vectors) / len(missing)) > MOST_KEPT:
                kept.vectors = {}
            kept.vectors |= read
            vectors |= {id: read.get(id) for id in missing}
        return {id: vector for id, vector in vectors.items() if vector is not None}

    def count(self) -> int:
        """Implement :meth:`StoreAdapter.count`.

        Chroma visits every text to count them, so the last number is returned if nothing has changed since.
        """
        kept, is_current = self._current()
        if not is_current or kept.count is None:
            kept.count = int(self._store._collection.count())
        return kept.count

    def _current(self) -> tuple[Kept, bool]:
        """Return the data in memory, and whether they are certain to be up to date.

        If the database file has changed, the data are dropped.
        """
        file = self._file_state()
        if file is not None and file != self._kept.file:
            self._kept = Kept(file)
        return self._kept, file is not None

    def _file_state(self) -> object:
        """Return a value that differs after every change of the database file, or None if that is not certain.

        It is not certain for a server, for a collection in memory, on Windows, which updates the times of open files
        late, and if the file changed so recently that another change may get the same time.
        """
        settings = self._store._collection._client.get_settings()
        if not (self.is_local and settings.is_persistent) or os.name != "posix":
            return None
        states: list[object] = []
        for name in ("chroma.sqlite3", "chroma.sqlite3-wal"):
            try:
                status = os.stat(os.path.join(settings.persist_directory, name))
            except FileNotFoundError:
                states.append(None)
                continue
            if time.time() - status.st_ctime < SETTLED_SECONDS:
                return None
            states.append((status.st_ino, status.st_ctime_ns, status.st_size))
        return None if states[0] is None else tuple(states)

    def documents(self) -> Iterator[Document]:
        """Implement :meth:`StoreAdapter.documents`."""
        for page in self._pages(["documents", "metadatas"]):
            yield from _documents(page)

    def ids(self) -> Iterator[str]:
        """Implement :meth:`StoreAdapter.ids`."""
        for page in self._pages([]):
            yield from page["ids"]

    def nearest(self, vector: Vector, n: int, among: Sequence[str] | None = None) -> list[tuple[str, float]]:
        """Implement :meth:`~langchain_hybridgraph.adapters.filtered_search.SearchesIds.nearest`."""
        options: dict[str, Any] = {} if among is None else {"ids": list(among)}
        answer = self._store._collection.query(
            query_embeddings=[vector.tolist()], n_results=n, include=["distances"], **options
        )
        return list(zip(answer["ids"][0], answer["distances"][0], strict=True))

    def cosines(self, vector: Vector, distances: Sequence[tuple[str, float]]) -> dict[str, float]:
        """Implement :meth:`~langchain_hybridgraph.adapters.filtered_search.SearchesIds.cosines`."""
        if self._space == "cosine":
            return {id: 1.0 - distance for id, distance in distances}
        vectors = self._stored_vectors(id for id, _ in distances)
        if vectors:
            matrix = np.stack(list(vectors.values()))
            expected = ((matrix - vector) ** 2).sum(axis=1) if self._space == "l2" else 1.0 - cosines(matrix, vector)
            found = dict(distances)
            actual = np.array([found[id] for id in vectors])
            is_changed = np.abs(expected - actual) > 1e-3 * (1.0 + np.abs(actual))
            for id in compress(vectors, is_changed.tolist()):
                self._kept.vectors.pop(id, None)
        return self.scores(vector, [id for id, _ in distances])

    def ids_where(self, filter: Filter, limit: int) -> list[str] | None:
        """Implement :meth:`~langchain_hybridgraph.adapters.filtered_search.SearchesIds.ids_where`."""
        where = self.translate(filter)
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
        start = 0
        while True:
            page = self._store.get(limit=PAGE, offset=start, include=include)
            yield page
            start += len(page["ids"])
            if len(page["ids"]) < PAGE:
                return


def _documents(answer: Mapping[str, Any]) -> list[Document]:
    rows = zip(answer["ids"], answer["documents"], answer["metadatas"], strict=True)
    return [Document(id=id, page_content=text or "", metadata=metadata or {}) for id, text, metadata in rows]


def chroma_where(filter: Filter) -> dict[str, Any] | None:
    """Return the filter as a ``where`` for Chroma, or None if Chroma cannot express it.

    The ``where`` may match more than the filter, because conditions that Chroma cannot express are left out.

    >>> from langchain_hybridgraph.filters import parse_filter
    >>> chroma_where(parse_filter({"lang": "en", "year": {"$gt": 2020}, "title": {"$contains": "x"}}))
    {'$and': [{'lang': {'$eq': 'en'}}, {'year': {'$gt': 2020}}]}
    """
    return translate(filter, _ChromaDialect())


class _ChromaDialect(Dialect[dict[str, Any]]):
    """Filter language of Chroma.

    Embedded Chroma 1.5 supports only top-level keys, has no ``$exists``, and orders only numbers. If the stored value
    is an integer, Chroma truncates a fractional operand, so ``{"$ne": 1.5}`` and ``{"$lt": 1.5}`` miss the value 1.
    """

    def key(self, path: Path) -> str | None:
        reserved = path[0].startswith(("$", "#", "chroma:"))
        return path[0] if len(path) == 1 and is_text(path[0]) and not reserved else None

    def holds(self, key: str, operator: str, operand: Any) -> dict[str, Any] | None:
        if operator == "$in":
            return self.any_of([{key: part} for part in self._lists("$in", operand)]) if _expressible(operand) else None
        if operator in ORDERINGS and is_number(operand):
            # An operand with a fraction is truncated towards zero if the value is an integer.
            inclusive = operator if float(operand).is_integer() else operator[:3] + "e"
            return {key: {inclusive: operand}}
        return None

    def fails(self, key: str, operator: str, operand: Any) -> dict[str, Any] | None:
        if operator != "$in":
            return None
        whole = [each for each in operand if not is_number(each) or float(each).is_integer()]
        return self.all_of([{key: expressible} for expressible in self._lists("$nin", whole)])

    def _lists(self, operator: str, operands: Sequence[Any]) -> list[dict[str, Any]]:
        """Return one condition per type, because the elements of a list in Chroma must have the same type."""
        texts, truths, numbers = by_kind(operands)
        floats = numbers if all(type(number) is int for number in numbers) else list(map(float, numbers))
        single = {"$in": "$eq", "$nin": "$ne"}[operator]
        return [
            {operator: values} if len(values) > 1 else {single: values[0]}
            for values in (texts, truths, floats)
            if values
        ]

    def every(self, parts: list[dict[str, Any]]) -> dict[str, Any]:
        return {"$and": parts}

    def some(self, parts: list[dict[str, Any]]) -> dict[str, Any]:
        return {"$or": parts}


def _expressible(operands: Sequence[Any]) -> bool:
    texts, truths, numbers = by_kind(operands)
    return len(texts) + len(truths) + len(numbers) == len(operands)
