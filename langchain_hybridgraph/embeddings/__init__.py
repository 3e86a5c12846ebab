"""Built-in embeddings, and lookup of embeddings by name."""

from langchain_hybridgraph import lazy_names

# Imported on first use: all embeddings except the model in lsa.py import LangChain.
__getattr__, __dir__, __all__ = lazy_names(__name__)
