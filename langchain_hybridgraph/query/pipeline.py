"""The one query pipeline: a short function of named stages; the retrievers are settings of it."""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Generator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from typing import Any, Literal, NamedTuple, TypeVar, cast

import numpy as np

from langchain_hybridgraph.errors import ConfigurationError, HybridGraphError, RetrievalError
from langchain_hybridgraph.names import ENTITY
from langchain_hybridgraph.query import parents as parent_stage
from langchain_hybridgraph.query.budget import TokenBudget
from langchain_hybridgraph.query.calls import Call, Failure
from langchain_hybridgraph.query.expansion import Covered, Expansion, led, steps, with_context
from langchain_hybridgraph.query.fusion import (
    ConvexCombination,
    DependsOnK,
    Fusion,
    Interleave,
    KnowsContenders,
    ScoresOthers,
)
from langchain_hybridgraph.query.rerank import AsyncReranker, Reranker, apply_scores
from langchain_hybridgraph.query.scoring import Scoring, Weighing
from langchain_hybridgraph.query.selection import Selection, select
from langchain_hybridgraph.query.sources import Source
from langchain_hybridgraph.query.trace import Trace
from langchain_hybridgraph.query.traversal.walk import Arrived, Walk
from langchain_hybridgraph.records import Chunk, Found, Fused, Hit, Query, Ranking, Scored, cleaned, content_id
from langchain_hybridgraph.stores.base import (
    GivesVectors,
    Graph,
    HasGraph,
    HasParents,
    KnowsDocuments,
    Reads,
    Rechecks,
    can,
)

T = TypeVar("T")
Stage = Generator[Sequence[Call], Sequence[Any], T]

# Every source is asked for at least so many candidates: the scores of fewer say too little about each other.
POOL = 100
ALL = 1 << 30


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The settings of one search: which engines are asked, and what each stage does.

    ``sources`` are asked with k × ``overfetch`` candidates (at least 100); ``expansion`` goes on from what they found
    over the edges of ``graph``; the reranker reads the best ``rerank_depth``, whatever k is, so that the answer for k
    is the head of that for a larger k; ``scoring`` gives all hits new scores. ``on_error`` decides about a failing
    source: ``"degrade"`` goes on with the others and raises RetrievalError when none is left, ``"empty"`` returns
    nothing then. ``"raise"`` raises at the first failure of any stage.
    """

    store: Reads
    sources: tuple[Source, ...]
    fusion: Fusion = field(default_factory=ConvexCombination)
    overfetch: int = 3
    graph: HasGraph | None = None
    expansion: Expansion | None = None
    parents: bool = False
    reranker: Reranker | None = None
    rerank_depth: int = 50
    scoring: Scoring | None = None
    selection: Selection = field(default_factory=Selection)
    budget: TokenBudget | None = None
    on_error: Literal["degrade", "empty", "raise"] = "degrade"


def search(query: Query, pipeline: Pipeline, trace: Trace) -> Stage[list[Hit]]:
    """The hits of a query, best first; yields calls to engines and models and is sent what came of them."""
    trace.raises = pipeline.on_error == "raise"
    query = plan(query)
    found = yield from gather(query, pipeline, trace)
    hits, ranked = yield from rank(found, query, pipeline, trace)
    hits, graph = yield from expand(hits, ranked, query, pipeline, trace)
    hits = yield from resolve_parents(hits, query, pipeline, trace)
    hits = yield from rerank(hits, query, pipeline, trace)
    hits = yield from score(hits, query, pipeline, trace)
    hits = yield from choose(hits, query, pipeline, trace)
    hits = fit(hits, pipeline.budget, trace)
    return (yield from describe(hits, graph, trace))


def plan(query: Query) -> Query:
    """The query as the engines get it: without half characters; a text of nothing but blanks is none."""
    if not isinstance(query.text, str | None):
        raise ConfigurationError(f"the query is {query.text!r}; it is a text, or None beside vector=")
    text = cleaned(query.text or "")
    return replace(query, text=text if text.strip() else None)


def gather(query: Query, pipeline: Pipeline, trace: Trace) -> Stage[dict[Source, Found]]:
    """What the sources answer, all asked at once.

    Raises RetrievalError when every source failed.
    """
    if query.text is None:
        trace.degrade("no-query-text")
    n = max(query.k * pipeline.overfetch, POOL)
    asked = [(source, call) for source in pipeline.sources if (call := source.search(query, n)) is not None]
    with trace.stage("gather"):
        answers = yield [call for _, call in asked]
    found = {}
    failures = []
    for (source, _), answer in zip(asked, answers, strict=True):
        trace.degrade(answer.reason)
        if isinstance(answer, Failure):
            failures.append(answer)
            trace.note(answer.source, answer.error)
        else:
            found[source] = answer
    _judge(failures, bool(found), pipeline)
    return name_alike(found)


def rank(
    found: Mapping[Source, Found], query: Query, pipeline: Pipeline, trace: Trace
) -> Stage[tuple[list[Hit], Ranked]]:
    """The candidates as hits, best first, as many as later stages look at, and how they were ranked.

    Those that cannot be among them whatever a source would say of them are not scored (Fagin, Lotem and Naor, Optimal
    Aggregation Algorithms for Middleware, PODS 2001); all are when some of the others turn out not to be admitted.
    """
    wanted = _pool(query.k, pipeline)
    for contenders in (wanted if _can_leave_out(pipeline) else None, None):
        ranked = yield from score_all(found, contenders, query, pipeline, trace)
        fused = fuse(ranked.rankings, pipeline.fusion, query.k, trace)
        with trace.stage("admit"):
            hits = yield from admit(fused, ranked, query, pipeline, trace, wanted=wanted)
        if ranked.is_whole or (
            [hit.id for hit in hits] == [one.id for one in fused[:wanted]] and _is_told(ranked, pipeline)
        ):
            break
    return hits, ranked._replace(fused=fused)


class Ranked(NamedTuple):
    """What the sources found, their scores of what each found itself, and those of what all found; then fused."""

    found: Mapping[Source, Found]
    own: Sequence[Mapping[str, float]]
    rankings: list[Ranking]
    fused: Sequence[Fused] = ()

    @property
    def is_whole(self) -> bool:
        """Whether no candidate is left out."""
        return all(len(r.entries) == len(a.entries) for r, a in zip(self.rankings, self.found.values(), strict=True))

    @property
    def kept(self) -> dict[str, None]:
        """The ids of what is not left out."""
        return dict.fromkeys(entry[0] for ranking in self.rankings for entry in ranking.entries)

    @property
    def candidates(self) -> dict[str, None]:
        """The ids of all that was found, whether it was left out or not."""
        return dict.fromkeys(chain.from_iterable(self.own))

    @property
    def cosines(self) -> Mapping[str, float]:
        """What is known of the candidates' similarity."""
        return next((ranking.scores for ranking in self.rankings if ranking.source == "vector"), {})


def _brought(found: Mapping[Source, Found]) -> dict[str, Chunk]:
    """The chunks that sources brought along, by id."""
    bringing = [answer for answer in found.values() if answer.entries and answer.entries[0].chunk is not None]
    return {entry.id: entry.chunk for answer in bringing for entry in answer.entries if entry.chunk is not None}


def name_alike(found: Mapping[Source, Found]) -> dict[Source, Found]:
    """The same with one id per chunk: an entry without an id of its own takes that of one with equal text and source.

    Only entries that carry their chunk are looked at; what a store of ours finds has its id.
    """
    brought = list(_brought(found).values())
    contents = {chunk.id: (chunk.text, str(chunk.metadata.get("source", ""))) for chunk in brought}
    unnamed = {id for id, content in contents.items() if id == content_id(*content)}
    named = {content: id for id, content in contents.items() if id not in unnamed}
    renamed = {id: named[contents[id]] for id in unnamed if contents[id] in named}
    if not renamed:
        return dict(found)
    return {
        source: answer._replace(
            entries=[
                Scored(renamed[e.id], e.score, replace(e.chunk, id=renamed[e.id])) if e.id in renamed and e.chunk else e
                for e in answer.entries
            ]
        )
        for source, answer in found.items()
    }


def score_all(
    found: Mapping[Source, Found], n: int | None, query: Query, pipeline: Pipeline, trace: Trace
) -> Stage[Ranked]:
    """Every candidate's own score from every source, also from those that did not find it.

    With ``n`` only of the candidates that can be among the best n; the rankings hold no others then, but the first of
    each.
    """
    own = [{id: score for id, score, _ in answer.entries} for answer in found.values()]
    rankings = [
        Ranking(source.name, source.weight, answer.entries, scores, answer.bound, answer.background, answer.rest)
        for (source, answer), scores in zip(found.items(), own, strict=True)
    ]
    ranked = Ranked(found, own, rankings)
    with trace.stage("score"):
        # First those that cannot say how good the rest may be.
        yield from _score(ranked, _unscored(ranked, ranked.kept, has_rest=False), query, pipeline, trace)
        if n is not None and can(pipeline.fusion, KnowsContenders):
            contenders = pipeline.fusion.contenders(ranked.rankings, n)
            ranked = ranked._replace(rankings=[_only(ranking, contenders) for ranking in ranked.rankings])
        yield from _score(ranked, _unscored(ranked, ranked.kept, has_rest=True), query, pipeline, trace)
    return ranked


def _unscored(ranked: Ranked, ids: Collection[str], *, has_rest: bool | None = None) -> dict[int, list[str]]:
    """The chunks that a source has no score of, by its place; of those that know their rest, the others, or all."""
    places = enumerate(ranked.rankings)
    wanted = {place: r.scores for place, r in places if has_rest is None or (r.rest is not None) == has_rest}
    return {place: [id for id in ids if id not in scores] for place, scores in wanted.items()}


def _score(
    ranked: Ranked, ids: Mapping[int, Sequence[str]], query: Query, pipeline: Pipeline, trace: Trace
) -> Stage[None]:
    """Add to each ranking its source's scores of these ids."""
    sources = list(ranked.found.items())
    calls = []
    for place, others in ids.items():
        source, answer = sources[place]
        if others and (call := source.score(query, answer, others)) is not None:
            calls.append((place, call))
    answers = (yield [call for _, call in calls]) if calls else []
    for (place, _), scores in zip(calls, answers, strict=True):
        if isinstance(scores, Failure):
            trace.note(scores.source, scores.error)
            trace.degrade(scores.reason)
            _judge([scores], True, pipeline)
        else:
            ranking = ranked.rankings[place]
            ranked.rankings[place] = replace(ranking, scores={**ranking.scores, **scores})


def _only(ranking: Ranking, contenders: Set[str]) -> Ranking:
    kept = [entry for entry in ranking.entries[1:] if entry.id in contenders]
    return replace(ranking, entries=[*ranking.entries[:1], *kept])


def fuse(rankings: Sequence[Ranking], fusion: Fusion, k: int, trace: Trace) -> list[Fused]:
    """One list out of several; a fusion that fails gives way to interleaving, which needs no scores."""
    answering = [ranking.source for ranking in rankings if ranking.entries]
    method = getattr(fusion, "method", "hybrid")
    trace.method = method if len(answering) > 1 else "".join(answering) or method
    with trace.stage("fuse"):
        try:
            fused = (fusion.for_k(k) if can(fusion, DependsOnK) else fusion)(rankings)
            if all(math.isfinite(one.score) for one in fused):
                return fused
            failed: Exception = ValueError("a score is no finite number")
        except Exception as error:  # noqa: BLE001 - a fusion may be the caller's own; the ladder goes on below it
            failed = error
        trace.note("fusion", failed)
        trace.degrade("fusion-failed")
        trace.degrade("interleaved")
        trace.method = "interleave"
        return Interleave()(rankings)


def admit(
    fused: Sequence[Fused],
    ranked: Ranked,
    query: Query,
    pipeline: Pipeline,
    trace: Trace,
    *,
    wanted: int,
    admitted: Sequence[Hit] = (),
) -> Stage[list[Hit]]:
    """The candidates that exist, belong to the tenant, pass the filter and are valid: only these become hits.

    Reads no further than ``wanted`` hits, and none of those that were admitted before. What a store keeps a copy of is
    looked up first where it belongs: what is deleted there is no candidate, what has changed is as it is there.
    """
    there = {hit.id: hit.chunk for hit in admitted}
    known = _brought(ranked.found)
    found_by = {source.name: own for source, own in zip(ranked.found, ranked.own, strict=True)}
    scores = {ranking.source: ranking.scores for ranking in ranked.rankings}
    hits: list[Hit] = []
    start = 0
    while start < len(fused) and len(hits) < wanted:
        part = fused[start : start + wanted]
        start += len(part)
        chunks = {one.id: there[one.id] for one in part if one.id in there}
        ids = [one.id for one in part if one.id not in there]
        now = yield from _current([id for id in ids if id not in known], pipeline, trace)
        known |= {id: chunk for id, chunk in now.items() if chunk is not None}
        ids = [id for id in ids if now.get(id, True) is not None]
        if ids:
            (read,) = yield [Call("catalogue", partial(pipeline.store.read, ids, query.scope, known), quick=True)]
            if isinstance(read, Failure):
                trace.note("catalogue", read.error)
                trace.degrade(read.reason)
                _judge([read], False, pipeline)
                return []
            chunks |= read
        hits += [_hit(one, chunks[one.id], found_by, scores) for one in part if one.id in chunks]
    return hits[:wanted]


def _current(ids: Sequence[str], pipeline: Pipeline, trace: Trace) -> Stage[Mapping[str, Chunk | None]]:
    """What stands elsewhere now under ids of a store that keeps copies; nothing where that cannot be looked up."""
    store = pipeline.store
    if not ids or not can(store, Rechecks):
        return {}
    (now,) = yield [Call("lookup", partial(store.current, ids))]
    if isinstance(now, Failure):
        trace.degrade(now.reason)
        trace.note("lookup", now.error)
        return {}
    return cast(dict[str, Chunk | None], now)


def expand(
    hits: list[Hit], ranked: Ranked, query: Query, pipeline: Pipeline, trace: Trace
) -> Stage[tuple[list[Hit], Graph | None]]:
    """The hits after a walk over edges, those that it led to among them, and the graph that was walked, if any."""
    expansion, store = pipeline.expansion, pipeline.graph
    if expansion is not None and store is None:
        trace.degrade("no-graph-store")
    if expansion is None or store is None:
        return (yield from _unwalked(hits, ranked, query, pipeline, trace)), None
    own = {one.id: one for one in ranked.fused}
    unsure: list[str] = []
    if expansion.seed_ids is not None:
        given = yield from _given(expansion.seed_ids, query, pipeline, trace)
        expansion = replace(expansion, seed_ids=tuple(given))
        pipeline = replace(pipeline, expansion=expansion)
        chunks, unsure = ([id for id, is_there in given.items() if is_there is wanted] for wanted in (True, False))
        ranked = yield from _score_given(chunks, own, ranked, query, pipeline=pipeline, trace=trace)
    strength = expansion.strengths(own, ranked.candidates, ranked.cosines)
    with trace.stage("expand"):
        best = expansion.seed_hits(hits)
        seeds = expansion.seeds(best, strength)
        walked = yield from _walked(seeds, best, ranked, query, unsure=unsure, pipeline=pipeline, trace=trace)
        if walked is None:
            return (yield from _unwalked(hits, ranked, query, pipeline, trace)), None
        graph, walk = walked
        if pipeline.scoring is not None and _can_leave_out(pipeline):
            merged = yield from _remembered(walk, hits, ranked, query=query, pipeline=pipeline, trace=trace)
            return merged, graph
        if expansion.asks_search:
            new = [arrived.id for arrived in walk.reached if arrived.id not in own]
            ranked = yield from _score_new(new, own, ranked, query, pipeline=pipeline, trace=trace)
        merged = yield from _merged(walk, own, strength, hits, ranked, query=query, pipeline=pipeline, trace=trace)
        scores = dict(seeds)
    return [expansion.in_parts(hit, scores) for hit in merged], graph


def _merged(
    walk: Walk,
    own: dict[str, Fused],
    strength: Mapping[str, float],
    hits: Sequence[Hit],
    ranked: Ranked,
    *,
    query: Query,
    pipeline: Pipeline,
    trace: Trace,
) -> Stage[list[Hit]]:
    """What was found and what was reached, best first, as many as later stages look at."""
    expansion = pipeline.expansion
    assert expansion is not None
    wanted = _pool(query.k, pipeline, is_walked=True)
    # The best of what the walk did not come to are enough, unless some of them turn out not to be admitted.
    for n in (ALL,) if pipeline.scoring is not None else (wanted, ALL):
        fused, arrived = expansion.fused(own, strength, walk.reached, n)
        fused = yield from _scored_unread(fused, query, pipeline, trace)
        new = [one.id for one in fused[:wanted] if one.id not in own]
        ranked = yield from _score_new(new, own, ranked, query, pipeline=pipeline, trace=trace)
        merged = yield from admit(fused, ranked, query, pipeline, trace, wanted=wanted, admitted=hits)
        if len(merged) == wanted or n >= len(strength):
            break
    return [led(hit, arrived.get(hit.id)) for hit in merged]


def _unwalked(hits: list[Hit], ranked: Ranked, query: Query, pipeline: Pipeline, trace: Trace) -> Stage[list[Hit]]:
    """The hits without a walk; where scores decide that are not given yet, the best by these."""
    if not _scores_unread(pipeline):
        return hits
    if _can_leave_out(pipeline):
        return (yield from _remembered(Walk(()), hits, ranked, query=query, pipeline=pipeline, trace=trace))
    fused = yield from _scored_unread(list(ranked.fused), query, pipeline, trace)
    wanted = _pool(query.k, pipeline, is_walked=True)
    return (yield from admit(fused, ranked, query, pipeline, trace, wanted=wanted, admitted=hits))


def _remembered(
    walk: Walk,
    hits: Sequence[Hit],
    ranked: Ranked,
    *,
    query: Query,
    pipeline: Pipeline,
    trace: Trace,
) -> Stage[list[Hit]]:
    """The best of what was found and what was reached, by what is remembered of them, before they are read.

    What cannot be among them whatever the search would say of it is not asked for, as in :func:`rank`.
    """
    reached = {arrived.id: arrived for arrived in walk.reached}
    ids = list(dict.fromkeys([*ranked.candidates, *reached]))
    wanted = _pool(query.k, pipeline, is_walked=True)
    weighing = yield from _weighing(ids, query, pipeline, trace)
    ranked = ranked._replace(rankings=[replace(r, entries=r.entries[:1]) for r in ranked.rankings])
    merged: list[Hit] = []
    for n in (wanted, ALL):
        contending: Collection[str] = ids
        if weighing is not None and n < len(ids):
            yield from _score(ranked, _unscored(ranked, ids, has_rest=False), query, pipeline, trace)
            contending = _contending(ids, n, ranked, weighing=weighing, reached=reached, pipeline=pipeline)
        yield from _score(ranked, _unscored(ranked, contending), query, pipeline, trace)
        assert can(pipeline.fusion, ScoresOthers)
        fused = pipeline.fusion.others(ranked.rankings, contending)
        if pipeline.expansion is not None:
            known = {one.id: one for one in fused}
            there = [arrived for id, arrived in reached.items() if id in known]
            fused, _ = pipeline.expansion.fused(known, dict.fromkeys(known, 0.0), there, ALL)
        best = fused if weighing is None else weighing.best(fused, n)
        merged = yield from admit(best, ranked, query, pipeline, trace, wanted=wanted, admitted=hits)
        if len(merged) == wanted or len(contending) == len(ids):
            break
    return [led(hit, reached.get(hit.id)) for hit in merged]


def _contending(
    ids: Sequence[str],
    n: int,
    ranked: Ranked,
    *,
    weighing: Weighing,
    reached: Mapping[str, Arrived],
    pipeline: Pipeline,
) -> Collection[str]:
    """At least those that can be among the best n whatever a source would say of them, and the best of the search."""
    assert can(pipeline.fusion, KnowsContenders)
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


def _walked(
    seeds: Sequence[tuple[str, float]],
    hits: Sequence[Hit],
    ranked: Ranked,
    query: Query,
    *,
    unsure: Sequence[str],
    pipeline: Pipeline,
    trace: Trace,
) -> Stage[tuple[Graph, Walk] | None]:
    """The graph and what was reached from the seeds, of which ``hits`` were found; None where nobody could walk.

    Those that are ``unsure`` are seeds only if the graph has them.
    """
    expansion, store = pipeline.expansion, pipeline.graph
    assert expansion is not None
    assert store is not None
    vector = next((answer.vector for answer in ranked.found.values() if answer.vector is not None), None)

    def walk() -> tuple[Graph, Walk] | None:
        if not store.has_graph:
            return None
        graph = store.graph(query.scope, expansion.traversal.ways)
        covered = _covered_by(ranked, query)
        traversal = expansion.for_question(query.text, hits, covered, has_names=graph.has_entities)
        lost = {id for id, node in zip(unsure, graph.nodes(unsure), strict=True) if node < 0} if unsure else ()
        begins = [seed for seed in seeds if seed[0] not in lost]
        return graph, traversal.walk(graph, begins, expansion.score, vector)

    (walked,) = yield [Call("graph", walk, lane=(id(store), "graph"))]
    if isinstance(walked, Failure):
        trace.degrade(walked.reason)
        trace.note("graph", walked.error)
        _judge([walked], True, pipeline)
        return None
    if walked is None:
        trace.degrade("no-graph-store")
        return None
    trace.method = "graph"
    trace.degrade("node-cap-reached" if walked[1].capped else None)
    trace.degrade("converged-early" if walked[1].converged else None)
    found: tuple[Graph, Walk] = walked
    return found


def _given(ids: Sequence[str], query: Query, pipeline: Pipeline, trace: Trace) -> Stage[dict[str, bool]]:
    """Where a walk is to begin, and whether each is a chunk; a document's id stands for all of its chunks.

    What is neither is named as missing, and may be a node of the graph all the same.
    """
    store = pipeline.store

    def known() -> dict[str, list[str]]:
        there = store.read(ids, query.scope, {})
        others = [id for id in ids if id not in there]
        parts = store.document_chunks(others) if others and can(store, KnowsDocuments) else {}
        read = store.read([id for each in parts.values() for id in each], query.scope, {}) if parts else {}
        return {id: [id] if id in there else sorted(read.keys() & parts.get(id, set())) for id in ids}

    (chunks,) = yield [Call("catalogue", known, quick=True)]
    if isinstance(chunks, Failure):
        trace.degrade(chunks.reason)
        trace.note("catalogue", chunks.error)
        return dict.fromkeys(ids, False)
    if not all(chunks[id] or id.startswith(ENTITY) for id in ids):
        trace.degrade("seeds-missing")
    return {each: bool(chunks[id]) for id in ids for each in chunks[id] or [id]}


def _score_given(
    ids: Sequence[str], own: dict[str, Fused], ranked: Ranked, query: Query, *, pipeline: Pipeline, trace: Trace
) -> Stage[Ranked]:
    """Add to ``own`` what the search would have said of given seeds, 1 without a question."""
    new = [id for id in ids if id not in own]
    scored = yield from _score_new(new, own, ranked, query, pipeline=pipeline, trace=trace)
    if not scored.rankings:
        own |= {id: Fused(id, 1.0, {"seed": 1.0}) for id in new}
    return scored


def _covered_by(ranked: Ranked, query: Query) -> Covered | None:
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


def _score_new(
    new: Sequence[str], own: dict[str, Fused], ranked: Ranked, query: Query, *, pipeline: Pipeline, trace: Trace
) -> Stage[Ranked]:
    """Add to ``own`` what the search would have said of chunks that only the walk led to; gives all scores."""
    scored = ranked._replace(rankings=[replace(r, entries=r.entries[:1]) for r in ranked.rankings])
    if new:
        yield from _score(scored, _unscored(scored, new), query, pipeline, trace)
        others = pipeline.fusion.others(scored.rankings, new) if can(pipeline.fusion, ScoresOthers) else ()
        own |= {one.id: one for one in (others or (Fused(id, 0.0, {}) for id in new))}
    return scored


def describe(hits: list[Hit], graph: Graph | None, trace: Trace) -> Stage[list[Hit]]:
    """The hits with the edges that led to them."""
    led = [hit for hit in hits if hit.hops]
    if graph is None or not led:
        return hits
    wanted = [step for hit in led for step in steps(hit)]
    (edges,) = yield [Call("graph", lambda: graph.edges(wanted), quick=True)]
    if isinstance(edges, Failure):
        trace.degrade(edges.reason)
        trace.note("graph", edges.error)
        return hits
    walked = iter(edges)
    described = {hit.id: with_context(hit, list(islice(walked, len(steps(hit))))) for hit in led}
    return [described.get(hit.id, hit) for hit in hits]


def resolve_parents(hits: list[Hit], query: Query, pipeline: Pipeline, trace: Trace) -> Stage[list[Hit]]:
    """Children give way to their parents, where that is wanted and the store has them."""
    if not pipeline.parents or not can(store := pipeline.store, HasParents) or not store.has_parents:
        return hits
    ids = parent_stage.wanted(hits)
    if not ids:
        return hits
    with trace.stage("parents"):
        (found,) = yield [Call("parents", lambda: store.read_parents(ids, query.scope), quick=True)]
    if isinstance(found, Failure) or len(found) < len(ids):
        trace.degrade("parents-failed")
    if isinstance(found, Failure):
        trace.note("parents", found.error)
    return hits if isinstance(found, Failure) else parent_stage.resolve(hits, found)


def rerank(hits: list[Hit], query: Query, pipeline: Pipeline, trace: Trace) -> Stage[list[Hit]]:
    """The best hits in the reranker's order; a reranker that fails leaves the earlier one."""
    reranker = pipeline.reranker
    if reranker is None or query.text is None or not hits:
        return hits
    text = query.text
    best = hits[: pipeline.rerank_depth]
    awaited = partial(reranker.arerank, text, best) if isinstance(reranker, AsyncReranker) else None
    with trace.stage("rerank"):
        (scores,) = yield [Call("rerank", partial(reranker.rerank, text, best), awaited, lane=id(reranker))]
        if not isinstance(scores, Failure):
            try:
                return apply_scores(hits, [*scores, *[None] * (len(hits) - len(best))], reranker)
            except Exception as error:  # noqa: BLE001 - a reranker may be the caller's own; the earlier order stays
                scores = Failure("rerank", error)
    trace.note("rerank", scores.error)
    trace.degrade(scores.reason)
    return hits


def score(hits: list[Hit], query: Query, pipeline: Pipeline, trace: Trace) -> Stage[list[Hit]]:
    """The hits by what is remembered of them, where that counts; what cannot be read leaves them as they are."""
    scoring = pipeline.scoring
    if scoring is None or not hits or _scores_unread(pipeline):
        return hits
    with trace.stage("remember"):
        (scored,) = yield [Call("memory", partial(scoring, hits, query), quick=True)]
    if isinstance(scored, Failure):
        trace.note("memory", scored.error)
        trace.degrade(scored.reason)
        _judge([scored], True, pipeline)
        return hits
    return cast(list[Hit], scored)


def _scored_unread(fused: list[Fused], query: Query, pipeline: Pipeline, trace: Trace) -> Stage[list[Fused]]:
    """What :func:`score` would say of the candidates, before they are read: then only the best need be."""
    if not fused or not _scores_unread(pipeline):
        return fused
    weighing = yield from _weighing([one.id for one in fused], query, pipeline, trace)
    return fused if weighing is None else weighing.best(fused, ALL)


def _weighing(ids: Sequence[str], query: Query, pipeline: Pipeline, trace: Trace) -> Stage[Weighing | None]:
    """What is remembered of candidates; None where that cannot be read."""
    assert pipeline.scoring is not None
    with trace.stage("remember"):
        (weighing,) = yield [Call("memory", partial(pipeline.scoring.weighing, ids, query), quick=True)]
    if isinstance(weighing, Failure):
        trace.note("memory", weighing.error)
        trace.degrade(weighing.reason)
        _judge([weighing], True, pipeline)
        return None
    return cast(Weighing, weighing)


def _scores_unread(pipeline: Pipeline) -> bool:
    """Whether candidates are scored before they are read: no stage between looks at them or puts others there."""
    scoring, store = pipeline.scoring, pipeline.store
    if scoring is None or scoring.remembered is None or pipeline.reranker is not None:
        return False
    return not (pipeline.parents and can(store, HasParents) and store.has_parents)


def choose(hits: list[Hit], query: Query, pipeline: Pipeline, trace: Trace) -> Stage[list[Hit]]:
    """The k hits that the selection wants."""
    selection, store = pipeline.selection, pipeline.store
    if selection.mmr_lambda is None or not hits:
        with trace.stage("select"):
            return select(hits, selection, query.k)
    if not can(store, GivesVectors):
        raise ConfigurationError(
            f"mmr_lambda={selection.mmr_lambda} needs the vectors of the hits, which this store does not give: "
            "use a HybridGraphStore or Chroma, or leave mmr_lambda out"
        )
    ids = [(hit.child or hit.chunk).id for hit in hits]
    with trace.stage("select"):
        (vectors,) = yield [Call("vector", lambda: store.vectors(ids))]
        if isinstance(vectors, Failure):
            trace.note("vector", vectors.error)
            trace.degrade(vectors.reason)
            return select(hits, replace(selection, mmr_lambda=None), query.k)
        return select(hits, selection, query.k, vectors)


def fit(hits: list[Hit], budget: TokenBudget | None, trace: Trace) -> list[Hit]:
    """The hits that fit into the budget of tokens, where there is one."""
    if budget is None:
        return hits
    with trace.stage("budget"):
        kept, reasons = budget.fit(hits)
    for reason in reasons:
        trace.degrade(reason)
    return kept


def _pool(k: int, pipeline: Pipeline, *, is_walked: bool = False) -> int:
    """How many hits the stages after ``admit`` look at: k, unless one of them changes the order.

    After the walk nobody looks for seeds any more.
    """
    selection, store = pipeline.selection, pipeline.store
    grouped = pipeline.parents and can(store, HasParents) and store.has_parents
    if grouped or (pipeline.scoring is not None and not _scores_unread(pipeline)):
        return ALL
    if selection.mmr_lambda is not None or selection.per_document is not None or selection.graph_slots:
        return ALL
    if pipeline.expansion is not None and not is_walked:
        k = max(k, _seed_pool(pipeline.expansion))
    if pipeline.reranker is not None:
        return max(k, pipeline.rerank_depth)
    return k


def _seed_pool(expansion: Expansion) -> int:
    """How many hits may have to be looked at for the seeds."""
    return ALL if expansion.picks_seeds else expansion.seed_k


def _can_leave_out(pipeline: Pipeline) -> bool:
    """Whether the search's own scores of those that cannot be among the best before a walk decide nothing after it."""
    expansion = pipeline.expansion
    if pipeline.scoring is not None:
        judges = can(pipeline.fusion, KnowsContenders) and can(pipeline.fusion, ScoresOthers)
        return judges and _scores_unread(pipeline) and (expansion is None or expansion.keeps_order)
    if expansion is None:
        return True
    return can(pipeline.fusion, ScoresOthers) and (expansion.keeps_order or expansion.asks_cosines)


def _is_told(ranked: Ranked, pipeline: Pipeline) -> bool:
    """Whether what was left out can be judged without the search's own score of it, where a walk may bring it back."""
    expansion = pipeline.expansion
    return expansion is None or not expansion.asks_cosines or ranked.candidates.keys() <= ranked.cosines.keys()


def _hit(
    fused: Fused, chunk: Chunk, found_by: Mapping[str, Container[str]], scores: Mapping[str, Mapping[str, float]]
) -> Hit:
    finders = [source for source, ids in found_by.items() if fused.id in ids]
    cosine = scores.get("vector", {}).get(fused.id)
    return Hit(
        chunk=chunk,
        score=fused.score,
        source=finders[0] if len(finders) == 1 else "fused" if finders else "graph",
        found_by=tuple(finders),
        parts=fused.parts,
        vector_score=None if cosine is None else min(1.0, max(0.0, cosine)),
        bm25_score=scores.get("keyword", {}).get(fused.id),
        path=(fused.id,),
    )


def _judge(failures: Sequence[Failure], some_answered: bool, pipeline: Pipeline) -> None:
    for failure in failures:
        # What the caller asked wrongly is no failure of an engine: going on would answer another question.
        if isinstance(failure.error, HybridGraphError) and isinstance(failure.error, ValueError):
            raise failure.error
    if not failures or some_answered or pipeline.on_error == "empty":
        return
    said = "; ".join(f"{failure.source}: {type(failure.error).__name__}: {failure.error}" for failure in failures)
    raise RetrievalError(
        f"no source could answer ({said}); on_error='empty' gives an empty result instead"
    ) from failures[0].error
