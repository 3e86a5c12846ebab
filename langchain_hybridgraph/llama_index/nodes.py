"""LlamaIndex's nodes and metadata filters."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import and_, or_
from typing import Any

from langchain_core.documents import Document
from llama_index.core.schema import BaseNode, IndexNode, MetadataMode, NodeRelationship, TextNode
from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters
from llama_index.core.vector_stores.utils import metadata_dict_to_node

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.embeddings.resolve import LSAEmbeddings
from langchain_hybridgraph.errors import ConfigurationError, FilterError
from langchain_hybridgraph.execution.processes import Progress
from langchain_hybridgraph.filters.expressions import Filter, compare, has_labels, parse_filter
from langchain_hybridgraph.filters.operators import FIELD_OPERATORS, SYMBOLS, join_key
from langchain_hybridgraph.ingestion import CutDocument, IngestReport, ingest
from langchain_hybridgraph.ingestion.edges.base import EdgeBuilder, EdgeSet, as_builders
from langchain_hybridgraph.records import PART_OF, SEQUENCE, Edge, content_id

# LlamaIndex's own vector stores use these keys for a node, so their collections can be read as well.
CONTENT, KIND = "_node_content", "_node_type"
_RESERVED_KEYS = frozenset({CONTENT, KIND, "document_id", "doc_id", "ref_doc_id"})


def node_id(node: BaseNode) -> str:
    """Return the node's id, or, if it is empty, a hash of its text and source, which is the same in every run."""
    return node.node_id or content_id(text_of(node), _source(node.metadata))


def text_of(node: BaseNode) -> str:
    """Return the searchable text of a node, without metadata, or "" for an image without text."""
    return node.get_content(MetadataMode.NONE)


def to_chunk(node: BaseNode, parent: str | None = None) -> Chunk:
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
    content = json.dumps(fields | {"id_": node_id(node), "embedding": None}, ensure_ascii=False)
    metadata |= {CONTENT: content, KIND: node.class_name()}
    return Chunk(node_id(node), text_of(node), metadata, document_of(node), parent)


def to_document(node: BaseNode) -> Document:
    """Convert a node to a LangChain Document like its chunk, with any source document as ``document_id``."""
    chunk = to_chunk(node)
    document = {} if chunk.document_id is None else {"document_id": chunk.document_id}
    return Document(chunk.text, id=chunk.id, metadata={**chunk.metadata, **document})


def document_of(node: BaseNode) -> str | None:
    """Return the id of the source document, or None for a node without a source document."""
    related = _related(node, NodeRelationship.SOURCE)
    return related[0] if related else None


def to_node(document: Document, notes: Iterable[str] = ()) -> BaseNode:
    """Restore the node stored in a Document, or create a TextNode if no node is stored.

    Additional metadata and the keys in ``notes`` are hidden from language models and embedding models.
    """
    metadata, noted = document.metadata, set(notes)
    if CONTENT in metadata:
        node = metadata_dict_to_node(metadata, text=document.page_content)
        noted |= metadata.keys() - node.metadata.keys() - _RESERVED_KEYS - {"source"}
        node.metadata = node.metadata | {
            key: metadata[key] for key in metadata if key in noted and key not in _RESERVED_KEYS
        }
    else:
        node = TextNode(text=document.page_content, metadata=dict(metadata))
    if document.id is not None:
        node.node_id = document.id
    hide(node, noted)
    return node


def relationship_edges(node: BaseNode, excluded: frozenset[str] = frozenset()) -> Iterator[Edge]:
    """Yield the node's ``sequence`` and ``part_of`` edges of weight 1, except to or from nodes in ``excluded``."""
    own_id = node_id(node)
    name = document_of(node) or own_id
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


def hide(node: BaseNode, names: set[str]) -> None:
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
        self._edges = {node_id(node): list(relationship_edges(node, excluded)) for node in nodes}

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
    :class:`~langchain_hybridgraph.llama_index.retriever.LlamaIndexRetriever` restores them. The source document becomes
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
    textless = frozenset(node_id(node) for node in node_list if not text_of(node).strip())
    full = [node for node in node_list if node_id(node) not in textless]
    builders = [RelationshipEdges(full, textless), *as_builders(DEFAULT_EDGES if edges == "auto" else edges)]
    documents = _documents(full)
    counts = _write_embedded(full, documents, store, batch_size)
    report = ingest(documents, store, split=None, edges=builders, progress=progress, batch_size=batch_size)
    # Nodes that were written with their vectors exist already when ingest receives them, so it counts them as
    # unchanged.
    written_count = counts["added"] + counts["updated"]
    report = replace(
        report,
        added=report.added + counts["added"],
        updated=report.updated + counts["updated"],
        unchanged=report.unchanged - written_count,
    )
    if not textless:
        return report
    sample = ", ".join(sorted(textless)[:3]) + (", …" if len(textless) > 3 else "")
    return replace(report, warnings=(*report.warnings, f"{len(textless)} nodes have no text: {sample}"))


def _documents(nodes: Sequence[BaseNode]) -> list[CutDocument]:
    ids = {node_id(node) for node in nodes}
    part_of = (edge for node in nodes for edge in relationship_edges(node) if edge.relation == PART_OF)
    parent_ids = {edge.target for edge in part_of if edge.source in ids and edge.target in ids}
    chunks: dict[str, list[Chunk]] = {}
    parents: dict[str, list[Chunk]] = {}
    for id, node in {node_id(node): node for node in nodes}.items():
        parent = node.relationships.get(NodeRelationship.PARENT)
        parent_id = None if parent is None or isinstance(parent, list) else parent.node_id
        chunk = to_chunk(node, parent_id if parent_id in parent_ids else None)
        (parents if id in parent_ids else chunks).setdefault(chunk.document, []).append(chunk)
    documents = []
    for name in dict.fromkeys((*chunks, *parents)):
        own = tuple(chunks.get(name, ()))
        documents.append(CutDocument(name, own[0].metadata if own else {}, own, tuple(parents.get(name, ()))))
    return documents


def _write_embedded(
    nodes: Sequence[BaseNode], documents: Sequence[CutDocument], store: Any, batch_size: int
) -> Counter[str]:
    """Write chunks whose nodes have an embedding, unless the store learns vectors; count the added and updated ones."""
    counts: Counter[str] = Counter()
    vectors = {node_id(node): node.embedding for node in nodes if node.embedding is not None}
    if not vectors or isinstance(getattr(store, "embeddings", None), LSAEmbeddings):
        return counts
    chunks = [chunk for document in documents for chunk in document.chunks if chunk.id in vectors]
    for start in range(0, len(chunks), batch_size):
        batch = chunks[start : start + batch_size]
        counts.update(store.upsert(batch, vectors=[vectors[chunk.id] for chunk in batch]))
    return counts
