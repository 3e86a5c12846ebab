"""Protocol of keyword indexes, which know rows only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from langchain_hybridgraph.records import Mask, QuestionWords


class KeywordIndex(Protocol):
    """BM25 over rows. Texts are passed in unchanged; the engine analyses them itself."""

    @property
    def applied_version(self) -> int:
        """Version of the last :meth:`apply` that is durable; 0 for an empty index."""
        ...

    def search(self, text: str, n: int, allowed: Mask | None = None) -> list[tuple[int, float]]:
        """Return the n best rows with their BM25 scores (> 0), best first, ties by row; [] for a text without words.

        ``allowed[row]`` False excludes a row; rows beyond the end of the mask are excluded too.
        """
        ...

    def scores(self, text: str, rows: Sequence[int]) -> dict[int, float]:
        """Return the BM25 score of each of these rows; rows that share no word with the text are left out."""
        ...

    def bound(self, text: str) -> float:
        """Return the largest BM25 that a text could have for this query, Σ idf·(k1 + 1); 0 if no text has its words."""
        ...

    def query_words(self, text: str) -> QuestionWords:
        """Return the number of different words in a query and their bound, whether any text contains them or not."""
        ...

    def exact_matches(self, text: str, allowed: Mask | None = None) -> dict[int, float]:
        """Return the probability in (0, 1) that the query means a row, because of an identifier or a rare word.

        Rows with no identifier or rare word of the query are left out; ``allowed`` is that of :meth:`search`.
        """
        ...

    def apply(self, version: int, add: Iterable[tuple[int, str]], remove: Sequence[int]) -> None:
        """Add and remove rows and record ``version``, all in one atomic commit.

        Idempotent: an added row replaces the row of the same number, and a row to remove may be missing.
        """
        ...

    def __len__(self) -> int:
        """Return the number of rows in the index."""
        ...

    def rows(self) -> set[int]:
        """Return all rows in the index, for ``check``."""
        ...

    def reload(self) -> None:
        """Make visible what other processes have committed."""
        ...

    def close(self) -> None:
        """Release files and locks."""
        ...
