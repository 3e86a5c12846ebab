"""A Chroma collection as the source of a copy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import EmbeddingMismatchError, StoreError
from langchain_hybridgraph.migration.chroma_server import ChromaServer, guarded, open_folder
from langchain_hybridgraph.records import Query, ScoredId, SourceResult
from langchain_hybridgraph.stores.embedded.folder.embedding_check import SAME_VECTOR, Embedding
from langchain_hybridgraph.stores.engines.vector_matrix import unit
from langchain_hybridgraph.stores.transfer import ChunkRecord, Kind, RecordPage, StoreFacts

# Number of texts embedded to check that the stored vectors come from the model that was passed.
PROBED = 3


class ChromaCollectionSource:
    """Chroma collection, in a folder or on a server, from which texts, vectors and flat metadata are copied.

    ``embedding`` is the model that computed the collection's vectors, and ``embedding_name`` is its name.
    ``collection`` may be None if there is only one collection. Raises StoreError if the collection cannot be opened,
    and EmbeddingMismatchError if the stored vectors were computed by another model.
    """

    kinds: Sequence[Kind] = ("chunks",)

    def __init__(
        self,
        place: Path | ChromaServer,
        collection: str | None,
        embedding: Embedding,
        embedding_name: str,
        language: str = "english",
    ) -> None:
        self._client = place.connect() if isinstance(place, ChromaServer) else open_folder(place)
        self._embedding_name, self._language = embedding_name, language
        where = place.name if isinstance(place, ChromaServer) else str(place)
        with guarded("list the collections of", where):
            names = sorted(each.name for each in self._client.list_collections())
        if collection is None and len(names) == 1:
            [collection] = names
        if not names:
            raise StoreError(f"{where} has no collections, so there is nothing to copy")
        if collection is None:
            raise StoreError(f"{where} has several collections; pass collection=…, one of: {', '.join(names)}")
        if collection not in names:
            raise StoreError(f"{where} has no collection {collection!r}; its collections are: {', '.join(names)}")
        with guarded("open", f"{where}#{collection}"):
            self._collection = self._client.get_collection(collection, embedding_function=None)
        self.name = f"{where}#{collection}"
        self._orders_by_cosine = self._space() == "cosine" or self._has_unit_vectors()
        self._check(embedding)

    def facts(self) -> StoreFacts:
        """Return the facts about the source, such as its embedding and dimension."""
        first = next(iter(self.pages("", "chunks", None, 1)), None)
        dimension = None if first is None else len(first.records[0].vector)
        return StoreFacts(
            embedding=self._embedding_name,
            dimension=dimension,
            tenants=("",),
            has_tenants=False,
            language=self._language,
            version=None,
        )

    def counts(self, tenant: str) -> Mapping[str, int]:
        """Return ``{"chunks": n}``, where n is the number of records in the collection."""
        with guarded("count", self.name):
            return {"chunks": int(self._collection.count())}

    def pages(self, tenant: str, kind: Kind, after: Any, size: int) -> Iterator[RecordPage]:
        """Yield pages of ``size`` records in Chroma's own order; skip the first ``after`` records."""
        offset = int(after or 0)
        while True:
            with guarded("read", self.name):
                page = self._collection.get(limit=size, offset=offset, include=["documents", "metadatas", "embeddings"])
            if not page["ids"]:
                return
            offset += len(page["ids"])
            vectors = unit(np.asarray(page["embeddings"], np.float32))
            parts = zip(page["ids"], page["documents"], page["metadatas"], vectors, strict=True)
            records = [
                ChunkRecord(Chunk(id, text or "", dict(metadata or {})), vector) for id, text, metadata, vector in parts
            ]
            yield RecordPage(records, offset)

    def vector_search(self, tenant: str, query: Query, n: int) -> SourceResult | None:
        """Return the ``n`` records nearest to the query vector by cosine.

        The result is None if Chroma does not order this collection by cosine.
        """
        assert query.vector is not None, "a collection is searched by vector"
        if not self._orders_by_cosine:
            return None
        with guarded("search", self.name):
            answer = self._collection.query(
                query_embeddings=query.vector, n_results=min(n, self._collection.count()), include=["embeddings"]
            )
        cosines = unit(np.asarray(answer["embeddings"][0], np.float32)) @ query.vector
        entries = [ScoredId(id, float(cosine)) for id, cosine in zip(answer["ids"][0], cosines, strict=True)]
        return SourceResult(sorted(entries, key=lambda entry: (-entry.score, entry.id)))

    def keyword_search(self, tenant: str, query: Query, n: int) -> SourceResult | None:
        """Return None, because a collection has no keyword index."""
        return None

    def close(self) -> None:
        """Close the client."""
        with guarded("close", self.name):
            self._client.close()

    def _space(self) -> str:
        index = self._collection.configuration.get("hnsw") or self._collection.configuration.get("spann") or {}
        return str(index.get("space", "l2"))

    def _has_unit_vectors(self) -> bool:
        """Return whether the first few vectors have length 1.

        If so, all of Chroma's distance functions give the same order.
        """
        with guarded("read", self.name):
            vectors = self._collection.get(limit=PROBED, include=["embeddings"])["embeddings"]
        return bool(np.allclose(np.linalg.norm(np.asarray(vectors, np.float32), axis=-1), 1.0, atol=1e-3))

    def _check(self, embedding: Embedding) -> None:
        """Raise EmbeddingMismatchError if the model's vectors for the first texts all differ from the stored ones."""
        for page in self.pages("", "chunks", None, PROBED):
            texts = [record.chunk.text for record in page.records]
            own = unit(embedding.embed_documents(texts))
            stored_vectors = np.stack([record.vector for record in page.records])
            if own.shape != stored_vectors.shape:
                raise EmbeddingMismatchError(
                    f"{self.name} has vectors of {stored_vectors.shape[1]} dimensions, but {self._embedding_name} "
                    f"returns {own.shape[1]} dimensions: pass the embedding that computed the vectors"
                )
            if (cosine := float((own * stored_vectors).sum(axis=1).max())) < SAME_VECTOR:
                raise EmbeddingMismatchError(
                    f"the vectors of {self.name} were not computed by {self._embedding_name} (the cosine for the same "
                    f"text is {cosine:.2f}): pass the embedding that computed the vectors"
                )
            return
