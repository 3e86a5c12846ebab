"""The protocols that engines and stores fulfil; each has only methods that some stage calls."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from typing_extensions import TypeIs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from langchain_hybridgraph.records import Chunk, Edge, Found, Learned, Mask, Query, Scope, Vector, Ways

    Nodes = NDArray[np.int64]
    Weights = NDArray[np.float64]


Ability = TypeVar("Ability")


# -- engines: they know rows (integers), nothing else ---------------------------------------------------------


class KeywordIndex(Protocol):
    """BM25 over rows. Texts come as they are; analysis is the engine's own business."""

    @property
    def applied(self) -> int:
        """The version of the last :meth:`apply` that is durable, 0 for an empty index."""
        ...

    def search(self, text: str, n: int, allowed: Mask | None = None) -> list[tuple[int, float]]:
        """The n best rows with their BM25 score (> 0), best first, ties by row; [] for a text without words.

        ``allowed[row]`` False keeps a row out; rows beyond the mask's end are out too.
        """
        ...

    def scores(self, text: str, rows: Sequence[int]) -> dict[int, float]:
        """The BM25 score of each of these rows; rows that share no word with the text are left out."""
        ...

    def bound(self, text: str) -> float:
        """The largest BM25 score any text could reach for this query: Σ idf·(k1 + 1); 0 without known words."""
        ...

    def exact(self, text: str, allowed: Mask | None = None) -> dict[int, float]:
        """How likely each row is meant because it has an identifier or a rare word of the query, in (0, 1).

        Rows without any are left out; ``allowed`` is as in :meth:`search`.
        """
        ...

    def apply(self, version: int, add: Iterable[tuple[int, str]], remove: Sequence[int]) -> None:
        """Take rows in and out and remember ``version``, all in one atomic commit.

        Idempotent: an added row replaces the row of the same number, a removed row may be missing.
        """
        ...

    def __len__(self) -> int:
        """How many rows are in the index."""
        ...

    def rows(self) -> set[int]:
        """All rows in the index, for ``check``."""
        ...

    def reload(self) -> None:
        """See what other processes have committed since."""
        ...

    def close(self) -> None:
        """Release files and locks."""
        ...


# -- asking what something can do -----------------------------------------------------------------------------

_can: dict[tuple[type, type], bool] = {}


def can(thing: object, ability: type[Ability]) -> TypeIs[Ability]:
    """Whether something has an ability (a runtime-checkable protocol), looked up once per class.

    ``isinstance`` with a protocol takes ten microseconds, and a query asks a dozen times.
    """
    key = (type(thing), ability)
    known = _can.get(key)
    if known is None:
        known = _can[key] = isinstance(thing, ability)
    return known


# -- graphs: they know nodes (integers), which are chunks or entities ------------------------------------------


class Hops(NamedTuple):
    """Edges that leave some nodes, as arrays of one length, an entry per edge.

    ``origin`` is a place in the nodes that were asked about, ``node`` what the edge leads to, ``weight`` lies in
    (0, 1]. ``via`` is the entity between two chunks that mention it, -1 for an edge without one. An edge of several
    relations between the same two nodes stands there once, with its largest weight.
    """

    origin: Nodes
    node: Nodes
    weight: Weights
    via: Nodes


class Graph(Protocol):
    """One state of a graph, as one call may see it and walk it.

    Only chunks in the call's scope are nodes of it, beside entities, which have no text; edges outside the scope's
    time or the call's ``Ways`` do not exist. What is deleted or hidden is neither led to nor led through.
    """

    def __len__(self) -> int:
        """How many chunks there are, in scope or not: among so many an entity is rare."""
        ...

    @property
    def has_entities(self) -> bool:
        """Whether there is any; without one no name has to be looked up."""
        ...

    @property
    def relations(self) -> Collection[str]:
        """The relations that its edges have, in scope or not: a walk over any other leads nowhere."""
        ...

    def nodes(self, ids: Sequence[str]) -> Nodes:
        """The node of each id, -1 for one that is not in the graph or not in scope."""
        ...

    def ids(self, nodes: Nodes) -> list[str]:
        """The id of each node; an entity's id too."""
        ...

    def among(self, nodes: Nodes) -> Graph:
        """The same graph, but ``neighbours`` gives only the hops to these chunks."""
        ...

    def neighbours(self, nodes: Nodes) -> Hops:
        """The chunks one hop away: by an edge, or by an entity that both mention (weight: the product of both)."""
        ...

    def links(self, nodes: Nodes) -> Hops:
        """The edges as they are, to chunks and to entities, and from entities to the chunks that mention them."""
        ...

    def degrees(self, nodes: Nodes) -> Nodes:
        """How many edges each node has, of all relations, in scope or not: what makes an entity common."""
        ...

    def is_chunk(self, nodes: Nodes) -> Mask:
        """Which of the nodes are chunks."""
        ...

    def cosines(self, vector: Vector, nodes: Nodes) -> Weights:
        """The cosine of each chunk with a unit vector; NaN where it is not known."""
        ...

    def edges(self, steps: Sequence[tuple[str, str]]) -> list[Edge | tuple[Edge, Edge] | None]:
        """What each step from chunk to chunk was: the heaviest edge, or the two mentions of the rarest shared entity.

        The edges are given as they are stored, whichever way they were walked; None for a step that is none.
        """
        ...


@runtime_checkable
class HasGraph(Protocol):
    """A store whose chunks are joined by edges."""

    @property
    def has_graph(self) -> bool:
        """Whether there is any edge now."""
        ...

    def graph(self, scope: Scope, ways: Ways) -> Graph:
        """The graph as a call with this scope may walk it."""
        ...


class Level(NamedTuple):
    """What stands in one directory, by uri; arrays and ``uris`` have one entry per node.

    ``chunks`` are the ids of all their chunks, of each node the oldest first; ``owners`` has the place of each one's
    node. What else is said of a node is what :class:`Tree` says of it.
    """

    nodes: Nodes
    uris: Sequence[str]
    chunks: Sequence[str]
    owners: Nodes
    is_directory: Mask
    is_document: Mask
    is_whole: Mask


class Tree(Protocol):
    """The directories and documents of one state of a store, as one call may see them.

    Nodes are numbers. A document may be a directory, too. What holds nothing in the call's scope is not there.
    """

    def __len__(self) -> int:
        """How many directories and documents there are."""
        ...

    def node(self, uri: str) -> int:
        """The number of a directory or document, -1 for one that is not there."""
        ...

    def uri(self, node: int) -> str:
        """The uri of a node."""
        ...

    def above(self, node: int) -> int:
        """The directory that a node stands in, -1 at the top."""
        ...

    def top(self) -> list[int]:
        """What stands in no directory, by uri."""
        ...

    def children(self, node: int) -> list[int]:
        """What stands in a directory, by uri."""
        ...

    def level(self, nodes: Iterable[int]) -> Level:
        """These nodes, as if they stood in one directory."""
        ...

    def below(self, node: int) -> Level:
        """What stands in a directory; below -1 what stands in none."""
        ...

    def is_directory(self, node: int) -> bool:
        """Whether anything stands in it."""
        ...

    def is_document(self, node: int) -> bool:
        """Whether chunks stand at it itself."""
        ...

    def is_whole(self, node: int) -> bool:
        """Whether the call may see everything that stands there and below."""
        ...

    def chunks(self, node: int) -> list[str]:
        """The ids of the chunks of a document, the oldest first; none for a directory that is no document."""
        ...

    def state(self, node: int) -> str:
        """Another text whenever a chunk there or below has come, gone or changed."""
        ...

    def context_type(self, node: int) -> str | None:
        """What the document's metadata say that it is."""
        ...

    def types(self) -> set[str]:
        """All that documents' metadata say that they are; also what only those said that are gone."""
        ...

    def nodes(self, ids: Sequence[str]) -> list[int]:
        """The node at which each chunk stands, -1 for one that the call may not see."""
        ...

    def nearest(self, nodes: Sequence[int], vector: Vector, n: int) -> list[int]:
        """The n of these nodes whose own chunks are nearest to a unit vector."""
        ...


@runtime_checkable
class HasTree(Protocol):
    """A store whose chunks stand in directories."""

    def tree(self, scope: Scope) -> Tree:
        """The tree as a call with this scope may see it."""
        ...


# -- stores: they know chunks by their ids ---------------------------------------------------------------------


@runtime_checkable
class Reads(Protocol):
    """The part of every store that ``admit`` asks."""

    def read(self, ids: Sequence[str], scope: Scope, known: Mapping[str, Chunk]) -> dict[str, Chunk]:
        """The chunks among ``ids`` that exist, in this tenant, pass the filter and are valid; others are absent.

        ``known`` holds the chunks that the sources brought along, for stores that cannot be asked by id.
        """
        ...


@runtime_checkable
class ListsChunks(Protocol):
    """A store that can say which chunks there are."""

    def list_chunks(self, scope: Scope, n: int) -> Found:
        """The first n chunks of a scope, in the order in which they were added or last changed."""
        ...


@runtime_checkable
class Rechecks(Protocol):
    """A store that keeps copies of texts whose own place is elsewhere, where they may have changed since."""

    def current(self, ids: Sequence[str]) -> dict[str, Chunk | None]:
        """What stands there now under these ids, None for what is deleted; nothing of what never stood there."""
        ...


@runtime_checkable
class SearchesVectors(Protocol):
    """A store that finds chunks near a vector."""

    def vector_search(self, query: Query, n: int) -> Found:
        """The n chunks of largest cosine in the query's scope, by its vector or else the vector of its text.

        ``Found.vector`` is the vector that was used, unit length, None when the store does not tell.
        """
        ...

    def vector_scores(self, vector: Vector, ids: Sequence[str]) -> dict[str, float]:
        """The cosine of each of these chunks; what is not known is left out."""
        ...


@runtime_checkable
class AwaitsVectors(SearchesVectors, Protocol):
    """A store whose vector search is a network call that an event loop can wait for."""

    async def avector_search(self, query: Query, n: int) -> Found:
        """What :meth:`SearchesVectors.vector_search` gives, awaited."""
        ...


@runtime_checkable
class SearchesKeywords(Protocol):
    """A store that finds chunks by their words."""

    def keyword_search(self, query: Query, n: int) -> Found:
        """The n chunks of largest BM25 in the query's scope; ``Found.bound`` is the largest BM25 attainable."""
        ...

    def keyword_scores(self, text: str, ids: Sequence[str]) -> dict[str, float]:
        """The BM25 of each of these chunks; chunks that share no word with the text are left out."""
        ...


@runtime_checkable
class Local(Protocol):
    """A store whose look-ups by id are local and take well under a millisecond."""

    @property
    def is_local(self) -> bool:
        """Whether that holds; look-ups are not worth a thread then."""
        ...


@runtime_checkable
class KnowsContents(Protocol):
    """A store that can say under which ids it holds given texts."""

    def ids_of_contents(self, contents: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """The ids of the chunks with these texts and sources ("" for none), as far as there are any."""
        ...


@runtime_checkable
class HasQuickWords(Protocol):
    """A store that can say whether its keyword search is over before a thread for it has begun."""

    @property
    def quick_words(self) -> bool:
        """Whether a keyword search takes well under a millisecond now."""
        ...


@runtime_checkable
class HasParents(Protocol):
    """A store that keeps the larger texts that chunks point to."""

    @property
    def has_parents(self) -> bool:
        """Whether there is any parent now."""
        ...

    def read_parents(self, ids: Sequence[str], scope: Scope) -> dict[str, Chunk]:
        """The parents among ``ids`` that exist in this tenant and are valid; the filter judges children only."""
        ...


@runtime_checkable
class GivesVectors(Protocol):
    """A store that can be asked for its chunks' vectors; diversity (MMR) is measured with them."""

    def vectors(self, ids: Sequence[str]) -> NDArray[np.float32]:
        """The unit vectors of these chunks, len(ids) × dimension; zeros for an id without one."""
        ...


class Remembered(NamedTuple):
    """What is known of memories, as columns of one length; NaN is unset.

    See :class:`~langchain_hybridgraph.records.Learned`; ``began`` is when each became valid, else was created, else was
    taken in. ``valid_until`` is the end that was given with it, unset where it was learned later. ``kind`` is the place
    of its type in ``kinds``, −1 for none.
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
    def of(cls, learned: Sequence[Learned]) -> Remembered:
        """The columns of records."""
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


@runtime_checkable
class Remembers(Protocol):
    """A store that keeps what was learned of its chunks: how sure, how useful, how often used, valid when."""

    def learned(self, ids: Sequence[str], scope: Scope) -> dict[str, Learned]:
        """What is known of each of these chunks at the scope's ``known_at``; those that are not there are left out."""
        ...

    def remembered(self, ids: Sequence[str], scope: Scope) -> Remembered:
        """The same as columns with one entry per id; of those that are not there all is unset."""
        ...


@runtime_checkable
class HasMode(Protocol):
    """A store that keeps how its tenant's memories are to be searched."""

    @property
    def mode(self) -> Any:
        """A name or a mapping, None where nothing was chosen."""
        ...


@runtime_checkable
class HasSessions(Protocol):
    """A store that keeps the turns of conversations."""

    def session_turns(self, session_id: str, n: int, scope: Scope) -> list[Chunk]:
        """The last n turns of a session in the call's scope, the newest first; [] for an unknown session."""
        ...


@runtime_checkable
class TakesChunks(Protocol):
    """A store that ``ingest`` writes to."""

    def put(
        self, chunks: Sequence[Chunk], *, parents: Sequence[Chunk] = (), edges: Sequence[Edge] = ()
    ) -> Mapping[str, int]:
        """Write one batch in one transaction: new, changed and unchanged chunks are told apart by their content.

        Returns the counts ``added``, ``updated``, ``unchanged`` and ``embedded``. The last of several chunks
        with the same id counts. When the call returns, the batch survives a crash; searches find it
        after the next :meth:`settle` at the latest.
        """
        ...

    def settle(self) -> int:
        """Bring every index up to date with what was put, and do what waits for the whole of an ingest.

        Returns how many texts were embedded only now.
        """
        ...

    def document_chunks(self, document_ids: Sequence[str]) -> dict[str, set[str]]:
        """The ids of the chunks and parents that each document has now; an unknown document has none."""
        ...

    def replace_edges(self, sources: Sequence[str], relations: Sequence[str], edges: Sequence[Edge]) -> int:
        """Make ``edges`` the only edges of these relations that leave these sources; returns how many there are."""
        ...

    def remove(self, ids: Sequence[str]) -> int:
        """Delete chunks and parents with their edges; returns how many there were."""
        ...


class FileRecord(NamedTuple):
    """A file as an ingest has read it.

    ``stamp`` is what the file system said of it, "" where that cannot be trusted: the file was written at about the
    time it was read. ``digest`` is of its bytes, ``made_by`` of all else that its chunks and edges depend on.
    """

    source: str
    stamp: str
    digest: bytes
    made_by: bytes
    chunks: int
    parents: int
    documents: tuple[str, ...]


@runtime_checkable
class RecordsFiles(Protocol):
    """A store that remembers which files its documents were read from, for as long as it has these as they were."""

    def files(self) -> list[FileRecord]:
        """Records of the files whose chunks and edges are as the file made them.

        A record goes when a chunk of its documents changes, or when something else was deleted on which their edges
        depend.
        """
        ...

    def record_files(self, records: Sequence[FileRecord]) -> None:
        """Insert or replace records."""
        ...

    def forget_files(self, sources: Sequence[str] | None = None) -> None:
        """Delete records, None for all."""
        ...


@runtime_checkable
class ListsTitles(Protocol):
    """A store that can list the titles of its documents."""

    def titles(self) -> Sequence[Edge]:
        """The edges that lead to titles, from the first chunks of the documents."""
        ...


@runtime_checkable
class KnowsDocuments(Protocol):
    """A store that knows which chunks a document has."""

    def document_chunks(self, document_ids: Sequence[str]) -> dict[str, set[str]]:
        """The ids of the chunks and parents that each document has now; an unknown document has none."""
        ...


@runtime_checkable
class ReadsBack(Protocol):
    """A store that edge builders can ask about what earlier ingests left in it."""

    def document_ids(self) -> Sequence[str]:
        """The ids of all documents."""
        ...

    def find(self, scope: Scope) -> list[str]:
        """The ids of all chunks in this scope."""
        ...

    def get(self, ids: Sequence[str]) -> list[Chunk]:
        """The chunks and parents with these ids, in the order of ``ids``; missing ones are left out."""
        ...

    def edges(self, ids: Sequence[str], *, backwards: bool = False) -> list[Edge]:
        """The edges that leave these chunks (``backwards``: arrive there)."""
        ...
