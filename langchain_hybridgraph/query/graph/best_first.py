"""Traversal that expands the best chunk first."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from langchain_hybridgraph.number_ranges import check_whole_number
from langchain_hybridgraph.query.graph.paths import EdgeFilteredTraversal, PathSearch, TraversalResult

if TYPE_CHECKING:
    from langchain_hybridgraph.query.graph.paths import Seeds
    from langchain_hybridgraph.query.graph.scores import GraphScore
    from langchain_hybridgraph.records import Vector
    from langchain_hybridgraph.stores.protocols import Graph, Nodes


@dataclass(frozen=True)
class BestFirst(EdgeFilteredTraversal):
    """Best-first search for hierarchies. It always expands the best chunk that has not been expanded yet.

    The search starts at the ``start_k`` best seeds and at seeds without a score. Other seeds are expanded only when an
    edge leads to them. A round is the expansion of one chunk that has edges. If the best ``k`` chunks stay the same for
    ``max_rounds`` rounds, the search ends early and is reported as converged.
    """

    max_rounds: int = 3
    start_k: int = 3
    k: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole_number("max_rounds", self.max_rounds, least=1)
        check_whole_number("start_k", self.start_k, least=1)
        check_whole_number("k", self.k, least=1)

    def traverse(self, graph: Graph, seeds: Seeds, score: GraphScore, vector: Vector | None) -> TraversalResult:
        """See :class:`~langchain_hybridgraph.query.graph.paths.Traversal`; ``converged`` is true if it ended early."""
        trail = PathSearch(graph, seeds, score, vector, self.max_nodes)
        starts, waiting = self._starts(trail)
        queue = _Queue(graph, trail)
        queue.push(starts)
        best: frozenset[int] = frozenset()
        unchanged = 0
        while (place := queue.pop()) is not None:
            queue.push(trail.grow(np.array([place])))
            queue.push(np.array([waiting.pop(node) for node in trail.touched.tolist() if node in waiting], np.int64))
            if not len(trail.touched):
                continue
            top = trail.top(self.k)
            unchanged = unchanged + 1 if top == best else 0
            best = top
            if unchanged == self.max_rounds:
                return trail.result(converged=True)
        return trail.result()

    def _starts(self, trail: PathSearch) -> tuple[Nodes, dict[int, int]]:
        """Return the positions of the seeds to start at. Also return the positions of the other seeds, by node."""
        unknown = np.isnan(trail.paths.value[trail.seeds])
        scored_seeds = trail.seeds[~unknown]
        others = scored_seeds[self.start_k :]
        starts = np.concatenate([scored_seeds[: self.start_k], trail.seeds[unknown]])
        return starts, dict(zip(trail.paths.node[others].tolist(), others.tolist(), strict=True))


class _Queue:
    """Queue of paths to extend, best first, ties by id."""

    def __init__(self, graph: Graph, trail: PathSearch) -> None:
        self._graph, self._trail = graph, trail
        self._heap: list[tuple[float, str, int]] = []

    def push(self, places: Nodes) -> None:
        paths = self._trail.paths.at(places)
        ids = self._graph.ids(paths.node)
        for value, id, place in zip(paths.rank.tolist(), ids, places.tolist(), strict=True):
            heapq.heappush(self._heap, (-value, id, place))

    def pop(self) -> int | None:
        """Remove and return the best queued path, or return None if the queue is empty.

        A path is skipped if a better path to its last node was found later.
        """
        while self._heap:
            place = heapq.heappop(self._heap)[2]
            if self._trail.are_best(np.array([place])).all():
                return place
        return None
