"""Stages that find and rank candidates."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import NamedTuple

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.execution.effects import Effect, Search, Trace
from langchain_hybridgraph.execution.threads import lane_of
from langchain_hybridgraph.memory.scores import CompositeScores
from langchain_hybridgraph.records import (
    ENTITY,
    FusedCandidate,
    Hit,
    Ranking,
    Scope,
    ScoredId,
    SourceResult,
    content_id,
)
from langchain_hybridgraph.registry import nearest
from langchain_hybridgraph.search.certain_hits import announce_seeds
from langchain_hybridgraph.search.context import ALL, Candidates, SearchContext, hits_needed, read_hits, scores_unread
from langchain_hybridgraph.search.expansion import Coverage, Expansion
from langchain_hybridgraph.search.fusion import DependsOnK, Interleave, KnowsContenders, ScoresOthers
from langchain_hybridgraph.search.sources import ListedSource, Source
from langchain_hybridgraph.search.traversals import TraversalResult
from langchain_hybridgraph.stores.protocols import Graph, HasDocuments, KnowsCopies, implements

# Scores of candidates that a source did not find.


def add_scores(
    context: SearchContext, candidates: Candidates, ids: Iterable[str], skip: Set[int] = frozenset()
) -> Search[Candidates]:
    """Return the candidates with additional scores for the chunks ``ids``, computed by the sources.

    Only missing scores are computed. The sources at the positions in ``skip`` are left out.
    """
    positions, calls = [], []
    for position, (source, result) in enumerate(candidates.results.items()):
        scores = candidates.rankings[position].scores
        missing = [] if position in skip else [id for id in ids if id not in scores]
        if missing and (call := source.score(context.query, result, missing)) is not None:
            positions.append(position)
            calls.append(call)
    if not calls:
        return candidates
    rankings = list(candidates.rankings)
    for position, scores in zip(positions, (yield from context.ask_all(calls, {})), strict=True):
        rankings[position] = replace(rankings[position], scores={**rankings[position].scores, **scores})
    return candidates._replace(rankings=rankings)


# Stage that searches all sources for candidates.

MIN_CANDIDATES = 100
"""Minimum number of candidates requested from each source; fewer scores are not enough for a good normalisation."""
MAX_CANDIDATES = 20_000
"""Number of candidates at which no more are requested from a source, even if most of them are copies of one another."""


def gather(context: SearchContext) -> Search[dict[Source, SourceResult]]:
    """Search all sources at the same time and return their results.

    Raises RetrievalError if every source failed, unless ``on_error`` is "empty".
    """
    query, pipeline, trace = context
    if query.text is None:
        trace.degrade("no-query-text")
    n = max(query.k * pipeline.overfetch, MIN_CANDIDATES)
    if pipeline.source_filter is not None:
        filter = query.scope.filter
        narrower = pipeline.source_filter if filter is None else filter & pipeline.source_filter
        query = replace(query, scope=replace(query.scope, filter=narrower))
    results: dict[Source, SourceResult] = {}
    unified: dict[Source, SourceResult] = {}
    sources: Sequence[Source] = pipeline.sources
    with trace.stage("gather"):
        while searches := [(source, call) for source in sources if (call := source.search(query, n)) is not None]:
            answers = yield from context.ask_all([call for _, call in searches], is_required=not results)
            latest = {source: each for (source, _), each in zip(searches, answers, strict=True) if each is not None}
            results |= latest
            unified = unify_ids(results)
            if not pipeline.merges_copies:
                break
            unified = merge_copies(unified, pipeline.store)
            # If most of the n entries are copies, the source may have more texts.
            few = max(query.k, n // 2) if n < MAX_CANDIDATES else 0
            sources = [each for each in latest if len(latest[each].entries) >= n and len(unified[each].entries) < few]
            n *= 4
    for result in results.values():
        trace.degrade(result.reason, result.remark)
        if result.entries and not result.are_cosines:
            trace.degrade("no-cosine", "the vector store does not document how its scores relate to cosines")
    return unified


def unify_ids(results: Mapping[Source, SourceResult]) -> dict[Source, SourceResult]:
    """Return the results with one id per chunk, even if two sources use different ids for the same text.

    - A chunk whose id is only a hash of its content gets the id of a chunk with the same text and the same ``source``
      in its metadata.
    - If the vector search and another source each found a chunk with the same text but under different ids, both get
      the id from the other source. That id is preferred because a vector store may generate its own ids, while the ids
      of a keyword retriever come from the application. If both chunks have a ``source`` and the two differ, they
      keep their ids.

    Only entries that contain their chunk are compared, so at least two sources have to return chunks. This package's
    stores return entries without chunks, so their ids do not change.
    """
    if sum(bool(result.entries) and result.entries[0].chunk is not None for result in results.values()) < 2:
        return dict(results)
    chunks = _chunks_of(results)
    contents = {id: (chunk.text, str(chunk.metadata.get("source", ""))) for id, chunk in chunks.items()}
    unnamed = {id for id, content in contents.items() if id == content_id(*content)}
    ids_by_content = {content: id for id, content in contents.items() if id not in unnamed}
    new_ids = {id: ids_by_content[contents[id]] for id in unnamed if contents[id] in ids_by_content}
    return _renamed(results, new_ids | _ids_for_vector_results(results, new_ids))


def merge_copies(results: Mapping[Source, SourceResult], store: object) -> dict[Source, SourceResult]:
    """Return the results with one entry per text in each list, even if the store contains copies of the text.

    Copies are chunks with equal text and metadata. They get the id that the store uses for all of them or, if there is
    none, the id of a copy that several sources or only a source without vectors found, or else of the first copy. Only
    entries that contain their chunk are compared, as in :func:`unify_ids`.
    """
    chunks = _chunks_of(results)
    counts = Counter(chunk.text for chunk in chunks.values())
    # With a single source, the store may not have been checked for deleted texts, so its id may be out of date.
    stored_ids = store.ids_of_copies(chunks.values()) if len(results) > 1 and implements(store, KnowsCopies) else {}
    other_ids = {entry.id for source, each in results.items() if source.name != "vector" for entry in each.entries}
    copies: dict[tuple[str, str], list[str]] = {}
    for id, chunk in chunks.items():
        if counts[chunk.text] > 1:
            copies.setdefault(chunk.content, []).append(id)
    new_ids = {id: next((each for each in ids if each in other_ids), ids[0]) for ids in copies.values() for id in ids}
    # The chunk with the store's id may have been changed since the store was read.
    new_ids |= {id: new for id, new in stored_ids.items() if chunks.get(new, chunks[id]).content == chunks[id].content}
    return _renamed(results, {id: new for id, new in new_ids.items() if id != new})


def _renamed(results: Mapping[Source, SourceResult], new_ids: Mapping[str, str]) -> dict[Source, SourceResult]:
    """Return the results with new ids in entries that contain their chunk; a list contains each new id once."""
    if not new_ids:
        return dict(results)
    renamed = {}
    for source, result in results.items():
        entries: dict[str, ScoredId] = {}
        for e in result.entries:
            id = new_ids.get(e.id, e.id) if e.chunk else e.id
            entries.setdefault(
                id, e if id == e.id or e.chunk is None else ScoredId(id, e.score, replace(e.chunk, id=id))
            )
        renamed[source] = result._replace(entries=list(entries.values()))
    return renamed


def _chunks_of(results: Mapping[Source, SourceResult]) -> dict[str, Chunk]:
    return {id: chunk for result in results.values() for id, chunk in result.chunks.items()}


def _ids_for_vector_results(results: Mapping[Source, SourceResult], new_ids: Mapping[str, str]) -> dict[str, str]:
    """Return a dict from current id to new id for chunks that only the vector search found.

    The new id comes from a chunk with the same text that only another source found.
    """
    by_vector = _chunks_of({source: result for source, result in results.items() if source.name == "vector"})
    by_others = _chunks_of({source: result for source, result in results.items() if source.name != "vector"})
    unmatched: dict[str, list[Chunk]] = {}
    for id, chunk in by_others.items():
        if id not in by_vector and id not in new_ids:
            unmatched.setdefault(chunk.text, []).append(chunk)
    ids = {}
    for id, chunk in by_vector.items():
        if id in by_others or id in new_ids:
            continue
        same = next((other for other in unmatched.get(chunk.text, ()) if _have_same_source(chunk, other)), None)
        if same is not None:
            ids[id] = same.id
            unmatched[chunk.text].remove(same)
    return ids


def _have_same_source(chunk: Chunk, other: Chunk) -> bool:
    one, two = chunk.metadata.get("source"), other.metadata.get("source")
    return one is None or two is None or one == two


# Stage that lists the matches of filter-only calls.


def list_matches(context: SearchContext, limit: int | None = None) -> Search[Candidates]:
    """Return the chunks that match the filter, in the store's order, each with a score of 1.

    At most ``limit`` chunks are listed; the default is the number that later stages can use. Some of them may be copies
    whose originals have been deleted. If the limit was reached, ``complete`` is therefore set to a function that lists
    up to four times as many chunks.
    """
    query, pipeline, trace = context
    n = limit
    if n is None:
        n = ALL if scores_unread(pipeline) else hits_needed(pipeline, query.k)
    trace.degrade("filter-only")
    trace.method = "filter"
    result = SourceResult([])
    if pipeline.listing is not None:
        with trace.stage("list_matches"):
            call = ListedSource(pipeline.store, pipeline.listing).search(query, n)
            result = yield from context.ask(call, result, is_required=True)
    trace.degrade(result.reason, result.remark)
    candidates = listed_candidates(context, result)
    return (
        candidates if len(result.entries) < n else candidates._replace(complete=partial(list_matches, context, 4 * n))
    )


def listed_candidates(context: SearchContext, result: SourceResult) -> Candidates:
    """Convert listed chunks to candidates in the same order."""
    source = ListedSource(context.pipeline.store, context.pipeline.listing or _no_chunks)
    scores = {entry.id: entry.score for entry in result.entries}
    fused = [FusedCandidate(id, score, {source.name: score}) for id, score in scores.items()]
    return Candidates({source: result}, [Ranking(source.name, 1.0, result.entries, scores)], [scores], fused)


def _no_chunks(scope: Scope, n: int) -> SourceResult:
    return SourceResult([])


# Stage in which all sources score the candidates.


def rank(
    context: SearchContext, results: Mapping[Source, SourceResult], contenders: int | None = None
) -> Search[Candidates]:
    """Return the candidates of all sources, scored by every source that can score them.

    A source also scores candidates that only other sources found. If ``contenders`` is a number n and the fusion can
    tell which candidates may be among the best n, only these candidates are scored and returned (see
    :mod:`~langchain_hybridgraph.search.context`).
    """
    candidates = _unscored(results)
    with context.trace.stage("rank"):
        if contenders is not None and implements(context.pipeline.fusion, KnowsContenders):
            candidates = yield from _score_contenders(context, candidates, context.pipeline.fusion, contenders)
        else:
            candidates = yield from add_scores(context, candidates, _ids_of(candidates.rankings))
    return candidates


def _unscored(results: Mapping[Source, SourceResult]) -> Candidates:
    """Return the candidates with only the scores from the sources that found them."""
    scores = [{id: score for id, score, _ in result.entries} for result in results.values()]
    rankings = [
        Ranking(
            source.name,
            source.weight,
            result.entries,
            own,
            result.bound,
            result.background,
            result.rest,
            result.exact,
        )
        for (source, result), own in zip(results.items(), scores, strict=True)
    ]
    source_ids = [{**result.exact, **own} for result, own in zip(results.values(), scores, strict=True)]
    return Candidates(results, rankings, source_ids)


def _score_contenders(
    context: SearchContext, candidates: Candidates, fusion: KnowsContenders, n: int
) -> Search[Candidates]:
    """Score the candidates that can be among the best n, and drop all others except the first entry of each ranking."""
    # A source without an upper bound for candidates that it did not find has to score them first.
    bounded = {position for position, ranking in enumerate(candidates.rankings) if ranking.rest is not None}
    candidates = yield from add_scores(context, candidates, _ids_of(candidates.rankings), skip=bounded)
    contenders = fusion.contenders(candidates.rankings, n)
    rankings = [_only(ranking, contenders) for ranking in candidates.rankings]
    pairs = zip(rankings, candidates.rankings, strict=True)
    if any(len(reduced.entries) < len(ranking.entries) for reduced, ranking in pairs):
        complete = partial(rank, context, candidates.results)
        candidates = candidates._replace(rankings=rankings, complete=complete)
    return (yield from add_scores(context, candidates, _ids_of(rankings)))


def _ids_of(rankings: Iterable[Ranking]) -> dict[str, None]:
    """Return the ids of all entries and exact matches in the rankings, without duplicates."""
    entries = (entry[0] for ranking in rankings for entry in ranking.entries)
    return dict.fromkeys(chain(entries, *(ranking.exact for ranking in rankings)))


def _only(ranking: Ranking, contenders: Set[str]) -> Ranking:
    entries = [entry for entry in ranking.entries[1:] if entry.id in contenders]
    return replace(ranking, entries=[*ranking.entries[:1], *entries])


# Stage that fuses the rankings of all sources.


def fuse(context: SearchContext, candidates: Candidates) -> Candidates:
    """Return the candidates with ``fused_candidates`` set: all candidates in one list, best first."""
    complete = None if candidates.complete is None else partial(_complete, context, candidates.complete)
    return candidates._replace(fused_candidates=_fuse_rankings(context, candidates.rankings), complete=complete)


def _complete(context: SearchContext, complete: Callable[[], Search[Candidates]]) -> Search[Candidates]:
    return fuse(context, (yield from complete()))


def _fuse_rankings(context: SearchContext, rankings: Sequence[Ranking]) -> list[FusedCandidate]:
    """Return the fused list of candidates.

    If the fusion fails, the rankings are interleaved, which needs no scores.
    """
    trace, fusion = context.trace, context.pipeline.fusion
    sources = [ranking.source for ranking in rankings if ranking.entries]
    method = getattr(fusion, "method", "hybrid")
    trace.method = method if len(sources) > 1 else "".join(sources) or method
    with trace.stage("fuse"):
        try:
            fused = (fusion.for_k(context.query.k) if implements(fusion, DependsOnK) else fusion)(rankings)
            if all(map(math.isfinite, [one.score for one in fused])):
                return fused
            raise ValueError("a score is not a finite number")
        except Exception as error:  # noqa: BLE001 - a fusion may be the caller's own, and interleaving always works
            trace.record("fusion", error, "fusion-failed")
        trace.degrade("interleaved")
        trace.method = "interleave"
        return Interleave()(rankings)


# Stage that expands hits along edges of the graph.

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
        graph = store.scoped_graph(query.scope, expansion.traversal.edge_filter)
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


# Stage that scores memories before reading their texts.


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
