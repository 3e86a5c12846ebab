"""Protocol for expanders, and the type of their results."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.records.serialization import Serializable


class ConversationTurn(Protocol):
    """Turn of a conversation, for example a ``query.conversation.history.Turn``."""

    @property
    def speaker(self) -> str:
        """Role of the speaker: ``"user"``, ``"assistant"``, another role, or "" if it is unknown."""
        ...

    @property
    def text(self) -> str:
        """Text of the turn."""
        ...

    @property
    def line(self) -> str:
        """Text of the turn, preceded by its speaker if known."""
        ...


@dataclass(frozen=True, slots=True)
class ExpandedQuery(Serializable):
    """Result of an expander: the completed question, and how to use it in a search.

    ``text`` is the complete question. ``context`` is the part of the conversation that the question depends on.
    ``weight``, a number in [0, 1], is the influence of the conversation on the search. There are three ways to search:

    - If ``sure`` is True and there is no context, ``text`` replaces the question.
    - If there is a context and the retriever can search by a vector, the vectors of the question and of the context are
      mixed, with the weights 1 − ``weight`` and ``weight``.
    - Otherwise, ``text`` is searched for in addition to the question, and has the weight ``weight`` in the fusion of
      the two results.

    If ``sure`` is False, the topic may have changed. The search may then use a smaller weight, or return the result for
    the question alone.
    """

    text: str
    context: str = ""
    weight: float = 0.5
    sure: bool = True


class Expander(Protocol):
    """Function that completes a question using the turns before it."""

    def __call__(self, query: str, history: Sequence[ConversationTurn], /) -> ExpandedQuery | str:
        """Return the completed question, or the original question if there is nothing to add."""
        ...


@runtime_checkable
class AsyncExpander(Protocol):
    """Expander that can also be called asynchronously."""

    def acall(self, query: str, history: Sequence[ConversationTurn], /) -> Awaitable[ExpandedQuery | str]:
        """Return the same result as calling the expander, without blocking the event loop."""
        ...


def at_least_one(owner: str, **settings: int) -> None:
    """Raise ConfigurationError if a setting is below 1; ``owner`` is the class named in the error."""
    for name, value in settings.items():
        if value < 1:
            raise ConfigurationError(f"{name} of {owner} must be an integer ≥ 1, got {value!r}")
