"""Filtered search in Chroma.

Chroma stores only vectors and row numbers, so it cannot evaluate a filter. Therefore, more rows than needed are
requested from it, and those that the filter excludes are dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from langchain_hybridgraph.records import Mask


def requested_rows(n: int, share: float) -> int:
    """Return how many rows to request from Chroma so that about ``n`` of them are allowed.

    ``share`` is the fraction of all rows that are allowed.
    """
    return int(1.1 * n / share) + 8 if share < 1 else n


def drop_disallowed(rows: NDArray[np.int64], n: int, allowed_rows: Mask) -> NDArray[np.int64] | None:
    """Return the allowed rows among ``rows``, or None if there are fewer than ``n``."""
    rows = rows[rows < len(allowed_rows)]
    rows = rows[allowed_rows[rows]]
    return rows if len(rows) >= n else None
