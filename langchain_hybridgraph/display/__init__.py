"""Display of results as text, tables and pictures."""

from langchain_hybridgraph.display.explanation import explain_result
from langchain_hybridgraph.display.html import Table, show_lists
from langchain_hybridgraph.display.picture import draw

__all__ = ["Table", "draw", "explain_result", "show_lists"]
