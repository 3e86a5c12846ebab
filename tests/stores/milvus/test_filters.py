"""Milvus expressions of filters: every match passes them."""

import json
import math

import pytest
from hypothesis import HealthCheck, given, settings

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.filters.expressions import parse_filter
from langchain_hybridgraph.records import Scope
from langchain_hybridgraph.stores.chunk_rows import catalog_rows
from langchain_hybridgraph.stores.milvus.connection import MOST_ELEMENTS
from langchain_hybridgraph.stores.milvus.schema import text
from langchain_hybridgraph.stores.milvus.store import MilvusChunkStore
from tests.support.samples.filter_strategies import filters
from tests.support.stores.suite import HashedWords

ROWS = [
    {},
    {"k": None, "l": "present"},
    {"k": True},
    {"k": 1},
    {"k": 1.0, "l": 0.5},
    {"k": 2**53 + 1},
    {"k": 10**400},
    {"k": math.inf},
    {"k": math.nan},
    {"k": "1"},
    {"k": "a", "l": "abc"},
    {"k": "2024-01-01"},
    {"k": "2024-01-01T01:00+01:00"},
    {"k": ["a", "b", 1, True, "2024-01-01"]},
    {"k": []},
    {"k": {"k": 2, "l": ["a"]}},
    {"k.l": "dotted", "": "empty"},
    {"k": {"k.l": -1}},
    {"k": 'a "quoted" \\ value', "l": "\ud800"},
    {"k": [{"k": 1}, [1, 2]]},
    {"k": list(range(MOST_ELEMENTS))},  # has more marks than an array can hold
]
UNMARKED = str(len(ROWS) - 1)


def stored(metadata):
    """Return metadata as a store returns it."""
    (row,) = catalog_rows([Chunk("a", "text", metadata)], [], "")
    return json.loads(row.metadata)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    pytest.importorskip("milvus_lite")
    uri = f"milvus:{tmp_path_factory.mktemp('milvus') / 'lite.db'}"
    store = MilvusChunkStore(uri, HashedWords())
    store.upsert([Chunk(str(number), f"text {number}", metadata) for number, metadata in enumerate(ROWS)])
    store.flush()
    return store


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(condition=filters)
def test_milvus_returns_exactly_the_matches(store, condition):
    """find() returns exactly the chunks whose metadata matches the filter."""
    rows = [{"document_id": str(number), **stored(row)} for number, row in enumerate(ROWS)]
    matches = [str(number) for number, row in enumerate(rows) if condition.matches(row)]
    assert store.find(Scope(condition)) == matches


@pytest.mark.parametrize(
    "condition",
    [
        {"k": 1},
        {"k": {"$ne": True}},
        {"k": {"$in": [1, "a"]}},
        {"k": {"$nin": ["a"]}},
        {"k": {"$exists": False}},
        {"k": {"$gte": 1}},
        {"k": {"$lt": "2024-01-02"}},
        {"$not": {"k": {"$gt": 0}}},
        {"k": {"$not_contains": "b"}},
        {"$or": [{"k.k": 2}, {"l": {"$eq": "present"}}]},
    ],
    ids=str,
)
def test_the_server_selects_nothing_else(store, condition):
    """For equality, presence, membership, numbers and times, the server returns only matches and the unmarked row."""
    scope = Scope(parse_filter(condition))
    selected = {row.chunk.id for row in store._index.all_rows(store._index.in_scope(scope))}
    assert UNMARKED in selected
    assert selected - {UNMARKED} == set(store.find(scope)) - {UNMARKED} != set()


@pytest.mark.parametrize("value", ['"', "\\", '\\"', "'", "{x}", "é 数据", "a\nb", "%_"])
def test_texts_are_quoted(store, value):
    """Quotation marks, backslashes and other special characters in a string are escaped in expressions."""
    assert store._index.read(store._index.names.chunks, f"tenant == {text(value)}", ["key"]) == []
