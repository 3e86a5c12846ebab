"""Adapter for LangChain's InMemoryVectorStore."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from langchain_core.documents import Document

from langchain_hybridgraph.adapters.vector_stores.adapter import SAMPLED, NearestDocuments, StoreAdapter
from langchain_hybridgraph.stores.vectors import unit

if TYPE_CHECKING:
    from langchain_hybridgraph.records import Vector


class InMemoryAdapter(StoreAdapter):
    """Adapter for InMemoryVectorStore, whose scores are cosines and whose dictionary can be read directly."""

    searches_by_vector = True
    gives_vectors = True
    can_list = True
    is_in_memory = True

    def as_filter(self, admits: Callable[[Document], bool]) -> Callable[[Document], bool]:
        """Implement :meth:`StoreAdapter.as_filter`."""
        return admits

    def search(self, text: str | None, vector: Vector | None, n: int, where: Any) -> NearestDocuments:
        """Implement :meth:`StoreAdapter.search`."""
        assert vector is not None, "the store is always searched by a vector"
        return self.convert_scores(
            self._store.similarity_search_with_score_by_vector(vector.tolist(), k=n, filter=where)
        )

    def convert_scores(self, results: Sequence[tuple[Document, float]]) -> NearestDocuments:
        """Implement :meth:`StoreAdapter.convert_scores`."""
        return NearestDocuments(list(results))

    def vectors(self, ids: Sequence[str]) -> dict[str, Vector]:
        """Implement :meth:`StoreAdapter.vectors`."""
        entries = self._store.store
        return {id: unit(np.asarray(entries[id]["vector"], np.float32)) for id in ids if id in entries}

    def count(self) -> int:
        """Implement :meth:`StoreAdapter.count`."""
        return len(self._store.store)

    def documents(self) -> Iterator[Document]:
        """Implement :meth:`StoreAdapter.documents`."""
        return iter(self.get(list(self.ids())))

    def ids(self) -> Iterator[str]:
        """Implement :meth:`StoreAdapter.ids`."""
        return iter(list(self._store.store))

    def sample(self) -> Sequence[Vector]:
        """Implement :meth:`StoreAdapter.sample`."""
        ids = list(self.ids())
        return list(self.vectors(ids[:: max(1, len(ids) // SAMPLED)]).values())
