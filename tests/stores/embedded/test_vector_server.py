"""Vectors of an index on a real Chroma server, which is stopped and restarted."""

import http.server
import os
import pickle
import shutil
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager

import chromadb
import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding

from langchain_hybridgraph import HybridGraphSettings, HybridGraphStore, HybridRetriever, drop_tenant, list_tenants
from langchain_hybridgraph.errors import ConfigurationError, StoreError
from langchain_hybridgraph.records import Query, Scope
from langchain_hybridgraph.stores.embedded.folder.index_settings import IndexSettings
from langchain_hybridgraph.stores.embedded.reader import SERVER_REASON, Reader
from langchain_hybridgraph.stores.embedded.store import EmbeddedStore
from langchain_hybridgraph.stores.engines import vector_engine_choice
from langchain_hybridgraph.stores.engines.chroma import rows as chroma_rows
from langchain_hybridgraph.stores.engines.chroma import server as chroma_server
from langchain_hybridgraph.stores.engines.chroma import server_search as chroma_server_search
from langchain_hybridgraph.stores.engines.chroma.client import ChromaServer
from langchain_hybridgraph.stores.engines.vector_matrix import unit
from langchain_hybridgraph.testing import StoreSuite
from tests.support.servers.chroma_server import ChromaRun

MODEL = DeterministicFakeEmbedding(size=16)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    run = ChromaRun(tmp_path_factory.mktemp("server"))
    run.start()
    yield run
    run.stop()


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Search the server from ten chunks on, and try it again at once after a failure."""
    monkeypatch.setattr(vector_engine_choice, "LEAST_SERVER_ROWS", 10)
    monkeypatch.setattr(chroma_server, "PAUSE", 0.0)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "index"


def opened(folder, server, **options):
    url = server if isinstance(server, str | ChromaServer) else server.url
    return HybridGraphStore(folder, MODEL, vector_server=url, **options)


def add(store, first, last):
    store.add_texts([f"text {n}" for n in range(first, last)], ids=[str(n) for n in range(first, last)])


def nearest(store, text, k=3):
    """Return the ids of the nearest chunks and the reason, which is set if the server could not be searched."""
    result = store.vector_search(Query(text, k), k)
    return [entry.id for entry in result.entries], result.reason


def collections(server):
    with closing(chromadb.HttpClient(port=server.port)) as client:
        return {each.name: each for each in client.list_collections() if each.name.startswith("hybridgraph-")}


def state(store):
    return store._index.shared.server._state()


@contextmanager
def counted(monkeypatch):
    """Collect the searches sent to the server."""
    searches, start = [], chroma_server_search.ChromaSearch.start

    def counting(connections, collection, vector, n):
        searches.append(n)
        return start(connections, collection, vector, n)

    monkeypatch.setattr(chroma_server_search.ChromaSearch, "start", counting)
    yield searches


class TestWithServer(StoreSuite):
    @pytest.fixture
    def open_tenant(self, server, folder, monkeypatch):
        monkeypatch.setattr(vector_engine_choice, "LEAST_SERVER_ROWS", 1)
        options = {"embedding": self.embedding, "name": "words", "vector_server": ChromaServer.parse(server.url)}
        return lambda tenant: closing(EmbeddedStore(IndexSettings(path=folder, tenant=tenant, **options)))

    @pytest.fixture
    def open_again(self, open_tenant):
        return lambda: open_tenant(None)

    @pytest.fixture
    def store(self, open_again):
        with open_again() as store:
            yield store
            assert not store._index.shared.server.is_failing

    def test_vector_search_asks_the_server(self, full_store, monkeypatch):
        """A vector search over the suite's five chunks sends one search to the server."""
        with counted(monkeypatch) as searches:
            assert full_store.vector_search(Query("the cat", 1), 1).entries[0].id == "dog"
        assert len(searches) == 1


def test_the_server_is_searched(server, folder, monkeypatch):
    """From ten chunks on, a vector search sends one request, with the same results as the matrix."""
    with opened(folder, server) as store, counted(monkeypatch) as searches:
        add(store, 0, 9)
        before = nearest(store, "text 3")
        assert searches == []
        add(store, 9, 40)
        exact = store._index.generation.matrix.scores(unit(MODEL.embed_query("text 3")), range(40))
        assert nearest(store, "text 3") == ([str(n) for n in exact.argsort()[::-1][:3]], None)
        assert (len(searches), before[1]) == (1, None)


def test_words_are_searched_while_the_server_computes(server, folder, monkeypatch):
    """A hybrid search sends its query to the server, searches by keywords, and then waits for the server's answer."""
    events = []
    start, keyword_search = chroma_server_search.ChromaSearch.start, Reader.keyword_search

    def starting(*query):
        events.append("sent")
        result = start(*query)
        return lambda: events.append("received") or result()

    def searching(*query):
        events.append("words")
        return keyword_search(*query)

    with opened(folder, server) as store:
        add(store, 0, 20)
        monkeypatch.setattr(chroma_server_search.ChromaSearch, "start", starting)
        monkeypatch.setattr(Reader, "keyword_search", searching)
        assert HybridRetriever(store).invoke("text 3")[0].id == "3"
    assert events == ["sent", "words", "received"]


def test_deleted_and_changed_chunks_leave_the_server(server, folder):
    """The server's collection contains exactly the rows of present chunks, and check() compares them."""
    with opened(folder, server) as store:
        add(store, 0, 20)
        store.delete(["3"])
        store.add_texts(["text seven"], ids=["7"])
        assert nearest(store, "text seven", 1) == (["7"], None)
        assert state(store).rows == 19
        assert store.admin.check().problems == ()


def test_a_filter_is_answered_by_the_folder(server, folder, monkeypatch):
    """A filter that matches few chunks is evaluated with the matrix, and the result is not marked as degraded."""
    with opened(folder, server) as store, counted(monkeypatch) as searches:
        store.add_texts([f"text {n}" for n in range(20)], [{"year": n} for n in range(20)])
        result = HybridRetriever(store).retrieve("text 3", filter={"year": {"$lt": 5}})
        assert {hit.chunk.metadata["year"] for hit in result.hits} == {0, 1, 2, 3, 4}
        assert (searches, SERVER_REASON in result.degraded) == ([], False)


def test_other_processes_search_the_server(server, folder):
    """A read-only process searches the server while another process has the index open for writing."""
    with opened(folder, server) as store:
        add(store, 0, 20)
        code = (
            "import sys; from langchain_hybridgraph import HybridGraphStore\n"
            "from langchain_hybridgraph.records import Query\n"
            "from langchain_hybridgraph.stores.engines import vector_engine_choice as v; v.LEAST_SERVER_ROWS = 10\n"
            "from langchain_core.embeddings import DeterministicFakeEmbedding as Model\n"
            "store = HybridGraphStore(sys.argv[1], Model(size=16), vector_server=sys.argv[2], read_only=True)\n"
            "found = store.vector_search(Query('text 3', 3), 3)\n"
            "print(found.entries[0].id, found.reason, store._index.shared.server.is_open)"
        )
        command = [sys.executable, "-c", code, str(folder), server.url]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == [
            "3",
            "None",
            "True",
        ]


def test_the_folder_answers_while_the_server_is_away(tmp_path, folder):
    """While the server is down, searches use the folder; the next write after a restart sends the changes."""
    run = ChromaRun(tmp_path / "server")
    run.start()
    try:
        with opened(folder, run) as store:
            add(store, 0, 20)
            assert nearest(store, "text 3", 1) == (["3"], None)
            run.stop()
            assert nearest(store, "text 3", 1) == (["3"], SERVER_REASON)
            result = HybridRetriever(store).retrieve("text 3")
            assert (result.hits[0].id, SERVER_REASON in result.degraded) == ("3", True)
            add(store, 20, 30)
            store.delete(["3"])
            assert nearest(store, "text 25", 1) == (["25"], SERVER_REASON)
            assert [line.split(":")[0] for line in store.admin.check().unchecked] == ["Chroma"]
            run.start()
            add(store, 30, 31)
            assert nearest(store, "text 25", 1) == (["25"], None)
            assert state(store).rows == 30
            report = store.admin.check()
            assert (report.problems, report.unchecked) == ((), ())
    finally:
        run.stop()


def test_a_search_notices_that_the_server_is_back(tmp_path, folder):
    """After a restart, a search by a writable store sends the missed changes; a read-only search does not."""
    run = ChromaRun(tmp_path / "server")
    run.start()
    try:
        with opened(folder, run) as store:
            add(store, 0, 20)
            run.stop()
            add(store, 20, 30)
            assert nearest(store, "text 25", 1) == (["25"], SERVER_REASON)
            run.start()
            version = store._index.catalog.version()
            with opened(folder, run, read_only=True) as reader:
                assert nearest(reader, "text 25", 1) == (["25"], SERVER_REASON)
                assert not store._index.shared.server.completion.locked()
            deadline = time.monotonic() + 120
            while nearest(store, "text 25", 1)[1] is not None and time.monotonic() < deadline:
                time.sleep(0.05)
            assert nearest(store, "text 25", 1) == (["25"], None)
            assert (state(store).rows, store._index.catalog.version()) == (30, version)
    finally:
        run.stop()


@pytest.mark.faults
def test_nothing_is_lost_when_the_server_restarts_under_load(tmp_path, folder):
    """All rows of two concurrent writers reach the server, even if it is killed and restarted twice meanwhile."""
    run = ChromaRun(tmp_path / "server")
    run.start()
    code = (
        "import sys; from langchain_hybridgraph import HybridGraphStore\n"
        "from langchain_hybridgraph.stores.engines import vector_engine_choice as v\n"
        "from langchain_hybridgraph.stores.engines.chroma import server as s\n"
        "v.LEAST_SERVER_ROWS, s.PAUSE = 10, 0.0\n"
        "from langchain_core.embeddings import DeterministicFakeEmbedding as Model\n"
        "store = HybridGraphStore(sys.argv[1], Model(size=16), vector_server=sys.argv[2], write_timeout=120)\n"
        "for n in range(40):\n"
        "    store.add_texts([f'{sys.argv[3]} {n}'], ids=[f'{sys.argv[3]}-{n}'])\n"
        "    if n % 5 == 4: store.delete([f'{sys.argv[3]}-{n - 2}'])\n"
        "    print(n, flush=True)\n"
    )
    try:
        with opened(folder, run) as store:
            add(store, 0, 20)
        command = [sys.executable, "-c", code, str(folder), run.url]
        writers = [subprocess.Popen([*command, name], stdout=subprocess.PIPE, text=True) for name in "ab"]
        for wait in (5, 15):
            for writer in writers:
                while int(writer.stdout.readline()) < wait:
                    pass
            run.stop()
            run.start()
        assert [writer.communicate() and writer.returncode for writer in writers] == [0, 0]
        with opened(folder, run) as store:
            store.flush()
            assert len(store) == 20 + 2 * (40 - 8)
            report = store.admin.check()
            assert (report.problems, report.unchecked) == ((), ())
            assert state(store).rows == len(store)
    finally:
        run.stop()


def test_a_collection_that_is_not_ours_is_refused(server, folder):
    """A collection with the expected name but other metadata or another distance is refused and not written to."""
    with opened(folder, server) as store:
        add(store, 0, 20)
        name = store._index.shared.server._name(0)
    with closing(chromadb.HttpClient(port=server.port)) as client:
        metadata = client.get_collection(name).metadata
        client.delete_collection(name)
        for wrong in (
            {"metadata": {"owner": "someone"}},
            {"metadata": {**metadata, "dimension": 4}},
            {"metadata": metadata},
        ):
            client.create_collection(name, **wrong)  # the last one has another distance function
            with pytest.raises(ConfigurationError, match="not belong to this index"), opened(folder, server) as store:
                add(store, 20, 21)
            assert client.get_collection(name).count() == 0
            client.delete_collection(name)
    with opened(folder, server) as store:
        store.flush()
        assert nearest(store, "text 20", 1) == (["20"], None)


def test_a_collection_that_is_not_ours_is_not_searched(server, folder):
    """A read-only store searches the folder if the server's collection belongs to something else."""
    with opened(folder, server) as store:
        add(store, 0, 20)
        name = store._index.shared.server._name(0)
    with closing(chromadb.HttpClient(port=server.port)) as client:
        client.delete_collection(name)
        client.create_collection(name, metadata={"owner": "someone"})
    with opened(folder, server, read_only=True) as store:
        assert nearest(store, "text 3", 1) == (["3"], SERVER_REASON)


def test_a_deleted_collection_is_filled_again(server, folder):
    """If the collection is deleted by hand, searches use the folder, and the next write fills a new collection."""
    with opened(folder, server) as store:
        add(store, 0, 20)
        with closing(chromadb.HttpClient(port=server.port)) as client:
            client.delete_collection(store._index.shared.server._name(0))
        assert nearest(store, "text 3", 1) == (["3"], SERVER_REASON)
    with opened(folder, server) as store:
        add(store, 20, 21)
        assert (nearest(store, "text 3", 1), state(store).rows) == ((["3"], None), 21)


def test_rows_changed_by_hand_are_found_and_repaired(server, folder):
    """check() reports missing and foreign rows on the server, and repair() restores them."""
    with opened(folder, server) as store:
        add(store, 0, 20)
        collection = collections(server)[store._index.shared.server._name(0)]
        collection.delete(ids=["3", "4"])
        collection.upsert(ids=["77"], embeddings=[[1.0] * 16])
        problems = store.admin.check().problems
        assert [problem.split(";")[0] for problem in problems] == [
            "Chroma server: 2 chunks are missing",
            "Chroma server: 1 deleted chunks are still in it",
        ]
        assert store.admin.repair().problems == ()


def test_a_copied_folder_has_a_collection_of_its_own(server, folder, tmp_path):
    """A copied folder uses a new collection and does not change the original's."""
    with opened(folder, server) as store:
        add(store, 0, 20)
        own = store._index.shared.server._name(0)
    shutil.copytree(folder, tmp_path / "copy")
    with opened(tmp_path / "copy", server) as copy:
        add(copy, 20, 25)
        assert nearest(copy, "text 22", 1) == (["22"], None)
        assert copy._index.shared.server._name(0) != own
    assert collections(server)[own].count() == 20


def test_a_refitted_model_gets_a_new_collection(server, folder):
    """A refit fills a new collection and deletes the old model's."""
    with HybridGraphStore(folder, "lsa", vector_server=server.url) as store:
        texts = [
            f"The {animal} likes the {place}."
            for animal in ("cat", "dog", "cow", "hen")
            for place in ("mat", "sun", "barn")
        ]
        store.add_texts(texts)
        first = store._index.shared.server._name(None)
        store.admin.refit()
        store.flush()
        names = [name for name in collections(server) if name.startswith(first)]
        assert names == [f"{first}{store._index.generation.number}"]
        assert nearest(store, "the cat", 1)[1] is None


def test_a_large_index_is_filled_in_parts(server, folder, monkeypatch):
    """An existing index is sent to the server over several writes and requests until all rows are there."""
    with HybridGraphStore(folder, MODEL) as store:
        add(store, 0, 60)
    monkeypatch.setattr(chroma_server, "FILLED_AT_ONCE", 7)
    monkeypatch.setattr(chroma_rows, "REQUEST_BYTES", 4 * 16 * 3)
    with opened(folder, server) as store:
        assert state(store).applied == -1
        store.flush()
        assert state(store).rows == 60
        assert nearest(store, "text 41", 1) == (["41"], None)


def test_databases_of_the_server_are_kept_apart(server, folder):
    """The collection is created in the Chroma tenant and database that the settings name."""
    settings = chromadb.Settings(
        chroma_api_impl="chromadb.api.fastapi.FastAPI",
        chroma_server_host="127.0.0.1",
        chroma_server_http_port=server.port,
    )
    admin = chromadb.AdminClient(settings)
    admin.create_tenant("ada")
    admin.create_database("notes", "ada")
    settings = HybridGraphSettings(
        store_path=folder, store_vector_server={"url": server.url, "tenant": "ada", "database": "notes"}
    )
    with HybridGraphStore(folder, MODEL, vector_server=settings.store_vector_server) as store:
        add(store, 0, 20)
        name = store._index.shared.server._name(0)
        assert nearest(store, "text 3", 1) == (["3"], None)
    assert name not in collections(server)
    with closing(chromadb.HttpClient(port=server.port, tenant="ada", database="notes")) as client:
        assert client.get_collection(name).count() == 20


def test_a_server_that_never_answers_does_not_block(folder, monkeypatch):
    """A server that accepts connections but never answers makes writes and searches time out and use the folder."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with opened(folder, ChromaServer(url, timeout=0.2)) as store:
            add(store, 0, 20)
            assert len(store) == 20
            assert nearest(store, "text 3", 1) == (["3"], SERVER_REASON)


def test_a_server_that_stops_answering_does_not_block(server, folder):
    """The timeout also applies to requests on a connection that is already open."""
    with opened(folder, ChromaServer(server.url, timeout=0.3)) as store:
        add(store, 0, 20)
        with server.frozen():
            started_at = time.monotonic()
            add(store, 20, 30)
            assert nearest(store, "text 25", 1) == (["25"], SERVER_REASON)
            assert time.monotonic() - started_at < 30


def test_a_failing_server_is_not_tried_each_time(folder, monkeypatch):
    """After a failure, the server is not contacted again until the pause is over."""
    monkeypatch.setattr(chroma_server, "PAUSE", 60.0)
    tries = []
    monkeypatch.setattr(ChromaServer, "connect", lambda self: tries.append(1) or _fail())
    with opened(folder, "http://127.0.0.1:1") as store:
        add(store, 0, 20)
        add(store, 20, 25)
        assert nearest(store, "text 3", 1) == (["3"], SERVER_REASON)
    assert len(tries) == 1


def _fail():
    raise StoreError("away")


def test_token_and_headers_are_sent_and_kept_secret(folder):
    """The token and the headers are sent to the server, but do not appear in errors or in the repr."""
    headers = []

    class Refusing(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            headers.append((self.headers["x-chroma-token"], self.headers["x-team"]))
            self.send_response(401)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as refusing:
        threading.Thread(target=refusing.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{refusing.server_port}"
        server = ChromaServer(url, token="secret", headers={"x-team": "blue"})
        with pytest.raises(StoreError, match="401") as error:
            server.connect()
        refusing.shutdown()
    assert headers == [("secret", "blue")]
    assert "secret" not in f"{error.value} {server}"


def test_a_pickled_store_and_a_forked_child_search_the_server(server, folder):
    """An unpickled store and a forked child open new connections and search the server."""
    with opened(folder, server) as store:
        add(store, 0, 20)
        assert nearest(store, "text 3", 1) == (["3"], None)
        with pickle.loads(pickle.dumps(store)) as copy:
            assert nearest(copy, "text 4", 1) == (["4"], None)
        receiver, sender = os.pipe()
        if (child := os.fork()) == 0:
            os.write(sender, repr(nearest(store, "text 5", 1)).encode())
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(receiver, 100).decode() == "(['5'], None)"


def test_stores_of_a_process_agree_on_the_server(server, folder):
    """Opening a folder again in the same process with another server raises ConfigurationError."""
    with opened(folder, server), pytest.raises(ConfigurationError, match="pass the same vector_server every time"):
        opened(folder, "http://127.0.0.1:1")


@pytest.mark.parametrize(
    "form",
    [
        "localhost:8000",
        "ftp://host",
        8000,
        {},
        {"url": 8000},
        {"uri": "http://host"},
        {"url": "http://h", "timeout": 0},
        {"url": "http://h", "timeout": "long"},
    ],
)
def test_a_wrong_server_is_a_clear_error(folder, form):
    """A URL without http or https, an unknown field and a timeout of 0 raise ConfigurationError."""
    with pytest.raises(ConfigurationError):
        HybridGraphStore(folder, MODEL, vector_server=form)
    with pytest.raises(ConfigurationError, match="store_vector_server"):
        HybridGraphSettings(store_vector_server=form)


def test_an_unknown_field_of_a_server_is_an_error_with_a_suggestion(folder):
    """The error for a misspelt key suggests the correct key, and does not contain the values."""
    with pytest.raises(ConfigurationError, match=r"got the keys \['url', 'tokn'\]; did you mean 'token'\?") as error:
        HybridGraphStore(folder, MODEL, vector_server={"url": "http://h", "tokn": "secret"})
    assert "secret" not in str(error.value)


def test_a_store_in_memory_cannot_use_a_server():
    """Passing ``vector_server`` without a path raises ConfigurationError instead of ignoring the server."""
    with pytest.raises(ConfigurationError, match="a store in memory cannot use a vector_server"):
        HybridGraphStore(None, MODEL, vector_server="http://localhost:8000")


def two_tenants(folder, server):
    for tenant in ("ada", "bo"):
        with opened(folder, server, tenant=tenant) as store:
            store.add_texts([f"{tenant} {n}" for n in range(12)], ids=[f"{tenant}-{n}" for n in range(12)])
            name = store._index.shared.server._name(0)
    return name


def test_a_dropped_tenant_leaves_the_server_at_once(server, folder):
    """drop_tenant() deletes the tenant's vectors from the server and keeps those of other tenants."""
    name = two_tenants(folder, server)
    assert collections(server)[name].count() == 24
    drop_tenant(folder, "ada", vector_server=server.url)
    assert sorted(map(int, collections(server)[name].get(include=[])["ids"])) == list(range(12, 24))


def test_dropping_a_tenant_requires_the_server_of_the_folder(server, folder):
    """drop_tenant() without the folder's server raises ConfigurationError and deletes nothing."""
    two_tenants(folder, server)
    with pytest.raises(ConfigurationError, match=f"also on the Chroma server {server.url}"):
        drop_tenant(folder, "ada")
    assert list_tenants(folder) == {"ada": 12, "bo": 12}


def test_dropping_a_tenant_reports_vectors_that_stay_on_the_server(server, folder):
    """If the server does not answer, drop_tenant() raises StoreError, and a later flush empties the server."""
    name = two_tenants(folder, server)
    with server.frozen(), pytest.raises(StoreError, match="did not answer and still has the tenant's vectors"):
        drop_tenant(folder, "ada", vector_server=ChromaServer(server.url, timeout=0.3))
    assert list_tenants(folder) == {"bo": 12}
    with opened(folder, server, tenant="bo") as store:
        store.flush()
    assert collections(server)[name].count() == 12


def test_a_tenant_finds_only_its_own_chunks_on_the_server(server, folder):
    """A tenant's search returns only its own chunks, although the server's collection contains those of all tenants."""
    for tenant in ("ada", "bo"):
        with opened(folder, server, tenant=tenant) as store:
            store.add_texts([f"{tenant} {n}" for n in range(12)], ids=[f"{tenant}-{n}" for n in range(12)])
    with opened(folder, server, tenant="ada") as store:
        result = store.vector_search(Query("bo 3", 12, Scope(tenant="ada")), 12)
        assert {entry.id for entry in result.entries} == {f"ada-{n}" for n in range(12)}
