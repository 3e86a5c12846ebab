"""AdvancedRetriever: questions of a conversation, over any retriever."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, Unpack, cast

import numpy as np
from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import ConfigurableFieldSpec, Runnable, RunnableConfig
from langchain_core.runnables.utils import get_unique_config_specs
from langchain_core.vectorstores import VectorStore
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, create_model, field_validator

from langchain_hybridgraph.adapters.conversation_input import ConversationCall, Input, read
from langchain_hybridgraph.adapters.documents import Annotate, annotate, chosen_level
from langchain_hybridgraph.adapters.tool import QueryArguments, SearchArguments, chosen_arguments, search_tool
from langchain_hybridgraph.config import HybridGraphSettings
from langchain_hybridgraph.errors import ConfigurationError, HybridGraphError
from langchain_hybridgraph.execution.asynchronous import is_asynchronous
from langchain_hybridgraph.execution.effects import (
    Effect,
    Search,
    adrive,
    ask,
    ask_or_raise,
    deadline_in,
    drive,
    part_of_deadline,
)
from langchain_hybridgraph.execution.trace import Trace
from langchain_hybridgraph.execution.workers import lane_of
from langchain_hybridgraph.options.conversation import (
    AdvancedArguments,
    AdvancedHybridArguments,
    ConversationArguments,
    ConversationFields,
)
from langchain_hybridgraph.options.validation import check_retriever, check_value, check_vector
from langchain_hybridgraph.query.conversation import (
    AppendHistory,
    AsyncExpander,
    ExpandedQuery,
    HistoryTerms,
    StripQuestion,
)
from langchain_hybridgraph.query.conversation.history import Turn, turns
from langchain_hybridgraph.query.hierarchy.planning import messages_call
from langchain_hybridgraph.query.length import bounded
from langchain_hybridgraph.result import RetrievalResult
from langchain_hybridgraph.retrievers.advanced.query_log import QueryLog
from langchain_hybridgraph.retrievers.advanced.result_fusion import fused_by_rank, fused_by_score, unit_of, with_notes
from langchain_hybridgraph.retrievers.base import PipelineRetriever, popped
from langchain_hybridgraph.retrievers.delegate import AnyRetriever, Result
from langchain_hybridgraph.retrievers.hybrid import HybridRetriever
from langchain_hybridgraph.retrievers.instrumentation import ObservedRetriever, hits_of, scores_of
from langchain_hybridgraph.retrievers.streaming import EARLY
from langchain_hybridgraph.stores.protocols import implements
from langchain_hybridgraph.telemetry.langchain_callbacks import stage_events, stage_events_async

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from langchain_hybridgraph.records import Vector

DEFAULT_SESSION = "default"
# As RunnableWithMessageHistory declares it, so that a chain may have both.
_SESSION_ID = ConfigurableFieldSpec(
    id="session_id",
    annotation=str,
    name="Session ID",
    description="Unique identifier for a session.",
    default="",
    is_shared=True,
)
_NEAR = 0.9  # a best hit with this share of the other's score is as good (chosen in benchmarks/README.md)
FUSED = 50  # hits fused from each of two searches, so that the answer for k is the head of that for a larger k


class AdvancedRetriever(ObservedRetriever, ConversationFields):
    """Retrieval for follow-up questions of a conversation, with any retriever.

    ``retriever`` is a retriever of this package or any LangChain retriever. ``expander`` completes the question with
    the conversation. The default is :class:`HistoryTerms`, which needs no model and does not change self-contained
    questions. Others are set by name (``{"type": "append_history", "turns": 2}``) or as a function of the question and
    the turns before it that returns a text. Without a history the question is searched for unchanged.

    An expanded question that is ``sure`` and has no ``context``, such as a model's rewrite, replaces the question. With
    a retriever of this package, a ``context`` moves the question's vector, which takes one more embedding; the words
    stay those of the question (unless there is a reranker, which reads the expanded question). If the expander is not
    ``sure``, the raw question is searched for as well, so that a change of topic does not hurt: its answer is returned
    if the best hit of the moved vector scores less than nine tenths of its own best hit. Other retrievers search for
    both the raw and the expanded question, and the two answers are fused: by the weighted mean of their scores for
    retrievers of this package, so that ``min_score`` applies, and by rank for others. The expanded question counts
    half of its ``weight`` if it is not ``sure``.

    ``fuse_raw=True`` searches for the raw question in addition to every rewrite; ``fuse_raw=False`` searches only for
    the expanded question.

    A history has a form that :func:`~langchain_hybridgraph.query.conversation.history.turns` reads. It is of the call
    (``conversation_history=``, or ``{"input": …, "chat_history": …}`` as input), else from ``get_session_history``, a
    function from a session's id to its chat history or messages. The id is that of the call (``session_id=``), else of
    the configuration (``{"configurable": {"session_id": …}}``, or a ``thread_id``), else ``"default"``. Nothing is
    written to a history; the chain that answers does that. ``create_retrieval_chain`` passes a BaseRetriever, such as
    this one, only the question: wrap it with :func:`langchain_hybridgraph.history_aware`.

    Other options of a call (``filter=``, …) are passed to the retriever; unsupported ones raise TypeError. Two fused
    searches of a retriever that does not take k return as many Documents as the longer one.

    With ``deadline_ms``, of the call or the retriever, half of the time is for the history and for expanding the
    question, and the rest for the search. If the expander fails, the raw question is searched for, and ``degraded`` has
    ``expander-failed``; if the history cannot be fetched, ``history-failed``. A history in another form raises
    ConfigurationError.

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

    retriever: BaseRetriever = Field(description="Retriever to query.")
    k: int | None = Field(None, ge=0, description="Number of results; unset: that of the retriever.")
    annotate: Annotate | None = Field(
        None,
        description="Metadata of the Documents that invoke returns; unset: as in the retriever, else as stored.",
    )

    _queries: QueryLog = PrivateAttr(default_factory=QueryLog)

    def __init__(self, retriever: BaseRetriever, **settings: Unpack[AdvancedArguments]) -> None:
        super().__init__(**{**cast(Any, settings), "retriever": retriever})

    @field_validator("retriever", mode="before")
    @classmethod
    def _is_a_retriever(cls, value: Any) -> Any:
        check_retriever(cls, value)
        return value

    # -- construction ---------------------------------------------------------------------------------------

    @classmethod
    def from_documents(
        cls,
        documents: Sequence[Document],
        embedding: Embeddings | str | None = None,
        *,
        path: str | Path | None = None,
        language: str = "english",
        **settings: Unpack[AdvancedHybridArguments],
    ) -> Self:
        """Return a retriever over a HybridRetriever with these Documents in a new or existing store."""
        own, inner = cls._own(settings)
        return cls(HybridRetriever.from_documents(documents, embedding, path=path, language=language, **inner), **own)

    @classmethod
    def from_store(cls, store: VectorStore, **settings: Unpack[AdvancedHybridArguments]) -> Self:
        """Return a retriever over a HybridRetriever with this store."""
        own, inner = cls._own(settings)
        return cls(HybridRetriever(store, **inner), **own)

    @classmethod
    def from_config(cls, path: str | Path | None = None, *, store: VectorStore | None = None, **settings: Any) -> Self:
        """Return a retriever configured by a YAML file, the environment and these arguments.

        The setting ``advanced_retriever`` selects the inner retriever, by default a HybridRetriever.
        """
        configured = HybridGraphSettings.from_file(path)
        own, inner = cls._own(settings)
        arguments = configured.arguments("advanced")
        below = _retriever(arguments.pop("retriever", "hybrid"))
        return cls(below.from_settings(configured, store=store, **inner), **(arguments | own))

    @classmethod
    def _own(cls, settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Split settings into those of the conversation and those of the inner retriever, which include k."""
        names = ConversationArguments.__annotations__
        own = {name: value for name, value in settings.items() if name in names}
        return own, {name: value for name, value in settings.items() if name not in names}

    # -- retrieving -----------------------------------------------------------------------------------------

    def retrieve_with_context(
        self,
        query: str,
        conversation_history: Any = None,
        k: int | None = None,
        *,
        session_id: str | None = None,
        **options: Any,
    ) -> Result:
        """Return the k best Documents for a question after a conversation.

        The plan has the raw question (``query``), ``expanded_query``, the ``context`` and its ``weight``, and the kind
        of search (``searched``: ``"raw"``, ``"expanded"``, ``"mixed"`` or ``"both"``). ``options`` are those of the
        retriever.
        """
        return self._run(ConversationCall(query, conversation_history, k, session_id, options))

    async def aretrieve_with_context(
        self,
        query: str,
        conversation_history: Any = None,
        k: int | None = None,
        *,
        session_id: str | None = None,
        **options: Any,
    ) -> Result:
        """Do what :meth:`retrieve_with_context` does, without blocking the event loop."""
        return await self._arun(ConversationCall(query, conversation_history, k, session_id, options))

    def retrieve(self, query: str, k: int | None = None, **options: Any) -> Result:
        """Do what :meth:`retrieve_with_context` does; the history is ``conversation_history=`` or the session's."""
        return self.retrieve_with_context(query, k=k, **options)

    async def aretrieve(self, query: str, k: int | None = None, **options: Any) -> Result:
        """Do what :meth:`retrieve` does, without blocking the event loop."""
        return await self.aretrieve_with_context(query, k=k, **options)

    @property
    def InputType(self) -> Any:
        """Input of :meth:`invoke`: a text, messages, or a mapping with a question and its history."""
        return Input

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """LangChain's specs, with ``session_id`` if histories are fetched by session."""
        specs = super().config_specs
        return specs if self.get_session_history is None else get_unique_config_specs([*specs, _SESSION_ID])

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        """Return the Documents for a text, for ``{"input": …, "chat_history": …}``, or for messages with a question."""
        query, conversation = read(input, config)
        return super().invoke(query, config, **conversation | kwargs)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        """Do what :meth:`invoke` does, without blocking the event loop."""
        query, conversation = read(input, config)
        return await super().ainvoke(query, config, **conversation | kwargs)

    def explain(self, query: str, conversation_history: Any = None, k: int | None = None, **options: Any) -> str:
        """Explain the answer in words: the question that was searched for, the search, then each hit.

        Runs :meth:`retrieve_with_context`, with the same options and errors. For a retriever that does not report how
        it found its Documents, only their ranks are listed.
        """
        from langchain_hybridgraph.display import explain_result

        result = self.retrieve_with_context(query, conversation_history, k, **options)
        explanation = explain_result(result) if result.hits or not result else _listed(result)
        return "\n".join([*_searched_for(result.plan), explanation])

    def picture(
        self,
        query: str,
        conversation_history: Any = None,
        k: int | None = None,
        *,
        interactive: bool = False,
        width: float = 10.0,
        nodes: int = 25,
        **options: Any,
    ) -> Any:
        """Draw the answer of :meth:`retrieve_with_context`, with the edges that led to its hits.

        Returns a matplotlib Figure (:func:`~langchain_hybridgraph.display.draw`), or with ``interactive`` a plotly
        figure. Raises the errors of these functions. For a retriever that does not report how it found its Documents,
        the picture is empty.
        """
        from langchain_hybridgraph import display

        draw = display.interactive if interactive else display.draw
        return draw(self.retrieve_with_context(query, conversation_history, k, **options), width=width, nodes=nodes)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        conversation_history: Any = None,
        k: int | None = None,
        session_id: str | None = None,
        annotate: Annotate | None = None,
        return_scores: bool | None = None,
        **options: Any,
    ) -> list[Document]:
        level, (early, options) = self._level(annotate, return_scores), popped(EARLY, options)
        call = ConversationCall(
            query, conversation_history, k, session_id, options, run_manager.get_child(), level, early
        )
        trace = Trace()
        with stage_events(run_manager, trace):
            return list(self._run(call, trace))

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        conversation_history: Any = None,
        k: int | None = None,
        session_id: str | None = None,
        annotate: Annotate | None = None,
        return_scores: bool | None = None,
        **options: Any,
    ) -> list[Document]:
        level, (early, options) = self._level(annotate, return_scores), popped(EARLY, options)
        call = ConversationCall(
            query, conversation_history, k, session_id, options, run_manager.get_child(), level, early
        )
        trace = Trace()
        async with stage_events_async(run_manager, trace):
            return list(await self._arun(call, trace))

    # -- past queries ---------------------------------------------------------------------------------------

    @property
    def query_history(self) -> list[str]:
        """Last 10 raw queries of the default session, oldest first."""
        return self.history_for(DEFAULT_SESSION)

    def history_for(self, session_id: str) -> list[str]:
        """Return the last 10 raw queries of a session, oldest first; those of the last 1,000 sessions are kept."""
        return self._queries.of(session_id)

    # -- in chains and agents -------------------------------------------------------------------------------

    def as_tool(
        self,
        args_schema: type[BaseModel] | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        arg_types: dict[str, type] | None = None,
    ) -> BaseTool:
        """Return a tool for an agent, like that of the other retrievers; it takes a filter if the retriever does.

        It takes earlier turns as ``conversation_history``, unless histories are fetched by session: in a LangGraph
        agent the ``thread_id`` of its configuration is the session.
        """
        below = self.retriever
        own: type[BaseModel] = SearchArguments if AnyRetriever(below).takes("filter") else QueryArguments
        own = below._tool_arguments if isinstance(below, PipelineRetriever) else own
        if self.get_session_history is None:
            own = create_model(f"Conversational{own.__name__}", __base__=(own, _Conversational))
        return search_tool(self, chosen_arguments(args_schema, arg_types, own), name, description)

    def with_listeners(self, **listeners: Any) -> Runnable[str, list[Document]]:
        """Do what LangChain's method does; raise ConfigurationError for RunnableWithMessageHistory."""
        refuse_to_keep_documents(listeners.values())
        return super().with_listeners(**listeners)

    # -- the search -----------------------------------------------------------------------------------------

    @property
    def _streams_early(self) -> bool:
        return isinstance(self.retriever, PipelineRetriever) and self.retriever._streams_early

    def _level(self, called: Annotate | None, return_scores: bool | None) -> Annotate:
        below: Annotate = self.retriever.annotate if isinstance(self.retriever, PipelineRetriever) else "none"
        return chosen_level(called, return_scores, below if self.annotate is None else self.annotate)

    def _run(self, call: ConversationCall, trace: Trace | None = None) -> Result:
        trace = Trace() if trace is None else trace
        with self._statistics.counting_errors():
            return drive(self._reported(call, trace))

    async def _arun(self, call: ConversationCall, trace: Trace | None = None) -> Result:
        trace = Trace() if trace is None else trace
        with self._statistics.counting_errors():
            return await adrive(self._reported(call, trace), lane=lane_of("search", self.retriever))

    def _reported(self, call: ConversationCall, trace: Trace) -> Search[Result]:
        """Run the search, and report it to the sinks."""
        below = AnyRetriever(self.retriever)
        k = next((k for k in (call.k, self.k, below.k) if k is not None), None)
        results = partial(_results, prefix=below.prefix)
        result = yield from self._observed(self._search(call, trace), trace, call.query, k, results)
        trace.results = results(result)
        self._statistics.answered(trace, len(result))
        return result

    def _search(self, call: ConversationCall, trace: Trace) -> Search[Result]:
        """Read the history, expand the question, search for it, describe the answer."""
        call = self._checked(call)
        call = call._replace(query=bounded(call.query, trace))
        if call.query is not None:
            self._queries.add(call.session_id or DEFAULT_SESSION, call.query)
        until = part_of_deadline(call.deadline, 0.5)  # the other half is for the search
        turns_before = yield from self._history(call, trace, until)
        expanded = yield from self._expanded(call.query, turns_before, trace, until)
        answer = yield from self._searched(call, expanded, trace, until)
        return self._described(answer, call, expanded, trace)

    def _checked(self, call: ConversationCall) -> ConversationCall:
        """Return the call with its k and the retriever's session; raise ConfigurationError for an invalid call."""
        query: Any = call.query
        if not isinstance(query, str) and (query is not None or "vector" not in call.options):
            raise ConfigurationError(f"query must be a text, or None together with vector=, got {query!r}")
        k: Any = self.k if call.k is None else call.k
        check_value(type(self), "k", k)
        below = AnyRetriever(self.retriever)
        below.check(call.options)
        session = {"session_id": call.session_id} if call.session_id is not None and below.has_sessions else {}
        return call._replace(
            k=below.k if k is None else k,
            options={**session, **call.options},
            deadline=deadline_in(below.deadline_seconds(call.options)),
        )

    def _history(self, call: ConversationCall, trace: Trace, until: float | None) -> Search[list[Turn]]:
        history, fetch = call.history, self.get_session_history
        if history is None and fetch is not None:
            run = partial(fetch, call.session_id or DEFAULT_SESSION)
            history = yield from ask(trace, Effect("history", run, lane=lane_of("history", fetch), deadline=until))
        if hasattr(history, "aget_messages"):
            history = yield from ask(trace, messages_call("history", history)._replace(deadline=until))
        turns_before = turns(history, call.query or "")
        trace.has_context = bool(turns_before)
        return turns_before

    def _expanded(
        self, query: str | None, turns_before: Sequence[Turn], trace: Trace, until: float | None
    ) -> Search[ExpandedQuery]:
        """Return the expanded question; unchanged without a history, or if the expander fails."""
        raw = ExpandedQuery(query or "")
        if not turns_before or not raw.text.strip():
            return raw
        try:
            with trace.stage("expand-query"):
                (answer,) = yield from ask_or_raise(_expanding(self.expander, raw.text, turns_before, until))
            if isinstance(answer, str) and answer.strip():
                return ExpandedQuery(answer)
            if isinstance(answer, ExpandedQuery):
                return answer
            raise TypeError(f"the expander must return a text or an ExpandedQuery, got {answer!r}")
        except Exception as error:  # noqa: BLE001 - an expander may be the caller's own; the question is searched as it is
            _fail(trace, error)
            return raw

    def _searched(
        self, call: ConversationCall, expanded: ExpandedQuery, trace: Trace, until: float | None
    ) -> Search[_Answer]:
        """Search for the raw question, the expanded one, both, or by a mixed vector."""
        adds = expanded.text != (call.query or "") or bool(expanded.context)
        if not adds or not expanded.weight:
            return (yield from self._once("raw", call.query, call))
        stands_alone = expanded.sure and not expanded.context
        if self.fuse_raw is False or (self.fuse_raw is None and stands_alone):
            return (yield from self._once("expanded", expanded.text, call))
        embeddings = AnyRetriever(self.retriever).embeddings(call.options) if expanded.context else None
        if embeddings is None:
            return (yield from self._both(call, expanded, trace))
        return (yield from self._mixed(call, expanded, embeddings, trace, until))

    def _once(self, how: str, text: str | None, call: ConversationCall) -> Search[_Answer]:
        """Run one search."""
        below = AnyRetriever(self.retriever)
        how_returned = {"level": call.level, "early": call.early}
        effect = below.search("retriever", text, call.k, _in_time(call), call.callbacks, **how_returned)
        (result,) = yield from ask_or_raise(effect)
        return _Answer(how, result)

    def _both(self, call: ConversationCall, expanded: ExpandedQuery, trace: Trace) -> Search[_Answer]:
        """Search for the raw and the expanded question, and fuse the answers."""
        below, k = AnyRetriever(self.retriever), call.k
        least = below.least(call.options)
        # For retrievers of this package, the mean of both scores has to reach the minimum, not each score.
        options = _in_time(call) if least is None else {**_in_time(call), "min_score": 0.0}
        depth = None if k is None else max(k, FUSED)
        texts = {"question": call.query, "conversation": expanded.text}
        search_results = yield [
            below.search(name, text, depth, options, call.callbacks) for name, text in texts.items()
        ]
        answers = dict(zip(texts, search_results, strict=True))
        weight = expanded.weight if expanded.sure else expanded.weight / 2
        weights = {"question": 1 - weight, "conversation": weight}
        if least is None:
            return _Answer("both", fused_by_rank(answers, weights, k, trace, level=call.level))
        fused = fused_by_score(answers, weights, k, trace, least=least, prefix=below.prefix)
        if call.level == "all":
            return _Answer("both", fused)
        documents = annotate(fused.hits, trace.method, trace.reasons, below.prefix, call.level)
        return _Answer("both", RetrievalResult(documents, hits=fused.hits, degraded=fused.degraded, plan=fused.plan))

    def _mixed(
        self,
        call: ConversationCall,
        expanded: ExpandedQuery,
        embeddings: Embeddings,
        trace: Trace,
        until: float | None,
    ) -> Search[_Answer]:
        """Search with the question's vector moved towards that of its context."""
        own = None if (vector := call.options.get("vector")) is None else check_vector(vector)
        texts = [expanded.context] if own is not None else [expanded.context, call.query or ""]
        try:
            with trace.stage("embed"):
                vectors = yield from ask_or_raise(*(_embedding(embeddings, text, until) for text in texts))
        except Exception as error:  # noqa: BLE001 - an embedding may fail with anything; the question is searched as it is
            _fail(trace, error)
            return (yield from self._once("raw", call.query, call))
        context, question = _unit(vectors[0]), _unit(own if own is not None else vectors[1])
        vector = cast("Vector", (1 - expanded.weight) * question + expanded.weight * context)
        if AnyRetriever(self.retriever).has_reranker:
            # A reranker reads no vectors: it needs the words that the question leaves out.
            return (yield from self._once("mixed", expanded.text, _by(call, vector)))
        if expanded.sure:
            return (yield from self._once("mixed", call.query, _by(call, vector)))
        return (yield from self._nearer(call, question, vector))

    def _nearer(self, call: ConversationCall, question: Vector, mixed: Vector) -> Search[_Answer]:
        """Search by the mixed vector and by the question's own, which wins if its best hit is clearly better.

        After a change of topic nothing is near to both question and context.
        """
        below = AnyRetriever(self.retriever)
        vectors = {"question": question, "conversation": mixed}
        calls = [
            below.search(name, call.query, call.k, _in_time(_by(call, vector)), call.callbacks, level=call.level)
            for name, vector in vectors.items()
        ]
        answers = yield from ask_or_raise(*calls)
        own, mixed_best = (one.hits[0].score / unit_of(one) if one.hits else 0.0 for one in answers)
        return _Answer("raw", answers[0]) if mixed_best < _NEAR * own else _Answer("mixed", answers[1])

    def _described(self, answer: _Answer, call: ConversationCall, expanded: ExpandedQuery, trace: Trace) -> Result:
        """Return the first k Documents with degradations, plan and answerability."""
        result, own = answer.result, bool(trace.reasons)
        trace.method = AnyRetriever(self.retriever).method(result)
        for reason in result.degraded:
            trace.degrade(reason)
        documents, hits = list(result)[: call.k], result.hits[: call.k]
        if call.level == "all" and own:
            noted = {AnyRetriever(self.retriever).prefix + "degraded": list(trace.reasons)}
            if hits:  # these Documents were made for this answer, and some may have been handed out
                for document in documents:
                    document.metadata |= noted
            else:
                documents = [with_notes(document, noted) for document in documents]
        plan = {**result.plan, **_plan(answer, call, expanded, trace)}
        return RetrievalResult(
            documents,
            hits=hits,
            degraded=trace.reasons,
            took_ms=trace.took_ms,
            plan=plan,
            answerability=result.answerability,
        )


def _retriever(name: str) -> type[HybridRetriever]:
    from langchain_hybridgraph.retrievers.graph import GraphRetriever
    from langchain_hybridgraph.retrievers.hierarchical import HierarchicalRetriever
    from langchain_hybridgraph.retrievers.memory import MemoryRetriever

    named: Mapping[str, type[HybridRetriever]] = {
        "graph": GraphRetriever,
        "hierarchical": HierarchicalRetriever,
        "memory": MemoryRetriever,
    }
    return named.get(name, HybridRetriever)


class _Conversational(BaseModel):
    """Conversation, as a model passes it to the tool."""

    conversation_history: list[str] | None = Field(
        None,
        description="Earlier turns, oldest first, if the query refers to them, as in "
        '["User: Which car is red?", "Assistant: The roadster."].',
    )


class _Answer(NamedTuple):
    """An answer, and the kind of search."""

    how: str
    result: Result


def _expanding(expander: Any, text: str, turns_before: Sequence[Turn], until: float | None) -> Effect:
    awaited = (lambda: expander.acall(text, turns_before)) if implements(expander, AsyncExpander) else None
    quick = isinstance(expander, (AppendHistory, HistoryTerms, StripQuestion))
    lane = lane_of("expander", expander)
    return Effect("expander", lambda: expander(text, turns_before), awaited, quick=quick, lane=lane, deadline=until)


def _embedding(embeddings: Embeddings, text: str, until: float | None) -> Effect:
    awaited = (lambda: embeddings.aembed_query(text)) if is_asynchronous(embeddings) else None
    lane = lane_of("embedding", embeddings)
    return Effect("expander", lambda: embeddings.embed_query(text), awaited, lane=lane, deadline=until)


def _unit(vector: Sequence[float] | Vector) -> Vector:
    array = np.asarray(vector, np.float32)
    length = float(np.linalg.norm(array))
    return array / length if length else array


def _in_time(call: ConversationCall) -> Mapping[str, Any]:
    """Return the options for the retriever, with the remaining time."""
    if call.deadline is None:
        return call.options
    return {**call.options, "deadline_ms": max(1.0, (call.deadline - time.monotonic()) * 1e3)}


def _by(call: ConversationCall, vector: Vector) -> ConversationCall:
    """Return the call with this vector."""
    return call._replace(options={**call.options, "vector": vector})


def _results(result: Result, prefix: str) -> list[tuple[str, float]]:
    """Return the ids and scores of an answer; 0 for Documents without a score."""
    return hits_of(result.hits) if result.hits else scores_of(result, prefix)


def _fail(trace: Trace, error: Exception) -> None:
    """Record that the raw question is used; raise the error if it is a wrong setting of the caller."""
    if isinstance(error, HybridGraphError) and isinstance(error, ValueError):
        raise error
    trace.record("expander", error, "expander-failed")


def _plan(answer: _Answer, call: ConversationCall, expanded: ExpandedQuery, trace: Trace) -> dict[str, Any]:
    """Return the entries that are added to the retriever's plan."""
    below = answer.result.plan
    return {
        "query": call.query,
        "k": call.k,
        "expanded_query": expanded.text,
        "context": expanded.context,
        "weight": expanded.weight,
        "searched": answer.how,
        "stages_ms": {name: round(ms, 3) for name, ms in trace.stages.items()} | below.get("stages_ms", {}),
        "errors": trace.errors | below.get("errors", {}),
    }


def _searched_for(plan: Mapping[str, Any]) -> list[str]:
    """Return a line about the question that was searched for; none for a raw question."""
    expanded, context = plan["expanded_query"], plan["context"]
    lines = {
        "expanded": f"Searched for: {expanded}",
        "both": f"Searched for the question as it is, and for: {expanded}",
        "mixed": f"Searched for the question together with its context: {context}",
    }
    return [lines[plan["searched"]]] if plan["searched"] in lines else []


def _listed(result: Result) -> str:
    """List the Documents of a retriever that does not report how it found them."""
    begun = [" ".join(document.page_content.split())[:80] for document in result]
    return "\n".join([str(result.plan["query"]), *(f"{rank}. {text}" for rank, text in enumerate(begun, start=1))])


def refuse_to_keep_documents(listeners: Iterable[Any]) -> None:
    """Raise ConfigurationError for listeners of RunnableWithMessageHistory, which would keep Documents as an answer."""
    from langchain_core.runnables.history import RunnableWithMessageHistory

    if any(isinstance(getattr(listener, "__self__", None), RunnableWithMessageHistory) for listener in listeners):
        raise ConfigurationError(
            "RunnableWithMessageHistory keeps questions and answers, and Documents are not an answer: give it the "
            "chain that answers, RunnableWithMessageHistory(RunnablePassthrough.assign(context=retriever) | answer, "
            "…); the retriever alone reads a history itself, AdvancedRetriever(…, get_session_history=…)"
        )
