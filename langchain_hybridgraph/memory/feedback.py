"""Effects of feedback on memories and on their sources."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, NamedTuple

from langchain_hybridgraph.errors import quote_value
from langchain_hybridgraph.memory.confidence import CONFIDENCE

# Default utility of a memory whose value is unset.
UTILITY = 1.0


class FeedbackEffect(NamedTuple):
    """Effect of one kind of feedback on confidence and utility, and on the credibility of the source.

    ``confidence`` and ``utility`` are added to the memory's confidence and utility; but if ``refutes`` is True,
    ``confidence`` replaces the memory's confidence. ``ok`` and ``bad`` are added to the numbers of confirmed and
    refuted statements of the source.
    """

    confidence: float
    utility: float
    ok: int = 0
    bad: int = 0
    refutes: bool = False

    def applied_to(self, confidence: float | None, utility: float | None) -> tuple[float | None, float | None]:
        """Return confidence and utility after the feedback, clipped to [0, 1].

        Unset values that the feedback does not affect stay unset.

        >>> FEEDBACK["useful"].applied_to(confidence=None, utility=0.5)
        (None, 0.65)
        """
        if self.refutes:
            confidence = self.confidence
        elif self.confidence:
            confidence = _clamp((CONFIDENCE if confidence is None else confidence) + self.confidence)
        if self.utility:
            utility = _clamp((UTILITY if utility is None else utility) + self.utility)
        return confidence, utility


FEEDBACK: Mapping[str, FeedbackEffect] = MappingProxyType(
    {
        "validate": FeedbackEffect(0.15, 0.05, ok=1),
        "refute": FeedbackEffect(0.05, -0.2, bad=1, refutes=True),
        "useful": FeedbackEffect(0.0, 0.15),
        "stale": FeedbackEffect(-0.1, -0.25),
    }
)
"""Effects by the name of the feedback. "refute" sets the confidence to 0.05; all other values are added."""


def feedback_effect(name: Any) -> FeedbackEffect:
    """Return the effect of a kind of feedback; raise ValueError if ``name`` is unknown."""
    effect = FEEDBACK.get(name) if isinstance(name, str) else None
    if effect is None:
        near = get_close_matches(str(name).lower(), FEEDBACK, 1)
        raise ValueError(
            f"feedback {quote_value(name)} is not known; "
            + (f"did you mean {quote_value(near[0])}? " if near else "")
            + f"pass one of {', '.join(map(repr, FEEDBACK))}"
        )
    return effect


def _clamp(value: float) -> float:
    return min(1.0, max(0.0, value))
