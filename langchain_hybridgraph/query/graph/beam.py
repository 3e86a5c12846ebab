"""Beam search: the best chunks of each hop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from langchain_hybridgraph.number_ranges import check_whole_number
from langchain_hybridgraph.query.graph.paths import EdgeFilteredTraversal, PathSearch, TraversalResult

if TYPE_CHECKING:
    from langchain_hybridgraph.query.graph.paths import Seeds
    from langchain_hybridgraph.query.graph.scores import GraphScore
    from langchain_hybridgraph.records import Vector
    from langchain_hybridgraph.stores.protocols import Graph


@dataclass(frozen=True)
class Beam(EdgeFilteredTraversal):
    """Beam search: each hop keeps and expands only the best ``width`` chunks.

    >>> from langchain_hybridgraph.query.graph.scores import HopDecay
    >>> from langchain_hybridgraph.records import Edge, Scope
    >>> from langchain_hybridgraph.stores.graph import InMemoryGraph
    >>> edges = [Edge("A", "p", "cites", 0.9), Edge("A", "q", "cites", 0.6), Edge("p", "s", "cites", 0.5)]
    >>> beam = Beam(width=1)
    >>> graph = InMemoryGraph(edges).scoped_graph(Scope(), beam.edge_filter)
    >>> result = beam.traverse(graph, [("A", 0.9)], HopDecay(), None)
    >>> [chunk.id for chunk in result.chunks]
    ['A', 'p', 's']
    """

    width: int = 10
    max_hops: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole_number("width", self.width, least=1)
        check_whole_number("max_hops", self.max_hops, least=0)

    def traverse(self, graph: Graph, seeds: Seeds, score: GraphScore, vector: Vector | None) -> TraversalResult:
        """See :class:`~langchain_hybridgraph.query.graph.paths.Traversal`."""
        trail = PathSearch(graph, seeds, score, vector, self.max_nodes)
        return trail.rings(self.max_hops, width=self.width)
