"""Report of an empty index."""

from __future__ import annotations

from langchain_hybridgraph.execution.effects import Effect, Search
from langchain_hybridgraph.query.pipeline.settings import SearchContext
from langchain_hybridgraph.stores.protocols import HasFastLookups, implements


def report_empty_index(context: SearchContext) -> Search[None]:
    """Add ``empty-index`` to ``degraded`` if the index contains no chunks.

    The pipeline calls this only if a search has no hits. Nothing is added after an error, because the store may not be
    able to count its chunks.
    """
    pipeline, trace = context.pipeline, context.trace
    if pipeline.count is None or trace.errors:
        return
    is_quick = implements(pipeline.store, HasFastLookups) and pipeline.store.has_fast_lookups
    if (yield from context.ask(Effect("catalog", pipeline.count, quick=is_quick))) == 0:
        trace.degrade("empty-index")
