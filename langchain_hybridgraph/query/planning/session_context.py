"""Summary and last messages of a session, for planners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_hybridgraph.query.conversation.history import turns

# Maximum number of last messages, and maximum number of characters of the summary.
LAST_MESSAGES, LONGEST_SUMMARY = 5, 30_000
_LINE = 2_000


def last_turns(messages: Sequence[Any], most: int = LAST_MESSAGES) -> list[tuple[str, str]]:
    """Return the speaker and the text of each of the last ``most`` messages that contain text, oldest first.

    Accepts what :func:`~langchain_hybridgraph.query.conversation.history.turns` accepts; raises ConfigurationError
    for anything else.

    >>> last_turns(["Hello", ("human", "And its price?"), {"role": "assistant", "content": [{"text": "200"}]}], 2)
    [('user', 'And its price?'), ('assistant', '200')]
    """
    return [(turn.speaker, turn.text) for turn in turns(messages)[-most:]]


def context_of(summary: str | None, messages: Sequence[Any], most: int = LAST_MESSAGES) -> str:
    """Return one line for a session's summary and for each of its last messages, or "" if there are none.

    The summary and each message are cut after 2,000 characters.

    >>> print(context_of("They look for a car.", [("user", "Is there a red one?"), ("ai", "A roadster.")]))
    Summary: They look for a car.
    User: Is there a red one?
    Assistant: A roadster.
    """
    lines = [f"Summary: {summary.strip()}"] if summary and summary.strip() else []
    lines += [turn.line for turn in turns(messages)[-most:]]
    return "\n".join(line if len(line) <= _LINE else f"{line[: _LINE - 1]}…" for line in lines)
