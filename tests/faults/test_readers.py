"""Readers during writes, in other processes and threads: every result is correct, and the last one current.

    python -m tests.faults.test_readers write FOLDER words|fitted ROUNDS
    python -m tests.faults.test_readers watch FOLDER words|fitted

A writer rewrites the same chunks. A watcher checks every result, stops when the chunk "end" appears, and reports in
JSON what it saw.
"""

import json
import re
import sys
import threading
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.records import Edge, Query, Scope
from tests.faults.busy_writer import open_store
from tests.support.servers.python_process import start_python

IDS = [f"c{number:02}" for number in range(50)]
PATIENCE = 60.0  # seconds without a new version


def versions(texts):
    return {int(re.search(r"version(\d+)", text)[1]) for text in texts}


def chunks(version):
    return [Chunk(id, f"all version{version} word{id} {'very ' * (version % 5)}red", {"v": version}) for id in IDS]


def fit_and_flush(store, kind, version):
    store.embedding.is_due = kind == "fitted" and version % 4 == 3
    store.flush()


def write(folder, kind, rounds):
    """Change all chunks in one commit per round, and sometimes fit the model again or rebuild an engine."""
    store = open_store(folder, kind)
    for version in range(rounds):
        store.upsert(chunks(version), edges=[Edge("c00", "c01", "r")])
        store.upsert([Chunk(f"extra{version}", "extra")])
        fit_and_flush(store, kind, version)
        store.remove([f"extra{version - 1}"])
        if version % 5 == 4:
            store.admin.repair()
    store.upsert([Chunk("end", "end")])
    store.flush()
    store.close()


class Watcher:
    """Reader that searches a store repeatedly and counts errors."""

    def __init__(self, store):
        self.store = store
        self.wrong = Counter()
        self.versions = set()
        self.looks = 0

    def look(self):
        """Run every kind of search once."""
        self.looks += 1
        self._look_by_id()
        self._look_by_vector()
        self._look_by_word()

    def _look_by_id(self):
        read = self.store.read(IDS, Scope(), {})
        self.note(len(read) == len(IDS), f"read {len(read)} of {len(IDS)}")
        now = versions(chunk.text for chunk in read.values())
        self.note(len(now) == 1, f"{len(now)} commits in one read")
        self.note(not self.versions or min(now) >= max(self.versions), "went back in time")
        self.versions |= now

    def _look_by_vector(self):
        result = self.store.vector_search(Query("all red word", 60), 60)
        ids = [id for id in result.ids if id in IDS]
        scores = list(result.scores.values())
        self.note(scores == sorted(scores, reverse=True), "by vector: not best first")
        self.note(result.reason is None, f"by vector: {result.reason}")
        self.note(len(ids) == len(IDS), f"by vector: {len(IDS) - len(ids)} missing")

    def _look_by_word(self):
        result = self.store.keyword_search(Query("all red", 60), 60)
        scores = list(result.scores.values())
        self.note(scores == sorted(scores, reverse=True), "by word: not best first")
        self.note(
            result.reason in (None, "keyword-fallback", "no-keyword-index", "keyword-behind"),
            f"by word: {result.reason}",
        )

    def note(self, is_right, what):
        """Count an error unless the result is right."""
        if not is_right:
            self.wrong[what] += 1

    def is_over(self):
        """Return whether every kind of search finds the writer's last chunk."""
        by_word = self.store.keyword_search(Query("end", 1), 1).ids
        by_vector = set(self.store.vector_search(Query("all red end", 100), 100).ids)
        all_by_word = set(self.store.keyword_search(Query("all", 100), 100).ids)
        return bool(by_word) and "end" in by_vector and all_by_word == set(IDS)


def watch(folder, kind):
    """Search without a pause until the last chunk appears or no new version arrives for a minute."""
    store = open_store(folder, kind, read_only=True)
    watcher = Watcher(store)
    until, last = time.monotonic() + PATIENCE, -1
    while not (is_over := watcher.is_over()) and time.monotonic() < until:
        watcher.look()
        if (newest := max(watcher.versions, default=-1)) > last:
            until, last = time.monotonic() + PATIENCE, newest
        time.sleep(0.005)
    watcher.look()
    print(json.dumps({"over": is_over, "wrong": watcher.wrong, "looks": watcher.looks, "last": max(watcher.versions)}))


SCRIPT = "tests.faults.test_readers"
KINDS = ["words", "fitted"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("readers", "rounds"), [(2, 6), pytest.param(5, 150, marks=pytest.mark.faults)])
def test_processes_read_during_writes(tmp_path, kind, readers, rounds):
    """Processes get correct results while another one rewrites all chunks, refits and rebuilds."""
    folder = tmp_path / "index"
    write(folder, kind, 1)
    with closing(open_store(folder, kind)) as store:
        store.remove(["end"])
    watchers = [start_python("-m", SCRIPT, "watch", folder, kind) for _ in range(readers)]
    writer = start_python("-m", SCRIPT, "write", folder, kind, rounds)
    outcomes = [process.communicate() for process in (writer, *watchers)]
    assert [process.returncode for process in (writer, *watchers)] == [0] * (readers + 1), outcomes
    for output, _ in outcomes[1:]:
        report = json.loads(output)
        assert (report["wrong"], report["over"], report["last"]) == ({}, True, rounds - 1)
        assert report["looks"] > 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("on_disk", "rounds"), [(True, 11), (False, 11), pytest.param(True, 200, marks=pytest.mark.faults)]
)
def test_threads_read_during_writes(tmp_path, kind, on_disk, rounds):
    """Eight threads get correct results from one store while another thread rewrites all chunks."""
    with closing(open_store(tmp_path / "index" if on_disk else None, kind)) as store:
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
            fit_and_flush(store, kind, version)
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


if __name__ == "__main__":
    verb, place, kind, *rest = sys.argv[1:]
    if verb == "write":
        write(Path(place), kind, int(rest[0]))
    else:
        watch(Path(place), kind)
