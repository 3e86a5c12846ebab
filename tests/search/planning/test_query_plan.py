import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.search.planner import QueryPlan, TypedQuery, best


def test_weights_of_the_priorities():
    """The weight of priority p is (6 − p) / 5: 1, .8, .6, .4 and .2."""
    assert [TypedQuery("cats", priority=p).weight for p in range(1, 6)] == [1.0, 0.8, 0.6, 0.4, 0.2]


@pytest.mark.parametrize("wrong", [{"priority": 0}, {"priority": 6}, {"priority": 1.5}, {"query": " \n"}])
def test_a_query_that_cannot_be_searched_is_refused(wrong):
    """A priority other than an integer from 1 to 5, or a query without text, raises ConfigurationError."""
    with pytest.raises(ConfigurationError, match="priority from 1"):
        TypedQuery(**{"query": "cats", **wrong})


def test_a_plan_is_a_sequence():
    """A plan has a length, items and slices, and equals any sequence of the same queries, but not a string."""
    a, b = TypedQuery("a"), TypedQuery("b")
    plan = QueryPlan((a, b))
    assert (len(plan), plan[0], plan[1:], list(plan)) == (2, a, (b,), [a, b])
    assert plan == [a, b]
    assert plan == (a, b)
    assert plan != [b, a]
    assert QueryPlan(()) != ""


def test_a_plan_goes_through_json():
    """A plan keeps all of its fields through JSON."""
    plan = QueryPlan((TypedQuery("a", "memory", "why", 2),), ("planner-failed",), "so")
    assert repr(QueryPlan.from_dict(json.loads(json.dumps(plan.to_dict())))) == repr(plan)


@given(
    st.lists(st.builds(TypedQuery, st.text("ab", min_size=1), st.sampled_from([None, "x"]), priority=st.integers(1, 5)))
)
def test_best_returns_only_given_queries(queries):
    """At most five of the given queries are returned, each once and in order of priority."""
    selection = best(queries)
    assert len(selection) == len(set(selection)) <= 5
    assert set(selection) <= set(queries)
    assert [query.priority for query in selection] == sorted(query.priority for query in selection)


def test_equal_queries_are_searched_once():
    """Queries that differ only in case and spaces count once, with the better priority; the best five stay in order."""
    queries = [
        TypedQuery("Red  cats", "memory", priority=3),
        TypedQuery("red cats", "memory"),
        TypedQuery("red cats", "skill"),
    ]
    assert best(queries) == (TypedQuery("red cats", "memory"), TypedQuery("red cats", "skill"))
    ordered = [TypedQuery(str(i), priority=p) for i, p in enumerate((3, 1, 5, 2, 3, 4, 1))]
    assert [query.query for query in best(ordered)] == ["1", "6", "3", "0", "4"]
