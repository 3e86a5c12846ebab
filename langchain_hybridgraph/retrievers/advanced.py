"""AdvancedRetriever, which completes follow-up questions."""

from __future__ import annotations

import math
import time
import warnings
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, cast

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.vectorstores import VectorStore
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, create_model

from langchain_hybridgraph.adapters.documents import annotate, chosen_level, chunk_id
from langchain_hybridgraph.adapters.tool import QueryArguments, SearchArguments
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.display import explain_result
from langchain_hybridgraph.errors import ConfigurationError, HybridGraphError
from langchain_hybridgraph.execution import effects
from langchain_hybridgraph.execution.threads import lane_of
from langchain_hybridgraph.options.arguments import HISTORY, check_first, check_vector
from langchain_hybridgraph.options.base import check_values
from langchain_hybridgraph.options.models import ConversationFields, MemoryFields
from langchain_hybridgraph.options.objects import Input, read
from langchain_hybridgraph.records import Annotate, FusedCandidate, Hit, Ranking, check_name, query_error
from langchain_hybridgraph.result import RetrievalResult
from langchain_hybridgraph.retrievers import base
from langchain_hybridgraph.retrievers.any_retriever import AnyRetriever, Result
from langchain_hybridgraph.retrievers.hybrid import HybridRetriever
from langchain_hybridgraph.search.conversation import ExpandedQuery, Turn, expander_call, is_small_talk, turns
from langchain_hybridgraph.search.fusion import ConvexCombination
from langchain_hybridgraph.search.planner import has_messages, messages_call
from langchain_hybridgraph.settings import HybridGraphSettings
from langchain_hybridgraph.stores.generations import FittedEmbedding
from langchain_hybridgraph.stores.vectors import unit
from langchain_hybridgraph.text.analyzer import bounded

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from langchain_hybridgraph.chunks import Vector


REMEMBERED_QUERIES = 10
REMEMBERED_SESSIONS = 1_000
DEFAULT_SESSION = "default"
# Number of context words that are added to a keyword search if the embedding is LSA, whose vectors contain only
# relations that occur in the texts. nDCG@10 without and with five words, for conversations about three subjects: .301
# and .316, .574 and .584, .277 and .275.
CONTEXT_WORDS = 5
FUSED = 50  # number of hits of each search that are fused, so that a larger k only adds results at the end
# Ratio of the best scores above which two searches are considered equally good (benchmarks/README.md).
SIMILAR_SCORE = 0.9


class AdvancedRetriever(base.ObservedRetriever, ConversationFields):
    """Retriever that completes follow-up questions from the conversation, and then searches with another retriever.

    ``retriever`` is any LangChain retriever. ``expander`` is None (questions are not completed), the name of an
    expander, a mapping with its parameters, or a function that takes the question and the turns before it, and returns
    a string or an :class:`~langchain_hybridgraph.search.conversation.ExpandedQuery`. A string is treated as ``sure``
    and as having no ``context``. The default, :class:`HistoryTerms`, needs no model and does not change self-contained
    questions. For a message that is only a greeting, thanks or a goodbye, nothing is searched for (``small-talk``).

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

    model_config = ConfigDict(extra="forbid", validate_default=True)

    retriever: BaseRetriever = Field(kw_only=False, description="Retriever to wrap.")
    if not TYPE_CHECKING:  # type checkers derive the arguments of the constructor from the fields

        def __init__(self, retriever: BaseRetriever, **settings: Any) -> None:
            check_first(type(self), retriever, BaseRetriever)
            super().__init__(**{**settings, "retriever": retriever})

    k: int | None = Field(default=None, ge=0, description="Number of results; unset: the k of the wrapped retriever.")
    annotate: Annotate | None = Field(
        default=None,
        description="Metadata of the Documents that invoke returns; unset: the setting of the wrapped retriever, or "
        "none.",
    )

    _queries: base.TextsOfCalls[deque[str]] = PrivateAttr(default_factory=base.TextsOfCalls)

    # -- construction ---------------------------------------------------------------------------------------

    @classmethod
    def from_documents(cls, documents: Sequence[Document], *arguments: Any, **settings: Any) -> Self:
        """Return a retriever that wraps a HybridRetriever with these Documents in a new or existing store.

        The arguments are those of :meth:`HybridRetriever.from_documents`, and settings of this class.
        """
        return cls._wrap(HybridRetriever.from_documents, documents, *arguments, **settings)

    @classmethod
    def from_texts(cls, texts: Sequence[str], *arguments: Any, **settings: Any) -> Self:
        """Return a retriever that wraps a HybridRetriever with these texts in a new or existing store.

        The arguments are those of :meth:`HybridRetriever.from_texts`, and settings of this class.
        """
        return cls._wrap(HybridRetriever.from_texts, texts, *arguments, **settings)

    @classmethod
    def from_store(cls, store: VectorStore, **settings: Any) -> Self:
        """Return a retriever that wraps a HybridRetriever with this store."""
        return cls._wrap(HybridRetriever, store, **settings)

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
        arguments = configured.arguments("advanced")
        kind = kinds.get(arguments.pop("retriever", "hybrid"), HybridRetriever)
        return cls._wrap(kind.from_settings, configured, store=store, **(arguments | settings))

    @classmethod
    def _wrap(cls, create: Callable[..., BaseRetriever], *arguments: Any, **settings: Any) -> Self:
        """Create the inner retriever with all settings, including k, that are not those of this class."""
        own = {name: settings.pop(name) for name in ConversationFields.model_fields if name in settings}
        return cls(create(*arguments, **settings), **own)

    # -- retrieving -----------------------------------------------------------------------------------------

    def retrieve(self, query: str | None, k: int | None = None, **options: Any) -> Result:
        """Return the same result as :meth:`retrieve_with_context`; the history is ``conversation_history=`` here."""
        return self._run(self._prepare(query, base.with_k(options, k)))

    async def aretrieve(self, query: str | None, k: int | None = None, **options: Any) -> Result:
        """Return the same result as :meth:`retrieve`, without blocking the event loop."""
        return await self._arun(self._prepare(query, base.with_k(options, k)))

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
        return explain_result(self.retrieve_with_context(query, conversation_history, k, **options))

    def _prepare(self, query: Any, options: Mapping[str, Any], callbacks: Any = None) -> ConversationSearch:
        """Check a call; ``options`` are those of this retriever and of the wrapped one."""
        others, names = dict(options), (HISTORY, "k", "session_id", "annotate", "return_scores", base.EARLY)
        own = {name: others.pop(name, None) for name in names}
        if not isinstance(query, str) and (query is not None or "vector" not in others):
            raise query_error(query)
        k: Any = self.k if own["k"] is None else own["k"]
        check_values(type(self), {"k": k, "annotate": own["annotate"]})
        check_values(MemoryFields, {"session_id": own["session_id"]})
        inner = AnyRetriever(self.retriever)
        inner.check(others, type(self).__name__, (HISTORY, "session_id"))
        session_id = own["session_id"]
        if session_id is not None and inner.pipeline is not None and inner.takes("session_id"):
            others["session_id"] = session_id
        default = self.annotate if self.annotate is not None or inner.pipeline is None else inner.pipeline.annotate
        deadline_ms = inner.setting("deadline_ms", others)
        trace = effects.Trace()
        text = bounded(query, trace.degrade)
        deadline = effects.deadline_in(None if deadline_ms is None else deadline_ms / 1e3)
        return ConversationSearch(
            self,
            inner,
            query=text,
            history=own[HISTORY],
            k=inner.setting("k", {}) if k is None else k,
            session_id=session_id or DEFAULT_SESSION,
            options=others,
            trace=trace,
            callbacks=callbacks,
            level=chosen_level(own["annotate"], own["return_scores"], default or "none"),
            early=own[base.EARLY],
            deadline=deadline,
            until=effects.part_of_deadline(deadline, 0.5),
            expanded_query=ExpandedQuery(text or ""),
        )

    # -- past queries ---------------------------------------------------------------------------------------

    @property
    def query_history(self) -> list[str]:
        """Last 10 raw queries of the default session, oldest first; not part of a pickle."""
        return self.history_for(DEFAULT_SESSION)

    def history_for(self, session_id: str) -> list[str]:
        """Return the last 10 raw queries of a session, oldest first. Only the 1,000 newest sessions are kept."""
        check_name(session_id, "session_id")
        return list(self._queries.get(session_id, ()))

    # -- in chains and agents -------------------------------------------------------------------------------

    @property
    def _tool_arguments(self) -> type[BaseModel]:  # type: ignore[override]  # depends on the wrapped retriever
        inner_retriever = self.retriever
        own: type[BaseModel] = SearchArguments if AnyRetriever(inner_retriever).takes("filter") else QueryArguments
        own = inner_retriever._tool_arguments if isinstance(inner_retriever, base.PipelineRetriever) else own
        if self.get_session_history is not None:
            return own
        return create_model(f"Conversational{own.__name__}", __base__=(own, _ConversationArguments))

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

    def _search(self, prepared_search: ConversationSearch) -> effects.Search[Result]:
        search = prepared_search

        def results(result: Result) -> list[tuple[str, float]]:
            return base.hits_of(result.hits) if result.hits else base.scores_of(result, search.inner.prefix)

        if search.query is not None:
            self._queries.setdefault(search.session_id, deque(maxlen=REMEMBERED_QUERIES)).append(search.query)
            if len(self._queries) > REMEMBERED_SESSIONS:
                self._queries.popitem(last=False)
        return (yield from self._observed(search.run(), search.trace, search.query, search.k, results))


# The search of a call.


@dataclass(slots=True)
class ConversationSearch:
    """Search in four stages: read the history, expand the question, run the search, describe the answer.

    The options of the call have been checked. ``level`` is the level of annotation. ``early`` receives, before the
    answer is complete, Documents that are certain to be in it. ``deadline`` and ``until``, the limit for reading the
    history and expanding the question, are ``time.monotonic()`` times.
    """

    outer: AdvancedRetriever
    inner: AnyRetriever
    query: str | None
    history: Any
    k: int | None
    session_id: str
    options: Mapping[str, Any]
    trace: effects.Trace
    callbacks: Any
    level: Annotate
    early: Any
    deadline: float | None
    until: float | None
    expanded_query: ExpandedQuery

    def run(self) -> effects.Search[Result]:
        """Return the answer. Reading the history and expanding the question take at most half of the time."""
        turns_before = yield from self._read_history()
        last, text = turns_before[-1].text if turns_before else "", self.query or ""
        if text.strip() and self.options.get("vector") is None and is_small_talk(text, last):
            self.trace.degrade("small-talk")
            return self._describe("none", RetrievalResult([]))
        if turns_before and text.strip() and self.outer.expander is not None:
            yield from self._expand(text, turns_before)
        searched, result = yield from self._search()
        return self._describe(searched, result)

    def _read_history(self) -> effects.Search[list[Turn]]:
        trace, fetch, history = self.trace, self.outer.get_session_history, self.history
        if history is None and fetch is not None:
            run = partial(fetch, self.session_id)
            history = yield from effects.ask(trace, effects.Effect("history", run, owner=fetch, deadline=self.until))
        if history is not None and not isinstance(history, (str, Sequence, Mapping)) and has_messages(history):
            history = yield from effects.ask(trace, messages_call("history", history)._replace(deadline=self.until))
        try:
            turns_before = turns(history, self.query or "")
        except ConfigurationError as error:
            if history is self.history:  # the caller passed it
                raise
            trace.record("history", error, "history-failed")
            turns_before = []
        trace.has_context = bool(turns_before)
        return turns_before

    def _expand(self, text: str, turns_before: Sequence[Turn]) -> effects.Search[None]:
        """Expand the question, which stays unchanged if the expander fails."""
        call = expander_call(self.outer.expander, text, turns_before, deadline=self.until)
        try:
            with self.trace.stage("expand-query"):
                (answer,) = yield from effects.ask_or_raise(call)
            answer = ExpandedQuery(answer) if isinstance(answer, str) and answer.strip() else answer
            if not isinstance(answer, ExpandedQuery):
                raise TypeError(f"the expander must return a string or an ExpandedQuery, got {answer!r}")
            self.expanded_query = answer
        except Exception as error:  # noqa: BLE001 - an expander may raise anything
            self._record_failure(error)

    def _search(self) -> effects.Search[tuple[str, Result]]:
        """Search with the raw question, the expanded one, both or, with an embedding and context, a mixed vector.

        Return the kind of search as well: "raw", "expanded", "both" or "mixed".
        """
        raw, expanded_query, fuse_raw = self.query, self.expanded_query, self.outer.fuse_raw
        if not expanded_query.weight or (expanded_query.text == (raw or "") and not expanded_query.context):
            return "raw", (yield from self._search_once(raw))
        stands_alone = expanded_query.sure and not expanded_query.context
        if fuse_raw is False or (fuse_raw is None and stands_alone):
            return "expanded", (yield from self._search_once(expanded_query.text))
        embeddings = self.inner.embeddings(self.options) if expanded_query.context else None
        if embeddings is None:
            return "both", (yield from self._search_twice())
        return (yield from self._search_near_context(embeddings))

    def _search_once(self, text: str | None, vector: Vector | None = None) -> effects.Search[Result]:
        return self.inner.search(
            "retriever", text, self.k, self._options(vector), self.callbacks, level=self.level, early=self.early
        )

    def _search_twice(self) -> effects.Search[Result]:
        trace, expanded_query = self.trace, self.expanded_query
        min_score = self.inner.setting("min_score", self.options)
        # For this package's retrievers, the mean of both scores has to reach the minimum, not each score.
        options = self._options() if min_score is None else {**self._options(), "min_score": 0.0}
        depth = None if self.k is None else max(self.k, FUSED)
        texts = {"question": self.query, "conversation": expanded_query.text}
        searches = [
            effects.attempt(name, self.inner.search(name, text, depth, options, self.callbacks))
            for name, text in texts.items()
        ]
        answers = dict(zip(texts, (yield from effects.together(searches)), strict=True))
        results = _successful(answers, trace)
        weight = expanded_query.weight if expanded_query.sure else expanded_query.weight / 2
        weights = {"question": 1 - weight, "conversation": weight}
        k = max(map(len, results.values())) if self.k is None else self.k
        hits = fused_hits(results, weights, k, min_score or 0.0)
        for one in results.values():
            for reason in one.degraded:
                trace.degrade(reason)
        plan = next(iter(results.values())).plan
        documents = annotate(hits, str(plan.get("method") or "other"), prefix=self.inner.prefix, level=self.level)
        estimates = [one.answerability for one in results.values() if one.answerability is not None]
        answerability = max(estimates, key=lambda one: one.value, default=None)
        return RetrievalResult(documents, hits=hits, plan=plan, answerability=answerability)

    def _search_near_context(self, embeddings: Embeddings) -> effects.Search[tuple[str, Result]]:
        """Search with the weighted mean of the question's and its context's vectors, or the raw question on failure."""
        expanded_query, query = self.expanded_query, self.query or ""
        own = None if (vector := self.options.get("vector")) is None else check_vector(vector)
        calls = []
        for text in [expanded_query.context] if own is not None else [expanded_query.context, query]:
            awaited = partial(embeddings.aembed_query, text) if effects.is_asynchronous(embeddings) else None
            embed = partial(embeddings.embed_query, text)
            calls.append(effects.Effect("expander", embed, awaited, owner=embeddings, deadline=self.until))
        try:
            with self.trace.stage("embed"):
                vectors = yield from effects.ask_or_raise(*calls)
            context, question = unit(vectors[0]), unit(vectors[1] if own is None else own)
        except Exception as error:  # noqa: BLE001 - an embedding may raise anything; the question stays unchanged
            self._record_failure(error)
            return "raw", (yield from self._search_once(self.query))
        if context.shape != question.shape:  # the search raises the error
            return "raw", (yield from self._search_once(self.query))
        mixed = cast("Vector", (1 - expanded_query.weight) * question + expanded_query.weight * context)
        if getattr(self.inner.retriever, "reranker", None) is not None:
            # A reranker reads only text, so it needs the words that the follow-up question leaves out.
            return "mixed", (yield from self._search_once(expanded_query.text, mixed))
        if expanded_query.sure:
            is_fitted = isinstance(embeddings, FittedEmbedding)
            text = _with_context_words(query, expanded_query.text) if is_fitted else query
            return "mixed", (yield from self._search_once(text, mixed))
        searches = [
            self.inner.search(name, self.query, self.k, self._options(each), self.callbacks, level=self.level)
            for name, each in (("question", question), ("conversation", mixed))
        ]
        by_question, by_context = yield from effects.together(searches)
        return ("raw", by_question) if is_new_topic(by_question, by_context) else ("mixed", by_context)

    def _options(self, vector: Vector | None = None) -> dict[str, Any]:
        """Return the options of the call, with the vector and the time that is left."""
        options = dict(self.options) if vector is None else {**self.options, "vector": vector}
        if self.deadline is not None:
            options["deadline_ms"] = max(1.0, (self.deadline - time.monotonic()) * 1e3)
        return options

    def _record_failure(self, error: Exception) -> None:
        """Record an error that makes the search use the raw question, or raise it if a setting is invalid."""
        if isinstance(error, HybridGraphError) and isinstance(error, ValueError):
            raise error
        self.trace.record("expander", error, "expander-failed")

    def _describe(self, searched: str, result: Result) -> Result:
        trace, expanded_query, has_own_reasons = self.trace, self.expanded_query, bool(self.trace.reasons)
        trace.method = str(result.plan.get("method") or "other")
        trace.errors = result.plan.get("errors", {}) | trace.errors
        for reason in result.degraded:
            trace.degrade(reason)
        documents, hits = list(result)[: self.k], result.hits[: self.k]
        if self.level == "all" and has_own_reasons:
            notes = {self.inner.prefix + "degraded": list(trace.reasons)}
            if not hits:  # other retrievers may return stored Documents, which must not be changed
                documents = [document.model_copy(update={"metadata": {**document.metadata}}) for document in documents]
            for document in documents:
                document.metadata |= notes
        plan = result.plan | {
            "query": self.query,
            "k": self.k,
            "expanded_query": expanded_query.text,
            "context": expanded_query.context,
            "weight": expanded_query.weight,
            "searched": searched,
            "stages_ms": {name: round(ms, 3) for name, ms in trace.stages.items()} | result.plan.get("stages_ms", {}),
            "errors": trace.errors,
        }
        return RetrievalResult(
            documents,
            hits=hits,
            degraded=trace.reasons,
            took_ms=trace.took_ms,
            plan=plan,
            answerability=result.answerability,
        )


def _with_context_words(query: str, expanded_query: str) -> str:
    """Return the query twice, to double its weight, and the first words that only the expanded query contains.

    >>> _with_context_words("and its price?", "and its price? red cars Tesla Roadster")
    'and its price? and its price? red cars Tesla Roadster'
    """
    words = query.lower().split()
    lacking = [word for word in expanded_query.split() if word.lower() not in words]
    return " ".join([query, query, *lacking[:CONTEXT_WORDS]]) if lacking else query


def is_new_topic(by_question: Result, by_context: Result) -> bool:
    """Return whether a question changes the topic of its conversation.

    This is so if the best score of the search with the question mixed with its context is clearly lower than that of
    the question alone: no chunk is then similar to both.
    """
    question, context = (one.hits[0].score / _unit(one) if one.hits else 0.0 for one in (by_question, by_context))
    return context < SIMILAR_SCORE * question


def _unit(result: Result) -> float:
    """Return the factor by which the scores of a result were calibrated, or 1 if they were not calibrated."""
    return 1.0 if result.answerability is None else result.answerability.unit


# Fusion of the answers of two searches.


def _successful(answers: Mapping[str, Result | effects.Failure], trace: effects.Trace) -> dict[str, Result]:
    """Return the successful answers, and record the failures; raise the first error if all searches failed.

    A TypeError or ValueError of the first search is always raised, because it means that the call was invalid.
    """
    results = {name: one for name, one in answers.items() if not isinstance(one, effects.Failure)}
    first = next(iter(answers))
    for name, failure in answers.items():
        if isinstance(failure, effects.Failure):
            if not results or (name == first and isinstance(failure.error, (TypeError, ValueError))):
                raise failure.error
            trace.note(failure.source, failure.error)
            trace.degrade(failure.reason)
    return results


def fused_hits(results: Mapping[str, Result], weights: Mapping[str, float], k: int, min_score: float) -> list[Hit]:
    """Return the k best hits by the weighted mean of their scores in the searches, which is at least ``min_score``.

    A hit has the score 0 in a search that did not find it. The mean is computed from the uncalibrated scores, and then
    calibrated. The Documents of other libraries' retrievers have the score 61 / (60 + rank), so the mean is that of
    weighted reciprocal rank fusion.
    """
    hits_by_id = {name: _hits_by_id(name, result) for name, result in results.items()}
    rankings = []
    for name, hits in hits_by_id.items():
        scores = {hit.id: hit.score / _unit(results[name]) for hit in hits.values()}
        rankings.append(Ranking(name, weights[name], list(scores), scores, bound=1.0))
    firsts = {one.source: weights[one.source] * one.scores[one.ids[0]] for one in rankings if one.ids}
    total = math.fsum(firsts.values())
    unit = math.fsum(first * _unit(results[name]) for name, first in firsts.items()) / total if total else 1.0
    best = ConvexCombination(normalize="bound")(rankings)
    return [
        _fused_hit(one, unit, {name: hits[one.id] for name, hits in hits_by_id.items() if one.id in hits})
        for one in best[:k]
        if min(1.0, unit * one.score) >= min_score
    ]


def _hits_by_id(name: str, result: Result) -> dict[str, Hit]:
    hits: dict[str, Hit] = {hit.id: hit for hit in result.hits}
    for rank, document in enumerate([] if hits else result, start=1):
        chunk = Chunk(chunk_id(document), document.page_content, document.metadata)
        score = 61 / (60 + rank)
        hits.setdefault(chunk.id, Hit(chunk, score, name, {name: score}, path=(chunk.id,), found_by=(name,)))
    return hits


def _fused_hit(fused: FusedCandidate, unit: float, hits: Mapping[str, Hit]) -> Hit:
    """Return the hit of the first search that found it, with the fused score and what only the other search knows.

    Its parts are those of each search, in proportion to the part of the search in the fused score.
    """
    first, other = next(iter(hits.values())), list(hits.values())[-1]
    parts: dict[str, float] = defaultdict(float)
    for name, hit in hits.items():
        for part, value in hit.parts.items() if hit.score else ():
            parts[part] += unit * fused.parts.get(name, 0.0) * value / hit.score
    return replace(
        first,
        score=min(1.0, unit * fused.score),
        source=first.source if first.source == other.source else "fused",
        parts=dict(parts),
        vector_score=other.vector_score if first.vector_score is None else first.vector_score,
        bm25_score=other.bm25_score if first.bm25_score is None else first.bm25_score,
        rerank_score=other.rerank_score if first.rerank_score is None else first.rerank_score,
        found_by=tuple(dict.fromkeys([*first.found_by, *other.found_by])),
    )


# The conversation in tools and chains.


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
