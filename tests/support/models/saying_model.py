"""Chat model with fixed replies and LangChain's own ``with_structured_output`` by tool calling."""

import json
import threading
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from tests.support.samples.clock import PATIENCE


class SayingModel(BaseChatModel):
    """Chat model that replies with ``answer``, or with ``answer(material)`` for the material in the prompt.

    A message or a string is returned as the reply, an exception is raised, and any other value becomes the arguments
    of a tool call. With a ``gate``, the model waits until it is set.
    """

    answer: Any
    gate: threading.Event | None = None
    calls: list = []  # noqa: RUF012 - pydantic copies it

    @property
    def _llm_type(self):
        return "saying"

    def bind_tools(self, tools, **kwargs):
        return self.bind(tools=tools, **kwargs)

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        self.calls.append(messages)
        if self.gate is not None:
            self.gate.wait(PATIENCE)
        reply = self.answer(json.loads(messages[-1].content)) if callable(self.answer) else self.answer
        if isinstance(reply, BaseException):
            raise reply
        if isinstance(reply, str):
            reply = AIMessage(reply)
        if not isinstance(reply, AIMessage):
            tool = kwargs["tools"][0]
            name = tool["title"] if isinstance(tool, dict) else tool.__name__
            reply = AIMessage("", tool_calls=[{"name": name, "args": reply, "id": "1"}])
        return ChatResult(generations=[ChatGeneration(message=reply)])
