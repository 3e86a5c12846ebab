"""Expander that appends the last turns to questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_hybridgraph.query.conversation.expander import ConversationTurn, ExpandedQuery, at_least_one


@dataclass(frozen=True, slots=True)
class AppendHistory:
    """Expander that appends the last ``turns`` turns of the conversation, unchanged, to the question.

    The added text helps embedding models, but hurts BM25: on two sets of conversations, nDCG@10 with BM25 falls by a
    third (benchmarks/README.md). Therefore the result is not ``sure``, and the raw question is searched for as well.
    Raises ConfigurationError if ``turns`` is below 1.

    >>> from langchain_hybridgraph.query.conversation.history import turns
    >>> history = turns(["User: red car", "Assistant: A roadster", "User: how fast", "Assistant: 200"])
    >>> AppendHistory()("and its price?", history).text
    'and its price? Assistant: A roadster User: how fast Assistant: 200'
    """

    turns: int = 3

    def __post_init__(self) -> None:
        at_least_one("AppendHistory", turns=self.turns)

    def __call__(self, query: str, history: Sequence[ConversationTurn]) -> ExpandedQuery:
        """Return the question followed by the last turns."""
        return ExpandedQuery(" ".join([query, *(turn.line for turn in history[-self.turns :])]), sure=False)
