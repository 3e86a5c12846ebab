"""Personalized PageRank."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from langchain_hybridgraph.errors import ConfigurationError, check_number
from langchain_hybridgraph.search import traversals
from langchain_hybridgraph.search.scores import GraphScore, PathFeatures, needs_own, path_values

if TYPE_CHECKING:
    from langchain_hybridgraph.chunks import Vector
    from langchain_hybridgraph.search.traversals import Seeds
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

    damping: float = 0.5
    rarity: float = 0.5
    tolerance: float = 1e-4
    max_touched: int = 10_000
    keeps_seeds: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.damping == 1:
            raise ConfigurationError("damping must be below 1, such as 0.5, got 1: the walks would never end")
        check_number("tolerance", self.tolerance, gt=0, lt=1)

    def traverse(
        self, graph: Graph, seeds: Seeds, score: GraphScore, vector: Vector | None
    ) -> traversals.TraversalResult:
        first = dict(reversed(list(seeds)))
        ids = list(dict.fromkeys(id for id, _ in seeds))
        nodes = graph.nodes(ids)
        order = np.argsort(nodes < 0, kind="stable")  # seeds that are not in the graph come last
        nodes, scores = nodes[order], np.array([first[ids[place]] for place in order.tolist()], np.float64)
        shares = np.nan_to_num(scores)
        total = shares.sum()
        shares = shares / total if total > 0 else np.full(len(ids), 1 / max(len(ids), 1))
        present = int((nodes >= 0).sum())
        near = _MassNetwork(graph, self, nodes[:present], shares[:present])
        near.spread()
        missing = [ids[place] for place in order[present:].tolist()]
        return _MassResult(graph, near, missing, scores, shares).result(score, vector, self.max_nodes)


class _MassNetwork:
    """Nodes that have received mass, numbered from 0 (the seeds first), and the links along which it is passed on.

    ``waiting`` is the mass that a node has received but not yet passed on; ``mass`` is the mass passed on and, after
    :meth:`spread`, the sum of both.
    """

    def __init__(self, graph: Graph, settings: PersonalizedPageRank, seeds: Nodes, shares: Weights) -> None:
        self._graph, self._settings = graph, settings
        self.nodes = np.zeros(0, np.int64)
        self._sorted = self._number = self.degree = self.nodes
        self.is_chunk = self._open = self._refused = np.zeros(0, np.bool_)
        self.mass = self.waiting = np.zeros(0)
        self.source = self.target = self.nodes
        self.share = self.weight = np.zeros(0)
        self._touched = 0
        self.capped = False
        self._seeds = len(seeds)
        self._enter(seeds)
        self.waiting = shares.copy()

    def spread(self) -> None:
        """Pass mass on until each node keeps less than the tolerance times its degree, within ``max_touched``."""
        while True:
            due = (self.waiting > 0) & (self.waiting >= self._settings.tolerance * np.maximum(self.degree, 1))
            due[: self._seeds] |= ~self._open[: self._seeds]
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
        new = np.sort(hops.node[self._sorted[places] != hops.node])
        if len(new):
            self._enter(new[np.diff(new, prepend=-1) != 0])
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

    def _enter(self, nodes: Nodes) -> None:
        no = np.zeros(len(nodes), np.bool_)
        self.nodes = np.concatenate([self.nodes, nodes])
        # A stable sort merges two ascending runs quickly.
        both = np.concatenate([self._sorted, nodes])
        order = np.argsort(both, kind="stable")
        self._sorted = both[order]
        self._number = np.concatenate([self._number, np.arange(len(self.nodes) - len(nodes), len(self.nodes))])[order]
        self.degree = np.concatenate([self.degree, self._graph.degrees(nodes)])
        self.is_chunk = np.concatenate([self.is_chunk, self._graph.is_chunk(nodes)])
        self._open, self._refused = np.concatenate([self._open, no]), np.concatenate([self._refused, no])
        self.mass, self.waiting = np.concatenate([self.mass, no]), np.concatenate([self.waiting, no])


class _MassResult:
    """The chunks with the largest mass, and the paths to them.

    Nodes have the numbers of :class:`_MassNetwork`; the seeds ``missing`` from the graph get the next numbers.
    ``scores`` and ``shares``, the fractions of the walks that start at each seed, have one entry per seed.
    """

    def __init__(
        self, graph: Graph, near: _MassNetwork, missing: Sequence[str], scores: Weights, shares: Weights
    ) -> None:
        self._graph, self._near, self._missing = graph, near, missing
        n, present = len(near.nodes), len(scores) - len(missing)
        self._seeds = np.concatenate([np.arange(present), n + np.arange(len(missing))])
        self._is_chunk = np.concatenate([near.is_chunk, np.ones(len(missing), np.bool_)])
        mass = np.concatenate([near.mass, shares[present:]])
        self._flow = mass / (mass[self._is_chunk].max(initial=0.0) or 1.0)
        self._own, self._start = np.full(len(mass), np.nan), np.zeros(len(mass))
        self._own[self._seeds], self._start[self._seeds] = scores, shares

    def result(self, score: GraphScore, vector: Vector | None, max_nodes: int) -> traversals.TraversalResult:
        """Return the seeds that are chunks, and the ``max_nodes`` other chunks with the largest mass, best first."""
        selection = [*self._seeds.tolist(), *self._heaviest(max_nodes).tolist()]
        before = self._before(selection)
        steps = [step for number in before if self._is_chunk[number] for step in [self._step(number, before)]]
        numbers = np.array([number for step in steps for number in (step.root, step.path[-1])], np.int64)
        ids = dict(zip(numbers.tolist(), self._ids(numbers), strict=True))
        values = self._values(steps, score, vector)
        chunks, selected = [], set(selection)
        for step in steps:
            if step.path[-1] in selected:
                path = tuple(ids[number] for number in step.path)
                chunks.append(
                    traversals.ReachedChunk(path[-1], values[step.path[-1]], len(path) - 1, path, ids[step.root])
                )
        return traversals.TraversalResult(tuple(sorted(chunks, key=traversals.best_first)), self._near.capped)

    def _heaviest(self, n: int) -> Nodes:
        others = self._is_chunk & (self._flow > 0)
        others[self._seeds] = False
        numbers, heaviness = np.flatnonzero(others), traversals.rank(self._flow[others])
        if not 0 < n < len(numbers):
            return numbers[: n or 0]
        least = -np.partition(-heaviness, n - 1)[n - 1]
        sure, tied = numbers[heaviness > least], numbers[heaviness == least]
        ids = self._ids(tied)
        by_id = sorted(range(len(tied)), key=ids.__getitem__)
        return np.concatenate([sure, tied[by_id[: n - len(sure)]]])

    def _before(self, ends: Sequence[int]) -> dict[int, tuple[int, float]]:
        """Return each node's predecessor on the path of largest mass (-1 for the first), and the link's weight."""
        near = self._near
        order = np.argsort(near.target, kind="stable")
        source, target = near.source[order], near.target[order]
        share, weight = near.share[order], near.weight[order]
        first = np.flatnonzero(np.diff(target, prepend=-1))
        inflow = self._start.copy()
        while len(first):
            best = np.maximum.reduceat(inflow[source] * share, first)
            better = best > inflow[target[first]]
            if not better.any():
                break
            inflow[target[first][better]] = best[better]
        # Mass decreases with every link of a path, so no path returns to one of its nodes.
        is_best_link = (inflow > self._start)[target] & (inflow[source] * share == inflow[target])
        previous: dict[int, tuple[int, float]] = {}
        frontier = np.array(ends, np.int64)
        while len(frontier):
            previous |= dict.fromkeys(frontier.tolist(), (-1, 1.0))
            in_frontier = np.zeros(len(inflow), np.bool_)
            in_frontier[frontier] = True
            links = np.flatnonzero(is_best_link & in_frontier[target])
            ids = self._ids(source[links])
            for place in sorted(range(len(links)), key=ids.__getitem__, reverse=True):
                link = links[place]
                previous[int(target[link])] = int(source[link]), float(weight[link])
            frontier = np.array(
                [n for n in {previous[int(n)][0] for n in frontier} if n >= 0 and n not in previous], np.int64
            )
        return previous

    def _step(self, number: int, before: dict[int, tuple[int, float]]) -> _ChunkPath:
        """Return the path to a chunk without entities; the weights of the two edges of each are multiplied."""
        path, weights, weight = [number], [], 1.0
        while (link := before[number])[0] >= 0:
            number, weight = link[0], weight * link[1]
            if self._is_chunk[number]:
                path.append(number)
                weights.append(weight)
                weight = 1.0
        return _ChunkPath(number, tuple(reversed(path)), weights[0] if weights else 1.0, math.prod(weights))

    def _values(self, steps: Sequence[_ChunkPath], score: GraphScore, vector: Vector | None) -> dict[int, float]:
        """Return the value of each chunk, computed hop by hop because it may depend on the previous chunk."""
        values: dict[int, float] = {}
        best_seed = float(np.nanmax(self._own[self._seeds], initial=0.0))
        own = self._own.copy()  # scores of seeds, and similarities of the other chunks; NaN if unknown
        if vector is not None and needs_own(score):
            others = np.setdiff1d(np.array([step.path[-1] for step in steps], np.int64), self._seeds)
            own[others] = np.clip(self._graph.cosines(vector, self._near.nodes[others]), 0.0, 1.0)
        for hops in sorted({len(step.path) for step in steps}):
            level = [step for step in steps if len(step.path) == hops]
            ends = np.array([step.path[-1] for step in level])
            paths = PathFeatures(
                seed=self._own[[step.root for step in level]],
                best_seed=best_seed,
                hops=np.full(len(level), hops - 1),
                weight=np.array([step.weight for step in level]),
                product=np.array([step.product for step in level]),
                previous_value=np.array([values[step.path[-2]] if hops > 1 else np.nan for step in level]),
                own=own[ends],
                flow=self._flow[ends],
            )
            values |= zip(ends.tolist(), path_values(score, paths).tolist(), strict=True)
        return {number: 0.0 if math.isnan(value) else value for number, value in values.items()}

    def _ids(self, numbers: Nodes) -> list[str]:
        n = len(self._near.nodes)
        graph_ids = iter(self._graph.ids(self._near.nodes[numbers[numbers < n]]))
        return [next(graph_ids) if number < n else self._missing[number - n] for number in numbers.tolist()]


class _ChunkPath(NamedTuple):
    """Path of chunks from the seed numbered ``root``, with the last step's weight and the product of all."""

    root: int
    path: tuple[int, ...]
    weight: float
    product: float
