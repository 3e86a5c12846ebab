"""From a query to its hits: one pipeline, a short function of named stages; the retrievers are settings of it."""

from __future__ import annotations

from langchain_hybridgraph.query.pipeline.candidates import ScoredCandidates, current, fuse, gather, score_all
from langchain_hybridgraph.query.pipeline.listed import is_filter_only, read_matches
from langchain_hybridgraph.query.pipeline.pipeline import plan, search
from langchain_hybridgraph.query.pipeline.postprocess import apply_budget, rerank, resolve_parents, select_hits
from langchain_hybridgraph.query.pipeline.settings import Certain, Pipeline, SearchContext

__all__ = [
    "Certain",
    "Pipeline",
    "ScoredCandidates",
    "SearchContext",
    "apply_budget",
    "current",
    "fuse",
    "gather",
    "is_filter_only",
    "plan",
    "read_matches",
    "rerank",
    "resolve_parents",
    "score_all",
    "search",
    "select_hits",
]
