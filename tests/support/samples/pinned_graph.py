"""Small graph on which the specification defines exact scores, and a helper that traverses edges."""

import numpy as np

from langchain_hybridgraph.records import Edge, Scope
from langchain_hybridgraph.stores.graph import InMemoryGraph

EDGES = [
    Edge("A", "C", "cites", 0.8),
    Edge("B", "C", "cites", 1.0),
    Edge("C", "D", "cites", 0.9),
    Edge("Z", "A", "cites", 0.6),
]
SEEDS = [("A", 0.9), ("B", 0.5)]


def traverse(edges, traversal, score, *, seeds=SEEDS, own=None):
    """Return the result of a traversal of these edges; ``own`` maps ids to cosines, and other ids have none."""
    cosines = None if own is None else lambda vector, ids: {id: own[id] for id in ids if id in own}
    graph = InMemoryGraph(edges).for_store(None, cosines).scoped_graph(Scope(), traversal.edge_filter)
    return traversal.traverse(graph, seeds, score, None if own is None else np.ones(1, np.float32))


def by_id(result):
    return {end.id: end for end in result.chunks}


def values(result):
    return {end.id: end.value for end in result.chunks}
