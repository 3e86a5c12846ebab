"""Loading hits and their parents from the store."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from functools import partial

from langchain_hybridgraph.execution.effects import Effect, Search
from langchain_hybridgraph.execution.worker_threads import lane_of
from langchain_hybridgraph.query.parents import parent_ids, replace_children
from langchain_hybridgraph.query.pipeline.settings import Candidates, SearchContext
from langchain_hybridgraph.records import Chunk, FusedCandidate, Hit
from langchain_hybridgraph.records.edges import ENTITY, TITLE
from langchain_hybridgraph.stores.protocols import HasOriginals, HasParents, implements


def read_hits(context: SearchContext, candidates: Candidates, n: int) -> Search[list[Hit]]:
    """Return the best n admitted candidates as hits.

    A candidate is admitted if it exists, belongs to the tenant, passes the filter and is valid. If the store keeps
    copies of another store's chunks, the originals are first looked up in that store. In the trace, the time is added
    to the stage ``admit``. The result is empty if the catalog cannot be read and ``on_error`` is "empty".
    """
    with context.trace.stage("admit"):
        return (yield from _read_hits(context, candidates, n))


def _read_hits(context: SearchContext, candidates: Candidates, n: int) -> Search[list[Hit]]:
    fused = candidates.fused_candidates
    chunks_from_sources = {id: chunk for result in candidates.results.values() for id, chunk in result.chunks.items()}
    ids_by_source = {source.name: ids for source, ids in zip(candidates.results, candidates.source_ids, strict=True)}
    scores = {ranking.source: ranking.scores for ranking in candidates.rankings}
    hits: list[Hit] = []
    start = 0
    while start < len(fused) and len(hits) < n:
        part = fused[start : start + n]
        start += len(part)
        chunks = {one.id: candidates.chunks[one.id] for one in part if one.id in candidates.chunks}
        ids = [one.id for one in part if one.id not in chunks]
        originals = yield from look_up_originals(context, [id for id in ids if id not in chunks_from_sources])
        chunks_from_sources |= {id: chunk for id, chunk in originals.items() if chunk is not None}
        ids = [id for id in ids if originals.get(id, True) is not None]
        if ids:
            read = partial(context.pipeline.store.read, ids, context.query.scope, chunks_from_sources)
            admitted = yield from context.ask(Effect("catalog", read, quick=True), is_required=True)
            if admitted is None:
                return []
            chunks |= admitted
        hits += [_hit(one, chunks[one.id], ids_by_source, scores, candidates) for one in part if one.id in chunks]
    return hits[:n]


def look_up_originals(context: SearchContext, ids: Sequence[str]) -> Search[Mapping[str, Chunk | None]]:
    """Look up chunks in the store from which they were copied, and return their current versions by id.

    The value is None for a deleted chunk. The result is empty if the store does not keep copies of another store's
    chunks, or if that store cannot be reached.
    """
    store = context.pipeline.store
    if not ids or not implements(store, HasOriginals):
        return {}
    call = Effect("lookup", partial(store.originals, ids), lane=lane_of("lookup", store))
    originals: Mapping[str, Chunk | None] = yield from context.ask(call, {})
    return originals


def read_parents(context: SearchContext, hits: list[Hit]) -> Search[list[Hit]]:
    """Return the hits with children replaced by their parents, if the store has parents.

    The hits are returned unchanged if the parents cannot be read. Children whose parents are missing stay in the
    result, with the reason ``parents-failed``.
    """
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


def _hit(
    fused: FusedCandidate,
    chunk: Chunk,
    ids_by_source: Mapping[str, Container[str]],
    scores: Mapping[str, Mapping[str, float]],
    candidates: Candidates,
) -> Hit:
    id = fused.id
    sources = tuple(source for source, ids in ids_by_source.items() if id in ids)
    source = sources[0] if len(sources) == 1 else "fused" if sources else "graph"
    path: tuple[str, ...] = (id,)
    hops = 0
    reached_chunk = candidates.reached_chunks.get(id)
    if (
        reached_chunk is not None and reached_chunk.hops
    ):  # this includes a seed whose score is raised by another seed, where its path starts
        path, hops = (
            tuple(step for step in reached_chunk.path if not step.startswith((ENTITY, TITLE))),
            reached_chunk.hops,
        )
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
