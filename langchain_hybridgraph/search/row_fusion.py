"""Fusion by row number."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from langchain_hybridgraph.execution.effects import Effect, Search
from langchain_hybridgraph.records import FusedCandidate, Ranking, SourceResult, best_first
from langchain_hybridgraph.search.context import ALL, Candidates, SearchContext
from langchain_hybridgraph.search.fusion import ConvexCombination, Scale
from langchain_hybridgraph.search.sources import Source

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.chunks import Mask

    Numbers = NDArray[np.int64]
    Values = NDArray[np.float64]


class _Column(NamedTuple):
    """Scores by one source, NaN if unknown, and which of them are of its own hits.

    ``parts`` are their parts of the total scores, or None if the source has no hits.
    """

    scores: Values
    is_hit: Mask
    parts: Values | None


class _Table(NamedTuple):
    """Numbers of all candidate rows, with a value for each in every column; ``exact`` is NaN without exact match."""

    numbers: Numbers
    columns: Mapping[Source, _Column]
    exact: Values
    total: Values


def can_fuse_rows(context: SearchContext) -> bool:
    """Return whether the store returns rows, and no stage needs more candidates than :func:`fuse_rows` returns."""
    pipeline = context.pipeline
    if pipeline.merges_copies or pipeline.expansion is not None or pipeline.scoring is not None:
        return False
    if type(pipeline.fusion) is not ConvexCombination or not pipeline.fusion.adaptive:
        return False
    return getattr(pipeline.store, "returns_rows", False) and context.limits.hits < ALL


def have_rows(results: Mapping[Source, SourceResult]) -> bool:
    """Return whether all results have row numbers of the same table, in which each chunk has one row."""
    tables = [None if result.rows is None else result.rows.ids_of for result in results.values()]
    return bool(tables) and tables[0] is not None and tables.count(tables[0]) == len(tables)


def fuse_rows(context: SearchContext, results: Mapping[Source, SourceResult]) -> Search[Candidates]:
    """Return the best candidates of the stages rank and fuse: as many as later stages can use.

    Ids are looked up only for these candidates, for the best hit of each source, and for exact matches.
    """
    with context.trace.stage("rank"):
        table = yield from _table(context, results)
    with context.trace.stage("fuse"):
        sources = [source.name for source in results if table.columns[source].parts is not None]
        method = ConvexCombination.method
        context.trace.method = method if len(sources) > 1 else "".join(sources) or method
        return _candidates(context.limits.hits, results, table)


def _table(context: SearchContext, results: Mapping[Source, SourceResult]) -> Search[_Table]:
    """Return the scores of all candidates by all sources, as far as they can change the best ones.

    A row that the keyword search did not return has at most the BM25 score of the last one that it returned. Therefore
    BM25 scores are computed only for rows that can still be among the best (Fagin, Lotem and Naor, Optimal Aggregation
    Algorithms for Middleware, PODS 2001).
    """
    fusion, n = context.pipeline.fusion, context.limits.hits
    assert isinstance(fusion, ConvexCombination), "can_fuse_rows has checked it"
    hits = {source: result.rows for source, result in results.items() if result.rows is not None}
    probabilities = {number: each for rows in hits.values() for number, each in rows.exact.items()}
    exact_numbers = np.array([*probabilities], np.int64)
    numbers = np.sort(np.concatenate([exact_numbers, *[rows.numbers for rows in hits.values()]]))
    is_first = np.ones(len(numbers), np.bool_)
    is_first[1:] = numbers[1:] != numbers[:-1]
    numbers = numbers[is_first]  # np.unique takes four times as long
    best = []
    for source, rows in hits.items():
        scores = {"": float(rows.scores[0])} if len(rows.scores) else {}
        bound, background = results[source].bound, results[source].background
        best.append(Ranking(source.name, source.weight, [*scores], scores, bound, background))
    largest = max(probabilities.values(), default=0.0)
    shares = {ranking.source: (scale, share) for ranking, scale, share in fusion.shares(best, largest)}
    exact = _column(numbers, exact_numbers, [*probabilities.values()])
    total, columns = np.fmax(exact, 0.0), {}
    for source in sorted(hits, key=lambda source: source.name == "keyword"):
        rows, share = hits[source], shares.get(source.name)
        column = _column(numbers, rows.numbers, rows.scores)
        is_missing, parts = np.isnan(column), _parts(column, share)
        is_hit = ~is_missing
        if source.name == "keyword" and parts is not None:
            is_missing &= total + parts[is_hit].min() >= _nth_best(total + parts, n)
        if rows.score is not None and not results[source].is_complete and is_missing.any():
            call = Effect(source.name, partial(rows.score, numbers[is_missing]), quick=True)
            other_scores = yield from context.ask(call)
            if other_scores is not None:
                column[is_missing] = other_scores
                parts = _parts(column, share)
        columns[source] = _Column(column, is_hit, parts)
        total += 0.0 if parts is None else parts
    return _Table(numbers, columns, exact, np.minimum(total, 1.0))


def _candidates(n: int, results: Mapping[Source, SourceResult], table: _Table) -> Candidates:
    """Return the best n candidates, with all their scores that were computed."""
    numbers, columns, exact, total = table
    hits = [result.rows for result in results.values() if result.rows is not None]
    ids_of = hits[0].ids_of
    # All rows that tie with the n-th are included, because ties are ordered by id.
    places = np.flatnonzero(total >= _nth_best(total, n))
    place_of = dict(zip(ids_of(numbers[places]), places.tolist(), strict=True))
    best = best_first(zip(place_of, total[places].tolist(), strict=True), n)
    best_hits = np.array([rows.numbers[0] for rows in hits if len(rows.numbers)], np.int64)
    best_places = zip(ids_of(best_hits), np.searchsorted(numbers, best_hits).tolist(), strict=True)
    place_of = {id: place_of[id] for id in best} | dict(best_places)
    selection = [*place_of.values()]

    def values(column: Values, is_included: Mask) -> dict[str, float]:
        each = zip(place_of, column[selection].tolist(), is_included[selection].tolist(), strict=True)
        return {id: value for id, value, is_in in each if is_in}

    selected, rankings, parts = {}, [], {}
    for (source, result), rows in zip(results.items(), hits, strict=True):
        column = columns[source]
        is_known = ~np.isnan(column.scores)
        own, scores = best_first(values(column.scores, column.is_hit).items()), values(column.scores, is_known)
        matches = dict(zip(ids_of([*rows.exact]), rows.exact.values(), strict=True)) if rows.exact else {}
        selected[source] = result._replace(ids=[*own], scores=own, exact=matches, rows=None)
        rankings.append(Ranking(source.name, source.weight, [*own], scores, result.bound, result.background, matches))
        if column.parts is not None:
            parts[source.name] = values(column.parts, is_known)
    parts["exact"] = values(exact, ~np.isnan(exact))
    fused = [
        FusedCandidate(id, score, {name: part[id] for name, part in parts.items() if id in part})
        for id, score in best.items()
    ]
    return Candidates(selected, rankings, fused)


def _column(numbers: Numbers, of: Numbers, values: Any) -> Values:
    """Return the values ``of`` some rows as a column of all rows."""
    column = np.full(len(numbers), np.nan)
    column[np.searchsorted(numbers, of)] = values
    return column


def _parts(scores: Values, scale_and_share: tuple[Scale, float] | None) -> Values | None:
    """Return the converted scores, multiplied by the source's share; 0 for an unknown score."""
    if scale_and_share is None:
        return None
    scale, share = scale_and_share
    parts = np.minimum(np.fmax((scores - scale.zero) / scale.width, 0.0), 1.0)
    return share * (parts if scale.power == 1 else parts**scale.power)


def _nth_best(values: Values, n: int) -> float:
    """Return the n-th largest value, or -infinity if there are not more values."""
    return float(np.partition(values, -n)[-n]) if n < len(values) else -np.inf
