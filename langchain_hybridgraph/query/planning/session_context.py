"""Summary and last messages of a session, for planners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_hybridgraph.query.conversation.history import turns

# Maximum number of last messages, and maximum number of characters of the summary.
LAST_MESSAGES, LONGEST_SUMMARY = 5, 30_000
_LINE = 2_000


def last_turns(messages: Sequence[Any], most: int = LAST_MESSAGES) -> list[tuple[str, str]]:
    """Return the last messages that contain text, as pairs of speaker and text, oldest first.

    At most ``most`` messages are returned. ``messages`` may have any form that
    :func:`~langchain_hybridgraph.query.conversation.history.turns` accepts. Raises ConfigurationError for any other
    form.

    >>> last_turns(["Hello", ("human", "And its price?"), {"role": "assistant", "content": [{"text": "200"}]}], 2)
    [('user', 'And its price?'), ('assistant', '200')]
    """
    return [(turn.speaker, turn.text) for turn in turns(messages)[-most:]]


def context_of(summary: str | None, messages: Sequence[Any], most: int = LAST_MESSAGES) -> str:
    """Return a text with a line for the session's summary, and a line for each of its last messages.

    Each line is cut after 2,000 characters. The text is "" if there is neither a summary nor a message.

    >>> print(context_of("They look for a car.", [("user", "Is there a red one?"), ("ai", "A roadster.")]))
    Summary: They look for a car.
    User: Is there a red one?
    Assistant: A roadster.
    """
    lines = [f"Summary: {summary.strip()}"] if summary and summary.strip() else []
    lines += [turn.line for turn in turns(messages)[-most:]]
    return "\n".join(line if len(line) <= _LINE else f"{line[: _LINE - 1]}…" for line in lines)
