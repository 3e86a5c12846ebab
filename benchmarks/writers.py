"""Time of an add while several processes write: one and four writers with two readers, then many tasks.

    python benchmarks/writers.py [--adds 200] [--texts 2000] [--peer]

The index begins with ``--texts`` texts of the evaluation sets, with their ready-made vectors. Each writing process adds
``--adds`` texts, one at a time, and then searches for each of them by its own words. Meanwhile, two other processes
search without a pause. At the end, every text must exist once, with its own vector. Then 20 tasks of one event loop add
one text each at the same moment.

``--peer`` does the same with a local Chroma server (``chroma run``), which does not maintain a keyword index. Figures
are milliseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import numpy as np
from _corpus import Corpus, ReadyEmbeddings, enlarge_corpus
from langchain_core.documents import Document

from langchain_hybridgraph import HybridGraphStore

TASKS = 20
PATIENCE = 600


def main() -> None:
    """Print a table of adds, and one line about tasks."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--adds", type=int, default=200, help="number of texts that each process adds")
    options.add_argument("--texts", type=int, default=2_000, help="number of texts in the index at the start")
    options.add_argument("--peer", action="store_true", help="also measure a Chroma server")
    arguments = options.parse_args()
    corpus = enlarge_corpus(arguments.texts + 4 * arguments.adds + 2 * TASKS)
    print(f"{'':<28}{'p50':>9}{'p99':>9}{'adds/s':>9}{'searches':>10}  lost or wrong")
    with tempfile.TemporaryDirectory() as place:
        for writers in (1, 4):
            report(
                f"{writers} writing, 2 reading",
                FolderWriter(Path(place) / f"ours-{writers}"),
                corpus,
                arguments,
                writers,
            )
            if arguments.peer:
                with chroma_server(Path(place) / f"peer-{writers}") as port:
                    report(f"{writers} writing, 2 reading, Chroma", ChromaWriter(port), corpus, arguments, writers)
        tasks(Path(place) / "tasks", corpus, arguments.texts)


class FolderWriter:
    """An index folder, opened by every process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, corpus: Corpus) -> Any:
        """Open the store."""
        return HybridGraphStore(self.folder, corpus.embedding)

    def add(self, store: Any, id: str, text: str) -> None:
        """Add one text."""
        store.add_texts([text], ids=[id])

    def fill(self, store: Any, ids: Sequence[str], texts: Sequence[str]) -> None:
        """Add many texts."""
        store.add_texts(texts, ids=ids)

    def search(self, store: Any, text: str) -> str:
        """Return the id of the text with the largest cosine."""
        return str(store.similarity_search(text, k=1)[0].id)

    def faults(self, store: Any, ids: Sequence[str], texts: Sequence[str]) -> int:
        """Return the number of texts that are missing, duplicated, or have a vector or words of another text."""
        extra = abs(len(store) - len(ids))
        vectors = store.vectors(list(ids))
        own = np.array(store.embeddings.embed_documents(list(texts)), np.float32)
        own /= np.linalg.norm(own, axis=1, keepdims=True)
        wrong = int((np.vecdot(vectors, own) < 0.999).sum())
        return extra + wrong + len(store.admin.check().problems)


class ChromaWriter:
    """A collection on a Chroma server, opened by every process."""

    def __init__(self, port: int) -> None:
        self.port = port

    def open(self, corpus: Corpus) -> Any:
        """Open the collection, and load the vectors of all texts."""
        import chromadb

        client = chromadb.HttpClient("127.0.0.1", self.port)
        return client.get_or_create_collection("texts", embedding_function=None), corpus.embedding

    def add(self, store: Any, id: str, text: str) -> None:
        """Add one text."""
        self.fill(store, [id], [text])

    def fill(self, store: Any, ids: Sequence[str], texts: Sequence[str]) -> None:
        """Add many texts."""
        collection, embedding = store
        collection.add(ids=list(ids), documents=list(texts), embeddings=embedding.embed_documents(list(texts)))

    def search(self, store: Any, text: str) -> str:
        """Return the id of the nearest text."""
        collection, embedding = store
        return str(collection.query(query_embeddings=[embedding.embed_query(text)], n_results=1)["ids"][0][0])

    def faults(self, store: Any, ids: Sequence[str], texts: Sequence[str]) -> int:
        """Return the number of texts that are missing or duplicated."""
        stored = store[0].get(ids=list(ids), include=["documents"])
        there = dict(zip(stored["ids"], stored["documents"], strict=True))
        wrong = sum(there.get(id) != text for id, text in zip(ids, texts, strict=True))
        return wrong + abs(int(store[0].count()) - len(ids))


def report(name: str, side: Any, corpus: Corpus, arguments: argparse.Namespace, writers: int) -> None:
    """Print one row of the table."""
    texts = corpus.texts[: arguments.texts + writers * arguments.adds]
    ids = [f"t{n}" for n in range(len(texts))]
    side.fill(side.open(corpus), ids[: arguments.texts], texts[: arguments.texts])
    context = multiprocessing.get_context("spawn")
    begin, stop, results = context.Event(), context.Event(), context.Queue()
    parts = [
        slice(arguments.texts + n * arguments.adds, arguments.texts + (n + 1) * arguments.adds) for n in range(writers)
    ]
    small = reduced(corpus, texts)
    processes = [
        context.Process(
            target=write, args=(side, small, list(zip(ids[part], texts[part], strict=True)), begin, results)
        )
        for part in parts
    ]
    readers = [context.Process(target=read, args=(side, small, begin, stop, results)) for _ in range(2)]
    for process in (*processes, *readers):
        process.start()
    for _ in (*processes, *readers):
        assert results.get(timeout=PATIENCE) == "ready"
    started = time.perf_counter()
    begin.set()
    durations = np.concatenate([results.get(timeout=PATIENCE) for _ in processes])
    seconds = time.perf_counter() - started
    stop.set()
    searches = sum(results.get(timeout=PATIENCE) for _ in readers)
    for process in (*processes, *readers):
        process.join(PATIENCE)
    faults = side.faults(side.open(corpus), ids, texts)
    p50, p99 = np.percentile(durations, [50, 99])
    rate = len(durations) / seconds
    print(f"{name:<28}{p50:>9.1f}{p99:>9.1f}{rate:>9.1f}{searches:>10}  {faults}", flush=True)


def reduced(corpus: Corpus, texts: Sequence[str]) -> Corpus:
    """Return a corpus of these texts only, since every process gets a copy of it."""
    embedding = ReadyEmbeddings({text: corpus.embedding.vectors[text] for text in texts})
    return Corpus(list(texts), [], [], np.zeros((0, 0)), embedding)


def write(side: Any, corpus: Corpus, texts: list[tuple[str, str]], begin: Event, results: Any) -> None:
    """Add texts one at a time, and report the time of each."""
    store = side.open(corpus)
    results.put("ready")
    begin.wait()
    durations = []
    for id, text in texts:
        before = time.perf_counter()
        side.add(store, id, text)
        durations.append(1e3 * (time.perf_counter() - before))
    results.put(np.array(durations))


def read(side: Any, corpus: Corpus, begin: Event, stop: Event, results: Any) -> None:
    """Search with short pauses until the end, and report the number of searches."""
    store, searches = side.open(corpus), 0
    results.put("ready")
    begin.wait()
    while not stop.is_set():
        side.search(store, corpus.texts[searches % 50])
        searches += 1
        time.sleep(0.01)
    results.put(searches)


def tasks(folder: Path, corpus: Corpus, there: int) -> None:
    """Print the time of adds by many tasks at the same moment, and of one add with the same number of texts."""
    store = HybridGraphStore(folder, corpus.embedding)
    store.add_texts(corpus.texts[:there])
    fresh = [Document(text) for text in corpus.texts[-2 * TASKS :]]

    async def at_once() -> None:
        await asyncio.gather(*(store.aadd_documents([document]) for document in fresh[:TASKS]))

    together = timed(lambda: store.add_documents(fresh[TASKS:]))
    apart = timed(lambda: asyncio.run(at_once()))
    print(f"{TASKS} concurrent aadd_documents of one text: {apart:.0f} ms; one add of {TASKS} texts: {together:.0f} ms")


def timed(work: Callable[[], object]) -> float:
    """Return the milliseconds that a function takes."""
    before = time.perf_counter()
    work()
    return 1e3 * (time.perf_counter() - before)


@contextmanager
def chroma_server(folder: Path) -> Any:
    """Start ``chroma run`` over a new folder and yield its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).with_name("chroma")), "run", "--path", str(folder), "--port", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert time.monotonic() < until, "the Chroma server does not answer"
                time.sleep(0.2)
        yield port
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
