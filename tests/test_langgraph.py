"""LangGraph's store contract, compared with its InMemoryStore."""

import asyncio
import multiprocessing
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from langchain_hybridgraph import langgraph
from langchain_hybridgraph.errors import ConfigurationError, TenantError
from langchain_hybridgraph.langgraph import HybridGraphMemory
from langchain_hybridgraph.stores import catalog_writes
from tests.support.stores.words import Words

NOTES = ("ada", "notes")
labels = st.sampled_from(["ada", "bo", "notes", "1"])
namespaces = st.lists(labels, min_size=1, max_size=3).map(tuple)
keys = st.sampled_from(["a", "b", "c#1", "ä/ö"])
scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.sampled_from(["red", "blue"])
values = st.dictionaries(
    st.sampled_from(["text", "year", "tags"]),
    scalars | st.lists(scalars, max_size=2) | st.dictionaries(labels, scalars),
)
numbers = st.fixed_dictionaries({"year": st.integers(0, 4), "text": st.sampled_from(["red car", "blue boat", ""])})
operators = st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"])
comparisons = st.dictionaries(operators, st.integers(0, 4), min_size=1)
filters = st.none() | st.dictionaries(st.just("year"), comparisons | st.integers(0, 4), max_size=1)
paths = st.lists(labels | st.just("*"), min_size=1, max_size=2).map(tuple)
conditions = st.builds(MatchCondition, st.sampled_from(["prefix", "suffix"]), paths)
pages = {"limit": st.integers(0, 6), "offset": st.integers(0, 3)}
indexes = st.sampled_from([None, False, ["text"], ["year", "text"]])
puts = st.builds(PutOp, namespaces, keys, numbers | st.none(), index=indexes, ttl=st.none())
gets = st.builds(GetOp, namespaces, keys)
searches = st.builds(SearchOp, st.lists(labels, max_size=2).map(tuple), filters, query=st.none(), **pages)
lists = st.builds(
    ListNamespacesOp, st.none() | st.lists(conditions, max_size=2).map(tuple), st.none() | st.integers(1, 2), **pages
)
batches = st.lists(st.lists(puts | gets | searches | lists, min_size=1, max_size=4), max_size=6)


def facts(result):
    """Return what two stores must agree on: all but times and scores."""
    if isinstance(result, list):
        return [facts(each) for each in result]
    return (result.namespace, result.key, result.value) if hasattr(result, "key") else result


class Reference(InMemoryStore):
    """InMemoryStore without empty namespaces, which it lists even if they have only been read."""

    def batch(self, ops):
        ops = list(ops)
        results = [None if isinstance(op, PutOp) else self.run([op])[0] for op in ops]
        self.run([op for op in ops if isinstance(op, PutOp)])
        return results

    def run(self, ops):
        results = super().batch(ops)
        for namespace in [name for name, items in self._data.items() if not items]:
            del self._data[namespace]
        return results


@settings(max_examples=60, deadline=None)
@given(batches)
def test_results_equal_those_of_langgraph(batches):
    """Values, order and namespaces equal those of InMemoryStore after any batches of operations, also asynchronous."""
    reference, memory = Reference(), HybridGraphMemory(index={"embed": Words()})
    for batch in batches:
        assert facts(memory.batch(batch)) == facts(reference.batch(batch))
    everything = SearchOp((), limit=100)
    assert facts(asyncio.run(memory.abatch([everything]))) == facts(reference.batch([everything]))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.builds(PutOp, namespaces, keys, values, st.none(), ttl=st.none()), max_size=6))
def test_any_json_value_is_returned(puts):
    """Every JSON value is returned as it was put."""
    reference, memory = InMemoryStore(), HybridGraphMemory(index=False)
    for op in puts:
        for store in (reference, memory):
            store.batch([op])
        get = GetOp(op.namespace, op.key)
        assert facts(memory.batch([get])) == facts(reference.batch([get]))


TEXTS = ["red car", "blue car with a roof", "a boat on the lake in the rain", "tea and red wine", "rain rain rain"]


@pytest.mark.parametrize("page", [{}, {"limit": 2}, {"limit": 2, "offset": 1}])
@pytest.mark.parametrize("query", ["red car", "rain on the lake", "tea with a boat"])
def test_a_search_by_vector_alone_equals_langgraph(query, page):
    """With the vector search alone, items have the order of InMemoryStore; items without a text come last."""
    index = {"embed": Words(), "dims": 64, "fields": ["text", "more[*]"]}
    reference = InMemoryStore(index=index)
    memory = HybridGraphMemory(index={**index, "dims": None}, semantic_weight=1.0)
    for place, text in enumerate(TEXTS):
        more = [TEXTS[place - 1] + " parade"] if place % 2 else []
        for store in (reference, memory):
            store.put(NOTES, f"{place}", {"text": text, "more": more})
    for store in (reference, memory):
        store.put(NOTES, "none", {"year": 1})
    items = memory.search(("ada",), query=query, **page)
    assert facts(items) == facts(reference.search(("ada",), query=query, **page))
    assert len(items) == page.get("limit", 6)


def test_a_search_uses_words_too():
    """A code that the embedding does not know is found by keyword."""
    memory = HybridGraphMemory(index={"fields": ["text"]})
    for text in ("She drinks green tea.", "The plate of the car is HH-2041.", "A cat."):
        memory.put(NOTES, text, {"text": text})
    assert "HH-2041" in memory.search(NOTES, query="HH-2041", limit=1)[0].key


@pytest.mark.parametrize(
    ("query", "options", "expected"),
    [("zzz", {}, ["car", "tea", "cat", "none"]), ("tea", {"semantic_weight": 0.0}, ["tea", "car", "cat", "none"])],
)
def test_items_that_a_query_does_not_find_follow(query, options, expected):
    """They have the order of a search without a query and no score; items without an indexed text come last."""
    memory = HybridGraphMemory(index={"fields": ["text"]}, **options)
    memory.put(NOTES, "none", {"year": 1})
    for key, text in (("car", "Her roadster is red."), ("tea", "She drinks green tea."), ("cat", "A cat.")):
        memory.put(NOTES, key, {"text": text})
    items = memory.search(("ada",), query=query)
    assert [item.key for item in items] == expected
    assert [item.score is None for item in items] == [item.key != query for item in items]
    assert [memory.search(("ada",), query=query, limit=1, offset=place)[0].key for place in range(4)] == expected
    assert [item.key for item in memory.search((), query=query, filter={"text": "A cat."})] == ["cat"]


def test_a_filter_finds_items_far_down():
    """The page is full if enough items match, however far down they are."""
    memory = HybridGraphMemory(index={"fields": ["text"]})
    memory.batch([PutOp(NOTES, f"{n}", {"text": f"red car {n}", "late": n >= 297}) for n in range(300)])
    keys = [item.key for item in memory.search(NOTES, query="red car", filter={"late": True}, limit=3)]
    assert sorted(keys) == ["297", "298", "299"]


def test_a_replaced_item_is_found_by_its_new_texts_alone():
    """No text of an earlier value is found."""
    memory = HybridGraphMemory(index={"fields": ["texts[*]"]})
    memory.put(NOTES, "a", {"texts": ["a red car", "a boat", "a kite"]})
    memory.put(NOTES, "a", {"texts": ["green tea"]})
    assert [item.value for item in memory.search(NOTES, query="kite or tea")] == [{"texts": ["green tea"]}]
    assert len(memory.store) == 1
    memory.delete(NOTES, "a")
    assert len(memory.store) == 0


@pytest.fixture
def clock(monkeypatch):
    """Return a clock that the store reads; add minutes to it."""
    clock = SimpleNamespace(now=1_700_000_000.0)
    stopped = SimpleNamespace(time=lambda: clock.now, time_ns=lambda: int(clock.now * 1e9))
    monkeypatch.setattr("langchain_hybridgraph.langgraph.time", stopped)
    return clock


def test_an_item_expires(clock):
    """An item expires its time to live after it was last read or written."""
    memory = HybridGraphMemory(ttl={"default_ttl": 10})
    memory.put(NOTES, "short", {"text": "red car"})
    memory.put(NOTES, "long", {"text": "red car"}, ttl=None)
    clock.now += 9 * 60
    assert memory.get(NOTES, "short") is not None
    clock.now += 9 * 60
    assert memory.get(NOTES, "short", refresh_ttl=False) is not None
    clock.now += 60
    assert memory.get(NOTES, "short") is None
    assert [item.key for item in memory.search(NOTES, query="red car")] == ["long"]
    assert [item.key for item in memory.search(NOTES)] == ["long"]
    assert len(memory.store) == 2
    assert memory.sweep_ttl() == 1
    assert len(memory.store) == 1
    memory.put(NOTES, "long", {"text": "red car"}, ttl=0)
    assert memory.get(NOTES, "long") is None


def test_expired_items_are_swept_by_writes(clock):
    """A write deletes expired items, at most once in the interval; before that, they can be shown."""
    memory = HybridGraphMemory(ttl={"omit_expired": False, "sweep_interval_minutes": 60})
    memory.put(("ada",), "a", {"text": "tea"}, ttl=1)
    clock.now += 30 * 60
    memory.put(("bo",), "b", {"text": "tea"})
    assert memory.get(("ada",), "a", refresh_ttl=False) is not None
    assert memory.list_namespaces() == [("ada",), ("bo",)]
    clock.now += 30 * 60
    memory.put(("bo",), "b", {"text": "tea"})
    assert memory.list_namespaces() == [("bo",)]


def put_notes(path, name):
    """Put ten items into a folder."""
    with HybridGraphMemory(path) as memory:
        for place in range(10):
            memory.put(("notes", name), f"{place}", {"text": f"note {place} of {name}"})


def test_two_processes_and_a_restart(tmp_path):
    """Two processes write to one folder, and a third opens it later."""
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=put_notes, args=(tmp_path, name)) for name in ("ada", "bo")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    with HybridGraphMemory(tmp_path) as memory:
        assert len(memory.search(("notes",), limit=100)) == 20
        assert memory.search(("notes", "bo"), query="note 7")[0].value == {"text": "note 7 of bo"}


def test_tenants(tmp_path):
    """A tenant sees its own items only."""
    for tenant in ("ada", "bo"):
        with HybridGraphMemory(tmp_path, tenant=tenant) as memory:
            memory.put(NOTES, "car", {"text": f"the car of {tenant}"})
    with HybridGraphMemory(tmp_path, tenant="ada") as memory:
        assert [item.value["text"] for item in memory.search((), query="car of bo")] == ["the car of ada"]
    with pytest.raises(TenantError):
        HybridGraphMemory(tmp_path)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda memory: memory.put(NOTES, "a", "text"), ConfigurationError, "value must be a mapping, got 'text'"),
        (lambda memory: memory.put(NOTES, "a", {"text": {1, 2}}), ValueError, "the value of 'a' in .* must be JSON"),
        (lambda memory: memory.put(NOTES, "a", {"text": float("nan")}), ValueError, "must be JSON"),
        (lambda memory: memory.search(NOTES, filter={"a": {"$in": [1]}}), ValueError, r"'\$in' is not an operator"),
        (lambda memory: memory.search(("empty",), filter="a"), ConfigurationError, "filter must be a mapping, got 'a'"),
        (
            lambda _: HybridGraphMemory(ttl={"defalt_ttl": 1}),
            ConfigurationError,
            "ttl has no key 'defalt_ttl'; did you mean 'default_ttl'",
        ),
        (lambda _: HybridGraphMemory(ttl={"default_ttl": -1}), ValueError, r"'default_ttl'\] .* a number ≥ 0, got -1"),
        (lambda _: HybridGraphMemory(ttl="60"), ConfigurationError, "ttl must be a mapping, got '60'"),
        (lambda memory: memory.put(NOTES, "b", {}, ttl=-4), ValueError, "the ttl of 'b' in .* must be .* ≥ 0, got -4"),
        (lambda _: HybridGraphMemory(index={"dims": 3}), ConfigurationError, "is 3, .* as many numbers as its"),
        (
            lambda _: HybridGraphMemory(index={"dims": 3, "embed": Words()}),
            ConfigurationError,
            r"index\['dims'\] is 3, but the embedding returns 64; leave dims out",
        ),
        (
            lambda _: HybridGraphMemory(index={"embed": "lssa"}),
            ConfigurationError,
            r"neither a known name nor a function\): did you mean 'lsa'\? Write 'auto', 'lsa'",
        ),
    ],
)
def test_errors(call, error, message):
    """An error says what was passed and what is accepted."""
    memory = HybridGraphMemory()
    memory.put(NOTES, "b", {"a": 1})
    with pytest.raises(error, match=message):
        call(memory)
    assert [item.value for item in memory.search(NOTES)] == [{"a": 1}]


def test_a_batch_is_one_transaction(tmp_path, monkeypatch):
    """If the deletions of a batch fail, its other writes are not stored, and the other way round."""

    def fails(*arguments):
        raise OSError("no space left")

    with HybridGraphMemory(tmp_path) as memory:
        memory.put(NOTES, "old", {"text": "tea"})
        batch = [PutOp(NOTES, "new", {"text": "coffee"}), PutOp(NOTES, "old", None)]
        for name in ("delete_ids", "put_edges"):
            with monkeypatch.context() as patch:
                patch.setattr(catalog_writes, name, fails)
                with pytest.raises(OSError, match="no space left"):
                    memory.batch(batch)
            assert [item.key for item in memory.search(NOTES)] == ["old"]
        memory.batch(batch)
        assert [item.key for item in memory.search(NOTES)] == ["new"]


def test_embeddings_by_name():
    """The names that a HybridGraphStore accepts are accepted, too."""
    memory = HybridGraphMemory(index={"embed": "langchain_hybridgraph.embeddings.resolve:LSAEmbeddings"})
    assert type(memory.store.embeddings).__name__ == "LSAEmbeddings"


def test_a_provider_is_not_a_factory(monkeypatch, tmp_path):
    """A provider of LangChain is used, even if a package with the provider's name is installed."""
    (tmp_path / "ollama.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(langgraph.base, "ensure_embeddings", lambda embed: Words() if embed == "ollama:gemma" else None)
    assert isinstance(HybridGraphMemory(index={"embed": "ollama:gemma"}).store.embeddings, Words)
