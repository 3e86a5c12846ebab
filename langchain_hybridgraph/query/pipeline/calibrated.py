"""How likely the question has an answer, and scores that say so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from langchain_hybridgraph.query.answerability import answerability
from langchain_hybridgraph.query.fusion import COSINE
from langchain_hybridgraph.query.pipeline.candidates import ScoredCandidates
from langchain_hybridgraph.query.pipeline.changelogs import Lowers
from langchain_hybridgraph.query.pipeline.settings import SearchContext
from langchain_hybridgraph.records import Answerability, Hit


def judge(run: SearchContext, hits: Sequence[Hit], ranked: ScoredCandidates) -> Answerability | None:
    """Return how likely the question has an answer, None where that is not known.

    By its ``unit`` the best of the hits has this as its score, and the others in proportion. It is 1 where scores have
    a meaning of their own: those of a reranker, of memories, of a fusion that does not calibrate and of a walk that
    replaces the search's own score.
    """
    judged = _judged(ranked)
    best = max((hit.score for hit in hits), default=0.0)
    if judged is None or not best > 0 or not _calibrates(run) or any(hit.rerank_score is not None for hit in hits):
        return judged
    return replace(judged, unit=judged.value / best)


def calibrate(hits: Sequence[Hit], judged: Answerability | None) -> list[Hit]:
    """Return the hits with their scores, and the parts of these, in this unit."""
    if judged is None or judged.unit == 1:
        return list(hits)
    unit = judged.unit
    return [
        replace(hit, score=min(1.0, unit * hit.score), parts={name: unit * part for name, part in hit.parts.items()})
        for hit in hits
    ]


def _calibrates(run: SearchContext) -> bool:
    pipeline = run.pipeline
    fusion = pipeline.fusion.fusion if isinstance(pipeline.fusion, Lowers) else pipeline.fusion
    keeps = pipeline.expansion is None or pipeline.expansion.asks_search
    return getattr(fusion, "calibrates", False) is True and pipeline.scoring is None and keeps


def _judged(ranked: ScoredCandidates) -> Answerability | None:
    """How likely the question has an answer, by the best that the sources found."""
    by_name = {source.name: found for source, found in ranked.found.items()}
    vector, keyword = by_name.get("vector"), by_name.get("keyword")
    cosine = vector.entries[0].score if vector is not None and vector.entries and vector.are_cosines else None
    mean, _ = (None if vector is None else vector.background) or COSINE
    if keyword is None:
        return answerability(cosine, mean, None, None)
    bm25 = keyword.entries[0].score if keyword.entries else 0.0
    return answerability(cosine, mean, bm25, keyword.words, max(keyword.exact.values(), default=0.0))
