"""Confidence in memories, and credibility of their sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from langchain_hybridgraph.memory.columns import MemoryColumns, fill_unknown, to_shares
from langchain_hybridgraph.memory.recency import HOUR

if TYPE_CHECKING:
    from langchain_hybridgraph.memory.columns import Column

CONFIDENCE = 0.5  # confidence in a memory whose confidence is unset
DERIVED = 0.9  # factor by which each derivation lowers the confidence
ENDING = 0.02  # rate per hour at which confidence falls as the end of validity approaches


def trust(memories: MemoryColumns, now: float | None) -> Column:
    """Return the confidence in each memory. It is lower for memories that were derived from others or expire soon.

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


def credibility(confirmed: int, refuted: int) -> float:
    """Return the credibility of a source, the mean of Beta(1 + confirmed, 1 + refuted).

    >>> credibility(0, 0), credibility(1, 0)
    (0.5, 0.6666666666666666)
    """
    return (1 + confirmed) / (2 + confirmed + refuted)
