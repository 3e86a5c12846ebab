"""What the sources find, scored by all of them, fused and admitted."""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import NamedTuple, cast

from langchain_hybridgraph.execution.effects import Effect, Failure, Search
from langchain_hybridgraph.execution.trace import Trace
from langchain_hybridgraph.execution.workers import lane_of
from langchain_hybridgraph.query.fusion import DependsOnK, Fusion, Interleave, KnowsContenders
from langchain_hybridgraph.query.pipeline.settings import POOL, Pipeline, SearchContext
from langchain_hybridgraph.query.sources import Source
from langchain_hybridgraph.records import Chunk, FusedCandidate, Hit, Ranking, ScoredId, SourceResult, content_id
from langchain_hybridgraph.stores.protocols import Rechecks, implements


class ScoredCandidates(NamedTuple):
    """What the sources found, ``own`` by each of them, their scores of what all found; then fused."""

    found: Mapping[Source, SourceResult]
    own: Sequence[Mapping[str, float]]
    rankings: list[Ranking]
    fused: Sequence[FusedCandidate] = ()

    @property
    def is_whole(self) -> bool:
        """Whether no candidate is left out."""
        return all(len(r.entries) == len(a.entries) for r, a in zip(self.rankings, self.found.values(), strict=True))

    @property
    def kept(self) -> dict[str, None]:
        """The ids of what is not left out."""
        listed = (entry[0] for ranking in self.rankings for entry in ranking.entries)
        return dict.fromkeys(chain(listed, *(ranking.exact for ranking in self.rankings)))

    @property
    def candidates(self) -> dict[str, None]:
        """The ids of all that was found, whether it was left out or not."""
        return dict.fromkeys(chain.from_iterable(self.own))

    @property
    def cosines(self) -> Mapping[str, float]:
        """What is known of the candidates' similarity."""
        answers = zip(self.found.values(), self.rankings, strict=True)
        return next((r.scores for found, r in answers if r.source == "vector" and found.are_cosines), {})


def gather(run: SearchContext) -> Search[dict[Source, SourceResult]]:
    """What the sources answer, all asked at once.

    Raises RetrievalError when every source failed.
    """
    query, pipeline, trace = run
    if query.text is None:
        trace.degrade("no-query-text")
    n = max(query.k * pipeline.overfetch, POOL)
    asked = [(source, call) for source in pipeline.sources if (call := source.search(query, n)) is not None]
    with trace.stage("gather"):
        answers = yield [call for _, call in asked]
    found = {}
    failures = []
    for (source, _), answer in zip(asked, answers, strict=True):
        if isinstance(answer, Failure):
            trace.degrade(answer.reason)
            failures.append(answer)
            trace.note(answer.source, answer.error)
        else:
            trace.degrade(answer.reason, answer.remark)
            if answer.entries and not answer.are_cosines:
                trace.degrade("no-cosine", "the vector store does not say which cosines its scores are")
            found[source] = answer
    run.judge(failures, some_answered=bool(found))
    return name_alike(found)


def rank(run: SearchContext, found: Mapping[Source, SourceResult]) -> Search[tuple[list[Hit], ScoredCandidates]]:
    """The candidates as hits, best first, as many as later stages look at, and how they were ranked.

    Those that cannot be among them whatever a source would say of them are not scored (Fagin, Lotem and Naor, Optimal
    Aggregation Algorithms for Middleware, PODS 2001); all are when some of the others turn out not to be admitted.
    """
    query, pipeline, trace = run
    wanted = pipeline.pool(query.k)
    for contenders in (wanted if pipeline.can_leave_out else None, None):
        ranked = yield from score_all(run, found, contenders)
        fused = fuse(ranked.rankings, pipeline.fusion, query.k, trace)
        with trace.stage("admit"):
            hits = yield from admit(run, fused, ranked, wanted=wanted)
        if ranked.is_whole or (
            [hit.id for hit in hits] == [one.id for one in fused[:wanted]] and _is_told(ranked, pipeline)
        ):
            break
    return hits, ranked._replace(fused=fused)


def score_all(run: SearchContext, found: Mapping[Source, SourceResult], n: int | None) -> Search[ScoredCandidates]:
    """Every candidate's own score from every source, also from those that did not find it.

    With ``n`` only of the candidates that can be among the best n; the rankings hold no others then, but the first of
    each.
    """
    pipeline, trace = run.pipeline, run.trace
    own = [{id: score for id, score, _ in answer.entries} for answer in found.values()]
    rankings = [
        Ranking(
            source.name,
            source.weight,
            answer.entries,
            scores,
            answer.bound,
            answer.background,
            answer.rest,
            answer.exact,
        )
        for (source, answer), scores in zip(found.items(), own, strict=True)
    ]
    finders = [{**answer.exact, **scores} for answer, scores in zip(found.values(), own, strict=True)]
    ranked = ScoredCandidates(found, finders, rankings)
    with trace.stage("score"):
        # First those that cannot say how good the rest may be.
        yield from add_scores(run, ranked, unscored(ranked, ranked.kept, has_rest=False))
        if n is not None and implements(pipeline.fusion, KnowsContenders):
            contenders = pipeline.fusion.contenders(ranked.rankings, n)
            ranked = ranked._replace(rankings=[_only(ranking, contenders) for ranking in ranked.rankings])
        yield from add_scores(run, ranked, unscored(ranked, ranked.kept, has_rest=True))
    return ranked


def unscored(ranked: ScoredCandidates, ids: Collection[str], *, has_rest: bool | None = None) -> dict[int, list[str]]:
    """The chunks that a source has no score of, by its place; of those that know their rest, the others, or all."""
    places = enumerate(ranked.rankings)
    wanted = {place: r.scores for place, r in places if has_rest is None or (r.rest is not None) == has_rest}
    return {place: [id for id in ids if id not in scores] for place, scores in wanted.items()}


def add_scores(run: SearchContext, ranked: ScoredCandidates, ids: Mapping[int, Sequence[str]]) -> Search[None]:
    """Add to each ranking its source's scores of these ids."""
    query = run.query
    sources = list(ranked.found.items())
    calls = []
    for place, others in ids.items():
        source, answer = sources[place]
        if others and (call := source.score(query, answer, others)) is not None:
            calls.append((place, call))
    answers = (yield [call for _, call in calls]) if calls else []
    for (place, _), scores in zip(calls, answers, strict=True):
        if isinstance(scores, Failure):
            run.note(scores)
            run.judge([scores])
        else:
            ranking = ranked.rankings[place]
            ranked.rankings[place] = replace(ranking, scores={**ranking.scores, **scores})


def _only(ranking: Ranking, contenders: Set[str]) -> Ranking:
    kept = [entry for entry in ranking.entries[1:] if entry.id in contenders]
    return replace(ranking, entries=[*ranking.entries[:1], *kept])


def fuse(rankings: Sequence[Ranking], fusion: Fusion, k: int, trace: Trace) -> list[FusedCandidate]:
    """One list out of several; a fusion that fails gives way to interleaving, which needs no scores."""
    answering = [ranking.source for ranking in rankings if ranking.entries]
    method = getattr(fusion, "method", "hybrid")
    trace.method = method if len(answering) > 1 else "".join(answering) or method
    with trace.stage("fuse"):
        try:
            fused = (fusion.for_k(k) if implements(fusion, DependsOnK) else fusion)(rankings)
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


def name_alike(found: Mapping[Source, SourceResult]) -> dict[Source, SourceResult]:
    """Return the same with one id per chunk, also where two sources name one text by different ids.

    An entry without an id of its own takes that of one with equal text and source. What the vector search alone found
    takes the id of what another source alone found, if their texts are equal and their sources do not differ: a
    keyword retriever's ids are the application's, a vector store may have made its own. Only entries that carry their
    chunk are looked at; what a store of ours finds has its id.
    """
    brought = _brought(found)
    contents = {id: (chunk.text, str(chunk.metadata.get("source", ""))) for id, chunk in brought.items()}
    unnamed = {id for id, content in contents.items() if id == content_id(*content)}
    named = {content: id for id, content in contents.items() if id not in unnamed}
    renamed = {id: named[contents[id]] for id in unnamed if contents[id] in named}
    renamed |= _given_names(found, renamed)
    if not renamed:
        return dict(found)
    return {
        source: answer._replace(
            entries=[
                ScoredId(renamed[e.id], e.score, replace(e.chunk, id=renamed[e.id]))
                if e.id in renamed and e.chunk
                else e
                for e in answer.entries
            ]
        )
        for source, answer in found.items()
    }


def _given_names(found: Mapping[Source, SourceResult], renamed: Mapping[str, str]) -> dict[str, str]:
    """The other sources' ids of what the vector search alone found, by its id there."""
    by_vector = _brought({source: answer for source, answer in found.items() if source.name == "vector"})
    by_others = _brought({source: answer for source, answer in found.items() if source.name != "vector"})
    free: dict[str, list[Chunk]] = {}
    for id, chunk in by_others.items():
        if id not in by_vector and id not in renamed:
            free.setdefault(chunk.text, []).append(chunk)
    names = {}
    for id, chunk in by_vector.items():
        if id in by_others or id in renamed:
            continue
        alike = [other for other in free.get(chunk.text, ()) if _may_be_one(chunk, other)]
        if alike:
            names[id] = alike[0].id
            free[chunk.text].remove(alike[0])
    return names


def _may_be_one(chunk: Chunk, other: Chunk) -> bool:
    ours, theirs = chunk.metadata.get("source"), other.metadata.get("source")
    return ours is None or theirs is None or ours == theirs


def _brought(found: Mapping[Source, SourceResult]) -> dict[str, Chunk]:
    """The chunks that sources brought along, by id."""
    bringing = [answer for answer in found.values() if answer.entries and answer.entries[0].chunk is not None]
    return {entry.id: entry.chunk for answer in bringing for entry in answer.entries if entry.chunk is not None}


def _is_told(ranked: ScoredCandidates, pipeline: Pipeline) -> bool:
    """Whether what was left out can be judged without the search's own score of it, where a walk may bring it back."""
    expansion = pipeline.expansion
    return expansion is None or not expansion.asks_cosines or ranked.candidates.keys() <= ranked.cosines.keys()


def admit(
    run: SearchContext,
    fused: Sequence[FusedCandidate],
    ranked: ScoredCandidates,
    *,
    wanted: int,
    admitted: Sequence[Hit] = (),
) -> Search[list[Hit]]:
    """The candidates that exist, belong to the tenant, pass the filter and are valid: only these become hits.

    Reads no further than ``wanted`` hits, and none of those that were admitted before. What a store keeps a copy of is
    looked up first where it belongs: what is deleted there is no candidate, what has changed is as it is there.
    """
    query, pipeline = run.query, run.pipeline
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
        now = yield from current(run, [id for id in ids if id not in known])
        known |= {id: chunk for id, chunk in now.items() if chunk is not None}
        ids = [id for id in ids if now.get(id, True) is not None]
        if ids:
            (read,) = yield [Effect("catalogue", partial(pipeline.store.read, ids, query.scope, known), quick=True)]
            if isinstance(read, Failure):
                run.note(read)
                run.judge([read], some_answered=False)
                return []
            chunks |= read
        hits += [_hit(one, chunks[one.id], found_by, scores, ranked.cosines) for one in part if one.id in chunks]
    return hits[:wanted]


def current(run: SearchContext, ids: Sequence[str]) -> Search[Mapping[str, Chunk | None]]:
    """What stands elsewhere now under ids of a store that keeps copies; nothing where that cannot be looked up."""
    pipeline = run.pipeline
    store = pipeline.store
    if not ids or not implements(store, Rechecks):
        return {}
    (now,) = yield [Effect("lookup", partial(store.current, ids), lane=lane_of("lookup", store))]
    if isinstance(now, Failure):
        run.note(now)
        return {}
    return cast(dict[str, Chunk | None], now)


def _hit(
    fused: FusedCandidate,
    chunk: Chunk,
    found_by: Mapping[str, Container[str]],
    scores: Mapping[str, Mapping[str, float]],
    cosines: Mapping[str, float],
) -> Hit:
    finders = [source for source, ids in found_by.items() if fused.id in ids]
    cosine = cosines.get(fused.id)
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
