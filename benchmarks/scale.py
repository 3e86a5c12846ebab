"""Growth of time and memory with the size of the index.

    python benchmarks/scale.py [--sizes 10000,100000,1000000] [--keep FOLDER] [--processor]

The chunks are real sentences of the evaluation sets in new combinations, with 384 dimensions; a chunk's vector is the
mean of the vectors of its sentences' documents, with a little noise. Each size is ingested in a process of its own and
measured in another one. The last column is the exponent e of the growth n^e between the smallest and the largest size:
0 for a step whose cost does not depend on the index, 1 for one that reads everything. With ``--processor``, times are
processor times, which other programs on the machine affect less.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _corpus import SETS, folder, require_sets
from langchain_core.embeddings import Embeddings

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from langchain_hybridgraph.records import Query

BATCH = 10_000
SENTENCES = 5  # per chunk
ROUNDS = 50
SINGLE_CHANGES = 15
SHARES = (1, 10, 50)  # of the chunks that a filter allows, in percent
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")


class Sentences(Embeddings):
    """Real sentences, each with the vector of its document; the vector of a text is the mean of its sentences."""

    def __init__(self) -> None:
        sets, place = require_sets(), folder()
        assert place is not None
        self.texts: list[str] = []
        owners: list[int] = []
        vectors = []
        for name in SETS:
            loaded = sets.load(name)
            with np.load(place / name / "minilm.npz") as stored:
                start = sum(map(len, vectors))
                vectors.append(stored["docs"].astype(np.float32))
            for row, record in enumerate(loaded.corpus):
                parts = [part for part in SENTENCE_END.split(record["text"]) if 30 <= len(part) <= 400]
                self.texts += parts
                owners += [start + row] * len(parts)
        self._vectors, self._owners = np.vstack(vectors), np.array(owners)
        self._row = {text: row for row, text in enumerate(self.texts)}

    def chunks(self, first: int, count: int) -> tuple[list[str], np.ndarray]:
        """Return ``count`` chunks and their vectors; the same numbers always give the same chunks."""
        generator = np.random.default_rng(first)
        rows = generator.integers(0, len(self.texts), (count, SENTENCES))
        vectors = self._vectors[self._owners[rows]].mean(axis=1)
        vectors += generator.normal(0, 0.01, vectors.shape).astype(np.float32)
        texts = [" ".join([self.texts[row] for row in each]) for each in rows.tolist()]
        return texts, vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the vector of the document of each text's first sentence."""
        return [self.embed_query(SENTENCE_END.split(text)[0]) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a sentence's document, or of another sentence for an unknown one."""
        vector: list[float] = self._vectors[self._owners[self._row.get(text, len(text))]].tolist()
        return vector


def clock() -> float:
    """Return the time in seconds, or the processor time of this process."""
    return time.process_time() if "--processor" in sys.argv else time.perf_counter()


def batches(sentences: Sentences, size: int) -> Iterator[tuple[list[str], list[dict[str, Any]], list[str], np.ndarray]]:
    """Yield texts, metadata, ids and vectors."""
    for start in range(0, size, BATCH):
        texts, vectors = sentences.chunks(start, min(BATCH, size - start))
        numbers = range(start, start + len(texts))
        yield texts, [{"percent": n % 100} for n in numbers], [f"c{n}" for n in numbers], vectors


def ingest(path: Path, size: int) -> dict[str, float]:
    """Write the index."""
    sentences = Sentences()
    texts_seconds, started_at = 0.0, clock()
    with HybridGraphStore(path, sentences) as store:
        prepared_at = clock()
        for texts, metadatas, ids, vectors in batches(sentences, size):
            texts_seconds += clock() - prepared_at
            store.add_texts(texts, metadatas, ids=ids, vectors=vectors, batch_size=BATCH)
            prepared_at = clock()
    seconds = clock() - started_at - texts_seconds
    return {"ingest, chunks/s": size / seconds, "peak of ingest, MB": memory("VmHWM")}


def measure(path: Path, size: int) -> dict[str, float]:
    """Open the index and time each kind of call, in milliseconds unless the name says otherwise."""
    sentences = Sentences()
    questions = [sentences.texts[row] for row in np.random.default_rng(1).integers(0, len(sentences.texts), ROUNDS)]
    before = memory("RssAnon")
    results: dict[str, float] = {}
    started_at = clock()
    store = HybridGraphStore(path, sentences)
    retriever = HybridRetriever(store, k=10)
    retriever.invoke(questions[0])
    results["opening and first query, s"] = clock() - started_at
    results["hybrid"] = median(retriever.invoke, questions)
    for share in SHARES:
        filtered = HybridRetriever(store, k=10, filter={"percent": {"$lt": share}})
        results[f"hybrid, filter of {share} %"] = median(filtered.invoke, questions)
    results["vectors"] = median(lambda question: store.vector_search(Query(question, 10), 10), questions)
    results["keywords"] = median(lambda question: store.keyword_search(Query(question, 10), 10), questions)
    results["recall@10"] = recall(store, sentences, size, questions)
    results["reader, MB"] = memory("RssAnon") - before
    process = os.getpid()  # an index that is kept already has the chunks of earlier runs
    new, _ = sentences.chunks(size + process, 2 * SINGLE_CHANGES)
    old = np.random.default_rng(process).integers(0, size, SINGLE_CHANGES).tolist()
    results["one add"] = median(lambda n: store.add_texts([new[n]], ids=[f"{process}-{n}"]), range(SINGLE_CHANGES))
    results["one delete"] = median(lambda n: store.delete([f"c{n}"]), old)
    late = range(SINGLE_CHANGES, 2 * SINGLE_CHANGES)
    results["one add and a query"] = median(lambda n: (store.add_texts([new[n]]), retriever.invoke(new[n])), late)
    store.close()
    results["folder, MB"] = sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) / 1e6
    return results


def median(call: Callable[[Any], Any], arguments: Any) -> float:
    """Return the median time of a call in milliseconds."""
    durations = []
    for argument in arguments:
        started_at = clock()
        call(argument)
        durations.append(1e3 * (clock() - started_at))
    return statistics.median(durations)


def memory(name: str) -> float:
    """Return a figure of this process from /proc, in MB; RssAnon leaves out mapped files."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{name}:")[2].split()[0]) / 1e3


def recall(store: HybridGraphStore, sentences: Sentences, size: int, questions: list[str]) -> float:
    """Return the share of the ten nearest chunks that the vector search finds."""
    queries = np.array([sentences.embed_query(question) for question in questions], np.float32)
    best = np.full((len(questions), 10), -np.inf, np.float32)
    for _, _, _, vectors in batches(sentences, size):
        scores = np.concatenate([best, queries @ vectors.astype(np.float32).T], axis=1)
        best = -np.sort(-scores, axis=1)[:, :10]
    shares = []
    for question, scores in zip(questions, best, strict=True):
        cosines = store.vector_search(Query(question, 10), 10).scores.values()
        shares.append(sum(score >= scores[-1] - 1e-5 for score in cosines) / 10)
    return statistics.mean(shares)


def main() -> None:
    """Run each size in its own processes, and print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sizes", default="10000,100000,1000000", help="numbers of chunks, separated by commas")
    options.add_argument("--keep", type=Path, help="folder in which the indexes are kept; existing ones are measured")
    options.add_argument("--processor", action="store_true", help="measure processor time")
    options.add_argument("--step", choices=["ingest", "measure"], help=argparse.SUPPRESS)
    arguments = options.parse_args()
    require_sets()
    sizes = [int(size) for size in arguments.sizes.split(",")]
    with tempfile.TemporaryDirectory() as temporary:
        place = arguments.keep or Path(temporary)
        if arguments.step:
            path = place / str(sizes[0])
            print(json.dumps(ingest(path, sizes[0]) if arguments.step == "ingest" else measure(path, sizes[0])))
            return
        show(sizes, [run(place, size) for size in sizes])


def run(place: Path, size: int) -> dict[str, float]:
    """Ingest and measure one size in processes of their own."""
    results: dict[str, float] = {}
    for step in ("ingest", "measure"):
        if step == "ingest" and (place / str(size)).exists():
            continue
        command = [sys.executable, __file__, "--sizes", str(size), "--keep", str(place), "--step", step]
        command += [each for each in sys.argv if each == "--processor"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=os.environ)
        results |= json.loads(done.stdout.splitlines()[-1])
    return results


def show(sizes: list[int], results: list[dict[str, float]]) -> None:
    """Print one row per figure, and the exponent of its growth."""
    print(f"{'':28s}" + "".join(f"{size:>14,}" for size in sizes) + f"{'exponent':>12s}")
    for name in results[-1]:
        figures = [each.get(name, math.nan) for each in results]
        line = f"{name:28s}" + "".join(f"{figure:14.2f}" for figure in figures)
        if len(sizes) > 1 and min(figures) > 0:
            line += f"{math.log(figures[-1] / figures[0]) / math.log(sizes[-1] / sizes[0]):12.2f}"
        print(line)


if __name__ == "__main__":
    main()
