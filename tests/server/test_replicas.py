"""Several services over one index give the same answers."""

from contextlib import ExitStack
from functools import partial

import httpx
import pytest

from langchain_hybridgraph import HybridGraphStore
from langchain_hybridgraph.server.app import create_app
from langchain_hybridgraph.server.service import ServedStore
from langchain_hybridgraph.vectorstores.milvus_store import MilvusStore
from tests.server.conftest import TEXTS, fill
from tests.server.test_app import CALLS, QUESTION, comparable
from tests.server.test_serve import eventually, free_port, serving, texts
from tests.support.stores.milvus_calls import WordEmbeddings

WORDS = "tests.support.stores.milvus_calls:WordEmbeddings"


@pytest.fixture
async def milvus_clients(tmp_path):
    """Two applications over one collection, each with a store of its own."""
    pytest.importorskip("milvus_lite")
    uri = f"milvus:{tmp_path / 'lite.db'}"
    fill(MilvusStore(uri, WordEmbeddings()))
    apps = [create_app(ServedStore(lambda tenant: MilvusStore(uri, WordEmbeddings(), tenant=tenant))) for _ in range(2)]
    async with (
        httpx.AsyncClient(transport=httpx.ASGITransport(apps[0]), base_url="http://service") as one,
        httpx.AsyncClient(transport=httpx.ASGITransport(apps[1]), base_url="http://service") as other,
    ):
        yield one, other
    for app in apps:
        app.state.service.close()


async def test_two_services_over_milvus_give_equal_answers(milvus_clients):
    """Each retriever answers equally, before and after one service adds a document and the other deletes one.

    After a change, scores may differ slightly, because a store reads its word statistics again only after many changes.
    """

    async def answers(name):
        body = {"retriever": name, "query": QUESTION, **CALLS[name][1]}
        return [(await client.post("/search", json=body)).json() for client in milvus_clients]

    names = sorted(CALLS.keys() - {"hierarchical"})
    for name in names:
        first, second = map(comparable, await answers(name))
        assert first == second
        assert first["documents"][0]["id"] == "ada"
    one, other = milvus_clients
    body = {"documents": [{"id": "whale", "page_content": "Whales sing songs."}]}
    assert (await one.post("/documents", json=body)).status_code == 200
    assert (await other.get("/documents/whale")).json()["documents"][0]["page_content"] == "Whales sing songs."
    assert (await other.delete("/documents/parcel")).json() == {"deleted": 1}
    assert (await one.get("/documents/parcel")).status_code == 404
    for name in names:
        first, second = map(scores, await answers(name))
        assert first == pytest.approx(second, abs=0.01)
        assert list(first) == list(second) == [id for id in first if id != "parcel"]
    for path, content, name in [
        ("/memory", {"documents": [{"page_content": "Ada lives in Rome."}]}, "memory.remember"),
        ("/sessions/monday", {"turns": [["user", "Hello."]]}, "sessions.add"),
    ]:
        answer = await one.post(path, json=content)
        assert answer.status_code == 501
        assert answer.json()["detail"] == f"this store has no {name}; serve an index in a folder instead"


@pytest.mark.parametrize("place", ["folder", "milvus"])
def test_processes_over_one_index(place, tmp_path):
    """Processes find what another process of the command writes, and their answers are equal."""
    with ExitStack() as stack:
        if place == "folder":
            index, options = tmp_path / "index", [[], ["--read-only"], ["--read-only"]]
            fill(HybridGraphStore(index, "lsa")).close()
        else:
            pytest.importorskip("milvus_lite")
            from tests.stores.milvus.test_server_process import Server

            server = Server(tmp_path / "lite.db")
            stack.callback(server.kill)
            index, options = server.uri, [["--embedding", WORDS], ["--embedding", WORDS]]
            fill(MilvusStore(index, WordEmbeddings(), timeout=30))
        ports = [free_port() for _ in options]
        for port, own in zip(ports, options, strict=True):
            stack.enter_context(serving("--index", index, *own, port=port, log=tmp_path / f"log{port}"))
        addresses = [f"http://127.0.0.1:{port}" for port in ports]

        def answers(query):
            body = {"retriever": "graph", "query": query, "k": 4}
            return [comparable(httpx.post(f"{each}/search", json=body, timeout=60).json()) for each in addresses]

        before = answers(QUESTION)
        assert before[0]["documents"][0]["page_content"] == TEXTS["ada"]
        assert before[1:] == before[:1] * (len(ports) - 1)
        body = {"documents": [{"id": "whale", "page_content": "Whales sing songs."}]}
        assert httpx.post(f"{addresses[0]}/documents", json=body, timeout=60).status_code == 200
        for port in ports:
            eventually(partial(finds, port))
        after = [scores(answer) for answer in answers("whales sing")]
        assert len(after[0]) == 4
        for each in after[1:]:
            assert list(each) == list(after[0])
            assert each == pytest.approx(after[0], abs=0.01 if place == "milvus" else 0)
        if place == "folder":
            refused = [httpx.post(f"{each}/documents", json=body).status_code for each in addresses[1:]]
            assert refused == [403, 403]


def scores(answer):
    return {document["id"]: document["metadata"]["relevance_score"] for document in answer["documents"]}


def finds(port):
    return texts(port, "whales sing") == ["Whales sing songs."]
