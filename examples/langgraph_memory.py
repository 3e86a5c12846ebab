"""A LangGraph agent whose long-term memory is searched by vector and by keyword.

    pip install ".[langgraph]" langchain      # in a clone of the repository
    python examples/langgraph_memory.py

The tools ``remember`` and ``recall`` use the agent's store, ``HybridGraphMemory``, with one namespace per user. The
example uses a fake chat model with scripted answers, and needs no API key. To use a real model, pass its name:
``python examples/langgraph_memory.py openai:gpt-5-mini``.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain.tools import ToolRuntime, tool
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from langchain_hybridgraph.langgraph import HybridGraphMemory

TALKS = [
    ("ada", "Please remember that my bicycle has the frame number WX-7714."),
    ("ada", "Please remember that I am allergic to peanuts."),
    ("bo", "Please remember that my bicycle was stolen."),
    ("ada", "Which frame number does my bicycle have?"),
]


@dataclass
class User:
    """The user whom a conversation belongs to."""

    name: str


@tool
def remember(fact: str, runtime: ToolRuntime[User]) -> str:
    """Store a fact about the user, in one sentence that can be understood by itself."""
    runtime.store.put((runtime.context.name, "facts"), runtime.tool_call_id, {"text": fact})
    return "Noted."


@tool
def recall(question: str, runtime: ToolRuntime[User]) -> str:
    """Return the facts about the user that are most relevant to a question, as quoted data."""
    items = runtime.store.search((runtime.context.name, "facts"), query=question, limit=1)
    return "\n".join(f"> {item.value['text']}" for item in items) or "nothing is known"


class ScriptedModel(BaseChatModel):
    """A fake chat model that remembers requests to do so, and answers questions with what it recalls."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        """Accept any tools."""
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        last = messages[-1]
        if isinstance(last, ToolMessage):
            reply = AIMessage(last.text.removeprefix("> "))
        else:
            assert isinstance(last, HumanMessage)
            name, argument = ("recall", "question") if last.text.endswith("?") else ("remember", "fact")
            call = ToolCall(name=name, args={argument: last.text}, id=f"call-{len(last.text)}")
            reply = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=reply)])


def main(model: str | None = None) -> None:
    """Hold four conversations with two users."""
    memory = HybridGraphMemory(index={"fields": ["text"]})  # pass a folder as the first argument to keep it
    agent = create_agent(
        ScriptedModel() if model is None else init_chat_model(model, temperature=0),
        [remember, recall],
        system_prompt="Remember what users say about themselves. Answer from what you recall.",
        store=memory,
        context_schema=User,
    )
    for name, text in TALKS:
        print(f"{name}: {text}")
        answer = agent.invoke({"messages": [("user", text)]}, context=User(name))
        print(f"ai: {answer['messages'][-1].text}")
    print(f"namespaces: {memory.list_namespaces()}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
