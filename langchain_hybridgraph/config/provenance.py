"""Origin of a setting's value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from langchain_hybridgraph.errors import ConfigurationError

_ORDER = ("call", "environment", "file", "default")


class Origin(NamedTuple):
    """Origin of a value. ``name`` is the variable or the file, and ``line`` is the line in the file, counted from 1.

    >>> Origin("file", "hybridgraph.yaml", 3).written_key("retriever_k")
    'hybridgraph.yaml:3: retriever_k'
    >>> Origin("environment", "HYBRIDGRAPH_RETRIEVER_K").written_key("retriever_k")
    'HYBRIDGRAPH_RETRIEVER_K'
    """

    kind: Literal["call", "environment", "file", "default"]
    name: str = ""
    line: int | None = None

    def written_key(self, key: str) -> str:
        """Return the key as it appears in messages.

        In the environment, this is the name of the variable. In a file, the key is preceded by the file and the line.
        """
        if self.kind == "file":
            return f"{self}: {key}"
        return self.name if self.kind == "environment" else key

    def __str__(self) -> str:
        line = "" if self.line is None else f":{self.line}"
        return f"{self.name}{line}" if self.name else self.kind


class Problem(NamedTuple):
    """Error in one setting. ``message`` is a complete line that includes the origin."""

    key: str
    origin: Origin
    message: str
    value: Any = None
    allowed_values: str | None = None


class UnusableSettingsError(ConfigurationError):
    """Some settings cannot be used. ``problems`` lists the errors, and the message has one line for each of them.

    Problems are sorted by origin (call, environment, file), and problems in a file by line.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=_sort_key))
        super().__init__("\n".join(problem.message for problem in self.problems))


def _sort_key(problem: Problem) -> tuple[int, int]:
    return _ORDER.index(problem.origin.kind), problem.origin.line or 0
