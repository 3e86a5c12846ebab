"""The embedded store: one folder, SQLite as the truth, three indexes beside it.

Writing: vectors to the matrix (fsync) → one transaction of the catalogue, which accepts the batch → the engines. A
crash between the steps leaves vectors that nobody owns (overwritten by the next batch) or engines that lag behind
(brought up to date from the outbox at the next write or open). What the catalogue accepted is never lost.
"""

from __future__ import annotations

from langchain_hybridgraph.stores.graph import WalkedIndex
from langchain_hybridgraph.stores.layered import LayeredIndex
from langchain_hybridgraph.stores.memory import RememberingIndex
from langchain_hybridgraph.stores.sessions import SessionedIndex


class EmbeddedStore(WalkedIndex, SessionedIndex, RememberingIndex, LayeredIndex):
    """Chunks, parents and edges in one folder, searched by vector and by keyword, and walked.

    ``path`` None keeps everything in memory. ``embedding`` makes the vectors and ``name`` says which model it is;
    ``load`` reads the model of a fitted embedding from its file. A ``tenant`` given at creation makes a
    multi-tenant folder: from then on every opening names its tenant, and sees nothing else.

    Any number of processes may read while one writes. Raises StoreError in its kinds (NotAnIndexError,
    FormatVersionError, EmbeddingMismatchError) and TenantError.
    """
