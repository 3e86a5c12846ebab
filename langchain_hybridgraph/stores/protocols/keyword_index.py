"""Protocol for keyword indexes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from langchain_hybridgraph.chunks import Mask
    from langchain_hybridgraph.records import QuestionWords

IndexedText = tuple[int, str] | tuple[int, str, str]
"""Row number, text and, optionally, the headings of the text (see ``Chunk.headings``)."""


class KeywordIndex(Protocol):
    """A BM25 index in which each text is a numbered row. The index itself splits texts and queries into words.

    The score of a row is the BM25 score of its text, plus ``stores.engines.bm25.headings_weight`` times the BM25 score
    of its headings. Texts and headings have separate statistics, so the score of a row without headings does not depend
    on the headings of other rows.
    """

    @property
    def applied_version(self) -> int:
        """Version recorded by the newest commit that this index has loaded (see :meth:`apply`); 0 if there is none."""
        ...

    def search(self, text: str, n: int, allowed_rows: Mask | None = None) -> list[tuple[int, float]]:
        """Return the ``n`` best rows with their BM25 scores (> 0), best first, ties by row.

        The result is empty if ``text`` contains no words. Only rows whose entry in ``allowed_rows`` is True are
        returned; rows beyond the end of the mask are excluded too.
        """
        ...

    def scores(self, text: str, rows: Sequence[int]) -> dict[int, float]:
        """Return the BM25 score of each of these rows; rows that share no word with ``text`` are left out."""
        ...

    def bound(self, text: str) -> float:
        """Return an upper bound on the score of any row for this query, or 0 if no row contains any of its words.

        The bound is (k1 + 1) · (T + ``headings_weight`` · H). T is the sum of the idf that the query's words have in
        texts, and H is the same sum for headings.
        """
        ...

    def query_words(self, text: str, hits: Sequence[tuple[int, float]]) -> QuestionWords:
        """Return the number of distinct words in a query, and two BM25 scores: an upper bound and the best score.

        The number and the bound include words that no row contains. The best score is the highest score of the rows in
        ``hits``, which are results of :meth:`search`. Neither score includes headings.
        """
        ...

    def exact_matches(self, text: str, allowed_rows: Mask | None = None) -> dict[int, float]:
        """Return the rows that share an identifier or a rare word with the query.

        The value for each row is the estimated probability, in (0, 1), that the query refers to it. ``allowed_rows``
        excludes rows as in :meth:`search`.
        """
        ...

    def apply(self, version: int, add: Iterable[IndexedText], remove: Sequence[int]) -> None:
        """Add and remove rows and record ``version``, all in one atomic commit.

        Repeating the call is safe: an added row replaces the row with the same number, and removing a missing row has
        no effect.
        """
        ...

    def __len__(self) -> int:
        """Return the number of rows in the index."""
        ...

    def rows(self) -> set[int]:
        """Return the row numbers of all rows in the index; the command ``check`` compares them with the catalog."""
        ...

    def reload(self) -> None:
        """Make the commits of other processes visible."""
        ...

    def close(self) -> None:
        """Release files and locks."""
        ...
