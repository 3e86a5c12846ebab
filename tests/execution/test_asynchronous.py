"""Detection of LangChain objects with native coroutines."""

import warnings

import pytest
from langchain_chroma import Chroma
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.language_models import FakeListChatModel, FakeListLLM
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

from langchain_hybridgraph import HybridGraphStore, HybridRetriever
from langchain_hybridgraph.execution.effects import is_asynchronous
from langchain_hybridgraph.execution.llm import model_call, with_schema

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from langchain_classic.retrievers.document_compressors import EmbeddingsFilter
    from langchain_community.retrievers import BM25Retriever

PROMPT = ChatPromptTemplate.from_template("{question}")
SCHEMA = {"title": "Answer", "description": "An answer.", "type": "object", "properties": {}}


class SyncHistory(BaseChatMessageHistory):
    messages = ()

    def clear(self):
        pass


class AsyncOnlyRetriever(BaseRetriever):
    """A user-defined retriever that only works asynchronously, with an embedding that has only synchronous methods."""

    embeddings: DeterministicFakeEmbedding

    def _get_relevant_documents(self, query, *, run_manager):
        raise NotImplementedError

    async def _aget_relevant_documents(self, query, *, run_manager):
        return []


def fake():
    return DeterministicFakeEmbedding(size=4)


def openai():
    return OpenAIEmbeddings(api_key="none")


def chat():
    return ChatOpenAI(api_key="none")


SYNCHRONOUS = {
    "chat model": lambda: FakeListChatModel(responses=["a"]),
    "chain": lambda: PROMPT | FakeListChatModel(responses=["a"]) | StrOutputParser(),
    "fallbacks": lambda: FakeListChatModel(responses=["a"]).with_fallbacks([FakeListChatModel(responses=["b"])]),
    "asked for JSON": lambda: with_schema(FakeListChatModel(responses=["a"]), SCHEMA, "Test"),
    "embedding": fake,
    "retriever": lambda: BM25Retriever.from_texts(["a text"]),
    "store": lambda: Chroma(embedding_function=fake()).as_retriever(),
    "compressor over an embedding": lambda: EmbeddingsFilter(embeddings=fake()),
    "chat history": SyncHistory,
}
ASYNCHRONOUS = {
    "chat model": chat,
    "LLM": lambda: FakeListLLM(responses=["a"]),
    "chain": lambda: PROMPT | chat() | StrOutputParser(),
    "structured output": lambda: chat().with_structured_output(SCHEMA, include_raw=True),
    "asked for a form": lambda: with_schema(chat(), SCHEMA, "Test"),
    "function": lambda: RunnableLambda(str),
    "embedding": openai,
    "store over an embedding": lambda: InMemoryVectorStore(openai()).as_retriever(),
    "a user's own retriever": lambda: AsyncOnlyRetriever(embeddings=fake()),
    "our retriever": lambda: HybridRetriever(HybridGraphStore.from_texts(["a text", "another"])),
    "something unknown": object,
}


@pytest.mark.parametrize("make", SYNCHRONOUS.values(), ids=SYNCHRONOUS)
def test_objects_run_by_langchains_executor_are_synchronous(make):
    """An object whose coroutines LangChain runs in an executor is synchronous, and so are chains and retrievers with
    it.
    """
    assert not is_asynchronous(make())


@pytest.mark.parametrize("make", ASYNCHRONOUS.values(), ids=ASYNCHRONOUS)
def test_objects_with_coroutines_are_asynchronous(make):
    """An object with its own coroutines is asynchronous, and so are its bindings and the chains that contain it."""
    assert is_asynchronous(make())


def test_models_without_coroutines_are_called_on_a_worker():
    """The call of a model is awaited only if the model has coroutines of its own."""
    models = FakeListChatModel(responses=["a"]), chat()
    calls = [model_call("planner", object(), model.invoke, model.ainvoke, []) for model in models]
    assert [call.arun is not None for call in calls] == [False, True]
