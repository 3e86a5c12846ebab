"""Best-first search of a tree: literal values, loops and thresholds."""

import numpy as np

from langchain_hybridgraph.execution.effects import drive
from langchain_hybridgraph.search.tree import Descent, ScoredLevel


def descend_tree(below, own, **settings):
    """Search a tree of names; return the result, the value of each node, and the names scored at each level."""
    names = sorted({*below, *(name for each in below.values() for name in each)})
    number = {name: place for place, name in enumerate(names)}
    levels = []

    def look(node):
        inside = sorted(below.get(names[node], ()))
        if not inside:
            return None
        levels.append(inside)
        return worth(inside)
        yield

    def worth(level):
        scores = np.array([own.get(name, 0.0) for name in level])
        nodes = np.array([number[name] for name in level], np.int64)
        return ScoredLevel(nodes, level, scores, scores, *np.ones((2, len(level)), bool))

    descent = Descent(**settings)
    drive(descent.run([(number["root"], "root")], worth([]), look))
    return descent, {names[each.node]: each.value for each in descent.nodes}, levels


def test_the_threshold_is_strict():
    """A node with exactly the threshold is left out, but its children above the threshold are returned."""
    _, values, _ = descend_tree({"root": "AB", "A": ["a"]}, {"A": 0.5, "B": 0.6, "a": 1.0}, k=5, threshold=0.5)
    assert values == {"B": 0.6, "a": 0.75}
    _, _, levels = descend_tree({"root": "A", "A": ["a"]}, {"A": 0.5, "a": 1.0}, k=5, threshold=0.75)
    assert levels == [["A"]]  # no child could exceed the threshold: .5 · 1 + .5 · .5 is exactly .75


def test_ties_are_ordered_by_name():
    """Nodes with equal values are ordered by name."""
    _, values, _ = descend_tree({"root": "DBCA"}, dict.fromkeys("ABCD", 0.5), k=4)
    assert list(values) == list("ABCD")
