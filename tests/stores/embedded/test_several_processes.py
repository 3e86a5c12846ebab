"""One folder used by several processes: concurrent writers, forks, pickled stores, and folders that are replaced."""

import asyncio
import contextlib
import hashlib
import json
import multiprocessing
import os
import pickle
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from functools import partial

import numpy as np
import pytest
import tantivy
from langchain_core.documents import Document

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from langchain_hybridgraph.errors import RetrievalError, StoreError, StoreLockedError
from langchain_hybridgraph.records import Query
from langchain_hybridgraph.stores import index as index_module
from langchain_hybridgraph.stores.index import IndexFolder
from langchain_hybridgraph.stores.writer_lock import WriterLock
from tests.support.models.query_embeddings import QueryEmbeddings
from tests.support.stores.words import ids_by_vector, ids_by_word

TEXTS_EACH = 15
PATIENCE = 120


class Distinct(QueryEmbeddings):
    """Embedding with a different vector for every text, the same in every process."""

    model = "distinct"

    def embed_query(self, text):
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        return np.random.default_rng(seed).standard_normal(32).tolist()


def opened(folder, **options):
    return HybridGraphStore(folder, Distinct(), **options)


def assert_found(store, ids):
    """Assert that both searches find exactly these texts, each of them once."""
    assert sorted(ids_by_vector(store, "text")) == sorted(ids_by_word(store, "text")) == sorted(ids)


def assert_all_there(folder, ids):
    """Assert that every text is stored once and is found by its own vector and by its own word."""
    with closing(opened(folder)) as store:
        assert len(store) == len(ids)
        assert_found(store, ids)
        for id in ids:
            [(best, score)] = store.similarity_search_with_score(f"text {id}", k=1)
            assert (best.id, round(score, 5)) == (id, 1.0)
            assert ids_by_word(store, id) == [id]
        assert store.admin.check().problems == ()


def add_one_at_a_time(store, who, count=TEXTS_EACH):
    ids = [f"{who}x{n}" for n in range(count)]
    for id in ids:
        store.add_texts([f"text {id}"], ids=[id])
    return ids


# -- writers in turn ------------------------------------------------------------------------------------------------


def write_in_another_process(folder, who, count=TEXTS_EACH):
    with closing(opened(folder)) as store:
        return add_one_at_a_time(store, who, count)


@pytest.mark.parametrize("makes_the_folder", ["parent", "children"])
def test_several_processes_add_at_the_same_time(folder, makes_the_folder):
    """Texts added by concurrent processes are stored exactly once, even if they also create the folder."""
    if makes_the_folder == "parent":
        opened(folder).close()
    with ProcessPoolExecutor(3, mp_context=multiprocessing.get_context("spawn")) as pool:
        jobs = [pool.submit(write_in_another_process, folder, f"p{n}") for n in range(3)]
        ids = {id for job in jobs for id in job.result(PATIENCE)}
    assert len(ids) == 3 * TEXTS_EACH
    assert_all_there(folder, ids)


@pytest.mark.parametrize("read_only", [True, False])
def test_a_process_leaves_the_fallback_when_another_has_rebuilt_the_index(folder, read_only):
    """A process that answers without the keyword index uses it as soon as another process has rebuilt it."""
    with closing(opened(folder)) as store:
        store.add_texts(["a cat purrs"], ids=["cat"])
    shutil.rmtree(folder / "keywords")
    (folder / "keywords").mkdir()
    builder = tantivy.SchemaBuilder()  # the schema of an earlier version
    builder.add_text_field("text", tokenizer_name="whitespace", index_option="freq")
    tantivy.Index(builder.build(), str(folder / "keywords"))
    with contextlib.ExitStack() as stack:
        with WriterLock(folder / "writer.lock").turn(timeout=1):  # a writable store cannot rebuild the index itself
            store = stack.enter_context(closing(opened(folder, read_only=read_only)))
        results = [store.keyword_search(Query("cat", 10), 10)]
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            assert pool.submit(write_in_another_process, folder, "nobody", 0).result(PATIENCE) == []
        results.append(store.keyword_search(Query("cat", 10), 10))
    assert [list(result.ids) for result in results] == [["cat"], ["cat"]]
    assert [result.reason for result in results] == ["keyword-fallback", None]


def test_a_writer_that_waits_too_long_raises_an_error(folder):
    """A write that waits too long raises an error that names the writing process and write_timeout."""
    with closing(opened(folder, write_timeout=0.05)) as store:
        store.add_texts(["text a"], ids=["a"])
        with WriterLock(folder / "writer.lock").turn(timeout=1):
            with pytest.raises(StoreLockedError, match=r"waited 0.05 s .*another process .*write_timeout"):
                store.add_texts(["text b"], ids=["b"])
            assert set(ids_by_word(store, "text")) == {"a"}
        store.add_texts(["text b"], ids=["b"])
        assert set(ids_by_word(store, "text")) == {"a", "b"}


def test_a_slow_embedding_does_not_block_other_writers(folder):
    """Another store can write while a slow embedding runs, because texts are embedded before the lock is taken."""
    is_embedding, may_go_on = threading.Event(), threading.Event()

    class Slow(Distinct):
        def embed_documents(self, texts):
            if "slow" in texts[0]:
                is_embedding.set()
                assert may_go_on.wait(PATIENCE)
            return super().embed_documents(texts)

    with closing(HybridGraphStore(folder, Slow())) as slow, closing(opened(folder, write_timeout=PATIENCE)) as other:
        other.add_texts(["text first"], ids=["first"])
        with ThreadPoolExecutor() as pool:
            pool.submit(slow.add_texts, ["text slow"], ids=["slow"])
            assert is_embedding.wait(PATIENCE)
            other.add_texts(["text other"], ids=["other"])
            may_go_on.set()
    assert_all_there(folder, {"first", "other", "slow"})


def test_a_text_that_changes_while_it_is_embedded_gets_its_own_vector(folder):
    """If another writer changes a chunk during the embedding call, its final text gets the right vector."""

    class Racing(Distinct):
        is_racing = False

        def embed_documents(self, texts):
            vectors = super().embed_documents(texts)
            if texts == ["text new"] and not self.is_racing:
                self.is_racing = True
                store.add_texts(["text old"], ids=["b"])
            return vectors

    with closing(HybridGraphStore(folder, Racing())) as store:
        store.add_texts(["text old", "text b"], ids=["a", "b"])
        store.add_texts(["text new", "text b"], ids=["a", "b"])
        assert [store.similarity_search(text, k=1)[0].id for text in ("text new", "text b")] == ["a", "b"]
        assert store.admin.check().problems == ()


async def test_adds_at_the_same_time_bring_the_engines_up_to_date_together(folder, monkeypatch):
    """Concurrent adds share engine updates: one update includes all texts written by then."""
    with closing(opened(folder)) as store:
        store.add_texts(["text first"], ids=["first"])
        steps, step = [], IndexFolder.sync_keywords
        monkeypatch.setattr(IndexFolder, "sync_keywords", lambda index: (steps.append(1), step(index)))
        documents = [Document(f"text n{n}", id=f"n{n}") for n in range(20)]
        await asyncio.gather(*(store.aadd_documents([document]) for document in documents))
    assert 0 < len(steps) < 20
    assert_all_there(folder, {"first", *(f"n{n}" for n in range(20))})


# -- forks ----------------------------------------------------------------------------------------------------------


class Child:
    """A forked child that runs a function; ``result`` waits for its return value, sent as JSON."""

    def __init__(self, work):
        self._reading, writing = os.pipe()
        self._process = os.fork()
        if not self._process:
            try:
                result = {"value": work()}
            except BaseException as error:  # noqa: BLE001 - the parent raises it
                result = {"error": f"{type(error).__name__}: {error}"}
            os.write(writing, json.dumps(result).encode())
            os._exit(0)
        os.close(writing)

    def result(self):
        with os.fdopen(self._reading) as file:
            result = json.loads(file.read())
        assert os.waitpid(self._process, 0)[1] == 0
        assert "error" not in result, result["error"]
        return result["value"]


@pytest.mark.parametrize("does_parent_write", [True, False])
def test_forked_children_of_a_process_that_has_written(folder, does_parent_write):
    """Forked children open the folder themselves, so no text is lost or gets another text's vector."""
    with closing(opened(folder)) as store:
        ids = set(add_one_at_a_time(store, "before", 5))
        assert set(ids_by_word(store, "text")) == ids
        children = [Child(lambda n=n: add_one_at_a_time(store, f"c{n}")) for n in range(2)]
        if does_parent_write:
            ids.update(add_one_at_a_time(store, "parent"))
        for child in children:
            ids.update(child.result())
        assert_found(store, ids)
    assert_all_there(folder, ids)


def test_a_child_that_only_searches(folder):
    """A retriever that was used before a fork finds the parent's earlier and later writes in the child."""
    with closing(opened(folder)) as store:
        store.add_texts(["text one", "text two"], ids=["one", "two"])
        retriever = HybridRetriever(store, k=5)
        assert {document.id for document in retriever.invoke("two")} == {"one", "two"}
        reading, writing = os.pipe()

        def search():
            os.read(reading, 1)
            return sorted(document.id for document in retriever.invoke("three"))

        child = Child(search)
        store.add_texts(["text three"], ids=["three"])
        os.write(writing, b"!")
        assert child.result() == ["one", "three", "two"]
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize("is_on_disk", [True, False])
@pytest.mark.parametrize("hold", [lambda index: index.writer(), lambda index: index.catalog.reading()])
def test_a_fork_in_the_middle_of_a_long_call(folder, monkeypatch, is_on_disk, hold):
    """If a fork cannot wait for a long call, the store raises StoreError in the child, but not in the parent."""
    monkeypatch.setattr(index_module, "FORK_PATIENCE", 0.05)
    is_writing, may_go_on = threading.Event(), threading.Event()
    with closing(opened(folder if is_on_disk else None)) as store:
        store.add_texts(["text a"], ids=["a"])

        def write():
            with hold(store._index):
                is_writing.set()
                assert may_go_on.wait(PATIENCE)

        thread = threading.Thread(target=write)
        thread.start()
        assert is_writing.wait(PATIENCE)

        def search():
            with pytest.raises(StoreError, match=r"was forked while another thread was using an index.*spawn"):
                len(store)
            return "refused"

        child = Child(search)
        may_go_on.set()
        thread.join(PATIENCE)
        assert child.result() == "refused"
        store.add_texts(["text b"], ids=["b"])
        assert_found(store, {"a", "b"})


def test_a_fork_inside_a_write_of_the_same_thread(folder, monkeypatch):
    """An embedding that forks a worker during a write does not hang, and the worker cannot write."""
    monkeypatch.setattr(index_module, "FORK_PATIENCE", 0.05)
    parent = os.getpid()

    class Forking(Distinct):
        def embed_documents(self, texts):
            if os.getpid() == parent:
                assert Child(lambda: store._index.shared is not None).result()
            return super().embed_documents(texts)

    with closing(HybridGraphStore(folder, Forking())) as store:
        with store._index.writer():
            store.add_texts(["text a"], ids=["a"])
        store.add_texts(["text b"], ids=["b"])
    assert_all_there(folder, {"a", "b"})


def test_an_index_in_memory_is_copied_by_a_fork(folder):
    """A forked child has a copy of an index in memory, and its additions do not appear in the parent."""
    with closing(HybridGraphStore(None, Distinct())) as store:
        store.add_texts(["text a"], ids=["a"])
        child = Child(lambda: [*store.add_texts(["text b"], ids=["b"]), *sorted(ids_by_word(store, "text"))])
        assert child.result() == ["b", "a", "b"]
        assert set(ids_by_word(store, "text")) == {"a"}


def test_a_fork_while_other_threads_use_an_index_in_memory():
    """A fork waits for the calls of other threads, so the child does not inherit a lock that is never released."""
    with closing(HybridGraphStore(None, Distinct())) as store:
        is_over = threading.Event()

        def write():
            while not is_over.is_set():
                store.add_texts(["text b"], ids=["b"])
                store.delete(["b"])

        def add():
            store.add_texts(["text c"], ids=["c"])
            return sorted(ids_by_word(store, "c"))

        threads = [threading.Thread(target=write) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            assert [Child(add).result() for _ in range(4)] == [["c"]] * 4
        finally:
            is_over.set()
            for thread in threads:
                thread.join()


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_a_pool_of_processes_gets_the_store_as_an_argument(folder, method):
    """A store passed to a process pool is opened by its path in each worker, with every start method."""
    with closing(opened(folder)) as store:
        store.add_texts(["text first"], ids=["first"])
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as pool:
            jobs = [pool.submit(add_one_at_a_time, store, f"p{n}", 5) for n in range(4)]
            ids = {id for job in jobs for id in job.result(PATIENCE)}
        assert set(ids_by_word(store, "text")) == ids | {"first"}
    assert_all_there(folder, ids | {"first"})


def test_a_retriever_with_a_named_embedding_is_pickled(tmp_path):
    """Unpickling a retriever creates a named embedding again from its name, including its fitted model."""
    with HybridGraphStore(tmp_path / "lsa", "lsa") as store:
        store.add_texts(["Invoices are sent monthly.", "A parcel takes two days."], ids=["invoice", "parcel"])
        copied = pickle.loads(pickle.dumps(HybridRetriever(store, k=1)))
        assert [document.id for document in copied.invoke("When are invoices sent?")] == ["invoice"]
        copied.vector_store.close()


GUNICORN = """
import os
from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from tests.stores.embedded.test_several_processes import Distinct

store = HybridGraphStore(os.environ["FOLDER"], Distinct())
store.add_texts(["text preloaded"], ids=["preloaded"])
retriever = HybridRetriever(store, k=3)
retriever.invoke("preloaded")

def app(environ, start_response):
    id = environ["PATH_INFO"].strip("/")
    store.add_texts([f"text {id}"], ids=[id])
    hit_id = store.similarity_search(f"text {id}", k=1)[0].id
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{os.getpid()} {hit_id}".encode()]
"""


def test_gunicorn_with_preload(tmp_path, folder):
    """gunicorn workers forked after the program has written and searched can add and find texts."""
    (tmp_path / "program.py").write_text(GUNICORN)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "gunicorn", "--preload", "--workers", "2", "--bind", f"127.0.0.1:{port}"]
    environment = {**os.environ, "FOLDER": str(folder), "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    server = subprocess.Popen([*command, "program:app"], cwd=tmp_path, env=environment)
    try:

        def add(id):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{id}", timeout=PATIENCE) as answer:
                return answer.read().decode().split()

        wait_for(lambda: add("first"), server)
        with ThreadPoolExecutor(4) as threads:
            answers = dict(zip(ids := [f"g{n}" for n in range(16)], threads.map(add, ids), strict=True))
        assert [hit_ids for _, hit_ids in answers.values()] == ids
        assert len({worker for worker, _ in answers.values()}) == 2
    finally:
        server.terminate()
        server.wait(PATIENCE)
    assert_all_there(folder, {"preloaded", "first", *ids})


def wait_for(attempt, process):
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return attempt()
        except OSError:
            assert process.poll() is None, "the server has ended"
            assert time.monotonic() < until, "the server does not answer"
            time.sleep(0.1)


# -- folders that are moved or replaced -------------------------------------------------------------------------------


def stored(folder, *ids):
    """Open an index to which a text for each id is added."""
    store = opened(folder)
    store.add_texts([f"text {id}" for id in ids], ids=list(ids))
    return store


def test_a_relative_path_outlives_a_change_of_the_working_directory(tmp_path, monkeypatch):
    """A store opened by a relative path keeps using its folder after the working directory changes."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with closing(stored("index", "a")) as store:
        monkeypatch.chdir(tmp_path / "elsewhere")
        store.add_texts(["text b"], ids=["b"])
    assert not (tmp_path / "elsewhere/index").exists()
    assert_all_there(tmp_path / "index", {"a", "b"})


def test_a_link_that_is_switched_to_another_index(tmp_path):
    """A store opened through a symbolic link keeps using the original folder after the link is changed."""
    for name in ("first", "second"):
        stored(tmp_path / name, name).close()
    link = tmp_path / "current"
    link.symlink_to(tmp_path / "first")
    with closing(opened(link)) as store:
        link.unlink()
        link.symlink_to(tmp_path / "second")
        store.add_texts(["text late"], ids=["late"])
    assert_all_there(tmp_path / "first", {"first", "late"})
    assert_all_there(tmp_path / "second", {"second"})


def test_a_folder_that_was_made_again_at_the_same_path(folder):
    """If the folder is replaced by a new index, the old store raises errors and the new index is not changed."""
    with closing(stored(folder, "a")) as old:
        shutil.rmtree(folder)
        new = stored(folder, "b", "c", "d")
        with pytest.raises(StoreError, match="was deleted or replaced while it was open: close this"):
            old.add_texts(["text e"], ids=["e"])
        with pytest.raises(RetrievalError, match="was deleted or replaced while it was open"):
            HybridRetriever(old).invoke("text")
        assert new.admin.check().problems == ()
        assert_found(new, {"b", "c", "d"})
    with closing(new):
        new.add_texts(["text f"], ids=["f"])
    assert_all_there(folder, {"b", "c", "d", "f"})


def test_a_catalog_that_was_deleted(folder):
    """A store whose catalog was deleted refuses reads and writes, and does not create the file again."""
    with closing(stored(folder, "a")) as store:
        (folder / "catalogue.sqlite").unlink()
        for call in (partial(store.add_texts, ["text b"]), partial(len, store)):
            with pytest.raises(StoreError, match="was deleted or replaced while it was open"):
                call()
    assert not (folder / "catalogue.sqlite").exists()
