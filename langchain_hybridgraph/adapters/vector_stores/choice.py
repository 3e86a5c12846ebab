"""Choice of the adapter for a vector store."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from langchain_core.vectorstores import VectorStore

from langchain_hybridgraph.adapters.vector_stores.adapter import StoreAdapter
from langchain_hybridgraph.adapters.vector_stores.chroma import ChromaAdapter
from langchain_hybridgraph.adapters.vector_stores.faiss import FAISSAdapter
from langchain_hybridgraph.adapters.vector_stores.in_memory import InMemoryAdapter
from langchain_hybridgraph.adapters.vector_stores.llama_index import LlamaIndexAdapter
from langchain_hybridgraph.adapters.vector_stores.milvus import MilvusAdapter
from langchain_hybridgraph.adapters.vector_stores.pgvector import PGVectorAdapter
from langchain_hybridgraph.adapters.vector_stores.qdrant import QdrantAdapter

# Classes are recognised by their name and an attribute, so that libraries that are not in use are not imported.
_ADAPTERS: Mapping[tuple[str, str], type[StoreAdapter]] = MappingProxyType(
    {
        ("Chroma", "_collection"): ChromaAdapter,
        ("QdrantVectorStore", "client"): QdrantAdapter,
        ("Milvus", "client"): MilvusAdapter,
        ("PGVector", "create_collection"): PGVectorAdapter,
        ("FAISS", "merge_from"): FAISSAdapter,
        ("InMemoryVectorStore", "load"): InMemoryAdapter,
        ("LlamaIndexVectorStore", "nodes"): LlamaIndexAdapter,
    }
)


def adapter_of(store: VectorStore) -> StoreAdapter:
    """Return the adapter for a vector store, which depends on its class.

    If there is no adapter for the class, the adapter for its nearest base class is used, or else the general adapter.
    """
    for kind in type(store).__mro__:
        for (name, attribute), adapter in _ADAPTERS.items():
            if kind.__name__ == name and hasattr(kind, attribute):
                return adapter(store)
    return StoreAdapter(store)
