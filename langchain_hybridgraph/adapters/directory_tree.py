"""Directory tree of the texts in a vector store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from langchain_hybridgraph.execution.forking import ForkSafeLock
from langchain_hybridgraph.stores.chunk_rows import TreePosition
from langchain_hybridgraph.stores.tree import ScopedTree, TreeState, UriNumbers

if TYPE_CHECKING:
    from langchain_hybridgraph.adapters.keyword_index import DocumentIndex
    from langchain_hybridgraph.records import Chunk, Mask, Scope, Vector

# Function that takes a vector, ids and n, and returns at least the n nearest of the ids, nearest first.
Nearest = Callable[["Vector", Sequence[str], int], Sequence[str]]


class ListedTree:
    """Directory tree of the texts in a :class:`DocumentIndex`.

    It is built by the same rules as the tree of the embedded store.
    """

    def __init__(self, texts: DocumentIndex, nearest: Nearest) -> None:
        self._texts = texts
        self._nearest = nearest
        self._growing = ForkSafeLock()
        self._places = UriNumbers()
        self._state: _ListedRows | None = None

    def scoped(self, scope: Scope) -> ScopedTree:
        """Return the tree of the texts in a scope (the filter, tenant and time of a call)."""
        state = self._latest()
        mask = self._texts.allowed_rows(scope)
        allowed_rows = state.living_rows if mask is None else state.living_rows & mask[: len(state.living_rows)]
        return ScopedTree(state.tree_state, state, allowed_rows)

    def _latest(self) -> _ListedRows:
        with self._growing:
            version, texts, rows = self._texts.state()
            if self._state is None or self._state.version != version:
                new = range(len(self._places.of_row), rows)
                self._places.grow(rows, (TreePosition.of(row, texts[row]) for row in new if row in texts))
                self._state = _ListedRows(version, self._places, texts, self._nearest)
            return self._state


class _ListedRows:
    """Rows of a tree (``TreeRows``) for one version of a :class:`DocumentIndex`."""

    def __init__(self, version: int, places: UriNumbers, texts: Mapping[int, Chunk], nearest: Nearest) -> None:
        self.version = version
        self.living_rows: Mask = np.zeros(len(places.of_row), np.bool_)
        self.living_rows[list(texts)] = True
        self.tree_state = TreeState.of(places, self.living_rows)
        self._ids = {row: chunk.id for row, chunk in texts.items()}
        self._rows = {id: row for row, id in self._ids.items()}
        self._nearest = nearest

    @property
    def living(self) -> int:
        return len(self._ids)

    def ids(self, rows: Iterable[int]) -> list[str]:
        return [self._ids[row] for row in rows]

    def row(self, id: str) -> int:
        return self._rows.get(id, -1)

    def nearest(self, vector: Vector, rows: Sequence[int], n: int) -> Sequence[int]:
        return [self._rows[id] for id in self._nearest(vector, self.ids(rows), n)]
