"""Traversal in rings with decaying energy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from langchain_hybridgraph.number_ranges import check_number, check_whole_number
from langchain_hybridgraph.query.graph.paths import EdgeFilteredTraversal, PathSearch, TraversalResult

if TYPE_CHECKING:
    from langchain_hybridgraph.query.graph.paths import Seeds
    from langchain_hybridgraph.query.graph.scores import GraphScore
    from langchain_hybridgraph.records import Vector
    from langchain_hybridgraph.stores.protocols import Graph


@dataclass(frozen=True)
class WaterCircle(EdgeFilteredTraversal):
    """Traversal in expanding rings, with an energy that starts as the seed's score and decreases with every edge.

    Every edge multiplies the energy by the weight of the edge and by ``ring_decay``. Edges that would reduce the energy
    below ``min_energy`` are not followed. If several paths lead to a chunk, the graph score determines which path is
    used. With the score ``Flow``, or ``RingDecay`` with the same decay, the value of a chunk is its energy.

    >>> from langchain_hybridgraph.query.graph.scores import Flow
    >>> from langchain_hybridgraph.records import Edge, Scope
    >>> from langchain_hybridgraph.stores.graph import InMemoryGraph
    >>> edges = [Edge("A", "B", "cites", 0.8), Edge("B", "C", "cites", 0.2)]
    >>> rings = WaterCircle()
    >>> graph = InMemoryGraph(edges).scoped_graph(Scope(), rings.edge_filter)
    >>> result = rings.traverse(graph, [("A", 0.9)], Flow(), None)
    >>> [(chunk.id, round(chunk.value, 3)) for chunk in result.chunks]
    [('A', 0.9), ('B', 0.36)]
    """

    max_hops: int = 3
    ring_decay: float = 0.5
    min_energy: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole_number("max_hops", self.max_hops, least=0)
        check_number("ring_decay", self.ring_decay, ge=0, le=1)
        check_number("min_energy", self.min_energy, ge=0, le=1)

    def traverse(self, graph: Graph, seeds: Seeds, score: GraphScore, vector: Vector | None) -> TraversalResult:
        """See :class:`~langchain_hybridgraph.query.graph.paths.Traversal`."""
        trail = PathSearch(graph, seeds, score, vector, self.max_nodes)
        return trail.rings(self.max_hops, decay=self.ring_decay, floor=self.min_energy)
