"""The stages between the ranked hits and the result."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.execution.effects import Effect, Search, ask
from langchain_hybridgraph.execution.workers import lane_of
from langchain_hybridgraph.query.parents import parent_ids, replace_children
from langchain_hybridgraph.query.pipeline.settings import SearchContext
from langchain_hybridgraph.query.rerank import apply_scores, is_awaited
from langchain_hybridgraph.query.selection import select_hits
from langchain_hybridgraph.records import Hit
from langchain_hybridgraph.stores.protocols import HasParents, HasVectors, implements


def parents(context: SearchContext, hits: list[Hit]) -> Search[list[Hit]]:
    """Replace children by their parents, if the store has any."""
    query, pipeline, trace = context
    store = pipeline.store
    if not pipeline.resolves_parents or not implements(store, HasParents):
        return hits
    ids = parent_ids(hits)
    if not ids:
        return hits
    with trace.stage("parents"):
        chunks = yield from context.ask(Effect("parents", partial(store.read_parents, ids, query.scope), quick=True))
    if chunks is None:
        return hits
    trace.degrade("parents-failed" if len(chunks) < len(ids) else None)
    return replace_children(hits, chunks)


def rerank(context: SearchContext, hits: list[Hit]) -> Search[list[Hit]]:
    """Return the best hits in the reranker's order; in their present order if it fails."""
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


def select(context: SearchContext, hits: list[Hit], unit: float = 1.0) -> Search[list[Hit]]:
    """Return the k hits that the selection chooses; ``unit`` is the factor by which scores are scaled at the end."""
    query, pipeline, trace = context
    store, selection = pipeline.store, replace(pipeline.selection, min_score=pipeline.selection.min_score / unit)
    if selection.mmr_lambda is None or not hits:
        with trace.stage("select"):
            return select_hits(hits, selection, query.k)
    if not implements(store, HasVectors):
        raise ConfigurationError(
            f"mmr_lambda={selection.mmr_lambda} needs the vectors of the hits, which this store does not return: "
            "use a HybridGraphStore or Chroma, or leave mmr_lambda out"
        )
    ids = [(hit.child or hit.chunk).id for hit in hits]
    with trace.stage("select"):
        vectors = yield from context.ask(Effect("vector", partial(store.vectors, ids), lane=lane_of("vector", store)))
        if vectors is None:
            selection = replace(selection, mmr_lambda=None)
        return select_hits(hits, selection, query.k, vectors)


def budget(context: SearchContext, hits: list[Hit]) -> list[Hit]:
    """Return the hits that fit into the token budget, if there is one."""
    if context.pipeline.budget is None:
        return hits
    with context.trace.stage("budget"):
        fitting, reasons = context.pipeline.budget.fit(hits)
    for reason in reasons:
        context.trace.degrade(reason)
    return fitting
