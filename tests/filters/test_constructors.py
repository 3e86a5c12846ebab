"""Functions that construct filters."""

from datetime import UTC, datetime

import pytest

from langchain_hybridgraph.errors import FilterError
from langchain_hybridgraph.filters.expressions import (
    Filter,
    by_document,
    by_meta,
    by_source,
    created_after,
    created_before,
    exclude_document,
    has_labels,
)

MAY = datetime(2024, 5, 1, 10, tzinfo=UTC)


CONSTRUCTED = [
    (by_document("a", "b"), {"document_id": "b"}, True),
    (by_document(), {"document_id": "a"}, False),
    (by_document("a", key="doc"), {"doc": "a"}, True),
    (exclude_document("a"), {"document_id": "a"}, False),
    (exclude_document("a"), {}, True),
    (exclude_document(), {"document_id": "a"}, True),
    (by_source("x.md", "y.md"), {"source": "y.md"}, True),
    (by_source("x"), {"source": "x.md"}, False),
    (by_meta(lang="en", year=2024), {"lang": "en", "year": 2024.0}, True),
    (by_meta(tags=["a"]), {"tags": ["a"]}, True),
    (created_after("2024-05-01"), {"created_at": "2024-05-01T00:00:01Z"}, True),
    (created_after("2024-05-01"), {"created_at": "2024-05-01"}, False),
    (created_after(MAY), {"created_at": MAY.timestamp() + 1}, True),
    (created_after(MAY.timestamp()), {"created_at": "2024-05-01T12:00:01+02:00"}, True),
    (created_after("2024-05-01T10:00:00.123456Z"), {"created_at": "2024-05-01T10:00:00.123456Z"}, False),
    (created_before("2024-05-01"), {"created_at": "2024-04-30T23:59:59.999999"}, True),
    (created_before("2024-05-01"), {"created_at": "2024-05-01"}, False),
    (created_before("2024-05-01", key="meta.made"), {"meta": {"made": 0}}, True),
    (has_labels(any_of=["a", "b"]), {"labels": ["b"]}, True),
    (has_labels(any_of=["a", "b"]), {"labels": ["c"]}, False),
    (has_labels(any_of="ab"), {"labels": ["a"]}, False),
    (has_labels(any_of=[]), {"labels": ["a"]}, False),
    (has_labels(all_of=["a", "b"]), {"labels": ["b", "c", "a"]}, True),
    (has_labels(any_of=["x", "y"], all_of=["a"]), {"labels": ["x", "y"]}, False),
    (has_labels("art"), {"labels": "art"}, True),
    (has_labels("art"), {"labels": "cartoon"}, False),
    (has_labels(all_of=["art", "toon"]), {"labels": "art toon"}, False),
    (has_labels("2024"), {"labels": "2024-05-01"}, False),
    (has_labels([5]), {"labels": [5]}, True),
]


@pytest.mark.parametrize(("filter_", "metadata", "expected"), CONSTRUCTED, ids=repr)
def test_constructors(filter_, metadata, expected):
    """Each constructor's filter matches the expected metadata, and its negation matches the opposite."""
    assert isinstance(filter_, Filter)
    assert filter_.matches(metadata) is expected
    assert (~filter_).matches(metadata) is not expected


@pytest.mark.parametrize("call", [has_labels, by_meta, lambda: has_labels(all_of=[]), lambda: created_after("soon")])
def test_constructors_without_values_raise(call):
    """A constructor without a value to compare raises FilterError instead of matching everything."""
    with pytest.raises(FilterError):
        call()
