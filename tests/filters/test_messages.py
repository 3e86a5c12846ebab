"""Error messages for malformed filters."""

import math

import numpy as np
import pytest

from langchain_hybridgraph.errors import FilterError
from langchain_hybridgraph.filters.expressions import parse_filter

NAN = math.nan


def matches(condition, metadata):
    return parse_filter(condition).matches(metadata)


def deep(name, levels):
    condition = {"$eq": 1} if name == "field" else {"a": 1}
    for _ in range(levels):
        condition = {"$not": condition}
    return {"a": condition} if name == "field" else condition


RAISES = [
    ("source = 'a' and b = 1", "is not a filter", '{"source": "a.md"}'),
    ({"a": {"!=": ["x", "y"]}}, "is ambiguous", '{"a": {"$nin": ["x", "y"]}}'),
    ({"a": {"$ne": ["x"]}}, "is ambiguous", '{"a": {"$not": {"$eq": ["x"]}}}'),
    ({"a": {"not like": "x%"}}, "There are no patterns", '{"a": {"$not_contains": "x"}}'),
    ({"a": {"$regex": "x.*yz"}}, "There are no patterns", '{"a": {"$contains": "yz"}}'),
    ({"a": {"$neq": 5}}, "'$neq' on 'a' is not an operator", '{"a": {"$ne": 5}}'),
    ({"a": {"$ilike": "x"}}, "upper case differs", '{"a": {"$contains": "x"}}'),
    ({"a": {"$startswith": "x"}}, "There are no patterns", '{"a": {"$contains": "x"}}'),
    ({"a": {"$all": ["x", "y"]}}, "'$all' on 'a'", '{"$and": [{"a": {"$contains": "x"}}, {"a": {"$contains": "y"}}]}'),
    ({"$text": {"$search": "x"}}, "$text is not an operator", "as the query"),
    ({"must": [{"key": "a", "match": {"value": 5}}]}, "'must' does not combine", '{"$and": [{"source": "a.md"}'),
    ({"should": [{"a": 1}, {"b": 2}]}, "'should' does not combine filters", '{"$or": [{"source": "a.md"}'),
    ({"a": {"gte": 5}}, "'gte' on 'a' is not an operator", '{"a": {"$gte": 5}}'),
    ({"a": {"$gt": 1, "b": 2}}, "'b' on 'a'", '{"a.b": 2}'),
    ({"a": {"$and": [{"$gt": 1}]}}, "'$and' on 'a'", '{"$and": [{"a": {"$gt": 1}}]}'),
    ({"a": {5: 1}}, "5 on 'a'", '{"a.5": 1}'),
    ({"$eq": 5}, "$eq needs a field", '{"field": {"$eq": 5}}'),
    ({"a": 1, "$where": "x"}, "'$where' is not an operator", r'"\\$where"'),
    ({"$or": []}, "a non-empty list of filters, not []", '{"$or": [{"source": "a.md"}'),
    ({"$or": [{"a": 1}, {}]}, "take filters, got {};", '{"source": "a.md"}'),
    ({"$not": [{"a": 1}]}, 'take filters, got [{"a": 1}];', '{"source": "a.md"}'),
    ({"a": {"$not": 5}}, "is a $not without an operator", '{"a": {"$ne": 5}}'),
    ({"a": {}}, "has no operator", '{"a": {"$exists": true}}'),
    ({"a": [1, 2]}, "is ambiguous", '{"a": {"$in": [1, 2]}}'),
    ({"a": None}, "null, which counts as missing", '{"a": {"$exists": false}}'),
    ({"a": {"$in": ["x", None]}}, "null, which counts as missing", '{"a": {"$exists": false}}'),
    ({"a": {"$in": "abc"}}, "$in on 'a' takes a list", '{"a": {"$in": ["abc"]}}'),
    ({"a": {"$gt": True}}, "takes a number, a time or a string, not true", '{"a": {"$gt": 2024}}'),
    ({"a": {"$contains": ["x"]}}, "is ambiguous", 'has_labels(any_of=[...], key="a")'),
    ({"a": {"$exists": 1}}, "takes true or false, not 1", '{"a": {"$exists": true}}'),
    ({"a": NAN}, "a value other than NaN, which equals nothing", '{"a": {"$eq": 0}}'),
    ({"a": {"$eq": {"b": [np.float32("nan")]}}}, "a value other than NaN", '{"a": {"$eq": 0}}'),
    ({"a": b"x"}, "takes a JSON value or a datetime", '{"a": {"$eq": '),
    ({5: 1}, "the key 5 is not a string", '{"5": 1}'),
    (deep("whole", 5000), "nested more than 100 levels", "side by side"),
    (deep("field", 5000), "nested more than 100 levels", "side by side"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("condition", "message", "correction"), RAISES, ids=lambda value: value if type(value) is str else ""
)
def test_the_error_of_a_malformed_filter_shows_a_correction(condition, message, correction):
    """The error for a malformed filter quotes the input and shows a corrected example."""
    with pytest.raises(FilterError) as raised:
        parse_filter(condition)
    assert message in str(raised.value)
    assert correction in str(raised.value)


def test_the_error_of_an_unknown_operator_lists_all_operators():
    """The error for an unknown operator lists every operator that a field accepts."""
    with pytest.raises(
        FilterError, match=r"\$eq \$ne \$gt \$gte \$lt \$lte \$in \$nin \$contains \$not_contains \$exists \$not"
    ):
        parse_filter({"a": {"$like": "x"}})


@pytest.mark.parametrize("name", ["$foo", "$gth", "$lik", "$mod", "$type"])
def test_the_error_of_an_unknown_name_suggests_nothing(name):
    """The error for a name without an equivalent, or with a typing error, lists the operators and suggests none."""
    with pytest.raises(FilterError, match=r"\$exists \$not$"):
        parse_filter({"a": {name: 5}})


SYMBOLS = {"=": "$eq", "==": "$eq", "!=": "$ne", "<>": "$ne", ">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte"}


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_symbols_of_comparisons_are_operators(symbol):
    """A symbol such as ``!=`` means the same as the operator."""
    assert parse_filter({"a": {symbol: 5}}) == parse_filter({"a": {SYMBOLS[symbol]: 5}})


def test_nor_is_the_negation_of_or():
    """MongoDB's ``$nor`` matches if none of its filters matches."""
    assert parse_filter({"$nor": [{"a": 1}, {"b": 2}]}) == parse_filter({"$not": {"$or": [{"a": 1}, {"b": 2}]}})


@pytest.mark.parametrize("level", [5000, 50])
def test_an_operand_may_be_nested_within_limits(level):
    """An operand may be a nested list, but one that is nested too deeply for recursion raises FilterError."""
    operand = []
    for _ in range(level):
        operand = [operand]
    if level == 50:
        assert matches({"a": {"$eq": operand}}, {"a": operand})
    else:
        with pytest.raises(FilterError, match="less deeply nested"):
            parse_filter({"a": {"$eq": operand}})


def test_filter_errors_are_value_errors():
    """A FilterError can be caught as a ValueError."""
    with pytest.raises(ValueError, match="not an operator"):
        parse_filter({"a": {"$x": 1}})
