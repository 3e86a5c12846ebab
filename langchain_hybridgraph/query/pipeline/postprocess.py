"""From the ranked hits to the answer."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.execution.effects import Effect, Failure, Search
from langchain_hybridgraph.execution.workers import lane_of
from langchain_hybridgraph.query import parents as parent_stage
from langchain_hybridgraph.query.pipeline.settings import SearchContext
from langchain_hybridgraph.query.rerank import apply_scores, is_awaited
from langchain_hybridgraph.query.selection import select
from langchain_hybridgraph.records import Hit
from langchain_hybridgraph.stores.protocols import HasParents, HasVectors, implements


def resolve_parents(run: SearchContext, hits: list[Hit]) -> Search[list[Hit]]:
    """Children give way to their parents, where that is wanted and the store has them."""
    query, pipeline, trace = run
    store = pipeline.store
    if not pipeline.resolves_parents or not implements(store, HasParents):
        return hits
    ids = parent_stage.wanted(hits)
    if not ids:
        return hits
    with trace.stage("parents"):
        (found,) = yield [Effect("parents", lambda: store.read_parents(ids, query.scope), quick=True)]
    if isinstance(found, Failure):
        run.note(found)
        return hits
    trace.degrade("parents-failed" if len(found) < len(ids) else None)
    return parent_stage.resolve(hits, found)


def rerank(run: SearchContext, hits: list[Hit]) -> Search[list[Hit]]:
    """The best hits in the reranker's order; a reranker that fails leaves the earlier one."""
    query, pipeline, trace = run
    reranker = pipeline.reranker
    if reranker is None or query.text is None or not hits:
        return hits
    text = query.text
    best = hits[: pipeline.rerank_depth]
    awaited = partial(reranker.arerank, text, best) if is_awaited(reranker) else None
    with trace.stage("rerank"):
        (scores,) = yield [
            Effect("rerank", partial(reranker.rerank, text, best), awaited, lane=lane_of("rerank", reranker))
        ]
        if not isinstance(scores, Failure):
            try:
                return apply_scores(hits, [*scores, *[None] * (len(hits) - len(best))], reranker)
            except Exception as error:  # noqa: BLE001 - a reranker may be the caller's own; the earlier order stays
                scores = Failure("rerank", error)
    run.note(scores)
    return hits


def select_hits(run: SearchContext, hits: list[Hit], unit: float = 1.0) -> Search[list[Hit]]:
    """Return the k hits that the selection chooses; ``unit`` is the factor by which scores are scaled at the end."""
    query, pipeline, trace = run
    store, selection = pipeline.store, replace(pipeline.selection, min_score=pipeline.selection.min_score / unit)
    if selection.mmr_lambda is None or not hits:
        with trace.stage("select"):
            return select(hits, selection, query.k)
    if not implements(store, HasVectors):
        raise ConfigurationError(
            f"mmr_lambda={selection.mmr_lambda} needs the vectors of the hits, which this store does not give: "
            "use a HybridGraphStore or Chroma, or leave mmr_lambda out"
        )
    ids = [(hit.child or hit.chunk).id for hit in hits]
    with trace.stage("select"):
        (vectors,) = yield [Effect("vector", lambda: store.vectors(ids), lane=lane_of("vector", store))]
        if isinstance(vectors, Failure):
            run.note(vectors)
            return select(hits, replace(selection, mmr_lambda=None), query.k)
        return select(hits, selection, query.k, vectors)


def apply_budget(run: SearchContext, hits: list[Hit]) -> list[Hit]:
    """The hits that fit into the budget of tokens, where there is one."""
    budget, trace = run.pipeline.budget, run.trace
    if budget is None:
        return hits
    with trace.stage("budget"):
        kept, reasons = budget.fit(hits)
    for reason in reasons:
        trace.degrade(reason)
    return kept
