"""Joins texts of different documents that are alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.ingestion.chunking import CutDocument
from langchain_hybridgraph.ingestion.edges.base import EdgeSet
from langchain_hybridgraph.ingestion.edges.nearest import HasNeighbours, Neighbours
from langchain_hybridgraph.records import SIMILAR_TO, Edge
from langchain_hybridgraph.stores.protocols import AcceptsChunks

_SLICE = 2_000
# Of so many chunks that were not handed in the edges' weights are compared with the cosines of today.
_SAMPLE = 256
_CHANGED = 1e-4


class SimilarityEdges:
    """Edges from each chunk to the ``k`` nearest chunks of other documents, by the store's vectors.

    Only cosines from ``threshold`` on count; they are the weights. Exact; ties go by id. New chunks get their edges,
    and so do older chunks for which a new one is nearer than their neighbours so far, or was until it changed: adding
    documents one by one gives the same edges as adding them together. If the vectors of older chunks have changed, as
    after fitting a model again, all chunks get new edges. A deleted neighbour is replaced when one of the two chunks is
    ingested again.

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
        self._seen: dict[str, None] = {}

    def start(self, store: AcceptsChunks) -> None:
        """Forget the chunks of the last ingest."""
        if not isinstance(store, HasNeighbours):
            raise ConfigurationError(
                f"SimilarityEdges needs a store that gives its vectors, which {type(store).__name__} does not; "
                "leave it out, or ingest into a HybridGraphStore(path, embedding=…)"
            )
        self._store, self._seen = store, {}

    def see(self, document: CutDocument) -> tuple[EdgeSet, ...]:
        """Remember the chunks; their neighbours may come later."""
        self._seen.update(dict.fromkeys(chunk.id for chunk in document.chunks))
        return ()

    def finish(self) -> Iterator[EdgeSet]:
        """The edges of the chunks that were handed in, and of those for whom something has changed."""
        store, seen = self._store, list(self._seen)
        self._store, self._seen = None, {}
        if store is None or not seen:
            return
        around = Neighbours(store)
        places = sorted(around.place[id] for id in seen if id in around.place)
        moved = range(len(around.ids)) if self._refitted(store, around, places) else self._moved(store, around, places)
        replaced, edges = [id for id in seen if id not in around.place], list[Edge]()
        for place, found in around.nearest(sorted({*places, *moved}), self._k, self._threshold):
            replaced.append(around.ids[place])
            edges += [_edge(around.ids[place], around.ids[other], cosine) for other, cosine in found]
            if len(replaced) >= _SLICE:
                yield EdgeSet(edges, replaced)
                replaced, edges = [], []
        if replaced:
            yield EdgeSet(edges, replaced)

    def _moved(self, store: HasNeighbours, around: Neighbours, places: Sequence[int]) -> set[int]:
        """The other chunks whose nearest may have become others because of the chunks at these places."""
        given = set(places)
        reach = around.reach(places) if len(given) < len(around.ids) else np.zeros(0, np.float32)
        near = [place for place in np.flatnonzero(reach >= self._threshold - _CHANGED).tolist() if place not in given]
        bars: dict[int, list[float]] = {place: [] for place in near}
        for edge in self._edges(store, [around.ids[place] for place in near]):
            bars[around.place[edge.source]].append(edge.weight)
        moved = {at for at, bar in bars.items() if len(bar) < self._k or reach[at] >= min(bar) - _CHANGED}
        arriving = self._edges(store, [around.ids[place] for place in places], backwards=True)
        return moved | set(_changed([edge for edge in arriving if around.place.get(edge.source) not in given], around))

    def _refitted(self, store: HasNeighbours, around: Neighbours, places: Sequence[int]) -> bool:
        """Whether chunks that were not handed in have other vectors than when their edges were made."""
        given = set(places)
        others = [id for place, id in enumerate(around.ids) if place not in given]
        sample = others[:: max(1, len(others) // _SAMPLE)]
        found = [edge for edge in self._edges(store, sample) if around.place.get(edge.target) not in given]
        return bool(_changed(found, around))

    def _edges(self, store: HasNeighbours, ids: Sequence[str], *, backwards: bool = False) -> Iterator[Edge]:
        for start in range(0, len(ids), _SLICE):
            for edge in store.edges(ids[start : start + _SLICE], backwards=backwards):
                if edge.relation == SIMILAR_TO:
                    yield edge


def _changed(edges: Sequence[Edge], around: Neighbours) -> list[int]:
    """The sources of the edges whose weight is no more the cosine."""
    known = [edge for edge in edges if edge.source in around.place and edge.target in around.place]
    cosines = around.cosines([(around.place[edge.source], around.place[edge.target]) for edge in known])
    pairs = zip(known, cosines, strict=True)
    return [around.place[edge.source] for edge, cosine in pairs if abs(edge.weight - cosine) > _CHANGED]


def _edge(source: str, target: str, cosine: float) -> Edge:
    return Edge(source, target, SIMILAR_TO, cosine, f"Their texts are alike, with a cosine of {cosine:.2f}.")
