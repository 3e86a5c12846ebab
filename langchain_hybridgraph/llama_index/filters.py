"""Translation of LlamaIndex's metadata filters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import and_, or_
from typing import Any

from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

from langchain_hybridgraph.errors import FilterError
from langchain_hybridgraph.filters.expressions import Filter, has_labels, parse_filter
from langchain_hybridgraph.filters.operators import join_key

_OPERATORS: Mapping[FilterOperator, str] = {
    FilterOperator.EQ: "$eq",
    FilterOperator.NE: "$ne",
    FilterOperator.GT: "$gt",
    FilterOperator.GTE: "$gte",
    FilterOperator.LT: "$lt",
    FilterOperator.LTE: "$lte",
    FilterOperator.IN: "$in",
    FilterOperator.NIN: "$nin",
    FilterOperator.CONTAINS: "$contains",
    FilterOperator.TEXT_MATCH: "$contains",
}
_EMPTY: tuple[Mapping[str, Any], ...] = ({"$exists": False}, {"$eq": ""}, {"$eq": []})
# Keys under which LlamaIndex's vector stores write the id of the source document.
_DOCUMENT = frozenset({"doc_id", "ref_doc_id"})


def filter_from(filters: MetadataFilters | MetadataFilter | Filter | Mapping[str, Any] | None) -> Filter | None:
    """Translate a LlamaIndex filter, or parse one of this package's filters.

    The result is None for a filter without conditions.

    A key of a LlamaIndex filter is a single metadata key; a dot in it does not select a nested value. ``doc_id`` and
    ``ref_doc_id`` become ``document_id``, the id of the source document. Filters may be nested. ``TEXT_MATCH`` matches
    a case-sensitive substring; ``ANY`` and ``ALL`` compare the elements of a list. :mod:`langchain_hybridgraph.filters`
    describes how values are compared. Raises FilterError for ``TEXT_MATCH_INSENSITIVE`` and for comparisons with None,
    which have no equivalent.

    >>> filter_from(MetadataFilters(filters=[MetadataFilter(key="year", value=2020, operator=FilterOperator.GTE)]))
    parse_filter({'year': {'$gte': 2020}})
    """
    if isinstance(filters, MetadataFilter):
        return _comparison(filters)
    if isinstance(filters, list):
        raise FilterError(
            "several filters need a condition, 'and' or 'or'; pass MetadataFilters(filters=[…], condition=…)"
        )
    if not isinstance(filters, MetadataFilters):
        return parse_filter(filters)
    parts = [part for each in filters.filters if (part := filter_from(each)) is not None]
    if not parts:
        return None
    if filters.condition is FilterCondition.NOT:
        return ~_join_filters(or_, parts)
    return _join_filters(or_ if filters.condition is FilterCondition.OR else and_, parts)


def _join_filters(join: Callable[[Filter, Filter], Filter], parts: list[Filter]) -> Filter:
    return reduce(join, parts)


def _comparison(each: MetadataFilter) -> Filter:
    key = "document_id" if each.key in _DOCUMENT else join_key((each.key,))
    if each.operator is FilterOperator.IS_EMPTY:
        return _join_filters(or_, [_parse_condition(key, condition) for condition in _EMPTY])
    if each.value is None:
        raise FilterError(
            f"the filter on {each.key!r} compares with None, which matches nothing; to find nodes without a value, "
            f"pass MetadataFilter(key={each.key!r}, operator=FilterOperator.IS_EMPTY, value=None)"
        )
    if each.operator in (FilterOperator.ANY, FilterOperator.ALL):
        return _of_several(each, key)
    if each.operator not in _OPERATORS:
        raise FilterError(
            f"{each.operator} on {each.key!r} has no equivalent, because filters are case-sensitive: use "
            "FilterOperator.TEXT_MATCH, or store a lower-case copy of the value in the metadata"
        )
    return _parse_condition(key, {_OPERATORS[each.operator]: each.value})


def _of_several(each: MetadataFilter, key: str) -> Filter:
    if not isinstance(each.value, list):
        raise FilterError(
            f"{each.operator} on {each.key!r} requires a list, got {each.value!r}; write [{each.value!r}]"
        )
    if not each.value:
        # As in Python, any() of an empty list is false, and all() of an empty list is true.
        return _parse_condition(key, {"$in": []} if each.operator is FilterOperator.ANY else {"$exists": True})
    # LlamaIndex's type for lists allows only one strict element type, but labels may also be numbers.
    values: Any = each.value
    return has_labels(values, key=key) if each.operator is FilterOperator.ANY else has_labels(all_of=values, key=key)


def _parse_condition(key: str, condition: Mapping[str, Any]) -> Filter:
    condition_filter = parse_filter({key: condition})
    assert condition_filter is not None, "a condition is a filter"
    return condition_filter
