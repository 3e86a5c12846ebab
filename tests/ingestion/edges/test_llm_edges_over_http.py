"""Edges from a model that is called through langchain-openai."""

import re

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding

from langchain_hybridgraph import HybridGraphStore, LLMEdges, ingest
from langchain_hybridgraph.chunks import Chunk
from tests.support.servers.openai_server import OpenAIServer, Reply
from tests.support.stores.store_contents import all_edges

TEXTS = {"a": "Cats like fish.", "b": "Tom the cat ate a trout."}
METHODS = [None, "function_calling", "json_mode"]
EDGE = {"source": "b", "target": "a", "relation": "supports", "weight": 0.9, "description": "Tom is such a cat."}


def ingested(model, **options):
    """Return the edges of an ingest and its warnings."""
    chunks = [Chunk(id, text, {"chunk_index": place}, "doc") for place, (id, text) in enumerate(TEXTS.items())]
    with HybridGraphStore(None, DeterministicFakeEmbedding(size=4)) as store:
        report = ingest(chunks, store, split=None, edges=[LLMEdges(model, backoff=0, **options)])
        return list(all_edges(store)), report.warnings


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_edges_over_http(method, streaming):
    """The model's edge is stored for every method of structured output, with and without streaming."""
    with OpenAIServer({"edges": [EDGE]}) as server:
        edges, warnings = ingested(server.chat_model(streaming=streaming), method=method)
        assert ("tools" in server.requests[0]) == (method == "function_calling")
        assert [edge[:2] for edge in edges] == [("b", "a")]
        assert not warnings
        prompt = server.requests[0]["messages"][-1]["content"]
        assert re.findall(r"^Passage (\w+):$", prompt, re.MULTILINE) == ["a", "b"]


def test_an_unavailable_model_does_not_fail_the_ingest():
    """If the model is unavailable, the ingest completes without its edges, and the warning contains the model's
    error.
    """
    with OpenAIServer(Reply("overloaded", 503)) as server:
        edges, warnings = ingested(server.chat_model(), attempts=1)
        assert edges == []
        assert "overloaded" in warnings[0]
