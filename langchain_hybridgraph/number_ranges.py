"""Validation of numbers and descriptions of the allowed ranges."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from langchain_hybridgraph.errors import ConfigurationError, quote_value

_SIGNS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


def check_whole_number(name: str, value: Any, least: int) -> None:
    """Raise ConfigurationError unless the value is an integer and at least ``least``.

    >>> check_whole_number("max_hops", "2", least=0)
    Traceback (most recent call last):
        ...
    langchain_hybridgraph.errors.ConfigurationError: max_hops must be an integer ≥ 0, got '2'
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise _error(name, "an integer", {"ge": least}, value)


def check_number(name: str, value: Any, **bounds: float) -> None:
    """Raise ConfigurationError unless the value is a finite number within the bounds ``ge``, ``gt``, ``le`` and ``lt``.

    >>> check_number("damping", 1.5, ge=0, le=1)
    Traceback (most recent call last):
        ...
    langchain_hybridgraph.errors.ConfigurationError: damping must be a number from 0 to 1, got 1.5
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not _is_within(float(value), **bounds):
        raise _error(name, "a number", bounds, value)


def number_in_range(noun: str, bounds: Mapping[str, float]) -> str:
    """Return a noun followed by the range of its values.

    >>> number_in_range("a number", {"gt": 0, "le": 1}), number_in_range("an integer", {"ge": 1})
    ('a number > 0 and ≤ 1', 'an integer ≥ 1')
    >>> number_in_range("a number", {"ge": 0, "le": 1})
    'a number from 0 to 1'
    """
    if "ge" in bounds and "le" in bounds:
        return f"{noun} from {bounds['ge']:g} to {bounds['le']:g}"
    limits = [f"{sign} {bounds[name]:g}" for name, sign in _SIGNS.items() if name in bounds]
    return f"{noun} {' and '.join(limits)}".rstrip()


def _is_within(
    value: float, *, ge: float = -math.inf, gt: float = -math.inf, le: float = math.inf, lt: float = math.inf
) -> bool:
    return math.isfinite(value) and ge <= value <= le and gt < value < lt


def _error(name: str, noun: str, bounds: Mapping[str, float], value: Any) -> ConfigurationError:
    return ConfigurationError(f"{name} must be {number_in_range(noun, bounds)}, got {quote_value(value)}")
