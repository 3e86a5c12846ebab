"""Edges along the structure of documents and directories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from operator import itemgetter

from langchain_hybridgraph.chunks import directory_of
from langchain_hybridgraph.ingestion.edges.base import EdgeBuilder, EdgeSet, slices
from langchain_hybridgraph.ingestion.splitting import CutDocument, chunk_index, first_chunk_id, in_order
from langchain_hybridgraph.records import CONTAINS, SEQUENCE, Edge
from langchain_hybridgraph.stores.protocols import AcceptsChunks


class SequenceEdges(EdgeBuilder):
    """Edges of weight 1 from each chunk to the next chunk of the same parent, or of the document without parents.

    Chunks are ordered by ``chunk_index``, in any batches. Chunks without an index keep the order of the ingest.

    >>> from langchain_hybridgraph import Chunk
    >>> chunks = tuple(Chunk(str(i), "", {}, "d", parent) for i, parent in enumerate(["p1", "p1", "p2", "p2"]))
    >>> builder = SequenceEdges()
    >>> edge_sets = [*builder.see(CutDocument("d", {}, chunks)), *builder.finish()]
    >>> [(edge.source, edge.target) for edge_set in edge_sets for edge in edge_set.edges]
    [('0', '1'), ('2', '3')]
    """

    relations = (SEQUENCE,)

    def __init__(self) -> None:
        # The name of each document, and the parent and the index of its chunks, in the order of the ingest.
        self._documents: dict[str, tuple[str, dict[str, tuple[str | None, float | None]]]] = {}

    def start(self, store: AcceptsChunks) -> None:
        """Clear the chunks recorded during the previous ingest."""
        self._documents = {}

    def see(self, document: CutDocument) -> tuple[EdgeSet, ...]:
        """Record the chunks; later parts of the document may have chunks that come before them."""
        if document.chunks:
            if document.id not in self._documents or not document.continues:
                self._documents[document.id] = document.title or document.id, {}
            chunks = self._documents[document.id][1]
            for chunk in document.chunks:
                chunks.pop(chunk.id, None)
                chunks[chunk.id] = chunk.parent, chunk_index(chunk)
        return ()

    def finish(self) -> Iterator[EdgeSet]:
        """Yield the edges of all documents."""
        for documents in slices(list(self._documents.values()), 1_000):
            edges = [edge for name, chunks in documents for edge in _sequence(name, chunks)]
            yield EdgeSet(edges, [id for _, chunks in documents for id in chunks])
        self._documents = {}


def _sequence(name: str, chunks: Mapping[str, tuple[str | None, float | None]]) -> Iterator[Edge]:
    groups: dict[str | None, list[tuple[str, float | None]]] = {}
    for id, (parent, index) in chunks.items():
        groups.setdefault(parent, []).append((id, index))
    for group in groups.values():
        numbered = [
            (id, place if index is None else index + 1)
            for place, (id, index) in enumerate(in_order(group, itemgetter(1)), start=1)
        ]
        for (source, before), (target, after) in pairwise(numbered):
            yield Edge(source, target, SEQUENCE, 1.0, f"In “{name}”, part {after:g} follows part {before:g}.")


class HierarchyEdges(EdgeBuilder):
    """Edges of weight 1 from each directory to its contents.

    The location of a document is the ``uri`` in its metadata, with any scheme: ``docs/use.md`` is in the directory
    ``docs``. For ``https://docs.org/use/install``, the top directory is ``https://docs.org``.

    A document is represented by its first chunk, which also represents a directory if the ``uri`` is the path of one. A
    document of an earlier ingest does so only if its id is this path. Any other directory is a node that exists only in
    the graph, with the path as its id.

    >>> from langchain_hybridgraph import Chunk, HybridGraphStore, ingest
    >>> store = HybridGraphStore(None)
    >>> chunks = [Chunk("use", "How to use it.", {"uri": "docs/use.md"}, "use")]
    >>> _ = ingest(chunks, store, split=None, edges=[HierarchyEdges()])
    >>> [(edge.source, edge.relation, edge.target) for edge in store.edges(["docs"])]
    [('docs', 'contains', 'use')]
    """

    relations = (CONTAINS,)

    def __init__(self) -> None:
        self._chunks: dict[str, str] = {}  # first chunk of the document at each uri

    def start(self, store: AcceptsChunks) -> None:
        """Clear the locations recorded during the previous ingest."""
        self._store, self._chunks = store, {}

    def see(self, document: CutDocument) -> tuple[EdgeSet, ...]:
        """Record the location of the document. When all documents are known, :meth:`finish` yields the edges."""
        value = document.metadata.get("uri")
        uri = "" if value is None else str(value).rstrip("/")
        if uri and document.chunks:
            self._chunks.setdefault(uri, document.chunks[0].id)
        return ()

    def finish(self) -> Iterator[EdgeSet]:
        """Yield the edges to all ingested documents and to the directories above them."""
        nodes = self._nodes(self._store)
        edges: list[Edge] = []
        for uri, node in nodes.items():
            above = directory_of(uri)
            if above and nodes[above] != node:
                text = f"{above} contains {uri.rsplit('/', 1)[-1]}."
                edges.append(Edge(nodes[above], node, CONTAINS, 1.0, text))
        for batch in slices(edges, 2_000):
            yield EdgeSet(batch)

    def _nodes(self, store: AcceptsChunks) -> dict[str, str]:
        nodes = dict(self._chunks)
        above: dict[str, None] = {}
        for uri in nodes:
            directory = directory_of(uri)
            while directory and directory not in above:
                above[directory] = None
                directory = directory_of(directory)
        for batch in slices([directory for directory in above if directory not in nodes], 2_000):
            chunks_by_directory = store.document_chunks(batch)
            for directory in batch:
                first = first_chunk_id(directory)
                nodes[directory] = first if first in (chunks_by_directory.get(directory) or ()) else directory
        return nodes
