"""Hits that are certain to be in an answer before it is complete."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_hybridgraph.execution.effects import Search
from langchain_hybridgraph.query.pipeline.calibrated import calibrate, judge
from langchain_hybridgraph.query.pipeline.candidates import ScoredCandidates
from langchain_hybridgraph.query.pipeline.postprocess import resolve_parents
from langchain_hybridgraph.query.pipeline.settings import Certain, SearchContext
from langchain_hybridgraph.records import Hit


def announce_before_walk(run: SearchContext, hits: Sequence[Hit], ranked: ScoredCandidates) -> Search[None]:
    """Announce the hits of the search that come back wherever a walk leads; nothing where nobody listens."""
    pipeline = run.pipeline
    if pipeline.announce is None:
        return
    certain = before_walk(run, hits, ranked)
    if certain.hits and pipeline.resolves_parents:
        # Children of one parent become one hit, so that the later ones may move up.
        certain = Certain((yield from resolve_parents(run, list(certain.hits))))
    if certain.hits:
        told = calibrate(certain.hits, judge(run, hits, ranked))
        pipeline.announce(certain._replace(hits=told))


def announce_before_rerank(run: SearchContext, hits: Sequence[Hit]) -> None:
    """Announce the hits that come back whatever a reranker says of them; nothing where nobody listens."""
    announce = run.pipeline.announce
    if announce is not None and (certain := before_rerank(run, hits)).hits:
        announce(certain)


def before_walk(run: SearchContext, hits: Sequence[Hit], ranked: ScoredCandidates) -> Certain:
    """The seeds that come back wherever the walk leads, and when it fails; none where a later stage may drop them."""
    query, pipeline, _ = run
    expansion, selection = pipeline.expansion, pipeline.selection
    reorders = pipeline.reranker is not None or pipeline.scoring is not None or selection.mmr_lambda is not None
    drops = selection.min_score > 0 or selection.per_document is not None
    if expansion is None or expansion.seed_ids is not None or reorders or drops:
        return Certain(())
    own = {one.id: one for one in ranked.fused}
    seeds = expansion.seed_hits(hits)
    rivals = expansion.rivals(own, expansion.strengths(own, ranked.candidates, ranked.cosines), seeds)
    # A budget drops any hit but the first, and a slot of the graph takes one of the last places.
    places = min(query.k - selection.graph_slots, query.k if pipeline.budget is None else 1)
    # Where nothing can be walked the search's own order holds.
    kept = {hit.id for hit in (seeds if expansion.only_reached else hits)[:places]}
    certain = [hit for hit in seeds if hit.id in kept and rivals.get(hit.id, places) < places]
    certain.sort(key=lambda hit: rivals[hit.id])
    return Certain(certain, [rivals[hit.id] for hit in certain] == list(range(len(certain))))


def before_rerank(run: SearchContext, hits: Sequence[Hit]) -> Certain:
    """All hits, where there are places for all and the reranker only orders them; else none."""
    query, pipeline, _ = run
    reranker, selection = pipeline.reranker, pipeline.selection
    if reranker is None or reranker.filters or query.text is None:
        return Certain(())
    drops = selection.min_score > 0 or selection.per_document is not None or pipeline.budget is not None
    return Certain(()) if drops or len(hits) > query.k else Certain(hits)
