"""Search for the nearest chunks of other documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

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
_DECIMALS = 6
_SLICE = 4_000


@runtime_checkable
class HasNeighbours(AcceptsChunks, ReadsIndex, HasVectors, Protocol):
    """Store whose chunks, documents and vectors can be read in bulk."""


class ChunkVectors:
    """Vectors of all chunks of a store, in the order of their ids; chunks without a vector are left out.

    The search is exact: a chunk is compared with the chunks of all other documents, by matrix multiplication. Ties are
    broken by id. :meth:`nearest` and :meth:`cosines` always return the same cosine for the same two chunks.
    """

    def __init__(self, store: HasNeighbours) -> None:
        documents = _documents(store)
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
        """Yield (position, [(position of neighbour, cosine), …]) for each of ``places``.

        The neighbours are the ``k`` nearest chunks of other documents, best first, with a cosine of at least
        ``threshold``. Ties are broken by id. Positions are indexes in ``ids``.
        """
        for start, block in self._blocks(places):
            for row, scores in enumerate(block):
                place = places[start + row]
                yield place, self._best(place, scores, k, threshold)

    def reach(self, places: Sequence[int]) -> Scores:
        """Return one value for each chunk: its largest cosine with a chunk at ``places`` that is in another document.

        The value is -1 if there is no such chunk. The cosines are not rounded, so they may differ slightly from
        those in :meth:`nearest`.
        """
        largest = np.full(len(self.ids), -1, np.float32)
        for _, block in self._blocks(places):
            np.maximum(largest, block.max(axis=0), out=largest)
        return largest

    def cosines(self, pairs: Sequence[tuple[int, int]]) -> list[float]:
        """Return the cosine of each pair of chunks, given by their positions, rounded to six decimals."""
        result: list[float] = []
        for start in range(0, len(pairs), _SLICE):
            ones, others = zip(*pairs[start : start + _SLICE], strict=True)
            result += _exact(self._vectors[list(ones)], self._vectors[list(others)])
        return result

    def _blocks(self, places: Sequence[int]) -> Iterator[tuple[int, Scores]]:
        """Yield the cosines of the chunks at ``places`` with all chunks, as (start, block) pairs.

        ``start`` is a position in ``places``. The rows of ``block`` are the chunks from this position; its columns are
        all chunks. The cosine of two chunks of the same document is replaced by -1.
        """
        step = max(1, _BLOCK // max(1, len(self.ids)))
        for start in range(0, len(places), step):
            batch = list(places[start : start + step])
            block = self._vectors[batch] @ self._vectors.T
            for row, place in enumerate(batch):
                block[row, self._same[place]] = -1
            yield start, block

    def _best(self, place: int, scores: Scores, k: int, threshold: float) -> list[tuple[int, float]]:
        near = np.flatnonzero(scores >= threshold - _ROUNDING)
        if len(near) > k:
            limit = np.partition(scores[near], -k)[-k]
            above, tied = near[scores[near] > limit + _ROUNDING], near[np.abs(scores[near] - limit) <= _ROUNDING]
            near = np.concatenate([above, tied[: k + _TIES]])
        exact = zip(near.tolist(), _exact(self._vectors[near], self._vectors[place]), strict=True)
        return sorted(((at, cosine) for at, cosine in exact if cosine >= threshold), key=lambda f: (-f[1], f[0]))[:k]


def _documents(store: HasNeighbours) -> dict[str, str]:
    """Return a mapping from the id of each chunk and parent to the id of its document."""
    ids = list(store.document_ids())
    documents: dict[str, str] = {}
    for start in range(0, len(ids), _SLICE):
        for document, chunks in store.document_chunks(ids[start : start + _SLICE]).items():
            documents.update(dict.fromkeys(chunks, document))
    return documents


def _exact(ones: Scores, others: Scores) -> list[float]:
    cosines = np.vecdot(ones.astype(np.float64), others.astype(np.float64))
    return np.minimum(np.round(cosines, _DECIMALS), 1.0).tolist()  # type: ignore[no-any-return]  # numpy's tolist is Any
