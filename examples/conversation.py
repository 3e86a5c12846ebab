"""A chain that answers follow-up questions in a conversation.

    pip install . langchain      # in a clone of the repository
    python examples/conversation.py

``AdvancedRetriever`` completes each question before it searches, here without a model. LangGraph's checkpointer stores
the messages, with one thread per customer. The example uses a fake chat model that repeats the text that was found, and
needs no API key. To use a real model, pass its name: ``python examples/conversation.py openai:gpt-5-mini``.
"""

from __future__ import annotations

import sys
from typing import Any

from langchain.chat_models import init_chat_model
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel, SimpleChatModel
from langchain_core.messages import BaseMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from langchain_hybridgraph import HybridGraphStore, HybridRetriever, ingest
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever

CARS = {
    "roadster.md": "The roadster is red. Its price is 200,000.",
    "van.md": "The van is blue. Its price is 9,000.",
    "service.md": "Repairs are free for three years.",
}
PROMPT = ChatPromptTemplate.from_messages(
    [("system", "You sell cars. Answer from these texts alone.\n\n{context}"), MessagesPlaceholder("messages")]
)


class ContextReader(SimpleChatModel):
    """A fake chat model that returns the context of its prompt."""

    @property
    def _llm_type(self) -> str:
        return "reads-out"

    def _call(self, messages: list[BaseMessage], *_: Any, **__: Any) -> str:
        return messages[0].text.partition("\n\n")[2]


def chat_model(name: str | None) -> BaseChatModel:
    """Return the model with this name, as ``init_chat_model`` does, or a fake model if the name is None."""
    return ContextReader() if name is None else init_chat_model(name, temperature=0)


def as_context(documents: list[Document]) -> str:
    """Return the texts for the prompt."""
    return "\n\n".join(document.page_content for document in documents)


def conversing(retriever: BaseRetriever, model: BaseChatModel) -> Any:
    """Return a chain from ``{"messages": […]}`` to an answer. The configured ``thread_id`` identifies the
    conversation.
    """
    # The last message is the question, and the messages before it are the conversation.
    whole = AdvancedRetriever(retriever)
    chain = PROMPT | model

    def answer(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
        documents = whole.invoke(state["messages"], config)
        return {"messages": [chain.invoke({"context": as_context(documents), "messages": state["messages"]}, config)]}

    graph = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer")
    return graph.compile(checkpointer=InMemorySaver())


def main(model: str | None = None) -> None:
    """Let two customers ask follow-up questions, each in a thread of its own."""
    store = HybridGraphStore(embedding="lsa")
    ingest([Document(text, metadata={"source": name}) for name, text in CARS.items()], store)
    chain = conversing(HybridRetriever(store, k=1), chat_model(model))

    for customer, question in [
        ("Ada", "Which car is red?"),
        ("Tom", "Which car is blue?"),
        ("Ada", "And its price?"),
        ("Tom", "And its price?"),
    ]:
        print(f"{customer}: {question}")
        thread = {"configurable": {"thread_id": customer}}
        for piece, _ in chain.stream({"messages": [("user", question)]}, thread, stream_mode="messages"):
            print(piece.text, end="", flush=True)
        print()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
