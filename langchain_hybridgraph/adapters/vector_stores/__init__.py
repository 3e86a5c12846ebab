"""Adapters of other vector stores: ids, vectors, metrics, contents."""

from langchain_hybridgraph.adapters.vector_stores.adapter import Nearest, StoreAdapter
from langchain_hybridgraph.adapters.vector_stores.choice import adapter_of

__all__ = ["Nearest", "StoreAdapter", "adapter_of"]
