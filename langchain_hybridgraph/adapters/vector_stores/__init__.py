"""Adapters for other vector stores, which use features that the generic adapter cannot."""

from langchain_hybridgraph.adapters.vector_stores.adapter import NearestDocuments, StoreAdapter
from langchain_hybridgraph.adapters.vector_stores.choice import adapter_of

__all__ = ["NearestDocuments", "StoreAdapter", "adapter_of"]
