"""The query pipeline and its stages."""

from __future__ import annotations

from langchain_hybridgraph.query.pipeline.admit import look_up_originals
from langchain_hybridgraph.query.pipeline.gather import gather
from langchain_hybridgraph.query.pipeline.list_matches import is_filter_only, read_matches
from langchain_hybridgraph.query.pipeline.pipeline import plan, search
from langchain_hybridgraph.query.pipeline.postprocess import budget, parents, rerank, select
from langchain_hybridgraph.query.pipeline.rank import rank
from langchain_hybridgraph.query.pipeline.settings import Candidates, Certain, Pipeline, SearchContext

__all__ = [
    "Candidates",
    "Certain",
    "Pipeline",
    "SearchContext",
    "budget",
    "gather",
    "is_filter_only",
    "look_up_originals",
    "parents",
    "plan",
    "rank",
    "read_matches",
    "rerank",
    "search",
    "select",
]
