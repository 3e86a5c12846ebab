"""The query pipeline and its stages."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from langchain_hybridgraph.chunks import Chunk, replace_surrogates
from langchain_hybridgraph.errors import ConfigurationError, quote_value
from langchain_hybridgraph.execution.effects import Effect, Failure, Search, Trace
from langchain_hybridgraph.memory_scores import CompositeScores
from langchain_hybridgraph.records import (
    ENTITY,
    Answerability,
    FusedCandidate,
    Hit,
    Query,
    Ranking,
    SourceResult,
    query_error,
)
from langchain_hybridgraph.search.certain_hits import announce_before_rerank, announce_seeds
from langchain_hybridgraph.search.context import ALL, Candidates, Pipeline, SearchContext, read_hits, read_parents
from langchain_hybridgraph.search.expansion import Expansion, steps, with_context
from langchain_hybridgraph.search.fusion import ConvexCombination, Interleave
from langchain_hybridgraph.search.rerankers import apply_scores, rerank_call
from langchain_hybridgraph.search.row_fusion import can_fuse_rows, fuse_rows, have_rows
from langchain_hybridgraph.search.sources import ListedSource, Source, merge_copies, unify_ids
from langchain_hybridgraph.search.traversals import TraversalResult
from langchain_hybridgraph.search.verdict import FILTER_MATCHES_NOTHING, assess, report_emptiness
from langchain_hybridgraph.stores.protocols import Graph, HasDocuments, HasVectors, implements

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T")

# Minimum number of candidates requested from each source; fewer scores are not enough for a good normalisation.
MIN_CANDIDATES = 100
# Number of candidates at which no more are requested from a source, even if most of them are copies of one another.
MAX_CANDIDATES = 20_000
# Maximum number of existing relations that a remark on an unknown relation lists.
MAX_RELATIONS = 20


def search(query: Query, pipeline: Pipeline, trace: Trace) -> Search[list[Hit]]:
    """Return the hits of a query, best first.

    This generator yields calls to engines and models, and receives their results.
    """
    if not query.k:
        return []
    trace.raises = pipeline.on_error == "raise"
    context = SearchContext(plan(query), pipeline, trace)
    if context.is_filter_only:
        candidates = yield from list_matches(context)
    else:
        results = yield from gather(context, by_row=can_fuse_rows(context))
        if have_rows(results):
            candidates = yield from fuse_rows(context, results)
            candidates = candidates._replace(complete=partial(_all_candidates, context, results))
        else:
            candidates = yield from rank(context, results)
            candidates = yield from fuse(context, candidates)
            candidates = yield from expand(context, candidates)
    candidates = yield from score_candidates(context, candidates)
    hits = yield from admit(context, candidates)
    hits = yield from parents(context, hits)
    if pipeline.announce is not None:
        announce_before_rerank(context, hits)
    hits = yield from rerank(context, hits)
    hits = yield from score(context, hits)
    hits = yield from recall(context, hits, candidates)
    trace.answerability = answerability = assess(context, hits, candidates)
    hits = yield from select(context, hits, 1.0 if answerability is None else answerability.unit)
    hits = budget(context, hits)
    hits = calibrate(context, hits, answerability)
    hits = yield from describe(context, hits, candidates)
    if not hits:
        yield from report_emptiness(context, candidates)
        if FILTER_MATCHES_NOTHING in trace.reasons:
            trace.answerability = None  # no text was compared with the question
    return hits


def plan(query: Query) -> Query:
    """Return the query with its text prepared for the engines.

    Lone surrogates are replaced, and a blank text becomes None. Raises ConfigurationError if the text is not a string.
    """
    if not isinstance(query.text, str | None):
        raise query_error(query.text)
    text = replace_surrogates(query.text or "")
    return replace(query, text=text if text.strip() else None)


def _all_candidates(context: SearchContext, results: Mapping[Source, SourceResult]) -> Search[Candidates]:
    """Return all candidates of a search of which :func:`fuse_rows` has returned the best ones."""
    candidates = yield from rank(context, results)
    return (yield from fuse(context, candidates))


def gather(context: SearchContext, *, by_row: bool = False) -> Search[dict[Source, SourceResult]]:
    """Search all sources at the same time; raise RetrievalError if all fail, unless ``on_error`` is "empty".

    With ``by_row``, stores may return row numbers in place of ids.
    """
    query, pipeline, trace = context.query, context.pipeline, context.trace
    if query.text is None:
        trace.degrade("no-query-text")
    n = max(query.k * pipeline.overfetch, MIN_CANDIDATES)
    if pipeline.source_filter is not None:
        query = replace(query, scope=query.scope.narrowed(pipeline.source_filter))
    if by_row:
        query = replace(query, by_row=True)
    results: dict[Source, SourceResult] = {}
    unified: dict[Source, SourceResult] = {}
    sources: Sequence[Source] = pipeline.sources
    with trace.stage("gather"):
        while True:
            searches = {each: call for each in sources if (call := each.search(query, n)) is not None}
            if not searches:
                break
            answers = context.replace_failures((yield list(searches.values())), is_required=not results)
            sources = []
            for source, answer in zip(searches, answers, strict=True):
                if answer is not None:
                    results[source] = answer
                    sources.append(source)
            unified = unify_ids(results)
            if not pipeline.merges_copies:
                break
            unified = merge_copies(unified, pipeline.store)
            # If most of the n entries are copies, the source may have more texts.
            few = max(query.k, n // 2) if n < MAX_CANDIDATES else 0
            sources = [each for each in sources if len(results[each].ids) >= n and len(unified[each].ids) < few]
            n *= 4
    if pipeline.source_filter is not None:  # edges lead to other chunks
        unified = {source: result._replace(is_complete=False) for source, result in unified.items()}
    for result in results.values():
        if result.reason is not None:
            trace.degrade(result.reason, result.remark)
        if result.ids and not result.are_cosines:
            trace.degrade("no-cosine", "the vector store does not document how its scores relate to cosines")
    return unified


def list_matches(context: SearchContext, limit: int | None = None) -> Search[Candidates]:
    """Return the chunks that match the filter, in the store's order, each with a score of 1.

    At most ``limit`` chunks are listed, by default the number that later stages can use. As some may be copies of
    deleted originals, ``complete`` then lists up to four times as many.
    """
    pipeline, trace, scope = context.pipeline, context.trace, context.query.scope
    n = limit
    if n is None:
        n = ALL if context.limits.scores_unread else context.limits.hits
    trace.degrade("filter-only")
    trace.method = "filter"
    result = SourceResult([])
    if pipeline.listing is not None:
        call = Effect("filter", partial(pipeline.listing, scope, n), owner=pipeline.store)
        with trace.stage("list_matches"):
            result = yield from context.ask(call, result, is_required=True)
    trace.degrade(result.reason, result.remark)
    complete = None if len(result.ids) < n else partial(list_matches, context, 4 * n)
    return listed_candidates(result)._replace(complete=complete)


def listed_candidates(result: SourceResult) -> Candidates:
    """Convert listed chunks to candidates in the same order."""
    source = ListedSource()
    fused = [FusedCandidate(id, score, {source.name: score}) for id, score in result.scores.items()]
    return Candidates({source: result}, [Ranking(source.name, 1.0, result.ids, result.scores)], fused)


def rank(context: SearchContext, results: Mapping[Source, SourceResult]) -> Search[Candidates]:
    """Return the candidates of all sources, scored by every source that can score them."""
    results = {source: result if result.rows is None else result.with_ids() for source, result in results.items()}
    rankings = [
        Ranking(source.name, source.weight, each.ids, each.scores, each.bound, each.background, each.exact)
        for source, each in results.items()
    ]
    candidates = Candidates(results, rankings)
    with context.trace.stage("rank"):
        return (yield from add_scores(context, candidates, candidates.ids))


def add_scores(context: SearchContext, candidates: Candidates, ids: Iterable[str]) -> Search[Candidates]:
    """Return the candidates with missing scores for the chunks ``ids``, computed by every source that can."""
    rankings, calls = list(candidates.rankings), {}
    for position, (source, result) in enumerate(candidates.results.items()):
        missing = [] if result.is_complete else [id for id in ids if id not in rankings[position].scores]
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
    for_k = getattr(fusion, "for_k", None)
    method = getattr(fusion, "method", "hybrid")
    sources = [ranking.source for ranking in rankings if ranking.ids]
    trace.method = method if len(sources) > 1 else "".join(sources) or method

    def call_fusion() -> Sequence[FusedCandidate]:
        fused = (fusion if for_k is None else for_k(context.query.k))(rankings)
        if not is_fast and len({one.id for one in fused}) < len(fused):
            raise ValueError("the fusion returned an id twice")
        if not all(map(math.isfinite, map(attrgetter("score"), fused))):
            raise ValueError("a score is not a finite number")
        return fused

    is_fast = type(fusion).__module__ == ConvexCombination.__module__
    with trace.stage("fuse"):
        (fused,) = yield [Effect("fusion", call_fusion, quick=is_fast, owner=fusion)]
        if isinstance(fused, Failure):
            trace.record("fusion", fused.error, fused.reason)
            trace.degrade("interleaved")
            trace.method = "interleave"
            fused = Interleave()(rankings)
    return candidates._replace(fused_candidates=fused)


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
        seed_chunks = [hit.id for hit in seed_hits]
    else:
        is_chunk = yield from _resolve_seed_ids(context, expansion.seed_ids)
        expansion = replace(expansion, seed_ids=tuple(is_chunk))
        seed_chunks = [id for id in is_chunk if is_chunk[id]]
        uncertain = [id for id in is_chunk if not is_chunk[id]]
        fused = [one for one in candidates.fused_candidates if one.id in is_chunk]
        hits = seed_hits = yield from read_hits(context, candidates._replace(fused_candidates=fused), ALL)
        new = [id for id in seed_chunks if id not in own]
        candidates, scored_seeds = yield from score_others(context, candidates, new)
        if not candidates.rankings:  # there is no question
            scored_seeds = {id: FusedCandidate(id, 1.0, {"seed": 1.0}) for id in new}
        own = {**own, **scored_seeds}
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
            candidates, others = yield from score_others(context, candidates, new)
            own = {**own, **others}
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
            candidates, _ = yield from score_others(context, candidates, unscored)
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
        traversal = expansion.for_question(query, seed_hits, candidates.results, has_names=graph.has_entities)
        starts = seeds
        if uncertain:
            missing = {id for id, node in zip(uncertain, graph.nodes(uncertain), strict=True) if node < 0}
            starts = [seed for seed in seeds if seed[0] not in missing]
        result = traversal.traverse(graph, starts, expansion.score, vector)
        if not isinstance(result, TraversalResult):
            raise TypeError(f"a traversal must return a TraversalResult, got {quote_value(result)}")
        return graph, result

    if store is None:
        return traverse()
    call = Effect("graph", traverse, owner=store)
    ((graph, result),) = context.replace_failures((yield [call]), nothing)
    if graph is not None:
        trace.method = "graph"
        if result.capped:
            trace.degrade("node-cap-reached")
        if result.converged:
            trace.degrade("converged-early")
        relations = expansion.traversal.edge_filter.relations
        if relations and (unknown := sorted(relations.difference(graph.relations))):
            quoted, existing = ", ".join(map(repr, unknown)), ", ".join(sorted(graph.relations)[:MAX_RELATIONS])
            trace.degrade("unknown-relation", f"no edge has the relation {quoted}; there are {existing}")
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


def score_others(
    context: SearchContext, candidates: Candidates, ids: Sequence[str]
) -> Search[tuple[Candidates, dict[str, FusedCandidate]]]:
    """Return the candidates, and the search scores, by id, of chunks that no source found.

    The scores are 0 if the fusion can score only chunks in its lists.
    """
    if not ids:
        return candidates, {}
    candidates = yield from add_scores(context, candidates, ids)
    fuse_others = getattr(context.pipeline.fusion, "others", None)
    others = [] if fuse_others is None else fuse_others(candidates.rankings, ids)
    return candidates, {one.id: one for one in others or [FusedCandidate(id, 0.0, {}) for id in ids]}


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


def admit(context: SearchContext, candidates: Candidates) -> Search[list[Hit]]:
    """Return the best admitted candidates as hits (see :func:`read_hits`).

    Only as many candidates are read as later stages can use. If some of them are not admitted, candidates that earlier
    stages left out are added, and the best candidates are read again.
    """
    n = context.limits.hits
    hits = yield from read_hits(context, candidates, n)
    while candidates.complete is not None:
        if [hit.id for hit in hits] == [one.id for one in candidates.fused_candidates[:n]]:
            break
        candidates = yield from candidates.complete()
        hits = yield from read_hits(context, candidates, n)
    return hits


def parents(context: SearchContext, hits: list[Hit]) -> Search[list[Hit]]:
    """Return the hits with children replaced by their parents, by score, ties by id.

    In a call with a filter and no query, ties stay in the store's order.
    """
    resolved = yield from read_parents(context, hits)
    if context.is_filter_only and resolved is not hits:
        positions: dict[str, int] = {}
        for position, hit in enumerate(hits):
            positions.setdefault(hit.id, position)
            positions.setdefault(hit.chunk.parent or hit.id, position)
        resolved.sort(key=lambda hit: (-hit.score, positions[hit.id]))
    return resolved


def rerank(context: SearchContext, hits: list[Hit]) -> Search[list[Hit]]:
    """Return the hits after reordering the best ``rerank_depth`` hits by the reranker's scores.

    The other hits follow, or are dropped if the reranker filters. Without a reranker or a question, or after a failure,
    the hits are unchanged.
    """
    query, pipeline, trace = context.query, context.pipeline, context.trace
    reranker = pipeline.reranker
    if reranker is None or query.text is None or not hits:
        return hits
    best = hits[: pipeline.rerank_depth]
    with trace.stage("rerank"):
        (scores,) = yield [rerank_call(reranker, query.text, best)]
        if isinstance(scores, Failure):
            trace.record("rerank", scores.error, scores.reason)
            return hits
        try:
            return apply_scores(hits, [*scores, *[None] * (len(hits) - len(best))], reranker)
        except Exception as error:  # noqa: BLE001 - a reranker may be the caller's own and return anything
            trace.record("rerank", error, "rerank-failed")
            return hits


def score(context: SearchContext, hits: list[Hit]) -> Search[list[Hit]]:
    """Return the hits with their memory scores, best first.

    They are unchanged if there is no ``scoring``, if it fails, or if the candidates were scored before they were read.
    """
    query, pipeline, trace = context.query, context.pipeline, context.trace
    if pipeline.scoring is None or not hits or context.limits.scores_unread:
        return hits
    with trace.stage("score"):
        scored_hits: list[Hit] = yield from context.ask(
            Effect("memory", partial(pipeline.scoring, hits, query), quick=True), hits
        )
    return scored_hits


def recall(context: SearchContext, hits: list[Hit], candidates: Candidates) -> Search[list[Hit]]:
    """Return the hits, or the newest memories if a search of memories found nothing (``nothing-similar``).

    These are ordered by their memory scores. Their similarity is 0, and ``found_by`` contains ``recent``.
    """
    query, pipeline, trace = context.query, context.pipeline, context.trace
    newest, scoring, results = pipeline.newest, pipeline.scoring, candidates.results
    if newest is None or scoring is None or query.text is None:
        return hits
    # The result of a failed source is not an empty result.
    if not results or any(result.ids for result in results.values()):
        return hits

    def read() -> list[Hit]:
        chunks: Mapping[str, Chunk] = pipeline.store.read(newest(query.scope), query.scope, {})
        recent = [Hit(chunk, 0.0, "recent", {}, found_by=("recent",), path=(id,)) for id, chunk in chunks.items()]
        return scoring(recent, query)

    with trace.stage("recall"):
        recent: list[Hit] | None = yield from context.ask(Effect("memory", read, quick=True))
    if recent is None:
        return hits
    if recent:
        trace.degrade("nothing-similar")
        trace.method = "recent"
    return recent


def select(context: SearchContext, hits: list[Hit], unit: float = 1.0) -> Search[list[Hit]]:
    """Return the k hits selected by :func:`select_hits`; raise ConfigurationError for MMR without stored vectors.

    ``unit`` is the factor by which the stage ``calibrate`` will multiply the scores, so ``min_score`` is divided by it.
    """
    query, pipeline, trace = context.query, context.pipeline, context.trace
    store, mmr_lambda, min_score, vectors = pipeline.store, pipeline.mmr_lambda, pipeline.min_score / unit, None
    if min_score > 0 and any(hit.score < min_score for hit in hits[: query.k]):
        trace.remarks["min_score"] = f"hits with a score below {pipeline.min_score:g} were left out"
    with trace.stage("select"):
        if mmr_lambda is not None and hits:
            if not implements(store, HasVectors):
                raise ConfigurationError(
                    f"mmr_lambda={mmr_lambda} needs the vectors of the hits, which this store does not return: "
                    "use a HybridGraphStore or Chroma, or leave mmr_lambda out"
                )
            ids = [(hit.child or hit.chunk).id for hit in hits]
            call = Effect("vector", partial(store.vectors, ids), owner=store)
            vectors = yield from context.ask(call)
        return select_hits(
            hits,
            query.k,
            min_score=min_score,
            mmr_lambda=mmr_lambda,
            max_per_document=pipeline.max_per_document,
            graph_slots=pipeline.graph_slots,
            vectors=vectors,
        )


def select_hits(
    hits: Sequence[Hit],
    k: int,
    *,
    min_score: float = 0.0,
    mmr_lambda: float | None = None,
    max_per_document: int | None = None,
    graph_slots: int = 0,
    vectors: NDArray[np.float32] | None = None,
) -> list[Hit]:
    """Return the k hits of the result, best first unless ``mmr_lambda`` changes the order.

    - ``min_score`` is the lowest score of a hit in the result.
    - ``mmr_lambda`` orders the hits by maximal marginal relevance: 1 considers only the score, 0 only the difference
      from the hits before it, and None keeps the order. It has no effect without ``vectors``.
    - ``max_per_document`` is the maximum number of hits from one document.
    - ``graph_slots`` is the number of the k results reserved for hits reached through edges. If there are fewer such
      hits among the best k, the lowest-ranked other hits are replaced by the next best hits reached through edges.

    Without graph slots, the result for a smaller k is the beginning of the result for a larger k.

    ``hits`` are best first. ``vectors`` are their unit vectors, len(hits) × dimension. A hit without a stored vector
    has a row of zeros, so its cosine with every other hit is 0.

    >>> from langchain_hybridgraph.records import Chunk, Hit
    >>> scores = {"a1": 0.9, "a2": 0.8, "b": 0.4}
    >>> hits = [Hit(Chunk(id, "", document_id=id[0]), score, "vector", {}) for id, score in scores.items()]
    >>> [hit.id for hit in select_hits(hits, k=10, min_score=0.3, max_per_document=1)]
    ['a1', 'b']
    """
    places = [place for place, hit in enumerate(hits) if hit.score >= min_score]
    if mmr_lambda is not None and vectors is not None:
        scores = np.array([hits[place].score for place in places])
        # Of a generator, only as many places as the result needs are computed.
        order: Iterable[int] = (places[place] for place in marginal_relevance(scores, vectors[places], mmr_lambda))
    else:
        order = places
    ordered: Iterable[Hit] = map(hits.__getitem__, order)
    if max_per_document is not None:
        ordered = first_of_each(ordered, max_per_document, lambda hit: hit.chunk.document)
    if not graph_slots:
        return list(islice(ordered, min(k, len(hits))))
    best = list(ordered)
    graph_places = [place for place, hit in enumerate(best) if hit.hops][: min(graph_slots, k)]
    other_places = [place for place in range(len(best)) if place not in graph_places]
    return [best[place] for place in sorted([*graph_places, *other_places[: k - len(graph_places)]])]


def marginal_relevance(scores: NDArray[np.float64], vectors: NDArray[np.float32], mmr_lambda: float) -> Iterator[int]:
    """Yield the positions of the candidates in order of marginal relevance, best first, ties by position.

    The next candidate is the one with the largest λ · score − (1 − λ) · (largest cosine with an earlier candidate).

    Carbonell and Goldstein, The Use of MMR, Diversity-Based Reranking, SIGIR 1998.

    >>> towards = np.array([[1, 0], [0.95, 0.3122499], [0.1, 0.9949874]], np.float32)
    >>> list(marginal_relevance(np.array([0.9, 0.85, 0.6]), towards, 0.7))
    [0, 2, 1]
    """
    relevance = mmr_lambda * scores
    likeness = np.full(len(scores), -np.inf)
    worth = relevance.copy()
    for _ in range(len(scores)):
        place = int(np.argmax(worth))
        yield place
        relevance[place] = -np.inf
        np.maximum(likeness, vectors @ vectors[place], out=likeness)
        worth = relevance - (1 - mmr_lambda) * likeness


def first_of_each(items: Iterable[T], most: int, key: Callable[[T], str]) -> Iterator[T]:
    """Yield the items in order, but at most ``most`` items with the same key."""
    counts: Counter[str] = Counter()
    for item in items:
        name = key(item)
        counts[name] += 1
        if counts[name] <= most:
            yield item


def budget(context: SearchContext, hits: list[Hit]) -> list[Hit]:
    """Return the hits that fit into the token budget, or all hits if there is no budget."""
    if context.pipeline.budget is None:
        return hits
    with context.trace.stage("budget"):
        fitting, reasons = context.pipeline.budget.fit(hits)
    for reason in reasons:
        context.trace.degrade(reason)
    return fitting


def calibrate(context: SearchContext, hits: list[Hit], answerability: Answerability | None) -> list[Hit]:
    """Return the hits with scores and parts multiplied by ``answerability.unit``, if there is one."""
    if answerability is None:
        return hits
    with context.trace.stage("calibrate"):
        return [hit.scaled(answerability.unit) for hit in hits]


def describe(context: SearchContext, hits: list[Hit], candidates: Candidates) -> Search[list[Hit]]:
    """Return the hits; those reached through edges get a description of the last edges, if these can be read."""
    graph = candidates.graph
    graph_hits = [] if graph is None else [hit for hit in hits if hit.hops]
    if graph is None or not graph_hits:
        return hits
    pairs = [step for hit in graph_hits for step in steps(hit)]
    with context.trace.stage("describe"):
        edges = yield from context.ask(Effect("graph", lambda: graph.edges(pairs), quick=True))
        if edges is None:
            return hits
        remaining = iter(edges)
        described = {hit.id: with_context(hit, list(islice(remaining, len(steps(hit))))) for hit in graph_hits}
    return [described.get(hit.id, hit) for hit in hits]
