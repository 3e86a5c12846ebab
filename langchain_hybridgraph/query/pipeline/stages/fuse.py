"""Stage that fuses the rankings of all sources."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from langchain_hybridgraph.execution.effects import Search
from langchain_hybridgraph.query.fusion import DependsOnK, Interleave
from langchain_hybridgraph.query.pipeline.settings import Candidates, SearchContext
from langchain_hybridgraph.records import FusedCandidate, Ranking
from langchain_hybridgraph.stores.protocols import implements


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
