"""This package's rerankers as LlamaIndex node postprocessors."""

import pytest

pytest.importorskip("llama_index.core")

from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.schema import MetadataMode, NodeWithScore, TextNode

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.llama_index import LlamaIndexChatModel, RerankPostprocessor
from langchain_hybridgraph.search.rerankers import LLMReranker, ScoreReranker
from tests.support.models.llama_models import SayingLLM


def nodes(**scores):
    return [NodeWithScore(node=TextNode(text=f"text {id}", id_=id), score=score) for id, score in scores.items()]


def scored(nodes):
    return [(each.node_id, each.score) for each in nodes]


def by_letter(query, texts):
    """Return scores that rank the last letter of the alphabet first."""
    return [(ord(text[-1]) - ord("a")) / 10 for text in texts]


def test_reorders_and_scores():
    """The nodes get the reranker's order and scores."""
    done = RerankPostprocessor(by_letter).postprocess_nodes(nodes(a=0.9, b=0.5, c=0.1), query_str="any")
    assert scored(done) == [("c", 0.2), ("b", 0.1), ("a", 0.0)]


def test_score_reranker_needs_no_query():
    """ScoreReranker filters by the nodes' own scores without a query, and treats a missing score as 0."""
    done = RerankPostprocessor(ScoreReranker(0.5)).postprocess_nodes(nodes(a=0.9, b=None, c=0.4))
    assert scored(done) == [("a", 0.9)]


async def test_llm_reranker_over_a_model_of_llama_index():
    """A LlamaIndex language model can rerank, even if its answer is surrounded by prose."""
    llm = SayingLLM('Sure: {"ratings": [{"passage": 1, "rating": 2}, {"passage": 2, "rating": 9}]}')
    done = RerankPostprocessor(LLMReranker(LlamaIndexChatModel(llm)), on_error="raise")
    for results in (
        done.postprocess_nodes(nodes(a=0.9, b=0.5), query_str="which?"),
        await done.apostprocess_nodes(nodes(a=0.9, b=0.5), query_str="which?"),
    ):
        assert [id for id, _ in scored(results)] == ["b", "a"]
    instructions, material = llm.calls[0]
    assert "schema" in instructions
    assert "0 to 10" in instructions
    assert "which?" in material


def failing(query, texts):
    raise OSError("no network")


async def test_a_failure_keeps_the_order():
    """If the reranker fails, copies in the original order have ``rerank-failed`` in metadata hidden from the model.

    With ``on_error="raise"``, the reranker's own error is raised.
    """
    with pytest.raises(OSError, match="no network"):
        RerankPostprocessor(failing, on_error="raise").postprocess_nodes(nodes(a=0.9), query_str="any")
    original = nodes(a=0.9, b=0.5)
    done = RerankPostprocessor(failing, top_n=1)
    for results in (
        done.postprocess_nodes(original, query_str="any"),
        await done.apostprocess_nodes(original, query_str="any"),
    ):
        assert scored(results) == [("a", 0.9)]
        assert results[0].metadata["degraded"] == ["rerank-failed"]
        assert results[0].get_content(MetadataMode.LLM) == "text a"
    assert "degraded" not in original[0].metadata


def test_without_a_query():
    """A reranker that needs the query raises an error if no query is given."""
    with pytest.raises(ConfigurationError, match="query_str"):
        RerankPostprocessor(by_letter).postprocess_nodes(nodes(a=0.9))


def test_objects_that_cannot_rerank():
    """An object that cannot rerank, or an invalid setting, is rejected at construction."""
    with pytest.raises(ValueError, match=r"reranker is .*; expected one of"):
        RerankPostprocessor(42)
    with pytest.raises(ValueError, match="top_n"):
        RerankPostprocessor(by_letter, top_n=0)
    with pytest.raises(ValueError, match="on_error"):
        RerankPostprocessor(by_letter, on_error="ignore")


def test_events(events):
    """Reranking sends LlamaIndex's rerank events."""
    RerankPostprocessor(by_letter).postprocess_nodes(nodes(a=0.9, b=0.5), query_str="any")
    start, end = events.of(ReRankStartEvent, ReRankEndEvent)
    assert ([n.node_id for n in start.nodes], start.model_name) == (["a", "b"], "TextReranker")
    assert [n.node_id for n in end.nodes] == ["b", "a"]
