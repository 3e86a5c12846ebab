"""Every retriever runs on every store, and the stores that share an implementation give the same hits."""

import asyncio
from contextlib import ExitStack

import pytest

from langchain_hybridgraph import HybridGraphStore
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.records import Edge
from tests.support.samples.clock import PATIENCE
from tests.support.samples.retrievers import BY_NAME
from tests.support.stores.words import Words

pytest.importorskip("milvus_lite")


TOPICS = {
    "coffee": ("Descale the boiler every month.", "A finer grind makes stronger espresso.", "Warm the cups first."),
    "garden": ("Roses need pruning in early spring.", "Water tomatoes at the root.", "Compost improves clay soil."),
    "travel": ("The night train to Vienna leaves at nine.", "Book the ferry a week ahead.", "Visas take ten days."),
    "music": ("The drummer keeps a steady beat.", "Tune the strings first.", "The choir rehearses on Mondays."),
}
CHUNKS = [
    Chunk(f"{topic}-{n}", text, {"source": f"{topic}.md", "uri": f"notes/{topic}/{n}.md", "year": 2020 + n})
    for topic, texts in TOPICS.items()
    for n, text in enumerate(texts)
]
EDGES = [Edge(f"{topic}-{n}", f"{topic}-{n + 1}", "elaborates", 0.9) for topic in TOPICS for n in range(2)]
QUESTION = "When do roses need pruning?"


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Return the stores by name, each with the same chunks and edges."""
    from langchain_hybridgraph import MilvusStore

    place = tmp_path_factory.mktemp("stores")
    model = Words()
    with ExitStack() as stack:
        opened = {
            "memory": HybridGraphStore(None, model),
            "folder": HybridGraphStore(place / "index", model),
            "milvus": MilvusStore(f"milvus:{place / 'lite.db'}", model, timeout=PATIENCE),
        }
        for store in opened.values():
            stack.callback(store.close)
            store.upsert(CHUNKS, edges=EDGES)
            store.flush()
        yield opened


def ids_of_hits(retriever, **options):
    return [(document.id, document.metadata["year"]) for document in retriever.invoke(QUESTION, **options)]


@pytest.mark.parametrize("name", BY_NAME)
@pytest.mark.parametrize("other", ["folder", "milvus"])
def test_every_store_gives_the_same_hits(stores, name, other):
    """Every store gives the hits of the store in memory, awaited or not, and every filtered hit matches the filter."""
    options = {"preset": "hop_decay"} if name == "graph" else {}
    retriever, in_memory = (BY_NAME[name](stores[kind], k=3, **options) for kind in (other, "memory"))
    expected = ids_of_hits(in_memory)
    assert expected[0][0].startswith("garden-0") or name == "hierarchical"
    assert ids_of_hits(retriever) == expected
    assert asyncio.run(retriever.ainvoke(QUESTION)) == retriever.invoke(QUESTION)
    filtered = ids_of_hits(retriever, filter={"year": {"$gte": 2021}})
    assert filtered
    assert all(year >= 2021 for _, year in filtered)


@pytest.mark.parametrize("name", BY_NAME)
def test_a_search_of_an_empty_index_says_so(tmp_path, name):
    """Searching an index without texts reports empty-index, in a folder and in Milvus."""
    from langchain_hybridgraph import MilvusStore

    milvus = MilvusStore(f"milvus:{tmp_path / 'lite.db'}", Words(), timeout=PATIENCE)
    for store in (HybridGraphStore(tmp_path / "index"), milvus):
        with store:
            assert "empty-index" in BY_NAME[name](store).retrieve(QUESTION).degraded
