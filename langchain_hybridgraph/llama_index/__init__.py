"""Retrievers and rerankers for LlamaIndex programs.

>>> from langchain_hybridgraph import HybridGraphStore, HybridRetriever
>>> from langchain_hybridgraph.llama_index import LlamaIndexRetriever, ingest_nodes
>>> from llama_index.core.schema import TextNode
>>> store = HybridGraphStore()
>>> _ = ingest_nodes([TextNode(text="the cat sat", id_="cat"), TextNode(text="dogs bark", id_="dog")], store)
>>> retriever = LlamaIndexRetriever(HybridRetriever(store), k=1)
>>> [found.node_id for found in retriever.retrieve("Where is the cat?")]
['cat']

Needs ``pip install "langchain-hybridgraph[llama-index]"``. No other package of this library imports LlamaIndex.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from langchain_hybridgraph.errors import MissingExtraError

if TYPE_CHECKING:
    from langchain_hybridgraph.llama_index.nodes import filter_from as filter_from
    from langchain_hybridgraph.llama_index.nodes import ingest_nodes as ingest_nodes
    from langchain_hybridgraph.llama_index.retriever import LlamaIndexRetriever as LlamaIndexRetriever
    from langchain_hybridgraph.llama_index.retriever import QueryWithOptions as QueryWithOptions
    from langchain_hybridgraph.llama_index.retriever import RerankPostprocessor as RerankPostprocessor
    from langchain_hybridgraph.llama_index.retriever import RetrievalReportEvent as RetrievalReportEvent
    from langchain_hybridgraph.llama_index.vector_store import LlamaIndexChatModel as LlamaIndexChatModel
    from langchain_hybridgraph.llama_index.vector_store import LlamaIndexEmbeddings as LlamaIndexEmbeddings
    from langchain_hybridgraph.llama_index.vector_store import LlamaIndexVectorStore as LlamaIndexVectorStore

_MODULES = {
    "nodes": ("filter_from", "ingest_nodes"),
    "retriever": ("LlamaIndexRetriever", "QueryWithOptions", "RerankPostprocessor", "RetrievalReportEvent"),
    "vector_store": ("LlamaIndexChatModel", "LlamaIndexEmbeddings", "LlamaIndexVectorStore"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_HOME)  # noqa: PLE0605 - the table above is the list


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "llama_index":
            raise
        raise MissingExtraError(
            f'{name} needs LlamaIndex, which cannot be imported: pip install "langchain-hybridgraph[llama-index]"'
        ) from missing


def __dir__() -> list[str]:
    return __all__
