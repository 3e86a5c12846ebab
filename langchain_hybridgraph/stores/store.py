"""Store that keeps an index in one folder.

A write adds vectors to the matrix (fsync), commits the batch to the catalog, then updates the engines. A crash before
the commit leaves unused vectors, one after it engines that are updated later; committed batches are never lost.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from langchain_hybridgraph.errors import StoreError
from langchain_hybridgraph.stores.check import Maintenance
from langchain_hybridgraph.stores.graph_view import DirectoryTree, GraphView
from langchain_hybridgraph.stores.index import IndexFolder
from langchain_hybridgraph.stores.memory import EmbeddedMemory
from langchain_hybridgraph.stores.sessions import FileRecords, Sessions
from langchain_hybridgraph.stores.summaries import Summaries
from langchain_hybridgraph.stores.writing import Writer

if TYPE_CHECKING:
    from langchain_hybridgraph.records import EdgeFilter, Scope
    from langchain_hybridgraph.stores.folder import IndexSettings
    from langchain_hybridgraph.stores.generations import Embedding
    from langchain_hybridgraph.stores.graph import ScopedGraph
    from langchain_hybridgraph.stores.tree import Tree

LACKS: Mapping[str, str] = MappingProxyType(
    {
        "several machines": "The folder must be on the local disk of one machine.",
        "one request": "A search does not leave the process, so there is no round trip to save.",
        "native async": "In an event loop, a search runs on a thread.",
    }
)
LACKS_IN_MEMORY: Mapping[str, str] = MappingProxyType(
    {**LACKS, "tenants": "A store in memory has only one tenant.", "several processes": "Nothing is on disk."}
)


class EmbeddedStore(Writer):
    """Chunks, parents and edges in one folder, searched by vector, by keyword and through the graph.

    Methods implement ``stores.protocols``; other functions are in ``memory``, ``sessions``, ``graph``, ``summaries``,
    ``files`` and ``admin``. Any number of processes may read while one writes. A store on disk can be pickled and
    copied, and works after a fork.

    Raises NotAnIndexError, FormatVersionError, EmbeddingMismatchError or another StoreError if a folder cannot be
    opened, and TenantError for a missing or superfluous tenant.
    """

    has_fast_lookups = True

    def __init__(self, settings: IndexSettings) -> None:
        self._assemble(IndexFolder(settings))

    def _assemble(self, index: IndexFolder) -> None:
        """Create the store's attributes; none refers back to the store, so that an unused one is freed immediately."""
        self._tree = DirectoryTree(index)
        self.summaries = Summaries(index, self._tree)
        super().__init__(index, after_flush=self.summaries.carry_over)
        writer = self._writer = Writer(index, after_flush=self.summaries.carry_over)
        self.graph = GraphView(index)
        self.files = FileRecords(index)
        self.sessions = Sessions(index, writer)
        self.memory = EmbeddedMemory(index, writer)

    @property
    def admin(self) -> Maintenance:
        """Checks, repairs, backups and statistics of the index."""
        return Maintenance(self._index, self._writer, self.summaries.maintenance, self._renew_summaries)

    def _renew_summaries(self) -> None:
        self.summaries.discard()

    # -- settings -------------------------------------------------------------------------------------------

    @property
    def lacks(self) -> Mapping[str, str]:
        """Names of the features that this store does not have (see docs/engines.md), mapped to the reasons."""
        return LACKS_IN_MEMORY if self.path is None else LACKS

    @property
    def path(self) -> Path | None:
        """Folder of the index; None for a store in memory."""
        return self._index.settings.path

    @property
    def name(self) -> str:
        """Name of the embedding model."""
        return self._index.settings.name

    @property
    def tenant(self) -> str | None:
        """Tenant whose data the store can access; None for a folder without tenants."""
        return self._index.settings.tenant

    @property
    def language(self) -> str:
        """Language of the keyword index."""
        return self._index.language

    @property
    def embedding(self) -> Embedding:
        """Embedding that the store uses; for an embedding such as LSA, this is the latest fitted model."""
        return self._index.embedding

    @property
    def clock(self) -> Callable[[], float]:
        """Function that returns the current time in Unix seconds; to replay past events, set another function."""
        return self._index.clock

    @clock.setter
    def clock(self, clock: Callable[[], float]) -> None:
        self._index.clock = clock

    def __repr__(self) -> str:
        tenant = "" if self.tenant is None else f", tenant={self.tenant!r}"
        path = None if self.path is None else str(self.path)
        return f"{type(self).__name__}({path!r}, {self.name!r}{tenant})"

    # -- opening and closing --------------------------------------------------------------------------------

    def close(self) -> None:
        """Wait for running calls, then release files and engines, once. An unreferenced store closes itself."""
        self.summaries.close()
        self._index.close()

    def __getstate__(self) -> dict[str, Any]:
        """Raise StoreError for a store in memory."""
        if self.path is None:
            raise StoreError(
                f"a {type(self).__name__} in memory cannot be copied or pickled: give it a folder, "
                f"{type(self).__name__}(path), which every process and every copy can open"
            )
        return {"index": copy.copy(self._index)}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self._assemble(state["index"])

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return copy.copy(self)

    # -- graph and tree -------------------------------------------------------------------------------------

    @property
    def has_graph(self) -> bool:
        """Whether the store currently has any edges."""
        return self.graph.has_edges()

    def scoped_graph(self, scope: Scope, edge_filter: EdgeFilter) -> ScopedGraph:
        """Return the part of the graph that a call with this scope may see (see ``stores.protocols.HasGraph``)."""
        return self.graph.scoped(scope, edge_filter)

    def scoped_tree(self, scope: Scope) -> Tree:
        """Return the tree that a call with this scope may see (see ``stores.protocols.HasTree``)."""
        return self._tree.scoped(scope)
