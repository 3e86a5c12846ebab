"""Adapters that use special features of vector stores."""

from langchain_hybridgraph.adapters.vector_stores.adapter import NearestDocuments, StoreAdapter
from langchain_hybridgraph.adapters.vector_stores.choice import adapter_of

__all__ = ["NearestDocuments", "StoreAdapter", "adapter_of"]
