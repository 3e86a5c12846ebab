"""Evidence for memories from the times in a question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from langchain_hybridgraph.memory.recency import DAY

if TYPE_CHECKING:
    from langchain_hybridgraph.memory.columns import Column

# Statements about a day or month are mostly made at that time or soon after. These are the numbers of days after and
# before the time at which the evidence has fallen to 1/e.
DAYS_AFTER, DAYS_BEFORE = 7.0, 1.0


@dataclass(frozen=True, slots=True)
class TimeEvidence:
    """Evidence for memories that start at the times mentioned in a question.

    ``spans`` are these times, as pairs (start, end). For a memory that starts within a span, the evidence is
    ``strength``, multiplied by the share of candidates that start outside all spans. So if a question names a year, and
    all candidates are from that year, the year provides no evidence. For a memory that starts outside the spans, the
    evidence is also multiplied by e^(−days / 7) if the memory starts after a span, or by e^(−days) if it starts before
    one. If there are several spans, the one with the largest result counts.

    Evidence and similarity are combined as if they were independent: 1 − (1 − similarity) · (1 − evidence).

    >>> may = TimeEvidence([(0.0, 31 * 86400.0)], strength=0.4)
    >>> may(np.array([10.0, 38.0, 400.0, np.nan]) * 86400).round(3).tolist()
    [0.3, 0.11, 0.0, 0.0]
    """

    spans: Sequence[tuple[float, float]]
    strength: float

    def __call__(self, times: Column) -> Column:
        """Return the evidence for memories that start at these times; NaN means unknown."""
        near = np.zeros(len(times))
        for span in self.spans:
            near = np.fmax(near, _near(times, *span))
        return self.strength * np.count_nonzero(near < 1.0) / (len(near) or 1) * near


def _near(moments: Column, start: float, end: float) -> Column:
    """Return 1 for times within the span, and less for times outside."""
    late, early = np.maximum(moments - end, 0.0) / DAY, np.maximum(start - moments, 0.0) / DAY
    near: Column = np.exp(-late / DAYS_AFTER - early / DAYS_BEFORE)
    return np.where(near < 1e-9, 0.0, near)
