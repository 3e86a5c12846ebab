"""Read-only folders: searches work, and changes raise an error with the reason."""

import os
import signal
from contextlib import ExitStack, closing

import pytest

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import ReadOnlyError
from langchain_hybridgraph.records import Query, Scope
from tests.faults.busy_writer import open_store
from tests.faults.mounts import mounted
from tests.support.servers.python_process import start_python

KINDS = ["words", "fitted"]
ADD_AND_DIE = """
import os, sys
from pathlib import Path
from tests.faults.busy_writer import open_store
from langchain_hybridgraph.records import Chunk
store = open_store(Path(sys.argv[1]), sys.argv[2])
store.upsert([Chunk("late", "late red zebra")])
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "index"


@pytest.fixture
def locked(tmp_path, folder):
    """Return a function that mounts the folder read-only at another path."""
    if os.geteuid() != 0:
        pytest.skip("a read-only view of a folder needs root")
    read_only = ["--bind", folder], ["-o", "remount,ro,bind"]
    with ExitStack() as stack:
        yield lambda: stack.enter_context(mounted(tmp_path / "locked", *read_only))


@pytest.fixture
def forbidden(folder):
    """Return a function that removes write permission from the folder, which has no effect for root."""

    def forbid():
        if os.geteuid() == 0:
            pytest.skip("root may write everywhere")
        for path in [*folder.rglob("*"), folder]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        return folder

    yield forbid
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)


def fill(folder, kind):
    with closing(open_store(folder, kind)) as store:
        store.upsert([Chunk("a", "red cat"), Chunk("b", "blue dog")])
        store.flush()


def search(store, text):
    by_word = list(store.keyword_search(Query(text, 9), 9).ids)
    return by_word, list(store.vector_search(Query(text, 9), 9).ids)[:1]


def judge(place, kind, read_only):
    with closing(open_store(place, kind, read_only=read_only)) as store:
        assert search(store, "dog") == (["b"], ["b"])
        assert search(store, "cat") == (["a"], ["a"])
        assert store.read(["a", "b", "c"], Scope(), {}).keys() == {"a", "b"}
        assert store.admin.stats()["chunks"] == 2
        report = store.admin.check()
        assert report.problems == ()
        for change in (lambda: store.upsert([Chunk("c", "x")]), lambda: store.remove(["a"]), store.admin.repair):
            with pytest.raises(ReadOnlyError):
                change()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("read_only", [True, False])
def test_a_read_only_file_system(folder, locked, kind, read_only):
    """An index on a read-only file system can be searched, whether opened with read_only or not."""
    fill(folder, kind)
    judge(locked(), kind, read_only)


@pytest.mark.parametrize("read_only", [True, False])
def test_a_folder_without_the_right_to_write(folder, forbidden, read_only):
    """An index in a folder without write permission can be searched, but not changed."""
    fill(folder, "words")
    judge(forbidden(), "words", read_only)


def test_commits_of_a_killed_writer_are_read(folder, locked):
    """On a read-only file system, the last commits of a killed writer are read from SQLite's log."""
    fill(folder, "words")
    assert start_python("-c", ADD_AND_DIE, folder, "words").wait() == -signal.SIGKILL
    assert (folder / "catalogue.sqlite-wal").stat().st_size > 0
    with closing(open_store(locked(), "words")) as store:
        assert store.get(["late"])[0].text == "late red zebra"
        assert list(store.vector_search(Query("zebra late", 1), 1).ids) == ["late"]
        assert search(store, "dog") == (["b"], ["b"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_reader_without_rights_follows_a_writer(folder, locked, kind):
    """A reader on a read-only file system always sees the last commit of a writer."""
    fill(folder, kind)
    with closing(open_store(locked(), kind)) as reader:
        assert search(reader, "dog") == (["b"], ["b"])
        for number in range(3):
            with closing(open_store(folder, kind)) as writer:
                writer.upsert([Chunk("b", f"green dog of round{number}")])
                assert reader.get(["b"])[0].text.endswith(f"round{number}")
                writer.flush()
                assert search(reader, f"round{number}")[0] == ["b"]
            assert reader.get(["b"])[0].text.endswith(f"round{number}")
            assert search(reader, "cat") == (["a"], ["a"])
        with closing(open_store(folder, kind)) as writer:  # the reader does not see the log of this commit
            writer.upsert([Chunk("b", "a grey dog")])
        assert reader.get(["b"])[0].text == "a grey dog"


def test_an_index_without_a_chunk(folder, locked):
    """An empty index on a read-only file system can be opened, and searches return an empty list."""
    open_store(folder, "words").close()
    with closing(open_store(locked(), "words")) as store:
        assert (len(store), search(store, "cat")) == (0, ([], []))
