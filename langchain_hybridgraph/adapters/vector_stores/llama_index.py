"""Adapter for LlamaIndexVectorStore."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document

from langchain_hybridgraph.adapters.vector_stores.adapter import NearestDocuments, StoreAdapter

if TYPE_CHECKING:
    from langchain_hybridgraph.records import Vector


class LlamaIndexAdapter(StoreAdapter):
    """Adapter for a LlamaIndex index.

    Scores are known to be cosines only if the index uses SimpleVectorStore.
    """

    is_in_memory = True

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.can_list = store.can_list

    def convert_scores(self, results: Sequence[tuple[Document, float]]) -> NearestDocuments:
        """Implement :meth:`StoreAdapter.convert_scores`."""
        return NearestDocuments(list(results), are_cosines=self._store.gives_cosines)

    def vectors(self, ids: Sequence[str]) -> dict[str, Vector]:
        """Implement :meth:`StoreAdapter.vectors`."""
        vectors: dict[str, Vector] = self._store.vectors(ids)
        return vectors

    def count(self) -> int | None:
        """Implement :meth:`StoreAdapter.count`."""
        count: int | None = self._store.count()
        return count

    def documents(self) -> Iterator[Document]:
        """Implement :meth:`StoreAdapter.documents`."""
        return iter(self._store.documents())
