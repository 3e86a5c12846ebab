"""Adapter for langchain-postgres' PGVector."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document

from langchain_hybridgraph.adapters.vector_stores import (
    MongoDialect,
    NearestDocuments,
    StoreAdapter,
    by_kind,
    is_number,
    is_text,
    translate,
)
from langchain_hybridgraph.filters.operators import ORDERINGS, CanonicalTime, canonical_to_seconds

if TYPE_CHECKING:
    from langchain_hybridgraph.chunks import Vector
    from langchain_hybridgraph.filters.expressions import Filter
    from langchain_hybridgraph.filters.operators import Path


_DAY = timedelta(days=1)


class PGVectorAdapter(StoreAdapter):
    """Adapter for a PGVector collection. It translates filters if the metadata are stored as JSONB."""

    def translate(self, filter: Any) -> Any:
        """Implement :meth:`StoreAdapter.translate`.

        The result is None if the metadata are stored as JSON, because ``$and`` and ``$or`` then silently match nothing.
        """
        return pgvector_filter(filter) if getattr(self._store, "use_jsonb", True) else None

    def search(self, text: str | None, vector: Vector | None, n: int, where: Any) -> NearestDocuments:
        """Implement :meth:`StoreAdapter.search` without reading the vectors, which takes half of the time."""
        store = self._store
        if not hasattr(store, "_make_sync_session"):
            return super().search(text, vector, n, where)
        numbers = self._embeddings().embed_query(text or "") if vector is None else vector.tolist()
        row, distance = store.EmbeddingStore, store.distance_strategy(numbers).label("distance")
        with store._make_sync_session() as session:
            collection = store.get_collection(session)
            if collection is None:
                return super().search(text, vector, n, where)
            conditions = [row.collection_id == collection.uuid]
            if where is not None:
                conditions.append(store._create_filter_clause(where))
            query = session.query(row.id, row.document, row.cmetadata, distance).filter(*conditions)
            rows = query.order_by(distance).limit(n).all()
        return self.convert_scores(
            [(Document(id=str(id), page_content=text, metadata=metadata), score) for id, text, metadata, score in rows]
        )


def pgvector_filter(filter: Filter) -> dict[str, Any] | None:
    """Return the filter for langchain-postgres' ``PGVector`` with JSONB metadata, or None if it cannot be expressed.

    The result may match more than the filter, because conditions that PGVector cannot express are left out. Do not use
    it with ``PGVector(use_jsonb=False)`` or ``PGVectorStore``: there, the same operators have another meaning, and
    comparing a number with a string is an error.

    >>> from langchain_hybridgraph.filters import parse_filter
    >>> pgvector_filter(parse_filter({"lang": "en", "labels": {"$contains": 5}}))
    {'$and': [{'lang': {'$in': ['en']}}, {'labels': {'$eq': 5}}]}
    """
    return translate(filter, _PGVectorDialect())


class _PGVectorDialect(MongoDialect):
    """Filter language of PGVector.

    Comparisons also match elements of lists. If the stored value has another type, the result is NULL instead of false,
    so a negation misses the row. ``$in`` compares strings, so it cannot distinguish 1 from ``"1"``.
    """

    def key(self, path: Path) -> str | None:
        return path[0] if len(path) == 1 and path[0].isidentifier() else None

    def holds(self, key: str, operator: str, operand: Any) -> dict[str, Any] | None:
        if operator == "$in":
            return self._is_one_of(key, operand)
        if operator == "$contains":
            return self._contains(key, operand)
        if operator == "$exists":
            return {key: {"$exists": True}}
        seconds = canonical_to_seconds(operand)
        if seconds is not None:
            return self._around(key, operator, seconds)
        return {key: {operator: operand}} if is_text(operand) or is_number(operand) else None

    def fails(self, key: str, operator: str, operand: Any) -> dict[str, Any] | None:
        missing: list[dict[str, Any]] = [{key: {"$exists": False}}, {key: {"$eq": None}}]
        if operator == "$exists":
            return self.some(missing)
        # $nin compares strings, so it would also exclude a number, bool or list with the same string representation.
        excluded = [text for text in operand if is_text(text) and not _is_json(text)] if operator == "$in" else []
        return self.some([*missing, {key: {"$nin": excluded}}]) if excluded else None

    def _is_one_of(self, key: str, operands: Sequence[Any]) -> dict[str, Any] | None:
        texts, truths, numbers = by_kind(operands)
        moments = [self._at(key, operand.seconds) for operand in operands if isinstance(operand, CanonicalTime)]
        parts = [*({key: {"$eq": value}} for value in (*truths, *numbers)), *moments]
        if len(texts) + len(parts) < len(operands):
            return None
        return self.any_of([*parts, *([{key: {"$in": texts}}] if texts else [])])

    def _contains(self, key: str, operand: Any) -> dict[str, Any] | None:
        element = self._is_one_of(key, (operand,))  # JSON path also compares the elements of lists
        if not isinstance(operand, str) or element is None:
            return element
        pattern = "".join("\\" + c if c in "\\%_" else c for c in operand)
        return self.some([{key: {"$eq": operand}}, {key: {"$like": f"%{pattern}%"}}])

    def _at(self, key: str, seconds: float) -> dict[str, Any] | None:
        return self.all_of([self._around(key, "$gte", seconds), self._around(key, "$lte", seconds)])

    def _around(self, key: str, operator: str, seconds: float) -> dict[str, Any] | None:
        """Return a condition for times stored as strings, a day wider, because local dates differ from UTC dates."""
        try:
            moment = datetime.fromtimestamp(seconds, UTC)
            if ORDERINGS[operator].is_lower_bound:
                return {key: {"$gte": (moment - _DAY).date().isoformat()}}
            return {key: {"$lt": (moment + 2 * _DAY).date().isoformat()}}
        except (ValueError, OverflowError):  # before the year 1, after 9999
            return None


def _is_json(text: str) -> bool:
    try:
        json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except ValueError:
        return False
    except RecursionError:
        return True
    return True
