"""Scores of memories instead of search scores."""

from __future__ import annotations

from functools import partial

from langchain_hybridgraph.execution.effects import Effect, Search
from langchain_hybridgraph.memory.scoring import CompositeScores
from langchain_hybridgraph.query.pipeline.pruning import ALL, hits_needed, scores_unread
from langchain_hybridgraph.query.pipeline.settings import Candidates, SearchContext
from langchain_hybridgraph.records import Hit


def score_candidates(context: SearchContext, candidates: Candidates, limit: int | None = None) -> Search[Candidates]:
    """Return the candidates with the scores of :func:`score`, if these can be computed before the texts are read.

    Only as many are returned as later stages can use; with a ``limit``, that many.
    """
    (query, pipeline, trace), fused = context, candidates.fused
    scoring = pipeline.scoring
    if scoring is None or not fused or not scores_unread(pipeline):
        return candidates
    n = hits_needed(pipeline, query.k) if limit is None else limit
    with trace.stage("score"):
        call = Effect("memory", partial(scoring.before_reading, [one.id for one in fused], query), quick=True)
        scores: CompositeScores | None = yield from context.ask(call)
        if scores is None:
            return candidates
        best = scores.best(fused, n)
    complete = partial(score_candidates, context, candidates, ALL) if len(best) < len(fused) else None
    return candidates._replace(fused=best, complete=complete)


def score(context: SearchContext, hits: list[Hit]) -> Search[list[Hit]]:
    """Return the hits with their scores as memories, best first; unchanged without ``scoring`` or if it fails."""
    query, pipeline, trace = context
    if pipeline.scoring is None or not hits or scores_unread(pipeline):
        return hits
    with trace.stage("score"):
        scored: list[Hit] = yield from context.ask(
            Effect("memory", partial(pipeline.scoring, hits, query), quick=True), hits
        )
    return scored
