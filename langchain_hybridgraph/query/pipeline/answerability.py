"""Probability that a question has an answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from langchain_hybridgraph.query.pipeline.settings import Candidates, Pipeline, SearchContext
from langchain_hybridgraph.records import Answerability, Hit, QuestionWords
from langchain_hybridgraph.records.answerability import ANSWERABLE
from langchain_hybridgraph.text.identifiers import MOST

# Coefficients of logistic regressions. Their order is: similarity, similarity · coverage, spread, matched share, length
# of the question, ln(texts / 1,000), constant. They were fitted to thirteen evaluation sets, each searched for its own
# questions and for those of other sets, to cuts of these sets, and to small corpora, with all-MiniLM-L6-v2 and with LSA
# (benchmarks/answerability.md).
_PRETRAINED = (20.0, 0.0, 55.0, 7.0, 0.0, -1.0, -14.0)
_LSA = (3.5, 7.0, 0.0, 8.0, 6.0, -0.5, -8.0)
_SIMILARITY = (24.0, 0.0, 45.0, 0.0, 0.0, -0.8, -12.4)
_WORDS = (0.0, 0.0, 0.0, 16.5, 2.0, -0.6, -4.5)
# Limits between which the spread of the cosines counts: with all-MiniLM-L6-v2, the spread is about .06 for foreign
# questions and .11 for others. Other models may have other spreads. If it is unknown, the mean of the limits is used.
_LEAST_SPREAD, _MOST_SPREAD = 0.05, 0.11
# Number of texts above which the estimate no longer changes, because larger sets were not measured.
_MOST_TEXTS = 10_000
# Log-odds below 0 down to which there is no verdict, because many right answers are this low, and the number of texts
# from which there is always a verdict.
_UNDECIDED, _ENOUGH = 0.7, 200
# Number of entries from which a source may have more texts than it returned.
_ALL = 100
_MOST_WORDS = 20


def assess(context: SearchContext, hits: Sequence[Hit], candidates: Candidates) -> Answerability | None:
    """Return the probability that the question has an answer, or None if it is unknown or nothing was searched.

    ``unit`` in the result is the factor that turns the best hit's score into this probability. All scores are later
    multiplied by it. It is 1 if no score is above 0, or if the scores must stay unchanged. They stay unchanged if they
    come from a reranker, from the scoring of memories, from a traversal that replaces the search score, or from a
    fusion without ``calibrates``.

    With few texts, scores are multiplied by less than 1 only if the question is probably not answerable. If there are
    too few texts to tell, this is recorded as a degradation reason.
    """
    estimate, has_few_texts = _answerability(candidates)
    if estimate is not None and estimate.is_answerable is None:
        context.trace.degrade("too-few-texts")
    best = max((hit.score for hit in hits), default=0.0)
    is_reranked = any(hit.rerank_score is not None for hit in hits)
    if estimate is None or not best > 0 or is_reranked or not _calibrates(context.pipeline):
        return estimate
    # Rounded up, so that the best score is never below the value.
    unit = math.nextafter(estimate.value / best, math.inf)
    return replace(estimate, unit=max(1.0, unit) if has_few_texts and estimate.is_answerable is not False else unit)


def _calibrates(pipeline: Pipeline) -> bool:
    keeps_scores = pipeline.expansion is None or pipeline.expansion.uses_search_score
    return getattr(pipeline.fusion, "calibrates", False) is True and pipeline.scoring is None and keeps_scores


def _answerability(candidates: Candidates) -> tuple[Answerability | None, bool]:
    """Return the estimate from the best results of the sources, and whether there are few texts."""
    by_name = {source.name: result for source, result in candidates.results.items()}
    vector, keyword = by_name.get("vector"), by_name.get("keyword")
    words = keyword.words if keyword is not None and keyword.words is not None and keyword.words.texts != 0 else None
    texts = math.inf if words is None or words.texts is None else float(words.texts)
    cosine, mean, deviation, coverage = None, 0.0, None, None
    if vector is not None and vector.entries and vector.are_cosines:
        cosine, *others = (entry.score for entry in vector.entries)
        coverage = vector.coverage
        if vector.background is not None:
            mean, deviation = vector.background
        elif len(others) + 1 < _ALL:
            texts = len(others) + 1
            # With LSA, a text that has nothing in common with the question already has the cosine 0.
            mean = math.fsum(others) / len(others) if others and coverage is None else mean
    # Each value is the probability that the question refers to this text, so with two codes each text has at most .5.
    exact = 0.0 if keyword is None else min(MOST, math.fsum(keyword.exact.values()))
    estimate = answerability(cosine, mean, words, exact, deviation=deviation, texts=texts, coverage=coverage)
    return estimate, texts < _ENOUGH


def answerability(
    cosine: float | None,
    mean: float,
    words: QuestionWords | None,
    exact: float = 0.0,
    *,
    deviation: float | None = None,
    texts: float = math.inf,
    coverage: float | None = None,
) -> Answerability | None:
    """Return the probability that the texts answer the question, or None if neither cosines nor words are known.

    ``cosine`` is the highest cosine among all results. ``mean`` and ``deviation`` are the mean and the standard
    deviation of the question's cosines with arbitrary texts. The deviation is small if the texts are about something
    else. ``exact`` is the probability that at least one identifier of the question refers to a text. The result is
    never lower than ``exact``.

    ``texts`` is the number of texts. The best of many texts is more similar to a question than the best of few, so the
    same evidence counts more with few texts. ``coverage`` is the share of the question that LSA knows, or None for a
    pretrained embedding. A question of which LSA knows only one word has a cosine near 1 with any text that contains
    this word.
    """
    similarity = None if cosine is None else min(1.0, max(0.0, (cosine - mean) / max(1 - mean, 1e-3)))
    matched = None if words is None or not words.bound else min(1.0, words.best / words.bound)
    if similarity is None and matched is None:
        return None
    spread = None if deviation is None else deviation / max(1 - mean, 1e-3)
    count = 0 if words is None else words.count
    if similarity is None:
        coefficients = _WORDS
    elif coverage is not None:
        coefficients = _LSA
    else:
        coefficients = _SIMILARITY if matched is None else _PRETRAINED
    texts = min(max(texts, 1), _MOST_TEXTS)
    evidence = (
        similarity or 0.0,
        (similarity or 0.0) * (coverage or 0.0),
        (_LEAST_SPREAD + _MOST_SPREAD) / 2 if spread is None else min(max(spread, _LEAST_SPREAD), _MOST_SPREAD),
        matched or 0.0,
        # With few texts, a long question says little, because its words are as rare as any other.
        min(count, _MOST_WORDS) / _MOST_WORDS * math.log(texts, _MOST_TEXTS),
        math.log(texts / 1_000),
        1.0,
    )
    odds = math.fsum(coefficient * signal for coefficient, signal in zip(coefficients, evidence, strict=True))
    value = max(exact, 1 / (1 + math.exp(-odds)))
    is_undecided = value < ANSWERABLE and odds >= -_UNDECIDED and texts < _ENOUGH
    return Answerability(
        ANSWERABLE if is_undecided else value,
        similarity,
        matched,
        exact,
        count,
        coverage=coverage,
        spread=spread,
        is_undecided=is_undecided,
    )
