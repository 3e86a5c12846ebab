"""Edges from directories to their contents."""

from __future__ import annotations

from collections.abc import Iterator

from langchain_hybridgraph.chunks import directory_of
from langchain_hybridgraph.ingestion.chunking import (
    CutDocument,
    first_chunk_id,
)
from langchain_hybridgraph.ingestion.edges.base import EdgeSet
from langchain_hybridgraph.records import CONTAINS, Edge
from langchain_hybridgraph.stores.protocols import AcceptsChunks


class HierarchyEdges:
    """Edges of weight 1 from each directory to its contents.

    The location of a document is the ``uri`` in its metadata: ``docs/use.md`` is in the directory ``docs``. The uri may
    have any scheme. For ``https://docs.org/use/install``, the top directory is ``https://docs.org``.

    A document is represented by its first chunk. If a document's ``uri`` is the path of a directory, its first chunk
    also represents the directory. A document of an earlier ingest represents a directory only if its id is the path of
    the directory. Any other directory is a node that exists only in the graph, with the path as its id.

    >>> from langchain_hybridgraph import Chunk, HybridGraphStore, ingest
    >>> store = HybridGraphStore(None)
    >>> chunks = [Chunk("use", "How to use it.", {"uri": "docs/use.md"}, "use")]
    >>> _ = ingest(chunks, store, split=None, edges=[HierarchyEdges()])
    >>> [(edge.source, edge.relation, edge.target) for edge in store.edges(["docs"])]
    [('docs', 'contains', 'use')]
    """

    relations = (CONTAINS,)

    def __init__(self) -> None:
        self._store: AcceptsChunks | None = None
        self._chunks: dict[str, str] = {}
        self._titles: dict[str, str] = {}

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
        if self._store is None:
            return
        nodes = self._nodes(self._store)
        edges: list[Edge] = []
        for uri in [*self._chunks, *(uri for uri in nodes if uri not in self._chunks)]:
            above = directory_of(uri)
            if above and nodes[above] != nodes[uri]:
                text = f"{above} contains {uri.rsplit('/', 1)[-1]}."
                edges.append(Edge(nodes[above], nodes[uri], CONTAINS, 1.0, text))
            if len(edges) >= 2_000:
                yield EdgeSet(edges)
                edges = []
        if edges:
            yield EdgeSet(edges)

    def _nodes(self, store: AcceptsChunks) -> dict[str, str]:
        """Return the node id of every recorded uri and of all directories above it."""
        above: dict[str, None] = {}
        for uri in self._chunks:
            directory = directory_of(uri)
            while directory and directory not in above:
                above[directory] = None
                directory = directory_of(directory)
        missing = [directory for directory in above if directory not in self._chunks]
        nodes = dict(self._chunks)
        for start in range(0, len(missing), 2_000):
            batch = missing[start : start + 2_000]
            chunks_by_directory = store.document_chunks(batch)
            for directory in batch:
                first = first_chunk_id(directory)
                chunk_ids = chunks_by_directory.get(directory) or set()
                nodes[directory] = first if first in chunk_ids else directory
        return nodes
