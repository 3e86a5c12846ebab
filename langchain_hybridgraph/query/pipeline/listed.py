"""Lists of what a filter matches, for calls with a filter and no query."""

from __future__ import annotations

from typing import cast

from langchain_hybridgraph.execution.effects import Failure, Search
from langchain_hybridgraph.query.pipeline.candidates import ScoredCandidates, admit
from langchain_hybridgraph.query.pipeline.memory import score_unread
from langchain_hybridgraph.query.pipeline.postprocess import resolve_parents
from langchain_hybridgraph.query.pipeline.settings import ALL, SearchContext
from langchain_hybridgraph.query.sources import ListedSource
from langchain_hybridgraph.records import FusedCandidate, Hit, Ranking, Scope, SourceResult


def is_filter_only(run: SearchContext) -> bool:
    """Whether a call has a filter, and neither a text nor a vector nor seeds."""
    query, expansion = run.query, run.pipeline.expansion
    has_seeds = expansion is not None and expansion.seed_ids is not None
    return query.text is None and query.vector is None and query.scope.filter is not None and not has_seeds


def list_matches(run: SearchContext) -> Search[list[Hit]]:
    """The chunks that the filter matches, or their parents, in the store's order, each of score 1.

    Memories come in the order of what they are worth.
    """
    query, pipeline, trace = run
    wanted = pipeline.pool(query.k, is_walked=True)
    n = ALL if pipeline.scores_unread else wanted
    while True:
        found = yield from _listed(run, n)
        with trace.stage("admit"):
            hits = yield from read_matches(run, found, wanted)
        # Some that a copy of the texts still has may be gone.
        if len(hits) >= wanted or len(found.entries) < n:
            return (yield from _with_parents(run, hits))
        n *= 4


def _with_parents(run: SearchContext, hits: list[Hit]) -> Search[list[Hit]]:
    """The hits or their parents; a parent takes the place of the first of its children."""
    places: dict[str, int] = {}
    for place, hit in enumerate(hits):
        places.setdefault(hit.id, place)
        places.setdefault(hit.chunk.parent or hit.id, place)
    resolved = yield from resolve_parents(run, hits)
    return sorted(resolved, key=lambda hit: (-hit.score, places[hit.id]))


def _listed(run: SearchContext, n: int) -> Search[SourceResult]:
    """The first n chunks that the filter matches."""
    query, pipeline, trace = run
    trace.degrade("filter-only")
    trace.method = "filter"
    if pipeline.listing is None:
        return SourceResult([])
    with trace.stage("list"):
        (found,) = yield [ListedSource(pipeline.store, pipeline.listing).search(query, n)]
    if isinstance(found, Failure):
        trace.degrade(found.reason)
        trace.note(found.source, found.error)
        run.judge([found], some_answered=False)
        return SourceResult([])
    trace.degrade(found.reason, found.remark)
    return cast(SourceResult, found)


def read_matches(run: SearchContext, found: SourceResult, wanted: int) -> Search[list[Hit]]:
    """What was listed as hits, as many as are wanted; where memories are scored, the best of them."""
    source = ListedSource(run.pipeline.store, run.pipeline.listing or _nothing)
    own = {entry.id: entry.score for entry in found.entries}
    fused = yield from score_unread(run, [FusedCandidate(id, score, {source.name: score}) for id, score in own.items()])
    ranking = Ranking(source.name, source.weight, found.entries, own)
    return (yield from admit(run, fused, ScoredCandidates({source: found}, [own], [ranking]), wanted=wanted))


def _nothing(scope: Scope, n: int) -> SourceResult:
    return SourceResult([])
