"""Memory states as arrays, one array per field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.records import MemoryState

    Column = NDArray[np.float64]


class MemoryColumns(NamedTuple):
    """States of several memories, as one array per field. All arrays have the same length, and NaN means unset.

    Most fields are described in :class:`~langchain_hybridgraph.records.MemoryState`. ``began_at`` is the first of these
    times that is known: start of validity, creation, ingestion. ``valid_until`` is the end of validity that came with
    the memory; it is unset if the end was set later. ``kind`` is the position of the memory's type in ``kinds``, or −1
    if the type is unset.
    """

    confidence: Column
    utility: Column
    active_count: Column
    used_at: Column
    updated_at: Column
    began_at: Column
    valid_until: Column
    provenance_depth: Column
    kind: NDArray[np.int64]
    kinds: Sequence[str]

    @classmethod
    def of(cls, states: Sequence[MemoryState]) -> MemoryColumns:
        """Return the columns for these states."""
        kinds: dict[str, int] = {}
        rows = [
            (
                state.confidence,
                state.utility,
                state.active_count,
                state.used_at,
                state.updated_at,
                next((time for time in (state.valid_from, state.created_at) if time is not None), state.learned_at),
                None if state.end_learned else state.valid_until,
                state.provenance_depth,
            )
            for state in states
        ]
        kind = [
            -1 if state.memory_type is None else kinds.setdefault(state.memory_type, len(kinds)) for state in states
        ]
        columns = np.array(rows, np.float64).reshape(-1, 8).T  # None becomes NaN
        return cls._make([*columns, np.array(kind, np.int64), list(kinds)])


def fill_unknown(values: Column, unset: float) -> Column:
    """Return the values with ``unset`` in place of NaN."""
    return np.where(np.isnan(values), unset, values)


def to_shares(values: Column) -> Column:
    """Return the values, clipped to [0, 1]."""
    shares: Column = np.minimum(np.maximum(values, 0.0), 1.0)
    return shares
