"""Names of the speakers of a conversation."""

from __future__ import annotations

import re
from collections.abc import Mapping

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
