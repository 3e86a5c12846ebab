"""Hotness of memories, from their uses and age."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.memory.columns import MemoryColumns, fill_unknown
from langchain_hybridgraph.memory.recency import DAY, ages
from langchain_hybridgraph.number_ranges import check_number

if TYPE_CHECKING:
    from langchain_hybridgraph.memory.columns import Column


@dataclass(frozen=True, slots=True)
class Hotness:
    """Measure of how much a memory is used: sigmoid(ln(1 + uses)) · 2^(−age in days / ``half_life_days``).

    The age is measured from the last use or from ``updated_at``, whichever is later. If neither is known, the age is
    measured from the first of these times that is known: start of validity, creation, ingestion. Hotness is blended
    with the score: (1 − ``alpha``) · score + ``alpha`` · hotness. Raises ConfigurationError for an alpha outside [0, 1]
    or a half-life that is not above 0.

    >>> from langchain_hybridgraph.records import MemoryState
    >>> used = MemoryColumns.of([MemoryState(active_count=9, used_at=0.0)])
    >>> Hotness()(used, now=7 * 24 * 3600).round(6).tolist()
    [0.454545]
    """

    alpha: float = 0.2
    half_life_days: float = 7.0

    def __post_init__(self) -> None:
        check_number("alpha", self.alpha, ge=0, le=1)
        check_number("half_life_days", self.half_life_days, ge=0)
        if not self.half_life_days:
            raise ConfigurationError("half_life_days must be above 0, got 0; try 7")

    def __call__(self, memories: MemoryColumns, now: float | None) -> Column:
        """Return the hotness of each memory, in [0, 1). A memory without any date has an age of 0."""
        touched = np.fmax(memories.used_at, memories.updated_at)
        used = np.where(np.isnan(touched), memories.began_at, touched)
        uses = 1.0 + np.maximum(memories.active_count, 0.0)
        hotness: Column = uses / (1.0 + uses) * 2.0 ** (-fill_unknown(ages(used, now), 0.0) / DAY / self.half_life_days)
        return hotness

    def blended(self, scores: Column, memories: MemoryColumns, now: float | None) -> Column:
        """Return the scores after blending them with hotness.

        >>> from langchain_hybridgraph.records import MemoryState
        >>> used = MemoryColumns.of([MemoryState(active_count=9, used_at=0.0)])
        >>> Hotness().blended(np.array([0.8]), used, now=7 * 24 * 3600).round(6).tolist()
        [0.730909]
        """
        return (1.0 - self.alpha) * scores + self.alpha * self(memories, now)
