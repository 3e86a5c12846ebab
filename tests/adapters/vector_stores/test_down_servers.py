"""Vector stores whose server is down when the retriever is created."""

import sys
from pathlib import Path

import pytest

from langchain_hybridgraph import HybridRetriever
from tests.support.samples.document_lists import ids
from tests.support.servers.server_process import ServerProcess
from tests.support.stores.real_stores import QUESTION, TEXTS, Fixed, documents

LATER = "Quokkas smile at visitors."
CHROMA = Path(sys.executable).parent / "chroma"


@pytest.fixture
def server(tmp_path):
    running = ServerProcess(CHROMA, "run", "--path", tmp_path, "--port", "{port}", "--host", "127.0.0.1")
    yield running
    running.kill()


@pytest.fixture
def chroma(server):
    import chromadb
    from langchain_chroma import Chroma

    client = chromadb.HttpClient(host="127.0.0.1", port=server.port)
    store = Chroma("notes", Fixed(), client=client, collection_configuration={"hnsw": {"space": "cosine"}})
    store.add_texts(list(TEXTS.values()))
    return store


async def test_chroma_is_down_and_comes_back(server, chroma):
    """While the server is down keyword hits are returned, and once it is back its texts have the ids of the
    Documents.
    """
    server.kill()
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
    server.kill()
    result = retriever.retrieve(QUESTION)
    assert ids(result) == before
    assert "vector-failed" in result.degraded
