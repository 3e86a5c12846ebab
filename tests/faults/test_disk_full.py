"""Writes to a full disk: clear errors, no lost data, and further writes once there is space.

    python -m tests.faults.test_disk_full FOLDER BALLAST MEGABYTES

writes until the disk is full, reads, gets space, continues, and reports in JSON. MEGABYTES limits the size of each
file, which needs no special rights; without it, the file system has to be small. BALLAST is a file that is deleted to
free space.
"""

import json
import os
import resource
import sys
from pathlib import Path

import pytest

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import StoreError
from langchain_hybridgraph.records import Query
from tests.faults.mounts import mounted
from tests.support.servers.python_process import output_of_python
from tests.support.stores.words import open_words

BATCH = 100


def batch(number):
    """Return chunks of about 2 kB, each with a unique word."""
    filler = " ".join(f"word{number}x{n}" for n in range(150))
    return [Chunk(f"c{number}/{n}", f"own{number}x{n} common {filler}") for n in range(BATCH)]


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
        near = store.vector_search(Query(chunk.text, BATCH), BATCH).ids
        own = store.keyword_search(Query(f"own{number}x7", 1), 1).ids
        is_found = chunk.id in near
        good += bool(read) and is_found and (not words or list(own) == [chunk.id])
    return good


def main(folder, ballast, megabytes):
    folder, ballast = Path(folder), Path(ballast)
    store, report = open_words(folder), {}
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
    store = open_words(folder)
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


def judge(folder, ballast, megabytes=""):
    """Fill the disk, and assert that it reports clear errors and no loss."""
    output = output_of_python("-m", "tests.faults.test_disk_full", folder, ballast, megabytes)
    report = json.loads(output.splitlines()[-1])
    errors = [report["upsert"], report.get("flush"), *report["again"]]
    assert any(errors)
    for error in filter(None, errors):
        assert "none of this batch was written" in error or "all changes are in the catalog" in error
    accepted = report["accepted"]
    assert report["full"][:2] == [accepted * 100, accepted]
    more = report["again"][0] is None
    assert report["reopened"] == [(accepted + more) * 100, accepted + more]
    assert report["after"] == [None, None]
    assert report["freed"] == report["expected"]
    assert report["problems"] == []


@pytest.mark.parametrize(
    "megabytes", ["1.5", *(pytest.param(each, marks=pytest.mark.faults) for each in (0.5, 0.7, 1, 1.2, 2, 3, 4))]
)
def test_a_limit_on_the_size_of_files(tmp_path, megabytes):
    """When files reach a size limit, accepted chunks are kept, and writing continues once it is removed."""
    judge(tmp_path / "index", tmp_path / "ballast", megabytes)


@pytest.mark.faults
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
@pytest.mark.parametrize("megabytes", [3, 4, 6, 8, 9, 10, 12])
@pytest.mark.parametrize("ballast_kb", [300, 800])
def test_a_full_file_system(tmp_path, megabytes, ballast_kb):
    """On a full file system, accepted chunks are kept, and writing continues once another file is deleted."""
    small = ["-t", "tmpfs", "-o", f"size={(megabytes + 12) * 1024}k", "tmpfs"]
    with mounted(tmp_path / "small", small) as place:
        (place / "ballast").write_bytes(bytes(12 * 2**20 + ballast_kb * 1024))
        judge(place / "index", place / "ballast")


if __name__ == "__main__":
    main(*sys.argv[1:])
