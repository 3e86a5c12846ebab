"""Reading files, splitting documents and connecting chunks."""

from langchain_hybridgraph import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
