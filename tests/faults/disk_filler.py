"""Process that writes until the disk is full, reads, gets space, continues, and reports in JSON.

    python -m tests.faults.disk_filler FOLDER BALLAST MEGABYTES

MEGABYTES limits the size of each file, which needs no special rights; without it, the file system has to be small.
BALLAST is a file that is deleted to free space.
"""

import json
import resource
import sys
from pathlib import Path

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import StoreError
from langchain_hybridgraph.records import Query
from tests.support.stores.words import open_words

BATCH = 100


def batch(number):
    """Return chunks of about 2 kB, each with a unique word."""
    filler = " ".join(f"word{number}x{n}" for n in range(150))
    return [Chunk(f"c{number}/{n}", f"own{number}x{n} common {filler}") for n in range(BATCH)]


def open_store(folder):
    return open_words(folder)


def attempt(action, *arguments):
    """Return None, or the type and the message of a StoreError; other errors fail the test."""
    try:
        action(*arguments)
    except StoreError as error:
        return f"{type(error).__name__}: {error}"
    return None


def searchable(store, batches, words):
    """Return the number of batches whose sample is read, found by vector, and (if ``words``) found by its own word."""
    good = 0
    for number in batches:
        chunk = batch(number)[7]
        read = store.get([chunk.id])
        near = store.vector_search(Query(chunk.text, BATCH), BATCH).entries
        own = store.keyword_search(Query(f"own{number}x7", 1), 1).entries
        is_found = chunk.id in {entry.id for entry in near}
        good += bool(read) and is_found and (not words or [entry.id for entry in own] == [chunk.id])
    return good


def main(folder, ballast, megabytes):
    folder, ballast = Path(folder), Path(ballast)
    store, report = open_store(folder), {}
    store.upsert(batch(0))
    store.flush()
    accepted, settled, hard = [0], [0], resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    if megabytes:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(float(megabytes) * 2**20), hard))
    for number in range(1, 1000):
        report["upsert"] = attempt(store.upsert, batch(number))
        if report["upsert"]:
            break
        accepted.append(number)
        report["flush"] = attempt(store.flush)
        if report["flush"]:
            break
        settled.append(number)
    report["accepted"] = len(accepted)
    report["full"] = [len(store), searchable(store, accepted, False), searchable(store, settled, True)]
    report["again"] = [attempt(store.upsert, batch(5000)), attempt(store.flush)]
    accepted += [5000] if report["again"][0] is None else []
    attempt(store.close)
    store = open_store(folder)
    report["reopened"] = [len(store), searchable(store, accepted, False)]
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    ballast.unlink(missing_ok=True)
    report["after"] = [attempt(store.upsert, batch(6000)), attempt(store.flush)]
    accepted.append(6000)
    report["expected"] = [len(accepted) * BATCH, len(accepted), len(accepted)]
    report["freed"] = [len(store), searchable(store, accepted, False), searchable(store, accepted, True)]
    report["problems"] = store.admin.check().problems
    store.close()
    print(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
