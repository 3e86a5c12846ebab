"""Columns of metadata evaluate a filter on all rows, with the same result as on each row's metadata."""

import math
from datetime import UTC, date, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.filters.expressions import parse_filter
from langchain_hybridgraph.stores.row_table import UNPACKED, MetadataColumns, RowNumbers, Rows
from tests.support.samples.filter_strategies import filters, metadatas


def columns_of(rows):
    """Return columns of this metadata by row, in which None is a deleted row."""
    return MetadataColumns(
        lambda start, stop: [(row, rows[row]) for row in range(start, stop) if rows[row] is not None]
    )


@given(
    rows=st.lists(metadatas | st.none(), max_size=20),
    searches=st.lists(filters, min_size=1, max_size=4),
    data=st.data(),
)
def test_a_mask_equals_matches_on_every_row(rows, searches, data):
    """For any metadata and filters, even while rows are added, mask[row] equals filter.matches(metadata)."""
    columns = columns_of(rows)
    for filter in searches:
        count = data.draw(st.integers(0, len(rows)))
        mask = columns.mask(filter, count)
        assert mask.shape == (count,)
        assert mask.dtype == np.bool_
        alive = [row for row in range(count) if rows[row] is not None]
        assert mask[alive].tolist() == [filter.matches(rows[row]) for row in alive]


CLOSE = [
    *["", "2023", "2024-01-01", "2024-01-01T00:00Z", "2024-01-02", "2024-02-30", "3", "a"],
    *[datetime(2024, 1, 1), date(2024, 1, 1), datetime(2024, 1, 2, tzinfo=UTC)],
    *[0, 1, True, False, 0.5],
    *[2**53, 2.0**53, 2**53 + 1, 2**53 + 3, 2.0**53 + 4, 2**63, 2.0**63, -(2**53) - 1, -(2.0**53)],
    *[10**400, -(10**400), math.inf, -math.inf, 1704067200, math.nan],
    *[[], ["a"], [1], [True], ["2024-01-01"], ["a", "3"], {}, {"a": 1}, {"a": True}, None],
]
ORDERED = [
    value
    for value in CLOSE
    if isinstance(value, (str, int, float, date)) and repr(value) not in ("True", "False", "nan")
]
COMPARED = [value for value in CLOSE if repr(value) not in ("None", "nan")]
SINGLE = [value for value in COMPARED if not isinstance(value, (list, dict))]


@pytest.mark.parametrize(
    ("operator", "operand"),
    [
        *[(operator, operand) for operator in ("$gt", "$gte", "$lt", "$lte") for operand in ORDERED],
        *[("$eq", operand) for operand in COMPARED],
        *[("$ne", operand) for operand in COMPARED if not isinstance(operand, list) or not operand],
        *[(operator, [operand, "b", 7]) for operator in ("$in", "$nin") for operand in COMPARED],
        *[("$contains", operand) for operand in SINGLE],
        *[("$exists", operand) for operand in (True, False)],
    ],
    ids=repr,
)
def test_values_that_are_easily_confused(operator, operand):
    """Masks agree with matches for True and 1, large integers and floats, and dates and strings."""
    metadata = [{"k": value} for value in CLOSE]
    filter = parse_filter({"k": {operator: operand}})
    assert columns_of(metadata).mask(filter, len(CLOSE)).tolist() == [filter.matches(each) for each in metadata]


@given(lives=st.lists(st.booleans(), min_size=1, max_size=30), later=st.data())
def test_numbers_stay_with_their_rows(lives, later):
    """After each packing, a number leads to its row and back, or nowhere; the remaining rows stay in order."""
    end, earlier = len(lives) // 2, UNPACKED
    first = [number for number in range(end) if lives[number]]
    numbers = RowNumbers(first, len(first), end)
    for packed, before, last in ((first, earlier, end), (first + list(range(end, len(lives))), numbers, len(lives))):
        remaining = [number for number in packed if lives[number] or later.draw(st.booleans())]
        after = RowNumbers(remaining, len(remaining), last)
        size = before.count(last)
        assert after.of(after.rows(remaining)).tolist() == remaining
        assert set(after.rows(sorted({*range(last)} - {*remaining})).tolist()) <= {-1}
        assert after.rows([last + 3]).tolist() == [len(remaining) + 3]
        expected = [int(number) in remaining for number in before.of(range(size))]
        assert after.still_present(before, size).tolist() == expected
    if first and len(first) < end:
        assert not UNPACKED.still_present(numbers, len(first)).any() or first == list(range(len(first)))


def test_a_state_that_is_not_used_leaves_no_rows():
    """A row that was added in a state that nobody used, and deleted since, has no id in the next state."""
    table = Rows("", UNPACKED, columns_of([]))
    times = [[-math.inf], [math.inf], [0.0], [math.inf]]
    table = table.updated([0], [([0], ["a"], times)], end=1, version=1, has_parents=False)
    table.updated([1], [([1], ["b"], times)], end=2, version=2, has_parents=False)
    later = table.updated([1], [], end=2, version=3, has_parents=False)
    assert (later.rows(["a", "b"]), later.living) == ([0], 1)
