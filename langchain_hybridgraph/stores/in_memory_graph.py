"""A graph in memory for any store."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from langchain_hybridgraph.records import CONTAINS, FAN, MENTIONS, Edge, checked_edges
from langchain_hybridgraph.stores.protocols import NeighborEdges

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.chunks import Mask, Vector
    from langchain_hybridgraph.records import EdgeFilter, Scope
    from langchain_hybridgraph.stores.protocols import Graph, HasGraph, Nodes, Weights

Visible = Callable[[Sequence[str], "Scope"], Collection[str]]
Cosines = Callable[["Vector", Sequence[str]], "dict[str, float]"]

UNKNOWN, HIDDEN, VISIBLE = 0, 1, 2


class InMemoryGraph:
    """Edges in memory, indexed by both ends, for stores without a graph of their own.

    A node is an entity if it is the target of an edge with the relation ``mentions`` and no edge leaves it. Every other
    node is treated as a chunk, although the graph stores no chunks. If several edges have the same source, target and
    relation, only the heaviest is kept.

    ``visible(ids, scope)`` returns those of the ids whose chunks are in the scope; by default, every chunk is visible.
    ``cosines(vector, ids)`` returns the cosine of each chunk with the vector, by id; by default, all cosines are
    unknown.

    >>> from langchain_hybridgraph.records import Scope, EdgeFilter
    >>> store = InMemoryGraph([Edge("a", "b", "cites", 0.5), Edge("b", "c", "cites")])
    >>> graph = store.scoped_graph(Scope(), EdgeFilter())
    >>> graph.ids(graph.neighbours(graph.nodes(["a"])).node)
    ['b']
    """

    def __init__(
        self, edges: Iterable[Edge] = (), *, visible: Visible | None = None, cosines: Cosines | None = None
    ) -> None:
        self.visible, self.cosines = visible, cosines
        self.node_of: dict[str, int] = {}
        self._place_of: dict[tuple[int, int, str], int] = {}
        self._edges: list[Edge | None] = []
        self._free: list[int] = []
        self._columns = _EdgeColumns()
        self._state: _GraphState | None = None
        self._lock = Lock()
        self.add(edges)

    def __len__(self) -> int:
        return len(self._place_of)

    @property
    def has_graph(self) -> bool:
        """Whether the graph currently has any edges."""
        return bool(self._place_of)

    def chunk_ids(self) -> list[str]:
        """Return the ids of the chunks that have edges, sorted.

        An edge connects two chunks, with two exceptions: the source of a ``contains`` edge is a directory, and the
        target of a ``mentions`` edge is an entity.
        """
        with self._lock:
            edges = [edge for edge in self._edges if edge is not None]
        sources = {edge.source for edge in edges if edge.relation != CONTAINS}
        return sorted(sources | {edge.target for edge in edges if edge.relation != MENTIONS})

    def add(self, edges: Iterable[Edge]) -> None:
        """Add edges; if several have the same source, target and relation, keep only the heaviest.

        Raises ConfigurationError unless ``edges`` is an iterable of Edge. Raises ValueError for an id, a relation or a
        description that cannot be stored, such as an empty id. In both cases, no edge is added.
        """
        edges = checked_edges(edges)
        with self._lock:
            for edge in edges:
                self._add(edge)
            self._state = None

    def remove(self, ids: Iterable[str]) -> int:
        """Delete every edge that starts or ends at one of these ids; return the number of deleted edges."""
        with self._lock:
            nodes = np.array([self.node_of[id] for id in set(ids) if id in self.node_of], np.int64)
            places = self._columns.places_of(nodes)
            for place in places.tolist():
                edge = self._edges[place]
                assert edge is not None, "a dead edge has no ends"
                del self._place_of[self.node_of[edge.source], self.node_of[edge.target], edge.relation]
                self._edges[place] = None
                self._columns.clear(place)
            self._free += places.tolist()
            self._state = None
            return len(places)

    def scoped_graph(self, scope: Scope, edge_filter: EdgeFilter) -> Graph:
        """Return the part of the current graph that a call with this scope and edge filter may traverse.

        It does not show edges that are added later.
        """
        return _View(self._now(), scope, edge_filter, _StoreAccess(self.node_of, self.visible, self.cosines))

    def for_store(self, visible: Visible, cosines: Cosines | None) -> HasGraph:
        """Return this graph as seen by one store, which determines the visible chunks and computes the cosines.

        The constructor's ``visible`` and ``cosines`` take precedence over those passed here.
        """
        return _GraphOfStore(self, self.visible or visible, self.cosines or cosines)

    def _now(self) -> _GraphState:
        with self._lock:
            if self._state is None:
                self._state = _GraphState.of(list(self.node_of), list(self._edges), self._columns)
            return self._state

    def _add(self, edge: Edge) -> None:
        source, target = (self.node_of.setdefault(id, len(self.node_of)) for id in (edge.source, edge.target))
        key = source, target, edge.relation
        place = self._place_of.get(key)
        if place is None:
            place = self._place_of[key] = self._free.pop() if self._free else len(self._edges)
        elif (existing := self._edges[place]) is not None and existing.weight >= edge.weight:
            return
        if place == len(self._edges):
            self._edges.append(edge)
        else:
            self._edges[place] = edge
        self._columns.set_edge(place, source, target, edge)


@dataclass
class _EdgeColumns:
    """All edges as columns, one array per attribute. The source and target of a removed edge are -1."""

    source: array[int] = field(default_factory=lambda: array("q"))
    target: array[int] = field(default_factory=lambda: array("q"))
    relation: array[int] = field(default_factory=lambda: array("q"))
    weight: array[float] = field(default_factory=lambda: array("d"))
    begins: array[float] = field(default_factory=lambda: array("d"))
    ends: array[float] = field(default_factory=lambda: array("d"))
    names: dict[str, int] = field(default_factory=lambda: {MENTIONS: 0})

    def set_edge(self, place: int, source: int, target: int, edge: Edge) -> None:
        """Store an edge at this position, or append it if the position is one after the last edge."""
        begins = -np.inf if edge.valid_from is None else edge.valid_from
        ends = np.inf if edge.valid_until is None else edge.valid_until
        relation = self.names.setdefault(edge.relation, len(self.names))
        values = (source, target, relation, edge.weight, begins, ends)
        for column, value in zip(self._all(), values, strict=True):
            if place == len(column):
                column.append(value)
            else:
                column[place] = value

    def clear(self, place: int) -> None:
        """Mark the edge at this position as removed."""
        self.source[place] = self.target[place] = -1

    def places_of(self, nodes: Nodes) -> Nodes:
        """Return the positions of the edges that start or end at these nodes, ascending."""
        source, target = np.array(self.source, np.int64), np.array(self.target, np.int64)
        return np.flatnonzero(np.isin(source, nodes) | np.isin(target, nodes))

    def _all(self) -> tuple[array, ...]:  # type: ignore[type-arg]  # of both kinds
        return self.source, self.target, self.relation, self.weight, self.begins, self.ends


class _GroupedEdges(NamedTuple):
    """Positions of edges, grouped by source or by target, without removed edges.

    The edges of node n are ``edge[start[n]:start[n + 1]]``.
    """

    start: Nodes
    edge: Nodes

    @classmethod
    def of(cls, side: Nodes, n: int) -> _GroupedEdges:
        alive = np.flatnonzero(side >= 0)
        counts = np.bincount(side[alive], minlength=n)
        return cls(np.concatenate([[0], np.cumsum(counts)]), alive[np.argsort(side[alive], kind="stable")])

    def edges_of(self, nodes: Nodes) -> tuple[Nodes, Nodes]:
        """Return the edges of these nodes as (origins, positions), two arrays with one entry per edge.

        For each edge, ``origins`` contains the index in ``nodes`` of the node to which it belongs, and ``positions``
        contains its position in the columns.
        """
        counts = self.start[nodes + 1] - self.start[nodes]
        origin = np.repeat(np.arange(len(nodes)), counts)
        within = np.arange(len(origin)) - np.repeat(np.cumsum(counts) - counts, counts)
        return origin, self.edge[self.start[nodes][origin] + within]


class _GraphState(NamedTuple):
    """Immutable snapshot of all edges."""

    ids: NDArray[np.object_]
    edges: list[Edge | None]
    source: Nodes
    target: Nodes
    relation: Nodes
    weight: Weights
    begins: Weights
    ends: Weights
    names: dict[str, int]
    relations: frozenset[str]
    out: _GroupedEdges
    into: _GroupedEdges
    degree: Nodes
    is_entity: Mask
    is_mention: Mask

    @classmethod
    def of(cls, ids: list[str], edges: list[Edge | None], columns: _EdgeColumns) -> _GraphState:
        source, target, relation = (np.array(c, np.int64) for c in (columns.source, columns.target, columns.relation))
        weight, begins, ends = (np.array(c, np.float64) for c in (columns.weight, columns.begins, columns.ends))
        out, into = _GroupedEdges.of(source, len(ids)), _GroupedEdges.of(target, len(ids))
        counts = np.bincount(relation[source >= 0], minlength=len(columns.names))
        is_entity = np.zeros(len(ids), np.bool_)
        is_entity[target[(relation == 0) & (source >= 0)]] = True
        is_entity[source[source >= 0]] = False
        return cls(
            ids=np.array(ids, object),
            edges=edges,
            source=source,
            target=target,
            relation=relation,
            weight=weight,
            begins=begins,
            ends=ends,
            names=dict(columns.names),
            relations=frozenset(name for name, code in columns.names.items() if counts[code]),
            out=out,
            into=into,
            degree=np.diff(out.start) + np.diff(into.start),
            is_entity=is_entity,
            is_mention=is_entity[target],
        )


@dataclass(frozen=True)
class _GraphOfStore:
    """An :class:`InMemoryGraph` as seen by one store; other stores may share its edges."""

    edges: InMemoryGraph
    visible: Visible
    cosines: Cosines | None

    @property
    def has_graph(self) -> bool:
        """Whether the graph currently has any edges."""
        return self.edges.has_graph

    def scoped_graph(self, scope: Scope, edge_filter: EdgeFilter) -> Graph:
        """Return the part of the current graph that a call with this scope and edge filter may traverse."""
        edges = self.edges
        return _View(edges._now(), scope, edge_filter, _StoreAccess(edges.node_of, self.visible, self.cosines))


class _StoreAccess(NamedTuple):
    """Lookups that a view needs: the node of an id, the visible chunks, and the cosines of chunks."""

    node_of: Mapping[str, int]
    visible: Visible | None
    cosines: Cosines | None


class _View:
    """The graph that one call may traverse, as a :class:`~langchain_hybridgraph.stores.protocols.Graph`."""

    def __init__(self, state: _GraphState, scope: Scope, edge_filter: EdgeFilter, of: _StoreAccess) -> None:
        self._state, self._scope, self._edge_filter = state, scope, edge_filter
        self._node_of, self._ask_visible, self._ask_cosines = of.node_of, of.visible, of.cosines
        self._visibility = np.where(state.is_entity, VISIBLE, VISIBLE if of.visible is None else UNKNOWN).astype(
            np.int8
        )
        self._ends: Nodes | None = None
        self._relations = None
        if edge_filter.relations is not None:
            self._relations = np.array([state.names[r] for r in edge_filter.relations if r in state.names], np.int64)

    def __len__(self) -> int:
        return int(np.count_nonzero(~self._state.is_entity & (self._state.degree > 0)))

    @property
    def has_entities(self) -> bool:
        """Whether the graph has entities."""
        return bool(self._state.is_entity.any())

    @property
    def relations(self) -> frozenset[str]:
        """Names of all relations, including those of edges that the call may not traverse."""
        return self._state.relations

    def nodes(self, ids: Sequence[str]) -> Nodes:
        """Return the node of each id, or -1 for an id that has no edges or is not in scope.

        See :class:`~langchain_hybridgraph.stores.protocols.Graph` for this and the other methods.
        """
        count = len(self._state.ids)
        results = np.array([self._node_of.get(id, -1) for id in ids], np.int64)
        results[(results >= count) | (results < 0)] = -1
        in_graph = np.flatnonzero(results >= 0)
        results[in_graph[(self._state.degree[results[in_graph]] == 0) | ~self._is_visible(results[in_graph])]] = -1
        return results

    def ids(self, nodes: Nodes) -> list[str]:
        """Return the id of each node."""
        results: list[str] = self._state.ids[nodes].tolist()
        return results

    def restricted_to(self, nodes: Nodes) -> _View:
        """Return the same graph with ``neighbours`` restricted to hops that lead to these chunks."""
        view = copy(self)
        view._ends = nodes
        return view

    def neighbours(self, nodes: Nodes) -> NeighborEdges:
        """Return the chunks one hop away, with the heaviest hop to each.

        If two hops are equally heavy, a direct edge is preferred to a shared entity, and a rare entity to a common one.
        """
        return self._best(self._hops(nodes))

    def _hops(self, nodes: Nodes) -> NeighborEdges:
        """Return all hops from these nodes to chunks. Several hops may connect the same two chunks."""
        hops = _together([self._direct(nodes), self._mentioning(self._rarest(self._mentioned(nodes)), nodes)])
        if self._ends is not None:
            hops = _at(hops, np.isin(hops.node, self._ends))
        entity_factor = np.where(hops.via < 0, 1.0, self._hub(hops.via))
        return hops._replace(weight=hops.weight * self._hub(nodes)[hops.origin] * entity_factor)

    def _best(self, hops: NeighborEdges) -> NeighborEdges:
        rarity = np.where(hops.via < 0, -1, self._state.degree[hops.via])
        return _best_per_pair(hops, len(self._state.ids), hops.via, rarity, -hops.weight)

    def links(self, nodes: Nodes) -> NeighborEdges:
        """Return the stored edges of these nodes that the call may traverse, including mentions.

        If several edges connect the same two nodes, only the heaviest is returned.
        """
        is_entity = self._state.is_entity[nodes]
        backwards = self._traverse(nodes, self._state.into, mentions=True)
        parts = [self._direct(nodes), self._mentioned(nodes), _at(backwards, is_entity[backwards.origin])]
        hops = _together(parts)
        return _best_per_pair(hops, len(self._state.ids), -hops.weight)

    def degrees(self, nodes: Nodes) -> Nodes:
        """Return the number of edges of each node."""
        return self._state.degree[nodes]

    def is_chunk(self, nodes: Nodes) -> Mask:
        """Return a mask of the nodes that are chunks."""
        return ~self._state.is_entity[nodes]

    def cosines(self, vector: Vector, nodes: Nodes) -> Weights:
        """Return the cosine of each chunk with a unit vector; NaN if it is unknown."""
        if self._ask_cosines is None or not len(nodes):
            return np.full(len(nodes), np.nan)
        ids = self.ids(nodes)
        cosine_of = self._ask_cosines(vector, ids)
        return np.array([cosine_of.get(id, np.nan) for id in ids], np.float64)

    def edges(self, steps: Sequence[tuple[str, str]]) -> list[Edge | tuple[Edge, Edge] | None]:
        """Return, for each step between two chunks, the edge or the two mentions that connect them.

        Two mentions connect the chunks if both chunks mention the same entity. The result for a step is None if the
        chunks are not connected.

        If several edges or entities connect the chunks, the connection with the largest damped weight is returned.
        Without ``hub_degree``, a direct edge is preferred to any entity, and a rare entity to a common one.
        """
        ends = self.nodes([id for step in steps for id in step]).reshape(-1, 2)
        return [self._edge(*step) if min(step) >= 0 else None for step in ends.tolist()]

    def _edge(self, origin: int, node: int) -> Edge | tuple[Edge, Edge] | None:
        hops = self._hops(np.array([origin]))
        if self._edge_filter.hub_degree is None:
            # Without damping, a common entity would weigh as much as a rare one, although sharing it means less.
            hops = hops._replace(weight=np.where(hops.via < 0, 1.0, 1.0 / np.maximum(self._state.degree[hops.via], 2)))
        hops = self._best(hops)
        via = hops.via[hops.node == node].tolist()
        if not via:
            return None
        if via[0] >= 0:
            return self._heaviest(origin, via[0], mentions=True), self._heaviest(node, via[0], mentions=True)
        return self._heaviest(origin, node, mentions=False)

    def _heaviest(self, one: int, other: int, *, mentions: bool) -> Edge:
        """Return the heaviest edge that this call may traverse between two nodes, ties by relation."""
        state, sides = self._state, []
        if mentions or self._edge_filter.direction != "in":
            sides.append((state.out, state.target))
        if not mentions and self._edge_filter.direction != "out":
            sides.append((state.into, state.source))
        edges_by_side = [self._open(side.edges_of(np.array([one]))[1], mentions) for side, _ in sides]
        positions = np.concatenate(
            [edge[far_ends[edge] == other] for edge, (_, far_ends) in zip(edges_by_side, sides, strict=True)]
        )
        names = [self._edges_at(place).relation for place in positions.tolist()]
        best = min(range(len(positions)), key=lambda i: (-state.weight[positions[i]], names[i]))
        return self._edges_at(int(positions[best]))

    def _edges_at(self, place: int) -> Edge:
        edge = self._state.edges[place]
        assert edge is not None, "a traversal sees no dead edge"
        return edge

    def _direct(self, nodes: Nodes) -> NeighborEdges:
        """Return the edges from these nodes to chunks in the allowed direction; mentions are left out."""
        sides = []
        if self._edge_filter.direction != "in":
            sides.append(self._traverse(nodes, self._state.out, mentions=False))
        if self._edge_filter.direction != "out":
            sides.append(self._traverse(nodes, self._state.into, mentions=False))
        return _together(sides)

    def _mentioned(self, nodes: Nodes) -> NeighborEdges:
        """Return the edges from these chunks to the entities that they mention."""
        return self._traverse(nodes, self._state.out, mentions=True)

    def _mentioning(self, mentions: NeighborEdges, nodes: Nodes) -> NeighborEdges:
        """Return the hops through these mentions to other chunks that mention the same entities."""
        hops = self._traverse(mentions.node, self._state.into, mentions=True)
        origin = mentions.origin[hops.origin]
        weight = hops.weight * mentions.weight[hops.origin]
        return _at(NeighborEdges(origin, hops.node, weight, mentions.node[hops.origin]), nodes[origin] != hops.node)

    def _rarest(self, mentions: NeighborEdges) -> NeighborEdges:
        """Return the mentions to traverse: those that lead to each chunk's rarest entities.

        The rarest entity of a chunk is always included. The next rarest ones are included as long as the degrees of the
        chunk's included entities add up to at most ``FAN`` · ``hub_degree``. Without ``hub_degree``, all mentions are
        returned.
        """
        degree = self._state.degree[mentions.node]
        order = np.lexsort((mentions.node, degree, mentions.origin))
        is_first = np.diff(mentions.origin[order], prepend=-1) != 0
        if self._edge_filter.hub_degree is None:
            return mentions
        total = np.cumsum(degree[order])
        before = np.maximum.accumulate(np.where(is_first, total - degree[order], 0))
        return _at(mentions, order[is_first | (total - before <= FAN * self._edge_filter.hub_degree)])

    def _traverse(self, nodes: Nodes, side: _GroupedEdges, *, mentions: bool) -> NeighborEdges:
        """Return the edges that the call may traverse from these nodes to visible nodes.

        ``side`` is the snapshot's ``out`` to follow edges forwards, or ``into`` to follow them backwards. ``mentions``
        is as in :meth:`_open_mask`.
        """
        origin, edges = side.edges_of(nodes)
        far_ends = self._state.target if side is self._state.out else self._state.source
        is_open = self._open_mask(edges, mentions)
        origin, edges = origin[is_open], edges[is_open]
        is_visible = self._is_visible(far_ends[edges])
        origin, edges = origin[is_visible], edges[is_visible]
        return NeighborEdges(origin, far_ends[edges], self._state.weight[edges], np.full(len(edges), -1))

    def _open(self, edges: Nodes, mentions: bool) -> Nodes:
        return edges[self._open_mask(edges, mentions)]

    def _open_mask(self, edges: Nodes, mentions: bool) -> Mask:
        """Return a mask of the edges that this call may traverse.

        If ``mentions`` is True, only edges to entities are included; otherwise, only edges between chunks are included.
        """
        state, edge_filter, as_of = self._state, self._edge_filter, self._scope.as_of
        is_open: Mask = state.is_mention[edges] == mentions
        if edge_filter.min_weight > 0:
            is_open &= state.weight[edges] >= edge_filter.min_weight
        if self._relations is not None:
            is_open &= np.isin(state.relation[edges], self._relations)
        if as_of is not None:
            is_open &= (state.begins[edges] <= as_of) & (as_of <= state.ends[edges])
        return is_open

    def _is_visible(self, nodes: Nodes) -> Mask:
        """Return a mask of the nodes that are entities or visible chunks; the visibility of each chunk is cached."""
        unknown = np.unique(nodes[self._visibility[nodes] == UNKNOWN])
        if len(unknown) and self._ask_visible is not None:
            ids = self.ids(unknown)
            visible_ids = self._ask_visible(ids, self._scope)
            self._visibility[unknown] = [VISIBLE if id in visible_ids else HIDDEN for id in ids]
        is_visible: Mask = self._visibility[nodes] == VISIBLE
        return is_visible

    def _hub(self, nodes: Nodes) -> Weights:
        """Return, for each node, the factor that damps the weights of its edges."""
        if self._edge_filter.hub_degree is None:
            return np.ones(len(nodes))
        return np.minimum(1.0, self._edge_filter.hub_degree / np.maximum(self._state.degree[nodes], 1))


def _at(hops: NeighborEdges, places: Nodes | Mask) -> NeighborEdges:
    return NeighborEdges._make(each[places] for each in hops)


def _together(parts: Sequence[NeighborEdges]) -> NeighborEdges:
    return NeighborEdges._make(np.concatenate(each) for each in zip(*parts, strict=True))


def _best_per_pair(hops: NeighborEdges, n: int, *keys: NDArray[np.generic]) -> NeighborEdges:
    """Return only the best hop between each pair of nodes.

    The best hop is the first one in the order of ``keys``; as in ``numpy.lexsort``, the last key is the primary one.
    ``n`` is the number of nodes in the graph.
    """
    pair = hops.origin * n + hops.node
    order = np.argsort(pair)
    again = np.diff(pair[order], prepend=-1) == 0
    if again.any():
        # Few pairs have several hops, so only those hops are sorted by the keys.
        duplicates = order[again | np.append(again[1:], False)]
        best = duplicates[np.lexsort((*(key[duplicates] for key in keys), pair[duplicates]))]
        first = best[np.diff(pair[best], prepend=-1) != 0]
        order = np.concatenate([np.setdiff1d(order, duplicates, assume_unique=True), first])
    return _at(hops, order)
