"""Stage that returns recent memories if nothing is similar."""

from __future__ import annotations

from collections.abc import Mapping

from langchain_hybridgraph.execution.effects import Effect, Search
from langchain_hybridgraph.query.pipeline.settings import Candidates, SearchContext
from langchain_hybridgraph.records import Chunk, Hit


def recall(context: SearchContext, hits: list[Hit], candidates: Candidates) -> Search[list[Hit]]:
    """Return the hits, or the newest memories if a search of memories found nothing.

    The newest memories are ordered by their memory scores. Their similarity is 0, ``found_by`` contains ``recent``, and
    ``degraded`` contains ``nothing-similar``.
    """
    query, pipeline, trace = context
    newest, scoring, results = pipeline.newest, pipeline.scoring, candidates.results
    # The result of a failed source is not an empty result.
    is_answered = not results or any(result.entries for result in results.values())
    if newest is None or scoring is None or query.text is None or is_answered:
        return hits

    def read() -> list[Hit]:
        chunks: Mapping[str, Chunk] = pipeline.store.read(newest(query.scope), query.scope, {})
        recent = [Hit(chunk, 0.0, "recent", {}, found_by=("recent",), path=(id,)) for id, chunk in chunks.items()]
        return scoring(recent, query)

    with trace.stage("recall"):
        recent: list[Hit] | None = yield from context.ask(Effect("memory", read, quick=True))
    if recent is None:
        return hits
    if recent:
        trace.degrade("nothing-similar")
        trace.method = "recent"
    return recent
