"""Built-in embeddings, and lookup of embeddings by name."""
