"""Tree of directories and documents, built from uris."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from langchain_hybridgraph.chunks import chunk_uri, context_type_of, directory_of, plain_uri, reference
from langchain_hybridgraph.stores.row_table import UNPACKED, RowNumbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.chunks import Chunk, Mask, Vector

    Nodes = NDArray[np.int64]
    Nearest = Callable[[Vector, Sequence[str], int], Sequence[str]]

# Deepest level of directories; documents in deeper directories belong to the directory at this level.
DEEPEST = 64


class TreeRows(NamedTuple):
    """Functions through which a tree reads the rows of one state of an index.

    ``ids`` returns the id of each row, ``row`` the row of an id or -1, and ``nearest(vector, rows, n)`` these rows,
    at most ``n`` of them, by distance to a unit vector, nearest first.
    """

    ids: Callable[[Iterable[int]], list[str]]
    row: Callable[[str], int]
    nearest: Callable[[Vector, Sequence[int], int], Sequence[int]]


class UriNumbers:
    """Assigns permanent numbers, called places, to the uris of all chunks read and the directories above them."""

    def __init__(self) -> None:
        self.uris: list[str] = []
        self.above: list[int] = []
        self.depth: list[int] = []
        self.below: list[list[int]] = []
        self.chunks: list[list[int]] = []
        self.types: dict[int, str] = {}
        self.of_row: list[int] = []
        self.number: dict[str, int] = {}

    def grow(self, end: int, entries: Iterable[tuple[int, str, str | None]]) -> None:
        """Add the rows up to ``end``. ``entries`` has the row, uri and context type of each chunk that still exists."""
        self.of_row += [-1] * (end - len(self.of_row))
        number, of_row, chunks = self.number, self.of_row, self.chunks
        for row, uri, context_type in entries:
            place = number[uri] if uri in number else self._place(uri)
            of_row[row] = place
            chunks[place].append(row)
            if context_type is not None:
                self.types[row] = context_type

    def compressed(self, is_present: Mask) -> UriNumbers:
        """Return the numbers of the uris of the rows that are present."""
        fresh, rows = UriNumbers(), np.flatnonzero(is_present).tolist()
        places = enumerate(zip(rows, map(self.of_row.__getitem__, rows), strict=True))
        entries = ((row, self.uris[place], self.types.get(old)) for row, (old, place) in places if place >= 0)
        fresh.grow(len(rows), entries)
        return fresh

    def _place(self, uri: str) -> int:
        missing = []
        while uri and uri not in self.number:
            missing.append(uri)
            uri = directory_of(uri)
        above = self.number.get(uri, -1)
        # A document gets a place at any depth, but directories only down to the deepest level.
        for uri in reversed(missing):
            if uri is not missing[0] and above >= 0 and self.depth[above] >= DEEPEST:
                continue
            above = self._add(uri, above)
        return above

    def _add(self, uri: str, above: int) -> int:
        place = len(self.uris)
        self.uris.append(uri)
        self.above.append(above)
        self.depth.append(self.depth[above] + 1 if above >= 0 else 0)
        self.below.append([])
        self.chunks.append([])
        if above >= 0:
            self.below[above].append(place)
        self.number[uri] = place
        return place


class TreeState:
    """Directory tree of one version of an index, by place (see :class:`UriNumbers`), with cached results.

    ``alive`` is a mask of the rows whose chunks still exist. ``depths`` has the places at each depth, the deepest
    first, with the directories that contain them; ``living`` has the number of living rows at and below each place.
    """

    def __init__(self, places: UriNumbers, alive: Mask, numbers: RowNumbers = UNPACKED) -> None:
        self.places, self.alive, self.numbers = places, alive.copy(), numbers
        self.size, self.rows = len(places.uris), int(np.count_nonzero(alive))
        self.of_row = np.array(places.of_row, np.int64)
        depth, above = np.array(places.depth, np.int64), np.array(places.above, np.int64)
        order = np.argsort(depth, kind="stable")
        cuts = np.flatnonzero(np.diff(depth[order])) + 1
        self.depths = [(part, above[part]) for part in reversed(np.split(order, cuts)[1:])]
        self.tops: list[int] = np.flatnonzero(above < 0).tolist()
        self.living = self.counts(self.alive)
        self.below: dict[int, Level] = {}

    @cached_property
    def living_states(self) -> NDArray[np.uint64]:
        """Result of :meth:`states` for all living rows."""
        return self.states(self.alive)

    def counts(self, allowed_rows: Mask) -> Nodes:
        """Return, for each place, the number of allowed rows at and below it."""
        node_of_row = self.of_row[allowed_rows[: len(self.of_row)]]
        count = np.bincount(node_of_row[node_of_row >= 0], minlength=self.size)
        for places, above in self.depths:
            count += np.bincount(above, weights=count[places], minlength=self.size).astype(np.int64)
        return count

    def states(self, allowed_rows: Mask) -> NDArray[np.uint64]:
        """Return, for each place, the sum of the hashes of the allowed rows at and below it."""
        rows = np.flatnonzero(allowed_rows[: len(self.of_row)] & (self.of_row >= 0))
        sums = np.zeros(self.size, np.uint64)
        np.add.at(sums, self.of_row[rows], _hash(self.numbers.of(rows)))
        for places, above in self.depths:
            np.add.at(sums, above, sums[places])
        return sums


def tree_of_chunks(chunks: Mapping[int, Chunk], size: int, nearest: Nearest) -> tuple[TreeState, TreeRows]:
    """Return the tree of chunks in memory.

    ``chunks`` are the living chunks by row, and ``nearest`` is a function that takes a vector, ids and n, and returns
    at least the n nearest of the ids, nearest first.
    """
    places, living_rows = UriNumbers(), np.zeros(size, np.bool_)
    entries = [
        (row, chunk_uri(chunk.id, chunk.document, chunk.metadata), context_type_of(chunk.metadata))
        for row, chunk in sorted(chunks.items())
    ]
    places.grow(size, entries)
    living_rows[list(chunks)] = True
    row_of = {chunk.id: row for row, chunk in chunks.items()}
    tree_rows = TreeRows(
        lambda rows: [chunks[row].id for row in rows],
        lambda id: row_of.get(id, -1),
        lambda vector, rows, n: [row_of[id] for id in nearest(vector, [chunks[row].id for row in rows], n)],
    )
    return TreeState(places, living_rows), tree_rows


class Level(NamedTuple):
    """Children of one directory, sorted by uri.

    The masks are the results of the :class:`Tree` methods with the same names. ``chunks`` are the ids of each child's
    chunks in turn, and ``owners`` the positions of their children in ``nodes``.
    """

    nodes: Nodes
    uris: Sequence[str]
    chunks: Sequence[str]
    owners: Nodes
    is_directory: Mask
    is_document: Mask
    is_fully_visible: Mask


class Tree:
    """Snapshot of the directories and documents that one call may see: those with a chunk in scope at or below them.

    A node is a number for a directory, a document or both.
    """

    def __init__(self, tree_state: TreeState, rows: TreeRows, allowed_rows: Mask) -> None:
        self._tree_state, self._tree_rows, self._allowed_rows = tree_state, rows, allowed_rows
        self._end = len(tree_state.of_row)
        self._places = tree_state.places
        self._is_all = np.count_nonzero(allowed_rows) == tree_state.rows
        self._count: NDArray[np.int64] = tree_state.living if self._is_all else tree_state.counts(allowed_rows)
        self._below: dict[int, Level] = tree_state.below if self._is_all else {}

    def __len__(self) -> int:
        return int(np.count_nonzero(self._count))

    def node(self, uri: str) -> int:
        """Return the node of a uri, or -1 if the uri is unknown or the call may see no chunk at or below it."""
        numbers = self._places.number  # look the uri up as it is first, because most uris are already normalised
        node = numbers[uri] if uri in numbers else numbers.get(plain_uri(reference(uri)), -1)
        return node if self._is_visible(node) else -1

    def uri(self, node: int) -> str:
        """Return the uri of a node."""
        return self._places.uris[node]

    def parent(self, node: int) -> int:
        """Return the directory that contains a node, or -1 for a node at the top of the tree."""
        return self._places.above[node]

    def top(self) -> list[int]:
        """Return the nodes that are not in any directory, sorted by uri."""
        return self._sorted(self._tree_state.tops)

    def children(self, node: int) -> list[int]:
        """Return the children of a directory, sorted by uri."""
        return self._sorted(self._places.below[node])

    def level(self, nodes: Iterable[int]) -> Level:
        """Return these nodes with their chunks, sorted by uri."""
        ordered = self._sorted(nodes)
        rows = list(map(self._rows_at, ordered))
        counts = np.array(list(map(len, rows)), np.int64)
        each = np.array(ordered, np.int64)
        return Level(
            nodes=each,
            uris=list(map(self.uri, ordered)),
            chunks=self._tree_rows.ids(chain.from_iterable(rows)),
            owners=np.repeat(np.arange(len(ordered)), counts),
            is_directory=np.array(list(map(self.is_directory, ordered)), np.bool_),
            is_document=counts > 0,
            is_fully_visible=self._count[each] == self._tree_state.living[each],
        )

    def child_level(self, node: int) -> Level:
        """Return the children of a directory, or the top of the tree for -1."""
        level = self._below.get(node)
        if level is None:
            level = self._below[node] = self.level(self._places.below[node] if node >= 0 else self._tree_state.tops)
        return level

    def is_directory(self, node: int) -> bool:
        """Return whether the node has children."""
        return any(map(self._is_visible, self._places.below[node]))

    def is_fully_visible(self, node: int) -> bool:
        """Return whether the call may see all chunks at and below the node."""
        return bool(self._count[node] == self._tree_state.living[node])

    def chunks(self, node: int) -> list[str]:
        """Return the ids of a document's chunks in the order of their last change; [] for a directory alone."""
        return self._tree_rows.ids(self._rows_at(node))

    def state(self, node: int) -> str:
        """Return a string that changes whenever a visible chunk at or below the node is added, deleted or changed.

        It is a sum of 64-bit hashes of row numbers, which never change (Clarke et al. 2003, "AdHash").
        """
        return f"{int(self._states[node]):016x}"

    @cached_property
    def _states(self) -> NDArray[np.uint64]:
        return self._tree_state.living_states if self._is_all else self._tree_state.states(self._allowed_rows)

    def context_type(self, node: int) -> str | None:
        """Return the context type in the metadata of the document's last chunk that has one, or None."""
        types = self._places.types
        return next((types[row] for row in reversed(self._rows_at(node)) if row in types), None) if types else None

    def types(self) -> set[str]:
        """Return all context types in the metadata read so far, including those of deleted documents."""
        return set(self._places.types.values())

    def nodes(self, ids: Sequence[str]) -> list[int]:
        """Return the node of each chunk, or -1 for a chunk that the call may not see."""
        nodes = []
        for id in ids:
            row = self._tree_rows.row(id)
            is_visible = 0 <= row < len(self._tree_state.of_row) and self._allowed_rows[row]
            nodes.append(int(self._tree_state.of_row[row]) if is_visible else -1)
        return nodes

    def nearest(self, nodes: Sequence[int], vector: Vector, n: int) -> list[int]:
        """Return up to ``n`` of these nodes by the distance of their own chunks, else the first ``n``."""
        rows = list(chain.from_iterable(map(self._rows_at, nodes)))
        if not rows:
            return list(nodes[:n])
        best = np.array(self._tree_rows.nearest(vector, rows, n), np.int64)
        return list(dict.fromkeys(self._tree_state.of_row[best].tolist()))[:n]

    def _rows_at(self, node: int) -> list[int]:
        end, allowed_rows = self._end, self._allowed_rows
        return [row for row in self._places.chunks[node] if row < end and allowed_rows[row]]

    def _is_visible(self, node: int) -> bool:
        return 0 <= node < self._tree_state.size and self._count[node] > 0

    def _sorted(self, nodes: Iterable[int]) -> list[int]:
        return sorted(filter(self._is_visible, nodes), key=self._places.uris.__getitem__)


def _hash(rows: Nodes) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each number (splitmix64, Steele et al. 2014)."""
    x = rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
