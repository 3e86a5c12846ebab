"""Fusion of the answers of two searches."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, TypeVar

from langchain_core.documents import Document

from langchain_hybridgraph.adapters.documents import Annotate, chunk_id, score_notes
from langchain_hybridgraph.execution.effects import Failure
from langchain_hybridgraph.execution.trace import Trace
from langchain_hybridgraph.query.fusion import ConvexCombination, ReciprocalRankFusion
from langchain_hybridgraph.records import FusedCandidate, Hit, Ranking, ScoredId
from langchain_hybridgraph.result import RetrievalResult

Result = RetrievalResult[Document]
T = TypeVar("T")

_OWN_SCORES = ("vector_score", "bm25_score", "rerank_score")
_SCORES = ("score", "score_breakdown", "retrieval_source")


def fuse_by_score(
    answers: Mapping[str, Result | Failure],
    weights: Mapping[str, float],
    k: int | None,
    trace: Trace,
    *,
    min_score: float = 0.0,
    prefix: str = "",
) -> Result:
    """Return the k best Documents by the weighted mean of their scores in two searches.

    Both searches must have been run by one of this package's retrievers, whose scores are comparable. A Document has
    the score 0 in a search that did not find it, so the mean is comparable to the score of a single search. The mean is
    computed from the uncalibrated scores, and then calibrated. Documents with a mean below ``min_score`` are left out.

    ``prefix`` is put in front of the added metadata keys. The other arguments and the errors are the same as for
    :func:`fuse_by_rank`.
    """
    results = _successful(answers, trace)
    rankings = [_ranking(name, weights[name], one, prefix + "score", unit_of(one)) for name, one in results.items()]
    firsts = {ranking.source: ranking.entries[0].score for ranking in rankings if ranking.entries}
    fused_scale = math.fsum(weights[name] * first for name, first in firsts.items())
    answer_scale = math.fsum(weights[name] * first * unit_of(results[name]) for name, first in firsts.items())
    unit = answer_scale / fused_scale if fused_scale else 1.0
    fused = (_scaled(one, unit) for one in ConvexCombination(normalize="bound")(rankings))
    return _combined_result(results, [one for one in fused if one.score >= min_score], k, trace, prefix=prefix)


def unit_of(result: Result) -> float:
    """Return the factor by which the scores of a result were calibrated, or 1 if they were not calibrated."""
    return 1.0 if result.answerability is None else result.answerability.unit


def _scaled(fused: FusedCandidate, unit: float) -> FusedCandidate:
    return FusedCandidate(
        fused.id, min(1.0, unit * fused.score), {name: unit * part for name, part in fused.parts.items()}
    )


def fuse_by_rank(
    answers: Mapping[str, Result | Failure],
    weights: Mapping[str, float],
    k: int | None,
    trace: Trace,
    *,
    level: Annotate = "all",
) -> Result:
    """Return the k best Documents by weighted reciprocal rank.

    Without ``k``, the result is as long as the longer answer.

    The keys of ``answers`` and ``weights`` are the names of the searches. ``level`` determines which metadata are added
    to the Documents. If a search failed, the results of the others are fused, and ``trace`` records the failure. If all
    of them failed, the error of the first is raised. A TypeError or ValueError of the first search is always raised,
    because it means that the call was invalid.
    """
    results = _successful(answers, trace)
    best = ReciprocalRankFusion()([_ranking(name, weights[name], one) for name, one in results.items()])
    return _combined_result(results, best, k, trace, level=level)


def _combined_result(
    results: dict[str, Result],
    best: Sequence[FusedCandidate],
    k: int | None,
    trace: Trace,
    *,
    prefix: str = "",
    level: Annotate = "all",
) -> Result:
    """Return the fused Documents and hits, each with metadata and scores from the searches that found it."""
    best = best[: max(map(len, results.values())) if k is None else k]
    documents = {name: _by_id(one) for name, one in results.items()}
    hits = {name: {hit.id: hit for hit in one.hits} for name, one in results.items()}
    for reason in (reason for one in results.values() for reason in one.degraded):
        trace.degrade(reason)
    estimates = [one.answerability for one in results.values() if one.answerability is not None]
    return RetrievalResult(
        [_document(one, rank, _entries_of(one.id, documents), prefix, level) for rank, one in enumerate(best, start=1)],
        hits=[_hit(one, entries) for one in best if (entries := _entries_of(one.id, hits))],
        plan=next(iter(results.values())).plan,
        answerability=max(estimates, key=lambda one: one.value, default=None),
    )


def _by_id(results: Result) -> dict[str, tuple[int, Document]]:
    """Return a dict from id to rank and Document. If several Documents have the same id, the first one is used."""
    ranked = [(chunk_id(document), (rank, document)) for rank, document in enumerate(results, start=1)]
    return dict(reversed(ranked))


def _entries_of(id: str, by_search: Mapping[str, Mapping[str, T]]) -> dict[str, T]:
    return {name: entries[id] for name, entries in by_search.items() if id in entries}


def _hit(fused: FusedCandidate, entries: Mapping[str, Hit]) -> Hit:
    """Return the hit for a fused candidate: the hit of the first search that found it, with the fused score.

    ``found_by`` lists the sources from all searches. Scores that the hit lacks, such as ``bm25_score``, come from the
    other searches.
    """
    first, *others = entries.values()
    hit = replace(
        first,
        score=fused.score,
        parts=_parts(fused, {name: (one.score, one.parts) for name, one in entries.items()}),
        found_by=tuple(dict.fromkeys(source for one in entries.values() for source in one.found_by)),
    )
    for other in others:
        missing = {name: getattr(other, name) for name in _OWN_SCORES if getattr(hit, name) is None}
        hit = replace(hit, **missing)
    return hit


def _document(
    fused: FusedCandidate, rank: int, entries: Mapping[str, tuple[int, Document]], prefix: str, level: Annotate
) -> Document:
    """Return a fused Document, based on the Document of the first search that found it.

    At the level "all", it has the metadata of all searches that found it; the first search takes precedence. The added
    key ``searches`` contains the Document's rank and scores in each search.
    """
    first = next(iter(entries.values()))[1]
    if level != "all":
        return with_notes(first, score_notes(fused.score)) if level == "score" else first
    metadata: dict[str, Any] = {}
    for _, document in entries.values():
        metadata |= {key: value for key, value in document.metadata.items() if metadata.get(key) is None}
    searches = {name: _search_notes(document, place, prefix) for name, (place, document) in entries.items()}
    sources = {one["retrieval_source"] for one in searches.values() if "retrieval_source" in one} or set(fused.parts)
    scores = {name: (one.get("score"), one.get("score_breakdown")) for name, one in searches.items()}
    notes = {
        "retrieval_rank": rank,
        **score_notes(fused.score),
        "score_breakdown": _parts(fused, scores),
        "retrieval_source": "fused" if len(sources) > 1 else next(iter(sources)),
        "searches": searches,
    }
    prefixed = {prefix + key: value for key, value in notes.items()}
    return first.model_copy(update={"metadata": {**metadata, **prefixed}})


def _search_notes(document: Document, rank: int, prefix: str) -> dict[str, Any]:
    scores = {key: document.metadata.get(prefix + key) for key in (*_SCORES, *_OWN_SCORES)}
    return {"retrieval_rank": rank, **{key: value for key, value in scores.items() if value is not None}}


def _parts(fused: FusedCandidate, scores: Mapping[str, tuple[Any, Any]]) -> dict[str, float]:
    """Split a fused score into parts that add up to it.

    Each search contributes a share of the fused score. This share is divided in proportion to the parts of the score in
    that search, or stays undivided if these parts are unknown.
    """
    parts: dict[str, float] = {}
    for name, share in fused.parts.items():
        score, own_parts = scores.get(name, (None, None))
        if not (isinstance(own_parts, Mapping) and own_parts and isinstance(score, Real) and score):
            score, own_parts = 1.0, {name: 1.0}
        for part, value in own_parts.items() if share else ():
            parts[part] = parts.get(part, 0.0) + share * value / float(score)
    return parts


def with_notes(document: Document, notes: Mapping[str, Any]) -> Document:
    """Return a copy of a Document with additional metadata; the retriever's Document stays unchanged."""
    return document.model_copy(update={"metadata": {**document.metadata, **notes}})


def _successful(answers: Mapping[str, Result | Failure], trace: Trace) -> dict[str, Result]:
    """Return the answers of the searches that succeeded, and record the failures of the others.

    If all searches failed, the error of the first is raised. A TypeError or ValueError of the first search is always
    raised, because it means that the call was invalid.
    """
    results = {name: one for name, one in answers.items() if not isinstance(one, Failure)}
    first = next(iter(answers))
    for name, failure in ((name, one) for name, one in answers.items() if isinstance(one, Failure)):
        is_wrong_call = name == first and isinstance(failure.error, (TypeError, ValueError))
        if is_wrong_call or not results:
            raise failure.error
        trace.note(failure.source, failure.error)
        trace.degrade(failure.reason)
    return results


def _ranking(name: str, weight: float, results: Result, key: str | None = None, unit: float = 1.0) -> Ranking:
    """Return the ranking of a search.

    The scores are the values of the metadata key ``key``, divided by ``unit``. Without a key, only the order is used.
    """
    scores = [1.0 if key is None else float(document.metadata.get(key, 0.0)) / unit for document in results]
    entries = [ScoredId(chunk_id(document), score) for document, score in zip(results, scores, strict=True)]
    return Ranking(name, weight, entries, {entry.id: entry.score for entry in entries}, bound=1.0)
