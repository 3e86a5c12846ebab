"""Choice of the engine for vector search.

Without a Chroma server, the engine depends on the total size of the vectors. Up to :data:`EXACT_BYTES`, the query is
compared with all vectors. Up to :data:`MATRIX_BYTES`, binary codes select the vectors to compare. Above that, the
Chroma index in the folder is searched.

With a Chroma server, the number of chunks decides. The server is searched if there are at least
:data:`LEAST_SERVER_ROWS` chunks; otherwise, the local matrix is searched.

If a filter excludes more than a tenth of the chunks, the local matrix is searched, even if there is a Chroma index or
server.
"""

from __future__ import annotations

# Up to this size in bytes, all vectors are compared. In a larger matrix, binary codes select the vectors to compare.
# For 63,666 × 384 vectors (benchmarks/vectors.py), the search by binary codes takes 1.1 ms instead of 4.3 and misses
# one in two hundred of the nearest 10. Chroma takes 2.9 ms and misses one in thirty.
EXACT_BYTES = 40 << 20
# Up to this size in bytes, searching the matrix is faster than searching Chroma.
MATRIX_BYTES = 400 << 20
# Smallest number of chunks for which a server is searched. For fewer chunks, searching the local matrix is faster than
# sending a request.
LEAST_SERVER_ROWS = 10_000
# Smallest share of allowed rows for which Chroma is searched: extra rows are requested from it, and disallowed rows are
# dropped from its result. If the share is smaller, the matrix is scanned.
OVERFETCH_SHARE = 0.9


def searches_exactly(size: int) -> bool:
    """Return whether a matrix of this size in bytes is searched by comparing all its vectors, without binary codes."""
    return size <= EXACT_BYTES


def searches_chroma(rows: int, dimension: int) -> bool:
    """Return whether the vectors exceed ``MATRIX_BYTES``, in which case the Chroma index in the folder is searched."""
    return rows * dimension * 4 > MATRIX_BYTES


def searches_server(rows: int) -> bool:
    """Return whether an index with this number of chunks is searched on the Chroma server, if one is configured."""
    return rows >= LEAST_SERVER_ROWS


def searches_despite_filter(share: float) -> bool:
    """Return whether Chroma is searched under a filter that allows this share of the rows."""
    return share >= OVERFETCH_SHARE
