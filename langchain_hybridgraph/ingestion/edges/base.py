"""Interface of edge builders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple, Protocol, runtime_checkable

from langchain_hybridgraph.ingestion.chunking import (
    CutDocument,
)
from langchain_hybridgraph.records import Edge
from langchain_hybridgraph.stores.protocols import AcceptsChunks


class EdgeSet(NamedTuple):
    """Edges to write. They replace all stored edges that start at the chunks in ``replaces`` and have one of the
    builder's relations.
    """

    edges: Sequence[Edge]
    replaces: Sequence[str] = ()


@runtime_checkable
class EdgeBuilder(Protocol):
    """Builder of edges. An ingest calls ``start`` once, ``see`` for each document, and ``finish`` at the end.

    ``see`` is called after the document's chunks are stored. ``finish`` is called after all chunks are stored, deleted
    chunks are removed, and the indexes are up to date. A builder that needs all documents collects data in ``see`` and
    yields edges in ``finish``, where it may search the store. Edges are replaced separately for each source chunk, so
    an ingest of some documents does not have to change the edges of other documents.
    """

    @property
    def relations(self) -> Sequence[str]:
        """Names of the relations that the builder writes. Two builders of the same ingest must not write the same
        relation.
        """
        ...

    def start(self, store: AcceptsChunks) -> None:
        """Discard the state of the previous ingest and prepare for a new ingest into ``store``."""
        ...

    def see(self, document: CutDocument) -> Iterable[EdgeSet]:
        """Receive a document whose chunks are stored, and yield the edges that do not depend on later documents."""
        ...

    def finish(self) -> Iterable[EdgeSet]:
        """Yield the edges that depend on several documents."""
        ...


@runtime_checkable
class ComparesDocuments(EdgeBuilder, Protocol):
    """Builder that needs the state of the documents before the ingest."""

    def before(self, old_ids: Mapping[str, Set[str]]) -> None:
        """Receive, for each document in the next batch, the ids of its stored chunks and parents. The batch is not
        written yet.

        A new document has an empty set of ids. After the batch is written, :meth:`see` is called for each of its
        documents.
        """
        ...
