"""A chat model that says what a test wants, with LangChain's own ``with_structured_output`` by tool calling."""

import json
import time
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult


class SayingModel(BaseChatModel):
    """Says ``answer``, or what ``answer`` makes of the material it is shown.

    A message is said as it is, an exception raised, a text said in place of a tool call; anything else is the tool
    call. ``seconds`` pass before that.
    """

    answer: Any
    seconds: float = 0.0
    calls: list = []  # noqa: RUF012 - pydantic copies it

    @property
    def _llm_type(self):
        return "saying"

    def bind_tools(self, tools, **kwargs):
        return self.bind(tools=tools, **kwargs)

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        self.calls.append(messages)
        time.sleep(self.seconds)
        reply = self.answer(json.loads(messages[-1].content)) if callable(self.answer) else self.answer
        if isinstance(reply, BaseException):
            raise reply
        if isinstance(reply, str):
            reply = AIMessage(reply)
        if not isinstance(reply, AIMessage):
            reply = AIMessage("", tool_calls=[{"name": kwargs["tools"][0]["title"], "args": reply, "id": "1"}])
        return ChatResult(generations=[ChatGeneration(message=reply)])
