"""Edges from a model that is called through langchain-openai."""

import re

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding

from langchain_hybridgraph import HybridGraphStore, LLMEdges, ingest
from langchain_hybridgraph.chunks import Chunk
from tests.support.samples.clock import PATIENCE
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


@pytest.mark.parametrize(
    "reply",
    [
        Reply("slow down", 429),
        Reply("broken", 500),
        Reply(raw=b"{"),
        Reply('{"edges": [{"sou'),
        Reply({}, arguments='{"edges": [{"sou'),
        Reply("None at all."),
        Reply({"edges": []}, hangs=True),
    ],
)
@pytest.mark.parametrize("method", METHODS)
def test_another_attempt_over_http(method, reply):
    """After an error, an invalid answer or a timeout, the model is called again."""
    with OpenAIServer([reply, {"edges": [EDGE]}]) as server:
        edges, warnings = ingested(server.chat_model(timeout=2 if reply.hangs else PATIENCE), method=method)
        assert [edge[:2] for edge in edges] == [("b", "a")]
        assert not warnings
        assert len(server.requests) == 2


def test_a_window_is_dropped_over_http():
    """After three answers without JSON the window is dropped, and a warning names it."""
    with OpenAIServer("They are both about cats.") as server:
        edges, warnings = ingested(server.chat_model())
        assert edges == []
        assert "no usable answer on 1 of 1 windows" in warnings[0]
        assert len(server.requests) == 3


def test_an_unavailable_model_does_not_fail_the_ingest():
    """If the model is unavailable, the ingest completes without its edges, and the warning contains the model's
    error.
    """
    with OpenAIServer(Reply("overloaded", 503)) as server:
        edges, warnings = ingested(server.chat_model(), attempts=1)
        assert edges == []
        assert "overloaded" in warnings[0]
