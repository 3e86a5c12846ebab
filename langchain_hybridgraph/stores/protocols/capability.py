"""Check whether an object implements a protocol."""

from __future__ import annotations

from typing import TypeVar

from typing_extensions import TypeIs

Capability = TypeVar("Capability")

_answers: dict[tuple[type, type], bool] = {}


def implements(thing: object, capability: type[Capability]) -> TypeIs[Capability]:
    """Return whether an object implements a runtime-checkable protocol; the result is cached per class.

    The cache matters because ``isinstance`` with a protocol takes ten microseconds, and a query makes a dozen such
    checks.
    """
    key = (type(thing), capability)
    answer = _answers.get(key)
    if answer is None:
        answer = _answers[key] = isinstance(thing, capability)
    return answer
