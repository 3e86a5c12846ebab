"""Descriptions of the edges on a hit's path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from langchain_hybridgraph.records import Edge, Hit
from langchain_hybridgraph.records.edges import name_of

# Number of edges at the end of a hit's path that ``graph_context`` describes.
CONTEXT = 3


def steps(hit: Hit) -> list[tuple[str, str]]:
    """Return the last ``CONTEXT`` steps of a hit's path as pairs of ids, the last step first."""
    return list(zip(hit.path[:-1], hit.path[1:], strict=True))[::-1][:CONTEXT]


def with_context(hit: Hit, edges: Sequence[Edge | tuple[Edge, Edge] | None]) -> Hit:
    """Return the hit with descriptions of the last steps of its path.

    ``edges`` has one entry for each of the :func:`steps`: an edge, a pair of edges through an entity, or None. Steps
    with None are not described.
    """
    pairs = zip(steps(hit), edges, strict=True)
    return replace(hit, graph_context=tuple(_described(one, edge) for (one, _), edge in pairs if edge is not None))


def _described(chunk: str, edge: Edge | tuple[Edge, Edge]) -> dict[str, Any]:
    if isinstance(edge, Edge):
        step = {
            "from_chunk_id": chunk,
            "relation": edge.relation,
            "weight": edge.weight,
            "description": edge.description,
        }
        return step if edge.source == chunk else {**step, "direction": "backward"}
    first, second = edge
    entity = first.target
    return {
        "from_chunk_id": chunk,
        "relation": first.relation,
        "weight": first.weight * second.weight,
        "description": f"Both mention {name_of(entity)}.",
        "entity": entity,
    }
