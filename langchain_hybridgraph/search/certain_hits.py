"""Hits that are certain before the search is complete."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from langchain_hybridgraph.execution.effects import Effect, Search
from langchain_hybridgraph.memory_scores import Scoring
from langchain_hybridgraph.records import Hit
from langchain_hybridgraph.search.context import ALL, Candidates, CertainHits, SearchContext, read_hits, read_parents
from langchain_hybridgraph.search.expansion import ScoreBounds
from langchain_hybridgraph.search.verdict import assess

# Scores that differ by less than this may be in either order, because of rounding.
_LEAST = 1e-9


def announce_seeds(context: SearchContext, hits: Sequence[Hit], candidates: Candidates) -> Search[None]:
    """Pass the seeds that are certain to be in the result to ``announce``, which is set, before the traversal."""
    certain = yield from _certain_seeds(context, hits, candidates)
    if certain.hits and context.limits.resolves_parents:
        # Several children may become one parent, and later hits then move up.
        certain = CertainHits((yield from read_parents(context, list(certain.hits))))
    if certain.hits:
        assert context.pipeline.announce is not None
        if (answerability := assess(context, hits, candidates)) is not None:
            certain = certain._replace(hits=[hit.scaled(answerability.unit) for hit in certain.hits])
        context.pipeline.announce(certain)


def announce_before_rerank(context: SearchContext, hits: Sequence[Hit]) -> None:
    """Pass the hits that will be in the result to ``announce``, if the reranker only changes their order."""
    query, pipeline = context.query, context.pipeline
    reranker = pipeline.reranker
    if pipeline.announce is None or reranker is None or reranker.filters or query.text is None:
        return
    drops_hits = pipeline.min_score > 0 or pipeline.max_per_document is not None or pipeline.budget is not None
    if hits and not drops_hits and (len(hits) <= query.k or _keeps_best(context)):
        pipeline.announce(CertainHits(hits[: query.k]))


def _keeps_best(context: SearchContext) -> bool:
    """Return whether the stages after ``expand`` keep the best k candidates, except those that drop hits."""
    pipeline, k = context.pipeline, context.query.k
    if pipeline.mmr_lambda is not None or (pipeline.scoring is not None and context.limits.resolves_parents):
        return False
    is_reordered = pipeline.graph_slots or pipeline.scoring is not None or pipeline.rerank_depth > k
    return pipeline.reranker is None or not is_reordered


def _certain_seeds(context: SearchContext, hits: Sequence[Hit], candidates: Candidates) -> Search[CertainHits]:
    """Return the seeds that will be in the result, no matter which chunks the traversal reaches."""
    query, pipeline = context.query, context.pipeline
    expansion, scoring, reranker = pipeline.expansion, pipeline.scoring, pipeline.reranker
    drops_hits = pipeline.min_score > 0 or pipeline.max_per_document is not None
    if expansion is None or drops_hits or (reranker is not None and reranker.filters):
        return CertainHits(())
    own = {one.id: one for one in candidates.fused_candidates}
    seeds = expansion.seed_hits(hits)
    count = len(own.keys() | candidates.ids.keys())
    unknown: float = getattr(expansion.traversal, "max_nodes", math.inf)  # chunks that the traversal may reach besides
    if pipeline.count is not None and getattr(pipeline.store, "has_fast_lookups", False):
        unknown = min(unknown, max(0, pipeline.count() - count))
    if pipeline.budget is None and count + unknown <= query.k:
        return CertainHits(seeds)  # every candidate will be in the result
    if not seeds or not _keeps_best(context):
        return CertainHits(())
    # A budget may drop every hit except the first, and the places reserved for graph hits are the last ones.
    places = min(query.k - pipeline.graph_slots, query.k if pipeline.budget is None else 1)
    strength = expansion.strengths(own, candidates.ids, candidates.cosines)
    if scoring is None and expansion.uses_search_score:
        # The traversal raises no score above the best one, so only the hit with this score is certain.
        best = own[seeds[0].id]
        is_narrowed = expansion.is_graph_only and expansion.picks_seeds
        is_beaten = any(one.score > best.score - _LEAST for one in own.values() if one is not best)
        is_certain = places > 0 and not is_narrowed and not is_beaten
        return CertainHits(seeds[:1], reranker is None) if is_certain else CertainHits(())
    bounds = expansion.bounds(own, strength, seeds, candidates.cosines, is_complete=not unknown)
    if bounds is None:
        return CertainHits(())
    plain = {id: own[id].score for id in ([hit.id for hit in seeds] if expansion.is_graph_only else own)}
    ways = [bounds, ScoreBounds(plain, plain, 0.0)]  # if there are no edges, the search scores stay
    if scoring is not None:
        ways = yield from _memory_bounds(context, scoring, candidates, ways)
    rivals = _rivals(ways, seeds, unknown)
    certain = [hit for hit in seeds if rivals.get(hit.id, places) < places]
    certain.sort(key=lambda hit: rivals[hit.id])
    is_head = reranker is None and [rivals[hit.id] for hit in certain] == list(range(len(certain)))
    return CertainHits(certain, is_head)


def _memory_bounds(
    context: SearchContext, scoring: Scoring, candidates: Candidates, ways: Sequence[ScoreBounds]
) -> Search[list[ScoreBounds]]:
    """Return the bounds of memory scores, or none if they cannot be computed."""
    query = context.query
    if query.scope.as_of is None:
        return []
    admitted = yield from read_hits(context, candidates, ALL)

    def scored(scores: Mapping[str, float]) -> dict[str, float]:
        hits = [replace(hit, score=scores[hit.id]) for hit in admitted if hit.id in scores]
        return {hit.id: hit.score for hit in scoring(hits, query)}

    def run() -> list[ScoreBounds]:
        return [ScoreBounds(scored(low), scored(high), float(other > 0)) for low, high, other in ways]

    scored_bounds: list[ScoreBounds] = yield from context.ask(Effect("memory", run, quick=True), [])
    return scored_bounds


def _rivals(bounds: Sequence[ScoreBounds], seeds: Sequence[Hit], unknown: float) -> dict[str, float]:
    """For each seed, return the largest number of chunks that could rank before it; {} if there are no bounds."""
    rivals: dict[str, float] = {}
    for low, high, other in bounds:
        scores = np.fromiter(high.values(), np.float64)
        for id in (hit.id for hit in seeds if hit.id in low):
            above = int((scores > low[id] - _LEAST).sum()) - (high.get(id, -1.0) > low[id] - _LEAST)
            rivals[id] = max(rivals.get(id, 0), above + (unknown if other > low[id] - _LEAST else 0))
    return rivals
