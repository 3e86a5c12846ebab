"""Any LangChain retriever as a part of a search."""

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

from langchain_core.callbacks import AsyncCallbackManager, AsyncCallbackManagerForRetrieverRun, CallbackManager
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langchain_core.vectorstores import VectorStoreRetriever

from langchain_hybridgraph import telemetry as events
from langchain_hybridgraph.adapters.documents import chunk_id, content_key, to_document
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.execution.effects import Effect, Search, adrive, ask_or_raise, drive, is_asynchronous, within
from langchain_hybridgraph.execution.threads import lane_of
from langchain_hybridgraph.options.arguments import unknown_options
from langchain_hybridgraph.options.base import check_values
from langchain_hybridgraph.records import Annotate, Query, Scope, SourceResult
from langchain_hybridgraph.result import RetrievalResult
from langchain_hybridgraph.retrievers.base import EARLY, PipelineRetriever
from langchain_hybridgraph.search.sources import VectorSource
from langchain_hybridgraph.stores.protocols import FindsContents, ReadsChunks, implements

Result = RetrievalResult[Document]
Callbacks = CallbackManager | AsyncCallbackManager


class AnyRetriever(NamedTuple):
    """Wrapper that calls any LangChain retriever and reports what the retriever supports."""

    retriever: BaseRetriever

    @property
    def pipeline(self) -> PipelineRetriever | None:
        """The retriever as a PipelineRetriever that retrieves by its pipeline alone, or None."""
        own, kind = PipelineRetriever, type(self.retriever)
        methods = ("_get_relevant_documents", "_aget_relevant_documents")
        is_changed = any(getattr(kind, name) != getattr(own, name) for name in methods)
        return self.retriever if isinstance(self.retriever, own) and not is_changed else None

    @property
    def prefix(self) -> str:
        """Prefix of the metadata keys that the retriever adds."""
        return str(getattr(self.retriever, "metadata_prefix", ""))

    def takes(self, option: str) -> bool:
        """Return whether calls take this option; LangChain silently drops options that a retriever does not declare."""
        if self.pipeline is not None:
            return option in self.pipeline._call_options
        if isinstance(self.retriever, VectorStoreRetriever):
            kind = type(self.retriever.vectorstore)
            methods = [getattr(kind, name) for name in dir(kind) if "search" in name]  # they pass options to each other
            searches = [inspect.signature(method).parameters for method in methods if inspect.isfunction(method)]
            return any(option in each and each[option].kind is not inspect.Parameter.VAR_KEYWORD for each in searches)
        declared = inspect.signature(type(self.retriever)._get_relevant_documents).parameters
        return option in declared or any(each.kind is each.VAR_KEYWORD for each in declared.values())

    def check(self, options: Mapping[str, Any], wrapper: str, own: Iterable[str]) -> None:
        """Raise TypeError, which names ``wrapper`` and its ``own`` options, for an option that calls do not take.

        Raises ConfigurationError for an invalid value of a plain option.
        """
        if unknown := {name: value for name, value in options.items() if not self.takes(name)}:
            options_of_calls = () if self.pipeline is None else {*self.pipeline._call_options, *own}
            kind = type(self.retriever)
            raise unknown_options(kind, unknown, options_of_calls, called=f"{wrapper}({kind.__name__})")
        if self.pipeline is not None:
            check_values(type(self.pipeline), options)

    def setting(self, name: str, options: Mapping[str, Any]) -> Any:
        """Return the value that applies to a call, from its options or else the retriever's, or None if unknown."""
        if self.pipeline is None:
            return None
        return getattr(self.pipeline, name) if options.get(name) is None else options[name]

    def embeddings(self, options: Mapping[str, Any]) -> Embeddings | None:
        """Return the embedding of the retriever's vectors, or None if it is unknown or there is no vector search."""
        sources = () if self.pipeline is None else self.pipeline._sources(options)
        if not any(isinstance(source, VectorSource) for source in sources):
            return None
        embeddings = getattr(getattr(self.pipeline, "vector_store", None), "embeddings", None)
        return embeddings if isinstance(embeddings, Embeddings) else None

    def search(
        self,
        name: str,
        query: str | None,
        k: int | None,
        options: Mapping[str, Any],
        callbacks: Callbacks | None,
        *,
        level: Annotate = "all",
        early: Callable[[Document], object] | None = None,
    ) -> Search[Result]:
        """Search with this retriever as a part of another search, and return the answer.

        With ``callbacks``, the search is a child run with the tag ``name``.

        Only this package's retrievers use ``level`` and ``early``.
        """
        retriever, pipeline = self.retriever, self.pipeline
        if pipeline is not None:
            streamed = {} if early is None else {EARLY: early}
            arguments = {**options, "k": k, "annotate": level, **streamed}
            return (yield from child_run(pipeline, name, query, arguments, callbacks))
        config = cast("RunnableConfig", {"callbacks": callbacks, "tags": [name]})
        arguments = dict(options) if k is None or not self.takes("k") else {**options, "k": k}
        text: Any = query  # None if vector= is passed
        run = partial(retriever.invoke, text, config, **arguments)
        arun = partial(retriever.ainvoke, text, config, **arguments) if is_asynchronous(retriever) else None
        (documents,) = yield from ask_or_raise(Effect(name, run, arun, owner=retriever))
        return RetrievalResult(documents)


def child_run(
    retriever: PipelineRetriever, tag: str, query: str | None, options: Mapping[str, Any], callbacks: Callbacks | None
) -> Search[Result]:
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
    trace = None
    report = events.areport_stages if isinstance(run, AsyncCallbackManagerForRetrieverRun) else events.report_stages
    try:
        prepared_search = retriever._prepare(query, cast(Any, options), run.get_child())
        trace = prepared_search.trace
        result = yield from within(retriever._search(prepared_search), prepared_search.deadline)
    except Exception as error:
        if trace is not None:
            yield from _call_handler(report, run, trace)
        yield from _call_handler(run.on_retriever_error, error)
        raise
    yield from _call_handler(report, run, trace)
    yield from _call_handler(run.on_retriever_end, list(result))
    return result


def _call_handler(handler: Callable[..., Any], *arguments: Any, **options: Any) -> Search[Any]:
    """Call a function that notifies callback handlers; an asynchronous one is awaited in the event loop."""
    call = partial(handler, *arguments, **options)
    if not asyncio.iscoroutinefunction(handler):
        return call()
    (result,) = yield from ask_or_raise(Effect("callbacks", lambda: asyncio.run(call()), call))
    return result


SCORE_KEYS = ("bm25_score", "score", "relevance_score")


@dataclass(frozen=True, slots=True, eq=False)
class RetrieverSource:
    """Source of the Documents that another retriever returns, in that retriever's order.

    The scores are those of the hits for this package's retrievers, and otherwise the first of ``bm25_score``, ``score``
    and ``relevance_score`` in the metadata that all Documents have and are sorted by, or else 1 − rank/n, with ranks
    from 0.

    A Document whose id is not in ``store`` gets the id that the store uses for the same text and source. With
    ``callbacks``, the retriever's run is a child of the caller's run.
    """

    retriever: BaseRetriever
    weight: float
    id_key: str | None = None
    store: FindsContents | None = None
    callbacks: Any = None
    name: str = "keyword"

    def search(self, query: Query, n: int) -> Effect | None:
        """Return an Effect that calls the retriever, which sets the number of Documents, or None without a text."""
        text = query.text
        if text is None:
            return None

        def search() -> Search[SourceResult]:
            result = yield from AnyRetriever(self.retriever).search(self.name, text, None, {}, self.callbacks)
            return self._source_result(result, query.scope)

        lane = lane_of(self.name, self.retriever)
        return Effect(self.name, lambda: drive(search()), lambda: adrive(search(), lane=lane), owner=self.retriever)

    def score(self, query: Query, result: SourceResult, ids: Sequence[str]) -> None:
        """Return None, because a retriever can score only the chunks that it returns."""

    def _source_result(self, result: Result, scope: Scope) -> SourceResult:
        documents = [to_document(hit.chunk) for hit in result.hits] or list(result)
        scores = [hit.score for hit in result.hits] or _scores(documents)
        ids, store = [chunk_id(document, self.id_key) for document in documents], self.store
        if store is not None and self.id_key is None:
            # The store's id for the same text and source replaces an id that is not in the store.
            contents = list(map(content_key, documents))
            stored_ids = store.ids_of_contents(contents)
            others = {id: stored_ids.get(content, id) for id, content in zip(ids, contents, strict=True)}
            differing = [id for id, other in others.items() if id != other]
            stored_chunks = store.read(differing, scope, {}) if differing and implements(store, ReadsChunks) else {}
            ids = [id if id in stored_chunks else others[id] for id in ids]
        scores_by_id, chunks = dict[str, float](), dict[str, Chunk]()
        for id, score, document in zip(ids, scores, documents, strict=True):
            scores_by_id.setdefault(id, score)
            chunks.setdefault(id, Chunk(id, document.page_content, document.metadata))
        return SourceResult(ids, scores_by_id, chunks)


def _scores(documents: Sequence[Document]) -> list[float]:
    for key in SCORE_KEYS:
        scores = [score for d in documents if isinstance(score := d.metadata.get(key), int | float)]
        if len(scores) == len(documents) and scores == sorted(scores, reverse=True):
            return [float(score) for score in scores]
    return [1.0 - place / len(documents) for place in range(len(documents))]
