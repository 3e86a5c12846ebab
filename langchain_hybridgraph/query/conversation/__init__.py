"""Completion of questions that depend on the conversation.

An expander is a function that takes the question and the turns before it and returns an :class:`ExpandedQuery`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from langchain_hybridgraph.query.conversation.append_history import AppendHistory
from langchain_hybridgraph.query.conversation.expander import AsyncExpander, ConversationTurn, ExpandedQuery, Expander
from langchain_hybridgraph.query.conversation.history_terms import HistoryTerms
from langchain_hybridgraph.query.conversation.llm_rewrite import LLMRewrite
from langchain_hybridgraph.query.conversation.question_completeness import leaning
from langchain_hybridgraph.query.conversation.strip_question import StripQuestion
from langchain_hybridgraph.registry import from_config

__all__ = [
    "EXPANDERS",
    "AppendHistory",
    "AsyncExpander",
    "ConversationTurn",
    "ExpandedQuery",
    "Expander",
    "HistoryTerms",
    "LLMRewrite",
    "StripQuestion",
    "expander_from",
    "leaning",
]

EXPANDERS: Mapping[str, Callable[..., Expander]] = MappingProxyType(
    {"history_terms": HistoryTerms, "append_history": AppendHistory, "strip_question": StripQuestion}
)
"""Expanders that a configuration file can name. LLMRewrite is not among them because it needs a model."""


def expander_from(form: str | Mapping[str, Any] | Expander) -> Expander:
    """Return the expander for a name, or for a mapping with the name as ``type`` and parameters.

    A function is returned unchanged. Raises ConfigurationError for an unknown name or parameter, and for an invalid
    value.

    >>> expander_from({"type": "append_history", "turns": 2})
    AppendHistory(turns=2)
    """
    return from_config("expander", form, EXPANDERS, callable)
