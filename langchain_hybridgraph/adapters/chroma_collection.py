"""Chroma collections in folders and on servers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import ConfigurationError, StoreError, check_number, quote_value
from langchain_hybridgraph.stores.vectors import unit

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class ChromaServer:
    """Address of a Chroma server and the credentials to log in.

    ``token`` is sent as ``x-chroma-token``, which Chroma Cloud expects; ``headers`` are sent with every request.
    ``timeout`` is the time limit in seconds for each request.

    >>> ChromaServer("http://localhost:8000").name
    'http://localhost:8000/default_tenant/default_database'
    >>> ChromaServer("localhost:8000")
    Traceback (most recent call last):
    langchain_hybridgraph.errors.ConfigurationError: 'localhost:8000' is not the URL of a Chroma server; write \
http://HOST:PORT or https://HOST
    """

    url: str
    tenant: str = "default_tenant"
    database: str = "default_database"
    token: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: float = 10.0

    def __post_init__(self) -> None:
        parts = urlsplit(str(self.url))
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ConfigurationError(
                f"{quote_value(self.url)} is not the URL of a Chroma server; write http://HOST:PORT or https://HOST"
            )
        check_number("timeout", self.timeout, gt=0)

    @property
    def name(self) -> str:
        """Server, tenant and database as one string, without secrets."""
        parts = urlsplit(self.url)
        port = "" if parts.port is None else f":{parts.port}"
        return f"{parts.scheme}://{self._host}{port}/{self.tenant}/{self.database}"

    @property
    def _host(self) -> str:
        host = urlsplit(self.url).hostname or ""
        return f"[{host}]" if ":" in host else host

    def connect(self) -> Any:
        """Return a new client; raise StoreError if the server rejects the connection or does not answer in time."""
        import chromadb
        import httpx
        from chromadb.config import Settings

        parts = urlsplit(self.url)
        port = parts.port or (443 if parts.scheme == "https" else 8000)
        headers = dict(self.headers) if self.token is None else {**self.headers, "x-chroma-token": self.token}
        with guarded("connect to", self.name):
            # Chroma's client has no time limit, and its constructor sends several requests.
            heartbeat = f"{parts.scheme}://{self._host}:{port}/api/v2/heartbeat"
            httpx.get(heartbeat, headers=headers, timeout=self.timeout).raise_for_status()
            client = chromadb.HttpClient(
                self._host,
                port,
                ssl=parts.scheme == "https",
                headers=headers,
                # A client changes the Settings object it receives, so each client gets its own.
                settings=Settings(anonymized_telemetry=False),
                tenant=self.tenant,
                database=self.database,
            )
            # chromadb 1.5 has no setting for its client's timeout: it creates its session with timeout=None.
            client._server._session.timeout = httpx.Timeout(self.timeout)  # type: ignore[attr-defined]
        return client


class ChromaCollection:
    """Ids, texts, flat metadata and vectors of a collection.

    ``collection`` may be None if there is only one collection. Raises StoreError if the collection cannot be opened. No
    other process may have the folder open.
    """

    def __init__(self, place: Path | ChromaServer, collection: str | None) -> None:
        where = place.name if isinstance(place, ChromaServer) else str(place)
        self._client = place.connect() if isinstance(place, ChromaServer) else _open_folder(place)
        with guarded("list the collections of", where):
            names = sorted(each.name for each in self._client.list_collections())
        if not names:
            raise StoreError(f"{where} has no collections, so there is nothing to copy")
        if collection is None and len(names) > 1:
            raise StoreError(f"{where} has several collections; pass collection=…, one of: {', '.join(names)}")
        collection = names[0] if collection is None else collection
        if collection not in names:
            raise StoreError(f"{where} has no collection {collection!r}; its collections are: {', '.join(names)}")
        self.name = f"{where}#{collection}"
        with guarded("open", self.name):
            self._collection = self._client.get_collection(collection, embedding_function=None)

    def __len__(self) -> int:
        with guarded("count", self.name):
            return int(self._collection.count())

    def pages(self, size: int) -> Iterator[tuple[list[Chunk], NDArray[np.float32]]]:
        """Yield all chunks and their unit vectors in Chroma's order, ``size`` at a time."""
        for offset in range(0, len(self), size):
            chunks, vectors = self._read(limit=size, offset=offset)
            if chunks:
                yield chunks, vectors

    def get(self, ids: Sequence[str]) -> list[Chunk]:
        """Return the chunks with these ids; missing ids are left out."""
        return self._read(ids=list(ids))[0]

    def _read(self, **selection: Any) -> tuple[list[Chunk], NDArray[np.float32]]:
        with guarded("read", self.name):
            page = self._collection.get(**selection, include=["documents", "metadatas", "embeddings"])
        rows = zip(page["ids"], page["documents"], page["metadatas"], strict=True)
        chunks = [Chunk(id, text or "", dict(metadata or {})) for id, text, metadata in rows]
        return chunks, unit(np.asarray(page["embeddings"], np.float32))

    def close(self) -> None:
        """Close the client."""
        with guarded("close", self.name):
            self._client.close()


def _open_folder(path: Path) -> Any:
    import chromadb
    from chromadb.api.shared_system_client import SharedSystemClient
    from chromadb.config import Settings

    with guarded("open", path):
        try:
            return chromadb.PersistentClient(str(path), settings=Settings(anonymized_telemetry=False))
        except Exception:
            # Otherwise, chromadb would return the failed client from its cache when the path is opened again.
            SharedSystemClient._identifier_to_system.pop(str(path), None)
            raise


@contextmanager
def guarded(verb: str, place: object) -> Iterator[None]:
    """Convert any Exception raised inside the ``with`` block to a StoreError that names ``verb`` and ``place``."""
    try:
        yield
    except Exception as error:
        raise StoreError(f"Chroma could not {verb} {place}: {str(error) or type(error).__name__}") from error
