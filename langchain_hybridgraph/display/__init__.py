"""Display of results as text, tables and pictures."""

from langchain_hybridgraph.display.explanation import explain_result
from langchain_hybridgraph.display.picture import draw

__all__ = ["draw", "explain_result"]
