"""nDCG@10 of both engines alone, of LangChain's EnsembleRetriever and of every fusion.

    python benchmarks/quality.py [--embedding minilm|squeezed|lsa] [--weights | --leave-one-out] [--sets NAME ...]
        [--data FOLDER]

The engines are called directly: exact cosines, and BM25 over title and text. Each returns 100 candidates, and both
score all candidates. A question with a filter is searched with that filter; only the last turn of a conversation is
used.

- ``--embedding minilm``: the sets' ready-made all-MiniLM-L6-v2 vectors.
- ``--embedding squeezed``: the same, with cosines squeezed to .75 + .2 · cosine, a range typical of some models.
- ``--embedding lsa``: LSA, fitted to each corpus.
- ``--weights`` shows the results for every weight of the vector search.
- ``--leave-one-out`` chooses the weight for each set using only sets from other datasets.
- ``--sets`` measures only these sets.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from _corpus import require_sets

from langchain_hybridgraph.embeddings.resolve import LSAEmbeddings
from langchain_hybridgraph.records import Ranking, best_first
from langchain_hybridgraph.search.fusion import (
    ConvexCombination,
    DistributionBased,
    Fusion,
    MaxWeighted,
    ReciprocalRankFusion,
)
from langchain_hybridgraph.stores.tantivy_index import TantivyIndex

SETS = (
    "hotpotqa_val500",
    "hotpotqa_train100",
    "wiki2_dev200",
    "musique_train200",
    "musique_train100",
    "mtrag_clapnq",
    "mtrag_govt",
    "locomo",
    "cacm",
    "cranfield",
    "scifact",
    "chunk_eval",
    "anthropic_docs",
)
CANDIDATES = 100
DEPTH = 10
WEIGHTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8)
DISCOUNTS = 1 / np.log2(np.arange(2, DEPTH + 2))

Answers = Callable[["RankedQuestion"], Sequence[str]]


@dataclass(frozen=True)
class RankedQuestion:
    """Results of both engines for a question, best first, and the correct answers."""

    id: str
    vector: Ranking
    keyword: Ranking
    grades: Mapping[str, float]

    def with_weight(self, weight: float) -> list[Ranking]:
        """Return the two lists with this weight of the vector side."""
        return [replace(self.vector, weight=weight), replace(self.keyword, weight=1 - weight)]


def ndcg(ids: Sequence[str], grades: Mapping[str, float]) -> float:
    """Return nDCG@10 with linear gains, as in trec_eval."""
    gains = np.array([grades.get(id, 0.0) for id in ids[:DEPTH]])
    ideal = np.sort(np.array([grade for grade in grades.values() if grade > 0]))[::-1][:DEPTH]
    return float(gains @ DISCOUNTS[: len(gains)] / (ideal @ DISCOUNTS[: len(ideal)])) if len(ideal) else 0.0


# -- calling the engines ------------------------------------------------------------------------------------------


def questions(name: str, sets: Any, embedding: str) -> Iterator[RankedQuestion]:
    """Return one set's questions with the candidates of both engines."""
    loaded = sets.load(name)
    ids = np.array([row["id"] for row in loaded.corpus])
    texts = [sets.document_text(row) for row in loaded.corpus]
    index = TantivyIndex(None)
    index.apply(1, list(enumerate(texts)), [])
    cosines_of = _cosines(texts, sets.PrecomputedEmbeddings(name), embedding)
    for query in loaded.queries:
        text = query["text"]
        cosines = cosines_of(text)
        allowed_rows = np.array([_passes(row, query.get("filter")) for row in loaded.corpus])
        near = np.lexsort((ids, np.where(allowed_rows, -cosines, np.inf)))[: min(CANDIDATES, allowed_rows.sum())]
        nearest = near.tolist() if cosines.any() else []  # LSA may not contain any word of the question
        matched, exact = index.search(text, CANDIDATES, allowed_rows), index.exact_matches(text, allowed_rows)
        rows = list({**dict.fromkeys(nearest), **dict(matched), **exact})
        words = dict(matched) | index.scores(text, rows)
        likely = {ids[row]: value for row, value in exact.items()}
        inside = cosines[allowed_rows]
        background = (float(inside.mean()), float(inside.std())) if inside.any() else None
        yield RankedQuestion(
            query["id"],
            _ranking(
                "vector", ids, nearest, {row: float(cosines[row]) for row in rows}, bound=1.0, background=background
            ),
            _ranking(
                "keyword", ids, [row for row, _ in matched], words, bound=index.question(text).bound, exact=likely
            ),
            loaded.qrels[query["id"]],
        )


def _cosines(texts: Sequence[str], ready: Any, embedding: str) -> Callable[[str], Any]:
    """Return a function that computes the cosines of a question with all texts."""
    if embedding == "lsa":
        lsa = LSAEmbeddings().fit(texts)
        matrix = lsa.vectors(texts)
        return lambda text: matrix @ lsa.vectors([text])[0]
    matrix = np.array([ready.vectors[text] for text in texts])
    shift, scale = (0.75, 0.2) if embedding == "squeezed" else (0.0, 1.0)
    return lambda text: shift + scale * (matrix @ ready.vectors[text])


def _ranking(source: str, ids: Any, positions: Sequence[int], scores: Mapping[int, float], **options: Any) -> Ranking:
    best = best_first((ids[row], scores[row]) for row in positions)
    return Ranking(source, 0.5, list(best), {ids[row]: score for row, score in scores.items()}, **options)


def _passes(row: Mapping[str, Any], condition: Mapping[str, Any] | None) -> bool:
    return all(row.get(key) == value for key, value in (condition or {}).items())


# -- answering ----------------------------------------------------------------------------------------------------


def fused(fusion: Fusion, weight: float = 0.7) -> Answers:
    return lambda question: [one.id for one in fusion(question.with_weight(weight))[:DEPTH]]


def without_exact_matches(question: RankedQuestion) -> Sequence[str]:
    """Apply the default fusion without exact matches of identifiers and rare words."""
    vector, keyword = question.with_weight(0.7)
    return [one.id for one in ConvexCombination()([vector, replace(keyword, exact={})])[:DEPTH]]


def without_background(question: RankedQuestion) -> Sequence[str]:
    """Apply the default fusion as over a store that cannot return the cosines of arbitrary chunks."""
    vector, keyword = question.with_weight(0.7)
    return [one.id for one in ConvexCombination()([replace(vector, background=None), keyword])[:DEPTH]]


def ensemble(n: int) -> Answers:
    """Return LangChain's EnsembleRetriever over the first n of either list, with weights .7 and .3."""
    from langchain_classic.retrievers.ensemble import EnsembleRetriever
    from langchain_core.documents import Document

    retriever = EnsembleRetriever.model_construct(weights=[0.7, 0.3])  # its retrievers are not called

    def answer(question: RankedQuestion) -> Sequence[str]:
        lists = [[Document(page_content=id) for id in r.ids[:n]] for r in (question.vector, question.keyword)]
        return [document.page_content for document in retriever.weighted_reciprocal_rank(lists)[:DEPTH]]

    return answer


def systems() -> dict[str, Answers]:
    answers: dict[str, Answers] = {
        "vector alone": lambda q: q.vector.ids[:DEPTH],
        "BM25 alone": lambda q: q.keyword.ids[:DEPTH],
    }
    if importlib.util.find_spec("langchain_classic") is not None:
        answers |= {f"EnsembleRetriever .7/.3 over {n}": ensemble(n) for n in (DEPTH, CANDIDATES)}
    return answers | {
        "rrf .7": fused(ReciprocalRankFusion()),
        "rrf .5": fused(ReciprocalRankFusion(), 0.5),
        "distribution .5": fused(DistributionBased(), 0.5),
        "max .5": fused(MaxWeighted(), 0.5),
        "convex max .7": fused(ConvexCombination(normalize="max", adaptive=False)),
        "convex max .55": fused(ConvexCombination(normalize="max", adaptive=False), 0.55),
        "convex bound .7": fused(ConvexCombination(normalize="bound")),
        "convex bound .4": fused(ConvexCombination(normalize="bound"), 0.4),
        "convex, not adaptive .7": fused(ConvexCombination(adaptive=False)),
        "convex, unknown background .7": without_background,
        "convex, without exact matches .7": without_exact_matches,
        "**convex .7**": fused(ConvexCombination()),
    }


# -- reporting ----------------------------------------------------------------------------------------------------


def mean_ndcg(answers: Answers, questions: Sequence[RankedQuestion]) -> float:
    return float(np.mean([ndcg(answers(question), question.grades) for question in questions]))


def table(questions_by_set: Mapping[str, Sequence[RankedQuestion]]) -> None:
    """Print every system on every set, the mean, and the worst difference from the better engine."""
    rows = {
        label: [mean_ndcg(answers, each) for each in questions_by_set.values()] for label, answers in systems().items()
    }
    legs = np.maximum(rows["vector alone"], rows["BM25 alone"])
    print(
        f"| nDCG@10 | {' | '.join(questions_by_set)} | mean | worst difference |\n"
        f"|---{'|---' * (len(questions_by_set) + 2)}|"
    )
    for label, row in rows.items():
        figures = " | ".join(f"{value:.3f}" for value in row)
        print(f"| {label} | {figures} | {np.mean(row):.4f} | {(np.array(row) - legs).min():+.4f} |")
    _check(questions_by_set)


def weights(questions_by_set: Mapping[str, Sequence[RankedQuestion]]) -> None:
    """Print the default fusion with other weights."""
    legs = _better_engine(questions_by_set)
    print("| weight of the vectors | mean nDCG@10 | worst difference | on |\n|---|---|---|---|")
    for weight in WEIGHTS:
        far = (
            np.array([mean_ndcg(fused(ConvexCombination(), weight), each) for each in questions_by_set.values()]) - legs
        )
        print(f"| {weight} | {(far + legs).mean():.4f} | {far.min():+.4f} | {list(questions_by_set)[far.argmin()]} |")


def leave_one_out(questions_by_set: Mapping[str, Sequence[RankedQuestion]]) -> None:
    """Print, for each set, the weight that is best on average on the sets of other sources, and its figure on
    this set.
    """
    legs = _better_engine(questions_by_set)
    figures = np.array(
        [[mean_ndcg(fused(ConvexCombination(), w), each) for each in questions_by_set.values()] for w in WEIGHTS]
    )
    print("| left out | chosen weight | nDCG@10 | to better engine |\n|---|---|---|---|")
    left_out = []
    for place, name in enumerate(questions_by_set):
        others = [n for n, other in enumerate(questions_by_set) if other.split("_")[0] != name.split("_")[0]]
        best = int(figures[:, others].mean(1).argmax())
        left_out.append(figures[best, place])
        print(f"| {name} | {WEIGHTS[best]} | {left_out[-1]:.3f} | {left_out[-1] - legs[place]:+.4f} |")
    print(f"| mean |  | {np.mean(left_out):.4f} | {(np.array(left_out) - legs).min():+.4f} |")


def _better_engine(questions_by_set: Mapping[str, Sequence[RankedQuestion]]) -> Any:
    alone = systems()
    return np.array(
        [
            max(mean_ndcg(alone[one], each) for one in ("vector alone", "BM25 alone"))
            for each in questions_by_set.values()
        ]
    )


def _check(questions_by_set: Mapping[str, Sequence[RankedQuestion]]) -> None:
    """Compare our nDCG with that of ir-measures, if it is installed."""
    if importlib.util.find_spec("ir_measures") is None:
        return
    import ir_measures

    answers = fused(ConvexCombination())
    for name, each in questions_by_set.items():
        run = {q.id: {id: float(DEPTH - place) for place, id in enumerate(answers(q))} for q in each}
        grades = {q.id: {id: int(grade) for id, grade in q.grades.items()} for q in each}
        theirs = ir_measures.calc_aggregate([ir_measures.nDCG @ DEPTH], grades, run)[ir_measures.nDCG @ DEPTH]
        if abs(theirs - mean_ndcg(answers, each)) > 1e-6:
            raise SystemExit(f"ir-measures has {theirs:.6f} on {name}, this file {mean_ndcg(answers, each):.6f}")
    print("\nnDCG@10 is that of ir-measures.")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, help="folder of the sets, instead of HYBRIDGRAPH_SETS")
    options.add_argument(
        "--sets", nargs="+", choices=SETS, default=SETS, metavar="NAME", help="evaluation sets to measure"
    )
    options.add_argument("--embedding", choices=("minilm", "squeezed", "lsa"), default="minilm", help="embedding model")
    what = options.add_mutually_exclusive_group()
    what.add_argument("--weights", action="store_true", help="compare weights of the vector search")
    what.add_argument(
        "--leave-one-out",
        action="store_true",
        help="choose the weight for each set using only sets from other datasets",
    )
    arguments = options.parse_args()
    if arguments.data is not None:
        os.environ["HYBRIDGRAPH_SETS"] = str(arguments.data)
    sets = require_sets()
    questions_by_set = {name: list(questions(name, sets, arguments.embedding)) for name in arguments.sets}
    report = weights if arguments.weights else leave_one_out if arguments.leave_one_out else table
    report(questions_by_set)


if __name__ == "__main__":
    main()
