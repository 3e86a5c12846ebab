"""Built-in embeddings, and lookup of embeddings by name."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_hybridgraph.embeddings.lsa import NotFittedError as NotFittedError
    from langchain_hybridgraph.embeddings.minilm import ModelUnavailableError as ModelUnavailableError
    from langchain_hybridgraph.embeddings.minilm import OnnxMiniLMEmbeddings as OnnxMiniLMEmbeddings
    from langchain_hybridgraph.embeddings.resolve import LSAEmbeddings as LSAEmbeddings
    from langchain_hybridgraph.embeddings.resolve import choose_embedding as choose_embedding
    from langchain_hybridgraph.embeddings.resolve import default_embedding as default_embedding
    from langchain_hybridgraph.embeddings.resolve import embedding_name as embedding_name
    from langchain_hybridgraph.embeddings.resolve import resolve_embedding as resolve_embedding

# Imported on first use: all embeddings except the model in lsa.py import LangChain.
_MODULES = {
    "lsa": ("NotFittedError",),
    "minilm": ("ModelUnavailableError", "OnnxMiniLMEmbeddings"),
    "resolve": ("LSAEmbeddings", "choose_embedding", "default_embedding", "embedding_name", "resolve_embedding"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_HOME)  # noqa: PLE0605 - the table above is the list


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
