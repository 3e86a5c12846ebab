"""Stalls of the event loop during concurrent calls.

    python benchmarks/event_loop.py [--size 5000] [--calls 400] [--rounds 5]

The retrievers take turns in this process, over the same texts with ready-made vectors, so no embedding model is timed.
In each round, ``--calls`` calls of a retriever's ``ainvoke`` start together. Meanwhile, another task repeatedly sleeps
for a millisecond. The longest gap between two of its wake-ups is the longest stall: how long other requests of a web
server would wait. Figures are medians over the rounds, and the ratio compares with LangChain's own retriever in the
same round.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from _corpus import Corpus, enlarge_corpus
from langchain_chroma import Chroma

from langchain_hybridgraph import HybridGraphStore, HybridRetriever

BATCH = 5_000
PEER = "Chroma.as_retriever(), LangChain's own"


class Burst(NamedTuple):
    """Cost of a burst of calls."""

    stall_ms: float
    seconds: float
    cpu_seconds: float
    threads: int


async def burst(ask: Callable[[str], Awaitable[Any]], questions: Sequence[str], calls: int) -> Burst:
    """Run all calls at the same time, and return their cost."""
    stalls: list[float] = []
    threads = threading.active_count()
    is_running = True

    async def beat() -> None:
        nonlocal threads
        last = time.perf_counter()
        while is_running:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            stalls.append(now - last)
            last = now
            threads = max(threads, threading.active_count())

    heartbeat = asyncio.create_task(beat())
    await asyncio.sleep(0.05)
    stalls.clear()
    started_at, cpu_began = time.perf_counter(), time.process_time()
    await asyncio.gather(*(ask(questions[turn % len(questions)]) for turn in range(calls)))
    seconds, cpu_seconds = time.perf_counter() - started_at, time.process_time() - cpu_began
    await asyncio.sleep(0)
    is_running = False
    await heartbeat
    return Burst(max(stalls) * 1e3, seconds, cpu_seconds, threads)


def retrievers(corpus: Corpus, place: Path) -> dict[str, Any]:
    """Return the retrievers to compare, over stores with the same texts."""
    chroma = Chroma(
        embedding_function=corpus.embedding,
        persist_directory=str(place / "chroma"),
        collection_configuration={"hnsw": {"space": "cosine"}},
    )
    for start in range(0, len(corpus.texts), BATCH):
        part = slice(start, start + BATCH)
        chroma.add_texts(corpus.texts[part], corpus.metadatas[part], ids=corpus.ids[part])
    store = HybridGraphStore(place / "index", corpus.embedding)
    store.add_texts(corpus.texts, corpus.metadatas, ids=corpus.ids)
    return {
        PEER: chroma.as_retriever(search_kwargs={"k": 10}),
        "HybridRetriever(HybridGraphStore)": HybridRetriever(store, k=10),
        "the same, deadline_ms=60_000": HybridRetriever(store, k=10, deadline_ms=60_000),
        "HybridRetriever(Chroma)": HybridRetriever(chroma, k=10),
    }


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--size", type=int, default=5_000, help="number of texts")
    options.add_argument("--calls", type=int, default=400, help="number of concurrent calls")
    options.add_argument("--rounds", type=int, default=5, help="number of rounds")
    arguments = options.parse_args()
    corpus = enlarge_corpus(arguments.size)
    print(f"{len(corpus.texts):,} texts, {arguments.calls} concurrent calls, {arguments.rounds} rounds\n")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        compared = retrievers(corpus, Path(place))
        measured: dict[str, list[Burst]] = {name: [] for name in compared}
        for turn in range(-1, arguments.rounds):
            for name, retriever in compared.items():
                result = asyncio.run(burst(retriever.ainvoke, corpus.questions, 20 if turn < 0 else arguments.calls))
                if turn >= 0:
                    measured[name].append(result)
    print("| retriever | longest stall, ms | ratio | calls per second | CPU ms per call | maximum number of threads |")
    print("|---|---|---|---|---|---|")
    for name, bursts in measured.items():
        stall = statistics.median(each.stall_ms for each in bursts)
        pairs = zip(bursts, measured[PEER], strict=True)
        ratio = statistics.median(each.stall_ms / peer.stall_ms for each, peer in pairs)
        rate = arguments.calls / statistics.median(each.seconds for each in bursts)
        cpu = statistics.median(each.cpu_seconds for each in bursts) / arguments.calls * 1e3
        most = max(each.threads for each in bursts)
        print(f"| {name} | {stall:.0f} | {ratio:.1f} | {rate:.0f} | {cpu:.1f} | {most} |")


if __name__ == "__main__":
    main()
