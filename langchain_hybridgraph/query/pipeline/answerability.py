"""Probability that a question has an answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from langchain_hybridgraph.query.fusion import COSINE
from langchain_hybridgraph.query.pipeline.settings import Candidates, Pipeline, SearchContext
from langchain_hybridgraph.records import Answerability, Hit, QuestionWords
from langchain_hybridgraph.records.answerability import ANSWERABLE
from langchain_hybridgraph.text.identifiers import MOST

# Coefficients of logistic regressions, in the order similarity, matched share, words / 20, constant. Those for many
# texts were fitted to the questions of thirteen evaluation sets, each searched in the texts of its own set and of other
# sets, with all-MiniLM-L6-v2 and with LSA. Those for few texts were fitted to small corpora, where the matched share
# says little, because a common word is as rare as any other (benchmarks/answerability.md).
_MANY_BOTH = (6.0, 12.0, 4.0, -8.0)
_MANY_WORDS = (0.0, 15.0, 4.0, -5.7)
_MANY_SIMILARITY = (9.0, 0.0, 0.0, -4.4)
_FEW_PRETRAINED = (26.0, 12.0, 0.0, -5.6)
_FEW_LSA = (12.0, 4.0, 0.0, -3.1)
_FEW_WORDS = (0.0, 16.0, 0.0, -2.0)
# Between these numbers of texts, the estimate changes gradually from the one for few texts to the one for many. The
# best cosine of a pretrained embedding rises slowly with the number of texts; the words soon tell more with LSA.
_FEW, _MANY, _MANY_LSA = 20, 1_500, 200
# Log-odds below 0 down to which an estimate for few texts gives no verdict, because many right answers are this low,
# and the number of texts from which there is always a verdict.
_UNDECIDED, _ENOUGH = 1.1, 200
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
    unit = estimate.value / best
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
    cosine, (mean, _), coverage = None, COSINE, None
    if vector is not None and vector.entries and vector.are_cosines:
        cosine, *others = (entry.score for entry in vector.entries)
        coverage = vector.coverage
        if vector.background is not None:
            mean, _ = vector.background
        elif len(others) + 1 < _ALL:
            texts = len(others) + 1
            # With LSA, a text that has nothing in common with the question already has the cosine 0.
            mean = math.fsum(others) / len(others) if others and coverage is None else mean
    # Each value is the probability that the question refers to this text, so with two codes each text has at most .5.
    exact = 0.0 if keyword is None else min(MOST, math.fsum(keyword.exact.values()))
    return answerability(cosine, mean, words, exact, texts=texts, coverage=coverage), texts < _ENOUGH


def answerability(
    cosine: float | None,
    mean: float,
    words: QuestionWords | None,
    exact: float = 0.0,
    *,
    texts: float = math.inf,
    coverage: float | None = None,
) -> Answerability | None:
    """Return the probability that the texts answer the question, or None if neither cosines nor words are known.

    ``cosine`` is the highest cosine among all results, and ``mean`` is the mean cosine of the question with arbitrary
    texts. ``exact`` is the probability that at least one identifier of the question refers to a text. The result is
    never lower than ``exact``.

    ``texts`` is the number of texts. The best of many texts is more similar to a question than the best of few, so the
    same evidence counts more with few texts. ``coverage`` is the share of the question that LSA knows, or None for a
    pretrained embedding. With few texts, the similarity is multiplied by it, because a question of which LSA knows only
    one word has a cosine near 1 with any text that contains this word.
    """
    similarity = None if cosine is None else min(1.0, max(0.0, (cosine - mean) / max(1 - mean, 1e-3)))
    matched = None if words is None or not words.bound else min(1.0, words.best / words.bound)
    if similarity is None and matched is None:
        return None
    count = 0 if words is None else words.count
    many = _MANY if coverage is None else _MANY_LSA
    few = 1 - math.sqrt(min(1.0, max(0.0, math.log(max(texts, 1) / _FEW) / math.log(many / _FEW))))
    if similarity is None:
        by_number = _FEW_WORDS, _MANY_WORDS
    else:
        by_number = (
            _FEW_PRETRAINED if coverage is None else _FEW_LSA,
            _MANY_SIMILARITY if matched is None else _MANY_BOTH,
        )
    covered = (similarity or 0.0) * (1.0 if coverage is None else coverage)
    odds = 0.0
    for share, similar, (of_similarity, of_words, of_length, constant) in zip(
        (few, 1 - few), (covered, similarity or 0.0), by_number, strict=True
    ):
        length = min(count, _MOST_WORDS) / _MOST_WORDS
        odds += share * (of_similarity * similar + of_words * (matched or 0.0) + of_length * length + constant)
    value = max(exact, 1 / (1 + math.exp(-odds)))
    is_undecided = value < ANSWERABLE and odds >= -few * _UNDECIDED and texts < _ENOUGH
    return Answerability(
        ANSWERABLE if is_undecided else value,
        similarity,
        matched,
        exact,
        count,
        coverage=coverage,
        is_undecided=is_undecided,
    )
