"""Embeddings that need no setup, and their names."""

from langchain_hybridgraph.embeddings.lsa import LSAEmbeddings, NotFittedError
from langchain_hybridgraph.embeddings.minilm import ModelUnavailableError, OnnxMiniLMEmbeddings
from langchain_hybridgraph.embeddings.resolve import choose_embedding, embedding_name, resolve_embedding

__all__ = [
    "LSAEmbeddings",
    "ModelUnavailableError",
    "NotFittedError",
    "OnnxMiniLMEmbeddings",
    "choose_embedding",
    "embedding_name",
    "resolve_embedding",
]
