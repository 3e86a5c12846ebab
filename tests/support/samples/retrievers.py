"""Every kind of retriever, for tests of what they have in common."""

from langchain_hybridgraph import GraphRetriever, HierarchicalRetriever, HybridRetriever, MemoryRetriever
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever

STORE_RETRIEVERS = [HybridRetriever, GraphRetriever, HierarchicalRetriever, MemoryRetriever]
RETRIEVERS = [*STORE_RETRIEVERS, AdvancedRetriever.from_store]
BY_NAME = dict(zip(("hybrid", "graph", "hierarchical", "memory", "advanced"), RETRIEVERS, strict=True))
