"""The settings of each retriever's constructor, by name and type.

They are the retrievers' fields, for editors and type checkers: pydantic does not tell these which keyword arguments a
constructor with arguments of its own takes. What a setting means and its default are at the field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import datetime

    from langchain_core.documents import BaseDocumentCompressor
    from langchain_core.retrievers import BaseRetriever

    from langchain_hybridgraph.adapters.documents import Annotate
    from langchain_hybridgraph.adapters.texts import Engine
    from langchain_hybridgraph.filters import Filter
    from langchain_hybridgraph.memory.scoring import Hotness, Novelty
    from langchain_hybridgraph.query.budget import TokenBudget
    from langchain_hybridgraph.query.fusion import Fusion
    from langchain_hybridgraph.query.graph import Traversal
    from langchain_hybridgraph.query.graph.expansion import Candidates
    from langchain_hybridgraph.query.graph.scores import GraphScore
    from langchain_hybridgraph.query.rerank import Reranker
    from langchain_hybridgraph.records import Edge, TimeRange
    from langchain_hybridgraph.retrievers.memory_modes import Mode
    from langchain_hybridgraph.stores.protocols import HasGraph
    from langchain_hybridgraph.telemetry.events import Sink

    Named = str | Mapping[str, Any]

Preset = Literal["evidence", "hop_decay", "distance_decay", "propagation", "ring_decay", "beam", "pagerank"]


class ObservedSettings(TypedDict, total=False):
    """What LangChain and the listeners of a retriever receive about it."""

    name: str | None
    tags: list[str] | None
    metadata: dict[str, Any] | None
    tracer: Any
    logger: logging.Logger | logging.LoggerAdapter[Any] | str | None
    sinks: Sequence[Sink]


class PipelineSettings(ObservedSettings, total=False):
    """See :class:`~langchain_hybridgraph.retrievers.base.PipelineRetriever`."""

    k: int
    filter: Filter | Mapping[str, Any] | None
    tenant: str | None
    as_of: float | str | datetime | TimeRange | None
    min_score: float
    fusion: Named | Fusion | None
    overfetch: int
    rerank_depth: int
    parents: bool
    reranker: Named | Reranker | BaseDocumentCompressor | Callable[[str, Sequence[str]], Sequence[float]] | None
    changelog_weight: float
    mmr_lambda: float | None
    per_document: int | None
    budget: TokenBudget | None
    deadline_ms: float | None
    on_error: Literal["degrade", "empty", "raise"]
    annotate: Annotate
    metadata_prefix: str


class HybridSettings(PipelineSettings, total=False):
    """See :class:`~langchain_hybridgraph.retrievers.hybrid.HybridRetriever`."""

    keyword_retriever: BaseRetriever | None
    semantic_weight: float | None
    keyword_weight: float | None
    weights: Literal["adaptive", "fixed"]
    keyword_engine: Engine
    language: str
    id_key: str | None
    refresh: Literal["auto", "never"] | float
    version: Any


class GraphSettings(HybridSettings, total=False):
    """See :class:`~langchain_hybridgraph.retrievers.graph.GraphRetriever`."""

    graph: HasGraph | Sequence[Edge] | None
    preset: Preset | None
    traversal: Named | Traversal | None
    score: Named | GraphScore | None
    seed_k: int
    seed_keyword_weight: float | None
    seed_filter: Filter | Mapping[str, Any] | None
    seed_labels: Collection[str]
    candidates: Candidates
    graph_slots: int
    max_hops: int | None
    bidirectional: bool | None
    relation_filter: Sequence[str] | None
    min_weight: float | None
    max_nodes: int | None
    vector_weight: float | None
    graph_weight: float | None
    hop_decay: Sequence[float] | None
    score_expanded: bool | None
    min_traversal_score: float


class MemorySettings(GraphSettings, total=False):
    """See :class:`~langchain_hybridgraph.retrievers.memory.MemoryRetriever`."""

    mode: Named | Mode | None
    labels: str | Collection[str]
    known_at: float | str | datetime | None
    session: Any
    session_id: str | None
    session_turns: int
    source_weights: Mapping[str, float]
    hotness: float | Mapping[str, Any] | Hotness | None
    novelty: Mapping[str, Any] | Novelty | None
    named_times: float


class HierarchicalSettings(HybridSettings, total=False):
    """See :class:`~langchain_hybridgraph.retrievers.hierarchical.HierarchicalRetriever`."""

    planner: Named | Callable[..., Any] | None
    alpha: float
    start_k: int
    start_documents: int
    max_rounds: int
    score_threshold: float
    roots: Mapping[str, Sequence[str]]
    directories: bool | None


class ConversationSettings(TypedDict, total=False):
    """What a conversation adds to the retriever below."""

    expander: Named | Callable[..., Any]
    fuse_raw: bool | None
    get_session_history: Callable[[str], Any] | None


class AdvancedSettings(ObservedSettings, ConversationSettings, total=False):
    """See :class:`~langchain_hybridgraph.retrievers.advanced.AdvancedRetriever`."""

    k: int | None
    annotate: Annotate | None


class AdvancedHybridSettings(HybridSettings, ConversationSettings, total=False):
    """Those of an AdvancedRetriever that makes the HybridRetriever below itself."""
