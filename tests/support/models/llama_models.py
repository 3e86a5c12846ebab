"""LlamaIndex models without a network: an embedding of words and a model with fixed replies."""

import zlib
from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse
from llama_index.core.llms import MockLLM


class WordEmbedding(BaseEmbedding):
    """Embedding that counts words in 512 hash buckets, and counts how often it is awaited."""

    awaited: int = 0

    def _get_text_embedding(self, text):
        vector = [0.001] * 512
        for word in text.lower().replace("?", " ").replace(".", " ").split():
            vector[zlib.crc32(word.encode()) % 512] += 1.0
        return vector

    def _get_query_embedding(self, query):
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query):
        self.awaited += 1
        return self._get_text_embedding(query)


class SayingLLM(MockLLM):
    """Model that replies ``answer``, or raises it if it is an exception, and records its prompts."""

    answer: Any = ""
    calls: list = []  # noqa: RUF012 - pydantic copies it

    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def _say(self, *prompts):
        self.calls.append(prompts)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    def complete(self, prompt, formatted=False, **kwargs):
        return CompletionResponse(text=self._say(prompt))

    def chat(self, messages, **kwargs):
        reply = self._say(*(message.content for message in messages))
        return ChatResponse(message=ChatMessage(role="assistant", content=reply))

    async def achat(self, messages, **kwargs):
        return self.chat(messages)
