"""Vectors and fitted model of an index."""

from __future__ import annotations

import logging
import shutil
import threading
import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np

from langchain_hybridgraph.errors import EmbeddingMismatchError, StoreError
from langchain_hybridgraph.stores.row_table import UNPACKED, RowNumbers
from langchain_hybridgraph.stores.vectors import VectorMatrix, checksums, owners, sync_path, unit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.chunks import Mask, Vector

# Smallest cosine between the stored and the computed vector of the probe text at which the embeddings are considered
# to be the same.
SAME_VECTOR = 0.99


class Embedding(Protocol):
    """Methods that a store calls on its embedding. LangChain's ``Embeddings`` has these methods."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text."""

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question."""


class NoEmbedding:
    """Placeholder for the embedding of an index that is opened without its model. It cannot embed texts."""

    def __init__(self, name: str, dimension: int = 1) -> None:
        self.name, self.dimension = name, dimension

    def embed_documents(self, _: object) -> Any:
        """Raise EmbeddingMismatchError, so :func:`is_embedding_of` compares only the names of the embeddings."""
        raise EmbeddingMismatchError(f"texts cannot be embedded without {self.name!r}: pass it as embedding=…")

    embed_query = embed_documents


@runtime_checkable
class FittedEmbedding(Embedding, Protocol):
    """An embedding that is fitted to the texts and stored in the index folder."""

    def fit(self, texts: Sequence[str]) -> Self:
        """Return an embedding fitted to these texts."""

    def save(self, path: Path) -> None:
        """Write the fitted model to a file. When this method returns, the file is safely on disk."""

    def needs_refit(self, texts: Sequence[str]) -> bool:
        """Return whether texts that were added since the fit differ too much from the fitted texts."""


@runtime_checkable
class TransformsFitted(FittedEmbedding, Protocol):
    """A fitted embedding that can return the vectors of the fitted texts without analysing them again."""

    def fit_transform(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Fit the embedding to the texts and return their vectors."""


def probe_facts(name: str, generation: Generation, number: int, text: str) -> dict[str, Any]:
    """Return the facts that identify an embedding: its name, its dimension, and a probe (text of a row, vector)."""
    matrix = generation.matrix
    assert matrix is not None, "rows with vectors belong to a matrix"
    return {
        "embedding": name,
        "dimension": matrix.dimension,
        "probe_text": text,
        "probe_vector": matrix.take(generation.numbers.rows([number]))[0].tobytes(),
    }


def has_damaged_probe(facts: Mapping[str, Any]) -> bool:
    """Return whether the probe text contains U+FFFD, which replaces bytes that cannot be decoded."""
    return "\ufffd" in facts.get("probe_text", "")


def is_embedding_of(facts: Mapping[str, Any], name: str, embedding: Embedding) -> bool:
    """Return whether an embedding gives nearly the probe vector in ``facts`` for the probe text.

    If vectors cannot be compared (no probe, fitted or random embedding, failure), the name decides.
    """
    has_same_name = bool(facts["embedding"] == name)
    if has_same_name and (isinstance(embedding, FittedEmbedding) or "probe_text" not in facts):
        return True
    if has_damaged_probe(facts):
        return has_same_name
    try:
        first, second = unit(embedding.embed_documents([facts["probe_text"]] * 2))
    except Exception:  # noqa: BLE001 - queries raise the error of a model that cannot embed now
        return has_same_name
    if _similar(first, np.frombuffer(facts["probe_vector"], np.float32)):
        return True
    # A model that gives the same text different vectors, such as random test vectors, cannot be checked.
    return has_same_name and not _similar(first, second)


def _similar(one: Vector, other: Vector) -> bool:
    return one.shape == other.shape and (float(one @ other) >= SAME_VECTOR or not (one.any() or other.any()))


logger = logging.getLogger(__name__)

BATCH = 8_192
# An index is packed when more than this share of its rows, and more than this number of them, belong to deleted or
# replaced texts. Vectors then take at most a seventh more space than necessary, and each deletion pays for copying
# seven vectors (11 kB with 384 dimensions).
DEAD_SHARE, MOST_DEAD = 1 / 8, 1_000
# Number of vectors used to estimate the mean cosine with an arbitrary chunk, to within a hundredth.
SAMPLE = 128
FEWEST_SAMPLED = 50


class Packing(NamedTuple):
    """The ``number``-th packing of an index, which left ``size`` of the rows with numbers below ``end``.

    A file contains their numbers, ascending; ``checksum`` is its CRC-32.
    """

    number: int
    end: int
    size: int
    checksum: int


class Generation:
    """Vectors of an index, with the fitted model that computed them, if any, and the ``numbers`` of their rows.

    Generation N has the files ``vectors-N.f32`` (with checksums ``.crc`` and ``.own``) and ``model-N.npz``; one commit
    of the catalog switches to N + 1, or to ``vectors-N.P.f32`` (and ``.rows``), the P-th packing of the index.
    ``folder`` None means in memory. ``unusable_files`` names missing or damaged ones. If the file with the numbers is
    damaged, the packed vectors are lost, and ``living`` returns the numbers of the rows that exist.
    """

    def __init__(
        self,
        folder: Path | None,
        number: int,
        dimension: int | None,
        embedding: Embedding,
        packing: Packing | None = None,
        *,
        living: Callable[[], Sequence[int]] = list,
    ) -> None:
        self.folder = folder
        self.number = number
        self.unusable_files: tuple[str, ...] = ()
        self._embedding = embedding
        self._unread: tuple[BinaryIO, Callable[[BinaryIO], Embedding]] | None = None
        self._reading = threading.Lock()
        self.packing = packing
        self.numbers, self.has_numbers = UNPACKED, True
        if packing is not None:
            self.numbers, self.has_numbers = _read_numbers(self.matrix_file, packing, living)
        self.matrix: VectorMatrix | None = None
        if dimension is not None:
            self.matrix = VectorMatrix(self.matrix_file, dimension, 0 if self.has_numbers else self.numbers.size)
            if self.matrix_file is not None and not (self.matrix_file.exists() and self.has_numbers):
                self.unusable_files += ("vectors",)
        self._sample: tuple[int, NDArray[np.float32] | None] | None = None

    def load(self, model: Callable[[BinaryIO], Embedding]) -> None:
        """Open the model's file now, before the next writer deletes it; ``model`` reads it at first use."""
        assert self.model_file is not None
        try:
            file = self.model_file.open("rb")
        except OSError as error:
            self._lose_model(error)
        else:
            self._unread = file, model
            weakref.finalize(self, file.close)

    @property
    def embedding(self) -> Embedding:
        """Embedding of this generation; a fitted model is read from its file at first use."""
        with self._reading:
            if self._unread is not None:
                file, model = self._unread
                try:
                    with file:
                        self._embedding = model(file)
                except Exception as error:  # noqa: BLE001 - a loader may raise any exception for a damaged file
                    self._lose_model(error)
                self._unread = None
        return self._embedding

    def _lose_model(self, error: Exception) -> None:
        # A missing file needs no traceback: a restored backup may consist of the catalog alone.
        logger.warning(
            "the model %s cannot be read (%s); repair() makes a new one",
            self.model_file,
            getattr(error, "strerror", None) or error,
            exc_info=not isinstance(error, FileNotFoundError),
        )
        self.unusable_files += ("model",)

    @property
    def model_file(self) -> Path | None:
        """Path of this generation's fitted model, or None for an index in memory."""
        return None if self.folder is None else self.folder / f"model-{self.number}.npz"

    @property
    def matrix_file(self) -> Path | None:
        """Path of this generation's vectors, or None for an index in memory."""
        packing = "" if self.packing is None else f".{self.packing.number}"
        return None if self.folder is None else self.folder / f"vectors-{self.number}{packing}.f32"

    def sample(self, allowed_rows: Mask, version: int | None) -> NDArray[np.float32] | None:
        """Return the vectors of up to 128 allowed rows, evenly spaced, or None if too few; cached per ``version``."""
        if version is not None and self._sample is not None and self._sample[0] == version:
            return self._sample[1]
        rows = np.flatnonzero(allowed_rows)
        vectors = None
        if self.matrix is not None and len(rows) >= FEWEST_SAMPLED:
            places = np.linspace(0, len(rows) - 1, min(SAMPLE, len(rows))).astype(np.int64)
            vectors = self.matrix.take(rows[places])
        if version is not None:
            self._sample = version, vectors
        return vectors

    def create_matrix(self, dimension: int) -> VectorMatrix:
        """Create and return the matrix for vectors of this dimension."""
        self.matrix = VectorMatrix(self.matrix_file, dimension)
        return self.matrix

    def is_packing_due(self, end: int, living: int) -> bool:
        """Return whether to pack the index, if ``end`` is the next row number and ``living`` rows still exist."""
        used = self.numbers.count(end)
        return self.matrix is not None and used - living > max(MOST_DEAD, DEAD_SHARE * used)

    def packed(self, end: int, numbers: Sequence[int]) -> Generation:
        """Return a copy with only these of the rows with numbers below ``end``; its files are on disk."""
        assert self.matrix is not None, "only vectors are packed"
        fresh = self.next_packing(self.number, end, numbers, self.embedding)
        fresh.unusable_files = tuple({"model"} & {*self.unusable_files})
        if self.folder is not None and shutil.disk_usage(self.folder).free < len(numbers) * self.matrix.dimension * 4:
            raise StoreError(f"there is not enough space in {self.folder} for a copy of the vectors")
        try:
            fresh.begin()
            fresh.matrix = self.matrix.copied(fresh.matrix_file, self.numbers.rows(numbers))
        except (OSError, StoreError):
            fresh.clear()
            raise
        return fresh

    def next_packing(self, number: int, end: int, numbers: Sequence[int], embedding: Embedding) -> Generation:
        """Return generation ``number`` without vectors, with only these of the rows with numbers below ``end``."""
        each = np.array(numbers, "<i8")
        fresh = Generation(self.folder, number, None, embedding)
        packings = self.packing.number if self.packing else 0
        fresh.packing = Packing(packings + 1, end, len(each), zlib.crc32(each.tobytes()))
        fresh.numbers = RowNumbers(each.astype(np.int64), len(each), end)
        return fresh

    def begin(self) -> None:
        """Prepare the files for new vectors: delete those that a killed process left, and write the row numbers."""
        self.clear()
        if self.matrix_file is not None and self.packing is not None:
            file = packed_numbers(self.matrix_file)
            file.write_bytes(self.numbers.of(np.arange(self.packing.size)).astype("<i8").tobytes())
            sync_path(file)

    def clear(self) -> None:
        """Delete the files of the vectors."""
        for file in self.vector_files:
            file.unlink(missing_ok=True)

    @property
    def vector_files(self) -> list[Path]:
        """Paths of the vectors, their checksums and the numbers of their rows; the vectors come first."""
        file = self.matrix_file
        return [] if file is None else [file, checksums(file), owners(file), packed_numbers(file)]

    def has_numbers_on_disk(self) -> bool:
        """Return whether the next process can read the numbers of the packed rows."""
        return (
            self.packing is None or self.folder is None or _stored_numbers(self.matrix_file, self.packing) is not None
        )

    def close(self) -> None:
        """Release the files of this generation."""
        with self._reading:
            if self._unread is not None:
                self._unread[0].close()
        if self.matrix is not None:
            self.matrix.close()

    def fill(self, pages: Iterator[tuple[Sequence[int], NDArray[np.float32], Sequence[bytes]]]) -> None:
        """Fill the matrix from pages (ascending numbers, their vectors, hashes of texts), and write it to disk."""
        matrix = self.matrix
        for numbers, vectors, texts in pages:
            matrix = self.create_matrix(vectors.shape[1]) if matrix is None else matrix
            rows = self.numbers.rows(numbers).tolist()
            for start, stop in runs(rows):
                matrix.write(rows[start], vectors[start:stop], texts=texts[start:stop], sync=False)
        if matrix is not None:
            matrix.sync()


def packed_numbers(path: Path) -> Path:
    """Return the path of the numbers of the packed rows of the matrix at ``path``."""
    return path.with_suffix(".rows")


def _read_numbers(path: Path | None, packing: Packing, living: Callable[[], Sequence[int]]) -> tuple[RowNumbers, bool]:
    """Return the numbers of the packed rows and True, or those of the living rows, which are fewer, and False."""
    if (numbers := _stored_numbers(path, packing)) is not None:
        return RowNumbers(numbers, packing.size, packing.end), True
    present = [number for number in living() if number < packing.end]
    return RowNumbers(present[: packing.size], packing.size, packing.end), False


def _stored_numbers(path: Path | None, packing: Packing) -> NDArray[np.int64] | None:
    raw = b""
    if path is not None:
        with suppress(OSError):
            raw = packed_numbers(path).read_bytes()
    return np.frombuffer(raw, "<i8").astype(np.int64) if zlib.crc32(raw) == packing.checksum else None


def remove_others(current: Generation) -> None:
    """Delete the files of other generations and packings. Processes that have mapped vectors can still read them."""
    if current.folder is None:
        return
    present = {*current.vector_files, current.model_file}
    for pattern in ("vectors-[0-9]*.f32", "vectors-[0-9]*", "model-[0-9]*"):
        # Vectors without checksums would be taken for damaged by a first search, so the vectors are deleted first.
        for file in current.folder.glob(pattern):
            if file not in present:
                file.unlink(missing_ok=True)


def runs(rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the positions [start, stop) of each run of consecutive rows. Such a run can be written in one call."""
    start = 0
    for stop in range(1, len(rows) + 1):
        if stop == len(rows) or rows[stop] != rows[stop - 1] + 1:
            yield start, stop
            start = stop
