"""Adapter for langchain-milvus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from langchain_core.documents import Document

from langchain_hybridgraph.adapters.vector_stores import PAGE, SAMPLED, NearestDocuments, StoreAdapter
from langchain_hybridgraph.stores.milvus.connection import MOST_RESULTS
from langchain_hybridgraph.stores.vectors import unit

if TYPE_CHECKING:
    from langchain_hybridgraph.chunks import Vector


# pymilvus.DataType.INT64
INT64 = 5


class MilvusAdapter(StoreAdapter):
    """Adapter for a Milvus collection.

    Ids are read from the metadata, because langchain-milvus returns primary keys only there. A store with several
    vectors per text, or with sparse vectors, is searched by text and returns no cosines.
    """

    gives_vectors = True
    can_list = True
    is_local = False

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.id_keys = (store._primary_field,)  # type: ignore[misc]  # the user names the field
        self.searches_by_vector = store._is_embedding_only and not (store._is_multi_vector or store._is_sparse)
        self._key_is_number: bool | None = None

    def search(self, text: str | None, vector: Vector | None, n: int, where: Any) -> NearestDocuments:
        """Implement :meth:`StoreAdapter.search`; at most ``MOST_RESULTS`` Documents are returned."""
        n = min(n, MOST_RESULTS)
        if vector is None:
            results = self._store.similarity_search_with_score(text or "", k=n, expr=where)
        else:
            results = self._store.similarity_search_with_score_by_vector(vector.tolist(), k=n, expr=where)
        documents = self.with_ids(document for document, _ in results)
        if vector is None or not self.searches_by_vector:
            return self.by_rank(documents)
        params = self._store.search_params
        if isinstance(params, dict) and params.get("metric_type") == "COSINE":
            return NearestDocuments([(document, float(results[place][1])) for place, document in enumerate(documents)])
        return self.by_vectors(documents, vector)

    def get(self, ids: Sequence[str]) -> list[Document]:
        return [self._document(entity) for entity in self._entities(ids, self._store._get_output_fields())]

    def vectors(self, ids: Sequence[str]) -> dict[str, Vector]:
        if not self.searches_by_vector:
            return {}
        key, field = self._store._primary_field, self._store._vector_field
        entities = self._entities(ids, [key, field])
        return {str(entity[key]): unit(np.asarray(entity[field], np.float32)) for entity in entities}

    def count(self) -> int:
        if self._store.col is None:
            return 0
        answer = self._store.client.query(self._store.collection_name, filter="", output_fields=["count(*)"])
        return int(answer[0]["count(*)"])

    def documents(self) -> Iterator[Document]:
        return (self._document(entity) for entity in self._all(self._store._get_output_fields()))

    def ids(self) -> Iterator[str]:
        key = self._store._primary_field
        return (str(entity[key]) for entity in self._all([key]))

    def sample(self) -> Sequence[Vector]:
        if self._store.col is None or not self.searches_by_vector:
            return ()
        field = self._store._vector_field
        answer = self._store.client.query(
            self._store.collection_name, filter="", limit=SAMPLED, output_fields=[self._store._primary_field, field]
        )
        return [entity[field] for entity in answer]

    def _document(self, entity: dict[str, Any]) -> Document:
        id = str(entity[self._store._primary_field])
        document: Document = self._store._parse_document(dict(entity))
        document.id = id
        return document

    def _entities(self, ids: Sequence[str], fields: list[str]) -> list[dict[str, Any]]:
        if self._store.col is None:
            return []
        if self._key_is_number is None:
            described = self._store.client.describe_collection(self._store.collection_name)["fields"]
            self._key_is_number = any(field.get("is_primary") and int(field["type"]) == INT64 for field in described)
        keys = [int(id) for id in ids if id.isdigit()] if self._key_is_number else list(ids)
        if not keys:
            return []
        return list(self._store.client.get(self._store.collection_name, ids=keys, output_fields=fields))

    def _all(self, fields: list[str]) -> Iterator[dict[str, Any]]:
        if self._store.col is None:
            return
        pages = self._store.client.query_iterator(self._store.collection_name, batch_size=PAGE, output_fields=fields)
        try:
            while page := pages.next():
                yield from page
        finally:
            pages.close()
