"""Stage that expands hits along edges of the graph."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from langchain_hybridgraph.execution.effects import Effect, Search
from langchain_hybridgraph.execution.trace import Trace
from langchain_hybridgraph.execution.worker_threads import lane_of
from langchain_hybridgraph.query.fusion import ScoresOthers
from langchain_hybridgraph.query.graph.expansion import Coverage, Expansion
from langchain_hybridgraph.query.graph.paths import TraversalResult
from langchain_hybridgraph.query.pipeline.certain_hits import announce_seeds
from langchain_hybridgraph.query.pipeline.hits import read_hits
from langchain_hybridgraph.query.pipeline.pruning import ALL, hits_needed
from langchain_hybridgraph.query.pipeline.settings import Candidates, SearchContext
from langchain_hybridgraph.query.pipeline.source_scores import add_scores
from langchain_hybridgraph.records import FusedCandidate, Hit
from langchain_hybridgraph.records.edges import ENTITY
from langchain_hybridgraph.registry import nearest
from langchain_hybridgraph.stores.protocols import Graph, HasDocuments, implements

# Maximum number of existing relations that a remark on an unknown relation lists.
MAX_RELATIONS = 20


def expand(context: SearchContext, candidates: Candidates) -> Search[Candidates]:
    """Return the candidates and the chunks reached through edges, with their scores after the traversal.

    A graph-only expansion returns only the reached chunks, which include the seeds. Without an expansion, the
    candidates are returned unchanged. If the store has no edges or the traversal fails, a graph-only expansion returns
    only the seeds, and any other expansion returns the candidates unchanged.
    """
    pipeline, trace = context.pipeline, context.trace
    expansion = pipeline.expansion
    if expansion is None:
        return candidates
    own: Mapping[str, FusedCandidate] = {one.id: one for one in candidates.fused_candidates}
    uncertain: list[str] = []
    if expansion.seed_ids is None:
        hits = yield from read_hits(context, candidates, ALL if expansion.picks_seeds else expansion.seed_k)
        yield from announce_seeds(context, hits, candidates)
        seed_hits = expansion.seed_hits(hits)
        _note_missing_seeds(trace, expansion, hits, seed_hits)
        seed_chunks = [hit.id for hit in seed_hits]
    else:
        is_chunk = yield from _resolve_seed_ids(context, expansion.seed_ids)
        expansion = replace(expansion, seed_ids=tuple(is_chunk))
        seed_chunks = [id for id in is_chunk if is_chunk[id]]
        uncertain = [id for id in is_chunk if not is_chunk[id]]
        seed_candidates = candidates._replace(
            fused_candidates=[one for one in candidates.fused_candidates if one.id in is_chunk]
        )
        hits = seed_hits = yield from read_hits(context, seed_candidates, ALL)
        candidates, own = yield from _score_seeds(context, candidates, seed_chunks, own)
    candidates = candidates._replace(chunks={hit.id: hit.chunk for hit in hits})
    if expansion.is_graph_only:
        seeds_alone = sorted((own[id] for id in seed_chunks), key=lambda one: (-one.score, one.id))
        unexpanded = candidates._replace(fused_candidates=seeds_alone)
    else:
        unexpanded = candidates
    strength = expansion.strengths(own, candidates.ids, candidates.cosines)
    with trace.stage("expand"):
        seeds = expansion.seeds(seed_hits, strength)
        traversal = yield from _traverse(context, expansion, candidates, seeds, seed_hits, uncertain=uncertain)
        if traversal is None:
            return unexpanded
        return (yield from _merge(context, expansion, candidates, own, traversal, seeds=dict(seeds), strength=strength))


class _GraphTraversal(NamedTuple):
    """Result of a traversal, with the graph that was traversed.

    ``graph`` is None if the store has no edges.
    """

    graph: Graph | None
    result: TraversalResult


def _traverse(
    context: SearchContext,
    expansion: Expansion,
    candidates: Candidates,
    seeds: Sequence[tuple[str, float]],
    seed_hits: Sequence[Hit],
    *,
    uncertain: Sequence[str],
) -> Search[_GraphTraversal | None]:
    """Return the result of a traversal from the seeds, or None if there are no edges or the traversal fails.

    ``uncertain`` are the ids of seeds that are not known to be chunks. They are used only if they are nodes of the
    graph.
    """
    query, trace, store = context.query, context.trace, context.pipeline.graph
    if store is None:
        trace.degrade(expansion.no_edges_reason)
        return None
    vector = next((result.vector for result in candidates.results.values() if result.vector is not None), None)

    def traverse() -> _GraphTraversal:
        if not store.has_graph:
            return _GraphTraversal(None, TraversalResult(()))
        graph = store.scoped_graph(query.scope, expansion.edge_filter)
        coverage = _coverage(context, candidates)
        question_traversal = expansion.for_question(query.text, seed_hits, coverage, has_names=graph.has_entities)
        nodes = zip(uncertain, graph.nodes(uncertain), strict=True) if uncertain else ()
        missing = {id for id, node in nodes if node < 0}
        starts = [seed for seed in seeds if seed[0] not in missing]
        return _GraphTraversal(graph, question_traversal.traverse(graph, starts, expansion.score, vector))

    traversal: _GraphTraversal | None = yield from context.ask(Effect("graph", traverse, lane=lane_of("graph", store)))
    if traversal is None:
        return None
    if traversal.graph is None:
        trace.degrade(expansion.no_edges_reason)
        return None
    trace.method = "graph"
    trace.degrade("node-cap-reached" if traversal.result.capped else None)
    trace.degrade("converged-early" if traversal.result.converged else None)
    _note_unknown_relations(trace, expansion.traversal.edge_filter.relations or frozenset(), traversal.graph.relations)
    return traversal


def _merge(
    context: SearchContext,
    expansion: Expansion,
    candidates: Candidates,
    own: Mapping[str, FusedCandidate],
    traversal: _GraphTraversal,
    *,
    seeds: Mapping[str, float],
    strength: Mapping[str, float],
) -> Search[Candidates]:
    """Return the candidates and the reached chunks together, with their scores after the traversal, best first."""
    graph, reached_chunks = traversal.graph, {each.id: each for each in traversal.result.chunks}
    if expansion.uses_search_score:
        candidates, own = yield from _score_reached(
            context, candidates, [id for id in reached_chunks if id not in own], own
        )
    fused = expansion.fuse(own, strength, traversal.result.chunks)
    if expansion.uses_search_score:
        # A path explains a score, so a candidate whose score was not raised through an edge has no path.
        raised = {one.id for one in fused if "graph" in one.parts}
        reached_chunks = {id: each for id, each in reached_chunks.items() if id in raised or id not in strength}
    else:
        # The sources' scores are only displayed, so only the best chunks need them, unless the scoring of memories
        # changes which chunks are best.
        n = ALL if context.pipeline.scoring is not None else hits_needed(context.pipeline, context.query.k)
        unscored = [one.id for one in fused[:n] if one.id not in own]
        candidates, _ = yield from _score_reached(context, candidates, unscored, own)
        cosines = candidates.cosines
        fused = [expansion.in_parts(one, reached_chunks.get(one.id), seeds, cosines) for one in fused]
    return candidates._replace(fused_candidates=fused, reached_chunks=reached_chunks, graph=graph)


def _note_missing_seeds(trace: Trace, expansion: Expansion, hits: Sequence[Hit], seed_hits: Sequence[Hit]) -> None:
    """Record ``no-seeds`` if seeds have to meet a condition and no hit meets it."""
    if seed_hits or not expansion.picks_seeds or not (hits or expansion.is_graph_only):
        return
    labels = ", ".join(map(repr, sorted(expansion.seed_labels)))
    conditions = ["passes seed_filter"] if expansion.seed_filter is not None else []
    conditions += [f"has a label of seed_labels ({labels:.80})"] if labels else []
    trace.degrade("no-seeds", f"no text that the search found {' and '.join(conditions)}, so no edge was followed")


def _note_unknown_relations(trace: Trace, requested: Collection[str], existing: Collection[str]) -> None:
    """Record ``unknown-relation`` if a requested relation has no edges, and list the existing relations."""
    if unknown := sorted(set(requested).difference(existing)):
        quoted, names = ", ".join(map(repr, unknown)), sorted(existing)
        names_text = ", ".join(names[:MAX_RELATIONS]) + (", …" if len(names) > MAX_RELATIONS else "")
        trace.degrade(
            "unknown-relation", f"no edge has the relation {quoted}; {nearest(unknown[0], names)}there are {names_text}"
        )


def _resolve_seed_ids(context: SearchContext, ids: Sequence[str]) -> Search[dict[str, bool]]:
    """Return the ids to start from, as a dict that tells for each id whether it is a known chunk.

    The id of a document is replaced by the ids of its chunks. Ids of entities and unknown ids are kept, because they
    may be nodes of the graph. Unknown ids are also reported as missing.
    """
    query, store = context.query, context.pipeline.store

    def read() -> dict[str, list[str]]:
        chunks = store.read(ids, query.scope, {})
        others = [id for id in ids if id not in chunks]
        documents = store.document_chunks(others) if others and implements(store, HasDocuments) else {}
        parts = store.read([id for each in documents.values() for id in each], query.scope, {}) if documents else {}
        return {id: [id] if id in chunks else sorted(parts.keys() & documents.get(id, set())) for id in ids}

    chunks = yield from context.ask(Effect("catalog", read, quick=True))
    if chunks is None:
        return dict.fromkeys(ids, False)
    if not all(chunks[id] or id.startswith(ENTITY) for id in ids):
        context.trace.degrade("seeds-missing")
    return {each: bool(chunks[id]) for id in ids for each in chunks[id] or [id]}


def _score_seeds(
    context: SearchContext, candidates: Candidates, ids: Sequence[str], own: Mapping[str, FusedCandidate]
) -> Search[tuple[Candidates, Mapping[str, FusedCandidate]]]:
    """Compute the search scores of the requested seeds that no source found.

    Return the candidates, and ``own`` with these scores added. If there is no question, each of these scores is 1.
    """
    new = [id for id in ids if id not in own]
    candidates, scored_candidates = yield from _score_reached(context, candidates, new, own)
    if not candidates.rankings:
        scored_candidates = {**scored_candidates, **{id: FusedCandidate(id, 1.0, {"seed": 1.0}) for id in new}}
    return candidates, scored_candidates


def _score_reached(
    context: SearchContext, candidates: Candidates, ids: Sequence[str], own: Mapping[str, FusedCandidate]
) -> Search[tuple[Candidates, Mapping[str, FusedCandidate]]]:
    """Compute the search scores of chunks that no source found.

    Return the candidates, and ``own`` with these scores added. The scores are 0 if the fusion can score only chunks in
    its lists. In the returned candidates, each ranking keeps only its best entry, which the fusion needs to scale
    scores.
    """
    if not ids:
        return candidates, own
    fusion = context.pipeline.fusion
    rankings = [replace(ranking, entries=ranking.entries[:1]) for ranking in candidates.rankings]
    candidates = yield from add_scores(context, candidates._replace(rankings=rankings), ids)
    others = fusion.others(candidates.rankings, ids) if implements(fusion, ScoresOthers) else []
    scored_candidates = others or [FusedCandidate(id, 0.0, {}) for id in ids]
    return candidates, {**own, **{one.id: one for one in scored_candidates}}


def _coverage(context: SearchContext, candidates: Candidates) -> Coverage | None:
    """Return a function that takes words and chunk ids, and returns the share of these words that each chunk contains.

    The share is estimated from BM25 scores. Return None if there is no keyword search, or if the largest possible BM25
    score is unknown.
    """
    results = candidates.results.items()
    keyword = next(((source, each) for source, each in results if source.name == "keyword" and each.bound), None)
    if keyword is None:
        return None
    source, result = keyword
    bound = result.bound or 1.0

    def coverage(words: str, ids: Sequence[str]) -> Mapping[str, float]:
        call = source.score(replace(context.query, text=words), result, ids) if words else None
        return {} if call is None else {id: score / bound for id, score in call.run().items()}

    return coverage
