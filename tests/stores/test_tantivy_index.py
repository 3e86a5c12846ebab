"""Behaviour specific to Tantivy's index, such as a folder shared by processes."""

import json
import math
import os
import resource
import selectors
import signal
import threading
from contextlib import closing
from pathlib import Path

import pytest
import tantivy

from langchain_hybridgraph.errors import ReadOnlyError, StoreError
from langchain_hybridgraph.stores.tantivy_index import TantivyIndex, tantivy_errors
from tests.support.python_process import output_of_python, start_python


@pytest.fixture
def folder(tmp_path):
    """Return a folder whose index has the texts "ada" and "charles" in rows 0 and 1, at version 1."""
    with_two = tmp_path / "keywords"
    index = TantivyIndex(with_two, writable=True)
    index.apply(1, [(0, "ada"), (1, "charles")], [])
    index.close()
    return with_two


def search(index, text, n=100):
    return [row for row, _ in index.search(text, n)]


# -- scores ----------------------------------------------------------------------------------------------------


def test_the_bound_is_the_sum_of_idfs():
    """The bound is the sum of idf · 2.2 over the words of the query, including repeated ones."""
    index = TantivyIndex(None, "none")
    index.apply(1, [(0, "a b"), (1, "b")], [])
    once = 2.2 * (math.log(1 + 2.5 / 1.5) + 2 * math.log(1 + 1.5 / 2.5))
    assert index.question("a b b unknown").bound == pytest.approx(once, rel=1e-5)


def test_the_bound_holds_while_removed_texts_still_count():
    """The bound is correct while Tantivy's statistics still include removed texts."""
    index = TantivyIndex(None, "none")
    index.apply(1, [(row, ("a " if row % 50 == 0 else "b ") * 200) for row in range(400)], [])
    index.apply(2, [], [row for row in range(400) if row % 50])
    (score, *_) = (score for _, score in index.search("a", 1))
    assert 0.95 * index.question("a").bound < score <= index.question("a").bound


# -- the folder ------------------------------------------------------------------------------------------------


def test_another_language_is_a_store_error(folder):
    """Opening an index with another language raises a StoreError that suggests a rebuild."""
    with pytest.raises(StoreError, match=r"english.*german.*rebuild"):
        TantivyIndex(folder, "german")


# -- several at once -------------------------------------------------------------------------------------------


def test_searches_run_during_writes(folder):
    """Searches in other threads return complete results while a thread writes and merges."""
    index = TantivyIndex(folder, writable=True)
    wrong = []

    def ask():
        while index.applied_version < 12:
            if search(index, "ada")[:1] != [0] or index.scores("ada", [0]).keys() != {0}:
                wrong.append(index.applied_version)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for version in range(2, 13):
        index.apply(version, [(version, "ada")], [1])
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_folder_that_may_only_be_read_is_read(folder, monkeypatch):
    """A read-only folder is searched without changing a file, and later commits of other processes are seen."""
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda path, mode: False)
        reader = TantivyIndex(folder, writable=True)
    for lock in folder.glob(".*.lock"):
        lock.chmod(0)
    assert (reader.applied_version, search(reader, "ada")) == (1, [0])
    with pytest.raises(ReadOnlyError):
        reader.apply(2, [], [])
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    for lock in folder.glob(".*.lock"):
        lock.chmod(0o644)
    writer = TantivyIndex(folder, writable=True)
    writer.apply(2, [(2, "ada")], [0])
    reader.reload()
    assert (reader.applied_version, search(reader, "ada")) == (2, [2])
    reader.close()
    writer.close()


# -- the engine's edge -----------------------------------------------------------------------------------------


def test_a_panic_is_a_store_error(folder, capfd):
    """A panic in Tantivy, which is a BaseException, is raised as a StoreError."""
    index = TantivyIndex(folder)
    with pytest.raises(StoreError, match="the search failed"), tantivy_errors("the search failed"):
        index._searcher.search(tantivy.Query.all_query(), 0)
    assert search(index, "ada") == [0]


# -- crashes ---------------------------------------------------------------------------------------------------


WRITE_ON = """
import sys
from pathlib import Path
from langchain_hybridgraph.stores.tantivy_index import TantivyIndex
index = TantivyIndex(Path(sys.argv[1]), writable=True)
while True:
    version = index.applied_version + 1
    index.apply(version, [(version * 10 + i, f"ada v{version}") for i in range(5)], [(version - 1) * 10])
    print(version, flush=True)
"""


def rows_of(version):
    rows = {v * 10 + i for v in range(1, version + 1) for i in range(5)}
    return rows - {v * 10 for v in range(1, version)}


def test_a_killed_writer_leaves_a_whole_index(tmp_path):
    """After kill -9, the version and the rows agree, and no confirmed batch is lost."""
    reported = 0
    for confirmed in (1, 2, 5):
        writer = start_python("-c", WRITE_ON, tmp_path / "keywords")
        with selectors.DefaultSelector() as ready:  # select() takes no descriptor above 1,023
            ready.register(writer.stdout, selectors.EVENT_READ)
            assert ready.select(60)
        reported = max(int(writer.stdout.readline()) for _ in range(confirmed))
        writer.send_signal(signal.SIGKILL)
        rest, _ = writer.communicate()
        reported = max([reported, *map(int, rest.split())])
        index = TantivyIndex(tmp_path / "keywords")
        assert reported <= index.applied_version <= reported + 1
        assert index.rows() == rows_of(index.applied_version)
        assert set(search(index, "ada", 10_000)) == rows_of(index.applied_version)
        index.close()
    assert reported >= 8


FILL_UP = """
import json, resource, sys
from pathlib import Path
from langchain_hybridgraph.errors import StoreError
from langchain_hybridgraph.stores.tantivy_index import TantivyIndex
index = TantivyIndex(Path(sys.argv[1]), writable=True)
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
try:
    index.apply(2, [(10 + i, f"word{i} " * 50 + f"other{i}") for i in range(20_000)], [0])
except StoreError as error:
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    index.apply(3, [(2, "ada")], [])
    print(json.dumps([index.applied_version, sorted(index.rows()), str(error)]))
"""


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="the system cannot limit the size of files")
def test_a_full_disk_loses_nothing(folder):
    """A write to a full disk raises StoreError, existing rows are kept, and writing works again with free space."""
    applied, rows, error = json.loads(output_of_python("-c", FILL_UP, folder))
    assert (applied, rows) == (3, [0, 1, 2])
    assert "cannot write to the keyword index" in error
    index = TantivyIndex(Path(folder))
    assert (index.applied_version, search(index, "ada")) == (3, [0, 2])


def test_files_of_other_writers_do_not_accumulate(tmp_path):
    """If writers take turns and are opened again, the folder contains little more than the last commit's files."""
    writers = [TantivyIndex(tmp_path, writable=True), TantivyIndex(tmp_path, writable=True)]
    for version in range(1, 62):
        writers[version % 2].apply(version, [(version, f"word{version}")], [version - 10])
        if version % 10 == 0:
            place = version // 10 % 2
            writers[place].close()
            writers[place] = TantivyIndex(tmp_path, writable=True)
    segments = json.loads((tmp_path / "meta.json").read_text())["segments"]
    assert len(list(tmp_path.glob("*.idx"))) <= len(segments) + 1


def killed_before_the_commit(path):
    """Create a folder as left by a process killed in a commit: all files of the commit except its list."""
    index = TantivyIndex(path, writable=True)
    index.apply(1, [(row, f"word{row} cat") for row in range(20)], [])
    index.close()
    committed = (path / "meta.json").read_bytes()
    index = TantivyIndex(path, writable=True)
    index.apply(2, [(20, "late")], [3])
    index.close()
    (path / "meta.json").write_bytes(committed)
    assert list(path.glob("*.del"))


def test_remains_of_a_killed_process_do_not_stop_the_next_commit(tmp_path):
    """The next commit deletes leftovers of a killed process, even if its files would have the same names."""
    killed_before_the_commit(tmp_path / "words")
    with closing(TantivyIndex(tmp_path / "words", writable=True)) as index:
        assert index.applied_version == 1
        index.apply(2, [(20, "late")], [3])
        assert (index.rows(), index.search("late", 5)[0][0]) == ({*range(21)} - {3}, 20)
