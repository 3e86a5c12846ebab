"""Protocols of stores."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from typing_extensions import TypeIs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.chunks import Chunk, Mask, Vector
    from langchain_hybridgraph.memory_scores import MemoryColumns
    from langchain_hybridgraph.records import Edge, EdgeFilter, FileRecord, MemoryState, Query, Scope, SourceResult
    from langchain_hybridgraph.stores.tree import Tree


Capability = TypeVar("Capability")

_answers: dict[tuple[type, type], bool] = {}


def implements(thing: object, capability: type[Capability]) -> TypeIs[Capability]:
    """Return whether an object implements a runtime-checkable protocol; cached per class, because it takes 10 µs."""
    key = (type(thing), capability)
    answer = _answers.get(key)
    if answer is None:
        answer = _answers[key] = isinstance(thing, capability)
    return answer


@runtime_checkable
class SearchesVectors(Protocol):
    """A store that searches chunks by vector."""

    def vector_search(self, query: Query, n: int) -> SourceResult:
        """Return the ``n`` chunks in the query's scope with the largest cosines, best first, ties by id.

        Without a vector, the text is embedded; ``SourceResult.vector`` is the unit vector used, or None.
        """

    def vector_scores(self, vector: Vector, ids: Sequence[str]) -> dict[str, float]:
        """Return the cosine of each of these chunks; chunks whose cosine is unknown are left out."""


@runtime_checkable
class AwaitsVectors(SearchesVectors, Protocol):
    """A store whose vector search is a network call that an event loop can await."""

    async def avector_search(self, query: Query, n: int) -> SourceResult:
        """Return the result of :meth:`SearchesVectors.vector_search` without blocking the event loop."""


@runtime_checkable
class SearchesKeywords(Protocol):
    """A store that searches chunks by keywords.

    If ``has_fast_keyword_search`` is present and true, a search takes no longer than starting a thread.
    """

    def keyword_search(self, query: Query, n: int) -> SourceResult:
        """Return the ``n`` chunks in the query's scope with the largest BM25 scores, best first, ties by id.

        ``SourceResult.bound`` is an upper bound on the score of any text, or None.
        """

    def keyword_scores(self, text: str, ids: Sequence[str]) -> dict[str, float]:
        """Return the BM25 score of each of these chunks; chunks that share no word with ``text`` are left out."""


class HybridResult(NamedTuple):
    """The results of a vector search and a keyword search made in one call."""

    vector: SourceResult
    keyword: SourceResult


@runtime_checkable
class SearchesHybrid(SearchesVectors, SearchesKeywords, Protocol):
    """Store that runs vector and keyword search in one call.

    BM25 scores are not requested for chunks that only the vector search returned.
    """

    def hybrid_search(self, query: Query, n: int) -> HybridResult:
        """Return the results of :meth:`vector_search` and :meth:`keyword_search`."""

    async def ahybrid_search(self, query: Query, n: int) -> HybridResult:
        """Return the result of :meth:`hybrid_search` without blocking the event loop."""


@runtime_checkable
class ReadsChunks(Protocol):
    """A store that can return chunks by id. The ``admit`` stage requires this protocol of every store."""

    def read(self, ids: Sequence[str], scope: Scope, result_chunks: Mapping[str, Chunk]) -> dict[str, Chunk]:
        """Return the chunks among ``ids`` that exist and are in the scope.

        A store that cannot look up ids takes them from ``result_chunks``, the searches' results by id.
        """


@runtime_checkable
class KnowsDamage(Protocol):
    """A store that notices damage to its files."""

    @property
    def damage(self) -> tuple[str, ...]:
        """Reasons for degradation that apply to every search until the store is repaired."""


@runtime_checkable
class ListsChunks(Protocol):
    """A store that can list its chunks."""

    def list_chunks(self, scope: Scope, n: int) -> SourceResult:
        """Return the first ``n`` chunks of a scope, in the order in which they were added or last changed."""


@runtime_checkable
class HasOriginals(Protocol):
    """A store that holds copies of chunks. The originals are kept elsewhere and may change independently."""

    def originals(self, ids: Sequence[str]) -> dict[str, Chunk | None]:
        """Return the current original for each known id, None if deleted; {} if the store cannot look them up."""


@runtime_checkable
class KnowsCopies(Protocol):
    """A store that may contain equal texts under several ids (copies), and knows one id for all of them."""

    def ids_of_copies(self, chunks: Iterable[Chunk]) -> dict[str, str]:
        """Map the ids of chunks that have copies to the id that stands for all copies; omit the others."""


@runtime_checkable
class FindsContents(Protocol):
    """A store that can look up the ids of chunks by their text and source."""

    def ids_of_contents(self, contents: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Map each known (text, source) pair to the id of its chunk; a missing source is ""."""


@runtime_checkable
class HasParents(Protocol):
    """A store that keeps parents. A parent is a larger text to which chunks belong."""

    @property
    def has_parents(self) -> bool:
        """Whether the store currently has any parents, or any chunk with the id of a parent."""

    def read_parents(self, ids: Sequence[str], scope: Scope) -> dict[str, Chunk]:
        """Return those of ``ids`` valid in the tenant at the scope's time, also chunks; its filter is not applied."""


@runtime_checkable
class HasVectors(Protocol):
    """A store that returns the vectors of its chunks, which MMR needs to diversify results."""

    def vectors(self, ids: Sequence[str]) -> NDArray[np.float32]:
        """Return the unit vectors of these chunks, of shape (len(ids), dimension); zeros for an id without one."""


@runtime_checkable
class HasDocuments(Protocol):
    """A store that can list the chunks of each document."""

    def document_chunks(self, document_ids: Sequence[str]) -> dict[str, set[str]]:
        """Return the ids of each document's current chunks and parents, or an empty set for an unknown document."""


@runtime_checkable
class ListsTitles(Protocol):
    """A store that can list the titles of its documents."""

    def title_edges(self) -> Sequence[Edge]:
        """Return the edges that lead to ``title:`` nodes, which represent the titles of documents."""


@runtime_checkable
class ReadsIndex(Protocol):
    """A store from which edge builders can read the chunks and edges of earlier ingests."""

    def document_ids(self) -> Sequence[str]:
        """Return the ids of all documents."""

    def find(self, scope: Scope) -> list[str]:
        """Return the ids of all chunks in this scope."""

    def get(self, ids: Sequence[str]) -> list[Chunk]:
        """Return the chunks and parents with these ids, valid or not, in the order of ``ids``; omit missing ids."""

    def edges(self, ids: Sequence[str], *, backwards: bool = False) -> list[Edge]:
        """Return the edges that leave these chunks, or, with ``backwards``, the edges that arrive at them."""


@runtime_checkable
class AcceptsChunks(Protocol):
    """A store to which ``ingest`` can write."""

    def upsert(
        self, chunks: Sequence[Chunk], *, parents: Sequence[Chunk] = (), edges: Sequence[Edge] = ()
    ) -> Mapping[str, int]:
        """Write one batch and return the counts ``added``, ``updated``, ``unchanged`` and ``embedded``.

        The last of several chunks with an id is used. With the feature ``transactions``, the batch is written
        completely or not at all. After the call, it survives a crash; after the next :meth:`flush`, searches find it.
        """

    def flush(self) -> int:
        """Update all indexes with the batches written so far; return the number of texts embedded by this call."""

    def document_chunks(self, document_ids: Sequence[str]) -> dict[str, set[str]]:
        """Return the ids of each document's current chunks and parents, or an empty set for an unknown document."""

    def replace_edges(self, sources: Sequence[str], relations: Sequence[str], edges: Sequence[Edge]) -> int:
        """Replace all edges with one of these sources and relations by ``edges``; return their distinct number."""

    def remove(self, ids: Sequence[str]) -> int:
        """Delete chunks and parents together with their edges; return the number deleted."""


class FileRecords(Protocol):
    """Records of the files that documents were read from."""

    def read(self) -> list[FileRecord]:
        """Return the records of the files whose chunks and edges are still as the ingest wrote them.

        A record is deleted when a chunk of its documents changes or a node on which their edges depend is deleted.
        """

    def sources(self) -> set[str]:
        """Return the sources of the files that :meth:`read` returns."""

    def paths(self) -> Mapping[str, bytes]:
        """Return the absolute path of each file with documents in the store, by source, with or without a record."""

    def write(self, records: Sequence[FileRecord]) -> None:
        """Insert or replace the records of files."""

    def forget(self, documents: Iterable[str]) -> None:
        """Delete the records of the files that contain these documents, so that an ingest reads them again."""


@runtime_checkable
class RecordsFiles(Protocol):
    """A store that records from which files its documents were read."""

    @property
    def files(self) -> FileRecords:
        """The records of the files from which the documents were read."""


if TYPE_CHECKING:
    Nodes = NDArray[np.int64]
    Weights = NDArray[np.float64]


class NeighborEdges(NamedTuple):
    """Edges or hops from given nodes to their neighbours, the heaviest per pair, as arrays of equal length.

    ``origin`` is a position in the caller's array. ``weight`` is in (0, 1]. ``via`` is an entity, or -1 for a direct
    edge.
    """

    origin: Nodes
    node: Nodes
    weight: Weights
    via: Nodes


class Graph(Protocol):
    """Snapshot of a graph, limited to the nodes and edges that one call may traverse.

    Nodes are entities and the chunks in scope. Edges are valid at the scope's time and pass the ``EdgeFilter``. Paths
    never pass through deleted or hidden chunks.
    """

    def __len__(self) -> int:
        """Return the number of chunks, including those out of scope, from which the rarity of entities is computed."""

    @property
    def has_entities(self) -> bool:
        """Whether the graph has entities; if not, names in a question need not be looked up."""

    @property
    def relations(self) -> Collection[str]:
        """Names of the relations in the graph, also out of scope, but at least those that the edge filter names."""

    def nodes(self, ids: Sequence[str]) -> Nodes:
        """Return the node of each id, or -1 for an id that is not in the graph or not in scope."""

    def ids(self, nodes: Nodes) -> list[str]:
        """Return the id of each node, which may be a chunk or an entity."""

    def restricted_to(self, nodes: Nodes) -> Graph:
        """Return the same graph with ``neighbours`` restricted to hops that lead to these chunks."""

    def neighbours(self, nodes: Nodes) -> NeighborEdges:
        """Return the chunks one hop away, through an edge or a shared entity.

        A hop through an entity weighs the product of both mentions; ``EdgeFilter`` defines the damping at hubs.
        """

    def links(self, nodes: Nodes) -> NeighborEdges:
        """Return the stored edges of these nodes; those of an entity lead to the chunks that mention it."""

    def degrees(self, nodes: Nodes) -> Nodes:
        """Return the number of edges of each node, including edges out of scope and edges of excluded relations."""

    def is_chunk(self, nodes: Nodes) -> Mask:
        """Return a mask of the nodes that are chunks."""

    def cosines(self, vector: Vector, nodes: Nodes) -> Weights:
        """Return the cosine between each chunk's vector and a unit vector, or NaN if it is unknown."""

    def edges(self, steps: Sequence[tuple[str, str]]) -> list[Edge | tuple[Edge, Edge] | None]:
        """Return the heaviest connection (edge, or two mentions) between the chunks of each step, or None.

        If ``EdgeFilter.hub_degree`` is None, direct edges come before entities, and rarer entities first. Edges keep
        their stored direction.
        """


@runtime_checkable
class HasGraph(Protocol):
    """A store whose chunks are connected by edges."""

    @property
    def has_graph(self) -> bool:
        """Whether the store currently has any edges."""

    def scoped_graph(self, scope: Scope, edge_filter: EdgeFilter) -> Graph:
        """Return the graph that a call with this scope and edge filter may traverse."""


class SearchableStore(ReadsChunks, SearchesVectors, SearchesKeywords, Protocol):
    """A store that returns chunks by id and can be searched by vector and by keywords."""


@runtime_checkable
class HasTree(Protocol):
    """A store whose chunks are organised in directories."""

    def scoped_tree(self, scope: Scope) -> Tree:
        """Return the tree of the directories and documents that a call with this scope may see."""


class CurrentSummaries(Protocol):
    """A snapshot of a store's directory summaries."""

    @property
    def store(self) -> SearchableStore:
        """Store for searching all summaries; each summary is a chunk whose id is the uri of its directory."""

    def __len__(self) -> int:
        """Return the number of summaries, including outdated ones."""

    def is_current(self, uri: str) -> bool:
        """Return whether the directory has a summary that is up to date."""

    def get(self, uris: Iterable[str]) -> dict[str, Chunk]:
        """Return the up-to-date summaries of these directories, by uri."""


class Summaries(Protocol):
    """Access to the summaries of a store's directories."""

    def current(self) -> CurrentSummaries | None:
        """Return a snapshot of the summaries, or None if no directory has a summary."""


@runtime_checkable
class HasSummaries(Protocol):
    """A store that keeps summaries of its directories."""

    @property
    def summaries(self) -> Summaries:
        """Access to the summaries of the directories."""


class Memory(Protocol):
    """Access to the memory values of a store's chunks: confidence, utility, number of uses, validity and others."""

    @property
    def mode(self) -> Any:
        """The search mode of the tenant's memories: a name or a mapping, or None if no mode was chosen."""

    def states(self, ids: Sequence[str], scope: Scope) -> dict[str, MemoryState]:
        """Return the state of each existing chunk, as known at the scope's ``known_at``."""

    def columns(self, ids: Sequence[str], scope: Scope) -> MemoryColumns:
        """Return the states as columns with one entry per id; a missing chunk is like an empty ``MemoryState``."""


@runtime_checkable
class HasMemory(Protocol):
    """A store that keeps memory values for its chunks, such as their confidence."""

    @property
    def memory(self) -> Memory:
        """Memory values of the store's chunks."""


class Sessions(Protocol):
    """Access to the turns of the conversations that a store keeps."""

    def turns(self, session_id: str, n: int, scope: Scope) -> list[Chunk]:
        """Return the last ``n`` turns of a session that are in scope, newest first; [] for an unknown session."""


@runtime_checkable
class HasSessions(Protocol):
    """A store that keeps the turns of conversations."""

    @property
    def sessions(self) -> Sessions:
        """The sessions of the store."""
