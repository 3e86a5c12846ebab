"""Ingestion of LlamaIndex nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from llama_index.core.schema import BaseNode, NodeRelationship

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.embeddings.lsa import LSAEmbeddings
from langchain_hybridgraph.errors import ConfigurationError
from langchain_hybridgraph.ingestion import CutDocument, IngestReport, ingest
from langchain_hybridgraph.ingestion.edges.base import EdgeSet
from langchain_hybridgraph.ingestion.edges.registry import as_builders
from langchain_hybridgraph.ingestion.progress import Progress
from langchain_hybridgraph.llama_index.nodes import node_id, relationship_edges, text_of, to_chunk
from langchain_hybridgraph.records import PART_OF, SEQUENCE, Edge
from langchain_hybridgraph.stores.protocols import AcceptsChunks

DEFAULT_EDGES = ("links", "hierarchy", "entities")
"""Edge builders used by default in addition to the nodes' own relationships."""


class RelationshipEdges:
    """Edge builder that turns the relationships of nodes into ``sequence`` and ``part_of`` edges."""

    relations = (SEQUENCE, PART_OF)

    def __init__(self, nodes: Iterable[BaseNode], excluded: frozenset[str] = frozenset()) -> None:
        self._edges = {node_id(node): list(relationship_edges(node, excluded)) for node in nodes}

    def start(self, store: AcceptsChunks) -> None:
        """Do nothing, because the constructor creates all edges."""

    def see(self, document: CutDocument) -> Iterator[EdgeSet]:
        """Yield the edges of the document's chunks and parents. They replace the edges from an earlier ingest."""
        ids = [chunk.id for chunk in (*document.chunks, *document.parents)]
        yield EdgeSet([edge for id in ids for edge in self._edges.get(id, ())], ids)

    def finish(self) -> tuple[()]:
        """Return no edges, because no edge depends on another document."""
        return ()


def ingest_nodes(
    nodes: Sequence[BaseNode],
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
    parent. Parents are not searched: they are returned in place of their children, unless the retriever has
    ``return_parents=False``. ``edges`` are additional edge builders, as in ``ingest``.

    The nodes of a document replace all of its earlier nodes, so pass them together. By default, LlamaIndex creates new
    ids at each run. With ``SimpleDirectoryReader(…, filename_as_id=True)``, a second run replaces the documents of the
    first. If the nodes are also created with ``SentenceSplitter(id_func=lambda i, doc: f"{doc.node_id}#{i}")``, the
    second run skips unchanged nodes.

    A node's ``embedding`` is used as its vector, unless the store learns vectors from its own texts (``"lsa"``). The
    texts of nodes without an ``embedding`` are embedded without their metadata. Nodes without text, such as images, are
    left out, and a warning in the report states their number. Raises ConfigurationError for objects that are not nodes,
    and the errors of ``ingest``.

    >>> from langchain_hybridgraph import HybridGraphStore
    >>> from llama_index.core.schema import TextNode
    >>> report = ingest_nodes([TextNode(text="the cat sat", id_="cat")], HybridGraphStore())
    >>> report.added, report.warnings
    (1, ())
    """
    node_list = _check_nodes(nodes)
    textless = frozenset(node_id(node) for node in node_list if not text_of(node).strip())
    full = [node for node in node_list if node_id(node) not in textless]
    builders = [RelationshipEdges(full, textless), *_edge_builders(edges)]
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


def _check_nodes(nodes: Any) -> list[BaseNode]:
    node_list = [nodes] if isinstance(nodes, BaseNode) else list(nodes)
    for node in node_list:
        if not isinstance(node, BaseNode):
            raise ConfigurationError(
                f"ingest_nodes takes LlamaIndex nodes, not {type(node).__name__}: "
                "create them with a LlamaIndex node parser; for LangChain Documents use ingest()"
            )
    return node_list


def _edge_builders(edges: Any) -> list[Any]:
    return as_builders(list(DEFAULT_EDGES) if edges == "auto" else list(edges) if isinstance(edges, tuple) else edges)


def _documents(nodes: Sequence[BaseNode]) -> list[CutDocument]:
    """Group the nodes by document, in the order in which documents and nodes first appear."""
    parent_ids = _parent_ids(nodes)
    chunks: dict[str, list[Chunk]] = {}
    parents: dict[str, list[Chunk]] = {}
    for id, node in {node_id(node): node for node in nodes}.items():
        parent = node.relationships.get(NodeRelationship.PARENT)
        parent_id = None if parent is None or isinstance(parent, list) else parent.node_id
        chunk = to_chunk(node, parent_id if parent_id in parent_ids else None)
        (parents if id in parent_ids else chunks).setdefault(chunk.document, []).append(chunk)
    names = dict.fromkeys((*chunks, *parents))
    return [
        CutDocument(name, _common(chunks, name), tuple(chunks.get(name, ())), tuple(parents.get(name, ())))
        for name in names
    ]


def _write_embedded(
    nodes: Sequence[BaseNode], documents: Sequence[CutDocument], store: Any, batch_size: int
) -> Counter[str]:
    """Write the chunks of those nodes that already have an embedding, and return the numbers of added and updated
    chunks. Write nothing if the store learns vectors from its own texts.
    """
    counts: Counter[str] = Counter()
    vectors = {node_id(node): node.embedding for node in nodes if node.embedding is not None}
    if not vectors or isinstance(getattr(store, "embeddings", None), LSAEmbeddings):
        return counts
    chunks = [chunk for document in documents for chunk in document.chunks if chunk.id in vectors]
    for start in range(0, len(chunks), batch_size):
        batch = chunks[start : start + batch_size]
        counts.update(store.upsert(batch, vectors=[vectors[chunk.id] for chunk in batch]))
    return counts


def _parent_ids(nodes: Sequence[BaseNode]) -> frozenset[str]:
    """Return the ids of those nodes that are the parent of another of these nodes."""
    ids = {node_id(node) for node in nodes}
    ends = ((edge.source, edge.target) for node in nodes for edge in _part_of(node))
    return frozenset(whole for part, whole in ends if part in ids and whole in ids)


def _part_of(node: BaseNode) -> Iterator[Edge]:
    return (edge for edge in relationship_edges(node) if edge.relation == PART_OF)


def _common(chunks: Mapping[str, Sequence[Chunk]], name: str) -> Mapping[str, Any]:
    """Return the metadata of a document's first chunk, or {} if the document has no chunks."""
    first = chunks.get(name)
    return first[0].metadata if first else {}
