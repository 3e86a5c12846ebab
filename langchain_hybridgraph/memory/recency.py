"""Recency of memories, from their age and type."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from langchain_hybridgraph.memory.columns import MemoryColumns, fill_unknown

if TYPE_CHECKING:
    from langchain_hybridgraph.memory.columns import Column

HOUR = 3_600.0
DAY = 24 * HOUR
# Rate per hour at which the recency of each type of memory falls; other types use ``decay_per_hour``.
DECAY: Mapping[str, float] = MappingProxyType(
    {"working": 999.0, "episodic": 0.08, "semantic": 0.02, "procedural": 0.001, "general": 0.05}
)
# Age in seconds of memories that begin more than an hour after ``now``; it is so large that their recency is 0.
_UNKNOWN_THEN = 1e15


def recency(memories: MemoryColumns, decay_per_hour: float, now: float | None) -> Column:
    """Return e^(−rate · age in hours) for each memory.

    The rate depends on the memory's type (see :data:`DECAY`). For types that are not listed there, it is
    ``decay_per_hour``.
    """
    decays = np.array([*(DECAY.get(kind, decay_per_hour) for kind in memories.kinds), decay_per_hour])
    age = fill_unknown(ages(memories.began_at, now), 0.0)
    shares: Column = np.exp(-decays[memories.kind] * age / HOUR)
    return shares


def ages(since: Column, now: float | None) -> Column:
    """Return the age in seconds of each time in ``since``.

    Ages are measured at ``now`` or, if ``now`` is None, at the current time. The age is 0 for a time up to an hour
    after ``now``, very large for a later time, and NaN for an unknown time.
    """
    seconds = (time.time() if now is None else now) - since
    ages_then: Column = np.where(seconds < -HOUR, _UNKNOWN_THEN, np.maximum(seconds, 0.0))
    return ages_then
