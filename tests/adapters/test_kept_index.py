"""Keyword index of another vector store, shared by retrievers and kept in a folder."""

import copy
import os
import pickle
import shutil
import signal
import threading
from datetime import datetime
from pathlib import Path
from unittest.mock import Mock

import pytest
from langchain_chroma import Chroma
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_hybridgraph import HybridRetriever
from langchain_hybridgraph.errors import ConfigurationError, NotAnIndexError, ReadOnlyError, StoreError
from tests.support.servers.python_process import start_python
from tests.support.stores.bare_store import BareStore
from tests.support.stores.real_stores import STORES, TEXTS, close

LISTABLE = ["chroma", "faiss l2", "qdrant", "milvus cosine", "in memory", "llama_index"]  # one of each kind
EMBEDDING = DeterministicFakeEmbedding(size=8)
LOCK = "langchain_hybridgraph.stores.writer_lock.FileLock.acquire"
OPENED = "import sys; from tests.adapters.test_kept_index import "


def notes(folder, name="notes"):
    return Chroma(name, EMBEDDING, persist_directory=str(folder / "chroma"))


def fill(store, numbers=range(20)):
    texts = [f"Pump code{number} leaks." for number in numbers]
    store.add_texts(texts, [{"number": number} for number in numbers], ids=[f"p{number}" for number in numbers])


def ask(retriever, question, **options):
    """Return the ids of the texts that contain the words of the question; the embedding means nothing."""
    hits = retriever.retrieve(question, k=30, **options).hits
    return sorted(hit.chunk.id for hit in hits if hit.bm25_score is not None)


def opened(store, folder, **index):
    """Return a retriever as a new process would make it."""
    vars(store).pop("_hybridgraph_adapters", None)
    return HybridRetriever(store, index={"path": folder / "index", **index}, keyword_weight=0.9)


def generation(folder):
    return (folder / "index" / "current").read_text()


@pytest.fixture
def folder_index(tmp_path):
    """A folder with a Chroma collection and its keyword index."""
    store = notes(tmp_path)
    fill(store)
    opened(store, tmp_path)
    return tmp_path


# -- sharing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"language": "german"}, {"engine": "rank_bm25"}, {"id_key": "number"}])
def test_other_options_have_their_own_index(tmp_path, options):
    """Retrievers whose options change the index do not share it."""
    store = notes(tmp_path)
    fill(store)
    one, other = HybridRetriever(store), HybridRetriever(store, index=options)
    assert one.index.adapter.texts is not other.index.adapter.texts
    assert len(other.index.adapter.texts.chunks) == 20


def test_a_copy_of_the_store_has_its_own_index():
    """A store that has retrievers can still be copied, and the copy's index follows the copy."""
    store = InMemoryVectorStore.from_texts(["coal"], EMBEDDING)
    HybridRetriever(store)
    copies = [copy.deepcopy(store), pickle.loads(pickle.dumps(store)), copy.copy(store)]
    for each in copies[:2]:
        each.add_texts(["quokka"], ids=["q"])
        assert ask(HybridRetriever(each), "quokka") == ["q"]
    assert HybridRetriever(copies[2]).index.adapter.vector_store is copies[2]
    assert ask(HybridRetriever(store), "quokka") == []


# -- keeping ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", LISTABLE)
def test_every_listable_store_can_keep_its_index(kind, tmp_path):
    """An opened index has the same texts as one that was just built, for every kind of store."""
    make, options = STORES[kind]
    (tmp_path / "store").mkdir()
    store = make(list(TEXTS.values()), tmp_path / "store", **options)
    try:
        before, after = (opened(store, tmp_path).index.adapter.texts for _ in range(2))
        assert dict(before.chunks) == dict(after.chunks)
        assert after._is_loaded
    finally:
        close(store)


def test_an_opened_index_applies_changes(folder_index):
    """A later process finds texts added since, does not find deleted texts, and does not build the index again."""
    built = generation(folder_index)
    store = notes(folder_index)
    store.add_texts(["Valve part1 is new."], ids=["v1"])
    store.delete(["p3"])
    retriever = opened(store, folder_index)
    assert [ask(retriever, question) for question in ("part1", "code3", "code4")] == [["v1"], [], ["p4"]]
    assert generation(folder_index) == built


def test_scores_and_filters_are_those_of_an_index_in_memory(tmp_path):
    """Scores, filters and validity do not depend on whether the index was opened from a folder."""
    store = notes(tmp_path)
    fill(store)
    store.add_texts(["Pump code77 leaks."], [{"number": 77, "valid_until": "2020-01-01"}], ids=["p77"])
    opened(store, tmp_path)
    for question, options in [("code4 leaks", {}), ("pump", {"filter": {"number": {"$gt": 17}}}), ("code77", {})]:
        results = [
            [(hit.chunk, hit.score) for hit in retriever.retrieve(question, **options).hits]
            for retriever in (opened(store, tmp_path), HybridRetriever(store, keyword_weight=0.9))
        ]
        assert results[0] == results[1]
        assert results[0]
        assert all(chunk.id != "p77" for chunk, _ in results[0])


@pytest.mark.parametrize(
    ("other", "reason"),
    [({"language": "dutch"}, "another language"), ({"id_key": "number"}, "another id_key"), ({}, "another collection")],
)
def test_an_index_with_other_options_or_of_another_collection_is_replaced(folder_index, caplog, other, reason):
    """The index is built again, with the reason in the log, if it does not fit the retriever."""
    store = notes(folder_index, "notes" if other else "other")
    if not other:
        fill(store, range(50, 60))
    retriever = opened(store, folder_index, **other)
    assert reason in caplog.text
    assert len(ask(retriever, "pump")) == (20 if other else 10)


def truncate(file):
    os.truncate(file, file.stat().st_size // 2)


def overwrite(file):
    with file.open("r+b") as stream:
        stream.seek(file.stat().st_size // 3)
        stream.write(b"\x00garbage\xff")


def misspell(file):
    file.write_bytes(file.read_bytes().replace(b"leaks", b"leeks", 1))


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("changes.jsonl", misspell),
        ("changes.jsonl", truncate),
        ("changes.jsonl", os.remove),
        ("keywords/meta.json", os.remove),
        ("keywords/*.idx", overwrite),
        ("keywords/*.term", truncate),
    ],
)
def test_a_damaged_index_is_built_again(folder_index, caplog, file, damage):
    """If any file is damaged, the index is built again and the reason is logged."""
    (path,) = (folder_index / "index" / generation(folder_index)).glob(file)
    damage(path)
    retriever = opened(notes(folder_index), folder_index)
    assert "damaged" in caplog.text
    assert (len(ask(retriever, "pump")), ask(retriever, "code4")) == (20, ["p4"])
    assert retriever.index.adapter.texts._is_loaded


def test_an_index_without_its_pointer_is_not_called_damaged(folder_index):
    """Without the file that names the current generation, the folder has no index yet, and the error says so."""
    texts = opened(notes(folder_index), folder_index).index.adapter.texts
    (folder_index / "index" / "current").unlink()
    with pytest.raises(StoreError, match=r"^there is no index yet$"), texts.exclusive():
        pass


def build_slowly(folder):
    """Build the index again, and wait before it is complete."""
    Path.replace = lambda *paths: (print("ready", flush=True), threading.Event().wait())
    opened(notes(Path(folder)), Path(folder), language="german")


def test_a_killed_process_leaves_the_old_index(folder_index):
    """A process that is killed while it builds the index leaves the previous one, and its files are deleted later."""
    built = generation(folder_index)
    with start_python("-W", "ignore", "-c", OPENED + f"*; build_slowly({str(folder_index)!r})") as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGKILL)
    assert ask(opened(notes(folder_index), folder_index), "code4") == ["p4"]
    assert generation(folder_index) == built
    opened(notes(folder_index), folder_index, language="german")
    assert len([each for each in (folder_index / "index").iterdir() if each.is_dir()]) == 1


def test_an_unfinished_change_is_ignored(folder_index):
    """A line that a killed process wrote without committing it has no effect."""
    folder = folder_index / "index" / generation(folder_index)
    with (folder / "changes.jsonl").open("ab") as file:
        file.write(b'{"half')
    store = notes(folder_index)
    store.add_texts(["Valve part1 is new."], ids=["v1"])
    assert ask(opened(store, folder_index), "part1") == ["v1"]
    assert ask(opened(store, folder_index), "part1") == ["v1"]
    assert generation(folder_index) == folder.name


def add_and_ask(folder, number):
    """Add texts one by one and search for each; several processes do this at the same time."""
    store = InMemoryVectorStore(EMBEDDING)
    store.add_texts([f"Pump code{n} leaks." for n in range(20)], ids=[f"p{n}" for n in range(20)])
    retriever = opened(store, Path(folder))
    for step in range(5):
        store.add_texts([f"Valve part{step} is new."], ids=[f"v{step}"])
        assert ask(retriever, f"part{step}") == [f"v{step}"], (number, step)
    print(len(ask(retriever, "valve")))


def test_several_processes_use_one_folder(tmp_path):
    """Processes that use the folder at the same time all find their texts, and the index is not damaged."""
    calls = [OPENED + f"*; add_and_ask({str(tmp_path)!r}, {n})" for n in (1, 2)]
    for process in [start_python("-W", "ignore", "-c", call) for call in calls]:
        out, errors = process.communicate(timeout=600)
        assert out.strip() == "5", errors
    store = InMemoryVectorStore(EMBEDDING)
    fill(store)
    assert len(ask(opened(store, tmp_path), "pump")) == 20


def test_vectors_that_another_process_has_added(folder_index):
    """Chroma cannot return them until it is opened again. Other texts keep their cosines, and a filter says why."""
    retriever = HybridRetriever(notes(folder_index), index={"path": folder_index / "index"})
    call = OPENED + f"*; from pathlib import Path; fill(notes(Path({str(folder_index)!r})), [20])"
    assert start_python("-W", "ignore", "-c", call).wait(600) == 0
    hits = {hit.id: hit.vector_score for hit in retriever.retrieve("code20 code3", k=30).hits}
    assert [id for id in hits if hits[id] is None] == ["p20"]
    result = retriever.retrieve("code20", filter={"number": {"$gte": 3}})
    assert result.degraded == ("vector-failed",)
    assert "another process has added" in result.plan["errors"]["vector"]


def test_two_indexes_of_one_folder_see_each_others_changes(tmp_path):
    """An index that was opened earlier loads what another one has written."""
    stores = [InMemoryVectorStore(EMBEDDING) for _ in range(2)]
    for store in stores:
        fill(store)
    first, second = (opened(store, tmp_path) for store in stores)
    for store in stores:
        store.add_texts(["Valve part1 is new."], ids=["v1"])
    assert ask(second, "part1") == ["v1"]
    changes = tmp_path / "index" / generation(tmp_path) / "changes.jsonl"
    last_change = changes.stat().st_mtime_ns
    assert ask(first, "part1") == ["v1"]
    assert changes.stat().st_mtime_ns == last_change
    for store in stores:
        store.delete(["v1", "p3"])
    assert ask(first, "valve") == ask(second, "valve") == []
    assert len(ask(first, "pump")) == len(ask(second, "pump")) == 19
    assert first.index.adapter.texts._folder == second.index.adapter.texts._folder
    assert len(changes.read_bytes().splitlines()) == 4


def test_an_index_that_was_replaced_by_another_one_is_stale(folder_index):
    """A retriever whose index was replaced by one in another language finds what it knows, and says so."""
    store = notes(folder_index)
    first = opened(store, folder_index)
    opened(store, folder_index, language="german")
    store.add_texts(["Valve part1 is new."], ids=["v1"])
    assert "another language" in first.retrieve("code4").plan["remarks"]["keyword-stale"]
    assert (ask(first, "code4"), ask(first, "part1")) == (["p4"], [])


ERRORS = {"os.fsync": OSError(28, "No space left on device"), LOCK: ReadOnlyError("the folder cannot be written to")}
FAILURES = [(place, Mock(side_effect=error)) for place, error in ERRORS.items()]


@pytest.mark.parametrize("is_built", [False, True])
@pytest.mark.parametrize("failure", FAILURES)
def test_a_folder_that_cannot_be_written_does_not_stop_construction(tmp_path, monkeypatch, caplog, is_built, failure):
    """If the folder cannot be written to, the index is in memory and the reason is logged."""
    store = notes(tmp_path)
    fill(store)
    if is_built:
        opened(store, tmp_path)
    monkeypatch.setattr(*failure)
    store.add_texts(["Valve part1 is new."], ids=["v1"])
    retriever = opened(store, tmp_path)
    assert ask(retriever, "part1") == ["v1"]
    assert len(ask(retriever, "pump")) == 20
    assert "in memory, not in" in caplog.text


def test_metadata_that_json_would_change_are_not_kept(tmp_path, caplog):
    """Metadata such as datetimes stay as they are: the index is in memory, and the reason is logged."""
    store = InMemoryVectorStore(EMBEDDING)
    store.add_documents([Document("coal", id="c", metadata={"day": datetime(2024, 5, 1)})])
    assert opened(store, tmp_path).invoke("coal")[0].metadata == {"day": datetime(2024, 5, 1)}
    assert "'day'" in caplog.text


def test_a_new_retriever_replaces_an_index_whose_folder_has_another_collection(tmp_path):
    """After another collection has taken the folder, a new retriever of the first one finds its new texts."""
    one, other = notes(tmp_path), notes(tmp_path, "other")
    fill(one)
    fill(other, range(3))
    opened(one, tmp_path)
    opened(other, tmp_path)
    one.add_texts(["Valve part1 is new."], ids=["v1"])
    retriever = HybridRetriever(one, index={"path": tmp_path / "index"}, keyword_weight=0.9)
    assert ask(retriever, "part1") == ["v1"]
    retriever.refresh()


def test_wrong_uses_of_a_path_are_errors(tmp_path):
    """Errors name what cannot be combined with a path and what to write instead."""
    store = InMemoryVectorStore.from_texts(["coal"], EMBEDDING)
    index = {"path": tmp_path / "index"}
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"documents= and index=.* both define"):
        HybridRetriever(store, [Document("coal")], index=index)
    with pytest.raises(ConfigurationError, match=r"keyword_retriever= and index=.* both define"):
        HybridRetriever(store, keyword_retriever=HybridRetriever(store), index=index)
    with pytest.raises(ConfigurationError, match="cannot be listed"):
        HybridRetriever(BareStore([], EMBEDDING), index=index)
    for path, message in [(tmp_path / "file", "is a file"), ("a" * 300, "cannot contain an index"), ("a\0b", "a NUL")]:
        with pytest.raises(NotAnIndexError, match=message):
            HybridRetriever(store, index={"path": path})
    with pytest.raises(ValueError, match="path is for the engine 'tantivy'"):
        HybridRetriever(store, index={**index, "engine": "rank_bm25"})
    with pytest.raises(ConfigurationError, match="kept in a folder"):
        HybridRetriever(store, index=index).refresh([Document("coal")])


@pytest.mark.parametrize("failure", FAILURES)
def test_an_index_whose_folder_cannot_be_written_continues_in_memory(folder_index, monkeypatch, caplog, failure):
    """From the first change that cannot be written on, all changes are applied in memory; the log says so once."""
    store = notes(folder_index)
    retriever = opened(store, folder_index)
    monkeypatch.setattr(*failure)
    for number in (1, 2):
        store.add_texts([f"Valve part{number} is new."], ids=[f"v{number}"])
        assert ask(retriever, f"part{number}") == [f"v{number}"]
        store.delete([f"p{number}"])
        assert ask(retriever, f"code{number}") == []
    result = retriever.retrieve("code4", filter={"number": 4})
    assert (result[0].id, result.degraded, caplog.text.count("is in memory, not in")) == ("p4", (), 1)
    monkeypatch.undo()
    next_retriever = HybridRetriever(store, index={"path": folder_index / "index"})
    assert ask(next_retriever, "part2") == ["v2"]
    assert not next_retriever.index.adapter.texts.has_left_folder


@pytest.mark.parametrize("how", ["deleted", "unusable"])
def test_a_new_retriever_does_without_a_folder_that_broke(tmp_path, how):
    """If the folder is deleted or cannot hold a new text, this and the next retriever still find all texts."""
    store = InMemoryVectorStore(EMBEDDING)
    fill(store)
    index = {"path": tmp_path / "index"}
    first = HybridRetriever(store, index=index, keyword_weight=0.9)
    assert ask(first, "code3") == ["p3"]
    metadata = {"day": datetime(2024, 5, 1)} if how == "unusable" else {}
    if how == "deleted":
        shutil.rmtree(tmp_path / "index")
    store.add_documents([Document("Valve part1 is new.", metadata=metadata)], ids=["v1"])
    for retriever in (first, HybridRetriever(store, index=index, keyword_weight=0.9)):
        assert ask(retriever, "part1") == ["v1"]
        assert ask(retriever, "code3") == ["p3"]
