"""What to search for in answer to a turn of a conversation."""

from __future__ import annotations

from langchain_hybridgraph.query.planner.by_model import STYLES, QueryPlanner
from langchain_hybridgraph.query.planner.by_rules import RulePlanner
from langchain_hybridgraph.query.planner.plan import (
    MEMORY,
    RESOURCE,
    SKILL,
    Planner,
    QueryPlan,
    TypedQuery,
    context_of,
)

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
