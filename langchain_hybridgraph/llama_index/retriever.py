"""Retrievers and rerankers for LlamaIndex, and adapters for its indexes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NoReturn, Self

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import Runnable
from langchain_core.vectorstores import VectorStore
from llama_index.core import Settings, VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import Field, field_validator
from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.llms import LLM, ChatMessage
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import BaseNode, IndexNode, NodeWithScore, QueryBundle, QueryType
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore
from llama_index_instrumentation import get_dispatcher
from llama_index_instrumentation.base import BaseEvent

from langchain_hybridgraph.adapters.vector_stores import NearestDocuments, StoreAdapter
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.execution.effects import Failure, Search, adrive, drive, offload
from langchain_hybridgraph.llama_index.nodes import (
    filter_from,
    hide,
    node_id,
    relationship_edges,
    text_of,
    to_chunk,
    to_document,
    to_node,
)
from langchain_hybridgraph.options.objects import as_reranker
from langchain_hybridgraph.records import Edge, Hit, in_scope
from langchain_hybridgraph.result import RetrievalResult
from langchain_hybridgraph.retrievers.base import PipelineRetriever
from langchain_hybridgraph.retrievers.graph import GraphRetriever
from langchain_hybridgraph.retrievers.hybrid import HybridRetriever
from langchain_hybridgraph.search.rerankers import Reranker, ScoreReranker, apply_scores, rerank_call
from langchain_hybridgraph.stores.vectors import unit

dispatcher = get_dispatcher(__name__)

# Names of options in LlamaIndex, mapped to the names in this package.
_NATIVE_NAMES = {"filters": "filter", "similarity_top_k": "k"}
# Options that contain a conversation, which may consist of LlamaIndex's messages.
_CONVERSATION_OPTIONS = frozenset({"conversation_history", "session"})


class LlamaIndexEmbeddings(Embeddings):
    """Adapter from a LlamaIndex embedding model to LangChain's ``Embeddings``, for use in a store or retriever.

    >>> from llama_index.core.embeddings import MockEmbedding
    >>> LlamaIndexEmbeddings(MockEmbedding(embed_dim=2)).embed_query("any")
    [0.5, 0.5]
    """

    def __init__(self, embed_model: BaseEmbedding) -> None:
        if not isinstance(embed_model, BaseEmbedding):
            raise ConfigurationError(
                f"LlamaIndexEmbeddings cannot wrap {embed_model!r:.80}; pass a LlamaIndex embedding model such as "
                "Settings.embed_model"
            )
        self.embed_model = embed_model

    @property
    def model_name(self) -> str:
        """Class and name of the model, which an index records."""
        return f"{self.embed_model.class_name()}/{self.embed_model.model_name}"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text."""
        return self.embed_model.get_text_embedding_batch(texts)

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question."""
        return self.embed_model.get_query_embedding(text)

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text, asynchronously."""
        return await self.embed_model.aget_text_embedding_batch(texts)

    async def aembed_query(self, text: str) -> list[float]:
        """Return the vector of a question, asynchronously."""
        return await self.embed_model.aget_query_embedding(text)


class LlamaIndexChatModel(Runnable[Any, str]):
    """Adapter through which ``LLMReranker``, ``QueryPlanner`` and other stages use a LlamaIndex language model.

    Structured answers are requested in the prompt, so any model works; an answer in another form fails the stage.
    """

    def __init__(self, llm: LLM) -> None:
        if not isinstance(llm, LLM):
            raise ConfigurationError(
                f"LlamaIndexChatModel was given {llm!r:.80}; pass a LlamaIndex LLM such as Settings.llm"
            )
        self.llm = llm

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> str:
        """Return the model's answer to a list of (role, text) pairs."""
        return self.llm.chat(_messages(input)).message.content or ""

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> str:
        """Return the model's answer, asynchronously."""
        return (await self.llm.achat(_messages(input))).message.content or ""


def _messages(turns: Iterable[tuple[str, str]]) -> list[ChatMessage]:
    roles = {"human": "user", "ai": "assistant"}
    return [ChatMessage(role=roles.get(role, role), content=text) for role, text in turns]


class LlamaIndexVectorStore(VectorStore):
    """LangChain VectorStore that reads a LlamaIndex ``VectorStoreIndex`` and the nodes in its docstore.

    The index is read through ``index.as_retriever()`` and never written to. Scores come from the vector store or, if it
    returns none, from the rank. The search methods ignore filters: this package's retrievers apply them to the results,
    and request more results until enough match. ``documents()`` and ``edges()`` supply a retriever's keyword and graph
    search.
    """

    def __init__(self, index: VectorStoreIndex) -> None:
        if not isinstance(index, VectorStoreIndex):
            raise ConfigurationError(
                f"LlamaIndexVectorStore was given {type(index).__name__}; pass a VectorStoreIndex, such as "
                "VectorStoreIndex(nodes) or VectorStoreIndex.from_vector_store(vector_store)"
            )
        self.index = index

    @property
    def embeddings(self) -> Embeddings:
        """Embedding model of the index."""
        return LlamaIndexEmbeddings(self.index._embed_model)

    def nodes(self) -> list[BaseNode]:
        """Return the nodes that the index searches, from the docstore or the vector store; [] if neither lists them."""
        ids = list(self.index.index_struct.nodes_dict.values())
        vectors = self.stored_vectors
        if vectors is not None:
            # LlamaIndex's delete_nodes leaves a node in the index's structure and in the docstore.
            ids = [id for id in ids if id in vectors]
        if ids:
            return self.index.docstore.get_nodes(ids, raise_error=False)
        try:
            get_nodes: Any = self.index.vector_store.get_nodes
            return list(get_nodes(None))
        except (AttributeError, NotImplementedError):
            return []

    @property
    def stored_vectors(self) -> dict[str, list[float]] | None:
        """Vectors of a SimpleVectorStore by node id, or None for other vector stores."""
        store = self.index.vector_store
        return store.data.embedding_dict if isinstance(store, SimpleVectorStore) else None

    def adapter(self) -> StoreAdapter:
        """Return the adapter through which this package's retrievers read the index."""
        return LlamaIndexAdapter(self)

    def documents(self) -> list[Document]:
        """Return the nodes that contain text, as Documents."""
        return [document for node in self.nodes() if (document := to_document(node)).page_content.strip()]

    def edges(self) -> list[Edge]:
        """Return the relationships of the nodes as edges."""
        return [edge for node in self.nodes() for edge in relationship_edges(node)]

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the k Documents nearest to the query."""
        return [document for document, _ in self.similarity_search_with_score(query, k)]

    def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> list[tuple[Document, float]]:
        """Return the k Documents nearest to the query with the vector store's scores, best first."""
        return _documents(self.index.as_retriever(similarity_top_k=k).retrieve(query))

    def similarity_search_with_score_by_vector(
        self, embedding: Sequence[float], k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Return the k Documents nearest to a vector, with the vector store's scores, best first."""
        query = QueryBundle("", embedding=list(embedding))
        return _documents(self.index.as_retriever(similarity_top_k=k).retrieve(query))

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the Documents with these ids, leaving out missing ids."""
        requested = set(ids)
        return [to_document(node) for node in self.nodes() if node_id(node) in requested]

    @classmethod
    def from_texts(
        cls, texts: list[str], embedding: Embeddings, metadatas: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> NoReturn:
        """Raise ConfigurationError, because the index has to be created with LlamaIndex."""
        raise ConfigurationError(
            "LlamaIndexVectorStore reads an existing index: create one with VectorStoreIndex(nodes)"
        )


class LlamaIndexAdapter(StoreAdapter):
    """Adapter for a LlamaIndex index; only a SimpleVectorStore has vectors and scores that are known to be cosines."""

    is_in_memory = True

    def __init__(self, store: LlamaIndexVectorStore) -> None:
        super().__init__(store)
        self._vector_store: Any = store.index.vector_store
        # The nodes are in the docstore, or the vector store can list them.
        own = getattr(type(self._vector_store), "get_nodes", BasePydanticVectorStore.get_nodes)
        self.can_list = not self._vector_store.stores_text or own is not BasePydanticVectorStore.get_nodes

    def convert_scores(self, results: Sequence[tuple[Document, float]]) -> NearestDocuments:
        """Implement :meth:`StoreAdapter.convert_scores`."""
        return NearestDocuments(list(results), are_cosines=isinstance(self._vector_store, SimpleVectorStore))

    def vectors(self, ids: Sequence[str]) -> dict[str, Any]:
        """Implement :meth:`StoreAdapter.vectors`."""
        vectors = self._store.stored_vectors or {}
        return {id: unit(np.asarray(vectors[id], np.float32)) for id in ids if id in vectors}

    def count(self) -> int | None:
        """Implement :meth:`StoreAdapter.count`."""
        if (vectors := self._store.stored_vectors) is not None:
            return len(vectors)
        return None if self._vector_store.stores_text else len(self._store.index.index_struct.nodes_dict)

    def documents(self) -> Iterator[Document]:
        """Implement :meth:`StoreAdapter.documents`."""
        return iter(self._store.documents())


def _documents(nodes: Sequence[NodeWithScore]) -> list[tuple[Document, float]]:
    scores = [each.score for each in nodes]
    if None in scores:
        scores = [1.0 - place / len(nodes) for place in range(len(nodes))]
    return [(to_document(each.node), float(score or 0.0)) for each, score in zip(nodes, scores, strict=True)]


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
            options["vector"] = np.mean([self._embeddings().embed_query(each) for each in strings], axis=0).tolist()
        return self._answer(self.retriever.retrieve(text, **options), options)

    async def aretrieve_result(self, query: QueryType) -> RetrievalResult[NodeWithScore]:
        """Return the nodes with details, asynchronously; see :meth:`retrieve_result`."""
        text, options, strings = self._parse_query(query)
        if strings:
            vectors = [await self._embeddings().aembed_query(each) for each in strings]
            options["vector"] = np.mean(vectors, axis=0).tolist()
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
    hide(node, {"degraded"})
    return NodeWithScore(node=node, score=scored_node.score)
