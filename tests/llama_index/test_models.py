"""LlamaIndex's models and this package's rerankers as LlamaIndex postprocessors."""

import pytest
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.schema import MetadataMode, NodeWithScore, TextNode

from langchain_hybridgraph import HybridGraphStore
from langchain_hybridgraph.embeddings.resolve import embedding_name
from langchain_hybridgraph.errors import ConfigurationError, EmbeddingMismatchError
from langchain_hybridgraph.execution.llm import with_schema
from langchain_hybridgraph.llama_index import LlamaIndexChatModel, LlamaIndexEmbeddings, RerankPostprocessor
from langchain_hybridgraph.search.conversation import LLMRewrite, turns
from langchain_hybridgraph.search.rerankers import LLMReranker, ScoreReranker
from tests.support.models.llama_models import SayingLLM, WordEmbedding

pytest.importorskip("llama_index.core")


async def test_vectors_are_the_models():
    """LlamaIndexEmbeddings returns the model's vectors of texts and queries, sync and async."""
    model = WordEmbedding()
    ours = LlamaIndexEmbeddings(model)
    texts = ["a cat", "a dog"]
    expected = [model.get_text_embedding(text) for text in texts]
    assert ours.embed_documents(texts) == expected
    assert await ours.aembed_documents(texts) == expected
    assert ours.embed_query("a cat") == await ours.aembed_query("a cat") == model.get_query_embedding("a cat")


def test_an_index_remembers_its_model(tmp_path):
    """An index made with one LlamaIndex model cannot be opened with another."""
    with HybridGraphStore(tmp_path / "index", LlamaIndexEmbeddings(WordEmbedding(model_name="one"))) as store:
        store.add_texts(["a cat"])
    assert embedding_name(LlamaIndexEmbeddings(WordEmbedding(model_name="one"))).endswith("/one")
    with HybridGraphStore(tmp_path / "index", LlamaIndexEmbeddings(WordEmbedding(model_name="one"))) as store:
        assert len(store.similarity_search("cat")) == 1
    with pytest.raises(EmbeddingMismatchError):
        HybridGraphStore(tmp_path / "index", LlamaIndexEmbeddings(MockEmbedding(embed_dim=8)))


def test_other_objects_are_errors():
    """A model's name instead of a model raises ConfigurationError."""
    with pytest.raises(ConfigurationError, match=r"Settings\.embed_model"):
        LlamaIndexEmbeddings("text-embedding-3-small")
    with pytest.raises(ConfigurationError, match=r"Settings\.llm"):
        LlamaIndexChatModel("gpt-4o")


async def test_a_rewrite_by_a_model_of_llama_index():
    """LLMRewrite uses the rewrite of a LlamaIndex language model verbatim."""
    llm = SayingLLM("Where do fish swim?")
    rewrite = LLMRewrite(LlamaIndexChatModel(llm))
    history = turns(["User: What of fish?"])
    assert rewrite("and where?", history).text == "Where do fish swim?"
    assert (await rewrite.acall("and where?", history)).text == "Where do fish swim?"


def test_methods_of_structured_output_are_rejected():
    """Structured answers are requested in the prompt, so other methods are rejected."""
    model = LlamaIndexChatModel(SayingLLM(""))
    assert with_schema(model, {}, "LLMReranker", "json_mode")
    with pytest.raises(ConfigurationError, match=r"LlamaIndexChatModel has no .* leave method='function_calling' out"):
        with_schema(model, {}, "LLMReranker", "function_calling")


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
    awaited = await done.apostprocess_nodes(original, query_str="any")
    for results in (awaited, done.postprocess_nodes(original, query_str="any")):
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
