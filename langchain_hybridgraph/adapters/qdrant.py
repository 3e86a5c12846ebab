"""Adapter for langchain-qdrant."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
from langchain_core.documents import Document

from langchain_hybridgraph.adapters.vector_stores import (
    PAGE,
    NearestDocuments,
    StoreAdapter,
    is_number,
    is_text,
    translate,
)
from langchain_hybridgraph.filters.expressions import Dialect
from langchain_hybridgraph.filters.operators import ORDERINGS, CanonicalBool, CanonicalTime, canonical_to_seconds
from langchain_hybridgraph.stores.vectors import unit

if TYPE_CHECKING:
    from langchain_hybridgraph.chunks import Vector
    from langchain_hybridgraph.filters.expressions import Filter
    from langchain_hybridgraph.filters.operators import Path


_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]+")


class QdrantAdapter(StoreAdapter):
    """Adapter for a Qdrant collection.

    A search by a vector calls the client directly, which saves langchain-qdrant's request for the configuration. A
    store in hybrid or sparse mode is searched by text and returns no cosines. Its ids are read from the metadata,
    because langchain-qdrant returns them only there.
    """

    id_keys = ("_id",)
    gives_vectors = True
    can_list = True

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.is_local = type(getattr(store.client, "_client", None)).__name__ == "QdrantLocal"
        self.searches_by_vector = store.retrieval_mode == "dense"
        self._is_cosine = store.distance == "Cosine"

    def translate(self, filter: Any) -> Any:
        return qdrant_filter(filter, self._store.metadata_payload_key)

    def search(self, text: str | None, vector: Vector | None, n: int, where: Any) -> NearestDocuments:
        if vector is None:
            results = self._store.similarity_search_with_score(text or "", k=n, filter=where)
            documents, scores = self.with_ids(document for document, _ in results), [score for _, score in results]
            return NearestDocuments(list(zip(documents, scores, strict=True)), are_cosines=False)
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
        scores = [float(point.score) for point in answer.points]
        return NearestDocuments(list(zip(documents, scores, strict=True)))

    def get(self, ids: Sequence[str]) -> list[Document]:
        return [self._document(point) for point in self._points(ids, with_payload=True)]

    def vectors(self, ids: Sequence[str]) -> dict[str, Vector]:
        points = self._points(ids, with_payload=False, with_vectors=True)
        vectors = {str(point.id): self._vector(point) for point in points}
        return {id: unit(vector) for id, vector in vectors.items() if vector is not None}

    def count(self) -> int:
        return int(self._store.client.count(self._store.collection_name, exact=True).count)

    def documents(self) -> Iterator[Document]:
        return (self._document(point) for point in self._scroll(with_payload=True))

    def ids(self) -> Iterator[str]:
        return (str(point.id) for point in self._scroll(with_payload=False))

    def _document(self, point: Any) -> Document:
        payload = point.payload or {}
        metadata = dict(payload.get(self._store.metadata_payload_key) or {})
        # Add the same two keys as langchain-qdrant.
        metadata |= {"_id": point.id, "_collection_name": self._store.collection_name}
        text = payload.get(self._store.content_payload_key) or ""
        return Document(id=str(point.id), page_content=text, metadata=metadata)

    def _vector(self, point: Any) -> Vector | None:
        vector = point.vector.get(self._store.vector_name) if isinstance(point.vector, dict) else point.vector
        return None if vector is None else np.asarray(vector, np.float32)

    def _points(self, ids: Sequence[str], **options: Any) -> list[Any]:
        keys: list[int | str] = []
        for id in ids:  # Qdrant's ids are numbers and UUIDs
            with suppress(ValueError):
                keys.append(int(id) if id.isascii() and id.isdigit() else str(UUID(id)))
        return list(self._store.client.retrieve(self._store.collection_name, keys, **options)) if keys else []

    def _scroll(self, **options: Any) -> Iterator[Any]:
        begin = None
        while True:
            points, begin = self._store.client.scroll(self._store.collection_name, limit=PAGE, offset=begin, **options)
            yield from points
            if begin is None:
                return


def qdrant_filter(filter: Filter, metadata_key: str = "metadata") -> Any | None:
    """Return the filter as a ``qdrant_client.models.Filter``, or None if Qdrant cannot express it.

    The result may match more than the filter, because conditions that Qdrant cannot express are left out.
    ``metadata_key`` is the payload key under which the store keeps metadata (``metadata_payload_key`` in
    langchain-qdrant).
    """
    dialect = _QdrantDialect(metadata_key)
    condition = translate(filter, dialect)
    models = import_module("qdrant_client.models")
    return condition if condition is None or isinstance(condition, models.Filter) else models.Filter(must=[condition])


class _QdrantDialect(Dialect[Any]):
    """Filter language of Qdrant.

    A condition on ``key`` also matches elements of a list; one on ``key[]`` matches only these. Qdrant compares floats
    only by range, and can parse fewer time formats than this package.
    """

    def __init__(self, metadata_key: str) -> None:
        self._metadata_key = metadata_key
        self._models: Any = import_module("qdrant_client.models")

    def key(self, path: Path) -> str | None:
        if not all(name and is_text(name) and '"' not in name for name in path):
            return None
        names = (name if _PLAIN_NAME.fullmatch(name) else f'"{name}"' for name in path)
        return ".".join([self._metadata_key, *names])

    def holds(self, key: str, operator: str, operand: Any) -> Any | None:
        if operator == "$in":
            return self.any_of([self._equal(key, each) for each in self._grouped(operand)])
        if operator == "$contains":
            return self._contains(key, operand)
        if operator not in ORDERINGS:
            return None
        seconds = canonical_to_seconds(operand)
        if seconds is not None:
            return self._in_time(key, operator, seconds)
        return self._range(key, **{operator[1:]: operand}) if is_number(operand) else None

    def _grouped(self, operands: Sequence[Any]) -> list[Any]:
        texts = [operand for operand in operands if is_text(operand)]
        others = [operand for operand in operands if not is_text(operand)]
        return [*others, texts] if texts else others

    def _equal(self, key: str, operand: Any) -> Any | None:
        if isinstance(operand, list):
            return self._field(key, match=self._models.MatchAny(any=operand))
        if isinstance(operand, CanonicalBool):
            return self._field(key, match=self._models.MatchValue(value=operand.value))
        if isinstance(operand, CanonicalTime):
            times = [self._in_time(key, operator, operand.seconds) for operator in ("$gte", "$lte")]
            return self.all_of(times)
        return self._range(key, gte=operand, lte=operand) if is_number(operand) else None

    def _contains(self, key: str, operand: Any) -> Any | None:
        if isinstance(operand, CanonicalTime):
            return None
        element = self.any_of([self._equal(f"{key}[]", each) for each in self._grouped((operand,))])
        if element is None or not isinstance(operand, str):
            return element
        no_list = self._models.Filter(must=[self._empty(f"{key}[]")], must_not=[self._empty(key)])
        return self._models.Filter(should=[element, no_list])

    def _in_time(self, key: str, operator: str, seconds: float) -> Any | None:
        """Return a condition for rows whose time may match, or None if Qdrant cannot express the time.

        Values that Qdrant cannot parse match, too, unless they are numbers: they may be times in another format.
        """
        try:
            bound = datetime.fromtimestamp(seconds, UTC)
            outside = (
                {"lt": bound - timedelta(seconds=1)}
                if ORDERINGS[operator].is_lower_bound
                else {"gt": bound + timedelta(seconds=1)}
            )
        except (ValueError, OverflowError):  # before the year 1, after 9999
            return None
        certainly_outside = self._field(key, range=self._models.DatetimeRange(**outside))
        number = self._range(key, gte=-sys.float_info.max)
        return self._models.Filter(must_not=[certainly_outside, number, self._empty(key)])

    def _range(self, key: str, **bounds: float) -> Any:
        return self._field(key, range=self._models.Range(**bounds))

    def _field(self, key: str, **condition: Any) -> Any:
        return self._models.FieldCondition(key=key, **condition)

    def _empty(self, key: str) -> Any:
        return self._models.IsEmptyCondition(is_empty=self._models.PayloadField(key=key))

    def every(self, parts: list[Any]) -> Any:
        return self._models.Filter(must=parts)

    def some(self, parts: list[Any]) -> Any:
        return self._models.Filter(should=parts)
