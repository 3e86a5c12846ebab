"""Limit on the total number of tokens in hits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.text.tokens import approximate_tokens

if TYPE_CHECKING:
    from langchain_hybridgraph.records import Hit


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """Limit of ``max_tokens`` on the total number of tokens in the hits; chunks are never cut.

    The first hit is always kept, and the order does not change. With ``fill``, every hit that does not fit is left out,
    and smaller hits after it may still be kept. Without ``fill``, the first hit that does not fit and all later hits
    are left out. ``counter`` returns the number of tokens in a text. Raises ConfigurationError if ``max_tokens`` is
    below 1.
    """

    max_tokens: int = 4096
    counter: Callable[[str], int] = approximate_tokens
    fill: bool = True

    def __post_init__(self) -> None:
        max_tokens: object = self.max_tokens
        if not isinstance(max_tokens, int) or isinstance(max_tokens, bool) or max_tokens < 1:
            raise ConfigurationError(f"max_tokens must be an integer ≥ 1, such as 4096, got {max_tokens!r}")

    def fit(self, hits: Sequence[Hit]) -> tuple[list[Hit], list[str]]:
        """Return the hits that fit into the budget, in their order, and the reasons to add to ``degraded``.

        If the first hit alone is larger than the budget, it is the only hit, and the reason is
        ``single-chunk-exceeds-budget``.

        >>> from langchain_hybridgraph.records import Chunk, Hit
        >>> hits = [Hit(Chunk(id, "word " * n), 0.5, "vector", {}) for id, n in (("a", 10), ("b", 20), ("c", 1))]
        >>> [[hit.id for hit in TokenBudget(30, fill=fill).fit(hits)[0]] for fill in (True, False)]
        [['a', 'c'], ['a']]
        """
        if not hits:
            return [], []
        remaining = self.max_tokens - self.counter(hits[0].chunk.text)
        if remaining < 0:
            return [hits[0]], ["single-chunk-exceeds-budget"]
        fitting = [hits[0]]
        for hit in hits[1:]:
            tokens = self.counter(hit.chunk.text)
            if tokens <= remaining:
                fitting.append(hit)
                remaining -= tokens
            elif not self.fill:
                break
        return fitting, []
