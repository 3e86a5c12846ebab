"""BM25: base of all engines, and the engine rank_bm25."""

from __future__ import annotations

import math
import sys
import threading
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, compress, islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
from typing_extensions import override

from langchain_hybridgraph.records import BEST_HITS, QuestionWords, RowResult, SourceResult
from langchain_hybridgraph.stores.row_table import UNPACKED, RowNumbers
from langchain_hybridgraph.text.analyzer import LONGEST_QUERY, MOST_WORDS, Analyzer, telling_terms
from langchain_hybridgraph.text.identifiers import FEW, MOST_FORMS, RowsWith, compounds, exact_matches, forms, name_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.chunks import Mask

    Rows = NDArray[np.int64]
    Scores = NDArray[np.float64]

Field = Literal["text", "headings", "compounds", "name"]
Term = tuple[Field, str]
IndexedText = tuple[int, str] | tuple[int, str, str]
"""Row number, text and, optionally, the headings of the text (see ``Chunk.headings``)."""


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
        self._frequency: dict[str, float] = {}
        indexed: dict[str, float] = {}
        for word in self._words:
            if word not in indexed:
                self._frequency[word] = frequency("text", word)
                indexed[word] = self._frequency[word] or frequency("headings", word)
        self.terms: Sequence[tuple[str, int]] = telling_terms(self._words, indexed.__getitem__, texts)
        self.headings_weight = headings_weight(analyzer.count_words(text))
        self.information: dict[Field, dict[str, float]] = {"text": {}, "headings": {}}
        """idf · count for each word of the question that the field of any row contains, by field."""
        for field, information in self.information.items():
            for word, count in self.terms:
                if rows := frequency(field, word):
                    information[word] = count * idf(rows)

    @property
    def bound(self) -> float:
        """Upper bound on any BM25 score: (k1 + 1) · Σ idf over texts, plus ``headings_weight`` · that over headings."""
        headings = self.headings_weight * sum(self.information["headings"].values())
        return (K1 + 1) * (sum(self.information["text"].values()) + headings)

    def words(self, best: float, texts: int) -> QuestionWords:
        """Return the number of different words (≤ 128), an upper bound on any text's score, and the score ``best``.

        Words that no text contains count; headings do not.
        """
        counts = dict(islice(Counter(self._words).items(), MOST_WORDS))
        bound = 0.0
        for word, count in counts.items():
            bound += count * self.idf(self._frequency[word])
        return QuestionWords(len(counts), (K1 + 1) * bound, best, texts)

    def exact_matches(self, rows_with: RowsWith) -> dict[int, float]:
        """Return the result of :func:`~langchain_hybridgraph.text.identifiers.exact_matches` for this question."""
        return exact_matches(self.text, self.analyzer, self.information["text"], self.texts, rows_with)


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
    def search(
        self, text: str, n: int, allowed_rows: Mask | None = None, numbers: RowNumbers = UNPACKED
    ) -> list[tuple[int, float]]:
        """Return the ``n`` best rows with their BM25 scores (> 0), best first, ties by row.

        Only rows whose entry in ``allowed_rows`` is True are returned; ``numbers`` are the numbers of its entries. A
        larger ``n`` only appends rows to the result.
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

    def exact_matches(
        self, text: str, allowed_rows: Mask | None = None, numbers: RowNumbers = UNPACKED
    ) -> dict[int, float]:
        """Return, by row, the estimated probability in (0, 1) that the question refers to the row.

        Only rows that share an identifier or a rare word with it are included; see
        :func:`~langchain_hybridgraph.text.identifiers.exact_matches`.
        """
        question = self.question(text)
        terms: list[Term] = [("text", word) for word in question.information["text"]]
        for form, is_compound in islice(forms(text).items(), MOST_FORMS):
            terms += [("name", form), ("compounds", form)] if is_compound else [("name", form)]
        postings = self.postings(terms)
        every = list(chain.from_iterable(postings.values()))
        if allowed_rows is not None:
            every = list(compress(every, numbers.are_allowed(np.array(every, np.int64), allowed_rows).tolist()))
        if not every:
            return {}
        present = set(every)

        def rows_with(field: Field, term: str) -> Sequence[int]:
            rows = [row for row in postings.get((field, term), ()) if row in present]
            return rows if len(rows) <= FEW else ()

        return question.exact_matches(rows_with)

    def result(
        self,
        text: str,
        n: int,
        allowed_rows: Mask | None,
        ids_of: Callable[[Sequence[int] | NDArray[np.int64]], list[str]],
        reason: str | None,
        *,
        numbers: RowNumbers = UNPACKED,
    ) -> SourceResult:
        """Return the result of :meth:`search` by row number, and everything else that the pipeline needs.

        ``ids_of`` is that of :class:`~langchain_hybridgraph.records.RowResult`.
        """
        question, hits = self.question(text), self.search(text, n, allowed_rows, numbers)
        exact = self.exact_matches(text, allowed_rows, numbers)
        rows = np.array([number for number, _ in hits], np.int64), np.array([score for _, score in hits])
        scores = dict(hits[:BEST_HITS])
        if scores and question.information["headings"]:
            scores = self.scores(text, list(scores), headings=False)
        return SourceResult(
            [],
            rows=RowResult(*rows, ids_of, exact=exact),
            bound=question.bound,
            reason=reason,
            words=question.words(max(scores.values(), default=0.0), len(self)),
            is_complete=len(hits) < n,
        )


class RankBM25Index(KeywordIndex):
    """BM25 by rank_bm25, in memory.

    The first search after an :meth:`apply` builds the index (7 s for 64,000 texts); a search takes 40 ms. It suits
    small corpora, and is the fallback for Tantivy.

    The formula is ``BM25Plus`` with δ = 0, k1 1.2 and b .75, because its idf ln((N + 1)/n) is always positive: with
    ``BM25Okapi``, a corpus of one or two texts would have no results. A repeated word in a question counts twice.

    >>> index = RankBM25Index()
    >>> index.apply(1, [(0, "Ada wrote the first program"), (1, "Charles built engines")], [])
    >>> [row for row, score in index.search("who built the engine?", 10)]
    [1]
    """

    def __init__(self, language: str | None = "english") -> None:
        super().__init__(language)
        self._texts: dict[int, list[list[str]]] = {}  # the terms of each field
        self._statistics: _Statistics | None = None
        self._counting = threading.Lock()

    @override
    def question(self, text: str) -> Question:
        return self._question(self._count(), text)

    @override
    def search(
        self, text: str, n: int, allowed_rows: Mask | None = None, numbers: RowNumbers = UNPACKED
    ) -> list[tuple[int, float]]:
        statistics = self._count()
        question = self._question(statistics, text)
        places = statistics.sharing(question.terms)
        if allowed_rows is not None:
            places = places[numbers.are_allowed(statistics.rows[places], allowed_rows)]
        if n < 1 or not len(places):
            return []
        scores = statistics.scores(question.terms, places, question.headings_weight)
        order = np.argsort(-scores, kind="stable")[:n]  # positions are in the order of rows
        return list(zip(statistics.rows[places[order]].tolist(), scores[order].tolist(), strict=True))

    @override
    def scores(self, text: str, rows: Sequence[int], *, headings: bool = True) -> dict[int, float]:
        statistics = self._count()
        question = self._question(statistics, text)
        places = statistics.sharing(question.terms)
        places = places[np.isin(statistics.rows[places], np.asarray(rows, dtype=np.int64))]
        scores = statistics.scores(question.terms, places, question.headings_weight if headings else 0.0)
        return dict(zip(statistics.rows[places].tolist(), scores.tolist(), strict=True))

    @override
    def postings(self, terms: Sequence[Term]) -> dict[Term, list[int]]:
        statistics = self._count()
        places = {(field, term): statistics.postings[field].get(term, []) for field, term in terms}
        return {term: statistics.rows[there].tolist() for term, there in places.items() if there}

    @override
    def apply(self, version: int, add: Iterable[IndexedText], remove: Sequence[int]) -> None:
        words, removed, added = self.analyzer.all_words, set(remove), {}
        for row, text, *headings in add:
            name = name_of(text)
            terms = words(text), words("".join(headings)), compounds(text), [name] if name else []
            # Interned strings, so that a repeated term is stored only once.
            added[int(row)] = [list(map(sys.intern, each)) for each in terms]
        with self._counting:
            self._texts = {row: terms for row, terms in self._texts.items() if row not in removed} | added
            self._statistics, self.applied_version = None, version

    def __len__(self) -> int:
        return len(self._texts)

    @override
    def rows(self) -> set[int]:
        return set(self._texts)

    @override
    def close(self) -> None:
        with self._counting:
            self._texts, self._statistics = {}, None

    def _count(self) -> _Statistics:
        with self._counting:
            if self._statistics is None:
                self._statistics = _Statistics.of(self._texts)
            return self._statistics

    def _question(self, statistics: _Statistics, text: str) -> Question:
        texts = len(statistics.rows)
        return Question(
            text,
            self.analyzer,
            texts,
            lambda field, word: len(statistics.postings[field].get(word, ())),
            lambda frequency: math.log((texts + 1) / max(1, frequency)),
        )


class _Statistics(NamedTuple):
    """All rows, and the positions of the rows with each term of each field.

    ``engines`` are a rank_bm25.BM25Plus for texts and one for headings, or None if there are no words.
    """

    rows: Rows
    postings: dict[str, dict[str, list[int]]]
    engines: dict[str, Any]

    @classmethod
    def of(cls, texts: Mapping[int, Sequence[list[str]]]) -> _Statistics:
        """Count the terms of all texts."""
        from rank_bm25 import BM25Plus

        rows, postings = sorted(texts), dict[str, dict[str, list[int]]]()
        engines: dict[str, Any] = {}
        for number, field in enumerate(get_args(Field)):
            lists = [texts[row][number] for row in rows]
            postings[field] = defaultdict(list)
            for place, terms in enumerate(lists):
                for term in set(terms):
                    postings[field][term].append(place)
            # rank_bm25 divides by the number of words, so it is called only if there is one.
            if field in ("text", "headings"):
                engines[field] = BM25Plus(lists, k1=K1, b=B, delta=0) if postings[field] else None
        return cls(np.array(rows, dtype=np.int64), postings, engines)

    def sharing(self, terms: Sequence[tuple[str, int]]) -> Rows:
        """Return the ascending positions of rows that contain any term; rank_bm25 alone would scan all rows."""
        lists = [self.postings[field].get(term, ()) for term, _ in terms for field in self.engines]
        return np.array(sorted(set(chain.from_iterable(lists))), dtype=np.int64)

    def scores(self, terms: Sequence[tuple[str, int]], places: Rows, headings_weight: float) -> Scores:
        scores = np.zeros(len(places))
        for field, weight in (("text", 1.0), ("headings", headings_weight)):
            question = [term for term, count in terms for _ in range(count) if term in self.postings[field]]
            if question and len(places):
                batch = self.engines[field].get_batch_scores(question, places.tolist())
                scores += weight * np.array(batch, dtype=np.float64)
        return scores
