"""Expander that strips courtesies and question words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from langchain_hybridgraph.query.conversation.expander import ConversationTurn, ExpandedQuery

_LEAD = re.compile(
    r"(?:(?:please|hi|hello|hey|ok|okay|so|and|but|also|then|now|well|thanks|thank you|bitte)\b|"
    r"(?:can|could|would|will) (?:you|u)(?: please| kindly)?\b|do you know\b|i(?:'d| would) like (?:to know|to)\b|"
    r"i (?:want|need) to know\b|(?:i )?(?:wonder|am wondering)\b|(?:tell|show|give|find|explain to) me\b|"
    r"what (?:can|could) you (?:tell me|say)\b|(?:is|are|was|were) there\b|"
    r"(?:what|who|where)(?:'s| is| are| was| were)\b|"
    r"(?:what|which|who|whom|whose|where|when|why|how|if|whether)\b|(?:do|does|did|is|are|was|were|has|have|had|can|"
    r"could|will|would|should|shall|may|might|must)\b|about\b|(?:the|an?|any|some)\b)[\s,.:;!–-]*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class StripQuestion:
    """Expander that removes courtesies, question words and auxiliary verbs from the beginning of a question.

    It ignores the history, and supports only English. A question that consists only of such words stays unchanged.

    >>> StripQuestion()("Could you please tell me what the capital of France is?", []).text
    'capital of France is'
    """

    def __call__(self, query: str, history: Sequence[ConversationTurn]) -> ExpandedQuery:
        """Return the question without its introductory words."""
        rest = query.strip()
        while (lead := _LEAD.match(rest)) and lead.end():
            rest = rest[lead.end() :]
        rest = rest.rstrip(" ?？!.。")
        return ExpandedQuery(rest or query)
