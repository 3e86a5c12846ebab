"""Conversion of records to JSON-ready dicts and back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set
from dataclasses import fields, is_dataclass
from datetime import date, time, timedelta
from enum import Enum
from functools import cache, singledispatch
from typing import Any, Self


class Serializable:
    """Base class of frozen dataclasses that can be converted to JSON and back.

    >>> from langchain_hybridgraph.records import Edge
    >>> edge = Edge("a", "b", "cites", 0.5)
    >>> Edge.from_dict(edge.to_dict()) == edge
    True
    """

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values (see :func:`to_json`)."""
        data: dict[str, Any] = to_json(self)
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild a record from the output of :meth:`to_dict`; unknown keys are ignored.

        Raises ValueError for a missing key and for a value of the wrong type.
        """
        from pydantic import ValidationError

        try:
            record: Self = _type_adapter(cls).validate_python(data)  # type: ignore[arg-type]  # a class is hashable
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "the top"
            raise ValueError(
                f"this is not a {cls.__name__}: {first['msg']} at {place}; pass the output of {cls.__name__}.to_dict()"
            ) from error
        return record


@singledispatch
def to_json(value: Any) -> Any:
    """Return a value converted to JSON types: dicts, lists, strings, numbers, booleans and None.

    Records and Pydantic models become dicts, NumPy values become Python numbers and lists, and enums become their
    values. Times become ISO 8601 strings, and timedeltas become seconds. Sets become sorted lists, and other iterables
    become lists. NaN and infinity become None. Any other value becomes its ``str``.

    >>> import numpy as np
    >>> to_json({"at": date(2024, 5, 1), "score": np.float32(0.5), "tags": {"b", "a"}, "gap": math.nan})
    {'at': '2024-05-01', 'score': 0.5, 'tags': ['a', 'b'], 'gap': None}
    """
    if (values := _fields_of(value)) is not None:
        return to_json(values)
    if hasattr(value, "tolist"):  # a NumPy value
        return to_json(value.tolist())
    if isinstance(value, Iterable):
        return [to_json(each) for each in value]
    return str(value)


@to_json.register
def _(value: bool | None) -> bool | None:
    return value


@to_json.register
def _(value: str | bytes | bytearray) -> str:
    return str(value)


@to_json.register
def _(value: int) -> int:
    return int(value)


@to_json.register
def _(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


@to_json.register
def _(value: Enum) -> Any:
    return to_json(value.value)


@to_json.register
def _(value: date | time) -> str:  # a datetime is a date
    return value.isoformat()


@to_json.register
def _(value: timedelta) -> float:
    return value.total_seconds()


@to_json.register(Mapping)
def _(value: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(to_json(key)): to_json(each) for key, each in value.items()}


@to_json.register(Set)
def _(value: Set[Any]) -> list[Any]:
    return sorted(map(to_json, value), key=str)


def _fields_of(value: Any) -> Mapping[str, Any] | None:
    """Return the fields of a dataclass, NamedTuple or Pydantic model; None for any other value."""
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    for name in ("_asdict", "model_dump"):
        if callable(read := getattr(value, name, None)):
            values: Mapping[str, Any] = read()
            return values
    return None


@cache
def _type_adapter(kind: type) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
