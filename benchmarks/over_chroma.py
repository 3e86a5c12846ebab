"""Speed of HybridRetriever over another vector store, compared with that store's own retriever.

    python benchmarks/over_chroma.py [--sizes 2000 20000] [--questions 200] [--stores chroma faiss qdrant pgvector]
                                     [--folder] [--postgres URL]

All retrievers search the same texts of the evaluation sets, with the same ready-made vectors, in one process, for
k = 10. They answer each question in turn, under the same load, after a warm-up with other questions. A ratio is the
median of one retriever divided by the median of the store's own retriever; with a filter, which 10 % of the texts
match, of the store's own filtered search. "time" is wall-clock time, and "processor" is the processor time of all
threads. With ``--folder``, Chroma keeps the collection in a folder instead of in memory, and construction is measured
in new processes in turn, after a first retriever over two texts has loaded all modules. The store pgvector needs the
URL of a PostgreSQL database with the extension ``vector``, whose collection ``texts`` is replaced. Its texts cannot be
listed, so the retriever gets the Documents.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from _corpus import Corpus, ReadyEmbeddings, enlarge_corpus
from langchain_chroma import Chroma
from langchain_classic.retrievers import EnsembleRetriever
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding

from langchain_hybridgraph import HybridGraphStore, HybridRetriever

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from langchain_community.retrievers import BM25Retriever
    from langchain_community.vectorstores import FAISS

K, BATCH, CONCURRENT, ROUNDS = 10, 5_000, 128, 5
FILTER = {"percent": {"$lt": 10}}


def main() -> None:
    """Print a table for each size."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sizes", type=int, nargs="+", default=[2_000, 20_000], help="numbers of texts")
    options.add_argument("--questions", type=int, default=200, help="number of questions")
    stores = ["chroma", "faiss", "qdrant"]
    options.add_argument("--stores", nargs="+", default=stores, choices=[*stores, "pgvector"])
    options.add_argument("--postgres", help="URL of the database for pgvector, such as postgresql+psycopg://me@/texts")
    options.add_argument("--folder", action="store_true", help="keep the Chroma collection in a folder")
    options.add_argument("--construct", nargs=2, help=argparse.SUPPRESS)
    arguments = options.parse_args()
    if arguments.construct:
        print(*construct(*arguments.construct))
        return
    if "pgvector" in arguments.stores and arguments.postgres is None:
        options.error("the store pgvector needs --postgres URL, such as postgresql+psycopg://me@/texts")
    for size in arguments.sizes:
        corpus = unit_corpus(size)
        print(f"\n{size:,} texts, {arguments.questions} questions, k = {K}")
        print(f"{'':<40}{'time, ms':>10}{'ratio':>8}{'processor, ms':>15}{'ratio':>8}")
        for name in arguments.stores:
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
                where = arguments.postgres if name == "pgvector" else place if arguments.folder else None
                run(name, corpus, where, arguments.questions)


def unit_corpus(size: int) -> Corpus:
    """Return the texts with vectors of length 1: the ready-made ones are rounded to half precision."""
    corpus = enlarge_corpus(size)
    vectors = {text: vector / np.linalg.norm(vector) for text, vector in corpus.embedding.vectors.items()}
    return Corpus(corpus.texts, corpus.metadatas, corpus.questions, corpus.vectors, ReadyEmbeddings(vectors))


def run(name: str, corpus: Corpus, place: str | None, questions: int) -> None:
    """Measure one store."""
    documents = [
        Document(text, id=id, metadata=metadata)
        for text, id, metadata in zip(corpus.texts, corpus.ids, corpus.metadatas, strict=True)
    ]
    store, where = filled_store(name, corpus, documents, place)
    options = {"fetch_k": len(documents)} if name == "faiss" else {}  # by default, it filters the nearest 20
    time.sleep(0.1)
    gc.collect()
    gc.freeze()  # otherwise, garbage collections during the constructions search this benchmark's own objects, too
    bm25_seconds, bm25 = seconds(lambda: BM25Retriever.from_documents(documents, k=K))
    own_documents = documents if name == "pgvector" else None
    read_seconds, _ = seconds(lambda: store.get() if name == "chroma" else None)
    ours_seconds, ours = seconds(lambda: HybridRetriever(store, own_documents, k=K))
    again_seconds, _ = seconds(lambda: HybridRetriever(store, own_documents, k=K))
    with_documents, _ = seconds(lambda: HybridRetriever(store, documents, k=K))
    own = store.as_retriever(search_kwargs={"k": K})
    calls: dict[str, Callable[[str], Any]] = {f"{name}, as_retriever": own.invoke, "HybridRetriever": ours.invoke}
    if name == "chroma":
        embedded = HybridRetriever(HybridGraphStore(None, corpus.embedding), k=K)
        embedded.vector_store.add_documents(documents)
        calls["EnsembleRetriever (BM25Retriever)"] = EnsembleRetriever(
            retrievers=[bm25, own], weights=[0.3, 0.7]
        ).invoke
        calls["HybridRetriever(HybridGraphStore)"] = embedded.invoke
    filtered: dict[str, Callable[[str], Any]] = {
        f"{name}, own filter (10 %)": lambda q: store.similarity_search(q, k=K, filter=where, **options),
        "HybridRetriever, the same filter": lambda q: ours.invoke(q, filter=FILTER),
    }
    for group in (calls, filtered):
        table(in_turn(group, corpus.questions, questions))
    bursts = {
        f"{name}, {CONCURRENT} × ainvoke": lambda: burst(own, corpus.questions),
        f"HybridRetriever, {CONCURRENT} × ainvoke": lambda: burst(ours, corpus.questions),
    }
    if name != "pgvector":  # its own ainvoke needs a store that was opened for asynchronous calls
        table({each: [clocked(work) for _ in range(ROUNDS)] for each, work in bursts.items()})
    if name == "chroma" and place is not None:
        table(new_processes(place))
    print(f"construction: {ours_seconds / bm25_seconds:.2f} × BM25Retriever.from_documents", end="")
    print(
        f" ({bm25_seconds:.2f} s); second retriever {again_seconds / bm25_seconds:.2f} ×; with Documents, whose words",
        end="",
    )
    print(f" were analysed before, {with_documents / bm25_seconds:.2f} ×", end="")
    print(f"; Chroma.get of everything {read_seconds / bm25_seconds:.2f} ×" if name == "chroma" else "", flush=True)


def filled_store(name: str, corpus: Corpus, documents: Sequence[Document], place: str | None) -> tuple[Any, Any]:
    """Return a store with the documents, and the filter in the store's own language."""
    if name == "faiss":
        pairs = zip(corpus.texts, (corpus.embedding.vectors[text].tolist() for text in corpus.texts), strict=True)
        faiss = FAISS.from_embeddings(list(pairs), corpus.embedding, metadatas=corpus.metadatas, ids=corpus.ids)
        return faiss, FILTER
    if name == "qdrant":
        from langchain_qdrant import QdrantVectorStore
        from qdrant_client import QdrantClient, models

        warnings.filterwarnings("ignore", message="Local mode is not recommended")
        client = QdrantClient(":memory:")
        size = len(corpus.embedding.embed_query(corpus.questions[0]))
        client.create_collection("texts", models.VectorParams(size=size, distance=models.Distance.COSINE))
        qdrant = QdrantVectorStore(client, "texts", corpus.embedding, validate_collection_config=False)
        qdrant.add_documents(list(documents), ids=list(range(len(documents))))
        condition = models.FieldCondition(key="metadata.percent", range=models.Range(lt=10))
        return qdrant, models.Filter(must=[condition])
    if name == "pgvector":
        from langchain_postgres import PGVector

        postgres = PGVector(corpus.embedding, connection=place, collection_name="texts", pre_delete_collection=True)
        for start in range(0, len(documents), BATCH):
            postgres.add_documents(list(documents[start : start + BATCH]))
        return postgres, FILTER
    chroma = Chroma(embedding_function=corpus.embedding, persist_directory=place)
    for start in range(0, len(documents), BATCH):
        chroma.add_documents(list(documents[start : start + BATCH]))
    return chroma, FILTER


def new_processes(place: str) -> dict[str, list[tuple[float, float]]]:
    """Return the wall-clock and processor milliseconds of constructions, each in a new process."""
    names = {"bm25": "BM25Retriever.from_documents, new process", "hybrid": "HybridRetriever(chroma), new process"}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in names.values()}
    for _ in range(ROUNDS):
        for kind, name in names.items():
            command = [sys.executable, __file__, "--construct", kind, place]
            wall, processor = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
            times[name].append((float(wall), float(processor)))
    return times


def construct(kind: str, place: str) -> tuple[float, float]:
    """Return the wall-clock and processor milliseconds of one construction over the collection in a folder."""
    embedding = DeterministicFakeEmbedding(size=384)
    two = Chroma.from_texts(["a first text", "a second text"], embedding, collection_name="two")
    HybridRetriever(two)
    store = Chroma(embedding_function=embedding, persist_directory=place)
    if kind == "hybrid":
        return clocked(lambda: HybridRetriever(store))
    rows = store.get()
    documents = list(map(Document, rows["documents"]))
    BM25Retriever.from_documents(documents[:2])
    return clocked(lambda: BM25Retriever.from_documents(documents))


def in_turn(
    calls: dict[str, Callable[[str], Any]], questions: Sequence[str], rounds: int
) -> dict[str, list[tuple[float, float]]]:
    """Return the wall-clock and processor milliseconds of each call of each retriever."""
    warm_up = list(questions)[-100:]
    for ask in calls.values():
        for question in warm_up:
            ask(question)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for turn in range(rounds):
        for name, ask in calls.items():
            times[name].append(clocked(lambda: ask(questions[turn % (len(questions) - 100)])))  # noqa: B023 - called at once
    return times


def clocked(work: Callable[[], Any]) -> tuple[float, float]:
    """Return the wall-clock and processor milliseconds of a call."""
    started_at, processor = time.perf_counter(), time.process_time()
    work()
    return (time.perf_counter() - started_at) * 1e3, (time.process_time() - processor) * 1e3


def burst(retriever: Any, questions: Sequence[str]) -> None:
    """Make many calls of ``ainvoke`` at the same time."""

    async def together() -> None:
        await asyncio.gather(*(retriever.ainvoke(questions[turn % len(questions)]) for turn in range(CONCURRENT)))

    asyncio.run(together())


def seconds(make: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of processor time that a call takes, and its result."""
    started_at = time.process_time()
    result = make()
    return time.process_time() - started_at, result


def table(times: dict[str, list[tuple[float, float]]]) -> None:
    """Print the medians, and their ratios to the first retriever."""
    medians = {name: tuple(map(statistics.median, zip(*rows, strict=True))) for name, rows in times.items()}
    wall, processor = next(iter(medians.values()))
    for name, (own_wall, own_processor) in medians.items():
        print(f"{name:<40}{own_wall:>10.1f}{own_wall / wall:>8.2f}", end="")
        print(f"{own_processor:>15.1f}{own_processor / processor:>8.2f}", flush=True)


if __name__ == "__main__":
    main()
