"""A stream sends each hit as soon as it is certain, and a client that goes away ends its search."""

import asyncio
import gc
import json
import logging
import socket
import threading
import time

import httpx
import pytest

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from langchain_hybridgraph.execution import threads
from langchain_hybridgraph.server.access import Limits
from langchain_hybridgraph.server.app import create_app
from langchain_hybridgraph.settings import HybridGraphSettings
from tests.server.conftest import TEXTS, fill
from tests.support.models import gated_reranker
from tests.support.servers.running_service import running

QUESTION = "Who wrote the first program?"
WITH_RERANKER = HybridGraphSettings(retriever_reranker="tests.support.models.gated_reranker:gated_reranker")
WITH_PLANNER = HybridGraphSettings(tree_planner="tests.support.models.gated_reranker:gated_planner")


class SlowGraphStore(HybridGraphStore):
    """A store whose graph waits at the gate."""

    def scoped_graph(self, scope, edge_filter):
        gated_reranker.WAITING.release()
        assert gated_reranker.GATE.wait(30)
        return super().scoped_graph(scope, edge_filter)


def events_in(text):
    blocks = [block.splitlines() for block in text.split("\n\n") if block]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]


def first_event(lines):
    name, data = next(lines), next(lines)
    assert next(lines) == ""
    return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


@pytest.mark.parametrize("part", ["reranker", "graph"])
def test_hits_arrive_before_a_slow_part_has_finished(part, gate):
    """While the reranker or the graph still waits, the first hit has already arrived, with its provenance."""
    store = fill(HybridGraphStore(None) if part == "reranker" else SlowGraphStore(None))
    settings = WITH_RERANKER if part == "reranker" else HybridGraphSettings()
    body = {"query": QUESTION, "k": 4, "retriever": "hybrid" if part == "reranker" else "graph"}
    with (
        running(create_app(store, settings=settings)) as url,
        httpx.stream("POST", f"{url}/search/stream", json=body) as answer,
    ):
        lines = answer.iter_lines()
        assert first_event(lines) == ("started", {"retriever": body["retriever"]})
        name, hit = first_event(lines)
        assert (name, hit["id"]) == ("hit", "ada")
        assert hit["metadata"]["score_breakdown"]
        assert hit["metadata"]["source_path"] == ["ada"]
        assert not gate.is_set()  # the slow part cannot have finished
        gate.set()
        events = events_in("\n".join(lines))
    name, last = events[-1]
    assert name == "answer"
    assert sorted(last["order"]) == sorted([hit["id"], *(data["id"] for name, data in events[:-1])])
    assert last["took_ms"] > 0
    assert last["degraded"] == []
    assert "ada" in {document["id"] for document in last["changed"]}  # its rank was not known yet
    if part == "reranker":
        assert last["order"] == [*TEXTS][::-1] or last["changed"][0]["metadata"]["rerank_score"] is not None


def test_the_first_event_arrives_before_a_slow_planner_has_finished(gate, store):
    """No hit is certain before the planner has answered, but the client learns that the search has started."""
    body = {"retriever": "hierarchical", "query": QUESTION, "session": ["User: Who is Ada?"], "k": 1}
    with (
        running(create_app(store, settings=WITH_PLANNER)) as url,
        httpx.stream("POST", f"{url}/search/stream", json=body) as answer,
    ):
        lines = answer.iter_lines()
        assert first_event(lines) == ("started", {"retriever": "hierarchical"})
        assert gated_reranker.WAITING.acquire(timeout=30)
        assert not gate.is_set()  # the planner cannot have finished
        gate.set()
        assert [name for name, _ in events_in("\n".join(lines))] == ["hit", "answer"]


@pytest.mark.parametrize("name", ["hybrid", "graph", "memory", "hierarchical", "advanced"])
async def test_a_stream_has_the_hits_of_a_search(name, client):
    """The hits of a stream, with the changes in its last event, are those of a search, in the same order."""
    body = {"retriever": name, "query": QUESTION, "k": 3, "as_of": "2030-01-01"}
    expected = (await client.post("/search", json=body)).json()
    _, *hits, (last_name, last) = events_in((await client.post("/search/stream", json=body)).text)
    assert last_name == "answer"
    documents = {hit["id"]: hit for _, hit in hits} | {document["id"]: document for document in last["changed"]}
    assert [documents[id] for id in last["order"]] == expected["documents"]
    assert len(hits) == len(expected["documents"]) > 0
    assert last["degraded"] == expected["degraded"]


async def test_an_error_is_an_event(client, monkeypatch):
    """An error after the beginning of a stream is its last event; an invalid request is refused before."""

    async def fails(*arguments, **options):
        raise KeyError("secret")

    assert (await client.post("/search/stream", json={"query": "a", "k": -1})).status_code == 422
    monkeypatch.setattr(HybridRetriever, "aretrieve", fails)
    answer = await client.post("/search/stream", json={"query": "a"})
    assert answer.status_code == 200
    assert events_in(answer.text)[1:] == [("error", {"status": 500, "detail": "internal error"})]


@pytest.mark.parametrize("path", ["/search", "/explain", "/memory/recall", "/search/stream"])
def test_a_search_ends_with_its_client(path, gate, store, monkeypatch, caplog):
    """When the client closes the connection, its search is cancelled, and the request is logged with status 499."""
    caplog.set_level(logging.INFO, "langchain_hybridgraph.server")
    cancelled = threading.Event()
    retrieve = HybridRetriever.aretrieve

    async def watched(self, *arguments, **options):
        try:
            return await retrieve(self, *arguments, **options)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    monkeypatch.setattr(HybridRetriever, "aretrieve", watched)
    with running(create_app(store, settings=WITH_RERANKER)) as url:
        with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as connection:
            connection.sendall(request(path))
            assert gated_reranker.WAITING.acquire(timeout=30)
        assert cancelled.wait(10)
        gate.set()
        assert httpx.post(f"{url}/search", json={"query": QUESTION, "k": 1}).status_code == 200
    statuses = [record.status for record in caplog.records if record.msg == "request %s"]
    assert statuses == [200 if path == "/search/stream" else 499, 200]


def request(path, query=QUESTION):
    body = json.dumps({"query": query, "k": 4}).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@pytest.mark.parametrize("clients", [8, pytest.param(1_000, marks=pytest.mark.faults)])
@pytest.mark.parametrize("path", ["/search", "/search/stream"])
def test_clients_that_go_away_leave_nothing(clients, path, gate, store):
    """After clients have gone away in the middle of a search, no task, thread or connection of theirs is left."""
    with running(create_app(store, settings=WITH_RERANKER, limits=Limits(rate=1e6, burst=10**6))) as url:
        port = int(url.rpartition(":")[2])

        def tasks():
            gc.collect()
            return sum(isinstance(each, asyncio.Task) and not each.done() for each in gc.get_objects())

        def leave():
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.settimeout(30)
                connection.sendall(request(path))
                assert gated_reranker.WAITING.acquire(timeout=30)
                received = b"" if path == "/search/stream" else b"event: hit"
                while b"event: hit" not in received:
                    received += connection.recv(4096)

        gate.set()
        leave()
        before_tasks, before_threads = wait_for_least(tasks), threading.active_count()
        gate.clear()
        for place in range(clients):
            leave()
            if place % 4 == 3:  # each waits in a worker thread, of which there is a limited number
                gate.set()
                time.sleep(0.01)
                gate.clear()
        gate.set()
        assert wait_for_least(tasks, before_tasks) <= before_tasks
        assert threading.active_count() <= before_threads + 2 * threads.WORKERS
        assert httpx.post(f"{url}/search", json={"query": QUESTION, "k": 1}).json()["documents"]


def wait_for_least(count, target=None):
    """Return a number once it has reached the target, or has not changed for half a second."""
    last, since = count(), time.monotonic()
    while (target is not None and last > target and time.monotonic() - since < 10) or (
        target is None and time.monotonic() - since < 0.5
    ):
        time.sleep(0.05)
        now = count()
        if target is None and now != last:
            since = time.monotonic()
        last = now
    return last


def test_a_slow_reader_is_cut_off(store):
    """A client that does not read its answer loses the connection, and others are answered meanwhile."""
    store.add_texts([f"tide {number} " + "." * 2_000_000 for number in range(4)])
    app = create_app(store, limits=Limits(deadline=1.0))
    with running(app) as url, socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", int(url.rpartition(":")[2])))
        slow.sendall(request("/search/stream", "tide"))
        assert slow.recv(15).startswith(b"HTTP/1.1 200")
        assert httpx.post(f"{url}/search", json={"query": QUESTION, "k": 1}).status_code == 200
        time.sleep(2.5)
        received = 0
        while data := slow.recv(1_000_000):
            received += len(data)
        assert 0 < received < 4 * 2_000_000  # the stream ended early


def test_running_requests_are_completed_at_shutdown(gate, store):
    """A service that is stopped first answers the requests that it has accepted."""
    answers = []
    with running(create_app(store, settings=WITH_RERANKER)) as url:

        def search():
            answers.append(httpx.post(f"{url}/search", json={"query": QUESTION, "k": 1}, timeout=30).status_code)

        client = threading.Thread(target=search)
        client.start()
        assert gated_reranker.WAITING.acquire(timeout=10)
        threading.Timer(0.5, gate.set).start()
    client.join(10)
    assert answers == [200]
