"""Fusion by row number."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from langchain_hybridgraph.execution.effects import Effect, Search
from langchain_hybridgraph.records import FusedCandidate, Ranking, RowResult, SourceResult, best_first
from langchain_hybridgraph.search.context import ALL, Candidates, SearchContext
from langchain_hybridgraph.search.fusion import ConvexCombination, Scale
from langchain_hybridgraph.search.sources import Source

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Column = NDArray[np.float64]

_UNKNOWN = -1e30  # in place of a score; every scale converts it to 0
_NO_SHARE = Scale(0.0, np.inf), 0.0


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

    Ids are looked up only for these candidates and for the best row of each source.
    """
    columns = _Columns(context, results)
    with context.trace.stage("rank"):
        yield from columns.complete_scores()
    with context.trace.stage("fuse"):
        return columns.candidates()


class _Columns:
    """Scores of all candidate rows: for each source, a column in the order of ``numbers``."""

    def __init__(self, context: SearchContext, results: Mapping[Source, SourceResult]) -> None:
        fusion = context.pipeline.fusion
        assert isinstance(fusion, ConvexCombination), "can_fuse_rows has checked it"
        self._context, self._results = context, results
        self._rows: dict[Source, RowResult] = {
            source: result.rows for source, result in results.items() if result.rows is not None
        }
        exact: dict[int, float] = {}
        for rows in self._rows.values():
            exact |= rows.exact
        exact_numbers = np.array([*exact], np.int64)
        self._ids_of = rows.ids_of
        numbers = np.sort(np.concatenate([exact_numbers, *[rows.numbers for rows in self._rows.values()]]))
        is_first = np.ones(len(numbers), np.bool_)
        is_first[1:] = numbers[1:] != numbers[:-1]
        self._numbers = numbers[is_first]  # np.unique takes four times as long
        self._lists = {source: self._column(rows.numbers, rows.scores) for source, rows in self._rows.items()}
        self._exact = self._column(exact_numbers, np.array([*exact.values()]))
        # Only the best score of a list determines how all its scores are converted.
        heads = []
        for source, rows in self._rows.items():
            best = {"": float(rows.scores[0])} if len(rows.scores) else {}
            bound, background = results[source].bound, results[source].background
            heads.append(Ranking(source.name, source.weight, [*best], best, bound, background))
        shares = fusion.shares(heads, max(exact.values(), default=0.0))
        self._shares = {head.source: (scale, share) for head, scale, share in shares}
        self._columns = dict(self._lists)
        self._parts: dict[str, Column] = {}
        self._total = np.maximum(self._exact, 0.0)
        context.trace.method = fusion.method if len(shares) > 1 else "".join(self._shares) or fusion.method

    def _column(self, numbers: NDArray[np.int64], scores: NDArray[np.floating]) -> Column:
        column = np.full(len(self._numbers), _UNKNOWN)
        column[np.searchsorted(self._numbers, numbers)] = scores
        return column

    def complete_scores(self) -> Search[None]:
        """Compute missing scores, and the score of each row after fusion.

        No row has a higher BM25 score than the last one that the keyword search returned. Therefore BM25 scores are
        computed only for rows that can still be among the best (Fagin, Lotem and Naor, Optimal Aggregation Algorithms
        for Middleware, PODS 2001).
        """
        context, n = self._context, self._context.limits.hits
        for source in sorted(self._rows, key=lambda source: source.name == "keyword"):
            rows, column = self._rows[source], self._lists[source]
            scale, share = self._shares.get(source.name, _NO_SHARE)
            part = share * scale.convert(column)
            is_missing = column == _UNKNOWN
            if source.name == "keyword" and len(rows.scores):
                most = share * scale.convert(rows.scores[-1])
                is_missing &= self._total + most >= _nth_best(self._total + part, n)
            if rows.score is not None and not self._results[source].is_complete and is_missing.any():
                missing = self._numbers[is_missing]
                scores = yield from context.ask(Effect(source.name, partial(rows.score, missing), quick=True))
                if scores is not None:
                    column = column.copy()
                    column[is_missing] = np.fmax(scores, _UNKNOWN)  # also instead of NaN
                    self._columns[source], part = column, share * scale.convert(column)
            self._parts[source.name] = part
            self._total += part
        np.minimum(self._total, 1.0, out=self._total)

    def candidates(self) -> Candidates:
        """Return the best candidates, with all their scores that were computed."""
        n, total = self._context.limits.hits, self._total
        # All rows that tie with the n-th are included, because ties are ordered by id.
        places = np.flatnonzero(total >= _nth_best(total, n))
        place_of = dict(zip(self._ids_of(self._numbers[places]), places.tolist(), strict=True))
        best = best_first(zip(place_of, total[places].tolist(), strict=True), n)
        tops = [int(column.argmax()) for column in self._lists.values()]
        place_of = {id: place_of[id] for id in best}
        place_of |= zip(self._ids_of(self._numbers[tops]), tops, strict=True)
        selection = [*place_of.values()]

        def scores_at(column: Column) -> dict[str, float]:
            pairs = zip(place_of, column[selection].tolist(), strict=True)
            return {id: score for id, score in pairs if score > _UNKNOWN}

        results, rankings, parts = {}, [], {}
        for source, column in self._lists.items():
            result, rows = self._results[source], self._rows[source]
            own, scores = best_first(scores_at(column).items()), scores_at(self._columns[source])
            exact = dict(zip(rows.ids_of([*rows.exact]), rows.exact.values(), strict=True)) if rows.exact else {}
            results[source] = result._replace(ids=list(own), scores=own, exact=exact, rows=None)
            rankings.append(
                Ranking(source.name, source.weight, list(own), scores, result.bound, result.background, exact)
            )
            values = scores_at(self._parts[source.name])
            parts[source.name] = {id: values[id] for id in scores}
        parts["exact"] = scores_at(self._exact)
        fused = [
            FusedCandidate(id, score, {name: part[id] for name, part in parts.items() if id in part})
            for id, score in best.items()
        ]
        return Candidates(results, rankings, fused)


def _nth_best(values: Column, n: int) -> float:
    """Return the n-th largest value, or the smallest if there are fewer."""
    return float(np.partition(values, -n)[-n] if n < len(values) else values.min())
