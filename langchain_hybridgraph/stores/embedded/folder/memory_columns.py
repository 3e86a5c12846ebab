"""Current states of memories, cached by row."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from langchain_hybridgraph.memory.scores import MemoryColumns
from langchain_hybridgraph.stores.embedded.catalog import memory as catalog_memory

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from langchain_hybridgraph.stores.embedded.catalog.catalog import Catalog

# Number of columns: those from confidence to provenance depth, and the position of the memory type in ``kinds``.
_COLUMNS = len(MemoryColumns._fields) - 1
_AT_ONCE = 50_000


class MemoryMirror:
    """Keeps the current states of a tenant's chunks in main memory, by row (72 bytes per row).

    All states are read at first use. Later, only changes, including those of other processes, are read from a log in
    the catalog. The mirror returns the states of 150 chunks in 0.03 ms; reading them from the catalog takes 1 ms.
    """

    def __init__(self, catalog: Catalog, tenant: str) -> None:
        self._catalog, self._tenant = catalog, tenant
        self._lock = Lock()
        self._position = -1
        self._end = 0
        self._values = np.zeros((0, _COLUMNS))
        self._kinds: dict[str, int] = {}

    def at(self, rows: Sequence[int]) -> MemoryColumns:
        """Return the states of these rows. For a negative row or another tenant's row, all values are unset."""
        places = np.array(rows, np.int64)
        with self._lock:
            self._follow(int(places.max(initial=-1)) + 1)
            values = self._values[places]
            kinds = list(self._kinds)
        values[places < 0] = _UNSET
        columns = values.T
        return MemoryColumns._make([*columns[:-1], columns[-1].astype(np.int64), kinds])

    def _follow(self, end: int) -> None:
        """Bring the states up to date with the catalog and make sure that they cover all rows below ``end``."""
        with self._catalog.reading() as connection:
            position = catalog_memory.position(connection)
        if position == self._position and end <= self._end:
            return
        with self._catalog.snapshot(), self._catalog.reading() as connection:
            self._position = self._read(connection)

    def _read(self, connection: sqlite3.Connection) -> int:
        position = catalog_memory.position(connection)
        if catalog_memory.is_forgotten(connection, self._position):
            self._end = 0
        elif position > self._position:
            self._take(catalog_memory.changed_by_row(connection, self._tenant, self._position))
        stop = catalog_memory.next_row(connection)
        for start in range(self._end, stop, _AT_ONCE):
            self._take(catalog_memory.by_row(connection, self._tenant, start, start + _AT_ONCE))
        self._grow(max(stop, 1))  # at least one row, since missing rows are looked up at position -1
        self._end = stop
        return position

    def _take(self, records: Sequence[catalog_memory.ByRow]) -> None:
        if not records:
            return
        rows = np.array([one[0] for one in records], np.int64)
        kinds = [-1 if one[-1] is None else self._kinds.setdefault(one[-1], len(self._kinds)) for one in records]
        self._grow(int(rows.max()) + 1)
        self._values[rows, :-1] = np.array([one[1:-1] for one in records], np.float64)  # None becomes NaN
        self._values[rows, -1] = kinds

    def _grow(self, end: int) -> None:
        if end > len(self._values):
            enlarged_values = np.tile(_UNSET, (max(end, 2 * len(self._values), 1024), 1))
            enlarged_values[: len(self._values)] = self._values
            self._values = enlarged_values


# The state of a chunk without any values: never used, not derived from other memories, without a type.
_UNSET = np.array([np.nan, np.nan, 0.0, np.nan, np.nan, np.nan, np.nan, 0.0, -1.0])
