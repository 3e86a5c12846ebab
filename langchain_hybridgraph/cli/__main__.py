"""``python -m langchain_hybridgraph.cli`` is ``hybridgraph``."""

from langchain_hybridgraph.cli import main

main()
