"""What is remembered of the candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import cast

from langchain_hybridgraph.execution.effects import Effect, Failure, Search
from langchain_hybridgraph.memory.scoring import CompositeScores
from langchain_hybridgraph.query.pipeline.settings import ALL, SearchContext
from langchain_hybridgraph.query.sources import Source
from langchain_hybridgraph.records import Chunk, FusedCandidate, Hit, SourceResult


def score(run: SearchContext, hits: list[Hit]) -> Search[list[Hit]]:
    """The hits by what is remembered of them, where that counts; what cannot be read leaves them as they are."""
    query, pipeline, trace = run
    scoring = pipeline.scoring
    if scoring is None or not hits or pipeline.scores_unread:
        return hits
    with trace.stage("remember"):
        (scored,) = yield [Effect("memory", partial(scoring, hits, query), quick=True)]
    if isinstance(scored, Failure):
        run.note(scored)
        run.judge([scored])
        return hits
    return cast(list[Hit], scored)


def recall(run: SearchContext, hits: list[Hit], found: Mapping[Source, SourceResult]) -> Search[list[Hit]]:
    """The hits, or where no source found anything the newest chunks, by what is remembered of them.

    Their similarity is 0, ``found_by`` is ``recent``, and the answer says ``nothing-similar``.
    """
    query, pipeline, trace = run
    newest, scoring = pipeline.newest, pipeline.scoring
    is_answered = not found or any(answer.entries for answer in found.values())  # a failure is not an answer of none
    if newest is None or scoring is None or query.text is None or is_answered:
        return hits

    def remembered() -> list[Hit]:
        chunks: Mapping[str, Chunk] = pipeline.store.read(newest(query.scope), query.scope, {})
        recent = [Hit(chunk, 0.0, "recent", {}, found_by=("recent",), path=(id,)) for id, chunk in chunks.items()]
        return scoring(recent, query)

    with trace.stage("remember"):
        (recent,) = yield [Effect("memory", remembered, quick=True)]
    if isinstance(recent, Failure):
        run.note(recent)
        run.judge([recent])
        return hits
    if recent:
        trace.degrade("nothing-similar")
        trace.method = "recent"
    return cast(list[Hit], recent)


def score_unread(run: SearchContext, fused: list[FusedCandidate]) -> Search[list[FusedCandidate]]:
    """What :func:`score` would say of the candidates, before they are read: then only the best need be."""
    pipeline = run.pipeline
    if not fused or not pipeline.scores_unread:
        return fused
    weighing = yield from weigh(run, [one.id for one in fused])
    return fused if weighing is None else weighing.best(fused, ALL)


def weigh(run: SearchContext, ids: Sequence[str]) -> Search[CompositeScores | None]:
    """What is remembered of candidates; None where that cannot be read."""
    query, pipeline, trace = run
    assert pipeline.scoring is not None
    with trace.stage("remember"):
        (weighing,) = yield [Effect("memory", partial(pipeline.scoring.weighing, ids, query), quick=True)]
    if isinstance(weighing, Failure):
        run.note(weighing)
        run.judge([weighing])
        return None
    return cast(CompositeScores, weighing)
