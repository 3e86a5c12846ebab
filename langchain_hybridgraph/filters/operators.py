"""Operators and their evaluation."""

from __future__ import annotations

import operator as python_operator
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from langchain_hybridgraph.filters.canonical_values import CanonicalTime, canonical_to_seconds
from langchain_hybridgraph.times import iso_seconds

Test = Callable[[Any], bool]
"""Function that takes a canonical value (None if it is missing) and returns whether it matches."""


class Ordering(NamedTuple):
    """Operator that compares two numbers, times or strings by their order, such as ``$gt``.

    ``negation`` is the opposite operator, such as ``$lte``.
    """

    symbol: str
    negation: str
    holds: Callable[[Any, Any], bool]

    @property
    def is_lower_bound(self) -> bool:
        """Whether the operand is a lower bound for the value."""
        return self.symbol.startswith(">")


ORDERINGS: Mapping[str, Ordering] = MappingProxyType(
    {
        "$gt": Ordering(">", "$lte", python_operator.gt),
        "$gte": Ordering(">=", "$lt", python_operator.ge),
        "$lt": Ordering("<", "$gte", python_operator.lt),
        "$lte": Ordering("<=", "$gt", python_operator.le),
    }
)
NEGATIONS: Mapping[str, str] = MappingProxyType({"$ne": "$eq", "$nin": "$in"})
"""Operators that negate another operator, mapped to that operator."""
FIELD_OPERATORS = ("$eq", "$ne", *ORDERINGS, "$in", "$nin", "$contains", "$not_contains", "$exists", "$not")
SYMBOLS: Mapping[str, str] = MappingProxyType(
    {"=": "$eq", "==": "$eq", "!=": "$ne", "<>": "$ne", ">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte"}
)
"""Symbols that may be written instead of an operator."""
JOINING_OPERATORS = ("$and", "$or", "$not")
_NUMBERS = frozenset({int, float})


def compile_test(operator: str, operand: Any) -> Test:
    """Return a function that tests values with an operator and an operand. Operand and values are in canonical form."""
    if operator in NEGATIONS:
        return _negated(compile_test(NEGATIONS[operator], operand))
    match operator:
        case "$eq":
            return _is_one_of((operand,))
        case "$in":
            return _is_one_of(operand)
        case "$contains":
            return _contains(operand)
        case "$exists":
            return lambda value: (value is not None) is operand
    return _is_ordered(ORDERINGS[operator].holds, operand)


def _negated(test: Test) -> Test:
    return lambda value: not test(value)


def _is_one_of(operands: Sequence[Any]) -> Test:
    equal = frozenset(operands)
    moments = {operand.seconds for operand in operands if type(operand) is CanonicalTime}
    instants = {seconds for operand in operands if (seconds := canonical_to_seconds(operand)) is not None}

    def test(value: Any) -> bool:
        if value in equal:
            return True
        if type(value) is CanonicalTime:
            return value.seconds in instants
        return bool(moments) and canonical_to_seconds(value) in moments

    return test


def _contains(operand: Any) -> Test:
    is_operand = _is_one_of((operand,))

    def test(value: Any) -> bool:
        if type(value) is tuple:
            return any(map(is_operand, value))
        return type(value) is str and type(operand) is str and operand in value

    return test


def _is_ordered(holds: Callable[[Any, Any], bool], operand: Any) -> Test:
    if type(operand) in _NUMBERS:
        return lambda value: type(value) in _NUMBERS and holds(value, operand)
    seconds = canonical_to_seconds(operand)
    if seconds is not None:
        return lambda value: (moment := canonical_to_seconds(value)) is not None and holds(moment, seconds)
    return lambda value: type(value) is str and holds(value, operand) and iso_seconds(value) is None
