"""Estimate of whether the texts answer a question."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from langchain_hybridgraph.records.explanation import explain_answerability
from langchain_hybridgraph.records.hits import Hit
from langchain_hybridgraph.records.serialization import Serializable

if TYPE_CHECKING:
    from langchain_hybridgraph.records.rankings import QuestionWords

# A question with at least this value is considered answerable.
ANSWERABLE = 0.5

# Number of the best keyword hits whose texts are scored without their headings.
BEST_HITS = 10

# Coefficients of logistic regressions. They were fitted to the questions of thirteen evaluation sets, each searched in
# the texts of its own set and of other sets, with all-MiniLM-L6-v2 and with LSA (benchmarks/README.md). The order is:
# similarity, matched share, words / 20, constant.
_BOTH = (6.0, 12.0, 4.0, -8.0)
_WORDS = (0.0, 15.0, 4.0, -5.7)
_SIMILARITY = (9.0, 0.0, 0.0, -4.4)
_MOST_WORDS = 20


@dataclass(frozen=True, slots=True)
class Answerability(Serializable):
    """Probability that the texts answer a question, with the reasons.

    - ``value`` is this probability. A question is considered answerable if it is at least ``ANSWERABLE``.
    - ``similarity`` is the highest cosine, rescaled so that 0 is the mean cosine with arbitrary texts and 1 is the
      largest possible cosine. It is None if unknown.
    - ``matched`` is the highest BM25 score of a text, not counting headings, divided by the highest score that a text
      with all words of the question could have. Words that no text contains count as well. It is None if unknown.
    - ``exact`` is the probability that the question refers to a text by an identifier that the text contains.
    - ``words`` is the number of different words in the question.
    - ``unit`` is the factor by which ranking scores are multiplied to get the scores in the result.

    >>> Answerability(0.92, 0.6, 0.5).explain()
    'probably answerable (0.92): similarity 0.60 · words matched 0.50'
    """

    value: float
    similarity: float | None = None
    matched: float | None = None
    exact: float = 0.0
    words: int = 0
    unit: float = 1.0

    @property
    def is_answerable(self) -> bool:
        """Whether ``value`` is at least ``ANSWERABLE``."""
        return self.value >= ANSWERABLE

    def explain(self) -> str:
        """Return one line with the probability that the question has an answer, and the reasons."""
        return explain_answerability(
            self.value,
            is_answerable=self.is_answerable,
            similarity=self.similarity,
            matched=self.matched,
            exact=self.exact,
        )

    def scale(self, hit: Hit) -> Hit:
        """Return the hit with its score and the parts of its score multiplied by ``unit``; the score is at most 1."""
        if self.unit == 1:
            return hit
        parts = {name: self.unit * part for name, part in hit.parts.items()}
        return replace(hit, score=min(1.0, self.unit * hit.score), parts=parts)


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
