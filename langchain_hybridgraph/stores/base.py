"""The protocols that engines and stores fulfil; each has only methods that some stage calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from langchain_hybridgraph.records import Chunk, Edge, Mask, Scope, Scored, Vector


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

    def apply(self, version: int, add: Iterable[tuple[int, str]], remove: Sequence[int]) -> None:
        """Take rows in and out and remember ``version``, all in one atomic commit.

        Idempotent: an added row replaces the row of the same number, a removed row may be missing.
        """
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


# -- stores: they know chunks by their ids ---------------------------------------------------------------------


class Reads(Protocol):
    """The part of every store that ``admit`` asks."""

    def read(self, ids: Sequence[str], scope: Scope) -> dict[str, Chunk]:
        """The chunks among ``ids`` that exist, in this tenant, pass the filter and are valid; others are absent."""
        ...


@runtime_checkable
class SearchesVectors(Protocol):
    """A store that finds chunks near a vector."""

    def embed_query(self, text: str) -> Vector:
        """The vector of a question, float32, as the store's chunks were embedded."""
        ...

    def vector_search(self, vector: Vector, n: int, scope: Scope) -> list[Scored]:
        """The n chunks of largest cosine, best first, ties by id; all of them satisfy the scope."""
        ...

    def vector_scores(self, vector: Vector, ids: Sequence[str]) -> dict[str, float]:
        """The cosine of each of these chunks; what is not known is left out."""
        ...


@runtime_checkable
class SearchesKeywords(Protocol):
    """A store that finds chunks by their words."""

    def keyword_search(self, text: str, n: int, scope: Scope) -> list[Scored]:
        """The n chunks of largest BM25, best first, ties by id; all of them satisfy the scope."""
        ...

    def keyword_scores(self, text: str, ids: Sequence[str]) -> dict[str, float]:
        """The BM25 of each of these chunks; chunks that share no word with the text are left out."""
        ...

    def keyword_bound(self, text: str) -> float | None:
        """The largest BM25 any text could reach for this query, None when the engine cannot say."""
        ...


@runtime_checkable
class HasParents(Protocol):
    """A store that keeps the larger texts that chunks point to."""

    def read_parents(self, ids: Sequence[str], scope: Scope) -> dict[str, Chunk]:
        """The parents among ``ids`` that exist in this tenant and are valid; the filter judges children only."""
        ...


@runtime_checkable
class TakesChunks(Protocol):
    """A store that ``ingest`` writes to."""

    def put(
        self, chunks: Sequence[Chunk], *, parents: Sequence[Chunk] = (), edges: Sequence[Edge] = ()
    ) -> Mapping[str, int]:
        """Write one batch in one transaction: new, changed and unchanged chunks are told apart by their content.

        Returns the counts ``added``, ``updated``, ``unchanged`` and ``embedded``. The last of several chunks
        with the same id counts. When the call returns, the batch survives a crash.
        """
        ...

    def document_chunks(self, document_ids: Sequence[str]) -> dict[str, set[str]]:
        """The ids of the chunks and parents that each document has now; an unknown document has none."""
        ...

    def replace_edges(self, sources: Sequence[str], relations: Sequence[str], edges: Sequence[Edge]) -> int:
        """Make ``edges`` the only edges of these relations that leave these sources; returns how many there are."""
        ...

    def delete(self, ids: Sequence[str]) -> int:
        """Delete chunks and parents with their edges; returns how many there were."""
        ...
