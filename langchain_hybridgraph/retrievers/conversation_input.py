"""Parsing of a question and its conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple, cast

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from pydantic import ConfigDict, Field, InstanceOf
from pydantic.json_schema import SkipJsonSchema

# Pydantic reads no TypedDict of typing before Python 3.12.
from typing_extensions import TypedDict

from langchain_hybridgraph.adapters.documents import Annotate
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.query.conversation.history import ASSISTANT, turns

_QUESTIONS = ("input", "query", "question", "messages")
_HISTORIES = ("chat_history", "history")
_SESSIONS = ("session_id", "thread_id")


Message = SkipJsonSchema[InstanceOf[BaseMessage]]
Turn = Annotated[
    str | tuple[str, str] | dict[str, Any] | Message,
    Field(description='A text such as "User: red cars", a pair of role and text, or {"role": …, "content": …}.'),
]
Question = Annotated[
    str | list[Turn] | Message,
    Field(description="The question as a text, or messages whose last one of the user is the question."),
]
History = Annotated[list[Turn] | None, Field(description="What was said before, oldest first.")]


class ConversationInput(TypedDict, total=False):
    """A question and what was said before it."""

    __pydantic_config__ = ConfigDict(  # type: ignore[misc]  # read by pydantic, not a key
        json_schema_extra={
            "anyOf": [{"required": [name]} for name in _QUESTIONS],
            "examples": [
                {"input": "and its price?", "chat_history": ["User: Which car is red?", "Assistant: The roadster."]}
            ],
        }
    )

    input: Question
    query: Question
    question: Question
    messages: Question
    chat_history: History
    history: History


Input = str | ConversationInput | list[Turn] | Message


class ConversationCall(NamedTuple):
    """One call.

    ``level`` is how much the Documents say of how they were found, ``early`` receives those that are certain before the
    answer is complete, and ``deadline`` is a ``time.monotonic()`` moment for all of it.
    """

    query: str | None
    history: Any
    k: int | None
    session_id: str | None
    options: Mapping[str, Any]
    callbacks: Any = None
    level: Annotate = "all"
    early: Any = None
    deadline: float | None = None


def read(given: Any, config: RunnableConfig | None) -> tuple[str, dict[str, Any]]:
    """The question of a Runnable's input, and what input and configuration say beside it, as options of a call.

    The input is a text, a message, messages, or a mapping that has one of these under ``input``, ``query``,
    ``question`` or ``messages``. Of messages the last that is not the assistant's is the question, and those before it
    are its history, unless ``chat_history`` or ``history`` has one. The session is ``session_id``, else ``thread_id``,
    of the configuration's ``configurable``. Raises ConfigurationError for an input without a question.

    >>> read({"input": "and its price?", "chat_history": ["User: red cars"]}, {"configurable": {"thread_id": "7"}})
    ('and its price?', {'session_id': '7', 'conversation_history': ['User: red cars']})
    >>> read([("user", "red cars"), ("ai", "A roadster."), ("user", "its price?"), ("ai", "Let me see.")], None)
    ('its price?', {'conversation_history': [('user', 'red cars'), ('ai', 'A roadster.')]})
    """
    told = session_in(config)
    if isinstance(given, Mapping):
        question, history = _first(given, _QUESTIONS), _first(given, _HISTORIES)
        if question is None:
            raise ConfigurationError(
                f"the input has the keys {', '.join(map(repr, given))}; wanted is a text, or "
                '{"input": "and its price?", "chat_history": [...]}'
            )
    else:
        question, history = given, None
    text, before = _question(question)
    history = before if history is None else history
    return text, told if history is None else {**told, "conversation_history": history}


def session_in(config: RunnableConfig | None) -> dict[str, Any]:
    """The session that a configuration names, as an option: its ``session_id``, else its ``thread_id``; else {}."""
    found = _first(ensure_config(config).get("configurable", {}), _SESSIONS)
    return {} if found is None else {"session_id": str(found)}


def _first(given: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((given[key] for key in keys if given.get(key) is not None), None)


def _question(given: Any) -> tuple[str, Sequence[Any] | None]:
    """The text of the question, and the messages before it; None where there are none."""
    if given is None or isinstance(given, str):
        return cast("str", given), None
    if isinstance(given, BaseMessage):
        # By itself a message is the question, whoever wrote it: a model may have rewritten it.
        if said := turns([given]):
            return said[-1].text, None
    elif isinstance(given, (list, tuple)):
        for place in reversed(range(len(given))):
            if asked := [turn for turn in turns(given[place : place + 1]) if turn.speaker != ASSISTANT]:
                return asked[-1].text, given[:place] or None
    raise ConfigurationError(f"the input is {given!r:.200}; wanted is a text, or messages with one of the user's")
