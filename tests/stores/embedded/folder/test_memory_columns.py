"""In-memory columns of memory state: equal to the catalog after every change."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.errors import TenantError
from langchain_hybridgraph.memory.columns import MemoryColumns
from langchain_hybridgraph.records import Chunk, MemoryState, Scope
from langchain_hybridgraph.stores.embedded.catalog import memory as catalog_memory
from langchain_hybridgraph.stores.embedded.folder.index_settings import IndexSettings
from langchain_hybridgraph.stores.embedded.store import EmbeddedStore
from langchain_hybridgraph.testing import HashedWords

IDS = ["a", "b", "c", "nobody"]
METADATA = {
    "confidence": 0.7,
    "utility": 0.0,
    "active_count": 3,
    "updated_at": 20.0,
    "created_at": 10.0,
    "valid_until": 9e9,
    "memory_type": "semantic",
    "provenance_depth": 2,
}


def opened(path=None, tenant=None, **options):
    store = EmbeddedStore(IndexSettings(path=path, embedding=HashedWords(), name="words", tenant=tenant, **options))
    store.clock = lambda: 1_000.0
    return store


def upsert(store, **chunks):
    store.upsert([Chunk(id, f"text of {id}", metadata) for id, metadata in chunks.items()])
    store.flush()


def rows(columns):
    """Return one tuple per memory, with the memory type by name."""
    kinds = [None if kind < 0 else columns.kinds[kind] for kind in columns.kind.tolist()]
    numbers = [[None if np.isnan(value) else value for value in column.tolist()] for column in columns[:8]]
    return list(zip(*numbers, kinds, strict=True))


def assert_alike(store, scope=None):
    scope = scope or Scope()
    states = store.memory.states(IDS, scope)
    expected = MemoryColumns.of([states.get(id, MemoryState()) for id in IDS])
    assert rows(store.memory.columns(IDS, scope)) == rows(expected)


def fail_inside(store):
    with store._index.catalog.writing() as connection:
        connection.execute("UPDATE learned SET confidence = 0")
        raise ZeroDivisionError


def test_columns_of_records():
    """Unset numbers are NaN and an unset type is −1; ``began_at`` is valid_from if that is set."""
    times = {"updated_at": 1.5, "valid_from": 2.0, "created_at": 1.0}
    columns = MemoryColumns.of([MemoryState(0.5, None, 3, **times, memory_type="semantic"), MemoryState()])
    assert rows(columns) == [
        (0.5, None, 3, None, 1.5, 2.0, None, 0, "semantic"),
        (None, None, 0, None, None, None, None, 0, None),
    ]


def test_no_ids():
    """Without ids there are no rows, and in an empty store all values are unset."""
    with closing(opened()) as store:
        assert rows(store.memory.columns([], Scope())) == []
        assert rows(store.memory.columns(["a"], Scope())) == rows(MemoryColumns.of([MemoryState()]))


def test_values_from_metadata_and_feedback():
    """The columns equal the catalog after metadata, every kind of feedback, a use and a changed text."""
    with closing(opened()) as store:
        upsert(store, a=METADATA, b={})
        assert_alike(store)
        assert rows(store.memory.columns(["a"], Scope())) == [(0.7, 0.0, 3, None, 20.0, 10.0, 9e9, 2, "semantic")]
        for verb in ("validate", "refute", "useful", "stale"):
            store.memory.feedback(["b", "a"], verb)
            assert_alike(store)
        store.memory.mark_used("b")
        assert_alike(store)
        store.upsert([Chunk("a", "another text", {"confidence": 0.1}), Chunk("c", "new", {"memory_type": "own"})])
        store.flush()
        assert_alike(store)


def test_an_end_that_was_learned_later():
    """An end set by superseding a memory is not in the column of expected ends; one from the metadata is."""
    with closing(opened()) as store:
        upsert(store, a={}, b=METADATA)
        store.clock = lambda: 1_500.0
        store.memory.replace_fact("a", Chunk("c", "text of c"), 2_000.0)
        assert [store.memory.states(["a", "b"], Scope())[id].end_learned for id in ("a", "b")] == [True, False]
        assert not store.memory.states(["a"], Scope(known_at=1_000.0))["a"].end_learned
        assert [row[6] for row in rows(store.memory.columns(["a", "b"], Scope()))] == [None, 9e9]
        assert_alike(store)


def test_columns_with_known_at():
    """With known_at, the columns contain the values known at that time."""
    with closing(opened()) as store:
        upsert(store, a=METADATA)
        store.clock = lambda: 2_000.0
        store.memory.feedback("a", "refute")
        assert_alike(store, Scope(known_at=1_500.0))
        assert store.memory.columns(["a"], Scope(known_at=1_500.0)).confidence == [0.7]
        assert store.memory.columns(["a"], Scope()).confidence == [0.05]


def test_another_process_follows(tmp_path):
    """A reader's columns follow the writer's changes, even if the log has been trimmed."""
    with closing(opened(tmp_path / "i")) as writer, closing(opened(tmp_path / "i", read_only=True)) as reader:
        upsert(writer, a=METADATA, b={})
        assert_alike(reader)
        writer.memory.feedback("a", "refute")
        upsert(writer, c={"confidence": 0.2})
        assert_alike(reader)
        assert reader.memory.columns(["a", "c"], Scope()).confidence.tolist() == [0.05, 0.2]
        writer.memory.feedback("b", "validate")
        with closing(sqlite3.connect(tmp_path / "i" / "catalogue.sqlite")) as connection, connection:
            connection.execute("DELETE FROM learned_changes")
            connection.execute("INSERT INTO learned_changes VALUES (99, 0)")
        assert_alike(reader)


def test_the_log_stays_short():
    """The log keeps the last 5,000 changes, and columns that are further behind are read again in full."""
    with closing(opened()) as store:
        upsert(store, a=METADATA)
        assert_alike(store)
        with store._index.catalog.writing() as connection:
            for _ in range(5_100):
                connection.execute("UPDATE learned SET active_count = active_count + 1")
            assert connection.execute("SELECT count(*) FROM learned_changes").fetchone()[0] == 5_000
            assert catalog_memory.is_forgotten(connection, 50)
            assert not catalog_memory.is_forgotten(connection, 101)
        assert_alike(store)


def test_a_rolled_back_change_is_not_learned():
    """A transaction that fails leaves the columns unchanged."""
    with closing(opened()) as store:
        upsert(store, a=METADATA)
        assert_alike(store)
        with pytest.raises(ZeroDivisionError):
            fail_inside(store)
        assert_alike(store)
        store.memory.feedback("a", "validate")
        assert_alike(store)


def test_repaired_values_are_seen(tmp_path):
    """Values restored by repair appear in columns that were read before."""
    with closing(opened(tmp_path / "i")) as store:
        upsert(store, a=METADATA, b={})
        with store._index.catalog.writing() as connection:
            connection.execute("DELETE FROM learned")
        assert np.isnan(store.memory.columns(["a"], Scope()).confidence).all()
        assert store.admin.repair().ok
        assert_alike(store)


def test_tenants_do_not_see_each_other(tmp_path):
    """A tenant's columns contain no values of another tenant, whose scope raises TenantError."""
    with closing(opened(tmp_path / "i", tenant="one")) as one:
        upsert(one, a=METADATA)
    with closing(opened(tmp_path / "i", tenant="two")) as two:
        upsert(two, b={"confidence": 0.9})
        columns = two.memory.columns(["a", "b"], Scope(tenant="two"))
        assert rows(columns)[0] == rows(MemoryColumns.of([MemoryState()]))[0]
        assert columns.confidence[1] == 0.9
        with pytest.raises(TenantError):
            two.memory.columns(["a"], Scope(tenant="one"))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["validate", "refute", "useful", "stale"]), st.sampled_from("abc")),
        st.tuples(st.just("use"), st.sampled_from("abc")),
        st.tuples(st.just("retract"), st.sampled_from("abc")),
        st.tuples(st.just("delete"), st.sampled_from("abc")),
        st.tuples(st.just("upsert"), st.sampled_from("abc"), st.sampled_from([{}, METADATA, {"confidence": 0.3}])),
        st.tuples(st.just("look")),
    ),
    max_size=12,
)


@given(STEPS)
def test_the_columns_equal_the_catalog_after_any_changes(steps):
    """After any changes, the columns of all memories that are not retracted equal the catalog."""
    with closing(opened()) as store:
        upsert(store, a=METADATA, b={}, c={})
        for step in [*steps, ("look",)]:
            match step:
                case ("use", id):
                    store.memory.mark_used(id)
                case ("retract", id):
                    store.memory.retract([id] if id in store.find(Scope()) else [])
                case ("delete", id):
                    store.remove([id])
                case ("upsert", id, metadata):
                    store.upsert([Chunk(id, f"text {len(metadata)}", metadata)])
                    store.flush()
                case ("look",):
                    states = store.memory.states(IDS, Scope())
                    actual = dict(zip(IDS, rows(store.memory.columns(IDS, Scope())), strict=True))
                    expected = {id: rows(MemoryColumns.of([learned]))[0] for id, learned in states.items()}
                    assert {id: actual[id] for id in states} == expected
                case (verb, id) if store.get([id]):
                    store.memory.feedback(id, verb)
