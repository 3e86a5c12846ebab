"""One list of what two searches of a retriever found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.documents import Document

from langchain_hybridgraph.query.calls import Failure
from langchain_hybridgraph.query.fusion import ConvexCombination, ReciprocalRankFusion
from langchain_hybridgraph.query.trace import Trace
from langchain_hybridgraph.records import Fused, Ranking, RetrievalResult, Scored
from langchain_hybridgraph.retrievers.documents import chunk_id

Result = RetrievalResult[Document]


def fused_by_score(
    answers: Mapping[str, Result | Failure],
    weights: Mapping[str, float],
    k: int | None,
    trace: Trace,
    *,
    least: float = 0.0,
    prefix: str = "",
) -> Result:
    """The k best by the weighted mean of the scores that two searches of a retriever of ours gave.

    A score is 0 where a search has not found the Document, so the mean says what a single search's score says, and
    what has less than ``least`` is left out. ``prefix`` stands before our keys in the metadata. All else is as in
    :func:`fused_by_rank`.
    """
    found = _found(answers, trace)
    rankings = [_ranking(name, weights[name], one, prefix + "score") for name, one in found.items()]
    best = [one for one in ConvexCombination(normalize="bound")(rankings) if one.score >= least]
    return _joined(found, best, k, trace, prefix)


def fused_by_rank(
    answers: Mapping[str, Result | Failure], weights: Mapping[str, float], k: int | None, trace: Trace
) -> Result:
    """The k best by weighted reciprocal ranks; without k as many as the longer of the lists has.

    ``answers`` and ``weights`` have the same names. Where one search failed it is what the others found, and ``trace``
    says so. Raises the error of a search when all failed, and the first's where that is one of how it was asked.
    """
    found = _found(answers, trace)
    best = ReciprocalRankFusion()([_ranking(name, weights[name], one) for name, one in found.items()])
    return _joined(found, best, k, trace)


def _joined(found: dict[str, Result], best: Sequence[Fused], k: int | None, trace: Trace, prefix: str = "") -> Result:
    """What the searches found, in this order."""
    best = best[: max(map(len, found.values())) if k is None else k]
    documents = {chunk_id(document): document for one in reversed(found.values()) for document in one}
    hits = {hit.id: hit for one in found.values() for hit in one.hits}
    for reason in (reason for one in found.values() for reason in one.degraded):
        trace.degrade(reason)
    return RetrievalResult(
        [_placed(documents[one.id], rank, one, prefix) for rank, one in enumerate(best, start=1)],
        hits=[replace(hits[one.id], score=one.score, parts=one.parts) for one in best if one.id in hits],
        plan=next(iter(found.values())).plan,
    )


def with_notes(document: Document, notes: Mapping[str, Any]) -> Document:
    """A copy with further metadata; the retriever's own Document stays as it is."""
    return document.model_copy(update={"metadata": {**document.metadata, **notes}})


def _found(answers: Mapping[str, Result | Failure], trace: Trace) -> dict[str, Result]:
    """The answers of the searches that did not fail, of which there is one at least."""
    found = {name: one for name, one in answers.items() if not isinstance(one, Failure)}
    first = next(iter(answers))
    for name, failure in ((name, one) for name, one in answers.items() if isinstance(one, Failure)):
        is_asked_wrongly = name == first and isinstance(failure.error, (TypeError, ValueError))
        if is_asked_wrongly or not found:
            raise failure.error
        trace.note(failure.source, failure.error)
        trace.degrade(failure.reason)
    return found


def _ranking(name: str, weight: float, found: Result, key: str | None = None) -> Ranking:
    """A search's Documents with the scores that they have under the key; without one their places alone count."""
    scores = [1.0 if key is None else float(document.metadata.get(key, 0.0)) for document in found]
    entries = [Scored(chunk_id(document), score) for document, score in zip(found, scores, strict=True)]
    return Ranking(name, weight, entries, {entry.id: entry.score for entry in entries}, bound=1.0)


def _placed(document: Document, rank: int, fused: Fused, prefix: str) -> Document:
    notes = {
        "retrieval_rank": rank,
        "relevance_score": fused.score,
        "score": fused.score,
        "score_breakdown": dict(fused.parts),
        "retrieval_source": "fused" if len(fused.parts) > 1 else next(iter(fused.parts)),
    }
    return with_notes(document, {prefix + key: value for key, value in notes.items()})
