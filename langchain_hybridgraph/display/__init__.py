"""Display of results as text, tables and pictures."""

from langchain_hybridgraph.display.html_table import Table
from langchain_hybridgraph.display.notebook import show, show_lists
from langchain_hybridgraph.display.picture import draw
from langchain_hybridgraph.display.result_explanation import explain_result

__all__ = ["Table", "draw", "explain_result", "show", "show_lists"]
