"""Concurrent processes: one writes the same chunks again and again, others check that nothing is ever wrong.

    python -m tests.faults.watcher write FOLDER words|fitted ROUNDS
    python -m tests.faults.watcher watch FOLDER words|fitted

A watcher stops when the chunk "end" is there, and reports in JSON what it saw.
"""

import json
import re
import sys
import time
from collections import Counter
from pathlib import Path

from langchain_hybridgraph.records import Chunk, Edge, Query, Scope
from tests.faults.busy_writer import open_store

IDS = [f"c{number:02}" for number in range(50)]
PATIENCE = 60.0  # seconds without anything new


def versions(texts):
    return {int(re.search(r"version(\d+)", text)[1]) for text in texts}


def chunks(version):
    return [Chunk(id, f"all version{version} word{id} {'very ' * (version % 5)}red", {"v": version}) for id in IDS]


def write(folder, kind, rounds):
    """Write rounds of one commit that changes all chunks; sometimes fit the model again or rebuild an engine."""
    store = open_store(folder, kind)
    for version in range(rounds):
        store.upsert(chunks(version), edges=[Edge("c00", "c01", "r")])
        store.upsert([Chunk(f"extra{version}", "extra")])
        if kind == "fitted" and version % 4 == 3:
            store.embedding.is_due = True
        store.flush()
        store.remove([f"extra{version - 1}"])
        if version % 5 == 4:
            store.admin.rebuild("keywords" if version % 10 == 4 else "vectors")
    store.upsert([Chunk("end", "end")])
    store.flush()
    store.close()


class Watcher:
    """Searches one store again and again, and records errors."""

    def __init__(self, store):
        self.store = store
        self.wrong = Counter()
        self.versions = set()
        self.looks = 0

    def look(self):
        """Search once in every way."""
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
        ids = [entry.id for entry in result.entries if entry.id in IDS]
        self.note(len(set(ids)) == len(ids), "by vector: an id twice")
        self.note(result.reason is None, f"by vector: {result.reason}")
        self.note(len(ids) == len(IDS), f"by vector: {len(IDS) - len(ids)} missing")

    def _look_by_word(self):
        result = self.store.keyword_search(Query("all red", 60), 60)
        ids = [entry.id for entry in result.entries]
        self.note(len(set(ids)) == len(ids), "by word: an id twice")
        self.note(
            result.reason in (None, "keyword-fallback", "no-keyword-index", "keyword-behind"),
            f"by word: {result.reason}",
        )

    def note(self, is_right, what):
        """Count what is wrong."""
        if not is_right:
            self.wrong[what] += 1

    def is_over(self):
        """Return whether the writer's last chunk is found in every way."""
        by_word = self.store.keyword_search(Query("end", 1), 1).entries
        by_vector = {entry.id for entry in self.store.vector_search(Query("all red end", 100), 100).entries}
        all_by_word = {entry.id for entry in self.store.keyword_search(Query("all", 100), 100).entries}
        return bool(by_word) and "end" in by_vector and all_by_word == set(IDS)


def watch(folder, kind):
    """Search without a pause until the end is there or nothing new arrives any more."""
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


if __name__ == "__main__":
    verb, place, kind, *rest = sys.argv[1:]
    if verb == "write":
        write(Path(place), kind, int(rest[0]))
    else:
        watch(Path(place), kind)
