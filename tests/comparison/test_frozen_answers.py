"""Answers of the five retrievers, frozen as ids and scores.

A change of the code that is not meant to change the ranking must give these answers. To freeze them again after a
change that is meant to, run ``HYBRIDGRAPH_SETS=FOLDER python tests/comparison/test_frozen_answers.py``.
"""

import asyncio
import importlib
import json
import os
import sys
from contextlib import closing
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from langchain_core.documents import Document

from langchain_hybridgraph import (
    GraphRetriever,
    HierarchicalRetriever,
    HybridGraphStore,
    HybridRetriever,
    MemoryRetriever,
    ingest,
)
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from tests.support.models.query_embeddings import QueryEmbeddings

SETS = os.environ.get("HYBRIDGRAPH_SETS")
FROZEN = Path(__file__).with_name("frozen_answers.json")
QUESTIONS, K, CONVERSATION, NOW = 25, 10, "conv-26", "2024-01-01"

pytestmark = [
    pytest.mark.sets,
    pytest.mark.skipif(not SETS, reason="HYBRIDGRAPH_SETS is not set; it names the folder of the evaluation sets"),
]


class ReadyVectors(QueryEmbeddings):
    """Ready-made vectors of the sets; any other text has the hash of each of its words as a dimension."""

    def __init__(self, vectors):
        self.vectors = vectors

    def embed_query(self, text):
        if text in self.vectors:
            return self.vectors[text].tolist()
        vector = np.zeros(384, np.float32)
        for word in text.casefold().split():
            vector[sum(word.encode()) % 384] += 1
        return vector.tolist()


@cache
def sets():
    sys.path.insert(0, SETS)
    return importlib.import_module("sets")


def indexed(name, metadata, keep=lambda row: True):
    """Return a store with the texts of a set, and the set's first questions."""
    loaded = sets().load(name)
    documents = [
        Document(sets().document_text(row), id=row["id"], metadata=metadata(row)) for row in loaded.corpus if keep(row)
    ]
    store = HybridGraphStore(None, ReadyVectors(sets().PrecomputedEmbeddings(name).vectors))
    ingest(documents, store, split=None)
    return store, [query for query in loaded.queries if keep(query)][:QUESTIONS]


def cases():
    """Yield (name, retriever, arguments of each call) with the store open."""
    store, queries = indexed("hotpotqa_train100", lambda row: {"title": row["title"]})
    texts = [{"input": query["text"]} for query in queries]
    with closing(store):
        yield "hybrid", HybridRetriever(store, k=K), texts
        yield "hybrid rrf", HybridRetriever(store, k=K, fusion="rrf", selection={"mmr_lambda": 0.7}), texts
        yield "graph", GraphRetriever(store, k=K), texts
        for preset in ("hop_decay", "distance_decay"):
            yield f"graph {preset}", GraphRetriever(store, k=K, preset=preset), texts
        yield "graph pagerank", GraphRetriever(store, k=K, graph={"traversal": "pagerank"}), texts
    store, queries = indexed("mtrag_govt", lambda row: {"title": row["title"]})
    with closing(store):
        calls = [{"input": query["text"], "conversation_history": query["history"]} for query in queries]
        yield "advanced", AdvancedRetriever(HybridRetriever(store, k=K)), calls
    store, queries = indexed(
        "locomo",
        lambda row: {"created_at": row["date"], "document_id": row["session"], "speaker": row["speaker"]},
        keep=lambda row: row["conversation"] == CONVERSATION,
    )
    with closing(store):
        calls = [{"input": query["text"], "as_of": NOW} for query in queries]
        yield "memory", MemoryRetriever(store, k=K), calls
        yield "memory belief", MemoryRetriever(store, k=K, mode="belief_system"), calls
    store, queries = indexed("anthropic_docs", lambda row: {"title": row["title"], "uri": row["id"]})
    with closing(store):
        texts = [{"input": query["text"]} for query in queries]
        yield "tree", HierarchicalRetriever(store, k=K), texts
        yield (
            "tree quick",
            HierarchicalRetriever(store, k=K),
            [{**call, "filter": {"title": {"$ne": ""}}} for call in texts],
        )


def summary(documents):
    return [[document.id, round(document.metadata["relevance_score"], 9)] for document in documents]


def answers(retriever, calls):
    return [summary(retriever.invoke(**call, annotate="score")) for call in calls]


def same(one, other):
    """Return whether two answers have the same ids in the same order, and scores within 1e-6."""
    ids = [[id for id, _ in answer] for answer in (one, other)]
    return ids[0] == ids[1] and np.allclose(
        [score for _, score in one], [score for _, score in other], atol=1e-6, rtol=0
    )


def test_answers_are_the_frozen_ones():
    """Every retriever gives the frozen ids, order and scores, in invoke, ainvoke and stream."""
    frozen = json.loads(FROZEN.read_text(encoding="utf-8"))
    names = []
    for name, retriever, calls in cases():
        names.append(name)
        expected = frozen[name]
        results = answers(retriever, calls)
        assert [place for place, pair in enumerate(zip(results, expected, strict=True)) if not same(*pair)] == [], name

        async def gather(retriever=retriever, calls=calls):
            return [summary(await retriever.ainvoke(**call, annotate="score")) for call in calls[:5]]

        assert all(map(same, asyncio.run(gather()), expected[:5])), name
        streamed = [
            [each for part in retriever.stream(**call, annotate="score") for each in part] for call in calls[:5]
        ]
        assert all(map(same, map(summary, streamed), expected[:5])), name
    assert names == list(frozen)


if __name__ == "__main__":
    frozen = {name: answers(retriever, calls) for name, retriever, calls in cases()}
    FROZEN.write_text(json.dumps(frozen, separators=(",", ":")).replace("]]],", "]]],\n"), encoding="utf-8")
