"""The interface of expanders, and their result."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.serialization import Serializable


class Said(Protocol):
    """A turn of a conversation (``query.conversation.history.Turn``)."""

    @property
    def speaker(self) -> str:
        """``"user"``, ``"assistant"``, another role, or "" where it is not known."""
        ...

    @property
    def text(self) -> str:
        """Text of the turn."""
        ...

    @property
    def line(self) -> str:
        """Text of the turn with its speaker."""
        ...


@dataclass(frozen=True, slots=True)
class ExpandedQuery(Serializable):
    """A question as it is searched for.

    ``text`` is the whole question in words. ``context`` is what it leans on, apart from it: where vectors can be mixed,
    the question's is moved towards that of the context. ``weight`` in [0, 1] is the share of what was added, when
    question and expansion are fused: of the context in the vector, or of the second search. A ``sure``
    text without context stands for the question, which is not searched for any more. Not ``sure`` is an expansion that
    may miss a change of topic: where the hits of question and context can be compared, they decide.
    """

    text: str
    context: str = ""
    weight: float = 0.5
    sure: bool = True


class Expander(Protocol):
    """Says what a question means after what was said before; any function of this shape is one."""

    def __call__(self, query: str, history: Sequence[Said], /) -> ExpandedQuery | str:
        """The question as it is to be searched for; its own text when there is nothing to add."""
        ...


@runtime_checkable
class AsyncExpander(Protocol):
    """An expander that waits for something."""

    def acall(self, query: str, history: Sequence[Said], /) -> Awaitable[ExpandedQuery | str]:
        """Do what calling the expander does, without blocking the event loop."""
        ...


def at_least_one(whose: str, **settings: int) -> None:
    """Raises ConfigurationError for a setting below 1."""
    for name, value in settings.items():
        if value < 1:
            raise ConfigurationError(f"{name} of {whose} must be a whole number from 1, got {value!r}")
