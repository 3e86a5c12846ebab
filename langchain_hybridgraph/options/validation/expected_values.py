"""Descriptions of the values that an option takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from langchain_hybridgraph.number_ranges import number_in_range

_BOUNDS = {Ge: "ge", Gt: "gt", Le: "le", Lt: "lt"}
_PLURALS = {str: "strings", float: "numbers", int: "integers"}


def expected_value(field: FieldInfo) -> str:
    """Return a phrase that describes the values that a field accepts, to complete "must be …".

    >>> from langchain_hybridgraph.options.selection import SelectionOptions
    >>> expected_value(SelectionOptions.model_fields["overfetch"])
    'an integer ≥ 1'
    >>> expected_value(SelectionOptions.model_fields["mmr_lambda"])
    'a number from 0 to 1, or None'
    """
    return _described(field.annotation, bounds_of(field.metadata))


def bounds_of(metadata: Iterable[object]) -> dict[str, float]:
    """Return the bounds in a field's metadata, with pydantic's names (ge, gt, le, lt) as keys."""
    names = {_BOUNDS[type(bound)]: bound for bound in metadata if type(bound) in _BOUNDS}
    return {name: getattr(bound, name) for name, bound in names.items()}


def one_of(values: Iterable[object]) -> str:
    """Return a string that lists the values as alternatives.

    >>> one_of(["'auto'", "'never'", "a number"])
    "'auto', 'never' or a number"
    """
    *others, last = map(str, values)
    return f"{', '.join(others)} or {last}" if others else last


def literals(annotation: object) -> list[str]:
    """Return the strings in the Literal members of a type."""
    values = [value for member in _members(annotation) if get_origin(member) is Literal for value in get_args(member)]
    return [value for value in values if isinstance(value, str)]


def is_number(annotation: object) -> bool:
    """Return whether a type allows only numbers, with or without None."""
    return {*_members(annotation)} - {NoneType} in ({int}, {float})


def is_plain(annotation: object) -> bool:
    """Return whether a type allows only strings, numbers or bools, with or without None."""
    return {*_members(annotation)} - {NoneType} <= {int, float, str, bool}


def _members(annotation: object) -> tuple[Any, ...]:
    if get_origin(annotation) is Annotated:
        return _members(get_args(annotation)[0])
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


def _described(annotation: Any, bounds: Mapping[str, float]) -> str:
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        return _described(inner, {**bounds, **bounds_of(metadata)})
    if get_origin(annotation) in (Union, UnionType):
        members = [_described(member, bounds) for member in get_args(annotation) if member is not NoneType]
        return one_of(members) + (", or None" if NoneType in get_args(annotation) else "")
    if get_origin(annotation) is Literal:
        return one_of(map(repr, get_args(annotation)))
    if annotation in (int, float):
        return number_in_range("an integer" if annotation is int else "a number", bounds)
    return _described_type(annotation)


def _described_type(annotation: Any) -> str:
    kind = get_origin(annotation) or annotation
    if kind in (bool, str):
        return "True or False" if kind is bool else "a string"
    if kind is Callable:
        return "a function"
    if not isinstance(kind, type):
        return "another value"
    if issubclass(kind, Mapping):
        return "a mapping"
    if issubclass(kind, Sequence | Set):
        return f"a list of {next((_PLURALS[each] for each in get_args(annotation) if each in _PLURALS), 'values')}"
    article = "an" if kind.__name__[0] in "AEIOU" else "a"
    parts = "options" if issubclass(kind, BaseModel) else "parameters" if is_dataclass(kind) else ""
    return f"{article} {kind.__name__}" + (f" or a mapping of its {parts}" if parts else "")
