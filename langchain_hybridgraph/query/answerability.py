"""Estimate of whether the texts answer a question."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from langchain_hybridgraph.records import Answerability

if TYPE_CHECKING:
    from langchain_hybridgraph.records import QuestionWords

# Coefficients of logistic regressions. They were fitted to the questions of thirteen evaluation sets, each searched in
# the texts of its own set and of other sets, with all-MiniLM-L6-v2 and with LSA (benchmarks/README.md). The order is:
# similarity, matched share, words / 20, constant.
_BOTH = (6.0, 12.0, 4.0, -8.0)
_WORDS = (0.0, 15.0, 4.0, -5.7)
_SIMILARITY = (9.0, 0.0, 0.0, -4.4)
_MOST_WORDS = 20


def answerability(
    cosine: float | None, mean: float, bm25: float | None, words: QuestionWords | None, exact: float = 0.0
) -> Answerability | None:
    """Return the probability that the texts answer the question, or None if neither cosines nor words are known.

    ``cosine`` and ``bm25`` are the highest scores among all results. ``mean`` is the mean cosine of the question with
    arbitrary texts. ``exact`` is the probability that the question refers to a text by an identifier that the text
    contains; the result is at least this probability.
    """
    similarity = None if cosine is None else min(1.0, max(0.0, (cosine - mean) / max(1 - mean, 1e-3)))
    matched = None if bm25 is None or words is None or not words.bound else min(1.0, bm25 / words.bound)
    if similarity is None and matched is None:
        return None
    of_similarity, of_words, of_length, constant = (
        _WORDS if similarity is None else _SIMILARITY if matched is None else _BOTH
    )
    count = 0 if words is None else words.count
    length = min(count, _MOST_WORDS) / _MOST_WORDS
    odds = of_similarity * (similarity or 0.0) + of_words * (matched or 0.0) + of_length * length + constant
    return Answerability(max(exact, 1 / (1 + math.exp(-odds))), similarity, matched, exact, count)
