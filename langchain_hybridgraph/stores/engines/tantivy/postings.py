"""Postings of identifiers and rare words in Tantivy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from langchain_hybridgraph.stores.engines.tantivy.ranking import idf, is_allowed, ranked_rows
from langchain_hybridgraph.text.analyzer import Analyzer
from langchain_hybridgraph.text.identifiers import FEW

if TYPE_CHECKING:
    import tantivy

    from langchain_hybridgraph.records import Mask

# Maximum number of texts fetched for a term before disallowed rows are dropped. Terms with a larger document frequency,
# which includes removed texts until Tantivy merges their segment, are skipped.
_MOST_POSTINGS = 8 * FEW


class TantivyPostings:
    """Looks up words, compounds and names in the index for one question.

    See :class:`~langchain_hybridgraph.text.identifiers.Postings`.
    """

    def __init__(
        self,
        analyzer: Analyzer,
        schema: tantivy.Schema,
        searcher: tantivy.Searcher,
        terms: Sequence[tuple[str, int]],
        allowed_rows: Mask | None,
    ) -> None:
        self._analyzer, self._schema, self._searcher = analyzer, schema, searcher
        self._terms, self._allowed_rows = terms, allowed_rows

    @property
    def texts(self) -> int:
        """Number of texts in the index, plus the document that stores the index's version."""
        return int(self._searcher.num_docs)

    def words(self, text: str) -> list[str]:
        """Return the analysed words of a text."""
        return self._analyzer.words(text)

    def information(self, question: str) -> dict[str, float]:
        """Return idf · count for each word of the question that occurs in a text."""
        searcher = self._searcher
        return {
            word: count * idf(searcher.num_docs, min(searcher.num_docs, searcher.doc_freq("text", word)))
            for word, count in self._terms
            if searcher.doc_freq("text", word)
        }

    def rows_with_word(self, word: str) -> list[int]:
        """Return the allowed rows that contain this word, or [] if there are too many."""
        return self._rows("text", word)

    def rows_with_compound(self, form: str) -> list[int]:
        """Return the allowed rows that contain this compound, or [] if there are too many."""
        return self._rows("compounds", form)

    def rows_with_name(self, form: str) -> list[int]:
        """Return the allowed rows whose text begins with this name, or [] if there are too many."""
        return self._rows("name", form)

    def _rows(self, field: str, term: str) -> list[int]:
        import tantivy

        if not 0 < self._searcher.doc_freq(field, term) <= _MOST_POSTINGS:
            return []
        query = tantivy.Query.term_query(self._schema, field, term, "basic")
        rows, _ = ranked_rows(self._searcher, query, _MOST_POSTINGS)
        if self._allowed_rows is not None:
            rows = rows[is_allowed(self._allowed_rows, rows)]
        return rows.tolist() if len(rows) <= FEW else []
