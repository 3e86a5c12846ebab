"""Protocols of stores and engines."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from typing_extensions import TypeIs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.records import (
        Chunk,
        Edge,
        EdgeFilter,
        Mask,
        MemoryState,
        Query,
        QuestionWords,
        Scope,
        SourceResult,
        Vector,
    )

    Nodes = NDArray[np.int64]
    Weights = NDArray[np.float64]


Ability = TypeVar("Ability")


# -- engines: they know rows (integers), nothing else ---------------------------------------------------------


class KeywordIndex(Protocol):
    """BM25 over rows. Texts are passed in unchanged; the engine analyses them itself."""

    @property
    def applied_version(self) -> int:
        """Version of the last :meth:`apply` that is durable; 0 for an empty index."""
        ...

    def search(self, text: str, n: int, allowed: Mask | None = None) -> list[tuple[int, float]]:
        """Return the n best rows with their BM25 scores (> 0), best first, ties by row; [] for a text without words.

        ``allowed[row]`` False excludes a row; rows beyond the end of the mask are excluded too.
        """
        ...

    def scores(self, text: str, rows: Sequence[int]) -> dict[int, float]:
        """Return the BM25 score of each of these rows; rows that share no word with the text are left out."""
        ...

    def bound(self, text: str) -> float:
        """Return the largest BM25 score any text could reach for this query, Σ idf·(k1 + 1); 0 without known words."""
        ...

    def query_words(self, text: str) -> QuestionWords:
        """The words that a query asks for, whether any text has them or not."""
        ...

    def exact_matches(self, text: str, allowed: Mask | None = None) -> dict[int, float]:
        """How likely each row is meant because it has an identifier or a rare word of the query, in (0, 1).

        Rows without any are left out; ``allowed`` is as in :meth:`search`.
        """
        ...

    def apply(self, version: int, add: Iterable[tuple[int, str]], remove: Sequence[int]) -> None:
        """Add and remove rows and record ``version``, all in one atomic commit.

        Idempotent: an added row replaces the row of the same number, and a row to remove may be missing.
        """
        ...

    def __len__(self) -> int:
        """Return the number of rows in the index."""
        ...

    def rows(self) -> set[int]:
        """Return all rows in the index, for ``check``."""
        ...

    def reload(self) -> None:
        """Make visible what other processes have committed."""
        ...

    def close(self) -> None:
        """Release files and locks."""
        ...


# -- capabilities ---------------------------------------------------------------------------------------------

_can: dict[tuple[type, type], bool] = {}


def implements(thing: object, ability: type[Ability]) -> TypeIs[Ability]:
    """Return whether an object implements a capability (a runtime-checkable protocol), looked up once per class.

    ``isinstance`` with a protocol takes ten microseconds, and a query checks a dozen times.
    """
    key = (type(thing), ability)
    known = _can.get(key)
    if known is None:
        known = _can[key] = isinstance(thing, ability)
    return known


# -- graphs: they know nodes (integers), which are chunks or entities ------------------------------------------


class NeighborEdges(NamedTuple):
    """Edges that leave some nodes, as arrays of equal length, one entry per edge.

    ``origin`` is a position in the array of nodes passed in, ``node`` is where the edge leads, ``weight`` is in (0, 1].
    ``via`` is the entity between two chunks that mention it, -1 for a direct edge. Two nodes joined by edges of several
    relations have one entry, with the largest weight.
    """

    origin: Nodes
    node: Nodes
    weight: Weights
    via: Nodes


class Graph(Protocol):
    """One state of a graph, as one call may see and traverse it.

    The nodes are the chunks in the call's scope, and entities, which have no text. Edges outside the scope's time or
    excluded by the call's ``EdgeFilter`` do not exist. Deleted and hidden chunks are neither reached nor passed
    through.
    """

    def __len__(self) -> int:
        """Return the number of chunks, in scope or not: the total against which an entity is rare."""
        ...

    @property
    def has_entities(self) -> bool:
        """Whether the graph has entities; without any, no name has to be looked up."""
        ...

    @property
    def relations(self) -> Collection[str]:
        """The relations of its edges, in scope or not: a traversal over any other relation leads nowhere."""
        ...

    def nodes(self, ids: Sequence[str]) -> Nodes:
        """Return the node of each id, -1 for an id that is not in the graph or not in scope."""
        ...

    def ids(self, nodes: Nodes) -> list[str]:
        """Return the id of each node, chunk or entity."""
        ...

    def restricted_to(self, nodes: Nodes) -> Graph:
        """Return the same graph with ``neighbours`` restricted to hops that lead to these chunks."""
        ...

    def neighbours(self, nodes: Nodes) -> NeighborEdges:
        """Return the chunks one hop away, by an edge or by a shared entity (weight: the product of both mentions)."""
        ...

    def links(self, nodes: Nodes) -> NeighborEdges:
        """Return the edges as stored: to chunks and entities, and from entities to the chunks that mention them."""
        ...

    def degrees(self, nodes: Nodes) -> Nodes:
        """Return the number of edges of each node, over all relations, in scope or not; common entities have many."""
        ...

    def is_chunk(self, nodes: Nodes) -> Mask:
        """Return which of the nodes are chunks."""
        ...

    def cosines(self, vector: Vector, nodes: Nodes) -> Weights:
        """Return the cosine of each chunk with a unit vector; NaN where it is unknown."""
        ...

    def edges(self, steps: Sequence[tuple[str, str]]) -> list[Edge | tuple[Edge, Edge] | None]:
        """Return the heaviest edge of each step between chunks, or the two mentions of the rarest entity both share.

        Edges keep their stored direction, whichever way they were traversed; None for a step without an edge.
        """
        ...


@runtime_checkable
class HasGraph(Protocol):
    """A store whose chunks are connected by edges."""

    @property
    def has_graph(self) -> bool:
        """Whether the store has any edge now."""
        ...

    def scoped_graph(self, scope: Scope, edge_filter: EdgeFilter) -> Graph:
        """Return the graph as a call with this scope may traverse it."""
        ...


class Level(NamedTuple):
    """The children of one directory, by uri; arrays and ``uris`` have one entry per node.

    ``chunks`` holds the ids of all their chunks, the oldest first within each node; ``owners`` holds the position of
    each chunk's node. The other fields have the meaning of the methods of :class:`Tree` with the same name.
    """

    nodes: Nodes
    uris: Sequence[str]
    chunks: Sequence[str]
    owners: Nodes
    is_directory: Mask
    is_document: Mask
    is_fully_visible: Mask


class Tree(Protocol):
    """The directories and documents in one state of a store, as one call may see them.

    Nodes are numbers. A document may also be a directory. Nodes without anything in the call's scope do not exist.
    """

    def __len__(self) -> int:
        """Return the number of directories and documents."""
        ...

    def node(self, uri: str) -> int:
        """Return the number of a directory or document, -1 for an unknown uri."""
        ...

    def uri(self, node: int) -> str:
        """Return the uri of a node."""
        ...

    def parent(self, node: int) -> int:
        """Return the directory that contains a node, -1 at the top."""
        ...

    def top(self) -> list[int]:
        """Return the nodes outside any directory, by uri."""
        ...

    def children(self, node: int) -> list[int]:
        """Return the children of a directory, by uri."""
        ...

    def level(self, nodes: Iterable[int]) -> Level:
        """Return these nodes as if they were the children of one directory."""
        ...

    def child_level(self, node: int) -> Level:
        """Return the children of a directory; below -1, the nodes outside any directory."""
        ...

    def is_directory(self, node: int) -> bool:
        """Return whether the node has children."""
        ...

    def is_document(self, node: int) -> bool:
        """Return whether the node has chunks of its own."""
        ...

    def is_fully_visible(self, node: int) -> bool:
        """Return whether the call may see everything at and below the node."""
        ...

    def chunks(self, node: int) -> list[str]:
        """Return the ids of a document's chunks, the oldest first; [] for a directory that is not a document."""
        ...

    def state(self, node: int) -> str:
        """Return a text that differs whenever a chunk at or below the node was added, deleted or changed."""
        ...

    def context_type(self, node: int) -> str | None:
        """Return the context type in the document's metadata."""
        ...

    def types(self) -> set[str]:
        """Return all context types in the documents' metadata, those of deleted documents included."""
        ...

    def nodes(self, ids: Sequence[str]) -> list[int]:
        """Return the node of each chunk, -1 for a chunk that the call may not see."""
        ...

    def nearest(self, nodes: Sequence[int], vector: Vector, n: int) -> list[int]:
        """Return the n of these nodes whose own chunks are nearest to a unit vector."""
        ...


@runtime_checkable
class HasTree(Protocol):
    """A store whose chunks are organised in directories."""

    def scoped_tree(self, scope: Scope) -> Tree:
        """Return the tree as a call with this scope may see it."""
        ...


# -- stores: they know chunks by their ids --------------------------------------------------------------------


@runtime_checkable
class ReadsChunks(Protocol):
    """The part of every store that the ``admit`` stage calls."""

    def read(self, ids: Sequence[str], scope: Scope, known: Mapping[str, Chunk]) -> dict[str, Chunk]:
        """Return the chunks among ``ids`` that exist in this tenant, pass the filter and are valid; omit the others.

        ``known`` holds the chunks that the sources returned, for stores that cannot look up ids.
        """
        ...


@runtime_checkable
class ListsChunks(Protocol):
    """A store that can list its chunks."""

    def list_chunks(self, scope: Scope, n: int) -> SourceResult:
        """Return the first n chunks of a scope, in the order in which they were added or last changed."""
        ...


@runtime_checkable
class Rechecks(Protocol):
    """A store that holds copies of texts whose originals live elsewhere and may have changed since."""

    def current(self, ids: Sequence[str]) -> dict[str, Chunk | None]:
        """Return the present chunk under each id, None for a deleted one; omit ids that never had an original."""
        ...


@runtime_checkable
class SearchesVectors(Protocol):
    """A store that searches chunks by vector."""

    def vector_search(self, query: Query, n: int) -> SourceResult:
        """Return the n chunks with the largest cosine in the query's scope, by its vector or else its text's vector.

        ``Found.vector`` is the unit vector that was used, None when the store does not report it.
        """
        ...

    def vector_scores(self, vector: Vector, ids: Sequence[str]) -> dict[str, float]:
        """Return the cosine of each of these chunks; chunks without a known one are left out."""
        ...


@runtime_checkable
class AwaitsVectors(SearchesVectors, Protocol):
    """A store whose vector search is a network call that an event loop can await."""

    async def avector_search(self, query: Query, n: int) -> SourceResult:
        """Return the result of :meth:`SearchesVectors.vector_search` without blocking the event loop."""
        ...


@runtime_checkable
class SearchesKeywords(Protocol):
    """A store that searches chunks by keywords."""

    def keyword_search(self, query: Query, n: int) -> SourceResult:
        """Return the n chunks with the largest BM25 in the query's scope; ``Found.bound`` is the largest possible."""
        ...

    def keyword_scores(self, text: str, ids: Sequence[str]) -> dict[str, float]:
        """Return the BM25 of each of these chunks; chunks that share no word with the text are left out."""
        ...


class SearchableStore(ReadsChunks, SearchesVectors, SearchesKeywords, Protocol):
    """A store that a pipeline can search by vector and by keywords."""


class CurrentSummaries(Protocol):
    """The summaries of a store's directories in one of its states."""

    @property
    def store(self) -> SearchableStore:
        """All summaries, as a store to search: each is a chunk whose id is the uri of its directory."""
        ...

    def __len__(self) -> int:
        """Return the number of summaries, up to date or not."""
        ...

    def is_current(self, uri: str) -> bool:
        """Return whether the directory has a summary that is up to date."""
        ...

    def get(self, uris: Iterable[str]) -> dict[str, Chunk]:
        """Return the up-to-date summaries of these directories, by uri."""
        ...


class Summaries(Protocol):
    """The summaries of a store's directories."""

    def current(self) -> CurrentSummaries | None:
        """Return the summaries as they are now; None if no directory has been summarised."""
        ...


@runtime_checkable
class HasSummaries(Protocol):
    """A store that keeps summaries of its directories."""

    @property
    def summaries(self) -> Summaries:
        """The summaries."""
        ...


class HybridResult(NamedTuple):
    """The results of a vector search and a keyword search that were made in one call."""

    vector: SourceResult
    keyword: SourceResult


@runtime_checkable
class SearchesHybrid(SearchesVectors, SearchesKeywords, Protocol):
    """A store that makes both searches in one call, such as a server on which every call costs a round trip.

    The BM25 scores of chunks that its keyword search did not return are not requested.
    """

    def hybrid_search(self, query: Query, n: int) -> HybridResult:
        """Return the results of :meth:`vector_search` and :meth:`keyword_search`."""
        ...

    async def ahybrid_search(self, query: Query, n: int) -> HybridResult:
        """Return the result of :meth:`hybrid_search` without blocking the event loop."""
        ...


@runtime_checkable
class HasFastLookups(Protocol):
    """A store whose look-ups by id are local and take well under a millisecond."""

    @property
    def has_fast_lookups(self) -> bool:
        """Whether look-ups are that fast; if so, they are not worth a thread."""
        ...


@runtime_checkable
class FindsContents(Protocol):
    """A store that can return the ids under which it holds given texts."""

    def ids_of_contents(self, contents: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Return the ids of the chunks with these texts and sources ("" for none); unknown pairs are left out."""
        ...


@runtime_checkable
class HasFastKeywords(Protocol):
    """A store that knows whether its keyword search takes less time than starting a thread."""

    @property
    def has_fast_keyword_search(self) -> bool:
        """Whether a keyword search takes well under a millisecond now."""
        ...


@runtime_checkable
class HasParents(Protocol):
    """A store that keeps the larger texts that chunks point to."""

    @property
    def has_parents(self) -> bool:
        """Whether the store has any parent now."""
        ...

    def read_parents(self, ids: Sequence[str], scope: Scope) -> dict[str, Chunk]:
        """Return the parents among ``ids`` that exist in this tenant and are valid; the filter is for children only."""
        ...


@runtime_checkable
class HasVectors(Protocol):
    """A store that returns the vectors of its chunks, with which diversity (MMR) is measured."""

    def vectors(self, ids: Sequence[str]) -> NDArray[np.float32]:
        """Return the unit vectors of these chunks, len(ids) × dimension; zeros for an id without one."""
        ...


class MemoryColumns(NamedTuple):
    """The state of memories as columns of equal length; NaN means unset.

    See :class:`~langchain_hybridgraph.records.MemoryState`. ``began`` is when each memory became valid; if unknown,
    when it was created; if that is unknown too, when it was ingested. ``valid_until`` is the end that came with the
    memory; it is unset where the end was learned later. ``kind`` is the index of its type in ``kinds``, −1 for none.
    """

    confidence: Weights
    utility: Weights
    active_count: Weights
    used_at: Weights
    updated_at: Weights
    began: Weights
    valid_until: Weights
    provenance_depth: Weights
    kind: Nodes
    kinds: Sequence[str]

    @classmethod
    def of(cls, learned: Sequence[MemoryState]) -> MemoryColumns:
        """Build the columns from records."""
        places: dict[str, int] = {}
        rows = [
            (
                one.confidence,
                one.utility,
                one.active_count,
                one.used_at,
                one.updated_at,
                next((time for time in (one.valid_from, one.created_at) if time is not None), one.learned_at),
                None if one.end_learned else one.valid_until,
                one.provenance_depth,
            )
            for one in learned
        ]
        kind = [-1 if one.memory_type is None else places.setdefault(one.memory_type, len(places)) for one in learned]
        columns = np.array(rows, np.float64).reshape(-1, 8).T  # None becomes NaN
        return cls._make([*columns, np.array(kind, np.int64), list(places)])


class Memory(Protocol):
    """Data that a store has learned about its chunks: confidence, utility, use, validity."""

    @property
    def mode(self) -> Any:
        """The search mode of the tenant's memories: a name or a mapping, None if no mode was chosen."""
        ...

    def states(self, ids: Sequence[str], scope: Scope) -> dict[str, MemoryState]:
        """Return the state of each of these chunks at the scope's ``known_at``; missing chunks are left out."""
        ...

    def columns(self, ids: Sequence[str], scope: Scope) -> MemoryColumns:
        """Return the same as columns with one entry per id; all values of a missing chunk are unset."""
        ...


@runtime_checkable
class HasMemory(Protocol):
    """A store that keeps what was learned about its chunks."""

    @property
    def memory(self) -> Memory:
        """Data learned about the chunks."""
        ...


class Sessions(Protocol):
    """The turns of conversations that a store keeps."""

    def turns(self, session_id: str, n: int, scope: Scope) -> list[Chunk]:
        """Return the last n turns of a session in the call's scope, the newest first; [] for an unknown session."""
        ...


@runtime_checkable
class HasSessions(Protocol):
    """A store that keeps the turns of conversations."""

    @property
    def sessions(self) -> Sessions:
        """Its sessions."""
        ...


@runtime_checkable
class AcceptsChunks(Protocol):
    """A store that ``ingest`` writes to."""

    def upsert(
        self, chunks: Sequence[Chunk], *, parents: Sequence[Chunk] = (), edges: Sequence[Edge] = ()
    ) -> Mapping[str, int]:
        """Write one batch in one transaction, telling new, changed and unchanged chunks apart by their content.

        Return the counts ``added``, ``updated``, ``unchanged`` and ``embedded``. Of several chunks with the same id the
        last one counts. When the call returns, the batch survives a crash; searches see it after the next
        :meth:`flush` at the latest.
        """
        ...

    def flush(self) -> int:
        """Bring every index up to date with the batches written, and do the work that waits for the end of an ingest.

        Return the number of texts that were embedded only now.
        """
        ...

    def document_chunks(self, document_ids: Sequence[str]) -> dict[str, set[str]]:
        """Return the ids of each document's present chunks and parents; an empty set for an unknown document."""
        ...

    def replace_edges(self, sources: Sequence[str], relations: Sequence[str], edges: Sequence[Edge]) -> int:
        """Make ``edges`` the only edges of these relations that leave these sources; return their number."""
        ...

    def remove(self, ids: Sequence[str]) -> int:
        """Delete chunks and parents with their edges; return the number deleted."""
        ...


class FileRecord(NamedTuple):
    """The state of a file when an ingest read it.

    ``stamp`` is the file system's stamp, "" where it cannot be trusted because the file was written at about the time
    it was read. ``digest`` is the digest of its bytes, ``made_by`` of everything else its chunks and edges depend on.
    """

    source: str
    stamp: str
    digest: bytes
    made_by: bytes
    chunks: int
    parents: int
    documents: tuple[str, ...]


class FileRecords(Protocol):
    """Records of the files that documents were read from."""

    def read(self) -> list[FileRecord]:
        """Return the records of the files whose chunks and edges are still as the ingest wrote them.

        A record is dropped when a chunk of its documents changes, or when something else that their edges depend on is
        deleted.
        """
        ...

    def write(self, records: Sequence[FileRecord]) -> None:
        """Insert or replace records."""
        ...


@runtime_checkable
class RecordsFiles(Protocol):
    """A store that remembers which files its documents were read from, as long as it holds them unchanged."""

    @property
    def files(self) -> FileRecords:
        """The records of these files."""
        ...


@runtime_checkable
class ListsTitles(Protocol):
    """A store that can list the titles of its documents."""

    def title_edges(self) -> Sequence[Edge]:
        """Return the edges that lead from the first chunks of documents to their titles."""
        ...


@runtime_checkable
class HasDocuments(Protocol):
    """A store that knows the chunks of each document."""

    def document_chunks(self, document_ids: Sequence[str]) -> dict[str, set[str]]:
        """Return the ids of each document's present chunks and parents; an empty set for an unknown document."""
        ...


@runtime_checkable
class ReadsIndex(Protocol):
    """A store that edge builders can read the results of earlier ingests from."""

    def document_ids(self) -> Sequence[str]:
        """Return the ids of all documents."""
        ...

    def find(self, scope: Scope) -> list[str]:
        """Return the ids of all chunks in this scope."""
        ...

    def get(self, ids: Sequence[str]) -> list[Chunk]:
        """Return the chunks and parents with these ids, in the order of ``ids``; missing ones are left out."""
        ...

    def edges(self, ids: Sequence[str], *, backwards: bool = False) -> list[Edge]:
        """Return the edges that leave these chunks (with ``backwards``, those that arrive at them)."""
        ...
