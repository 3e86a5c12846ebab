"""Any sequence of writes, reads, reopenings and repairs agrees with a dictionary."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.records import Edge, Query, Scope
from tests.support.stores.words import open_words

IDS = st.sampled_from([f"id{n}" for n in range(6)])
TEXTS = st.lists(st.sampled_from(["boiler", "rose", "ferry", "choir", "compost"]), min_size=1, max_size=4).map(" ".join)


class StoreMachine(RuleBasedStateMachine):
    """A store in a folder, with two handles that write in turn, and its expected texts and edges."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.stores = [open_words(self.folder / "index"), open_words(self.folder / "index")]
        self.texts, self.edges = {}, set()

    @rule(texts=st.dictionaries(IDS, TEXTS, min_size=1), handle=st.integers(0, 1))
    def upsert(self, texts, handle):
        self.stores[handle].upsert([Chunk(id, text) for id, text in texts.items()])
        self.texts |= texts

    @rule(ids=st.lists(IDS, max_size=4), handle=st.integers(0, 1))
    def remove(self, ids, handle):
        assert self.stores[handle].remove(ids) == len(self.texts.keys() & set(ids))
        self.texts = {id: text for id, text in self.texts.items() if id not in ids}
        self.edges = {edge for edge in self.edges if not set(edge) & set(ids)}

    @precondition(lambda self: len(self.texts) > 1)
    @rule(data=st.data(), handle=st.integers(0, 1))
    def connect(self, data, handle):
        pair = data.draw(st.permutations(sorted(self.texts)))[:2]
        self.stores[handle].upsert([], edges=[Edge(*pair, "cites")])
        self.edges.add(tuple(pair))

    @rule(handle=st.integers(0, 1))
    def reopen(self, handle):
        self.stores[handle].close()
        self.stores[handle] = open_words(self.folder / "index")

    @rule(handle=st.integers(0, 1))
    def flush(self, handle):
        self.stores[handle].flush()

    @rule(handle=st.integers(0, 1))
    def repair(self, handle):
        self.stores[handle].admin.repair()

    @rule(word=st.sampled_from(["boiler", "rose", "ferry"]), handle=st.integers(0, 1))
    def search(self, word, handle):
        store = self.stores[handle]
        store.flush()
        ids = store.keyword_search(Query(word, 10), 10).ids
        assert set(ids) == {id for id, text in self.texts.items() if word in text.split()}

    @invariant()
    def both_handles_see_the_same(self):
        for store in self.stores:
            assert {chunk.id: chunk.text for chunk in store.get([f"id{n}" for n in range(6)])} == self.texts
            assert set(store.find(Scope())) == self.texts.keys()

    def teardown(self):
        assert self.stores[0].admin.check().problems == ()
        for store in self.stores:
            store.close()
        with open_words(self.folder / "index") as store:
            assert {(edge.source, edge.target) for edge in store.edges(sorted(self.texts))} == self.edges
        shutil.rmtree(self.folder)


@pytest.mark.parametrize(
    ("examples", "steps"), [(5, 12), pytest.param(300, 40, marks=pytest.mark.faults)], ids=["short", "long"]
)
def test_a_store_agrees_with_a_dictionary(examples, steps):
    """Both handles of a folder return the expected texts after every step, and check finds no problem at the end."""
    run_state_machine_as_test(
        StoreMachine,
        settings=settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
