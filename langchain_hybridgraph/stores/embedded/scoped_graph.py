"""Part of the graph that one call may traverse."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from langchain_hybridgraph.chunks import is_valid
from langchain_hybridgraph.records import FAN, MENTIONS
from langchain_hybridgraph.stores.embedded.adjacency import (
    MENTIONS_CODE,
    Adjacency,
    EdgeSelection,
    IncidentEdges,
    spread,
)
from langchain_hybridgraph.stores.embedded.folder.index_folder import Snapshot
from langchain_hybridgraph.stores.protocols import NeighborEdges

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.chunks import Mask, Vector
    from langchain_hybridgraph.records import Edge, EdgeFilter
    from langchain_hybridgraph.stores.embedded.catalog.catalog import Catalog
    from langchain_hybridgraph.stores.embedded.folder.close_guard import CloseGuard
    from langchain_hybridgraph.stores.protocols import Nodes, Weights

# Up to this number of hops, duplicates are found by sorting (0.1 ms for 2,000 hops, 8 ms for 125,000); with more hops,
# by recording each node in an array.
SORTED_HOPS = 4_000


@dataclass(frozen=True, slots=True)
class ScopedGraph:
    """The edges that one call may traverse, in one state of the index (see ``stores.protocols.Graph``).

    Nodes with many edges damp the weights of hops. If the node from which :meth:`neighbours` follows an edge has more
    than ``hub_degree`` edges, the weight is multiplied by ``hub_degree`` / degree. The direction of the edge does not
    matter. On a hop through an entity, the degree of the entity damps the weight in the same way.

    The entities of a chunk are followed from the rarest to the most common, until they lead to about ``FAN`` ·
    ``hub_degree`` chunks. The rarest entity is always followed. If entities are equally rare, the one stored first is
    treated as rarer.

    ``ends`` are the chunks to which hops may lead, in ascending order; None means all chunks in scope (see
    :meth:`restricted_to`). Hops are returned in no particular order.
    """

    snapshot: Snapshot
    adjacency: Adjacency
    allowed_rows: Mask
    selection: EdgeSelection
    edge_filter: EdgeFilter
    catalog: Catalog
    guard: CloseGuard
    ends: Nodes | None = None

    def __len__(self) -> int:
        """Return the number of chunks, including those out of scope."""
        return self.snapshot.rows.living

    @property
    def has_entities(self) -> bool:
        """Whether the graph has entities, including those out of scope."""
        return bool(self.adjacency.facts.is_entity.any())

    @property
    def relations(self) -> frozenset[str]:
        """Names of the relations of the tenant's edges, including edges out of scope."""
        return self.adjacency.relations

    def nodes(self, ids: Sequence[str]) -> Nodes:
        """Return the node of each id, or -1 for an id that is not in the graph or not in scope."""
        results = np.full(len(ids), -1, np.int64)
        rows = self.snapshot.rows
        of_row = self.adjacency.facts.node_of_row
        for place, row in enumerate(rows.places(ids)):
            if 0 <= row < len(self.allowed_rows) - 1 and self.allowed_rows[row]:
                results[place] = of_row[row]
        if (results < 0).any() and self.has_entities:
            with self.guard:
                node_of = self.catalog.graph_nodes(rows.tenant, ids)
            nodes = np.array([node_of.get(id, -1) for id in ids], np.int64)
            nodes[nodes >= len(self.adjacency.facts.row) - 1] = -1  # nodes newer than this state
            results = np.where((results < 0) & self.adjacency.facts.is_entity[nodes], nodes, results)
        return results

    def ids(self, nodes: Nodes) -> list[str]:
        """Return the id of each node, or "" if the node has been deleted in the meantime."""
        rows = self.adjacency.facts.row[nodes]
        others = nodes[rows < 0].tolist()
        id_of: dict[int, str] = {}
        if others:
            with self.guard:
                id_of = self.catalog.ids_of_nodes(others)
        chunks = iter(self.snapshot.rows.ids(rows[rows >= 0].tolist()))
        return [
            next(chunks) if row >= 0 else id_of.get(node, "")
            for node, row in zip(nodes.tolist(), rows.tolist(), strict=True)
        ]

    def restricted_to(self, nodes: Nodes) -> ScopedGraph:
        """Return the same graph with :meth:`neighbours` restricted to hops that lead to these chunks."""
        return replace(self, ends=np.unique(nodes[self.allowed_rows[self.adjacency.facts.row[nodes]]]))

    def neighbours(self, nodes: Nodes) -> NeighborEdges:
        """Return the chunks one hop away, through an edge or a shared entity.

        A hop from an entity leads to the chunks that mention it.
        """
        return self._best(self._hops(nodes))

    def _hops(self, nodes: Nodes) -> NeighborEdges:
        """Return all hops from these nodes to chunks; the same two nodes may be connected by several hops."""
        factors = self._degree_factors(nodes)
        links, mentions = self._links(nodes)
        links = links.select(self._is_end(links.end))
        direct = NeighborEdges(
            links.origin, links.end.astype(np.int64), links.weight * factors[links.origin], np.full(len(links.end), -1)
        )
        if not len(mentions.end):
            return direct
        shared = self._by_entities(nodes, factors, mentions)
        return shared if not len(direct.node) else direct if not len(shared.node) else _concatenate([direct, shared])

    def links(self, nodes: Nodes) -> NeighborEdges:
        """Return the stored edges from these nodes to chunks in scope and to entities.

        The edges of an entity are those from the chunks that mention it. If several edges connect the same two nodes,
        only the heaviest is returned. The weights are not damped; a caller can use :meth:`degrees` to damp them.
        """
        links, mentions = self._links(nodes)
        links = links.select(self.is_open(links.end))
        every = IncidentEdges.together([links, mentions])
        return self._best(
            NeighborEdges(every.origin, every.end.astype(np.int64), every.weight, np.full(len(every.end), -1))
        )

    def degrees(self, nodes: Nodes) -> Nodes:
        """Return the number of edges of each node, counting all relations and edges out of scope."""
        return self.adjacency.facts.degree[nodes].astype(np.int64)

    def is_chunk(self, nodes: Nodes) -> Mask:
        """Return a mask of the nodes that are chunks."""
        is_chunk: Mask = self.adjacency.facts.row[nodes] >= 0
        return is_chunk

    def is_open(self, nodes: NDArray[np.integer]) -> Mask:
        """Return a mask of the nodes that a traversal may visit: chunks in scope, and all entities."""
        facts = self.adjacency.facts
        is_open: Mask = self.allowed_rows[facts.row[nodes]] | facts.is_entity[nodes]
        return is_open

    def _is_end(self, ends: NDArray[np.integer]) -> Mask:
        """Return a mask of the nodes to which a hop may lead."""
        if self.ends is not None:
            return _find_positions(self.ends, ends) >= 0
        is_end: Mask = self.allowed_rows[self.adjacency.facts.row[ends]]
        return is_end

    def cosines(self, vector: Vector, nodes: Nodes) -> Weights:
        """Return the cosine of each chunk with a unit vector; NaN if it is unknown."""
        results = np.full(len(nodes), np.nan)
        rows, matrix = self.adjacency.facts.row[nodes], self.snapshot.generation.matrix
        has_row = rows >= 0
        with self.guard:
            if matrix is not None and has_row.any():
                results[has_row] = matrix.scores(vector, rows[has_row].astype(np.int64))
        return results

    def edges(self, steps: Sequence[tuple[str, str]]) -> list[Edge | tuple[Edge, Edge] | None]:
        """Return, for each step between two chunks, the edge or the two mentions that connect them.

        Two mentions connect the chunks if both chunks mention the same entity. The result for a step is None if the
        chunks are not connected, or if an edge has been deleted in the meantime.

        If several edges or entities connect the chunks, the connection with the largest damped weight is returned.
        Without ``hub_degree``, a direct edge is preferred to any entity, and a rare entity to a common one. If there
        are several direct edges, the heaviest is returned, ties by relation and source.
        """
        ends = list(dict.fromkeys(end for step in steps for end in step))
        nodes = dict(zip(ends, self.nodes(ends).tolist(), strict=True))
        pairs = [(nodes[one], nodes[other]) for one, other in steps]
        entity_of_pair = self._entities_between(pairs) if self.has_entities else dict.fromkeys(pairs, -1)
        edges = self._edges_between(
            {pair for pair, via in entity_of_pair.items() if via < 0},
            {(end, via) for pair, via in entity_of_pair.items() for end in pair if via >= 0},
        )
        return [self._step(pair, entity_of_pair.get(pair), edges) for pair in pairs]

    # -- one hop --------------------------------------------------------------------------------------------

    def _links(self, nodes: Nodes) -> tuple[IncidentEdges, IncidentEdges]:
        """Return (links, mentions): the edges that may be traversed from these nodes, in two parts.

        Mentions lead from one of the nodes to an entity; links are all other edges. Some links end in an entity or a
        hidden node; the caller removes them if necessary.
        """
        facts, direction = self.adjacency.facts, self.edge_filter.direction
        is_entity = facts.is_entity[nodes]
        sources = np.where(self.allowed_rows[facts.row[nodes]] | is_entity, nodes, -1)
        out = self.adjacency.incident(sources, self.selection, backwards=False)
        is_mention = (out.relation == MENTIONS_CODE) & facts.is_entity[out.end]
        mentions = out.select(is_mention)
        links = [out.select(~is_mention)] if direction != "in" else []
        if direction != "out" or is_entity.any():
            into = self.adjacency.incident(sources, self.selection, backwards=True)
            if direction == "out":
                into = into.select((into.relation == MENTIONS_CODE) & is_entity[into.origin])
            links.append(into)
        return links[0] if len(links) == 1 else IncidentEdges.together(links), mentions

    def _by_entities(self, nodes: Nodes, factors: Weights, mentions: IncidentEdges) -> NeighborEdges:
        """Return the hops from chunk to entity to chunk; the chunks of each entity are looked up only once."""
        degree = self.adjacency.facts.degree[mentions.end]
        rare = self._rare_enough(mentions, degree)
        mentions, degree = mentions.select(rare), degree[rare]
        entities, first, place = np.unique(mentions.end, return_index=True, return_inverse=True)
        mentioning = self._mentions_of(entities.astype(np.int64))
        weights = mentioning.weight * self._damping(degree[first])[mentioning.origin]
        count = np.bincount(mentioning.origin, minlength=len(entities))
        number, position = spread((np.cumsum(count) - count)[place], count[place])
        origin = mentions.origin[number]
        weight = (mentions.weight * factors[mentions.origin])[number] * weights[position]
        hops = NeighborEdges(
            origin, mentioning.end[position].astype(np.int64), weight, entities[place].astype(np.int64)[number]
        )
        return _select(hops, hops.node != nodes[origin])

    def _mentions_of(self, entities: Nodes) -> IncidentEdges:
        """Return the edges through which chunks mention these entities, in the order of ``entities``.

        Chunks to which no hop may lead are left out.
        """
        if self.ends is None:
            mentioning = self.adjacency.incident(entities, self.selection, backwards=True)
            mentioning = mentioning.select((mentioning.relation == MENTIONS_CODE) & self._is_end(mentioning.end))
            if self.adjacency.recent is None:
                return mentioning
        else:
            # It is faster to read the mentions of these few chunks than those of the entities, which may be common.
            out = self.adjacency.incident(self.ends, self.selection, backwards=False)
            place = _find_positions(entities, out.end)
            shared = np.flatnonzero((place >= 0) & (out.relation == MENTIONS_CODE))
            mentioning = IncidentEdges(place, self.ends[out.origin], out.relation, out.weight).select(shared)
        return mentioning.select(np.argsort(mentioning.origin, kind="stable"))

    def _rare_enough(self, mentions: IncidentEdges, degree: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the positions of the mentions to traverse, sorted by origin, rarest entity first.

        ``degree`` contains the degree of each mention's entity. The rarest entity of each origin is always kept. The
        next ones are kept until the entities of the origin lead to too many chunks, a number estimated from the
        degrees.
        """
        order = np.lexsort((mentions.end, degree, mentions.origin))
        if self.edge_filter.hub_degree is None:
            return order
        origin, degree = mentions.origin[order], degree[order]
        share = np.count_nonzero(self.allowed_rows) / max(self.snapshot.rows.living, 1)
        is_first = _differs_from_previous(origin)
        total = np.cumsum(degree)
        before = np.maximum.accumulate(np.where(is_first, total - degree, 0))
        return order[is_first | ((total - before) * share <= FAN * self.edge_filter.hub_degree)]

    def _best(self, hops: NeighborEdges) -> NeighborEdges:
        """Return the heaviest hop from each origin to each node.

        If several hops are equally heavy, a direct edge is preferred, then the hop through the rarest entity.
        """
        if len(hops.node) <= SORTED_HOPS:
            return self._best_sorted(hops)
        is_duplicate = _duplicates(hops, len(self.adjacency.facts.row))
        if not is_duplicate.any():
            return hops
        return _concatenate([_select(hops, ~is_duplicate), self._best_sorted(_select(hops, is_duplicate))])

    def _best_sorted(self, hops: NeighborEdges) -> NeighborEdges:
        key = hops.origin << 32 | hops.node
        order = np.argsort(key, kind="stable")  # numpy's fastest sort for integers
        again = ~_differs_from_previous(key[order])
        if not again.any():
            return hops
        # Few pairs have several hops, so only those hops are compared.
        duplicates = order[again | np.append(again[1:], False)]
        rarity = np.where(hops.via[duplicates] < 0, -1, self.degrees(hops.via[duplicates]))
        best = duplicates[np.lexsort((hops.via[duplicates], rarity, -hops.weight[duplicates], key[duplicates]))]
        is_best = np.ones(len(key), np.bool_)
        is_best[duplicates] = False
        is_best[best[_differs_from_previous(key[best])]] = True
        return _select(hops, is_best)

    def _degree_factors(self, nodes: NDArray[np.integer]) -> Weights:
        """Return, for each node, the factor that damps the weights of the edges that leave it."""
        return self._damping(self.degrees(nodes.astype(np.int64)))

    def _damping(self, degree: NDArray[np.integer]) -> Weights:
        hub = self.edge_filter.hub_degree
        if hub is None:
            return np.ones(len(degree))
        factors: Weights = hub / np.maximum(degree, hub)
        return factors

    # -- explaining a traversal -----------------------------------------------------------------------------

    def _entities_between(self, pairs: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
        """Return the entity that connects each pair of nodes, or -1 for a direct edge.

        Unconnected pairs are left out.
        """
        pair_set = set(pairs)
        origins = np.array(sorted({one for one, _ in pair_set}), np.int64)
        hops = self.restricted_to(np.array(sorted({other for _, other in pair_set}), np.int64))._hops(origins)
        if self.edge_filter.hub_degree is None:
            # Without damping, a common entity would weigh as much as a rare one, although sharing it means less.
            weight = np.where(hops.via < 0, 1.0, 1.0 / np.maximum(self.degrees(hops.via), 2))
            hops = hops._replace(weight=weight)
        hops = self._best(hops)
        results = zip(origins[hops.origin].tolist(), hops.node.tolist(), hops.via.tolist(), strict=True)
        return {(one, other): via for one, other, via in results if (one, other) in pair_set}

    def _edges_between(
        self, links: Collection[tuple[int, int]], mentions: Collection[tuple[int, int]]
    ) -> dict[tuple[int, int], Edge]:
        """Return the heaviest edge that may be traversed between the two nodes of each link and of each mention."""
        direction, sources = self.edge_filter.direction, defaultdict(list)
        for one, other in links:
            if direction != "in":
                sources[one, other].append((one, other))
            if direction != "out":
                sources[other, one].append((one, other))
        for mention in mentions:
            sources[mention].append(mention)
        with self.guard:
            stored_edges = self.catalog.edges_between(sources, self.selection.known_at)
        best: dict[tuple[int, int], Edge] = {}
        for source, target, edge in stored_edges:
            if self._is_selected(edge) and (edge.relation == MENTIONS or (source, target) not in mentions):
                for step in sources[source, target]:
                    best[step] = min(best.get(step, edge), edge, key=_heaviest_first)
        return best

    @staticmethod
    def _step(
        pair: tuple[int, int], via: int | None, edges: Mapping[tuple[int, int], Edge]
    ) -> Edge | tuple[Edge, Edge] | None:
        if via is None or via < 0:
            return None if via is None else edges.get(pair)
        first, second = edges.get((pair[0], via)), edges.get((pair[1], via))
        return None if first is None or second is None else (first, second)

    def _is_selected(self, edge: Edge) -> bool:
        as_of, relations = self.selection.as_of, self.edge_filter.relations
        return (
            (relations is None or edge.relation in relations)
            and edge.weight >= self.edge_filter.min_weight
            and is_valid(edge.valid_from, edge.valid_until, as_of)
        )


def _heaviest_first(edge: Edge) -> tuple[float, str, str]:
    return -edge.weight, edge.relation, edge.source


def _select(hops: NeighborEdges, selection: Mask | NDArray[np.int64]) -> NeighborEdges:
    columns: Any = [column[selection] for column in hops]
    return NeighborEdges(*columns)


def _differs_from_previous(values: NDArray[np.int64]) -> Mask:
    is_other = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=is_other[1:])
    return is_other


def _find_positions(ascending: Nodes, values: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the position of each value in an ascending array, or -1 for a missing value."""
    if not len(ascending):
        return np.full(len(values), -1)
    places = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    return np.where(ascending[places] == values, places, -1)


def _concatenate(parts: Sequence[NeighborEdges]) -> NeighborEdges:
    columns: Any = map(np.concatenate, zip(*parts, strict=True))
    return NeighborEdges(*columns)


def _duplicates(hops: NeighborEdges, nodes: int) -> Mask:
    """Return a mask of the hops that have the same origin and target as another hop."""
    order = np.argsort(hops.origin.astype(np.min_scalar_type(int(hops.origin.max()))), kind="stable")
    node = hops.node[order]
    stops = np.cumsum(np.bincount(hops.origin))
    is_duplicate = np.zeros(len(node), np.bool_)
    number, last = np.arange(len(node), dtype=np.int32), np.empty(nodes, np.int32)
    for start, stop in zip(np.concatenate([[0], stops[:-1]]).tolist(), stops.tolist(), strict=True):
        targets, own = node[start:stop], number[start:stop]
        last[targets] = own
        remaining = last[targets]  # the last one of several hops to the same node
        others = np.flatnonzero(remaining != own)
        if len(others):
            is_duplicate[start + others] = True
            is_duplicate[remaining[others]] = True
    unsorted = np.empty(len(node), np.bool_)
    unsorted[order] = is_duplicate
    return unsorted
