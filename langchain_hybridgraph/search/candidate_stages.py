"""Stages that find and rank candidates."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import filterfalse
from operator import itemgetter

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import quote_value
from langchain_hybridgraph.execution.effects import Effect, Search, failures_in
from langchain_hybridgraph.execution.threads import lane_of
from langchain_hybridgraph.memory_scores import CompositeScores
from langchain_hybridgraph.records import (
    ENTITY,
    FusedCandidate,
    Hit,
    Ranking,
    ScoredId,
    SourceResult,
    content_id,
)
from langchain_hybridgraph.registry import nearest
from langchain_hybridgraph.search.certain_hits import announce_seeds
from langchain_hybridgraph.search.context import ALL, Candidates, SearchContext, read_hits
from langchain_hybridgraph.search.expansion import Coverage, Expansion
from langchain_hybridgraph.search.fusion import ConvexCombination, DependsOnK, Interleave, ScoresOthers
from langchain_hybridgraph.search.sources import ListedSource, Source
from langchain_hybridgraph.search.traversals import TraversalResult
from langchain_hybridgraph.stores.protocols import Graph, HasDocuments, KnowsCopies, implements

# Stage that searches all sources for candidates.

MIN_CANDIDATES = 100
"""Minimum number of candidates requested from each source; fewer scores are not enough for a good normalisation."""
MAX_CANDIDATES = 20_000
"""Number of candidates at which no more are requested from a source, even if most of them are copies of one another."""


def gather(context: SearchContext) -> Search[dict[Source, SourceResult]]:
    """Search all sources at the same time; raise RetrievalError if all fail, unless ``on_error`` is "empty"."""
    query, pipeline, trace = context.query, context.pipeline, context.trace
    if query.text is None:
        trace.degrade("no-query-text")
    n = max(query.k * pipeline.overfetch, MIN_CANDIDATES)
    if pipeline.source_filter is not None:
        query = replace(query, scope=query.scope.narrowed(pipeline.source_filter))
    results: dict[Source, SourceResult] = {}
    unified: dict[Source, SourceResult] = {}
    sources: Sequence[Source] = pipeline.sources
    with trace.stage("gather"):
        while True:
            searches = {}
            for source in sources:
                if (call := source.search(query, n)) is not None:
                    searches[source] = call
            if not searches:
                break
            answers = context.replace_failures((yield list(searches.values())), is_required=not results)
            latest = {source: each for source, each in zip(searches, answers, strict=True) if each is not None}
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
        if result.reason is not None:
            trace.degrade(result.reason, result.remark)
        if result.entries and not result.are_cosines:
            trace.degrade("no-cosine", "the vector store does not document how its scores relate to cosines")
    return unified


def unify_ids(results: Mapping[Source, SourceResult]) -> dict[Source, SourceResult]:
    """Return the results with one id per chunk, even if two sources use different ids for the same text.

    - A chunk whose id is only a hash of its content gets the id of a chunk with the same text and ``source``.
    - If the vector search and another source each found a chunk with the same text, both get the id from the other
      source, unless both have a ``source`` and the two differ: a vector store may generate its own ids, while the ids
      of a keyword retriever come from the application.

    Only entries that contain their chunk are compared; those of this package's stores do not.
    """
    if sum(bool(each.entries) and each.entries[0].chunk is not None for each in results.values()) < 2:
        return dict(results)
    chunks = _chunks_of(results)
    contents = {id: (chunk.text, str(chunk.metadata.get("source", ""))) for id, chunk in chunks.items()}
    unnamed = {id for id, content in contents.items() if id == content_id(*content)}
    ids_by_content = {content: id for id, content in contents.items() if id not in unnamed}
    new_ids = {id: ids_by_content[contents[id]] for id in unnamed if contents[id] in ids_by_content}
    return _renamed(results, new_ids | _ids_for_vector_results(results, new_ids))


def merge_copies(results: Mapping[Source, SourceResult], store: object) -> dict[Source, SourceResult]:
    """Return the results with one entry per text in each list, even if the store contains copies of the text.

    Copies are chunks with equal text and metadata. They get the id that the store uses for all of them, or else the id
    of a copy that several sources or only a source without vectors found, or else of the first. Only entries that
    contain their chunk are compared.
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
    """Return new ids, by current id, from other sources for chunks with the same text in the vector search only."""
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
        for other in unmatched.get(chunk.text, ()):
            one, two = chunk.metadata.get("source"), other.metadata.get("source")
            if one is None or two is None or one == two:
                ids[id] = other.id
                unmatched[chunk.text].remove(other)
                break
    return ids


def list_matches(context: SearchContext, limit: int | None = None) -> Search[Candidates]:
    """Return the chunks that match the filter, in the store's order, each with a score of 1.

    At most ``limit`` chunks are listed, by default the number that later stages can use. As some may be copies of
    deleted originals, ``complete`` then lists up to four times as many.
    """
    query, pipeline, trace = context.query, context.pipeline, context.trace
    n = limit
    if n is None:
        n = ALL if context.limits.scores_unread else context.limits.hits
    trace.degrade("filter-only")
    trace.method = "filter"
    result = SourceResult([])
    if pipeline.listing is not None:
        with trace.stage("list_matches"):
            lane = lane_of("filter", pipeline.store)
            call = Effect("filter", partial(pipeline.listing, query.scope, n), lane=lane)
            result = yield from context.ask(call, result, is_required=True)
    trace.degrade(result.reason, result.remark)
    candidates = listed_candidates(result)
    return (
        candidates if len(result.entries) < n else candidates._replace(complete=partial(list_matches, context, 4 * n))
    )


def listed_candidates(result: SourceResult) -> Candidates:
    """Convert listed chunks to candidates in the same order."""
    source = ListedSource()
    scores = {entry.id: entry.score for entry in result.entries}
    fused = [FusedCandidate(id, score, {source.name: score}) for id, score in scores.items()]
    return Candidates({source: result}, [Ranking(source.name, 1.0, result.entries, scores)], [scores], fused)


def rank(context: SearchContext, results: Mapping[Source, SourceResult]) -> Search[Candidates]:
    """Return the candidates of all sources, scored by every source that can score them."""
    rankings, source_ids = [], []
    for source, result in results.items():
        scores = {entry[0]: entry[1] for entry in result.entries}
        rankings.append(
            Ranking(source.name, source.weight, result.entries, scores, result.bound, result.background, result.exact)
        )
        source_ids.append({**result.exact, **scores})
    candidates = Candidates(results, rankings, source_ids)
    with context.trace.stage("rank"):
        return (yield from add_scores(context, candidates, candidates.ids))


def add_scores(context: SearchContext, candidates: Candidates, ids: Iterable[str]) -> Search[Candidates]:
    """Return the candidates with missing scores for the chunks ``ids``, computed by every source that can."""
    rankings, calls = list(candidates.rankings), {}
    for position, (source, result) in enumerate(candidates.results.items()):
        missing = list(filterfalse(rankings[position].scores.__contains__, ids))
        if missing and (call := source.score(context.query, result, missing)) is not None:
            calls[position] = call
    if not calls:
        return candidates
    answers = context.replace_failures((yield list(calls.values())), {})
    for position, scores in zip(calls, answers, strict=True):
        rankings[position] = replace(rankings[position], scores={**rankings[position].scores, **scores})
    return candidates._replace(rankings=rankings)


def fuse(context: SearchContext, candidates: Candidates) -> Search[Candidates]:
    """Return the candidates with ``fused_candidates``, best first; if the fusion fails, interleaved by rank."""
    trace, fusion, rankings = context.trace, context.pipeline.fusion, candidates.rankings
    sources = [ranking.source for ranking in rankings if ranking.entries]
    method = getattr(fusion, "method", "hybrid")
    trace.method = method if len(sources) > 1 else "".join(sources) or method

    def call_fusion() -> Sequence[FusedCandidate]:
        fused = (fusion.for_k(context.query.k) if implements(fusion, DependsOnK) else fusion)(rankings)
        if not all(map(math.isfinite, map(itemgetter(1), fused))):
            raise ValueError("a score is not a finite number")
        return fused

    is_fast = type(fusion).__module__ == ConvexCombination.__module__
    with trace.stage("fuse"):
        (fused,) = yield [Effect("fusion", call_fusion, quick=is_fast, lane=lane_of("fusion", fusion))]
        for failure in failures_in([fused]):
            trace.record("fusion", failure.error, failure.reason)
            trace.degrade("interleaved")
            trace.method = "interleave"
            fused = Interleave()(rankings)
    return candidates._replace(fused_candidates=fused)


# Stage that expands hits along edges of the graph.

# Maximum number of existing relations that a remark on an unknown relation lists.
MAX_RELATIONS = 20


def expand(context: SearchContext, candidates: Candidates) -> Search[Candidates]:
    """Return the candidates and the chunks reached through edges, with their scores after the traversal.

    A graph-only expansion returns only the reached chunks, which include the seeds; only the seeds, if the store has no
    edges or the traversal fails. In these cases, or without an expansion, other candidates are returned unchanged.
    """
    pipeline, trace = context.pipeline, context.trace
    expansion = pipeline.expansion
    if expansion is None:
        return candidates
    own: Mapping[str, FusedCandidate] = {one.id: one for one in candidates.fused_candidates}
    uncertain: list[str] = []
    if expansion.seed_ids is None:
        hits = yield from read_hits(context, candidates, ALL if expansion.picks_seeds else expansion.seed_k)
        if pipeline.announce is not None:
            yield from announce_seeds(context, hits, candidates)
        seed_hits = expansion.seed_hits(hits)
        if expansion.picks_seeds and not seed_hits and (hits or expansion.is_graph_only):
            labels = ", ".join(map(repr, sorted(expansion.seed_labels))) or "any"
            trace.degrade("no-seeds", f"no text that the search found meets seed_filter and seed_labels ({labels:.80})")
        seed_chunks = [hit.chunk.id for hit in seed_hits]
    else:
        is_chunk = yield from _resolve_seed_ids(context, expansion.seed_ids)
        expansion = replace(expansion, seed_ids=tuple(is_chunk))
        seed_chunks = [id for id in is_chunk if is_chunk[id]]
        uncertain = [id for id in is_chunk if not is_chunk[id]]
        fused = [one for one in candidates.fused_candidates if one.id in is_chunk]
        hits = seed_hits = yield from read_hits(context, candidates._replace(fused_candidates=fused), ALL)
        new = [id for id in seed_chunks if id not in own]
        candidates, own = yield from _score_reached(context, candidates, new, own)
        if not candidates.rankings:  # there is no question
            own = {**own, **{id: FusedCandidate(id, 1.0, {"seed": 1.0}) for id in new}}
    candidates = candidates._replace(chunks={hit.chunk.id: hit.chunk for hit in hits})
    strength = expansion.strengths(own, candidates.ids, candidates.cosines)
    with trace.stage("expand"):
        seeds = expansion.seeds(seed_hits, strength)
        graph, traversal = yield from _traverse(context, expansion, candidates, seeds, seed_hits, uncertain=uncertain)
        if graph is None:
            if not expansion.is_graph_only:
                return candidates
            seeds_alone = sorted((own[id] for id in seed_chunks), key=lambda one: (-one.score, one.id))
            return candidates._replace(fused_candidates=seeds_alone)
        reached_chunks = {each.id: each for each in traversal.chunks}
        if expansion.uses_search_score:
            new = [id for id in reached_chunks if id not in own]
            candidates, own = yield from _score_reached(context, candidates, new, own)
        fused = expansion.fuse(own, strength, traversal.chunks)
        if expansion.uses_search_score:
            # A path explains a score, so a candidate whose score was not raised through an edge has no path.
            raised = {one.id for one in fused if "graph" in one.parts}
            reached_chunks = {id: each for id, each in reached_chunks.items() if id in raised or id not in strength}
        else:
            # The sources' scores are only displayed, so only the best chunks need them, unless the scoring of memories
            # changes which chunks are best.
            n = ALL if pipeline.scoring is not None else context.limits.hits
            unscored = [one.id for one in fused[:n] if one.id not in own]
            candidates, _ = yield from _score_reached(context, candidates, unscored, own)
            fused = expansion.in_parts(fused, reached_chunks, dict(seeds), candidates.cosines)
    return candidates._replace(fused_candidates=fused, reached_chunks=reached_chunks, graph=graph)


def _traverse(
    context: SearchContext,
    expansion: Expansion,
    candidates: Candidates,
    seeds: Sequence[tuple[str, float]],
    seed_hits: Sequence[Hit],
    *,
    uncertain: Sequence[str],
) -> Search[tuple[Graph | None, TraversalResult]]:
    """Return the graph (None without edges or after a failure) and the result of a traversal from the seeds.

    ``uncertain`` are the ids of seeds that are not known to be chunks. They are used only if they are nodes of the
    graph.
    """
    query, trace, store = context.query, context.trace, context.pipeline.graph
    nothing = None, TraversalResult(())
    vector = next((result.vector for result in candidates.results.values() if result.vector is not None), None)

    def traverse() -> tuple[Graph | None, TraversalResult]:
        if store is None or not store.has_graph:
            trace.degrade("no-graph-store" if expansion.is_requested else "no-edges")
            return nothing
        graph = store.scoped_graph(query.scope, expansion.traversal.edge_filter)
        coverage = _coverage(context, candidates)
        question_traversal = expansion.for_question(query.text, seed_hits, coverage, has_names=graph.has_entities)
        nodes = zip(uncertain, graph.nodes(uncertain), strict=True) if uncertain else ()
        missing = {id for id, node in nodes if node < 0}
        starts = [seed for seed in seeds if seed[0] not in missing] if missing else seeds
        result = question_traversal.traverse(graph, starts, expansion.score, vector)
        if not isinstance(result, TraversalResult):
            raise TypeError(f"a traversal must return a TraversalResult, got {quote_value(result)}")
        return graph, result

    if store is None:
        return traverse()
    call = Effect("graph", traverse, lane=lane_of("graph", store))
    ((graph, result),) = context.replace_failures((yield [call]), nothing)
    if graph is not None:
        trace.method = "graph"
        if result.capped:
            trace.degrade("node-cap-reached")
        if result.converged:
            trace.degrade("converged-early")
        relations = expansion.traversal.edge_filter.relations
        if relations and (unknown := sorted(relations.difference(graph.relations))):
            quoted, existing = ", ".join(map(repr, unknown)), sorted(graph.relations)
            names = ", ".join([*existing[:MAX_RELATIONS], "…"][: len(existing)])
            trace.degrade(
                "unknown-relation",
                f"no edge has the relation {quoted}; {nearest(unknown[0], existing)}there are {names}",
            )
    return graph, result


def _resolve_seed_ids(context: SearchContext, ids: Sequence[str]) -> Search[dict[str, bool]]:
    """Return, by id to start from, whether it is a known chunk.

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


def _score_reached(
    context: SearchContext, candidates: Candidates, ids: Sequence[str], own: Mapping[str, FusedCandidate]
) -> Search[tuple[Candidates, Mapping[str, FusedCandidate]]]:
    """Compute the search scores of chunks that no source found, and return ``own`` with them added.

    The scores are 0 if the fusion can score only chunks in its lists. In the candidates, which are also returned, each
    ranking keeps only its best entry, which the fusion needs to scale scores.
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
    """Return a function from words and chunk ids to the share of these words in each chunk, from BM25 scores.

    Return None if there is no keyword search, or if the largest possible BM25 score is unknown.
    """
    for source, result in candidates.results.items():
        if source.name == "keyword" and result.bound:
            break
    else:
        return None
    bound = result.bound

    def coverage(words: str, ids: Sequence[str]) -> Mapping[str, float]:
        call = source.score(replace(context.query, text=words), result, ids) if words else None
        return {} if call is None else {id: score / bound for id, score in call.run().items()}

    return coverage


def score_candidates(context: SearchContext, candidates: Candidates, limit: int | None = None) -> Search[Candidates]:
    """Return the candidates with their memory scores, if these can be computed before the texts are read.

    At most ``limit`` candidates are returned; the default is the number that later stages can use.
    """
    scoring, fused = context.pipeline.scoring, candidates.fused_candidates
    if scoring is None or not fused or not context.limits.scores_unread:
        return candidates
    n = context.limits.hits if limit is None else limit
    with context.trace.stage("score_candidates"):
        call = Effect("memory", partial(scoring.before_reading, [one.id for one in fused], context.query), quick=True)
        scores: CompositeScores | None = yield from context.ask(call)
        if scores is None:
            return candidates
        best = scores.best(fused, n)
    complete = partial(score_candidates, context, candidates, ALL) if len(best) < len(fused) else None
    return candidates._replace(fused_candidates=best, complete=complete)
