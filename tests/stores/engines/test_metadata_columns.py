"""Columns of metadata evaluate a filter on all rows, with the same result as on each row's metadata."""

import math
import threading
from datetime import UTC, date, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.filters import created_after, parse_filter
from langchain_hybridgraph.stores.engines import metadata_columns as columns_module
from langchain_hybridgraph.stores.engines.metadata_columns import MetadataColumns
from tests.support.samples.filter_strategies import filters, json_values, metadatas, moments, numbers, operations


class Rows:
    """Metadata by row, or None for a deleted row, that records the ranges read."""

    def __init__(self, metadata):
        self.metadata = list(metadata)
        self.reads = []

    def __call__(self, start, stop):
        self.reads.append((start, stop))
        return [(row, self.metadata[row]) for row in range(start, stop) if self.metadata[row] is not None]


def masked(rows, condition, count=None):
    mask = MetadataColumns(rows).mask(parse_filter(condition), len(rows.metadata) if count is None else count)
    return mask.tolist()


# -- identical to matches --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("few", "several"), [(8, 500), (0, 0)], ids=["as shipped", "by tables"])
@given(
    rows=st.lists(metadatas | st.none(), max_size=20),
    searches=st.lists(filters, min_size=1, max_size=4),
    data=st.data(),
)
def test_a_mask_equals_matches_on_every_row(few, several, rows, searches, data):
    """For any metadata and filters, even while rows are added, mask[row] equals filter.matches(metadata)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns_module, "_FEW", few)
        patch.setattr(columns_module, "_SEVERAL", several)
        columns = MetadataColumns(Rows(rows))
        for filter in searches:
            count = data.draw(st.integers(0, len(rows)))
            mask = columns.mask(filter, count)
            assert mask.shape == (count,)
            assert mask.dtype == np.bool_
            alive = [row for row in range(count) if rows[row] is not None]
            assert mask[alive].tolist() == [filter.matches(rows[row]) for row in alive]


def one_comparison(rows, operation):
    """Return the mask of one comparison on one key, and the result of matches for each row."""
    filter = parse_filter({"k": dict([operation])})
    metadata = [{"k": value} for value in rows]
    mask = MetadataColumns(Rows(metadata)).mask(filter, len(rows))
    return mask.tolist(), [filter.matches(each) for each in metadata]


CLOSE = [
    *["", "2023", "2024-01-01", "2024-01-01T00:00Z", "2024-01-02", "2024-02-30", "3", "a"],
    *[datetime(2024, 1, 1), date(2024, 1, 1), datetime(2024, 1, 2, tzinfo=UTC)],
    *[
        0,
        1,
        True,
        False,
        0.5,
        2**53,
        2.0**53,
        2**53 + 1,
        2**53 + 3,
        2.0**53 + 4,
        2**63,
        2.0**63,
        -(2**53) - 1,
        -(2.0**53),
    ],
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
    mask, expected = one_comparison(CLOSE, (operator, operand))
    assert mask == expected


@given(st.lists(json_values | moments, max_size=8), operations)
def test_a_comparison_equals_matches_on_every_value(rows, operation):
    """For any values and any operator, the mask agrees with matches."""
    mask, expected = one_comparison(rows, operation)
    assert mask == expected


@given(st.lists(numbers, min_size=1, max_size=8), numbers)
def test_orders_and_equality_of_numbers_are_exact(values, operand):
    """Integers too large for a float are compared exactly, on either side."""
    rows = Rows([{"n": value} for value in values])
    assert masked(rows, {"n": {"$gt": operand}}) == [value > operand for value in values]
    assert masked(rows, {"n": {"$gte": operand}}) == [value >= operand for value in values]
    assert masked(rows, {"n": {"$lt": operand}}) == [value < operand for value in values]
    assert masked(rows, {"n": {"$lte": operand}}) == [value <= operand for value in values]
    assert masked(rows, {"n": operand}) == [value == operand for value in values]


def test_many_values_and_long_lists_of_operands():
    """Filters with hundreds of operands match exactly the listed strings and numbers among a thousand."""
    rows = Rows([{"id": f"doc-{row}", "n": row / 3} for row in range(1000)])
    thirds = set(range(0, 1000, 3))
    by_id = masked(rows, {"id": {"$in": [f"doc-{row}" for row in thirds]}})
    by_number = masked(rows, {"n": {"$in": [row / 3 for row in thirds] * 2}})
    assert by_id == by_number == [row in thirds for row in range(1000)]
    assert masked(rows, {"id": {"$gt": "doc-5", "$lt": "doc-6"}}) == [
        "doc-5" < f"doc-{row}" < "doc-6" for row in range(1000)
    ]


def test_labels():
    """$contains matches rows whose list contains the label or whose string contains it."""
    rows = Rows([{"labels": ["a", "b"]}, {"labels": ["b"]}, {"labels": []}, {"labels": "abc"}, {}, {"labels": ["ab"]}])
    assert masked(rows, {"labels": {"$contains": "a"}}) == [True, False, False, True, False, False]


def test_times_in_any_form():
    """created_after() matches both ISO 8601 strings and Unix seconds."""
    stamps = ["2024-05-01T00:00:01", "2024-04-30T23:00-02:00", 1714521600.5, "2024-05-01", 1714521600, "soon", None]
    rows = Rows([{"created_at": stamp} for stamp in stamps])
    mask = MetadataColumns(rows).mask(created_after("2024-05-01"), len(stamps))
    assert mask.tolist() == [True, True, True, False, False, False, False]


# -- built lazily, extended, remembered ------------------------------------------------------------------------

ABC = [{"a": 1, "b": "x"}, {"a": 2}, {"a": 3, "b": "y"}]


def test_several_missing_keys_are_built_in_one_pass():
    """A filter on three new keys reads the rows once."""
    rows = Rows(ABC)
    masked(rows, {"a": 1, "b": {"$ne": "x"}, "c.d": {"$exists": False}})
    assert rows.reads == [(0, 3)]


def test_a_built_column_is_not_read_again():
    """A new filter on columns that are already built reads no rows."""
    rows = Rows(ABC)
    columns = MetadataColumns(rows)
    columns.mask(parse_filter({"a": 1, "b": "x"}), 3)
    columns.mask(parse_filter({"b": {"$gt": "x"}}), 3)
    assert rows.reads == [(0, 3)]


def test_only_the_new_rows_are_read():
    """Existing columns are extended with the added rows only, and new columns are built from the start."""
    rows = Rows(ABC)
    columns = MetadataColumns(rows)
    columns.mask(parse_filter({"a": 1}), 3)
    rows.metadata.append({"a": 1, "b": "x"})
    assert columns.mask(parse_filter({"a": 1}), 4).tolist() == [True, False, False, True]
    assert columns.mask(parse_filter({"a": 1, "b": "x"}), 4).tolist() == [True, False, False, True]
    assert rows.reads == [(0, 3), (3, 4), (0, 4)]


def test_a_mask_of_fewer_rows_is_the_start_of_a_longer_one():
    """A query that began before rows were added gets a mask of its own number of rows."""
    columns = MetadataColumns(Rows(ABC))
    assert columns.mask(parse_filter({"a": {"$gt": 1}}), 3).tolist() == [False, True, True]
    assert columns.mask(parse_filter({"a": {"$gt": 1}}), 2).tolist() == [False, True]


def test_growth_keeps_what_was_there():
    """A column extended row by row gives the same mask as matches on every row."""
    rows = Rows([])
    columns = MetadataColumns(rows)
    odd = parse_filter({"$or": [{"n": {"$gt": 150}}, {"t": {"$contains": "odd"}}]})
    for row in range(200):
        rows.metadata.append({"n": row, "t": ["odd"] if row % 2 else "even"} if row % 5 else {})
        mask = columns.mask(odd, row + 1)
    assert mask.tolist() == [odd.matches(metadata) for metadata in rows.metadata]


def test_numbers_that_appear_late_in_a_column():
    """A column of strings accepts numbers in later rows."""
    rows = Rows([{"v": "x"}])
    columns = MetadataColumns(rows)
    columns.mask(parse_filter({"v": "x"}), 1)
    rows.metadata += [{"v": 5}, {"v": 2**70}]
    assert columns.mask(parse_filter({"v": {"$gte": 5}}), 3).tolist() == [False, True, True]


def test_an_equal_filter_gets_the_same_mask():
    """An equal filter returns the same cached array."""
    columns = MetadataColumns(Rows(ABC))
    first = columns.mask(parse_filter({"a": 1, "b": "x"}), 3)
    assert columns.mask(parse_filter({"a": 1, "b": "x"}), 3) is first
    assert columns.mask(parse_filter({"a": True, "b": "x"}), 3) is not first


def test_only_the_last_masks_are_kept():
    """Only a limited number of masks is cached."""
    columns = MetadataColumns(Rows(ABC))
    first = columns.mask(parse_filter({"a": 0}), 3)
    for operand in range(1, 100):
        columns.mask(parse_filter({"a": operand}), 3)
    assert columns.mask(parse_filter({"a": 0}), 3) is not first


def test_a_mask_is_read_only():
    """Writing to a mask raises a ValueError, since masks are shared."""
    mask = MetadataColumns(Rows(ABC)).mask(parse_filter({"a": 1}), 3)
    with pytest.raises(ValueError, match="read-only"):
        mask[0] = False


def test_no_rows():
    """The mask of no rows is empty."""
    assert masked(Rows([]), {"a": 1}) == []


def test_drop_reads_the_named_column_again():
    """After drop(), the column is read again and masks that used it are computed again."""
    rows = Rows([{"confidence": 0.5, "a": {"b": 1}}])
    columns = MetadataColumns(rows)
    sure = parse_filter({"confidence": {"$gt": 0.7}, "a.b": 1})
    assert columns.mask(sure, 1).tolist() == [False]
    rows.metadata[0] = {"confidence": 0.9, "a": {"b": 2}}
    columns.drop("confidence")
    assert columns.mask(sure, 1).tolist() == [True]
    columns.drop("a.b")
    assert columns.mask(sure, 1).tolist() == [False]


def test_clear_starts_afresh():
    """After clear(), all rows are read again, even if there are fewer."""
    rows = Rows(ABC)
    columns = MetadataColumns(rows)
    columns.mask(parse_filter({"a": 1}), 3)
    rows.metadata = [{"a": 5}, {"a": 1}]
    columns.clear()
    assert columns.mask(parse_filter({"a": 1}), 2).tolist() == [False, True]


def test_an_error_while_reading_is_raised_and_leaves_no_half_column():
    """An error while reading rows is raised, and the next call builds the complete column."""
    broken = [True]

    def read(start, stop):
        yield 0, {"a": 1}
        if broken:
            raise OSError("disk gone")
        yield 1, {"a": 1}

    columns = MetadataColumns(read)
    with pytest.raises(OSError, match="disk gone"):
        columns.mask(parse_filter({"a": 1}), 2)
    broken.clear()
    assert columns.mask(parse_filter({"a": 1}), 2).tolist() == [True, True]


def test_threads_that_ask_while_rows_are_added_get_right_masks():
    """Several threads that evaluate filters at different numbers of rows all get correct masks."""
    everything = [{"n": row % 7, "t": f"text {row % 50}", "l": [str(row % 3)]} for row in range(600)]
    columns = MetadataColumns(lambda start, stop: [(row, everything[row]) for row in range(start, stop)])
    searches = [
        {"n": {"$gt": 3}},
        {"t": {"$gte": "text 3"}},
        {"l": {"$contains": "1"}},
        {"t": {"$contains": "4"}, "n": {"$ne": 2}},
    ]
    wrong = []

    def ask(offset):
        for step in range(40):
            filter = parse_filter(searches[(step + offset) % len(searches)])
            rows = (step * 37 + offset * 101) % 600
            if columns.mask(filter, rows).tolist() != [filter.matches(metadata) for metadata in everything[:rows]]:
                wrong.append((filter, rows))

    threads = [threading.Thread(target=ask, args=(offset,)) for offset in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
