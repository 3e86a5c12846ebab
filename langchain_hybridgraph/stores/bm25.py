"""BM25 statistics of a question, for all engines."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from langchain_hybridgraph.records import QuestionWords
from langchain_hybridgraph.text.analyzer import MOST_WORDS, Analyzer, telling_terms
from langchain_hybridgraph.text.identifiers import RowsWith, exact_matches

Field = Literal["text", "headings"]

# Tantivy cannot use other values, so rank_bm25 and Milvus use the same.
K1 = 1.2
B = 0.75


def headings_weight(words: int) -> float:
    """Return the weight of headings in a row's BM25 score; the weight of the text is 1.

    ``words`` is the number of different words in the query (``Analyzer.count_words``). A query of a few words may be a
    title or the name of a section, so headings have a high weight. The weight is low for a long question, because the
    words that it shares with a heading say less about the row (``benchmarks/chunking.md``).

    >>> [round(headings_weight(words), 2) for words in (1, 2, 3, 4, 6)]
    [1.0, 1.0, 0.29, 0.09, 0.02]
    """
    return min(1.0, (2.2 / max(1, words)) ** 4)


def idf(texts: float, frequency: float) -> float:
    """Return the inverse document frequency of a word that ``frequency`` of ``texts`` texts contain."""
    return math.log(1 + (texts - frequency + 0.5) / (frequency + 0.5))


@dataclass(frozen=True, slots=True)
class Question:
    """The words of a question, with their statistics in one index.

    ``texts`` is the number of rows of the index. ``frequency`` returns the number of rows whose field contains a word,
    and ``idf`` the inverse document frequency of a word with this frequency. ``terms`` are the words that the index
    contains, each with its number of occurrences in the question.
    """

    text: str
    analyzer: Analyzer
    texts: int
    frequency: Callable[[Field, str], float]
    idf: Callable[[float], float]
    terms: Sequence[tuple[str, int]] = field(init=False)
    headings_weight: float = field(init=False)

    def __post_init__(self) -> None:
        frequency = functools.cache(self.frequency)
        object.__setattr__(self, "frequency", frequency)
        words = self.analyzer.words(self.text)
        terms = telling_terms(words, lambda word: frequency("text", word) or frequency("headings", word), self.texts)
        object.__setattr__(self, "terms", terms)
        object.__setattr__(self, "headings_weight", headings_weight(self.analyzer.count_words(self.text)))

    def information(self, field: Field = "text") -> dict[str, float]:
        """Return idf · count for each word of the question that the field of any row contains."""
        frequencies = ((word, count, self.frequency(field, word)) for word, count in self.terms)
        return {word: count * self.idf(frequency) for word, count, frequency in frequencies if frequency}

    @property
    def bound(self) -> float:
        """Upper bound on the BM25 score of any row, or 0 if no row contains any of the words.

        The bound is (k1 + 1) · (T + ``headings_weight`` · H). T is the sum of the idf that the question's words have in
        texts, and H is the same sum for headings. A word that occurs twice in the question counts twice.
        """
        headings = self.headings_weight * sum(self.information("headings").values())
        return (K1 + 1) * (sum(self.information().values()) + headings)

    def words(self, best: float, texts: int) -> QuestionWords:
        """Return the number of different words, an upper bound on the BM25 score of any text, and ``best``.

        The number and the bound include words that no text contains, but only the first 128 different words. Neither
        score includes headings. ``best`` is the best score of the texts that were found, and ``texts`` the number of
        texts in the index.
        """
        counts = dict(islice(Counter(self.analyzer.words(self.text)).items(), MOST_WORDS))
        idfs = (count * self.idf(self.frequency("text", word)) for word, count in counts.items())
        return QuestionWords(len(counts), (K1 + 1) * sum(idfs), best, texts)

    def exact_matches(self, rows_with: RowsWith) -> dict[int, float]:
        """Return the result of :func:`~langchain_hybridgraph.text.identifiers.exact_matches` for this question."""
        return exact_matches(self.text, self.analyzer, self.information(), self.texts, rows_with)
