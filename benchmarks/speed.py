"""Speed of queries, filters, adding, opening and ingest, compared with the engines alone and LangChain's retrievers.

    python benchmarks/speed.py [--size 63666] [--queries 200] [--without-ensemble] [--short]

Everything runs in this one process on the same texts and ready-made vectors, so no embedding model is timed. Figures
are medians. Each ratio compares with the corresponding engine or LangChain retriever in the same run.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _corpus import Corpus, enlarge_corpus, short_corpus

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from langchain_hybridgraph.stores.tantivy_index import TantivyIndex

CANDIDATES = 100


def medians_ms(calls: dict[str, Callable[[str], Any]], questions: list[str], rounds: int) -> dict[str, float]:
    """Return the median time of each call in milliseconds, after a warm-up. The calls run in turn, under the same
    load.
    """
    durations: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(-10, rounds):
        for name, ask in calls.items():
            question = questions[turn % len(questions)]
            started_at = time.perf_counter()
            ask(question)
            if turn >= 0:
                durations[name].append((time.perf_counter() - started_at) * 1e3)
    return {name: statistics.median(times) for name, times in durations.items()}


def median_ms(ask: Callable[[str], Any], questions: list[str], rounds: int) -> float:
    """Return the median time of one call in milliseconds, after a warm-up."""
    return medians_ms({"it": ask}, questions, rounds)["it"]


def seconds(work: Callable[[], Any]) -> float:
    """Return the time of one call in seconds."""
    started_at = time.perf_counter()
    work()
    return time.perf_counter() - started_at


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--size", type=int, default=63_666, help="number of texts")
    options.add_argument("--queries", type=int, default=200, help="number of queries")
    options.add_argument("--without-ensemble", action="store_true", help="leave LangChain's EnsembleRetriever out")
    options.add_argument("--short", action="store_true", help="short texts and ten-word questions")
    arguments = options.parse_args()
    corpus = (short_corpus if arguments.short else enlarge_corpus)(arguments.size)
    print(f"{len(corpus.texts):,} texts, {corpus.vectors.shape[1]} dimensions, {len(corpus.questions)} questions\n")
    with tempfile.TemporaryDirectory() as place:
        run(corpus, Path(place), arguments.queries, ensemble=not arguments.without_ensemble)


def run(corpus: Corpus, place: Path, rounds: int, *, ensemble: bool) -> None:
    """Run all measurements, in an order that warms the caches equally for all."""
    chroma, langchain_took = langchain_chroma(corpus, place / "langchain")
    store = HybridGraphStore(place / "index", corpus.embedding)
    ours_took = seconds(lambda: store.add_texts(corpus.texts, corpus.metadatas, ids=corpus.ids))
    row("ingest without embedding, s", ours_took, langchain_took, "langchain-chroma add_texts")

    questions = corpus.questions
    collection, index = raw_engines(corpus, place)
    vectors = {question: np.asarray(corpus.embedding.embed_query(question), np.float32) for question in questions}
    retriever = HybridRetriever(store, k=10)
    in_turn = medians_ms(
        {
            "chroma": lambda q: collection.query([vectors[q]], n_results=CANDIDATES, include=["distances"]),
            "tantivy": lambda q: index.search(q, CANDIDATES),
            "hybrid": retriever.invoke,
        },
        questions,
        rounds,
    )
    hybrid = in_turn["hybrid"]
    row("Chroma asked raw, 100 candidates, ms", in_turn["chroma"])
    row("Tantivy asked raw, 100 candidates, ms", in_turn["tantivy"])
    slower = max(in_turn["chroma"], in_turn["tantivy"])
    row("HybridRetriever.invoke k=10, ms", hybrid, slower, "the slower engine raw")
    if ensemble:
        peer = ensemble_retriever(corpus, chroma)
        row("EnsembleRetriever(Chroma, BM25Retriever), ms", median_ms(peer.invoke, questions, 20), hybrid, "ours")
    for percent in (1, 10, 50, 95):
        filter = {"percent": {"$lt": percent}}
        filtered = median_ms(lambda q, f=filter: retriever.invoke(q, filter=f), questions, rounds)  # type: ignore[misc]  # bound at definition
        row(f"filter that {percent} % match, ms", filtered, hybrid, "unfiltered")
    for percent in (1, 50):
        where = {"percent": {"$lt": percent}}
        peer_ms = median_ms(lambda q, w=where: chroma.similarity_search(q, k=10, filter=w), questions, 20)  # type: ignore[misc]  # bound at definition
        row(f"Chroma's own where that {percent} % match, ms", peer_ms)

    row("one document added and found, ms", statistics.median(add_and_find(store, retriever, corpus)))
    store.close()
    opened: list[float] = []
    for _ in range(5):
        started_at = time.perf_counter()
        with HybridGraphStore(place / "index", corpus.embedding):
            opened.append(time.perf_counter() - started_at)
    row("opening, s", statistics.median(opened))
    row("import langchain_hybridgraph, s", import_seconds("langchain_hybridgraph"))


def langchain_chroma(corpus: Corpus, place: Path) -> tuple[Any, float]:
    """Return langchain-chroma over the same texts, and the time to add them (in batches that it accepts)."""
    from langchain_chroma import Chroma

    store = Chroma(
        embedding_function=corpus.embedding,
        persist_directory=str(place),
        collection_configuration={"hnsw": {"space": "cosine"}},
    )

    def add() -> None:
        for start in range(0, len(corpus.texts), 5_000):
            part = slice(start, start + 5_000)
            store.add_texts(corpus.texts[part], corpus.metadatas[part], ids=corpus.ids[part])  # type: ignore[arg-type]  # it accepts a list of dicts

    return store, seconds(add)


def raw_engines(corpus: Corpus, place: Path) -> tuple[Any, TantivyIndex]:
    """Return the two engines in folders of their own: a Chroma collection without texts, and the keyword index."""
    import chromadb

    client = chromadb.PersistentClient(str(place / "raw"), settings=chromadb.Settings(anonymized_telemetry=False))
    collection = client.create_collection("raw", configuration={"hnsw": {"space": "cosine"}}, embedding_function=None)
    for start in range(0, len(corpus.texts), 5_000):
        part = slice(start, start + 5_000)
        collection.add(ids=corpus.ids[part], embeddings=corpus.vectors[part])
    index = TantivyIndex(place / "raw-tantivy", writable=True)
    index.apply(1, enumerate(corpus.texts), [])
    return collection, index


def ensemble_retriever(corpus: Corpus, chroma: Any) -> Any:
    """Return LangChain's EnsembleRetriever over Chroma and BM25Retriever."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from langchain_classic.retrievers import EnsembleRetriever
        from langchain_community.retrievers import BM25Retriever
    bm25 = BM25Retriever.from_texts(corpus.texts, corpus.metadatas, k=10)
    return EnsembleRetriever(retrievers=[chroma.as_retriever(search_kwargs={"k": 10}), bm25], weights=[0.7, 0.3])


def add_and_find(store: HybridGraphStore, retriever: HybridRetriever, corpus: Corpus) -> list[float]:
    """Return the milliseconds from adding a document to finding it."""
    durations = []
    for turn in range(5):
        text = f"zyzzyva{turn} {corpus.texts[turn]}"
        corpus.embedding.vectors[text] = corpus.vectors[turn]
        started_at = time.perf_counter()
        store.add_texts([text], ids=[f"new{turn}"])
        assert retriever.invoke(text)[0].id == f"new{turn}"
        durations.append((time.perf_counter() - started_at) * 1e3)
    return durations


def import_seconds(module: str) -> float:
    """Return the median of five times of an import in a fresh interpreter, without the time to start the
    interpreter.
    """
    code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(5)]
    return statistics.median(float(run.stdout) for run in runs)


def row(what: str, value: float, peer: float | None = None, name: str = "") -> None:
    """Print one line with the figure and its ratio to the peer in the same run."""
    ratio = "" if peer is None else f"{value / peer:8.2f} × {name} ({peer:.2f})"
    print(f"{what:50}{value:10.2f}  {ratio}", flush=True)


if __name__ == "__main__":
    main()
