"""BM25 by rank_bm25, in memory."""

from __future__ import annotations

import math
import sys
import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from langchain_hybridgraph.stores.bm25 import K1, B, Question
from langchain_hybridgraph.text.analyzer import Analyzer
from langchain_hybridgraph.text.identifiers import FEW, compounds, name_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.chunks import Mask
    from langchain_hybridgraph.records import QuestionWords
    from langchain_hybridgraph.stores.protocols import IndexedText

if TYPE_CHECKING:
    Rows = NDArray[np.int64]
    Scores = NDArray[np.float64]


class RankBM25Index:
    """A :class:`~langchain_hybridgraph.stores.protocols.KeywordIndex` in memory that uses rank_bm25.

    The first search after an :meth:`apply` builds the index (7 s for 64,000 texts). A search takes 40 ms, longer than
    with Tantivy. This index suits small corpora. It is also used if Tantivy's index on disk cannot be opened.

    The formula is rank_bm25's ``BM25Plus`` with δ = 0: BM25 with the idf ln((N + 1)/n), which is always positive.
    LangChain's BM25Retriever uses ``BM25Okapi`` instead. There, a word in half of the texts has the idf 0, and a more
    frequent word has a quarter of the mean idf (``epsilon``). With that formula, no search in a corpus of one or two
    texts would return a result. k1 is 1.2 and b is .75, as in Tantivy. A word that occurs twice in a question has twice
    the weight.

    >>> index = RankBM25Index()
    >>> index.apply(1, [(0, "Ada wrote the first program"), (1, "Charles built engines")], [])
    >>> [row for row, score in index.search("who built the engine?", 10)]
    [1]
    """

    def __init__(self, language: str | None = "english") -> None:
        self._analyzer = Analyzer(language)
        self._words: dict[int, list[str]] = {}
        self._headings: dict[int, list[str]] = {}
        self._forms: dict[int, _IdentifierForms] = {}
        self._statistics: _Statistics | None = None
        self._counting = threading.Lock()
        self._applied = 0

    @property
    def applied_version(self) -> int:
        """Version recorded by the last :meth:`apply`; it is lost when the process ends."""
        return self._applied

    def search(self, text: str, n: int, allowed_rows: Mask | None = None) -> list[tuple[int, float]]:
        """Return the ``n`` best rows with their BM25 scores (> 0), best first, ties by row.

        The result is empty if the index contains none of the words. Only rows whose entry in ``allowed_rows`` is True
        are returned; rows beyond the end of the mask are excluded too.
        """
        statistics = self._count()
        question = self._question(statistics, text)
        places = statistics.sharing(question.terms)
        if allowed_rows is not None:
            places = places[statistics.rows[places] < len(allowed_rows)]
            places = places[allowed_rows[statistics.rows[places]]]
        if n < 1 or not len(places):
            return []
        scores = statistics.scores(question.terms, places, question.headings_weight)
        order = np.argsort(-scores, kind="stable")[:n]  # positions are in the order of rows
        return list(zip(statistics.rows[places[order]].tolist(), scores[order].tolist(), strict=True))

    def scores(self, text: str, rows: Sequence[int]) -> dict[int, float]:
        """Return the BM25 scores of these rows as in :meth:`search`; rows without any word of ``text`` are left out."""
        statistics = self._count()
        question = self._question(statistics, text)
        places = statistics.sharing(question.terms)
        places = places[np.isin(statistics.rows[places], np.asarray(rows, dtype=np.int64))]
        if not len(places):
            return {}
        scores = statistics.scores(question.terms, places, question.headings_weight)
        return dict(zip(statistics.rows[places].tolist(), scores.tolist(), strict=True))

    def bound(self, text: str) -> float:
        """Return an upper bound for the scores of this question (see ``stores.bm25.Question.bound``)."""
        return self._question(self._count(), text).bound

    def query_words(self, text: str, hits: Sequence[tuple[int, float]]) -> QuestionWords:
        """Return the words of a question and the best score of ``hits``, not counting headings.

        See ``stores.bm25.Question.words``; ``hits`` are results of :meth:`search`.
        """
        statistics = self._count()
        question = self._question(statistics, text)
        places = np.searchsorted(statistics.rows, np.array([row for row, _ in hits], dtype=np.int64))
        scores = statistics.scores(question.terms, places, 0.0)
        return question.words(float(max(scores, default=0.0)), len(statistics.rows))

    def exact_matches(self, text: str, allowed_rows: Mask | None = None) -> dict[int, float]:
        """Return, by row, the estimated probability in (0, 1) that the question refers to the row.

        Only rows that share an identifier or a rare word with the question are included; see
        :func:`~langchain_hybridgraph.text.identifiers.exact_matches`. ``allowed_rows`` excludes rows as in
        :meth:`search`.
        """
        statistics = self._count()

        def rows_with(field: str, term: str) -> list[int]:
            rows: list[int] = statistics.rows[statistics.postings(field).get(term, [])].tolist()
            if allowed_rows is not None:
                rows = [row for row in rows if row < len(allowed_rows) and allowed_rows[row]]
            return rows if len(rows) <= FEW else []

        return self._question(statistics, text).exact_matches(rows_with)

    def apply(self, version: int, add: Iterable[IndexedText], remove: Sequence[int]) -> None:
        """Remove rows, then add rows, and record ``version``; an added row replaces the row with the same number.

        An error raised by the iterable ``add`` propagates; in this case, no row is added or removed.
        """
        texts = {int(row): (text, "".join(headings)) for row, text, *headings in add}
        words = {row: self._interned(text) for row, (text, _) in texts.items()}
        heading_words = {row: self._interned(headings) for row, (_, headings) in texts.items()}
        forms = {row: _IdentifierForms(compounds(text), name_of(text)) for row, (text, _) in texts.items()}
        removed = set(remove)
        with self._counting:
            self._words = {row: value for row, value in self._words.items() if row not in removed} | words
            self._headings = {row: value for row, value in self._headings.items() if row not in removed} | heading_words
            self._forms = {row: value for row, value in self._forms.items() if row not in removed} | forms
            self._statistics, self._applied = None, version

    def __len__(self) -> int:
        """Return the number of rows in the index."""
        return len(self.rows())

    def rows(self) -> set[int]:
        """Return the numbers of all rows in the index."""
        return set(self._words)

    def reload(self) -> None:
        """Do nothing, because the index exists in this process only."""

    def close(self) -> None:
        """Free the memory."""
        with self._counting:
            self._words, self._headings, self._forms, self._statistics = {}, {}, {}, None

    def _count(self) -> _Statistics:
        with self._counting:
            if self._statistics is None:
                self._statistics = _statistics_of(self._words, self._headings, self._forms)
            return self._statistics

    def _question(self, statistics: _Statistics, text: str) -> Question:
        texts = len(statistics.rows)
        return Question(
            text,
            self._analyzer,
            texts,
            lambda field, word: len(statistics.postings(field).get(word, ())),
            lambda frequency: math.log((texts + 1) / max(1, frequency)),
        )

    def _interned(self, text: str) -> list[str]:
        """Return the words of a text as interned strings, so that a repeated word is stored only once."""
        return [sys.intern(word) for word in self._analyzer.all_words(text)]


class _IdentifierForms(NamedTuple):
    """The compound words in a text, and the name at the beginning of the text, or None."""

    compounds: list[str]
    name: str | None


@dataclass(frozen=True)
class _Field:
    """BM25 statistics of one field of all rows: the texts or the headings.

    A row is identified by its position in the ascending list of row numbers.
    """

    engine: Any  # a rank_bm25.BM25Plus, or None if the field has no words
    postings: dict[str, list[int]]

    def scores(self, terms: Sequence[tuple[str, int]], places: Rows) -> Scores | float:
        question = [term for term, count in terms for _ in range(count) if term in self.postings]
        if not question:
            return 0.0
        return np.array(self.engine.get_batch_scores(question, places.tolist()), dtype=np.float64)


@dataclass(frozen=True)
class _Statistics:
    """Statistics of all rows. A row is identified by its position in ``rows``, which is ascending."""

    rows: Rows
    text: _Field
    headings: _Field
    compounds: dict[str, list[int]]
    names: dict[str, list[int]]

    def postings(self, field: str) -> dict[str, list[int]]:
        """Return the positions of the rows with each word, compound or name."""
        fields = {"text": self.text.postings, "headings": self.headings.postings, "compounds": self.compounds}
        return fields.get(field, self.names)

    def sharing(self, terms: Sequence[tuple[str, int]]) -> Rows:
        """Return the positions of the rows whose text or headings contain any of the terms, ascending.

        Only these rows are scored; rank_bm25 alone would scan all rows.
        """
        lists = [field.postings.get(term, ()) for term, _ in terms for field in (self.text, self.headings)]
        return np.unique(np.concatenate([np.array(places, dtype=np.int64) for places in lists] or [_NOWHERE]))

    def scores(self, terms: Sequence[tuple[str, int]], places: Rows, headings_weight: float) -> Scores:
        headings = headings_weight * self.headings.scores(terms, places)
        return np.zeros(len(places)) + self.text.scores(terms, places) + headings


_NOWHERE = np.zeros(0, dtype=np.int64)


def _statistics_of(
    words: dict[int, list[str]], headings: dict[int, list[str]], forms: dict[int, _IdentifierForms]
) -> _Statistics:
    rows = sorted(words)
    compounds: dict[str, list[int]] = defaultdict(list)
    names: dict[str, list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        for compound in forms[row].compounds:
            compounds[compound].append(place)
        if (name := forms[row].name) is not None:
            names[name].append(place)
    text, heading = _field([words[row] for row in rows]), _field([headings[row] for row in rows])
    return _Statistics(np.array(rows, dtype=np.int64), text, heading, dict(compounds), dict(names))


def _field(words: Sequence[Sequence[str]]) -> _Field:
    from rank_bm25 import BM25Plus

    postings: dict[str, list[int]] = defaultdict(list)
    for place, row_words in enumerate(words):
        for word in set(row_words):
            postings[word].append(place)
    # rank_bm25 divides by the number of words, so it is called only if there is one.
    return _Field(BM25Plus(words, k1=K1, b=B, delta=0) if postings else None, dict(postings))
