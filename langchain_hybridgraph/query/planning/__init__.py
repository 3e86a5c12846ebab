"""Planners that derive queries from a conversation."""

from __future__ import annotations

from langchain_hybridgraph.query.planning.llm_planner import STYLES, QueryPlanner
from langchain_hybridgraph.query.planning.query_plan import (
    LARGEST_PLAN,
    MEMORY,
    RESOURCE,
    SKILL,
    Planner,
    QueryPlan,
    TypedQuery,
)
from langchain_hybridgraph.query.planning.rule_planner import RulePlanner
from langchain_hybridgraph.query.planning.session_context import LAST_MESSAGES, LONGEST_SUMMARY, context_of
from langchain_hybridgraph.query.planning.small_talk import is_small_talk

__all__ = [
    "LARGEST_PLAN",
    "LAST_MESSAGES",
    "LONGEST_SUMMARY",
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
    "is_small_talk",
]
