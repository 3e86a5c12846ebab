"""Scoring of candidates by all sources, and fusion."""

from __future__ import annotations

import pytest

from langchain_hybridgraph.execution.effects import Effect
from langchain_hybridgraph.records import Query, ScoredId, SourceResult
from langchain_hybridgraph.search.fusion import ConvexCombination, ReciprocalRankFusion
from tests.support.samples.small_pipeline import ListSource, Shelf, ids, run


class Broken:
    """Fusion that raises or returns NaN."""

    method = "hybrid"

    def __init__(self, how):
        self.how = how

    def __call__(self, rankings, *_, **__):
        fused = ReciprocalRankFusion()(rankings)
        if self.how == "raises":
            raise ArithmeticError("no")
        return [one._replace(score=float("nan")) for one in fused]


@pytest.mark.parametrize("how", ["raises", "nan"])
def test_a_failed_fusion_is_replaced_by_interleaving(how):
    """If the fusion fails, the lists abcde and xbyz are interleaved and start with a x b c."""
    sources = (ListSource("vector", 0.7, "abcde"), ListSource("keyword", 0.3, "xbyz"))
    hits, trace = run(Query("q", 4), store=Shelf(*"abcdexyz"), sources=sources, fusion=Broken(how))
    assert ids(hits) == "axbc"
    assert trace.reasons == ("fusion-failed", "interleaved")
    assert trace.method == "interleave"


class Words(ListSource):
    """Keyword source with a bound for the scores of other candidates; it records the candidates that it scores."""

    requests: list[str]

    def search(self, query, n):
        self.requests = []
        entries = [ScoredId(name, 9.0 - place) for place, name in enumerate(self.names)]
        return Effect(self.name, lambda: SourceResult(entries, bound=20.0, rest=entries[-1].score))

    def score(self, query, result, ids):
        self.requests += ids
        return Effect(self.name, lambda: dict.fromkeys(ids, 1.0))


def test_only_contenders_are_scored():
    """A candidate gets its keyword score only if this could bring it among the best k: b does for k=3, but not for
    k=1.
    """
    words = Words("keyword", 0.3, "c")
    sources = (Near("vector", 0.7, "ab"), words)
    for k, expected in ((1, ["a"]), (3, ["a", "b"])):
        run(Query("q", k), store=Shelf(*"abc"), sources=sources, fusion=ConvexCombination())
        assert words.requests == expected


def test_all_are_scored_when_contenders_are_gone():
    """If the only contender was deleted, the other candidates are scored and one of them replaces it."""
    words = Words("keyword", 0.1, "c")
    sources = (Near("vector", 0.9, "ab"), words)
    hits, _ = run(Query("q", 1), store=Shelf(*"bc"), sources=sources, fusion=ConvexCombination())
    assert ids(hits) == "b"
    assert hits[0].bm25_score == 1.0


class Near(ListSource):
    """Vector source with a cosine of .9 for the first name and .4 less for each further one; other candidates get 0."""

    def search(self, query, n):
        entries = [ScoredId(name, 0.9 - place * 0.4) for place, name in enumerate(self.names)]
        return Effect(self.name, lambda: SourceResult(entries))

    def score(self, query, result, ids):
        return Effect(self.name, lambda: dict.fromkeys(ids, 0.0))
