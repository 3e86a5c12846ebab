"""Adapters for any LangChain vector store."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple
from uuid import UUID

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore

from langchain_hybridgraph.adapters.documents import ID_KEYS, metadata_id
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.filters.expressions import Comparison, Condition, Dialect, Filter, parts_of, superset
from langchain_hybridgraph.filters.operators import ORDERINGS, CanonicalBool, CanonicalTime, Path, canonical_to_seconds
from langchain_hybridgraph.stores.milvus.connection import MOST_RESULTS
from langchain_hybridgraph.stores.vectors import background, cosines, unit

if TYPE_CHECKING:
    from langchain_hybridgraph.chunks import Vector
    from langchain_hybridgraph.records import Query

FilterArgument = Literal["document", "metadata"]

# Filter translation for other vector stores.
#
# A translated filter matches everything that the original filter matches, and possibly more, because stores have
# different rules for comparison, order and missing values. So ``filter.matches`` is always applied to the returned
# metadata afterwards. A translation of None means that every hit has to be fetched and checked. Negations, which
# usually match most texts, are not translated. The dialect of each store is in the module of its adapter.

_EXACT = 2**53  # every smaller integer can be represented exactly as a float
_MOST_OPERANDS = 10_000  # SQLite in Chroma allows 32,766 variables, and an operand takes two
_MOST_COMPARISONS = 200  # SQLite in Chroma allows expressions of 1,000 levels
_DEEPEST = 30  # Chroma rejects 64 levels


def translate(filter: Filter, dialect: Dialect[Condition] | None) -> Condition | None:
    """Return a store's condition for a filter, or None without a dialect or if it cannot express the filter.

    The condition may match more than the filter, because parts that the dialect cannot express are left out.
    """
    comparisons = list(_comparisons(filter, 1))
    operands = sum(len(each.operand) if isinstance(each.operand, tuple) else 1 for each, _ in comparisons)
    depth = max((depth for _, depth in comparisons), default=1)
    is_too_large = len(comparisons) > _MOST_COMPARISONS or operands > _MOST_OPERANDS or depth > _DEEPEST
    return None if dialect is None or is_too_large else superset(filter, dialect)


def is_text(value: Any) -> bool:
    """Return whether a value is a string that every store accepts, without lone surrogates or NUL."""
    return type(value) is str and "\0" not in value and not any("\ud800" <= c <= "\udfff" for c in value)


def is_number(value: Any) -> bool:
    """Return whether a value is a number between −2⁵³ and 2⁵³. In this range, every integer is exact as a float."""
    return type(value) in (int, float) and -_EXACT < value < _EXACT


def by_kind(operands: Sequence[Any]) -> tuple[list[str], list[bool], list[float], list[Any]]:
    """Return the operands that every store can compare (strings, bools and numbers), and all others, in four lists."""
    texts = list(filter(is_text, operands))
    numbers = list(filter(is_number, operands))
    truths = [operand.value for operand in operands if isinstance(operand, CanonicalBool)]
    others = [each for each in operands if not (is_text(each) or is_number(each) or isinstance(each, CanonicalBool))]
    return texts, truths, numbers, others


def at_time(dialect: Dialect[Condition], key: str, operand: Any) -> Condition | None:
    """Return a condition for values at about the same time as the operand, or None if it is not a time."""
    bounds = ("$gte", "$lte") if isinstance(operand, CanonicalTime) else ()
    return dialect.all_of([dialect.holds(key, operator, operand) for operator in bounds])


def _comparisons(filter: Filter, depth: int) -> Iterator[tuple[Comparison, int]]:
    if isinstance(filter, Comparison):
        yield filter, depth
    for part in parts_of(filter):
        yield from _comparisons(part, depth + 1)


class MongoDialect(Dialect[dict[str, Any]]):
    """Filter language of a store that combines conditions as MongoDB does."""

    def every(self, parts: list[dict[str, Any]]) -> dict[str, Any]:
        """Implement :meth:`Dialect.every`."""
        return {"$and": parts}

    def some(self, parts: list[dict[str, Any]]) -> dict[str, Any]:
        """Implement :meth:`Dialect.some`."""
        return {"$or": parts}


# Number of Documents read from a store at a time.
PAGE = 1_000
# Number of vectors in the sample from which the typical cosine with an arbitrary text is estimated, and the minimum
# number that is needed.
SAMPLED, FEWEST_SAMPLED = 256, 50


class NearestDocuments(NamedTuple):
    """Documents nearest to a query, best first, with scores; ``are_cosines`` is False if these may not be cosines."""

    documents: list[tuple[Document, float]]
    are_cosines: bool = True


class StoreAdapter:
    """Adapter for any vector store that has LangChain's interface.

    Every Document that an adapter returns has the store's id, if the store provides it.
    """

    id_keys: ClassVar[Sequence[str]] = ID_KEYS
    """Metadata keys that may contain the store's id if ``Document.id`` is None."""

    searches_by_vector: bool = False
    """Whether the store is always searched by a vector.

    If False, a query without a vector is passed as text, and the store embeds it.
    """

    gives_vectors: ClassVar[bool] = False
    """Whether :meth:`vectors` returns the stored vectors."""

    can_list: bool = False
    """Whether :meth:`documents` returns everything in the store."""

    filter_argument: ClassVar[FilterArgument | None] = None
    """Argument of a filter that is a function, or None if the store does not support functions."""

    is_local: bool = True
    """Whether :meth:`count` needs no request to a server."""

    is_in_memory: ClassVar[bool] = False
    """Whether all texts of the store are in the memory of this process."""

    dialect: Dialect[Any] | None = None
    """The store's own filter language, or None if filters cannot be translated."""

    def __init__(self, store: Any) -> None:
        self._store = store

    @property
    def collection(self) -> str:
        """Name of the collection, which tells it from others as far as possible."""
        return f"{type(self._store).__name__} {getattr(self._store, 'collection_name', '')}".rstrip()

    # -- searching ----------------------------------------------------------------------------------------------

    def embedded(self, query: Query) -> Vector | None:
        """Return the vector of the query, or None if the store embeds the text itself."""
        if query.vector is not None or not self.searches_by_vector:
            return query.vector
        return np.asarray(self._embeddings().embed_query(query.text or ""), np.float32)

    def search(self, text: str | None, vector: Vector | None, n: int, where: Any) -> NearestDocuments:
        """Return the n Documents that match the translated filter ``where`` and are nearest to the vector or text."""
        options = {} if where is None else {"filter": where}
        if vector is None:
            return self.convert_scores(self._store.similarity_search_with_score(text or "", k=n, **options))
        by_vector = getattr(self._store, "similarity_search_with_score_by_vector", None)
        if by_vector is None:
            raise ConfigurationError(
                f"{type(self._store).__name__} cannot return scores for a search by a vector: leave vector= out"
            )
        return self.convert_scores(by_vector(list(map(float, vector)), k=n, **options))

    def nearest_ids(self, vector: Vector, n: int) -> dict[str, float] | None:
        """Return the n nearest ids with their cosines, or None if the texts have to be read as well."""
        return None

    def convert_scores(self, results: Sequence[tuple[Document, float]]) -> NearestDocuments:
        """Convert the store's results to Documents with scores that are higher for nearer Documents.

        The scores are cosines, the store's relevance scores, its own scores if they are between −1 and 1 in descending
        order, or else those of :meth:`by_rank`.
        """
        documents = self.with_ids(document for document, _ in results)
        scores = [float(score) for _, score in results]
        try:
            relevance = self._store._select_relevance_score_fn()
        except (NotImplementedError, ValueError):  # ValueError: the store has no relevance function for its metric
            if any(abs(score) > 1.001 for score in scores) or scores != sorted(scores, reverse=True):
                return self.by_rank(documents)
            return NearestDocuments(list(zip(documents, scores, strict=True)), are_cosines=False)
        of_cosines = relevance is VectorStore._cosine_relevance_score_fn
        return NearestDocuments(list(zip(documents, map(relevance, scores), strict=True)), are_cosines=of_cosines)

    # -- reading ------------------------------------------------------------------------------------------------

    def get(self, ids: Sequence[str]) -> list[Document]:
        """Return the Documents with these ids. Raises NotImplementedError if the store cannot look up ids."""
        return self.with_ids(self._store.get_by_ids(list(ids)))

    def vectors(self, ids: Sequence[str]) -> dict[str, Vector]:
        """Return the unit vectors of the ids in the store, by id, or {} if the store does not return vectors."""
        return {}

    def count(self) -> int | None:
        """Return the number of texts in the store, or None if they cannot be counted."""
        return None

    def documents(self) -> Iterator[Document]:
        """Iterate over all Documents in the store, or over none if they cannot be listed."""
        return iter(())

    def ids(self) -> Iterator[str]:
        """Iterate over the ids of all Documents in the store."""
        return (document.id or "" for document in self.documents())

    def sample(self) -> Sequence[Vector]:
        """Return a sample of the stored vectors, or () if the store does not return vectors."""
        return list(self.vectors(list(islice(self.ids(), SAMPLED))).values()) if self.gives_vectors else ()

    # -- shared by the adapters ---------------------------------------------------------------------------------

    def scores(self, vector: Vector, ids: Sequence[str], *, current: bool = False) -> dict[str, float]:
        """Return the cosines with the Documents that have these ids, by id, or {} if the store does not return vectors.

        Without ``current``, an adapter may use vectors that it has read earlier.
        """
        vectors = self.vectors(ids) if ids else {}
        products = cosines(np.stack(list(vectors.values())), unit(vector)) if vectors else np.zeros(0)
        return dict(zip(vectors, products.tolist(), strict=True))

    def background(self, vector: Vector) -> tuple[float, float] | None:
        """Return the mean and deviation of the vector's cosines with a sample of the store, or None if too small."""
        if not hasattr(self, "_sampled"):
            try:
                sample = [np.asarray(each, np.float32) for each in self.sample()]
            except Exception:  # noqa: BLE001 - the store can be searched, but cannot be listed now
                return None
            # Equal texts, which have equal vectors, count once.
            self._sampled = unit(np.unique(np.stack(sample), axis=0)) if sample else np.zeros((0, 1), np.float32)
        return background(self._sampled, unit(vector)) if len(self._sampled) >= FEWEST_SAMPLED else None

    def with_ids(self, documents: Iterable[Document]) -> list[Document]:
        """Return the Documents with their ids, which some stores keep in the metadata."""
        return [
            each if each.id is not None else each.model_copy(update={"id": metadata_id(each.metadata, self.id_keys)})
            for each in documents
        ]

    def by_vectors(self, documents: Sequence[Document], vector: Vector) -> NearestDocuments:
        """Return the Documents whose vectors the store returns with their cosines, best first."""
        cosine_of = self.scores(vector, [document.id or "" for document in documents], current=True)
        scored = [(each, cosine_of[each.id or ""]) for each in documents if each.id in cosine_of]
        return NearestDocuments(sorted(scored, key=lambda pair: -pair[1]))

    def by_rank(self, documents: Sequence[Document]) -> NearestDocuments:
        """Return the Documents, best first, with the score 1 − i/n for the i-th of n Documents, counting from 0."""
        scores = (1.0 - place / len(documents) for place in range(len(documents)))
        return NearestDocuments(list(zip(documents, scores, strict=True)), are_cosines=False)

    def _embeddings(self) -> Embeddings:
        embeddings: Embeddings | None = self._store.embeddings
        if embeddings is None:
            raise ConfigurationError(
                f"the {type(self._store).__name__} store has no embeddings, so it cannot embed a question: "
                "open it with its embedding function"
            )
        return embeddings


def in_pages(ids: Iterable[str]) -> Iterator[list[str]]:
    """Yield the ids in lists of at most ``PAGE`` ids."""
    rest = iter(ids)
    while page := list(islice(rest, PAGE)):
        yield page


class ReadableAdapter(StoreAdapter):
    """Adapter for a store that can list its texts and return its vectors."""

    gives_vectors = True
    can_list = True


class InMemoryAdapter(ReadableAdapter):
    """Adapter for InMemoryVectorStore, whose scores are cosines and whose dictionary can be read directly."""

    searches_by_vector = True
    is_in_memory = True
    filter_argument: ClassVar[FilterArgument | None] = "document"

    def convert_scores(self, results: Sequence[tuple[Document, float]]) -> NearestDocuments:
        return NearestDocuments(list(results))

    def vectors(self, ids: Sequence[str]) -> dict[str, Vector]:
        entries = self._store.store
        return {id: unit(np.asarray(entries[id]["vector"], np.float32)) for id in ids if id in entries}

    def count(self) -> int:
        return len(self._store.store)

    def documents(self) -> Iterator[Document]:
        return iter(self.get(list(self.ids())))

    def ids(self) -> Iterator[str]:
        return iter(list(self._store.store))

    def sample(self) -> Sequence[Vector]:
        ids = list(self.ids())
        return list(self.vectors(ids[:: max(1, len(ids) // SAMPLED)]).values())


class FAISSAdapter(InMemoryAdapter):
    """Adapter for a FAISS index.

    The scores are cosines, or depend only on rank if the index cannot return its vectors.
    """

    filter_argument = "metadata"

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self._rows: dict[str, int] = {}

    def search(self, text: str | None, vector: Vector | None, n: int, where: Any) -> NearestDocuments:
        assert vector is not None, "FAISS is always searched by a vector"
        options = {} if where is None else {"filter": where, "fetch_k": self.count()}
        results = self._store.similarity_search_with_score_by_vector(vector.tolist(), k=n, **options)
        documents = self.with_ids(document for document, _ in results)
        by_vectors = self.by_vectors(documents, vector)
        return by_vectors if len(by_vectors.documents) == len(documents) else self.by_rank(documents)

    def nearest_ids(self, vector: Vector, n: int) -> dict[str, float] | None:
        query = np.array([vector], np.float32)
        _, rows = self._store.index.search(unit(query) if self._store._normalize_L2 else query, n)
        nearest = [self._store.index_to_docstore_id[row] for row in rows[0].tolist() if row >= 0]
        scores = self.scores(vector, nearest)
        return scores if len(scores) == len(nearest) else None

    def vectors(self, ids: Sequence[str]) -> dict[str, Vector]:
        rows = {id: row for id in ids if (row := self._row(id)) is not None}
        try:
            units = unit(self._store.index.reconstruct_batch(list(rows.values()))) if rows else ()
        except RuntimeError:  # FAISS raises this for an index without direct access
            return {}
        return dict(zip(rows, units, strict=True))

    def count(self) -> int:
        return len(self._store.index_to_docstore_id)

    def ids(self) -> Iterator[str]:
        return iter(list(self._store.index_to_docstore_id.values()))

    def _row(self, id: str) -> int | None:
        """Return the row of an id, or None; a deletion renumbers the rows."""
        ids = self._store.index_to_docstore_id
        row = self._rows.get(id)
        if row is None or ids.get(row) != id:
            self._rows = {id: row for row, id in ids.items()}
            row = self._rows.get(id)
        return row


# pymilvus.DataType.INT64
INT64 = 5


class MilvusAdapter(ReadableAdapter):
    """Adapter for a Milvus collection.

    Ids are read from the metadata, because langchain-milvus returns primary keys only there. A store with several
    vectors per text, or with sparse vectors, is searched by text and returns no cosines.
    """

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

    def _document(self, entity: dict[str, Any]) -> Document:
        document: Document = self._store._parse_document(dict(entity))
        document.id = str(entity[self._store._primary_field])
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
        with closing(pages):
            while page := pages.next():
                yield from page


_DAY = timedelta(days=1)


class PGVectorAdapter(StoreAdapter):
    """Adapter for a PGVector collection. It translates filters if the metadata are stored as JSONB."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        if getattr(store, "use_jsonb", True):  # with JSON, ``$and`` and ``$or`` silently match nothing
            self.dialect = PGVectorDialect()

    def search(self, text: str | None, vector: Vector | None, n: int, where: Any) -> NearestDocuments:
        """Implement :meth:`StoreAdapter.search` without reading the vectors, which takes half of the time."""
        store = self._store
        if not hasattr(store, "_make_sync_session"):
            return super().search(text, vector, n, where)
        numbers = self._embeddings().embed_query(text or "") if vector is None else vector.tolist()
        row, distance = store.EmbeddingStore, store.distance_strategy(numbers).label("distance")
        with store._make_sync_session() as session:
            if (collection := store.get_collection(session)) is None:
                return super().search(text, vector, n, where)
            conditions = [row.collection_id == collection.uuid]
            if where is not None:
                conditions.append(store._create_filter_clause(where))
            query = session.query(row.id, row.document, row.cmetadata, distance).filter(*conditions)
            rows = query.order_by(distance).limit(n).all()
        return self.convert_scores(
            [(Document(id=str(id), page_content=text, metadata=metadata), score) for id, text, metadata, score in rows]
        )


class PGVectorDialect(MongoDialect):
    """Filter language of PGVector.

    Comparisons also match elements of lists. ``$in`` compares strings, so it cannot distinguish 1 from ``"1"``.
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
        if (seconds := canonical_to_seconds(operand)) is not None:
            return self._around(key, operator, seconds)
        return {key: {operator: operand}} if is_text(operand) or is_number(operand) else None

    def _is_one_of(self, key: str, operands: Sequence[Any]) -> dict[str, Any] | None:
        texts, truths, numbers, others = by_kind(operands)
        parts: list[dict[str, Any] | None] = [{key: {"$eq": value}} for value in (*truths, *numbers)]
        parts += [at_time(self, key, other) for other in others]
        return self.any_of([*parts, {key: {"$in": texts}}] if texts else parts)

    def _contains(self, key: str, operand: Any) -> dict[str, Any] | None:
        element = self._is_one_of(key, (operand,))  # JSON path also compares the elements of lists
        if not isinstance(operand, str) or element is None:
            return element
        pattern = "".join("\\" + c if c in "\\%_" else c for c in operand)
        return self.some([{key: {"$eq": operand}}, {key: {"$like": f"%{pattern}%"}}])

    def _around(self, key: str, operator: str, seconds: float) -> dict[str, Any] | None:
        """Return a condition for times stored as strings, a day wider, because local dates differ from UTC dates."""
        try:
            moment = datetime.fromtimestamp(seconds, UTC)
            if ORDERINGS[operator].is_lower_bound:
                return {key: {"$gte": (moment - _DAY).date().isoformat()}}
            return {key: {"$lt": (moment + 2 * _DAY).date().isoformat()}}
        except (ValueError, OverflowError):  # before the year 1, after 9999
            return None


_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]+")


class QdrantAdapter(ReadableAdapter):
    """Adapter for a Qdrant collection.

    A search by a vector calls the client directly, which saves langchain-qdrant's request for the configuration. A
    store in hybrid or sparse mode is searched by text and returns no cosines. Its ids are read from the metadata,
    because langchain-qdrant returns them only there.
    """

    id_keys = ("_id",)

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.is_local = type(getattr(store.client, "_client", None)).__name__ == "QdrantLocal"
        self.searches_by_vector = store.retrieval_mode == "dense"
        self.dialect = QdrantDialect(store.metadata_payload_key)
        self._is_cosine = store.distance == "Cosine"

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
        if self._is_cosine:
            return NearestDocuments([(self._document(point), float(point.score)) for point in answer.points])
        return self.by_vectors([self._document(point) for point in answer.points], vector)

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


class QdrantDialect(Dialect[Any]):
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
            return self._is_one_of(key, operand)
        if operator == "$contains":
            return self._contains(key, operand)
        if (seconds := canonical_to_seconds(operand)) is not None:
            return self._in_time(key, operator, seconds)
        return self._range(key, **{operator[1:]: operand}) if is_number(operand) else None

    def _is_one_of(self, key: str, operands: Sequence[Any]) -> Any | None:
        texts, truths, numbers, others = by_kind(operands)
        parts = [self._field(key, match=self._models.MatchValue(value=truth)) for truth in truths]
        parts += [self._range(key, gte=number, lte=number) for number in numbers]
        parts += [at_time(self, key, other) for other in others]
        return self.any_of([*parts, self._field(key, match=self._models.MatchAny(any=texts))] if texts else parts)

    def _contains(self, key: str, operand: Any) -> Any | None:
        element = None if isinstance(operand, CanonicalTime) else self._is_one_of(f"{key}[]", (operand,))
        if element is None or not isinstance(operand, str):
            return element
        no_list = self._models.Filter(must=[self._empty(f"{key}[]")], must_not=[self._empty(key)])
        return self.some([element, no_list])

    def _in_time(self, key: str, operator: str, seconds: float) -> Any | None:
        """Return a condition for rows whose time may match, or None if Qdrant cannot express the time.

        Values that Qdrant cannot parse match, too, unless they are numbers: they may be times in another format.
        """
        try:
            bound, second = datetime.fromtimestamp(seconds, UTC), timedelta(seconds=1)
            outside = {"lt": bound - second} if ORDERINGS[operator].is_lower_bound else {"gt": bound + second}
        except (ValueError, OverflowError):  # before the year 1, after 9999
            return None
        certainly_outside = self._field(key, range=self._models.DatetimeRange(**outside))
        number = self._range(key, gte=-sys.float_info.max)
        return self._models.Filter(must_not=[certainly_outside, number, self._empty(key)])

    def _range(self, key: str, **bounds: float) -> Any:
        return self._field(key, range=self._models.Range(**bounds))

    def _field(self, key: str, **condition: Any) -> Any:
        return self.every([self._models.FieldCondition(key=key, **condition)])

    def _empty(self, key: str) -> Any:
        return self._models.IsEmptyCondition(is_empty=self._models.PayloadField(key=key))

    def every(self, parts: list[Any]) -> Any:
        return self._models.Filter(must=parts)

    def some(self, parts: list[Any]) -> Any:
        return self._models.Filter(should=parts)
