"""Sessions of the embedded store: their turns, turn numbers and expiry."""

import subprocess
import sys
from contextlib import closing
from datetime import timedelta

import pytest

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import TenantError
from langchain_hybridgraph.filters.expressions import parse_filter
from langchain_hybridgraph.records import Query, Scope
from langchain_hybridgraph.stores.protocols import HasSessions, implements
from tests.support.stores.words import open_words


def opened(path, tenant=None, now=1_000.0):
    store = open_words(path, tenant=tenant)
    store.clock = lambda: now
    return store


@pytest.fixture(params=["disk", "memory"])
def store(request, tmp_path):
    with closing(opened(tmp_path / "index" if request.param == "disk" else None)) as store:
        yield store


@pytest.fixture
def memory():
    with closing(opened(None)) as store:
        yield store


def turns(store, session, n=9, **scope):
    return [turn.text for turn in store.sessions.turns(session, n, Scope(**scope))]


def test_turns_are_chunks(store):
    """A turn is a chunk whose metadata has its session, number, role, time and type, and is found by search."""
    ids = store.sessions.add_pairs("s", [("user", "which car"), ("Ada", "the roadster")], metadata={"topic": "cars"})
    assert ids == ["session:s#1", "session:s#2"]
    [first, second] = store.get(ids)
    assert dict(first.metadata) == {
        "memory_type": "episodic",
        "topic": "cars",
        "session_id": "s",
        "role": "user",
        "turn": 1,
        "created_at": "1970-01-01T00:16:40Z",
    }
    assert (second.metadata["role"], second.document) == ("Ada", "session:s")
    assert [entry.id for entry in store.keyword_search(Query("roadster", 9), 9).entries] == [ids[1]]
    state = store.memory.states(ids, Scope())[ids[0]]
    assert (state.memory_type, state.created_at) == ("episodic", 1_000.0)


def test_the_newest_turn_comes_first(store):
    """The newest n turns of a session are returned by number, newest first, without other sessions' turns."""
    assert implements(store, HasSessions)
    assert store.sessions.add_pairs("s", []) == []
    store.sessions.add_pairs("s", [("user", f"turn {n}") for n in range(250)])
    store.sessions.add_pairs("t", [("user", "other")])
    store.sessions.add_pairs("s", [("user", "turn 250")])
    newest = [f"turn {n}" for n in reversed(range(251))]
    assert [turns(store, "s", n) for n in (0, 2, 300)] == [[], newest[:2], newest]
    assert (turns(store, "t"), turns(store, "unknown")) == (["other"], [])


def test_chunks_of_an_ingest_may_be_turns(memory):
    """A chunk with a session_id belongs to that session and is ordered by its time; without a time it is the oldest."""
    times = ("late", 30), ("early", 10), ("middle", 20), ("timeless", None)
    memory.upsert([Chunk(id, id, {"session_id": 7, "created_at": at}) for id, at in times])
    assert turns(memory, "7") == ["late", "middle", "early", "timeless"]
    assert memory.sessions.add_pairs("7", [("user", "now")]) == ["session:7#1"]
    assert turns(memory, "7", 1) == ["now"]


def test_turns_are_in_the_calls_scope(store):
    """The turns returned match the filter, as_of and known_at; the number of a retracted turn is not used again."""
    store.sessions.add_pairs("s", [("user", "one"), ("ai", "two")], ttl=60)
    store.clock = lambda: 2_000.0
    store.memory.retract("session:s#2")
    assert store.sessions.add_pairs("s", [("user", "three")]) == ["session:s#3"]
    assert turns(store, "s", filter=parse_filter({"role": "user"})) == ["three", "one"]
    assert turns(store, "s", as_of=1_061.0) == ["three"]
    assert turns(store, "s", known_at=1_500.0, as_of=1_060.0) == ["two", "one"]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("", [("user", "t")]), {}, "session_id must be a string with at least one character, got ''"),
        ((7, [("user", "t")]), {}, "session_id must be a string .*, got 7"),
        (
            ("s", [("user", "t")]),
            {"ttl": 0},
            "ttl .* must be a number > 0 and ≤ 3153600000, got 0",
        ),
        (("s", [("user", "t")]), {"ttl": timedelta(-1)}, "ttl .* must be"),
        (("s", [("user", "t")]), {"ttl": 1e30}, "≤ 3153600000, got 1e\\+30"),
        (("s", [("user", "t")]), {"created_at": "soon"}, "'soon' is not a time"),
        (("s", [("user", "t")]), {"metadata": {"confidence": 7}}, "confidence: 7 is not a number from 0 to 1"),
    ],
)
def test_invalid_turns_are_refused(store, arguments, options, message):
    """Invalid turns raise a clear error and write nothing."""
    with pytest.raises(ValueError, match=message):
        store.sessions.add_pairs(*arguments, **options)
    assert len(store) == 0


def test_sessions_are_listed_and_deleted(store):
    """Sessions are listed with the number of their turns; deleting one deletes its turns and no others."""
    store.sessions.add_pairs("s", [("user", "one"), ("ai", "two")])
    store.sessions.add_pairs("t", [("user", "three")])
    assert (store.sessions.counts(), store.admin.stats()["sessions"]) == ({"s": 2, "t": 1}, 2)
    assert (store.sessions.delete("s"), store.sessions.delete("s")) == (2, 0)
    assert (store.sessions.counts(), len(store)) == ({"t": 1}, 1)


def test_expired_chunks_are_deleted(store):
    """expire() deletes chunks after their valid_until or their session's ttl, and keeps all others.

    A superseded fact does not expire, so that searches in the past find it.
    """
    ends = {"over": 1_999, "still": 2_000, "plain": None, "old": None}
    store.upsert([Chunk(id, "t", {} if end is None else {"valid_until": end}) for id, end in ends.items()])
    store.memory.replace_fact("old", Chunk("new", "u"), 500.0)
    store.sessions.add_pairs("s", [("user", "one")], ttl=timedelta(seconds=60))
    store.clock = lambda: 2_000.0
    assert (store.memory.expire(), store.memory.expire()) == (2, 0)
    assert (set(store.find(Scope())), store.sessions.counts()) == ({"still", "plain", "old", "new"}, {})


def test_sessions_of_tenants(tmp_path):
    """Sessions with the same name in two tenants have separate turns, numbers and expiry."""
    folder = tmp_path / "index"
    with closing(opened(folder, "one")) as store:
        store.sessions.add_pairs("s", [("user", "mine"), ("ai", "too")], ttl=60)
    with closing(opened(folder, "two", now=5_000.0)) as store:
        assert (turns(store, "s"), store.sessions.counts()) == ([], {})
        assert (store.sessions.delete("s"), store.memory.expire()) == (0, 0)
        assert store.sessions.add_pairs("s", [("user", "others'")]) == ["session:s#1"]
        with pytest.raises(TenantError, match="open for tenant 'two', but the call requests tenant 'one'"):
            turns(store, "s", tenant="one")
    with closing(opened(folder, "one")) as store:
        assert (turns(store, "s"), store.sessions.counts()) == (["too", "mine"], {"s": 2})


def test_a_killed_process_has_added_all_turns_or_none(tmp_path):
    """If the process is killed while adding turns, none of them is stored and no number is skipped."""
    folder = tmp_path / "index"
    code = f"""
import os
from pathlib import Path
from langchain_hybridgraph.stores import catalog_writes
from tests.support.stores.words import open_words
store = open_words(Path({str(folder)!r}))
store.sessions.add_pairs("s", [("user", "one")])
catalog_writes.log_changes = lambda *args: os.kill(os.getpid(), 9)
store.sessions.add_pairs("s", [("user", "two"), ("ai", "three")])
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    with closing(opened(folder)) as store:
        assert turns(store, "s") == ["one"]
        assert store.sessions.add_pairs("s", [("user", "two")]) == ["session:s#2"]
