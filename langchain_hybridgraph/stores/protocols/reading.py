"""Protocols of stores that return and list chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.records import Chunk, Edge, Scope, SourceResult


@runtime_checkable
class ReadsChunks(Protocol):
    """The part of every store that the ``admit`` stage calls."""

    def read(self, ids: Sequence[str], scope: Scope, result_chunks: Mapping[str, Chunk]) -> dict[str, Chunk]:
        """Return the chunks among ``ids`` that exist in this tenant, pass the filter and are valid; omit the others.

        ``result_chunks`` holds the chunks that the searches returned; a store that cannot look up ids takes them from
        there.
        """
        ...


@runtime_checkable
class ListsChunks(Protocol):
    """A store that can list its chunks."""

    def list_chunks(self, scope: Scope, n: int) -> SourceResult:
        """Return the first n chunks of a scope, in the order in which they were added or last changed."""
        ...


@runtime_checkable
class HasOriginals(Protocol):
    """A store that holds copies of texts whose originals live elsewhere and may have changed since."""

    def originals(self, ids: Sequence[str]) -> dict[str, Chunk | None]:
        """Return the present chunk under each id, None for a deleted one; omit ids that never had an original."""
        ...


@runtime_checkable
class FindsContents(Protocol):
    """A store that can return the ids under which it holds given texts."""

    def ids_of_contents(self, contents: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Return the ids of the chunks with these texts and sources ("" for none); unknown pairs are left out."""
        ...


@runtime_checkable
class HasFastLookups(Protocol):
    """A store whose look-ups by id are local and take well under a millisecond."""

    @property
    def has_fast_lookups(self) -> bool:
        """Whether look-ups take well under a millisecond; if so, they are made without starting a thread."""
        ...


@runtime_checkable
class HasParents(Protocol):
    """A store that keeps the larger texts that chunks point to."""

    @property
    def has_parents(self) -> bool:
        """Whether the store has any parent now."""
        ...

    def read_parents(self, ids: Sequence[str], scope: Scope) -> dict[str, Chunk]:
        """Return the parents among ``ids`` that exist in this tenant and are valid; the filter is for children only."""
        ...


@runtime_checkable
class HasVectors(Protocol):
    """A store that returns the vectors of its chunks, which MMR needs to diversify results."""

    def vectors(self, ids: Sequence[str]) -> NDArray[np.float32]:
        """Return the unit vectors of these chunks, len(ids) × dimension; zeros for an id without one."""
        ...


@runtime_checkable
class HasDocuments(Protocol):
    """A store that knows the chunks of each document."""

    def document_chunks(self, document_ids: Sequence[str]) -> dict[str, set[str]]:
        """Return the ids of each document's present chunks and parents; an empty set for an unknown document."""
        ...


@runtime_checkable
class ListsTitles(Protocol):
    """A store that can list the titles of its documents."""

    def title_edges(self) -> Sequence[Edge]:
        """Return the edges that lead from the first chunks of documents to their titles."""
        ...


@runtime_checkable
class ReadsIndex(Protocol):
    """A store from which edge builders can read the chunks and edges of earlier ingests."""

    def document_ids(self) -> Sequence[str]:
        """Return the ids of all documents."""
        ...

    def find(self, scope: Scope) -> list[str]:
        """Return the ids of all chunks in this scope."""
        ...

    def get(self, ids: Sequence[str]) -> list[Chunk]:
        """Return the chunks and parents with these ids, in the order of ``ids``; missing ones are left out."""
        ...

    def edges(self, ids: Sequence[str], *, backwards: bool = False) -> list[Edge]:
        """Return the edges that leave these chunks (with ``backwards``, those that arrive at them)."""
        ...
