"""Binary codes of vectors, one bit per dimension."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.chunks import Mask, Vector

    Words = NDArray[np.uint64]

# Number of rows in the samples from which the mean of all vectors and, for a search, the largest number of differing
# bits among the nearest rows are estimated.
SAMPLE = 4_096
# Number of rows added at once; a batch of this size fits in the processor's cache.
BATCH = 8_192


class BinaryQuantizer:
    """Binary codes of vectors, with one bit per dimension.

    A bit is set if the vector's value in this dimension is above the mean value in a sample of the vectors. The number
    of bits in which two codes differ grows approximately with the distance between the vectors. The rows with the
    fewest differing bits include most of the nearest neighbours; the caller then ranks these rows by the similarity of
    their full vectors. The codes of 63,666 vectors of 384 dimensions take 3 MB; the vectors take 98 MB.

    Binary quantization with rescoring: Charikar, Similarity Estimation Techniques from Rounding Algorithms, STOC 2002;
    Yamada, Asai and Hajishirzi, Efficient Passage Retrieval with Hashing for Open-domain Question Answering, ACL 2021.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._middle: Vector | None = None
        # The same 64 dimensions of all rows are contiguous in memory, which makes comparing all rows with a query fast.
        self._words: Words = np.zeros((0, 0), np.uint64)
        self._rows = 0

    def add_rows(self, matrix: NDArray[np.float32]) -> None:
        """Add the codes of the rows of ``matrix`` that have not been added yet."""
        with self._lock:
            if self._rows >= len(matrix):
                return
            if self._middle is None:
                self._middle = matrix[np.linspace(0, len(matrix) - 1, SAMPLE).astype(np.int64)].mean(axis=0)
            self._make_room(len(matrix), matrix.shape[1])
            for start in range(self._rows, len(matrix), BATCH):
                stop = min(start + BATCH, len(matrix))
                self._words[:, start:stop] = _signs(matrix[start:stop] - self._middle).T
            self._rows = len(matrix)

    def nearest(self, vector: Vector, n: int, allowed_rows: Mask) -> NDArray[np.int64]:
        """Return about ``n`` allowed rows whose codes differ least from the vector's code, in order of row number.

        These are all allowed rows whose codes differ in no more than a certain number of bits. That limit is chosen to
        include about ``n`` rows, so there may be more or fewer. ``allowed_rows`` is a mask that starts at row 0; every
        row that it covers must have been added.
        """
        assert self._middle is not None, "rows are added before they are searched"
        differing = _differing(self._words[:, : len(allowed_rows)], _signs((vector - self._middle)[None])[0])
        farthest = 64 * len(self._words)
        differing[~allowed_rows] = farthest + 1
        step = max(1, len(allowed_rows) // SAMPLE)
        upto = np.cumsum(np.bincount(differing[::step], minlength=farthest + 2))
        least = int(np.searchsorted(upto[: farthest + 1], n / step))
        return np.flatnonzero(differing <= min(least, farthest))

    def _make_room(self, rows: int, dimension: int) -> None:
        if rows > self._words.shape[1]:
            # A search in progress keeps using the old array.
            enlarged_codes = np.zeros((-(-dimension // 64), rows + rows // 4), np.uint64)
            if self._rows:
                enlarged_codes[:, : self._rows] = self._words[:, : self._rows]
            self._words = enlarged_codes


def _signs(vectors: NDArray[np.float32]) -> Words:
    """Return one bit for each number: 1 if the number is above 0, otherwise 0.

    The bits of each vector are packed into 64-bit words and padded with zeros. The result has one row per vector and
    one column per word.
    """
    bits = np.packbits(vectors > 0, axis=1)
    words = np.zeros((len(bits), -(-bits.shape[1] // 8) * 8), np.uint8)
    words[:, : bits.shape[1]] = bits
    return words.view(np.uint64)


def _differing(words: Words, bits: Words) -> NDArray[np.uint16]:
    """Return the number of bits in which each column of ``words`` differs from ``bits``.

    A column contains the code of one row.
    """
    counts = np.zeros(words.shape[1], np.uint16)
    for row, word in zip(words, bits, strict=True):
        counts += np.bitwise_count(row ^ word)
    return counts
