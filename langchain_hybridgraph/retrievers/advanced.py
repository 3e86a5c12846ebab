"""AdvancedRetriever, which completes follow-up questions."""

from __future__ import annotations

import warnings
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.vectorstores import VectorStore
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, create_model, field_validator

from langchain_hybridgraph.adapters.documents import chosen_level
from langchain_hybridgraph.adapters.tool import QueryArguments, SearchArguments, arguments_schema, search_tool
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.execution.effects import Search, Trace, deadline_in
from langchain_hybridgraph.execution.threads import lane_of
from langchain_hybridgraph.options.arguments import HISTORY, check_first
from langchain_hybridgraph.options.models import ConversationFields
from langchain_hybridgraph.options.objects import ConversationCall, Input, read
from langchain_hybridgraph.options.values import check_value
from langchain_hybridgraph.records import Annotate, query_error
from langchain_hybridgraph.retrievers.advanced_search import DEFAULT_SESSION, ConversationSearch
from langchain_hybridgraph.retrievers.any_retriever import AnyRetriever, Result
from langchain_hybridgraph.retrievers.base import ObservedRetriever, PipelineRetriever, hits_of, scores_of, with_k
from langchain_hybridgraph.retrievers.hybrid import HybridRetriever
from langchain_hybridgraph.retrievers.streaming import EARLY
from langchain_hybridgraph.settings import HybridGraphSettings
from langchain_hybridgraph.text.analyzer import bounded

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool


REMEMBERED_QUERIES = 10
REMEMBERED_SESSIONS = 1_000


class AdvancedRetriever(ObservedRetriever, ConversationFields):
    """Retriever that completes follow-up questions from the conversation, and then searches with another retriever.

    ``retriever`` is any LangChain retriever. ``expander`` is the name of an expander, a mapping with its parameters, or
    a function that takes the question and the turns before it, and returns a string or an
    :class:`~langchain_hybridgraph.search.conversation.ExpandedQuery`. A string is treated as ``sure`` and as having no
    ``context``. The default, :class:`HistoryTerms`, needs no model and does not change self-contained questions. For a
    message that is only a greeting, thanks or a goodbye, nothing is searched for (``small-talk``).

    The expansion determines the kind of search:

    - If it is ``sure`` and has no ``context``, for example because a model rewrote the question, only the expanded
      question is searched for; with ``fuse_raw=True``, the raw question is searched for, too.
    - If it has a ``context``, and ``retriever`` is a retriever of this package that searches by vector, the vectors of
      the question and the context are mixed, which takes one more embedding. The text of the search is the expanded
      question with a reranker, and otherwise the raw question, with LSA also some words of a ``sure`` expansion. If the
      expansion is not ``sure``, the topic may have changed: without a reranker, the answer of a second search, with the
      question's own vector, is returned if the best score with the mixed vector is less than 0.9 times its best score.
    - Otherwise, the raw and the expanded question are both searched for, and the answers are fused: by the weighted
      mean of their scores for this package's retrievers, so that ``min_score`` applies, and by rank for others. The
      ``weight`` of an expanded question that is not ``sure`` is halved.

    With ``fuse_raw=False``, only the expanded question is searched for.

    The history has any form that :func:`~langchain_hybridgraph.search.conversation.turns` accepts. It comes from the
    call (``conversation_history=``, or ``{"input": …, "chat_history": …}`` as input) or else from
    ``get_session_history``, a function that takes the id of a session: ``session_id=`` of the call, ``session_id`` or
    ``thread_id`` under ``"configurable"``, or ``"default"``. The retriever never writes to a history.
    ``create_retrieval_chain`` passes only the question, so wrap the retriever with
    :func:`langchain_hybridgraph.history_aware` first.

    Other options of a call are passed to ``retriever``; unsupported ones raise TypeError. If two answers are fused and
    no k is set, the result is as long as the longer answer. With ``deadline_ms``, reading the history and expanding the
    question may take at most half of the time. If this fails, the raw question is searched for (``history-failed``,
    ``expander-failed``). A history in an unknown form raises ConfigurationError.

    >>> from langchain_hybridgraph import HybridGraphStore, HybridRetriever
    >>> texts = ["The red roadster costs 200,000.", "The blue van costs 9,000.", "Trains are slow."]
    >>> store = HybridGraphStore.from_texts(texts, "lsa", ids=["roadster", "van", "train"])
    >>> retriever = AdvancedRetriever(HybridRetriever(store), k=1)
    >>> history = ["User: Which car is red?", "Assistant: The roadster."]
    >>> result = retriever.retrieve_with_context("and its price?", history)
    >>> result[0].id, result.plan["expanded_query"]
    ('roadster', 'and its price? car red roadster')
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", validate_default=True)

    retriever: BaseRetriever = Field(kw_only=False, description="Retriever to wrap.")
    if not TYPE_CHECKING:  # type checkers derive the arguments of the constructor from the fields

        def __init__(self, retriever: BaseRetriever, **settings: Any) -> None:
            super().__init__(**{**settings, "retriever": retriever})

    k: int | None = Field(default=None, ge=0, description="Number of results; unset: the k of the wrapped retriever.")
    annotate: Annotate | None = Field(
        default=None,
        description="Metadata of the Documents that invoke returns; unset: the setting of the wrapped retriever, or "
        "none.",
    )

    _queries: OrderedDict[str, deque[str]] = PrivateAttr(default_factory=OrderedDict)

    @field_validator("retriever", mode="before")
    @classmethod
    def _is_a_retriever(cls, value: Any) -> Any:
        check_first(cls, value, BaseRetriever)
        return value

    # -- construction ---------------------------------------------------------------------------------------

    @classmethod
    def from_documents(cls, documents: Sequence[Document], *arguments: Any, **settings: Any) -> Self:
        """Return a retriever that wraps a HybridRetriever with these Documents in a new or existing store.

        The arguments are those of :meth:`HybridRetriever.from_documents`, and settings of this class.
        """
        own, inner = cls._own(settings)
        return cls(HybridRetriever.from_documents(documents, *arguments, **inner), **own)

    @classmethod
    def from_texts(cls, texts: Sequence[str], *arguments: Any, **settings: Any) -> Self:
        """Return a retriever that wraps a HybridRetriever with these texts in a new or existing store.

        The arguments are those of :meth:`HybridRetriever.from_texts`, and settings of this class.
        """
        own, inner = cls._own(settings)
        return cls(HybridRetriever.from_texts(texts, *arguments, **inner), **own)

    @classmethod
    def from_store(cls, store: VectorStore, **settings: Any) -> Self:
        """Return a retriever that wraps a HybridRetriever with this store."""
        own, inner = cls._own(settings)
        return cls(HybridRetriever(store, **inner), **own)

    @classmethod
    def from_config(cls, path: str | Path | None = None, *, store: VectorStore | None = None, **settings: Any) -> Self:
        """Return a retriever configured by a YAML file, the environment and these arguments.

        The setting ``advanced_retriever`` selects the inner retriever.
        """
        from langchain_hybridgraph.retrievers.graph import GraphRetriever
        from langchain_hybridgraph.retrievers.hierarchical import HierarchicalRetriever
        from langchain_hybridgraph.retrievers.memory import MemoryRetriever

        kinds: dict[str, type[HybridRetriever]] = {
            "graph": GraphRetriever,
            "hierarchical": HierarchicalRetriever,
            "memory": MemoryRetriever,
        }
        configured = HybridGraphSettings.from_file(path)
        own, inner = cls._own(settings)
        arguments = configured.arguments("advanced")
        kind = kinds.get(arguments.pop("retriever", "hybrid"), HybridRetriever)
        return cls(kind.from_settings(configured, store=store, **inner), **(arguments | own))

    @classmethod
    def _own(cls, settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Split settings into those of this class and those of the inner retriever, which include k."""
        names = ConversationFields.model_fields
        own = {name: value for name, value in settings.items() if name in names}
        return own, {name: value for name, value in settings.items() if name not in names}

    # -- retrieving -----------------------------------------------------------------------------------------

    def retrieve(self, query: str | None, k: int | None = None, **options: Any) -> Result:
        """Return the same result as :meth:`retrieve_with_context`; the history is ``conversation_history=`` here."""
        return self._run(self._prepare(query, with_k(options, k)))

    async def aretrieve(self, query: str | None, k: int | None = None, **options: Any) -> Result:
        """Return the same result as :meth:`retrieve`, without blocking the event loop."""
        return await self._arun(self._prepare(query, with_k(options, k)))

    def retrieve_with_context(
        self, query: str | None, conversation_history: Any = None, k: int | None = None, **options: Any
    ) -> Result:
        """Return the k best Documents for a question that follows a conversation.

        The result's ``plan`` contains the raw question (``query``), ``expanded_query``, the ``context`` and its
        ``weight``, and the kind of search (``searched``: ``"raw"``, ``"expanded"``, ``"mixed"`` or ``"both"``, or
        ``"none"`` for a message without a question). ``options`` are ``session_id`` and options of the wrapped
        retriever.
        """
        return self.retrieve(query, k, **{**options, HISTORY: conversation_history})

    async def aretrieve_with_context(
        self, query: str | None, conversation_history: Any = None, k: int | None = None, **options: Any
    ) -> Result:
        """Return the same result as :meth:`retrieve_with_context`, without blocking the event loop."""
        return await self.aretrieve(query, k, **{**options, HISTORY: conversation_history})

    @property
    def InputType(self) -> Any:
        """Type of the input of :meth:`invoke`: a string, messages, or a mapping with a question and its history."""
        return Input

    def _read(self, input: Any, config: RunnableConfig | None, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        query, conversation = read(input, config)
        return query, conversation | options

    def explain(self, query: str, conversation_history: Any = None, k: int | None = None, **options: Any) -> str:
        """Explain the answer of :meth:`retrieve_with_context` in words: the query, the search, and each hit.

        For a retriever that does not report how it found its Documents, only their ranks are listed.
        """
        from langchain_hybridgraph.display import explain_result

        return explain_result(self.retrieve_with_context(query, conversation_history, k, **options))

    def _prepare(self, query: Any, options: Mapping[str, Any], callbacks: Any = None) -> ConversationCall:
        """Check a call; ``options`` are those of this retriever and of the wrapped one."""
        others, own = dict(options), {}
        for name in (HISTORY, "k", "session_id", "annotate", "return_scores", EARLY):
            own[name] = others.pop(name, None)
        if not isinstance(query, str) and (query is not None or "vector" not in others):
            raise query_error(query)
        k: Any = self.k if own["k"] is None else own["k"]
        check_value(type(self), "k", k)
        inner = AnyRetriever(self.retriever)
        inner.check(others, type(self).__name__, (HISTORY, "session_id"))
        session_id = own["session_id"]
        if session_id is not None and inner.pipeline is not None and inner.takes("session_id"):
            others["session_id"] = session_id
        default = self.annotate if self.annotate is not None or inner.pipeline is None else inner.pipeline.annotate
        deadline_ms = inner.setting("deadline_ms", others)
        trace = Trace()
        return ConversationCall(
            query=bounded(query, trace.degrade),
            history=own[HISTORY],
            k=inner.k if k is None else k,
            session_id=session_id,
            options=others,
            trace=trace,
            callbacks=callbacks,
            level=chosen_level(own["annotate"], own["return_scores"], default or "none"),
            early=own[EARLY],
            deadline=deadline_in(None if deadline_ms is None else deadline_ms / 1e3),
        )

    # -- past queries ---------------------------------------------------------------------------------------

    @property
    def query_history(self) -> list[str]:
        """Last 10 raw queries of the default session, oldest first."""
        return self.history_for(DEFAULT_SESSION)

    def history_for(self, session_id: str) -> list[str]:
        """Return the last 10 raw queries of a session, oldest first. Only the 1,000 newest sessions are kept."""
        return list(self._queries.get(session_id, ()))

    # -- in chains and agents -------------------------------------------------------------------------------

    def as_tool(
        self,
        args_schema: type[BaseModel] | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        arg_types: dict[str, type] | None = None,
    ) -> BaseTool:
        """Return a tool that lets agents search with this retriever.

        The tool takes a filter if the wrapped retriever does. It takes earlier turns as ``conversation_history``,
        unless ``get_session_history`` is set. In a LangGraph agent, the session is the ``thread_id`` of the
        configuration.
        """
        inner_retriever = self.retriever
        own: type[BaseModel] = SearchArguments if AnyRetriever(inner_retriever).takes("filter") else QueryArguments
        own = inner_retriever._tool_arguments if isinstance(inner_retriever, PipelineRetriever) else own
        if self.get_session_history is None:
            own = create_model(f"Conversational{own.__name__}", __base__=(own, _ConversationArguments))
        return search_tool(self, arguments_schema(args_schema, arg_types, own), name, description)

    def __ror__(self, other: Any) -> Any:
        """Return a chain that passes the output of ``other`` to this retriever.

        Warns in ``create_retrieval_chain``, where ``other`` selects the question and drops the history.
        """
        if getattr(other, "__module__", "").endswith(".chains.retrieval") and self.get_session_history is None:
            warnings.warn(
                "create_retrieval_chain passes only the question to an AdvancedRetriever, not the history, so "
                "follow-up questions are not completed: wrap the retriever, as in "
                "create_retrieval_chain(history_aware(retriever), …)",
                stacklevel=3,
            )
        return super().__ror__(other)

    # -- the search -----------------------------------------------------------------------------------------

    @property
    def _streams_early(self) -> bool:
        inner_retriever = AnyRetriever(self.retriever).pipeline
        return inner_retriever is not None and inner_retriever._streams_early

    @property
    def _lane(self) -> Any:
        return lane_of("search", self.retriever)

    def _search(self, prepared_search: ConversationCall) -> Search[Result]:
        call, inner = prepared_search, AnyRetriever(self.retriever)

        def results(result: Result) -> list[tuple[str, float]]:
            return hits_of(result.hits) if result.hits else scores_of(result, inner.prefix)

        if call.query is not None:
            session_id = call.session_id or DEFAULT_SESSION
            self._queries.setdefault(session_id, deque(maxlen=REMEMBERED_QUERIES)).append(call.query)
            if len(self._queries) > REMEMBERED_SESSIONS:
                self._queries.popitem(last=False)
        search = ConversationSearch(inner, self.expander, self.fuse_raw, self.get_session_history, call)
        with self._statistics.count_errors():
            result = yield from self._observed(search.run(), call.trace, call.query, call.k, results)
            call.trace.results = results(result)
            self._statistics.record_answer(call.trace, len(result))
            return result


class _ConversationArguments(BaseModel):
    """Additional argument of a tool: the conversation before the query."""

    conversation_history: list[str] | None = Field(
        None,
        description="Earlier turns, oldest first, if the query refers to them, as in "
        '["User: Which car is red?", "Assistant: The roadster."].',
    )


P = ParamSpec("P")
R = TypeVar("R")


class HistoryAwareRetriever(RunnableBindingBase[Any, list[Document]]):
    """Runnable that passes the conversation of a chain to an :class:`AdvancedRetriever`.

    A chain such as ``create_retrieval_chain`` passes only the question to a BaseRetriever, but its full input to any
    other Runnable, such as this one. Use :func:`history_aware` to create it.
    """

    bound: AdvancedRetriever

    def as_tool(self, *arguments: Any, **options: Any) -> BaseTool:
        """Return the tool that :meth:`AdvancedRetriever.as_tool` returns."""
        return self.bound.as_tool(*arguments, **options)


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
