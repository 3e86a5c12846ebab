"""Edges from each chunk to the next one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple

from langchain_hybridgraph.chunks import Chunk
from langchain_hybridgraph.ingestion.chunking import (
    CutDocument,
    chunk_index,
    in_order,
)
from langchain_hybridgraph.ingestion.edges.base import EdgeSet
from langchain_hybridgraph.records import SEQUENCE, Edge
from langchain_hybridgraph.stores.protocols import AcceptsChunks


class SequenceEdges:
    """Edges of weight 1 from each chunk to the next chunk of the same parent, or of the document if there are no
    parents.

    Chunks are ordered by ``chunk_index``, even if they are ingested in another order or in several batches. Chunks
    without an index keep the order in which they are ingested.

    >>> chunks = tuple(Chunk(str(i), "", {}, "d", parent) for i, parent in enumerate(["p1", "p1", "p2", "p2"]))
    >>> builder = SequenceEdges()
    >>> edge_sets = [*builder.see(CutDocument("d", {}, chunks)), *builder.finish()]
    >>> [(edge.source, edge.target) for edge_set in edge_sets for edge in edge_set.edges]
    [('0', '1'), ('2', '3')]
    """

    relations = (SEQUENCE,)

    def __init__(self) -> None:
        self._documents: dict[str, _Sequence] = {}
        self._unwritten: dict[str, None] = {}

    def start(self, store: AcceptsChunks) -> None:
        """Clear the chunks recorded during the previous ingest."""
        self._documents, self._unwritten = {}, {}

    def see(self, document: CutDocument) -> Iterator[EdgeSet]:
        """Record a document or a part of it, and yield the edges of the previous document.

        If a later part belongs to a document whose edges were already yielded, all edges of the document are yielded
        again and replace the earlier ones.
        """
        if not document.chunks:
            return
        others = [id for id in self._unwritten if id != document.id]
        yield from self._flush(others)
        if document.id not in self._documents or not document.continues:
            self._documents[document.id] = _Sequence(document.title or document.id, {})
        self._documents[document.id].add(document.chunks)
        self._unwritten[document.id] = None

    def finish(self) -> Iterator[EdgeSet]:
        """Yield the edges that ``see`` has not yielded."""
        yield from self._flush(list(self._unwritten))
        self._documents = {}

    def _flush(self, documents: Iterable[str]) -> Iterator[EdgeSet]:
        for id in documents:
            del self._unwritten[id]
            yield self._documents[id].edge_set()


class _Sequence(NamedTuple):
    """Chunks of a document by id, each with its parent and its index, in the order in which they were ingested."""

    name: str
    chunks: dict[str, tuple[str | None, float | None]]

    def add(self, chunks: Iterable[Chunk]) -> None:
        """Add chunks. A chunk replaces an earlier chunk with the same id."""
        for chunk in chunks:
            self.chunks.pop(chunk.id, None)
            self.chunks[chunk.id] = chunk.parent, chunk_index(chunk)

    def edge_set(self) -> EdgeSet:
        """Return the edges between consecutive chunks. They replace the sequence edges that start at these chunks."""
        groups: dict[str | None, list[tuple[str, float | None]]] = {}
        for id, (parent, index) in self.chunks.items():
            groups.setdefault(parent, []).append((id, index))
        edges = [edge for group in groups.values() for edge in self._edges(in_order(group, itemgetter(1)))]
        return EdgeSet(edges, list(self.chunks))

    def _edges(self, chunks: Sequence[tuple[str, float | None]]) -> Iterator[Edge]:
        numbered = [(id, place if index is None else index + 1) for place, (id, index) in enumerate(chunks, start=1)]
        for (source, before), (target, after) in pairwise(numbered):
            description = f"In “{self.name}”, part {after:g} follows part {before:g}."
            yield Edge(source, target, SEQUENCE, 1.0, description)
