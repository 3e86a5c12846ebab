"""The graph of a store in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import numpy as np

from langchain_hybridgraph.chunks import is_valid
from langchain_hybridgraph.records import FAN, MENTIONS, Edge, EdgeFilter, Scope, checked_edges
from langchain_hybridgraph.stores.protocols import NeighborEdges
from langchain_hybridgraph.stores.row_table import RowNumbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.chunks import Mask, Vector
    from langchain_hybridgraph.stores.protocols import Nodes, Weights

    Integers = NDArray[np.integer]


Visible = Callable[[Sequence[str], "Scope"], Collection[str]]
Cosines = Callable[["Vector", Sequence[str]], "dict[str, float]"]
# Source, target, relation, weight, valid from, valid until, learned at; nodes are given by their numbers.
Arc = tuple[int, int, str, float, float, float, float]
Pair = tuple[int, int]
Columns = TypeVar("Columns", bound="EdgeColumns | NeighborEdges")

# Code of the relation ``mentions``, which leads to entities, in every graph.
MENTIONS_CODE = 0
# All edges are sorted again when the number of changed edges exceeds both this number and this share of all edges.
# Sorting takes 50 ms for 300,000 edges and half a second for 3,000,000; adding a change without it takes one or two ms.
RECENT_EDGES, RECENT_SHARE = 5_000, 0.05
_TARGET = (1 << 32) - 1  # bits of a key that contain the target
_NO_NODE = np.int32(-1)

# numpy reads rows of this type twice as fast as separate columns.
_ROW = np.dtype(
    {
        "names": ("source", "target", "relation", "weight", "start", "stop", "learned"),
        "formats": ("i8", "i8", "O", "f8", "f8", "f8", "f8"),
    }
)


class EdgeColumns(NamedTuple):
    """Edges as columns of equal length.

    ``key`` is source · 2³² + target; ``start`` and ``stop`` limit the validity (±infinity: unlimited).
    """

    key: NDArray[np.int64]
    relation: Integers
    weight: Weights
    start: Weights
    stop: Weights
    learned: Weights

    @classmethod
    def of(cls, arcs: Sequence[Arc], codes: dict[str, int]) -> Self:
        """Return the edges as columns; new relations are added to ``codes``."""
        rows = np.array(arcs, _ROW)
        relation = [codes.setdefault(name, len(codes)) for name in rows["relation"].tolist()]
        columns = [np.ascontiguousarray(rows[name]) for name in ("weight", "start", "stop", "learned")]
        return cls(rows["source"] << 32 | rows["target"], np.array(relation, np.int32), *columns)

    def ends(self) -> Nodes:
        """Return the sources and then the targets of all edges."""
        return np.concatenate([self.key >> 32, self.key & _TARGET])


class CompressedRows:
    """Immutable edges sorted by source and target, with their order by target and source.

    The edges of node i are at the positions from ``starts[backwards][i + 1]`` to ``[i + 2]``; unknown nodes have none.
    """

    def __init__(self, edges: EdgeColumns) -> None:
        edges = _select(edges, np.argsort(edges.key, kind="stable"))
        self.is_timed = bool(np.isfinite(edges.start).any() or np.isfinite(edges.stop).any())
        self.edges = edges._replace(relation=edges.relation.astype(np.min_scalar_type(edges.relation.max(initial=0))))
        if not self.is_timed:
            start, stop = (np.broadcast_to(limit, edges.key.shape) for limit in (-np.inf, np.inf))  # take no memory
            self.edges = self.edges._replace(start=start, stop=stop)
        source, target = self.edges.key >> 32, self.edges.key & _TARGET
        self.by_target = np.argsort(target << 32 | source, kind="stable").astype(np.int32)
        self.starts = _starts(source), _starts(target)

    def at(self, nodes: Nodes, *, backwards: bool) -> tuple[Nodes, Nodes]:
        """Return the edges from these nodes (``backwards``: to them), as positions in ``nodes`` and in ``edges``."""
        starts = self.starts[backwards]
        place = np.minimum(nodes, len(starts) - 3) + 1
        origin, position = spread(starts[place], starts[place + 1] - starts[place])
        return origin, self.by_target[position].astype(np.int64) if backwards else position


@dataclass(frozen=True, slots=True)
class GraphState:
    """Immutable state of a graph.

    ``row`` is the row of each node's chunk or -1, ``node_of_row`` its inverse; the last entries are for -1. ``counts``
    has the number of edges per relation. Edges changed after ``base`` was sorted are in ``stale``, their current state
    in ``recent``.
    """

    codes: Mapping[str, int]
    counts: NDArray[np.int64]
    row: NDArray[np.int32]
    is_entity: Mask
    degree: NDArray[np.int32]
    node_of_row: NDArray[np.int32]
    base: CompressedRows
    recent: CompressedRows
    stale: Mask | None = None

    @classmethod
    def of(cls, nodes: NDArray[np.int64], edges: EdgeColumns, codes: Mapping[str, int]) -> GraphState:
        """Return a graph of these edges; ``nodes`` as in :meth:`updated`."""
        none, zero, nothing = np.full(1, -1, np.int32), np.zeros(1, np.int32), CompressedRows(EdgeColumns.of([], {}))
        empty = cls({MENTIONS: MENTIONS_CODE}, np.zeros(1, np.int64), none, zero > 0, zero, none, nothing, nothing)
        no_nodes = np.zeros(0, np.int64)
        return empty.updated(no_nodes, nodes, no_nodes, edges, codes)

    def renumbered(self, earlier: RowNumbers, numbers: RowNumbers) -> GraphState:
        """Return the same graph after a packing of the rows."""
        is_present = numbers.still_present(earlier, len(self.node_of_row) - 1)
        row_of = np.append(np.where(is_present, np.cumsum(is_present) - 1, -1), -1)
        node_of_row = np.append(self.node_of_row[:-1][is_present], _NO_NODE)
        return replace(self, row=row_of[self.row].astype(np.int32), node_of_row=node_of_row)

    def updated(
        self,
        touched: Nodes,
        nodes: NDArray[np.int64],
        keys: NDArray[np.int64],
        changed_edges: EdgeColumns,
        codes: Mapping[str, int],
    ) -> GraphState:
        """Return the state after changes.

        ``nodes`` has a row (node, row of its chunk or -1, is entity) per existing node of ``touched``.
        ``changed_edges`` are all current edges between the pairs of nodes in ``keys``.
        """
        size = 2 + int(max(end.max(initial=-1) for end in (nodes[:, 0], touched, changed_edges.ends())))
        row, is_entity = _enlarge(self.row, size, -1), _enlarge(self.is_entity, size, False)
        row[touched], is_entity[touched] = -1, False
        node, row_of_node, entity = nodes.T
        row[node], is_entity[node] = row_of_node, entity > 0
        chunks = row_of_node >= 0
        node_of_row = _enlarge(self.node_of_row, int(row_of_node.max(initial=-1)) + 2, -1)
        node_of_row[row_of_node[chunks]] = node[chunks]

        first, last = (np.searchsorted(self.base.edges.key, keys, side) for side in ("left", "right"))
        obsolete = spread(first, last - first)[1]
        stale = self.stale
        if len(obsolete):
            stale = np.zeros(len(self.base.edges.key), np.bool_) if stale is None else stale.copy()
            obsolete = obsolete[~stale[obsolete]]
            stale[obsolete] = True
        replaced = np.isin(self.recent.edges.key, keys)
        degree, counts = _enlarge(self.degree, size, 0), _enlarge(self.counts, len(codes), 0)
        removed = concatenate([_select(self.recent.edges, replaced), _select(self.base.edges, obsolete)])
        for edges, sign in ((removed, -1), (changed_edges, 1)):
            np.add.at(degree, edges.ends(), sign)
            np.add.at(counts, edges.relation, sign)

        base, recent = self.base, concatenate([_select(self.recent.edges, ~replaced), changed_edges])
        if len(recent.key) > max(RECENT_EDGES, RECENT_SHARE * len(base.edges.key)):
            current = base.edges if stale is None else _select(base.edges, ~stale)
            base, stale, recent = CompressedRows(concatenate([current, recent])), None, EdgeColumns.of([], {})
        return GraphState(codes, counts, row, is_entity, degree, node_of_row, base, CompressedRows(recent), stale)


@dataclass(frozen=True)
class ScopedGraph(ABC):
    """Edges that one call may traverse, in one state of the graph (see ``stores.protocols.Graph``).

    The weight of a hop from or through a node with more than ``hub_degree`` edges is multiplied by ``hub_degree`` /
    degree. Entities of a chunk are followed from the rarest, until they lead to about ``FAN`` · ``hub_degree`` chunks.
    Hops lead only to ``ends`` (ascending; None: all in scope), in no particular order.
    """

    state: GraphState
    scope: Scope
    edge_filter: EdgeFilter
    ends: Nodes | None = field(default=None, kw_only=True)

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def visible_share(self) -> float:
        """Estimated share of the chunks that are in scope."""

    @abstractmethod
    def find(self, ids: Sequence[str]) -> Nodes:
        """Return the node of each id, or -1 for an unknown id."""

    @abstractmethod
    def ids(self, nodes: Nodes) -> list[str]:
        """Return the id of each node, or "" if the node has been deleted in the meantime."""

    @abstractmethod
    def is_visible(self, nodes: Integers) -> Mask:
        """Return a mask of the nodes that are chunks in scope."""

    @abstractmethod
    def cosines(self, vector: Vector, nodes: Nodes) -> Weights:
        """Return the cosine of each chunk with a unit vector; NaN if it is unknown."""

    @abstractmethod
    def edges_between(self, pairs: Iterable[Pair]) -> Iterable[tuple[int, int, Edge]]:
        """Return (source, target, edge) for all edges from the first to the second node of each pair."""

    @property
    def has_entities(self) -> bool:
        """Whether the graph has entities, including those out of scope."""
        return bool(self.state.is_entity.any())

    @property
    def relations(self) -> frozenset[str]:
        """Names of the relations of all edges, including edges out of scope."""
        return frozenset(name for name, code in self.state.codes.items() if self.state.counts[code])

    def nodes(self, ids: Sequence[str]) -> Nodes:
        """Return the node of each id, or -1 for an id that is not in the graph or not in scope."""
        nodes = self.find(ids)
        return np.where(self.is_open(nodes), nodes, -1)

    def restricted_to(self, nodes: Nodes) -> ScopedGraph:
        """Return the same graph with :meth:`neighbours` restricted to hops that lead to these chunks."""
        return replace(self, ends=np.unique(nodes[self.is_visible(nodes)]))

    def neighbours(self, nodes: Nodes) -> NeighborEdges:
        """Return the chunks one hop away, through an edge or a shared entity."""
        return self._best(self._hops(nodes))

    def links(self, nodes: Nodes) -> NeighborEdges:
        """Return the stored, undamped edges from these nodes to chunks in scope and entities, the heaviest per pair.

        An entity's edges are those from the chunks that mention it.
        """
        links, mentions = self._links(nodes)
        return self._best(concatenate([_select(links, self.is_open(links.node)), mentions]))

    def degrees(self, nodes: Integers) -> Nodes:
        """Return the number of edges of each node, counting all relations and edges out of scope."""
        return self.state.degree[nodes].astype(np.int64)

    def is_chunk(self, nodes: Nodes) -> Mask:
        """Return a mask of the nodes that are chunks."""
        return self.state.row[nodes] >= 0

    def is_open(self, nodes: Integers) -> Mask:
        """Return a mask of the nodes that a traversal may visit: chunks in scope, and all entities."""
        return self.is_visible(nodes) | self.state.is_entity[nodes]

    # -- one hop --------------------------------------------------------------------------------------------

    def _incident(self, nodes: Nodes, *, backwards: bool = False) -> tuple[NeighborEdges, Mask]:
        """Return the edges at these nodes that may be traversed, and a mask of those with the relation ``mentions``."""
        state, edge_filter, scope = self.state, self.edge_filter, self.scope
        relations = None
        if edge_filter.relations is not None:
            relations = np.zeros(len(state.codes), np.bool_)
            relations[[state.codes[name] for name in edge_filter.relations if name in state.codes]] = True
        parts: list[NeighborEdges] = []
        is_mention: list[Mask] = []
        for rows in (state.base, state.recent) if len(state.recent.edges.key) else (state.base,):
            origin, position = rows.at(nodes, backwards=backwards)
            edges = rows.edges
            conditions: list[Mask] = []
            if state.stale is not None and rows is state.base:
                conditions.append(~state.stale[position])
            if edge_filter.min_weight > 0:
                conditions.append(edges.weight[position] >= edge_filter.min_weight)
            if relations is not None:
                conditions.append(relations[edges.relation[position]])
            if scope.as_of is not None and rows.is_timed:
                conditions += [edges.start[position] <= scope.as_of, edges.stop[position] >= scope.as_of]
            if scope.known_at is not None:
                conditions.append(edges.learned[position] <= scope.known_at)
            if conditions:
                keep = np.logical_and.reduce(conditions)
                origin, position = origin[keep], position[keep]
            key = edges.key[position]
            node = key >> 32 if backwards else key & _TARGET
            parts.append(NeighborEdges(origin, node, edges.weight[position], np.full(len(node), -1)))
            is_mention.append(edges.relation[position] == MENTIONS_CODE)
        return concatenate(parts), np.concatenate(is_mention)

    def _links(self, nodes: Nodes) -> tuple[NeighborEdges, NeighborEdges]:
        """Return (links, mentions) that may be traversed; some links end in an entity or a hidden node."""
        is_entity, direction = self.state.is_entity[nodes], self.edge_filter.direction
        sources = np.where(self.is_open(nodes), nodes, -1)
        out, is_mention = self._incident(sources)
        is_mention &= self.state.is_entity[out.node]
        mentions = _select(out, is_mention)
        links = [_select(out, ~is_mention)] if direction != "in" else []
        if direction != "out" or is_entity.any():
            into, is_mention = self._incident(sources, backwards=True)
            if direction == "out":
                into = _select(into, is_mention & is_entity[into.origin])
            links.append(into)
        return concatenate(links), mentions

    def _is_end(self, nodes: Nodes) -> Mask:
        return self.is_visible(nodes) if self.ends is None else _find_positions(self.ends, nodes) >= 0

    def _hops(self, nodes: Nodes) -> NeighborEdges:
        """Return all hops from these nodes to chunks; the same two nodes may be connected by several hops."""
        factors = self._damping(self.degrees(nodes))
        links, mentions = self._links(nodes)
        links = _select(links, self._is_end(links.node))
        direct = links._replace(weight=links.weight * factors[links.origin])
        if not len(mentions.node):
            return direct
        mentions = mentions._replace(weight=mentions.weight * factors[mentions.origin])
        return concatenate([direct, self._by_entities(nodes, mentions)])

    def _by_entities(self, nodes: Nodes, mentions: NeighborEdges) -> NeighborEdges:
        """Return the hops from chunk to entity to chunk; the chunks of each entity are looked up only once."""
        mentions = self._rare_enough(mentions)
        entities, place = np.unique(mentions.node, return_inverse=True)
        if self.ends is None:
            back, is_mention = self._incident(entities, backwards=True)
            back = _select(back, is_mention & self._is_end(back.node))
        else:
            # It is faster to read the mentions of these few chunks than those of the entities, which may be common.
            out, is_mention = self._incident(self.ends)
            entity = _find_positions(entities, out.node)
            back = _select(
                NeighborEdges(entity, self.ends[out.origin], out.weight, out.via), (entity >= 0) & is_mention
            )
        back = _select(back, np.argsort(back.origin, kind="stable"))
        count = np.bincount(back.origin, minlength=len(entities))
        number, position = spread((np.cumsum(count) - count)[place], count[place])
        weight = mentions.weight[number] * (back.weight * self._damping(self.degrees(entities))[back.origin])[position]
        hops = NeighborEdges(mentions.origin[number], back.node[position], weight, mentions.node[number])
        return _select(hops, hops.node != nodes[hops.origin])

    def _rare_enough(self, mentions: NeighborEdges) -> NeighborEdges:
        """Return the mentions to traverse by origin, rarest entity first, until they lead to too many chunks."""
        degree = self.state.degree[mentions.node]
        order = np.lexsort((mentions.node, degree, mentions.origin))
        if self.edge_filter.hub_degree is None:
            return _select(mentions, order)
        origin, degree = mentions.origin[order], degree[order]
        is_first = _differs_from_previous(origin)
        total = np.cumsum(degree)
        before = np.maximum.accumulate(np.where(is_first, total - degree, 0))
        limit = FAN * self.edge_filter.hub_degree
        return _select(mentions, order[is_first | ((total - before) * self.visible_share <= limit)])

    def _best(self, hops: NeighborEdges) -> NeighborEdges:
        """Return the heaviest hop from each origin to each node; among equals, a direct edge or the rarest entity."""
        key = hops.origin << 32 | hops.node
        order = np.argsort(key)  # 125,000 hops take 4 ms; a stable sort takes 18 ms
        again = ~_differs_from_previous(key[order])
        if not again.any():
            return hops
        # Few pairs have several hops, so only those hops are compared.
        duplicates = order[again | np.append(again[1:], False)]
        rarity = np.where(hops.via[duplicates] < 0, -1, self.state.degree[hops.via[duplicates]])
        best = duplicates[np.lexsort((hops.via[duplicates], rarity, -hops.weight[duplicates], key[duplicates]))]
        is_best = np.ones(len(key), np.bool_)
        is_best[duplicates] = False
        is_best[best[_differs_from_previous(key[best])]] = True
        return _select(hops, is_best)

    def _damping(self, degree: Integers) -> Weights:
        hub = self.edge_filter.hub_degree
        return np.ones(len(degree)) if hub is None else hub / np.maximum(degree, hub)

    # -- explaining a traversal -----------------------------------------------------------------------------

    def edges(self, steps: Sequence[tuple[str, str]]) -> list[Edge | tuple[Edge, Edge] | None]:
        """Return, for each step between two chunks, the edge or the two mentions that connect them, else None.

        The connection with the largest damped weight is returned; without ``hub_degree``, direct edges come first, then
        rarer entities; ties by relation and source.
        """
        ids = list(dict.fromkeys(end for step in steps for end in step))
        nodes = dict(zip(ids, self.nodes(ids).tolist(), strict=True))
        pairs = [(nodes[one], nodes[other]) for one, other in steps]
        entity_of_pair = self._entities_between(set(pairs))
        mentions = {(end, via) for pair, via in entity_of_pair.items() for end in pair if via >= 0}
        edges = self._heaviest({pair for pair, via in entity_of_pair.items() if via < 0}, mentions)
        results: list[Edge | tuple[Edge, Edge] | None] = []
        for pair in pairs:
            via = entity_of_pair.get(pair, -1)
            if via < 0:
                results.append(edges.get(pair))
            else:
                first, second = edges.get((pair[0], via)), edges.get((pair[1], via))
                results.append(None if first is None or second is None else (first, second))
        return results

    def _entities_between(self, pairs: Collection[Pair]) -> dict[Pair, int]:
        """Return the entity that connects each pair of nodes, or -1 for a direct edge; leave out unconnected pairs."""
        if not pairs or not self.has_entities:
            return dict.fromkeys(pairs, -1)
        origins, ends = (np.array(sorted(set(nodes)), np.int64) for nodes in zip(*pairs, strict=True))
        hops = self.restricted_to(ends)._hops(origins)
        if self.edge_filter.hub_degree is None:
            # Without damping, a common entity would weigh as much as a rare one, although sharing it means less.
            hops = hops._replace(weight=np.where(hops.via < 0, 1.0, 1.0 / np.maximum(self.degrees(hops.via), 2)))
        hops = self._best(hops)
        results = zip(origins[hops.origin].tolist(), hops.node.tolist(), hops.via.tolist(), strict=True)
        return {(one, other): via for one, other, via in results if (one, other) in pairs}

    def _heaviest(self, links: Collection[Pair], mentions: Collection[Pair]) -> dict[Pair, Edge]:
        """Return the heaviest edge that may be traversed between the two nodes of each link and of each mention."""
        edge_filter, scope, steps = self.edge_filter, self.scope, defaultdict[Pair, list[Pair]](list)
        for one, other in links:
            if edge_filter.direction != "in":
                steps[one, other].append((one, other))
            if edge_filter.direction != "out":
                steps[other, one].append((one, other))
        for mention in mentions:
            steps[mention].append(mention)
        best: dict[Pair, Edge] = {}
        for source, target, edge in self.edges_between(steps):
            if (
                (edge_filter.relations is None or edge.relation in edge_filter.relations)
                and edge.weight >= edge_filter.min_weight
                and is_valid(edge.valid_from, edge.valid_until, scope.as_of)
                and (edge.relation == MENTIONS or (source, target) not in mentions)
            ):
                for step in steps[source, target]:
                    best[step] = min(
                        best.get(step, edge), edge, key=lambda each: (-each.weight, each.relation, each.source)
                    )
        return best


# -- a list of edges ----------------------------------------------------------------------------------------


class InMemoryGraph:
    """Graph of a list of edges, for stores without a graph of their own; the heaviest of equal edges is kept.

    An entity is a target of ``mentions`` without outgoing edges; other nodes are chunks.

    >>> from langchain_hybridgraph.records import Scope, EdgeFilter
    >>> store = InMemoryGraph([Edge("a", "b", "cites", 0.5), Edge("b", "c", "cites")])
    >>> graph = store.scoped_graph(Scope(), EdgeFilter())
    >>> graph.ids(graph.neighbours(graph.nodes(["a"])).node)
    ['b']
    """

    def __init__(self, edges: Iterable[Edge] = ()) -> None:
        self.ids: list[str] = []
        self.node_of: dict[str, int] = {}
        self.edges: dict[Pair, dict[str, Edge]] = {}  # by relation
        self._states: list[GraphState] = []  # the latest state; empty after a change
        self.visible: Visible | None = None
        self.cosines: Cosines | None = None
        self._lock = Lock()
        self.add(edges)

    def __len__(self) -> int:
        return sum(map(len, self.edges.values()))

    @property
    def has_graph(self) -> bool:
        """Whether the graph currently has any edges."""
        return bool(self.edges)

    def add(self, edges: Iterable[Edge]) -> None:
        """Add edges; if several have the same source, target and relation, keep only the heaviest.

        Raises ConfigurationError for other objects and ValueError for values that cannot be stored; then adds none.
        """
        edges = checked_edges(edges)
        with self._lock:
            for edge in edges:
                for id in (edge.source, edge.target):
                    if id not in self.node_of:
                        self.node_of[id] = len(self.ids)
                        self.ids.append(id)
                by_relation = self.edges.setdefault((self.node_of[edge.source], self.node_of[edge.target]), {})
                if edge.weight > by_relation.setdefault(edge.relation, edge).weight:
                    by_relation[edge.relation] = edge
            self._states.clear()

    def remove(self, ids: Iterable[str]) -> int:
        """Delete every edge that starts or ends at one of these ids; return the number of deleted edges."""
        with self._lock:
            nodes = {self.node_of[id] for id in ids if id in self.node_of}
            pairs = [pair for pair in self.edges if not nodes.isdisjoint(pair)]
            self._states.clear()
            return sum(len(self.edges.pop(pair)) for pair in pairs)

    def scoped_graph(self, scope: Scope, edge_filter: EdgeFilter) -> ScopedGraph:
        """Return the part of the current graph that a call with this scope and edge filter may traverse.

        Without :meth:`for_store`, all chunks are visible, and no cosines are known.
        """
        with self._lock:
            if not self._states:
                self._states.append(self._latest_state())
            [state] = self._states
        is_chunk: Mask = state.row >= 0
        is_unknown = is_chunk.copy() if self.visible is not None else np.zeros_like(is_chunk)
        return _ListedGraph(state, scope, edge_filter, self, is_chunk, is_unknown)

    def for_store(self, visible: Visible | None, cosines: Cosines | None) -> InMemoryGraph:
        """Return this graph, including later changes, with a store's visibility and cosines.

        ``visible(ids, scope)`` returns the visible ids (None: all), ``cosines(vector, ids)`` the known cosines by id
        (None: none).
        """
        graph = copy(self)
        graph.visible, graph.cosines = visible, cosines
        return graph

    def _latest_state(self) -> GraphState:
        codes, infinity = {MENTIONS: MENTIONS_CODE}, np.inf
        arcs: list[Arc] = []
        for pair, by_relation in self.edges.items():
            for edge in by_relation.values():
                start = -infinity if edge.valid_from is None else edge.valid_from
                stop = infinity if edge.valid_until is None else edge.valid_until
                arcs.append((*pair, edge.relation, edge.weight, start, stop, -infinity))
        nodes = {node for pair in self.edges for node in pair}
        mentioned = {target for (_, target), by_relation in self.edges.items() if MENTIONS in by_relation}
        entities = mentioned - {source for source, _ in self.edges}
        rows = [(node, -1 if node in entities else node, node in entities) for node in nodes]
        return GraphState.of(np.array(rows, np.int64).reshape(-1, 3), EdgeColumns.of(arcs, codes), codes)


@dataclass(frozen=True)
class _ListedGraph(ScopedGraph):
    """Part of a list of edges. Each chunk's visibility is looked up at most once."""

    graph: InMemoryGraph
    known_visible: Mask
    is_unknown: Mask

    visible_share = 1.0

    def __len__(self) -> int:
        return int(np.count_nonzero((self.state.row >= 0) & (self.state.degree > 0)))

    def find(self, ids: Sequence[str]) -> Nodes:
        nodes = np.array([self.graph.node_of.get(id, -1) for id in ids], np.int64)
        nodes[nodes >= len(self.state.row) - 1] = -1  # nodes newer than this state
        return np.where(self.state.degree[nodes] > 0, nodes, -1)

    def ids(self, nodes: Nodes) -> list[str]:
        return [self.graph.ids[node] for node in nodes.tolist()]

    def is_visible(self, nodes: Integers) -> Mask:
        if self.graph.visible is not None and (unknown := np.unique(nodes[self.is_unknown[nodes]])).size:
            ids = self.ids(unknown.astype(np.int64))
            visible_ids = self.graph.visible(ids, self.scope)
            self.known_visible[unknown], self.is_unknown[unknown] = [id in visible_ids for id in ids], False
        return self.known_visible[nodes]

    def cosines(self, vector: Vector, nodes: Nodes) -> Weights:
        ids = self.ids(nodes)
        cosine_of = self.graph.cosines(vector, ids) if self.graph.cosines is not None and ids else {}
        return np.array([cosine_of.get(id, np.nan) for id in ids], np.float64)

    def edges_between(self, pairs: Iterable[Pair]) -> Iterable[tuple[int, int, Edge]]:
        return ((*pair, edge) for pair in pairs for edge in tuple(self.graph.edges.get(pair, {}).values()))


# -- arrays -------------------------------------------------------------------------------------------------


def spread(first: Nodes, count: Nodes) -> tuple[Nodes, Nodes]:
    """Return all positions in ranges of ``count[i]`` from ``first[i]``, as two arrays: range indices and positions.

    >>> spread(np.array([10, 20]), np.array([2, 3]))
    (array([0, 0, 1, 1, 1]), array([10, 11, 20, 21, 22]))
    """
    number = np.repeat(np.arange(len(count)), count)
    before = np.cumsum(count) - count
    return number, np.arange(len(number)) + (first - before)[number]


def _starts(heads: Nodes) -> Nodes:
    starts = np.zeros(int(heads.max(initial=-1)) + 4, np.int64)
    np.cumsum(np.bincount(heads, minlength=len(starts) - 2), out=starts[2:])
    return starts


def _enlarge(values: NDArray[Any], size: int, fill: int) -> NDArray[Any]:
    enlarged = np.full(max(size, len(values)), fill, values.dtype)
    enlarged[: len(values)] = values
    return enlarged


def _select(columns: Columns, selection: Mask | Integers) -> Columns:
    """Return the entries at these positions, or those for which this mask is True."""
    each: Any = columns
    selected: Columns = each._make([column[selection] for column in each])
    return selected


def concatenate(parts: Sequence[Columns]) -> Columns:
    """Return the concatenation of several groups of columns."""
    first: Any = parts[0]
    concatenation: Columns = first._make(map(np.concatenate, zip(*parts, strict=True))) if len(parts) > 1 else first
    return concatenation


def _differs_from_previous(values: Integers) -> Mask:
    is_other = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=is_other[1:])
    return is_other


def _find_positions(ascending: Nodes, values: Nodes) -> Nodes:
    """Return the position of each value in an ascending array, or -1 for a missing value."""
    if not len(ascending):
        return np.full(len(values), -1)
    places = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    return np.where(ascending[places] == values, places, -1)
