"""Masks of the chunks that are in a scope."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from langchain_hybridgraph.execution.forking import ForkSafeLock
from langchain_hybridgraph.filters import compare
from langchain_hybridgraph.records import Chunk, Scope
from langchain_hybridgraph.records.scope_check import begin_of, end_of, filterable
from langchain_hybridgraph.stores.engines.metadata_columns import MetadataColumns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.records import Mask

    Times = NDArray[np.float64]


class ScopedRows:
    """Growing list of chunks with masks of the chunks that are in a scope, as determined by ``in_scope``.

    A row is a chunk's position in the list. Several threads may use one object.

    >>> from langchain_hybridgraph.filters import parse_filter
    >>> rows = ScopedRows([Chunk("a", "", {"year": 2020}), Chunk("b", "", {"year": 2024})])
    >>> rows.mask(Scope(filter=parse_filter({"year": {"$gt": 2021}})))
    array([False,  True])
    """

    def __init__(self, chunks: Iterable[Chunk] = ()) -> None:
        self._chunks: list[Chunk] = []
        self._columns = MetadataColumns(self._read)
        self._times: tuple[Times, Times] = (np.zeros(0), np.zeros(0))
        self._growing = ForkSafeLock()
        self.extend(chunks)

    def __getitem__(self, row: int) -> Chunk:
        return self._chunks[row]

    def extend(self, chunks: Iterable[Chunk]) -> None:
        """Add chunks at the end."""
        with self._growing:
            added = list(chunks)
            begins = [begin_of(chunk.metadata) for chunk in added]
            ends = [end_of(chunk.metadata) for chunk in added]
            self._times = (np.append(self._times[0], begins), np.append(self._times[1], ends))
            self._chunks += added

    def mask(self, scope: Scope) -> Mask | None:
        """Return one bool per row, True if the chunk is in the scope, or None if all chunks are."""
        begins, ends = self._times
        masks: list[Mask] = []
        if scope.as_of is not None and np.isfinite([begins.max(initial=-np.inf), ends.min(initial=np.inf)]).any():
            masks.append((begins <= scope.as_of) & (ends >= scope.as_of))
        if scope.tenant is not None:
            masks.append(self._columns.mask(compare("tenant", "$eq", scope.tenant), len(begins)))
        if scope.filter is not None:
            masks.append(self._columns.mask(scope.filter, len(begins)))
        return np.logical_and.reduce(masks) if masks else None

    def _read(self, start: int, stop: int) -> Iterator[tuple[int, Mapping[str, Any]]]:
        for row in range(start, stop):
            yield row, filterable(self._chunks[row])
