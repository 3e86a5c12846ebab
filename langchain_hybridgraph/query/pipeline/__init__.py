"""The query pipeline and its stages."""

from __future__ import annotations

from langchain_hybridgraph.query.pipeline.emptiness import report_emptiness
from langchain_hybridgraph.query.pipeline.hits import look_up_originals, read_hits
from langchain_hybridgraph.query.pipeline.pipeline import plan, search
from langchain_hybridgraph.query.pipeline.settings import Candidates, CertainHits, Pipeline, SearchContext
from langchain_hybridgraph.query.pipeline.stages.budget import budget
from langchain_hybridgraph.query.pipeline.stages.fuse import fuse
from langchain_hybridgraph.query.pipeline.stages.gather import gather
from langchain_hybridgraph.query.pipeline.stages.list_matches import listed_candidates
from langchain_hybridgraph.query.pipeline.stages.parents import parents
from langchain_hybridgraph.query.pipeline.stages.rank import rank
from langchain_hybridgraph.query.pipeline.stages.rerank import rerank
from langchain_hybridgraph.query.pipeline.stages.select import select

__all__ = [
    "Candidates",
    "CertainHits",
    "Pipeline",
    "SearchContext",
    "budget",
    "fuse",
    "gather",
    "listed_candidates",
    "look_up_originals",
    "parents",
    "plan",
    "rank",
    "read_hits",
    "report_emptiness",
    "rerank",
    "search",
    "select",
]
