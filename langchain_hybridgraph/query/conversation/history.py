"""Conversion of conversation histories to turns.

A history can be a list of strings, pairs, mappings or messages. It is converted to a list of turns, oldest first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_hybridgraph.errors import ConfigurationError

USER, ASSISTANT = "user", "assistant"
SPEAKERS: Mapping[str, str] = {
    "user": USER, "human": USER, "customer": USER, "question": USER,
    "assistant": ASSISTANT, "ai": ASSISTANT, "agent": ASSISTANT, "bot": ASSISTANT, "model": ASSISTANT,
    "chatbot": ASSISTANT, "answer": ASSISTANT,
}  # fmt: skip
"""Speakers by the names used for them in roles and at the beginning of lines."""

# Roles that are neither questions nor answers; instructions and raw results do not show the topic of a conversation.
SKIPPED_ROLES = frozenset({"system", "developer", "tool", "function", "remove"})

LABEL = re.compile(rf"\s*({'|'.join([*SPEAKERS, *SKIPPED_ROLES])})\s*[:：]\s*", re.IGNORECASE)
"""Pattern for the speaker's name at the beginning of a line, such as ``User:``."""


# A message that calls tools may have no text, and is then left out.
_CONTENTS = ("content", "text", "tool_calls", "function_call")
# Numbers of the first and last turns of a longer history that are read; follow-up questions seldom refer to turns
# between them.
_FIRST, _LAST = 5, 45
_EXPECTED = (
    'expected a list of strings, (role, text) pairs, {"role": …, "content": …} or LangChain messages, oldest first, '
    'such as ["User: Which car is red?", "Assistant: The roadster."]'
)


class Turn(NamedTuple):
    """Message of a conversation.

    ``speaker`` is ``"user"``, ``"assistant"``, another role exactly as it was passed, or "" if there was none. ``line``
    is the text preceded by its speaker, or the original string if the turn was passed as one string.
    """

    speaker: str
    text: str
    line: str


def turns(history: Any, query: str = "") -> list[Turn]:
    """Return the turns of a history, oldest first. The result is empty for None and for a history without text.

    The history is a list of items, a chat history object, or a mapping with ``messages``. An item is one of these:

    - a string, which may begin with its speaker, such as ``"User: …"``
    - a (role, text) pair
    - a pair of a question and its answer
    - a mapping with ``role`` and ``content`` (or ``text``)
    - a LangChain message

    If a message has several parts, only its texts are read. Messages without text, such as images and tool calls, are
    left out, and so are system and tool messages. The last turn is left out if it equals ``query`` and is by the user
    or an unknown speaker. If there are more than 50 items, only the first 5 and the last 45 are read.

    Raises ConfigurationError for a history or an item in any other form.

    >>> for turn in turns(["User: red car", ("ai", "A roadster"), {"role": "user", "content": "how fast"}]):
    ...     print(turn)
    Turn(speaker='user', text='red car', line='User: red car')
    Turn(speaker='assistant', text='A roadster', line='Assistant: A roadster')
    Turn(speaker='user', text='how fast', line='User: how fast')
    """
    result = list(_turns(_items(history)))
    if result and result[-1].speaker in (USER, "") and result[-1].text == query.strip():
        result.pop()
    return result


def _items(history: Any) -> Iterator[tuple[int, Any]]:
    """Yield the items to read, each with its position."""
    if history is None:
        return
    if isinstance(history, Mapping) and "messages" in history:
        history = history["messages"]
    elif not isinstance(history, (str, Sequence)) and hasattr(history, "messages"):
        history = history.messages
    if isinstance(history, (str, bytes, Mapping)) or not isinstance(history, Sequence):
        raise ConfigurationError(f"the history is {_quoted(history)}; {_EXPECTED}")
    first = min(_FIRST, len(history))
    last = max(first, len(history) - _LAST)
    for place in (*range(first), *range(last, len(history))):
        yield place, history[place]


def _turns(items: Iterator[tuple[int, Any]]) -> Iterator[Turn]:
    for place, item in items:
        if _is_question_and_answer(item):
            yield from _turns(enumerate([(USER, item[0]), (ASSISTANT, item[1])]))
            continue
        role, content, line = _parts(item, place)
        text = " ".join(_texts(content)).strip()
        if text and role.lower() not in SKIPPED_ROLES:
            speaker = SPEAKERS.get(role.lower(), role)
            yield Turn(speaker, text, line or (f"{speaker.capitalize()}: {text}" if speaker else text))


def _is_question_and_answer(item: Any) -> bool:
    """Return whether an item is a pair of a question and its answer.

    Unlike a question, a role contains no space or question mark.
    """
    is_pair = isinstance(item, (tuple, list)) and len(item) == 2 and all(isinstance(part, str) for part in item)
    return is_pair and any(sign in item[0].strip() for sign in (" ", "?", "？"))


def _parts(item: Any, place: int) -> tuple[str, Any, str]:
    """Return the role and the content of an item, and the item itself if it is a string (otherwise "")."""
    if isinstance(item, str):
        label = LABEL.match(item)
        return (label[1], item[label.end() :], item.strip()) if label else ("", item, item.strip())
    if isinstance(item, (tuple, list)) and len(item) == 2 and isinstance(item[0], str):
        return item[0], item[1], ""
    if isinstance(item, Mapping) and not item.keys().isdisjoint(_CONTENTS):
        content = next((item[key] for key in _CONTENTS[:2] if item.get(key) is not None), None)
        return str(item.get("role") or item.get("type") or ""), content, ""
    if hasattr(item, "content") and isinstance(kind := getattr(item, "type", None), str):
        return (
            (str(getattr(item, "role", "")) if kind == "chat" else kind).removesuffix("MessageChunk"),
            item.content,
            "",
        )
    raise ConfigurationError(f"item {place} of the history is {_quoted(item)}; {_EXPECTED}")


def _texts(content: Any) -> Iterator[str]:
    """Yield the texts of a message's content, which may have several parts."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, Mapping):
        yield from _texts(content.get("text"))
    elif isinstance(content, (list, tuple)):
        for part in content:
            yield from _texts(part)


def _quoted(thing: Any) -> str:
    text = repr(thing)
    return text if len(text) <= 80 else f"{text[:77]}…"
