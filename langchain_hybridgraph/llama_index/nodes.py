"""Conversion between LlamaIndex nodes and chunks, Documents and edges."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from langchain_core.documents import Document
from llama_index.core.schema import BaseNode, IndexNode, MetadataMode, NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.utils import metadata_dict_to_node

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.records import PART_OF, SEQUENCE, Edge, content_id

# LlamaIndex's own vector stores use these keys for a node, so their collections can be read as well.
CONTENT, KIND = "_node_content", "_node_type"
_RESERVED_KEYS = frozenset({CONTENT, KIND, "document_id", "doc_id", "ref_doc_id"})
_BY_LLAMA_INDEX = {NodeRelationship.NEXT: SEQUENCE, NodeRelationship.PARENT: PART_OF}


def node_id(node: BaseNode) -> str:
    """Return the node's id. If it is empty, return a hash of the node's text and source, which is the same in every
    run.
    """
    return node.node_id or content_id(text_of(node), _source(node.metadata))


def text_of(node: BaseNode) -> str:
    """Return the searchable text of a node, without metadata, or "" for an image without text."""
    return node.get_content(MetadataMode.NONE)


def to_chunk(node: BaseNode, parent: str | None = None) -> Chunk:
    """Convert a node to a chunk of its source document.

    The chunk's metadata are those that :func:`stored_metadata` returns. :func:`to_node` restores the node from a
    Document with these metadata.
    """
    metadata = stored_metadata(node)
    return Chunk(node_id(node), text_of(node), metadata, document_of(node), parent)


def to_document(node: BaseNode) -> Document:
    """Convert a node to a LangChain Document with the text, id and metadata of the node's chunk. If the node has a
    source document, ``document_id`` is added to the metadata.
    """
    chunk = to_chunk(node)
    document = {} if chunk.document_id is None else {"document_id": chunk.document_id}
    return Document(chunk.text, id=chunk.id, metadata={**chunk.metadata, **document})


def document_of(node: BaseNode) -> str | None:
    """Return the id of the source document, or None for a node without a source document."""
    related = _related(node, NodeRelationship.SOURCE)
    return related[0] if related else None


def stored_metadata(node: BaseNode) -> dict[str, Any]:
    """Return the metadata to store for a node, as JSON values.

    They are the node's own metadata and two keys that LlamaIndex defines, which contain the node's class and all of its
    fields except the text and the embedding. If the metadata contain a ``file_path`` but no ``source``, the ``source``
    is set to the ``file_path``.
    """
    dump = _storable(node).model_dump(mode="json")
    metadata: dict[str, Any] = dict(dump["metadata"])
    if "source" not in metadata and (source := _source(metadata)):
        metadata["source"] = source
    without_text = {name: value for name, value in dump.items() if name not in ("text", "text_resource")}
    rest = without_text | {"id_": node_id(node), "embedding": None}
    return metadata | {CONTENT: json.dumps(rest, ensure_ascii=False), KIND: node.class_name()}


def to_node(document: Document, notes: Iterable[str] = ()) -> BaseNode:
    """Restore the node stored in a Document, or create a TextNode if no node is stored.

    Additional metadata of the Document are added to the restored node, but hidden from language models and embedding
    models. The keys in ``notes`` are always hidden; they describe how the Document was found.
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
    node.excluded_llm_metadata_keys = _with(node.excluded_llm_metadata_keys, noted)
    node.excluded_embed_metadata_keys = _with(node.excluded_embed_metadata_keys, noted)
    return node


def relationship_edges(node: BaseNode, excluded: frozenset[str] = frozenset()) -> Iterator[Edge]:
    """Yield the node's edges: to the next node, from the previous node, to the parent, and from the children.

    Edges between neighbours have the relation ``sequence``, and edges from parts to their parents have the relation
    ``part_of``. All have weight 1. No edge leads to or from a node in ``excluded``.
    """
    own_id = node_id(node)
    name = document_of(node) or own_id
    for relationship, backwards in (
        (NodeRelationship.NEXT, NodeRelationship.PREVIOUS),
        (NodeRelationship.PARENT, NodeRelationship.CHILD),
    ):
        relation = _BY_LLAMA_INDEX[relationship]
        ends = [(own_id, other) for other in _related(node, relationship)]
        ends += [(other, own_id) for other in _related(node, backwards)]
        is_next = relation == SEQUENCE
        description = f"{name} continues in the next part." if is_next else f"Part of a longer part of {name}."
        for source, target in ends:
            if source != target and excluded.isdisjoint((source, target)):
                yield Edge(source, target, relation, 1.0, description)


def restored_relationships(
    chunk: Chunk, forward: Iterable[Edge], backward: Iterable[Edge]
) -> dict[NodeRelationship, RelatedNodeInfo]:
    """Return the relationships of a chunk that was not ingested as a node. They are derived from the chunk and its
    edges.

    ``forward`` contains the edges from the chunk, and ``backward`` the edges to it. If several chunks could be the next
    or the previous one, the one with the heaviest edge is used; ties are broken by id.
    """
    related = {
        NodeRelationship.SOURCE: chunk.document if chunk.document != chunk.id else None,
        NodeRelationship.PARENT: chunk.parent,
        NodeRelationship.NEXT: _neighbour((edge.weight, edge.target) for edge in forward if edge.relation == SEQUENCE),
        NodeRelationship.PREVIOUS: _neighbour(
            (edge.weight, edge.source) for edge in backward if edge.relation == SEQUENCE
        ),
    }
    return {name: RelatedNodeInfo(node_id=id) for name, id in related.items() if id is not None}


def _neighbour(weighted: Iterable[tuple[float, str]]) -> str | None:
    return min(((-weight, id) for weight, id in weighted), default=(0.0, None))[1]


def _related(node: BaseNode, relationship: NodeRelationship) -> list[str]:
    related = node.relationships.get(relationship)
    several = related if isinstance(related, list) else [] if related is None else [related]
    return [each.node_id for each in several if each.node_id]


def _source(metadata: Mapping[str, Any]) -> str:
    return str(metadata.get("source") or metadata.get("file_path") or "")


def _storable(node: BaseNode) -> BaseNode:
    # The retriever or query engine in an IndexNode is not stored; LlamaIndex looks it up by index_id (object_map).
    is_dropped = isinstance(node, IndexNode) and not isinstance(node.obj, BaseNode)
    return node.model_copy(update={"obj": None}) if is_dropped else node


def _with(keys: list[str], more: set[str]) -> list[str]:
    return [*keys, *sorted(more.difference(keys))]
