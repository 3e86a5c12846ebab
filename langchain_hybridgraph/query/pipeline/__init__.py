"""From a query to its hits: one pipeline, a short function of named stages; the retrievers are settings of it."""

from __future__ import annotations

from langchain_hybridgraph.query.pipeline.candidates import Ranked, current, fuse, gather, score_all
from langchain_hybridgraph.query.pipeline.chosen import choose, fit, rerank, resolve_parents
from langchain_hybridgraph.query.pipeline.listed import is_filter_only, read_matches
from langchain_hybridgraph.query.pipeline.run import Certain, Pipeline, Run
from langchain_hybridgraph.query.pipeline.search import plan, search

__all__ = [
    "Certain",
    "Pipeline",
    "Ranked",
    "Run",
    "choose",
    "current",
    "fit",
    "fuse",
    "gather",
    "is_filter_only",
    "plan",
    "read_matches",
    "rerank",
    "resolve_parents",
    "score_all",
    "search",
]
