"""Personalized PageRank."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from langchain_hybridgraph.errors import setting
from langchain_hybridgraph.search import traversals
from langchain_hybridgraph.search.scores import GraphScore, PathFeatures, path_values

if TYPE_CHECKING:
    from langchain_hybridgraph.chunks import Mask, Vector
    from langchain_hybridgraph.stores.protocols import Graph, Nodes, Weights


# With 60,000 chunks, 300,000 edges and 10 seeds, a tolerance of 1e-4 finds .98 to 1.0 of the true first 50 in 2 to 6
# ms, and 1e-5 finds all of them in 7 to 19 ms. Reading the same number of edges in any order other than by waiting mass
# finds fewer.
@dataclass(frozen=True)
class PersonalizedPageRank(traversals.EdgeFilteredTraversal):
    """Traversal that scores chunks by random walks from the seeds.

    The nodes are chunks and entities. A walk starts at a seed, chosen in proportion to the seeds' scores. At each step,
    it follows an edge with the probability ``damping``, and otherwise restarts. The mass of a node is the probability
    that a walk is at the node.

    A node passes its mass to its neighbours in proportion to the weights of its edges; those to an entity are divided
    by (number of the entity's edges)^``rarity``. The outflow of a node with more than ``hub_degree`` edges is
    multiplied by ``hub_degree`` / number of its edges.

    Mass is passed on in rounds: first by the seeds, then by all nodes that still have at least ``tolerance`` per edge,
    until there are none. The cost therefore depends on the size of the neighbourhood, not on the size of the graph.
    ``max_touched`` limits the number of edges that are read, for the nodes with the most mass first. If edges are left
    unread, the result is ``capped``.

    With a tolerance near 0, the result is PageRank (Page et al. 1999; networkx.pagerank). With a larger tolerance, the
    mass of a node is below its PageRank by at most ``tolerance`` times its degree, unless the result is capped
    (Andersen, Chung, Lang, Local Graph Partitioning using PageRank Vectors, FOCS 2006).

    The traversal reaches the seeds and the ``max_nodes`` other chunks with the largest mass, each on the path that
    passed on the most mass to it. An entity can be a seed, but is not reached; paths from it start at the chunks that
    mention it.

    >>> from langchain_hybridgraph.search.scores import Flow
    >>> from langchain_hybridgraph.records import Edge, Scope
    >>> from langchain_hybridgraph.stores.graph import InMemoryGraph
    >>> edges = [Edge("a", "entity:ada", "mentions"), Edge("b", "entity:ada", "mentions")]
    >>> pagerank = PersonalizedPageRank(damping=0.5)
    >>> graph = InMemoryGraph(edges).scoped_graph(Scope(), pagerank.edge_filter)
    >>> result = pagerank.traverse(graph, [("a", 1.0)], Flow(), None)
    >>> [(chunk.id, round(chunk.value, 2), chunk.path) for chunk in result.chunks]
    [('a', 1.0, ('a',)), ('b', 0.14, ('a', 'b'))]
    """

    damping: float = setting(0.5, ge=0, lt=1)  # with 1, walks would never end
    rarity: float = setting(0.5, ge=0, le=1)
    tolerance: float = setting(1e-4, gt=0, lt=1)
    max_touched: int = setting(10_000, least=1)
    keeps_seeds: ClassVar[bool] = False

    def traverse(
        self, graph: Graph, seeds: traversals.Seeds, score: GraphScore, vector: Vector | None
    ) -> traversals.TraversalResult:
        scores = dict(reversed(list(seeds)))
        own = np.array([scores[id] for id in dict(seeds)], np.float64)
        shares = np.nan_to_num(own)
        total = shares.sum()
        shares = shares / total if total > 0 else np.full(len(own), 1 / max(len(own), 1))
        network = _MassNetwork(graph, self, list(dict(seeds)), shares)
        network.spread()
        return network.result(own, score, vector)


class _MassNetwork:
    """Nodes that have received mass, numbered from 0 (the seeds first), and the links along which it is passed on.

    ``shares`` are the fractions of the walks that start at each seed; a seed that is not in the graph keeps its mass.
    ``waiting`` is the mass that a node has received but not yet passed on; ``mass`` is the mass passed on and, after
    :meth:`spread`, the sum of both.
    """

    def __init__(self, graph: Graph, settings: PersonalizedPageRank, seeds: Sequence[str], shares: Weights) -> None:
        self._graph, self._settings, self._seeds, self._shares = graph, settings, seeds, shares
        self.nodes = self._sorted = self._number = self.degree = np.zeros(0, np.int64)
        self.is_chunk = self._open = self._refused = np.zeros(0, np.bool_)
        self.mass = self.waiting = np.zeros(0)
        self.source = self.target = self.nodes
        self.share = self.weight = np.zeros(0)
        self._touched = 0
        self.capped = False
        nodes = graph.nodes(seeds)
        present = nodes >= 0
        degree, is_chunk = np.zeros(len(nodes), np.int64), np.ones(len(nodes), np.bool_)
        degree[present], is_chunk[present] = graph.degrees(nodes[present]), graph.is_chunk(nodes[present])
        self._enter(nodes, degree, is_chunk)
        self._refused = ~present
        self.waiting = shares.copy()

    def spread(self) -> None:
        """Pass mass on until each node keeps less than the tolerance times its degree, within ``max_touched``."""
        n = len(self._seeds)
        while True:
            due = (self.waiting > 0) & (self.waiting >= self._settings.tolerance * np.maximum(self.degree, 1))
            due[:n] |= ~self._open[:n]
            closed = np.flatnonzero(due & ~self._open & ~self._refused)
            if len(closed):
                self._expand(self._affordable(closed))
            if not (due & self._open[: len(due)]).any():
                break
            outflow = np.where(self._open, self.waiting, 0.0)
            self.mass = self.mass + outflow
            inflow = np.bincount(self.target, outflow[self.source] * self.share, len(self.nodes))
            self.waiting = self.waiting - outflow + inflow
        self.mass = self.mass + self.waiting

    def _affordable(self, closed: Nodes) -> Nodes:
        """Return the nodes, by waiting mass, whose edges can be read within ``max_touched``, at first at least one.

        The other nodes are refused: their edges are never read.
        """
        order = closed[np.argsort(-self.waiting[closed], kind="stable")]
        remaining = self._settings.max_touched - self._touched
        fitting = order[self.degree[order] <= remaining]
        affordable = fitting[np.cumsum(self.degree[fitting]) <= remaining]
        if not len(affordable) and not self._touched:
            affordable = order[:1]
        self._touched += int(self.degree[affordable].sum())
        self._refused[closed] = True
        self._refused[affordable] = False
        self.capped = self.capped or len(affordable) < len(closed)
        return affordable

    def _expand(self, numbers: Nodes) -> None:
        hops = self._graph.links(self.nodes[numbers])
        places = np.minimum(np.searchsorted(self._sorted, hops.node), len(self._sorted) - 1)
        new = np.unique(hops.node[self._sorted[places] != hops.node])
        if len(new):
            self._enter(new, self._graph.degrees(new), self._graph.is_chunk(new))
            places = np.searchsorted(self._sorted, hops.node)
        target = self._number[places]
        common = np.where(self.is_chunk[target], 1.0, np.maximum(self.degree[target], 1) ** -self._settings.rarity)
        weight = hops.weight * common
        total = np.bincount(hops.origin, weight, len(numbers))
        hub = self._settings.hub_degree
        passed = 1.0 if hub is None else np.minimum(1.0, hub / np.maximum(self.degree[numbers], 1))
        factor = self._settings.damping * passed / np.where(total > 0, total, 1.0)
        self.source = np.concatenate([self.source, numbers[hops.origin]])
        self.target = np.concatenate([self.target, target])
        self.share = np.concatenate([self.share, weight * factor[hops.origin]])
        self.weight = np.concatenate([self.weight, hops.weight])
        self._open[numbers] = True

    def _enter(self, nodes: Nodes, degree: Nodes, is_chunk: Mask) -> None:
        # A stable sort merges two ascending runs quickly.
        both, size = np.concatenate([self._sorted, nodes]), len(self.nodes)
        order = np.argsort(both, kind="stable")
        self._sorted = both[order]
        self._number = np.concatenate([self._number, np.arange(size, size + len(nodes))])[order]
        self.nodes = np.concatenate([self.nodes, nodes])
        self.degree = np.concatenate([self.degree, degree])
        self.is_chunk = np.concatenate([self.is_chunk, is_chunk])
        no = np.zeros(len(nodes), np.bool_)
        self._open, self._refused = np.concatenate([self._open, no]), np.concatenate([self._refused, no])
        self.mass, self.waiting = np.concatenate([self.mass, no]), np.concatenate([self.waiting, no])

    def result(self, own: Weights, score: GraphScore, vector: Vector | None) -> traversals.TraversalResult:
        """Return the seeds that are chunks, and the ``max_nodes`` other chunks with the largest mass, best first.

        ``own`` are the scores of the seeds.
        """
        n = len(own)
        flow = self.mass / (self.mass[self.is_chunk].max(initial=0.0) or 1.0)
        is_other = self.is_chunk & (flow > 0)
        is_other[:n] = False
        others = np.flatnonzero(is_other)
        best = traversals.heaviest(
            traversals.rank(flow[others]), self._settings.max_nodes, lambda places: self._ids(others[places])
        )
        selected = {*range(n), *others[best].tolist()}
        before = self._before(sorted(selected))
        paths = [self._path(number, before) for number in before if self.is_chunk[number]]
        numbers = np.array([number for path in paths for number in (path.root, path.chunks[-1])], np.int64)
        ids = dict(zip(numbers.tolist(), self._ids(numbers), strict=True))
        similarity = np.append(own, np.full(len(flow) - n, np.nan))  # NaN if unknown
        if vector is not None and getattr(score, "needs_own", True):
            ends = np.array([path.chunks[-1] for path in paths if path.chunks[-1] >= n], np.int64)
            similarity[ends] = np.clip(self._graph.cosines(vector, self.nodes[ends]), 0.0, 1.0)
        values: dict[int, float] = {}
        # Values are computed hop by hop, because they may depend on the previous chunk.
        for length in sorted({len(path.chunks) for path in paths}):
            level = [path for path in paths if len(path.chunks) == length]
            last = np.array([path.chunks[-1] for path in level])
            features = PathFeatures(
                seed=own[[path.root for path in level]],
                best_seed=float(np.nanmax(own, initial=0.0)),
                hops=np.full(len(level), length - 1),
                weight=np.array([path.weight for path in level]),
                product=np.array([path.product for path in level]),
                previous_value=np.array([values[path.chunks[-2]] if length > 1 else np.nan for path in level]),
                own=similarity[last],
                flow=flow[last],
            )
            values |= zip(last.tolist(), path_values(score, features).tolist(), strict=True)
        chunks = []
        for path in paths:
            if path.chunks[-1] in selected:
                value, id_path = values[path.chunks[-1]], tuple(ids[number] for number in path.chunks)
                value = 0.0 if math.isnan(value) else value
                chunks.append(traversals.ReachedChunk(id_path[-1], value, len(id_path) - 1, id_path, ids[path.root]))
        return traversals.TraversalResult(tuple(sorted(chunks, key=traversals.best_first)), self.capped)

    def _before(self, ends: Sequence[int]) -> dict[int, tuple[int, float]]:
        """Return each node's predecessor on the path of largest mass (-1 for the first), and the link's weight."""
        order = np.argsort(self.target, kind="stable")
        source, target, share = self.source[order], self.target[order], self.share[order]
        first = np.flatnonzero(np.diff(target, prepend=-1))
        start = np.append(self._shares, np.zeros(len(self.nodes) - len(self._shares)))
        inflow = start.copy()
        while len(first):
            best = np.maximum.reduceat(inflow[source] * share, first)
            better = best > inflow[target[first]]
            if not better.any():
                break
            inflow[target[first][better]] = best[better]
        # Mass decreases with every link of a path, so no path returns to one of its nodes.
        is_best_link = (inflow > start)[target] & (inflow[source] * share == inflow[target])
        previous: dict[int, tuple[int, float]] = {}
        frontier = set(ends)
        while frontier:
            previous |= dict.fromkeys(frontier, (-1, 1.0))
            in_frontier = np.zeros(len(inflow), np.bool_)
            in_frontier[list(frontier)] = True
            links = np.flatnonzero(is_best_link & in_frontier[target])
            ids = self._ids(source[links])
            for place in sorted(range(len(links)), key=ids.__getitem__, reverse=True):
                link = links[place]
                previous[int(target[link])] = int(source[link]), float(self.weight[order[link]])
            frontier = {previous[number][0] for number in frontier} - previous.keys() - {-1}
        return previous

    def _path(self, number: int, before: Mapping[int, tuple[int, float]]) -> _ChunkPath:
        """Return the path to a chunk without entities; the weights of the two edges of each are multiplied."""
        chunks, weights, weight = [number], [], 1.0
        while (link := before[number])[0] >= 0:
            number, weight = link[0], weight * link[1]
            if self.is_chunk[number]:
                chunks.append(number)
                weights.append(weight)
                weight = 1.0
        return _ChunkPath(number, chunks[::-1], weights[0] if weights else 1.0, math.prod(weights))

    def _ids(self, numbers: Nodes) -> list[str]:
        n = len(self._seeds)
        graph_ids = iter(self._graph.ids(self.nodes[numbers[numbers >= n]]))
        return [self._seeds[number] if number < n else next(graph_ids) for number in numbers.tolist()]


class _ChunkPath(NamedTuple):
    """Path of chunks from the seed numbered ``root``, with the last step's weight and the product of all."""

    root: int
    chunks: Sequence[int]
    weight: float
    product: float
