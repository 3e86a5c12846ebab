"""Store that keeps an index in one folder.

A write first adds vectors to the matrix (with fsync), then commits the batch to the catalog in one transaction, and
then updates the engines. A crash before the commit leaves vectors that belong to no chunk; the next batch overwrites
them. A crash after the commit leaves engines that are out of date; they are updated from the outbox at the next write
or when the index is opened. A committed batch is never lost.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from langchain_hybridgraph.errors import StoreError
from langchain_hybridgraph.stores.embedded.directory_tree import DirectoryTree
from langchain_hybridgraph.stores.embedded.file_records import FileRecords
from langchain_hybridgraph.stores.embedded.folder.engine_sync import open_index
from langchain_hybridgraph.stores.embedded.graph import GraphView
from langchain_hybridgraph.stores.embedded.maintenance import Maintenance
from langchain_hybridgraph.stores.embedded.memory import EmbeddedMemory
from langchain_hybridgraph.stores.embedded.memory_intake import MemoryIntake
from langchain_hybridgraph.stores.embedded.reader import Reader
from langchain_hybridgraph.stores.embedded.sessions import Sessions
from langchain_hybridgraph.stores.embedded.summaries import Summaries
from langchain_hybridgraph.stores.embedded.writer import Writer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.chunks import Chunk, Vector
    from langchain_hybridgraph.records import Edge, EdgeFilter, Query, Scope, SourceResult
    from langchain_hybridgraph.stores.embedded.directory_tree import ScopedTree
    from langchain_hybridgraph.stores.embedded.folder.embedding_check import Embedding
    from langchain_hybridgraph.stores.embedded.folder.index_folder import IndexFolder
    from langchain_hybridgraph.stores.embedded.folder.index_settings import IndexSettings
    from langchain_hybridgraph.stores.graph import ScopedGraph

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


class EmbeddedStore:
    """Chunks, parents and edges in one folder, searched by vector, by keyword and through the graph.

    Its methods implement ``stores.protocols``. Its attributes provide other functions: ``memory`` (feedback, validity),
    ``sessions`` (turns of conversations), ``graph`` (pruning), ``summaries`` (of directories), ``files`` (records of
    ingested files), and ``admin`` (check, repair, statistics).

    Any number of processes may read while one writes. A store on disk can be pickled and copied, and keeps working in a
    forked process. If a folder cannot be opened, the constructor raises StoreError or one of its subclasses
    (NotAnIndexError, FormatVersionError, EmbeddingMismatchError). It raises TenantError if a folder with tenants is
    opened without a tenant, or if a tenant is passed for a folder without tenants.
    """

    has_fast_lookups = True

    def __init__(self, settings: IndexSettings) -> None:
        self._assemble(open_index(settings))

    def _assemble(self, index: IndexFolder) -> None:
        """Create the store's attributes.

        None of them refers back to the store, so a store that is no longer used is freed and closed immediately.
        """
        self._index = index
        self._tree = DirectoryTree(index)
        self.summaries = Summaries(index, self._tree)
        self._reader = Reader(index)
        self._writer = Writer(index, after_flush=self.summaries.carry_over)
        self.graph = GraphView(index)
        self.files = FileRecords(index)
        self.sessions = Sessions(index, self._writer)
        self.memory = EmbeddedMemory(index, self._writer)
        self._intake = MemoryIntake(index, self._reader, self._writer, self.memory)
        self.admin = Maintenance(index, self._writer, summaries=self.summaries.maintenance)

    # -- settings -------------------------------------------------------------------------------------------

    @property
    def lacks(self) -> Mapping[str, str]:
        """Names of the features that this store does not have (see ``stores.features``), mapped to the reasons."""
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
        """Wait for running calls, then release files and engines; closing a closed store has no effect.

        A store that is no longer referenced closes itself.
        """
        self.summaries.close()
        self._index.close()

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy needs to open the folder again; raise StoreError for a store in memory."""
        if self.path is None:
            raise StoreError(
                f"a {type(self).__name__} in memory cannot be copied or pickled: give it a folder, "
                f"{type(self).__name__}(path), which every process and every copy can open"
            )
        return {"index": copy.copy(self._index)}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self._assemble(state["index"])

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return another store on the same folder, with the same embedding."""
        return copy.copy(self)

    # -- reading --------------------------------------------------------------------------------------------

    def read(self, ids: Sequence[str], scope: Scope, result_chunks: Mapping[str, Chunk]) -> dict[str, Chunk]:
        """Return the chunks among ``ids`` that are valid and pass the filter (see ``stores.protocols.ReadsChunks``)."""
        return self._reader.read(ids, scope, result_chunks)

    @property
    def has_parents(self) -> bool:
        """Whether the store has any parents."""
        return self._reader.has_parents()

    def read_parents(self, ids: Sequence[str], scope: Scope) -> dict[str, Chunk]:
        """Return the parents among ``ids`` that exist and are valid (see ``stores.protocols.HasParents``)."""
        return self._reader.read_parents(ids, scope)

    def get(self, ids: Sequence[str]) -> list[Chunk]:
        """Return the chunks and parents with these ids, valid or not, in the order of ``ids``.

        Missing ids are left out.
        """
        return self._reader.get(ids)

    def find(self, scope: Scope) -> list[str]:
        """Return the ids of all chunks in this scope, in the order in which they were added or last changed."""
        return self._reader.find(scope)

    def list_chunks(self, scope: Scope, n: int) -> SourceResult:
        """Return the first ``n`` chunks of a scope, in the order in which they were added or last changed."""
        return self._reader.list_chunks(scope, n)

    def document_ids(self) -> list[str]:
        """Return the ids of all documents, sorted."""
        return self._reader.document_ids()

    def document_chunks(self, document_ids: Sequence[str]) -> dict[str, set[str]]:
        """Return the ids of each document's current chunks and parents, by document id."""
        return self._reader.document_chunks(document_ids)

    def ids_of_contents(self, contents: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Return, for each (text, source) pair, the id of a chunk with this text and source.

        Pairs without such a chunk are left out (see ``stores.protocols.FindsContents``).
        """
        return self._reader.ids_of_contents(contents)

    def title_edges(self) -> list[Edge]:
        """Return the edges that lead to ``title:`` nodes, sorted by title and source.

        Each of these nodes represents the title of a document.
        """
        return self._reader.title_edges()

    def edges(self, ids: Sequence[str], *, backwards: bool = False) -> list[Edge]:
        """Return the edges that leave these chunks, or, with ``backwards``, the edges that arrive at them.

        They are sorted by source, relation and target.
        """
        return self._reader.edges(ids, backwards=backwards)

    def __len__(self) -> int:
        """Return the number of chunks; parents are not counted."""
        return len(self._reader)

    # -- searching ------------------------------------------------------------------------------------------

    def vector_search(self, query: Query, n: int) -> SourceResult:
        """Return the ``n`` chunks with the largest cosine (see ``stores.protocols.SearchesVectors``)."""
        return self._reader.vector_search(query, n)

    def vector_scores(self, vector: Vector, ids: Sequence[str]) -> dict[str, float]:
        """Return the cosine of the vector with each of these chunks, by id; missing chunks are left out."""
        return self._reader.vector_scores(vector, ids)

    def vectors(self, ids: Sequence[str]) -> NDArray[Any]:
        """Return the unit vectors of these chunks, len(ids) × dimension; the row of an id without a vector is zero."""
        return self._reader.vectors(ids)

    def keyword_search(self, query: Query, n: int) -> SourceResult:
        """Return the ``n`` chunks with the largest BM25 score (see ``stores.protocols.SearchesKeywords``)."""
        return self._reader.keyword_search(query, n)

    def keyword_scores(self, text: str, ids: Sequence[str]) -> dict[str, float]:
        """Return the BM25 score of each of these chunks; chunks that share no word with ``text`` are left out."""
        return self._reader.keyword_scores(text, ids)

    @property
    def has_fast_keyword_search(self) -> bool:
        """Whether a keyword search currently takes well under a millisecond."""
        return self._reader.has_fast_keyword_search()

    @property
    def has_graph(self) -> bool:
        """Whether the store currently has any edges."""
        return self.graph.has_edges()

    def scoped_graph(self, scope: Scope, edge_filter: EdgeFilter) -> ScopedGraph:
        """Return the part of the graph that a call with this scope may see (see ``stores.protocols.HasGraph``)."""
        return self.graph.scoped(scope, edge_filter)

    def scoped_tree(self, scope: Scope) -> ScopedTree:
        """Return the tree that a call with this scope may see (see ``stores.protocols.HasTree``)."""
        return self._tree.scoped(scope)

    # -- writing --------------------------------------------------------------------------------------------

    def upsert(
        self,
        chunks: Sequence[Chunk],
        *,
        parents: Sequence[Chunk] = (),
        edges: Sequence[Edge] = (),
        vectors: NDArray[Any] | Sequence[Sequence[float]] | None = None,
    ) -> dict[str, int]:
        """Write one batch in one transaction (see ``stores.protocols.AcceptsChunks``).

        If two edges have the same source, target and relation, the heavier one is kept, even if it was stored earlier.
        :meth:`replace_edges` replaces edges regardless of weight. If ``vectors`` (len(chunks) × dimension) are passed,
        the texts are not embedded.

        Raises StoreLockedError if another writer holds the lock longer than ``write_timeout``, ValueError or TypeError
        for values that cannot be stored, and StoreError if the disk is full. In all these cases, nothing is written.
        """
        return self._writer.upsert(chunks, parents=parents, edges=edges, vectors=vectors)

    def flush(self) -> int:
        """Bring the engines up to date and, if a fit is due, fit an embedding such as LSA to the texts.

        Return the number of texts that this call embedded. This number does not include summaries of directories,
        although a new fit embeds them again, too.
        """
        return self._writer.flush()

    def replace_edges(self, sources: Sequence[str], relations: Sequence[str], edges: Sequence[Edge]) -> int:
        """Delete the edges that leave these sources and have one of these relations, and write ``edges`` instead.

        Return the number of ``edges``, including those that were already stored. If several have the same source,
        target and relation, they count as one, and only the heaviest is written.
        """
        return self._writer.replace_edges(sources, relations, edges)

    def remove(self, ids: Sequence[str]) -> int:
        """Delete chunks and parents together with their edges; return the number of these ids that existed.

        A parent is deleted with its last child. An entity is deleted with the last chunk that mentions it.
        """
        return self._writer.remove(ids)
