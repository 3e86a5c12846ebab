"""The approximate vector index: Chroma's HNSW over rows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from langchain_hybridgraph.errors import StoreError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.records import Vector

COLLECTION = "rows"


class ChromaRows:
    """Row numbers in a Chroma collection of unit vectors; no texts and no metadata.

    Only the process that holds the writer's lock may open one: a second process beside it, even one that only
    reads, has crashed and has damaged the index (measured with chromadb 1.5.9). Inner product over unit vectors
    is the cosine, and unlike Chroma's own cosine it takes a vector of zeros.

    Raises StoreError when Chroma cannot open the folder; the folder can be rebuilt from the matrix then.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with _guarded("open", path):
            import chromadb
            from chromadb.config import Settings

            path.mkdir(exist_ok=True)
            # A Settings object is changed by the client that gets it, so each client gets its own.
            self._client = chromadb.PersistentClient(str(path), settings=Settings(anonymized_telemetry=False))
            self._collection = self._client.get_or_create_collection(
                COLLECTION, configuration={"hnsw": {"space": "ip"}}, embedding_function=None
            )
            self._batch = int(self._client.get_max_batch_size())

    def __len__(self) -> int:
        """How many rows are in the index."""
        with _guarded("count", self._path):
            return int(self._collection.count())

    def upsert(self, rows: Sequence[int], vectors: NDArray[np.float32]) -> None:
        """Put rows with their unit vectors in; a row that is there is replaced."""
        with _guarded("upsert", self._path):
            for start in range(0, len(rows), self._batch):
                part = slice(start, start + self._batch)
                self._collection.upsert(ids=[str(row) for row in rows[part]], embeddings=vectors[part])

    def delete(self, rows: Sequence[int]) -> None:
        """Take rows out; rows that are not there are passed over."""
        with _guarded("delete", self._path):
            for start in range(0, len(rows), self._batch):
                self._collection.delete(ids=[str(row) for row in rows[start : start + self._batch]])

    def search(self, vector: Vector, n: int) -> NDArray[np.int64]:
        """About the n rows of largest inner product, best first; approximate, and fewer when there are fewer."""
        with _guarded("query", self._path):
            answer = self._collection.query(query_embeddings=vector, n_results=n, include=[])
        return np.array(answer["ids"][0], dtype=np.int64)

    def rows(self) -> set[int]:
        """All rows in the index."""
        with _guarded("get", self._path):
            return {int(row) for row in self._collection.get(include=[])["ids"]}

    def close(self) -> None:
        """Release Chroma's files."""
        with _guarded("close", self._path):
            self._client.close()  # type: ignore[attr-defined]  # ClientAPI has it not, every client has


def remove(path: Path) -> None:
    """Delete a closed index; nothing happens when there is none."""
    shutil.rmtree(path, ignore_errors=not path.exists())


@contextmanager
def _guarded(verb: str, path: Path) -> Iterator[None]:
    """Chroma raises errors of many families, its own, Rust's and SQLite's: here they become one."""
    try:
        yield
    except Exception as error:
        if verb == "open":
            _forget(path)
        raise StoreError(f"Chroma could not {verb} in {path}: {error}") from error


def _forget(path: Path) -> None:
    """chromadb keeps a client that it could not start, and would hand it out for a folder that was made anew."""
    from chromadb.api.shared_system_client import SharedSystemClient

    SharedSystemClient._identifier_to_system.pop(str(path), None)
