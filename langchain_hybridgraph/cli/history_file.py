"""Conversation history read from a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from langchain_hybridgraph.chunks import replace_surrogates
from langchain_hybridgraph.errors import ConfigurationError, quote_value


class Conversation(NamedTuple):
    """A conversation: its messages in any supported form, oldest first, and a summary of even earlier messages."""

    messages: Sequence[Any]
    summary: str = ""

    def session(self) -> dict[str, Any] | None:
        """Return the conversation as the ``session`` argument of a tree search, or None if it is empty."""
        return self._asdict() if self.messages or self.summary else None


def conversation(file: Path | None) -> Conversation:
    """Read the conversation in a file (``-`` for standard input). Without a file, the conversation is empty.

    The file contains plain text with one message per line, or JSON. JSON can be a list of messages, an object such as
    ``{"messages": […], "summary": "…"}`` (the summary is optional), or one message per line. Raises ConfigurationError
    if the file cannot be read, or if it begins like JSON but has none of these forms.
    """
    if file is None:
        return Conversation(())
    try:
        if str(file) != "-":
            text = file.read_text(encoding="utf-8-sig")
        elif sys.stdin is None:
            raise OSError("standard input is closed")
        else:
            text = sys.stdin.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"--history {file} cannot be read ({error}); pass a text file") from error
    lines = [line for line in replace_surrogates(text).splitlines() if line.strip()]
    if not text.lstrip().startswith(("[", "{")):
        return Conversation(lines)
    try:
        return _of_json(_parse_json(text, lines))
    except ValueError as error:
        raise ConfigurationError(f"--history {file} begins like JSON but is not a history ({error})") from error


def _parse_json(text: str, lines: Sequence[str]) -> Any:
    """Parse the text as one JSON value or, if that fails, as one JSON value per line.

    A text that begins with ``[`` is parsed only as one value.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        if len(lines) < 2 or text.lstrip().startswith("["):
            raise
    return [json.loads(line) for line in lines]


def _of_json(value: Any) -> Conversation:
    if isinstance(value, dict) and "messages" in value:
        if not isinstance(value["messages"], list):
            raise ValueError(f"messages must be a list, got {quote_value(value['messages'])}")
        return Conversation(value["messages"], str(value.get("summary") or ""))
    return Conversation(value if isinstance(value, list) else [value])
