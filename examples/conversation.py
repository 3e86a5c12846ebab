"""A chain that answers a conversation: questions may lean on what was said before.

    pip install langchain-hybridgraph langchain langchain-openai
    python examples/conversation.py openai:gpt-5-mini

``AdvancedRetriever`` makes each question whole before it searches, here without asking a model; LangGraph's
checkpointer keeps what was said, one thread a customer.
"""

from __future__ import annotations

import sys
from typing import Any

from langchain.chat_models import init_chat_model
from langchain_core.documents import Document
from langchain_core.language_models import BaseChatModel
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from langchain_hybridgraph import AdvancedRetriever, HybridGraphStore, HybridRetriever, ingest

CARS = {
    "roadster.md": "The roadster is red. Its price is 200,000.",
    "van.md": "The van is blue. Its price is 9,000.",
    "service.md": "Every car is looked after for three years.",
}
PROMPT = ChatPromptTemplate.from_messages(
    [("system", "You sell cars. Answer from these texts alone.\n\n{context}"), MessagesPlaceholder("messages")]
)


def as_context(documents: list[Document]) -> str:
    """The texts for the prompt."""
    return "\n\n".join(document.page_content for document in documents)


def conversing(retriever: BaseRetriever, model: BaseChatModel) -> Any:
    """A chain from ``{"messages": […]}`` to an answer; ``thread_id`` in the configuration says in which one."""
    whole = AdvancedRetriever(retriever)  # the last message is the question, those before it the conversation
    chain = PROMPT | model

    def answer(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
        found = whole.invoke(state["messages"], config)
        return {"messages": [chain.invoke({"context": as_context(found), "messages": state["messages"]}, config)]}

    graph = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer")
    return graph.compile(checkpointer=InMemorySaver())


def main(model: str) -> None:
    """Two customers ask, each after what the one has said before."""
    store = HybridGraphStore(embedding="lsa")
    ingest([Document(text, metadata={"source": name}) for name, text in CARS.items()], store)
    chain = conversing(HybridRetriever(store, k=1), init_chat_model(model, temperature=0))

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
    main(sys.argv[1] if len(sys.argv) > 1 else "openai:gpt-5-mini")
