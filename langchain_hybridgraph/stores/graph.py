"""The graph of an open index: its edges as one call may walk them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from langchain_hybridgraph.records import MENTIONS
from langchain_hybridgraph.stores.adjacency import (
    MENTIONS_CODE,
    Adjacency,
    Changes,
    Columns,
    Hanging,
    Wanted,
    spread,
)
from langchain_hybridgraph.stores.base import Hops
from langchain_hybridgraph.stores.searching import SearchedIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.records import Edge, Mask, Scope, Vector, Ways
    from langchain_hybridgraph.stores.base import Nodes, Weights
    from langchain_hybridgraph.stores.catalog import Catalogue
    from langchain_hybridgraph.stores.gate import Gate
    from langchain_hybridgraph.stores.opening import Seen

# Up to so many hops duplicates are found by sorting (2,000: 0.1 ms, 125,000: 8 ms), beyond by marking node after node.
SORTED_HOPS = 4_000


# A hop over entities leads to so many times hub_degree chunks in scope; more only by the rarest entity of all.
FAN = 4


class WalkedIndex(SearchedIndex):
    """An open index whose chunks are joined by edges.

    The edges are read into memory at the first call and followed from there, by a log in the catalogue that has the
    changes of other processes, too (300,000 edges: 9 MB).
    """

    _walked: tuple[Seen, Adjacency] | None = None
    _has_graph: tuple[int, bool] = -1, False

    @property
    def has_graph(self) -> bool:
        """Whether there is any edge now."""
        with self._gate:
            _, position = self._catalogue.graph_position()
            if self._has_graph[0] != position:
                self._has_graph = position, self._catalogue.has_edges(self._rows.tenant)
            return self._has_graph[1]

    def graph(self, scope: Scope, ways: Ways) -> ScopedGraph:
        """The graph as a call with this scope may walk it (see ``stores.base.HasGraph``)."""
        self._check_scope(scope)
        with self._gate:
            seen, adjacency = self._refresh_graph()
            allowed = np.append(self._allowed(seen.rows, scope), False)  # at -1, for a node without a row
        wanted = Wanted.by(ways, scope.as_of, adjacency.codes, scope.known_at)
        return ScopedGraph(seen, adjacency, allowed, wanted, ways, self._catalogue, self._gate)

    def _refresh_graph(self) -> tuple[Seen, Adjacency]:
        """Rows and edges of one commit, the latest."""
        walked = self._walked
        if walked is not None and self._catalogue.graph_position() == (walked[0].rows.version, walked[1].position):
            return walked
        with self._refreshing:
            seen, adjacency = self._latest_graph()
            while seen.generation.lost and self._catalogue.version() != seen.rows.version:
                seen, adjacency = self._latest_graph()  # see _refresh
            self._walked = seen, adjacency
        return seen, adjacency

    def _latest_graph(self) -> tuple[Seen, Adjacency]:
        with self._catalogue.snapshot():
            seen = self._refresh()
            version, position = self._catalogue.graph_position()
            last = self._walked and self._walked[1]
            if last is None or last.position < int(self._catalogue.about()["graph_floor"]):
                adjacency = self._read_adjacency(seen)
            elif last.position < position:
                adjacency = self._follow_adjacency(last)
            else:
                adjacency = last
        return seen, adjacency.at(version, position)

    def _read_adjacency(self, seen: Seen) -> Adjacency:
        tenant = seen.rows.tenant
        rows = np.array(self._catalogue.chunk_nodes(), np.int64).reshape(-1, 2)
        rows = rows[seen.rows.alive()[rows[:, 0]]]
        parents = np.array(self._catalogue.parent_nodes(tenant), np.int64)
        codes = {MENTIONS: MENTIONS_CODE}
        read = [Columns.of(arcs, codes) for arcs in self._catalogue.arcs(tenant)]
        return Adjacency.built(rows, parents, Columns.together([Columns.of([], codes), *read]), codes)

    def _follow_adjacency(self, last: Adjacency) -> Adjacency:
        tenant, codes = self._rows.tenant, dict(last.codes)
        touched = np.array(self._catalogue.changed_pairs(last.position), np.int32).reshape(-1, 2)
        changes = Changes(
            np.unique(touched).astype(np.int64),
            self._catalogue.changed_nodes(tenant, last.position),
            touched[touched[:, 0] != touched[:, 1]],
            Columns.of(self._catalogue.changed_arcs(tenant, last.position), codes),
        )
        return last.followed(changes, codes)


@dataclass(frozen=True, slots=True)
class ScopedGraph:
    """One state of the edges, as one call may walk them (see ``stores.base.Graph``).

    Hops come in no particular order. To :meth:`neighbours` an edge leaves the node that it is walked from, whichever
    way it points: its weight counts ``hub_degree`` / degree of that node where the degree is larger, and a hop over an
    entity also that of the entity. Over its entities, the rarest first, a chunk leads to ``FAN`` · ``hub_degree``
    chunks or so: always over the rarest, however common it is, and not over those that would lead to more. Of equally
    rare ones the one that was known first counts as the rarer. ``ends`` are the ascending nodes of :meth:`among`.
    """

    seen: Seen
    adjacency: Adjacency
    allowed: Mask
    wanted: Wanted
    ways: Ways
    catalogue: Catalogue
    gate: Gate
    ends: Nodes | None = None

    def __len__(self) -> int:
        """How many chunks there are, in scope or not."""
        return self.seen.rows.living

    @property
    def has_entities(self) -> bool:
        """Whether there is any entity, in scope or not."""
        return bool(self.adjacency.facts.is_entity.any())

    @property
    def relations(self) -> frozenset[str]:
        """The relations that the tenant's edges have, in scope or not."""
        return self.adjacency.relations

    def nodes(self, ids: Sequence[str]) -> Nodes:
        """The node of each id, -1 for one that is not in the graph or not in scope."""
        found = np.full(len(ids), -1, np.int64)
        rows = self.seen.rows
        of_row = self.adjacency.facts.node_of_row
        for place, row in enumerate(rows.places(ids)):
            if 0 <= row < len(self.allowed) - 1 and self.allowed[row]:
                found[place] = of_row[row]
        if (found < 0).any() and self.has_entities:
            with self.gate:
                named = self.catalogue.graph_nodes(rows.tenant, ids)
            nodes = np.array([named.get(id, -1) for id in ids], np.int64)
            nodes[nodes >= len(self.adjacency.facts.row) - 1] = -1  # newer than this state
            found = np.where((found < 0) & self.adjacency.facts.is_entity[nodes], nodes, found)
        return found

    def ids(self, nodes: Nodes) -> list[str]:
        """The id of each node; an entity's id too, "" for one that was deleted meanwhile."""
        rows = self.adjacency.facts.row[nodes]
        others = nodes[rows < 0].tolist()
        named: dict[int, str] = {}
        if others:
            with self.gate:
                named = self.catalogue.ids_of_nodes(others)
        chunks = iter(self.seen.rows.ids(rows[rows >= 0].tolist()))
        return [
            next(chunks) if row >= 0 else named.get(node, "")
            for node, row in zip(nodes.tolist(), rows.tolist(), strict=True)
        ]

    def among(self, nodes: Nodes) -> ScopedGraph:
        """The same graph, but :meth:`neighbours` gives only the hops to these chunks."""
        return replace(self, ends=np.unique(nodes[self.allowed[self.adjacency.facts.row[nodes]]]))

    def neighbours(self, nodes: Nodes) -> Hops:
        """The chunks one hop away, by an edge or an entity that both mention; from an entity, the chunks there."""
        return self._best(self._hops(nodes))

    def _hops(self, nodes: Nodes) -> Hops:
        """All hops to chunks, several between the same two where they are joined in several ways."""
        passing = self._passing(nodes)
        links, mentions = self._links(nodes)
        links = links.taken(self._is_end(links.end))
        direct = Hops(
            links.origin, links.end.astype(np.int64), links.weight * passing[links.origin], np.full(len(links.end), -1)
        )
        if not len(mentions.end):
            return direct
        shared = self._by_entities(nodes, passing, mentions)
        return shared if not len(direct.node) else direct if not len(shared.node) else _joined([direct, shared])

    def links(self, nodes: Nodes) -> Hops:
        """The edges as they are, to chunks and to entities, and from entities to the chunks that mention them.

        Their weights are those that are stored: who walks them from node to node sees the degrees.
        """
        links, mentions = self._links(nodes)
        links = links.taken(self.is_open(links.end))
        every = Hanging.together([links, mentions])
        return self._best(Hops(every.origin, every.end.astype(np.int64), every.weight, np.full(len(every.end), -1)))

    def degrees(self, nodes: Nodes) -> Nodes:
        """How many edges each node has, of all relations, in scope or not."""
        return self.adjacency.facts.degree[nodes].astype(np.int64)

    def is_chunk(self, nodes: Nodes) -> Mask:
        """Which of the nodes are chunks."""
        is_chunk: Mask = self.adjacency.facts.row[nodes] >= 0
        return is_chunk

    def is_open(self, nodes: NDArray[np.integer]) -> Mask:
        """Which of the nodes a walk may go to: chunks in scope and entities."""
        facts = self.adjacency.facts
        is_open: Mask = self.allowed[facts.row[nodes]] | facts.is_entity[nodes]
        return is_open

    def _is_end(self, ends: NDArray[np.integer]) -> Mask:
        """Which ends of edges a hop may lead to."""
        if self.ends is not None:
            return _places(self.ends, ends) >= 0
        is_end: Mask = self.allowed[self.adjacency.facts.row[ends]]
        return is_end

    def cosines(self, vector: Vector, nodes: Nodes) -> Weights:
        """The cosine of each chunk with a unit vector; NaN where it is not known."""
        found = np.full(len(nodes), np.nan)
        rows, matrix = self.adjacency.facts.row[nodes], self.seen.generation.matrix
        known = rows >= 0
        with self.gate:
            if matrix is not None and known.any():
                found[known] = matrix.scores(vector, rows[known].astype(np.int64))
        return found

    def edges(self, steps: Sequence[tuple[str, str]]) -> list[Edge | tuple[Edge, Edge] | None]:
        """What each step from chunk to chunk was: the heaviest edge, or the two mentions of the rarest shared entity.

        It is the hop that :meth:`neighbours` has; without damping an edge, or the rarest entity. Of equally heavy edges
        the one with the lesser relation, then source. None for a step that is none, or is gone meanwhile.
        """
        ends = list(dict.fromkeys(end for step in steps for end in step))
        nodes = dict(zip(ends, self.nodes(ends).tolist(), strict=True))
        pairs = [(nodes[one], nodes[other]) for one, other in steps]
        over = self._entities_between(pairs) if self.has_entities else dict.fromkeys(pairs, -1)
        edges = self._edges_between(
            {pair for pair, via in over.items() if via < 0},
            {(end, via) for pair, via in over.items() for end in pair if via >= 0},
        )
        return [self._step(pair, over.get(pair), edges) for pair in pairs]

    # -- one hop --------------------------------------------------------------------------------------------

    def _links(self, nodes: Nodes) -> tuple[Hanging, Hanging]:
        """The edges that may be walked from these nodes: all but mentions of entities, and mentions of entities.

        Those of the former that end in an entity, or in what is hidden, are to be left out by whoever wants none.
        """
        facts, direction = self.adjacency.facts, self.ways.direction
        is_entity = facts.is_entity[nodes]
        asked = np.where(self.allowed[facts.row[nodes]] | is_entity, nodes, -1)
        out = self.adjacency.hanging(asked, self.wanted, backwards=False)
        is_mention = (out.relation == MENTIONS_CODE) & facts.is_entity[out.end]
        mentions = out.taken(is_mention)
        links = [out.taken(~is_mention)] if direction != "in" else []
        if direction != "out" or is_entity.any():
            into = self.adjacency.hanging(asked, self.wanted, backwards=True)
            if direction == "out":
                into = into.taken((into.relation == MENTIONS_CODE) & is_entity[into.origin])
            links.append(into)
        return links[0] if len(links) == 1 else Hanging.together(links), mentions

    def _by_entities(self, nodes: Nodes, passing: Weights, mentions: Hanging) -> Hops:
        """The hops from chunk to entity to chunk; an entity's chunks are looked up once for all that mention it."""
        degree = self.adjacency.facts.degree[mentions.end]
        rare = self._rare_enough(mentions, degree)
        mentions, degree = mentions.taken(rare), degree[rare]
        entities, first, place = np.unique(mentions.end, return_index=True, return_inverse=True)
        there = self._mentioning(entities.astype(np.int64))
        weights = there.weight * self._damping(degree[first])[there.origin]
        count = np.bincount(there.origin, minlength=len(entities))
        number, position = spread((np.cumsum(count) - count)[place], count[place])
        origin = mentions.origin[number]
        weight = (mentions.weight * passing[mentions.origin])[number] * weights[position]
        hops = Hops(origin, there.end[position].astype(np.int64), weight, entities[place].astype(np.int64)[number])
        return _taken(hops, hops.node != nodes[origin])

    def _mentioning(self, entities: Nodes) -> Hanging:
        """The mentions of these entities by chunks to which a hop may lead, in the order of the entities."""
        if self.ends is None:
            there = self.adjacency.hanging(entities, self.wanted, backwards=True)
            there = there.taken((there.relation == MENTIONS_CODE) & self._is_end(there.end))
            if self.adjacency.beside is None:
                return there
        else:
            # A few chunks mention less than a few entities are mentioned.
            out = self.adjacency.hanging(self.ends, self.wanted, backwards=False)
            place = _places(entities, out.end)
            shared = np.flatnonzero((place >= 0) & (out.relation == MENTIONS_CODE))
            there = Hanging(place, self.ends[out.origin], out.relation, out.weight).taken(shared)
        return there.taken(np.argsort(there.origin, kind="stable"))

    def _rare_enough(self, mentions: Hanging, degree: NDArray[np.integer]) -> NDArray[np.int64]:
        """The mentions over which to walk, by origin and rarity; ``degree`` is that of the entities."""
        order = np.lexsort((mentions.end, degree, mentions.origin))
        if self.ways.hub_degree is None:
            return order
        origin, degree = mentions.origin[order], degree[order]
        share = np.count_nonzero(self.allowed) / max(self.seen.rows.living, 1)
        is_first = _is_other(origin)
        total = np.cumsum(degree)
        before = np.maximum.accumulate(np.where(is_first, total - degree, 0))
        return order[is_first | ((total - before) * share <= FAN * self.ways.hub_degree)]

    def _best(self, hops: Hops) -> Hops:
        """The heaviest hop from each origin to each node; of equal ones an edge, then the rarest entity."""
        if len(hops.node) <= SORTED_HOPS:
            return self._best_sorted(hops)
        doubled = _doubled(hops, len(self.adjacency.facts.row))
        if not doubled.any():
            return hops
        return _joined([_taken(hops, ~doubled), self._best_sorted(_taken(hops, doubled))])

    def _best_sorted(self, hops: Hops) -> Hops:
        key = hops.origin << 32 | hops.node
        order = np.argsort(key, kind="stable")  # for integers the quickest
        again = ~_is_other(key[order])
        if not again.any():
            return hops
        # Few are: only they have to be compared.
        many = order[again | np.append(again[1:], False)]
        rarity = np.where(hops.via[many] < 0, -1, self.degrees(hops.via[many]))
        best = many[np.lexsort((hops.via[many], rarity, -hops.weight[many], key[many]))]
        kept = np.ones(len(key), np.bool_)
        kept[many] = False
        kept[best[_is_other(key[best])]] = True
        return _taken(hops, kept)

    def _passing(self, nodes: NDArray[np.integer]) -> Weights:
        """Which part of its weight an edge counts that leaves each node."""
        return self._damping(self.degrees(nodes.astype(np.int64)))

    def _damping(self, degree: NDArray[np.integer]) -> Weights:
        hub = self.ways.hub_degree
        if hub is None:
            return np.ones(len(degree))
        passing: Weights = hub / np.maximum(degree, hub)
        return passing

    # -- explaining a walk ----------------------------------------------------------------------------------

    def _entities_between(self, pairs: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
        """The entity, -1 for none, over which the hop of each pair goes that has one."""
        wanted = set(pairs)
        origins = np.array(sorted({one for one, _ in wanted}), np.int64)
        hops = self.among(np.array(sorted({other for _, other in wanted}), np.int64))._hops(origins)
        if self.ways.hub_degree is None:
            # Undamped, a common entity weighs as much as a rare one, and says less.
            weight = np.where(hops.via < 0, 1.0, 1.0 / np.maximum(self.degrees(hops.via), 2))
            hops = hops._replace(weight=weight)
        hops = self._best(hops)
        found = zip(origins[hops.origin].tolist(), hops.node.tolist(), hops.via.tolist(), strict=True)
        return {(one, other): via for one, other, via in found if (one, other) in wanted}

    def _edges_between(
        self, links: Collection[tuple[int, int]], mentions: Collection[tuple[int, int]]
    ) -> dict[tuple[int, int], Edge]:
        """The heaviest edge that may be walked for each of these links, and for each of these mentions."""
        ways, asked = self.ways.direction, defaultdict(list)
        for one, other in links:
            if ways != "in":
                asked[one, other].append((one, other))
            if ways != "out":
                asked[other, one].append((one, other))
        for mention in mentions:
            asked[mention].append(mention)
        with self.gate:
            stored = self.catalogue.edges_between(asked, self.wanted.known_at)
        best: dict[tuple[int, int], Edge] = {}
        for source, target, edge in stored:
            if self._is_wanted(edge) and (edge.relation == MENTIONS or (source, target) not in mentions):
                for step in asked[source, target]:
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

    def _is_wanted(self, edge: Edge) -> bool:
        as_of, relations = self.wanted.as_of, self.ways.relations
        return (
            (relations is None or edge.relation in relations)
            and edge.weight >= self.ways.min_weight
            and (as_of is None or edge.valid_from is None or edge.valid_from <= as_of)
            and (as_of is None or edge.valid_until is None or edge.valid_until >= as_of)
        )


def _heaviest_first(edge: Edge) -> tuple[float, str, str]:
    return -edge.weight, edge.relation, edge.source


def _taken(hops: Hops, chosen: Mask | NDArray[np.int64]) -> Hops:
    columns: Any = [column[chosen] for column in hops]
    return Hops(*columns)


def _is_other(values: NDArray[np.int64]) -> Mask:
    """Which values are not those before them."""
    is_other = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=is_other[1:])
    return is_other


def _places(ascending: Nodes, values: NDArray[np.integer]) -> NDArray[np.int64]:
    """The place of each value, -1 for one that is not there."""
    if not len(ascending):
        return np.full(len(values), -1)
    places = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    return np.where(ascending[places] == values, places, -1)


def _joined(parts: Sequence[Hops]) -> Hops:
    columns: Any = map(np.concatenate, zip(*parts, strict=True))
    return Hops(*columns)


def _doubled(hops: Hops, nodes: int) -> Mask:
    """Which hops lead from the same origin to the same node as another one."""
    order = np.argsort(hops.origin.astype(np.min_scalar_type(int(hops.origin.max()))), kind="stable")
    node = hops.node[order]
    stops = np.cumsum(np.bincount(hops.origin))
    doubled = np.zeros(len(node), np.bool_)
    number, last = np.arange(len(node), dtype=np.int32), np.empty(nodes, np.int32)
    for start, stop in zip(np.concatenate([[0], stops[:-1]]).tolist(), stops.tolist(), strict=True):
        here, own = node[start:stop], number[start:stop]
        last[here] = own
        stays = last[here]  # of several hops to one node one
        lost = np.flatnonzero(stays != own)
        if len(lost):
            doubled[start + lost] = True
            doubled[stays[lost]] = True
    back = np.empty(len(node), np.bool_)
    back[order] = doubled
    return back
