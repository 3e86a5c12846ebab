"""Entry point of ``python -m langchain_hybridgraph.cli``, which runs ``hybridgraph``."""

from langchain_hybridgraph.cli import main

main()
