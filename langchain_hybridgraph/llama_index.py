"""Retrievers and rerankers for LlamaIndex programs.

>>> from langchain_hybridgraph import HybridGraphStore, HybridRetriever
>>> from langchain_hybridgraph.llama_index import LlamaIndexRetriever, ingest_nodes
>>> from llama_index.core.schema import TextNode
>>> store = HybridGraphStore()
>>> _ = ingest_nodes([TextNode(text="the cat sat", id_="cat"), TextNode(text="dogs bark", id_="dog")], store)
>>> retriever = LlamaIndexRetriever(HybridRetriever(store), k=1)
>>> [found.node_id for found in retriever.retrieve("Where is the cat?")]
['cat']

Needs ``pip install "langchain-hybridgraph[llama-index]"``. No other module of this package imports LlamaIndex.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import and_, or_
from typing import Any, NoReturn, Self

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import Runnable
from langchain_core.vectorstores import VectorStore

from langchain_hybridgraph.adapters.vector_stores import NearestDocuments, StoreAdapter
from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.embeddings.resolve import LSAEmbeddings
from langchain_hybridgraph.errors import ConfigurationError, FilterError, needs_extra, quote_value
from langchain_hybridgraph.execution.effects import Failure, Search, adrive, drive, offload
from langchain_hybridgraph.execution.processes import Progress
from langchain_hybridgraph.filters.expressions import Filter, compare, has_labels, parse_filter
from langchain_hybridgraph.filters.operators import FIELD_OPERATORS, SYMBOLS, join_key
from langchain_hybridgraph.ingestion import CutDocument, IngestReport, ingest
from langchain_hybridgraph.ingestion.edges.base import EdgeBuilder, EdgeSet, as_builders, slices
from langchain_hybridgraph.options.arguments import HISTORY
from langchain_hybridgraph.options.base import call_text, option_advice
from langchain_hybridgraph.options.objects import as_reranker
from langchain_hybridgraph.records import PART_OF, SEQUENCE, Edge, Hit, content_id, in_scope
from langchain_hybridgraph.result import RetrievalResult
from langchain_hybridgraph.retrievers.advanced import AdvancedRetriever
from langchain_hybridgraph.retrievers.any_retriever import AnyRetriever
from langchain_hybridgraph.retrievers.base import PipelineRetriever
from langchain_hybridgraph.retrievers.graph import GraphRetriever
from langchain_hybridgraph.retrievers.hybrid import HybridRetriever
from langchain_hybridgraph.search.rerankers import Reranker, ScoreReranker, apply_scores, rerank_call
from langchain_hybridgraph.stores.vectors import unit

with needs_extra("this module", "LlamaIndex", "llama-index"):
    from llama_index.core import Settings, VectorStoreIndex, schema
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.bridge.pydantic import Field, field_validator
    from llama_index.core.callbacks.base import CallbackManager
    from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
    from llama_index.core.llms import LLM, ChatMessage
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import BaseNode, IndexNode, NodeRelationship, NodeWithScore, QueryBundle, QueryType
    from llama_index.core.vector_stores import SimpleVectorStore, types
    from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters
    from llama_index.core.vector_stores.utils import metadata_dict_to_node
    from llama_index_instrumentation import get_dispatcher
    from llama_index_instrumentation.base import BaseEvent

# LlamaIndex's own vector stores use these keys for a node, so their collections can be read as well.
CONTENT, KIND = "_node_content", "_node_type"
_RESERVED_KEYS = frozenset({CONTENT, KIND, "document_id", "doc_id", "ref_doc_id"})


def _node_id(node: BaseNode) -> str:
    """Return the node's id, or, if it is empty, a hash of its text and source, which is the same in every run."""
    return node.node_id or content_id(_text_of(node), _source(node.metadata))


def _text_of(node: BaseNode) -> str:
    """Return the searchable text of a node, without metadata, or "" for an image without text."""
    return node.get_content(schema.MetadataMode.NONE)


def _to_chunk(node: BaseNode, parent: str | None = None) -> Chunk:
    """Convert a node to a chunk of its source document. :func:`to_node` restores the node from a Document of the chunk.

    The metadata are those of the node and two keys that LlamaIndex defines, with the node's class and its fields except
    the text and the embedding. A missing ``source`` is set to the ``file_path``.
    """
    if isinstance(node, IndexNode) and not isinstance(node.obj, BaseNode):
        # The retriever or query engine in an IndexNode is not stored; LlamaIndex looks it up by index_id (object_map).
        node = node.model_copy(update={"obj": None})
    fields = node.model_dump(mode="json", exclude={"text", "text_resource"})
    metadata: dict[str, Any] = dict(fields["metadata"])
    if "source" not in metadata and (source := _source(metadata)):
        metadata["source"] = source
    content = json.dumps(fields | {"id_": _node_id(node), "embedding": None}, ensure_ascii=False)
    metadata |= {CONTENT: content, KIND: node.class_name()}
    return Chunk(_node_id(node), _text_of(node), metadata, _document_of(node), parent)


def _to_document(node: BaseNode) -> Document:
    """Convert a node to a LangChain Document like its chunk, with any source document as ``document_id``."""
    chunk = _to_chunk(node)
    document = {} if chunk.document_id is None else {"document_id": chunk.document_id}
    return Document(chunk.text, id=chunk.id, metadata={**chunk.metadata, **document})


def _document_of(node: BaseNode) -> str | None:
    """Return the id of the source document, or None for a node without a source document."""
    related = _related(node, NodeRelationship.SOURCE)
    return related[0] if related else None


def _to_node(document: Document, notes: Iterable[str] = ()) -> BaseNode:
    """Restore the node stored in a Document, or create a TextNode if no node is stored.

    Additional metadata and the keys in ``notes`` are hidden from language models and embedding models.
    """
    metadata, noted = document.metadata, set(notes)
    if CONTENT in metadata:
        node = metadata_dict_to_node(metadata, text=document.page_content)
        noted |= metadata.keys() - node.metadata.keys() - _RESERVED_KEYS - {"source"}
        node.metadata |= {key: value for key, value in metadata.items() if key in noted and key not in _RESERVED_KEYS}
    else:
        node = schema.TextNode(text=document.page_content, metadata=dict(metadata))
    if document.id is not None:
        node.node_id = document.id
    _hide(node, noted)
    return node


def _relationship_edges(node: BaseNode, excluded: frozenset[str] = frozenset()) -> Iterator[Edge]:
    """Yield the node's ``sequence`` and ``part_of`` edges of weight 1, except to or from nodes in ``excluded``."""
    own_id = _node_id(node)
    name = _document_of(node) or own_id
    for relation, onwards, backwards, description in (
        (SEQUENCE, NodeRelationship.NEXT, NodeRelationship.PREVIOUS, f"{name} continues in the next part."),
        (PART_OF, NodeRelationship.PARENT, NodeRelationship.CHILD, f"Part of a longer part of {name}."),
    ):
        ends = [(own_id, other) for other in _related(node, onwards)]
        ends += [(other, own_id) for other in _related(node, backwards)]
        for source, target in ends:
            if source != target and excluded.isdisjoint((source, target)):
                yield Edge(source, target, relation, 1.0, description)


def _related(node: BaseNode, relationship: NodeRelationship) -> list[str]:
    related = node.relationships.get(relationship)
    several = related if isinstance(related, list) else [] if related is None else [related]
    return [each.node_id for each in several if each.node_id]


def _source(metadata: Mapping[str, Any]) -> str:
    return str(metadata.get("source") or metadata.get("file_path") or "")


def _hide(node: BaseNode, names: set[str]) -> None:
    """Hide these metadata of a node from language models and embedding models."""
    for hidden in ("excluded_llm_metadata_keys", "excluded_embed_metadata_keys"):
        keys = getattr(node, hidden)
        setattr(node, hidden, [*keys, *sorted(names.difference(keys))])


# Keys under which LlamaIndex's vector stores write the id of the source document.
_DOCUMENT = frozenset({"doc_id", "ref_doc_id"})


def filter_from(filters: MetadataFilters | MetadataFilter | Filter | Mapping[str, Any] | None) -> Filter | None:
    """Translate a LlamaIndex filter, or parse one of this package's filters; None for a filter without conditions.

    A key of a LlamaIndex filter is a single metadata key; a dot in it does not select a nested value. ``doc_id`` and
    ``ref_doc_id`` become ``document_id``, the id of the source document. ``TEXT_MATCH`` matches a case-sensitive
    substring; ``ANY`` and ``ALL`` compare the elements of a list. Raises FilterError for ``TEXT_MATCH_INSENSITIVE`` and
    for comparisons with None, which have no equivalent.

    >>> filter_from(MetadataFilters(filters=[MetadataFilter(key="year", value=2020, operator=FilterOperator.GTE)]))
    parse_filter({'year': {'$gte': 2020}})
    """
    if isinstance(filters, MetadataFilter):
        return _comparison(filters)
    if isinstance(filters, list):
        raise FilterError(
            "several filters need a condition, 'and' or 'or'; pass MetadataFilters(filters=[…], condition=…)"
        )
    if not isinstance(filters, MetadataFilters):
        return parse_filter(filters)
    parts = [part for each in filters.filters if (part := filter_from(each)) is not None]
    if not parts:
        return None
    if filters.condition is FilterCondition.NOT:
        return ~reduce(or_, parts)
    return reduce(or_ if filters.condition is FilterCondition.OR else and_, parts)


def _comparison(each: MetadataFilter) -> Filter:
    key, name = "document_id" if each.key in _DOCUMENT else join_key((each.key,)), each.operator.value
    if each.operator is FilterOperator.IS_EMPTY:
        return compare(key, "$exists", False) | compare(key, "$in", ["", []])
    if each.value is None:
        raise FilterError(
            f"the filter on {each.key!r} compares with None, which matches nothing; to find nodes without a value, "
            f"pass MetadataFilter(key={each.key!r}, operator=FilterOperator.IS_EMPTY, value=None)"
        )
    if each.operator in (FilterOperator.ANY, FilterOperator.ALL):
        if not isinstance(each.value, list):
            raise FilterError(
                f"{each.operator} on {each.key!r} requires a list, got {each.value!r}; write [{each.value!r}]"
            )
        values: Any = each.value  # LlamaIndex's type allows only one strict element type
        if each.operator is FilterOperator.ANY:
            return has_labels(values, key=key)
        # As in Python, all() of an empty list is true.
        return has_labels(all_of=values, key=key) if values else compare(key, "$exists", True)
    operator = "$contains" if each.operator is FilterOperator.TEXT_MATCH else SYMBOLS.get(name, f"${name}")
    if operator not in FIELD_OPERATORS:
        raise FilterError(
            f"{each.operator} on {each.key!r} has no equivalent, because filters are case-sensitive: use "
            "FilterOperator.TEXT_MATCH, or store a lower-case copy of the value in the metadata"
        )
    return compare(key, operator, each.value)


DEFAULT_EDGES = ("links", "hierarchy", "entities")
"""Edge builders used by default in addition to the nodes' own relationships."""


class RelationshipEdges(EdgeBuilder):
    """Edge builder that turns the relationships of nodes into ``sequence`` and ``part_of`` edges."""

    relations = (SEQUENCE, PART_OF)

    def __init__(self, nodes: Iterable[BaseNode], excluded: frozenset[str] = frozenset()) -> None:
        self._edges = {_node_id(node): list(_relationship_edges(node, excluded)) for node in nodes}

    def see(self, document: CutDocument) -> Iterator[EdgeSet]:
        """Yield the edges of the document's chunks and parents. They replace the edges from an earlier ingest."""
        ids = [chunk.id for chunk in (*document.chunks, *document.parents)]
        yield EdgeSet([edge for id in ids for edge in self._edges.get(id, ())], ids)


def ingest_nodes(
    nodes: BaseNode | Sequence[BaseNode],
    store: Any,
    *,
    edges: Any = DEFAULT_EDGES,
    progress: bool | Progress | None = None,
    batch_size: int = 1_000,
) -> IngestReport:
    """Store LlamaIndex nodes as chunks and their relationships as edges, and return a report.

    Ids, texts, metadata and relationships are kept; a
    :class:`~langchain_hybridgraph.llama_index.LlamaIndexRetriever` restores them. The source document becomes
    the chunk's document. Relationships to next and previous nodes become ``sequence`` edges, and relationships to
    parents and children become ``part_of`` edges. A node whose children are also among the ``nodes`` is stored as a
    parent, which is returned in place of its children but not searched. ``edges`` are additional edge builders, as in
    ``ingest``.

    The nodes of a document replace all of its earlier nodes, so pass them together. By default, LlamaIndex creates new
    ids at each run. With ``SimpleDirectoryReader(…, filename_as_id=True)``, a second run replaces the documents of the
    first. If the nodes are also created with ``SentenceSplitter(id_func=lambda i, doc: f"{doc.node_id}#{i}")``, the
    second run skips unchanged nodes.

    A node's ``embedding`` is used as its vector, unless the store learns vectors from its own texts (``"lsa"``). Other
    texts are embedded without their metadata. Nodes without text, such as images, are left out, and a warning states
    their number. Raises ConfigurationError for objects that are not nodes, and the errors of ``ingest``.

    >>> from langchain_hybridgraph import HybridGraphStore
    >>> from llama_index.core.schema import TextNode
    >>> report = ingest_nodes([TextNode(text="the cat sat", id_="cat")], HybridGraphStore())
    >>> report.added, report.warnings
    (1, ())
    """
    node_list: list[Any] = [nodes] if isinstance(nodes, BaseNode) else list(nodes)
    for node in node_list:
        if not isinstance(node, BaseNode):
            raise ConfigurationError(
                f"ingest_nodes takes LlamaIndex nodes, not {type(node).__name__}: "
                "create them with a LlamaIndex node parser; for LangChain Documents use ingest()"
            )
    textless = frozenset(_node_id(node) for node in node_list if not _text_of(node).strip())
    full = [node for node in node_list if _node_id(node) not in textless]
    builders = [RelationshipEdges(full, textless), *as_builders(DEFAULT_EDGES if edges == "auto" else edges)]
    documents = list(_cut_documents(full))
    counts = _write_embedded(full, documents, store, batch_size)
    report = ingest(documents, store, split=None, edges=builders, progress=progress, batch_size=batch_size)
    warnings = report.warnings
    if textless:
        sample = ", ".join(sorted(textless)[:3]) + (", …" if len(textless) > 3 else "")
        warnings = (*warnings, f"{len(textless)} nodes have no text: {sample}")
    # Nodes that were written with their vectors exist already when ingest receives them, so it counts them as
    # unchanged.
    added, updated = counts["added"], counts["updated"]
    totals: dict[str, Any] = {"added": report.added + added, "updated": report.updated + updated}
    return replace(report, warnings=warnings, unchanged=report.unchanged - added - updated, **totals)


def _cut_documents(nodes: Sequence[BaseNode]) -> Iterator[CutDocument]:
    by_id = {_node_id(node): node for node in nodes}
    part_of = (edge for node in nodes for edge in _relationship_edges(node) if edge.relation == PART_OF)
    parent_ids = {edge.target for edge in part_of if edge.source in by_id and edge.target in by_id}
    chunks: dict[str, list[Chunk]] = {}
    parents: dict[str, list[Chunk]] = {}
    for id, node in by_id.items():
        parent = node.relationships.get(NodeRelationship.PARENT)
        parent_id = None if parent is None or isinstance(parent, list) else parent.node_id
        chunk = _to_chunk(node, parent_id if parent_id in parent_ids else None)
        (parents if id in parent_ids else chunks).setdefault(chunk.document, []).append(chunk)
    for name in dict.fromkeys((*chunks, *parents)):
        own = tuple(chunks.get(name, ()))
        yield CutDocument(name, own[0].metadata if own else {}, own, tuple(parents.get(name, ())))


def _write_embedded(
    nodes: Sequence[BaseNode], documents: Sequence[CutDocument], store: Any, batch_size: int
) -> Counter[str]:
    """Write chunks whose nodes have an embedding, unless the store learns vectors; count the added and updated ones."""
    counts: Counter[str] = Counter()
    vectors = {_node_id(node): node.embedding for node in nodes if node.embedding is not None}
    if not vectors or isinstance(getattr(store, "embeddings", None), LSAEmbeddings):
        return counts
    chunks = [chunk for document in documents for chunk in document.chunks if chunk.id in vectors]
    for batch in slices(chunks, batch_size):
        counts.update(store.upsert(batch, vectors=[vectors[chunk.id] for chunk in batch]))
    return counts


# Retrievers, rerankers and indexes.

dispatcher = get_dispatcher(__name__)

# Names of options in LlamaIndex, mapped to the names in this package.
_NATIVE_NAMES = {"filters": "filter", "similarity_top_k": "k"}
# Options that contain a conversation, which may consist of LlamaIndex's messages.
_CONVERSATION_OPTIONS = frozenset({"conversation_history", "session"})


def _check(adapter: object, thing: object, kind: type, expected: str) -> None:
    if not isinstance(thing, kind):
        raise ConfigurationError(f"{type(adapter).__name__} cannot wrap {thing!r:.80}; pass {expected}")


class LlamaIndexEmbeddings(Embeddings):
    """Adapter from a LlamaIndex embedding model to LangChain's ``Embeddings``, for use in a store or retriever.

    >>> from llama_index.core.embeddings import MockEmbedding
    >>> LlamaIndexEmbeddings(MockEmbedding(embed_dim=2)).embed_query("any")
    [0.5, 0.5]
    """

    def __init__(self, embed_model: BaseEmbedding) -> None:
        _check(self, embed_model, BaseEmbedding, "a LlamaIndex embedding model such as Settings.embed_model")
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
        _check(self, llm, LLM, "a LlamaIndex LLM such as Settings.llm")
        self.llm = llm

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> str:
        """Return the model's answer to a question, or to a list of (role, text) pairs."""
        return self.llm.chat(_messages(input)).message.content or ""

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> str:
        """Return the model's answer, asynchronously."""
        return (await self.llm.achat(_messages(input))).message.content or ""


def _messages(turns: str | Iterable[tuple[str, str]]) -> list[ChatMessage]:
    roles = {"human": "user", "ai": "assistant"}
    pairs = [("user", turns)] if isinstance(turns, str) else turns
    return [ChatMessage(role=roles.get(role, role), content=text) for role, text in pairs]


class LlamaIndexVectorStore(VectorStore):
    """LangChain VectorStore that reads a LlamaIndex ``VectorStoreIndex`` and the nodes in its docstore.

    The index is read through ``index.as_retriever()`` and never written to. Scores come from the vector store or, if it
    returns none, from the rank. The search methods ignore filters: this package's retrievers apply them to the results,
    and request more results until enough match. ``documents()`` and ``edges()`` supply a retriever's keyword and graph
    search.
    """

    def __init__(self, index: VectorStoreIndex) -> None:
        example = "VectorStoreIndex(nodes) or VectorStoreIndex.from_vector_store(vector_store)"
        _check(self, index, VectorStoreIndex, f"a VectorStoreIndex, such as {example}")
        self.index = index

    @property
    def embeddings(self) -> Embeddings:
        """Embedding model of the index."""
        return LlamaIndexEmbeddings(self.index._embed_model)

    def nodes(self) -> list[BaseNode]:
        """Return the nodes that the index searches, from the docstore or the vector store; [] if neither lists them."""
        ids = list(self.index.index_struct.nodes_dict.values())
        if (vectors := self.stored_vectors) is not None:
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
        return [document for node in self.nodes() if (document := _to_document(node)).page_content.strip()]

    def edges(self) -> list[Edge]:
        """Return the relationships of the nodes as edges."""
        return [edge for node in self.nodes() for edge in _relationship_edges(node)]

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
        return [_to_document(node) for node in self.nodes() if _node_id(node) in requested]

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
        own = getattr(type(self._vector_store), "get_nodes", types.BasePydanticVectorStore.get_nodes)
        self.can_list = not self._vector_store.stores_text or own is not types.BasePydanticVectorStore.get_nodes

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
    return [(_to_document(each.node), float(score or 0.0)) for each, score in zip(nodes, scores, strict=True)]


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
        self.options = self._checked(options)

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
        if not isinstance(kind, type):
            raise ConfigurationError(f"kind must be a class such as GraphRetriever, got {quote_value(kind)}")
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
        other.options = _merged(self.options, self._checked(options))
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
        own = self._checked(bundle.options) if isinstance(bundle, QueryWithOptions) else {}
        options = ({} if bundle.embedding is None else {"vector": bundle.embedding}) | _merged(self.options, own)
        has_vector = options.get("vector") is not None
        strings = [] if has_vector else bundle.custom_embedding_strs or []
        return bundle.query_str or (None if has_vector or strings else ""), options, strings

    def _checked(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options under this package's names. Raise TypeError for one that the retriever does not take."""
        native = _native_options(options)
        names = _call_options(self.retriever)
        unknown = {} if names is None else {name: value for name, value in native.items() if name not in names}
        if names and unknown:
            kind = type(self.retriever)
            advice = [option_advice(kind, name, value, names, _example) for name, value in unknown.items()]
            message = f"LlamaIndexRetriever({kind.__name__}) does not take {', '.join(unknown)}"
            raise TypeError("; ".join([message, *dict.fromkeys(advice)]))
        return native

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
        nodes, inner = [], getattr(self.retriever, "retriever", self.retriever)
        for document, hit in zip(result, hits, strict=True):
            notes = () if hit is None else document.metadata.keys() - hit.chunk.metadata.keys()
            score = document.metadata.get("relevance_score") if hit is None else hit.score
            node = _to_node(document, notes)
            nodes.append(NodeWithScore(node=node, score=score))
            # LlamaIndex returns the object of an IndexNode in its place.
            if isinstance(node, IndexNode) and isinstance(node.obj, BaseNode) and isinstance(inner, PipelineRetriever):
                scope = inner._scope({name: value for name, value in options.items() if value is not None})
                node.obj = node.obj if in_scope(_to_chunk(node.obj), replace(scope, tenant=None)) else None
        degraded, took_ms, plan = result.degraded, result.took_ms, result.plan
        dispatcher.event(RetrievalReportEvent(degraded=list(degraded), took_ms=took_ms, plan=dict(plan)))
        return RetrievalResult(nodes, hits=result.hits, degraded=degraded, took_ms=took_ms, plan=plan)


def _call_options(retriever: Any) -> set[str] | None:
    """Return the names of a retriever's options per call, or None if they are unknown."""
    if isinstance(retriever, PipelineRetriever):
        return {*retriever._call_options}
    if isinstance(retriever, AdvancedRetriever) and (inner := AnyRetriever(retriever.retriever).pipeline) is not None:
        return {*inner._call_options, HISTORY, "session_id"}
    return None


def _example(options: Mapping[str, Any]) -> str:
    text = call_text(options)
    return f"{call_text({'similarity_top_k': options['k']})} or {text}" if options.keys() == {"k"} else text


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
    return {**options, **own, **({"filter": reduce(and_, filters)} if filters else {})}


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

    def _rerank(self, nodes: list[NodeWithScore], query: QueryBundle | None) -> Search[list[NodeWithScore]]:
        hits, reranker = _hits(nodes), self.reranker
        model, top_n = type(reranker).__name__, self.top_n or len(nodes)
        if query is None and not isinstance(reranker, ScoreReranker):
            raise ConfigurationError(f"{model} needs a query: postprocess_nodes(nodes, query_str=…)")
        dispatcher.event(ReRankStartEvent(query=query, nodes=nodes, top_n=top_n, model_name=model))
        calls = [rerank_call(reranker, "" if query is None else query.query_str, hits)] if hits else []
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
        Hit(Chunk(f"{place:0{width}}", _text_of(node.node), node.metadata), node.get_score(), "node", {})
        for place, node in enumerate(nodes)
    ]


def _noted(scored_node: NodeWithScore) -> NodeWithScore:
    node = scored_node.node.model_copy(deep=True)
    node.metadata["degraded"] = [*node.metadata.get("degraded", []), "rerank-failed"]
    _hide(node, {"degraded"})
    return NodeWithScore(node=node, score=scored_node.score)
