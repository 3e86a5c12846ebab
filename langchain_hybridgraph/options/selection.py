"""Options that select the hits to return."""

from __future__ import annotations

from pydantic import Field

from langchain_hybridgraph.options.group import OptionGroup
from langchain_hybridgraph.search.selection import TokenBudget


class SelectionOptions(OptionGroup):
    """Options for the search depth and the choice of hits: diversity, limits and the weight of change logs.

    >>> selection = SelectionOptions(mmr_lambda=0.7).changed({"max_per_document": 2})
    >>> selection.mmr_lambda, selection.max_per_document
    (0.7, 2)
    """

    mmr_lambda: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Diversity by maximal marginal relevance, from 1 (score only) to 0 (diversity only); unset: off.",
    )
    max_per_document: int | None = Field(
        default=None, ge=1, description="Maximum number of hits per document; unset: no limit."
    )
    budget: TokenBudget | None = Field(
        default=None,
        description="Maximum number of tokens in all results together; no text is cut. Unset: no limit, or the "
        "budget of the preset.",
    )
    overfetch: int = Field(
        default=3, ge=1, description="Number of candidates per source, as a multiple of k; at least 100 are fetched."
    )
    rerank_depth: int = Field(default=50, ge=1, description="Number of the best hits to rerank.")
