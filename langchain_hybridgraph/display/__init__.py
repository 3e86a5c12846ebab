"""Explanations of results in words, as a table and as a picture."""

from langchain_hybridgraph.display.interactive import interactive
from langchain_hybridgraph.display.notebook import show, show_lists
from langchain_hybridgraph.display.picture import draw
from langchain_hybridgraph.display.table import Table
from langchain_hybridgraph.display.words import explained

__all__ = ["Table", "draw", "explained", "interactive", "show", "show_lists"]
