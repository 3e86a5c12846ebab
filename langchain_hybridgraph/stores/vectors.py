"""The vector matrix: one row of float32 per chunk version."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from langchain_hybridgraph.errors import StoreError
from langchain_hybridgraph.stores.signs import Signs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.records import Mask, Vector

# Below this share of allowed rows it is faster to gather them than to scan all and mask
# (63,666 × 384: gathering 10 % takes 0.7 ms, the masked scan 3 ms whatever the share).
GATHER_SHARE = 0.15
# So many rows are gathered at once: they stay in the processor's cache until they are multiplied.
GATHERED = 256
# Up to this size all vectors are compared; beyond, the signs say which (benchmarks/vectors.py, 63,666 × 384: 1.1 ms
# where all take 4.3; of the nearest 10 they miss one in two hundred, Chroma one in thirty in 2.9 ms).
EXACT_BYTES = 40 << 20
# So many vectors are looked at for each that is wanted, and at least so many in all.
RESCORED, LEAST_RESCORED = 10, 1_000


class VectorMatrix:
    """An append-only matrix of unit vectors, in a memory-mapped file or in memory.

    A row that was never written, or was written with zeros, has cosine 0 with everything. Rows are only ever
    appended, so a reader's map stays valid for the rows that it knew. A second file holds a checksum per row.
    """

    def __init__(self, path: Path | None, dimension: int) -> None:
        self.dimension = dimension
        self._path = path
        self._matrix: NDArray[np.float32] = np.zeros((0, dimension), np.float32)
        self._signs = Signs()
        self.remap()

    def __len__(self) -> int:
        """How many rows the file holds, written or not."""
        return len(self._matrix)

    def write(self, start: int, vectors: NDArray[np.float32], *, sync: bool = True) -> None:
        """Put unit vectors (n × dimension) at the rows from ``start`` on; on disk when this returns.

        What a crash left behind beyond the catalogue's last row is overwritten. Who writes many pieces may call
        :meth:`sync` after the last one instead.
        """
        if self._path is None:
            self._write_memory(start, vectors)
            return
        rows = np.asarray(vectors, np.float32)
        try:
            _write(self._path, rows, start * self.dimension * 4, sync=sync)
            _write(checksums(self._path), _sums(rows), start * 4, sync=sync)
        except OSError as error:
            raise StoreError(f"nothing of this batch was written to {self._path}: {error.strerror}") from error
        self.remap()

    def sync(self) -> None:
        """Wait until all that was written is on disk."""
        if self._path is not None:
            for path in (self._path, checksums(self._path)):
                _write(path, np.zeros(0, np.uint32), 0, sync=True)

    def take(self, rows: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float32]:
        """Copies of these rows' vectors, n × dimension."""
        wanted = np.asarray(rows, np.int64)
        if not len(wanted) or wanted.max() < len(self._matrix):
            # "clip" instead of a check for each row takes a quarter less.
            return np.take(self._matrix, wanted, axis=0, mode="clip")
        taken = np.zeros((len(wanted), self.dimension), np.float32)
        there = wanted < len(self._matrix)
        taken[there] = self._matrix[wanted[there]]
        return taken

    def sound(self, rows: Sequence[int] | NDArray[np.int64]) -> Mask:
        """Which of these rows hold what was written there; in memory all do."""
        wanted = np.asarray(rows, np.int64)
        if self._path is None:
            return np.ones(len(wanted), np.bool_)
        file = checksums(self._path)
        written = np.fromfile(file, "<u4") if file.exists() else np.zeros(0, "<u4")
        there: Mask = wanted < min(len(written), len(self._matrix))
        there[there] = _sums(self.take(wanted[there])) == written[wanted[there]]
        return there

    def scores(self, vector: Vector, rows: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float32]:
        """The cosine of a unit vector with each of these rows."""
        wanted = np.asarray(rows, np.int64)
        found = np.empty(len(wanted), np.float32)
        for start in range(0, len(wanted), GATHERED):
            part = slice(start, start + GATHERED)
            found[part] = cosines(self.take(wanted[part]), vector)
        return found

    def near(self, vector: Vector, n: int, allowed: Mask) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """What :meth:`search` gives, but of a large matrix only about the n rows of largest cosine."""
        wanted = max(LEAST_RESCORED, RESCORED * n)
        few = GATHER_SHARE * len(allowed)
        if self._matrix[: len(allowed)].nbytes <= EXACT_BYTES or not wanted < few < np.count_nonzero(allowed):
            return self.search(vector, n, allowed)
        self._signs.take_in(self._matrix[: len(allowed)])
        rows = self._signs.nearest(vector, wanted, allowed)
        # Many alike, or all of a few: then nothing is gained.
        if not n <= len(rows) <= few:
            return self.search(vector, n, allowed)
        return _best(rows, self.scores(vector, rows), n)

    def search(self, vector: Vector, n: int, allowed: Mask) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The n allowed rows of largest cosine and their cosines, best first, ties by row.

        ``allowed`` must not be longer than the matrix.
        """
        count = int(np.count_nonzero(allowed))
        if count == 0 or n <= 0:
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        if count <= GATHER_SHARE * len(allowed):
            rows = np.flatnonzero(allowed)
            return _best(rows, self.scores(vector, rows), n)
        scores = cosines(self._matrix[: len(allowed)], vector)
        if count < len(allowed):
            scores[~allowed] = -np.inf
        return _best(None, scores, min(n, count))

    def close(self) -> None:
        """Let go of the map."""
        self._matrix = np.zeros((0, self.dimension), np.float32)

    def remap(self) -> None:
        """See the rows that were appended, by this process or another."""
        if self._path is None or not self._path.exists():
            return
        rows = self._path.stat().st_size // (self.dimension * 4)
        # Fewer rows: the file was damaged, and touching the map beyond its end would kill the process.
        if rows != len(self._matrix):
            self._matrix = _mapped(self._path, rows, self.dimension)

    def _write_memory(self, start: int, vectors: NDArray[np.float32]) -> None:
        stop = start + len(vectors)
        if stop > len(self._matrix):
            grown: NDArray[Any] = np.zeros((max(stop, 2 * len(self._matrix), 64), self.dimension), np.float32)
            grown[: len(self._matrix)] = self._matrix
            self._matrix = grown
        self._matrix[start:stop] = vectors


def cosines(matrix: NDArray[np.float32], vector: Vector) -> NDArray[np.float32]:
    """The inner products of a matrix's rows with a vector, on this thread alone.

    numpy's ``@`` hands even small products to the threads of its BLAS, which spin for each other: on a busy machine
    63,666 × 384 took 19 ms (p50) where this takes 7, on a quiet one 2 ms where this takes 3.
    """
    products: NDArray[np.float32] = np.vecdot(matrix, vector)
    return products


def unit(vectors: Sequence[Sequence[float]] | Sequence[float] | NDArray[Any]) -> NDArray[np.float32]:
    """The same vectors with length 1, float32; a vector of length 0 stays as it is.

    Raises ValueError for vectors that are not finite.
    """
    with np.errstate(over="ignore"):  # said below
        matrix = np.asarray(vectors, np.float32)
    if not np.isfinite(matrix).all():
        raise ValueError("the embedding gave a vector with NaN or infinite numbers; every number must be finite")
    norms = np.linalg.norm(matrix, axis=-1, keepdims=True)
    units: NDArray[np.float32] = np.divide(matrix, norms, out=np.zeros_like(matrix), where=norms > 0)
    return units


def checksums(path: Path) -> Path:
    """The file beside a matrix that holds the CRC-32 of each row."""
    return path.with_suffix(".crc")


def _sums(rows: NDArray[np.float32]) -> NDArray[np.uint32]:
    return np.array([zlib.crc32(row) for row in rows], "<u4")


def _mapped(path: Path, rows: int, dimension: int) -> NDArray[np.float32]:
    if not rows:
        return np.zeros((0, dimension), np.float32)
    return np.memmap(path, np.float32, mode="r", shape=(rows, dimension)).view(np.ndarray)


def _write(path: Path, values: NDArray[Any], offset: int, *, sync: bool) -> None:
    data = memoryview(values.tobytes())
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        while data:
            written = os.pwrite(file, data, offset)
            data, offset = data[written:], offset + written
        if sync:
            os.fsync(file)
    finally:
        os.close(file)


def _best(
    rows: NDArray[np.int64] | None, scores: NDArray[np.float32], n: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The n largest scores, ties by row: everything that ties with the last one is looked at before the cut."""
    if n < len(scores):
        threshold = scores[np.argpartition(scores, len(scores) - n)[len(scores) - n]]
        places = np.flatnonzero(scores >= threshold)
    else:
        places = np.arange(len(scores))
    order = places[np.argsort(-scores[places], kind="stable")][:n]
    return (order if rows is None else rows[order]), scores[order]
