"""Stage that reorders the best hits with a reranker."""

from __future__ import annotations

from functools import partial

from langchain_hybridgraph.execution.effects import Effect, Search, ask
from langchain_hybridgraph.execution.worker_threads import lane_of
from langchain_hybridgraph.query.pipeline.settings import SearchContext
from langchain_hybridgraph.query.rerankers import apply_scores, is_awaited
from langchain_hybridgraph.records import Hit


def rerank(context: SearchContext, hits: list[Hit]) -> Search[list[Hit]]:
    """Return the hits after reordering the best ``rerank_depth`` hits by the reranker's scores.

    The other hits follow, or are dropped if the reranker filters. Without a reranker or a question, or if the reranker
    fails, the hits are returned unchanged.
    """
    query, pipeline, trace = context
    reranker = pipeline.reranker
    if reranker is None or query.text is None or not hits:
        return hits
    text, best = query.text, hits[: pipeline.rerank_depth]
    call = Effect(
        "rerank",
        partial(reranker.rerank, text, best),
        partial(reranker.arerank, text, best) if is_awaited(reranker) else None,
        lane=lane_of("rerank", reranker),
    )
    with trace.stage("rerank"):
        scores = yield from ask(trace, call)
        if scores is None:
            return hits
        try:
            return apply_scores(hits, [*scores, *[None] * (len(hits) - len(best))], reranker)
        except Exception as error:  # noqa: BLE001 - a reranker may be the caller's own and return anything
            trace.record("rerank", error, "rerank-failed")
            return hits
