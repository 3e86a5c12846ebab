"""Forks while threads open, close, write to and read an index: no added text is lost, and no child hangs.

    python -m tests.faults.test_forks FOLDER COUNT

Each child opens the folder, adds a text and closes it. At the end, a line of JSON tells what the children reported and
what the index contains.
"""

import json
import os
import signal
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from langchain_hybridgraph.errors import StoreError
from langchain_hybridgraph.records import Scope
from langchain_hybridgraph.stores.vectors import unit
from tests.support.servers.python_process import output_of_python
from tests.support.stores.words import open_words

PATIENCE = 60.0  # seconds after which a child hangs


def child(folder, id, answer):
    """Add a text in a forked child, and report how that ended."""
    try:
        with closing(open_words(folder)) as store:
            store.add_texts([f"text {id}"], ids=[id])
        outcome = "added"
    except StoreError as error:
        outcome = "refused" if "forked while another thread" in str(error) else f"{type(error).__name__}: {error}"
    except BaseException as error:  # noqa: BLE001 - the parent reports it
        outcome = f"{type(error).__name__}: {error}"
    os.write(answer, outcome.encode())
    os._exit(0)


def outcome_of(folder, id):
    """Fork a child and return its report, or "hung"."""
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        child(folder, id, writing)
    os.close(writing)
    deadline = time.monotonic() + PATIENCE
    while os.waitpid(process, os.WNOHANG)[0] == 0:
        if time.monotonic() > deadline:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            break
        time.sleep(0.002)
    with os.fdopen(reading) as file:
        return file.read() or "hung"


def main(folder, count):
    store, stop, ids, errors = open_words(folder), threading.Event(), ["seed"], []
    store.add_texts(["text seed"], ids=ids)

    def add():
        id = f"parent{len(ids)}"
        store.add_texts([f"text {id}"], ids=[id])
        ids.append(id)

    def repeat(step):
        while not stop.is_set():
            try:
                step()
            except Exception as error:  # noqa: BLE001 - the test shows it
                errors.append(f"{type(error).__name__}: {error}")

    steps = [lambda: open_words(folder).close(), add, lambda: store.similarity_search("seed", k=3)]
    threads = [threading.Thread(target=repeat, args=(step,)) for step in (steps[0], *steps)]
    for thread in threads:
        thread.start()
    outcomes = {f"child{number}": outcome_of(folder, f"child{number}") for number in range(count)}
    stop.set()
    for thread in threads:
        thread.join()
    store.close()
    expected = {*ids, *(id for id, outcome in outcomes.items() if outcome == "added")}
    with closing(open_words(folder)) as store:
        stored = sorted(store.find(Scope()))
        vectors = unit(store.embedding.embed_documents([f"text {id}" for id in stored]))
        report = {
            "outcomes": sorted(outcomes.values()),
            "errors": errors,
            "lost": sorted(expected - set(stored)),
            "wrong": int((np.abs(store.vectors(stored) - vectors).max(axis=1) > 1e-5).sum()),
            "problems": store.admin.check().problems,
        }
    print(json.dumps(report))


@pytest.mark.parametrize("count", [10, pytest.param(1_000, marks=pytest.mark.faults)])
def test_forks_while_threads_open_and_close_an_index(tmp_path, count):
    """Forked children add texts while threads of the parent open, close, write to and read the index."""
    report = json.loads(output_of_python("-m", "tests.faults.test_forks", tmp_path / "index", count))
    outcomes = report.pop("outcomes")
    assert len(outcomes) == count
    assert set(outcomes) <= {"added", "refused"}
    assert outcomes.count("added") > 0.9 * count
    assert report == {"errors": [], "lost": [], "wrong": 0, "problems": []}


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
