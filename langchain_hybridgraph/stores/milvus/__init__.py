"""Store in Milvus."""
