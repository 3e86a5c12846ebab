"""Protocol of expanders, and their result."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.serialization import Serializable


class ConversationTurn(Protocol):
    """A turn of a conversation (``query.conversation.history.Turn``)."""

    @property
    def speaker(self) -> str:
        """``"user"``, ``"assistant"``, another role, or "" if unknown."""
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
    """A question as it is used for searching.

    ``text`` is the complete question. ``context`` is the part of the conversation that the question depends on; if
    vectors can be mixed, the vector of the question is moved towards that of the context. ``weight`` in [0, 1] is the
    share of the expansion when it is fused with the question: the share of the context in the vector, or of the second
    search. If the text is ``sure`` and has no context, it replaces the question. An expansion that is not ``sure`` may
    miss a change of topic; if the hits of question and context can be compared, they decide.
    """

    text: str
    context: str = ""
    weight: float = 0.5
    sure: bool = True


class Expander(Protocol):
    """Function that completes a question from the turns before it."""

    def __call__(self, query: str, history: Sequence[ConversationTurn], /) -> ExpandedQuery | str:
        """Return the question to search for; its own text if there is nothing to add."""
        ...


@runtime_checkable
class AsyncExpander(Protocol):
    """Expander that can be awaited."""

    def acall(self, query: str, history: Sequence[ConversationTurn], /) -> Awaitable[ExpandedQuery | str]:
        """Do what calling the expander does, without blocking the event loop."""
        ...


def at_least_one(owner: str, **settings: int) -> None:
    """Raise ConfigurationError for a setting below 1."""
    for name, value in settings.items():
        if value < 1:
            raise ConfigurationError(f"{name} of {owner} must be a whole number from 1, got {value!r}")
