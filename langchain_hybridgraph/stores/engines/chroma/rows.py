"""Chroma collections of unit vectors, identified by row number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.stores.engines.chroma.client import ChromaServer, guarded, open_folder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.records import Vector
    from langchain_hybridgraph.stores.embedded.catalog.catalog import Catalog
    from langchain_hybridgraph.stores.embedded.folder.generation import Generation

COLLECTION = "rows"
# Maximum number of bytes of the vectors in one write request. A server takes about a second to index that many, and
# answers only then.
REQUEST_BYTES = 1 << 20
# The inner product of unit vectors is the cosine and, unlike Chroma's own cosine, accepts a vector of zeros.
SPACE = "ip"


class ChromaRows:
    """A Chroma collection of unit vectors, without texts or metadata. The ids are row numbers.

    It is stored in a folder or on a server.
    """

    def __init__(self, client: Any, collection: Any, where: str) -> None:
        self._client, self._collection, self._where = client, collection, where
        with guarded("open", where):
            self._batch = int(client.get_max_batch_size())

    @classmethod
    def in_folder(cls, path: Path) -> ChromaRows:
        """Open the collection in a folder, or create it.

        Only one process may open it: in tests with chromadb 1.5.9, a second process that only read the index crashed
        and damaged it. Raises StoreError if Chroma cannot open the folder; the collection can then be rebuilt from
        the vector matrix.
        """
        with guarded("open", path):
            path.mkdir(exist_ok=True)
            client = open_folder(path)
            collection = client.get_or_create_collection(
                COLLECTION, configuration={"hnsw": {"space": SPACE}}, embedding_function=None
            )
        return cls(client, collection, str(path))

    @classmethod
    def on_server(cls, server: ChromaServer, name: str, metadata: Mapping[str, str | int]) -> ChromaRows:
        """Open a collection on a server, or create it.

        Any number of processes may open it. Raises StoreError if the server cannot be reached, rejects a request or
        does not answer in time. Raises ConfigurationError if the collection already exists with other metadata or
        another distance function, which means that it was created for another index or application.
        """
        from chromadb.errors import NotFoundError

        client, where = server.connect(), f"{server.name}#{name}"
        with guarded("open", where):
            try:
                collection = client.get_collection(name, embedding_function=None)
            except NotFoundError:
                collection = client.get_or_create_collection(
                    name,
                    configuration={"hnsw": {"space": SPACE}},
                    metadata=dict(metadata),
                    embedding_function=None,
                )
        present = {key: (collection.metadata or {}).get(key) for key in metadata}
        configuration = collection.configuration_json
        space = (configuration.get("hnsw") or configuration.get("spann") or {}).get("space")
        if present != dict(metadata) or space != SPACE:
            client.close()
            raise ConfigurationError(
                f"the collection {where} does not belong to this index: its metadata is {present} and its space is "
                f"{space!r}, expected {dict(metadata)} and {SPACE!r}; delete it on the server, or choose another "
                "database"
            )
        return cls(client, collection, where)

    @property
    def id(self) -> str:
        """Id that Chroma assigned to the collection; a collection that is deleted and created again gets a new id."""
        return str(self._collection.id)

    def __len__(self) -> int:
        """Return the number of rows in the collection."""
        with guarded("count", self._where):
            return int(self._collection.count())

    def upsert(self, rows: Sequence[int], vectors: NDArray[np.float32]) -> None:
        """Insert or replace rows with their unit vectors."""
        batch = max(1, min(self._batch, REQUEST_BYTES // (4 * vectors.shape[1])))
        with guarded("upsert", self._where):
            for start in range(0, len(rows), batch):
                part = slice(start, start + batch)
                self._collection.upsert(ids=[str(row) for row in rows[part]], embeddings=vectors[part])

    def delete(self, rows: Sequence[int]) -> None:
        """Delete rows; missing rows are ignored."""
        with guarded("delete", self._where):
            for start in range(0, len(rows), self._batch):
                self._collection.delete(ids=[str(row) for row in rows[start : start + self._batch]])

    def search(self, vector: Vector, n: int) -> NDArray[np.int64]:
        """Return approximately the ``n`` rows with the largest inner products, best first.

        If the collection has fewer rows, all of them are returned.
        """
        with guarded("query", self._where):
            answer = self._collection.query(query_embeddings=vector, n_results=n, include=[])
            return np.array(answer["ids"][0], dtype=np.int64)

    def rows(self) -> set[int]:
        """Return the numbers of all rows in the collection."""
        with guarded("get", self._where):
            return {int(row) for row in self._collection.get(include=[])["ids"]}

    def delete_collections(self, prefix: str, *, keep: str) -> None:
        """Delete the collections whose names start with ``prefix``, except ``keep``."""
        with guarded("delete old collections of", self._where):
            for collection in self._client.list_collections():
                if collection.name.startswith(prefix) and collection.name != keep:
                    self._client.delete_collection(collection.name)

    def close(self) -> None:
        """Close the client, which releases the folder's files or the connections to the server."""
        with guarded("close", self._where):
            self._client.close()


class Backlog:
    """The rows that a collection still lacks. They can be added in several calls."""

    def __init__(self) -> None:
        self.missing: list[int] | None = None
        """Numbers of the rows to add, ascending, or None if they are not known."""
        self._version = -1

    def update(
        self, rows: ChromaRows, generation: Generation, catalog: Catalog, *, applied: int, version: int, floor: int
    ) -> None:
        """Delete removed rows from the collection, and record which rows it still lacks at catalog version ``version``.

        ``applied`` is the catalog version up to which the collection contains all changes, or -1 if it is unknown. Only
        the first update uses it; later ones continue from the previous update, until :meth:`forget` is called. The
        catalog lists only changes after version ``floor``. If earlier changes are needed, all rows of the collection
        are compared with the catalog.
        """
        if self.missing is not None:
            applied = self._version
        if not self.missing and not len(rows):
            applied = -1
        if applied < max(floor, 1):
            living = generation.nonzero_rows(catalog.rows())
            present = rows.rows()
            missing, dead = living - present, present - living
        else:
            touched = set(catalog.changed_rows(applied))
            living = {entry.row for entry in catalog.read_rows(touched) if entry.row is not None}
            missing = set(self.missing or ()) - touched | generation.nonzero_rows(sorted(living))
            dead = touched - living
        rows.delete(sorted(dead))
        self.missing, self._version = sorted(missing), version

    def fill(self, rows: ChromaRows, generation: Generation, most: int | None) -> None:
        """Add missing rows to the collection. ``most`` limits their number; None means no limit."""
        assert self.missing is not None
        part = self.missing[:most]
        for numbers, vectors in generation.vectors(part):
            rows.upsert(numbers.tolist(), vectors)
            self.missing = self.missing[len(numbers) :]

    def forget(self) -> None:
        """Forget which rows are missing; the next update determines them again."""
        self.missing, self._version = None, -1
