"""milvus-lite server in a separate process, with several writer processes."""

import asyncio
import multiprocessing
import random
import re
import sys
import time
from functools import partial
from itertools import pairwise

import pytest

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import StoreUnavailableError
from langchain_hybridgraph.records import Edge, Scope
from langchain_hybridgraph.vectorstores.milvus_store import MilvusStore
from tests.support.servers.python_process import start_python
from tests.support.servers.server_process import ServerProcess
from tests.support.servers.tcp_proxy import TcpProxy
from tests.support.stores.words import Words

pytest.importorskip("milvus_lite")
pytestmark = pytest.mark.faults

WRITERS, BATCHES, SIZE = 3, 12, 20
BOUNDED = 120.0


class Server(ServerProcess):
    """Process of ``milvus-lite server`` with one worker thread, as milvus-lite does not support concurrent writes."""

    def __init__(self, folder):
        options = ["--data-dir", folder, "--host", "127.0.0.1", "--port", "{port}", "--max-workers", "1"]
        super().__init__(sys.executable, "-m", "milvus_lite", "server", *options)
        self.uri = f"milvus://127.0.0.1:{self.port}"
        self.open()

    def open(self):
        """Wait until the server answers."""
        repeated(lambda: MilvusStore(self.uri, Words(), timeout=30))

    def restart(self):
        self.start()
        self.open()


def repeated(action):
    """Repeat an action until the server answers."""
    deadline = time.monotonic() + BOUNDED
    while True:
        try:
            return action()
        except StoreUnavailableError:
            assert time.monotonic() < deadline
            time.sleep(0.1)


def write(uri, writer, batches):
    """Write batches of chunks, each chunk with an edge to the next, and report each confirmed batch."""
    store = repeated(lambda: MilvusStore(uri, Words(), timeout=30))
    for batch in range(BATCHES):
        ids = [f"{writer}-{batch}-{n}" for n in range(SIZE)]
        edges = [Edge(one, other, "next") for one, other in pairwise(ids)]
        chunks = [Chunk(id, f"text {id}") for id in [*ids, "shared"]]
        repeated(lambda chunks=chunks, edges=edges: store.upsert(chunks, edges=edges))
        batches.put((writer, batch))


@pytest.fixture
def server(tmp_path):
    server = Server(tmp_path / "lite.db")
    yield server
    server.kill()


def test_several_writers_lose_nothing_when_the_server_is_killed(server):
    """After the server is killed twice, all batches of three writers are stored, and no chunk or edge is duplicated."""
    context = multiprocessing.get_context("spawn")
    batches = context.Queue()
    writers = [context.Process(target=write, args=(server.uri, writer, batches)) for writer in range(WRITERS)]
    for process in writers:
        process.start()
    confirmed = []
    while len(confirmed) < WRITERS * BATCHES:
        confirmed.append(batches.get(timeout=BOUNDED))
        if len(confirmed) in (8, 20):
            server.kill()
            server.restart()
    for process in writers:
        process.join(BOUNDED)
        assert process.exitcode == 0
    assert sorted(confirmed) == [(writer, batch) for writer in range(WRITERS) for batch in range(BATCHES)]
    store = MilvusStore(server.uri, Words(), consistency="Strong")
    assert len(store) == WRITERS * BATCHES * SIZE + 1
    ids = [f"{writer}-{batch}-{n}" for writer, batch in confirmed for n in range(SIZE)]
    assert {chunk.id for chunk in store.get(ids)} == set(ids)
    assert len(store.edges(ids)) == WRITERS * BATCHES * (SIZE - 1)


CLIENT = """
import sys
from langchain_core.documents import Document
from langchain_hybridgraph import ingest
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.records import Edge
from langchain_hybridgraph.vectorstores.milvus_store import MilvusStore
from tests.support.stores.words import Words

uri, verb, documents = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = MilvusStore(uri, Words(), timeout=10)
print("open", flush=True)
texts = {f"d{n}": [f"text {n} of part {part}" for part in range(5)] for n in range(documents)}
if verb == "ingest":
    pieces = (Document(text, metadata={"source": name}) for name, parts in texts.items() for text in parts)
    ingest(pieces, store, split=None, edges=["sequence"], batch_size=20)
else:
    for name, parts in texts.items():
        ids = [f"{name}-{part}" for part in range(5)]
        edges = [Edge(ids[n], ids[n + 1], "next") for n in range(4)]
        store.upsert([Chunk(id, text) for id, text in zip(ids, parts)], edges=edges)
store.flush()
"""
DOCUMENTS = 100


def client(uri, verb):
    process = start_python("-c", CLIENT, uri, verb, DOCUMENTS)
    assert process.stdout.readline() == "open\n", process.communicate()[1]
    return process


def finish(process):
    """Wait for a client, and return the last line of its errors."""
    _, errors = process.communicate(timeout=BOUNDED)
    return errors.strip().rpartition("\n")[2]


def run_to_end(uri, verb):
    """Run clients until one succeeds; on a busy machine, calls of the others may time out."""
    deadline = time.monotonic() + BOUNDED
    while error := finish(client(uri, verb)):
        assert "StoreUnavailableError" in error
        assert time.monotonic() < deadline


def assert_complete(uri):
    """Assert that the store contains each text of the client once, and each edge."""
    store = repeated(lambda: MilvusStore(uri, Words(), consistency="Strong", timeout=30))
    ids = store.find(Scope())
    assert sorted(chunk.text for chunk in store.get(ids)) == sorted(
        f"text {n} of part {part}" for n in range(DOCUMENTS) for part in range(5)
    )
    assert len(store) == len(ids) == DOCUMENTS * 5
    assert len(store.edges(ids)) == DOCUMENTS * 4


@pytest.mark.parametrize("verb", ["ingest", "upsert"])
def test_a_client_that_is_killed_can_run_again(server, verb):
    """After five kills of a client and a run to the end, each of its texts and edges is stored once."""
    for _ in range(5):
        process = client(server.uri, verb)
        time.sleep(random.random())
        process.kill()
        process.communicate()
    run_to_end(server.uri, verb)
    assert_complete(server.uri)


@pytest.mark.parametrize("verb", ["ingest", "upsert"])
@pytest.mark.parametrize("fault", ["drop", "stall", "garble", "restart"])
def test_a_client_that_loses_its_server_can_run_again(server, verb, fault):
    """A client that loses its server ends with one clear error; run again, it stores each text and edge once."""
    proxy = TcpProxy(server.port)
    uri = f"milvus://127.0.0.1:{proxy.port}"
    for _ in range(2):
        process = client(uri, verb)
        time.sleep(0.3 * random.random())
        if fault == "restart":
            server.kill()
        else:
            getattr(proxy, fault)()
        assert re.match(r"langchain_hybridgraph.errors.\w+: Milvus at http\S+ (cannot be|did not)", finish(process))
        proxy.restore()
        if fault == "restart":
            server.restart()
    run_to_end(uri, verb)
    assert_complete(server.uri)
    proxy.close()


async def test_a_store_works_after_a_restart_of_the_server(server):
    """After a restart, when no collection is loaded, the next search loads them, whether awaited or not."""
    store = MilvusStore(server.uri, Words(), timeout=30)
    store.add_texts(["the river floods"], ids=["river"])
    for search in (partial(asyncio.to_thread, store.similarity_search), store.asimilarity_search):
        server.kill()
        server.start()
        assert [document.id for document in await search("river", k=1)] == ["river"]
