"""Fixtures and helpers for the tests of stores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, cast

import numpy as np
import pytest

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.records import Scope
from langchain_hybridgraph.stores.protocols import (
    AcceptsChunks,
    HasGraph,
    HasMemory,
    HasParents,
    HasSessions,
    HasVectors,
    ReadsChunks,
    ReadsIndex,
    SearchesKeywords,
    SearchesVectors,
)
from langchain_hybridgraph.testing.embedding import HashedWords
from langchain_hybridgraph.testing.samples import CHUNKS, PARENTS


class FullStore(
    ReadsChunks,
    SearchesVectors,
    SearchesKeywords,
    HasParents,
    HasVectors,
    HasMemory,
    HasSessions,
    HasGraph,
    ReadsIndex,
    AcceptsChunks,
    Protocol,
):
    """A store that implements all protocols tested by the suite. Type checkers need this class."""


class StoreTests:
    """Fixtures and helpers that the tests of the suite share.

    :class:`~langchain_hybridgraph.testing.StoreSuite` describes which of them a subclass overrides.
    """

    embedding = HashedWords()

    @pytest.fixture
    def store(self) -> Any:
        """Return the empty store to test."""
        raise NotImplementedError("override the fixture store, which returns the empty store to test")

    @pytest.fixture
    def open_tenant(self, store: Any) -> Callable[[str], AbstractContextManager[Any]]:
        """Return a function that takes a tenant and opens the store for it; the function returns a context manager.

        The suite opens only one tenant at a time.
        """
        self._require("tenants", store)
        raise NotImplementedError("override the fixture open_tenant, or declare that the store lacks 'tenants'")

    @pytest.fixture
    def open_again(self, store: Any) -> Callable[[], AbstractContextManager[Any]]:
        """Return a function that opens ``store`` a second time, as another process would.

        The function returns a context manager.
        """
        self._require("several processes", store)
        raise NotImplementedError("override open_again, or declare that the store lacks 'several processes'")

    @pytest.fixture
    def full_store(self, store: Any) -> FullStore:
        """Return the store with ``CHUNKS`` and ``PARENTS`` in it."""
        self.fill(store, CHUNKS, PARENTS)
        return cast(FullStore, store)

    def fill(self, store: Any, chunks: Sequence[Chunk], parents: Sequence[Chunk] = ()) -> None:
        """Write chunks and parents, and make them visible to searches."""
        store.upsert(chunks, parents=parents)
        store.flush()

    def _read(self, store: ReadsChunks, ids: Sequence[str], scope: Scope | None = None) -> dict[str, Chunk]:
        return store.read(ids, scope or Scope(), {chunk.id: chunk for chunk in CHUNKS})

    def _require(self, feature: str, store: Any) -> FullStore:
        """Return the store; skip the test if the store declares that it lacks the feature."""
        lacks: Mapping[str, str] = getattr(store, "lacks", {})
        if feature in lacks:
            pytest.skip(f"{type(store).__name__} lacks {feature}: {lacks[feature]}")
        return cast(FullStore, store)

    def _cosines(self, text: str) -> dict[str, float]:
        texts = [text, *(chunk.text for chunk in CHUNKS)]
        vectors = np.array([self.embedding.embed_query(each) for each in texts])
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return dict(zip((chunk.id for chunk in CHUNKS), (vectors[1:] @ vectors[0]).tolist(), strict=True))
