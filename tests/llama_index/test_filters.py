"""LlamaIndex's metadata filters have the same meaning after translation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("llama_index.core")

from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.utils import build_metadata_filter_fn

from langchain_hybridgraph.errors import FilterError
from langchain_hybridgraph.filters.expressions import has_labels, parse_filter
from langchain_hybridgraph.llama_index import filter_from


def one(key, operator, value):
    return MetadataFilters(filters=[MetadataFilter(key=key, value=value, operator=operator)])


OPERATORS = {"==": "$eq", "!=": "$ne", ">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte", "in": "$in", "nin": "$nin"}


@pytest.mark.parametrize(
    ("operator", "ours"), [*OPERATORS.items(), ("contains", "$contains"), ("text_match", "$contains")]
)
def test_operators(operator, ours):
    """Each of LlamaIndex's operators is translated to the equivalent filter."""
    value = ["a"] if "in" in (operator, operator[1:]) else "a"
    assert filter_from(one("key", operator, value)) == parse_filter({"key": {ours: value}})


def test_labels():
    """``any`` and ``all`` are filters of labels; without labels, the first matches nothing, the second any list."""
    assert filter_from(one("key", "any", ["a", "b"])) == has_labels(["a", "b"], key="key")
    assert filter_from(one("key", "all", ["a", "b"])) == has_labels(all_of=["a", "b"], key="key")
    assert filter_from(one("key", "any", [])) == parse_filter({"key": {"$in": []}})
    assert filter_from(one("key", "all", [])) == parse_filter({"key": {"$exists": True}})


def test_empty_values():
    """``is_empty`` matches a missing key, an empty text and an empty list."""
    empty = filter_from(one("key", "is_empty", None))
    metadata = ({}, {"key": ""}, {"key": []}, {"key": "a"})
    assert [empty.matches(each) for each in metadata] == [True, True, True, False]


def test_nested():
    """Nested filters keep their conditions, and NOT means that none of the inner filters matches."""
    inner = MetadataFilters(
        filters=[MetadataFilter(key="a", value=1), MetadataFilter(key="b", value=2)], condition=FilterCondition.NOT
    )
    outer = MetadataFilters(filters=[inner, MetadataFilter(key="c", value=3)], condition=FilterCondition.OR)
    parsed = filter_from(outer)
    assert [parsed.matches(m) for m in ({}, {"a": 1}, {"b": 2}, {"a": 1, "c": 3})] == [True, False, False, True]


def test_a_dot_is_part_of_the_name():
    """A dot in a key is part of the key, because LlamaIndex's metadata are flat."""
    parsed = filter_from(one("a.b", "==", 1))
    assert (parsed.matches({"a.b": 1}), parsed.matches({"a": {"b": 1}})) == (True, False)


@pytest.mark.parametrize(
    ("operator", "value", "says"),
    [
        (FilterOperator.TEXT_MATCH_INSENSITIVE, "a", "TEXT_MATCH,"),
        (FilterOperator.EQ, None, "IS_EMPTY"),
        (FilterOperator.ANY, "a", r"write \['a'\]"),
        (FilterOperator.IN, "a", "takes a list"),
    ],
)
def test_filters_without_an_equivalent(operator, value, says):
    """A filter without an equivalent raises a FilterError that shows what to write instead."""
    with pytest.raises(FilterError, match=says):
        filter_from(one("key", operator, value))


WORDS = st.sampled_from(["a", "b", "ab", ""])
NUMBERS = st.integers(-2, 2)
CONDITIONS = st.one_of(
    st.tuples(st.just("n"), st.sampled_from(["==", "!=", ">", ">=", "<", "<="]), NUMBERS),
    st.tuples(st.just("n"), st.sampled_from(["in", "nin"]), st.lists(NUMBERS, max_size=3)),
    st.tuples(st.just("s"), st.sampled_from(["==", "!=", "contains", "text_match", ">", "<="]), WORDS),
    st.tuples(st.just("l"), st.sampled_from(["any", "all"]), st.lists(st.sampled_from(["x", "y"]), max_size=2)),
    st.tuples(st.sampled_from(["n", "s", "l"]), st.just("is_empty"), st.none()),
)
METADATA = st.fixed_dictionaries(
    {}, optional={"n": NUMBERS, "s": WORDS, "l": st.lists(st.sampled_from(["x", "y"]), max_size=2, unique=True)}
)


@given(st.lists(CONDITIONS, min_size=1, max_size=3), st.sampled_from(list(FilterCondition)), METADATA)
def test_translated_filters_match_like_llama_indexs_own(conditions, condition, metadata):
    """A translated filter matches the same metadata as LlamaIndex's SimpleVectorStore."""
    filters = MetadataFilters(
        filters=[MetadataFilter(key=key, operator=operator, value=value) for key, operator, value in conditions],
        condition=condition,
    )
    assert filter_from(filters).matches(metadata) is build_metadata_filter_fn(lambda _: metadata, filters)("id")
