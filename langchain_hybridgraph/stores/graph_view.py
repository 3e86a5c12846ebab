"""Graph and directory tree of an index, in memory."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from langchain_hybridgraph.errors import check_number, check_whole_number
from langchain_hybridgraph.records import MENTIONS, Edge, EdgeFilter, Scope
from langchain_hybridgraph.stores import catalog_writes
from langchain_hybridgraph.stores.catalog import EDGE
from langchain_hybridgraph.stores.chunk_rows import GRAPH, IS_MENTIONED, PARENT, json_list
from langchain_hybridgraph.stores.graph import MENTIONS_CODE, EdgeColumns, GraphState, Pair, ScopedGraph, concatenate
from langchain_hybridgraph.stores.index import IndexFolder, Snapshot
from langchain_hybridgraph.stores.row_table import UNPACKED, RowNumbers
from langchain_hybridgraph.stores.tree import Tree, TreeRows, TreeState, UriNumbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from langchain_hybridgraph.chunks import Mask, Vector
    from langchain_hybridgraph.stores.protocols import Nodes, Weights


# Columns that the graph in memory reads for each edge.
_ARC = "e.source, e.target, relation, weight, ifnull(e.valid_from, -9e999), ifnull(e.valid_until, 9e999), e.learned_at"
_ARCS_AT_ONCE = 50_000


@dataclass
class _GraphMirror:
    """Cached edges: ``state`` is (snapshot, graph, last change), ``has_edges`` is (last change, result)."""

    state: tuple[Snapshot, GraphState, int] | None = None
    has_edges: tuple[int, bool] = field(default=(-1, False))


@dataclass(frozen=True)
class _IndexGraph(ScopedGraph):
    snapshot: Snapshot
    visible_rows: Mask  # with an additional last entry for row -1, which is not visible
    index: IndexFolder

    def __len__(self) -> int:
        return self.snapshot.rows.living

    @property
    def visible_share(self) -> float:
        return np.count_nonzero(self.visible_rows) / max(self.snapshot.rows.living, 1)

    def find(self, ids: Sequence[str]) -> Nodes:
        rows = np.array(self.snapshot.rows.places(ids), np.int64)
        rows[rows >= len(self.state.node_of_row) - 1] = -1  # rows newer than this state
        results = self.state.node_of_row[rows].astype(np.int64)
        if (results < 0).any() and self.state.is_entity.any():
            sql = f"SELECT id, node FROM nodes WHERE tenant = ? AND kind = '{GRAPH}' AND id IN"
            node_of = dict(self.index.query(f"{sql} (SELECT value FROM json_each(?))", json_list(ids)))
            nodes = np.array([node_of.get(id, -1) for id in ids], np.int64)
            nodes[nodes >= len(self.state.row) - 1] = -1  # nodes newer than this state
            results = np.where((results < 0) & self.state.is_entity[nodes], nodes, results)
        return results

    def ids(self, nodes: Nodes) -> list[str]:
        rows = self.state.row[nodes]
        id_of: dict[int, str] = {}
        if (rows < 0).any():
            sql = "SELECT node, id FROM nodes WHERE node IN (SELECT value FROM json_each(?2))"
            id_of = dict(self.index.query(sql, json.dumps(nodes[rows < 0].tolist())))
        chunks = iter(self.snapshot.rows.ids(rows[rows >= 0].tolist()))
        pairs = zip(nodes.tolist(), rows.tolist(), strict=True)
        return [next(chunks) if row >= 0 else id_of.get(node, "") for node, row in pairs]

    def is_visible(self, nodes: NDArray[np.integer]) -> Mask:
        is_visible: Mask = self.visible_rows[self.state.row[nodes]]
        return is_visible

    def cosines(self, vector: Vector, nodes: Nodes) -> Weights:
        results = np.full(len(nodes), np.nan)
        rows, matrix = self.state.row[nodes], self.snapshot.generation.matrix
        has_row = rows >= 0
        with self.index.guard:
            if matrix is not None and has_row.any():
                results[has_row] = matrix.scores(vector, rows[has_row].astype(np.int64))
        return results

    def edges_between(self, pairs: Iterable[Pair]) -> list[tuple[int, int, Edge]]:
        results = self.index.query(
            f"SELECT e.source, e.target, {EDGE} FROM json_each(?2) p "
            "CROSS JOIN edges e ON e.source = json_extract(p.value, '$[0]') "
            "AND e.target = json_extract(p.value, '$[1]') "
            "JOIN nodes s ON s.node = e.source JOIN nodes t ON t.node = e.target "
            "WHERE e.learned_at <= ifnull(?3, 9e999)",
            json.dumps(list(pairs)),
            self.scope.known_at,
        )
        return [(source, target, Edge(*values)) for source, target, *values in results]


class GraphView:
    """Checks, prunes and opens the graph of an index.

    Edges are read into memory at first use (300,000 take 9 MB), then only the changes of all processes.
    """

    def __init__(self, index: IndexFolder) -> None:
        self._index = index

    def has_edges(self) -> bool:
        """Return whether the index currently has any edges."""
        mirror, catalog = self._index.mirror(_GraphMirror), self._index.catalog
        with self._index.guard:
            _, position = catalog.graph_position()
            if mirror.has_edges[0] != position:
                sql = "SELECT 1 FROM edges JOIN nodes ON node = source WHERE tenant = ? LIMIT 1"
                mirror.has_edges = position, bool(self._index.query(sql))
            return mirror.has_edges[1]

    def scoped(self, scope: Scope, edge_filter: EdgeFilter) -> ScopedGraph:
        """Return the part of the graph that a call with this scope may see (see ``stores.protocols.HasGraph``)."""
        index = self._index
        scope.check_tenant(index.settings.tenant)
        with index.guard:
            snapshot, graph = self._latest()
            visible_rows = np.append(index.allowed_rows(snapshot.rows, scope), False)
        return _IndexGraph(graph, scope, edge_filter, snapshot, visible_rows, index)

    def prune_orphans(self) -> int:
        """Delete edges with a missing end and graph nodes without edges; return the number of deleted edges.

        An end is missing unless it is a chunk, a parent, a mentioned entity or a directory above a chunk. Ingest a
        linking document again to restore its edge to a document that was added later.
        """
        with self._index.writer(), self._index.catalog.writing() as connection:
            catalog_writes.forget_files(connection, self._index.rows.tenant)  # the next ingest restores their edges
            return catalog_writes.delete_orphan_edges(connection, self._index.rows.tenant)

    def prune(self, min_weight: float = 0.0, max_per_source: int = 0) -> int:
        """Delete edges lighter than ``min_weight``, then all but the heaviest ``max_per_source`` of each source.

        A ``max_per_source`` of 0 sets no limit; ties are kept by relation, then target. Return the number of deleted
        edges, including those of entities that lose their last mention. Raises ValueError for a ``min_weight`` outside
        [0, 1] or a negative ``max_per_source``.
        """
        check_number("min_weight", min_weight, ge=0, le=1)
        check_whole_number("max_per_source", max_per_source, least=0)
        with self._index.writer(), self._index.catalog.writing() as connection:
            catalog_writes.forget_files(connection, self._index.rows.tenant)
            return catalog_writes.delete_weak_edges(connection, self._index.rows.tenant, min_weight, max_per_source)

    def _latest(self) -> tuple[Snapshot, GraphState]:
        mirror, catalog = self._index.mirror(_GraphMirror), self._index.catalog
        state = mirror.state
        if state is None or catalog.graph_position() != (state[0].rows.version, state[2]):
            with self._index.refresh_lock:
                state = self._read_latest(mirror.state)
                while state[0].generation.unusable_files and catalog.version() != state[0].rows.version:
                    state = self._read_latest(mirror.state)  # see IndexFolder.snapshot
                mirror.state = state
        return state[:2]

    def _read_latest(self, last: tuple[Snapshot, GraphState, int] | None) -> tuple[Snapshot, GraphState, int]:
        catalog = self._index.catalog
        with catalog.snapshot():
            snapshot = self._index.snapshot()
            _, position = catalog.graph_position()
            # The catalog may be older than the graph, if it was restored in place.
            if last is None or not int(catalog.facts()["graph_floor"]) <= last[2] <= position:
                return snapshot, self._read_all(snapshot), position
            graph, earlier, numbers = last[1], last[0].rows.numbers, snapshot.rows.numbers
            if earlier is not numbers:
                graph = graph.renumbered(earlier, numbers)
            if last[2] != position:
                graph = self._follow(graph, last[2], numbers)
        return snapshot, graph, position

    def _read_all(self, snapshot: Snapshot) -> GraphState:
        tenant, catalog, codes = snapshot.rows.tenant, self._index.catalog, {MENTIONS: MENTIONS_CODE}
        chunks = catalog.query("SELECT row, node FROM nodes WHERE row NOT NULL ORDER BY row")
        rows = np.array(chunks, np.int64).reshape(-1, 2)
        rows[:, 0] = snapshot.rows.numbers.rows(rows[:, 0])
        rows = rows[snapshot.rows.alive()[rows[:, 0]]]
        source = "nodes CROSS JOIN edges e ON e.source = node WHERE tenant = ?1" if tenant else "edges e"
        parts = [EdgeColumns.of([], codes)]
        with catalog.reading() as connection:
            results = connection.execute(f"SELECT {_ARC} FROM {source}", (tenant,) if tenant else ())
            while arcs := results.fetchmany(_ARCS_AT_ONCE):
                parts.append(EdgeColumns.of(arcs, codes))
        edges = concatenate(parts)
        targets = edges.ends()[len(edges.key) :]
        parents = self._index.query(f"SELECT node FROM nodes WHERE tenant = ? AND kind = '{PARENT}'")
        not_entities = np.concatenate([rows[:, 1], np.array(parents, np.int64).ravel()])
        entities = np.setdiff1d(targets[edges.relation == MENTIONS_CODE], not_entities)
        is_entity = np.ones_like(entities)
        chunk_nodes = np.column_stack([rows[:, 1], rows[:, 0], np.zeros_like(rows[:, 0])])
        entity_nodes = np.column_stack([entities, -is_entity, is_entity])
        return GraphState.of(np.concatenate([chunk_nodes, entity_nodes]), edges, codes)

    def _follow(self, last: GraphState, position: int, numbers: RowNumbers) -> GraphState:
        """Return the graph after the changes since ``position``; a changed node is logged as a pair with itself."""
        index, codes = self._index, dict(last.codes)
        changed_nodes = index.query(
            "WITH touched (node) AS (SELECT source FROM graph_changes WHERE number > ?2 "
            "UNION SELECT target FROM graph_changes WHERE number > ?2) "
            f"SELECT nodes.node, ifnull(row, -1), kind = '{GRAPH}' AND {IS_MENTIONED} "
            "FROM touched CROSS JOIN nodes ON nodes.node = touched.node WHERE tenant = ?1",
            position,
        )
        pairs = "(SELECT DISTINCT source, target FROM graph_changes WHERE number > ?2)"
        touched = np.array(index.query(f"SELECT source, target FROM {pairs}", position), np.int64).reshape(-1, 2)
        changed_arcs = index.query(
            f"SELECT {_ARC} FROM {pairs} c CROSS JOIN edges e ON e.target = c.target AND e.source = c.source "
            "CROSS JOIN nodes ON node = e.source WHERE tenant = ?1",
            position,
        )
        edge_ends = touched[touched[:, 0] != touched[:, 1]]
        nodes = np.array(changed_nodes, np.int64).reshape(-1, 3)
        is_chunk = nodes[:, 1] >= 0
        nodes[is_chunk, 1] = numbers.rows(nodes[is_chunk, 1])
        keys = edge_ends[:, 0] << 32 | edge_ends[:, 1]
        return last.updated(np.unique(touched), nodes, keys, EdgeColumns.of(changed_arcs, codes), codes)


@dataclass
class _TreeMirror:
    """The tree positions of all rows read so far, and the tree of the latest commit read."""

    places: UriNumbers | None = None
    numbers: RowNumbers = UNPACKED
    state: tuple[Snapshot, TreeState] | None = None


class DirectoryTree:
    """Directory tree of an index, built from the uris of its chunks (see ``records.uris.chunk_uri``).

    After the first use, only the uris of new rows are read.
    """

    def __init__(self, index: IndexFolder) -> None:
        self._index = index

    def scoped(self, scope: Scope) -> Tree:
        """Return the tree that a call with this scope may see (see ``stores.protocols.HasTree``)."""
        scope.check_tenant(self._index.settings.tenant)
        with self._index.guard:
            snapshot, state = self._latest()
            return Tree(state, _tree_rows(snapshot), self._index.allowed_rows(snapshot.rows, scope))

    def _latest(self) -> tuple[Snapshot, TreeState]:
        mirror = self._index.mirror(_TreeMirror)
        present = mirror.state
        if present is not None and present[0].rows.version == self._index.snapshot().rows.version:
            return present
        with self._index.refresh_lock:  # otherwise another thread could add places of rows that this state lacks
            snapshot = self._index.snapshot()
            places, rows, numbers = mirror.places, snapshot.rows, snapshot.rows.numbers
            if places is not None and mirror.numbers is not numbers:
                places = places.compressed(numbers.still_present(mirror.numbers, len(places.of_row)))
            if places is None or len(places.of_row) > len(rows):
                places = UriNumbers()
            mirror.places, mirror.numbers = places, numbers
            span = numbers.span(len(places.of_row), len(rows))
            # The plus prevents SQLite from using an index on the tenant, so only the new rows are read.
            sql = "SELECT row, uri, context_type FROM nodes WHERE +tenant = ? AND row >= ? AND row < ? ORDER BY row"
            positions = self._index.query(sql, *span)
            new_rows = numbers.rows([number for number, _, _ in positions]).tolist()
            places.grow(len(rows), ((row, *rest) for row, (_, *rest) in zip(new_rows, positions, strict=True)))
            mirror.state = snapshot, TreeState(places, rows.alive(), numbers)
            return mirror.state


def _tree_rows(snapshot: Snapshot) -> TreeRows:
    all_rows, matrix = snapshot.rows, snapshot.generation.matrix

    def nearest(vector: Vector, rows: Sequence[int], n: int) -> Sequence[int]:
        if matrix is None:
            return rows
        each = np.array(rows, np.int64)
        nearest_rows: list[int] = each[np.argsort(-matrix.scores(vector, each), kind="stable")].tolist()
        return nearest_rows

    return TreeRows(all_rows.ids, lambda id: next(iter(all_rows.rows([id])), -1), nearest)
