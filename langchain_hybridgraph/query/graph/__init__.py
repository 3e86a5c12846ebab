"""Traversals, which follow edges to further chunks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from langchain_hybridgraph.query.graph.beam import Beam
from langchain_hybridgraph.query.graph.best_first import BestFirst
from langchain_hybridgraph.query.graph.bfs import BFS
from langchain_hybridgraph.query.graph.evidence import LinkEvidence
from langchain_hybridgraph.query.graph.pagerank import PersonalizedPageRank
from langchain_hybridgraph.query.graph.paths import ReachedChunk, Traversal, TraversalResult
from langchain_hybridgraph.query.graph.rings import WaterCircle
from langchain_hybridgraph.registry import from_config, to_config

__all__ = [
    "BFS",
    "TRAVERSALS",
    "Beam",
    "BestFirst",
    "LinkEvidence",
    "PersonalizedPageRank",
    "ReachedChunk",
    "Traversal",
    "TraversalResult",
    "WaterCircle",
    "traversal_form",
    "traversal_from",
]

TRAVERSALS: Mapping[str, Callable[..., Traversal]] = MappingProxyType(
    {
        "bfs": BFS,
        "beam": Beam,
        "water_circle": WaterCircle,
        "best_first": BestFirst,
        "evidence": LinkEvidence,
        "pagerank": PersonalizedPageRank,
    }
)


def traversal_from(form: str | Mapping[str, Any] | Traversal) -> Traversal:
    """Return the traversal for a name, or for a mapping with the name as ``type`` and parameters.

    A traversal is returned unchanged. Raises ConfigurationError for an unknown name or parameter, and for an invalid
    value.

    >>> traversal_from({"type": "bfs", "max_hops": 3}).max_hops
    3
    """
    return from_config("traversal", form, TRAVERSALS, lambda one: callable(getattr(one, "traverse", None)))


def traversal_form(traversal: Traversal) -> dict[str, Any]:
    """Return a traversal as a mapping, which :func:`traversal_from` can read. Sets become sorted lists.

    Raises ConfigurationError for an object whose class is not in :data:`TRAVERSALS`.

    >>> traversal_form(BFS(relations={"cites"}))["relations"]
    ['cites']
    """
    return to_config("traversal", traversal, TRAVERSALS)
