"""Vector stores whose server is down when the retriever is created."""

import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from langchain_hybridgraph import HybridRetriever
from tests.support.stores.real_stores import QUESTION, TEXTS, Fixed, documents

LATER = "Quokkas smile at visitors."
CHROMA = Path(sys.executable).parent / "chroma"


def free_port():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


class Server:
    """``chroma run`` on one port and folder, which can be stopped and started again."""

    def __init__(self, folder):
        self.port, self._folder, self._process = free_port(), folder, None

    def start(self):
        command = [str(CHROMA), "run", "--path", str(self._folder), "--port", str(self.port), "--host", "127.0.0.1"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.1)
        raise TimeoutError("chroma run does not answer")

    def stop(self):
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=20)
            self._process = None


@pytest.fixture
def server(tmp_path):
    running = Server(tmp_path)
    running.start()
    yield running
    running.stop()


@pytest.fixture
def chroma(server):
    import chromadb
    from langchain_chroma import Chroma

    client = chromadb.HttpClient(host="127.0.0.1", port=server.port)
    store = Chroma("notes", Fixed(), client=client, collection_configuration={"hnsw": {"space": "cosine"}})
    store.add_texts(list(TEXTS.values()))
    return store


def ids(documents):
    return [document.id for document in documents]


async def test_chroma_is_down_and_comes_back(server, chroma):
    """While the server is down keyword hits are returned, and once it is back its texts have the ids of the
    Documents.
    """
    server.stop()
    retriever = HybridRetriever(chroma, documents())
    result = retriever.retrieve(QUESTION)
    assert (ids(result), result.degraded) == (["ada", "engine"], ("vector-failed",))
    result = await retriever.aretrieve(QUESTION)
    assert (ids(result), result.degraded) == (["ada", "engine"], ("vector-failed",))
    server.start()
    result = retriever.retrieve(QUESTION)
    assert (sorted(ids(result)), result.degraded) == (sorted(TEXTS), ())
    assert result[0].metadata["retrieval_source"] == "fused"
    chroma.add_texts([LATER])
    assert [document.page_content for document in retriever.invoke("quokkas", keyword_weight=1.0)] == [LATER]


def test_chroma_goes_down_later(server, chroma):
    """If the server goes down after construction, the keyword index built from its texts still returns hits."""
    retriever = HybridRetriever(chroma)
    before = ids(retriever.invoke(QUESTION, keyword_weight=1.0))
    server.stop()
    result = retriever.retrieve(QUESTION)
    assert ids(result) == before
    assert "vector-failed" in result.degraded
