"""LangChain vector stores: HybridGraphStore and MilvusStore."""
