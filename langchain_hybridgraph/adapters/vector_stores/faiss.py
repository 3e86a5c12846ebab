"""Adapter for langchain-community's FAISS."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from langchain_hybridgraph.adapters.vector_stores.adapter import SAMPLED, NearestDocuments, StoreAdapter
from langchain_hybridgraph.stores.vectors import unit

if TYPE_CHECKING:
    from langchain_hybridgraph.records import Vector


class FAISSAdapter(StoreAdapter):
    """Adapter for a FAISS index.

    The scores are cosines, computed from the stored vectors. If the index cannot return its vectors, the scores depend
    only on rank.
    """

    searches_by_vector = True
    gives_vectors = True
    can_list = True
    is_in_memory = True
    filters_metadata_only = True

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self._rows: dict[str, int] = {}

    def _embeddings(self) -> Embeddings:
        # A FAISS store may have a function instead of an Embeddings object.
        return self._store.embeddings or _FunctionEmbeddings(self._store._embed_query)

    def as_filter(self, admits: Callable[[Document], bool]) -> Callable[[dict[str, Any]], bool]:
        """Implement :meth:`StoreAdapter.as_filter`."""
        return lambda metadata: admits(Document(page_content="", metadata=metadata))

    def search(self, text: str | None, vector: Vector | None, n: int, where: Any) -> NearestDocuments:
        """Implement :meth:`StoreAdapter.search`."""
        assert vector is not None, "FAISS is always searched by a vector"
        options = {} if where is None else {"filter": where, "fetch_k": self.count()}
        results = self._store.similarity_search_with_score_by_vector(vector.tolist(), k=n, **options)
        documents = self.with_ids(document for document, _ in results)
        by_vectors = self.by_vectors(documents, vector)
        if len(by_vectors.documents) == len(documents):
            return by_vectors
        places = (1.0 - place / len(documents) for place in range(len(documents)))
        return NearestDocuments(list(zip(documents, places, strict=True)), are_cosines=False)

    def vectors(self, ids: Sequence[str]) -> dict[str, Vector]:
        """Implement :meth:`StoreAdapter.vectors`; the result is {} if the index cannot return a vector by its row."""
        rows = {id: row for id in ids if (row := self._row(id)) is not None}
        if not rows:
            return {}
        try:
            vectors = self._store.index.reconstruct_batch(np.fromiter(rows.values(), np.int64))
        except RuntimeError:  # FAISS raises this for an index without direct access
            return {}
        return dict(zip(rows, unit(np.asarray(vectors, np.float32)), strict=True))

    def count(self) -> int:
        """Implement :meth:`StoreAdapter.count`."""
        return len(self._store.index_to_docstore_id)

    def documents(self) -> Iterator[Document]:
        """Implement :meth:`StoreAdapter.documents`."""
        return iter(self.get(list(self.ids())))

    def ids(self) -> Iterator[str]:
        """Implement :meth:`StoreAdapter.ids`."""
        return iter(list(self._store.index_to_docstore_id.values()))

    def sample(self) -> Sequence[Vector]:
        """Implement :meth:`StoreAdapter.sample`."""
        ids = list(self.ids())
        return list(self.vectors(ids[:: max(1, len(ids) // SAMPLED)]).values())

    def _row(self, id: str) -> int | None:
        """Return the row of an id, or None.

        Rows are looked up again after a deletion, which renumbers them.
        """
        ids = self._store.index_to_docstore_id
        row = self._rows.get(id)
        if row is None or ids.get(row) != id:
            self._rows = {id: row for row, id in ids.items()}
            row = self._rows.get(id)
        return row


class _FunctionEmbeddings(Embeddings):
    """Embeddings object for a function that embeds one text."""

    def __init__(self, embed: Callable[[str], list[float]]) -> None:
        self._embed = embed

    def embed_query(self, text: str) -> list[float]:
        return self._embed(text)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self._embed(text) for text in texts]
