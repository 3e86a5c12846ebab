"""Protocols for stores that return and list chunks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.chunks import Chunk
    from langchain_hybridgraph.records import Edge, Scope, SourceResult


@runtime_checkable
class ReadsChunks(Protocol):
    """A store that can return chunks by id. The ``admit`` stage requires this protocol of every store."""

    def read(self, ids: Sequence[str], scope: Scope, result_chunks: Mapping[str, Chunk]) -> dict[str, Chunk]:
        """Return the chunks among ``ids`` that exist and are in the scope; omit the others.

        ``result_chunks`` contains the chunks that the searches returned, by id. A store that cannot look up ids takes
        the chunks from this mapping.
        """
        ...


@runtime_checkable
class ListsChunks(Protocol):
    """A store that can list its chunks."""

    def list_chunks(self, scope: Scope, n: int) -> SourceResult:
        """Return the first ``n`` chunks of a scope, in the order in which they were added or last changed."""
        ...


@runtime_checkable
class HasOriginals(Protocol):
    """A store that holds copies of chunks. The originals are kept elsewhere and may change independently."""

    def originals(self, ids: Sequence[str]) -> dict[str, Chunk | None]:
        """Return the current original for each id, or None if the original was deleted.

        Unknown ids are omitted. If the store cannot look up originals, the result is empty.
        """
        ...


@runtime_checkable
class KnowsCopies(Protocol):
    """A store that may contain equal texts under several ids (copies), and knows one id for all of them."""

    def ids_of_copies(self, chunks: Iterable[Chunk]) -> dict[str, str]:
        """Map the ids of chunks that have copies to the id that stands for all copies; omit the others."""
        ...


@runtime_checkable
class FindsContents(Protocol):
    """A store that can look up the ids of chunks by their text and source."""

    def ids_of_contents(self, contents: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Map each (text, source) pair to the id of the chunk with this text and source; omit unknown pairs.

        For a chunk without a source, the source in the pair is "".
        """
        ...


@runtime_checkable
class HasFastLookups(Protocol):
    """A store that reports whether its look-ups by id take well under a millisecond."""

    @property
    def has_fast_lookups(self) -> bool:
        """Whether look-ups take well under a millisecond, so that the caller need not start a thread for them."""
        ...


@runtime_checkable
class HasParents(Protocol):
    """A store that keeps parents. A parent is a larger text to which chunks belong."""

    @property
    def has_parents(self) -> bool:
        """Whether the store currently has any parents, or any chunk with the id of a parent."""
        ...

    def read_parents(self, ids: Sequence[str], scope: Scope) -> dict[str, Chunk]:
        """Return the parents among ``ids`` that exist in the store's tenant and are valid at the scope's time.

        A parent may also be a chunk. The pipeline applies the scope's filter.
        """
        ...


@runtime_checkable
class HasVectors(Protocol):
    """A store that returns the vectors of its chunks, which MMR needs to diversify results."""

    def vectors(self, ids: Sequence[str]) -> NDArray[np.float32]:
        """Return the unit vectors of these chunks, as an array of shape (len(ids), dimension).

        The row of an id without a vector contains zeros.
        """
        ...


@runtime_checkable
class HasDocuments(Protocol):
    """A store that can list the chunks of each document."""

    def document_chunks(self, document_ids: Sequence[str]) -> dict[str, set[str]]:
        """Return the ids of each document's current chunks and parents, or an empty set for an unknown document."""
        ...


@runtime_checkable
class ListsTitles(Protocol):
    """A store that can list the titles of its documents."""

    def title_edges(self) -> Sequence[Edge]:
        """Return the edges that lead to ``title:`` nodes, which represent the titles of documents."""
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
        """Return the chunks and parents with these ids, in the order of ``ids``; missing ids are left out.

        Chunks and parents that are not valid now are included.
        """
        ...

    def edges(self, ids: Sequence[str], *, backwards: bool = False) -> list[Edge]:
        """Return the edges that leave these chunks, or, with ``backwards``, the edges that arrive at them."""
        ...
