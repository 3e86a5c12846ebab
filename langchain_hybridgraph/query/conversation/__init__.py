"""Completion of questions that depend on the conversation.

An expander is a function that takes the question and the turns before it and returns an :class:`ExpandedQuery`.
"""

from __future__ import annotations

from langchain_hybridgraph.query.conversation.append_history import AppendHistory
from langchain_hybridgraph.query.conversation.expander import AsyncExpander, ConversationTurn, ExpandedQuery, Expander
from langchain_hybridgraph.query.conversation.history_terms import HistoryTerms
from langchain_hybridgraph.query.conversation.llm_rewrite import LLMRewrite
from langchain_hybridgraph.query.conversation.question_completeness import leaning
from langchain_hybridgraph.query.conversation.strip_question import StripQuestion

__all__ = [
    "AppendHistory",
    "AsyncExpander",
    "ConversationTurn",
    "ExpandedQuery",
    "Expander",
    "HistoryTerms",
    "LLMRewrite",
    "StripQuestion",
    "leaning",
]
