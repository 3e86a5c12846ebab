"""Early announcement of hits that are certain."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_hybridgraph.execution.effects import Search
from langchain_hybridgraph.query.pipeline.answerability import assess
from langchain_hybridgraph.query.pipeline.hits import read_parents
from langchain_hybridgraph.query.pipeline.settings import Candidates, CertainHits, SearchContext
from langchain_hybridgraph.records import Hit


def announce_seeds(context: SearchContext, hits: Sequence[Hit], candidates: Candidates) -> Search[None]:
    """Pass the seeds that are certain to be in the result to ``announce``, before the graph is traversed.

    Nothing happens if the pipeline has no ``announce``.
    """
    pipeline = context.pipeline
    if pipeline.announce is None:
        return
    certain = _certain_seeds(context, hits, candidates)
    if certain.hits and pipeline.resolves_parents:
        # Several children may become one parent, and later hits then move up.
        certain = CertainHits((yield from read_parents(context, list(certain.hits))))
    if certain.hits:
        answerability = assess(context, hits, candidates)
        scaled = [hit if answerability is None else answerability.scale(hit) for hit in certain.hits]
        pipeline.announce(certain._replace(hits=scaled))


def announce_before_rerank(context: SearchContext, hits: Sequence[Hit]) -> None:
    """Pass the hits to ``announce`` if all of them will be in the result and the reranker only changes their order."""
    query, pipeline, _ = context
    reranker = pipeline.reranker
    if pipeline.announce is None or reranker is None or reranker.filters or query.text is None:
        return
    drops_hits = pipeline.min_score > 0 or pipeline.max_per_document is not None or pipeline.budget is not None
    if hits and not drops_hits and len(hits) <= query.k:
        pipeline.announce(CertainHits(hits))


def _certain_seeds(context: SearchContext, hits: Sequence[Hit], candidates: Candidates) -> CertainHits:
    """Return the seeds that will be in the result, no matter which chunks the traversal reaches.

    The result is empty if a later stage may drop hits or change their order.
    """
    query, pipeline, _ = context
    expansion = pipeline.expansion
    reorders = pipeline.reranker is not None or pipeline.scoring is not None or pipeline.mmr_lambda is not None
    drops_hits = pipeline.min_score > 0 or pipeline.max_per_document is not None
    if expansion is None or reorders or drops_hits:
        return CertainHits(())
    own = {one.id: one for one in candidates.fused_candidates}
    seeds = expansion.seed_hits(hits)
    rivals = expansion.rivals(own, expansion.strengths(own, candidates.ids, candidates.cosines), seeds)
    # A budget may drop every hit except the first, and the places reserved for graph hits are the last ones.
    places = min(query.k - pipeline.graph_slots, query.k if pipeline.budget is None else 1)
    # If there are no edges, the hits keep the order of the search.
    first = {hit.id for hit in (seeds if expansion.is_graph_only else hits)[:places]}
    certain = [hit for hit in seeds if hit.id in first and rivals.get(hit.id, places) < places]
    certain.sort(key=lambda hit: rivals[hit.id])
    return CertainHits(certain, [rivals[hit.id] for hit in certain] == list(range(len(certain))))
