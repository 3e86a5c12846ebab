"""Rerankers as LlamaIndex node postprocessors."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from llama_index.core.bridge.pydantic import Field, field_validator
from llama_index.core.callbacks.schema import CBEventType, EventPayload
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle
from llama_index_instrumentation import get_dispatcher

from langchain_hybridgraph.adapters.compressor import as_reranker
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.execution.effects import offload
from langchain_hybridgraph.llama_index.nodes import text_of
from langchain_hybridgraph.records import Hit
from langchain_hybridgraph.search.rerankers import Reranker, ScoreReranker, apply_scores, is_awaited

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Report = Callable[[list[NodeWithScore]], list[NodeWithScore]]

dispatcher = get_dispatcher(__name__)

FAILED = "rerank-failed"


class RerankPostprocessor(BaseNodePostprocessor):
    """Node postprocessor that reorders nodes with a reranker and replaces their scores.

    At most ``top_n`` nodes are kept.

    ``reranker`` is one of this package's rerankers (``ScoreReranker``, ``LLMReranker``, ``CrossEncoderReranker``), any
    LangChain compressor, or a function from a query and texts to scores. The nodes passed in are not changed. A node's
    score of None is treated as 0. If the reranker fails, the nodes keep their order, and ``degraded`` in their metadata
    contains ``rerank-failed``; with ``on_error="raise"``, the error is raised instead. Raises ConfigurationError for an
    object that cannot rerank, and if a reranker needs the query but none is passed.

    >>> from langchain_hybridgraph import ScoreReranker
    >>> from llama_index.core.schema import TextNode
    >>> nodes = [NodeWithScore(node=TextNode(text="t", id_=id), score=score) for id, score in [("a", 0.9), ("b", 0.2)]]
    >>> [node.node_id for node in RerankPostprocessor(ScoreReranker(0.5)).postprocess_nodes(nodes, query_str="any")]
    ['a']
    """

    reranker: Any = Field(exclude=True, description="Reranker that scores the nodes.")
    top_n: int | None = Field(None, ge=1, description="Maximum number of nodes; None: no limit.")
    on_error: str = Field("degrade", pattern="^(degrade|raise)$", description="What to do if the reranker fails.")

    def __init__(self, reranker: Any, *, top_n: int | None = None, **settings: Any) -> None:
        super().__init__(**settings | {"reranker": reranker, "top_n": top_n})

    @field_validator("reranker")
    @classmethod
    def _adapted(cls, value: Any) -> Reranker:
        return as_reranker(value)

    @classmethod
    def class_name(cls) -> str:
        """Return the class name that LlamaIndex uses for serialisation."""
        return "RerankPostprocessor"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        query, hits = self._query(query_bundle), _hits(nodes)
        with self._reporting(nodes, query_bundle) as report:
            try:
                scores = self.reranker.rerank(query, hits) if hits else []
                return report(self._reordered(nodes, apply_scores(hits, scores, self.reranker)))
            except Exception as error:  # noqa: BLE001 - a reranker may be the caller's own, and raise anything
                return report(self._unchanged(nodes, error))

    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if not is_awaited(self.reranker):
            return await offload(partial(self._postprocess_nodes, nodes, query_bundle))
        query, hits = self._query(query_bundle), _hits(nodes)
        with self._reporting(nodes, query_bundle) as report:
            try:
                scores = await self.reranker.arerank(query, hits) if hits else []
                return report(self._reordered(nodes, apply_scores(hits, scores, self.reranker)))
            except Exception as error:  # noqa: BLE001 - as above
                return report(self._unchanged(nodes, error))

    def _query(self, query: QueryBundle | None) -> str:
        if query is not None:
            return query.query_str
        if isinstance(self.reranker, ScoreReranker):
            return ""
        raise ConfigurationError(f"{type(self.reranker).__name__} needs a query: postprocess_nodes(nodes, query_str=…)")

    @contextmanager
    def _reporting(self, nodes: list[NodeWithScore], query: QueryBundle | None) -> Iterator[Report]:
        """Send LlamaIndex's events before and after reranking.

        The context manager yields a function. It has to be called with the reranked nodes, which are reported in the
        second event.
        """
        name, top_n = type(self.reranker).__name__, self.top_n or len(nodes)
        done: list[NodeWithScore] = []

        def report(reranked: list[NodeWithScore]) -> list[NodeWithScore]:
            done.extend(reranked)
            return reranked

        dispatcher.event(ReRankStartEvent(query=query, nodes=nodes, top_n=top_n, model_name=name))
        payload: dict[str, Any] = {
            EventPayload.NODES: nodes,
            EventPayload.MODEL_NAME: name,
            EventPayload.QUERY_STR: query.query_str if query else "",
            EventPayload.TOP_K: top_n,
        }
        with self.callback_manager.event(CBEventType.RERANKING, payload=payload) as event:
            yield report
            event.on_end(payload={EventPayload.NODES: done})
        dispatcher.event(ReRankEndEvent(nodes=done))

    def _reordered(self, nodes: Sequence[NodeWithScore], hits: Sequence[Hit]) -> list[NodeWithScore]:
        best = hits[: self.top_n]
        return [NodeWithScore(node=nodes[int(hit.id)].node, score=hit.score) for hit in best]

    def _unchanged(self, nodes: Sequence[NodeWithScore], error: Exception) -> list[NodeWithScore]:
        """Return the first ``top_n`` nodes in their original order, with ``rerank-failed`` in their metadata. With
        ``on_error="raise"``, raise the error instead.
        """
        if self.on_error == "raise":
            raise error
        return [_noted(node) for node in nodes[: self.top_n]]


def _hits(nodes: Sequence[NodeWithScore]) -> list[Hit]:
    """Convert nodes to hits. The ids of the hits are positions, because a node may occur twice in a list."""
    width = len(str(len(nodes)))
    return [
        Hit(Chunk(f"{place:0{width}}", text_of(node.node), node.metadata), node.get_score(), "node", {})
        for place, node in enumerate(nodes)
    ]


def _noted(scored_node: NodeWithScore) -> NodeWithScore:
    node = scored_node.node.model_copy(deep=True)
    node.metadata["degraded"] = [*node.metadata.get("degraded", []), FAILED]
    for keys in (node.excluded_llm_metadata_keys, node.excluded_embed_metadata_keys):
        if "degraded" not in keys:
            keys.append("degraded")
    return NodeWithScore(node=node, score=scored_node.score)
