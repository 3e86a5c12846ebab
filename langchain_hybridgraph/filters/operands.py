"""Validation of the operands of filters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from datetime import date
from numbers import Real
from typing import Any

from langchain_hybridgraph.errors import FilterError
from langchain_hybridgraph.filters.canonical_values import CanonicalBool, canonical
from langchain_hybridgraph.filters.messages import as_json, unusable_operand
from langchain_hybridgraph.filters.operators import ORDERINGS


def check_operand(key: str, operator: str, operand: Any) -> Any:
    """Return an operand in canonical form; raise FilterError if the comparison could never match."""
    if operator == "$exists":
        if not isinstance(operand, bool):
            raise unusable_operand(key, operator, operand, "true or false", True)
        return operand
    if operator in ("$in", "$nin"):
        if not isinstance(operand, (list, tuple, Set)):
            raise unusable_operand(key, operator, operand, "a list", [operand])
        return tuple(dict.fromkeys(_check_value(key, operator, item) for item in operand))
    value = _check_value(key, operator, operand)
    if operator == "$ne" and isinstance(value, tuple) and value:
        raise FilterError(
            f"{as_json({key: {operator: operand}})} is ambiguous; write {as_json({key: {'$nin': operand}})} for none of"
            f" these values, or {as_json({key: {'$not': {'$eq': operand}}})} for anything except exactly this list"
        )
    if operator == "$contains" and isinstance(value, (tuple, frozenset)):
        raise FilterError(
            f"{as_json({key: {operator: operand}})} is ambiguous: $contains takes one element; "
            f'write has_labels(any_of=[...], key="{key}"), has_labels(all_of=[...], key="{key}"), '
            f"or {as_json({'$or': [{key: {operator: 'a'}}, {key: {operator: 'b'}}]})}"
        )
    if operator in ORDERINGS and isinstance(value, (tuple, frozenset, CanonicalBool)):
        raise unusable_operand(key, operator, operand, "a number, a time or a string", 2024)
    return value


def _check_value(key: str, operator: str, operand: Any) -> Any:
    if operand is None:
        raise FilterError(
            f"{as_json({key: {operator: None}})} compares with null, which counts as missing; "
            f"write {as_json({key: {'$exists': False}})} for missing, {as_json({key: {'$exists': True}})} for present"
        )
    try:
        if not _is_value(operand):
            raise unusable_operand(key, operator, operand, "a JSON value or a datetime", str(operand))
        value = canonical(operand)
        if _has_nan(value):
            raise unusable_operand(key, operator, operand, "a value other than NaN, which equals nothing", 0)
    except RecursionError:
        raise unusable_operand(key, operator, operand, "a less deeply nested value", 0) from None
    return value


def _is_value(operand: Any) -> bool:
    if isinstance(operand, Mapping):
        return all(map(_is_value, operand.values()))
    if isinstance(operand, (list, tuple, Set)):
        return all(map(_is_value, operand))
    return operand is None or isinstance(operand, (str, Real, date)) or hasattr(operand, "tolist")


def _has_nan(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_has_nan, value))
    if isinstance(value, frozenset):
        return any(_has_nan(item) for _, item in value)
    return isinstance(value, float) and math.isnan(value)
