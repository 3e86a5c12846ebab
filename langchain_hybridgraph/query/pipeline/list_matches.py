"""Results of calls with a filter and no query."""

from __future__ import annotations

from langchain_hybridgraph.execution.effects import Search
from langchain_hybridgraph.query.pipeline.admit import admit
from langchain_hybridgraph.query.pipeline.postprocess import parents
from langchain_hybridgraph.query.pipeline.pruning import ALL, hits_needed, scores_unread
from langchain_hybridgraph.query.pipeline.score import score_candidates
from langchain_hybridgraph.query.pipeline.settings import Candidates, SearchContext
from langchain_hybridgraph.query.sources import ListedSource
from langchain_hybridgraph.records import FusedCandidate, Hit, Ranking, Scope, SourceResult


def is_filter_only(context: SearchContext) -> bool:
    """Return whether a call has a filter, but no text, no vector and no seeds."""
    query, expansion = context.query, context.pipeline.expansion
    has_seeds = expansion is not None and expansion.seed_ids is not None
    return query.text is None and query.vector is None and query.scope.filter is not None and not has_seeds


def list_matches(context: SearchContext) -> Search[list[Hit]]:
    """Return the chunks that the filter matches, or their parents, in the store's order, each with a score of 1.

    Memories come in the order of their scores.
    """
    query, pipeline, _ = context
    needed = hits_needed(pipeline, query.k)
    n = ALL if scores_unread(pipeline) else needed
    while True:
        result = yield from _list(context, n)
        hits = yield from read_matches(context, result, needed)
        # The store may list copies of chunks that have been deleted from their original store.
        if len(hits) >= needed or len(result.entries) < n:
            return (yield from _with_parents(context, hits))
        n *= 4


def _with_parents(context: SearchContext, hits: list[Hit]) -> Search[list[Hit]]:
    """Return the hits or their parents; a parent takes the place of the first of its children."""
    places: dict[str, int] = {}
    for place, hit in enumerate(hits):
        places.setdefault(hit.id, place)
        places.setdefault(hit.chunk.parent or hit.id, place)
    resolved = yield from parents(context, hits)
    return sorted(resolved, key=lambda hit: (-hit.score, places[hit.id]))


def _list(context: SearchContext, n: int) -> Search[SourceResult]:
    """Return the first n chunks that the filter matches."""
    query, pipeline, trace = context
    trace.degrade("filter-only")
    trace.method = "filter"
    if pipeline.listing is None:
        return SourceResult([])
    with trace.stage("list_matches"):
        call = ListedSource(pipeline.store, pipeline.listing).search(query, n)
        result: SourceResult = yield from context.ask(call, SourceResult([]), is_required=True)
    trace.degrade(result.reason, result.remark)
    return result


def read_matches(context: SearchContext, result: SourceResult, limit: int) -> Search[list[Hit]]:
    """Return the first ``limit`` listed chunks as hits; if memories are scored, the best of them."""
    source = ListedSource(context.pipeline.store, context.pipeline.listing or _no_chunks)
    scores = {entry.id: entry.score for entry in result.entries}
    fused = [FusedCandidate(id, score, {source.name: score}) for id, score in scores.items()]
    candidates = Candidates({source: result}, [Ranking(source.name, 1.0, result.entries, scores)], [scores], fused)
    candidates = yield from score_candidates(context, candidates, limit)
    return (yield from admit(context, candidates, limit))


def _no_chunks(scope: Scope, n: int) -> SourceResult:
    return SourceResult([])
