"""Events for LangChain's callback handlers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.callbacks.manager import ahandle_event, handle_event

from langchain_hybridgraph.execution.effects import Trace

STAGE = "retrieval_stage"
SEARCH = "retrieval_search"


@contextmanager
def stage_events(manager: CallbackManagerForRetrieverRun, trace: Trace) -> Iterator[None]:
    """Return a context manager that reports the search in its block to the handlers of a LangChain run.

    The search is reported when the block ends, so the run must not end before the block.
    """
    try:
        yield
    finally:
        report_stages(manager, trace)


@asynccontextmanager
async def stage_events_async(manager: AsyncCallbackManagerForRetrieverRun, trace: Trace) -> AsyncIterator[None]:
    """Do the same as :func:`stage_events`, but await the handlers."""
    try:
        yield
    finally:
        await areport_stages(manager, trace)


def report_stages(manager: CallbackManagerForRetrieverRun, trace: Trace) -> None:
    """Report a search and its stages to the handlers of a LangChain run.

    Handlers are called on the caller's thread, as in LangChain itself. An error in a handler is logged, or raised if
    the handler's ``raise_error`` is set.
    """
    if manager.handlers:
        for name, data in _events(trace):
            handle_event(manager.handlers, *_CUSTOM, name, data, **_run(manager))


async def areport_stages(manager: AsyncCallbackManagerForRetrieverRun, trace: Trace) -> None:
    """Do the same as :func:`report_stages`, but await the handlers."""
    if manager.handlers:
        for name, data in _events(trace):
            await ahandle_event(manager.handlers, *_CUSTOM, name, data, **_run(manager))


_CUSTOM = ("on_custom_event", "ignore_custom_event")


def _run(manager: Any) -> dict[str, Any]:
    return {"run_id": manager.run_id, "tags": manager.tags, "metadata": manager.metadata}


def _events(trace: Trace) -> list[tuple[str, dict[str, Any]]]:
    stages = [
        {
            "stage": run.name,
            "after_ms": round((run.started_at - trace.started_at) * 1e3, 3),
            "took_ms": round(run.took_ms, 3),
            "error": None if run.error is None else type(run.error).__name__,
        }
        for run in trace.runs
    ]
    search = {
        "mode": trace.method,
        "degraded": list(trace.reasons),
        "remarks": dict(trace.remarks),
        "took_ms": round(trace.took_ms, 3),
        "results": [{"id": id, "score": score} for id, score in trace.results],
    }
    return [*((STAGE, stage) for stage in stages), (SEARCH, search)]
