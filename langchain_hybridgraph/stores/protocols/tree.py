"""Protocols for trees of directories and documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from langchain_hybridgraph.chunks import Chunk, Mask, Vector
    from langchain_hybridgraph.records import Scope
    from langchain_hybridgraph.stores.protocols.graph import Nodes
    from langchain_hybridgraph.stores.protocols.search import SearchableStore


class Level(NamedTuple):
    """The children of one directory, sorted by uri.

    ``nodes``, ``uris`` and the three masks have one entry per child. Each mask contains the results of the
    :class:`Tree` method with the same name. ``chunks`` contains the ids of the first child's chunks, in the order of
    :meth:`Tree.chunks`, then those of the second child's chunks, and so on. For each chunk, ``owners`` contains the
    position in ``nodes`` of the child to which the chunk belongs.
    """

    nodes: Nodes
    uris: Sequence[str]
    chunks: Sequence[str]
    owners: Nodes
    is_directory: Mask
    is_document: Mask
    is_fully_visible: Mask


class Tree(Protocol):
    """A snapshot of a store's directories and documents, limited to those that one call may see.

    A node is a directory, a document or both, and is represented by a number. The tree omits a node if no chunk at or
    below it is in the call's scope.
    """

    def __len__(self) -> int:
        """Return the number of directories and documents."""
        ...

    def node(self, uri: str) -> int:
        """Return the number of a directory or document, or -1 if the tree does not contain it."""
        ...

    def uri(self, node: int) -> str:
        """Return the uri of a node."""
        ...

    def parent(self, node: int) -> int:
        """Return the directory that contains a node, or -1 for a node at the top of the tree."""
        ...

    def top(self) -> list[int]:
        """Return the nodes that are not in any directory, sorted by uri."""
        ...

    def children(self, node: int) -> list[int]:
        """Return the children of a directory, sorted by uri."""
        ...

    def level(self, nodes: Iterable[int]) -> Level:
        """Return a :class:`Level` with these nodes, as if they were the children of one directory."""
        ...

    def child_level(self, node: int) -> Level:
        """Return the children of a directory as a :class:`Level`; pass -1 for the top of the tree."""
        ...

    def is_directory(self, node: int) -> bool:
        """Return whether the node has children."""
        ...

    def is_document(self, node: int) -> bool:
        """Return whether the node has chunks of its own."""
        ...

    def is_fully_visible(self, node: int) -> bool:
        """Return whether the call may see all chunks at and below the node."""
        ...

    def chunks(self, node: int) -> list[str]:
        """Return the ids of a document's chunks, in the order in which they were added or last changed.

        The result is [] for a directory that is not a document.
        """
        ...

    def state(self, node: int) -> str:
        """Return a string that changes whenever a visible chunk at or below the node is added, deleted or changed."""
        ...

    def context_type(self, node: int) -> str | None:
        """Return ``context_type`` from the document's metadata, or None."""
        ...

    def types(self) -> set[str]:
        """Return all values of ``context_type`` in the documents' metadata; values of deleted documents may be
        included.
        """
        ...

    def nodes(self, ids: Sequence[str]) -> list[int]:
        """Return the node of each chunk, or -1 for a chunk that the call may not see."""
        ...

    def nearest(self, nodes: Sequence[int], vector: Vector, n: int) -> list[int]:
        """Return at most ``n`` of these nodes: those whose own chunks are most similar to a unit vector, nearest first.

        If none of the nodes has chunks of its own, return the first ``n``.
        """
        ...


@runtime_checkable
class HasTree(Protocol):
    """A store whose chunks are organised in directories."""

    def scoped_tree(self, scope: Scope) -> Tree:
        """Return the tree of the directories and documents that a call with this scope may see."""
        ...


class CurrentSummaries(Protocol):
    """A snapshot of a store's directory summaries."""

    @property
    def store(self) -> SearchableStore:
        """Store for searching all summaries; each summary is a chunk whose id is the uri of its directory."""
        ...

    def __len__(self) -> int:
        """Return the number of summaries, including outdated ones."""
        ...

    def is_current(self, uri: str) -> bool:
        """Return whether the directory has a summary that is up to date."""
        ...

    def get(self, uris: Iterable[str]) -> dict[str, Chunk]:
        """Return the up-to-date summaries of these directories, by uri."""
        ...


class Summaries(Protocol):
    """Access to the summaries of a store's directories."""

    def current(self) -> CurrentSummaries | None:
        """Return a snapshot of the summaries, or None if no directory has a summary."""
        ...


@runtime_checkable
class HasSummaries(Protocol):
    """A store that keeps summaries of its directories."""

    @property
    def summaries(self) -> Summaries:
        """Access to the summaries of the directories."""
        ...
