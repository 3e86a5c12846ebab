"""The question with the last turns behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_hybridgraph.query.conversation.expander import ExpandedQuery, Said, at_least_one


@dataclass(frozen=True, slots=True)
class AppendHistory:
    """The question and, after it, the last ``turns`` turns as they were said.

    It helps a model that reads, and hurts BM25: on two sets of conversations nDCG@10 falls by a third
    (benchmarks/README.md). So it is not ``sure``, and the raw question is searched for, too. Raises ConfigurationError
    for fewer turns than 1.

    >>> from langchain_hybridgraph.query.conversation.history import turns
    >>> said = turns(["User: red car", "Assistant: A roadster", "User: how fast", "Assistant: 200"])
    >>> AppendHistory()("and its price?", said).text
    'and its price? Assistant: A roadster User: how fast Assistant: 200'
    """

    turns: int = 3

    def __post_init__(self) -> None:
        at_least_one("AppendHistory", turns=self.turns)

    def __call__(self, query: str, history: Sequence[Said]) -> ExpandedQuery:
        """The question with the turns."""
        return ExpandedQuery(" ".join([query, *(turn.line for turn in history[-self.turns :])]), sure=False)
