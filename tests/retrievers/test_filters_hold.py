"""Every text that leaves a retriever is in the scope of the call, on every store."""

import itertools
import json
import random
import re
from contextlib import ExitStack

import pytest
from langchain_core.documents import Document

from langchain_hybridgraph import (
    GraphRetriever,
    HierarchicalRetriever,
    HybridGraphStore,
    HybridRetriever,
    MemoryRetriever,
)
from langchain_hybridgraph.chunks import Chunk, to_json
from langchain_hybridgraph.ingestion.summaries import build_layers
from langchain_hybridgraph.llama_index import LlamaIndexRetriever
from langchain_hybridgraph.records import Edge
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from langchain_hybridgraph.times import parse_time
from tests.support.samples.clock import PATIENCE
from tests.support.stores.document_stores import FOREIGN
from tests.support.stores.words import Words

WORDS = ("boiler", "grinder", "roses", "compost", "ferry", "visa", "drummer", "choir")
TIMES = [f"20{year}-06-01T12:00:00Z" for year in range(20, 26)]
# Filters, each with an independent function that evaluates it.
FILTERS = [
    (None, lambda m: True),
    ({"owner": "ada"}, lambda m: m.get("owner") == "ada"),
    ({"owner": {"$ne": "bob"}}, lambda m: m.get("owner") != "bob"),
    ({"$not": {"owner": {"$in": ["ada", "eve"]}}}, lambda m: m.get("owner") not in ("ada", "eve")),
    ({"year": {"$gte": 2022}}, lambda m: m["year"] >= 2022),
    ({"owner": "ada", "year": {"$lt": 2024}}, lambda m: m.get("owner") == "ada" and m["year"] < 2024),
    ({"$or": [{"owner": "bob"}, {"year": 2020}]}, lambda m: m.get("owner") == "bob" or m["year"] == 2020),
    ({"labels": {"$contains": "home"}}, lambda m: "home" in m.get("labels", ())),
    ({"owner": {"$exists": False}}, lambda m: "owner" not in m),
]
# Filters that match nothing. The result names keys and values of the texts that are visible without the filter.
UNMET = [{"titel": "Title"}, {"title": "Title"}, {"title": {"$gt": "Z"}, "year": {"$gte": 2022}}]
FILTERS += [(condition, lambda m: True) for condition in UNMET]
CALLS = 100  # of each corpus; ten times as many in the long run
OWN = ("memory", "folder", "tenants", "milvus")
TENANTS = ("north", "south")
NAMES = ("hybrid", "graph", "memory", "advanced", "hierarchical")


class Corpus:
    """Random texts, each with a word that occurs in no other text, and random parents, scopes and edges.

    ``first`` is the number of the first of these words.
    """

    def __init__(self, rng, first=0):
        self.first = first
        self.metadata = {f"d{n}": self._metadata(rng, n) for n in range(rng.randint(4, 12))}
        self.ids = list(self.metadata)
        self.texts = {
            id: f"{' '.join(rng.choices(WORDS, k=4))} code{n}q secret{first + n}x" for n, id in enumerate(self.metadata)
        }
        self.parents_only = {id for id in self.ids if rng.random() < 0.2}
        pairs = rng.sample(list(itertools.permutations(range(len(self.ids)), 2)), k=len(self.ids))
        both = "secret{}x, then secret{}x"
        self.edges = [
            Edge(
                f"d{a}", f"d{b}", rng.choice(["cites", "next"]), rng.random() or 1.0, both.format(first + a, first + b)
            )
            for a, b in pairs
        ]
        self.edges += [Edge(id, f"entity:{rng.choice('AB')}", "mentions", 0.9) for id in self.ids if rng.random() < 0.4]

    def _metadata(self, rng, n):
        optional = {
            "owner": lambda: rng.choice(["ada", "bob", "eve"]),
            "tenant": lambda: rng.choice(["north", "south"]),
            "labels": lambda: rng.choice(["home", ["home", "work"], ["work"]]),
            "parent_id": lambda: f"d{rng.randint(0, 14)}",
            "valid_from": lambda: rng.choice(TIMES[:3]),
            "valid_until": lambda: rng.choice(TIMES[3:]),
        }
        common = {"title": f"Title secret{self.first + n}x", "uri": f"{rng.choice('ab')}/{rng.choice('cd')}/d{n}.md"}
        present = {key: make() for key, make in optional.items() if rng.random() < 0.7}
        return common | {"year": rng.randint(2020, 2025)} | present

    def documents(self):
        return [Document(self.texts[id], id=id, metadata=dict(self.metadata[id])) for id in self.ids]

    def visible(self, tests, tenant, as_of):
        """Return the numbers of the texts in a scope; ``tests`` evaluate its filters."""
        metadata = self.metadata.items()
        return {
            str(self.first + int(id[1:]))
            for id, m in metadata
            if all(test(m) for test in tests) and self._is_in(m, tenant, as_of)
        }

    @staticmethod
    def _is_in(metadata, tenant, as_of):
        begin, end = metadata.get("valid_from"), metadata.get("valid_until")
        is_valid = (begin is None or parse_time(begin) <= as_of) and (end is None or parse_time(end) >= as_of)
        return is_valid and (tenant is None or metadata.get("tenant") == tenant)


def make_store(kind, corpus, folder, stack, **options):
    """Return a new store of this kind with the texts, and the edges if the store can have edges.

    The tenants of a test share a folder.
    """
    if kind not in OWN:
        return FOREIGN[kind](corpus.documents(), folder)
    if kind == "milvus":
        from langchain_hybridgraph import MilvusStore

        folder.mkdir()
        store = MilvusStore(f"milvus:{folder / 'lite.db'}", Words(), timeout=PATIENCE)
    else:
        store = HybridGraphStore(None if kind == "memory" else folder / "index", Words(), **options)
    stack.enter_context(store)
    chunks = [Chunk(id, corpus.texts[id], corpus.metadata[id]) for id in corpus.ids]
    # In this package's stores, a parent can also be a text that searches do not find.
    searched = [chunk for chunk in chunks if chunk.id not in corpus.parents_only]
    store.upsert(searched, parents=[chunk for chunk in chunks if chunk not in searched], edges=corpus.edges)
    store.flush()
    if kind != "milvus":
        build_layers(store)
    return store


def retriever_of(kind, store, rng, corpus, **settings):
    """Return a retriever of this kind with random settings."""
    edges = {} if isinstance(store, HybridGraphStore) or type(store).__name__ == "MilvusStore" else corpus.edges
    graph = {"edges": edges} if edges else {}
    settings["return_parents"] = rng.random() < 0.9
    hops = {"type": rng.choice(["bfs", "beam", "water_circle"]), "max_hops": rng.randint(1, 3), "direction": "both"}
    traversal = rng.choice([hops, {"type": "pagerank"}, None])
    match kind:
        case "hybrid":
            return HybridRetriever(store, **settings)
        case "graph":
            walk = {"candidates": rng.choice(["all", "reached"]), "seed_k": rng.randint(1, 3)}
            walk |= {"traversal": traversal} if traversal else {}
            return GraphRetriever(store, **graph, graph=walk, **settings)
        case "memory":
            return MemoryRetriever(store, **graph, **settings)
        case "advanced":
            return AdvancedRetriever(GraphRetriever(store, **graph, **settings))
    return HierarchicalRetriever(store, **settings)


def from_result(retriever, query, options):
    result = retriever.retrieve(query, **options)
    return [to_json(result.hits), to_json(list(result)), result.plan["remarks"]]


def from_stream(retriever, query, options):
    return [to_json(documents) for documents in retriever.stream(query, annotate="all", **options)]


def from_tool(retriever, query, options):
    schema = {"query": query, "k": options["k"], "filter": options.get("filter")}
    fixed = {key: value for key, value in options.items() if key not in schema}
    if fixed:
        return []
    message = retriever.as_tool().invoke({"type": "tool_call", "id": "1", "name": "t", "args": schema})
    return [message.content, to_json(message.artifact)]


def from_explanation(retriever, query, options):
    return retriever.explain(query, **options)


def from_nodes(retriever, query, options):
    return [node.model_dump(mode="json") for node in LlamaIndexRetriever(retriever, **options).retrieve(query)]


def from_tree(retriever, query, options):
    if not isinstance(retriever, HierarchicalRetriever):
        return from_result(retriever, query, options)
    result = retriever.find(query, **options)
    output = [result.to_dict(), to_json([context.hit for context in result])]
    if options.keys() == {"k"}:
        output += [read(context.uri) for context in result for read in (retriever.overview, retriever.read)]
    return output


OUTPUTS = (from_result, from_stream, from_tool, from_explanation, from_nodes, from_tree)


def leaked_texts(output, visible):
    """Return the numbers of the texts in an output that are not among the visible texts."""
    return set(re.findall(r"secret(\d+)x", json.dumps(output, default=str))) - visible


def check_calls(kind, n, rng, folder, stack):
    """Make n calls to retrievers over one store, and check the texts in their outputs."""
    # The tenants of a folder have texts with the same ids.
    options = [{"tenant": tenant} for tenant in TENANTS] if kind == "tenants" else [{}]
    corpora = [Corpus(rng, first=100 * place) for place in range(len(options))]
    opened = [make_store(kind, each, folder, stack, **option) for each, option in zip(corpora, options, strict=True)]
    found_texts = 0
    for _ in range(max(1, n // 25)):
        name, (corpus, store) = rng.choice(NAMES), rng.choice(list(zip(corpora, opened, strict=True)))
        as_of = parse_time(rng.choice(TIMES)) + rng.choice([-1, 0, 1])
        own, admits_own = rng.choice(FILTERS[: -len(UNMET)]) if rng.random() < 0.5 else FILTERS[0]
        retriever = retriever_of(name, store, rng, corpus, filter=own, as_of=as_of)
        for _ in range(25):
            condition, admits = rng.choice(FILTERS)
            tenant = rng.choice([None, None, "north", "south"]) if kind not in OWN else None
            options = {"k": rng.randint(1, 6)} | ({"filter": condition} if condition else {})
            options |= {"tenant": tenant} if tenant else {}
            visible = corpus.visible((admits, admits_own), tenant, as_of)
            query = " ".join(rng.choices([*WORDS, *(f"code{n}q" for n in range(12))], k=rng.randint(1, 3)))
            make = rng.choice(OUTPUTS)
            output = make(retriever, query, options)
            if condition in UNMET:
                assert not retriever.retrieve(query, **options).hits
            leaked = leaked_texts(output, visible)
            assert not leaked, f"{name} over {kind}, {make.__name__}: {leaked} in {query!r}, {options}, {own}, {as_of}"
            found_texts += bool(re.search(r"secret\d+x", json.dumps(output, default=str)))
    return found_texts


# Number of calls over each kind of store in the long run: 100,000 to tenants of shared folders, and 20,000 to others. A
# call takes 4 ms of processor time.
KINDS = {
    "memory": 6_000,
    "folder": 2_000,
    "tenants": 100_000,
    "chroma": 2_000,
    "faiss": 4_000,
    "in_memory": 5_000,
    "milvus": 1_000,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_long", [False, pytest.param(True, marks=pytest.mark.faults)])
def test_every_text_is_in_the_scope(tmp_path, kind, is_long):
    """Hits, parents, edges, summaries, streamed hits, tools, explanations and nodes contain only texts in the scope."""
    if kind == "milvus":
        pytest.importorskip("milvus_lite")
    rng, calls, found_texts = random.Random(kind), 0, 0
    each = 10 * CALLS if is_long else CALLS
    while calls < (KINDS[kind] if is_long else CALLS):
        with ExitStack() as stack:
            found_texts += check_calls(kind, each, rng, tmp_path / f"n{calls}", stack)
        calls += each
    assert found_texts > calls * 0.2
