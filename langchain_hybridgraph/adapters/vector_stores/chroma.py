"""Adapter for langchain-chroma."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from langchain_core.documents import Document

from langchain_hybridgraph.adapters.vector_stores.adapter import SAMPLED, NearestDocuments, StoreAdapter
from langchain_hybridgraph.adapters.vector_stores.filter_translation import by_kind, is_number, is_text, translate
from langchain_hybridgraph.filters import ORDERINGS
from langchain_hybridgraph.filters.translation import Dialect
from langchain_hybridgraph.stores.engines.vector_matrix import unit

if TYPE_CHECKING:
    from langchain_hybridgraph.filters import Filter, Path
    from langchain_hybridgraph.records import Vector

# Number of texts or ids read at a time; Chroma skips the earlier ones for each page (20,000 texts: .5 s, not .8).
LARGE_PAGE = 5_000
# Number of places in the collection from which a sample of vectors is taken.
PLACES = 8


class ChromaAdapter(StoreAdapter):
    """Adapter for a langchain-chroma collection. It converts the distances of the collection to cosines."""

    searches_by_vector = True
    gives_vectors = True
    can_list = True
    is_local = False

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        configuration = store._collection.configuration
        space = (configuration.get("hnsw") or configuration.get("spann") or {}).get("space", "l2")
        self._is_cosine = space == "cosine"

    @property
    def collection(self) -> str:
        """Implement :meth:`StoreAdapter.collection`; a collection that is made again has another id."""
        return f"Chroma {self._store._collection.name} {self._store._collection.id}"

    def has_same_texts(self, other: StoreAdapter) -> bool:
        """Implement :meth:`StoreAdapter.has_same_texts`, also for other objects that use the same client."""
        if not isinstance(other, ChromaAdapter):
            return False
        try:
            ours, theirs = self._store._collection, other._store._collection
        except ValueError:  # it was deleted
            return False
        return ours._client is theirs._client and bool(ours.id == theirs.id)

    def translate(self, filter: Any) -> Any:
        """Implement :meth:`StoreAdapter.translate`."""
        return chroma_where(filter)

    def search(self, text: str | None, vector: Vector | None, n: int, where: Any) -> NearestDocuments:
        """Implement :meth:`StoreAdapter.search`."""
        assert vector is not None, "Chroma is always searched by a vector"
        results = self._store.similarity_search_by_vector_with_relevance_scores(vector.tolist(), k=n, filter=where)
        if self._is_cosine:
            return NearestDocuments([(document, 1.0 - distance) for document, distance in results])
        return self.by_vectors([document for document, _ in results], vector)

    def get(self, ids: Sequence[str]) -> list[Document]:
        """Implement :meth:`StoreAdapter.get`.

        Chroma's ``get_by_ids`` is not used, because it fails for entries without text or metadata.
        """
        return _documents(self._store.get(ids=list(ids), include=["documents", "metadatas"])) if ids else []

    def vectors(self, ids: Sequence[str]) -> dict[str, Vector]:
        """Implement :meth:`StoreAdapter.vectors`."""
        if not ids:
            return {}  # Chroma rejects an empty list
        page = self._store.get(ids=list(ids), include=["embeddings"])
        if not page["ids"]:
            return {}  # all were deleted, so the dimension is unknown
        matrix = unit(np.asarray(page["embeddings"], np.float32).reshape(len(page["ids"]), -1))
        return dict(zip(page["ids"], matrix, strict=True))

    def count(self) -> int:
        """Implement :meth:`StoreAdapter.count`."""
        return int(self._store._collection.count())

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
        if self._is_cosine:
            return {id: 1.0 - distance for id, distance in distances}
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
            page = self._store.get(limit=LARGE_PAGE, offset=start, include=include)
            yield page
            start += len(page["ids"])
            if len(page["ids"]) < LARGE_PAGE:
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
