"""Edges between similar chunks of different documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from itertools import islice
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from langchain_hybridgraph.errors import ConfigurationError, check_number, check_whole_number
from langchain_hybridgraph.ingestion.edges.base import EdgeBuilder, EdgeSet, slices
from langchain_hybridgraph.ingestion.splitting import CutDocument
from langchain_hybridgraph.records import SIMILAR_TO, Edge
from langchain_hybridgraph.stores.protocols import AcceptsChunks, HasVectors, ReadsIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Scores = NDArray[np.float32]

# Maximum number of values (64 MB) in one product of matrices.
_BLOCK = 1 << 24
# Largest error of a cosine caused by single precision and the order of additions.
_ROUNDING = 1e-5
# Number of additional candidates beyond k among chunks with equal cosines, which are ordered by id.
_TIES = 64
# Number of earlier chunks whose edge weights are compared with the current cosines.
_SAMPLE = 256
# Smallest difference that is treated as a change of a cosine.
_CHANGED = 1e-4
_DESCRIPTION = "Their texts are alike, with a cosine of {:.2f}."


@runtime_checkable
class HasNeighbours(AcceptsChunks, ReadsIndex, HasVectors, Protocol):
    """Store whose chunks, documents and vectors can be read in bulk."""


def with_vectors(store: AcceptsChunks, builder: str) -> HasNeighbours:
    """Return the store, or raise ConfigurationError if it cannot return its vectors."""
    if isinstance(store, HasNeighbours):
        return store
    raise ConfigurationError(
        f"{builder} needs a store that returns its vectors, which {type(store).__name__} does not; "
        "leave it out, or ingest into a HybridGraphStore(path, embedding=…)"
    )


class SimilarityEdges(EdgeBuilder):
    """Edges from each chunk to the ``k`` nearest chunks of other documents, by the store's vectors.

    Only chunks with a cosine of at least ``threshold`` are connected; the cosine is the weight of the edge. The search
    is exact, and ties are broken by id. Adding documents one by one gives the same edges as adding them together. If
    the vectors of older chunks have changed, for example because a model was fitted again, all chunks get new edges.
    After a chunk is deleted, its neighbours may have fewer than ``k`` edges until they are ingested again.

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
        check_whole_number("k", k, 1)
        check_number("threshold", threshold, gt=0, le=1)
        self._k = k
        self._threshold = threshold

    def start(self, store: AcceptsChunks) -> None:
        """Clear the chunks recorded during the previous ingest."""
        self._store = with_vectors(store, "SimilarityEdges")
        self._ingested: dict[str, None] = {}

    def see(self, document: CutDocument) -> tuple[EdgeSet, ...]:
        """Record the chunks. No edges are returned yet, because their nearest chunks may be ingested later."""
        self._ingested.update(dict.fromkeys(chunk.id for chunk in document.chunks))
        return ()

    def finish(self) -> Iterator[EdgeSet]:
        """Yield the edges of the ingested chunks, and of older chunks whose nearest chunks may have changed."""
        if not (ids := list(self._ingested)):
            return
        neighbours = ChunkVectors(self._store)
        places = {neighbours.place[id] for id in ids if id in neighbours.place}
        affected = self._affected(neighbours, places)
        yield EdgeSet((), [id for id in ids if id not in neighbours.place])
        nearest = neighbours.nearest(sorted(affected), self._k, self._threshold)
        while batch := list(islice(nearest, 1_000)):
            edges = [
                Edge(neighbours.ids[place], neighbours.ids[other], SIMILAR_TO, cosine, _DESCRIPTION.format(cosine))
                for place, others in batch
                for other, cosine in others
            ]
            yield EdgeSet(edges, [neighbours.ids[place] for place, _ in batch])

    def _affected(self, neighbours: ChunkVectors, places: set[int]) -> set[int]:
        """Return ``places`` and the positions of chunks whose nearest chunks may be, or were, at ``places``."""
        if self._vectors_changed(neighbours, places):
            return set(range(len(neighbours.ids)))
        near = neighbours.near(sorted(places), self._threshold) if len(places) < len(neighbours.ids) else set()
        incoming = self.incoming(self._store, [neighbours.ids[place] for place in sorted(places)])
        return places | near | {neighbours.place[edge.source] for edge in incoming if edge.source in neighbours.place}

    def _vectors_changed(self, neighbours: ChunkVectors, places: Set[int]) -> bool:
        """Return whether the vectors of older chunks have changed since their edges were written, by a sample."""
        older = [id for place, id in enumerate(neighbours.ids) if place not in places]
        sample, place = self._store.edges(older[:: max(1, len(older) // _SAMPLE)]), neighbours.place
        similar = (edge for edge in sample if edge.relation == SIMILAR_TO and edge.target in place)
        edges = [edge for edge in similar if place[edge.target] not in places]
        cosines = neighbours.cosines([(place[edge.source], place[edge.target]) for edge in edges])
        return any(abs(edge.weight - cosine) > _CHANGED for edge, cosine in zip(edges, cosines, strict=True))


class ChunkVectors:
    """Vectors of all chunks of a store, in the order of their ids; chunks without a vector are left out.

    :meth:`nearest` and :meth:`cosines` always return the same cosine for the same two chunks.
    """

    def __init__(self, store: HasNeighbours) -> None:
        documents: dict[str, str] = {}
        for batch in slices(list(store.document_ids())):
            for document, chunks in store.document_chunks(batch).items():
                documents.update(dict.fromkeys(chunks, document))
        ids = sorted(documents)
        vectors = store.vectors(ids)
        with_vector = np.flatnonzero(vectors.any(axis=1))
        self.ids = [ids[place] for place in with_vector.tolist()]
        self.place = {id: place for place, id in enumerate(self.ids)}
        self._vectors = vectors if len(with_vector) == len(ids) else vectors[with_vector]
        places: dict[str, list[int]] = {}
        for place, id in enumerate(self.ids):
            places.setdefault(documents[id], []).append(place)
        self._same = {place: np.array(group) for group in places.values() for place in group}

    def nearest(self, places: Sequence[int], k: int, threshold: float) -> Iterator[tuple[int, list[tuple[int, float]]]]:
        """Yield (position in ``ids``, [(position of neighbour, cosine), …]) for each of ``places``.

        The neighbours are in other documents, with a cosine of at least ``threshold``, best first and then by id.
        """
        for start, block in self._blocks(places):
            for row, scores in enumerate(block):
                place = places[start + row]
                near = np.flatnonzero(scores >= threshold - _ROUNDING)
                if len(near) > k:
                    limit = np.partition(scores[near], -k)[-k]
                    above = near[scores[near] > limit + _ROUNDING]
                    tied = near[np.abs(scores[near] - limit) <= _ROUNDING]
                    near = np.concatenate([above, tied[: k + _TIES]])
                cosines = zip(near.tolist(), _exact(self._vectors[near], self._vectors[place]), strict=True)
                best = sorted(pair for pair in cosines if pair[1] >= threshold)
                yield place, sorted(best, key=lambda pair: -pair[1])[:k]

    def near(self, places: Sequence[int], threshold: float) -> set[int]:
        """Return the positions of chunks with at least this cosine to a chunk at ``places`` in another document."""
        near: set[int] = set()
        for _, block in self._blocks(places):
            near.update(np.flatnonzero(block.max(axis=0) >= threshold - _ROUNDING).tolist())
        return near

    def cosines(self, pairs: Sequence[tuple[int, int]]) -> list[float]:
        """Return the cosine of each pair of chunks, given by their positions, rounded to six decimals."""
        ones, others = [one for one, _ in pairs], [other for _, other in pairs]
        return _exact(self._vectors[ones], self._vectors[others])

    def _blocks(self, places: Sequence[int]) -> Iterator[tuple[int, Scores]]:
        """Yield (start in ``places``, cosines of the next chunks with all chunks; -1 within a document)."""
        step = max(1, _BLOCK // max(1, len(self.ids)))
        for start in range(0, len(places), step):
            batch = list(places[start : start + step])
            block = self._vectors[batch] @ self._vectors.T
            for row, place in enumerate(batch):
                block[row, self._same[place]] = -1
            yield start, block


def _exact(ones: Scores, others: Scores) -> list[float]:
    cosines = np.vecdot(ones.astype(np.float64), others.astype(np.float64))
    return np.minimum(np.round(cosines, 6), 1.0).tolist()  # type: ignore[no-any-return]  # numpy's tolist is Any
