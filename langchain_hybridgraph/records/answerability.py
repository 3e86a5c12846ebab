"""Record of whether a question has an answer."""

from __future__ import annotations

from dataclasses import dataclass, replace

from langchain_hybridgraph.records.explanation import explain_answerability
from langchain_hybridgraph.records.hits import Hit
from langchain_hybridgraph.records.serialization import Serializable

# A question with at least this value is considered answerable.
ANSWERABLE = 0.5


@dataclass(frozen=True, slots=True)
class Answerability(Serializable):
    """Probability that the texts answer a question, with the reasons.

    - ``value`` is this probability. A question is considered answerable if it is at least ``ANSWERABLE``.
    - ``similarity`` is the highest cosine, rescaled so that 0 is the mean cosine with arbitrary texts (with the other
      texts, if there are fewer than 50) and 1 is the largest possible cosine. It is None if unknown.
    - ``matched`` is the highest BM25 score of a text, not counting headings, divided by the highest score that a text
      with all words of the question could have. The divisor includes words that no text contains. It is None if
      unknown.
    - ``exact`` is the probability that at least one identifier of the question refers to a text that contains it.
    - ``words`` is the number of different words in the question.
    - ``unit`` is the factor by which ranking scores are multiplied to get the scores in the result.
    - ``coverage`` is the share of the question that LSA knows, or None for a pretrained embedding.
    - ``spread`` is the standard deviation of the question's cosines with arbitrary texts, rescaled in the same way as
      ``similarity``, or None if unknown. It is large if the question is about the subject of many texts.
    - ``is_undecided`` is True if there are too few texts to tell; ``value`` is then ``ANSWERABLE``.

    >>> Answerability(0.92, 0.6, 0.5).explain()
    'probably answerable (0.92): similarity 0.60 · words matched 0.50'
    """

    value: float
    similarity: float | None = None
    matched: float | None = None
    exact: float = 0.0
    words: int = 0
    unit: float = 1.0
    coverage: float | None = None
    spread: float | None = None
    is_undecided: bool = False

    @property
    def is_answerable(self) -> bool | None:
        """Whether ``value`` is at least ``ANSWERABLE``, or None if there are too few texts to tell."""
        return None if self.is_undecided else self.value >= ANSWERABLE

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
