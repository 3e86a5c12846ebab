"""Time and recall of three ways to search many vectors: exactly, by their signs, and with Chroma.

    python benchmarks/vectors.py [--sizes 63666 250000] [--questions 150] [--lsa]

The vectors are those of the evaluation sets; more are made by adding a little noise to them. For each of the sets'
questions, the 100 nearest vectors are searched for in all three ways, one after the other. The figures are the median
time in milliseconds, and the share of the 10 nearest vectors that are among the first 10 results. ``--lsa`` uses
vectors of LSAEmbeddings instead (200 dimensions).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import chromadb
import numpy as np
from _corpus import Corpus, enlarge_corpus
from numpy.typing import NDArray

from langchain_hybridgraph.embeddings.resolve import LSAEmbeddings
from langchain_hybridgraph.stores import vectors as vector_matrix
from langchain_hybridgraph.stores.vectors import VectorMatrix, unit

CANDIDATES, RECALL_DEPTH = 100, 10
BATCH = 5_000
Vectors = NDArray[np.float32]


def main() -> None:
    """Print a line for each size."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(
        "--sizes", type=int, nargs="+", default=[63_666], help="numbers of vectors, one table row for each"
    )
    options.add_argument("--questions", type=int, default=150, help="number of questions")
    options.add_argument("--lsa", action="store_true", help="use vectors of LSAEmbeddings")
    arguments = options.parse_args()
    corpus = enlarge_corpus(63_666)
    corpus_vectors, question_vectors = (fitted if arguments.lsa else ready)(
        corpus, corpus.questions[: arguments.questions]
    )
    print(f"{corpus_vectors.shape[1]} dimensions\n{'vectors':>10}{'all':>16}{'signs':>16}{'Chroma':>16}", flush=True)
    with tempfile.TemporaryDirectory() as place:
        for size in arguments.sizes:
            print(line(size, corpus_vectors, question_vectors, Path(place) / str(size)), flush=True)


def ready(corpus: Corpus, questions: list[str]) -> tuple[Vectors, Vectors]:
    """Return the ready-made vectors of the sets."""
    return unit(corpus.vectors), unit([corpus.embedding.embed_query(question) for question in questions])


def fitted(corpus: Corpus, questions: list[str]) -> tuple[Vectors, Vectors]:
    """Return vectors of a model that is fitted to the texts."""
    model = LSAEmbeddings().fit(corpus.texts)
    return unit(model.embed_documents(corpus.texts)), unit([model.embed_query(question) for question in questions])


def line(size: int, corpus_vectors: Vectors, question_vectors: Vectors, place: Path) -> str:
    """Return the time and recall of each way to search, for one number of vectors."""
    place.mkdir()
    matrix = VectorMatrix(place / "vectors.f32", corpus_vectors.shape[1])
    client = chromadb.PersistentClient(str(place / "chroma"), settings=chromadb.Settings(anonymized_telemetry=False))
    chroma = client.create_collection("vectors", configuration={"hnsw": {"space": "ip"}})
    dice = np.random.default_rng(0)
    for start in range(0, size, BATCH):
        rows = np.arange(start, min(start + BATCH, size))
        noise = dice.normal(size=(len(rows), corpus_vectors.shape[1])) * (rows >= len(corpus_vectors))[:, None] * 0.03
        vectors = unit(corpus_vectors[rows % len(corpus_vectors)] + noise)
        matrix.write(start, vectors, sync=False)
        chroma.add(ids=list(map(str, rows.tolist())), embeddings=vectors)
    everything = np.ones(size, np.bool_)

    def by_chroma(vector: Vectors) -> NDArray[np.int64]:
        answer = chroma.query(query_embeddings=[vector], n_results=CANDIDATES, include=[])
        rows = np.array(answer["ids"][0], np.int64)
        return rows[np.argsort(-matrix.scores(vector, rows))]

    ways: list[Callable[[Vectors], NDArray[np.int64]]] = [
        lambda vector: matrix.search(vector, CANDIDATES, everything)[0],
        lambda vector: matrix.search(vector, CANDIDATES, everything, approximate=True)[0],
        by_chroma,
    ]
    vector_matrix.EXACT_BYTES = 0  # the measurement decides how large it is
    durations: list[list[float]] = [[] for _ in ways]
    ids: list[list[float]] = [[] for _ in ways]
    for vector in [*question_vectors[:5], *question_vectors]:
        answers = []
        for way, times in zip(ways, durations, strict=True):
            started_at = time.perf_counter()
            answers.append(way(vector)[:RECALL_DEPTH])
            times.append((time.perf_counter() - started_at) * 1e3)
        for answer, shares in zip(answers, ids, strict=True):
            shares.append(np.isin(answers[0], answer).mean())
    cells = [f"{statistics.median(t[5:]):8.2f} ms {np.mean(f[5:]):.3f}" for t, f in zip(durations, ids, strict=True)]
    return f"{size:>10,}" + "".join(f"{cell:>17}" for cell in cells)


if __name__ == "__main__":
    main()
