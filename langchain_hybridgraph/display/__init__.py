"""What a person wants to see of an answer: why these hits, in words and as a picture."""

from langchain_hybridgraph.display.interactive import interactive
from langchain_hybridgraph.display.picture import draw
from langchain_hybridgraph.display.words import explained

__all__ = ["draw", "explained", "interactive"]
