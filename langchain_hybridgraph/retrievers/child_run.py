"""Searches that run as LangChain child runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

from langchain_core.callbacks import AsyncCallbackManager, AsyncCallbackManagerForRetrieverRun, CallbackManager
from langchain_core.documents import Document

from langchain_hybridgraph.execution.effects import Effect, Search, ask_or_raise
from langchain_hybridgraph.execution.nested import within
from langchain_hybridgraph.execution.trace import Trace
from langchain_hybridgraph.result import RetrievalResult
from langchain_hybridgraph.retrievers.base import PipelineRetriever
from langchain_hybridgraph.telemetry.events import areport_stages, report_stages

Callbacks = CallbackManager | AsyncCallbackManager


def child_run(
    retriever: PipelineRetriever, tag: str, query: str | None, options: Mapping[str, Any], callbacks: Callbacks | None
) -> Search[RetrievalResult[Document]]:
    """Search with ``retriever`` as a part of another search, and return the complete answer.

    The handlers of ``callbacks`` receive the events of a run with the tag ``tag``. If ``callbacks`` is None, no run is
    reported.
    """
    if callbacks is None:
        prepared_search = retriever._prepare(query, cast(Any, options))
        return (yield from within(retriever._search(prepared_search), prepared_search.deadline))
    run = yield from _start(retriever, tag, query, callbacks)
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


def _start(retriever: PipelineRetriever, tag: str, query: str | None, callbacks: Callbacks) -> Search[Any]:
    manager = type(callbacks).configure(
        callbacks,
        inheritable_tags=[tag],
        local_tags=retriever.tags,
        inheritable_metadata=dict(retriever._get_ls_params()),
        local_metadata=retriever.metadata,
    )
    text: Any = query  # None if vector= is passed
    return (yield from _call_handler(manager.on_retriever_start, None, text, name=retriever.get_name()))


def _report(run: Any, trace: Trace | None) -> Search[None]:
    """Report the stages of a search to the handlers of its run; do nothing if there is no trace."""
    if trace is not None:
        report = areport_stages if isinstance(run, AsyncCallbackManagerForRetrieverRun) else report_stages
        yield from _call_handler(report, run, trace)


def _call_handler(handler: Callable[..., Any], *arguments: Any, **options: Any) -> Search[Any]:
    """Call a function that notifies callback handlers, and return its result.

    An asynchronous function is awaited in the event loop.
    """
    call = partial(handler, *arguments, **options)
    if not asyncio.iscoroutinefunction(handler):
        return call()
    (result,) = yield from ask_or_raise(Effect("callbacks", lambda: asyncio.run(call()), call))
    return result
