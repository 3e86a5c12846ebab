"""The LangChain side: retrievers, the VectorStore, compressors, indexing."""
