"""Choice of the engine for vector search.

Up to :data:`EXACT_BYTES` of vectors are searched exactly. Up to :data:`MATRIX_BYTES`, binary codes of the vectors are
compared first; larger indexes use Chroma. A Chroma server, if one is configured, is searched from
:data:`LEAST_SERVER_ROWS` chunks on. The matrix is also searched under a filter that excludes many chunks.
"""

from __future__ import annotations

# Up to this size in bytes, all vectors are compared. In a larger matrix, binary codes select the vectors to compare.
# For 63,666 × 384 vectors (benchmarks/vectors.py), this takes 1.1 ms instead of 4.3 and misses one in two hundred of
# the nearest 10. Chroma takes 2.9 ms and misses one in thirty.
EXACT_BYTES = 40 << 20
# Up to this size in bytes, searching the matrix is faster than searching Chroma.
MATRIX_BYTES = 400 << 20
# Smallest number of chunks for which a server is searched. For fewer chunks, searching the local matrix is faster than
# sending a request.
LEAST_SERVER_ROWS = 10_000
# Smallest share of allowed rows for which Chroma is searched: it returns extra rows, and disallowed rows are dropped.
# If the share is smaller, the matrix is scanned.
OVERFETCH_SHARE = 0.9


def searches_exactly(size: int) -> bool:
    """Return whether all vectors of a matrix of this size in bytes are compared, without a selection by binary
    codes.
    """
    return size <= EXACT_BYTES


def searches_chroma(rows: int, dimension: int) -> bool:
    """Return whether searching Chroma is faster than searching the matrix for this number of vectors."""
    return rows * dimension * 4 > MATRIX_BYTES


def searches_server(rows: int) -> bool:
    """Return whether an index with this number of chunks is searched on a Chroma server if one is configured."""
    return rows >= LEAST_SERVER_ROWS


def searches_despite_filter(share: float) -> bool:
    """Return whether Chroma is searched under a filter that allows this share of the rows."""
    return share >= OVERFETCH_SHARE
