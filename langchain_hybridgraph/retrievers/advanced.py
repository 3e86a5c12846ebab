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
from langchain_hybridgraph.options.validation import check_retriever, check_vector
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
from langchain_hybridgraph.retrievers.base import PipelineRetriever, taken
from langchain_hybridgraph.retrievers.conversation_input import ConversationCall, Input, read
from langchain_hybridgraph.retrievers.delegate import AnyRetriever, Result
from langchain_hybridgraph.retrievers.hybrid import HybridRetriever
from langchain_hybridgraph.retrievers.instrumentation import ObservedRetriever, hits_of, scores_of
from langchain_hybridgraph.retrievers.query_log import AskedQueries
from langchain_hybridgraph.retrievers.result_fusion import fused_by_rank, fused_by_score, unit_of, with_notes
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
_NEAR = 0.9  # a best hit that scores so much of the other's is as good (chosen in benchmarks/README.md)
FUSED = 50  # hits of each of two searches that are fused, so that the answer for k is the head of that for a larger k


class AdvancedRetriever(ObservedRetriever, ConversationFields):
    """What any retriever finds for a question that leans on a conversation.

    ``retriever`` is one of ours or any LangChain retriever. ``expander`` makes the question whole: by default
    :class:`HistoryTerms`, which needs no model and leaves alone what stands by itself; or another by its name
    (``{"type": "append_history", "turns": 2}``); or any function of the question and the turns before it that gives a
    text. Without a history the question is searched for as it is.

    What the expander gives is searched for in the question's place where it is ``sure`` and needs no ``context``, as a
    model's rewrite. A ``context`` moves the question's vector over our own retrievers, which takes one more embedding,
    and the words stay those of the question (unless a reranker is to read it). Where the expander is not ``sure`` the
    raw question is searched for beside the moved vector, so that a change of topic does not hurt, and its answer is
    given when nothing is near to both: when the best hit of the moved vector scores less than nine tenths of its own.
    What cannot be told by a vector is searched for beside the raw question, and the two answers become one: by the
    weighted mean of their scores over our own retrievers, so that ``min_score`` holds, by rank over others; the
    expanded question counts half of its ``weight`` where it is not ``sure``.

    ``fuse_raw=True`` has the raw question searched for beside a rewrite, too, and ``fuse_raw=False`` never: then only
    the expanded question is searched for.

    A history is what :func:`~langchain_hybridgraph.query.conversation.history.turns` reads. It comes with the call
    (``conversation_history=``, or ``{"input": …, "chat_history": …}`` as input), else from ``get_session_history``, a
    function from a session's id to its chat history or messages. The id is that of the call (``session_id=``), else of
    the configuration (``{"configurable": {"session_id": …}}``, or a ``thread_id``), else ``"default"``. Nothing is
    written to a history: that is for the chain that answers. ``create_retrieval_chain`` gives a BaseRetriever, and so
    this one, the bare question: give it :func:`~langchain_hybridgraph.retrievers.history_aware.history_aware` instead.

    Other options of a call (``filter=``, …) go to the retriever as they are; TypeError for one that it does not take.
    Where two searches of a retriever that does not take k are fused, as many come back as one of them gives.

    With ``deadline_ms``, of the call or the retriever, half of the time is for the history and for expanding the
    question, and the rest for the search. An expander that fails leaves the raw question, and ``degraded`` says
    ``expander-failed``; a history that cannot be fetched, ``history-failed``. A history of another form raises
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

    _queries: AskedQueries = PrivateAttr(default_factory=AskedQueries)

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
        """Over a HybridRetriever with a new (or grown) store of these Documents."""
        own, inner = cls._own(settings)
        return cls(HybridRetriever.from_documents(documents, embedding, path=path, language=language, **inner), **own)

    @classmethod
    def from_store(cls, store: VectorStore, **settings: Unpack[AdvancedHybridArguments]) -> Self:
        """Over a HybridRetriever with this store."""
        own, inner = cls._own(settings)
        return cls(HybridRetriever(store, **inner), **own)

    @classmethod
    def from_config(cls, path: str | Path | None = None, *, store: VectorStore | None = None, **settings: Any) -> Self:
        """Over a retriever of ours, whose settings come from a YAML file, the environment and these arguments.

        Which one it is says ``advanced_retriever``: by default a HybridRetriever.
        """
        configured = HybridGraphSettings.from_file(path)
        own, inner = cls._own(settings)
        given = configured.arguments("advanced")
        below = _retriever(given.pop("retriever", "hybrid"))
        return cls(below.from_settings(configured, store=store, **inner), **(given | own))

    @classmethod
    def _own(cls, settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The settings of the conversation, and those of the retriever below, k among them."""
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
        """The k best Documents for a question after a conversation.

        The plan has the raw question (``query``), ``expanded_query``, the ``context`` and its ``weight``, and what was
        searched for how (``searched``: ``"raw"``, ``"expanded"``, ``"mixed"`` or ``"both"``). ``options`` are those of
        the retriever.
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
        """What :meth:`retrieve_with_context` gives, without holding up the event loop."""
        return await self._arun(ConversationCall(query, conversation_history, k, session_id, options))

    def retrieve(self, query: str, k: int | None = None, **options: Any) -> Result:
        """What :meth:`retrieve_with_context` gives; a history is ``conversation_history=`` or the session's."""
        return self.retrieve_with_context(query, k=k, **options)

    async def aretrieve(self, query: str, k: int | None = None, **options: Any) -> Result:
        """What :meth:`retrieve` gives, without holding up the event loop."""
        return await self.aretrieve_with_context(query, k=k, **options)

    @property
    def InputType(self) -> Any:
        """A text, messages, or a mapping with a question and its history: what :meth:`invoke` takes."""
        return Input

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """LangChain's, with the ``session_id`` where histories are fetched by it."""
        specs = super().config_specs
        return specs if self.get_session_history is None else get_unique_config_specs([*specs, _SESSION_ID])

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        """The Documents for a text, for ``{"input": …, "chat_history": …}``, or for messages with a question."""
        query, told = read(input, config)
        return super().invoke(query, config, **told | kwargs)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        """What :meth:`invoke` gives."""
        query, told = read(input, config)
        return await super().ainvoke(query, config, **told | kwargs)

    def explain(self, query: str, conversation_history: Any = None, k: int | None = None, **options: Any) -> str:
        """How the answer comes about, in words: the question that was searched for, the search, then each hit.

        It is :meth:`retrieve_with_context` that runs, with the same options and errors. Of a retriever that does not
        say how it has found its Documents their places are said alone.
        """
        from langchain_hybridgraph.display import explain_result

        result = self.retrieve_with_context(query, conversation_history, k, **options)
        said = explain_result(result) if result.hits or not result else _listed(result)
        return "\n".join([*_how_asked(result.plan), said])

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
        """A picture of what :meth:`retrieve_with_context` finds, with the edges that led there if any were walked.

        It is a matplotlib Figure (:func:`~langchain_hybridgraph.display.draw`), or one of plotly with ``interactive``.
        Raises what these raise; there is nothing in it of a retriever that does not say how it has found its Documents.
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
        level, (early, options) = self._level(annotate, return_scores), taken(EARLY, options)
        asked = ConversationCall(
            query, conversation_history, k, session_id, options, run_manager.get_child(), level, early
        )
        trace = Trace()
        with stage_events(run_manager, trace):
            return list(self._run(asked, trace))

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
        level, (early, options) = self._level(annotate, return_scores), taken(EARLY, options)
        asked = ConversationCall(
            query, conversation_history, k, session_id, options, run_manager.get_child(), level, early
        )
        trace = Trace()
        async with stage_events_async(run_manager, trace):
            return list(await self._arun(asked, trace))

    # -- what was asked, and how it went --------------------------------------------------------------------

    @property
    def query_history(self) -> list[str]:
        """The last 10 raw queries of the default session, oldest first."""
        return self.history_for(DEFAULT_SESSION)

    def history_for(self, session_id: str) -> list[str]:
        """The last 10 raw queries of a session, oldest first; those of the last 1,000 sessions are kept."""
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
        """A tool for an agent, as that of our other retrievers; it takes a filter where the retriever does.

        Its ``conversation_history`` is what was said before, unless histories are fetched by session: in a LangGraph
        agent the ``thread_id`` of its configuration is the session.
        """
        below = self.retriever
        own: type[BaseModel] = SearchArguments if AnyRetriever(below).takes("filter") else QueryArguments
        own = below._tool_arguments if isinstance(below, PipelineRetriever) else own
        if self.get_session_history is None:
            own = create_model(f"Conversational{own.__name__}", __base__=(own, _Conversational))
        return search_tool(self, chosen_arguments(args_schema, arg_types, own), name, description)

    def with_listeners(self, **listeners: Any) -> Runnable[str, list[Document]]:
        """LangChain's; raises ConfigurationError for RunnableWithMessageHistory, which would keep Documents."""
        refuse_to_keep_documents(listeners.values())
        return super().with_listeners(**listeners)

    # -- the search -----------------------------------------------------------------------------------------

    @property
    def _streams_early(self) -> bool:
        return isinstance(self.retriever, PipelineRetriever) and self.retriever._streams_early

    def _level(self, called: Annotate | None, return_scores: bool | None) -> Annotate:
        below: Annotate = self.retriever.annotate if isinstance(self.retriever, PipelineRetriever) else "none"
        return chosen_level(called, return_scores, below if self.annotate is None else self.annotate)

    def _run(self, asked: ConversationCall, trace: Trace | None = None) -> Result:
        trace = Trace() if trace is None else trace
        with self._statistics.counting_errors():
            return drive(self._told(asked, trace))

    async def _arun(self, asked: ConversationCall, trace: Trace | None = None) -> Result:
        trace = Trace() if trace is None else trace
        with self._statistics.counting_errors():
            return await adrive(self._told(asked, trace), lane=lane_of("search", self.retriever))

    def _told(self, asked: ConversationCall, trace: Trace) -> Search[Result]:
        """The search, told to those who listen."""
        below = AnyRetriever(self.retriever)
        k = next((k for k in (asked.k, self.k, below.k) if k is not None), None)
        results = partial(_results, prefix=below.prefix)
        result = yield from self._observed(self._search(asked, trace), trace, asked.query, k, results)
        trace.results = results(result)
        self._statistics.answered(trace, len(result))
        return result

    def _search(self, asked: ConversationCall, trace: Trace) -> Search[Result]:
        """Read the history, make the question whole, search for it, describe."""
        asked = self._checked(asked)
        asked = asked._replace(query=bounded(asked.query, trace))
        if asked.query is not None:
            self._queries.add(asked.session_id or DEFAULT_SESSION, asked.query)
        until = part_of_deadline(asked.deadline, 0.5)  # the other half is for the search
        said = yield from self._history(asked, trace, until)
        expanded = yield from self._expanded(asked.query, said, trace, until)
        found = yield from self._found(asked, expanded, trace, until)
        return self._described(found, asked, expanded, trace)

    def _checked(self, asked: ConversationCall) -> ConversationCall:
        """The call with its k and the session for the retriever; complains of what cannot be asked."""
        query: Any = asked.query
        if not isinstance(query, str) and (query is not None or "vector" not in asked.options):
            raise ConfigurationError(f"the query is {query!r}; it is a text, or None beside vector=")
        k: Any = self.k if asked.k is None else asked.k
        if k is not None and (not isinstance(k, int) or isinstance(k, bool) or k < 0):
            raise ConfigurationError(f"k is {k!r}; it is how many Documents come back, a whole number from 0")
        below = AnyRetriever(self.retriever)
        below.check(asked.options)
        session = {"session_id": asked.session_id} if asked.session_id is not None and below.has_sessions else {}
        return asked._replace(
            k=below.k if k is None else k,
            options={**session, **asked.options},
            deadline=deadline_in(below.deadline_seconds(asked.options)),
        )

    def _history(self, asked: ConversationCall, trace: Trace, until: float | None) -> Search[list[Turn]]:
        history, fetch = asked.history, self.get_session_history
        if history is None and fetch is not None:
            run = partial(fetch, asked.session_id or DEFAULT_SESSION)
            history = yield from ask(trace, Effect("history", run, lane=lane_of("history", fetch), deadline=until))
        if hasattr(history, "aget_messages"):
            history = yield from ask(trace, messages_call("history", history)._replace(deadline=until))
        said = turns(history, asked.query or "")
        trace.has_context = bool(said)
        return said

    def _expanded(
        self, query: str | None, said: Sequence[Turn], trace: Trace, until: float | None
    ) -> Search[ExpandedQuery]:
        """The question made whole; as it is when nothing was said before, or when the expander fails."""
        raw = ExpandedQuery(query or "")
        if not said or not raw.text.strip():
            return raw
        try:
            with trace.stage("expand-query"):
                (answer,) = yield from ask_or_raise(_expanding(self.expander, raw.text, said, until))
            if isinstance(answer, str) and answer.strip():
                return ExpandedQuery(answer)
            if isinstance(answer, ExpandedQuery):
                return answer
            raise TypeError(f"the expander must return a text or an ExpandedQuery, got {answer!r}")
        except Exception as error:  # noqa: BLE001 - an expander may be the caller's own; the question is searched as it is
            _fail(trace, error)
            return raw

    def _found(
        self, asked: ConversationCall, expanded: ExpandedQuery, trace: Trace, until: float | None
    ) -> Search[_Found]:
        """What is found for the question, raw, expanded, by a mixed vector or by two searches."""
        adds = expanded.text != (asked.query or "") or bool(expanded.context)
        if not adds or not expanded.weight:
            return (yield from self._once("raw", asked.query, asked))
        stands_alone = expanded.sure and not expanded.context
        if self.fuse_raw is False or (self.fuse_raw is None and stands_alone):
            return (yield from self._once("expanded", expanded.text, asked))
        embeddings = AnyRetriever(self.retriever).embeddings(asked.options) if expanded.context else None
        if embeddings is None:
            return (yield from self._both(asked, expanded, trace))
        return (yield from self._mixed(asked, expanded, embeddings, trace, until))

    def _once(self, how: str, text: str | None, asked: ConversationCall) -> Search[_Found]:
        """What one search finds."""
        below = AnyRetriever(self.retriever)
        told = {"level": asked.level, "early": asked.early}
        call = below.search("retriever", text, asked.k, _in_time(asked), asked.callbacks, **told)
        (result,) = yield from ask_or_raise(call)
        return _Found(how, result)

    def _both(self, asked: ConversationCall, expanded: ExpandedQuery, trace: Trace) -> Search[_Found]:
        """What the raw and the expanded question find, as one list."""
        below, k = AnyRetriever(self.retriever), asked.k
        least = below.least(asked.options)
        # Of our own the mean of both scores has to reach what is wanted, not each.
        options = _in_time(asked) if least is None else {**_in_time(asked), "min_score": 0.0}
        depth = None if k is None else max(k, FUSED)
        texts = {"question": asked.query, "conversation": expanded.text}
        found = yield [below.search(name, text, depth, options, asked.callbacks) for name, text in texts.items()]
        answers = dict(zip(texts, found, strict=True))
        weight = expanded.weight if expanded.sure else expanded.weight / 2
        weights = {"question": 1 - weight, "conversation": weight}
        if least is None:
            return _Found("both", fused_by_rank(answers, weights, k, trace, level=asked.level))
        fused = fused_by_score(answers, weights, k, trace, least=least, prefix=below.prefix)
        if asked.level == "all":
            return _Found("both", fused)
        documents = annotate(fused.hits, trace.method, trace.reasons, below.prefix, asked.level)
        return _Found("both", RetrievalResult(documents, hits=fused.hits, degraded=fused.degraded, plan=fused.plan))

    def _mixed(
        self,
        asked: ConversationCall,
        expanded: ExpandedQuery,
        embeddings: Embeddings,
        trace: Trace,
        until: float | None,
    ) -> Search[_Found]:
        """What the question finds with its vector moved towards that of what it leans on."""
        given = None if (vector := asked.options.get("vector")) is None else check_vector(vector)
        texts = [expanded.context] if given is not None else [expanded.context, asked.query or ""]
        try:
            with trace.stage("embed"):
                vectors = yield from ask_or_raise(*(_embedding(embeddings, text, until) for text in texts))
        except Exception as error:  # noqa: BLE001 - an embedding may fail with anything; the question is searched as it is
            _fail(trace, error)
            return (yield from self._once("raw", asked.query, asked))
        context, question = _unit(vectors[0]), _unit(given if given is not None else vectors[1])
        vector = cast("Vector", (1 - expanded.weight) * question + expanded.weight * context)
        if AnyRetriever(self.retriever).has_reranker:
            # A reranker reads no vectors: it has to be told in words what the question leaves out.
            return (yield from self._once("mixed", expanded.text, _by(asked, vector)))
        if expanded.sure:
            return (yield from self._once("mixed", asked.query, _by(asked, vector)))
        return (yield from self._nearer(asked, question, vector))

    def _nearer(self, asked: ConversationCall, question: Vector, mixed: Vector) -> Search[_Found]:
        """What the mixed vector finds; what the question's own does where its best hit is clearly better.

        Where the topic has changed, nothing is near to both question and context.
        """
        below = AnyRetriever(self.retriever)
        vectors = {"question": question, "conversation": mixed}
        calls = [
            below.search(name, asked.query, asked.k, _in_time(_by(asked, vector)), asked.callbacks, level=asked.level)
            for name, vector in vectors.items()
        ]
        answers = yield from ask_or_raise(*calls)
        own, leant = (one.hits[0].score / unit_of(one) if one.hits else 0.0 for one in answers)
        return _Found("raw", answers[0]) if leant < _NEAR * own else _Found("mixed", answers[1])

    def _described(self, found: _Found, asked: ConversationCall, expanded: ExpandedQuery, trace: Trace) -> Result:
        """The first k, with what there is to say about them."""
        result, own = found.result, bool(trace.reasons)
        trace.method = AnyRetriever(self.retriever).method(result)
        for reason in result.degraded:
            trace.degrade(reason)
        documents, hits = list(result)[: asked.k], result.hits[: asked.k]
        if asked.level == "all" and own:
            noted = {AnyRetriever(self.retriever).prefix + "degraded": list(trace.reasons)}
            if hits:  # made for this answer, and some may have been handed out
                for document in documents:
                    document.metadata |= noted
            else:
                documents = [with_notes(document, noted) for document in documents]
        plan = {**result.plan, **_plan(found, asked, expanded, trace)}
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
    """The conversation, as a model passes it to the tool."""

    conversation_history: list[str] | None = Field(
        None,
        description="What was said before, oldest first, where the query leans on it, as in "
        '["User: Which car is red?", "Assistant: The roadster."].',
    )


class _Found(NamedTuple):
    """An answer, and how the question was searched for."""

    how: str
    result: Result


def _expanding(expander: Any, text: str, said: Sequence[Turn], until: float | None) -> Effect:
    awaited = (lambda: expander.acall(text, said)) if implements(expander, AsyncExpander) else None
    quick = isinstance(expander, (AppendHistory, HistoryTerms, StripQuestion))
    lane = lane_of("expander", expander)
    return Effect("expander", lambda: expander(text, said), awaited, quick=quick, lane=lane, deadline=until)


def _embedding(embeddings: Embeddings, text: str, until: float | None) -> Effect:
    awaited = (lambda: embeddings.aembed_query(text)) if is_asynchronous(embeddings) else None
    lane = lane_of("embedding", embeddings)
    return Effect("expander", lambda: embeddings.embed_query(text), awaited, lane=lane, deadline=until)


def _unit(vector: Sequence[float] | Vector) -> Vector:
    array = np.asarray(vector, np.float32)
    length = float(np.linalg.norm(array))
    return array / length if length else array


def _in_time(asked: ConversationCall) -> Mapping[str, Any]:
    """The options for the retriever, with the time that is left."""
    if asked.deadline is None:
        return asked.options
    return {**asked.options, "deadline_ms": max(1.0, (asked.deadline - time.monotonic()) * 1e3)}


def _by(asked: ConversationCall, vector: Vector) -> ConversationCall:
    """The same call with a vector."""
    return asked._replace(options={**asked.options, "vector": vector})


def _results(result: Result, prefix: str) -> list[tuple[str, float]]:
    """The ids and scores of an answer; 0 where nobody has scored it."""
    return hits_of(result.hits) if result.hits else scores_of(result, prefix)


def _fail(trace: Trace, error: Exception) -> None:
    """Note that the question stays as it was put; what the caller has set wrongly is raised."""
    if isinstance(error, HybridGraphError) and isinstance(error, ValueError):
        raise error
    trace.record("expander", error, "expander-failed")


def _plan(found: _Found, asked: ConversationCall, expanded: ExpandedQuery, trace: Trace) -> dict[str, Any]:
    """What is said beside the plan of the retriever."""
    below = found.result.plan
    return {
        "query": asked.query,
        "k": asked.k,
        "expanded_query": expanded.text,
        "context": expanded.context,
        "weight": expanded.weight,
        "searched": found.how,
        "stages_ms": {name: round(ms, 3) for name, ms in trace.stages.items()} | below.get("stages_ms", {}),
        "errors": trace.errors | below.get("errors", {}),
    }


def _how_asked(plan: Mapping[str, Any]) -> list[str]:
    """How a question was searched for, in a line; none for one that was searched for as it was put."""
    whole, context = plan["expanded_query"], plan["context"]
    said = {
        "expanded": f"Searched for: {whole}",
        "both": f"Searched for as it was put, and for: {whole}",
        "mixed": f"Searched for beside what it leans on: {context}",
    }
    return [said[plan["searched"]]] if plan["searched"] in said else []


def _listed(result: Result) -> str:
    """The Documents of a retriever that says nothing of how it has found them."""
    begun = [" ".join(document.page_content.split())[:80] for document in result]
    return "\n".join([str(result.plan["query"]), *(f"{rank}. {text}" for rank, text in enumerate(begun, start=1))])


def refuse_to_keep_documents(listeners: Iterable[Any]) -> None:
    """Raise ConfigurationError for listeners of RunnableWithMessageHistory, which would keep Documents as an answer."""
    from langchain_core.runnables.history import RunnableWithMessageHistory

    if any(isinstance(getattr(listener, "__self__", None), RunnableWithMessageHistory) for listener in listeners):
        raise ConfigurationError(
            "RunnableWithMessageHistory keeps what was asked and answered, and Documents are no answer: give it the "
            "chain that answers, RunnableWithMessageHistory(RunnablePassthrough.assign(context=retriever) | answer, "
            "…); the retriever alone reads a history itself, AdvancedRetriever(…, get_session_history=…)"
        )
