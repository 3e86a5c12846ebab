"""Stage that replaces search scores with memory scores."""

from __future__ import annotations

from functools import partial

from langchain_hybridgraph.execution.effects import Effect, Search
from langchain_hybridgraph.query.pipeline.pruning import scores_unread
from langchain_hybridgraph.query.pipeline.settings import SearchContext
from langchain_hybridgraph.records import Hit


def score(context: SearchContext, hits: list[Hit]) -> Search[list[Hit]]:
    """Return the hits with their memory scores, best first.

    The hits are returned unchanged if there is no ``scoring``, if it fails, or if the candidates were already scored
    before their texts were read.
    """
    query, pipeline, trace = context
    if pipeline.scoring is None or not hits or scores_unread(pipeline):
        return hits
    with trace.stage("score"):
        scored_hits: list[Hit] = yield from context.ask(
            Effect("memory", partial(pipeline.scoring, hits, query), quick=True), hits
        )
    return scored_hits
