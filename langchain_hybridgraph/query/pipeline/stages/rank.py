"""Stage in which all sources score the candidates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from functools import partial
from itertools import chain

from langchain_hybridgraph.execution.effects import Search
from langchain_hybridgraph.query.fusion import KnowsContenders
from langchain_hybridgraph.query.pipeline.settings import Candidates, SearchContext
from langchain_hybridgraph.query.pipeline.source_scores import add_scores
from langchain_hybridgraph.query.sources import Source
from langchain_hybridgraph.records import Ranking, SourceResult
from langchain_hybridgraph.stores.protocols import implements


def rank(
    context: SearchContext, results: Mapping[Source, SourceResult], contenders: int | None = None
) -> Search[Candidates]:
    """Return the candidates of all sources, scored by every source that can score them.

    A source also scores candidates that only other sources found. If ``contenders`` is a number n and the fusion can
    tell which candidates may be among the best n, only these candidates are scored and returned (see
    :mod:`~langchain_hybridgraph.query.pipeline.pruning`).
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
