"""A LangGraph agent that remembers facts between conversations, and how they have changed.

    pip install . langchain      # in a clone of the repository
    python examples/memory_agent.py

The agent has two tools. ``recall`` is a ``MemoryRetriever``, which can search as of an earlier time. ``note`` stores a
new fact, which may supersede an old one. The example uses a fake chat model that follows simple rules, and needs no API
key. To use a real model, pass its name: ``python examples/memory_agent.py openai:gpt-5-mini``.
"""

from __future__ import annotations

import sys
from typing import Any

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel, Field

from langchain_hybridgraph import HybridGraphStore, MemoryRetriever

TALKS = [
    ("2023", "I live in Lisbon, near the river, since May 2021."),
    ("2024", "I moved to Porto on the first of April 2024."),
    ("2025", "Where do I live?"),
    ("2026", "And where did I live in June 2023?"),
]


class Fact(BaseModel):
    """A fact to store."""

    text: str = Field(description="One statement that can be understood by itself: 'The user lives in Rome.'")
    since: str | None = Field(None, description="Since when it is true, as an ISO date such as 2024-05-01, if said.")
    replaces: str | None = Field(None, description="The id, from recall, of what is no longer true because of it.")


def note_tool(store: HybridGraphStore) -> BaseTool:
    """Return a tool that stores a fact; an invalid id or time is reported to the model, which may correct it."""

    def note(text: str, since: str | None = None, replaces: str | None = None) -> str:
        fact = Document(text, metadata={} if since is None else {"valid_from": since})
        try:
            if replaces:
                return f"kept as {store.memory.supersede(replaces, fact)} in place of {replaces}"
            [admission] = store.memory.remember([fact], contradictions=False)
        except ValueError as error:
            raise ToolException(str(error)) from error
        return f"{admission.outcome} as {admission.id}"

    return StructuredTool.from_function(
        note,
        description="Keeps what users say of themselves. Ask recall first what it replaces.",
        args_schema=Fact,
        handle_tool_error=True,
    )


class RuleModel(BaseChatModel):
    """A fake chat model that recalls facts, supersedes them with new statements, and repeats them."""

    @property
    def _llm_type(self) -> str:
        return "by-rules"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        """Accept any tools."""
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._reply(messages))])

    def _reply(self, messages: list[BaseMessage]) -> AIMessage:
        last = messages[-1]
        if isinstance(last, HumanMessage):
            time = {"as_of": "2023-06-15"} if "June 2023" in last.text else {}
            return self._asks("recall", query="where the user lives", **time)
        text, documents = messages[-3].text, getattr(last, "artifact", None)
        if last.name == "note" or text.endswith("?"):
            return AIMessage(documents[0].page_content if documents else "Noted.")
        since = "2024-04-01" if "2024" in text else "2021-05-01"
        return self._asks("note", text=text, since=since, **({"replaces": documents[0].id} if documents else {}))

    @staticmethod
    def _asks(tool: str, **arguments: str) -> AIMessage:
        return AIMessage("", tool_calls=[ToolCall(name=tool, args=arguments, id=tool)])


def chat_model(name: str | None) -> BaseChatModel:
    """Return the model with this name, as ``init_chat_model`` does, or a fake model if the name is None."""
    return RuleModel() if name is None else init_chat_model(name, temperature=0)


def agent_with(store: HybridGraphStore, model: BaseChatModel) -> Any:
    """Return an agent that remembers in ``store``; ``thread_id`` in the configuration identifies the conversation."""
    recall = MemoryRetriever(store, k=3, mode="procedural").as_tool(
        name="recall", description="Finds what is known of the user, each with its id; as_of for what was true once."
    )
    return create_agent(
        model,
        [recall, note_tool(store)],
        system_prompt="Note what users say of themselves. Answer from what you recall alone.",
        checkpointer=InMemorySaver(),
    )


def show(message: AnyMessage) -> None:
    """Print a call of a tool, its result, or an answer of the model."""
    if isinstance(message, AIMessage) and message.tool_calls:
        for call in message.tool_calls:
            print(f"  {call['name']}({', '.join(f'{name}={value!r}' for name, value in call['args'].items())})")
    elif isinstance(message, ToolMessage):
        texts = [document.page_content for document in message.artifact or ()]
        print(f"  {' '.join(texts) or message.text}")
    else:
        print(f"{message.type}: {message.text}")


def main(model: str | None = None) -> None:
    """Hold four separate conversations."""
    store = HybridGraphStore(embedding="lsa")  # pass a folder as the first argument to keep it
    agent = agent_with(store, chat_model(model))

    for thread, text in TALKS:
        print(f"user: {text}")
        request = {"messages": [("user", text)]}
        for step in agent.stream(request, {"configurable": {"thread_id": thread}}, stream_mode="updates"):
            for update in step.values():
                for message in update["messages"]:
                    show(message)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
