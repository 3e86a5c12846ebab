"""Readers during writes, in other processes and threads: every result is correct, and the last one current."""

import json
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.busy_writer import open_store
from tests.faults.watcher import Watcher, chunks, write

WATCHER = "tests.faults.watcher"
ROOT = Path(__file__).parents[2]
KINDS = ["words", "fitted"]


def start(verb, folder, kind, *more):
    return subprocess.Popen(
        [sys.executable, "-m", WATCHER, verb, str(folder), kind, *map(str, more)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def processes(folder, kind, readers, rounds):
    write(folder, kind, 1)
    with closing(open_store(folder, kind)) as store:
        store.remove(["end"])
    watchers = [start("watch", folder, kind) for _ in range(readers)]
    writer = start("write", folder, kind, rounds)
    outcomes = [process.communicate() for process in (writer, *watchers)]
    assert [process.returncode for process in (writer, *watchers)] == [0] * (readers + 1), outcomes
    for output, _ in outcomes[1:]:
        report = json.loads(output)
        assert (report["wrong"], report["over"], report["last"]) == ({}, True, rounds - 1)
        assert report["looks"] > 0


@pytest.mark.parametrize("kind", KINDS)
def test_processes_read_during_writes(tmp_path, kind):
    """Two processes get correct results while a third rewrites all chunks, refits and rebuilds."""
    processes(tmp_path / "index", kind, 2, 6)


@pytest.mark.faults
@pytest.mark.parametrize("kind", KINDS)
def test_processes_read_during_long_writes(tmp_path, kind):
    """Five processes get correct results during 150 rounds of writes."""
    processes(tmp_path / "index", kind, 5, 150)


def threads(folder, kind, rounds):
    with closing(open_store(folder, kind)) as store:
        store.upsert(chunks(0))
        store.flush()
        stop, watchers, errors = threading.Event(), [Watcher(store) for _ in range(8)], []

        def look(watcher):
            try:
                while not stop.is_set():
                    watcher.look()
            except Exception as error:  # noqa: BLE001 - whatever a thread meets is the test's to tell
                errors.append(error)

        running = [threading.Thread(target=look, args=(watcher,)) for watcher in watchers]
        for thread in running:
            thread.start()
        for version in range(1, rounds):
            store.upsert(chunks(version))
            if kind == "fitted" and version % 4 == 3:
                store.embedding.is_due = True
            store.flush()
            if version % 10 == 9:
                store.admin.repair()
        stop.set()
        for thread in running:
            thread.join()
        assert errors == []
        assert [watcher.wrong for watcher in watchers] == [{}] * 8
        assert all(watcher.looks > 1 for watcher in watchers)
        watchers[0].look()
        assert (max(watchers[0].versions), watchers[0].wrong) == (rounds - 1, {})
        assert store.admin.check().problems == ()


@pytest.mark.parametrize("kind", KINDS)
def test_threads_read_during_writes(tmp_path, kind):
    """Eight threads get correct results from one store while another thread rewrites all chunks."""
    threads(tmp_path / "index", kind, 11)


@pytest.mark.parametrize("kind", KINDS)
def test_threads_read_during_writes_in_memory(kind):
    """Eight threads get correct results from a store in memory while another thread rewrites all chunks."""
    threads(None, kind, 11)


@pytest.mark.faults
@pytest.mark.parametrize("kind", KINDS)
def test_threads_read_during_long_writes(tmp_path, kind):
    """Eight threads get correct results during 200 rounds of writes."""
    threads(tmp_path / "index", kind, 200)
