"""One list of what two searches of a retriever found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from langchain_core.documents import Document

from langchain_hybridgraph.query.calls import Failure
from langchain_hybridgraph.query.fusion import ReciprocalRankFusion
from langchain_hybridgraph.query.trace import Trace
from langchain_hybridgraph.records import Fused, Ranking, RetrievalResult, Scored
from langchain_hybridgraph.retrievers.documents import chunk_id

Result = RetrievalResult[Document]


def fused(answers: Mapping[str, Result | Failure], weights: Mapping[str, float], k: int | None, trace: Trace) -> Result:
    """The k best by weighted reciprocal ranks; without k as many as the longer of the lists has.

    ``answers`` and ``weights`` have the same names. Where one search failed it is what the others found, and ``trace``
    says so. Raises the error of a search when all failed, and the first's where that is one of how it was asked.
    """
    found = _found(answers, trace)
    longest = max(map(len, found.values()))
    rankings = [_ranking(name, weights[name], one) for name, one in found.items()]
    best = ReciprocalRankFusion()(rankings)[: longest if k is None else k]
    documents = {chunk_id(document): document for one in reversed(found.values()) for document in one}
    hits = {hit.id: hit for one in found.values() for hit in one.hits}
    for reason in (reason for one in found.values() for reason in one.degraded):
        trace.degrade(reason)
    return RetrievalResult(
        [_placed(documents[one.id], rank, one) for rank, one in enumerate(best, start=1)],
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


def _ranking(name: str, weight: float, found: Result) -> Ranking:
    entries = [Scored(chunk_id(document), 1.0) for document in found]
    return Ranking(name, weight, entries, {entry.id: 1.0 for entry in entries})


def _placed(document: Document, rank: int, fused: Fused) -> Document:
    return with_notes(
        document,
        {
            "retrieval_rank": rank,
            "relevance_score": fused.score,
            "score": fused.score,
            "score_breakdown": dict(fused.parts),
            "retrieval_source": "fused" if len(fused.parts) > 1 else next(iter(fused.parts)),
        },
    )
