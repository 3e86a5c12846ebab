"""Errors about invalid filters."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Set
from typing import Any

from langchain_hybridgraph.errors import FilterError, quote_value
from langchain_hybridgraph.filters.operators import FIELD_OPERATORS, JOINING_OPERATORS

EXAMPLE = '{"source": "a.md"}'
"""Example of a filter for error messages."""


def unknown_operator(key: str, operator: Any, operand: Any) -> FilterError:
    """Return the error for a name that is not an operator; it suggests the most similar operator."""
    from difflib import get_close_matches

    near = get_close_matches("$" + str(operator).lstrip("$"), FIELD_OPERATORS, n=1) or ["$eq"]
    message = (
        f"{operator!r} on {key!r} is not an operator; a field takes {' '.join(FIELD_OPERATORS)}. "
        f"Write {as_json({key: {near[0]: operand}})}"
    )
    if not str(operator).startswith("$"):
        inner, whole = {f"{key}.{operator}": operand}, {key: {"$eq": {operator: operand}}}
        message += f"; or {as_json(inner)} to look inside an object, {as_json(whole)} to compare a complete object"
    return FilterError(message)


def misplaced_operator(operator: str, value: Any) -> FilterError:
    """Return the error for an operator used where a key is expected."""
    joining = " ".join(JOINING_OPERATORS)
    if operator in FIELD_OPERATORS:
        return FilterError(
            f"{operator} needs a field; only {joining} can be used without one. "
            f"Write {as_json({'field': {operator: value}})}"
        )
    return FilterError(
        f"{quote_value(operator)} is not an operator; filters are combined with {joining}, and a field takes "
        f"{' '.join(FIELD_OPERATORS)}. Write {as_json({'$or': [{'source': 'a.md'}, {'year': {'$gte': 2020}}]})}; "
        f"a key that begins with a dollar sign is written {as_json(chr(92) + operator)}"
    )


def unusable_operand(key: str, operator: str, operand: Any, expected: str, example: Any) -> FilterError:
    """Return the error for an operand of the wrong kind."""
    return FilterError(
        f"{operator} on {quote_value(key)} takes {expected}, not {as_json(operand)} ({type(operand).__name__}); "
        f"write {as_json({key: {operator: example}})}"
    )


def as_json(value: Any) -> str:
    """Return a value as JSON, cut to 160 characters.

    Sets inside the value become lists, and other objects become strings. A value that still cannot be converted is
    formatted with ``repr``.
    """
    try:
        text = json.dumps(value, default=_json_default, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):  # non-string keys, a list that contains itself
        text = reprlib.repr(value)
    return text if len(text) <= 160 else text[:157] + "..."


def _json_default(value: Any) -> Any:
    return list(value) if isinstance(value, Set) else str(value)
