"""Memory state in the embedded store: feedback, valid time, known time, retraction and sources."""

import multiprocessing
import os
import signal
import sqlite3
from contextlib import closing
from datetime import timedelta
from unittest.mock import DEFAULT, Mock, patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import ReadOnlyError, TenantError
from langchain_hybridgraph.filters.expressions import parse_filter
from langchain_hybridgraph.records import SUPERSEDES, Edge, EdgeFilter, MemoryState, Scope
from langchain_hybridgraph.stores import catalog_writes
from langchain_hybridgraph.stores.protocols import HasSessions, implements
from tests.support.stores.words import chunk, everywhere, ids_by_word, open_words


def opened(path, tenant=None, now=1_000.0, **options):
    store = open_words(path, tenant=tenant, **options)
    store.clock = Mock(return_value=now)
    return store


@pytest.fixture
def store(place):
    with closing(opened(place)) as store:
        yield store


@pytest.fixture
def memory():
    with closing(opened(None)) as store:
        yield store


def upsert(store, *chunks, at=None, **options):
    if at is not None:
        store.clock.return_value = at
    store.upsert([each if isinstance(each, Chunk) else chunk(each) for each in chunks], **options)
    store.flush()


def state_of(store, id="a", **scope):
    return store.memory.states([id], Scope(tenant=store.tenant, **scope)).get(id)


def trust(store, id="a", **scope):
    state = state_of(store, id, **scope)
    return state.confidence, state.utility


def neighbours(store, id, **times):
    graph = store.scoped_graph(Scope(**times), EdgeFilter())
    return set(graph.ids(graph.neighbours(graph.nodes([id])).node))


# -- initial values -----------------------------------------------------------------------------------------------


def test_first_values_come_from_the_metadata(store):
    """Memory values of chunks and parents are read from the metadata, and the store adds the time it learned them."""
    metadata = {"confidence": 0.9, "utility": 0, "active_count": 3, "memory_type": "semantic", "provenance_depth": 2}
    metadata |= {"valid_from": "1970-01-01T00:01:00", "valid_until": 90}
    metadata |= {"created_at": "1970-01-01T01:00:00+01:00", "updated_at": "1970-01-01T00:00:40+00:00"}
    upsert(store, chunk("a", **metadata), Chunk("b", "t", {}, None, "p"), parents=[chunk("p", **metadata)], at=50.0)
    times = {"valid_from": 60.0, "valid_until": 90.0, "created_at": 0.0, "updated_at": 40.0}
    state = MemoryState(**(metadata | times), learned_at=50.0)
    assert (state_of(store), state_of(store, "p"), state_of(store, "b")) == (state, state, MemoryState(learned_at=50.0))
    assert store.memory.columns(["a"], Scope()).updated_at.tolist() == [40.0]
    upsert(store, chunk("a", **metadata | {"updated_at": 45}), at=55.0)
    assert (state_of(store).updated_at, store.memory.columns(["a"], Scope()).updated_at.tolist()) == (45.0, [45.0])


# -- a second ingest ----------------------------------------------------------------------------------------------


def test_learned_values_survive_an_ingest(store):
    """An ingest keeps learned values, even of another text, unless the value in the metadata has changed."""
    upsert(store, chunk("a", confidence=0.5, valid_until=2_000))
    store.memory.feedback("a", "validate")
    store.memory.mark_used("a")
    for again in (chunk("a", confidence=0.5), chunk("a", confidence=0.5, page=2), chunk("a", "other text")):
        upsert(store, again)
        state = state_of(store)
        assert (state.confidence, state.utility, state.active_count) == (pytest.approx(0.65), 1.0, 1)
        assert state.valid_until is None
    upsert(store, chunk("a", confidence=0.2))
    assert trust(store) == (0.2, 1.0)


# -- feedback -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "after", "unset"),
    [
        ("validate", (0.55, 0.45), (0.65, 1.0)),
        ("refute", (0.05, 0.2), (0.05, 0.8)),
        ("useful", (0.4, 0.55), (None, 1.0)),
        ("stale", (0.3, 0.15), (0.4, 0.75)),
    ],
)
def test_a_verb_changes_confidence_and_utility(store, verb, after, unset):
    """Feedback changes values by documented amounts; unset ones start from a confidence of .5 and a utility of 1."""
    upsert(store, chunk("a", confidence=0.4, utility=0.4), "b")
    assert store.memory.feedback(["a", "b"], verb) == ["a", "b"]
    assert (trust(store), trust(store, "b")) == (pytest.approx(after), pytest.approx(unset))


@pytest.mark.parametrize(
    ("ids", "verb", "message"),
    [
        (["a", "unknown"], "validate", "'unknown' is not in this store"),
        ("a", "validated", "'validated' is not known; pass one of 'validate'"),
        ("a", None, "feedback None is not known"),
    ],
)
def test_invalid_feedback_changes_nothing(memory, ids, verb, message):
    """Unknown memories and kinds of feedback raise a ValueError, and no memory of the call is changed."""
    upsert(memory, chunk("a", confidence=0.4, utility=0.4))
    with pytest.raises(ValueError, match=message):
        memory.memory.feedback(ids, verb)
    assert trust(memory) == (0.4, 0.4)


def test_uses_are_counted(store):
    """Each call to mark_used() counts one use per memory and records the time."""
    upsert(store, "a", "b")
    store.clock.return_value = 2_000.0
    assert store.memory.mark_used(["a", "a", "unknown"]) == 1
    store.clock.return_value = 3_000.0
    assert store.memory.mark_used(["a", "b"]) == 2
    assert (state_of(store).active_count, state_of(store).used_at, state_of(store, "b").active_count) == (2, 3_000.0, 1)


def test_the_credibility_of_a_source(store):
    """The credibility of a source is (1 + validated) / (2 + validated + refuted) memories."""
    upsert(store, *(chunk(id, source="radio") for id in "abc"), chunk("d"))
    assert store.memory.credibility("radio") == 0.5
    store.memory.feedback(["a", "b"], "validate")
    store.memory.feedback("c", "refute")
    store.memory.feedback(["a", "b", "c"], "stale")
    store.memory.feedback("d", "refute")
    assert (store.memory.credibility("radio"), store.memory.credibility("unknown")) == (3 / 5, 0.5)


# -- two times ----------------------------------------------------------------------------------------------------


def test_later_chunks_were_not_known(store):
    """With known_at, chunks, edges and texts of later times are not found by any search."""
    upsert(store, "a", "b", edges=[Edge("a", "b", "weak", 0.2)], at=10.0)
    upsert(store, "c", edges=[Edge("b", "a", "s"), Edge("a", "c", "r"), Edge("a", "b", "strong", 0.9)], at=20.0)
    assert [everywhere(store, known_at=at) for at in (9, 10, 20)] == [set(), {"a", "b"}, {"a", "b", "c"}]
    assert [neighbours(store, "b", known_at=at) for at in (10.0, 20.0, None)] == [set(), {"a"}, {"a"}]
    relations = [
        store.scoped_graph(Scope(known_at=at), EdgeFilter()).edges([("a", "b")])[0].relation for at in (10.0, 20.0)
    ]
    assert relations == ["weak", "strong"]
    upsert(store, chunk("a", "text that changed"), chunk("b", page=2), at=30.0)
    assert [everywhere(store, known_at=at) for at in (25.0, 30.0)] == [{"b", "c"}, {"a", "b", "c"}]


def test_an_unchanged_edge_keeps_its_age(store):
    """Replacing an edge keeps the time it was learned, unless its validity changes."""
    upsert(store, "a", "b", edges=[Edge("a", "b", "r", 0.5)], at=10.0)
    store.clock.return_value = 20.0
    store.replace_edges(["a"], ["r"], [Edge("a", "b", "r", 0.4)])
    assert neighbours(store, "a", known_at=10.0) == {"b"}
    store.replace_edges(["a"], ["r"], [Edge("a", "b", "r", 0.4, valid_until=5_000.0)])
    assert neighbours(store, "a", known_at=10.0) == set()
    assert neighbours(store, "a", known_at=20.0) == {"b"}


TIMES = st.integers(0, 6)


@given(
    st.lists(st.tuples(st.sampled_from("ab"), TIMES, TIMES, st.booleans()), max_size=8),
    TIMES.map(float),
    st.none() | st.integers(0, 9).map(float),
)
def test_two_times_agree_with_a_log(statements, as_of, known_at):
    """With any as_of and known_at, every search agrees with a plain log of writes and retractions."""
    logs = {"c": [(-1, (0, 9))]}
    with closing(opened(None)) as store:
        upsert(store, "c", at=-1.0)
        for at, (id, first, until, is_retracted) in enumerate(statements):
            store.clock.return_value = float(at)
            log = logs.setdefault(id, [])
            if is_retracted and log:
                store.memory.retract(id)
                log.append((at, None))
            elif not log or log[-1][1] is not None:  # otherwise the same text stays retracted
                upsert(store, chunk(id, valid_from=first, valid_until=until))
                log.append((at, (first, until)))
        expected = set()
        for id, log in logs.items():
            periods = [period for at, period in log if known_at is None or at <= known_at]
            if periods and periods[-1] is not None and periods[-1][0] <= as_of <= periods[-1][1]:
                expected.add(id)
        assert everywhere(store, as_of=as_of, known_at=known_at) == expected


# -- superseding --------------------------------------------------------------------------------------------------


def test_the_old_fact_ends_as_the_new_one_begins(store):
    """A superseded fact ends when the new one begins, also after another ingest, except for an earlier known_at."""
    upsert(store, "old", at=10.0)
    store.clock.return_value = 20.0
    for _ in range(2):  # superseding again with the same fact changes nothing
        store.memory.replace_fact("old", chunk("new"), None)
        upsert(store, "old", chunk("old", page=2))
    assert (state_of(store, "old").valid_until, state_of(store, "new").valid_from) == (20.0 - 1e-6, 20.0)
    assert everywhere(store, as_of=30.0) == {"new"}
    assert everywhere(store, as_of=19.0) == {"old"}
    assert everywhere(store, as_of=30.0, known_at=15.0) == {"old"}
    [edge] = store.edges(["new"])
    assert edge == Edge("new", "old", SUPERSEDES, 1.0, "new replaces old from 1970-01-01T00:00:20Z on.")


@pytest.mark.parametrize(
    ("new", "end", "ends"), [({"valid_from": 700}, 900, 700.0 - 1e-6), ({}, 500, 500.0), ({}, 990, 900.0 - 1e-6)]
)
def test_the_end_of_the_old_fact(memory, new, end, ends):
    """The new fact's valid_from takes precedence over ``at``, and an earlier end of the old fact is kept."""
    upsert(memory, chunk("old", valid_until=end))
    memory.memory.replace_fact("old", chunk("new", **new), 900.0)
    assert state_of(memory, "old").valid_until == ends
    assert state_of(memory, "new").valid_from == new.get("valid_from", 900.0)


@pytest.mark.parametrize(
    ("old", "new", "at", "message"),
    [
        ("unknown", chunk("new"), None, "'unknown' is not in this store"),
        ("old", chunk("old"), None, "cannot supersede itself"),
        ("old", chunk("new"), 50.0, "valid from .*00:01:40.* later valid_from"),
        ("old", chunk("new", valid_until=500), 900.0, "before it begins"),
        ("old", chunk("new", valid_from=600, valid_until=500), None, "is before valid_from"),
        ("old", chunk("new"), "tomorrow", "'tomorrow' is not a time"),
    ],
)
def test_invalid_supersessions_are_refused(store, old, new, at, message):
    """An invalid call to replace_fact() raises a ValueError, adds no new fact and does not end the old one."""
    upsert(store, chunk("old", valid_from=100))
    with pytest.raises(ValueError, match=message):
        store.memory.replace_fact(old, new, at)
    assert (store.find(Scope()), state_of(store, "old").valid_until, store.edges(["new"])) == (["old"], None, [])


# -- retracting ---------------------------------------------------------------------------------------------------


def test_a_retracted_statement_is_gone_but_was_known(store):
    """No search finds a retracted memory, except with a known_at before its retraction."""
    upsert(store, "a", "b", edges=[Edge("b", "a", "r")], at=10.0)
    assert neighbours(store, "b") == {"a"}
    store.clock.return_value = 20.0
    assert store.memory.retract("a") == 1
    assert everywhere(store) == everywhere(store, as_of=15.0) == everywhere(store, known_at=20.0) == {"b"}
    assert everywhere(store, known_at=19.0) == {"a", "b"}
    assert (neighbours(store, "b"), neighbours(store, "b", known_at=19.0)) == (set(), {"a"})
    assert (state_of(store), state_of(store, known_at=19.0).learned_at) == (None, 10.0)
    assert [stored.id for stored in store.get(["a"])] == ["a"]
    assert store.admin.stats()["retracted"] == 1


def test_a_text_stays_retracted_until_it_changes(memory):
    """retract() applies to all ids or none, and a memory stays hidden if only its metadata changes, not its text."""
    upsert(memory, "a", "b")
    with pytest.raises(ValueError, match="'x' is not in this store"):
        memory.memory.retract(["a", "x"])
    assert everywhere(memory) == {"a", "b"}
    assert (memory.memory.retract(["a", "b"]), memory.memory.retract("a")) == (2, 0)
    upsert(memory, chunk("a", page=2))
    assert everywhere(memory) == set()
    upsert(memory, chunk("a", "text that is right"))
    assert everywhere(memory) == {"a"}


# -- others -------------------------------------------------------------------------------------------------------


def test_feedback_outlives_the_process(folder):
    """Feedback, retractions and superseded facts are seen by an open reader and kept after reopening the folder."""
    with closing(opened(folder)) as store, closing(opened(folder, read_only=True)) as reader:
        upsert(store, chunk("a", source="s"), "b", "old", at=10.0)
        assert everywhere(reader) == {"a", "b", "old"}
        store.clock.return_value = 20.0
        store.memory.feedback("a", "validate")
        store.memory.retract("b")
        store.memory.replace_fact("old", chunk("new"), None)
        before = [everywhere(store, **times) for times in ({}, {"known_at": 15.0}, {"as_of": 25.0})]
        assert before == [everywhere(reader, **times) for times in ({}, {"known_at": 15.0}, {"as_of": 25.0})]
        assert trust(reader) == (0.65, 1.0)
        with pytest.raises(ReadOnlyError):
            reader.memory.feedback("a", "stale")
    with closing(opened(folder)) as store:
        assert before == [everywhere(store, **times) for times in ({}, {"known_at": 15.0}, {"as_of": 25.0})]
        assert (store.memory.credibility("s"), trust(store), store.admin.check().ok) == (2 / 3, (0.65, 1.0), True)


def supersede(store):
    store.memory.replace_fact("old", chunk("new"), None)


def add_turns(store):
    store.sessions.add_pairs("s", [("user", "two"), ("ai", "three")])


def die_during(change, folder):
    """Kill the process just before the change is committed."""
    store = open_words(folder)
    upsert(store, "old")
    store.sessions.add_pairs("s", [("user", "one")])
    catalog_writes.log_changes = lambda *args: os.kill(os.getpid(), signal.SIGKILL)
    change(store)


@pytest.mark.parametrize("change", [supersede, add_turns])
def test_a_process_killed_during_a_change_changes_nothing(folder, change):
    """If the process is killed while it supersedes a fact or adds turns, nothing of the change is stored."""
    process = multiprocessing.get_context("spawn").Process(target=die_during, args=(change, folder))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    with closing(opened(folder)) as store:
        assert store.find(Scope()) == ["old", "session:s#1"]
        assert (state_of(store, "old").valid_until, store.edges(["new"])) == (None, [])
        assert store.sessions.add_pairs("s", [("user", "two")]) == ["session:s#2"]
        assert store.admin.check().ok


def test_an_error_undoes_feedback_on_all_memories(memory):
    """If feedback on several memories fails for one of them, none is changed."""
    upsert(memory, chunk("a", source="s"), chunk("b", source="s"))
    effects = {"wraps": catalog_writes.revise, "side_effect": [DEFAULT, ZeroDivisionError]}
    with patch.object(catalog_writes, "revise", **effects), pytest.raises(ZeroDivisionError):
        memory.memory.feedback(["a", "b"], "validate")
    assert (trust(memory, "a"), trust(memory, "b")) == ((None, None), (None, None))


def test_tenants_have_separate_memories_and_sessions(folder):
    """A tenant cannot see or change another tenant's memories and turns, even with equal ids, sources and names."""
    with closing(opened(folder, "one")) as store:
        upsert(store, chunk("a", source="s"), chunk("b", source="s"))
        store.sessions.add_pairs("s", [("user", "mine"), ("ai", "too")], ttl=6_000)
    with closing(opened(folder, "two", now=9_000.0)) as store:
        upsert(store, chunk("a", source="s"), chunk("c", source="s"))
        store.memory.feedback("a", "refute")
        store.memory.mark_used(["a", "b"])
        store.memory.retract("a")
        assert store.memory.states(["b"], Scope()) == {}
        changes = {"retract": ["b"], "feedback": ["b", "refute"], "replace_fact": ["b", chunk("d")]}
        for change, arguments in changes.items():
            with pytest.raises(ValueError, match="'b' is not in this store"):
                getattr(store.memory, change)(*arguments)
        with pytest.raises(TenantError):
            store.memory.states(["a"], Scope(tenant="one"))
        with pytest.raises(TenantError, match="open for tenant 'two', but the call requests tenant 'one'"):
            turns(store, "s", tenant="one")
        assert (turns(store, "s"), store.sessions.counts()) == ([], {})
        assert (store.sessions.delete("s"), store.memory.expire()) == (0, 0)
        assert store.sessions.add_pairs("s", [("user", "others'")]) == ["session:s#1"]
    with closing(opened(folder, "one")) as store:
        assert store.find(Scope(tenant="one")) == ["a", "b", "session:s#1", "session:s#2"]
        assert (trust(store, "a"), state_of(store, "b").active_count) == ((None, None), 0)
        assert store.memory.credibility("s") == 0.5
        assert (turns(store, "s", tenant="one"), store.sessions.counts()) == (["too", "mine"], {"s": 2})


def test_deleting_a_chunk_deletes_what_was_learned(store):
    """Deleting a chunk deletes its learned values and their history."""
    upsert(store, chunk("a", valid_until=5_000))
    store.clock.return_value = 2_000.0
    store.memory.feedback("a", "validate")
    upsert(store, chunk("a", valid_until=6_000))
    store.remove(["a"])
    with store._index.catalog.reading() as connection:
        for table in ("learned", "past_validity", "past_trust"):
            assert connection.execute(f"SELECT * FROM {table}").fetchall() == []
    upsert(store, "a")
    assert trust(store) == (None, None)


def test_missing_values_are_reported_and_repaired(folder):
    """check() reports chunks without memory values and values without a chunk, and repair() adds or deletes them."""
    with closing(opened(folder)) as store:
        upsert(store, chunk("a", confidence=0.7), "b")
    with closing(sqlite3.connect(folder / "catalogue.sqlite")) as connection, connection:
        connection.execute("DELETE FROM learned WHERE confidence = 0.7")
        connection.execute("INSERT INTO past_trust VALUES (99, 1.0, 0.5, 0.5)")
    with closing(opened(folder)) as store:
        assert len(store.admin.check().problems) >= 2
        assert store.admin.repair().ok
        assert (everywhere(store), trust(store)) == ({"a", "b"}, (0.7, None))


# -- sessions -----------------------------------------------------------------------------------------------------


def turns(store, session, n=9, **scope):
    return [turn.text for turn in store.sessions.turns(session, n, Scope(**scope))]


def test_turns_are_chunks(store):
    """A turn is a chunk whose metadata has its session, number, role, time and type, and is found by search."""
    ids = store.sessions.add_pairs("s", [("user", "which car"), ("Ada", "the roadster")], metadata={"topic": "cars"})
    assert ids == ["session:s#1", "session:s#2"]
    [first, second] = store.get(ids)
    place = {"session_id": "s", "turn": 1, "created_at": "1970-01-01T00:16:40Z"}
    assert dict(first.metadata) == {**place, "memory_type": "episodic", "topic": "cars", "role": "user"}
    assert (second.metadata["role"], second.document) == ("Ada", "session:s")
    assert ids_by_word(store, "roadster") == [ids[1]]
    state = store.memory.states(ids, Scope())[ids[0]]
    assert (state.memory_type, state.created_at) == ("episodic", 1_000.0)


def test_sessions_are_read_listed_and_deleted(store):
    """A session's newest n turns are returned by number, newest first; deleting it deletes its turns and no others."""
    assert implements(store, HasSessions)
    assert store.sessions.add_pairs("s", []) == []
    store.sessions.add_pairs("s", [("user", f"turn {n}") for n in range(250)])
    store.sessions.add_pairs("t", [("user", "other")])
    store.sessions.add_pairs("s", [("user", "turn 250")])
    newest = [f"turn {n}" for n in reversed(range(251))]
    assert [turns(store, "s", n) for n in (0, 2, 300)] == [[], newest[:2], newest]
    assert (store.sessions.counts(), store.admin.stats()["sessions"]) == ({"s": 251, "t": 1}, 2)
    assert (store.sessions.delete("s"), store.sessions.delete("s")) == (251, 0)
    assert (turns(store, "s"), turns(store, "t"), turns(store, "unknown")) == ([], ["other"], [])
    assert (store.sessions.counts(), len(store)) == ({"t": 1}, 1)


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
    store.clock.return_value = 2_000.0
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
        (("s", [("user", "t")]), {"ttl": 0}, "ttl .* must be a number > 0 and ≤ 3153600000, got 0"),
        (("s", [("user", "t")]), {"ttl": 1e30}, "≤ 3153600000, got 1e\\+30"),
        (("s", [("user", "t")]), {"created_at": "soon"}, "'soon' is not a time"),
    ],
)
def test_invalid_turns_are_refused(store, arguments, options, message):
    """Invalid turns raise a clear error and write nothing."""
    with pytest.raises(ValueError, match=message):
        store.sessions.add_pairs(*arguments, **options)
    assert len(store) == 0


def test_expired_chunks_are_deleted(store):
    """expire() deletes chunks after their valid_until or their session's ttl, and keeps all others.

    A superseded fact does not expire, so that searches in the past find it.
    """
    ends = {"over": 1_999, "still": 2_000, "plain": None, "old": None}
    store.upsert([Chunk(id, "t", {} if end is None else {"valid_until": end}) for id, end in ends.items()])
    store.memory.replace_fact("old", Chunk("new", "u"), 500.0)
    store.sessions.add_pairs("s", [("user", "one")], ttl=timedelta(seconds=60))
    store.clock.return_value = 2_000.0
    assert (store.memory.expire(), store.memory.expire()) == (2, 0)
    assert (set(store.find(Scope())), store.sessions.counts()) == ({"still", "plain", "old", "new"}, {})
