"""From a query to its hits: one pipeline, a short function of named stages; the retrievers are settings of it."""

from __future__ import annotations

from langchain_hybridgraph.query.pipeline.candidates import Ranked, fuse, gather, score_all
from langchain_hybridgraph.query.pipeline.chosen import choose, fit, rerank, resolve_parents
from langchain_hybridgraph.query.pipeline.run import Pipeline, Run
from langchain_hybridgraph.query.pipeline.search import plan, search

__all__ = [
    "Pipeline",
    "Ranked",
    "Run",
    "choose",
    "fit",
    "fuse",
    "gather",
    "plan",
    "rerank",
    "resolve_parents",
    "score_all",
    "search",
]
