"""Nearest-neighbour queries to a Chroma server."""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPConnection, HTTPSConnection
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import numpy as np

from langchain_hybridgraph.errors import StoreError
from langchain_hybridgraph.stores.engines.chroma.client import ChromaServer, guarded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.records import Vector

# Largest number of bytes of an unexpected answer that an error message quotes.
QUOTED = 200


class ChromaSearch:
    """Connections for nearest-neighbour queries to a Chroma server.

    A query is one request to Chroma's HTTP API. It is sent with http.client, since the server answers within 3 ms and
    chromadb's own client, which uses httpx, adds more than 1 ms. Any number of threads may send queries at the same
    time. A query fails if the server does not answer within ``timeout`` seconds.
    """

    def __init__(self, server: ChromaServer, timeout: float) -> None:
        self._server, self._timeout = server, timeout
        self._headers = {**server.all_headers, "Content-Type": "application/json"}
        self._idle: deque[HTTPConnection] = deque()

    def start(self, collection: str, vector: Vector, n: int) -> Callable[[], NDArray[np.int64]]:
        """Send a query and return a function that waits for its result.

        The result is approximately the ``n`` rows with the largest inner products, best first. If the collection has
        fewer rows, all of them are returned. ``collection`` is the id of the collection, which changes when the
        collection is deleted and created again. Both this method and the returned function raise StoreError if the
        server or the connection fails.
        """
        import orjson

        # orjson writes a float32 with 9 digits; json would write 17.
        body = {"query_embeddings": [np.ascontiguousarray(vector, np.float32)], "n_results": n, "include": []}
        where = f"{self._server.name}#{collection}"
        with guarded("query", where):
            connection = self._connection()
            with _closed_on_error(connection):
                connection.request(
                    "POST",
                    f"{self._server.database_api}/collections/{collection}/query",
                    orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY),
                    self._headers,
                )

        def result() -> NDArray[np.int64]:
            with guarded("query", where):
                with _closed_on_error(connection):
                    response = connection.getresponse()
                    answer = response.read()
                self._idle.append(connection)
                if response.status != HTTPStatus.OK:
                    raise StoreError(f"{response.status} {answer[:QUOTED].decode('utf-8', 'replace')}")
                return np.array(orjson.loads(answer)["ids"][0], dtype=np.int64)

        return result

    def close(self) -> None:
        """Close the connections that are not in use."""
        while self._idle:
            self._idle.pop().close()

    def _connection(self) -> HTTPConnection:
        """Return an idle connection that the server has not closed, or a new one."""
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread has taken it
                break
            if _is_open(connection):
                return connection
            connection.close()
        return _connect(self._server.api, self._timeout)


@contextmanager
def _closed_on_error(connection: HTTPConnection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


def _is_open(connection: HTTPConnection) -> bool:
    """Return whether an idle connection is still open. If the server has closed it, its socket is readable."""
    if connection.sock is None:
        return False
    ready = select.poll()
    ready.register(connection.sock, select.POLLIN)
    return not ready.poll(0)


def _connect(url: str, timeout: float) -> HTTPConnection:
    """Return a connection to a server; use the proxy that environment variables specify for it, if any."""
    parts = urlsplit(url)
    host, port = str(parts.hostname), parts.port
    proxy = None if proxy_bypass(host) else getproxies().get(parts.scheme)
    through = urlsplit(proxy) if proxy else parts
    if parts.scheme == "http":  # requests contain the full URL, which a proxy needs
        return HTTPConnection(str(through.hostname), through.port, timeout=timeout)
    import httpx

    # The context trusts the same certificates as chromadb's client.
    connection = HTTPSConnection(
        str(through.hostname), through.port, timeout=timeout, context=httpx.create_ssl_context()
    )
    if proxy:
        connection.set_tunnel(host, port)
    return connection
