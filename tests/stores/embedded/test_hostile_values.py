"""Accepted values are readable by every method and come back unchanged; refused ones leave no trace."""

import json
import math
import sqlite3
from contextlib import closing, contextmanager, suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum
from functools import partial

import numpy as np
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from langchain_hybridgraph import GraphRetriever, HierarchicalRetriever, HybridGraphStore, HybridRetriever
from langchain_hybridgraph.chunks import MOST_NESTED, Chunk
from langchain_hybridgraph.errors import FilterError
from langchain_hybridgraph.records import ALL_TIME, Edge, Scope
from langchain_hybridgraph.retrievers.memory import MemoryRetriever
from tests.support.stores.words import Words


class Colour(StrEnum):
    RED = "red"


def nested(levels):
    value = "x"
    for level in range(levels):
        value = [value] if level % 2 else {"in": value}
    return value


TEXT = st.text(st.characters(), max_size=12) | st.sampled_from(["", " ", "\0", "\ud800", "a\udfff", "$eq", "a.b", '"'])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | TEXT
    | st.sampled_from([10**400, -(10**4000), math.nan, math.inf, -math.inf, 2**63, 1e308, "2024-02-30", "9999-12-31"])
    | st.sampled_from([datetime(2024, 5, 1, tzinfo=UTC), datetime.min, datetime.max, date(2024, 5, 1), Colour.RED])
    | st.sampled_from([np.int64(3), np.float32(0.5), np.float64("nan"), np.bool_(True), np.datetime64("2024-05-01")])
)
HUGE = st.just(5000).map(lambda digits: 10**digits)  # Python refuses to print integers this long
ODD = HUGE | st.sampled_from([b"bytes", np.zeros(3), {1, "a"}, object(), Decimal(1), 1j, {1: "a", "1": "b"}, {2: 3}])
DEEP = st.sampled_from([MOST_NESTED - 2, MOST_NESTED, MOST_NESTED + 1, 1_000, 100_000]).map(nested)
VALUES = st.recursive(
    SCALARS | st.sampled_from([(1, "a"), {"b", "a"}, frozenset({1})]) | ODD | DEEP,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
KNOWN_KEYS = [
    "document_id", "title", "source", "uri", "url", "context_type", "level", "chunk_index", "parent_id", "labels",
    "links", "session_id", "turn", "created_at", "updated_at", "valid_from", "valid_until", "confidence", "utility",
    "active_count", "memory_type", "provenance_depth", "section_heading", "abstract", "state", "tenant", "role",
]  # fmt: skip
METADATA = st.dictionaries(st.sampled_from(KNOWN_KEYS) | TEXT, VALUES, max_size=4)
FUZZED = settings(suppress_health_check=list(HealthCheck))


def as_stored(value):
    """Return the expected stored form of an accepted value, computed independently of the package."""
    if isinstance(value, dict):
        return {as_stored(key): as_stored(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_stored(item) for item in value]
    if isinstance(value, set | frozenset):
        return as_stored(sorted(value))
    if isinstance(value, np.generic):
        return as_stored(value.item())
    if isinstance(value, date):
        return value.isoformat()
    # Two consecutive halves of a surrogate pair are one character.
    return json.loads(json.dumps(value)) if isinstance(value, str) else value


def everything(store):
    """Return the contents of a catalog, for comparison."""
    with store._index.catalog.reading() as connection:
        return [
            connection.execute(f"SELECT * FROM {table}").fetchall() for table in ("nodes", "edges", "learned", "about")
        ]


def search_every_way(store, *, of=("good",)):
    """Search with every retriever and assert that none fails and that each finds the chunks ``of``."""
    bfs = {"traversal": {"type": "bfs", "max_hops": 2}}
    retrievers = HybridRetriever(store, k=50), GraphRetriever(store, k=50, graph=bfs), MemoryRetriever(store, k=50)
    results = [retriever.retrieve("good neighbour", as_of=ALL_TIME) for retriever in retrievers[:2]]
    results.append(retrievers[2].retrieve("good neighbour", session_id="chat", as_of=ALL_TIME))
    for result in results:
        assert {document.metadata["chunk_id"] for document in result}.issuperset(of)
        result._repr_html_()
    results.append(HierarchicalRetriever(store, k=50).find("good neighbour", as_of=ALL_TIME))
    assert results[-1].total
    assert not [reason for result in results for reason in result.degraded if "failed" in reason]
    assert set(store.find(Scope(as_of=None))).issuperset(of)
    assert store.admin.check().problems == ()
    assert store.admin.stats()["chunks"] >= len(of)
    store.sessions.counts()


@contextmanager
def good_store(**metadata):
    """Open a store in memory with one chunk."""
    with closing(HybridGraphStore(None, Words())) as store:
        store.upsert([Chunk("good", "good neighbour", metadata)])
        store.flush()
        yield store


def error_of(write):
    try:
        write()
    except (TypeError, ValueError) as error:
        return error
    return None


def is_written(store, write, words=""):
    """Return whether a write is accepted; if not, the error has these words, and the store is unchanged."""
    before = everything(store)
    error = error_of(write)
    if error is not None:
        assert words in str(error)
        assert len(str(error)) < 1_000
        assert everything(store) == before
        search_every_way(store)
    return error is None


def filters_of(metadata):
    for key, value in metadata.items():
        escaped = key.replace("\\", "\\\\").replace(".", "\\.").replace("$", "\\$") if key else key
        yield {escaped: {"$exists": True}}
        if isinstance(value, str | int | float | bool):
            yield {escaped: {"$eq": value}}
            yield {escaped: {"$ne": value}}


@FUZZED
@given(metadata=METADATA)
@example({"price": math.nan, "high": math.inf})
@example({"source": "a\ud800.md"})
@example({"uri": "dir\ud800/a\0.md"})
@example({"session_id": "a\0", "memory_type": "\ud800"})
@example({"x": nested(MOST_NESTED)})
@example({"valid_from": 10**400, "confidence": 10**400, "turn": -1, "session_id": "chat"})
def test_metadata(metadata):
    """Accepted metadata comes back unchanged and no search fails; refused metadata leaves the store unchanged."""
    with good_store(source="a/good.md") as store:
        if not is_written(store, lambda: store.add_texts(["hostile good text"], [metadata], ids=["h"]), "metadata"):
            return
        search_every_way(store)
        (back,) = store.get_by_ids(["h"])
        assert repr(back.metadata) == repr(as_stored(metadata))
        for filter in filters_of(as_stored(metadata)):
            with suppress(FilterError):
                result = HybridRetriever(store, k=5).retrieve("good", filter=filter, as_of=ALL_TIME)
                assert not [reason for reason in result.degraded if "failed" in reason]
        assert store.delete(["h"])
        search_every_way(store)


NAMES = TEXT | st.sampled_from([None, 7, b"x", "x" * 10_000, "../..", "'; DROP TABLE nodes; --", "鍵 🗝", "%", "*"])


@FUZZED
@given(id=NAMES, other=NAMES, relation=NAMES, description=TEXT, text=TEXT)
@example("a\ud800", "b", "r", "", "t")
@example("a", "b\0", "r", "", "t")
@example("a", "b", "r\ud800", "x\udfff", "y\ud800z\0")
def test_ids_relations_and_texts(id, other, relation, description, text):
    """Ids and relations that cannot be stored are refused; all others can be read and traversed."""
    hostile = Chunk(id, f"good {text}", {"document_id": other, "parent_id": other, "labels": [relation, other]})

    def write():
        edges = [Edge("good", id, relation, description=description), Edge(id, other, relation)]
        store.upsert([hostile], parents=[Chunk(other, text)], edges=edges)
        store.flush()

    with good_store(source="a/good.md") as store:
        if not is_written(store, write):
            return
        search_every_way(store, of={"good", id})
        assert [chunk.id for chunk in store.get([id])] == [id]
        assert {edge.target for edge in store.edges(["good"])} == {id}


@FUZZED
@given(session=TEXT, role=TEXT, text=TEXT, source=TEXT)
@example("s\ud800", "user", "t", "s")
@example("s\0", "user", "t", "s")
@example("s", "user", "t\ud800", "s\ud800")
@example("s", "", "", "")
def test_sessions_and_sources(session, role, text, source):
    """A session with any accepted name returns its turns, and any source has a credibility."""
    with good_store(source=source, session_id=session) as store:
        store.memory.feedback("good", "validate")
        assert store.memory.credibility(source) > 0.5
        assert [turn.id for turn in store.sessions.turns(session, 5, Scope(as_of=None))] == ["good"]
        if is_written(store, lambda: store.sessions.add(session, [(role, text)]), "session_id"):
            ids = {turn.id for turn in store.sessions.turns(session, 5, Scope(as_of=None))}
            assert ids == {"good", *store.find(Scope(as_of=None))}
            assert store.sessions.delete(session) == len(ids)


@FUZZED
@given(tenant=NAMES, text=TEXT)
def test_tenants(tmp_path_factory, tenant, text):
    """A tenant's name is either refused at opening or works with every search, even after reopening."""
    folder = tmp_path_factory.mktemp("tenant") / "index"
    open_store = partial(HybridGraphStore, folder, Words(), tenant=tenant)
    if error := error_of(lambda: open_store().close()):
        assert "tenant" in str(error)
        assert not folder.exists()
        return
    with closing(open_store()) as store:
        store.add_texts([f"good neighbour {text}"], [{"source": "a", "n": math.nan}], ids=["good"])
        store.memory.set_mode("general")
        search_every_way(store)
    with closing(open_store()) as again:
        search_every_way(again)


def test_damaged_metadata_of_one_chunk_fail_no_search(tmp_path):
    """Damaged metadata is treated as empty and reported by check, and writing the chunk again repairs it."""
    with closing(HybridGraphStore(tmp_path / "index", Words())) as store:
        store.add_texts(["good neighbour", "good hostile"], [{"source": "a"}, {"source": "b"}], ids=["good", "h"])
    with closing(sqlite3.connect(tmp_path / "index" / "catalogue.sqlite")) as connection, connection:
        connection.execute("UPDATE nodes SET metadata = '{\"source\": \"b' WHERE id = 'h'")
    with closing(HybridGraphStore(tmp_path / "index", Words())) as store:
        (problem,) = store.admin.check().problems
        assert "1 chunks ('h') have another text or other metadata" in problem
        assert {document.id for document in HybridRetriever(store).invoke("good")} == {"good", "h"}
        assert HierarchicalRetriever(store).find("good").total == 2
        store.add_texts(["good hostile text"], [{"source": "b"}], ids=["h"])
        search_every_way(store, of={"good", "h"})
