"""Quality, speed and bulk load of a store in milvus-lite, compared with the embedded store.

    python benchmarks/milvus.py [--sets cranfield scifact] [--rows 20000] [--uri milvus:FOLDER.db] [--process]

For each set, HybridRetriever searches both stores with the same vectors and the same settings. The figures are nDCG@10,
the share of questions with the same first result, and the median time of a query.

``--rows`` is the number of texts for the load test (0 skips it). The test measures texts per second and processor time
of ``upsert``, with ready-made vectors in batches of 1,000, and of pymilvus writing the same rows. ``--process`` runs
milvus-lite in a separate process, as ``milvus-lite server``.
"""

from __future__ import annotations

import argparse
import logging
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
from _corpus import ReadyEmbeddings, require_sets
from quality import ndcg

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.stores.milvus.connection import MilvusConnection
from langchain_hybridgraph.vectorstores.milvus_store import MilvusStore

if TYPE_CHECKING:
    from numpy.typing import NDArray


def main() -> None:
    """Print all measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--sets", nargs="*", default=["cranfield", "hotpotqa_train100"], help="evaluation sets to measure"
    )
    parser.add_argument("--rows", type=int, default=20_000, help="number of texts in the load test; 0 skips it")
    parser.add_argument("--uri", help="address of a server to measure instead of milvus-lite")
    parser.add_argument("--process", action="store_true", help="run milvus-lite in a separate process")
    options = parser.parse_args()
    logging.getLogger("grpc").setLevel(logging.CRITICAL)  # errors about calls that milvus-lite does not support
    sets = require_sets()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        uri, process = options.uri or f"milvus:{Path(folder) / 'lite.db'}", None
        if options.process:
            uri, process = stack.enter_context(server(Path(folder) / "server.db"))
        for name in options.sets:
            compare(sets, name, uri)
        if options.rows:
            load(sets, uri, options.rows, process)


@contextmanager
def server(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield the URI of a milvus-lite server in a process of its own, and the id of the process."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
    command = [sys.executable, "-m", "milvus_lite", "server", "--data-dir", str(folder), "--host", "127.0.0.1"]
    process = subprocess.Popen([*command, "--port", port], stdout=subprocess.DEVNULL)
    try:
        while process.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", int(port))):
                break
            time.sleep(0.1)
        yield f"milvus://127.0.0.1:{port}", process.pid
    finally:
        process.terminate()
        process.wait()


def vectors_of(sets: Any, name: str) -> ReadyEmbeddings:
    """Return the ready-made vectors of a set, and one for the text by which a store learns their dimension."""
    return ReadyEmbeddings({"dimension": np.zeros(384, np.float32), **sets.PrecomputedEmbeddings(name).vectors})


def compare(sets: Any, name: str, uri: str) -> None:
    """Print the quality and speed of both stores for one set."""
    loaded, embedding = sets.load(name), vectors_of(sets, name)
    chunks = [Chunk(row["id"], sets.document_text(row)) for row in loaded.corpus]
    milvus = MilvusStore(uri, embedding, collection=f"set_{name}")
    results = {}
    for kind, store in {"embedded": HybridGraphStore(None, embedding), "milvus": milvus}.items():
        for start in range(0, len(chunks), 1_000):
            store.upsert(chunks[start : start + 1_000])
        store.flush()
        retriever = HybridRetriever(store, k=10)
        seconds, scores, firsts = [], [], []
        for query in loaded.queries:
            started = time.perf_counter()
            ids = [hit.id for hit in retriever.retrieve(query["text"]).hits]
            seconds.append(time.perf_counter() - started)
            scores.append(ndcg(ids, loaded.qrels[query["id"]]))
            firsts.append(ids[:1])
        results[kind] = firsts
        print(f"{name}: {kind:9} nDCG@10 {np.mean(scores):.3f}, {1e3 * np.median(seconds):.1f} ms", flush=True)
    pairs = list(zip(results["embedded"], results["milvus"], strict=True))
    print(f"{name}: same first result for {np.mean([one == other for one, other in pairs]):.0%} of the questions")


def load(sets: Any, uri: str, rows: int, server_process: int | None) -> None:
    """Print the texts per second that a store writes and its processor time per text, and those of pymilvus alone."""
    loaded = sets.load("scifact")
    texts = [sets.document_text(row)[:1_000] for row in loaded.corpus]
    vectors = np.random.default_rng(0).normal(size=(rows, 384)).astype(np.float32)
    store = MilvusStore(uri, vectors_of(sets, "scifact"), collection="load")
    chunks = [
        Chunk(f"text {row}", texts[row % len(texts)], {"row": row, "source": f"{row // 10}.md"}) for row in range(rows)
    ]
    with measured("upsert", rows, server_process):
        write(store, chunks, vectors)
    bare_store = MilvusStore(uri, vectors_of(sets, "scifact"), collection="bare")
    batches = prepare_batches(bare_store, chunks, vectors)
    client = bare_store._index.connection._client()
    with measured("pymilvus alone", rows, server_process):
        for batch in batches:
            client.upsert("bare_chunks", batch)
    with measured("flush", rows, server_process):
        store.flush()


@contextmanager
def measured(name: str, rows: int, server_process: int | None) -> Iterator[None]:
    """Print the texts per second and the processor time per text of what is done inside."""
    before, started = (time.process_time(), server_seconds(server_process)), time.perf_counter()
    yield
    seconds = time.perf_counter() - started
    own, other = time.process_time() - before[0], server_seconds(server_process) - before[1]
    in_server = f" and {1e3 * other / rows:.2f} in the server" if server_process else ""
    print(f"load: {rows / seconds:,.0f} texts/s by {name}, {1e3 * own / rows:.2f} ms of processor time here{in_server}")


def server_seconds(process: int | None) -> float:
    """Return the processor time that a process has used, in seconds. This works only on Linux."""
    if process is None:
        return 0.0
    user, system = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def write(store: MilvusStore, chunks: list[Chunk], vectors: NDArray[np.float32]) -> None:
    """Write chunks in batches of 1,000."""
    for start in range(0, len(chunks), 1_000):
        part = slice(start, start + 1_000)
        store.upsert(chunks[part], vectors=vectors[part])


def prepare_batches(
    store: MilvusStore, chunks: list[Chunk], vectors: NDArray[np.float32]
) -> list[list[dict[str, Any]]]:
    """Return the rows that a store would write, without writing them."""
    batches: list[list[dict[str, Any]]] = []

    call = MilvusConnection.call

    def record(connection: MilvusConnection, method: str, **arguments: Any) -> Any:
        if method == "upsert":
            batches.append(arguments["data"])
            return None
        return call(connection, method, **arguments)

    with patch.object(MilvusConnection, "call", record):
        write(store, chunks, vectors)
    return batches


if __name__ == "__main__":
    main()
