"""Confidence in memories, with derivations and ends of validity."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from langchain_hybridgraph.memory.columns import MemoryColumns, fill_unknown, to_shares
from langchain_hybridgraph.memory.feedback import CONFIDENCE
from langchain_hybridgraph.memory.recency import HOUR

if TYPE_CHECKING:
    from langchain_hybridgraph.memory.columns import Column

DERIVED = 0.9  # factor by which each derivation lowers the confidence
ENDING = 0.02  # rate per hour at which confidence falls as the end of validity approaches


def trust(memories: MemoryColumns, now: float | None) -> Column:
    """Return the confidence in each memory, which falls with each derivation and as the end of validity approaches.

    If ``now`` is None, ends of validity have no effect.

    >>> from langchain_hybridgraph.records import MemoryState
    >>> trust(MemoryColumns.of([MemoryState(confidence=0.9, valid_until=24 * 3600.0)]), now=0.0).round(6).tolist()
    [0.343095]
    """
    sure = to_shares(fill_unknown(memories.confidence, CONFIDENCE)) * DERIVED ** np.maximum(
        memories.provenance_depth, 0.0
    )
    if now is None or np.isnan(memories.valid_until).all():
        return sure
    left = np.maximum(fill_unknown(memories.valid_until, np.inf) - now, 0.0)
    return sure * -np.expm1(-ENDING * left / HOUR)
