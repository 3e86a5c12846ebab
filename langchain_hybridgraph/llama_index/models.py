"""Adapters for LlamaIndex's embeddings and language models."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from langchain_core.embeddings import Embeddings
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.llms.llm import LLM

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.execution.llm import to_prompt_json

_WORKERS = 5


class LlamaIndexEmbeddings(Embeddings):
    """Adapter from a LlamaIndex embedding model to LangChain's ``Embeddings``, for use in a store or retriever.

    The model's caches, batches, rate limits and events keep working. An index records the model's class and
    ``model_name``.

    >>> from llama_index.core.embeddings import MockEmbedding
    >>> LlamaIndexEmbeddings(MockEmbedding(embed_dim=2)).embed_query("any")
    [0.5, 0.5]
    """

    def __init__(self, embed_model: BaseEmbedding) -> None:
        if not isinstance(embed_model, BaseEmbedding):
            raise ConfigurationError(
                f"LlamaIndexEmbeddings cannot wrap {embed_model!r:.80}; pass a LlamaIndex embedding model such as "
                "Settings.embed_model"
            )
        self.embed_model = embed_model

    @property
    def model_name(self) -> str:
        """Class and name of the model, which an index records."""
        return f"{self.embed_model.class_name()}/{self.embed_model.model_name}"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text."""
        return self.embed_model.get_text_embedding_batch(texts)

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question."""
        return self.embed_model.get_query_embedding(text)

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text, asynchronously."""
        return await self.embed_model.aget_text_embedding_batch(texts)

    async def aembed_query(self, text: str) -> list[float]:
        """Return the vector of a question, asynchronously."""
        return await self.embed_model.aget_query_embedding(text)


class LlamaIndexChatModel:
    """Adapter through which ``LLMReranker``, ``QueryPlanner`` and other stages use a LlamaIndex language model.

    Structured answers are requested in the prompt, so any model works. If the model does not answer in the requested
    form, the stage that called it fails.

    >>> from langchain_hybridgraph import LLMReranker
    >>> from llama_index.core.llms import MockLLM
    >>> LLMReranker(LlamaIndexChatModel(MockLLM())).filters
    False
    """

    def __init__(self, llm: LLM) -> None:
        if not isinstance(llm, LLM):
            raise ConfigurationError(
                f"LlamaIndexChatModel was given {llm!r:.80}; pass a LlamaIndex LLM such as Settings.llm"
            )
        self.llm = llm

    def invoke(self, input: Any, config: Any = None, /) -> str:
        """Return the model's answer to a list of (role, text) pairs."""
        return _text(self.llm.chat(_messages(input)))

    async def ainvoke(self, input: Any, config: Any = None, /) -> str:
        """Return the model's answer, asynchronously."""
        return _text(await self.llm.achat(_messages(input)))

    def with_structured_output(
        self, schema: Any, *, include_raw: bool = False, method: str | None = None
    ) -> _PromptedModel:
        """Return a copy of the model that is instructed to answer according to ``schema``.

        The only supported ``method`` is "json_mode".
        """
        if method not in (None, "json_mode"):
            raise ConfigurationError(
                f"method is {method!r}; a LlamaIndex model supports only 'json_mode', the default: leave method= out"
            )
        json_schema = schema.model_json_schema() if hasattr(schema, "model_json_schema") else schema
        instructions = f"Answer only with one JSON value that matches this schema:\n{to_prompt_json(json_schema)}"
        return _PromptedModel(self.llm, instructions)


@dataclass(frozen=True, slots=True)
class _RawAnswer:
    """Text of an answer, in the attribute that ``structured_output.parse_answer`` reads."""

    text: str


@dataclass(frozen=True, slots=True)
class _PromptedModel:
    """Model that answers according to a schema, with those methods of a LangChain Runnable that this package calls."""

    llm: LLM
    instructions: str

    def invoke(self, input: Any, config: Any = None, /) -> dict[str, Any]:
        return _answer(self.llm.chat(self._with_instructions(input)))

    async def ainvoke(self, input: Any, config: Any = None, /) -> dict[str, Any]:
        return _answer(await self.llm.achat(self._with_instructions(input)))

    def batch(self, inputs: list[Any], config: Any = None, /) -> list[Any]:
        with ThreadPoolExecutor(_workers(config)) as pool:
            return list(pool.map(self.invoke, inputs))

    async def abatch(self, inputs: list[Any], config: Any = None, /) -> list[Any]:
        free = asyncio.Semaphore(_workers(config))

        async def one(input: Any) -> dict[str, Any]:
            async with free:
                return await self.ainvoke(input)

        return list(await asyncio.gather(*map(one, inputs)))

    def _with_instructions(self, input: Iterable[tuple[str, str]]) -> list[ChatMessage]:
        return [ChatMessage(role="system", content=self.instructions), *_messages(input)]


def _messages(turns: Iterable[tuple[str, str]]) -> list[ChatMessage]:
    roles = {"human": "user", "ai": "assistant"}
    return [ChatMessage(role=roles.get(role, role), content=text) for role, text in turns]


def _answer(response: Any) -> dict[str, Any]:
    return {"raw": _RawAnswer(_text(response)), "parsed": None, "parsing_error": None}


def _text(response: Any) -> str:
    return response.message.content or ""


def _workers(config: Mapping[str, Any] | None) -> int:
    return (config or {}).get("max_concurrency") or _WORKERS
