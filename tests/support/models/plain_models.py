"""Chat models without structured output, or with structured output that does not work."""

import json
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult


class PlainModel(BaseChatModel):
    """Model that replies with ``answer(messages)`` as text and has no structured output."""

    answer: Any
    calls: list = []  # noqa: RUF012 - pydantic copies it

    @property
    def _llm_type(self):
        return "plain"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        self.calls.append(messages)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(self.answer(messages)))])


class WordyModel(PlainModel):
    """Model that has structured output but replies in plain text."""

    def with_structured_output(self, schema, *, include_raw=False, **kwargs):
        return self | (lambda message: {"raw": message, "parsed": None, "parsing_error": None})


def fenced(value):
    """Return JSON in a code block surrounded by chat, as a talkative model writes it."""
    return f"Of course! Here you are:\n\n```json\n{json.dumps(value, indent=2)}\n```\nLet me know if that helps [1]."


KINDS = {"none": PlainModel, "answers in words": WordyModel}
