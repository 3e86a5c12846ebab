"""Test suite for stores.

To test a store, subclass the suite in a test file:

    class TestMyStore(StoreSuite):
        @pytest.fixture
        def store(self):
            return MyStore(embedding=self.embedding)

If a store lacks some of the features in docs/feature_table.py, its attribute ``lacks`` must map the name of each to the
reason. Their tests are skipped. The store must implement the protocols of all other features, and none of those it
lacks.
"""

import zlib
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import numpy as np
import pytest

from docs.feature_table import FEATURES
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import TenantError
from langchain_hybridgraph.filters.expressions import parse_filter
from langchain_hybridgraph.records import Edge, EdgeFilter, Query, Scope
from langchain_hybridgraph.stores import protocols


class HashedWords:
    """An embedding for tests, which counts the words of a text in 64 dimensions, by the same hash in every process.

    ``texts`` lists the embedded documents, in order. The vector of an empty text contains only zeros.

    >>> one, other = HashedWords().embed_documents(["a cat", "cat a"])
    >>> one == other, len(one)
    (True, 64)
    """

    name = "hashed words"

    def __init__(self):
        self.texts = []

    def embed_documents(self, texts):
        """Return one vector per text."""
        self.texts += texts
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text):
        """Return the vector of a text."""
        vector = [0.0] * 64
        for word in text.lower().split():
            vector[zlib.crc32(word.encode("utf-8", "replace")) % 64] += 1.0
        return vector


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
ANIMALS = parse_filter({"topic": "animals"})


# Unusual texts that every keyword search must accept.
ODD_TEXTS = ("", " ", "?!", 'C++ AND (" OR *', '"cat', "cat AND", "a:b^2 [x TO y]", "\0", "~", "cat " * 20_000)
SEARCHES = {"vectors": "vector_search", "keywords": "keyword_search"}


class StoreSuite:
    """Tests that every store must pass.

    A subclass sets ``embedding`` to the store's, and defines the fixture ``store``, which returns an empty one. If
    necessary, override :meth:`fill`, ``open_tenant`` (for tenants) and ``open_again`` (for several processes).
    """

    embedding = HashedWords()

    @pytest.fixture
    def store(self):
        """Return the empty store to test."""
        raise NotImplementedError("override the fixture store, which returns the empty store to test")

    @pytest.fixture
    def open_tenant(self, store):
        """Return a function from a tenant to a context manager that opens the store; only one is open at a time."""
        self._require("tenants", store)
        raise NotImplementedError("override the fixture open_tenant, or declare that the store lacks 'tenants'")

    @pytest.fixture
    def open_again(self, store):
        """Return a function that opens ``store`` again, as another process would, and returns a context manager."""
        self._require("several processes", store)
        raise NotImplementedError("override open_again, or declare that the store lacks 'several processes'")

    @pytest.fixture
    def full_store(self, store):
        """Return the store with ``CHUNKS`` and ``PARENTS`` in it."""
        self.fill(store, CHUNKS, PARENTS)
        return store

    def fill(self, store, chunks, parents=()):
        """Write chunks and parents, and make them visible to searches."""
        store.upsert(chunks, parents=parents)
        store.flush()

    def _read(self, store, ids, scope=None):
        return store.read(ids, scope or Scope(), {chunk.id: chunk for chunk in CHUNKS})

    def _ids(self, store, text, n, scope=None):
        """Return the ids that any of the store's searches finds."""
        searches = (getattr(store, name, None) for name in ("vector_search", "keyword_search"))
        query = Query(text, n, scope or Scope())
        return {id for search in searches if search for id in search(query, n).ids}

    def _require(self, feature, store):
        """Return the store; skip the test if the store declares that it lacks the feature."""
        lacks = getattr(store, "lacks", {})
        if feature in lacks:
            pytest.skip(f"{type(store).__name__} lacks {feature}: {lacks[feature]}")
        return store

    def _cosines(self, text):
        texts = [text, *(chunk.text for chunk in CHUNKS)]
        vectors = np.array([self.embedding.embed_query(each) for each in texts])
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return dict(zip((chunk.id for chunk in CHUNKS), (vectors[1:] @ vectors[0]).tolist(), strict=True))

    # -- reading chunks, parents and vectors ------------------------------------------------------------

    def test_features_are_declared(self, store):
        """The store implements the protocols of all features except those that it declares in ``lacks``."""
        lacks = getattr(store, "lacks", {})
        assert lacks.keys() <= {feature.name for feature in FEATURES}
        for name, _, protocol in FEATURES:
            if protocol is not None:
                assert protocols.implements(store, protocol) is (name not in lacks), name

    def test_reads_chunks_as_they_were_written(self, full_store):
        """Text, metadata, document and parent are returned unchanged."""
        read = self._read(full_store, [chunk.id for chunk in CHUNKS])
        assert read.keys() == {chunk.id for chunk in CHUNKS}
        for chunk in CHUNKS:
            returned = read[chunk.id]
            assert (returned.id, returned.text, dict(returned.metadata)) == (chunk.id, chunk.text, dict(chunk.metadata))
            assert (returned.document, returned.parent) == (chunk.document, chunk.parent)

    def test_reading_omits_unknown_ids(self, full_store):
        """Unknown ids, and chunks that do not match the filter, are left out; an empty list of ids gives no chunks."""
        assert self._read(full_store, ["cat", "unknown", "ca", ""]).keys() == {"cat"}
        assert self._read(full_store, ["cat", "bond"], Scope(ANIMALS)).keys() == {"cat"}
        assert self._read(full_store, []) == {}

    def test_an_empty_store_returns_nothing(self, store):
        """Reading and searching an empty store return nothing and raise no error."""
        assert self._read(store, ["cat"]) == {}
        assert not self._ids(store, "cat", 3)

    def test_reading_checks_validity(self, full_store):
        """A chunk is returned from its first to its last valid second. It is also returned if no time is given."""
        times = {BEGIN - SECOND: False, BEGIN: True, END: True, END + SECOND: False, None: True}
        for time, is_valid in times.items():
            assert ("old" in self._read(full_store, ["old"], Scope(as_of=time))) == is_valid, time

    def test_changing_returned_metadata_does_not_change_the_store(self, full_store):
        """Changing a value in returned metadata, even a nested value, does not change the stored chunk."""
        metadata = dict(self._read(full_store, ["cat"])["cat"].metadata)
        metadata["labels"].append("changed")
        assert self._read(full_store, ["cat"])["cat"].metadata["labels"] == ["pet", "small"]

    def test_a_call_for_another_tenant_raises(self, full_store):
        """A scope with a tenant other than the store's raises TenantError."""
        with pytest.raises(TenantError):
            self._read(full_store, ["cat"], Scope(tenant="somebody else"))

    def test_reads_parents(self, store):
        """Parents, which may be chunks, are read by id, whatever the filter; an empty store has none."""
        self._require("parents", store)
        assert not store.has_parents
        self.fill(store, CHUNKS, PARENTS)
        assert store.has_parents
        parents = store.read_parents(["pets", "unknown"], Scope(ANIMALS))
        assert {id: chunk.text for id, chunk in parents.items()} == {"pets": PARENTS[0].text}
        assert "birds" in store.read_parents(["birds"], Scope(as_of=END))
        assert store.read_parents(["birds"], Scope(as_of=END + SECOND)) == {}
        self.fill(store, [Chunk("kitten", "a small cat", {"parent_id": "cat"})])
        assert store.read_parents(["cat"], Scope())["cat"].text == CHUNKS[0].text

    def test_searches_do_not_return_parents(self, full_store):
        """Searches return only chunks, even for the text of a parent."""
        assert self._ids(full_store, PARENTS[0].text, 10) <= {chunk.id for chunk in CHUNKS}

    def test_vectors_are_in_the_order_of_the_ids(self, full_store):
        """There is one unit vector per id, even for a repeated id, and a row of zeros for an unknown id."""
        vectors = self._require("diversity", full_store).vectors(["owl", "unknown", "cat", "owl"])
        assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 0, 1, 1], abs=1e-5)
        assert vectors[0].tolist() == vectors[3].tolist()
        expected = np.array(self.embedding.embed_query(CHUNKS[0].text), np.float32)
        assert float(vectors[2] @ expected / np.linalg.norm(expected)) == pytest.approx(1, abs=1e-5)
        assert len(full_store.vectors([])) == 0

    # -- searches ------------------------------------------------------------

    def test_vector_search_ranks_by_cosine(self, full_store):
        """The nearest chunks come first, each with its cosine; chunks with equal cosines are ordered by id."""
        store = self._require("vectors", full_store)
        scores = store.vector_search(Query("the cat", 10), 10).scores
        cosines = self._cosines("the cat")
        expected = sorted(cosines, key=lambda id: (-round(cosines[id], 5), id))
        assert list(scores) == expected
        assert scores == pytest.approx({id: cosines[id] for id in expected}, abs=1e-5)

    def test_vector_search_by_a_vector(self, full_store):
        """A query may consist of a vector without text, of any length; a vector in the result has length 1."""
        store = self._require("vectors", full_store)
        vector = 5 * np.array(self.embedding.embed_query("an owl hunts at night"), np.float32)
        result = store.vector_search(Query(None, 1, vector=vector), 1)
        assert list(result.ids) == ["owl"]
        assert result.scores["owl"] == pytest.approx(1, abs=1e-5)
        assert result.vector is None or np.linalg.norm(result.vector) == pytest.approx(1, abs=1e-5)

    @pytest.mark.parametrize(("feature", "ids"), [("vectors", {"cat", "dog", "owl"}), ("keywords", {"cat", "dog"})])
    def test_a_search_stays_in_scope(self, full_store, feature, ids):
        """Every hit matches the filter and the time, and chunks that do not match take up none of the n results."""
        search = getattr(self._require(feature, full_store), SEARCHES[feature])
        query = Query("the cat interest", len(ids), Scope(ANIMALS, as_of=END + SECOND))
        assert set(search(query, len(ids)).ids) == ids

    def test_vector_scores_are_cosines(self, full_store):
        """Each stored chunk gets its cosine; unknown ids are left out."""
        store = self._require("vectors", full_store)
        vector = store.vector_search(Query("the cat", 1), 1).vector
        if vector is None:
            pytest.skip("the store does not return the vector")
        scores = store.vector_scores(vector, ["bond", "cat", "unknown"])
        cosines = self._cosines("the cat")
        assert scores == pytest.approx({"bond": cosines["bond"], "cat": cosines["cat"]}, abs=1e-5)

    def test_keyword_search_finds_words(self, full_store):
        """Chunks with a word of the query are returned; those with more of the words come first."""
        store = self._require("keywords", full_store)
        result = store.keyword_search(Query("night owl", 5), 5)
        assert list(result.ids) == ["owl"]
        assert result.scores["owl"] > 0
        ids = store.keyword_search(Query("does a dog chase any cat", 5), 5).ids
        assert ids[0] == "dog"
        assert {"cat", "old"} <= set(ids)

    @pytest.mark.parametrize("text", ODD_TEXTS)
    def test_keyword_search_accepts_any_text(self, full_store, text):
        """Punctuation and operators in a query are treated as plain text."""
        ids = self._require("keywords", full_store).keyword_search(Query(text, 5), 5).ids
        assert ("cat" in ids) == ("cat" in text)

    @pytest.mark.parametrize("feature", SEARCHES)
    def test_a_search_for_fewer_hits_returns_the_best_ones(self, full_store, feature):
        """A search for fewer hits returns the first hits of a search for more; a search for 0 hits returns none."""
        search = getattr(self._require(feature, full_store), SEARCHES[feature])
        best = list(search(Query("the cat sat", 1000), 1000).ids)
        assert len(best) == len(CHUNKS) if feature == "vectors" else len(best) >= 3
        for n in range(len(best) + 1):
            assert list(search(Query("the cat sat", n), n).ids) == best[:n]

    def test_keyword_scores_are_those_of_the_search(self, full_store):
        """A search and ``keyword_scores`` give a chunk the same score, at most the bound in the search's result."""
        store = self._require("keywords", full_store)
        result = store.keyword_search(Query("cat mat", 5), 5)
        hits = dict(result.scores)
        assert {"cat", "dog"} <= hits.keys()
        assert store.keyword_scores("cat mat", [*(chunk.id for chunk in CHUNKS), "unknown"]) == pytest.approx(hits)
        assert result.bound is None or result.bound >= max(hits.values())

    # -- edges and the graph that they form ------------------------------------------------------------

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
    def test_a_graph_has_the_edges_in_scope(self, full_store, edge_filter, scope, neighbours):
        """Edges are restricted by direction, relation, weight, filter and time."""
        store = self._require("edges", full_store)
        assert not store.has_graph
        store.upsert([], edges=EDGES)
        assert store.has_graph
        graph = full_store.scoped_graph(scope, edge_filter)
        assert set(graph.ids(graph.neighbours(graph.nodes(["cat"])).node)) == neighbours

    def test_chunks_that_share_an_entity_are_neighbours(self, full_store):
        """Two chunks that mention the same entity are one hop apart; the entity itself is not a neighbour."""
        mentions = [Edge("cat", "entity:Tom", "mentions", 0.5), Edge("owl", "entity:Tom", "mentions", 0.8)]
        self._require("edges", full_store).upsert([], edges=mentions)
        graph = full_store.scoped_graph(Scope(), EdgeFilter())
        assert graph.has_entities
        hops = graph.neighbours(graph.nodes(["cat"]))
        assert graph.ids(hops.node) == ["owl"]
        assert graph.ids(hops.via) == ["entity:Tom"]
        assert hops.weight.tolist() == pytest.approx([0.4])
        assert graph.edges([("cat", "owl")]) == [tuple(mentions)]

    def test_the_heavier_of_two_equal_edges_is_kept(self, full_store):
        """If several edges have the same source, target and relation, the heaviest is kept, with its description."""
        store = self._require("edges", full_store)
        for weight in (0.5, 0.9, 0.7):
            store.upsert([], edges=[Edge("cat", "dog", "fears", weight, f"weight {weight}")])
        assert [(edge.weight, edge.description) for edge in store.edges(["cat"])] == [(0.9, "weight 0.9")]
        edges = [Edge("cat", "dog", "fears", 0.5), Edge("cat", "dog", "fears", 0.9), Edge("cat", "dog", "knows")]
        assert store.replace_edges(["cat"], ["fears", "knows"], edges) == 2
        assert store.replace_edges(["cat"], ["fears", "knows"], []) == 0

    def test_removing_a_chunk_removes_its_edges(self, full_store):
        """Edges from and to a removed chunk are removed."""
        store = self._require("edges", full_store)
        store.upsert([], edges=EDGES)
        assert {edge.source for edge in store.edges(["cat"], backwards=True)} == {"owl"}
        store.remove(["dog", "owl"])
        assert {edge.target for edge in store.edges(["cat"])} == {"bond", "old"}
        assert store.edges(["cat"], backwards=True) == []

    # -- writing and deleting chunks ------------------------------------------------------------

    def test_upsert_counts_new_changed_and_unchanged_chunks(self, full_store):
        """Writing the same batch again changes nothing; a chunk is embedded again only if its text has changed."""
        store = self._require("writing", full_store)
        again = store.upsert(CHUNKS, parents=PARENTS)
        assert dict(again) == {"added": 0, "updated": 0, "unchanged": len(CHUNKS) + len(PARENTS), "embedded": 0}
        batch = [Chunk("cat", "another text"), Chunk("bond", CHUNKS[3].text, {"topic": "finance"}), Chunk("new", "x")]
        assert dict(store.upsert(batch)) == {"added": 1, "updated": 2, "unchanged": 0, "embedded": 2}

    def test_a_changed_chunk_replaces_the_old_one(self, full_store):
        """After an update, only the new text is found."""
        self._require("writing", full_store).upsert([Chunk("owl", "a zebra at noon")])
        full_store.flush()
        assert self._read(full_store, ["owl"])["owl"].text == "a zebra at noon"
        if isinstance(full_store, protocols.SearchesKeywords):
            assert list(full_store.keyword_search(Query("zebra", 9), 9).ids) == ["owl"]
            assert not full_store.keyword_search(Query("night", 9), 9).ids
        if isinstance(full_store, protocols.SearchesVectors):
            result = full_store.vector_search(Query("an owl hunts at night", 99), 99)
            assert result.scores["owl"] < 0.9

    def test_the_last_chunk_with_an_id_counts(self, store):
        """If a batch has two chunks with the same id, the last one is stored."""
        self._require("writing", store)
        self.fill(store, [Chunk("a", "first"), Chunk("b", "other"), Chunk("a", "last")])
        assert {id: chunk.text for id, chunk in self._read(store, ["a", "b"]).items()} == {"a": "last", "b": "other"}

    def test_a_removed_chunk_is_gone(self, full_store):
        """A removed chunk is neither read nor found until it is added again; ``remove`` counts chunks that existed."""
        store = self._require("writing", full_store)
        assert store.remove(["owl", "cat", "unknown", "owl"]) == 2
        assert store.remove(["owl"]) == 0
        full_store.flush()
        assert self._read(full_store, ["owl", "cat", "dog"]).keys() == {"dog"}
        assert not {"owl", "cat"} & self._ids(full_store, "owl cat dog", 9)
        self.fill(full_store, [Chunk("owl", "an owl hunts at night")])
        if isinstance(full_store, protocols.SearchesKeywords):
            assert list(full_store.keyword_search(Query("owl", 9), 9).ids) == ["owl"]
        assert "owl" in self._read(full_store, ["owl"])

    def test_a_parent_is_removed_with_its_last_child(self, store):
        """A parent is kept as long as it has a child."""
        self._require("writing", store)
        self._require("parents", store)
        children = [Chunk(id, f"child {id}", {}, "doc", "parent") for id in ("one", "two")]
        self.fill(store, children, [Chunk("parent", "whole", {}, "doc")])
        store.remove(["one"])
        assert "parent" in store.read_parents(["parent"], Scope())
        store.remove(["two"])
        assert store.read_parents(["parent"], Scope()) == {}
        assert store.document_chunks(["doc"]) == {"doc": set()}

    def test_document_chunks_lists_chunks_and_parents(self, full_store):
        """Each document's chunks and parents are listed; an unknown document has none."""
        ids_by_document = self._require("writing", full_store).document_chunks(["zoo", "bank.md", "cat", "unknown"])
        expected = {"zoo": {"dog", "owl", "pets", "birds"}, "bank.md": {"bond"}, "cat": {"cat"}, "unknown": set()}
        assert {document: set(ids) for document, ids in ids_by_document.items()} == expected

    def test_a_batch_may_be_large(self, store):
        """6,000 chunks, more than some engines accept in one request, can be written in one call."""
        self._require("writing", store)
        self.fill(store, [Chunk(f"c{n}", f"number{n} of many") for n in range(6_000)])
        assert self._read(store, ["c0", "c5999", "c6000"]).keys() == {"c0", "c5999"}
        if isinstance(store, protocols.SearchesKeywords):
            assert list(store.keyword_search(Query("number5999", 9), 9).ids) == ["c5999"]

    def test_a_bad_batch_writes_nothing(self, store):
        """Metadata that cannot be stored as JSON raises TypeError, and no other chunk of the batch is written."""
        self._require("writing", store)
        with pytest.raises(TypeError):
            store.upsert([Chunk("good", "good text"), Chunk("bad", "bad text", {"key": object()})])
        store.flush()
        assert self._read(store, ["good", "bad"]) == {}

    def test_several_writers_lose_nothing(self, store, open_again):
        """If several stores are open at the same location, everything that each of them writes is kept."""

        def write(number):
            with open_again() as other:
                for place in range(3):
                    other.upsert([Chunk(f"{number}-{place}", f"text {number} {place}"), Chunk("shared", "one of many")])

        with ThreadPoolExecutor(3) as writers:
            list(writers.map(write, range(3)))
        store.flush()
        ids = {f"{number}-{place}" for number in range(3) for place in range(3)} | {"shared"}
        assert self._read(store, sorted(ids)).keys() == ids
        if isinstance(store, protocols.SearchesVectors):
            assert set(store.vector_search(Query("text one of many", 99), 99).ids) == ids

    # -- memories and sessions ------------------------------------------------------------

    def test_states_come_from_metadata(self, store):
        """A missing or invalid value is None, but a missing ``active_count`` is 0. Unknown chunks are left out."""
        self._require("memory", store)
        metadata = {"confidence": 0, "utility": 7, "memory_type": "semantic", "valid_from": "2020-01-01T00:00:00Z"}
        self.fill(store, [Chunk("a", "apple", metadata), Chunk("b", "banana")])
        states = store.memory.states(["a", "b", "c"], Scope())
        assert states.keys() == {"a", "b"}
        assert (states["a"].confidence, states["a"].utility, states["a"].memory_type) == (0.0, None, "semantic")
        assert (states["a"].valid_from, states["b"].valid_from, states["b"].active_count) == (BEGIN, None, 0)

    def test_known_at_hides_later_writes(self, full_store):
        """With a ``known_at`` before the first write, nothing is read or found."""
        store, before = self._require("memory", full_store), Scope(known_at=BEGIN)
        assert (store.memory.states(["cat"], before), self._read(store, ["cat"], before)) == ({}, {})
        assert not self._ids(store, "the cat", 9, before)

    def test_turns_of_a_session_are_newest_first(self, store):
        """Only turns in scope are returned, newest first; an unknown session has no turns."""
        self._require("sessions", store)
        turns = [Chunk(f"t{n}", f"turn {n}", {"session_id": "s", "turn": n, "odd": n % 2}) for n in range(12)]
        self.fill(store, [*turns, Chunk("other", "turn", {"session_id": "t", "turn": 99})])
        assert [turn.id for turn in store.sessions.turns("s", 3, Scope())] == ["t11", "t10", "t9"]
        assert [turn.id for turn in store.sessions.turns("s", 2, Scope(parse_filter({"odd": 0})))] == ["t10", "t8"]
        assert store.sessions.turns("unknown", 3, Scope()) == []

    def test_memories_are_refuted_and_retracted(self, full_store):
        """Refuting a memory sets its confidence to 0.05; a retracted one is neither read nor found."""
        memory = self._require("memory updates", full_store).memory
        memory.feedback(["cat"], "refute")
        assert memory.states(["cat"], Scope())["cat"].confidence == pytest.approx(0.05)
        memory.retract(["owl"])
        assert self._read(full_store, ["owl", "cat"]).keys() == {"cat"}
        assert "owl" not in self._ids(full_store, "an owl", 9)

    # -- a store with several tenants ------------------------------------------------------------

    def test_tenants_are_separate(self, open_tenant):
        """Chunks with the same id in two tenants are independent, no matter which method returns them."""
        chunks = [Chunk("a", "apple pie", {}, "doc", "p"), Chunk("b", "banana")]
        with open_tenant("one") as store:
            self.fill(store, chunks, [Chunk("p", "the whole", {}, "doc")])
        with open_tenant("two") as store:
            self.fill(store, [Chunk("a", "avocado pie", {}, "doc")])
            self._check_second_tenant(store)
        with open_tenant("one") as store:
            texts = {id: chunk.text for id, chunk in self._read(store, ["a", "b"]).items()}
            assert texts == {"a": "apple pie", "b": "banana"}

    def _check_second_tenant(self, store):
        assert {id: chunk.text for id, chunk in self._read(store, ["a", "b"]).items()} == {"a": "avocado pie"}
        if isinstance(store, protocols.SearchesVectors):
            assert list(store.vector_search(Query("apple pie banana", 9), 9).ids) == ["a"]
        if isinstance(store, protocols.SearchesKeywords):
            assert not store.keyword_search(Query("apple banana", 9), 9).ids
        if isinstance(store, protocols.HasParents):
            assert not store.has_parents
            assert store.read_parents(["p"], Scope()) == {}
        if isinstance(store, protocols.HasVectors):
            assert not store.vectors(["b"]).any()
        if isinstance(store, protocols.HasMemory):
            assert store.memory.states(["a", "b"], Scope()).keys() == {"a"}
        if isinstance(store, protocols.AcceptsChunks):
            assert store.document_chunks(["doc"]) == {"doc": {"a"}}
            assert store.remove(["a", "b", "p"]) == 1
