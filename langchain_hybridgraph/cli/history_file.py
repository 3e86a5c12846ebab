"""What was said before a question, from a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.records import replace_surrogates


class Conversation(NamedTuple):
    """Messages, oldest first, in any form that a history may have; and what came before them in short."""

    messages: Sequence[Any]
    summary: str = ""

    def session(self) -> dict[str, Any] | None:
        """As a search down a tree takes it; None when nothing was said."""
        return self._asdict() if self.messages or self.summary else None


def conversation(file: Path | None) -> Conversation:
    """The conversation in a file, ``-`` for standard input; an empty one for None.

    The file is a JSON list, ``{"messages": […]}`` (``summary`` beside it if there is one), a JSON value a line, or a
    text a line. Raises ConfigurationError for anything else and for a file that cannot be read.
    """
    if file is None:
        return Conversation(())
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"--history {file} cannot be read ({error}); wanted is a text file") from error
    lines = [line for line in replace_surrogates(text).splitlines() if line.strip()]
    if not text.lstrip().startswith(("[", "{")):
        return Conversation(lines)
    try:
        return _of_json(_parsed(text, lines))
    except ValueError as error:
        raise ConfigurationError(f"--history {file} begins like JSON and is no history ({error})") from error


def _parsed(text: str, lines: Sequence[str]) -> Any:
    """One JSON value, or one a line."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        if len(lines) < 2 or text.lstrip().startswith("["):
            raise
    return [json.loads(line) for line in lines]


def _of_json(found: Any) -> Conversation:
    if isinstance(found, dict) and "messages" in found:
        if not isinstance(found["messages"], list):
            raise ValueError(f"messages is a {type(found['messages']).__name__}, wanted is a list")
        return Conversation(found["messages"], str(found.get("summary") or ""))
    return Conversation(found if isinstance(found, list) else [found])
