"""Stage that lists the matches of filter-only calls."""

from __future__ import annotations

from functools import partial

from langchain_hybridgraph.execution.effects import Search
from langchain_hybridgraph.query.pipeline.pruning import ALL, hits_needed, scores_unread
from langchain_hybridgraph.query.pipeline.settings import Candidates, SearchContext
from langchain_hybridgraph.query.sources import ListedSource
from langchain_hybridgraph.records import FusedCandidate, Ranking, Scope, SourceResult


def list_matches(context: SearchContext, limit: int | None = None) -> Search[Candidates]:
    """Return the chunks that match the filter, in the store's order, each with a score of 1.

    At most ``limit`` chunks are listed; the default is the number that later stages can use. Some of them may be copies
    whose originals have been deleted. If the limit was reached, ``complete`` is therefore set to a function that lists
    up to four times as many chunks.
    """
    query, pipeline, trace = context
    n = limit
    if n is None:
        n = ALL if scores_unread(pipeline) else hits_needed(pipeline, query.k)
    trace.degrade("filter-only")
    trace.method = "filter"
    result = SourceResult([])
    if pipeline.listing is not None:
        with trace.stage("list_matches"):
            call = ListedSource(pipeline.store, pipeline.listing).search(query, n)
            result = yield from context.ask(call, result, is_required=True)
    trace.degrade(result.reason, result.remark)
    candidates = listed_candidates(context, result)
    return (
        candidates if len(result.entries) < n else candidates._replace(complete=partial(list_matches, context, 4 * n))
    )


def listed_candidates(context: SearchContext, result: SourceResult) -> Candidates:
    """Convert listed chunks to candidates in the same order."""
    source = ListedSource(context.pipeline.store, context.pipeline.listing or _no_chunks)
    scores = {entry.id: entry.score for entry in result.entries}
    fused = [FusedCandidate(id, score, {source.name: score}) for id, score in scores.items()]
    return Candidates({source: result}, [Ranking(source.name, 1.0, result.entries, scores)], [scores], fused)


def _no_chunks(scope: Scope, n: int) -> SourceResult:
    return SourceResult([])
