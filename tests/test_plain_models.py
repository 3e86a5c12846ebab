"""Stages that use a chat model work with models that have no structured output."""

from __future__ import annotations

import json
import re

import pytest

from langchain_hybridgraph import HybridGraphStore, HybridRetriever, LLMEdges, ingest
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.search.planner import QueryPlanner
from langchain_hybridgraph.search.rerankers import LLMReranker
from langchain_hybridgraph.vectorstores.admission import Contradictions
from tests.support.models.plain_models import KINDS, fenced

KIND = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def material(messages):
    return json.loads(messages[-1].content)


@KIND
async def test_the_planner(kind):
    """QueryPlanner reads its plan from JSON in a fenced block, sync and async."""
    answer = {"queries": [{"query": "price of the roadster", "context_type": "resource", "intent": "i", "priority": 1}]}
    planner = QueryPlanner(kind(answer=lambda messages: fenced(answer)))
    for plan in (planner("", [], "And its price?"), await planner.acall("", [], "And its price?")):
        assert [(each.query, each.context_type) for each in plan] == [("price of the roadster", "resource")]
        assert plan.degraded == ()


@KIND
async def test_the_reranker(kind):
    """LLMReranker reads scores from plain answers in batches and reorders the hits without degradation."""

    def ratings(messages):
        passages = material(messages)["passages"]
        return fenced({"ratings": [{"passage": p["passage"], "rating": 10 - len(p["text"]) / 10} for p in passages]})

    texts = ["A cat sleeps on the long warm sofa.", "A cat sleeps here.", "A cat."]
    with HybridGraphStore.from_texts(texts, "lsa") as store:
        retriever = HybridRetriever(store, reranker=LLMReranker(kind(answer=ratings), batch_size=2))
        for documents in (retriever.retrieve("cat sleeps"), await retriever.aretrieve("cat sleeps")):
            assert [document.page_content for document in documents] == texts[::-1]
            assert documents.degraded == ()


@KIND
@pytest.mark.parametrize("is_list", [False, True])
def test_edges_from_a_plain_model(kind, is_list):
    """LLMEdges stores the edge in a plain answer, even if the answer is a bare list of edges."""

    def edges(messages):
        one, two = re.findall(r"Passage (\S+):", messages[-1].content)[:2]
        edges = [{"source": one, "target": two, "relation": "supports", "weight": 0.9, "description": "It does."}]
        return fenced(edges if is_list else {"edges": edges})

    chunks = [Chunk(id, text, {}, "doc") for id, text in {"a": "Cats like fish.", "b": "Tom ate a trout."}.items()]
    with HybridGraphStore(None) as store:
        report = ingest(chunks, store, split=None, edges=[LLMEdges(kind(answer=edges), backoff=0)])
        assert report.warnings == ()
        (edge,) = store.edges(["a"])
        assert (edge.target, edge.relation, edge.description) == ("b", "supports", "It does.")


@KIND
def test_an_answer_in_prose_degrades(kind):
    """A prose answer is reported as planner-failed, rerank-failed or a warning, and contradictions are judged by
    labels.
    """
    llm = kind(answer=lambda messages: "I would rather not.")
    assert QueryPlanner(llm)("", [], "Where?").degraded == ("planner-failed",)
    with HybridGraphStore.from_texts(["A cat sleeps.", "A dog barks."], "lsa") as store:
        assert HybridRetriever(store, reranker=LLMReranker(llm)).retrieve("cat").degraded == ("rerank-failed",)
    with HybridGraphStore(None) as store:
        chunks = [Chunk(id, "text", {}, "doc") for id in "ab"]
        report = ingest(chunks, store, split=None, edges=[LLMEdges(llm, backoff=0)])
        assert "no usable answer on 1 of 1 windows" in report.warnings[0]
    judges = Contradictions(llm)
    one, two = (Chunk(id, f"text {id}", {"labels": ["x"]}) for id in "ab")
    assert judges.probabilities(one, [two]) == [pytest.approx(0.8)]
