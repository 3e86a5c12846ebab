"""Base class of the retrievers."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Set, Sized
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, Unpack, cast

from langchain_core.callbacks import (
    AsyncCallbackManager,
    AsyncCallbackManagerForRetrieverRun,
    CallbackManager,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import LangSmithRetrieverParams
from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, PrivateAttr, ValidationError, model_validator

from langchain_hybridgraph.adapters.documents import annotate, chosen_level, chunk_id, resolve_as_of
from langchain_hybridgraph.adapters.tool import SearchArguments, arguments_schema, search_tool
from langchain_hybridgraph.display.html import fields_table
from langchain_hybridgraph.errors import TenantError
from langchain_hybridgraph.execution.effects import Effect, Search, Trace, adrive, ask_or_raise, drive, within
from langchain_hybridgraph.execution.threads import lane_of
from langchain_hybridgraph.filters.expressions import parse_filter
from langchain_hybridgraph.options.arguments import (
    OF_ALL,
    CallSettings,
    Options,
    check_positions,
    check_vector,
    unknown_options,
)
from langchain_hybridgraph.options.groups import GroupOf, OptionGroup, check_options, group_field
from langchain_hybridgraph.options.models import PipelineFields, TelemetryOptions
from langchain_hybridgraph.options.values import check_value, is_plain
from langchain_hybridgraph.records import Annotate, Hit, Query, Scope
from langchain_hybridgraph.registry import name_of
from langchain_hybridgraph.result import RetrievalResult
from langchain_hybridgraph.retrievers.streaming import EARLY, EarlyDocuments, StreamingRetriever
from langchain_hybridgraph.search.context import CertainHits, Pipeline, TokenBudget
from langchain_hybridgraph.search.evidence import CombinedTraversal
from langchain_hybridgraph.search.expansion import TRAVERSALS, Expansion
from langchain_hybridgraph.search.fusion import FUSIONS, ConvexCombination
from langchain_hybridgraph.search.pipeline import search
from langchain_hybridgraph.search.scores import GRAPH_SCORES
from langchain_hybridgraph.search.sources import Source
from langchain_hybridgraph.search.traversals import Traversal
from langchain_hybridgraph.stores.protocols import ListsChunks, ReadsChunks, implements
from langchain_hybridgraph.telemetry import LogSink, OpenTelemetrySink, events
from langchain_hybridgraph.telemetry.dispatch import Results, deliveries_for_search, delivery_for, report_search
from langchain_hybridgraph.text.analyzer import bounded

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool


Answer = TypeVar("Answer")


class ObservedRetriever(StreamingRetriever):
    """Retriever that reports its searches to its own and the process-wide sinks (``add_sink``), and counts them."""

    telemetry: GroupOf[TelemetryOptions] = group_field(
        TelemetryOptions, description="Tracer, logger and sinks of this retriever.", repr=False, exclude=True
    )

    _statistics: events.RetrievalStatistics = PrivateAttr(default_factory=events.RetrievalStatistics)

    if not TYPE_CHECKING:  # type checkers check the arguments of __init__

        def __new__(cls, *arguments: Any, **settings: Any) -> Self:
            """Raise TypeError for too many positional arguments, with the call to write."""
            check_positions(cls, arguments, settings)
            return super().__new__(cls)

    @model_validator(mode="wrap")
    @classmethod
    def _check_constructor(cls, options: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        return check_options(cls, options, handler)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
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

    def _observed(
        self, search: Generator[Any, Any, Answer], trace: Trace, query: object, k: object, results: Results
    ) -> Generator[Any, Any, Answer]:
        """Wrap the search to report it to the sinks, if there are any."""
        listeners = self.telemetry
        own = list(map(delivery_for, listeners.sinks))
        if listeners.tracer is not None:
            own.append(delivery_for(listeners.tracer, OpenTelemetrySink))
        if listeners.logger is not None:
            own.append(delivery_for(listeners.logger, LogSink))
        deliveries = deliveries_for_search(own)
        if not deliveries:
            return search
        return report_search(
            search, deliveries, trace, retriever=type(self).__name__, query=query, k=k, results=results
        )

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
            return list(self._run(prepared_search))
        finally:
            events.report_stages(run_manager, prepared_search.trace)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        prepared_search = self._prepare(query, options, run_manager.get_child())
        try:
            return list(await self._arun(prepared_search))
        finally:
            await events.areport_stages(run_manager, prepared_search.trace)

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        params = super()._get_ls_params(**kwargs)
        store = getattr(self, "vector_store", None)
        embedding = getattr(store, "embeddings", None)
        if store is not None:
            params["ls_vector_store_provider"] = type(store).__name__
        if embedding is not None:
            params["ls_embedding_provider"] = type(embedding).__name__
        return params


def _display_value(value: Any) -> Any:
    if isinstance(value, OptionGroup):
        return {name: getattr(value, name) for name in sorted(value.model_fields_set)}
    if value is None:
        return None
    text = repr(value)
    return type(value).__name__ if text.startswith("<") else text


def hits_of(hits: Iterable[Any]) -> list[tuple[str, float]]:
    """Return the ids and scores of hits."""
    return [(hit.id, hit.score) for hit in hits]


def scores_of(documents: Iterable[Document], prefix: str = "") -> list[tuple[str, float]]:
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

    model_config = ConfigDict(
        arbitrary_types_allowed=True, extra="forbid", validate_default=True, validate_assignment=True
    )

    _call_options: ClassVar[Set[str]] = OF_ALL
    _tool_arguments: ClassVar[type[BaseModel]] = SearchArguments  # a subclass may set another one

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an option; an invalid value raises pydantic's ValidationError and changes nothing."""
        before = dict(self.__dict__)
        try:
            super().__setattr__(name, value)
        except ValidationError:
            # When Pydantic detects that the value contradicts another setting, it has already set the value.
            self.__dict__.update(before)
            raise

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
        from langchain_hybridgraph.display import explain_result

        return explain_result(self.retrieve(query, k, **options))

    def as_tool(
        self,
        args_schema: type[BaseModel] | None = None,
        *,
        name: str | None = None,
        description: str | None = None,
        arg_types: dict[str, type] | None = None,
    ) -> BaseTool:
        """Return a tool for agents that takes a query, k and a filter, and returns text.

        The ``artifact`` of the tool message contains the Documents. ``args_schema`` replaces the schema of the
        arguments (``query`` and options of a call). LangChain's ``arg_types`` raises ConfigurationError.

        >>> from langchain_hybridgraph import HybridGraphStore, HybridRetriever
        >>> store = HybridGraphStore.from_texts(["Trains carry coal.", "Ships sail."], "lsa", ids=["train", "ship"])
        >>> tool = HybridRetriever(store).as_tool(name="search_notes", description="Searches the notes.")
        >>> print(tool.invoke({"query": "coal", "k": 1}).splitlines()[2])
        Trains carry coal.
        """
        return search_tool(self, arguments_schema(args_schema, arg_types, self._tool_arguments), name, description)

    @property
    def _lane(self) -> Any:
        return lane_of("search", self._store)

    def _has_context(self, options: Options) -> bool:
        """Return whether this call uses a conversation."""
        return False

    @property
    def _streams_early(self) -> bool:
        return self.reranker is not None or self._graph is not None

    def _prepare(self, query: str | None, options: Options, callbacks: Any = None) -> PreparedSearch:
        hand_out = options.get(EARLY)
        if hand_out is not None:
            options = cast(Options, {name: value for name, value in options.items() if name != EARLY})
        self._check_options(options)
        trace = Trace()
        trace.raises = self.on_error == "raise"
        trace.has_context = self._has_context(options)
        pipeline = self._pipeline(options, callbacks)
        level = chosen_level(options.get("annotate"), options.get("return_scores"), self.annotate)
        early = None
        if hand_out is not None:
            early = EarlyDocuments(hand_out)
            pipeline = replace(pipeline, announce=partial(self._announce, early, trace, level))
        pipeline_query = self._query_of(bounded(query, trace.degrade), options)
        deadline_ms = _first(options.get("deadline_ms"), self.deadline_ms)
        deadline = None if deadline_ms is None else time.monotonic() + deadline_ms / 1e3
        return PreparedSearch(pipeline_query, pipeline, trace, deadline, level, early)

    def _query_of(self, query: str | None, options: Options) -> Query:
        vector = options.get("vector")
        k = int(_first(options.get("k"), self.k))
        return Query(query, k, self._scope(options), None if vector is None else check_vector(vector))

    def _pipeline(self, options: Options, callbacks: Any) -> Pipeline:
        store = self._store
        expansion, selection = self._expansion(options), self.selection.changed(options.get("selection"))
        shared = selection.shared_with(Pipeline) | {"budget": self._budget(options, selection.budget)}
        return Pipeline(
            **shared,
            store=store,
            sources=self._sources(options, callbacks),
            fusion=self.fusion if self.fusion is not None else self._default_fusion,
            source_filter=None if expansion is None else expansion.source_filter,
            graph=self._graph,
            expansion=expansion,
            parents=self.return_parents,
            reranker=self.reranker,
            min_score=_first(options.get("min_score"), self.min_score),
            on_error=self.on_error,
            listing=store.list_chunks if implements(store, ListsChunks) else None,
            count=partial(len, store) if implements(store, Sized) else None,
            own_filter=self.filter,
        )

    def _check_options(self, options: Options) -> None:
        if not options.keys() <= self._call_options:
            unknown = {name: value for name, value in sorted(options.items()) if name not in self._call_options}
            raise unknown_options(type(self), unknown, self._call_options)
        fields = type(self).model_fields
        for name, value in options.items():
            if value is not None and name in fields and is_plain(fields[name].annotation):
                check_value(type(self), name, value)

    _default_fusion: ClassVar[Any] = ConvexCombination()

    def _budget(self, options: Options, budget: TokenBudget | None) -> TokenBudget | None:
        max_tokens = options.get("max_tokens")
        return budget if max_tokens is None else replace(budget or TokenBudget(), max_tokens=max_tokens)

    def _expansion(self, options: Options) -> Expansion | None:
        return None

    _graph: ClassVar[Any] = None  # the graph whose edges an expansion follows

    def _scope(self, options: Options) -> Scope:
        tenant = options.get("tenant")
        if tenant is not None and self.tenant is not None and tenant != self.tenant:
            raise TenantError(f"the retriever is for tenant {self.tenant!r}, but the call requests {tenant!r}")
        as_of = _first(options.get("as_of"), self.as_of)
        scope = Scope(self.filter, _first(tenant, self.tenant), resolve_as_of(as_of))
        narrower = parse_filter(options.get("filter"))
        return scope if narrower is None else scope.narrowed(narrower)

    def _search(self, prepared_search: PreparedSearch) -> Search[RetrievalResult[Document]]:
        query, trace = prepared_search.query, prepared_search.trace
        with self._statistics.count_errors():
            stages = search(query, prepared_search.pipeline, trace)
            hits = yield from self._observed(stages, trace, query.text, query.k, hits_of)
            return self._result(hits, prepared_search)

    def _announce(self, early: EarlyDocuments, trace: Trace, level: Annotate, certain: CertainHits) -> None:
        """Hand out the Documents of hits that are already certain to be in the answer."""
        documents = annotate(certain.hits, trace.method, trace.reasons, self.metadata_prefix, level)
        if level == "all" and not certain.is_head:
            for document in documents:
                document.metadata[f"{self.metadata_prefix}retrieval_rank"] = None
        early.hand_out(documents)

    def _result(self, hits: list[Hit], prepared_search: PreparedSearch) -> RetrievalResult[Document]:
        trace = prepared_search.trace
        documents = annotate(hits, trace.method, trace.reasons, self.metadata_prefix, prepared_search.level)
        if prepared_search.early is not None:
            documents = prepared_search.early.completed(documents)
        trace.results = hits_of(hits)
        self._statistics.record_answer(trace, len(hits))
        return RetrievalResult(
            documents,
            hits=hits,
            degraded=trace.reasons,
            took_ms=trace.took_ms,
            plan=prepared_search.plan(),
            answerability=trace.answerability,
        )


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
            else {
                "traversal": _traversal_name(expansion.traversal),
                "score": name_of(expansion.score, GRAPH_SCORES),
            },
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
    return {**options, "k": k, "annotate": options.get("annotate") or "all"}


def _first(value: Any, default: Any) -> Any:
    return default if value is None else value


Callbacks = CallbackManager | AsyncCallbackManager


def child_run(
    retriever: PipelineRetriever, tag: str, query: str | None, options: Mapping[str, Any], callbacks: Callbacks | None
) -> Search[RetrievalResult[Document]]:
    """Search with ``retriever`` as a part of another search, and return the complete answer.

    The handlers of ``callbacks`` receive the events of a run with the tag ``tag``.
    """
    if callbacks is None:
        prepared_search = retriever._prepare(query, cast(Any, options))
        return (yield from within(retriever._search(prepared_search), prepared_search.deadline))
    manager = type(callbacks).configure(
        callbacks,
        inheritable_tags=[tag],
        local_tags=retriever.tags,
        inheritable_metadata=dict(retriever._get_ls_params()),
        local_metadata=retriever.metadata,
    )
    text: Any = query  # None if vector= is passed
    run = yield from _call_handler(manager.on_retriever_start, None, text, name=retriever.get_name())
    trace: Trace | None = None
    try:
        prepared_search = retriever._prepare(query, cast(Any, options), run.get_child())
        trace = prepared_search.trace
        result = yield from within(retriever._search(prepared_search), prepared_search.deadline)
    except Exception as error:
        yield from _report(run, trace)
        yield from _call_handler(run.on_retriever_error, error)
        raise
    yield from _report(run, trace)
    yield from _call_handler(run.on_retriever_end, list(result))
    return result


def _report(run: Any, trace: Trace | None) -> Search[None]:
    if trace is not None:
        report = events.areport_stages if isinstance(run, AsyncCallbackManagerForRetrieverRun) else events.report_stages
        yield from _call_handler(report, run, trace)


def _call_handler(handler: Callable[..., Any], *arguments: Any, **options: Any) -> Search[Any]:
    """Call a function that notifies callback handlers; an asynchronous one is awaited in the event loop."""
    call = partial(handler, *arguments, **options)
    if not asyncio.iscoroutinefunction(handler):
        return call()
    (result,) = yield from ask_or_raise(Effect("callbacks", lambda: asyncio.run(call()), call))
    return result
