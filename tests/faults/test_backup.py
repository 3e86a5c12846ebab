"""Backups while three processes write and five read."""

import os
import shutil
import threading
import time
from contextlib import closing

import pytest

from langchain_hybridgraph import HybridGraphStore, build_layers
from langchain_hybridgraph.errors import ConfigurationError, StoreError
from langchain_hybridgraph.records import Query, Scope
from tests.support.servers.python_process import start_python
from tests.support.stores.words import has_own_vectors, open_words

WRITER = """
import sys
from pathlib import Path
from tests.support.stores.words import has_own_vectors, open_words

store = open_words(Path(sys.argv[1]))
for number in range(10**9):
    ids = [f"{sys.argv[2]}x{number}x{part}" for part in range(3)]
    store.add_texts([f"text {id}" for id in ids], ids=ids)
    if number % 4 == 3:
        store.delete([f"{sys.argv[2]}x{number - 3}x0"])
        print("-" + f"{sys.argv[2]}x{number - 3}x0", flush=True)
    print(*ids, flush=True)
"""
READER = """
import sys
from pathlib import Path
from langchain_hybridgraph.records import Query
from tests.support.stores.words import has_own_vectors, open_words

store = open_words(Path(sys.argv[1]), read_only=True)
print("open", flush=True)
while True:
    for result in (store.keyword_search(Query("text seed", 3), 3), store.vector_search(Query("text seed", 3), 3)):
        assert result.reason is None, result.reason
        assert result.ids[0] == "seed", result.ids
"""


class Writing:
    """Processes that use an index, and the ids that the writers have reported as added."""

    def __init__(self, folder, writers, readers):
        self.added, self.deleted = set(), set()
        self._folder = folder
        self._writers = [self._start(WRITER, f"w{number}") for number in range(writers)]
        self._readers = [self._start(READER) for _ in range(readers)]
        self._threads = [threading.Thread(target=self._listen, args=(process,)) for process in self._writers]

    def _start(self, script, *arguments):
        return start_python("-c", script, self._folder, *arguments)

    def _listen(self, process):
        for line in process.stdout:
            if line.startswith("-"):
                self.deleted.add(line[1:].strip())
            else:
                self.added |= set(line.split())

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        for reader in self._readers:
            assert reader.stdout.readline() == "open\n"
        return self

    def __exit__(self, *_):
        for process in (*self._writers, *self._readers):
            process.kill()
            assert process.communicate()[1] == ""
        for thread in self._threads:
            thread.join()


def judge(backup, added, deleted):
    """Assert that a backup needs no repair, and contains all texts added before it."""
    with closing(open_words(backup, read_only=True)) as store:
        assert store.keyword_search(Query("seed", 1), 1).reason is None
    with closing(open_words(backup)) as store:
        ids = set(store.find(Scope()))
        assert added - deleted <= ids
        assert store.admin.check().problems == ()
        assert has_own_vectors(store, {id: f"text {id}" for id in ids})
        assert set(store.keyword_search(Query("text", 10**5), 10**5).ids) == ids


@pytest.mark.parametrize(("count", "readers"), [(3, 2), pytest.param(100, 5, marks=pytest.mark.faults)])
def test_backups_during_writes(tmp_path, count, readers):
    """Backups taken while three processes write and others read contain all earlier texts, and need no repair."""
    folder = tmp_path / "index"
    with closing(open_words(folder)) as store:
        store.add_texts(["text seed"], ids=["seed"])
    with Writing(folder, 3, readers) as writing, closing(open_words(folder)) as store:
        for number in range(count):
            before = len(writing.added)
            while len(writing.added) < before + 6:
                time.sleep(0.01)
            added = set(writing.added)
            backup = store.admin.backup(tmp_path / "backups" / str(number))
            judge(backup, added, writing.deleted)
            if number > 2:
                shutil.rmtree(backup)


def test_a_restored_backup(tmp_path):
    """A backup copied to the place of the lost index has its texts, model and summaries, and can be changed."""
    index = tmp_path / "index"
    with closing(HybridGraphStore(index, "lsa", tenant="ada")) as store:
        store.add_texts(
            ["Cats purr.", "Dogs bark."], [{"uri": "pets/cats.md"}, {"uri": "pets/dogs.md"}], ids=["c", "d"]
        )
        build_layers(store)
        store.admin.backup(tmp_path / "backup")
        store.add_texts(["Birds sing."], ids=["b"])
    segments = [path for path in (tmp_path / "backup" / "keywords").iterdir() if path.stat().st_nlink > 1]
    assert len(segments) > 1
    shutil.rmtree(index)
    shutil.copytree(tmp_path / "backup", index)
    for folder in (index, tmp_path / "backup"):
        with closing(HybridGraphStore(folder, tenant="ada")) as store:
            assert store.admin.check().problems == ()
            assert store.summaries.index().document_ids() == ["pets"]
            assert store.similarity_search("purr", k=1)[0].id == "c"
            store.add_texts(["Fish swim."], ids=["f"])
            assert store.find(Scope(tenant="ada")) == ["c", "d", "f"]


def test_backups_are_refused_or_leave_nothing(tmp_path):
    """A backup over files, into the index or of an index in memory raises an error and writes nothing."""
    with closing(open_words(tmp_path / "index")) as store, closing(open_words()) as in_memory:
        store.add_texts(["text"], ids=["a"])
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "notes.txt").write_text("mine")
        with pytest.raises(ConfigurationError, match="full already exists: pass a new folder"):
            store.admin.backup(tmp_path / "full")
        with pytest.raises(ConfigurationError, match="is inside the index"):
            store.admin.backup(tmp_path / "index" / "backup")
        with pytest.raises(StoreError, match="index in memory cannot be backed up"):
            in_memory.admin.backup(tmp_path / "backup")
        with pytest.raises(StoreError, match=r"backup .*txt/backup cannot be written"):
            store.admin.backup(tmp_path / "full" / "notes.txt" / "backup")
        assert sorted(os.listdir(tmp_path)) == ["full", "index"]
