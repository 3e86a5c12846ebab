"""Directories and documents of a store in Milvus."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from langchain_hybridgraph.stores.chunk_rows import TreePosition
from langchain_hybridgraph.stores.milvus.index import CHUNK_FIELDS
from langchain_hybridgraph.stores.milvus.row_cache import FRESH
from langchain_hybridgraph.stores.milvus.rows import stored_row
from langchain_hybridgraph.stores.tree import ScopedTree, TreeState, UriNumbers

if TYPE_CHECKING:
    from langchain_hybridgraph.chunks import Mask, Vector
    from langchain_hybridgraph.records import Scope
    from langchain_hybridgraph.stores.milvus.index import MilvusIndex
    from langchain_hybridgraph.stores.milvus.rows import StoredRow


class Tree:
    """The tree of a tenant's directories and documents.

    The tree is read at first use. It is read again after a write, and when it is more than ``FRESH`` seconds old.
    Reading takes one call per 16,384 chunks, so the tree is suitable for thousands of documents rather than millions.
    """

    def __init__(self, index: MilvusIndex) -> None:
        self._index = index
        self._state: tuple[float, _CollectionRows] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling, without the cached tree."""
        return {"_index": self._index, "_state": None}

    def scoped(self, scope: Scope) -> ScopedTree:
        """Return the part of the tree that is visible in a scope."""
        self._index.check_scope(scope)
        if self._state is None or self._index.written_at > self._state[0] or time.monotonic() > self._state[0] + FRESH:
            self._state = time.monotonic(), _CollectionRows(self._index)
        state = self._state[1]
        allowed_rows = np.array([row.is_in(scope) for row in state.rows], np.bool_)
        return ScopedTree(state.tree_state, state, allowed_rows)


class _CollectionRows:
    """All chunks of a tenant as rows, in the order in which they were added or last changed.

    See ``directory_tree.TreeRows`` for the methods.
    """

    def __init__(self, index: MilvusIndex) -> None:
        entities = index.read_all(index.names.chunks, index.of_tenant(), [*CHUNK_FIELDS, "vector"])
        self.rows: Sequence[StoredRow] = sorted(map(stored_row, entities), key=lambda row: row.added_at)
        self.living_rows: Mask = np.ones(len(self.rows), np.bool_)
        places = UriNumbers()
        places.grow(len(self.rows), (TreePosition.of(number, row.chunk) for number, row in enumerate(self.rows)))
        self.tree_state = TreeState.of(places, self.living_rows)
        self._numbers = {row.chunk.id: number for number, row in enumerate(self.rows)}

    @property
    def living(self) -> int:
        return len(self.rows)

    def ids(self, rows: Iterable[int]) -> list[str]:
        return [self.rows[row].chunk.id for row in rows]

    def row(self, id: str) -> int:
        return self._numbers.get(id, -1)

    def nearest(self, vector: Vector, rows: Sequence[int], n: int) -> Sequence[int]:
        cosines = {row: float(own @ vector) for row in rows if (own := self.rows[row].vector) is not None}
        return sorted(cosines, key=lambda row: (-cosines[row], row))[:n]
