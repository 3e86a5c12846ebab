"""Rerankers, planners and expanders that settings can name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from langchain_hybridgraph.adapters.chat_models import chat_model
from langchain_hybridgraph.query import llm_rerank
from langchain_hybridgraph.query.conversation import AppendHistory, Expander, HistoryTerms, LLMRewrite, StripQuestion
from langchain_hybridgraph.query.llm_rerank import LLMReranker
from langchain_hybridgraph.query.planning import QueryPlanner, RulePlanner, llm_planner
from langchain_hybridgraph.query.rerankers import RERANKERS as WITHOUT_MODEL
from langchain_hybridgraph.query.rerankers import Reranker


def _llm_reranker(
    model: str,
    *,
    batch_size: int = llm_rerank.BATCH_SIZE,
    max_characters: int = llm_rerank.MAX_CHARACTERS,
    workers: int = llm_rerank.WORKERS,
    timeout: float | None = llm_rerank.TIMEOUT,
    method: str | None = None,
) -> LLMReranker:
    settings = {"batch_size": batch_size, "max_characters": max_characters, "workers": workers}
    return LLMReranker(chat_model(model), **settings, timeout=timeout, method=method)


def _llm_planner(model: str, *, timeout: float | None = llm_planner.TIMEOUT, method: str | None = None) -> QueryPlanner:
    return QueryPlanner(chat_model(model), timeout=timeout, method=method)


def _llm_expander(model: str, *, turns: int = 6, timeout: float | None = 10.0) -> LLMRewrite:
    return LLMRewrite(chat_model(model), turns=turns, timeout=timeout)


RERANKERS: Mapping[str, Callable[..., Reranker]] = MappingProxyType({**WITHOUT_MODEL, "llm": _llm_reranker})
"""Rerankers that a configuration file can name; others are named as ``"package.module:factory"``."""
PLANNERS: Mapping[str, Callable[..., Any]] = MappingProxyType({"rules": RulePlanner, "llm": _llm_planner})
"""Planners that a configuration file can name; others are named as ``"package.module:factory"``."""
EXPANDERS: Mapping[str, Callable[..., Expander]] = MappingProxyType(
    {
        "history_terms": HistoryTerms,
        "append_history": AppendHistory,
        "strip_question": StripQuestion,
        "llm": _llm_expander,
    }
)
"""Expanders that a configuration file can name; others are named as ``"package.module:factory"``."""
