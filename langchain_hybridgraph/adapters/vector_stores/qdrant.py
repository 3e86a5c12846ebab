"""Adapter of langchain-qdrant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
from langchain_core.documents import Document

from langchain_hybridgraph.adapters.vector_stores.adapter import PAGE, SAMPLED, Nearest, StoreAdapter
from langchain_hybridgraph.stores.engines.vector_matrix import unit

if TYPE_CHECKING:
    from langchain_hybridgraph.records import Vector


class QdrantAdapter(StoreAdapter):
    """Adapter of a Qdrant collection, whose ids langchain-qdrant returns only in the metadata.

    The client is called directly, with one request per search: langchain-qdrant requests the collection's configuration
    before each search by a vector. A store in hybrid or sparse mode is searched by text and returns no cosines.
    """

    id_keys = ("_id",)
    gives_vectors = True
    can_list = True
    is_local = False

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.searches_by_vector = store.retrieval_mode == "dense"
        self._is_cosine = store.distance == "Cosine"

    def search(self, text: str | None, vector: Vector | None, n: int, where: Any) -> Nearest:
        """Implement :meth:`StoreAdapter.search`."""
        if vector is None:
            results = self._store.similarity_search_with_score(text or "", k=n, filter=where)
            return Nearest(
                list(zip(self.with_ids(d for d, _ in results), (s for _, s in results), strict=True)), are_cosines=False
            )
        answer = self._store.client.query_points(
            self._store.collection_name,
            query=vector.tolist(),
            using=self._store.vector_name,
            query_filter=where,
            limit=n,
            with_payload=True,
        )
        documents = [self._document(point) for point in answer.points]
        if not self._is_cosine:
            return self.by_vectors(documents, vector)
        scores = (float(point.score) for point in answer.points)
        return Nearest(list(zip(documents, scores, strict=True)))

    def get(self, ids: Sequence[str]) -> list[Document]:
        """Implement :meth:`StoreAdapter.get`."""
        return [self._document(point) for point in self._points(ids, with_payload=True)]

    def vectors(self, ids: Sequence[str]) -> dict[str, Vector]:
        """Implement :meth:`StoreAdapter.vectors`."""
        points = self._points(ids, with_payload=False, with_vectors=True)
        vectors = {str(point.id): self._vector(point) for point in points}
        return {id: unit(vector) for id, vector in vectors.items() if vector is not None}

    def count(self) -> int:
        """Implement :meth:`StoreAdapter.count`."""
        return int(self._store.client.count(self._store.collection_name, exact=True).count)

    def documents(self) -> Iterator[Document]:
        """Implement :meth:`StoreAdapter.documents`."""
        return (self._document(point) for point in self._scroll(with_payload=True))

    def ids(self) -> Iterator[str]:
        """Implement :meth:`StoreAdapter.ids`."""
        return (str(point.id) for point in self._scroll(with_payload=False))

    def sample(self) -> Sequence[Vector]:
        """Implement :meth:`StoreAdapter.sample`."""
        points, _ = self._store.client.scroll(
            self._store.collection_name, limit=SAMPLED, with_payload=False, with_vectors=True
        )
        return [vector for point in points if (vector := self._vector(point)) is not None]

    def _document(self, point: Any) -> Document:
        payload = point.payload or {}
        metadata = dict(payload.get(self._store.metadata_payload_key) or {})
        # The two keys that langchain-qdrant adds.
        metadata |= {"_id": point.id, "_collection_name": self._store.collection_name}
        text = payload.get(self._store.content_payload_key) or ""
        return Document(id=str(point.id), page_content=text, metadata=metadata)

    def _vector(self, point: Any) -> Vector | None:
        vector = point.vector.get(self._store.vector_name) if isinstance(point.vector, dict) else point.vector
        return None if vector is None else np.asarray(vector, np.float32)

    def _points(self, ids: Sequence[str], **options: Any) -> list[Any]:
        keys = [point for id in ids if (point := _point_id(id)) is not None]
        return list(self._store.client.retrieve(self._store.collection_name, keys, **options)) if keys else []

    def _scroll(self, **options: Any) -> Iterator[Any]:
        begin = None
        while True:
            points, begin = self._store.client.scroll(self._store.collection_name, limit=PAGE, offset=begin, **options)
            yield from points
            if begin is None:
                return


def _point_id(id: str) -> int | str | None:
    """Convert an id to a number or UUID, the only ids that Qdrant accepts in requests."""
    if id.isascii() and id.isdigit():
        return int(id)
    try:
        return str(UUID(id))
    except ValueError:
        return None
