"""A store in Milvus."""
