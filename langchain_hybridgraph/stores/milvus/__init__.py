"""The store on a Milvus server."""
