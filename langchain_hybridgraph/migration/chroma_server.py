"""Clients for Chroma folders and servers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from langchain_hybridgraph.errors import ConfigurationError, StoreError, quote_value
from langchain_hybridgraph.number_ranges import check_number
from langchain_hybridgraph.registry import nearest

TIMEOUT = 10.0
"""Default of :attr:`ChromaServer.timeout`, in seconds."""


@dataclass(frozen=True)
class ChromaServer:
    """Address of a Chroma server and the credentials to log in.

    ``token`` is sent as ``x-chroma-token``, which Chroma Cloud expects; ``headers`` are sent with every request.
    ``timeout`` is the time limit in seconds for each request except a search, which waits about one second.

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
    timeout: float = TIMEOUT

    def __post_init__(self) -> None:
        parts = urlsplit(str(self.url))
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ConfigurationError(
                f"{quote_value(self.url)} is not the URL of a Chroma server; write http://HOST:PORT or https://HOST"
            )
        check_number("timeout", self.timeout, gt=0)

    @classmethod
    def parse(cls, form: str | Mapping[str, Any] | ChromaServer) -> ChromaServer:
        """Return the server described by a URL or by a mapping with the fields of this class.

        A ChromaServer is returned unchanged. Raises ConfigurationError if ``form`` is anything else, or if the URL is
        invalid.

        >>> ChromaServer.parse({"url": "https://api.trychroma.com", "tenant": "ada", "database": "notes"}).database
        'notes'
        """
        if isinstance(form, ChromaServer):
            return form
        if isinstance(form, str):
            return cls(form)
        names = [each.name for each in fields(cls)]
        value: Any = form  # a setting may have any type
        keys = [str(key) for key in value] if isinstance(value, Mapping) else []
        if "url" in keys and set(keys) <= set(names):
            return cls(**form)
        hint = next((f"; {nearest(key, names)}" for key in keys if key not in names), "").rstrip(" ;")
        raise ConfigurationError(
            "vector_server must be a URL, a ChromaServer, or a mapping with url and, if needed, tenant, database, "
            f"token, headers and timeout, got {f'the keys {keys}' if keys else quote_value(form)}{hint}"
        )

    @property
    def name(self) -> str:
        """Server, tenant and database as one string, without secrets."""
        parts = urlsplit(self.url)
        port = "" if parts.port is None else f":{parts.port}"
        return f"{parts.scheme}://{self._host}{port}/{self.tenant}/{self.database}"

    @property
    def api(self) -> str:
        """URL of the server's HTTP API.

        >>> ChromaServer("http://[::1]:8001").api
        'http://[::1]:8001/api/v2'
        """
        return f"{urlsplit(self.url).scheme}://{self._host}:{self._port}/api/v2"

    @property
    def database_api(self) -> str:
        """URL of the database in the server's HTTP API."""
        return f"{self.api}/tenants/{quote(self.tenant, safe='')}/databases/{quote(self.database, safe='')}"

    @property
    def all_headers(self) -> dict[str, str]:
        """Headers to send with every request, including the token."""
        return {**self.headers, **({} if self.token is None else {"x-chroma-token": self.token})}

    @property
    def _host(self) -> str:
        host = urlsplit(self.url).hostname or ""
        return f"[{host}]" if ":" in host else host

    @property
    def _port(self) -> int:
        parts = urlsplit(self.url)
        return parts.port or (443 if parts.scheme == "https" else 8000)

    def connect(self) -> Any:
        """Return a new client; raise StoreError if the server rejects the connection or does not answer in time."""
        import chromadb
        import httpx
        from chromadb.config import Settings

        parts = urlsplit(self.url)
        with guarded("connect to", self.name):
            # Chroma's client has no time limit, and its constructor sends several requests.
            httpx.get(f"{self.api}/heartbeat", headers=self.all_headers, timeout=self.timeout).raise_for_status()
            client = chromadb.HttpClient(
                self._host,
                self._port,
                ssl=parts.scheme == "https",
                headers=self.all_headers,
                # A client changes the Settings object it receives, so each client gets its own.
                settings=Settings(anonymized_telemetry=False),
                tenant=self.tenant,
                database=self.database,
            )
            # chromadb 1.5 has no setting for its client's timeout: it creates its session with timeout=None.
            client._server._session.timeout = httpx.Timeout(self.timeout)  # type: ignore[attr-defined]
        return client


def open_folder(path: Path) -> Any:
    """Return a client for a Chroma folder; raise StoreError if the folder cannot be opened.

    No other process may have the folder open.
    """
    import chromadb
    from chromadb.config import Settings

    with guarded("open", path):
        try:
            return chromadb.PersistentClient(str(path), settings=Settings(anonymized_telemetry=False))
        except Exception:
            _forget(path)
            raise


@contextmanager
def guarded(verb: str, place: object) -> Iterator[None]:
    """Convert any Exception raised inside the ``with`` block to a StoreError that names ``verb`` and ``place``.

    All exceptions are converted, because Chroma raises those of several libraries, such as SQLite and its HTTP client.
    """
    try:
        yield
    except Exception as error:
        raise StoreError(f"Chroma could not {verb} {place}: {str(error) or type(error).__name__}") from error


def _forget(path: Path) -> None:
    """Remove a failed client from chromadb's cache.

    Otherwise, chromadb would return this client when the path is opened again.
    """
    from chromadb.api.shared_system_client import SharedSystemClient

    SharedSystemClient._identifier_to_system.pop(str(path), None)
