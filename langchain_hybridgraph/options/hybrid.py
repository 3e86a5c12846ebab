"""Options for HybridRetriever."""

from __future__ import annotations

from langchain_core.retrievers import BaseRetriever
from pydantic import BaseModel, Field

from langchain_hybridgraph.options.group import GroupOf, group_field
from langchain_hybridgraph.options.keyword_index import IndexOptions

# Default weights of (vector, keyword). benchmarks/README.md describes how they were chosen.
WEIGHTS = (0.7, 0.3)
LSA_WEIGHTS = (0.4, 0.6)
# Weights for LSA if it is fitted to at most SMALL_STORE texts; see benchmarks/small_memory.md.
SMALL_STORE = 200
SMALL_STORE_WEIGHTS = (0.6, 0.4)


class HybridFields(BaseModel):
    """Options of a HybridRetriever, in addition to those in
    :class:`~langchain_hybridgraph.options.retriever.PipelineFields`.
    """

    keyword_retriever: BaseRetriever | None = Field(
        default=None, description="Retriever to use for the keyword search, instead of an index."
    )
    semantic_weight: float | None = Field(
        default=None,
        ge=0,
        description="Weight of the vector search. If only one weight is set, the other is 1 minus this weight. If "
        "both are unset, they depend on the embedding: with LSA {} for vectors and {} for keywords, up to {} texts {} "
        "and {}, otherwise {} and {}.".format(*LSA_WEIGHTS, SMALL_STORE, *SMALL_STORE_WEIGHTS, *WEIGHTS),
    )
    keyword_weight: float | None = Field(
        default=None, ge=0, description="Weight of the keyword search; unset: see semantic_weight."
    )
    index: GroupOf[IndexOptions] = group_field(
        IndexOptions, "Keyword index for a vector store that has none, or for documents.", repr=False
    )
