"""Validity of chunks and edges, from valid_from to valid_until."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from langchain_hybridgraph.times import parse_end, parse_time


def is_valid(valid_from: float | None, valid_until: float | None, as_of: float | None) -> bool:
    """Return whether a chunk or an edge with this period of validity is valid at the time ``as_of``.

    If ``as_of`` is None, the result is True. Both ends belong to the period; None stands for no start or no end. Times
    are in Unix seconds, UTC.

    >>> is_valid(None, 5.0, 5.0), is_valid(6.0, None, 5.0)
    (True, False)
    """
    if as_of is None:
        return True
    return (valid_from is None or valid_from <= as_of) and (valid_until is None or valid_until >= as_of)


def begin_of(metadata: Mapping[str, Any]) -> float:
    """Return the start of a chunk's validity, or −∞ if it has none."""
    return _time(metadata.get("valid_from"), parse_time, -math.inf)


def end_of(metadata: Mapping[str, Any]) -> float:
    """Return the end of a chunk's validity, or ∞ if it has none."""
    return _time(metadata.get("valid_until"), parse_end, math.inf)


def _time(value: Any, parse: Callable[[Any], float], unset: float) -> float:
    try:
        return unset if value is None else parse(value)
    except ValueError:
        # A value that is not a time is ignored.
        return unset
