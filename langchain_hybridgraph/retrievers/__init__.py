"""LangChain retrievers: hybrid, graph, memory, hierarchical and conversational search."""
