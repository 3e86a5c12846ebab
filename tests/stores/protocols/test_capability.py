"""Whether an object implements a protocol."""

from langchain_hybridgraph.stores.in_memory_graph import InMemoryGraph
from langchain_hybridgraph.stores.protocols import HasGraph, SearchesVectors, implements


def test_the_answer_is_that_of_isinstance():
    """A store of edges has a graph and no vectors, the first time and every later time."""
    graph = InMemoryGraph()
    assert [implements(graph, HasGraph) for _ in range(2)] == [True, True] == [isinstance(graph, HasGraph)] * 2
    assert [implements(graph, SearchesVectors) for _ in range(2)] == [False, False]


def test_each_class_has_its_own_answer():
    """A subclass that adds methods is not answered for by its parent."""

    class Nothing:
        """A class without any method."""

    class Graph(InMemoryGraph, Nothing):
        """A subclass with a graph."""

    assert not implements(Nothing(), HasGraph)
    assert implements(Graph(), HasGraph)
