"""Stage that replaces children with their parents."""

from __future__ import annotations

from langchain_hybridgraph.execution.effects import Search
from langchain_hybridgraph.query.pipeline.hits import read_parents, without_copies
from langchain_hybridgraph.query.pipeline.settings import SearchContext
from langchain_hybridgraph.records import Hit


def parents(context: SearchContext, hits: list[Hit]) -> Search[list[Hit]]:
    """Return the hits with children replaced by their parents, if the store has parents.

    The hits are ordered by score, and hits with equal scores by id. In a call with a filter and no query, hits with
    equal scores stay in the order in which the store listed them. With ``merges_copies``, only the best of the hits
    with copies of one parent is returned.
    """
    resolved = yield from read_parents(context, hits)
    if context.pipeline.merges_copies:
        resolved = without_copies(resolved)
    if not context.is_filter_only or resolved is hits:
        return resolved
    positions: dict[str, int] = {}
    for position, hit in enumerate(hits):
        positions.setdefault(hit.id, position)
        positions.setdefault(hit.chunk.parent or hit.id, position)
    return sorted(resolved, key=lambda hit: (-hit.score, positions[hit.id]))
