"""Ranking of rows by Tantivy's BM25 scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import tantivy
    from numpy.typing import NDArray

    from langchain_hybridgraph.chunks import Mask

    Rows = NDArray[np.int64]
    Scores = NDArray[np.float64]


def best_rows(
    searcher: tantivy.Searcher, query: tantivy.Query, n: int, fetch: int, allowed_rows: Mask | None
) -> list[tuple[int, float]]:
    """Return the ``n`` best allowed rows with their scores, best first, ties by row.

    The first search returns ``fetch`` hits. It is repeated with more hits until they include all rows that tie with the
    last result.
    """
    while True:
        fetch = max(1, min(fetch, searcher.num_docs))
        rows, scores = ranked_rows(searcher, query, fetch)
        worst = scores[-1] if len(scores) else 0.0
        is_all = len(rows) < fetch or fetch == searcher.num_docs
        if allowed_rows is not None:
            within = is_allowed(allowed_rows, rows)
            rows, scores = rows[within], scores[within]
        if is_all or (len(rows) >= n and scores[n - 1] > worst):
            break
        fetch *= 4
    order = np.lexsort((rows, -scores))[:n]
    return list(zip(rows[order].tolist(), scores[order].tolist(), strict=True))


def ranked_rows(searcher: tantivy.Searcher, query: tantivy.Query, n: int) -> tuple[Rows, Scores]:
    """Return the rows of the ``n`` best hits and their scores, best first."""
    hits: list[tuple[Any, tantivy.DocAddress]] = searcher.search(query, n, count=False).hits
    rows = searcher.fast_field_values("row", [address for _, address in hits])
    return np.array(rows, dtype=np.int64), np.array([score for score, _ in hits], dtype=np.float64)


def is_allowed(allowed_rows: Mask, rows: Rows) -> Mask:
    """Return a mask of the allowed rows; rows beyond the end of ``allowed_rows`` are not allowed."""
    within = rows < len(allowed_rows)
    within[within] = allowed_rows[rows[within]]
    return within
