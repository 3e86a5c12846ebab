"""Retrievers and rerankers for LlamaIndex."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import Field, field_validator
from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.indices.vector_store.base import VectorStoreIndex
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import BaseNode, IndexNode, NodeWithScore, QueryBundle, QueryType
from llama_index.core.settings import Settings
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.base import BaseEvent

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.execution.effects import Failure, Search, adrive, drive, offload
from langchain_hybridgraph.llama_index.nodes import filter_from, text_of, to_chunk, to_node
from langchain_hybridgraph.llama_index.vector_store import LlamaIndexVectorStore
from langchain_hybridgraph.options.objects import as_reranker
from langchain_hybridgraph.records import Hit, in_scope
from langchain_hybridgraph.result import RetrievalResult
from langchain_hybridgraph.retrievers.base import PipelineRetriever
from langchain_hybridgraph.retrievers.graph import GraphRetriever
from langchain_hybridgraph.retrievers.hybrid import HybridRetriever
from langchain_hybridgraph.search.rerankers import Reranker, ScoreReranker, apply_scores, rerank_call

dispatcher = get_dispatcher(__name__)

# Names of options in LlamaIndex, mapped to the names in this package.
_NATIVE_NAMES = {"filters": "filter", "similarity_top_k": "k"}
# Options that contain a conversation, which may consist of LlamaIndex's messages.
_CONVERSATION_OPTIONS = frozenset({"conversation_history", "session"})


@dataclass
class QueryWithOptions(QueryBundle):
    """Query with options for a single call, which override the retriever's own (filters are combined)."""

    options: Mapping[str, Any] = field(default_factory=dict)


class RetrievalReportEvent(BaseEvent):
    """Event with the ``degraded`` reasons and the ``plan`` of a search, sent before LlamaIndex's RetrievalEndEvent."""

    degraded: list[str]
    took_ms: float
    plan: dict[str, Any]

    @classmethod
    def class_name(cls) -> str:
        """Return the event's name."""
        return "RetrievalReportEvent"


class LlamaIndexRetriever(BaseRetriever):
    """LlamaIndex retriever that calls one of this package's retrievers and returns nodes with scores.

    ``retriever`` is a HybridRetriever, GraphRetriever, AdvancedRetriever, HierarchicalRetriever, or another object with
    ``retrieve`` and ``aretrieve``. ``options`` (``k=``, ``filter=``, …) are passed to it in every call. LlamaIndex's
    ``similarity_top_k=`` and ``filters=`` (MetadataFilters, or this package's filters) are also accepted. Options for a
    single call are passed with :meth:`with_options` or in a :class:`QueryWithOptions`. If a query has an ``embedding``,
    it replaces the embedding of its text; if it has ``custom_embedding_strs`` (as in HyDE), the mean of their
    embeddings does.

    Nodes written by ``ingest_nodes`` (or by a LlamaIndex vector store) are returned with their relationships. How a
    node was found is described in additional metadata, hidden from language models and embedding models. If no nodes
    are found, ``degraded`` is available from :meth:`retrieve_result` and the event :class:`RetrievalReportEvent`.

    Raises the errors of the retriever: ConfigurationError, FilterError, TenantError, RetrievalError, and TypeError for
    an unknown option.

    >>> from langchain_hybridgraph import HybridGraphStore, HybridRetriever
    >>> store = HybridGraphStore.from_texts(["the cat sat", "dogs bark"], ids=["cat", "dog"])
    >>> for found in LlamaIndexRetriever(HybridRetriever(store), k=1).retrieve("Where is the cat?"):
    ...     print(found.node_id, found.metadata["hops"])
    cat 0
    """

    def __init__(
        self,
        retriever: Any,
        *,
        callback_manager: CallbackManager | None = None,
        object_map: dict[str, Any] | None = None,
        objects: list[IndexNode] | None = None,
        verbose: bool = False,
        **options: Any,
    ) -> None:
        if isinstance(retriever, BaseRetriever) or not callable(getattr(retriever, "aretrieve", None)):
            raise ConfigurationError(
                f"LlamaIndexRetriever cannot wrap a {type(retriever).__name__}; pass a retriever such as "
                "HybridRetriever(store); for a LlamaIndex index use LlamaIndexRetriever.from_index(index)"
            )
        super().__init__(callback_manager or Settings.callback_manager, object_map, objects, verbose)
        self.retriever = retriever
        self.options = _native_options(options)

    @classmethod
    def from_index(
        cls, index: VectorStoreIndex, kind: type[HybridRetriever] = HybridRetriever, **settings: Any
    ) -> Self:
        """Create a retriever for a LlamaIndex index: its vector store, a keyword index and, as ``kind`` says, a graph.

        ``kind`` is HybridRetriever, GraphRetriever or MemoryRetriever; its ``settings`` may use LlamaIndex's names
        (``similarity_top_k=``, ``filters=``). The keyword index and the edges, which are the nodes' relationships, are
        created immediately, so create the retriever again after adding nodes. Raises ConfigurationError for another
        class; an AdvancedRetriever can wrap one of these retrievers.
        """
        if not issubclass(kind, HybridRetriever):
            raise ConfigurationError(
                f"{kind.__name__} cannot be created from an index; create store = LlamaIndexVectorStore(index), then "
                f"LlamaIndexRetriever({kind.__name__}(HybridRetriever(store, store.documents())))"
            )
        store = LlamaIndexVectorStore(index)
        edges = {"edges": store.edges()} if issubclass(kind, GraphRetriever) else {}
        return cls(kind(store, store.documents(), **edges | _native_options(settings)))

    def with_options(self, **options: Any) -> Self:
        """Return a copy of the retriever with these options, which override its own. Filters are combined."""
        other = copy(self)
        other.options = _merged(self.options, _native_options(options))
        return other

    def retrieve_result(self, query: QueryType) -> RetrievalResult[NodeWithScore]:
        """Return nodes with ``degraded``, ``took_ms``, ``plan`` and ``hits``; send only RetrievalReportEvent."""
        text, options, strings = self._parse_query(query)
        if strings:
            options["vector"] = _mean([self._embeddings().embed_query(each) for each in strings])
        return self._answer(self.retriever.retrieve(text, **options), options)

    async def aretrieve_result(self, query: QueryType) -> RetrievalResult[NodeWithScore]:
        """Return the nodes with details, asynchronously; see :meth:`retrieve_result`."""
        text, options, strings = self._parse_query(query)
        if strings:
            options["vector"] = _mean([await self._embeddings().aembed_query(each) for each in strings])
        result = await self.retriever.aretrieve(text, **options)
        return await offload(partial(self._answer, result, options))

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return list(self.retrieve_result(query_bundle))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return list(await self.aretrieve_result(query_bundle))

    def _parse_query(self, query: QueryType) -> tuple[str | None, dict[str, Any], list[str]]:
        """Return the text, the options, and the texts whose mean embedding is used as the query vector."""
        bundle = QueryBundle(query) if isinstance(query, str) else query
        if bundle.image_path is not None:
            raise ConfigurationError(
                f"the query is the image {bundle.image_path!r}, which no retriever of this package can search for: "
                "pass its vector, QueryBundle(query_str, embedding=[…])"
            )
        own = _native_options(bundle.options) if isinstance(bundle, QueryWithOptions) else {}
        options = ({} if bundle.embedding is None else {"vector": bundle.embedding}) | _merged(self.options, own)
        has_vector = options.get("vector") is not None
        strings = [] if has_vector else bundle.custom_embedding_strs or []
        return bundle.query_str or (None if has_vector or strings else ""), options, strings

    def _embeddings(self) -> Embeddings:
        inner = getattr(self.retriever, "retriever", self.retriever)
        embeddings = getattr(getattr(inner, "vector_store", None), "embeddings", None)
        if not isinstance(embeddings, Embeddings):
            raise ConfigurationError(
                f"custom_embedding_strs requires an embedding model, but this {type(self.retriever).__name__} has "
                "none; pass the vector: QueryBundle(query_str, embedding=[…])"
            )
        return embeddings

    def _answer(self, result: RetrievalResult[Document], options: Mapping[str, Any]) -> RetrievalResult[NodeWithScore]:
        hits = result.hits if len(result.hits) == len(result) else (None,) * len(result)
        nodes = []
        for document, hit in zip(result, hits, strict=True):
            notes = () if hit is None else document.metadata.keys() - hit.chunk.metadata.keys()
            score = document.metadata.get("relevance_score") if hit is None else hit.score
            nodes.append(NodeWithScore(node=to_node(document, notes), score=score))
        inner = getattr(self.retriever, "retriever", self.retriever)
        for node in (each.node for each in nodes):
            # LlamaIndex returns the object of an IndexNode in its place.
            if isinstance(node, IndexNode) and isinstance(node.obj, BaseNode) and isinstance(inner, PipelineRetriever):
                scope = inner._scope({name: value for name, value in options.items() if value is not None})
                node.obj = node.obj if in_scope(to_chunk(node.obj), replace(scope, tenant=None)) else None
        dispatcher.event(
            RetrievalReportEvent(degraded=list(result.degraded), took_ms=result.took_ms, plan=dict(result.plan))
        )
        return RetrievalResult(
            nodes, hits=result.hits, degraded=result.degraded, took_ms=result.took_ms, plan=result.plan
        )


def _native_options(options: Mapping[str, Any]) -> dict[str, Any]:
    native = {_NATIVE_NAMES.get(name, name): value for name, value in options.items()}
    if len(native) < len(options):
        duplicate = next(name for name in _NATIVE_NAMES if name in options and _NATIVE_NAMES[name] in options)
        raise ConfigurationError(
            f"{duplicate}= and {_NATIVE_NAMES[duplicate]}= are two names for the same option; pass only one of them"
        )
    if "filter" in native:
        native["filter"] = filter_from(native["filter"])
    return native | {name: _turns(native[name]) for name in _CONVERSATION_OPTIONS & native.keys()}


def _turns(conversation: Any) -> Any:
    if isinstance(conversation, Mapping) and "messages" in conversation:
        return {**conversation, "messages": _turns(conversation["messages"])}
    if not isinstance(conversation, (list, tuple)):
        return conversation
    return [(each.role.value, each.content or "") if isinstance(each, ChatMessage) else each for each in conversation]


def _merged(options: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    filters = [part for source in (options, own) if (part := source.get("filter")) is not None]
    return {**options, **own} | (
        {"filter": filters[0] & filters[1]} if len(filters) > 1 else {"filter": filters[0]} if filters else {}
    )


def _mean(vectors: Sequence[Sequence[float]]) -> list[float]:
    mean: list[float] = np.mean(np.asarray(vectors, np.float64), axis=0).tolist()
    return mean


class RerankPostprocessor(BaseNodePostprocessor):
    """Node postprocessor that reorders nodes with a reranker, replaces their scores, and keeps at most ``top_n``.

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
        return drive(self._rerank(nodes, query_bundle))

    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        return await adrive(self._rerank(nodes, query_bundle))

    def _query(self, query: QueryBundle | None) -> str:
        if query is not None:
            return query.query_str
        if isinstance(self.reranker, ScoreReranker):
            return ""
        raise ConfigurationError(f"{type(self.reranker).__name__} needs a query: postprocess_nodes(nodes, query_str=…)")

    def _rerank(self, nodes: list[NodeWithScore], query: QueryBundle | None) -> Search[list[NodeWithScore]]:
        text, hits, reranker = self._query(query), _hits(nodes), self.reranker
        model, top_n = type(reranker).__name__, self.top_n or len(nodes)
        dispatcher.event(ReRankStartEvent(query=query, nodes=nodes, top_n=top_n, model_name=model))
        calls = [rerank_call(reranker, text, hits)] if hits else []
        try:
            (scores,) = (yield calls) if calls else ([],)
            if isinstance(scores, Failure):
                raise scores.error
            best = apply_scores(hits, scores, reranker)[: self.top_n]
            done = [NodeWithScore(node=nodes[int(hit.id)].node, score=hit.score) for hit in best]
        except Exception:  # a reranker may be the caller's own, and raise anything
            if self.on_error == "raise":
                raise
            done = list(map(_noted, nodes[: self.top_n]))
        dispatcher.event(ReRankEndEvent(nodes=done))
        return done


def _hits(nodes: Sequence[NodeWithScore]) -> list[Hit]:
    """Convert nodes to hits, whose ids are positions, because a node may occur twice in a list."""
    width = len(str(len(nodes)))
    return [
        Hit(Chunk(f"{place:0{width}}", text_of(node.node), node.metadata), node.get_score(), "node", {})
        for place, node in enumerate(nodes)
    ]


def _noted(scored_node: NodeWithScore) -> NodeWithScore:
    node = scored_node.node.model_copy(deep=True)
    node.metadata["degraded"] = [*node.metadata.get("degraded", []), "rerank-failed"]
    for keys in (node.excluded_llm_metadata_keys, node.excluded_embed_metadata_keys):
        if "degraded" not in keys:
            keys.append("degraded")
    return NodeWithScore(node=node, score=scored_node.score)
