"""Edges of an index, cached in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from langchain_hybridgraph.records import MENTIONS
from langchain_hybridgraph.stores import catalog_writes
from langchain_hybridgraph.stores.embedded.adjacency import (
    MENTIONS_CODE,
    Adjacency,
    Changes,
    EdgeColumns,
    EdgeSelection,
)
from langchain_hybridgraph.stores.embedded.scoped_graph import ScopedGraph
from langchain_hybridgraph.stores.index import IndexFolder, Snapshot

if TYPE_CHECKING:
    from langchain_hybridgraph.records import EdgeFilter, Scope


@dataclass
class _GraphMirror:
    """The cached edges of an index.

    ``state`` contains the edges and the snapshot that they belong to. ``has_edges`` is a pair: the number of the last
    graph change at the time of the check, and whether the index had any edges then.
    """

    state: tuple[Snapshot, Adjacency] | None = None
    has_edges: tuple[int, bool] = field(default=(-1, False))


class GraphView:
    """Checks, prunes and opens the graph of an index.

    The edges are read into memory at first use (300,000 edges take 9 MB). After that, only changes are read, including
    those made by other processes; the catalog keeps a log of them.
    """

    def __init__(self, index: IndexFolder) -> None:
        self._index = index

    def has_edges(self) -> bool:
        """Return whether the index currently has any edges."""
        mirror, catalog = self._mirror, self._index.catalog
        with self._index.guard:
            _, position = catalog.graph_position()
            if mirror.has_edges[0] != position:
                mirror.has_edges = position, catalog.has_edges(self._index.rows.tenant)
            return mirror.has_edges[1]

    def scoped(self, scope: Scope, edge_filter: EdgeFilter) -> ScopedGraph:
        """Return the part of the graph that a call with this scope may see (see ``stores.protocols.HasGraph``)."""
        index = self._index
        index.check_scope(scope)
        with index.guard:
            snapshot, adjacency = self._latest()
            allowed_rows = np.append(index.allowed_rows(snapshot.rows, scope), False)  # row -1: a node without a row
        selection = EdgeSelection.by(edge_filter, scope.as_of, adjacency.codes, scope.known_at)
        return ScopedGraph(snapshot, adjacency, allowed_rows, selection, edge_filter, index.catalog, index.guard)

    def prune_orphans(self) -> int:
        """Delete the edges that have a missing end, and return their number. Also delete graph nodes without edges.

        An end of an edge is not missing if it is one of these:

        - a chunk or parent
        - an entity that a chunk mentions (relation ``mentions``)
        - a directory that contains a chunk, directly or through directories below it (relation ``contains``)

        All other ends are missing, for example a linked document that has not been ingested yet. To restore the edge to
        such a document, ingest the linking document again.
        """
        with self._index.writer(), self._index.catalog.writing() as connection:
            catalog_writes.forget_files(connection, self._index.rows.tenant)  # the next ingest restores their edges
            return catalog_writes.delete_orphan_edges(connection, self._index.rows.tenant)

    def prune(self, min_weight: float = 0.0, max_per_source: int = 0) -> int:
        """Delete edges lighter than ``min_weight``, then all but the ``max_per_source`` heaviest edges of each source.

        If ``max_per_source`` is 0, the number of edges per source is not limited. Edges with equal weights are ordered
        alphabetically by relation, then by target, and the first ones are kept. An entity that is no longer mentioned
        is deleted together with its edges.

        Return the number of deleted edges, including the edges of such entities. Raises ValueError if ``min_weight`` is
        not in [0, 1], or if ``max_per_source`` is below 0.
        """
        if not 0.0 <= min_weight <= 1.0:
            raise ValueError(f"min_weight must be a number from 0 to 1, got {min_weight!r}")
        if max_per_source < 0:
            raise ValueError(f"max_per_source must be at least 0 (0: no limit), got {max_per_source!r}")
        with self._index.writer(), self._index.catalog.writing() as connection:
            catalog_writes.forget_files(connection, self._index.rows.tenant)
            return catalog_writes.delete_weak_edges(connection, self._index.rows.tenant, min_weight, max_per_source)

    @property
    def _mirror(self) -> _GraphMirror:
        return self._index.mirror(_GraphMirror, _GraphMirror)

    def _latest(self) -> tuple[Snapshot, Adjacency]:
        """Return a snapshot of the index and its edges, both in the state of the latest commit."""
        mirror, catalog = self._mirror, self._index.catalog
        present = mirror.state
        if present is not None and catalog.graph_position() == (present[0].rows.version, present[1].position):
            return present
        with self._index.refresh_lock:
            snapshot, adjacency = self._read_latest(mirror)
            while snapshot.generation.unusable_files and catalog.version() != snapshot.rows.version:
                snapshot, adjacency = self._read_latest(mirror)  # see IndexFolder.snapshot
            mirror.state = snapshot, adjacency
        return snapshot, adjacency

    def _read_latest(self, mirror: _GraphMirror) -> tuple[Snapshot, Adjacency]:
        catalog = self._index.catalog
        with catalog.snapshot():
            snapshot = self._index.snapshot()
            version, position = catalog.graph_position()
            last = mirror.state and mirror.state[1]
            if last is None or last.position < int(catalog.facts()["graph_floor"]):
                adjacency = self._read_adjacency(snapshot)
            elif last.position < position:
                adjacency = self._follow_adjacency(last)
            else:
                adjacency = last
        return snapshot, adjacency.at(version, position)

    def _read_adjacency(self, snapshot: Snapshot) -> Adjacency:
        tenant, catalog = snapshot.rows.tenant, self._index.catalog
        rows = np.array(catalog.chunk_nodes(), np.int64).reshape(-1, 2)
        rows = rows[snapshot.rows.alive()[rows[:, 0]]]
        parents = np.array(catalog.parent_nodes(tenant), np.int64)
        codes = {MENTIONS: MENTIONS_CODE}
        read = [EdgeColumns.of(arcs, codes) for arcs in catalog.arcs(tenant)]
        return Adjacency.built(rows, parents, EdgeColumns.together([EdgeColumns.of([], codes), *read]), codes)

    def _follow_adjacency(self, last: Adjacency) -> Adjacency:
        tenant, catalog, codes = self._index.rows.tenant, self._index.catalog, dict(last.codes)
        touched = np.array(catalog.changed_pairs(last.position), np.int32).reshape(-1, 2)
        changes = Changes(
            np.unique(touched).astype(np.int64),
            catalog.changed_nodes(tenant, last.position),
            touched[touched[:, 0] != touched[:, 1]],
            EdgeColumns.of(catalog.changed_arcs(tenant, last.position), codes),
        )
        return last.updated(changes, codes)
