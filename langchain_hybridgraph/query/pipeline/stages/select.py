"""Stage that selects the k hits of the result."""

from __future__ import annotations

from functools import partial

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.execution.effects import Effect, Search
from langchain_hybridgraph.execution.worker_threads import lane_of
from langchain_hybridgraph.query.pipeline.settings import SearchContext
from langchain_hybridgraph.query.selection import select_hits
from langchain_hybridgraph.records import Hit
from langchain_hybridgraph.stores.protocols import HasVectors, implements


def select(context: SearchContext, hits: list[Hit], unit: float = 1.0) -> Search[list[Hit]]:
    """Return the k hits selected by :func:`select_hits`.

    ``unit`` is the factor by which the stage ``calibrate`` will multiply the scores, so ``min_score`` is divided by it.

    Raises ConfigurationError for ``mmr_lambda`` with a store that does not return vectors.
    """
    query, pipeline, trace = context
    store, mmr_lambda, min_score = pipeline.store, pipeline.mmr_lambda, pipeline.min_score / unit
    if any(hit.score < min_score for hit in hits[: query.k]):
        trace.remarks["min_score"] = f"hits with a score below {pipeline.min_score:g} were left out"
    selected = partial(
        select_hits,
        hits,
        query.k,
        min_score=min_score,
        max_per_document=pipeline.max_per_document,
        graph_slots=pipeline.graph_slots,
    )
    if mmr_lambda is None or not hits:
        with trace.stage("select"):
            return selected()
    if not implements(store, HasVectors):
        raise ConfigurationError(
            f"mmr_lambda={mmr_lambda} needs the vectors of the hits, which this store does not return: "
            "use a HybridGraphStore or Chroma, or leave mmr_lambda out"
        )
    ids = [(hit.child or hit.chunk).id for hit in hits]
    with trace.stage("select"):
        vectors = yield from context.ask(Effect("vector", partial(store.vectors, ids), lane=lane_of("vector", store)))
        return selected(mmr_lambda=mmr_lambda, vectors=vectors)
