"""BM25: what all keyword engines have in common."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Literal

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.records import BEST_HITS, QuestionWords, ScoredId, SourceResult
from langchain_hybridgraph.text.analyzer import LONGEST_QUERY, MOST_WORDS, Analyzer, telling_terms
from langchain_hybridgraph.text.identifiers import FEW, MOST_FORMS, RowsWith, exact_matches, forms

if TYPE_CHECKING:
    from langchain_hybridgraph.chunks import Mask

Field = Literal["text", "headings", "compounds", "name"]
Term = tuple[Field, str]
IndexedText = tuple[int, str] | tuple[int, str, str]
"""Row number, text and, optionally, the headings of the text (see ``Chunk.headings``)."""

# Module and class of each engine. To add an engine, write its module and add its name in these two lines.
Engine = Literal["tantivy", "rank_bm25"]
ENGINES: dict[Engine, tuple[str, str]] = {
    "tantivy": ("tantivy_index", "TantivyIndex"),
    "rank_bm25": ("rank_bm25_index", "RankBM25Index"),
}

# Tantivy cannot use other values, so rank_bm25 and Milvus use the same.
K1 = 1.2
B = 0.75


def headings_weight(words: int) -> float:
    """Return the weight of headings relative to the text in BM25 scores, for a query of ``words`` different words.

    A short query may be the name of a section; a long question shares incidental words (``benchmarks/chunking.md``).

    >>> [round(headings_weight(words), 2) for words in (1, 2, 3, 4, 6)]
    [1.0, 1.0, 0.29, 0.09, 0.02]
    """
    return min(1.0, (2.2 / max(1, words)) ** 4)


def idf(texts: float, frequency: float) -> float:
    """Return the inverse document frequency of a word that ``frequency`` of ``texts`` texts contain."""
    return math.log(1 + (texts - frequency + 0.5) / (frequency + 0.5))


class Question:
    """Words of a question, with their statistics in an index of ``texts`` rows.

    ``frequency`` counts the rows whose field contains a word, and ``idf`` maps such a number to an inverse document
    frequency. ``terms`` are the indexed words, with their number of occurrences in the question. Only the first
    ``LONGEST_QUERY`` characters of ``text`` are used.
    """

    def __init__(
        self,
        text: str,
        analyzer: Analyzer,
        texts: int,
        frequency: Callable[[Field, str], float],
        idf: Callable[[float], float],
    ) -> None:
        text = text[:LONGEST_QUERY]
        self.text, self.analyzer, self.texts, self.idf = text, analyzer, texts, idf
        self._words = analyzer.words(text)
        self._frequency = in_texts = {word: frequency("text", word) for word in dict.fromkeys(self._words)}
        in_headings = {word: frequency("headings", word) for word in in_texts}
        self.terms: Sequence[tuple[str, int]] = telling_terms(
            self._words, lambda word: in_texts[word] or in_headings[word], texts
        )
        self.headings_weight = headings_weight(analyzer.count_words(text))
        self._information = {
            field: {word: count * idf(frequencies[word]) for word, count in self.terms if frequencies[word]}
            for field, frequencies in (("text", in_texts), ("headings", in_headings))
        }

    def information(self, field: Field = "text") -> dict[str, float]:
        """Return idf · count for each word of the question that the field of any row contains."""
        return self._information[field]

    @property
    def bound(self) -> float:
        """Upper bound on any BM25 score: (k1 + 1) · Σ idf over texts, plus ``headings_weight`` · that over headings."""
        headings = self.headings_weight * sum(self.information("headings").values())
        return (K1 + 1) * (sum(self.information().values()) + headings)

    def words(self, best: float, texts: int) -> QuestionWords:
        """Return the number of different words (≤ 128), an upper bound on any text's score, and the score ``best``.

        Words that no text contains count; headings do not.
        """
        counts = dict(islice(Counter(self._words).items(), MOST_WORDS))
        idfs = (count * self.idf(self._frequency[word]) for word, count in counts.items())
        return QuestionWords(len(counts), (K1 + 1) * sum(idfs), best, texts)

    def exact_matches(self, rows_with: RowsWith) -> dict[int, float]:
        """Return the result of :func:`~langchain_hybridgraph.text.identifiers.exact_matches` for this question."""
        return exact_matches(self.text, self.analyzer, self.information(), self.texts, rows_with)


class KeywordIndex(ABC):
    """A BM25 index in which each text is a numbered row. An engine implements the abstract methods.

    The score of a row is the BM25 score of its text, plus ``headings_weight`` times the BM25 score of its headings.
    Texts and headings have separate statistics, so the score of a row without headings does not depend on the headings
    of other rows. The index itself splits texts and questions into words.
    """

    quick_rows = 0
    """Up to this number of rows, a search takes no longer than starting a thread."""
    applied_version = 0
    """Version recorded by the newest commit that this index has loaded (see :meth:`apply`); 0 if there is none."""

    def __init__(self, language: str | None = "english") -> None:
        self.analyzer = Analyzer(language)

    @abstractmethod
    def question(self, text: str) -> Question:
        """Return the words of a question with their statistics in this index."""

    @abstractmethod
    def search(self, text: str, n: int, allowed_rows: Mask | None = None) -> list[tuple[int, float]]:
        """Return the ``n`` best rows with their BM25 scores (> 0), best first, ties by row.

        Only rows whose entry in ``allowed_rows`` is True are returned. A larger ``n`` only appends rows to the result.
        """

    @abstractmethod
    def scores(self, text: str, rows: Sequence[int], *, headings: bool = True) -> dict[int, float]:
        """Return the BM25 scores of these rows as in :meth:`search`, leaving out rows without a word of ``text``."""

    @abstractmethod
    def postings(self, terms: Sequence[Term]) -> Mapping[Term, Sequence[int]]:
        """Return the rows whose field contains a term, for each of the terms that few rows contain."""

    @abstractmethod
    def apply(self, version: int, add: Iterable[IndexedText], remove: Sequence[int]) -> None:
        """Remove rows, then add rows, and record ``version``, all in one atomic commit.

        An added row replaces one with the same number; removing a missing row has no effect.
        """

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows in the index."""

    @abstractmethod
    def rows(self) -> set[int]:
        """Return the numbers of all rows in the index; the command ``check`` compares them with the catalog."""

    @abstractmethod
    def close(self) -> None:
        """Release memory, files and locks; the index cannot be used afterwards."""

    def reload(self) -> None:  # noqa: B027 - an index in memory inherits it
        """Make the commits of other processes visible; without a folder, there are none."""

    def damaged_files(self) -> list[str]:
        """Return the names of the files whose checksums are wrong; without a folder, there are none."""
        return []

    def bound(self, text: str) -> float:
        """Return an upper bound on the score of any row for this question (see :attr:`Question.bound`)."""
        return self.question(text).bound

    def query_words(self, text: str, hits: Sequence[tuple[int, float]]) -> QuestionWords:
        """Return :meth:`Question.words` for ``text`` and these results of :meth:`search`."""
        question, scores = self.question(text), dict(hits)
        if hits and question.information("headings"):
            scores = self.scores(text, list(scores), headings=False)
        return question.words(max(scores.values(), default=0.0), len(self))

    def exact_matches(self, text: str, allowed_rows: Mask | None = None) -> dict[int, float]:
        """Return, by row, the estimated probability in (0, 1) that the question refers to the row.

        Only rows that share an identifier or a rare word with it are included; see
        :func:`~langchain_hybridgraph.text.identifiers.exact_matches`.
        """
        question = self.question(text)
        terms: list[Term] = [("text", word) for word in question.information()]
        for form, is_compound in islice(forms(text).items(), MOST_FORMS):
            terms += [("name", form), ("compounds", form)] if is_compound else [("name", form)]
        postings = self.postings(terms)
        if not any(postings.values()):
            return {}

        def rows_with(field: Field, term: str) -> Sequence[int]:
            rows = postings.get((field, term), ())
            if allowed_rows is not None:
                rows = [row for row in rows if row < len(allowed_rows) and allowed_rows[row]]
            return rows if len(rows) <= FEW else ()

        return question.exact_matches(rows_with)

    def result(
        self,
        text: str,
        n: int,
        allowed_rows: Mask | None,
        ids_of: Callable[[Iterable[int]], Sequence[str]],
        reason: str | None,
    ) -> SourceResult:
        """Return the result of :meth:`search`, with ties by id, and everything else that the pipeline needs."""
        question, hits = self.question(text), self.search(text, n, allowed_rows)
        exact = self.exact_matches(text, allowed_rows)
        order = sorted(zip([-score for _, score in hits], ids_of([row for row, _ in hits]), strict=True))
        entries = [ScoredId(id, -score) for score, id in order]
        return SourceResult(
            entries,
            bound=question.bound,
            reason=reason,
            exact=dict(zip(ids_of(exact), exact.values(), strict=True)),
            words=self.query_words(text, hits[:BEST_HITS]),
        )


def keyword_index(engine: Engine, language: str | None = "english") -> KeywordIndex:
    """Return an empty index in memory. Raises ConfigurationError for an unknown engine.

    >>> [type(keyword_index(engine)).__name__ for engine in ENGINES]
    ['TantivyIndex', 'RankBM25Index']
    """
    if engine not in ENGINES:
        raise ConfigurationError(f"keyword_engine must be {' or '.join(map(repr, ENGINES))}, got {engine!r}")
    module, name = ENGINES[engine]
    index: KeywordIndex = getattr(import_module(f"langchain_hybridgraph.stores.{module}"), name)(language=language)
    return index
