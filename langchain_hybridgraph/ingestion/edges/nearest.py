"""Finds the nearest chunks of other documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from langchain_hybridgraph.stores.protocols import AcceptsChunks, HasVectors, ReadsIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Scores = NDArray[np.float32]

# A product of so many numbers (64 MB) is looked at in one piece.
_BLOCK = 1 << 24
# What single precision and the order of a product's additions may change in a cosine.
_ROUNDING = 1e-5
# Of texts that are equally near so many beyond k are looked at; they are the first by id.
_TIES = 64
_DECIMALS = 6
_SLICE = 4_000


@runtime_checkable
class HasNeighbours(AcceptsChunks, ReadsIndex, HasVectors, Protocol):
    """A store whose chunks, documents and vectors can be read in bulk."""


class Neighbours:
    """The vectors of all chunks of a store, in the order of their ids; chunks without one are left out.

    Exact: every chunk is compared with every other, by products of matrices. Ties go by id, and a cosine is the
    same number whichever other chunks it is computed with.
    """

    def __init__(self, store: HasNeighbours) -> None:
        documents = _documents(store)
        ids = sorted(documents)
        vectors = store.vectors(ids)
        there = np.flatnonzero(vectors.any(axis=1))
        self.ids = [ids[place] for place in there.tolist()]
        self.place = {id: place for place, id in enumerate(self.ids)}
        self._vectors = vectors if len(there) == len(ids) else vectors[there]
        places: dict[str, list[int]] = {}
        for place, id in enumerate(self.ids):
            places.setdefault(documents[id], []).append(place)
        self._same = {place: np.array(found) for found in places.values() for place in found}

    def nearest(self, places: Sequence[int], k: int, threshold: float) -> Iterator[tuple[int, list[tuple[int, float]]]]:
        """For each place its k nearest of other documents, of cosines from ``threshold`` on, best first, ties by id."""
        for start, block in self._blocks(places):
            for row, scores in enumerate(block):
                place = places[start + row]
                yield place, self._best(place, scores, k, threshold)

    def reach(self, places: Sequence[int]) -> Scores:
        """For each chunk its largest cosine with one of these places of another document, about."""
        largest = np.full(len(self.ids), -1, np.float32)
        for _, block in self._blocks(places):
            np.maximum(largest, block.max(axis=0), out=largest)
        return largest

    def cosines(self, pairs: Sequence[tuple[int, int]]) -> list[float]:
        """The cosine of each pair of places, to six decimals."""
        found: list[float] = []
        for start in range(0, len(pairs), _SLICE):
            ones, others = zip(*pairs[start : start + _SLICE], strict=True)
            found += _exact(self._vectors[list(ones)], self._vectors[list(others)])
        return found

    def _blocks(self, places: Sequence[int]) -> Iterator[tuple[int, Scores]]:
        """The cosines of these places with all, some rows at a time; -1 within a document."""
        step = max(1, _BLOCK // max(1, len(self.ids)))
        for start in range(0, len(places), step):
            some = list(places[start : start + step])
            block = self._vectors[some] @ self._vectors.T
            for row, place in enumerate(some):
                block[row, self._same[place]] = -1
            yield start, block

    def _best(self, place: int, scores: Scores, k: int, threshold: float) -> list[tuple[int, float]]:
        near = np.flatnonzero(scores >= threshold - _ROUNDING)
        if len(near) > k:
            bar = np.partition(scores[near], -k)[-k]
            sure, level = near[scores[near] > bar + _ROUNDING], near[np.abs(scores[near] - bar) <= _ROUNDING]
            near = np.concatenate([sure, level[: k + _TIES]])
        exact = zip(near.tolist(), _exact(self._vectors[near], self._vectors[place]), strict=True)
        return sorted(((at, cosine) for at, cosine in exact if cosine >= threshold), key=lambda f: (-f[1], f[0]))[:k]


def _documents(store: HasNeighbours) -> dict[str, str]:
    """The document of every chunk and parent."""
    ids = list(store.document_ids())
    found: dict[str, str] = {}
    for start in range(0, len(ids), _SLICE):
        for document, chunks in store.document_chunks(ids[start : start + _SLICE]).items():
            found.update(dict.fromkeys(chunks, document))
    return found


def _exact(ones: Scores, others: Scores) -> list[float]:
    cosines = np.vecdot(ones.astype(np.float64), others.astype(np.float64))
    return np.minimum(np.round(cosines, _DECIMALS), 1.0).tolist()  # type: ignore[no-any-return]  # numpy's tolist is Any
