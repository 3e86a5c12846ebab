"""Edges in memory, sorted by source and by target."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from langchain_hybridgraph.chunks import Mask
    from langchain_hybridgraph.records import EdgeFilter

    Integers = NDArray[np.integer]
    Numbers = NDArray[np.float64]

# Code of the relation ``mentions``, which leads to entities, in every adjacency.
MENTIONS_CODE = 0
# All edges are sorted again when the number of changed edges exceeds both this number and this share of all edges.
# Sorting takes 50 ms for 300,000 edges and half a second for 3,000,000; adding a change without it takes one or two ms.
RECENT_EDGES, RECENT_SHARE = 5_000, 0.05


# numpy reads rows of this type twice as fast as separate columns.
_ROW = np.dtype(
    [
        ("source", "i4"),
        ("target", "i4"),
        ("relation", "O"),
        ("weight", "f8"),
        ("start", "f8"),
        ("stop", "f8"),
        ("learned", "f8"),
    ]
)


class EdgeColumns(NamedTuple):
    """Edges as columns of equal length.

    ``start`` and ``stop`` are the limits of validity; they are −infinity and infinity if they are not set. ``learned``
    is the time at which each edge was ingested.
    """

    source: Integers
    target: Integers
    relation: Integers
    weight: Numbers
    start: Numbers
    stop: Numbers
    learned: Numbers

    @classmethod
    def of(cls, edges: list[tuple[int, int, str, float, float, float, float]], codes: dict[str, int]) -> Self:
        """Return edges from the catalog as columns; new relations are added to ``codes``."""
        rows = np.array(edges, _ROW)
        relation = [codes.setdefault(name, len(codes)) for name in rows["relation"].tolist()]
        columns = [np.ascontiguousarray(rows[name]) for name in ("weight", "start", "stop", "learned")]
        return cls(rows["source"].copy(), rows["target"].copy(), np.array(relation, np.int32), *columns)

    @classmethod
    def together(cls, parts: Iterable[EdgeColumns]) -> Self:
        """Return the concatenation of several sets of edges."""
        columns: Any = map(np.concatenate, zip(*parts, strict=True))
        return cls(*columns)

    def select(self, selection: Mask | Integers) -> EdgeColumns:
        """Return the edges at these positions, or the edges for which this mask is True."""
        return EdgeColumns._make(column[selection] for column in self)


class IncidentEdges(NamedTuple):
    """The edges found by looking up an array of nodes.

    For each edge, ``origin`` is the position of the looked-up node in that array, and ``end`` is the node at the other
    end of the edge.
    """

    origin: NDArray[np.int64]
    end: Integers
    relation: Integers
    weight: Numbers

    @classmethod
    def together(cls, parts: Iterable[IncidentEdges]) -> Self:
        """Return the concatenation of the edges of several look-ups."""
        columns: Any = map(np.concatenate, zip(*parts, strict=True))
        return cls(*columns)

    def select(self, selection: Mask | Integers) -> IncidentEdges:
        """Return the edges at these positions, or the edges for which this mask is True."""
        columns: Any = [column[selection] for column in self]
        return IncidentEdges(*columns)


@dataclass(frozen=True, slots=True)
class EdgeSelection:
    """Conditions that an edge must meet in a call: its relation, weight, validity and time of ingestion.

    ``relations`` is a mask of the allowed relation codes; None allows all relations.
    """

    relations: Mask | None
    min_weight: float
    as_of: float | None
    known_at: float | None = None

    @classmethod
    def by(
        cls, edge_filter: EdgeFilter, as_of: float | None, codes: Mapping[str, int], known_at: float | None = None
    ) -> Self:
        """Return the selection for a call's edge filter and times; ``codes`` maps relations to their codes."""
        relations = None
        if edge_filter.relations is not None:
            relations = np.zeros(len(codes), np.bool_)
            relations[[codes[name] for name in edge_filter.relations if name in codes]] = True
        return cls(relations, edge_filter.min_weight, as_of, known_at)


class SortedEdges:
    """Immutable edges, sorted by one end (the head) and then by the other end.

    The edges of node i are at the positions from ``starts[i + 1]`` up to, but not including, ``starts[i + 2]``. Looking
    up node -1, or a node after the last head, returns no edges.
    """

    def __init__(self, head: Integers, end: Integers, columns: EdgeColumns) -> None:
        order = np.argsort(head.astype(np.int64) << 32 | end, kind="stable")
        self.starts = np.zeros(int(head.max(initial=-1)) + 4, np.int64)
        np.cumsum(np.bincount(head, minlength=len(self.starts) - 2), out=self.starts[2:])
        self.ends = end[order].astype(np.int32)
        self.weight = columns.weight[order]
        largest = int(columns.relation.max(initial=0))
        self.relation = columns.relation[order].astype(np.min_scalar_type(largest))
        is_timed = np.isfinite(columns.start).any() or np.isfinite(columns.stop).any()
        self.times = (columns.start[order], columns.stop[order]) if is_timed else None
        self.learned = columns.learned[order]

    def at(self, nodes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the edges of these nodes as two arrays with one entry per edge.

        The first array has positions in ``nodes``, the second has positions in these sorted edges.
        """
        first, stop = self._ranges(nodes)
        return spread(first, stop - first)

    def find(self, heads: Integers, ends: Integers) -> NDArray[np.int64]:
        """Return the positions of all edges from each node in ``heads`` to the corresponding node in ``ends``."""
        if not len(self.ends):
            return _NONE
        first, stop = self._ranges(heads)
        left = _bisect(self.ends, first, stop, ends)
        return spread(left, _bisect(self.ends, left, stop, ends + 1) - left)[1]

    def columns(self, positions: NDArray[np.int64]) -> EdgeColumns:
        """Return the edges at these positions as columns, with the head as their source."""
        heads = (np.searchsorted(self.starts, positions, side="right") - 2).astype(np.int32)
        if self.times is None:
            start, stop = np.full(len(positions), -np.inf), np.full(len(positions), np.inf)
        else:
            start, stop = self.times[0][positions], self.times[1][positions]
        learned = self.learned[positions]
        return EdgeColumns(
            heads, self.ends[positions], self.relation[positions], self.weight[positions], start, stop, learned
        )

    def _ranges(self, nodes: Integers) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the positions at which the edges of each node start and stop."""
        place = np.minimum(nodes, len(self.starts) - 3) + 1
        return self.starts[place], self.starts[place + 1]

    def incident(self, nodes: NDArray[np.int64], stale: Mask | None, selection: EdgeSelection) -> IncidentEdges:
        """Return the edges of these nodes that meet the conditions of ``selection``.

        ``stale`` is a mask of edges to leave out.
        """
        origin, position = self.at(nodes)
        keep: Mask | None = None
        if stale is not None:
            keep = ~stale[position]
        if selection.min_weight > 0:
            keep = _and(keep, self.weight[position] >= selection.min_weight)
        if selection.relations is not None:
            keep = _and(keep, selection.relations[self.relation[position]])
        if selection.as_of is not None and self.times is not None:
            start, stop = self.times
            keep = _and(keep, (start[position] <= selection.as_of) & (stop[position] >= selection.as_of))
        if selection.known_at is not None:
            keep = _and(keep, self.learned[position] <= selection.known_at)
        if keep is not None:
            origin, position = origin[keep], position[keep]
        return IncidentEdges(origin, self.ends[position], self.relation[position], self.weight[position])


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Facts about each node of the catalog. The value -1 means no row or no node.

    The last entry of ``row``, ``is_entity`` and ``degree`` is for node -1.
    """

    row: NDArray[np.int32]
    is_entity: Mask
    degree: NDArray[np.int32]
    node_of_row: NDArray[np.int32]

    @classmethod
    def empty(cls) -> Self:
        """Return the facts of a graph without nodes."""
        return cls(np.full(1, -1, np.int32), np.zeros(1, np.bool_), np.zeros(1, np.int32), np.zeros(0, np.int32))

    def enlarged_to(self, nodes: int, rows: int) -> NodeFacts:
        """Return a copy with room for this number of nodes and rows."""
        return NodeFacts(
            _enlarge(self.row, nodes + 1, -1),
            _enlarge(self.is_entity, nodes + 1, False),
            _enlarge(self.degree, nodes + 1, 0),
            _enlarge(self.node_of_row, rows, -1),
        )


class Changes(NamedTuple):
    """The nodes and edges that have changed since an adjacency was built, in their current state.

    ``nodes`` are the changed nodes. ``existing`` has an entry (node, row or -1, whether it is an entity) for each of
    these nodes that exists in the tenant. ``pairs`` (k × 2) are the pairs of nodes whose edges have changed, and
    ``edges`` are all current edges between them.
    """

    nodes: NDArray[np.int64]
    existing: list[tuple[int, int, int]]
    pairs: NDArray[np.int32]
    edges: EdgeColumns


@dataclass(frozen=True, slots=True)
class Adjacency:
    """Immutable state of a tenant's edges; a change creates a new state.

    Edges are stored twice: in ``out``, sorted by source, and in ``into``, sorted by target. If edges change later, they
    are marked as stale in both, and ``recent`` contains their current state, also sorted once by source and once by
    target. ``version`` and ``position`` identify the state of the catalog that was read. ``counts`` contains the number
    of edges for each relation's code.
    """

    version: int
    position: int
    codes: Mapping[str, int]
    counts: NDArray[np.int64]
    facts: NodeFacts
    out: SortedEdges
    into: SortedEdges
    out_stale: Mask | None = None
    into_stale: Mask | None = None
    recent: tuple[SortedEdges, SortedEdges] | None = None
    changed: EdgeColumns = field(default_factory=lambda: EdgeColumns.of([], {}))

    @classmethod
    def built(
        cls, rows: NDArray[np.int64], parents: NDArray[np.int64], edges: EdgeColumns, codes: Mapping[str, int]
    ) -> Self:
        """Return the adjacency of all edges.

        ``rows`` (k × 2) contains the row and the node of every chunk, and ``parents`` the nodes of all parents.
        """
        count = 1 + max(rows[:, 1].max(initial=0), edges.source.max(initial=0), edges.target.max(initial=0))
        facts = NodeFacts.empty().enlarged_to(int(count), int(rows[:, 0].max(initial=-1)) + 1)
        facts.row[rows[:, 1]] = rows[:, 0]
        facts.node_of_row[rows[:, 0]] = rows[:, 1]
        facts.is_entity[edges.target[edges.relation == MENTIONS_CODE]] = True
        facts.is_entity[rows[:, 1]] = False
        facts.is_entity[parents[parents < count]] = False
        facts.degree[:] = sum(np.bincount(ends, minlength=len(facts.degree)) for ends in (edges.source, edges.target))
        return cls(-1, 0, codes, np.bincount(edges.relation, minlength=len(codes)), facts, *_halves(edges))

    def __len__(self) -> int:
        """Return the number of edges."""
        return int(self.facts.degree.sum(dtype=np.int64)) // 2

    @property
    def relations(self) -> frozenset[str]:
        """Names of the relations that have at least one edge."""
        return frozenset(name for name, code in self.codes.items() if self.counts[code])

    def at(self, version: int, position: int) -> Adjacency:
        """Return the same edges, marked as read from the catalog at this version and position."""
        return replace(self, version=version, position=position)

    def incident(self, nodes: NDArray[np.int64], selection: EdgeSelection, *, backwards: bool) -> IncidentEdges:
        """Return the selected edges that leave these nodes, or, with ``backwards``, the edges that arrive at them.

        The edges are in no particular order.
        """
        half, stale = (self.into, self.into_stale) if backwards else (self.out, self.out_stale)
        edges = half.incident(nodes, stale, selection)
        if self.recent is None:
            return edges
        more = self.recent[backwards].incident(nodes, None, selection)
        return IncidentEdges.together([edges, more]) if len(more.end) else edges

    def updated(self, changes: Changes, codes: Mapping[str, int]) -> Adjacency:
        """Return the adjacency after these changes."""
        facts = self._facts_after(changes)
        source, target = changes.pairs[:, 0], changes.pairs[:, 1]
        out_positions, into_positions = self.out.find(source, target), self.into.find(target, source)
        if self.out_stale is not None:
            out_positions = out_positions[~self.out_stale[out_positions]]
        is_unchanged = ~np.isin(_keys(self.changed.source, self.changed.target), _keys(source, target))
        counts = _enlarge(self.counts, len(codes), 0)
        for edges, sign in (
            (self.changed.select(~is_unchanged), -1),
            (self.out.columns(out_positions), -1),
            (changes.edges, 1),
        ):
            np.add.at(facts.degree, np.concatenate([edges.source, edges.target]), sign)
            np.add.at(counts, edges.relation, sign)
        changed = EdgeColumns.together([self.changed.select(is_unchanged), changes.edges])
        after = replace(
            self,
            codes=codes,
            counts=counts,
            facts=facts,
            out_stale=_mark(self.out_stale, out_positions, len(self.out.ends)),
            into_stale=_mark(self.into_stale, into_positions, len(self.into.ends)),
            recent=_halves(changed) if len(changed.source) else None,
            changed=changed,
        )
        limit = max(RECENT_EDGES, RECENT_SHARE * len(self.out.ends))
        return after._ordered() if len(changed.source) > limit else after

    def _facts_after(self, changes: Changes) -> NodeFacts:
        last = int(max(changes.nodes.max(initial=0), changes.edges.target.max(initial=0)))
        existing = np.array(changes.existing, np.int64).reshape(-1, 3)
        facts = self.facts.enlarged_to(last + 1, int(existing[:, 1].max(initial=-1)) + 1)
        facts.row[changes.nodes] = -1
        facts.is_entity[changes.nodes] = False
        facts.row[existing[:, 0]] = existing[:, 1]
        facts.is_entity[existing[:, 0]] = existing[:, 2] > 0
        chunks = existing[existing[:, 1] >= 0]
        facts.node_of_row[chunks[:, 1]] = chunks[:, 0]
        return facts

    def _ordered(self) -> Adjacency:
        """Return the same edges, with the recent changes merged into ``out`` and ``into``."""
        stale = self.out_stale
        present = np.arange(len(self.out.ends)) if stale is None else np.flatnonzero(~stale)
        out, into = _halves(EdgeColumns.together([self.out.columns(present), self.changed]))
        none = EdgeColumns.of([], {})
        return replace(self, out=out, into=into, out_stale=None, into_stale=None, recent=None, changed=none)


_NONE = np.zeros(0, np.int64)


def spread(first: NDArray[np.int64], count: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return all positions in several ranges, as two arrays: the index of each position's range, and the position.

    Range i has ``count[i]`` positions and starts at ``first[i]``.

    >>> spread(np.array([10, 20]), np.array([2, 3]))
    (array([0, 0, 1, 1, 1]), array([10, 11, 20, 21, 22]))
    """
    number = np.repeat(np.arange(len(count)), count)
    before = np.cumsum(count) - count
    return number, np.arange(len(number)) + (first - before)[number]


def _bisect(values: Integers, low: NDArray[np.int64], high: NDArray[np.int64], keys: Integers) -> NDArray[np.int64]:
    """Return, for each range [low, high), the position of its first value that is at least the corresponding key.

    The values in each range are ascending. If all of them are less than the key, the position is ``high``.
    """
    while (is_open := low < high).any():
        middle = (low + high) // 2
        is_less = is_open & (values[np.minimum(middle, len(values) - 1)] < keys)
        low, high = np.where(is_less, middle + 1, low), np.where(is_open & ~is_less, middle, high)
    return low


def _halves(edges: EdgeColumns) -> tuple[SortedEdges, SortedEdges]:
    return SortedEdges(edges.source, edges.target, edges), SortedEdges(edges.target, edges.source, edges)


def _keys(source: Integers, target: Integers) -> NDArray[np.int64]:
    return source.astype(np.int64) << 32 | target


def _and(one: Mask | None, other: Mask) -> Mask:
    return other if one is None else one & other


def _mark(mask: Mask | None, positions: NDArray[np.int64], size: int) -> Mask | None:
    if not len(positions):
        return mask
    marked = np.zeros(size, np.bool_) if mask is None else mask.copy()
    marked[positions] = True
    return marked


def _enlarge(values: NDArray[Any], size: int, fill: int) -> NDArray[Any]:
    enlarged_array = np.full(max(size, len(values)), fill, values.dtype)
    enlarged_array[: len(values)] = values
    return enlarged_array
