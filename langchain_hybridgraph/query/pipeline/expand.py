"""Over edges from what was found to what was not."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from langchain_hybridgraph.execution.effects import Effect, Failure, Search
from langchain_hybridgraph.execution.trace import Trace
from langchain_hybridgraph.execution.workers import lane_of
from langchain_hybridgraph.memory.scoring import CompositeScores
from langchain_hybridgraph.query.fusion import KnowsContenders, ScoresOthers
from langchain_hybridgraph.query.graph.expansion import Covered, Expansion, steps, with_context, with_path
from langchain_hybridgraph.query.graph.paths import ReachedChunk, Walk
from langchain_hybridgraph.query.pipeline.candidates import ScoredCandidates, add_scores, admit, unscored
from langchain_hybridgraph.query.pipeline.memory import score_unread, weigh
from langchain_hybridgraph.query.pipeline.settings import ALL, Pipeline, SearchContext
from langchain_hybridgraph.records import FusedCandidate, Hit, Query
from langchain_hybridgraph.registry import nearest
from langchain_hybridgraph.stores.protocols import Graph, HasDocuments, implements
from langchain_hybridgraph.uris import ENTITY

# So many relations are named where one was asked for that there is not.
MOST_RELATIONS = 20


def expand(run: SearchContext, hits: list[Hit], ranked: ScoredCandidates) -> Search[tuple[list[Hit], Graph | None]]:
    """The hits after a walk over edges, those that it led to among them, and the graph that was walked, if any."""
    pipeline, trace = run.pipeline, run.trace
    expansion = pipeline.expansion
    if expansion is None:
        return (yield from _unwalked(run, hits, ranked)), None
    own = {one.id: one for one in ranked.fused}
    chunks: list[str] | None = None
    unsure: list[str] = []
    if expansion.seed_ids is not None:
        given = yield from _given(run, expansion.seed_ids)
        expansion = replace(expansion, seed_ids=tuple(given))
        pipeline = replace(pipeline, expansion=expansion)
        run = run._replace(pipeline=pipeline)
        chunks, unsure = ([id for id, is_there in given.items() if is_there is wanted] for wanted in (True, False))
        ranked = yield from _score_given(run, chunks, own, ranked)
    best = expansion.seed_hits(hits)
    if chunks is None and expansion.only_reached:
        chunks = [hit.id for hit in best]
    alone = None if chunks is None else [own[id] for id in chunks]
    _note_missing_seeds(trace, expansion, hits, best)
    if pipeline.graph is None:
        trace.degrade(expansion.without_edges)
        return (yield from _unwalked(run, hits, ranked, alone)), None
    strength = expansion.strengths(own, ranked.candidates, ranked.cosines)
    with trace.stage("expand"):
        seeds = expansion.seeds(best, strength)
        walked = yield from _walked(run, seeds, best, ranked, unsure=unsure)
        if walked is None:
            return (yield from _unwalked(run, hits, ranked, alone)), None
        graph, walk = walked
        if pipeline.scoring is not None and pipeline.can_leave_out:
            merged = yield from _remembered(run, walk, hits, ranked)
            return merged, graph
        if expansion.asks_search:
            new = [arrived.id for arrived in walk.reached if arrived.id not in own]
            ranked = yield from _score_new(run, new, own, ranked)
        merged = yield from _merged(run, walk, own, strength, hits=hits, ranked=ranked)
        scores = dict(seeds)
    return [expansion.in_parts(hit, scores) for hit in merged], graph


def _walked(
    run: SearchContext,
    seeds: Sequence[tuple[str, float]],
    hits: Sequence[Hit],
    ranked: ScoredCandidates,
    *,
    unsure: Sequence[str],
) -> Search[tuple[Graph, Walk] | None]:
    """The graph and what was reached from the seeds, of which ``hits`` were found; None where nobody could walk.

    Those that are ``unsure`` are seeds only if the graph has them.
    """
    query, pipeline, trace = run
    expansion, store = pipeline.expansion, pipeline.graph
    assert expansion is not None
    assert store is not None
    vector = next((answer.vector for answer in ranked.found.values() if answer.vector is not None), None)

    def walk() -> tuple[Graph, Walk] | None:
        if not store.has_graph:
            return None
        graph = store.scoped_graph(query.scope, expansion.ways)
        covered = _covered_by(ranked, query)
        traversal = expansion.for_question(query.text, hits, covered, has_names=graph.has_entities)
        lost = {id for id, node in zip(unsure, graph.nodes(unsure), strict=True) if node < 0} if unsure else ()
        begins = [seed for seed in seeds if seed[0] not in lost]
        return graph, traversal.walk(graph, begins, expansion.score, vector)

    (walked,) = yield [Effect("graph", walk, lane=lane_of("graph", store))]
    if isinstance(walked, Failure):
        run.note(walked)
        run.judge([walked])
        return None
    if walked is None:
        trace.degrade(expansion.without_edges)
        return None
    trace.method = "graph"
    trace.degrade("node-cap-reached" if walked[1].capped else None)
    trace.degrade("converged-early" if walked[1].converged else None)
    _note_unknown(trace, expansion.traversal.ways.relations or frozenset(), walked[0].relations)
    found: tuple[Graph, Walk] = walked
    return found


def _note_missing_seeds(trace: Trace, expansion: Expansion, hits: Sequence[Hit], best: Sequence[Hit]) -> None:
    """Say that none of the hits can be a seed, where there is something that seeds must have."""
    if best or expansion.seed_ids is not None or not expansion.picks_seeds or not (hits or expansion.only_reached):
        return
    labels = ", ".join(map(repr, sorted(expansion.seed_labels)))
    wanted = ["passes seed_filter"] if expansion.seed_filter is not None else []
    wanted += [f"has a label of seed_labels ({labels:.80})"] if labels else []
    trace.degrade("no-seeds", f"no text that the search found {' and '.join(wanted)}, so no edge was walked")


def _note_unknown(trace: Trace, wanted: Collection[str], known: Collection[str]) -> None:
    """Say which of the relations that were to be walked no edge has, and which there are."""
    if unknown := sorted(set(wanted).difference(known)):
        named, shown = ", ".join(map(repr, unknown)), sorted(known)
        there = ", ".join(shown[:MOST_RELATIONS]) + (", …" if len(shown) > MOST_RELATIONS else "")
        trace.degrade("unknown-relation", f"no edge is {named}; {nearest(unknown[0], shown)}there are {there}")


def _merged(
    run: SearchContext,
    walk: Walk,
    own: dict[str, FusedCandidate],
    strength: Mapping[str, float],
    *,
    hits: Sequence[Hit],
    ranked: ScoredCandidates,
) -> Search[list[Hit]]:
    """What was found and what was reached, best first, as many as later stages look at."""
    query, pipeline = run.query, run.pipeline
    expansion = pipeline.expansion
    assert expansion is not None
    wanted = pipeline.pool(query.k, is_walked=True)
    # The best are enough, unless some of them turn out not to be admitted.
    for n in (ALL,) if pipeline.scoring is not None else (wanted, ALL):
        fused, arrived = expansion.fused(own, strength, walk.reached, n)
        fused = yield from score_unread(run, fused)
        new = [one.id for one in fused[:wanted] if one.id not in own]
        ranked = yield from _score_new(run, new, own, ranked)
        merged = yield from admit(run, fused, ranked, wanted=wanted, admitted=hits)
        if len(merged) == wanted or n >= len(strength) + len(walk.reached):
            break
    return [with_path(hit, arrived.get(hit.id)) for hit in merged]


def _unwalked(
    run: SearchContext, hits: list[Hit], ranked: ScoredCandidates, given: Sequence[FusedCandidate] | None = None
) -> Search[list[Hit]]:
    """The hits without a walk; where scores decide that are not given yet, the best by these.

    If only a walk's chunks may come back, the ``given`` ones at which it was to begin, with the search's own scores.
    """
    query, pipeline = run.query, run.pipeline
    if given is None and not pipeline.scores_unread:
        return hits
    if given is None and pipeline.can_leave_out:
        return (yield from _remembered(run, Walk(()), hits, ranked))
    fused = list(ranked.fused) if given is None else sorted(given, key=lambda one: (-one.score, one.id))
    fused = yield from score_unread(run, fused)
    wanted = pipeline.pool(query.k, is_walked=True)
    return (yield from admit(run, fused, ranked, wanted=wanted, admitted=hits))


def _remembered(run: SearchContext, walk: Walk, hits: Sequence[Hit], ranked: ScoredCandidates) -> Search[list[Hit]]:
    """The best of what was found and what was reached, by what is remembered of them, before they are read.

    What cannot be among them whatever the search would say of it is not asked for, as in :func:`rank`.
    """
    query, pipeline = run.query, run.pipeline
    reached = {arrived.id: arrived for arrived in walk.reached}
    ids = list(dict.fromkeys([*ranked.candidates, *reached]))
    wanted = pipeline.pool(query.k, is_walked=True)
    weighing = yield from weigh(run, ids)
    ranked = ranked._replace(rankings=[replace(r, entries=r.entries[:1]) for r in ranked.rankings])
    merged: list[Hit] = []
    for n in (wanted, ALL):
        contending: Collection[str] = ids
        if weighing is not None and n < len(ids):
            yield from add_scores(run, ranked, unscored(ranked, ids, has_rest=False))
            contending = _contending(pipeline, ids, n, ranked, weighing=weighing, reached=reached)
        yield from add_scores(run, ranked, unscored(ranked, contending))
        assert implements(pipeline.fusion, ScoresOthers)
        fused = pipeline.fusion.others(ranked.rankings, contending)
        if pipeline.expansion is not None:
            known = {one.id: one for one in fused}
            there = [arrived for id, arrived in reached.items() if id in known]
            fused, _ = pipeline.expansion.fused(known, dict.fromkeys(known, 0.0), there, ALL)
        best = fused if weighing is None else weighing.best(fused, n)
        merged = yield from admit(run, best, ranked, wanted=wanted, admitted=hits)
        if len(merged) == wanted or len(contending) == len(ids):
            break
    return [with_path(hit, reached.get(hit.id)) for hit in merged]


def _contending(
    pipeline: Pipeline,
    ids: Sequence[str],
    n: int,
    ranked: ScoredCandidates,
    *,
    weighing: CompositeScores,
    reached: Mapping[str, ReachedChunk],
) -> Collection[str]:
    """At least those that can be among the best n whatever a source would say of them, and the best of the search."""
    assert implements(pipeline.fusion, KnowsContenders)
    least, most = pipeline.fusion.bounds(ranked.rankings, ids)
    first = next(iter(ranked.fused), None)
    # What the walk led to is measured by the best of the search, so that must be known.
    if first is None or np.isnan(least).any() or most.max() > first.score + 1e-9:
        return ids
    if pipeline.expansion is not None:
        places = [place for place, id in enumerate(ids) if id in reached]
        graph = [reached[ids[place]].value for place in places]
        least[places] = pipeline.expansion.mixed(least[places].tolist(), graph, first.score)
        most[places] = pipeline.expansion.mixed(most[places].tolist(), graph, first.score)
    return dict.fromkeys([first.id, *weighing.contenders(least, most, n)])


def _given(run: SearchContext, ids: Sequence[str]) -> Search[dict[str, bool]]:
    """Where a walk is to begin, and whether each is a chunk; a document's id stands for all of its chunks.

    What is neither is named as missing, and may be a node of the graph all the same.
    """
    query, pipeline, trace = run
    store = pipeline.store

    def known() -> dict[str, list[str]]:
        there = store.read(ids, query.scope, {})
        others = [id for id in ids if id not in there]
        parts = store.document_chunks(others) if others and implements(store, HasDocuments) else {}
        read = store.read([id for each in parts.values() for id in each], query.scope, {}) if parts else {}
        return {id: [id] if id in there else sorted(read.keys() & parts.get(id, set())) for id in ids}

    (chunks,) = yield [Effect("catalogue", known, quick=True)]
    if isinstance(chunks, Failure):
        run.note(chunks)
        return dict.fromkeys(ids, False)
    if not all(chunks[id] or id.startswith(ENTITY) for id in ids):
        trace.degrade("seeds-missing")
    return {each: bool(chunks[id]) for id in ids for each in chunks[id] or [id]}


def _score_given(
    run: SearchContext, ids: Sequence[str], own: dict[str, FusedCandidate], ranked: ScoredCandidates
) -> Search[ScoredCandidates]:
    """Add to ``own`` what the search would have said of given seeds, 1 without a question."""
    new = [id for id in ids if id not in own]
    scored = yield from _score_new(run, new, own, ranked)
    if not scored.rankings:
        own |= {id: FusedCandidate(id, 1.0, {"seed": 1.0}) for id in new}
    return scored


def _score_new(
    run: SearchContext, new: Sequence[str], own: dict[str, FusedCandidate], ranked: ScoredCandidates
) -> Search[ScoredCandidates]:
    """Add to ``own`` what the search would have said of chunks that only the walk led to; gives all scores."""
    pipeline = run.pipeline
    scored = ranked._replace(rankings=[replace(r, entries=r.entries[:1]) for r in ranked.rankings])
    if new:
        yield from add_scores(run, scored, unscored(scored, new))
        others = pipeline.fusion.others(scored.rankings, new) if implements(pipeline.fusion, ScoresOthers) else ()
        own |= {one.id: one for one in (others or (FusedCandidate(id, 0.0, {}) for id in new))}
    return scored


def _covered_by(ranked: ScoredCandidates, query: Query) -> Covered | None:
    """What gives the share that chunks have of the question, for some of its words; None without a keyword index."""
    keyword = next(((s, answer) for s, answer in ranked.found.items() if s.name == "keyword" and answer.bound), None)
    if keyword is None:
        return None
    source, answer = keyword
    bound = answer.bound or 1.0

    def covered(words: str, ids: Sequence[str]) -> Mapping[str, float]:
        call = source.score(replace(query, text=words), answer, ids) if words else None
        return {} if call is None else {id: score / bound for id, score in call.run().items()}

    return covered


def describe(run: SearchContext, hits: list[Hit], graph: Graph | None) -> Search[list[Hit]]:
    """The hits with the edges that led to them."""
    reached = [hit for hit in hits if hit.hops]
    if graph is None or not reached:
        return hits
    wanted = [step for hit in reached for step in steps(hit)]
    (edges,) = yield [Effect("graph", lambda: graph.edges(wanted), quick=True)]
    if isinstance(edges, Failure):
        run.note(edges)
        return hits
    walked = iter(edges)
    described = {hit.id: with_context(hit, list(islice(walked, len(steps(hit))))) for hit in reached}
    return [described.get(hit.id, hit) for hit in hits]
