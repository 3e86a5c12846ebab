"""Stage that scores memories before reading their texts."""

from __future__ import annotations

from functools import partial

from langchain_hybridgraph.execution.effects import Effect, Search
from langchain_hybridgraph.memory.scoring import CompositeScores
from langchain_hybridgraph.query.pipeline.pruning import ALL, hits_needed, scores_unread
from langchain_hybridgraph.query.pipeline.settings import Candidates, SearchContext


def score_candidates(context: SearchContext, candidates: Candidates, limit: int | None = None) -> Search[Candidates]:
    """Return the candidates with their memory scores, if these can be computed before the texts are read.

    At most ``limit`` candidates are returned; the default is the number that later stages can use.
    """
    (query, pipeline, trace), fused = context, candidates.fused_candidates
    scoring = pipeline.scoring
    if scoring is None or not fused or not scores_unread(pipeline):
        return candidates
    n = hits_needed(pipeline, query.k) if limit is None else limit
    with trace.stage("score_candidates"):
        call = Effect("memory", partial(scoring.before_reading, [one.id for one in fused], query), quick=True)
        scores: CompositeScores | None = yield from context.ask(call)
        if scores is None:
            return candidates
        best = scores.best(fused, n)
    complete = partial(score_candidates, context, candidates, ALL) if len(best) < len(fused) else None
    return candidates._replace(fused_candidates=best, complete=complete)
