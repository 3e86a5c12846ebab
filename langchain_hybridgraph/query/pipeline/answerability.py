"""Probability that a question has an answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from langchain_hybridgraph.query.fusion import COSINE
from langchain_hybridgraph.query.pipeline.settings import Candidates, Pipeline, SearchContext
from langchain_hybridgraph.records import Answerability, Hit, QuestionWords

# Coefficients of logistic regressions. They were fitted to the questions of thirteen evaluation sets, each searched in
# the texts of its own set and of other sets, with all-MiniLM-L6-v2 and with LSA (benchmarks/README.md). The order is:
# similarity, matched share, words / 20, constant.
_BOTH = (6.0, 12.0, 4.0, -8.0)
_WORDS = (0.0, 15.0, 4.0, -5.7)
_SIMILARITY = (9.0, 0.0, 0.0, -4.4)
_MOST_WORDS = 20


def assess(context: SearchContext, hits: Sequence[Hit], candidates: Candidates) -> Answerability | None:
    """Return the probability that the question has an answer, or None if it is unknown.

    ``unit`` in the result is the factor that turns the best hit's score into this probability. All scores are later
    multiplied by it. It is 1 if no score is above 0, or if the scores must stay unchanged. They stay unchanged if they
    come from a reranker, from the scoring of memories, from a traversal that replaces the search score, or from a
    fusion without ``calibrates``.
    """
    estimate = _answerability(candidates)
    best = max((hit.score for hit in hits), default=0.0)
    is_reranked = any(hit.rerank_score is not None for hit in hits)
    if estimate is None or not best > 0 or is_reranked or not _calibrates(context.pipeline):
        return estimate
    return replace(estimate, unit=estimate.value / best)


def _calibrates(pipeline: Pipeline) -> bool:
    keeps_scores = pipeline.expansion is None or pipeline.expansion.uses_search_score
    return getattr(pipeline.fusion, "calibrates", False) is True and pipeline.scoring is None and keeps_scores


def _answerability(candidates: Candidates) -> Answerability | None:
    """Return the probability that the question has an answer, estimated from the best results of the sources."""
    by_name = {source.name: result for source, result in candidates.results.items()}
    vector, keyword = by_name.get("vector"), by_name.get("keyword")
    cosine = vector.entries[0].score if vector is not None and vector.entries and vector.are_cosines else None
    mean, _ = (None if vector is None else vector.background) or COSINE
    if keyword is None:
        return answerability(cosine, mean, None)
    return answerability(cosine, mean, keyword.words, max(keyword.exact.values(), default=0.0))


def answerability(
    cosine: float | None, mean: float, words: QuestionWords | None, exact: float = 0.0
) -> Answerability | None:
    """Return the probability that the texts answer the question, or None if neither cosines nor words are known.

    ``cosine`` is the highest cosine among all results, and ``mean`` is the mean cosine of the question with arbitrary
    texts. ``exact`` is the probability that the question refers to a text by an identifier that the text contains. The
    result is never lower than ``exact``.
    """
    similarity = None if cosine is None else min(1.0, max(0.0, (cosine - mean) / max(1 - mean, 1e-3)))
    matched = None if words is None or not words.bound else min(1.0, words.best / words.bound)
    if similarity is None and matched is None:
        return None
    of_similarity, of_words, of_length, constant = (
        _WORDS if similarity is None else _SIMILARITY if matched is None else _BOTH
    )
    count = 0 if words is None else words.count
    length = min(count, _MOST_WORDS) / _MOST_WORDS
    odds = of_similarity * (similarity or 0.0) + of_words * (matched or 0.0) + of_length * length + constant
    return Answerability(max(exact, 1 / (1 + math.exp(-odds))), similarity, matched, exact, count)
