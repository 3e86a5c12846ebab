"""Errors about invalid filters."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping, Set
from types import MappingProxyType
from typing import Any

from langchain_hybridgraph.errors import FilterError, quote_value
from langchain_hybridgraph.filters.operators import FIELD_OPERATORS, JOINING_OPERATORS

EXAMPLE = '{"source": "a.md"}'
"""Example of a filter for error messages."""


# Names of operators in other languages, without the dollar sign, and the operator with the same meaning.
_SPELLINGS: Mapping[str, str] = MappingProxyType(
    {
        **{name.removeprefix("$"): name for name in FIELD_OPERATORS},
        **dict.fromkeys(("equal", "equals", "is", "match", "term"), "$eq"),
        **dict.fromkeys(("neq", "not_eq", "not_equal", "not_equals", "is_not"), "$ne"),
        **{"greater_than": "$gt", "ge": "$gte", "less_than": "$lt", "le": "$lte", "exist": "$exists"},
        **dict.fromkeys(("any", "any_of", "one_of", "terms"), "$in"),
        **dict.fromkeys(("not_in", "notin", "not in", "none_of", "except"), "$nin"),
        **dict.fromkeys(("contain", "include", "includes", "has", "array_contains"), "$contains"),
        **dict.fromkeys(("not_contain", "excludes"), "$not_contains"),
    }
)
_PART_OF_TEXT = frozenset(
    {"like", "ilike", "regex", "regexp", "startswith", "starts_with", "prefix", "endswith", "ends_with", "text", "glob"}
)
_COMBINATIONS: Mapping[str, str] = MappingProxyType(
    {"must": "$and", "filter": "$and", "should": "$or", "must_not": "$nor", "and": "$and", "or": "$or", "nor": "$nor"}
)


def unknown_operator(key: str, operator: Any, operand: Any) -> FilterError:
    """Return the error for a name that is not an operator.

    For the name of an operator in another language, such as MongoDB's or SQL's, the message contains the filter to
    write. It suggests nothing for other names.
    """
    advice = _advice(key, str(operator).removeprefix("$").casefold(), operand)
    if not str(operator).startswith("$"):
        inner, whole = {f"{key}.{operator}": operand}, {key: {"$eq": {operator: operand}}}
        advice += "; or " if advice else ". Write "
        advice += f"{as_json(inner)} to look inside an object, {as_json(whole)} to compare a complete object"
    return FilterError(f"{operator!r} on {key!r} is not an operator; a field takes {' '.join(FIELD_OPERATORS)}{advice}")


def _advice(key: str, name: str, operand: Any) -> str:
    """Return the end of a message about the name of an operator, or "" if the name is unknown."""
    parts = operand if isinstance(operand, list | tuple) else [operand]
    note, correction = "", dict[str, Any]()
    match name:
        case _ if name in _SPELLINGS:
            operator = _SPELLINGS[name]
            if operator == "$eq" and isinstance(operand, Mapping) and len(operand) == 1:  # Qdrant's {"value": x}
                ((inner, operand),) = operand.items()
                operator = "$in" if inner == "any" else "$eq"
            correction = {key: {operator: operand}}
        case _ if name in _PART_OF_TEXT:
            note = ". There are no patterns; $contains finds a part of a text, and upper case differs from lower case"
            correction = {key: {"$contains": operand.strip("%*^$") if isinstance(operand, str) else operand}}
        case "all":
            correction = {"$and": [{key: {"$contains": part}} for part in parts]}
        case "elemmatch":
            note = ". $contains finds one element of a list"
            element = operand.get("$eq", "element") if isinstance(operand, Mapping) else operand
            correction = {key: {"$contains": element}}
        case "size":
            note = f". The length of a list cannot be compared; an empty list is {as_json({key: {'$eq': []}})}"
        case "between" | "range" if len(parts) == 2:
            correction = {key: {"$gte": parts[0], "$lte": parts[1]}}
        case "range" if isinstance(operand, Mapping):
            correction = {key: {_SPELLINGS.get(str(name), name): limit for name, limit in operand.items()}}
        case "null" | "isnull" | "is_null" | "is_empty":
            correction = {key: {"$exists": operand is False}}
        case "and" | "or" | "nor":
            correction = {f"${name}": [{key: part} for part in parts]}
    return f"{note}. Write {as_json(correction)}" if correction else note


def foreign_combination(key: str, value: Any) -> FilterError | None:
    """Return the error for filters under a name from another language, such as Qdrant's ``must``.

    Return None if the key is not such a name, or the value does not consist of filters.
    """
    operator = _COMBINATIONS.get(key.casefold())
    parts = [value] if isinstance(value, Mapping) and "key" in value else value
    if operator is None or not isinstance(parts, list | tuple) or not any(isinstance(part, Mapping) for part in parts):
        return None
    return FilterError(
        f"{key!r} does not combine filters; {' '.join(JOINING_OPERATORS)} do. "
        f"Write {as_json({operator: list(map(_without_key_field, parts))})}"
    )


def _without_key_field(condition: Any) -> Any:
    """Convert a condition of Qdrant, such as ``{"key": "year", "match": {"value": 2020}}``."""
    if not isinstance(condition, Mapping) or "key" not in condition:
        return condition
    key, match, limits = condition["key"], condition.get("match"), condition.get("range")
    if isinstance(match, Mapping) and "value" in match:
        return {key: match["value"]}
    if isinstance(match, Mapping) and "any" in match:
        return {key: {"$in": match["any"]}}
    return {key: {_SPELLINGS.get(name, name): x for name, x in limits.items()} if isinstance(limits, Mapping) else "…"}


def misplaced_operator(operator: str, value: Any) -> FilterError:
    """Return the error for an operator used where a key is expected."""
    joining = " ".join(JOINING_OPERATORS)
    if operator in FIELD_OPERATORS:
        return FilterError(
            f"{operator} needs a field; only {joining} can be used without one. "
            f"Write {as_json({'field': {operator: value}})}"
        )
    if operator in ("$text", "$search"):
        return FilterError(
            f"{operator} is not an operator, because a filter compares only metadata; pass the words to search for as "
            "the query"
        )
    return FilterError(
        f"{quote_value(operator)} is not an operator; filters are combined with {joining}, and a field takes "
        f"{' '.join(FIELD_OPERATORS)}; a key that begins with a dollar sign is written {as_json(chr(92) + operator)}"
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
