"""Breadth-first traversal up to a number of hops."""

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
class BFS(EdgeFilteredTraversal):
    """Breadth-first search, which reaches all chunks up to ``max_hops`` edges away.

    A ring is the set of chunks reached in the same hop. If a ring contains more new chunks than ``max_nodes`` allows,
    only the best of them are reached and expanded. ``max_frontier`` limits the number of chunks that are expanded in
    each ring, best first; None means no limit. A chunk is expanded again if a later hop reaches it on a better path.

    >>> from langchain_hybridgraph.query.graph.scores import HopDecay
    >>> from langchain_hybridgraph.records import Edge, Scope
    >>> from langchain_hybridgraph.stores.graph import InMemoryGraph
    >>> bfs = BFS(max_hops=2)
    >>> edges = [Edge("a", "b", "cites", 0.8), Edge("b", "c", "cites", 0.9)]
    >>> graph = InMemoryGraph(edges).scoped_graph(Scope(), bfs.edge_filter)
    >>> for chunk in bfs.traverse(graph, [("a", 0.9)], HopDecay(), None).chunks:
    ...     print(round(chunk.value, 3), " → ".join(chunk.path))
    0.93 a
    0.168 a → b
    0.135 a → b → c
    """

    max_hops: int = 2
    max_frontier: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole_number("max_hops", self.max_hops, least=0)
        if self.max_frontier is not None:
            check_whole_number("max_frontier", self.max_frontier, least=1)

    def traverse(self, graph: Graph, seeds: Seeds, score: GraphScore, vector: Vector | None) -> TraversalResult:
        """See :class:`~langchain_hybridgraph.query.graph.paths.Traversal`."""
        trail = PathSearch(graph, seeds, score, vector, self.max_nodes)
        return trail.rings(self.max_hops, frontier=self.max_frontier)
