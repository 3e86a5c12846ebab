"""Stage that describes the edges on hits' paths."""

from __future__ import annotations

from itertools import islice

from langchain_hybridgraph.execution.effects import Effect, Search
from langchain_hybridgraph.query.graph.graph_context import steps, with_context
from langchain_hybridgraph.query.pipeline.settings import Candidates, SearchContext
from langchain_hybridgraph.records import Hit


def describe(context: SearchContext, hits: list[Hit], candidates: Candidates) -> Search[list[Hit]]:
    """Return the hits. Each hit that was reached through edges gets a description of the last edges on its path.

    The hits are returned unchanged if the edges cannot be read.
    """
    graph, graph_hits = candidates.graph, [hit for hit in hits if hit.hops]
    if graph is None or not graph_hits:
        return hits
    pairs = [step for hit in graph_hits for step in steps(hit)]
    with context.trace.stage("describe"):
        edges = yield from context.ask(Effect("graph", lambda: graph.edges(pairs), quick=True))
        if edges is None:
            return hits
        remaining = iter(edges)
        described = {hit.id: with_context(hit, list(islice(remaining, len(steps(hit))))) for hit in graph_hits}
    return [described.get(hit.id, hit) for hit in hits]
