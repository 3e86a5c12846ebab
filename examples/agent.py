"""A LangGraph agent that chooses when to search, the query, and the filter.

    pip install . langchain      # in a clone of the repository
    python examples/agent.py

With ``as_tool``, the model can set the query, k and a filter; the Documents are the artifact of the tool message. The
example uses a fake chat model with prepared messages and needs no API key. To use a real model, install its package
(``langchain-openai``) and pass its name: ``python examples/agent.py openai:gpt-5-mini``.
"""

from __future__ import annotations

import sys
from typing import Any, Literal

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel, FakeMessagesListChatModel
from langchain_core.messages import AIMessage, AnyMessage, ToolCall, ToolMessage
from langchain_core.retrievers import BaseRetriever
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel, Field

from langchain_hybridgraph import GraphRetriever, HybridGraphStore, ingest
from langchain_hybridgraph.adapters.tool import QueryArguments

RELEASES = [
    ("The import of addresses reads CSV files.", 2023, "import"),
    ("The import of addresses reads vCard files, too.", 2025, "import"),
    ("Invoices can be sent as XRechnung.", 2025, "billing"),
]


class NoteFields(BaseModel):
    """Metadata fields of the notes, as a filter for the model."""

    year: int | None = Field(None, description="The year of the release.")
    area: Literal["import", "billing"] | None = Field(None, description="The part of the program.")


class NoteArguments(QueryArguments):
    """Arguments of the tool; a model makes fewer mistakes with these fields than with the full filter language."""

    filter: NoteFields | None = Field(None, description="Only notes of this year and area.")


def _call(query: str, among: dict[str, Any]) -> ToolCall:
    return ToolCall(name="release_notes", args={"query": query, "filter": among}, id=query)


class ScriptedModel(FakeMessagesListChatModel):
    """Fake chat model that returns its messages one after the other, and ignores the results of the tools."""

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        """Accept any tools."""
        return self


PART = [
    AIMessage("", tool_calls=[_call("import", {"year": 2025, "area": "import"})]),
    AIMessage("The import of addresses reads vCard files, too."),
    AIMessage("", tool_calls=[_call("invoices", {"area": "billing"})]),
    AIMessage("It can send invoices as XRechnung."),
]


def chat_model(name: str | None) -> BaseChatModel:
    """Return the model with this name, as ``init_chat_model`` does, or a fake model if the name is None."""
    return ScriptedModel(responses=PART) if name is None else init_chat_model(name, temperature=0)


def agent_over(retriever: BaseRetriever, model: BaseChatModel) -> Any:
    """Return an agent with the retriever as its tool; ``thread_id`` in the configuration is the conversation."""
    tool = retriever.as_tool(
        NoteArguments, name="release_notes", description="Finds release notes. Ask it before you answer."
    )
    return create_agent(
        model,
        [tool],
        system_prompt="Answer what the program can do, from its release notes alone.",
        checkpointer=InMemorySaver(),
    )


def show(message: AnyMessage) -> None:
    """Print a call of the tool, its result, or an answer of the model."""
    if isinstance(message, AIMessage) and message.tool_calls:
        for call in message.tool_calls:
            print(f"  {call['name']}({', '.join(f'{name}={value!r}' for name, value in call['args'].items())})")
    elif isinstance(message, ToolMessage):
        for document in message.artifact or ():
            print(f"  {document.metadata['relevance_score']:.2f} {document.page_content}")
    else:
        print(f"{message.type}: {message.text}")


def main(model: str | None = None) -> None:
    """Ask two questions in one thread."""
    store = HybridGraphStore(embedding="lsa")
    notes = [Document(text, metadata={"year": year, "area": area}) for text, year, area in RELEASES]
    ingest(notes, store)
    agent = agent_over(GraphRetriever(store, k=2), chat_model(model))

    for question in ("What was new in the import in 2025?", "And which invoices can it send?"):
        messages = {"messages": [("user", question)]}
        for step in agent.stream(messages, {"configurable": {"thread_id": "1"}}, stream_mode="updates"):
            for update in step.values():
                for message in update["messages"]:
                    show(message)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
