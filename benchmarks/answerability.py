"""AUROC of ``relevance_score`` for questions with and without an answer, and the effect of a threshold of .5.

    python benchmarks/answerability.py [--embedding minilm|lsa] [--sets NAME ...] [--questions 60]

Each set's texts are searched for questions of the same set (own questions), which the texts answer, and for as many
questions of other sets (foreign questions), which they do not answer. A question is searched with its own filter, if it
has one; a foreign question gets the filter of one of the set's own questions. The score of a question is the
relevance_score of its first hit, or 0 if there is no hit.

The program prints these figures below the table:

- across: all sets together, with one threshold.
- within: mean and minimum over the sets.
- without the answer: own questions, compared with the same questions after the texts that answer them were deleted.
  Similar texts remain, so this is harder than recognising the topic.
- partial: questions of conversations that the set marks as answered, compared with those answered in part.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _corpus import ReadyEmbeddings, require_sets

from langchain_hybridgraph import HybridGraphStore, HybridRetriever

SETS = (
    "hotpotqa_val500",
    "wiki2_dev200",
    "musique_train200",
    "mtrag_clapnq",
    "mtrag_cloud",
    "mtrag_govt",
    "locomo",
    "cacm",
    "cranfield",
    "scifact",
    "chunk_eval",
    "anthropic_docs",
    "identifiers",
)


class AnsweredQuestion(NamedTuple):
    """One question, the kind of its answer, and its result."""

    corpus: str
    kind: str  # "own", "foreign" or "deleted"
    score: float
    before: float
    is_partial: bool


def ask_all(
    name: str, questions: dict[str, list[dict[str, Any]]], sets: Any, embedding: Any
) -> Iterator[AnsweredQuestion]:
    """Ask all kinds of questions about one set's texts."""
    loaded = sets.load(name)
    texts, ids = [sets.document_text(row) for row in loaded.corpus], [row["id"] for row in loaded.corpus]
    keys = {key for query in loaded.queries for key in query.get("filter") or {}}
    metadatas = [
        {"key": row["id"]} | {key: row[key] for key in keys if row.get(key) is not None} for row in loaded.corpus
    ]
    filters = [query.get("filter") for query in loaded.queries]
    foreign = [query for other in questions if other != name for query in questions[other]]
    selection = np.random.default_rng(7).permutation(len(foreign))[: len(questions[name])]
    with HybridGraphStore.from_texts(texts, embedding, metadatas, ids=ids) as store:
        retriever = HybridRetriever(store, k=1)
        for query in questions[name]:
            yield _ask(retriever, name, "own", query, query.get("filter"))
            gold = [id for id, grade in loaded.qrels[query["id"]].items() if grade > 0]
            yield _ask(retriever, name, "deleted", query, {**(query.get("filter") or {}), "key": {"$nin": gold}})
        for place in selection.tolist():
            yield _ask(retriever, name, "foreign", foreign[place], filters[place % len(filters)])


def _ask(retriever: HybridRetriever, name: str, kind: str, query: dict[str, Any], filter: Any) -> AnsweredQuestion:
    results = retriever.retrieve(query["text"], filter=filter)
    score = results[0].metadata["relevance_score"] if results else 0.0
    unit = results.answerability.unit if results.answerability else 1.0
    before = sum(results.hits[0].parts.values()) / unit if results.hits else 0.0
    return AnsweredQuestion(name, kind, score, before, query.get("answerability") == "PARTIAL")


def auroc(yes: Sequence[float], no: Sequence[float]) -> float:
    """Return the probability that a score of the first kind is larger than a score of the second kind. A tie adds one
    half.
    """
    pairs = np.asarray(yes)[:, None] - np.asarray(no)[None, :]
    return float((pairs > 0).mean() + (pairs == 0).mean() / 2) if pairs.size else float("nan")


def report(every: Sequence[AnsweredQuestion]) -> None:
    """Print a row for each set, and the figures over all sets."""
    names = list(dict.fromkeys(one.corpus for one in every))

    def scores(kind: str, *corpora: str) -> list[float]:
        return [one.score for one in every if one.kind == kind and one.corpus in (corpora or names)]

    print("| Texts of | AUROC | own questions ≥ .5 | foreign questions ≥ .5 |\n|---|---|---|---|")
    for name in names:
        own, foreign = scores("own", name), scores("foreign", name)
        print(f"| {name} | {auroc(own, foreign):.3f} | {_share(own):.2f} | {_share(foreign):.2f} |")
    own, foreign = scores("own"), scores("foreign")
    within = [auroc(scores("own", name), scores("foreign", name)) for name in names]
    print(f"| across | {auroc(own, foreign):.3f} | {_share(own):.2f} | {_share(foreign):.2f} |")
    print(f"\nwithin: mean {np.mean(within):.3f}, minimum {min(within):.3f}")
    before = {kind: [one.before for one in every if one.kind == kind] for kind in ("own", "foreign")}
    print(f"across, by the score before calibration: {auroc(before['own'], before['foreign']):.3f}")
    print(f"without the answer: {auroc(own, scores('deleted')):.3f}")
    in_conversations = [one for one in every if one.kind == "own" and one.corpus.startswith("mtrag")]
    partial = [[one.score for one in in_conversations if one.is_partial is is_partial] for is_partial in (False, True)]
    print(f"partial: {auroc(*partial):.3f} ({len(partial[1])} questions)")


def _share(scores: Sequence[float]) -> float:
    return float(np.mean(np.asarray(scores) >= 0.5))


def main() -> None:
    """Print the figures."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, help="folder of the sets, instead of HYBRIDGRAPH_SETS")
    options.add_argument(
        "--sets", nargs="+", choices=SETS, default=SETS, metavar="NAME", help="evaluation sets to measure"
    )
    options.add_argument("--embedding", choices=("minilm", "lsa"), default="minilm", help="embedding model")
    options.add_argument("--questions", type=int, default=60, help="number of questions of each set")
    arguments = options.parse_args()
    if arguments.data is not None:
        os.environ["HYBRIDGRAPH_SETS"] = str(arguments.data)
    sets = require_sets()
    questions: dict[str, list[dict[str, Any]]] = {}
    for name in arguments.sets:
        queries = sets.load(name).queries
        order = np.random.default_rng(3).permutation(len(queries))[: arguments.questions]
        questions[name] = [queries[place] for place in order.tolist()]
    ready = ReadyEmbeddings(sets.PrecomputedEmbeddings(*arguments.sets).vectors)
    embedding = ready if arguments.embedding == "minilm" else "lsa"
    every = [one for name in arguments.sets for one in ask_all(name, questions, sets, embedding)]
    report(every)


if __name__ == "__main__":
    main()
