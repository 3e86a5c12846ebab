"""Best-first search of a tree: literal values, loops and thresholds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.execution.effects import drive
from langchain_hybridgraph.search.tree import BestFirstSettings, ScoredLevel, descend

OWN = {
    "A": 0.8, "B": 0.7, "C": 0.6, "D": 0.5, "E": 0.4,
    "a1": 0.9, "a2": 0.6, "b1": 0.5, "c1": 0.5, "d1": 0.5, "e1": 0.99,
}  # fmt: skip
TREE = {"root": "ABCDE", "A": ["a1", "a2"], "B": ["b1"], "C": ["c1"], "D": ["d1"], "E": ["e1"]}


def descend_tree(below, own, *, roots=("root",), starts=(), descent_scores_of=None, judged=None, leaves=(), **settings):
    """Search a tree of names; return the result, the value of each node, and the names scored at each level."""
    names = sorted({*below, *(name for each in below.values() for name in each), *roots, *starts})
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
        answer_scores = np.array([own.get(name, 0.0) for name in level])
        descent_scores = np.array([(descent_scores_of or {}).get(name, own.get(name, 0.0)) for name in level])
        nodes = np.array([number[name] for name in level], np.int64)
        may_answer, has_children = (np.array([name not in of for name in level], bool) for of in (judged or (), leaves))
        return ScoredLevel(nodes, level, answer_scores, descent_scores, may_answer, has_children)

    descent = drive(
        descend([(number[name], name) for name in roots], worth(sorted(starts)), look, BestFirstSettings(**settings))
    )
    return descent, {names[each.node]: each.value for each in descent.nodes}, levels


def test_the_search_ends_when_the_best_stay_the_same():
    """The search ends once the best two nodes have not changed for three rounds, so E is never opened."""
    descent, values, levels = descend_tree(TREE, OWN, k=2)
    assert (descent.converged, descent.opened) == (True, 5)
    assert levels == [list("ABCDE"), ["a1", "a2"], ["b1"], ["c1"], ["d1"]]
    assert list(values)[:2] == ["a1", "A"]
    assert values["a1"] == pytest.approx(0.85, abs=1e-6)
    assert values["A"] == pytest.approx(0.80, abs=1e-6)


def test_a_child_has_half_of_its_directory():
    """The value of a child is half its own score and half its directory's value: .5 · .6 + .5 · .8 = .7."""
    _, values, _ = descend_tree({"root": "A", "A": ["a"]}, {"A": 0.8, "a": 0.6}, k=2)
    assert values["a"] == pytest.approx(0.7, abs=1e-6)


def test_below_a_root_without_a_score_a_node_keeps_its_score():
    """A node below an unscored root keeps its own score; below a scored root the two are averaged."""
    _, unknown, _ = descend_tree({"root": "A"}, {"A": 0.8}, k=2)
    _, nodes, _ = descend_tree({"root": "A"}, {"A": 0.8, "root": 0.4}, starts=["root"], k=2)
    assert (unknown, nodes) == ({"A": 0.8}, {"A": pytest.approx(0.6), "root": 0.4})


def test_a_directory_without_a_score_is_opened_last():
    """A directory without a score is opened after the others, and its children keep their own scores."""
    below = {"root": ["known", "unknown"], "known": ["k"], "unknown": ["u"]}
    own = {"known": 0.2, "k": 0.5, "u": 0.9}
    _, values, levels = descend_tree(below, own, descent_scores_of={"unknown": np.nan}, judged={"unknown"}, k=5)
    assert levels == [["known", "unknown"], ["k"], ["u"]]
    assert values == {"u": 0.9, "k": pytest.approx(0.35), "known": 0.2}


def test_more_rounds_look_further():
    """With max_rounds=4, E is opened and e1 has the value .5 · .99 + .5 · .4."""
    _, values, _ = descend_tree(TREE, OWN, k=2, max_rounds=4)
    assert values["e1"] == pytest.approx(0.695)


def test_the_search_continues_until_k_nodes_are_reached():
    """The search continues until it has reached k nodes, even if the best nodes do not change."""
    below = {"root": "ABCDEF", "A": ["a"]} | {name: [name.lower()] for name in "BCDEF"}
    own = {"A": 0.9, "a": 0.9} | dict.fromkeys("BCDEF", 0.5) | {"f": 0.5}
    _, values, _ = descend_tree(below, own, judged=set("ABCDEF"), k=2, threshold=0.3)
    assert set(values) == {"a", "f"}


def test_starts_come_before_the_root():
    """A start is opened before the root and has its own score."""
    _, values, levels = descend_tree(TREE, OWN, starts=["E"], k=20)
    assert levels[0] == ["e1"]
    assert values["E"] == 0.4
    assert set(values) == set(OWN)


def test_a_tree_with_a_loop_ends():
    """In a tree with a loop, each directory is opened once."""
    descent, values, _ = descend_tree(
        {"root": "A", "A": "B", "B": ["A", "root"]}, {"A": 0.5, "B": 0.9, "root": 0.1}, k=9
    )
    assert (descent.opened, set(values)) == (3, {"A", "B", "root"})


def test_a_node_that_contains_itself_is_opened_once():
    """A node that is listed as its own child is opened once."""
    descent, _, _ = descend_tree({"root": ["root"]}, {"root": 0.5}, k=1)
    assert descent.opened == 1


def test_the_threshold_is_strict():
    """A node with exactly the threshold is left out, but its children above the threshold are returned."""
    _, values, _ = descend_tree({"root": "AB", "A": ["a"]}, {"A": 0.5, "B": 0.6, "a": 1.0}, k=5, threshold=0.5)
    assert values == {"B": 0.6, "a": 0.75}


def test_directories_that_cannot_reach_the_threshold_are_skipped():
    """A directory is not opened if no child can exceed the threshold: .5 · 1 + .5 · .5 is exactly .75."""
    _, _, levels = descend_tree({"root": "A", "A": ["a"]}, {"A": 0.5, "a": 1.0}, k=5, threshold=0.75)
    assert levels == [["A"]]


def test_nodes_of_value_0_are_left_out():
    """Nodes with the value 0 are left out, because the default threshold of 0 must be exceeded."""
    _, values, _ = descend_tree({"root": "AB"}, {"A": 0.0, "B": 0.1}, k=5)
    assert set(values) == {"B"}


@pytest.mark.parametrize(("k", "width"), [(1, 20), (10, 20), (11, 22), (100, 200)])
def test_only_the_best_children_of_a_directory_are_used(k, width):
    """Only the best max(2 k, 20) children of a directory are used."""
    names = [f"n{place:04}" for place in range(1_000)]
    _, values, _ = descend_tree({"root": names}, {name: 1 - place / 2_000 for place, name in enumerate(names)}, k=k)
    assert list(values) == names[:width]


def test_ties_are_ordered_by_name():
    """Nodes with equal values are ordered by name."""
    _, values, _ = descend_tree({"root": "DBCA"}, dict.fromkeys("ABCD", 0.5), k=4)
    assert list(values) == list("ABCD")


def test_leaves_are_not_opened():
    """A node without children is returned but not opened, so it does not use a round."""
    descent, values, levels = descend_tree({"root": "ab", "a": "c"}, {"a": 0.5, "b": 0.9, "c": 0.5}, leaves="bc", k=5)
    assert (descent.opened, set(values), levels) == (2, set("abc"), [["a", "b"], ["c"]])


def test_a_selection_of_a_level_keeps_its_columns():
    """Selecting nodes of a level keeps all of their columns, in the requested order."""
    level = ScoredLevel(
        np.array([7, 8, 9]), list("abc"), *np.array([[0.1, 0.2, 0.3], [0.4, 0.1, np.nan]]), *np.eye(3)[:2]
    )
    some = level.at([2, 0])
    assert (some.nodes.tolist(), some.names, some.answer_scores.tolist()) == ([9, 7], ["c", "a"], [0.3, 0.1])
    assert level.worth.tolist() == [0.4, 0.2, 0.3]


def test_an_empty_directory_does_not_count_as_a_round():
    """An empty directory is not counted as opened, and no node is scored."""
    descent, values, levels = descend_tree({"root": []}, {}, k=3)
    assert (descent.opened, values, levels) == (0, {}, [])


@given(st.dictionaries(st.sampled_from([*OWN]), st.floats(0, 1)), st.floats(0, 1), st.integers(1, 5))
def test_values_are_between_own_and_the_directory(own, alpha, k):
    """Values are above the threshold, in descending order, and not below both a node's own score and its directory's
    value.
    """
    descent, values, _ = descend_tree(TREE, own | {"A": 0.5}, k=k, alpha=alpha)
    assert all(0 < value <= 1 + 1e-12 for value in values.values())
    assert [round(value, 12) for value in values.values()] == sorted(
        (round(value, 12) for value in values.values()), reverse=True
    )
    assert descent.nodes
    for each in descent.nodes:
        if each.directory_value is None:
            assert each.value == each.own
        else:
            assert each.value >= min(each.own, each.directory_value) - 1e-12


@pytest.mark.parametrize("settings", [{"alpha": 1.5}, {"max_rounds": 0}, {"threshold": -0.1}])
def test_invalid_settings_are_refused(settings):
    """The error for an invalid setting contains its name."""
    with pytest.raises(ConfigurationError, match=r"alpha|max_rounds|score_threshold"):
        BestFirstSettings(k=3, **settings)
