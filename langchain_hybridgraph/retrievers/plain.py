"""Any LangChain VectorStore, with a keyword index beside it, as a store that the pipeline can search."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.records import Chunk, Found, Query, Scope, Scored, cleaned
from langchain_hybridgraph.retrievers.documents import chunk_id, content_key
from langchain_hybridgraph.stores.columns import MetadataColumns
from langchain_hybridgraph.stores.vectors import cosines, unit
from langchain_hybridgraph.times import parse_end, parse_time

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.filters import Filter
    from langchain_hybridgraph.records import Mask, Vector
    from langchain_hybridgraph.stores.base import KeywordIndex

# How many Documents are asked for under which translated filter; is sent what came.
Search = Generator[tuple[int, Any], list[tuple[Document, float]], Found]

Engine = Literal["tantivy", "rank_bm25"]
PAGE = 1_000
# Up to so many texts Tantivy answers in about the time that a thread takes to begin.
QUICK_ROWS = 200_000
# A filter that the vector store does not understand is answered by asking for more, up to so many times k.
MOST_FETCHED = 20_000
# What a cosine with an arbitrary entry of a Chroma collection is, is learned from so many pages of so many entries.
PAGES_SAMPLED, PAGE_SAMPLED = 8, 32
FEWEST_SAMPLED = 50


class Texts:
    """Documents and a keyword index over them, in memory.

    ``id_key`` names the metadata that holds an id. ``stored`` is what the vector store has of them: a Document without
    an id gets that of the stored one with its text and source, else one made from these; of several with one id the
    last counts. ``stored_as`` maps the ids of those that are in the vector store to their ids there.
    """

    def __init__(
        self,
        documents: Iterable[Document],
        *,
        engine: Engine = "tantivy",
        language: str = "english",
        id_key: str | None = None,
        stored: Sequence[Document] = (),
    ) -> None:
        self.engine = engine
        known = {content_key(document): document.id for document in stored if document.id is not None}
        self.chunks: dict[str, Chunk] = {}
        self.id_of: dict[tuple[str, str], str] = {}
        for document in documents:
            named = id_key is not None or document.id is not None
            id = chunk_id(document, id_key) if named else known.get(content_key(document)) or chunk_id(document)
            self.chunks[id] = Chunk(id, cleaned(document.page_content), document.metadata)
            if not named:
                self.id_of[content_key(document)] = id
        ours = {str(d.metadata.get(id_key)) if id_key else d.id: d.id for d in stored if d.id is not None}
        self.stored_as = {id: theirs for id, theirs in ours.items() if id in self.chunks}
        self.ids = list(self.chunks)
        self.row_of = {id: row for row, id in enumerate(self.ids)}
        self.columns = MetadataColumns(self._metadata)
        self._timed = any("valid_from" in c.metadata or "valid_until" in c.metadata for c in self.chunks.values())
        self.index = _engine(engine, language)
        self.index.apply(1, ((row, self.chunks[id].text) for row, id in enumerate(self.ids)), [])

    def allowed(self, scope: Scope) -> Mask | None:
        """Which rows are in the scope; None for all."""
        if scope.filter is None and scope.tenant is None and not self._timed:
            return None
        mask = np.ones(len(self.ids), np.bool_)
        if scope.tenant is not None or self._timed:
            unfiltered = (in_scope(self.chunks[id], scope, filtered=False) for id in self.ids)
            mask = np.fromiter(unfiltered, np.bool_, len(self.ids))
        if scope.filter is not None:
            mask &= self.columns.mask(scope.filter, len(mask))
        return mask

    def _metadata(self, start: int, stop: int) -> Iterator[tuple[int, Mapping[str, Any]]]:
        for row, id in islice(enumerate(self.ids), start, stop):
            yield row, filterable(self.chunks[id])


class PlainStore:
    """A LangChain VectorStore and Texts, as the store of a pipeline.

    Filters are translated for stores that are known (Chroma, PGVector, Qdrant); other stores are asked for more until
    enough of the answers pass. Every hit is checked against its own metadata in the end: a tenant is what stands under
    ``tenant`` there.
    """

    @property
    def quick_words(self) -> bool:
        """Whether the keyword side answers before a thread for it has begun; rank_bm25 looks at every text."""
        return self.texts is not None and self.texts.engine == "tantivy" and len(self.texts.ids) <= QUICK_ROWS

    def __init__(self, vector_store: VectorStore, texts: Texts | None, *, id_key: str | None = None) -> None:
        self.vector_store = vector_store
        self.texts = texts
        self.id_key = id_key
        self._similar = _similarity(vector_store)

    def is_of(self, vector_store: VectorStore, texts: Texts | None, id_key: str | None) -> bool:
        """Whether it was made of these."""
        return self.vector_store is vector_store and self.texts is texts and self.id_key == id_key

    def read(self, ids: Sequence[str], scope: Scope, known: Mapping[str, Chunk]) -> dict[str, Chunk]:
        """The chunks among ``ids`` that the scope admits.

        They are what the search brought along, texts at hand, or what a store gives that can be asked by id.
        """
        texts = self.texts.chunks if self.texts else {}
        found = {id: chunk for id in ids if (chunk := known.get(id) or texts.get(id)) is not None}
        missing = [id for id in ids if id not in found]
        if missing:
            found |= {entry.id: entry.chunk for entry in self._by_ids(missing) if entry.chunk is not None}
        return {id: found[id] for id in ids if id in found and in_scope(found[id], scope)}

    def current(self, ids: Sequence[str]) -> dict[str, Chunk | None]:
        """What the vector store has now of those among ``ids`` that it had when the texts were read; None: deleted."""
        stored_as = self.texts.stored_as if self.texts else {}
        ours = {stored_as[id]: id for id in ids if id in stored_as}
        if not ours:
            return {}
        there = {document.id: document for document in self._similar.get(list(ours))}
        return {
            id: None if (now := there.get(theirs)) is None else Chunk(id, cleaned(now.page_content), now.metadata)
            for theirs, id in ours.items()
        }

    def _by_ids(self, ids: Sequence[str]) -> list[Scored]:
        try:
            documents = self._similar.get(ids)
        except NotImplementedError:
            return []
        return list(self._entries((document, 0.0) for document in documents))

    def vector_search(self, query: Query, n: int) -> Found:
        """The n nearest Documents in the query's scope, best first, ties by id; a cosine where the store tells one."""
        vector = self._similar.vector(query)
        search = self._until_enough(query, n, vector)
        fetched, where = next(search)
        while True:
            try:
                fetched, where = search.send(self._similar.search(query.text, vector, fetched, where))
            except StopIteration as done:
                return cast(Found, done.value)

    def _until_enough(self, query: Query, n: int, vector: Vector | None) -> Search:
        """Asks for more and more Documents until n of them are in scope, or there are no more."""
        where = self._translated(query.scope.filter)
        fetched = n if where is not None or _is_free(query.scope) else 2 * n
        while True:
            documents = yield fetched, where
            entries = [entry for entry in self._entries(documents) if in_scope(entry.chunk, query.scope)]  # type: ignore[arg-type]  # entries made here carry their chunk
            if len(entries) >= n or len(documents) < fetched or fetched >= MOST_FETCHED:
                short = None if _is_free(query.scope) or where is not None else "filter-post-applied"
                background = None if vector is None else self._similar.background(vector)
                return Found(sorted(entries, key=_best_first)[:n], vector, background=background, reason=short)
            fetched *= 4

    def vector_scores(self, vector: Vector, ids: Sequence[str]) -> dict[str, float]:
        """The cosines of these chunks, where the store gives its vectors."""
        return self._similar.scores(vector, ids)

    def keyword_search(self, query: Query, n: int) -> Found:
        """The n best Documents by BM25."""
        if self.texts is None or query.text is None:
            return Found([], reason="no-keyword-index")
        found = self.texts.index.search(query.text, n, self.texts.allowed(query.scope))
        entries = sorted((Scored(self.texts.ids[row], score) for row, score in found), key=_best_first)
        rest = entries[-1].score if 0 < n <= len(entries) else 0.0
        return Found(entries, bound=self.texts.index.bound(query.text), rest=rest)

    def keyword_scores(self, text: str, ids: Sequence[str]) -> dict[str, float]:
        """The BM25 of these chunks; those that share no word with the text are left out."""
        if self.texts is None:
            return {}
        rows = [self.texts.row_of[id] for id in ids if id in self.texts.row_of]
        return {self.texts.ids[row]: score for row, score in self.texts.index.scores(text, rows).items()}

    def _translated(self, filter: Filter | None) -> Any:
        """The filter in the store's own language; None where it has to be answered by asking for more.

        A store knows only the metadata that it was given, not the document's id that is derived from it.
        """
        if filter is None or ("document_id",) in filter.keys():  # noqa: SIM118 - a Filter is no dict
            return None
        return self._similar.translate(filter)

    def _entries(self, documents: Iterable[tuple[Document, float]]) -> Iterator[Scored]:
        chunks = self.texts.chunks if self.texts else {}
        alias = self.texts.id_of if self.texts else {}
        for document, score in documents:
            id = chunk_id(document, self.id_key)
            if id not in chunks:
                # A text that was handed in without an id and is stored with one.
                id = alias.get(content_key(document), id)
            yield Scored(id, score, Chunk(id, document.page_content, document.metadata))


class ChromaStore(PlainStore):
    """A langchain-chroma collection, which also gives its vectors."""

    def vectors(self, ids: Sequence[str]) -> NDArray[np.float32]:
        """The unit vectors of these chunks, len(ids) × dimension; zeros for an id without one."""
        assert isinstance(self._similar, _Chroma)
        known = self._similar.vectors(ids)
        width = len(next(iter(known.values()), ()))
        return np.stack([known.get(id, np.zeros(width, np.float32)) for id in ids])


class AwaitedStore(PlainStore):
    """A VectorStore that says ``awaits_search``: its search is awaited, by a vector or by a text."""

    async def avector_search(self, query: Query, n: int) -> Found:
        """What :meth:`vector_search` gives, awaited."""
        vector = query.vector
        search = self._until_enough(query, n, vector)
        fetched, where = next(search)
        while True:
            try:
                fetched, where = search.send(await self._asearch(query.text, vector, fetched, where))
            except StopIteration as done:
                return cast(Found, done.value)

    async def _asearch(
        self, text: str | None, vector: Vector | None, n: int, where: Any
    ) -> list[tuple[Document, float]]:
        assert isinstance(self._similar, _Other)
        store: Any = self.vector_store
        options = {} if where is None else {"filter": where}
        if vector is None:
            return self._similar.cosines(await store.asimilarity_search_with_score(text or "", k=n, **options))
        given = list(map(float, vector))
        return self._similar.cosines(await store.asimilarity_search_with_score_by_vector(given, k=n, **options))


def plain_store(vector_store: VectorStore, texts: Texts | None, *, id_key: str | None = None) -> PlainStore:
    """The store of a pipeline for this VectorStore."""
    other = AwaitedStore if getattr(vector_store, "awaits_search", False) else PlainStore
    kind = ChromaStore if _is_chroma(vector_store) else other
    return kind(vector_store, texts, id_key=id_key)


def in_scope(chunk: Chunk, scope: Scope, *, filtered: bool = True) -> bool:
    """Whether a chunk's own metadata puts it into the scope; a missing tenant refuses."""
    if scope.tenant is not None and chunk.metadata.get("tenant") != scope.tenant:
        return False
    if scope.as_of is not None and not _valid(chunk.metadata, scope.as_of):
        return False
    return not filtered or scope.filter is None or scope.filter.matches(filterable(chunk))


def filterable(chunk: Chunk) -> dict[str, Any]:
    """The metadata as filters see it: with the document's id, also where it was derived."""
    return {"document_id": chunk.document, **chunk.metadata}


def read_all(vector_store: VectorStore) -> list[Document] | None:
    """Every Document of a Chroma store, read page by page; None for stores that cannot be read so."""
    if not _is_chroma(vector_store):
        return None
    get: Any = vector_store.get  # type: ignore[attr-defined]  # langchain-chroma's own
    documents: list[Document] = []
    while True:
        page = _documents(get(limit=PAGE, offset=len(documents), include=["documents", "metadatas"]))
        documents += page
        if len(page) < PAGE:
            return documents


def read_those(vector_store: VectorStore, documents: Iterable[Document]) -> list[Document]:
    """Which of these Documents a store has, as it has them, asked by id; none for a store that cannot be asked."""
    ids = iter([document.id for document in documents if document.id is not None])
    stored: list[Document] = []
    try:
        while page := list(islice(ids, PAGE)):
            stored += vector_store.get_by_ids(page)
    except Exception:  # noqa: BLE001 - not implemented, awaited only or out of reach now: the Documents stay as handed in
        return []
    return stored


# -- what each kind of store says about similarity ----------------------------------------------------------------


class _Chroma:
    """langchain-chroma: distances of the collection's space, which become cosines."""

    def __init__(self, store: Any) -> None:
        self._store = store
        configuration = store._collection.configuration
        space = (configuration.get("hnsw") or configuration.get("spann") or {}).get("space", "l2")
        self._is_cosine = space == "cosine"
        self._sample: NDArray[np.float32] | None = None

    def vector(self, query: Query) -> Vector | None:
        if query.vector is not None:
            return np.asarray(query.vector, np.float32)
        if self._store.embeddings is None:
            raise ConfigurationError(
                "the Chroma store has no embedding_function, so it cannot embed a question: give it one"
            )
        return np.asarray(self._store.embeddings.embed_query(query.text or ""), np.float32)

    def translate(self, filter: Any) -> Any:
        from langchain_hybridgraph.stores.foreign_filters import chroma_where

        return chroma_where(filter)

    def search(self, text: str | None, vector: Vector | None, n: int, where: Any) -> list[tuple[Document, float]]:
        assert vector is not None, "Chroma is asked with a vector always"
        found = self._store.similarity_search_by_vector_with_relevance_scores(vector.tolist(), k=n, filter=where)
        if self._is_cosine:
            return [(document, 1.0 - distance) for document, distance in found]
        cosines = self.scores(vector, [document.id for document, _ in found])
        return [(document, cosines[document.id]) for document, _ in found]

    def background(self, vector: Vector) -> tuple[float, float] | None:
        """Mean and standard deviation of the cosines with arbitrary entries; None for too few of them."""
        if self._sample is None:
            self._sample = self._take_sample()
        if len(self._sample) < FEWEST_SAMPLED:
            return None
        found = cosines(self._sample, unit(vector))
        return (float(found.mean()), float(found.std())) if found.std() > 0 else None

    def _take_sample(self) -> NDArray[np.float32]:
        """A few pages of vectors from everywhere in the collection, taken once."""
        apart = max(1, self._store._collection.count() // PAGES_SAMPLED)
        pages = [
            self._store.get(limit=PAGE_SAMPLED, offset=page * apart, include=["embeddings"])["embeddings"]
            for page in range(PAGES_SAMPLED)
        ]
        filled = [np.asarray(page, np.float32) for page in pages if len(page)]
        return unit(np.vstack(filled)) if filled else np.zeros((0, 1), np.float32)

    def scores(self, vector: Vector, ids: Sequence[str]) -> dict[str, float]:
        vectors = self.vectors(ids)
        products = cosines(np.stack(list(vectors.values())), unit(vector)) if vectors else np.zeros(0)
        return dict(zip(vectors, products.tolist(), strict=True))

    def vectors(self, ids: Sequence[str]) -> dict[str, Vector]:
        """The unit vectors of those that are there."""
        if not ids:
            return {}  # Chroma refuses an empty list
        stored = self._store.get(ids=list(ids), include=["embeddings"])
        if not stored["ids"]:
            return {}  # all deleted: there is no width to reshape to
        matrix = unit(np.asarray(stored["embeddings"], np.float32).reshape(len(stored["ids"]), -1))
        return dict(zip(stored["ids"], matrix, strict=True))

    def get(self, ids: Sequence[str]) -> list[Document]:
        """Those that are there; the store's own ``get_by_ids`` fails for an entry without a text or metadata."""
        return _documents(self._store.get(ids=list(ids), include=["documents", "metadatas"]))


class _Other:
    """Any VectorStore: its relevance scores, else its scores if they are cosines, else its order alone."""

    def __init__(self, store: VectorStore) -> None:
        self._store = store

    def vector(self, query: Query) -> Vector | None:
        return query.vector

    def translate(self, filter: Any) -> Any:
        from langchain_hybridgraph.stores import foreign_filters

        translations: dict[str, Callable[[Any], Any]] = {
            "PGVector": foreign_filters.pgvector_filter,
            "QdrantVectorStore": foreign_filters.qdrant_filter,
        }
        translation = translations.get(type(self._store).__name__)
        if not getattr(self._store, "use_jsonb", True):
            # PGVector over JSON, not JSONB, silently matches nothing for $and and $or.
            translation = None
        return None if translation is None else translation(filter)

    def search(self, text: str | None, vector: Vector | None, n: int, where: Any) -> list[tuple[Document, float]]:
        options = {} if where is None else {"filter": where}
        if vector is not None:
            by_vector = getattr(self._store, "similarity_search_with_score_by_vector", None)
            if by_vector is None:
                raise ConfigurationError(
                    f"{type(self._store).__name__} cannot be searched by a vector with scores: leave vector= out"
                )
            return self.cosines(by_vector(list(map(float, vector)), k=n, **options))
        return self.cosines(self._store.similarity_search_with_score(text or "", k=n, **options))

    def scores(self, vector: Vector, ids: Sequence[str]) -> dict[str, float]:
        return {}

    def get(self, ids: Sequence[str]) -> list[Document]:
        return self._store.get_by_ids(ids)

    def background(self, vector: Vector) -> tuple[float, float] | None:
        return None

    def cosines(self, found: list[tuple[Document, float]]) -> list[tuple[Document, float]]:
        """Scores that mean something: what the store calls relevance, or cosines; else the rank, from 1 downwards."""
        if type(self._store).__name__ == "QdrantVectorStore":
            return found  # its scores are cosines, its relevance is (cosine + 1) / 2
        try:
            relevance = self._store._select_relevance_score_fn()
            return [(document, float(relevance(score))) for document, score in found]
        except NotImplementedError:
            scores = [score for _, score in found]
            if all(-1.001 <= score <= 1.001 for score in scores) and scores == sorted(scores, reverse=True):
                return found
            return [(document, 1.0 - place / len(found)) for place, (document, _) in enumerate(found)]


def _documents(answer: Mapping[str, Any]) -> list[Document]:
    """What Chroma's ``get`` answers, as Documents."""
    found = zip(answer["ids"], answer["documents"], answer["metadatas"], strict=True)
    return [Document(id=id, page_content=text or "", metadata=metadata or {}) for id, text, metadata in found]


def _similarity(store: VectorStore) -> _Chroma | _Other:
    return _Chroma(store) if _is_chroma(store) else _Other(store)


def _is_chroma(store: VectorStore) -> bool:
    """Whether this is langchain-chroma's store (or a subclass), told without importing it."""
    return any(kind.__name__ == "Chroma" and hasattr(kind, "_collection") for kind in type(store).__mro__)


def _engine(name: str, language: str) -> KeywordIndex:
    if name == "tantivy":
        from langchain_hybridgraph.stores.tantivy_index import TantivyIndex

        return TantivyIndex(None, language)
    if name == "rank_bm25":
        from langchain_hybridgraph.stores.rank_bm25_index import RankBM25Index

        return RankBM25Index(language)
    raise ConfigurationError(f"there is no keyword_engine {name!r}; there are 'tantivy' and 'rank_bm25'")


def _valid(metadata: Mapping[str, Any], as_of: float) -> bool:
    try:
        begins, ends = metadata.get("valid_from"), metadata.get("valid_until")
        return (begins is None or parse_time(begins) <= as_of) and (ends is None or parse_end(ends) >= as_of)
    except ValueError:
        # A value that is no time says nothing about validity.
        return True


def _is_free(scope: Scope) -> bool:
    return scope.filter is None and scope.tenant is None


def _best_first(entry: Scored) -> tuple[float, str]:
    return -entry.score, entry.id
