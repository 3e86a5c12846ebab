"""Chat models without structured output, or with one that does not work."""

from __future__ import annotations

import json
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableLambda


class PlainModel(BaseChatModel):
    """Answers in words with what ``answer`` makes of the messages; LangChain's ``with_structured_output`` raises."""

    answer: Any
    calls: list = []  # noqa: RUF012 - pydantic copies it

    @property
    def _llm_type(self):
        return "plain"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        self.calls.append(messages)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(self.answer(messages)))])


class SilentModel(PlainModel):
    """Has structured output, which gives None."""

    def with_structured_output(self, schema, **kwargs):
        return RunnableLambda(lambda messages: None)


class WordyModel(PlainModel):
    """Has structured output, but answers in words all the same."""

    def with_structured_output(self, schema, *, include_raw=False, **kwargs):
        return self | (lambda message: {"raw": message, "parsed": None, "parsing_error": None})


class LateModel(PlainModel):
    """Says that it has structured output, and has none when it is asked."""

    def with_structured_output(self, schema, **kwargs):
        def refuse(messages):
            raise NotImplementedError("tools")

        return RunnableLambda(refuse)


def fenced(value):
    """JSON as a talkative model gives it."""
    return f"Of course! Here you are:\n\n```json\n{json.dumps(value, indent=2)}\n```\nLet me know if that helps [1]."


KINDS = {"none": PlainModel, "gives None": SilentModel, "raises late": LateModel, "answers in words": WordyModel}
