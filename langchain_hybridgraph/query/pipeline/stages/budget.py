"""Stage that limits the hits to a token budget."""

from __future__ import annotations

from langchain_hybridgraph.query.pipeline.settings import SearchContext
from langchain_hybridgraph.records import Hit


def budget(context: SearchContext, hits: list[Hit]) -> list[Hit]:
    """Return the hits that fit into the token budget, or all hits if there is no budget."""
    if context.pipeline.budget is None:
        return hits
    with context.trace.stage("budget"):
        fitting, reasons = context.pipeline.budget.fit(hits)
    for reason in reasons:
        context.trace.degrade(reason)
    return fitting
