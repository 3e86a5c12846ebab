"""The test suite for stores.

A new engine is proved by a class of a few lines in a test file:

    class TestMyStore(StoreSuite):
        @pytest.fixture
        def store(self):
            return MyStore(embedding=self.embedding)

A store that lacks a feature of ``stores.features`` declares that in its attribute ``lacks``, and the suite skips the
tests of the feature; a protocol that is missing without a declaration fails. Needs pytest.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, Protocol, cast

import numpy as np
import pytest

from langchain_hybridgraph.errors import TenantError
from langchain_hybridgraph.filters import parse_filter
from langchain_hybridgraph.records import Chunk, Edge, EdgeFilter, Query, Scope
from langchain_hybridgraph.stores.features import wrong_declarations
from langchain_hybridgraph.stores.protocols import (
    AcceptsChunks,
    HasGraph,
    HasMemory,
    HasParents,
    HasSessions,
    HasVectors,
    ReadsChunks,
    ReadsIndex,
    SearchesKeywords,
    SearchesVectors,
)

BEGIN, END = datetime(2020, 1, 1, tzinfo=UTC).timestamp(), datetime(2021, 1, 1, tzinfo=UTC).timestamp()
SECOND = 1.0

CHUNKS = (
    Chunk("cat", "the cat sat on the mat", {"topic": "animals", "year": 2020, "labels": ["pet", "small"]}),
    Chunk("dog", "the dog chased the cat", {"topic": "animals", "year": 2021}, "zoo", "pets"),
    Chunk("owl", "an owl hunts at night", {"topic": "animals", "year": 2022, "nested": {"wild": True}}, "zoo", "birds"),
    Chunk("bond", "the bond pays interest", {"topic": "money", "year": 2021, "source": "bank.md"}),
    Chunk("old", "the cat of last year", {"valid_from": "2020-01-01T00:00:00Z", "valid_until": "2021-01-01T00:00:00Z"}),
)
PARENTS = (
    Chunk("pets", "cats and dogs live with people", {"topic": "parents"}, "zoo"),
    Chunk("birds", "birds fly", {"valid_until": "2021-01-01T00:00:00Z"}, "zoo"),
)
EDGES = (
    Edge("cat", "dog", "fears", 0.8),
    Edge("cat", "bond", "owns", 0.5),
    Edge("cat", "old", "was", 0.9, valid_until="2021-01-01T00:00:00Z"),
    Edge("owl", "cat", "watches", 0.7),
)
ODD_TEXTS = ("", " ", "?!", 'C++ AND (" OR *', '"cat', "cat AND", "a:b^2 [x TO y]", "\0", "~", "cat " * 20_000)
ANIMALS = parse_filter({"topic": "animals"})


class HashedWords:
    """An embedding for tests: each word counts at one of 64 places, the same in every process.

    Texts that share words are near to each other; an empty text has a vector of zeros. ``texts`` lists what was
    embedded as a document, in order.

    >>> one, other = HashedWords().embed_documents(["a cat", "cat a"])
    >>> one == other, len(one)
    (True, 64)
    """

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector per text."""
        self.texts += texts
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """The vector of a text."""
        vector = [0.0] * 64
        for word in text.lower().split():
            vector[zlib.crc32(word.encode("utf-8", "replace")) % 64] += 1.0
        return vector


class Engine(
    ReadsChunks,
    SearchesVectors,
    SearchesKeywords,
    HasParents,
    HasVectors,
    HasMemory,
    HasSessions,
    HasGraph,
    ReadsIndex,
    AcceptsChunks,
    Protocol,
):
    """All that a store may be able to do."""


class StoreSuite:
    """The promises of every store, as tests. Subclass it and define the fixture ``store``, returning an empty store.

    ``embedding`` has to be the store's embedding. A store that is not filled by ``upsert`` overrides :meth:`fill`. One
    with tenants overrides the fixture ``open_tenant``, one for several processes ``open_again``.
    """

    embedding = HashedWords()

    @pytest.fixture
    def store(self) -> Any:
        """The store to prove, empty."""
        raise NotImplementedError("give the suite a fixture named store")

    @pytest.fixture
    def open_tenant(self, store: Any) -> Callable[[str], AbstractContextManager[Any]]:
        """Function that opens one place for a tenant; one store is open at a time."""
        self._having("tenants", store)
        raise NotImplementedError("override the fixture open_tenant, or declare that the store lacks 'tenants'")

    @pytest.fixture
    def open_again(self, store: Any) -> Callable[[], AbstractContextManager[Any]]:
        """Function that opens the place of ``store`` once more, as another process would."""
        self._having("several processes", store)
        raise NotImplementedError("override open_again, or declare that the store lacks 'several processes'")

    @pytest.fixture
    def filled(self, store: Any) -> Engine:
        """The store with ``CHUNKS`` and ``PARENTS`` in it."""
        self.fill(store, CHUNKS, PARENTS)
        return cast(Engine, store)

    def fill(self, store: Any, chunks: Sequence[Chunk], parents: Sequence[Chunk] = ()) -> None:
        """Write chunks and parents so that searches find them."""
        store.upsert(chunks, parents=parents)
        store.flush()

    # -- features -------------------------------------------------------------------------------------------

    def test_features_are_declared(self, store: Any) -> None:
        """The store has every feature except those that it declares to lack."""
        assert wrong_declarations(store) == []

    # -- ReadsChunks ----------------------------------------------------------------------------------------------

    def test_reads_chunks_as_they_were_written(self, filled: Engine) -> None:
        """Text, metadata, document and parent come back."""
        read = self._read(filled, [chunk.id for chunk in CHUNKS])
        assert read.keys() == {chunk.id for chunk in CHUNKS}
        for chunk in CHUNKS:
            found = read[chunk.id]
            assert (found.id, found.text, dict(found.metadata)) == (chunk.id, chunk.text, dict(chunk.metadata))
            assert (found.document, found.parent) == (chunk.document, chunk.parent)

    def test_reads_only_what_exists(self, filled: Engine) -> None:
        """Unknown ids are absent, and an empty list requests nothing."""
        assert self._read(filled, ["cat", "unknown", "ca", ""]).keys() == {"cat"}
        assert self._read(filled, []) == {}

    def test_reads_nothing_from_an_empty_store(self, store: Any) -> None:
        """An empty store has no chunks, which is not an error."""
        assert self._read(store, ["cat"]) == {}

    def test_reads_within_the_filter(self, filled: Engine) -> None:
        """Chunks that the filter does not accept are absent."""
        assert self._read(filled, ["cat", "bond"], Scope(ANIMALS)).keys() == {"cat"}

    def test_reads_what_is_valid(self, filled: Engine) -> None:
        """Validity includes both its ends; before, after, and for another time the chunk does not exist."""
        for time, is_valid in (
            (BEGIN - SECOND, False),
            (BEGIN, True),
            (END, True),
            (END + SECOND, False),
            (None, True),
        ):
            assert ("old" in self._read(filled, ["old"], Scope(as_of=time))) == is_valid, time

    def test_changes_to_read_metadata_stay_outside(self, filled: Engine) -> None:
        """Changing a copy of the metadata, also inside, changes nothing in the store."""
        taken = dict(self._read(filled, ["cat"])["cat"].metadata)
        taken["labels"].append("changed")
        assert self._read(filled, ["cat"])["cat"].metadata["labels"] == ["pet", "small"]

    def test_refuses_another_tenant(self, filled: Engine) -> None:
        """A call for another tenant than the store's raises."""
        with pytest.raises(TenantError):
            self._read(filled, ["cat"], Scope(tenant="somebody else"))

    # -- SearchesVectors --------------------------------------------------------------------------------------

    def test_vector_search_ranks_by_cosine(self, filled: Engine) -> None:
        """The nearest chunks come first, with their cosines, ties by id."""
        store = self._having("vectors", filled)
        found = store.vector_search(Query("the cat", 10), 10).entries
        cosines = self._cosines("the cat")
        expected = sorted(cosines, key=lambda id: (-round(cosines[id], 5), id))
        assert [entry.id for entry in found] == expected
        assert [entry.score for entry in found] == pytest.approx([cosines[id] for id in expected], abs=1e-5)

    def test_vector_search_by_a_vector(self, filled: Engine) -> None:
        """A given vector is searched for as it is, whatever its length; the text is not needed."""
        store = self._having("vectors", filled)
        vector = 5 * np.array(self.embedding.embed_query("an owl hunts at night"), np.float32)
        found = store.vector_search(Query(None, 1, vector=vector), 1)
        assert [entry.id for entry in found.entries] == ["owl"]
        assert found.entries[0].score == pytest.approx(1, abs=1e-5)

    def test_vector_search_tells_its_vector(self, filled: Engine) -> None:
        """The vector that was searched for comes back with length 1, or not at all."""
        vector = self._having("vectors", filled).vector_search(Query("the cat", 1), 1).vector
        if vector is not None:
            assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)

    def test_vector_search_gives_no_more_than_asked(self, filled: Engine) -> None:
        """n hits at most, none for 0, all for more than there are."""
        store = self._having("vectors", filled)
        assert [len(store.vector_search(Query("cat", n), n).entries) for n in (0, 1, 3, 1000)] == [0, 1, 3, len(CHUNKS)]

    def test_vector_search_for_less_is_the_head_of_more(self, filled: Engine) -> None:
        """The best n are the head of the best m."""
        store = self._having("vectors", filled)
        most = [entry.id for entry in store.vector_search(Query("the cat", 5), 5).entries]
        for n in range(1, 5):
            assert [entry.id for entry in store.vector_search(Query("the cat", n), n).entries] == most[:n]

    def test_vector_search_stays_in_scope(self, filled: Engine) -> None:
        """Filter and time hold for every hit and use up no place."""
        store = self._having("vectors", filled)
        query = Query("the cat", 3, Scope(ANIMALS, as_of=END + SECOND))
        assert {entry.id for entry in store.vector_search(query, 3).entries} == {"cat", "dog", "owl"}

    def test_vector_search_in_an_empty_store(self, store: Any) -> None:
        """Nothing is found, and that is not an error."""
        assert list(self._having("vectors", store).vector_search(Query("cat", 3), 3).entries) == []

    def test_vector_scores_are_cosines(self, filled: Engine) -> None:
        """Each known chunk gets its cosine, unknown ones are left out."""
        store = self._having("vectors", filled)
        vector = store.vector_search(Query("the cat", 1), 1).vector
        if vector is None:
            pytest.skip("the store does not tell the vector")
        scores = store.vector_scores(vector, ["bond", "cat", "unknown"])
        cosines = self._cosines("the cat")
        assert scores == pytest.approx({"bond": cosines["bond"], "cat": cosines["cat"]}, abs=1e-5)

    # -- SearchesKeywords -------------------------------------------------------------------------------------

    def test_keyword_search_finds_words(self, filled: Engine) -> None:
        """Chunks with the words come back, best first, with scores above 0."""
        found = self._having("keywords", filled).keyword_search(Query("night owl", 5), 5).entries
        assert [entry.id for entry in found] == ["owl"]
        assert found[0].score > 0

    def test_keyword_search_asks_for_any_word(self, filled: Engine) -> None:
        """A question does not require all of its words; the chunk with more of them ranks higher."""
        found = self._having("keywords", filled).keyword_search(Query("does a dog chase any cat", 5), 5).entries
        assert found[0].id == "dog"
        assert {"cat", "old"} <= {entry.id for entry in found}

    @pytest.mark.parametrize("text", ODD_TEXTS)
    def test_keyword_search_takes_any_text(self, filled: Engine, text: str) -> None:
        """Punctuation and operators are not syntax."""
        found = self._having("keywords", filled).keyword_search(Query(text, 5), 5).entries
        assert ("cat" in {entry.id for entry in found}) == ("cat" in text)

    def test_keyword_search_stays_in_scope(self, filled: Engine) -> None:
        """Filter and time hold for every hit and use up no place."""
        query = Query("cat interest", 2, Scope(ANIMALS, as_of=END + SECOND))
        found = self._having("keywords", filled).keyword_search(query, 2).entries
        assert {entry.id for entry in found} == {"cat", "dog"}

    def test_keyword_search_for_less_is_the_head_of_more(self, filled: Engine) -> None:
        """The best n are the head of the best m, and 0 asks for nothing."""
        store = self._having("keywords", filled)
        most = [entry.id for entry in store.keyword_search(Query("the cat sat", 9), 9).entries]
        for n in range(4):
            assert [entry.id for entry in store.keyword_search(Query("the cat sat", n), n).entries] == most[:n]

    def test_keyword_search_in_an_empty_store(self, store: Any) -> None:
        """Nothing is found, and that is not an error."""
        assert list(self._having("keywords", store).keyword_search(Query("cat", 3), 3).entries) == []

    def test_keyword_scores_are_those_of_the_search(self, filled: Engine) -> None:
        """A chunk has the same score whether it was found or requested; one that shares no word is left out."""
        store = self._having("keywords", filled)
        found = {entry.id: entry.score for entry in store.keyword_search(Query("cat mat", 5), 5).entries}
        assert store.keyword_scores("cat mat", [*(chunk.id for chunk in CHUNKS), "unknown"]) == pytest.approx(found)

    def test_no_keyword_score_exceeds_the_bound(self, filled: Engine) -> None:
        """The bound is the largest score that any text could reach."""
        found = self._having("keywords", filled).keyword_search(Query("cat mat", 5), 5)
        assert found.bound is None or found.bound >= max(entry.score for entry in found.entries)

    # -- HasParents -------------------------------------------------------------------------------------------

    def test_knows_whether_there_are_parents(self, store: Any) -> None:
        """No parents in an empty store, some after they were written."""
        self._having("parents", store)
        assert not store.has_parents
        self.fill(store, CHUNKS, PARENTS)
        assert store.has_parents

    def test_reads_parents(self, filled: Engine) -> None:
        """Parents come by their ids, unknown ones are absent."""
        found = self._having("parents", filled).read_parents(["pets", "unknown"], Scope())
        assert {id: chunk.text for id, chunk in found.items()} == {"pets": PARENTS[0].text}

    def test_the_filter_judges_children_only(self, filled: Engine) -> None:
        """A parent is read whatever the filter says about its own metadata."""
        assert "pets" in self._having("parents", filled).read_parents(["pets"], Scope(ANIMALS))

    def test_parents_have_their_time(self, filled: Engine) -> None:
        """A parent that is over does not exist."""
        store = self._having("parents", filled)
        assert "birds" in store.read_parents(["birds"], Scope(as_of=END))
        assert store.read_parents(["birds"], Scope(as_of=END + SECOND)) == {}

    def test_parents_are_not_found(self, filled: Engine) -> None:
        """Searches find chunks, never parents."""
        for search in ("vector_search", "keyword_search"):
            if hasattr(filled, search):
                found = getattr(filled, search)(Query(PARENTS[0].text, 10), 10).entries
                assert {entry.id for entry in found} <= {chunk.id for chunk in CHUNKS}

    # -- HasGraph ---------------------------------------------------------------------------------------------

    def test_a_store_without_edges_says_so(self, filled: Engine) -> None:
        """There is a graph from the first edge on."""
        store = self._having("edges", filled)
        assert not store.has_graph
        store.upsert([], edges=EDGES)
        assert store.has_graph

    @pytest.mark.parametrize(
        ("edge_filter", "scope", "neighbours"),
        [
            (EdgeFilter(), Scope(), {"dog", "bond", "old"}),
            (EdgeFilter("in"), Scope(), {"owl"}),
            (EdgeFilter("both"), Scope(), {"dog", "bond", "old", "owl"}),
            (EdgeFilter(relations=frozenset({"fears"})), Scope(), {"dog"}),
            (EdgeFilter(min_weight=0.6), Scope(), {"dog", "old"}),
            (EdgeFilter(), Scope(ANIMALS), {"dog"}),
            (EdgeFilter(), Scope(as_of=END + SECOND), {"dog", "bond"}),
        ],
        ids=["out", "in", "both", "relation", "weight", "filter", "time"],
    )
    def test_a_graph_has_the_edges_in_scope(
        self, filled: Engine, edge_filter: EdgeFilter, scope: Scope, neighbours: set[str]
    ) -> None:
        """Direction, relation, weight, filter and time decide which edges exist for a call."""
        self._having("edges", filled).upsert([], edges=EDGES)
        graph = filled.scoped_graph(scope, edge_filter)
        assert set(graph.ids(graph.neighbours(graph.nodes(["cat"])).node)) == neighbours

    def test_chunks_that_share_an_entity_are_neighbours(self, filled: Engine) -> None:
        """Two mentions of one entity are one hop; the entity is not a chunk."""
        mentions = [Edge("cat", "entity:Tom", "mentions", 0.5), Edge("owl", "entity:Tom", "mentions", 0.8)]
        self._having("edges", filled).upsert([], edges=mentions)
        graph = filled.scoped_graph(Scope(), EdgeFilter())
        assert graph.has_entities
        hops = graph.neighbours(graph.nodes(["cat"]))
        assert graph.ids(hops.node) == ["owl"]
        assert graph.ids(hops.via) == ["entity:Tom"]
        assert hops.weight.tolist() == pytest.approx([0.4])
        assert graph.edges([("cat", "owl")]) == [tuple(mentions)]

    def test_the_heavier_of_two_equal_edges_stays(self, filled: Engine) -> None:
        """Edges are unique by source, target and relation; the heaviest keeps its description."""
        store = self._having("edges", filled)
        for weight in (0.5, 0.9, 0.7):
            store.upsert([], edges=[Edge("cat", "dog", "fears", weight, f"weight {weight}")])
        assert [(edge.weight, edge.description) for edge in store.edges(["cat"])] == [(0.9, "weight 0.9")]

    def test_edges_go_with_their_chunks(self, filled: Engine) -> None:
        """Deleting a chunk deletes the edges from it and to it."""
        store = self._having("edges", filled)
        store.upsert([], edges=EDGES)
        assert {edge.source for edge in store.edges(["cat"], backwards=True)} == {"owl"}
        store.remove(["dog", "owl"])
        assert {edge.target for edge in store.edges(["cat"])} == {"bond", "old"}
        assert store.edges(["cat"], backwards=True) == []

    # -- HasVectors -----------------------------------------------------------------------------------------

    def test_gives_vectors_in_the_order_asked(self, filled: Engine) -> None:
        """One unit vector per id, the same id twice too, zeros for an unknown one."""
        vectors = self._having("diversity", filled).vectors(["owl", "unknown", "cat", "owl"])
        assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 0, 1, 1], abs=1e-5)
        assert vectors[0].tolist() == vectors[3].tolist()
        wanted = np.array(self.embedding.embed_query(CHUNKS[0].text), np.float32)
        assert float(vectors[2] @ wanted / np.linalg.norm(wanted)) == pytest.approx(1, abs=1e-5)

    def test_gives_no_vectors_for_no_ids(self, filled: Engine) -> None:
        """No ids, no rows."""
        assert len(self._having("diversity", filled).vectors([])) == 0

    # -- AcceptsChunks ------------------------------------------------------------------------------------------

    def test_put_tells_new_changed_and_unchanged_apart(self, filled: Engine) -> None:
        """The counts say what happened: nothing the second time, one of each kind after changes."""
        store = self._having("writing", filled)
        again = store.upsert(CHUNKS, parents=PARENTS)
        assert dict(again) == {"added": 0, "updated": 0, "unchanged": len(CHUNKS) + len(PARENTS), "embedded": 0}
        batch = [Chunk("cat", "another text"), Chunk("bond", CHUNKS[3].text, {"topic": "finance"}), Chunk("new", "x")]
        assert dict(store.upsert(batch)) == {"added": 1, "updated": 2, "unchanged": 0, "embedded": 2}

    def test_a_changed_chunk_replaces_the_old_one(self, filled: Engine) -> None:
        """After an update the new text is found and the old one nowhere."""
        self._having("writing", filled).upsert([Chunk("owl", "a zebra at noon")])
        filled.flush()
        assert self._read(filled, ["owl"])["owl"].text == "a zebra at noon"
        if isinstance(filled, SearchesKeywords):
            assert [e.id for e in filled.keyword_search(Query("zebra", 9), 9).entries] == ["owl"]
            assert not filled.keyword_search(Query("night", 9), 9).entries
        if isinstance(filled, SearchesVectors):
            found = filled.vector_search(Query("an owl hunts at night", 99), 99).entries
            assert [e.id for e in found].count("owl") == 1
            assert {e.id: e.score for e in found}["owl"] < 0.9

    def test_the_last_of_equal_ids_counts(self, store: Any) -> None:
        """A batch may hold an id twice."""
        self._having("writing", store)
        self.fill(store, [Chunk("a", "first"), Chunk("b", "other"), Chunk("a", "last")])
        assert {id: chunk.text for id, chunk in self._read(store, ["a", "b"]).items()} == {"a": "last", "b": "other"}

    def test_remove_takes_all_of_a_chunk(self, filled: Engine) -> None:
        """A removed chunk is neither read nor found; the count is that of the chunks that existed."""
        store = self._having("writing", filled)
        assert store.remove(["owl", "cat", "unknown", "owl"]) == 2
        assert store.remove(["owl"]) == 0
        filled.flush()
        assert self._read(filled, ["owl", "cat", "dog"]).keys() == {"dog"}
        for search in ("vector_search", "keyword_search"):
            if hasattr(filled, search):
                found = getattr(filled, search)(Query("owl cat dog", 9), 9).entries
                assert not {"owl", "cat"} & {entry.id for entry in found}

    def test_a_removed_id_may_come_again(self, filled: Engine) -> None:
        """Removing and writing again gives the new chunk, once."""
        store = self._having("writing", filled)
        store.remove(["owl"])
        self.fill(filled, [Chunk("owl", "an owl hunts at night")])
        if isinstance(filled, SearchesKeywords):
            assert [e.id for e in filled.keyword_search(Query("owl", 9), 9).entries] == ["owl"]
        assert "owl" in self._read(filled, ["owl"])

    def test_a_parent_goes_with_its_last_child(self, store: Any) -> None:
        """Parents stay as long as they have a child."""
        self._having("writing", store)
        self._having("parents", store)
        children = [Chunk(id, f"child {id}", {}, "doc", "parent") for id in ("one", "two")]
        self.fill(store, children, [Chunk("parent", "whole", {}, "doc")])
        store.remove(["one"])
        assert "parent" in store.read_parents(["parent"], Scope())
        store.remove(["two"])
        assert store.read_parents(["parent"], Scope()) == {}
        assert store.document_chunks(["doc"]) == {"doc": set()}

    def test_lists_what_a_document_has(self, filled: Engine) -> None:
        """Chunks and parents of each document; an unknown document has none."""
        found = self._having("writing", filled).document_chunks(["zoo", "bank.md", "cat", "unknown"])
        expected = {"zoo": {"dog", "owl", "pets", "birds"}, "bank.md": {"bond"}, "cat": {"cat"}, "unknown": set()}
        assert {document: set(ids) for document, ids in found.items()} == expected

    def test_replace_edges_counts_distinct_edges(self, filled: Engine) -> None:
        """Edges are unique on source, target and relation."""
        store = self._having("writing", filled)
        edges = [Edge("cat", "dog", "fears", 0.5), Edge("cat", "dog", "fears", 0.9), Edge("cat", "dog", "knows")]
        assert store.replace_edges(["cat"], ["fears", "knows"], edges) == 2
        assert store.replace_edges(["cat"], ["fears", "knows"], []) == 0

    def test_a_batch_may_be_larger_than_an_engine_likes(self, store: Any) -> None:
        """6,000 chunks in one call are taken and found."""
        self._having("writing", store)
        self.fill(store, [Chunk(f"c{n}", f"number{n} of many") for n in range(6_000)])
        assert self._read(store, ["c0", "c5999", "c6000"]).keys() == {"c0", "c5999"}
        if isinstance(store, SearchesKeywords):
            assert [e.id for e in store.keyword_search(Query("number5999", 9), 9).entries] == ["c5999"]

    def test_a_bad_batch_writes_nothing(self, store: Any) -> None:
        """Metadata that JSON cannot hold raises, and the good chunks of the same batch are not there either."""
        self._having("writing", store)
        with pytest.raises(TypeError):
            store.upsert([Chunk("good", "good text"), Chunk("bad", "bad text", {"key": object()})])
        store.flush()
        assert self._read(store, ["good", "bad"]) == {}

    # -- HasMemory, HasSessions -------------------------------------------------------------------------------

    def test_knows_of_chunks_what_their_metadata_give(self, store: Any) -> None:
        """Unset is None and not 0, unusable values are unset, unknown chunks are absent."""
        self._having("memory", store)
        given = {"confidence": 0, "utility": 7, "memory_type": "semantic", "valid_from": "2020-01-01T00:00:00Z"}
        self.fill(store, [Chunk("a", "apple", given), Chunk("b", "banana")])
        found = store.memory.states(["a", "b", "c"], Scope())
        assert found.keys() == {"a", "b"}
        assert (found["a"].confidence, found["a"].utility, found["a"].memory_type) == (0.0, None, "semantic")
        assert (found["a"].valid_from, found["b"].valid_from, found["b"].active_count) == (BEGIN, None, 0)

    def test_later_knowledge_is_invisible(self, filled: Engine) -> None:
        """As of a time before the first write, no path finds anything."""
        store, before = self._having("memory", filled), Scope(known_at=BEGIN)
        assert (store.memory.states(["cat"], before), self._read(store, ["cat"], before)) == ({}, {})
        assert not store.vector_search(Query("the cat", 9, before), 9).entries
        assert not store.keyword_search(Query("the cat", 9, before), 9).entries

    def test_tells_the_last_turns_of_a_session(self, store: Any) -> None:
        """The newest first, those in scope only; [] for an unknown session."""
        self._having("sessions", store)
        turns = [Chunk(f"t{n}", f"turn {n}", {"session_id": "s", "turn": n, "odd": n % 2}) for n in range(12)]
        self.fill(store, [*turns, Chunk("other", "turn", {"session_id": "t", "turn": 99})])
        assert [turn.id for turn in store.sessions.turns("s", 3, Scope())] == ["t11", "t10", "t9"]
        assert [turn.id for turn in store.sessions.turns("s", 2, Scope(parse_filter({"odd": 0})))] == ["t10", "t8"]
        assert store.sessions.turns("unknown", 3, Scope()) == []

    # -- memory verbs -----------------------------------------------------------------------------------------

    def test_feedback_is_remembered(self, filled: Engine) -> None:
        """A refuted memory is hardly believed any more."""
        memory: Any = self._having("memory verbs", filled).memory
        memory.feedback(["cat"], "refute")
        assert memory.states(["cat"], Scope())["cat"].confidence == pytest.approx(0.05)

    def test_a_retracted_memory_is_gone(self, filled: Engine) -> None:
        """A retracted chunk is neither read nor found."""
        memory: Any = self._having("memory verbs", filled).memory
        memory.retract(["owl"])
        assert self._read(filled, ["owl", "cat"]).keys() == {"cat"}
        assert "owl" not in {entry.id for entry in filled.vector_search(Query("an owl", 9), 9).entries}
        assert "owl" not in {entry.id for entry in filled.keyword_search(Query("an owl", 9), 9).entries}

    # -- several writers --------------------------------------------------------------------------------------

    def test_several_writers_lose_nothing(
        self, store: Any, open_again: Callable[[], AbstractContextManager[Any]]
    ) -> None:
        """Stores that are open on one place at once keep all that each of them writes."""

        def write(number: int) -> None:
            with open_again() as other:
                for place in range(3):
                    other.upsert([Chunk(f"{number}-{place}", f"text {number} {place}"), Chunk("shared", "one of many")])

        with ThreadPoolExecutor(3) as writers:
            list(writers.map(write, range(3)))
        store.flush()
        ids = {f"{number}-{place}" for number in range(3) for place in range(3)} | {"shared"}
        assert self._read(store, sorted(ids)).keys() == ids
        if isinstance(store, SearchesVectors):
            assert {entry.id for entry in store.vector_search(Query("text one of many", 99), 99).entries} == ids

    # -- tenants ----------------------------------------------------------------------------------------------

    def test_tenants_do_not_see_each_other(self, open_tenant: Callable[[str], AbstractContextManager[Any]]) -> None:
        """Equal ids in two tenants are different chunks, on every path."""
        chunks = [Chunk("a", "apple pie", {}, "doc", "p"), Chunk("b", "banana")]
        with open_tenant("one") as store:
            self.fill(store, chunks, [Chunk("p", "the whole", {}, "doc")])
        with open_tenant("two") as store:
            self.fill(store, [Chunk("a", "avocado pie", {}, "doc")])
            self._check_second_tenant(store)
        with open_tenant("one") as store:
            assert {id: chunk.text for id, chunk in self._read(store, ["a", "b"]).items()} == {
                "a": "apple pie",
                "b": "banana",
            }

    def _check_second_tenant(self, store: Any) -> None:
        assert {id: chunk.text for id, chunk in self._read(store, ["a", "b"]).items()} == {"a": "avocado pie"}
        if isinstance(store, SearchesVectors):
            assert [e.id for e in store.vector_search(Query("apple pie banana", 9), 9).entries] == ["a"]
        if isinstance(store, SearchesKeywords):
            assert not store.keyword_search(Query("apple banana", 9), 9).entries
        if isinstance(store, HasParents):
            assert not store.has_parents
            assert store.read_parents(["p"], Scope()) == {}
        if isinstance(store, HasVectors):
            assert not store.vectors(["b"]).any()
        if isinstance(store, HasMemory):
            assert store.memory.states(["a", "b"], Scope()).keys() == {"a"}
        if isinstance(store, AcceptsChunks):
            assert store.document_chunks(["doc"]) == {"doc": {"a"}}
            assert store.remove(["a", "b", "p"]) == 1

    # -- helpers ----------------------------------------------------------------------------------------------

    def _read(self, store: ReadsChunks, ids: Sequence[str], scope: Scope | None = None) -> dict[str, Chunk]:
        return store.read(ids, scope or Scope(), {chunk.id: chunk for chunk in CHUNKS})

    def _having(self, feature: str, store: Any) -> Engine:
        """Return the store; skip the test if the store declares that it lacks the feature."""
        lacks: Mapping[str, str] = getattr(store, "lacks", {})
        if feature in lacks:
            pytest.skip(f"{type(store).__name__} lacks {feature}: {lacks[feature]}")
        return cast(Engine, store)

    def _cosines(self, text: str) -> dict[str, float]:
        texts = [text, *(chunk.text for chunk in CHUNKS)]
        vectors = np.array([self.embedding.embed_query(each) for each in texts])
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return dict(zip((chunk.id for chunk in CHUNKS), (vectors[1:] @ vectors[0]).tolist(), strict=True))
