"""Planning of queries from a conversation."""

from __future__ import annotations

from langchain_hybridgraph.query.planning.llm_planner import STYLES, QueryPlanner
from langchain_hybridgraph.query.planning.planner import (
    MEMORY,
    RESOURCE,
    SKILL,
    Planner,
    QueryPlan,
    TypedQuery,
    context_of,
)
from langchain_hybridgraph.query.planning.rule_planner import RulePlanner

__all__ = [
    "MEMORY",
    "RESOURCE",
    "SKILL",
    "STYLES",
    "Planner",
    "QueryPlan",
    "QueryPlanner",
    "RulePlanner",
    "TypedQuery",
    "context_of",
]
