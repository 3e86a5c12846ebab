"""Explanations and pictures of searches through the graph."""

import pytest

from langchain_hybridgraph import HybridGraphStore, HybridRetriever, MemoryRetriever
from langchain_hybridgraph.records import Edge
from langchain_hybridgraph.retrievers.graph import GraphRetriever

TEXTS = {"ada": "Ada wrote the first program.", "engine": "A machine of brass and steam.", "tea": "How to brew tea."}
QUESTION = "Who wrote the first program?"


@pytest.fixture(scope="module")
def store():
    vector_store = HybridGraphStore.from_texts(list(TEXTS.values()), "lsa", ids=list(TEXTS))
    vector_store.upsert([], edges=[Edge("ada", "engine", "references", 0.8, "For which machine she wrote.")])
    return vector_store


def test_the_plan_names_the_traversal(store):
    """``plan`` names the traversal and the score, and has None for a search without a traversal."""
    expansion = (
        GraphRetriever(store, graph={"traversal": "bfs", "score": lambda visited: visited.seed})
        .retrieve(QUESTION)
        .plan["walk"]
    )
    assert expansion == {"traversal": "bfs", "score": "<lambda>"}
    assert HybridRetriever(store).retrieve(QUESTION).plan["walk"] is None


def test_the_plan_uses_the_names_of_the_settings(store):
    """``plan`` names the fusion and both parts of a combined traversal as settings do, and explain says the same."""
    plan = MemoryRetriever(store).retrieve(QUESTION).plan
    walk = {"traversal": "evidence and water_circle", "score": "noisy_or"}
    assert (plan["fusion"], plan["walk"]) == ("convex", walk)
    retriever = GraphRetriever(store, graph={"traversal": {"type": "bfs", "max_hops": 1}, "seed_k": 1})
    explanation = retriever.explain(QUESTION, k=2, filter={"chunk_id": {"$ne": "none"}})
    assert explanation.startswith(f"{QUESTION}\n2 hits in ")
    assert "then expanded through edges (traversal bfs, score hop_decay)." in explanation
    assert "1 hop from ada to engine: references (weight 0.80, “For which machine she wrote.”)" in explanation


def test_a_picture_shows_the_hits(store):
    """A picture of a retriever has the k hits with their ranks, at the requested width."""
    pytest.importorskip("matplotlib")
    figure = GraphRetriever(store, graph={"traversal": {"type": "bfs", "max_hops": 1}, "seed_k": 1}).picture(
        QUESTION, k=2, width=8
    )
    labels = [text.get_text().replace("\n", " ").partition("   ")[0] for text in figure.axes[0].texts]
    assert {"1\xa0\xa0Ada wrote the first program.", "2\xa0\xa0A machine of brass and steam."} <= {*labels}
    assert figure.get_figwidth() == 8
