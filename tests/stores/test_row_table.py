"""In-memory table of the rows that a store can see."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.stores.row_table import Rows


def stored(row, id, tenant="", valid_from=None, valid_until=None, **times):
    learned_at, retracted_at = times.get("learned_at", -np.inf), times.get("retracted_at")
    return row, tenant, id, valid_from, valid_until, learned_at, retracted_at


def updated(rows, touched=(), entries=(), end=0, *, version=1, past=()):
    return rows.updated(touched, entries, end=end, version=version, has_parents=False, past=past)


def living(rows, as_of=None, known_at=None):
    return np.flatnonzero(rows.valid_rows(as_of, known_at)).tolist()


def test_empty():
    """A new table has no rows."""
    rows = Rows("")
    assert (len(rows), rows.living, rows.rows(["a"]), living(rows), rows.version) == (0, 0, [], [], -1)


def test_a_replaced_chunk_has_its_new_row():
    """Updating a chunk removes its old row and assigns the new one to its id."""
    rows = updated(Rows(""), entries=[stored(0, "a"), stored(1, "b")], end=2)
    rows = updated(rows, [0, 2], [stored(2, "a")], end=3)
    assert (rows.rows(["a", "b"]), living(rows), rows.living) == ([2, 1], [1, 2], 2)


def test_a_snapshot_stays_as_it_was():
    """An update does not change the length, rows or ids of an earlier table."""
    before = updated(Rows(""), entries=[stored(0, "a"), stored(1, "b")], end=2)
    after = updated(before, [0, 1], [stored(2, "a")], end=3)
    assert (len(before), living(before), before.living, before.ids([0, 1])) == (2, [0, 1], 2, ["a", "b"])
    assert (len(after), living(after), after.living) == (3, [2], 1)
    assert updated(after, entries=[stored(5000, "z")], end=5001).ids([0, 5000]) == ["a", "z"]
    assert living(before) == [0, 1]


def test_rows_of_other_tenants_are_hidden():
    """Rows of other tenants are not visible, even with equal ids."""
    rows = updated(Rows("one"), entries=[stored(0, "a", "one"), stored(1, "a", "two"), stored(2, "b", "two")], end=3)
    assert (rows.rows(["a", "b"]), living(rows), rows.living, rows.full) == ([0], [0], 1, False)


def test_validity_includes_both_ends():
    """Validity includes both ends, an unset end is open, and as_of=None ignores validity."""
    rows = updated(
        Rows(""), entries=[stored(0, "always"), stored(1, "from", "", 10.0), stored(2, "until", "", None, 20.0)], end=3
    )
    assert [living(rows, time) for time in (9.9, 10.0, 20.0, 20.1, None)] == [
        [0, 2],
        [0, 1, 2],
        [0, 1, 2],
        [0, 1],
        [0, 1, 2],
    ]


def test_full_means_that_no_mask_is_needed():
    """A table is full while every row is present, belongs to the tenant and has no times."""
    rows = updated(Rows(""), entries=[stored(0, "a"), stored(1, "b")], end=2)
    assert rows.full
    assert not updated(rows, [0], [], end=2).full
    assert not updated(rows, [], [stored(2, "c", "", 1.0)], end=3).full


def test_a_row_whose_validity_changes_keeps_its_place():
    """Changing the validity of a row adds no row, and searches with an earlier known_at use the old validity."""
    before = updated(Rows(""), entries=[stored(0, "a"), stored(1, "b")], end=2)
    after = updated(before, [0], [stored(0, "a", valid_until=10.0)], end=2, past=[(0, 5.0, -np.inf, np.inf)])
    assert (living(before, 11.0), living(after, 11.0), living(after, 10.0)) == ([0, 1], [1], [0, 1])
    assert (living(after, 11.0, known_at=4.0), living(after, 11.0, known_at=5.0)) == ([0, 1], [1])


def test_earlier_validity_of_a_row_without_times():
    """A row whose validity was removed still has it for searches with an earlier known_at."""
    rows = updated(Rows(""), entries=[stored(0, "a")], end=1, past=[(0, 5.0, 0.0, 10.0), (0, 3.0, 0.0, 2.0)])
    assert [living(rows, 8.0, known_at=at) for at in (2.0, 4.0, 5.0, None)] == [[], [0], [0], [0]]
    assert [living(rows, 11.0, known_at=at) for at in (2.0, 4.0, 5.0, None)] == [[], [], [0], [0]]


def test_learned_and_retracted():
    """With known_at, a row is visible from the time it was learned until it is retracted."""
    rows = updated(
        Rows(""),
        entries=[stored(0, "a", learned_at=1.0), stored(1, "b", learned_at=2.0, retracted_at=4.0)],
        end=2,
    )
    assert [living(rows, None, at) for at in (0.9, 1.0, 2.0, 3.9, 4.0, None)] == [[], [0], [0, 1], [0, 1], [0], [0]]
    assert (np.flatnonzero(rows.alive()).tolist(), rows.living, rows.full) == ([0, 1], 2, False)


def test_overlapping_periods():
    """A period includes the chunks that are valid at any moment of it, both ends included."""
    entries = [stored(0, "always"), stored(1, "early", "", None, 10.0), stored(2, "late", "", 20.0)]
    rows = updated(Rows(""), entries=entries, end=3)
    rows_by_period = [
        np.flatnonzero(rows.overlapping(*period)).tolist() for period in ((0, 9), (10, 20), (11, 19), (21, np.inf))
    ]
    assert rows_by_period == [[0, 1], [0, 1, 2], [0], [0, 2]]


def test_rows_beyond_the_announced_end_are_added():
    """A row is added even if it is beyond the announced end."""
    rows = updated(Rows(""), entries=[stored(0, "a")], end=1)
    assert living(updated(rows, [0], [stored(0, "a")], end=0)) == [0]


def test_scored_orders_by_score_then_id():
    """Scored ids are ordered by score, ties by id."""
    rows = updated(Rows(""), entries=[stored(0, "c"), stored(1, "a"), stored(2, "b")], end=3)
    assert [(e.id, e.score) for e in rows.scored_ids([0, 1, 2], [0.5, 0.5, 0.9])] == [
        ("b", 0.9),
        ("a", 0.5),
        ("c", 0.5),
    ]


@given(st.lists(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.booleans()), max_size=6), min_size=1, max_size=12))
def test_rows_equal_those_of_a_dictionary(history):
    """After any sequence of puts and deletes, the rows equal those of a dictionary from id to row."""
    rows, model, end = Rows(""), {}, 0
    for version, commit in enumerate(history):
        touched = set()
        for id, is_put in commit:
            touched |= {model.pop(id)} if id in model else set()
            if is_put:
                model[id] = end
                touched.add(end)
                end += 1
        entries = [stored(row, id) for id, row in model.items() if row in touched]
        rows = updated(rows, touched, entries, end=end, version=version)
        assert {id: row for id in "abcdefgh" for row in rows.rows([id])} == model
        assert living(rows) == sorted(model.values())
        assert (rows.living, len(rows), rows.full) == (len(model), end, len(model) == end)


def test_ids_of_unknown_rows():
    """Looking up the id of a row that was never used raises an IndexError."""
    with pytest.raises(IndexError):
        Rows("").ids([0])
