"""Retriever for chains that pass a conversation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables.base import Runnable, RunnableBindingBase

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.retrievers.advanced.retriever import AdvancedRetriever, refuse_to_keep_documents

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool
    from pydantic import BaseModel

P = ParamSpec("P")
R = TypeVar("R")


class HistoryAwareRetriever(RunnableBindingBase[Any, list[Document]]):
    """Runnable that passes the conversation of a chain to an :class:`AdvancedRetriever`.

    A chain such as ``create_retrieval_chain`` passes only the question to a BaseRetriever, but its full input to any
    other Runnable. This wrapper is not a BaseRetriever, so it receives the full input. Use :func:`history_aware` to
    create it.
    """

    bound: AdvancedRetriever

    def as_tool(
        self,
        args_schema: type[BaseModel] | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        arg_types: dict[str, type] | None = None,
    ) -> BaseTool:
        """Return the tool that :meth:`AdvancedRetriever.as_tool` returns."""
        return self.bound.as_tool(args_schema, name=name, description=description, arg_types=arg_types)

    def with_listeners(self, **listeners: Any) -> Runnable[Any, list[Document]]:
        """Return a Runnable with these listeners added, as in LangChain.

        Raises ConfigurationError for the listeners of RunnableWithMessageHistory, because they would store the
        retrieved Documents in the chat history as if they were answers.
        """
        refuse_to_keep_documents(listeners.values())
        return super().with_listeners(**listeners)


def _with_arguments_of(kind: Callable[P, object]) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """Declare, for type checkers, that a function takes the arguments of the constructor of ``kind``."""
    return lambda function: function


@_with_arguments_of(AdvancedRetriever)
def history_aware(retriever: BaseRetriever, **settings: Any) -> HistoryAwareRetriever:
    """Return a history-aware retriever: a Runnable that retrieves Documents for a question and its conversation.

    Its input is what :meth:`AdvancedRetriever.invoke` takes: ``{"input": …, "chat_history": …}``, the messages of a
    LangGraph state (``{"messages": […]}``), messages, or a string. Pass the Runnable to ``create_retrieval_chain`` or
    ``RunnablePassthrough.assign(context=…)``, or call it in a node of a graph.

    ``retriever`` is any LangChain retriever; ``settings`` are settings of :class:`AdvancedRetriever`. If ``retriever``
    is an AdvancedRetriever, it is used unchanged, and additional settings raise ConfigurationError.

    >>> from langchain_hybridgraph import HybridGraphStore, HybridRetriever
    >>> texts = ["The red roadster costs 200,000.", "The blue van costs 9,000.", "Trains are slow."]
    >>> store = HybridGraphStore.from_texts(texts, "lsa", ids=["roadster", "van", "train"])
    >>> retriever = history_aware(HybridRetriever(store, k=1))
    >>> asked = {"input": "and its price?", "chat_history": ["User: Which car is red?", "Assistant: The roadster."]}
    >>> [document.id for document in retriever.invoke(asked)]
    ['roadster']
    """
    if not isinstance(retriever, AdvancedRetriever):
        return HistoryAwareRetriever(bound=AdvancedRetriever(retriever, **settings))
    if settings:
        raise ConfigurationError(
            f"history_aware accepts no settings with an AdvancedRetriever, got {', '.join(settings)}: set them on the "
            "AdvancedRetriever, or pass the retriever that it wraps"
        )
    return HistoryAwareRetriever(bound=retriever)
