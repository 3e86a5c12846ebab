"""Where a setting's value comes from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from langchain_hybridgraph.errors import ConfigurationError

_ORDER = ("call", "environment", "file", "default")


class Origin(NamedTuple):
    """What gave a value: ``name`` is the variable or the file, ``line`` that of the file, from 1.

    >>> Origin("file", "hybridgraph.yaml", 3).said("retriever_k")
    'hybridgraph.yaml:3: retriever_k'
    >>> Origin("environment", "HYBRIDGRAPH_RETRIEVER_K").said("retriever_k")
    'HYBRIDGRAPH_RETRIEVER_K'
    """

    kind: Literal["call", "environment", "file", "default"]
    name: str = ""
    line: int | None = None

    def said(self, key: str) -> str:
        """The key, as it is found where its value comes from."""
        if self.kind == "file":
            return f"{self}: {key}"
        return self.name if self.kind == "environment" else key

    def __str__(self) -> str:
        line = "" if self.line is None else f":{self.line}"
        return f"{self.name}{line}" if self.name else self.kind


class Problem(NamedTuple):
    """What is wrong with one setting; ``message`` is a whole line that names its origin."""

    key: str
    origin: Origin
    message: str
    value: Any = None
    allowed: str | None = None


class UnusableSettingsError(ConfigurationError):
    """Settings that cannot be used; ``problems`` has each, the message a line for each.

    They stand in the order of what overrules what, those of a file in the order of its lines.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=_place))
        super().__init__("\n".join(problem.message for problem in self.problems))


def _place(problem: Problem) -> tuple[int, int]:
    return _ORDER.index(problem.origin.kind), problem.origin.line or 0
