"""Clear errors within a time limit if a Milvus server is down, slow, lost or refuses access."""

import base64
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from langchain_hybridgraph import GraphRetriever, HybridRetriever, RetrievalError
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import StoreUnavailableError
from langchain_hybridgraph.records import Edge, Query
from langchain_hybridgraph.vectorstores.milvus_store import MilvusStore
from tests.support.servers.server_process import free_port
from tests.support.servers.tcp_proxy import TcpProxy
from tests.support.stores.words import Words

grpc = pytest.importorskip("grpc")
pytest.importorskip("milvus_lite")

TIMEOUT = 2.0


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Return the port of a milvus-lite server with three chunks."""
    from milvus_lite.adapter.grpc.server import start_server_in_thread

    server, db, port = start_server_in_thread(str(tmp_path_factory.mktemp("milvus") / "lite.db"))
    store = MilvusStore(f"http://127.0.0.1:{port}", Words())
    chunks = [Chunk("river", "the river floods"), Chunk("dam", "a dam of concrete"), Chunk("bread", "bread and butter")]
    store.upsert(chunks, edges=[Edge("river", "dam", "references")])
    store.flush()
    yield port
    server.stop(grace=0)
    db.close()


@pytest.fixture
def proxy(server):
    proxy = TcpProxy(server)
    yield proxy
    proxy.close()


@pytest.fixture
def store(proxy):
    return MilvusStore(f"milvus://127.0.0.1:{proxy.port}", Words(), timeout=TIMEOUT)


def test_opening_a_store_without_a_server_fails_within_the_timeout():
    """Opening a store without a server fails within the timeout, with an error that explains what to do."""
    with pytest.raises(StoreUnavailableError, match=r"cannot be reached .* start it, or check the URI"):
        MilvusStore(f"milvus://127.0.0.1:{free_port()}", Words(), timeout=1.0)


def test_a_search_without_a_server_fails_and_works_again_later(proxy, store):
    """A search fails with the server's address while it is down, and the same store works once it is back."""
    retriever = HybridRetriever(store, k=2)
    proxy.drop()
    with pytest.raises(RetrievalError, match=f"vector: StoreUnavailableError: Milvus at http://127.0.0.1:{proxy.port}"):
        retriever.invoke("a river")
    proxy.restore()
    while True:  # the client's library waits before it connects again
        with suppress(RetrievalError):
            assert retriever.invoke("a river")[0].id == "river"
            return


def test_a_slow_server_is_given_up_after_the_timeout(proxy, store):
    """A call to a server that does not answer raises StoreUnavailableError after the store's timeout."""
    store.vector_search(Query("a river", 1), 1)
    proxy.stall()
    with pytest.raises(StoreUnavailableError, match="did not answer hybrid_search within 2 s"):
        store.vector_search(Query("a river", 1), 1)


@pytest.mark.parametrize("fault", ["garble", "drop"])
async def test_one_clear_error_for_a_faulty_network(proxy, store, fault):
    """If answers are garbage or connections are cut, each write and search, awaited or not, raises one clear error."""
    retriever = HybridRetriever(store, k=2)
    retriever.invoke("a river")
    getattr(proxy, fault)()
    reason = f"Milvus at http://127.0.0.1:{proxy.port} (cannot be reached|did not answer)"
    with pytest.raises(StoreUnavailableError, match=reason):
        store.add_texts(["a mill"], ids=["mill"])
    with pytest.raises(StoreUnavailableError, match=reason):
        await store.aadd_texts(["a mill"], ids=["mill"])
    with pytest.raises(RetrievalError, match=reason):
        retriever.invoke("the floods")
    with pytest.raises(RetrievalError, match=reason):
        await retriever.ainvoke("the floods")


async def test_a_deadline_applies_to_a_delayed_server(proxy, store, monkeypatch):
    """With deadline_ms, an awaited search of a server whose answers are delayed ends early and reports both sources."""
    retriever = HybridRetriever(store, k=2, deadline_ms=300, on_error="empty")
    await retriever.ainvoke("a river")
    proxy.delay(1.0)
    begin = time.monotonic()
    result = await retriever.aretrieve("another river")
    assert time.monotonic() - begin < 1.0
    assert list(result) == []
    assert {"deadline-exceeded:vector", "deadline-exceeded:keyword"} <= set(result.degraded)


def test_hits_found_before_the_server_was_lost_are_returned(proxy, store):
    """If the server is lost during the traversal, the search's hits are returned with "graph-failed"."""
    retriever = GraphRetriever(store, k=2, graph={"traversal": "bfs"})
    retriever.invoke("a river")
    connection, call = store._index.connection, store._index.connection.call

    def unreachable_call(method, **arguments):
        if method == "query":
            proxy.drop()
        return call(method, **arguments)

    connection.call = unreachable_call
    result = retriever.retrieve("the floods")
    assert result[0].id == "river"
    assert "graph-failed" in result.degraded
    assert "cannot be reached" in result.plan["errors"]["graph"]


class TokenCheck(grpc.ServerInterceptor):
    """Interceptor that refuses calls without ada's token, as the proxy of a Milvus server does."""

    def intercept_service(self, continuation, details):
        token = base64.b64encode(b"ada:secret").decode()
        if dict(details.invocation_metadata).get("authorization") == token:
            return continuation(details)

        def refuse(_, context):
            context.abort(
                grpc.StatusCode.UNAUTHENTICATED, "auth check failure, please check username and password are correct"
            )

        return grpc.unary_unary_rpc_method_handler(refuse)


def test_a_server_refuses_a_wrong_token(tmp_path):
    """A wrong token raises an error that names token=, and the right one opens the store."""
    from milvus_lite.adapter.grpc.servicer import MilvusServicer
    from milvus_lite.db import MilvusLite
    from pymilvus.grpc_gen import milvus_pb2_grpc

    db = MilvusLite(str(tmp_path / "lite.db"))
    server = grpc.server(ThreadPoolExecutor(2), interceptors=[TokenCheck()])
    milvus_pb2_grpc.add_MilvusServiceServicer_to_server(MilvusServicer(db), server)
    uri = f"milvus://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        for token in ("", "ada:wrong"):
            with pytest.raises(StoreUnavailableError, match=r"refused access .* pass the right token="):
                MilvusStore(uri, Words(), token=token)
        assert len(MilvusStore(uri, Words(), token="ada:secret")) == 0
    finally:
        server.stop(grace=0)
        db.close()
