"""Admission of candidates that pass the scope."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from functools import partial

from langchain_hybridgraph.execution.effects import Effect, Search
from langchain_hybridgraph.execution.workers import lane_of
from langchain_hybridgraph.query.pipeline.gather import chunks_in
from langchain_hybridgraph.query.pipeline.pruning import hits_needed
from langchain_hybridgraph.query.pipeline.settings import Candidates, SearchContext
from langchain_hybridgraph.records import Chunk, FusedCandidate, Hit
from langchain_hybridgraph.stores.protocols import HasOriginals, implements
from langchain_hybridgraph.uris import ENTITY, TITLE


def admit(context: SearchContext, candidates: Candidates, limit: int | None = None) -> Search[list[Hit]]:
    """Return the best ``limit`` candidates that exist, belong to the tenant, pass the filter and are valid, as hits.

    Without a limit as many are read as later stages can use. If candidates were skipped and some of the best are not
    admitted, all candidates are ranked. Chunks of which a store keeps copies are looked up in their original store
    first.
    """
    n = hits_needed(context.pipeline, context.query.k) if limit is None else limit
    with context.trace.stage("admit"):
        hits = yield from _read_best(context, candidates, n)
    if candidates.complete is not None and [hit.id for hit in hits] != [one.id for one in candidates.fused[:n]]:
        candidates = yield from candidates.complete()
        with context.trace.stage("admit"):
            hits = yield from _read_best(context, candidates, n)
    return hits


def _read_best(context: SearchContext, candidates: Candidates, n: int) -> Search[list[Hit]]:
    fused = candidates.fused
    from_sources = chunks_in(candidates.results)
    found = {source.name: ids for source, ids in zip(candidates.results, candidates.found, strict=True)}
    scores = {ranking.source: ranking.scores for ranking in candidates.rankings}
    hits: list[Hit] = []
    start = 0
    while start < len(fused) and len(hits) < n:
        part = fused[start : start + n]
        start += len(part)
        chunks = {one.id: candidates.chunks[one.id] for one in part if one.id in candidates.chunks}
        ids = [one.id for one in part if one.id not in chunks]
        originals = yield from look_up_originals(context, [id for id in ids if id not in from_sources])
        from_sources |= {id: chunk for id, chunk in originals.items() if chunk is not None}
        ids = [id for id in ids if originals.get(id, True) is not None]
        if ids:
            read = partial(context.pipeline.store.read, ids, context.query.scope, from_sources)
            there = yield from context.ask(Effect("catalogue", read, quick=True), is_required=True)
            if there is None:
                return []
            chunks |= there
        hits += [_hit(one, chunks[one.id], found, scores, candidates) for one in part if one.id in chunks]
    return hits[:n]


def look_up_originals(context: SearchContext, ids: Sequence[str]) -> Search[Mapping[str, Chunk | None]]:
    """Return the present chunks under ids of which the store keeps copies, None for a deleted one.

    Empty for a store that keeps no copies, and if the original store cannot be reached.
    """
    store = context.pipeline.store
    if not ids or not implements(store, HasOriginals):
        return {}
    call = Effect("lookup", partial(store.originals, ids), lane=lane_of("lookup", store))
    originals: Mapping[str, Chunk | None] = yield from context.ask(call, {})
    return originals


def _hit(
    fused: FusedCandidate,
    chunk: Chunk,
    found: Mapping[str, Container[str]],
    scores: Mapping[str, Mapping[str, float]],
    candidates: Candidates,
) -> Hit:
    id = fused.id
    sources = tuple(source for source, ids in found.items() if id in ids)
    source = sources[0] if len(sources) == 1 else "fused" if sources else "graph"
    path: tuple[str, ...] = (id,)
    hops = 0
    reached = candidates.reached.get(id)
    if reached is not None and reached.hops:  # a seed that another seed lifts has that one's path
        path, hops = tuple(step for step in reached.path if not step.startswith((ENTITY, TITLE))), reached.hops
        source, sources = "fused" if sources else "graph", (*sources, "graph")
    cosine = scores.get("vector", {}).get(id) if candidates.has_cosines else None
    return Hit(
        chunk=chunk,
        score=fused.score,
        source=source,
        parts=fused.parts,
        vector_score=None if cosine is None else min(1.0, max(0.0, cosine)),
        bm25_score=scores.get("keyword", {}).get(id),
        hops=hops,
        path=path,
        found_by=sources,
    )
