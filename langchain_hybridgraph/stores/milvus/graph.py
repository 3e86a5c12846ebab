"""Graph of a store in Milvus.

A traversal needs few calls to the server, because the row of a chunk lists the chunk's neighbours, and the row of a
mention all entities that the same chunk mentions. Two hops through edges and entities usually take three calls: for the
edges of the starting nodes and of the entities that they mention, for the edges of the chunks one hop away, and for all
chunks up to two hops away. If a list of ids is incomplete, another call is needed. The edges that degrees need are read
in parallel with the last call. A small graph is read completely in one call.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from typing import TYPE_CHECKING

import numpy as np

from langchain_hybridgraph.records import ENTITY, MENTIONS, TITLE, Edge, EdgeFilter, Scope
from langchain_hybridgraph.stores.graph import InMemoryGraph
from langchain_hybridgraph.stores.milvus.connection import MOST_KEYS, MOST_RESULTS
from langchain_hybridgraph.stores.milvus.schema import EDGE_FIELDS, StoredRow, stored_edge, text, texts
from langchain_hybridgraph.stores.milvus.search import MilvusIndex, in_parts

if TYPE_CHECKING:
    from langchain_hybridgraph.chunks import Mask, Vector
    from langchain_hybridgraph.stores.protocols import Graph, NeighborEdges, Nodes, Weights

# Fields of an edge, with the entities of its source.
TRAVERSED_FIELDS = (*EDGE_FIELDS, "entities")
# Largest number of nodes within two hops whose chunks are read at once; if there are more, only the chunks one hop away
# are read. The second value applies to a traversal that reads links, which may need no other chunks.
MOST_AHEAD = MOST_KEYS
MOST_AHEAD_OF_LINKS = 500
# Largest number of edges of a graph that is read in one call (about 400 kB).
MOST_AT_ONCE = 2_000


class FetchedGraph:
    """A graph whose edges and chunks are read from Milvus as needed; a call reads at most 16,384 edges."""

    def __init__(self, index: MilvusIndex, scope: Scope, edge_filter: EdgeFilter) -> None:
        index.check_scope(scope)
        self._index, self._scope, self._edge_filter = index, scope, edge_filter
        self._memory = InMemoryGraph()
        self._read: set[str] = set()  # ids whose edges have been read
        self._is_complete = False  # whether all edges have been read
        self._surrounded: set[str] = set()  # ids whose neighbours have been read
        self._entities: dict[str, Sequence[str]] = {}  # entities of chunks whose edges may not have been read
        self._needs_degrees = False  # whether the traversal has read the degrees of chunks
        self._rows: dict[str, StoredRow | None] = {}
        self._ends: Nodes | None = None

    def __len__(self) -> int:
        return self._index.connection.run(self._index.counted_lately(self._index.names.chunks))

    @property
    def has_entities(self) -> bool:
        """Whether any chunk mentions an entity."""
        return self._has_relation(MENTIONS)

    @property
    def relations(self) -> Collection[str]:
        """Relations of the edges read so far, and the relations in the edge filter that exist in the store."""
        return {*self._view().relations, *filter(self._has_relation, self._edge_filter.relations or ())}

    def nodes(self, ids: Sequence[str]) -> Nodes:
        """Return the node of each id, or -1 for an id that has no edges or is not in scope."""
        self._fetch(ids)
        return self._view().nodes(ids)

    def ids(self, nodes: Nodes) -> list[str]:
        """Return the id of each node."""
        return self._view().ids(nodes)

    def restricted_to(self, nodes: Nodes) -> FetchedGraph:
        """Return the same graph with ``neighbours`` restricted to hops that lead to these chunks."""
        other = copy(self)
        other._ends = nodes
        return other

    def neighbours(self, nodes: Nodes) -> NeighborEdges:
        """Return the chunks one hop away."""
        self._fetch_around(nodes, goes_on=True)
        return self._view().neighbours(nodes)

    def links(self, nodes: Nodes) -> NeighborEdges:
        """Return the stored edges of these nodes, including mentions."""
        self._fetch_around(nodes, goes_on=self._needs_degrees)
        return self._view().links(nodes)

    def degrees(self, nodes: Nodes) -> Nodes:
        """Return the number of edges of each node.

        If ``nodes`` include a chunk, later reads of neighbours or links read the degrees of their chunks as well.
        """
        self._needs_degrees = self._needs_degrees or bool(self._view().is_chunk(nodes).any())
        self._fetch(self._view().ids(nodes))
        return self._view().degrees(nodes)

    def is_chunk(self, nodes: Nodes) -> Mask:
        """Return a mask of the nodes that are chunks."""
        return self._view().is_chunk(nodes)

    def cosines(self, vector: Vector, nodes: Nodes) -> Weights:
        """Return the cosine of each chunk with a unit vector; NaN if it is unknown."""
        return self._view().cosines(vector, nodes)

    def edges(self, steps: Sequence[tuple[str, str]]) -> list[Edge | tuple[Edge, Edge] | None]:
        """Return, for each step between two chunks, the edge or the two mentions that connect them, or None."""
        self._fetch([origin for origin, _ in steps])
        return self._view().edges(steps)

    # -- reading ----------------------------------------------------------------------------------------------

    def _view(self, *, is_checked: bool = True) -> Graph:
        """Return the edges read so far as a graph. If ``is_checked`` is False, every chunk is treated as visible."""
        graph = self._memory.for_store(self._visible, self._cosines) if is_checked else self._memory
        view = graph.scoped_graph(self._scope, self._edge_filter)
        return view if self._ends is None or not is_checked else view.restricted_to(self._ends)

    def _has_relation(self, name: str) -> bool:
        if self._is_complete or name in self._view().relations:
            return name in self._view().relations
        return self._index.has_rows(self._index.names.edges, f"relation == {text(name)}")

    def _fetch_around(self, nodes: Nodes, *, goes_on: bool) -> None:
        """Read the edges of these nodes, and the chunks within two hops, or one hop if two reach too many nodes.

        Pass ``goes_on=True`` if the traversal will continue from these chunks. Their edges are then read first, so that
        one call can read the chunks of both hops.
        """
        begins = self._view().ids(nodes)
        self._fetch(begins)
        missing = set(begins) - self._surrounded
        if not missing:
            return
        view = self._view(is_checked=False)
        near = view.ids(_with_ends(view.nodes(sorted(missing)), view))
        chunks = [id for id in near if _is_chunk_id(id)]
        if goes_on and any(id not in self._rows for id in chunks):
            self._fetch(chunks)
            view = self._view(is_checked=False)
        titles = _with_titles(id for id in near if id.startswith(ENTITY))
        first_hop = _with_ends(view.nodes(sorted(missing | titles)), view)
        second_hop = _with_ends(first_hop[view.is_chunk(first_hop)], view)
        is_small = len(second_hop) <= (MOST_AHEAD if goes_on else MOST_AHEAD_OF_LINKS)
        ids = view.ids(second_hop if is_small else first_hop)
        unread = {id for id in ids if _is_chunk_id(id)} - self._read
        if self._needs_degrees and unread and not self._is_complete:
            with ThreadPoolExecutor(1) as pool:
                rows = pool.submit(self._read_rows, [*begins, *ids])
                self._fetch(unread)
                rows.result()
        else:
            self._read_rows([*begins, *ids])
        self._surrounded |= missing

    def _fetch(self, ids: Iterable[str]) -> None:
        """Read the edges of nodes and of the entities that these nodes mention; a small graph is read completely."""
        index, edges = self._index, self._index.names.edges
        missing = {id for id in ids if id and id not in self._read}
        if not missing or self._is_complete:
            return
        if not self._read and index.connection.run(index.counted_lately(edges)) <= MOST_AT_ONCE:
            rows = index.read(edges, index.of_tenant(), EDGE_FIELDS, MOST_AT_ONCE + 1)
            self._memory.add(map(stored_edge, rows))
            self._is_complete = len(rows) <= MOST_AT_ONCE  # the count may be a minute old
            if self._is_complete:
                return
        chunks = [id for id in missing if _is_chunk_id(id)]
        # Some neighbours are known from cached rows, and some entities from edges that have already been read.
        neighbours = [id for row in index.recent.get(map(index.key, chunks)).values() for id in row.neighbours]
        entities = [id for chunk in chunks for id in self._entities.get(chunk, ())]
        ends = self._fetch_edges(missing, _with_titles([*neighbours, *entities]) - self._read)
        mentioned = _with_titles(id for id in ends if id.startswith(ENTITY)) - self._read
        if chunks and mentioned:
            self._fetch_edges(mentioned)

    def _fetch_edges(self, ids: set[str], others: Collection[str] = ()) -> set[str]:
        """Read all edges of ``ids``, and those of ``others`` if the server can return all; return their unread ends."""
        index, ends = self._index, set[str]()
        for keys in in_parts(sorted(map(index.key, ids.union(others)))):
            condition = f"(source_key in {texts(keys)} or target_key in {texts(keys)})"
            rows = index.read(index.names.edges, index.of_tenant(condition), TRAVERSED_FIELDS, MOST_RESULTS)
            if len(rows) == MOST_RESULTS and others:
                return self._fetch_edges(ids)
            edges = [stored_edge(row) for row in rows]
            self._memory.add(edges)
            self._entities |= {row["source"]: row["entities"] for row in rows if row["entities"]}
            ends.update(id for edge in edges for id in (edge.source, edge.target))
        self._read |= ids.union(others)
        return ends - self._read

    def _read_rows(self, ids: Iterable[str]) -> None:
        missing = [id for id in dict.fromkeys(ids) if id not in self._rows and _is_chunk_id(id)]
        rows = self._index.recent_rows(missing, with_vectors=True) if missing else {}
        self._rows |= {id: rows.get(id) for id in missing}

    def _visible(self, ids: Sequence[str], scope: Scope) -> set[str]:
        self._read_rows(ids)
        return {id for id in ids if (row := self._rows.get(id)) is not None and row.is_in(scope)}

    def _cosines(self, vector: Vector, ids: Sequence[str]) -> dict[str, float]:
        self._read_rows(ids)
        rows = ((id, self._rows.get(id)) for id in ids)
        return {id: float(row.vector @ vector) for id, row in rows if row is not None and row.vector is not None}


def _is_chunk_id(id: str) -> bool:
    return not id.startswith((ENTITY, TITLE))


def _with_titles(ids: Iterable[str]) -> set[str]:
    ids = set(ids)
    return ids | {TITLE + id.removeprefix(ENTITY) for id in ids if id.startswith(ENTITY)}


def _with_ends(nodes: Nodes, view: Graph) -> Nodes:
    nodes = nodes[nodes >= 0]
    return np.unique(np.concatenate([nodes, view.neighbours(nodes).node, view.links(nodes).node]))
