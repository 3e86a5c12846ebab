"""Queries to a Chroma server through its HTTP API."""

import threading
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import chromadb
import numpy as np
import pytest

from langchain_hybridgraph.errors import StoreError
from langchain_hybridgraph.stores.engines.chroma.client import ChromaServer
from langchain_hybridgraph.stores.engines.chroma.server_search import ChromaSearch
from tests.support.servers.chroma_server import ChromaRun

VECTORS = np.eye(16, dtype=np.float32)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    run = ChromaRun(tmp_path_factory.mktemp("server"))
    run.start()
    yield run
    run.stop()


@pytest.fixture(scope="module")
def collection(server):
    """Return the id of a collection with 16 unit vectors."""
    with closing(chromadb.HttpClient(port=server.port)) as client:
        created = client.create_collection("axes", configuration={"hnsw": {"space": "ip"}}, embedding_function=None)
        created.upsert(ids=[str(row) for row in range(16)], embeddings=VECTORS)
        return str(created.id)


@contextmanager
def searching(url, timeout=5.0):
    search = ChromaSearch(ChromaServer(url), timeout)
    yield search
    search.close()


@contextmanager
def answering(status, body, headers=()):
    """Run a server that gives every request this response and records its path."""
    paths = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            paths.append(self.path)
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            for header in headers:
                self.send_header(*header)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as stub:
        threading.Thread(target=stub.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{stub.server_port}", paths
        stub.shutdown()


def test_the_nearest_rows_come_first(server, collection):
    """A search returns the rows with the largest inner products, best first."""
    with searching(server.url) as search:
        assert search.start(collection, VECTORS[7] + VECTORS[3] / 2, 2)().tolist() == [7, 3]


def test_queries_may_overlap(server, collection):
    """Two queries can be sent before the first result is read, and each gets its own result."""
    with searching(server.url) as search:
        first, second = search.start(collection, VECTORS[1], 1), search.start(collection, VECTORS[2], 1)
        assert (second().tolist(), first().tolist()) == ([2], [1])


def test_connections_are_kept(server, collection):
    """Consecutive queries share a connection."""
    with searching(server.url) as search:
        search.start(collection, VECTORS[1], 1)()
        [connection] = search._idle
        search.start(collection, VECTORS[2], 1)()
        assert list(search._idle) == [connection]


def test_a_connection_that_the_server_closed_is_replaced(tmp_path):
    """The first query after a restart of the server succeeds."""
    run = ChromaRun(tmp_path / "server")
    run.start()
    try:
        with closing(chromadb.HttpClient(port=run.port)) as client:
            created = client.create_collection("axes", embedding_function=None)
            created.upsert(ids=["5"], embeddings=[VECTORS[5]])
        with searching(run.url) as search:
            search.start(str(created.id), VECTORS[5], 1)()
            run.stop()
            run.start()
            assert search.start(str(created.id), VECTORS[5], 1)().tolist() == [5]
    finally:
        run.stop()


def test_a_missing_collection_is_an_error(server):
    """A query to a missing collection raises a StoreError that quotes the server's response."""
    with searching(server.url) as search, pytest.raises(StoreError, match=r"404.*NotFoundError"):
        search.start("00000000-0000-0000-0000-000000000000", VECTORS[1], 1)()


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [(502, b"<html>gateway</html>", "502 <html>gateway"), (200, b"<html>login</html>", "could not query")],
)
def test_an_answer_that_is_not_chromas_is_an_error(status, body, message):
    """A response that is not Chroma's raises StoreError, even with status 200."""
    with answering(status, body) as (url, _), searching(url) as search, pytest.raises(StoreError, match=message):
        search.start("id", VECTORS[1], 1)()


def test_a_proxy_of_the_environment_is_used(monkeypatch):
    """A proxy from the environment receives the full URL, with tenant and database names escaped."""
    with answering(200, b'{"ids": [["4"]]}') as (proxy, paths):
        monkeypatch.setenv("http_proxy", proxy)
        monkeypatch.setenv("no_proxy", "")
        search = ChromaSearch(ChromaServer("http://chroma.example:81", tenant="a b", database="c/d"), 5.0)
        assert search.start("id", VECTORS[1], 1)().tolist() == [4]
        search.close()
    assert paths == ["http://chroma.example:81/api/v2/tenants/a%20b/databases/c%2Fd/collections/id/query"]
