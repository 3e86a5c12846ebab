"""Assessment of whether the hits answer the question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from langchain_hybridgraph.query.fusion import COSINE
from langchain_hybridgraph.query.pipeline.settings import Candidates, Pipeline, SearchContext
from langchain_hybridgraph.records import Answerability, Hit
from langchain_hybridgraph.records.answerability import answerability as answerability_of


def assess(context: SearchContext, hits: Sequence[Hit], candidates: Candidates) -> Answerability | None:
    """Return the probability that the question has an answer, or None if it is unknown.

    ``unit`` of the result is the factor that turns the best score into this probability. It is 1 if no score is above
    0, or if the scores must not be converted because they come from a reranker, from the scoring of memories, from a
    traversal that replaces the search score, or from a fusion without ``calibrates``.
    """
    answerability = _answerability(candidates)
    best = max((hit.score for hit in hits), default=0.0)
    is_reranked = any(hit.rerank_score is not None for hit in hits)
    if answerability is None or not best > 0 or is_reranked or not _calibrates(context.pipeline):
        return answerability
    return replace(answerability, unit=answerability.value / best)


def _calibrates(pipeline: Pipeline) -> bool:
    keeps_scores = pipeline.expansion is None or pipeline.expansion.uses_search_score
    return getattr(pipeline.fusion, "calibrates", False) is True and pipeline.scoring is None and keeps_scores


def _answerability(candidates: Candidates) -> Answerability | None:
    """Return the probability that the question has an answer, estimated from the best results of the sources."""
    by_name = {source.name: result for source, result in candidates.results.items()}
    vector, keyword = by_name.get("vector"), by_name.get("keyword")
    cosine = vector.entries[0].score if vector is not None and vector.entries and vector.are_cosines else None
    mean, _ = (None if vector is None else vector.background) or COSINE
    if keyword is None:
        return answerability_of(cosine, mean, None)
    return answerability_of(cosine, mean, keyword.words, max(keyword.exact.values(), default=0.0))
