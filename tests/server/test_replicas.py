"""Several services over one index give the same answers."""

from contextlib import ExitStack
from functools import partial

import httpx
import pytest

from langchain_hybridgraph import HybridGraphStore
from langchain_hybridgraph.vectorstores.milvus_store import MilvusStore
from tests.server.conftest import TEXTS, fill
from tests.server.test_app import QUESTION, comparable
from tests.server.test_serve import eventually, free_port, serving, texts
from tests.support.stores.words import Words

WORDS = "tests.support.stores.words:Words"


@pytest.mark.parametrize("place", ["folder", pytest.param("milvus", marks=pytest.mark.faults)])
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
            fill(MilvusStore(index, Words(), timeout=30))
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
            assert [httpx.post(f"{each}/documents", json=body).status_code for each in addresses[1:]] == [403, 403]
        else:
            assert httpx.delete(f"{addresses[1]}/documents/parcel", timeout=60).json() == {"deleted": 1}
            assert httpx.get(f"{addresses[0]}/documents/parcel", timeout=60).status_code == 404
            answer = httpx.post(f"{addresses[0]}/sessions/monday", json={"turns": [["user", "Hello."]]}, timeout=60)
            assert (answer.status_code, "this store has no sessions.add" in answer.text) == (501, True)


def scores(answer):
    return {document["id"]: document["metadata"]["relevance_score"] for document in answer["documents"]}


def finds(port):
    return texts(port, "whales sing") == ["Whales sing songs."]
