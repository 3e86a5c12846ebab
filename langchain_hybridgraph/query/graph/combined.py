"""Combination of ``LinkEvidence`` with another traversal."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import isnan
from typing import TYPE_CHECKING

from langchain_hybridgraph.query.graph.evidence import LinkEvidence
from langchain_hybridgraph.query.graph.paths import Question, Traversal, TraversalResult, best_first
from langchain_hybridgraph.query.graph.rings import WaterCircle

if TYPE_CHECKING:
    from langchain_hybridgraph.query.graph.paths import ReachedChunk, Seeds
    from langchain_hybridgraph.query.graph.scores import GraphScore
    from langchain_hybridgraph.records import EdgeFilter, Vector
    from langchain_hybridgraph.stores.protocols import Graph


@dataclass(frozen=True)
class CombinedTraversal:
    """Traversal that runs ``LinkEvidence`` and another traversal, and keeps the better result for each chunk.

    ``beyond`` is the other traversal. Both traversals follow the edges selected by ``beyond.edge_filter`` and start at
    the best ``sources`` seeds. Results of ``beyond`` are used only for chunks that it reached through edges.

    >>> from langchain_hybridgraph.query.graph.scores import NoisyOr
    >>> from langchain_hybridgraph.records import Edge, Scope
    >>> from langchain_hybridgraph.stores.graph import InMemoryGraph
    >>> joined = CombinedTraversal()
    >>> edges = [Edge("a", "b", "cites"), Edge("b", "c", "cites")]
    >>> graph = InMemoryGraph(edges).scoped_graph(Scope(), joined.edge_filter)
    >>> [(chunk.id, round(chunk.value, 3)) for chunk in joined.traverse(graph, [("a", 1.0)], NoisyOr(), None).chunks]
    [('b', 0.5), ('c', 0.25), ('a', 0.0)]
    """

    evidence: LinkEvidence = field(default_factory=LinkEvidence)
    beyond: Traversal = field(default_factory=lambda: WaterCircle(direction="both"))

    @property
    def edge_filter(self) -> EdgeFilter:
        """See :class:`~langchain_hybridgraph.query.graph.paths.Traversal`."""
        return self.beyond.edge_filter

    @property
    def sources(self) -> int:
        """See :class:`~langchain_hybridgraph.query.graph.paths.AsksQuestions`."""
        return self.evidence.sources

    def for_question(self, question: Question) -> CombinedTraversal:
        """Return a copy of this traversal that uses this question."""
        return replace(self, evidence=self.evidence.for_question(question))

    def traverse(self, graph: Graph, seeds: Seeds, score: GraphScore, vector: Vector | None) -> TraversalResult:
        """See :class:`~langchain_hybridgraph.query.graph.paths.Traversal`."""
        near = self.evidence.traverse(graph, seeds, score, vector)
        first = sorted(seeds, key=_best_seed)[: self.sources]
        nodes = graph.nodes([id for id, _ in first])
        if not graph.degrees(nodes[nodes >= 0]).any():
            return near
        far = self.beyond.traverse(graph, first, score, vector)
        best: dict[str, ReachedChunk] = {reached_chunk.id: reached_chunk for reached_chunk in near.chunks}
        for reached_chunk in far.chunks:
            if reached_chunk.hops and (
                reached_chunk.id not in best or reached_chunk.value > best[reached_chunk.id].value
            ):
                best[reached_chunk.id] = reached_chunk
        chunks = sorted(best.values(), key=best_first)
        return TraversalResult(tuple(chunks), near.capped or far.capped, near.converged or far.converged)


def _best_seed(seed: tuple[str, float]) -> tuple[float, str]:
    id, score = seed
    return 0.0 if isnan(score) else -score, id
