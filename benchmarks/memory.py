"""Recall of time-aware memory on locomo, by kind of question, and its cost over 60,000 memories.

    python benchmarks/memory.py [--every 1] [--modes] [--fusions] [--only quality|speed] [--size 60000]

The set locomo has ten conversations between two people over several months, with dated turns, and questions with the
turns that answer them. Each question is searched for in its own conversation (``filter.conversation``). All retrievers
have their default settings, the same texts and the same ready-made all-MiniLM-L6-v2 vectors. The document of a turn is
its session, so that ``ingest`` creates edges from turn to turn. No language model is used. ``--every n`` asks every
n-th question.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
from _corpus import ReadyEmbeddings, enlarge_corpus, require_sets
from langchain_core.documents import Document
from speed import medians_ms

from langchain_hybridgraph import GraphRetriever, HybridGraphStore, HybridRetriever, MemoryRetriever, ingest
from langchain_hybridgraph.options.models import MODES

KINDS = ("temporal", "single-hop", "multi-hop", "open-domain")
DEPTHS = (5, 10)
MINUTES = 60.0

Answers = Callable[[Mapping[str, Any]], Sequence[str]]


def main() -> None:
    """Print both tables."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--every", type=int, default=1, help="ask every n-th question")
    options.add_argument("--modes", action="store_true", help="compare all memory modes")
    options.add_argument(
        "--fusions", action="store_true", help="compare other fusions, and the default without date_boost"
    )
    options.add_argument("--only", choices=("quality", "speed"), help="measure only this part")
    options.add_argument("--size", type=int, default=60_000, help="number of memories in the speed test")
    arguments = options.parse_args()
    if arguments.only != "speed":
        quality(arguments)
    if arguments.only != "quality":
        speed(arguments.size)


# -- quality ------------------------------------------------------------------------------------------------------


def quality(arguments: argparse.Namespace) -> None:
    """Print recall by kind of question."""
    sets = require_sets()
    loaded = sets.load("locomo")
    store = HybridGraphStore(None, ReadyEmbeddings(sets.PrecomputedEmbeddings("locomo").vectors))
    report = ingest(memories(loaded, sets), store, split=None)
    queries = loaded.queries[:: arguments.every]
    print(
        f"locomo: {report.chunks:,} turns, {report.edges:,} edges, {len(queries):,} questions; recall@5 and recall@10\n"
    )
    print(f"| | {' | '.join(KINDS)} | all | ms |\n|---{'|---' * (len(KINDS) + 2)}|")
    for label, answers in retrievers(store, loaded, sets, arguments):
        print(f"| {label} | {recalls(answers, queries, loaded.qrels)} |", flush=True)
    store.close()


def memories(loaded: Any, sets: Any) -> Iterator[Document]:
    """Return the turns as a user would ingest them: dated, and in their sessions."""
    for row in loaded.corpus:
        context = {key: row[key] for key in ("conversation", "speaker")}
        dated = {"created_at": row["date"], "document_id": row["session"]}
        yield Document(id=row["id"], page_content=sets.document_text(row), metadata=context | dated)


def retrievers(
    store: HybridGraphStore, loaded: Any, sets: Any, arguments: argparse.Namespace
) -> Iterator[tuple[str, Answers]]:
    """Yield the retrievers by name."""
    yield "TimeWeightedVectorStoreRetriever", time_weighted(store, loaded, sets)
    yield "HybridRetriever", answers_of(HybridRetriever(store))
    yield "GraphRetriever", answers_of(GraphRetriever(store))
    yield "**MemoryRetriever**", answers_of(MemoryRetriever(store))
    if arguments.modes:
        for mode in MODES:
            yield f"mode {mode}", answers_of(MemoryRetriever(store, mode=mode))
    if arguments.fusions:
        yield "times in the question do not count", answers_of(MemoryRetriever(store, memory={"date_boost": 0}))
        for fusion in ("rrf", "max", "distribution"):
            yield f"fusion {fusion}", answers_of(MemoryRetriever(store, fusion=fusion))


def answers_of(retriever: HybridRetriever) -> Answers:
    """Return a function that returns the ids found by one of this package's retrievers."""
    return lambda query: [d.id or "" for d in retriever.invoke(query["text"], k=DEPTHS[-1], filter=query["filter"])]


def time_weighted(store: HybridGraphStore, loaded: Any, sets: Any) -> Answers:
    """Return answers by LangChain's time-weighted retriever, created once per conversation because it has no filter.

    It records when a Document was last returned. This is reset after each question; otherwise results would depend on
    the order of the questions.
    """
    from langchain_classic.retrievers import TimeWeightedVectorStoreRetriever
    from langchain_core.vectorstores import InMemoryVectorStore

    class Cosines(InMemoryVectorStore):
        """Store that returns its cosines as relevance scores."""

        def _select_relevance_score_fn(self) -> Callable[[float], float]:
            return lambda cosine: max(0.0, cosine)

    by_conversation: dict[str, list[Document]] = defaultdict(list)
    for document in memories(loaded, sets):
        by_conversation[document.metadata["conversation"]].append(document)
    peers = {}
    for conversation, documents in by_conversation.items():
        peer = TimeWeightedVectorStoreRetriever(
            vectorstore=Cosines(store.embeddings), k=DEPTHS[-1], search_kwargs={"k": 100}
        )
        for document in documents:
            created = datetime.fromisoformat(document.metadata["created_at"])
            document.metadata |= {"created_at": created, "last_accessed_at": created}
        peer.add_documents(documents)
        peers[conversation] = peer

    def answers(query: Mapping[str, Any]) -> Sequence[str]:
        peer = peers[query["conversation"]]
        documents = peer.invoke(query["text"])
        for document in peer.memory_stream:
            document.metadata["last_accessed_at"] = document.metadata["created_at"]
        return [document.id or "" for document in documents]

    return answers


def recalls(answers: Answers, queries: Sequence[Mapping[str, Any]], qrels: Mapping[str, Mapping[str, float]]) -> str:
    """Describe mean recall at both depths, by kind of question and over all questions, and the median time."""
    values: dict[str, list[list[float]]] = defaultdict(list)
    durations = []
    for query in queries:
        relevant = {id for id, grade in qrels[query["id"]].items() if grade > 0}
        started_at = time.perf_counter()
        ids = answers(query)
        durations.append((time.perf_counter() - started_at) * 1e3)
        row = [len(relevant.intersection(ids[:depth])) / len(relevant) for depth in DEPTHS]
        values[query["category"]].append(row)
        values["all"].append(row)
    means = [np.mean(values[kind], axis=0) for kind in (*KINDS, "all") if values[kind]]
    return " | ".join([*(f"{at_5:.4f} {at_10:.4f}" for at_5, at_10 in means), f"{np.median(durations):.1f}"])


# -- speed --------------------------------------------------------------------------------------------------------


def speed(size: int) -> None:
    """Print the time of a search over many memories, next to the hybrid search of the same run."""
    corpus = enlarge_corpus(size)
    started_at = datetime(2024, 1, 1).timestamp()
    store = HybridGraphStore(None, corpus.embedding)
    documents = [
        Document(
            id=id,
            page_content=text,
            metadata={
                "created_at": started_at + place * 10 * MINUTES,
                "document_id": f"session {place // 20}",
                "confidence": place % 10 / 10,
                "labels": ["even" if place % 2 == 0 else "odd"],
            },
        )
        for place, (id, text) in enumerate(zip(corpus.ids, corpus.texts, strict=True))
    ]
    report = ingest(documents, store, split=None, edges=["sequence"])
    hybrid, memory = HybridRetriever(store), MemoryRetriever(store)
    middle = started_at + size * 5 * MINUTES
    medians = medians_ms(
        {
            "HybridRetriever": hybrid.invoke,
            "MemoryRetriever": memory.invoke,
            "MemoryRetriever, as_of": lambda question: memory.invoke(question, as_of=middle),
            "MemoryRetriever, labels": lambda question: memory.invoke(question, labels=["even"]),
            "HybridRetriever, a filter as selective": lambda question: hybrid.invoke(
                question, filter={"labels": {"$contains": "even"}}
            ),
        },
        corpus.questions,
        200,
    )
    print(f"\n{report.chunks:,} memories, {report.edges:,} edges from each to the next of its session")
    for label, ms in medians.items():
        print(f"{label:40}{ms:7.2f} ms{ms / medians['HybridRetriever']:7.2f} × hybrid")
    store.close()


if __name__ == "__main__":
    main()
