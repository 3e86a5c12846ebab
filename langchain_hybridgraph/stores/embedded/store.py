"""The embedded store: one folder with SQLite as the source of truth and three indexes derived from it.

A write goes to the matrix (vectors, fsync), then to the catalogue in one transaction, which accepts the batch, and
then to the engines. A crash between the steps leaves vectors without an owner (overwritten by the next batch) or
engines that lag behind (brought up to date from the outbox at the next write or open). An accepted batch is never lost.
"""

from __future__ import annotations

from langchain_hybridgraph.stores.embedded.feedback import RememberingIndex
from langchain_hybridgraph.stores.embedded.graph import WalkedIndex
from langchain_hybridgraph.stores.embedded.sessions import SessionedIndex
from langchain_hybridgraph.stores.embedded.summaries import LayeredIndex


class EmbeddedStore(WalkedIndex, SessionedIndex, RememberingIndex, LayeredIndex):
    """Chunks, parents and edges in one folder, searched by vector, by keyword and through the graph.

    ``path`` None keeps everything in memory. ``embedding`` makes the vectors and ``name`` identifies its model;
    ``load`` reads the model of a fitted embedding from its file. A ``tenant`` at creation makes a multi-tenant folder:
    from then on every store opened on it names its tenant and sees only that tenant's data.

    Any number of processes may read while one writes. Raises StoreError or one of its subclasses (NotAnIndexError,
    FormatVersionError, EmbeddingMismatchError), and TenantError.
    """
