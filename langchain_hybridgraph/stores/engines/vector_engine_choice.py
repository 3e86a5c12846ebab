"""Choice of the engine that searches the vectors.

Up to :data:`EXACT_BYTES` of vectors are searched exactly. Up to :data:`MATRIX_BYTES` the signs of the vectors are
compared first, and beyond it Chroma is used. A Chroma server, if there is one, is searched from
:data:`LEAST_SERVER_ROWS` chunks on. The matrix is also searched under a filter that excludes many chunks.
"""

from __future__ import annotations

# Up to this size all vectors are compared; beyond, the signs select some (benchmarks/vectors.py, 63,666 × 384: 1.1 ms
# instead of 4.3 for all; they miss one in two hundred of the nearest 10, Chroma one in thirty in 2.9 ms).
EXACT_BYTES = 40 << 20
# Up to this size the matrix is searched faster than Chroma.
MATRIX_BYTES = 400 << 20
# Smallest index, in chunks, searched on a server: for a smaller one the local matrix is faster than a request.
LEAST_SERVER_ROWS = 10_000
# From this share of allowed rows on, Chroma is searched for more rows and the others are dropped; below it, the
# matrix is scanned.
OVERFETCH_SHARE = 0.9


def searches_exactly(size: int) -> bool:
    """Return whether a matrix of this size in bytes compares all vectors, without a selection by signs."""
    return size <= EXACT_BYTES


def searches_chroma(rows: int, dimension: int) -> bool:
    """Return whether Chroma is faster than the matrix for this number of vectors."""
    return rows * dimension * 4 > MATRIX_BYTES


def searches_server(rows: int) -> bool:
    """Return whether an index with this number of chunks is searched on a Chroma server, if there is one."""
    return rows >= LEAST_SERVER_ROWS


def searches_despite_filter(share: float) -> bool:
    """Return whether Chroma is searched although only this share of the rows is allowed."""
    return share >= OVERFETCH_SHARE
