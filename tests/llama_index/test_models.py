"""LlamaIndex's embeddings and language models as LangChain models."""

import pytest

pytest.importorskip("llama_index.core")

from llama_index.core.embeddings import MockEmbedding

from langchain_hybridgraph import HybridGraphStore
from langchain_hybridgraph.embeddings.resolve import embedding_name
from langchain_hybridgraph.errors import ConfigurationError, EmbeddingMismatchError
from langchain_hybridgraph.execution.llm import with_schema
from langchain_hybridgraph.llama_index import LlamaIndexChatModel, LlamaIndexEmbeddings
from langchain_hybridgraph.search.conversation import LLMRewrite, turns
from tests.support.models.llama_models import SayingLLM, WordEmbedding


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
