"""Check whether an object implements a protocol."""

from langchain_hybridgraph.stores.graph import InMemoryGraph
from langchain_hybridgraph.stores.protocols import HasGraph, SearchesVectors, implements


def test_implements_agrees_with_isinstance():
    """implements() agrees with isinstance, on the first call and on later ones."""
    graph = InMemoryGraph()
    assert [implements(graph, HasGraph) for _ in range(2)] == [True, True] == [isinstance(graph, HasGraph)] * 2
    assert [implements(graph, SearchesVectors) for _ in range(2)] == [False, False]


def test_each_class_is_checked_separately():
    """A subclass that adds methods is checked separately from its parent."""

    class Nothing:
        """A class without any method."""

    class Graph(InMemoryGraph, Nothing):
        """A subclass with a graph."""

    assert not implements(Nothing(), HasGraph)
    assert implements(Graph(), HasGraph)
