"""Tests of memories and sessions."""

from __future__ import annotations

from typing import Any

import pytest

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.filters.expressions import parse_filter
from langchain_hybridgraph.records import Query, Scope
from langchain_hybridgraph.testing.base import FullStore, StoreTests
from langchain_hybridgraph.testing.samples import BEGIN


class MemoryTests(StoreTests):
    """Tests of memories and sessions."""

    def test_states_come_from_metadata(self, store: Any) -> None:
        """A missing or invalid value is None, but a missing ``active_count`` is 0. Unknown chunks are left out."""
        self._require("memory", store)
        metadata = {"confidence": 0, "utility": 7, "memory_type": "semantic", "valid_from": "2020-01-01T00:00:00Z"}
        self.fill(store, [Chunk("a", "apple", metadata), Chunk("b", "banana")])
        states = store.memory.states(["a", "b", "c"], Scope())
        assert states.keys() == {"a", "b"}
        assert (states["a"].confidence, states["a"].utility, states["a"].memory_type) == (0.0, None, "semantic")
        assert (states["a"].valid_from, states["b"].valid_from, states["b"].active_count) == (BEGIN, None, 0)

    def test_known_at_hides_later_writes(self, full_store: FullStore) -> None:
        """With a ``known_at`` before the first write, nothing is read or found."""
        store, before = self._require("memory", full_store), Scope(known_at=BEGIN)
        assert (store.memory.states(["cat"], before), self._read(store, ["cat"], before)) == ({}, {})
        assert not store.vector_search(Query("the cat", 9, before), 9).entries
        assert not store.keyword_search(Query("the cat", 9, before), 9).entries

    def test_turns_of_a_session_are_newest_first(self, store: Any) -> None:
        """Only turns in scope are returned, newest first; an unknown session has no turns."""
        self._require("sessions", store)
        turns = [Chunk(f"t{n}", f"turn {n}", {"session_id": "s", "turn": n, "odd": n % 2}) for n in range(12)]
        self.fill(store, [*turns, Chunk("other", "turn", {"session_id": "t", "turn": 99})])
        assert [turn.id for turn in store.sessions.turns("s", 3, Scope())] == ["t11", "t10", "t9"]
        assert [turn.id for turn in store.sessions.turns("s", 2, Scope(parse_filter({"odd": 0})))] == ["t10", "t8"]
        assert store.sessions.turns("unknown", 3, Scope()) == []

    def test_a_refuted_memory_loses_its_confidence(self, full_store: FullStore) -> None:
        """Refuting a memory sets its confidence to 0.05."""
        memory: Any = self._require("memory updates", full_store).memory
        memory.feedback(["cat"], "refute")
        assert memory.states(["cat"], Scope())["cat"].confidence == pytest.approx(0.05)

    def test_a_retracted_memory_is_gone(self, full_store: FullStore) -> None:
        """A retracted chunk is neither read nor found."""
        memory: Any = self._require("memory updates", full_store).memory
        memory.retract(["owl"])
        assert self._read(full_store, ["owl", "cat"]).keys() == {"cat"}
        assert "owl" not in {entry.id for entry in full_store.vector_search(Query("an owl", 9), 9).entries}
        assert "owl" not in {entry.id for entry in full_store.keyword_search(Query("an owl", 9), 9).entries}
