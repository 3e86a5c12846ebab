"""Matrix of all vectors of an index."""

from __future__ import annotations

import math
import os
import threading
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from langchain_hybridgraph.errors import StoreError

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
    """Binary codes of vectors, with one bit per dimension: whether the value is above the mean of a sample.

    The rows with the fewest differing bits include most nearest neighbours, which the caller ranks by full vectors. The
    codes of 63,666 vectors of 384 dimensions take 3 MB instead of 98.

    Charikar, Similarity Estimation Techniques from Rounding Algorithms, STOC 2002; Yamada, Asai and Hajishirzi,
    Efficient Passage Retrieval with Hashing for Open-domain Question Answering, ACL 2021.
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
            if len(matrix) > self._words.shape[1]:
                # A search in progress keeps using the old array.
                enlarged_codes = np.zeros((-(-matrix.shape[1] // 64), len(matrix) + len(matrix) // 4), np.uint64)
                if self._rows:
                    enlarged_codes[:, : self._rows] = self._words[:, : self._rows]
                self._words = enlarged_codes
            for start in range(self._rows, len(matrix), BATCH):
                stop = min(start + BATCH, len(matrix))
                self._words[:, start:stop] = _signs(matrix[start:stop] - self._middle).T
            self._rows = len(matrix)

    def nearest(self, vector: Vector, n: int, allowed_rows: Mask) -> NDArray[np.int64]:
        """Return about ``n`` allowed rows whose codes differ least from the vector's, in order of row number.

        ``allowed_rows`` is a mask from row 0; every row that it covers must have been added.
        """
        assert self._middle is not None, "rows are added before they are searched"
        differing = np.zeros(len(allowed_rows), np.uint16)
        different_bits, counts = np.empty(len(allowed_rows), np.uint64), np.empty(len(allowed_rows), np.uint8)
        for codes, word in zip(self._words, _signs((vector - self._middle)[None])[0], strict=True):
            np.bitwise_xor(codes[: len(allowed_rows)], word, out=different_bits)
            differing += np.bitwise_count(different_bits, out=counts)
        farthest = 64 * len(self._words)
        differing[~allowed_rows] = farthest + 1
        step = max(1, len(allowed_rows) // SAMPLE)
        upto = np.cumsum(np.bincount(differing[::step], minlength=farthest + 2))
        least = int(np.searchsorted(upto[: farthest + 1], n / step))
        return np.flatnonzero(differing <= min(least, farthest))


def _signs(vectors: NDArray[np.float32]) -> Words:
    """Return a bit per number, 1 if above 0, packed into 64-bit words padded with zeros (vectors × words)."""
    bits = np.packbits(vectors > 0, axis=1)
    words = np.zeros((len(bits), -(-bits.shape[1] // 8) * 8), np.uint8)
    words[:, : bits.shape[1]] = bits
    return words.view(np.uint64)


# Up to this size in bytes, all vectors are compared. In a larger matrix, binary codes select the vectors to compare.
# For 63,666 × 384 vectors (benchmarks/vectors.py), the search by binary codes takes 1.1 ms instead of 4.3 and misses
# one in two hundred of the nearest 10.
EXACT_BYTES = 40 << 20
# Up to this share of allowed rows, copying them is faster than scanning all rows with a mask. With 63,666 × 384
# vectors, copying 10 % of the rows takes 0.7 ms, and a scan with any mask takes 3 ms.
GATHER_SHARE = 0.15
# Number of rows copied at once. Batches of this size are still in the processor's cache when they are multiplied.
GATHERED = 128
# Up to this share of allowed rows, copying them is faster than a search by binary codes, which scans the codes of all
# rows. With 1,000,000 × 384 vectors, copying 10 % of the rows takes three times as long as this search.
FEW_SHARE = 0.05
# Number of vectors compared per result of an approximate search, the smallest number of vectors compared, and the
# number of rows per vector compared: with more rows, the nearest ones are less certain to be among the first.
RESCORED, LEAST_RESCORED, ROWS_PER_RESCORED = 10, 1_000, 400
# Largest number of its result rows whose checksums a search verifies, if they have not been verified yet (1.3 µs each),
# and number of rows, evenly spaced among the allowed rows, that the first search verifies in addition.
VERIFIED, SAMPLED = 32, 64
# Vectors whose length differs from 1 by less than this are not normalized, so copying a unit vector never changes it.
ROUNDING = 1e-6
# Largest plausible cosine of two unit vectors with rounding errors; a larger one reveals a damaged row.
LARGEST = 1.001


class VectorMatrix:
    """Matrix of unit vectors, in a memory-mapped file or in memory.

    Vectors never move within a file, so a reader's memory map stays valid. A row that was never written contains zeros.
    Rows before ``first_row`` are missing, although the file has a place for them.

    Two files contain checksums of each vector, alone (:func:`checksums`) to reveal damage, and with its text
    (:func:`owners`) to reveal a vector of another text. A search verifies up to ``VERIFIED`` of its results, the first
    one also a sample; if one is damaged, all rows are verified. Damaged rows are left out and read as zeros.
    """

    def __init__(self, path: Path | None, dimension: int, first_row: int = 0) -> None:
        self.dimension = dimension
        self._path = path
        self._no_vectors = np.arange(first_row)
        self._file: tuple[int, int] | None = None  # inode and number of rows of the mapped file
        self._matrix: NDArray[np.float32] = np.zeros((0, dimension), np.float32)
        self._checksums = np.zeros(0, "<u4")  # read when needed, since rows not yet verified may still be overwritten
        self._verified: Mask = np.zeros(0, np.bool_)
        self._damaged = self._no_vectors
        self._is_sampled = False
        self._signs = BinaryQuantizer()
        self.remap()

    def __len__(self) -> int:
        """Return the number of the last row that may have a vector, plus one."""
        return len(self._matrix)

    def copied(self, path: Path | None, rows: NDArray[np.int64]) -> VectorMatrix:
        """Return a matrix with only these rows, in new files, which are on disk.

        Checksums are copied as well, so damaged vectors stay damaged.
        """
        self.remap()
        if self._path is None or path is None:
            copy = VectorMatrix(None, self.dimension)
            copy.write(0, self.take(rows))
            return copy
        for start in range(0, len(rows), BATCH):
            part = rows[start : start + BATCH]
            vectors = np.zeros((len(part), self.dimension), np.float32)
            is_stored = (part < len(self._matrix)) & (part >= len(self._no_vectors))
            vectors[is_stored] = self._matrix[part[is_stored]]
            _write(path, vectors, start * self.dimension * 4, sync=False)
            for file in (checksums, owners):
                sums = np.zeros(len(part), "<u4")
                sums[is_stored] = _read(file(self._path), part[is_stored])
                _write(file(path), sums, start * 4, sync=False)
        copy = VectorMatrix(path, self.dimension)
        copy.sync()
        return copy

    def write(
        self,
        start: int,
        vectors: NDArray[np.float32],
        *,
        texts: Sequence[bytes] | None = None,
        sync: bool = True,
    ) -> None:
        """Write unit vectors (n × dimension) to consecutive rows from ``start``; overwrite existing rows.

        ``texts`` are hashes of the embedded texts. Everything is then on disk, unless ``sync=False``: call :meth:`sync`
        later. Raises StoreError if a file cannot be written.
        """
        if self._path is None:
            stop = start + len(vectors)
            if stop > len(self._matrix):
                enlarged_matrix = np.zeros((max(stop, 2 * len(self._matrix), 64), self.dimension), np.float32)
                enlarged_matrix[: len(self._matrix)] = self._matrix
                self._matrix = enlarged_matrix
            self._matrix[start:stop] = vectors
            return
        rows = np.asarray(vectors, np.float32)
        every = np.arange(len(rows))
        owned = np.zeros(len(rows), "<u4") if texts is None else _sums(rows, every, texts)
        try:
            _write(self._path, rows, start * self.dimension * 4, sync=sync)
            _write(checksums(self._path), _sums(rows, every), start * 4, sync=sync)
            # A power failure may lose these numbers; a vector without one is assumed to belong to its row's text.
            _write(owners(self._path), owned, start * 4, sync=False)
        except OSError as error:
            raise StoreError(f"none of this batch was written to {self._path}: {error.strerror}") from error
        self.remap()
        if start < len(self._checksums):  # a repair; appended rows have not been verified yet
            self._forget_verified()

    def sync(self) -> None:
        """Wait until all written vectors and their checksums are on disk."""
        if self._path is not None:
            for path in (self._path, checksums(self._path)):
                _write(path, np.zeros(0, np.uint32), 0, sync=True)
            sync_path(self._path.parent)

    def take(self, rows: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float32]:
        """Return copies of the vectors of these rows, n × dimension; zeros for missing or damaged rows."""
        self._keep_within_file()
        return self._take(np.asarray(rows, np.int64))

    def _take(self, rows: NDArray[np.int64], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        matrix = self._matrix  # another thread may replace it
        if not len(matrix):
            return np.zeros((len(rows), self.dimension), np.float32)
        # mode="clip" takes a quarter less time than the default mode, which checks each row number.
        vectors = matrix.take(rows, axis=0, out=out, mode="clip")
        is_missing = rows >= len(matrix)
        if is_missing.any():
            vectors[is_missing] = 0
        if len(self._damaged):
            vectors[np.isin(rows, self._damaged)] = 0
        return vectors

    def intact(self, rows: Sequence[int] | NDArray[np.int64], texts: Sequence[bytes] | None = None) -> Mask:
        """Return a mask of the ``rows`` that are stored and not damaged; none if the file was deleted.

        With ``texts`` (one hash per row), a vector must also belong to its text, if that was recorded.
        """
        row_array = np.asarray(rows, np.int64)
        if self._path is None:
            return (row_array >= 0) & (row_array < len(self._matrix))
        self._keep_within_file()
        if not self._path.exists():  # the mapping can still be searched, but is lost when the process ends
            return np.zeros(len(row_array), np.bool_)
        is_intact: Mask = (row_array >= len(self._no_vectors)) & (row_array < len(self._matrix))
        is_intact[is_intact] = _sums(self._matrix, row_array[is_intact]) == _read(
            checksums(self._path), row_array[is_intact]
        )
        if texts is not None:
            places = np.flatnonzero(is_intact)
            owned = _read(owners(self._path), row_array[places])
            sums = _sums(self._matrix, row_array[places], [texts[place] for place in places.tolist()])
            is_intact[places] = (owned == sums) | (owned == 0)
        return is_intact

    def lacks(self, allowed_rows: Mask) -> bool:
        """Return whether any allowed row is known to be damaged or is beyond the end of the matrix."""
        damaged = self._damaged[self._damaged < len(allowed_rows)]
        return bool(allowed_rows[len(self._matrix) :].any()) or bool(allowed_rows[damaged].any())

    def scores(self, vector: Vector, rows: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the cosine of a unit vector with each of these rows; 0 for missing or damaged rows."""
        self._keep_within_file()
        row_array = np.asarray(rows, np.int64)
        results = self._cosines(vector, row_array)
        if self._path is None or (self._verify(row_array) and bool((np.abs(results) <= LARGEST).all())):
            return results
        self._verify_all(len(self._matrix))
        return self._cosines(vector, row_array)

    def search(
        self, vector: Vector, n: int, allowed_rows: Mask, *, approximate: bool = False
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the ``n`` intact allowed rows with the largest cosines, and these, best first, ties by row.

        With ``approximate``, a few of them may be missing if the matrix is large.
        """
        find = self._near if approximate else self._search
        self._keep_within_file()
        readable = self._readable(allowed_rows)
        rows, scores = find(vector, n, readable)
        if self._path is None:
            return rows, scores
        is_sound = True
        if not self._is_sampled:
            self._is_sampled, sample = True, np.flatnonzero(readable)
            places = np.linspace(0, len(sample) - 1, min(SAMPLED, len(sample))).astype(np.int64)
            is_sound = self._verify(sample[places], SAMPLED)
        is_sound = is_sound and self._verify(rows)
        # A NaN among the cosines, caused by a damaged row, can exclude other rows from the result.
        if not is_sound or (len(rows) < n and len(rows) < np.count_nonzero(readable)):
            self._verify_all(len(allowed_rows))
            rows, scores = find(vector, n, self._readable(allowed_rows))
        return rows, scores

    def _readable(self, allowed_rows: Mask) -> Mask:
        within = allowed_rows[: len(self._matrix)]
        if len(self._damaged):
            within = within.copy()
            within[self._damaged[self._damaged < len(within)]] = False
        return within

    def _verify_all(self, end: int) -> None:
        self._verify(np.arange(end), end)

    def _verify(self, rows: NDArray[np.int64], limit: int = VERIFIED) -> bool:
        """Verify the first ``limit`` unverified rows of these; return False if a damaged row is found."""
        verified, damaged = self._verified, self._damaged
        new = rows[rows < len(verified)]
        new = new[~verified[new]]
        if len(damaged):
            new = new[~np.isin(new, damaged)]
        new = new[:limit]
        if not len(new):
            return True
        sums, end = self._checksums, int(new.max()) + 1
        if len(sums) < end:
            assert self._path is not None, "nothing is verified in memory"
            more = _read(checksums(self._path), np.arange(len(sums), end))
            sums = self._checksums = np.concatenate([sums, more])
        is_intact = _sums(self._matrix, new) == sums[new]
        if not is_intact.all() and self._path is not None and not self._path.exists():
            return True  # another process has replaced the files: the mapping stays usable, but the checksums are gone
        verified[new[is_intact]] = True
        if is_intact.all():
            return True
        self._damaged = np.union1d(damaged, new[~is_intact])
        return False

    def _forget_verified(self) -> None:
        self._checksums, self._damaged, self._is_sampled = self._checksums[:0], self._no_vectors, False
        self._verified = np.zeros(len(self._matrix), np.bool_)
        self._signs = BinaryQuantizer()

    def _near(self, vector: Vector, n: int, allowed_rows: Mask) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        allowed_count = int(np.count_nonzero(allowed_rows))
        count = max(LEAST_RESCORED, RESCORED * n, allowed_count // ROWS_PER_RESCORED)
        gather_limit = GATHER_SHARE * len(allowed_rows)
        size = self._matrix[: len(allowed_rows)].nbytes
        if size <= EXACT_BYTES or count >= gather_limit or allowed_count <= FEW_SHARE * len(allowed_rows):
            return self._search(vector, n, allowed_rows)
        signs = self._signs  # another thread may replace it
        signs.add_rows(self._matrix[: len(allowed_rows)])
        rows = signs.nearest(vector, count, allowed_rows)
        # Binary codes do not help if many vectors are alike, or if nearly all rows are returned.
        if not n <= len(rows) <= gather_limit:
            return self._search(vector, n, allowed_rows)
        return _best(rows, self._cosines(vector, rows), n)

    def _search(self, vector: Vector, n: int, allowed_rows: Mask) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        count = int(np.count_nonzero(allowed_rows))
        if count == 0 or n <= 0:
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        if count <= GATHER_SHARE * len(allowed_rows):
            rows = np.flatnonzero(allowed_rows)
            return _best(rows, self._cosines(vector, rows), n)
        scores = cosines(self._matrix[: len(allowed_rows)], vector)
        if count < len(allowed_rows):
            scores[~allowed_rows[: len(scores)]] = -np.inf
        return _best(None, scores, min(n, count))

    def _cosines(self, vector: Vector, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        results = np.empty(len(rows), np.float32)
        copies = np.empty((min(GATHERED, len(rows)), self.dimension), np.float32)
        with np.errstate(over="ignore", invalid="ignore"):  # as in cosines
            for start in range(0, len(rows), GATHERED):
                part = rows[start : start + GATHERED]
                np.vecdot(self._take(part, copies[: len(part)]), vector, out=results[start : start + GATHERED])
        return results

    def close(self) -> None:
        """Close the memory map."""
        self._matrix = np.zeros((0, self.dimension), np.float32)

    def remap(self) -> None:
        """Renew the memory map to include rows that any process has appended or repaired."""
        if self._path is None:
            return
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return
        # A last row that was truncated because the disk was full is not included.
        inode, rows = status.st_ino, status.st_size // (self.dimension * 4)
        if self._file != (inode, rows):
            is_appended = self._file is not None and self._file[0] == inode and rows > self._file[1]
            self._matrix = _mapped(self._path, rows, self.dimension)
            self._file = inode, rows
            if is_appended:
                more = np.zeros(max(0, rows - len(self._verified)), np.bool_)
                self._verified = np.concatenate([self._verified, more])
            else:
                self._forget_verified()
        if len(self._damaged) > len(self._no_vectors):  # another process may have repaired them
            self._forget_verified()

    def _keep_within_file(self) -> None:
        """Shrink the memory map if its file has become smaller: reading beyond its end would kill the process."""
        if self._path is not None:
            with suppress(FileNotFoundError):  # the file was deleted, but its mapping stays usable
                if self._path.stat().st_size < self._matrix.nbytes:
                    self.remap()


def cosines(matrix: NDArray[np.float32], vector: Vector) -> NDArray[np.float32]:
    """Return the inner products of a matrix's rows with a vector, computed on the calling thread only.

    numpy's ``@`` uses BLAS threads that busy-wait: for 63,666 × 384 vectors, it took 19 ms on a busy machine and this
    function 7; on an idle one, 2 and 3 ms.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # damaged rows cause warnings; they are detected and left out
        products: NDArray[np.float32] = np.vecdot(matrix, vector)
    return products


def unit(vectors: Sequence[Sequence[float]] | Sequence[float] | NDArray[Any]) -> NDArray[np.float32]:
    """Return the vectors scaled to length 1, as float32; zeros and unit vectors are not scaled.

    Raises ValueError if a vector contains NaN or infinite numbers, or if the vectors have different lengths.
    """
    try:
        with np.errstate(over="ignore"):  # floats that overflow become infinite
            matrix = np.asarray(vectors, np.float32)
    except OverflowError:  # a large int
        matrix = np.array(np.inf, np.float32)
    except (TypeError, ValueError):
        raise ValueError("vectors must be lists of numbers of equal length") from None
    with np.errstate(over="ignore"):
        norms = np.sqrt(np.add.reduce(matrix * matrix, axis=-1, keepdims=True))
    is_unit = np.abs(norms - 1.0) < ROUNDING
    if is_unit.all():
        return matrix.copy()
    if not np.isfinite(matrix).all():
        raise ValueError("the embedding returned a vector with NaN or infinite numbers; every number must be finite")
    norms[is_unit] = 1.0
    return np.divide(matrix, norms, out=np.zeros_like(matrix), where=norms > 0)


def checksums(path: Path) -> Path:
    """Return the path of the file that contains a checksum of each vector in the matrix at ``path``."""
    return path.with_suffix(".crc")


def owners(path: Path) -> Path:
    """Return the path of the checksums of each vector with its text; 0 means that the text is unknown."""
    return path.with_suffix(".own")


def _sums(
    matrix: NDArray[np.float32], rows: NDArray[np.int64], texts: Sequence[bytes] | None = None
) -> NDArray[np.uint32]:
    """Return the CRC-32 of each row's vector, together with its text hash if ``texts`` has them."""
    if texts is None:
        return np.array([zlib.crc32(matrix[row]) for row in rows.tolist()], "<u4")
    each = zip(rows.tolist(), texts, strict=True)
    return np.array([zlib.crc32(matrix[row], zlib.crc32(text)) for row, text in each], "<u4")


def _read(path: Path, rows: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Return the checksums of these rows from a file; 0 for missing ones."""
    numbers = np.zeros(len(rows), "<u4")
    if not len(rows):
        return numbers
    first, last = int(rows.min()), int(rows.max())
    try:
        stored_checksums = np.fromfile(path, "<u4", count=last - first + 1, offset=first * 4)
    except FileNotFoundError:
        return numbers
    except OSError as error:
        raise _unreadable(path, error) from error
    is_stored = rows - first < len(stored_checksums)
    numbers[is_stored] = stored_checksums[rows[is_stored] - first]
    return numbers


def _mapped(path: Path, rows: int, dimension: int) -> NDArray[np.float32]:
    if not rows:
        return np.zeros((0, dimension), np.float32)
    try:
        return np.memmap(path, np.float32, mode="r", shape=(rows, dimension)).view(np.ndarray)
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{path} cannot be read ({error.strerror}): check its permissions and its disk; or delete it, and repair() "
        "computes the vectors again"
    )


def sync_path(path: Path) -> None:
    """Wait until the contents of a file, or the names in a folder, are on disk; some systems cannot sync a folder."""
    try:
        file = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
    except OSError:
        if not path.is_dir():
            raise


def _write(path: Path, values: NDArray[Any], offset: int, *, sync: bool) -> None:
    data = memoryview(values.tobytes())
    is_new = not path.exists()
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        while data:
            count = os.pwrite(file, data, offset)
            data, offset = data[count:], offset + count
        if sync:
            os.fsync(file)
    finally:
        os.close(file)
    if sync and is_new:
        sync_path(path.parent)


def _best(
    rows: NDArray[np.int64] | None, scores: NDArray[np.float32], n: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the ``n`` rows with the largest scores, and these, best first, ties by row."""
    if n < len(scores):
        threshold = scores[np.argpartition(scores, len(scores) - n)[len(scores) - n]]
        places = np.flatnonzero(scores >= threshold)
    else:
        places = np.arange(len(scores))
    order = places[np.argsort(-scores[places], kind="stable")][:n]
    return (order if rows is None else rows[order]), scores[order]


def background(sample: NDArray[np.float32], vector: Vector) -> tuple[float, float] | None:
    """Return the mean and standard deviation of the cosines with a sample of the scope; None if all are equal."""
    values = cosines(sample, vector).astype(np.float64)
    mean = float(values.sum()) / len(values)
    values -= mean
    deviation = math.sqrt(float(values.dot(values)) / len(values))
    return (mean, deviation) if deviation > 0 else None
