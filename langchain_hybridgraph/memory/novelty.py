"""Down-weighting of memories already mentioned in the session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from langchain_hybridgraph.number_ranges import check_number

if TYPE_CHECKING:
    from langchain_hybridgraph.memory.columns import Column


@dataclass(frozen=True, slots=True)
class Novelty:
    """Factor that lowers the scores of memories already mentioned in the session.

    The factor is 1 − ``slope`` · (s − ``above``), where s is the largest cosine between the memory and any turn of the
    session. It is 1 if s is at most ``above``, and never less than ``floor``.

    >>> Novelty()(np.array([0.7, 0.8, 0.9, 1.0])).round(6).tolist()
    [1.0, 1.0, 0.75, 0.5]
    """

    above: float = 0.8
    slope: float = 2.5
    floor: float = 0.5

    def __post_init__(self) -> None:
        check_number("above", self.above, ge=0, le=1)
        check_number("slope", self.slope, ge=0)
        check_number("floor", self.floor, ge=0, le=1)

    def __call__(self, similarity: Column) -> Column:
        """Return the factor for each memory, given its largest cosine with any turn of the session."""
        left: Column = np.maximum(self.floor, 1.0 - self.slope * (similarity - self.above))
        return np.where(similarity <= self.above, 1.0, left)
