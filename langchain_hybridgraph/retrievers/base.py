"""Base classes of the retrievers."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence, Sized
from contextlib import aclosing, suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, Unpack

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import BaseModel, ConfigDict, PrivateAttr

from langchain_hybridgraph import telemetry as events
from langchain_hybridgraph.adapters.documents import annotate, chosen_level, chunk_id, resolve_as_of
from langchain_hybridgraph.adapters.tool import SearchArguments, arguments_schema, search_tool
from langchain_hybridgraph.display import explain_result, fields_table
from langchain_hybridgraph.errors import ConfigurationError, TenantError, quote_value
from langchain_hybridgraph.execution.effects import Search, Trace, adrive, drive
from langchain_hybridgraph.execution.threads import Job, lane_of, submit
from langchain_hybridgraph.filters.expressions import parse_filter
from langchain_hybridgraph.options import arguments
from langchain_hybridgraph.options.arguments import OF_ALL, CallSettings, Options
from langchain_hybridgraph.options.base import CheckedModel, GroupOf, OptionGroup, check_values, group_field
from langchain_hybridgraph.options.models import PipelineFields, TelemetryOptions
from langchain_hybridgraph.records import Annotate, Query, Scope
from langchain_hybridgraph.registry import name_of
from langchain_hybridgraph.result import RetrievalResult
from langchain_hybridgraph.search.context import CertainHits, Pipeline, TokenBudget
from langchain_hybridgraph.search.evidence import CombinedTraversal
from langchain_hybridgraph.search.expansion import TRAVERSALS, Expansion
from langchain_hybridgraph.search.fusion import FUSIONS, ConvexCombination
from langchain_hybridgraph.search.pipeline import search
from langchain_hybridgraph.search.scores import GRAPH_SCORES
from langchain_hybridgraph.search.sources import Source
from langchain_hybridgraph.search.traversals import Traversal
from langchain_hybridgraph.stores.protocols import ListsChunks, ReadsChunks, implements
from langchain_hybridgraph.text.analyzer import bounded

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool

Answer = TypeVar("Answer", bound=Sized)
Value = TypeVar("Value")
EARLY = "_early"
"""Name of an option of ``invoke``: a function that receives Documents before the answer is complete.

``stream`` yields no early Documents if this option is False.
"""

HandOut = Callable[[Document], None]
"""Function that receives a Document before the answer is complete."""


class StreamingRetriever(BaseRetriever, CheckedModel):
    """Retriever that streams its answer, one Document at a time."""

    @property
    def _streams_early(self) -> bool:
        """Whether ``invoke`` accepts :data:`EARLY` and may hand out Documents before its slow stages run."""
        return False

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        """Return the Documents for a question; ``kwargs`` are the options of a call."""
        check_config(config)
        query, options = self._read(input, config, kwargs)
        return super().invoke(query, config, **options)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> list[Document]:
        """Return the same result as :meth:`invoke`, without blocking the event loop."""
        check_config(config)
        query, options = self._read(input, config, kwargs)
        return await super().ainvoke(query, config, **options)

    def batch(self, inputs: list[Any], config: Any = None, **options: Any) -> list[Any]:
        """Return the Documents for several questions, in the same order (see :meth:`Runnable.batch`)."""
        check_configs(config)
        return super().batch(inputs, config, **options)

    async def abatch(self, inputs: list[Any], config: Any = None, **options: Any) -> list[Any]:
        """Return the same result as :meth:`batch`, without blocking the event loop."""
        check_configs(config)
        return await super().abatch(inputs, config, **options)

    def batch_as_completed(self, inputs: Sequence[Any], config: Any = None, **options: Any) -> Iterator[Any]:
        """Yield the position and the Documents of each question when they are found."""
        check_configs(config)
        return super().batch_as_completed(inputs, config, **options)

    def abatch_as_completed(self, inputs: Sequence[Any], config: Any = None, **options: Any) -> AsyncIterator[Any]:
        """Yield the same results as :meth:`batch_as_completed`, without blocking the event loop."""
        check_configs(config)
        return super().abatch_as_completed(inputs, config, **options)

    def _read(self, input: Any, config: RunnableConfig | None, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return input, options

    def stream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[list[Document]]:
        """Yield the answer in lists of one Document each.

        Some hits are certain to be in the answer before edges are followed or a reranker runs. These are yielded first,
        with their search scores; their ``retrieval_rank`` is None if it is not known yet. When the answer is complete,
        the other Documents follow, best first. From then on, all Documents, including the early ones, have the metadata
        that ``invoke`` returns, such as its ``retrieval_rank``. (In a chain, they are yielded in its order; see
        :meth:`transform`.)

        If early hits are possible, the search runs in another thread, and completes even if the stream is not read to
        its end.
        """
        if not kwargs.pop(EARLY, self._streams_early):
            yield from _one_by_one(self.invoke(input, config, **kwargs), ())
            return
        parts: SimpleQueue[Document | None] = SimpleQueue()
        search = partial(self.invoke, input, config, **kwargs, **{EARLY: parts.put})
        answer = Job(search, lane_of("stream", self), copy_context())
        answer.add_done_callback(lambda _: parts.put(None))
        submit(answer)
        early = []
        while (document := parts.get()) is not None:
            early.append(document)
            yield [document]
        yield from _one_by_one(answer.result(), early)

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[list[Document]]:
        """Yield the same lists as :meth:`stream`. Closing the stream cancels the search."""
        if not kwargs.pop(EARLY, self._streams_early):
            for part in _one_by_one(await self.ainvoke(input, config, **kwargs), ()):
                yield part
            return

        def search(hand_out: HandOut) -> Coroutine[Any, Any, Sequence[Document]]:
            return self.ainvoke(input, config, **kwargs, **{EARLY: hand_out})

        async with aclosing(stream_documents(search)) as parts:
            async for part in parts:
                yield part

    def transform(
        self, input: Iterator[Any], config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[list[Document]]:
        """Yield the complete answer in lists of one Document each, in the order of ``invoke``.

        LangChain calls this method when a chain is streamed. The next step of the chain receives the sum of the lists,
        so the Documents must already be in their final order.
        """
        yield from super().transform(input, config, **kwargs, **{EARLY: False})

    async def atransform(
        self, input: AsyncIterator[Any], config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[list[Document]]:
        """Yield the same lists as :meth:`transform`."""
        async for part in super().atransform(input, config, **kwargs, **{EARLY: False}):
            yield part


async def stream_documents(
    search: Callable[[HandOut], Coroutine[Any, Any, Sequence[Document]]],
) -> AsyncGenerator[list[Document], None]:
    """Yield the Documents that ``search`` hands out early, and then the others in its answer, one at a time.

    Closing the generator cancels the search.
    """
    loop = asyncio.get_running_loop()
    parts: asyncio.Queue[Document | None] = asyncio.Queue()

    def hand_out(document: Document) -> None:
        with suppress(RuntimeError):  # the loop is closed, so nothing reads the stream
            loop.call_soon_threadsafe(parts.put_nowait, document)

    answer = asyncio.create_task(search(hand_out))
    answer.add_done_callback(lambda _: parts.put_nowait(None))
    early = []
    try:
        while (document := await parts.get()) is not None:
            early.append(document)
            yield [document]
        for part in _one_by_one(await answer, early):
            yield part
    finally:
        answer.cancel()


def check_config(config: object) -> None:
    """Raise ConfigurationError for options of a call, or another value, instead of LangChain's config."""
    if not isinstance(config, Mapping | None):
        example = f": write k={config}" if type(config) is int else ""
        raise ConfigurationError(
            f"the second argument is LangChain's config, a mapping, got {quote_value(config)}; options are passed by "
            f"name{example}"
        )
    if names := sorted(OF_ALL & (config or {}).keys()):
        raise ConfigurationError(
            f"the second argument is LangChain's config, which has no {' and no '.join(map(repr, names))}; options are "
            f"passed by name: write {', '.join(f'{name}=…' for name in names)}"
        )


def check_configs(configs: object) -> None:
    """Check the configuration of a batch, or the list of one for each input (see :func:`check_config`)."""
    for config in configs if isinstance(configs, list | tuple) else [configs]:
        check_config(config)


class EarlyDocuments:
    """Documents of one call that were handed out before its answer was complete."""

    def __init__(self, hand_out: HandOut) -> None:
        self._hand_out = hand_out
        self._documents: dict[str | None, Document] = {}

    def hand_out(self, documents: Sequence[Document]) -> None:
        """Pass the Documents to the caller's function, except those that were handed out before."""
        for document in documents:
            if document.id not in self._documents:
                self._documents[document.id] = document
                self._hand_out(document)

    def completed(self, documents: Sequence[Document]) -> list[Document]:
        """Return the answer, reusing the early Documents, which receive all of its metadata."""
        answer = []
        for document in documents:
            early = self._documents.get(document.id, document)
            early.page_content, early.metadata = document.page_content, document.metadata
            answer.append(early)
        return answer


def _one_by_one(documents: Sequence[Document], early: Sequence[Document]) -> list[list[Document]]:
    """Return the remaining Documents in lists of one, or one empty list for an empty answer."""
    early_ids = {id(document) for document in early}
    return [[document] for document in documents if id(document) not in early_ids] or ([] if early else [[]])


class TextsOfCalls(OrderedDict[str, Value]):
    """Texts of the calls of a retriever, or values by text. An unpickled retriever has none."""

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        return type(self), ()


class ObservedRetriever(StreamingRetriever):
    """Retriever that reports its searches to its own and the process-wide sinks (``add_sink``), and counts them."""

    telemetry: GroupOf[TelemetryOptions] = group_field(
        TelemetryOptions, description="Tracer, logger and sinks of this retriever.", repr=False, exclude=True
    )

    _statistics: events.RetrievalStatistics = PrivateAttr(default_factory=events.RetrievalStatistics)
    _tool_arguments: ClassVar[type[BaseModel]] = SearchArguments  # a subclass may set another one

    if not TYPE_CHECKING:  # type checkers check the arguments of __init__

        def __new__(cls, *positional: Any, **settings: Any) -> Self:
            """Raise TypeError for too many positional arguments, with the call to write."""
            arguments.check_positions(cls, positional, settings)
            return super().__new__(cls)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            if not isinstance(value, OptionGroup) or value.model_fields_set:
                yield name, value

    def _repr_html_(self) -> str:
        fields = type(self).model_fields
        first = [name for name in ("vector_store", "retriever", "k") if name in fields]
        others = [name for name, each in fields.items() if each.repr and name in self.model_fields_set]
        names = dict.fromkeys([*first, *others])
        return fields_table(type(self).__name__, {name: _display_value(getattr(self, name)) for name in names})

    def get_retrieval_stats(self) -> dict[str, Any]:
        """Return statistics of the calls so far (see :meth:`RetrievalStatistics.report`)."""
        return self._statistics.report()

    def as_tool(
        self,
        args_schema: type[BaseModel] | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        arg_types: dict[str, type] | None = None,
    ) -> BaseTool:
        """Return a tool for agents that takes a query, k and a filter, and returns text.

        The ``artifact`` of the tool message contains the Documents. The tool of an AdvancedRetriever takes a filter if
        the wrapped retriever does, and earlier turns as ``conversation_history``, unless ``get_session_history`` is
        set. In a LangGraph agent, the session is the ``thread_id`` of the configuration. ``args_schema`` replaces the
        schema of the arguments (``query`` and options of a call). LangChain's ``arg_types`` raises ConfigurationError.

        >>> from langchain_hybridgraph import HybridGraphStore, HybridRetriever
        >>> store = HybridGraphStore.from_texts(["Trains carry coal.", "Ships sail."], "lsa", ids=["train", "ship"])
        >>> tool = HybridRetriever(store).as_tool(name="search_notes", description="Searches the notes.")
        >>> print(tool.invoke({"query": "coal", "k": 1}).splitlines()[2])
        Trains carry coal.
        """
        return search_tool(self, arguments_schema(args_schema, arg_types, self._tool_arguments), name, description)

    def _observed(
        self, search: Search[Answer], trace: Trace, query: object, k: object, results: events.Results
    ) -> Search[Answer]:
        """Run a search, count it, and report it to the sinks, if there are any.

        ``results`` is a function that returns the ids and scores of the answer.
        """
        listeners = self.telemetry
        own = list(map(events.delivery_for, listeners.sinks))
        if listeners.tracer is not None:
            own.append(events.delivery_for(listeners.tracer, events.OpenTelemetrySink))
        if listeners.logger is not None:
            own.append(events.delivery_for(listeners.logger, events.LogSink))
        if deliveries := events.deliveries_for_search(own):
            name = type(self).__name__
            search = events.report_search(search, deliveries, trace, retriever=name, query=query, k=k, results=results)
        try:
            answer = yield from search
        except Exception as error:
            self._statistics.record_error(error)
            raise
        self._statistics.record_answer(trace, len(answer))
        trace.results = partial(results, answer)
        return answer

    # -- one search -----------------------------------------------------------------------------------------

    @abstractmethod
    def _prepare(self, query: Any, options: Options, callbacks: Any = None) -> Any:
        """Return a call that is ready to run, with its ``trace`` and ``deadline``."""

    @abstractmethod
    def _search(self, prepared_search: Any) -> Search[RetrievalResult[Document]]:
        """Run a call."""

    @property
    @abstractmethod
    def _lane(self) -> Any:
        """Queue of the search's calls: one for each store or retriever that is searched."""

    def _run(self, prepared_search: Any) -> RetrievalResult[Document]:
        return drive(self._search(prepared_search), prepared_search.deadline)

    async def _arun(self, prepared_search: Any) -> RetrievalResult[Document]:
        return await adrive(self._search(prepared_search), prepared_search.deadline, self._lane)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        prepared_search = self._prepare(query, options, run_manager.get_child())
        try:
            return self._run(prepared_search)[:]
        finally:
            if run_manager.handlers:
                events.report_stages(run_manager, prepared_search.trace)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        prepared_search = self._prepare(query, options, run_manager.get_child())
        try:
            return (await self._arun(prepared_search))[:]
        finally:
            if run_manager.handlers:
                await events.areport_stages(run_manager, prepared_search.trace)


def _display_value(value: Any) -> Any:
    if isinstance(value, OptionGroup):
        return {name: getattr(value, name) for name in sorted(value.model_fields_set)}
    if value is None:
        return None
    text = repr(value)
    return type(value).__name__ if text.startswith("<") else text


def hits_of(hits: Sequence[Any]) -> list[tuple[str, float]]:
    """Return the ids and scores of hits."""
    return [(hit.id, hit.score) for hit in hits]


def scores_of(documents: Sequence[Document], prefix: str = "") -> list[tuple[str, float]]:
    """Return the ids and scores of Documents; the score is 0 if the metadata contain none."""
    scores_by_id = [(chunk_id(document), document.metadata.get(prefix + "relevance_score")) for document in documents]
    return [(id, float(score) if isinstance(score, int | float) else 0.0) for id, score in scores_by_id]


class PipelineRetriever(ObservedRetriever, PipelineFields):
    """Base class of the retrievers that search with the pipeline, with their common settings.

    ``invoke`` returns Documents with exactly the stored metadata, unless ``annotate`` adds scores and provenance.
    :meth:`retrieve` adds scores and provenance by default, and the ``hits`` of its result always contain them.
    ``filter`` and ``tenant`` apply to every call. If a call has its own filter, chunks must match both filters.
    ``as_of`` (ISO 8601, datetime or Unix seconds) is the point in time to search as of. None means now. With
    ``ALL_TIME``, the validity of chunks is not checked.

    Raises ValueError (pydantic's ValidationError) for unknown, invalid and contradictory options.
    """

    model_config = ConfigDict(extra="forbid", validate_default=True, validate_assignment=True)

    _call_options: ClassVar[frozenset[str]] = OF_ALL

    # -- what a kind of retriever decides -------------------------------------------------------------------

    @property
    @abstractmethod
    def _store(self) -> ReadsChunks:
        """Store that is searched."""

    @abstractmethod
    def _sources(self, options: Options, callbacks: Any = None) -> tuple[Source, ...]:
        """Return the sources for a call; ``callbacks`` are passed to sources that call another retriever."""

    # -- retrieving -----------------------------------------------------------------------------------------

    def retrieve(
        self, query: str | None, k: int | None = None, **options: Unpack[CallSettings]
    ) -> RetrievalResult[Document]:
        """Return the k best Documents, with ``degraded``, ``took_ms``, ``plan`` and ``hits``.

        ``options`` are the fields of :class:`CallSettings`, as for ``invoke``. The query may be None if ``vector=`` is
        passed. Raises RetrievalError if no source could answer, FilterError for an invalid filter, TenantError if the
        call's tenant is not the retriever's, TypeError for an unknown option, and ValueError for other invalid options.
        """
        return self._run(self._prepare(query, with_k(options, k)))

    async def aretrieve(
        self, query: str | None, k: int | None = None, **options: Unpack[CallSettings]
    ) -> RetrievalResult[Document]:
        """Return the same result as :meth:`retrieve`, without blocking the event loop."""
        return await self._arun(self._prepare(query, with_k(options, k)))

    def explain(self, query: str | None, k: int | None = None, **options: Unpack[CallSettings]) -> str:
        """Explain the answer of :meth:`retrieve` in words. For an existing answer, use ``display.explain_result``."""
        return explain_result(self.retrieve(query, k, **options))

    @property
    def _lane(self) -> Any:
        return lane_of("search", self._store)

    @property
    def _streams_early(self) -> bool:
        return self.reranker is not None or self._graph is not None

    def _prepare(self, query: str | None, options: Options, callbacks: Any = None) -> PreparedSearch:
        hand_out = options.get(EARLY)
        options = {name: value for name, value in options.items() if value is not None and name != EARLY}
        if unknown := {name: options[name] for name in sorted(options.keys() - self._call_options)}:
            raise arguments.unknown_options(type(self), unknown, self._call_options)
        check_values(type(self), options)
        trace = Trace(raises=self.on_error == "raise")
        pipeline = self._pipeline(options, callbacks)
        level = chosen_level(options.get("annotate"), options.get("return_scores"), self.annotate)
        early = None
        if hand_out is not None:
            early = EarlyDocuments(hand_out)
            pipeline = replace(pipeline, announce=partial(self._announce, early, trace, level))
        vector, k = options.get("vector"), int(options.get("k", self.k))
        vector = None if vector is None else arguments.check_vector(vector)
        pipeline_query = Query(bounded(query, trace.degrade), k, self._scope(options), vector)
        deadline_ms = options.get("deadline_ms", self.deadline_ms)
        deadline = None if deadline_ms is None else time.monotonic() + deadline_ms / 1e3
        return PreparedSearch(pipeline_query, pipeline, trace, deadline, level, early)

    # The options that the following methods receive are not None.

    def _pipeline(self, options: Options, callbacks: Any) -> Pipeline:
        store = self._store
        expansion, selection = self._expansion(options), self.selection.changed(options.get("selection"))
        budget, max_tokens = selection.budget, options.get("max_tokens")
        if max_tokens is not None:
            budget = replace(budget or TokenBudget(), max_tokens=max_tokens)
        return Pipeline(
            **selection.shared_with(Pipeline) | {"budget": budget or self._default_budget},
            store=store,
            sources=self._sources(options, callbacks),
            fusion=self._default_fusion if self.fusion is None else self.fusion,
            source_filter=None if expansion is None else expansion.source_filter,
            graph=self._graph,
            expansion=expansion,
            parents=self.return_parents,
            reranker=self.reranker,
            min_score=options.get("min_score", self.min_score),
            on_error=self.on_error,
            listing=store.list_chunks if implements(store, ListsChunks) else None,
            count=partial(len, store) if implements(store, Sized) else None,
            own_filter=self.filter,
        )

    _default_fusion: ClassVar[Any] = ConvexCombination()
    _default_budget: ClassVar[Any] = None

    def _expansion(self, options: Options) -> Expansion | None:
        return None

    _graph: ClassVar[Any] = None  # the graph whose edges an expansion follows

    def _scope(self, options: Options) -> Scope:
        tenant = options.get("tenant", self.tenant)
        if self.tenant is not None and tenant != self.tenant:
            raise TenantError(f"the retriever is for tenant {self.tenant!r}, but the call requests {tenant!r}")
        scope = Scope(self.filter, tenant, resolve_as_of(options.get("as_of", self.as_of)))
        narrower = parse_filter(options["filter"]) if "filter" in options else None
        return scope if narrower is None else scope.narrowed(narrower)

    def _search(self, prepared_search: PreparedSearch) -> Search[RetrievalResult[Document]]:
        query, trace = prepared_search.query, prepared_search.trace

        def run() -> Search[RetrievalResult[Document]]:
            hits = yield from search(query, prepared_search.pipeline, trace)
            documents = annotate(hits, trace.method, trace.reasons, self.metadata_prefix, prepared_search.level)
            if prepared_search.early is not None:
                documents = prepared_search.early.completed(documents)
            return RetrievalResult(
                documents,
                hits=hits,
                degraded=trace.reasons,
                took_ms=trace.took_ms,
                plan=prepared_search.plan,
                answerability=trace.answerability,
            )

        result = yield from self._observed(run(), trace, query.text, query.k, lambda result: hits_of(result.hits))
        trace.results = partial(hits_of, result.hits)  # without the plan of the result, which refers to the trace
        return result

    def _announce(self, early: EarlyDocuments, trace: Trace, level: Annotate, certain: CertainHits) -> None:
        """Hand out the Documents of hits that are already certain to be in the answer."""
        documents = annotate(certain.hits, trace.method, trace.reasons, self.metadata_prefix, level)
        if level == "all" and not certain.is_head:
            for document in documents:
                document.metadata[f"{self.metadata_prefix}retrieval_rank"] = None
        early.hand_out(documents)


@dataclass(frozen=True, slots=True)
class PreparedSearch:
    """A call of a retriever that is ready to run: its query, pipeline, trace, deadline and level of annotation.

    ``tree_call`` is the call of a hierarchical search.
    """

    query: Query
    pipeline: Pipeline
    trace: Trace
    deadline: float | None
    level: Annotate = "all"
    early: EarlyDocuments | None = None
    tree_call: Any = None

    def plan(self) -> dict[str, Any]:
        """Return the ``plan`` of a result: the query, the main settings, the time of each stage, errors and remarks."""
        expansion = self.pipeline.expansion
        return {
            "query": self.query.text,
            "k": self.query.k,
            "filter": None if self.query.scope.filter is None else self.query.scope.filter.to_dict(),
            "method": self.trace.method,
            "weights": {source.name: source.weight for source in self.pipeline.sources},
            "fusion": name_of(self.pipeline.fusion, FUSIONS),
            "walk": None
            if expansion is None
            else {"traversal": _traversal_name(expansion.traversal), "score": name_of(expansion.score, GRAPH_SCORES)},
            "stages_ms": self.trace.stages,
            "errors": dict(self.trace.errors),
            "remarks": dict(self.trace.remarks),
        }


def _traversal_name(traversal: Traversal) -> str:
    if isinstance(traversal, CombinedTraversal):
        return f"{_traversal_name(traversal.evidence)} and {_traversal_name(traversal.beyond)}"
    return name_of(traversal, TRAVERSALS)


def with_k(options: Mapping[str, Any], k: int | None) -> Options:
    """Return the options with k and a level of annotation."""
    return {**options, "k": k, "annotate": "all" if options.get("annotate") is None else options["annotate"]}
