"""Edges found by a language model."""

import re
import threading
from itertools import pairwise

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import AIMessage

from langchain_hybridgraph import HybridGraphStore, LLMEdges, ingest
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.ingestion.edges.base import as_builders
from langchain_hybridgraph.ingestion.edges.links import LinkEdges
from langchain_hybridgraph.ingestion.edges.llm import CACHE_FILE, windows
from tests.support.models.saying_model import SayingModel
from tests.support.servers.openai_server import OpenAIServer
from tests.support.stores.memory_store import MemoryStore
from tests.support.stores.store_contents import all_edges, changes, memory, pairs, rows_about

EMBEDDING = DeterministicFakeEmbedding(size=4)


class Reader(SayingModel):
    """Chat model whose ``answer`` receives the ids in the prompt."""

    windows: list = []  # noqa: RUF012 - pydantic copies it

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        ids = tuple(re.findall(r"^Passage (\S+):$", messages[-1].content, re.MULTILINE))
        self.windows.append(ids)
        return SayingModel(answer=self.answer(ids))._generate(messages, **kwargs)


def edge(source, target, relation="supports", weight=0.8, description="One backs the other."):
    return {"source": source, "target": target, "relation": relation, "weight": weight, "description": description}


def chain(ids):
    """Return an answer in which each passage supports the next one."""
    return {"edges": [edge(one, two) for one, two in pairwise(ids)]}


def reader(answer=chain):
    return Reader(answer=answer)


def document(name, n, text="text"):
    return [Chunk(f"{name}{i}", f"{text} {name}{i}", {"chunk_index": i}, name) for i in range(n)]


def ingest_with(llm, store, chunks, *, edges=None, **options):
    """Ingest without waiting between attempts, and return the report."""
    builder = LLMEdges(llm, backoff=0, **options) if edges is None else edges
    return ingest(chunks, store, split=None, edges=[builder])


@pytest.fixture
def store(tmp_path):
    with HybridGraphStore(tmp_path / "index", EMBEDDING) as store:
        yield store


# -- windows -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "size", "overlap", "ranges"),
    [
        (8, 5, 2, [(0, 5), (3, 8)]),
        (6, 5, 0, [(0, 5)]),
        (7, 5, 0, [(0, 5), (5, 7)]),
        (1, 5, 0, []),
        (0, 5, 0, []),
        (3, 2, 1, [(0, 2), (1, 3)]),
    ],
)
def test_pin_windows(n, size, overlap, ranges):
    """Windows advance by size - overlap; a window of one chunk or inside the previous window is not sent."""
    assert windows(n, size, overlap) == [range(*r) for r in ranges]


# -- answers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        edge("a0", "elsewhere"),
        edge("a0", "a0"),
        edge("a0", "a1", "adores"),
        edge("a0", "a1", weight=0),
        edge("a0", "a1", weight=1.5),
        edge("a0", "a1", weight=float("nan")),
        edge("a0", "a1", weight="high"),
        edge("a0", None),
        {"source": "a0"},
        "a0 supports a1",
        None,
    ],
)
def test_only_the_invalid_edge_is_dropped(store, wrong):
    """An invalid edge is dropped with a warning, and the other edges of the answer are kept."""
    report = ingest_with(reader(lambda ids: {"edges": [wrong, edge("a1", "a2")]}), store, document("a", 3))
    assert pairs(store) == {("a1", "a2")}
    (warning,) = report.warnings
    assert warning.startswith("dropped 1 edge of the language model with ")


@pytest.mark.parametrize(
    "broken",
    [
        TimeoutError("the model did not answer in 60 s"),
        AIMessage("I would rather talk about the weather."),
        {"edges": "none"},
        {"relations": []},
        {"edges": [{"from": "a0", "to": "a1"}, {"src": "a1"}]},
        {},
    ],
)
def test_a_failed_call_drops_its_window(store, broken, caplog):
    """After three failed or invalid answers a window is dropped, and a warning names it."""
    llm = reader(lambda ids: broken if ids[0] == "a0" else chain(ids))
    report = ingest_with(llm, store, [*document("a", 3), *document("b", 3)])
    assert pairs(store) == {("b0", "b1"), ("b1", "b2")}
    (warning,) = report.warnings
    assert "no usable answer on 1 of 2 windows, the first being a0 … a2" in warning
    assert llm.windows.count(("a0", "a1", "a2")) == 3
    assert "no edges were found for a0 … a2" in caplog.text


def test_attempts_and_workers(store):
    """The options workers and attempts set the numbers of concurrent windows and of attempts."""
    together, most = threading.Barrier(2), []
    running = []

    def answer(ids):
        running.append(ids)
        together.wait(120)  # returns only when two calls are running
        most.append(len(running))
        together.wait(120)
        running.remove(ids)
        return RuntimeError("503")

    llm = reader(answer)
    ingest_with(llm, store, [*document("a", 2), *document("b", 2)], workers=2, attempts=1)
    assert (len(llm.windows), most) == (2, [2, 2])


def test_the_prompt(store):
    """The prompt contains the relations with their meanings and the chunks with their ids; braces in a chunk are
    kept.
    """
    prompts = []

    class Listening(Reader):
        def _generate(self, messages, stop=None, run_manager=None, **kwargs):
            prompts.append(messages)
            assert "nostream" in run_manager.tags  # keeps LangGraph from streaming the answers to a user
            return super()._generate(messages, stop, run_manager, **kwargs)

    chunks = document("a", 2, text="{not a template}")
    ingest_with(Listening(answer=chain), store, chunks, relations={"praises": "the source speaks well of the target"})
    system, human = prompts[0]
    assert "- praises: the source speaks well of the target" in system.content
    assert "supports" not in system.content
    assert human.content == "Passage a0:\n{not a template} a0\n\nPassage a1:\n{not a template} a1"


# -- repeated ingests -------------------------------------------------------------------------------------------------


def test_a_second_ingest_sends_nothing(store, tmp_path):
    """Ingesting unchanged documents again calls no model and writes no row, unless edges were deleted."""
    ingest_with(reader(), store, document("a", 8))
    store.close()
    with HybridGraphStore(tmp_path / "index", EMBEDDING) as again:
        before, edges, llm = changes(again), all_edges(again), reader()
        ingest_with(llm, again, document("a", 8))
        assert (llm.windows, changes(again) - before, all_edges(again)) == ([], 0, edges)
        again.graph.prune(min_weight=0.9)
        ingest_with(llm, again, document("a", 8))
        assert (len(llm.windows), all_edges(again)) == (2, edges)


def failing_at(monkeypatch, nth):
    """Make the n-th write of edges and all later ones fail."""
    upsert, writings = HybridGraphStore.upsert, []

    def full(self, chunks, *, edges=(), **kwargs):
        writings.extend([1] * bool(edges))
        if len(writings) >= nth:
            raise OSError("the disk is full")
        return upsert(self, chunks, edges=edges, **kwargs)

    monkeypatch.setattr(HybridGraphStore, "upsert", full)


@pytest.mark.parametrize("nth", [1, 2, 5])
def test_a_crash_in_the_middle(store, monkeypatch, nth):
    """After a failed write, the next ingest sends only the windows without stored edges and ends with the same edges.

    A window is answered only once its edges are in the store.
    """
    failing_at(monkeypatch, nth)
    with pytest.raises(OSError, match="full"):
        ingest_with(reader(), store, document("a", 40))
    monkeypatch.undo()
    assert len(pairs(store)) == 4 * (nth - 1)
    llm = reader()
    ingest_with(llm, store, document("a", 40))
    assert len(llm.windows) == 8 - (nth - 1)
    assert pairs(store) == {(f"a{n}", f"a{n + 1}") for n in range(39) if n % 5 != 4}


def test_deleting_a_document_deletes_all_data_about_it(store, tmp_path):
    """Neither the catalog nor the ledger contains anything about a deleted chunk."""
    ingest_with(reader(), store, document("secret", 2))
    store.delete(document="secret")
    assert rows_about(store, "secret0") == 0
    assert pairs(store) == set()
    assert b"secret" not in (tmp_path / "index" / CACHE_FILE).read_bytes()
    assert store.admin.check().ok


# -- across documents --------------------------------------------------------------------------------------------------

LINES = {"a": "1 0 0", "b": "1 0.1 0", "c": "1 0.2 0", "d": "1 0.3 0", "e": "0 0 1"}


def lines(*names):
    return [Chunk(name, f"{LINES[name]} | {name}", {}, name) for name in names]


@pytest.fixture
def vectors():
    return memory()


def test_windows_and_pairs_together(vectors):
    """Chunks of one document are sent as windows and chunks of two documents as pairs; batch_size=1 sends only
    pairs.
    """
    chunks = [Chunk(f"a{n}", f"1 {n / 10} 0 | a", {"chunk_index": n}, "a") for n in range(3)] + lines("b")
    llm = reader()
    ingest_with(llm, vectors, chunks, edges=LLMEdges(llm).across_documents())
    assert sorted(llm.windows) == [("a0", "a1", "a2"), ("a0", "b"), ("a1", "b"), ("a2", "b")]
    only = reader()
    ingest_with(only, vectors, chunks, edges=LLMEdges(only, batch_size=1).across_documents())
    assert sorted(only.windows) == [("a0", "b"), ("a1", "b"), ("a2", "b")]


def test_a_new_document_is_paired_with_older_ones(vectors):
    """Only pairs with a new chunk are sent, and the edges of older pairs are kept."""
    llm = reader()
    builder = LLMEdges(llm).across_documents()
    ingest_with(llm, vectors, lines("a", "b"), edges=builder)
    ingest_with(llm, vectors, lines("c"), edges=builder)
    assert sorted(llm.windows) == [("a", "b"), ("a", "c"), ("b", "c")]
    assert pairs(vectors) == {("a", "b"), ("a", "c"), ("b", "c")}
    ingest_with(llm, vectors, lines("c"), edges=builder)
    assert len(llm.windows) == 3


def test_pairs_need_vectors():
    """A store without vectors raises ConfigurationError before anything is written."""
    store = MemoryStore()
    with pytest.raises(ConfigurationError, match="vectors"):
        ingest_with(None, store, lines("a"), edges=LLMEdges(reader()).across_documents())
    assert store.chunks == {}


# -- with other builders ----------------------------------------------------------------------------------------


def test_relations_of_other_builders_are_left_to_them(store):
    """Together with LinkEdges, the default relations exclude ``references``, and requesting it raises
    ConfigurationError.
    """
    alone, llm = LLMEdges(reader()), LLMEdges(reader())
    assert "references" in alone.relations
    assert as_builders([alone, "sequence"])[0] is alone  # nothing is excluded, so the object itself is used
    with_links = as_builders([llm, LinkEdges()])[0]
    assert "references" not in with_links.relations
    assert "supports" in with_links.relations
    with pytest.raises(ConfigurationError, match="references"):
        as_builders([LLMEdges(reader(), relations=["references"]), LinkEdges()])


def test_unusable_settings():
    """Options out of range and objects that are not models raise ConfigurationError at construction."""
    for bad in ({"batch_size": 0}, {"overlap": 5}, {"overlap": 0.5}, {"workers": 0}, {"attempts": 0}, {"backoff": -1}):
        with pytest.raises(ConfigurationError, match=next(iter(bad))):
            LLMEdges(reader(), **bad)
    with pytest.raises(ConfigurationError, match="LLMEdges needs a chat model, got"):
        LLMEdges(object())
    for wrong in ({"similarity_threshold": 0}, {"max_pairs_per_chunk": 0}):
        with pytest.raises(ConfigurationError, match=next(iter(wrong))):
            LLMEdges(reader()).across_documents(**wrong)


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("method", [None, "function_calling", "json_mode"])
def test_edges_over_http(store, method, streaming):
    """The model's edge is stored for every method of structured output, with and without streaming."""
    with OpenAIServer({"edges": [edge("a1", "a0")]}) as server:
        report = ingest_with(server.chat_model(streaming=streaming), store, document("a", 2), method=method)
        assert ("tools" in server.requests[0]) == (method == "function_calling")
        assert (pairs(store), report.warnings) == ({("a1", "a0")}, ())
        prompt = server.requests[0]["messages"][-1]["content"]
        assert re.findall(r"^Passage (\w+):$", prompt, re.MULTILINE) == ["a0", "a1"]
