"""Edges between similar chunks of different documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.ingestion.chunking import CutDocument
from langchain_hybridgraph.ingestion.edges.base import EdgeSet
from langchain_hybridgraph.ingestion.edges.nearest import ChunkVectors, HasNeighbours
from langchain_hybridgraph.records import SIMILAR_TO, Edge
from langchain_hybridgraph.stores.protocols import AcceptsChunks

_SLICE = 2_000
# Number of earlier chunks whose edge weights are compared with the current cosines.
_SAMPLE = 256
# Smallest difference that is treated as a change of a cosine.
_CHANGED = 1e-4


class SimilarityEdges:
    """Edges from each chunk to the ``k`` nearest chunks of other documents, by the store's vectors.

    Only chunks with a cosine of at least ``threshold`` are connected; the cosine is the weight of the edge. The search
    is exact, and ties are broken by id. An ingest also updates the edges of an older chunk if a new or changed chunk
    is, or was, among its nearest chunks. Adding documents one by one therefore gives the same edges as adding them
    together. If the vectors of older chunks have changed, for example because a model was fitted again, all chunks get
    new edges. After a chunk is deleted, its neighbours may have fewer than ``k`` edges until they are ingested again.

    Raises ConfigurationError for ``k`` below 1, a threshold outside (0, 1], and a store without vectors.

    >>> from langchain_core.embeddings import DeterministicFakeEmbedding
    >>> from langchain_hybridgraph import Chunk, HybridGraphStore, ingest
    >>> store = HybridGraphStore(None, DeterministicFakeEmbedding(size=8))
    >>> chunks = [Chunk(id, text, {}, id) for id, text in {"a": "Cats purr.", "b": "Cats purr.", "c": "Rust."}.items()]
    >>> _ = ingest(chunks, store, split=None, edges=[SimilarityEdges(threshold=0.95)])
    >>> [(edge.source, edge.target, edge.weight) for edge in store.edges(["a", "b", "c"])]
    [('a', 'b', 1.0), ('b', 'a', 1.0)]
    """

    relations = (SIMILAR_TO,)

    def __init__(self, k: int = 5, threshold: float = 0.7) -> None:
        if k < 1 or not 0 < threshold <= 1:
            raise ConfigurationError(
                f"SimilarityEdges(k={k!r}, threshold={threshold!r}): k must be at least 1 and the threshold in (0, 1]"
            )
        self._k = k
        self._threshold = threshold
        self._store: HasNeighbours | None = None
        self._ingested: dict[str, None] = {}

    def start(self, store: AcceptsChunks) -> None:
        """Clear the chunks recorded during the previous ingest."""
        if not isinstance(store, HasNeighbours):
            raise ConfigurationError(
                f"SimilarityEdges needs a store that returns its vectors, which {type(store).__name__} does not; "
                "leave it out, or ingest into a HybridGraphStore(path, embedding=…)"
            )
        self._store, self._ingested = store, {}

    def see(self, document: CutDocument) -> tuple[EdgeSet, ...]:
        """Record the chunks. No edges are returned yet, because their nearest chunks may be ingested later."""
        self._ingested.update(dict.fromkeys(chunk.id for chunk in document.chunks))
        return ()

    def finish(self) -> Iterator[EdgeSet]:
        """Yield the edges of the ingested chunks, and of older chunks whose nearest chunks may have changed."""
        store, ids = self._store, list(self._ingested)
        self._store, self._ingested = None, {}
        if store is None or not ids:
            return
        neighbours = ChunkVectors(store)
        places = sorted(neighbours.place[id] for id in ids if id in neighbours.place)
        affected = (
            range(len(neighbours.ids))
            if self._vectors_changed(store, neighbours, places)
            else self._affected(store, neighbours, places)
        )
        replaced, edges = [id for id in ids if id not in neighbours.place], list[Edge]()
        for place, nearest in neighbours.nearest(sorted({*places, *affected}), self._k, self._threshold):
            replaced.append(neighbours.ids[place])
            edges += [_edge(neighbours.ids[place], neighbours.ids[other], cosine) for other, cosine in nearest]
            if len(replaced) >= _SLICE:
                yield EdgeSet(edges, replaced)
                replaced, edges = [], []
        if replaced:
            yield EdgeSet(edges, replaced)

    def _affected(self, store: HasNeighbours, neighbours: ChunkVectors, places: Sequence[int]) -> set[int]:
        """Return the positions of older chunks whose nearest chunks may have changed. ``places`` are the positions of
        the ingested chunks.
        """
        ingested = set(places)
        reach = neighbours.reach(places) if len(ingested) < len(neighbours.ids) else np.zeros(0, np.float32)
        near = [
            place for place in np.flatnonzero(reach >= self._threshold - _CHANGED).tolist() if place not in ingested
        ]
        bars: dict[int, list[float]] = {place: [] for place in near}
        for edge in self._edges(store, [neighbours.ids[place] for place in near]):
            bars[neighbours.place[edge.source]].append(edge.weight)
        affected = {at for at, bar in bars.items() if len(bar) < self._k or reach[at] >= min(bar) - _CHANGED}
        incoming = self._edges(store, [neighbours.ids[place] for place in places], backwards=True)
        return affected | set(
            _changed_places(
                [edge for edge in incoming if neighbours.place.get(edge.source) not in ingested], neighbours
            )
        )

    def _vectors_changed(self, store: HasNeighbours, neighbours: ChunkVectors, places: Sequence[int]) -> bool:
        """Return whether the vectors of older chunks have changed since their edges were written. A sample of these
        chunks is checked.
        """
        ingested = set(places)
        others = [id for place, id in enumerate(neighbours.ids) if place not in ingested]
        sample = others[:: max(1, len(others) // _SAMPLE)]
        edges = [edge for edge in self._edges(store, sample) if neighbours.place.get(edge.target) not in ingested]
        return bool(_changed_places(edges, neighbours))

    def _edges(self, store: HasNeighbours, ids: Sequence[str], *, backwards: bool = False) -> Iterator[Edge]:
        for start in range(0, len(ids), _SLICE):
            for edge in store.edges(ids[start : start + _SLICE], backwards=backwards):
                if edge.relation == SIMILAR_TO:
                    yield edge


def _changed_places(edges: Sequence[Edge], neighbours: ChunkVectors) -> list[int]:
    """Return the positions of the chunks that have an edge whose weight differs from the current cosine."""
    comparable = [edge for edge in edges if edge.source in neighbours.place and edge.target in neighbours.place]
    cosines = neighbours.cosines(
        [(neighbours.place[edge.source], neighbours.place[edge.target]) for edge in comparable]
    )
    pairs = zip(comparable, cosines, strict=True)
    return [neighbours.place[edge.source] for edge, cosine in pairs if abs(edge.weight - cosine) > _CHANGED]


def _edge(source: str, target: str, cosine: float) -> Edge:
    return Edge(source, target, SIMILAR_TO, cosine, f"Their texts are alike, with a cosine of {cosine:.2f}.")
