"""Hypothesis strategies for metadata and filters of every kind."""

import math
from datetime import UTC, date, datetime

from hypothesis import strategies as st

from langchain_hybridgraph.filters.expressions import parse_filter

times = st.datetimes(min_value=datetime(2023, 12, 31), max_value=datetime(2024, 1, 2)).map(datetime.isoformat)
texts = st.one_of(
    st.sampled_from(["", "a", "b", "ab", "abc", "é", "z", "\ud800", "2024", "20240101", "2024-01-01 nearly"]),
    st.sampled_from(["2024-01-01", "2024-01-01T00:00:00", "2024-01-01T00:00:00Z", "2024-01-01T01:00+01:00"]),
    times,
    st.text(max_size=3),
)
numbers = st.one_of(
    st.sampled_from(
        [0, 1, -1, 1.0, -0.0, 0.5, 2**53, 2**53 + 1, 2.0**53, 2**63, 2.0**63, 2**63 + 1, -(2**60), 10**400, -(10**400)]
    ),
    st.sampled_from([math.inf, -math.inf, 1704067200.0, 5e-324]),
    st.integers(-3, 3),
    st.floats(allow_nan=False),
)
moments = st.sampled_from([datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC), date(2024, 1, 1), date(2024, 1, 2)])
scalars = texts | numbers | st.booleans()
json_values = st.recursive(
    scalars | st.none() | st.just(math.nan),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["k", "l", "k.l", ""]), inner, max_size=2)
    ),
    max_leaves=6,
)
names = ["k", "l", "k.l", r"k\.l", "k.k", ""]


def metadatas_with(moments):
    """Return a strategy of metadata whose values are JSON values and these moments."""
    return st.dictionaries(st.sampled_from(["k", "l", "k.l", ""]), json_values | moments, max_size=3)


def operations_with(moments):
    """Return a strategy of operators and their operands, which may be these moments."""
    operands = json_values.filter(lambda value: value is not None and "nan" not in repr(value)) | moments
    return st.one_of(
        st.tuples(st.just("$eq"), operands),
        st.tuples(st.just("$ne"), operands.filter(lambda value: not isinstance(value, list) or not value)),
        st.tuples(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), texts | numbers | moments),
        st.tuples(st.sampled_from(["$in", "$nin"]), st.lists(operands, max_size=12)),
        st.tuples(st.sampled_from(["$contains", "$not_contains"]), scalars | moments),
        st.tuples(st.just("$exists"), st.booleans()),
    )


def conditions_with(moments):
    """Return a strategy of filters as objects, whose operands may be these moments."""
    operators = st.lists(operations_with(moments), min_size=1, max_size=2).map(dict)
    fields = operators | scalars | operators.map(lambda inner: {"$not": inner})
    return st.recursive(
        st.dictionaries(st.sampled_from(names), fields, min_size=1, max_size=2),
        lambda inner: st.one_of(
            st.builds(
                lambda name, parts: {name: parts},
                st.sampled_from(["$and", "$or"]),
                st.lists(inner, min_size=1, max_size=3),
            ),
            st.builds(lambda part: {"$not": part}, inner),
        ),
        max_leaves=4,
    )


metadatas = metadatas_with(moments)
filters = conditions_with(moments).map(parse_filter)
