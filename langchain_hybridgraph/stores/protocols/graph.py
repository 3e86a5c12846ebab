"""Protocols for graphs of chunks and entities."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.chunks import Mask, Vector
    from langchain_hybridgraph.records import Edge, EdgeFilter, Scope

    Nodes = NDArray[np.int64]
    Weights = NDArray[np.float64]


class NeighborEdges(NamedTuple):
    """Edges, or hops through entities, that lead from given nodes to their neighbours.

    The arrays have the same length, with one entry per pair of a given node and a neighbour. ``origin`` is the position
    of the given node in the caller's array, and ``node`` is the neighbour. ``weight`` is in (0, 1]. ``via`` is the
    entity through which the hop leads, or -1 for a direct edge. If several edges or hops connect two nodes, only the
    heaviest is included.
    """

    origin: Nodes
    node: Nodes
    weight: Weights
    via: Nodes


class Graph(Protocol):
    """A snapshot of a graph, limited to the nodes and edges that one call may traverse.

    The nodes are entities and the chunks in the call's scope. Entities have no text. The graph leaves out edges that
    are not valid at the scope's time and edges that the call's ``EdgeFilter`` excludes. Paths neither lead to nor pass
    through deleted or hidden chunks.
    """

    def __len__(self) -> int:
        """Return the number of chunks, including chunks out of scope. Chunks without edges may be left out.

        The rarity of an entity is computed from this number.
        """
        ...

    @property
    def has_entities(self) -> bool:
        """Whether the graph has entities; if not, names in a question need not be looked up."""
        ...

    @property
    def relations(self) -> Collection[str]:
        """Names of the relations in the graph, including those of edges out of scope.

        A graph that is read in parts may leave out relations that the edge filter does not name.
        """
        ...

    def nodes(self, ids: Sequence[str]) -> Nodes:
        """Return the node of each id, or -1 for an id that is not in the graph or not in scope."""
        ...

    def ids(self, nodes: Nodes) -> list[str]:
        """Return the id of each node, which may be a chunk or an entity."""
        ...

    def restricted_to(self, nodes: Nodes) -> Graph:
        """Return the same graph with ``neighbours`` restricted to hops that lead to these chunks."""
        ...

    def neighbours(self, nodes: Nodes) -> NeighborEdges:
        """Return the chunks one hop away, through an edge or a shared entity.

        The weight of a hop through an entity is the product of the weights of both mentions. ``EdgeFilter`` defines how
        the weight of a hop is lowered at nodes with many edges.
        """
        ...

    def links(self, nodes: Nodes) -> NeighborEdges:
        """Return the stored edges of these nodes.

        The edges of a chunk lead to other chunks and to the entities that it mentions. The edges of an entity lead to
        the chunks that mention it.
        """
        ...

    def degrees(self, nodes: Nodes) -> Nodes:
        """Return the number of edges of each node, including edges out of scope and edges of excluded relations."""
        ...

    def is_chunk(self, nodes: Nodes) -> Mask:
        """Return a mask of the nodes that are chunks."""
        ...

    def cosines(self, vector: Vector, nodes: Nodes) -> Weights:
        """Return the cosine between each chunk's vector and a unit vector, or NaN if it is unknown."""
        ...

    def edges(self, steps: Sequence[tuple[str, str]]) -> list[Edge | tuple[Edge, Edge] | None]:
        """Return the connection between the two chunks of each step, or None for a step without a connection.

        A connection is a direct edge, or the edges from both chunks to an entity that they mention. If a step has
        several connections, the heaviest is returned. If ``EdgeFilter.hub_degree`` is None, however, a direct edge
        takes precedence over entities, and a rarer entity over a more common one. Edges are returned in their stored
        direction, even if they were traversed backwards.
        """
        ...


@runtime_checkable
class HasGraph(Protocol):
    """A store whose chunks are connected by edges."""

    @property
    def has_graph(self) -> bool:
        """Whether the store currently has any edges."""
        ...

    def scoped_graph(self, scope: Scope, edge_filter: EdgeFilter) -> Graph:
        """Return the graph that a call with this scope and edge filter may traverse."""
        ...
