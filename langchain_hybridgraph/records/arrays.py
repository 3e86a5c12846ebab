"""Type aliases for arrays and times."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import date

    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]
    Mask = NDArray[np.bool_]
    Time = float | str | date  # a datetime is a date
