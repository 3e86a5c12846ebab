"""Filters: matching, constructors, keys and round trips."""

import copy
import json
import math
import pickle
import re
from datetime import UTC, date, datetime, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.errors import FilterError
from langchain_hybridgraph.filters.expressions import (
    by_document,
    by_meta,
    by_source,
    created_after,
    created_before,
    exclude_document,
    has_labels,
    parse_filter,
)
from langchain_hybridgraph.filters.operators import join_key, split_key
from tests.support.samples.filter_strategies import conditions_with, metadatas_with

MISSING = {}
NAN = math.nan
MAY = datetime(2024, 5, 1, 10, tzinfo=UTC)


def matches(condition, metadata):
    return parse_filter(condition).matches(metadata)


# -- rules of the filter language, one line per claim ---------------------------------------------------

TABLE = [
    # a missing key matches only $ne, $nin, $not and {"$exists": false}; null equals missing
    *[
        ({"a": condition}, metadata, expected)
        for metadata in (MISSING, {"a": None}, {"b": 1})
        for condition, expected in [
            ({"$eq": 1}, False), ({"$eq": False}, False), ({"$eq": ""}, False), ({"$eq": []}, False),
            ({"$gt": 0}, False), ({"$lte": 0}, False), ({"$lt": "z"}, False), ({"$gte": "2020-01-01"}, False),
            ({"$in": [0, "", False]}, False), ({"$contains": ""}, False), ({"$exists": True}, False),
            ({"$ne": 1}, True), ({"$nin": [1]}, True), ({"$not": {"$eq": 1}}, True), ({"$exists": False}, True),
            ({"$not_contains": "x"}, True),
        ]
    ],
    # empty values are present
    *[({"a": {"$exists": True}}, {"a": value}, True) for value in ("", 0, False, [], {}, NAN)],
    # True does not equal 1, and 1 equals 1.0, at any depth
    ({"a": 1}, {"a": True}, False), ({"a": True}, {"a": 1}, False), ({"a": 0}, {"a": False}, False),
    ({"a": 1}, {"a": 1.0}, True), ({"a": 1.0}, {"a": 1}, True), ({"a": -0.0}, {"a": 0}, True),
    ({"a": {"$in": [1]}}, {"a": True}, False), ({"a": {"$contains": 1}}, {"a": [True]}, False),
    ({"a": {"$eq": [1]}}, {"a": [True]}, False), ({"a": {"$eq": [1]}}, {"a": [1.0]}, True),
    ({"a": {"$eq": {"b": [1]}}}, {"a": {"b": [True]}}, False),
    ({"a": 2**53 + 1}, {"a": 2.0**53}, False), ({"a": {"$gt": 2.0**53}}, {"a": 2**53 + 1}, True),
    ({"a": 1}, {"a": "1"}, False), ({"a": "1"}, {"a": 1}, False),
    # NaN is present, equals nothing and has no order; infinity is the largest number
    ({"a": 0}, {"a": NAN}, False), ({"a": {"$ne": 0}}, {"a": NAN}, True), ({"a": {"$gt": 0}}, {"a": NAN}, False),
    ({"a": {"$lte": 0}}, {"a": NAN}, False), ({"a": {"$gt": 10**400}}, {"a": math.inf}, True),
    # booleans have no order
    ({"a": {"$gte": 0}}, {"a": True}, False), ({"a": {"$lt": "z"}}, {"a": True}, False),
    # $contains: membership in a list, substring in a string
    ({"a": {"$contains": "b"}}, {"a": ["a", "b"]}, True), ({"a": {"$contains": "b"}}, {"a": ["abc"]}, False),
    ({"a": {"$contains": "b"}}, {"a": "abc"}, True), ({"a": {"$contains": "B"}}, {"a": "abc"}, False),
    ({"a": {"$contains": ""}}, {"a": "abc"}, True), ({"a": {"$contains": ""}}, {"a": []}, False),
    ({"a": {"$contains": 1}}, {"a": [1.0]}, True), ({"a": {"$contains": 1}}, {"a": "1"}, False),
    ({"a": {"$contains": "b"}}, {"a": [["b"]]}, False), ({"a": {"$contains": True}}, {"a": [True]}, True),
    ({"a": {"$not_contains": "b"}}, {"a": ["a"]}, True), ({"a": {"$not_contains": "b"}}, {"a": ["b"]}, False),
    # a list is not one of its elements
    ({"a": "x"}, {"a": ["x"]}, False), ({"a": {"$in": ["x"]}}, {"a": ["x"]}, False),
    ({"a": {"$ne": "x"}}, {"a": ["x"]}, True),
    ({"a": {"$eq": ["x", "y"]}}, {"a": ["x", "y"]}, True), ({"a": {"$eq": ["y", "x"]}}, {"a": ["x", "y"]}, False),
    ({"a": {"$eq": {"b": 1, "c": None}}}, {"a": {"c": None, "b": 1}}, True),
    # several keys or operators in one object are AND
    ({"a": 1, "b": 2}, {"a": 1, "b": 2}, True), ({"a": 1, "b": 2}, {"a": 1, "b": 3}, False),
    ({"a": {"$gt": 1, "$lt": 3}}, {"a": 2}, True), ({"a": {"$gt": 1, "$lt": 3}}, {"a": 3}, False),
    ({"$or": [{"a": 1}, {"a": 2}], "b": 3}, {"a": 2, "b": 3}, True),
    # an empty $in matches nothing, an empty $nin everything
    ({"a": {"$in": []}}, {"a": 1}, False), ({"a": {"$nin": []}}, {"a": 1}, True),
    # ordering: numbers with numbers, times with times, strings with strings; other pairs do not match
    ({"a": {"$gt": 2}}, {"a": "3"}, False), ({"a": {"$gt": "2"}}, {"a": 3}, False),
    ({"a": {"$gt": 2}}, {"a": [3]}, False),
    ({"a": {"$gt": "b"}}, {"a": "c"}, True), ({"a": {"$gt": "b"}}, {"a": "B"}, False),
    ({"a": {"$gt": "2024-05-01"}}, {"a": "2024-05-01T00:00:01"}, True),
    ({"a": {"$gt": "2024-05-01T10:00:00Z"}}, {"a": "2024-05-01T11:00:00+02:00"}, False),
    ({"a": {"$gte": MAY}}, {"a": "2024-05-01T10:00:00"}, True),
    ({"a": {"$lt": "2024-05-01"}}, {"a": date(2024, 4, 30)}, True),
    ({"a": {"$gt": "2024-05-01"}}, {"a": "zebra"}, False), ({"a": {"$gt": "a"}}, {"a": "2024-05-01"}, False),
    ({"a": {"$gt": MAY}}, {"a": 2e9}, False), ({"a": {"$gt": 0}}, {"a": MAY}, False),
    ({"a": {"$lt": "20250101"}}, {"a": "20240101"}, True),
    # equality of times: strings by their characters, datetimes by instant
    ({"a": "2024-05-01"}, {"a": "2024-05-01T00:00:00"}, False), ({"a": "2024-05-01"}, {"a": "2024-05-01"}, True),
    ({"a": MAY}, {"a": "2024-05-01T12:00:00+02:00"}, True), ({"a": MAY}, {"a": "2024-05-01T10:00:01Z"}, False),
    ({"a": "2024-05-01T12:00+02:00"}, {"a": MAY}, True), ({"a": MAY}, {"a": MAY.astimezone(timezone.min)}, True),
    ({"a": {"$in": [MAY, "x"]}}, {"a": "2024-05-01 10:00"}, True),
    ({"a": {"$contains": MAY}}, {"a": ["x", "2024-05-01T10:00Z"]}, True),
    ({"a": date(2024, 5, 1)}, {"a": "2024-05-01"}, True),
    ({"a": {"$eq": ["2024-05-01"]}}, {"a": [date(2024, 5, 1)]}, True),
    # dots lead into objects; a literal dot is escaped
    ({"a.b": 1}, {"a": {"b": 1}}, True), ({"a.b": 1}, {"a.b": 1}, False), ({r"a\.b": 1}, {"a.b": 1}, True),
    ({r"a\.b": 1}, {"a": {"b": 1}}, False), ({r"a\.b.c": 1}, {"a.b": {"c": 1}}, True),
    ({"a.b": 1}, {"a": [{"b": 1}]}, False),
    ({"a.0": 1}, {"a": [1]}, False), ({"a.b": {"$exists": False}}, {"a": 1}, True),
    ({r"\$a": 1}, {"$a": 1}, True), ({r"a\b": 1}, {r"a\b": 1}, True), ({r"a\\.b": 1}, {"a\\": {"b": 1}}, True),
    ({"": 1}, {"": 1}, True), ({"a.": 1}, {"a": {"": 1}}, True),
    # $and, $or, $not
    ({"$and": [{"a": 1}, {"b": 2}]}, {"a": 1}, False), ({"$or": [{"a": 1}, {"b": 2}]}, {"a": 1}, True),
    ({"$not": {"a": 1}}, {"a": 1}, False), ({"$not": {"a": 1, "b": 2}}, {"a": 1}, True),
    ({"a": {"$not": {"$gt": 1, "$lt": 3}}}, {"a": 2}, False), ({"a": {"$not": {"$gt": 1}}}, {"a": "x"}, True),
    # NumPy values and tuples equal the corresponding Python values
    ({"a": np.int64(1)}, {"a": 1}, True), ({"a": 1}, {"a": np.float32(1)}, True),
    ({"n": 2.5}, {"n": np.float32(2.5)}, True), ({"n": 2**53}, {"n": np.int64(2**53 + 1)}, False),
    ({"a": {"$contains": 2}}, {"a": np.array([1, 2])}, True), ({"a": {"$eq": (1, 2)}}, {"a": [1, 2]}, True),
    ({"a": {"$eq": np.array([1, 2])}}, {"a": [1, 2]}, True),
    ({"a": {"$gt": np.datetime64("2024-06-01", "ns")}}, {"a": "2024-07-01"}, True),
    ({"a": {"$contains": "x"}}, {"a": {"x", "y"} - {"y"}}, True), ({"a": {"$contains": "'"}}, {"a": {"x"}}, False),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "metadata", "expected"), TABLE, ids=repr)
def test_matching_follows_the_table(condition, metadata, expected):
    """Every filter in the table gives the expected result, and its negation gives the opposite."""
    assert matches(condition, metadata) is expected
    assert matches({"$not": condition}, metadata) is not expected


# -- an independent implementation -----------------------------------------------------------------------


def kind(value):
    """Return the type of a value; values of different types are never compared."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "text"
    return type(value).__name__


def same(a, b):
    if kind(a) != kind(b):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return a == b


def time_of(value):
    if not isinstance(value, str) or value[4:5] != "-":
        return None
    try:
        parsed = datetime.fromisoformat(value)
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def in_order(value, operator, operand):
    if kind(value) != kind(operand) or kind(value) not in ("number", "text"):
        return False
    left, right = time_of(value), time_of(operand)
    if (left is None) != (right is None):
        return False
    if left is None:
        left, right = value, operand
    return {"$gt": left > right, "$gte": left >= right, "$lt": left < right, "$lte": left <= right}[operator]


def holds_inside(value, operand):
    if isinstance(value, list):
        return any(same(item, operand) for item in value)
    return isinstance(value, str) and isinstance(operand, str) and operand in value


def holds(value, operator, operand):
    if operator in ("$ne", "$nin", "$not_contains"):
        positive = {"$ne": "$eq", "$nin": "$in", "$not_contains": "$contains"}[operator]
        return not holds(value, positive, operand)
    if operator == "$not":
        return not all(holds(value, *item) for item in operand.items())
    if operator == "$exists" or value is None:
        return operator == "$exists" and (value is not None) is operand
    if operator in ("$eq", "$in"):
        return any(same(value, item) for item in (operand if operator == "$in" else [operand]))
    if operator == "$contains":
        return holds_inside(value, operand)
    return in_order(value, operator, operand)


def value_at(metadata, key):
    if key in ("k.l", "k.k"):
        inner = metadata.get("k")
        return inner.get(key[2:]) if isinstance(inner, dict) else None
    return metadata.get(key.replace("\\", ""))


def naive(condition, metadata):
    """Evaluate a filter slowly, straight from the language's definition."""
    for key, value in condition.items():
        if key == "$and":
            good = all(naive(part, metadata) for part in value)
        elif key == "$or":
            good = any(naive(part, metadata) for part in value)
        elif key == "$not":
            good = not naive(value, metadata)
        elif isinstance(value, dict):
            good = all(holds(value_at(metadata, key), *item) for item in value.items())
        else:
            good = holds(value_at(metadata, key), "$eq", value)
        if not good:
            return False
    return True


conditions = conditions_with(st.nothing())
metadatas = metadatas_with(st.nothing())


@given(conditions, st.lists(metadatas, min_size=1, max_size=5))
def test_matches_agrees_with_the_naive_implementation(condition, metadatas):
    """A compiled filter and a naive evaluation agree on arbitrary filters and JSON metadata."""
    for metadata in metadatas:
        assert matches(condition, metadata) is naive(condition, metadata)


@given(conditions, metadatas)
def test_a_filter_round_trips_through_to_dict_and_json(condition, metadata):
    """A filter that is converted to JSON and parsed again equals the original and has the same hash."""
    parsed = parse_filter(condition)
    again = parse_filter(json.loads(json.dumps(parsed.to_dict())))
    assert again == parsed
    assert hash(again) == hash(parsed)
    assert again.matches(metadata) is parsed.matches(metadata)


@given(conditions, conditions, metadatas)
def test_operators_combine_the_results_of_filters(first, second, metadata):
    """The operators &, | and ~ combine the results of filters as and, or and not."""
    a, b = parse_filter(first), parse_filter(second)
    assert (a & b).matches(metadata) is (a.matches(metadata) and b.matches(metadata))
    assert (a | b).matches(metadata) is (a.matches(metadata) or b.matches(metadata))
    assert (~a).matches(metadata) is not a.matches(metadata)


# -- filter objects ---------------------------------------------------------------------------------------------------


def test_none_and_the_empty_object_mean_no_filter():
    """Parsing None or {} returns None, because both match everything."""
    assert parse_filter(None) is None
    assert parse_filter({}) is None


def test_filters_can_be_nested_in_objects():
    """A Filter can be part of a filter that is written as an object."""
    assert matches({"$or": [by_source("a"), {"b": 1}]}, {"source": "a"})


def test_filters_of_true_and_of_one_are_different():
    """Filters for True and 1 are unequal and have different hashes, as the cache of filter results requires."""
    assert parse_filter({"a": True}) != parse_filter({"a": 1})
    assert parse_filter({"a": {"$in": [True]}}) != parse_filter({"a": {"$in": [1]}})
    assert len({parse_filter({"a": 1}), parse_filter({"a": 1.0}), parse_filter({"a": True})}) == 2


def test_keys_are_the_paths_that_the_filter_reads():
    """A filter's keys() contains every path once, split at its dots."""
    filter_ = parse_filter({"$or": [{"a.b": 1}, {"$not": {r"c\.d": {"$gt": 1, "$lt": 2}}}]})
    assert filter_.keys() == {("a", "b"), ("c.d",)}


@pytest.mark.parametrize("join", [lambda a, b: a and b, lambda a, b: a or b, lambda a, b: not a])
def test_pythons_own_and_or_not_raise(join):
    """Python's and, or and not raise an error that names &, | and ~, because they would silently drop a filter."""
    with pytest.raises(FilterError, match=r"& \| ~"):
        join(by_source("a"), by_source("b"))


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda filter_: pickle.loads(pickle.dumps(filter_))])
def test_a_used_filter_can_be_copied(duplicate):
    """A filter can be copied and pickled after its parts have been compiled."""
    filter_ = by_source("a") & ~created_after(MAY)
    filter_.matches({})
    assert duplicate(filter_) == filter_


@pytest.mark.parametrize("operator", ["$eq", "$ne", "$lte", "$contains"])
def test_datetimes_in_json(operator):
    """{"$date": …} is a datetime as an operand, and its string in a list or an object."""
    time = {"$date": MAY.isoformat()}
    assert parse_filter({"t": {operator: time}}) == parse_filter({"t": {operator: MAY}})
    assert parse_filter({"t": time}) == parse_filter({"t": MAY})
    assert parse_filter({"t": {"$in": [time]}}) == parse_filter({"t": {"$in": [MAY]}})
    nested = {"t": {"$eq": [{"a": {"$date": "2024-05-01"}}]}}
    assert parse_filter(nested) == parse_filter({"t": {"$eq": [{"a": "2024-05-01"}]}})
    with pytest.raises(FilterError, match="'May' is not a time; a time is an ISO 8601 string"):
        parse_filter({"t": {operator: {"$date": "May"}}})


@given(st.lists(st.text(alphabet="ab.\\$", max_size=4), min_size=1, max_size=3).map(tuple))
def test_split_key_inverts_join_key(path):
    """Splitting a joined key returns the same names, including dots, backslashes and dollar signs."""
    assert split_key(join_key(path)) == path
    assert not join_key(path).startswith("$")


# -- constructors ---------------------------------------------------------------------------------------------------

CONSTRUCTED = [
    (by_document("a", "b"), {"document_id": "b"}, True),
    (by_document(), {"document_id": "a"}, False),
    (exclude_document("a"), {"document_id": "a"}, False),
    (exclude_document("a"), {}, True),
    (by_source("x.md", "y.md"), {"source": "y.md"}, True),
    (by_meta(lang="en", year=2024), {"lang": "en", "year": 2024.0}, True),
    (created_after("2024-05-01"), {"created_at": "2024-05-01T00:00:01Z"}, True),
    (created_after("2024-05-01T10:00:00.123456Z"), {"created_at": "2024-05-01T10:00:00.123456Z"}, False),
    (created_before("2024-05-01"), {"created_at": "2024-04-30T23:59:59.999999"}, True),
    (created_before("2024-05-01", key="meta.made"), {"meta": {"made": 0}}, True),
    (has_labels(any_of=["a", "b"]), {"labels": ["b"]}, True),
    (has_labels(any_of=[]), {"labels": ["a"]}, False),
    (has_labels(all_of=["a", "b"]), {"labels": ["b", "c", "a"]}, True),
    (has_labels(any_of=["x", "y"], all_of=["a"]), {"labels": ["x", "y"]}, False),
    (has_labels("art"), {"labels": "art"}, True),
    (has_labels("art"), {"labels": "cartoon"}, False),
    (has_labels("2024"), {"labels": "2024-05-01"}, False),
    (has_labels(all_of=["art", "toon"]), {"labels": "art toon"}, False),
]


@pytest.mark.parametrize(("filter_", "metadata", "expected"), CONSTRUCTED, ids=repr)
def test_constructors(filter_, metadata, expected):
    """Each constructor's filter matches the expected metadata, its negation the opposite, and it survives to_dict()."""
    assert filter_.matches(metadata) is expected
    assert parse_filter(filter_.to_dict()) == filter_
    assert (~filter_).matches(metadata) is not expected


@pytest.mark.parametrize("call", [has_labels, by_meta, lambda: created_after("soon"), lambda: by_document(["a"])])
def test_constructors_without_values_raise(call):
    """A constructor without a value to compare raises FilterError instead of matching everything or nothing."""
    with pytest.raises(FilterError):
        call()


# -- error messages ---------------------------------------------------------------------------------------------------


def nested(inner, levels, wrap=lambda inner: {"$not": inner}):
    for _ in range(levels):
        inner = wrap(inner)
    return inner


DEEP_LIST, DEEPEST_LIST = (nested(0, levels, lambda inner: [inner]) for levels in (50, 5000))


RAISES = [
    ("source = 'a' and b = 1", "is not a filter", '{"source": "a.md"}'),
    ({"a": {"!=": ["x", "y"]}}, "is ambiguous", '{"a": {"$nin": ["x", "y"]}}'),
    ({"a": {"$ne": ["x"]}}, "is ambiguous", '{"a": {"$not": {"$eq": ["x"]}}}'),
    ({"a": {"not like": "x%"}}, "There are no patterns", '{"a": {"$not_contains": "x"}}'),
    ({"a": {"$regex": "x.*yz"}}, "There are no patterns", '{"a": {"$contains": "yz"}}'),
    ({"a": {"ge": 5}}, "'ge' on 'a' is not an operator", '{"a": {"$gte": 5}}'),
    ({"a": {"$neq": 5}}, "'$neq' on 'a' is not an operator", '{"a": {"$ne": 5}}'),
    ({"a": {"$gtee": 5}}, "'$gtee' on 'a' is not an operator", 'Did you mean {"a": {"$gte": 5}}?'),
    ({"a": {"$all": ["x", "y"]}}, "'$all' on 'a'", '{"$and": [{"a": {"$contains": "x"}}, {"a": {"$contains": "y"}}]}'),
    ({"$text": {"$search": "x"}}, "$text is not an operator", "as the query"),
    ({"must": [{"key": "a", "match": {"value": 5}}]}, "'must' does not combine", '{"$and": [{"source": "a.md"}'),
    ({"a": {"$gt": 1, "b": 2}}, "'b' on 'a'", '{"a.b": 2}'),
    ({"a": {"$and": [{"$gt": 1}]}}, "'$and' on 'a'", '{"$and": [{"a": {"$gt": 1}}]}'),
    ({"$eq": 5}, "$eq needs a field", '{"field": {"$eq": 5}}'),
    ({"a": 1, "$where": "x"}, "'$where' is not an operator", r'"\\$where"'),
    ({"$or": []}, "a non-empty list of filters, not []", '{"$or": [{"source": "a.md"}'),
    ({"$not": [{"a": 1}]}, 'take filters, got [{"a": 1}];', '{"source": "a.md"}'),
    ({"$or": [{}, {"a": 1}]}, "take filters, got {};", '{"source": "a.md"}'),
    ({"a": {"$not": 5}}, "is a $not without an operator", '{"a": {"$ne": 5}}'),
    ({"a": {}}, "has no operator", '{"a": {"$exists": true}}'),
    ({"a": [1, 2]}, "is ambiguous", '{"a": {"$in": [1, 2]}}'),
    ({"a": None}, "null, which counts as missing", '{"a": {"$exists": false}}'),
    ({"a": np.datetime64("NaT")}, "null, which counts as missing", '{"a": {"$exists": false}}'),
    ({"a": {"$in": "abc"}}, "$in on 'a' takes a list", '{"a": {"$in": ["abc"]}}'),
    ({"a": {"$gt": True}}, "takes a number, a time or a string, not true", '{"a": {"$gt": 2024}}'),
    ({"a": {"$lt": [5]}}, "takes a number, a time or a string, not [5]", '{"a": {"$lt": 2024}}'),
    ({"a": {"$gte": {"b": 5}}}, 'takes a number, a time or a string, not {"b": 5}', '{"a": {"$gte": 2024}}'),
    ({"a": {"$contains": ["x"]}}, "is ambiguous", 'has_labels(any_of=[...], key="a")'),
    ({"a": {"$contains": {"b": 5}}}, "is ambiguous", 'has_labels(any_of=[...], key="a")'),
    ({"a": {"$exists": 1}}, "takes true or false, not 1", '{"a": {"$exists": true}}'),
    ({"a": NAN}, "a value other than NaN, which equals nothing", '{"a": {"$eq": 0}}'),
    ({"a": {"$eq": {"b": NAN}}}, "a value other than NaN, which equals nothing", '{"a": {"$eq": 0}}'),
    ({"a": {"$date": "2024-05-01", "$gt": 1}}, "'$date' on 'a' is not an operator", ""),
    ({"a": {"$eq": DEEPEST_LIST}}, "takes a less deeply nested value", '{"a": {"$eq": 0}}'),
    ({"a": b"x"}, "takes a JSON value or a datetime", '{"a": {"$eq": '),
    ({5: 1}, "the key 5 is not a string", '{"5": 1}'),
    (nested({"a": 1}, 101), "nested more than 100 levels", "side by side"),
    ({"a": nested({"$eq": 1}, 101)}, "nested more than 100 levels", "side by side"),
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


def test_filters_and_operands_may_be_nested():
    """A filter may be nested a hundred levels deep, and an operand may be a nested list."""
    assert matches(nested({"a": 1}, 100), {"a": 1})
    assert matches({"a": nested({"$eq": 1}, 100)}, {"a": 1})
    assert matches({"a": {"$eq": DEEP_LIST}}, {"a": DEEP_LIST})


@pytest.mark.parametrize("name", ["$foo", "$lik", "$mod", "$type"])
def test_the_error_of_an_unknown_name_suggests_nothing(name):
    """The error for a name that resembles no operator lists the operators and suggests none; it is a ValueError."""
    operators = "$eq $ne $gt $gte $lt $lte $in $nin $contains $not_contains $exists $not"
    with pytest.raises(ValueError, match=f"{re.escape(operators)}$"):
        parse_filter({"a": {name: 5}})


SYMBOLS = {"=": "$eq", "==": "$eq", "!=": "$ne", "<>": "$ne", ">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte"}


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_symbols_of_comparisons_are_operators(symbol):
    """A symbol such as ``!=`` means the same as the operator."""
    assert parse_filter({"a": {symbol: 5}}) == parse_filter({"a": {SYMBOLS[symbol]: 5}})


def test_nor_is_the_negation_of_or():
    """MongoDB's ``$nor`` matches if none of its filters matches."""
    assert parse_filter({"$nor": [{"a": 1}, {"b": 2}]}) == parse_filter({"$not": {"$or": [{"a": 1}, {"b": 2}]}})
