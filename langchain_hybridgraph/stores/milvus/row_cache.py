"""Short-lived cache of rows read from Milvus."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping

from langchain_hybridgraph.execution.threads import ForkSafeLock
from langchain_hybridgraph.stores.milvus.rows import StoredRow

# Seconds for which a row that has been read is not read again, except with "Strong" consistency.
FRESH = 2.0
MOST_FRESH = 4_096
# Seconds for which the number of chunks and the presence of edges are cached.
COUNTS_FRESH = 60.0


class RecentRows:
    """Cache of recently read chunks, by key.

    With this cache, the later stages of a search need no further calls to the server for these chunks.
    """

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._rows: OrderedDict[str, tuple[float, StoredRow]] = OrderedDict()

    def add(self, rows: Mapping[str, StoredRow]) -> None:
        """Add rows that have just been read to the cache."""
        now = time.monotonic()
        with self._lock:
            for key, row in rows.items():
                self._rows.pop(key, None)
                self._rows[key] = now, row
            while len(self._rows) > MOST_FRESH:
                self._rows.popitem(last=False)

    def get(self, keys: Iterable[str], *, with_vectors: bool) -> dict[str, StoredRow]:
        """Return the cached rows with these keys that were read less than ``FRESH`` seconds ago.

        If ``with_vectors`` is True, return only rows with a vector.
        """
        oldest = time.monotonic() - FRESH
        with self._lock:
            recent = {key: self._rows[key] for key in keys if key in self._rows}
        return {
            key: row.copied()
            for key, (read_at, row) in recent.items()
            if read_at > oldest and (row.vector is not None or not with_vectors)
        }

    def drop(self, keys: Iterable[str]) -> None:
        """Remove the rows with these keys. Call this when they are written or deleted."""
        with self._lock:
            for key in keys:
                self._rows.pop(key, None)
