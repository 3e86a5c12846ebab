"""Traversals of the graph."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, cast, runtime_checkable

import numpy as np

from langchain_hybridgraph.errors import CheckedSettings, setting
from langchain_hybridgraph.records import EdgeFilter, check_texts
from langchain_hybridgraph.search.scores import GraphScore, PathFeatures, chosen_by, is_mixed, path_values

if TYPE_CHECKING:
    from langchain_hybridgraph.chunks import Mask, Vector
    from langchain_hybridgraph.stores.protocols import Graph, Nodes, Weights


# Search for the best path to each reached chunk.

Seeds = Sequence[tuple[str, float]]

# Value of ``seed`` for a chunk that is reached because its title is in the question.
NO_SEED = ""
# Number of decimals to which values are rounded for comparison, so that the order of multiplication does not matter.
DECIMALS = 12


class ReachedChunk(NamedTuple):
    """Chunk that a traversal has reached, with its value in [0, 1] and the path of chunk ids from ``seed`` to it.

    If its title is in the question, ``seed`` is ``NO_SEED`` and the path contains only the chunk's own id.
    """

    id: str
    value: float
    hops: int
    path: tuple[str, ...]
    seed: str


class TraversalResult(NamedTuple):
    """Result of a traversal: the reached chunks, including seeds, best first, ties by id.

    ``capped`` is set if ``max_nodes`` (for PersonalizedPageRank, ``max_touched``) left out chunks; LinkEvidence never
    sets it. ``converged`` is set if the traversal ended early because its best chunks did not change.
    """

    chunks: tuple[ReachedChunk, ...]
    capped: bool = False
    converged: bool = False


class Traversal(Protocol):
    """Algorithm that follows edges from the seeds to further chunks."""

    @property
    def edge_filter(self) -> EdgeFilter:
        """Filter that selects the edges to follow."""

    def traverse(self, graph: Graph, seeds: Seeds, score: GraphScore, vector: Vector | None) -> TraversalResult:
        """Return the chunks that are reached from the seeds, each with the best path to it.

        ``seeds`` are pairs of an id and a score in [0, 1], best first; an unknown score is NaN. ``vector`` is the
        query's, of unit length; without it, similarities are unknown. The result includes all seeds, even those that
        are not in the graph; the best path to a seed may begin at another.
        """


class Question(NamedTuple):
    """Properties of the question that a traversal may use.

    ``names`` are the normalised names in the question. ``coverage`` takes chunk ids and returns, by id, the share of
    the uncovered words that each chunk contains: those that at least half of the best seeds lack. Chunks with none of
    them may be left out. It is None if it cannot be computed, for example without a keyword index. ``missing`` returns
    the share of the question's words that is missing from the seed with the most of them, and is None without a
    question.
    """

    names: Sequence[str] = ()
    coverage: Callable[[Sequence[str]], Mapping[str, float]] | None = None
    missing: Callable[[], float] | None = None


@runtime_checkable
class AsksQuestions(Protocol):
    """Traversal that uses names in the question, and the words of the question that the best seeds lack."""

    @property
    def sources(self) -> int:
        """Number of best seeds at which the traversal starts."""

    def for_question(self, question: Question) -> Traversal:
        """Return a copy of this traversal that uses this question."""


@dataclass(frozen=True, kw_only=True)
class EdgeFilteredTraversal(CheckedSettings):
    """Settings shared by the traversals: the edges to follow, and the number of chunks to reach besides the seeds.

    ``direction``, ``relations``, ``min_weight`` and ``hub_degree`` are those of
    :class:`~langchain_hybridgraph.records.EdgeFilter`. Relations that occur on no edge are reported as
    ``unknown-relation``. ``keeps_seeds`` is True if edges never lower the score of a seed.
    """

    direction: Literal["out", "in", "both"] = "out"
    relations: Iterable[str] | None = None
    min_weight: float = 0.0
    hub_degree: int | None = 64
    max_nodes: int = setting(50, least=0)
    keeps_seeds: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.relations is not None:
            object.__setattr__(self, "relations", frozenset(check_texts("relations", "relations", self.relations)))
        _ = self.edge_filter  # its constructor checks the settings

    @cached_property
    def edge_filter(self) -> EdgeFilter:
        """Filter that selects the edges to follow."""
        relations = cast("frozenset[str] | None", self.relations)
        return EdgeFilter(self.direction, relations, self.min_weight, self.hub_degree)


class Paths(NamedTuple):
    """Paths from seeds, as arrays of equal length, with the columns of :class:`PathFeatures` and these:

    ``before`` is the position of the path without its last edge, or -1 for a seed. ``node`` is the last node, or -1 for
    a seed that is not in the graph. ``root`` is the position of the path's seed. ``rank`` is ``value`` rounded for
    comparisons (see :func:`rank`).
    """

    node: Nodes
    before: Nodes
    root: Nodes
    seed: Weights
    hops: Nodes
    weight: Weights
    product: Weights
    flow: Weights
    previous_value: Weights
    own: Weights
    value: Weights
    rank: Weights

    def at(self, places: Nodes | Mask) -> Paths:
        """Return the paths at these positions, in the order of ``places``."""
        columns: Any = [each[places] for each in self]
        return Paths(*columns)


class PathSearch:
    """State of one traversal: the best path to every node reached so far.

    Paths are added and never replaced, so a path does not change when a better path to one of its chunks is found.
    ``touched`` are the nodes that the last step led to, on whatever path.
    """

    def __init__(self, graph: Graph, seeds: Seeds, score: GraphScore, vector: Vector | None, max_nodes: int) -> None:
        self._graph, self._score = graph, score
        self._vector = vector if getattr(score, "needs_own", True) else None
        first = dict(reversed(list(seeds)))
        self._names = list(dict.fromkeys(id for id, _ in seeds))
        scores = np.array([first[id] for id in self._names], np.float64)
        self._best_seed = float(np.fmax.reduce(scores, initial=0.0))
        self._room = max_nodes
        self.capped = False
        self.touched = np.zeros(0, np.int64)
        n = len(scores)
        one, unknown, none = np.ones(n), np.full(n, np.nan), np.zeros(n, np.int64)
        nodes, places = graph.nodes(self._names), np.arange(n)
        roots = Paths(nodes, none - 1, places, scores, none, one, one, scores, unknown, scores, unknown, unknown)
        self.paths = self._with_values(roots)
        self._sort()

    @property
    def seeds(self) -> Nodes:
        """Positions of the seeds that are in the graph, best first."""
        return np.flatnonzero(self.paths.node[: len(self._names)] >= 0)

    def rings(
        self,
        hops: int,
        *,
        frontier: int | None = None,
        decay: float = 1.0,
        floor: float = 0.0,
        width: int | None = None,
    ) -> TraversalResult:
        """Reach chunks ring by ring, up to ``hops`` edges away, and return them.

        ``frontier`` is the number of best chunks of each ring to expand. The other parameters are those of
        :meth:`grow`.
        """
        ring = self.seeds
        for _ in range(hops):
            if frontier is not None:
                ring = self._best(self.paths, ring, frontier)
            if not len(ring):
                break
            ring = self.grow(ring, decay=decay, floor=floor, width=width)
        return self.result()

    def grow(self, frontier: Nodes, *, decay: float = 1.0, floor: float = 0.0, width: int | None = None) -> Nodes:
        """Extend the paths at the positions ``frontier`` by one edge, and return the positions of the new paths.

        A new path is added only if it improves on earlier paths to the same node, and, with ``width``, if it is among
        the best ``width`` of these. ``flow`` is multiplied at every edge by the weight of the edge and by ``decay``;
        edges that would reduce it below ``floor`` are not followed.
        """
        new_paths = self._steps(frontier, decay, floor)
        keys = self._sort_keys(new_paths.rank, new_paths.hops)
        order = np.lexsort((*keys[::-1], new_paths.node))  # paths with equal keys stay in order
        new_paths = new_paths.at(order[~_equals_previous(new_paths.node[order])])
        self.touched = new_paths.node
        visited = self._positions(new_paths.node)
        before = self._places[visited]
        key, next_key = self._sort_keys(new_paths.rank, new_paths.hops)
        old_key, old_next_key = self._sort_keys(self.paths.rank[before], self.paths.hops[before])
        is_extended = (visited < 0) | (key < old_key) | ((key == old_key) & (next_key < old_next_key))
        if chosen_by(self._score) == "seed":
            # A path from a better seed than those of all earlier paths to the same node is also extended.
            is_extended |= new_paths.seed > np.fmax.reduceat(self.paths.seed[self._order], self._starts)[visited]
        selected = np.flatnonzero(is_extended)
        if width is not None:
            selected = self._best(new_paths, selected, width)
        is_new = visited[selected] < 0
        admitted = self._best(new_paths, selected[is_new], self._room)
        self.capped = self.capped or len(admitted) < int(is_new.sum())
        self._room -= len(admitted)
        size = len(self.paths.node)
        new_paths = new_paths.at(np.sort(np.concatenate([selected[~is_new], admitted])))
        columns: Any = map(np.concatenate, zip(self.paths, new_paths, strict=True))
        self.paths = Paths(*columns)
        self._sort()
        return np.arange(size, len(self.paths.node))

    def is_best(self, place: int) -> bool:
        """Return whether the path at a position is still the best path to its last node."""
        return bool(self._places[self._positions(self.paths.node[place])] == place)

    def top(self, n: int) -> frozenset[int]:
        """Return the best n nodes reached so far, ignoring nodes without a value."""
        places = self._places[~np.isnan(self.paths.value[self._places])]
        return frozenset(self.paths.node[self._best(self.paths, places, n)].tolist())

    def result(self, *, converged: bool = False) -> TraversalResult:
        """Return the reached chunks as the result of the traversal."""
        missing = np.flatnonzero(self.paths.node[: len(self._names)] < 0)
        ids = self._names + self._graph.ids(self.paths.node[len(self._names) :])
        root, hops = self.paths.root.tolist(), self.paths.hops.tolist()
        values = np.nan_to_num(self.paths.value)
        if is_mixed(self._score):
            values[self.paths.hops == 0] = 0.0  # a seed is not evidence for itself
        value = values.tolist()
        path: list[tuple[str, ...]] = []
        for id, before in zip(ids, self.paths.before.tolist(), strict=True):
            path.append((id,) if before < 0 else (*path[before], id))
        places = [*self._places.tolist(), *missing.tolist()]
        chunks = [ReachedChunk(ids[each], value[each], hops[each], path[each], ids[root[each]]) for each in places]
        return TraversalResult(tuple(sorted(chunks, key=best_first)), self.capped, converged)

    def _sort(self) -> None:
        """Sort the paths by node, the best path to each node first, and find the visited nodes among them."""
        key, next_key = self._sort_keys(self.paths.rank, self.paths.hops)
        order = np.lexsort((next_key, key, self.paths.node))
        self._order = order[np.count_nonzero(self.paths.node < 0) :]
        nodes = self.paths.node[self._order]
        self._starts = np.flatnonzero(~_equals_previous(nodes))
        self._places, self._visited = self._order[self._starts], nodes[self._starts]

    def _sort_keys(self, rank: Weights, hops: Nodes) -> tuple[Weights | Nodes, Weights | Nodes]:
        """Return the keys that decide between paths to one node, the smallest first, by the score's ``chosen_by``."""
        return (hops, -rank) if chosen_by(self._score) == "hops" else (-rank, hops)

    def _positions(self, nodes: Nodes) -> Nodes:
        """Return the position of each node among the visited nodes, or -1 for a node that was not reached."""
        places = np.minimum(np.searchsorted(self._visited, nodes), len(self._visited) - 1)
        return np.where(self._visited[places] == nodes, places, -1)

    def _best(self, paths: Paths, places: Nodes, n: int) -> Nodes:
        """Return the positions of the n paths with the largest values, ties by the id of their last node.

        ``places`` are positions of paths to different nodes.
        """
        return places[heaviest(paths.rank[places], n, lambda best: self._graph.ids(paths.node[places[best]]))]

    def _steps(self, frontier: Nodes, decay: float, floor: float) -> Paths:
        """Return the paths that extend those in ``frontier`` by one edge, sorted by node and previous chunk's id."""
        # Once the maximum number of nodes is reached, only better paths to visited nodes matter, so other neighbours
        # are not read.
        is_full = self._room == 0 and self.capped
        graph = self._graph.restricted_to(self._visited) if is_full else self._graph
        if floor:
            frontier = frontier[~(self.paths.flow[frontier] * decay < floor)]  # no weight is above 1
        names = self._graph.ids(self.paths.node[frontier])
        frontier = frontier[sorted(range(len(names)), key=names.__getitem__)]
        hops = graph.neighbours(self.paths.node[frontier])
        flow = self.paths.flow[frontier][hops.origin] * hops.weight * decay
        is_visited = self._positions(hops.node) >= 0
        is_followed = ~(flow < floor)
        revisits = np.flatnonzero(is_followed & is_visited)
        is_followed[revisits] = ~self._on_path(frontier, hops.origin[revisits], hops.node[revisits])
        if self._room == 0:
            self.capped = self.capped or bool((is_followed & ~is_visited).any())
            is_followed &= is_visited
        steps = np.flatnonzero(is_followed)
        steps = steps[np.argsort(hops.node[steps] << 32 | hops.origin[steps])]
        node, weight, previous = hops.node[steps], hops.weight[steps], frontier[hops.origin[steps]]
        last = self.paths.at(previous)
        new_paths = last._replace(node=node, before=previous, hops=last.hops + 1, weight=weight, flow=flow[steps])
        product, own = last.product * weight, self._own(node)
        return self._with_values(new_paths._replace(product=product, previous_value=last.value, own=own))

    def _on_path(self, frontier: Nodes, origin: Nodes, node: Nodes) -> Mask:
        """Return a mask of the edges, from positions in ``frontier``, that lead back to a node of their own path."""
        back = np.zeros(len(node), np.bool_)
        while (frontier >= 0).any():
            back |= np.where(frontier >= 0, self.paths.node[frontier], -1)[origin] == node
            frontier = np.where(frontier >= 0, self.paths.before[frontier], -1)
        return back

    def _own(self, nodes: Nodes) -> Weights:
        """Return the similarity of each node (ascending) to the query, NaN if unknown; visited ones keep theirs."""
        places = self._positions(nodes)
        own = np.where(places >= 0, self.paths.own[self._places[places]], np.nan)
        new = places < 0
        if self._vector is not None and new.any():
            different, place = np.unique(nodes[new], return_inverse=True)
            own[new] = np.clip(self._graph.cosines(self._vector, different), 0.0, 1.0)[place]
        return own

    def _with_values(self, new: Paths) -> Paths:
        features = PathFeatures(
            new.seed, self._best_seed, new.hops, new.weight, new.product, new.previous_value, new.own, new.flow
        )
        value = path_values(self._score, features)
        return new._replace(value=value, rank=rank(value))


def heaviest(values: Weights, n: int, ids: Callable[[Nodes], Sequence[str]]) -> Nodes:
    """Return the positions of the n largest values, in ascending order; ties are ordered by the ids of positions."""
    if len(values) <= n:
        return np.arange(len(values))
    least = -np.partition(-values, n - 1)[n - 1] if n else np.inf
    best, tied = np.flatnonzero(values > least), np.flatnonzero(values == least)
    if len(best) + len(tied) > n:
        tied = tied[sorted(range(len(tied)), key=ids(tied).__getitem__)[: n - len(best)]]
    return np.sort(np.concatenate([best, tied]))


def best_first(reached_chunk: ReachedChunk) -> tuple[float, str]:
    """Return the sort key that orders chunks by value, best first, ties by id."""
    return -round(reached_chunk.value, DECIMALS), reached_chunk.id


def rank(values: Weights) -> Weights:
    """Return the values rounded for comparison, with −1 for an unknown value."""
    return np.where(np.isnan(values), -1.0, np.round(values, DECIMALS))


def _equals_previous(values: Nodes | Weights) -> Mask:
    is_equal = np.zeros(len(values), np.bool_)
    is_equal[1:] = values[1:] == values[:-1]
    return is_equal


@dataclass(frozen=True)
class BFS(EdgeFilteredTraversal):
    """Breadth-first search, which reaches all chunks up to ``max_hops`` edges away.

    If a ring (the chunks of one hop) contains more new chunks than ``max_nodes`` allows, only the best are reached.
    ``max_frontier`` limits the number of chunks that are expanded in each ring, best first; None means no limit. A
    chunk is expanded again if a later hop reaches it on a better path.

    >>> from langchain_hybridgraph.search.scores import HopDecay
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

    max_hops: int = setting(2, least=0)
    max_frontier: int | None = setting(None, least=1)

    def traverse(self, graph: Graph, seeds: Seeds, score: GraphScore, vector: Vector | None) -> TraversalResult:
        trail = PathSearch(graph, seeds, score, vector, self.max_nodes)
        return trail.rings(self.max_hops, frontier=self.max_frontier)


@dataclass(frozen=True)
class Beam(EdgeFilteredTraversal):
    """Beam search: each hop keeps and expands only the best ``width`` chunks.

    >>> from langchain_hybridgraph.search.scores import HopDecay
    >>> from langchain_hybridgraph.records import Edge, Scope
    >>> from langchain_hybridgraph.stores.graph import InMemoryGraph
    >>> edges = [Edge("A", "p", "cites", 0.9), Edge("A", "q", "cites", 0.6), Edge("p", "s", "cites", 0.5)]
    >>> beam = Beam(width=1)
    >>> graph = InMemoryGraph(edges).scoped_graph(Scope(), beam.edge_filter)
    >>> result = beam.traverse(graph, [("A", 0.9)], HopDecay(), None)
    >>> [chunk.id for chunk in result.chunks]
    ['A', 'p', 's']
    """

    width: int = setting(10, least=1)
    max_hops: int = setting(2, least=0)

    def traverse(self, graph: Graph, seeds: Seeds, score: GraphScore, vector: Vector | None) -> TraversalResult:
        trail = PathSearch(graph, seeds, score, vector, self.max_nodes)
        return trail.rings(self.max_hops, width=self.width)


@dataclass(frozen=True)
class WaterCircle(EdgeFilteredTraversal):
    """Traversal in expanding rings, with an energy that starts as the seed's score and decreases with every edge.

    Every edge multiplies the energy by its weight and by ``ring_decay``. Edges that would reduce the energy below
    ``min_energy`` are not followed. The graph score selects among several paths to a chunk. With the score ``Flow``, or
    ``RingDecay`` with the same decay, the value of a chunk is its energy.

    >>> from langchain_hybridgraph.search.scores import Flow
    >>> from langchain_hybridgraph.records import Edge, Scope
    >>> from langchain_hybridgraph.stores.graph import InMemoryGraph
    >>> edges = [Edge("A", "B", "cites", 0.8), Edge("B", "C", "cites", 0.2)]
    >>> rings = WaterCircle()
    >>> graph = InMemoryGraph(edges).scoped_graph(Scope(), rings.edge_filter)
    >>> result = rings.traverse(graph, [("A", 0.9)], Flow(), None)
    >>> [(chunk.id, round(chunk.value, 3)) for chunk in result.chunks]
    [('A', 0.9), ('B', 0.36)]
    """

    max_hops: int = setting(3, least=0)
    ring_decay: float = setting(0.5, ge=0, le=1)
    min_energy: float = setting(0.05, ge=0, le=1)

    def traverse(self, graph: Graph, seeds: Seeds, score: GraphScore, vector: Vector | None) -> TraversalResult:
        trail = PathSearch(graph, seeds, score, vector, self.max_nodes)
        return trail.rings(self.max_hops, decay=self.ring_decay, floor=self.min_energy)


@dataclass(frozen=True)
class BestFirst(EdgeFilteredTraversal):
    """Best-first search for hierarchies. It always expands the best chunk that has not been expanded yet.

    The search starts at the ``start_k`` best seeds and at seeds without a score. Other seeds are expanded only when an
    edge leads to them. If the best ``k`` chunks stay the same for ``max_rounds`` expansions, the search is
    ``converged``.
    """

    max_rounds: int = setting(3, least=1)
    start_k: int = setting(3, least=1)
    k: int = setting(10, least=1)

    def traverse(self, graph: Graph, seeds: Seeds, score: GraphScore, vector: Vector | None) -> TraversalResult:
        """See :class:`~langchain_hybridgraph.search.traversals.Traversal`; ``converged`` is true if it ended early."""
        trail = PathSearch(graph, seeds, score, vector, self.max_nodes)
        queue: list[tuple[float, str, int]] = []

        def push(places: Nodes) -> None:
            paths = trail.paths.at(places)
            for entry in zip((-paths.rank).tolist(), graph.ids(paths.node), places.tolist(), strict=True):
                heapq.heappush(queue, entry)

        unknown = np.isnan(trail.paths.value[trail.seeds])
        scored_seeds = trail.seeds[~unknown]
        others = scored_seeds[self.start_k :]
        waiting = dict(zip(trail.paths.node[others].tolist(), others.tolist(), strict=True))
        push(np.concatenate([scored_seeds[: self.start_k], trail.seeds[unknown]]))
        best: frozenset[int] = frozenset()
        unchanged = 0
        while queue:
            place = heapq.heappop(queue)[2]
            if not trail.is_best(place):
                continue
            push(trail.grow(np.array([place])))
            push(np.array([waiting.pop(node) for node in trail.touched.tolist() if node in waiting], np.int64))
            if not len(trail.touched):
                continue
            top = trail.top(self.k)
            unchanged = unchanged + 1 if top == best else 0
            best = top
            if unchanged == self.max_rounds:
                return trail.result(converged=True)
        return trail.result()
